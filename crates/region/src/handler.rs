//! The signal handler that serves writes to protected pages.
//!
//! It runs in the thread that wrote, between that thread's instructions: the thread may hold any lock of the program and
//! may be in the middle of an allocation. So: no allocation, no locks but the region's own word (`lock`), system calls only,
//! `errno` put back. Other signals are blocked meanwhile. It returns to the writing instruction, which is tried again.
//!
//! What is not a write to a region goes on to the handler that was there before: Rust's, which knows stack overflows, or a
//! sanitizer's. Both run on the thread's alternative stack if it has one, and so do we; that stack may be small.

use crate::registry;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The action before ours, leaked; set before ours is installed.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

/// `SEGV_ACCERR`: the address is mapped, the access is not allowed.
const ACCESS_NOT_ALLOWED: i32 = 2;

/// Installs the handler when it is needed first.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `sigaction` is plain data; the old action is complete before the new one can use it.
        unsafe {
            let mut previous = std::mem::zeroed::<libc::sigaction>();
            libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut previous);
            PREVIOUS.store(Box::into_raw(Box::new(previous)), Ordering::Release);
            let mut action = std::mem::zeroed::<libc::sigaction>();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigfillset(&mut action.sa_mask);
            libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
        }
    });
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes valid pointers to a handler with SA_SIGINFO; errno is the thread's own.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        let ours = (*info).si_code == ACCESS_NOT_ALLOWED && is_write(context);
        if ours && registry::serve((*info).si_addr() as usize) {
            *errno = saved;
            return;
        }
        pass_on(signal, info, context);
    }
}

/// Whether the access was a write. Anything else would fault for ever.
///
/// # Safety
/// `context` is what the kernel handed to a signal handler that has not returned yet.
unsafe fn is_write(context: *mut libc::c_void) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        const WRITE: i64 = 2;
        let context = context.cast::<libc::ucontext_t>();
        // SAFETY: the kernel's description of the interrupted thread.
        unsafe { (*context).uc_mcontext.gregs[libc::REG_ERR as usize] & WRITE != 0 }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = context;
        true
    }
}

/// Does what would have happened without this handler.
///
/// # Safety
/// Called by the handler with what the kernel handed to it, after [`install`] has stored the former action.
unsafe fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    type WithInfo = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
    type Plain = extern "C" fn(i32);
    // SAFETY: leaked before this handler was installed; its fields say which kind of function it is.
    unsafe {
        let previous = &*PREVIOUS.load(Ordering::Acquire);
        match previous.sa_sigaction {
            // The instruction faults again, and the default ends the process with the right signal.
            libc::SIG_DFL | libc::SIG_IGN => {
                libc::signal(signal, libc::SIG_DFL);
            }
            function if previous.sa_flags & libc::SA_SIGINFO != 0 => {
                std::mem::transmute::<usize, WithInfo>(function)(signal, info, context);
            }
            function => std::mem::transmute::<usize, Plain>(function)(signal),
        }
    }
}
