//! What [`pace`](crate::pace) is made of: real atomics and locks, or, under `--cfg loom`, the model checker's. Steps of its proof
//! can be taken out by control models ([`weakened`]).

#[cfg(not(loom))]
mod real {
    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::Duration;

    pub(crate) fn wait<T>(condition: &Condvar, guard: &mut MutexGuard<'_, T>) {
        condition.wait(guard);
    }

    pub(crate) fn wait_for<T>(condition: &Condvar, guard: &mut MutexGuard<'_, T>, longest: Duration) {
        condition.wait_for(guard, longest);
    }
}

/// loom's, with parking_lot's interface. A wait with a bound has none, so that the model relies on being woken.
#[cfg(loom)]
mod modeled {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::ops::{Deref, DerefMut};
    use std::time::Duration;

    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().expect("a model that panics is over")))
        }
    }

    /// Empty while it waits.
    pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("not waiting")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("not waiting")
        }
    }

    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Condvar {
            Condvar(loom::sync::Condvar::new())
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    pub(crate) fn wait<T>(condition: &Condvar, guard: &mut MutexGuard<'_, T>) {
        let inner = guard.0.take().expect("not waiting");
        guard.0 = Some(condition.0.wait(inner).expect("a model that panics is over"));
    }

    pub(crate) fn wait_for<T>(condition: &Condvar, guard: &mut MutexGuard<'_, T>, _: Duration) {
        wait(condition, guard);
    }
}

#[cfg(loom)]
pub(crate) use modeled::*;
#[cfg(not(loom))]
pub(crate) use real::*;

/// A step that the proof relies on, for control models to take out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProofStep {
    /// The flusher says that it sleeps before it looks for work.
    SleepsBeforeItLooks,
    /// A waiter wakes the flusher, although the commit's record was written before.
    WaiterWakes,
    /// A waiter ends the flusher's pause.
    WaiterEndsPause,
    /// The flusher wakes waiters under the lock under which they look.
    WakesUnderLock,
    /// The flusher reads the watermark before it takes the buffers.
    WatermarkFirst,
}

#[cfg(all(test, loom))]
mod control {
    use super::ProofStep;
    use std::cell::Cell;

    thread_local! {
        // loom runs all threads of a model on one thread of the operating system.
        static TAKEN_OUT: Cell<Option<ProofStep>> = const { Cell::new(None) };
    }

    pub(crate) fn weakened(step: ProofStep) -> bool {
        TAKEN_OUT.get() == Some(step)
    }

    /// Tries all interleavings of `model`'s threads with at most so many preemptions.
    pub(crate) fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(model);
    }

    /// Runs `model` with one step of the protocol taken out.
    pub(crate) fn check_without(step: ProofStep, model: impl Fn() + Sync + Send + 'static) {
        TAKEN_OUT.set(Some(step));
        check(3, model);
        TAKEN_OUT.set(None);
    }
}

#[cfg(all(test, loom))]
pub(crate) use control::*;

/// Whether a control model has taken this step out. Never in a normal build.
#[cfg(not(all(test, loom)))]
#[inline(always)]
pub(crate) const fn weakened(_: ProofStep) -> bool {
    false
}
