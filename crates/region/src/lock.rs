//! A mutex that a signal handler may take.
//!
//! A handler of a fault may not allocate and may not use locks whose insides may be interrupted half-done on the same
//! thread; it may call the operating system. This mutex is one word and the `futex` call: 0 is free, 1 is taken, 2 is
//! taken and a thread sleeps.
//!
//! Rule: a thread that holds it must not fault on memory that its handler serves, and must not run signal handlers
//! that write there. Code of this crate touches live memory while it holds the lock only by reading, which never
//! faults.
//!
//! Not here: fairness, poisoning.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

pub(crate) struct SignalMutex<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time, through the guard.
unsafe impl<T: Send> Sync for SignalMutex<T> {}

pub(crate) struct Guard<'a, T>(&'a SignalMutex<T>);

impl<T> SignalMutex<T> {
    pub(crate) const fn new(value: T) -> SignalMutex<T> {
        SignalMutex { word: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        for _ in 0..100 {
            if self.word.compare_exchange_weak(0, 1, Acquire, Relaxed).is_ok() {
                return Guard(self);
            }
            std::hint::spin_loop();
        }
        while self.word.swap(2, Acquire) != 0 {
            // SAFETY: waits on a word that outlives the call; no timeout.
            unsafe {
                let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
                let forever = std::ptr::null::<libc::timespec>();
                libc::syscall(libc::SYS_futex, self.word.as_ptr(), operation, 2, forever);
            }
        }
        Guard(self)
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if self.0.word.swap(0, Release) == 2 {
            // SAFETY: wakes one waiter on a word that is still there.
            unsafe {
                let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
                libc::syscall(libc::SYS_futex, self.0.word.as_ptr(), operation, 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time() {
        let mutex = SignalMutex::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let mut value = mutex.lock();
                        let read = *value;
                        std::hint::black_box(&mut *value);
                        *value = read + 1;
                    }
                });
            }
        });
        assert_eq!(*mutex.lock(), 80_000);
    }
}
