//! The child process: how it is made and set up, how it ends, and how its end is noticed.

use super::output::{Memory, Output, SharedBytes, Words};
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_memory::account;
use ankerdb_memory::charge::Charge;
use ankerdb_memory::child::{become_child, is_child};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::panic::PanicHookInfo;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// The number under which a child has its results.
const OUTPUT_NUMBER: i32 = 3;
/// How often a waiting parent checks whether it has been cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(10);
/// How often it looks for the end of a child where the system cannot tell it.
const END_POLL: Duration = Duration::from_millis(1);
const SIGNALS: i32 = 64;

/// In a child, where it says how it ended.
static WORDS: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// Ensures that a panic in a child ends the child and is reported. The hook is set once, in the parent: setting one in the
/// child would take a lock. In the parent, panics go to the hook that was there before.
pub(super) fn report_panics() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| match is_child() {
            true => end_panicked(panic),
            false => former(panic),
        }));
    });
}

fn end_panicked(panic: &PanicHookInfo<'_>) -> ! {
    let words = WORDS.load(Ordering::Relaxed);
    if !words.is_null() {
        let place = panic.location().map(|place| place.to_string()).unwrap_or_default();
        let reason = panic.payload_as_str().unwrap_or("no reason given");
        let message = format!("the query failed unexpectedly: {reason}");
        Words(words).failed(&Error::internal(message).with_detail(place));
    }
    end()
}

/// Ends the process without running destructors or exit handlers.
fn end() -> ! {
    // SAFETY: does nothing but end the process.
    unsafe { libc::_exit(0) }
}

/// The child's number in the parent, `None` in the child, or the system's error. No signal handler of the
/// parent runs in the child: signals are blocked until it has reset them.
pub(super) fn fork() -> std::result::Result<Option<libc::pid_t>, i32> {
    // SAFETY: the sets are written before they are read; the child does what `spawn`'s rules allow.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let parent = libc::getpid();
        let pid = libc::fork();
        if pid == 0 {
            become_child();
            prepare_child(parent);
            return Ok(None);
        }
        let error = std::io::Error::last_os_error().raw_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        if pid > 0 { Ok(Some(pid)) } else { Err(error.unwrap_or(libc::ENOMEM)) }
    }
}

/// Makes the child die with its parent, and resets signals.
fn prepare_child(parent: libc::pid_t) {
    // SAFETY: system calls on this process alone, which has one thread and, all signals being blocked, no handler running.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            end();
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        for signal in 1..=SIGNALS {
            action.sa_sigaction = match signal {
                libc::SIGINT | libc::SIGPIPE => libc::SIG_IGN,
                _ => libc::SIG_DFL,
            };
            // Those that cannot be changed, and those that the C library keeps for itself, are refused.
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// Closes all files but the standard ones and the results', which get a number of their own.
fn keep_only(memory: Memory) -> Memory {
    let number = memory.number();
    // SAFETY: nothing in this process uses any other file.
    unsafe {
        if number != OUTPUT_NUMBER {
            libc::dup2(number, OUTPUT_NUMBER);
        }
        let from = OUTPUT_NUMBER as libc::c_uint + 1;
        if libc::syscall(libc::SYS_close_range, from, libc::c_uint::MAX, 0) != 0 {
            // A system before close_range: as many as there may be.
            let mut limit: libc::rlimit = std::mem::zeroed();
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
            (OUTPUT_NUMBER + 1..limit.rlim_cur.min(1 << 16) as i32).for_each(|number| {
                libc::close(number);
            });
        }
        std::mem::forget(memory);
        Memory::renumbered(OUTPUT_NUMBER)
    }
}

/// The child's life: does the work, says how it went, ends.
pub(super) fn run(memory: Memory, limit: usize, work: impl FnOnce(&mut Output) -> Result<()>) -> ! {
    let memory = keep_only(memory);
    let Ok(words) = Words::map(&memory) else { end() };
    WORDS.store(words.0, Ordering::Relaxed);
    account::tell_parent(words.taken());
    let mut output = Output::new(memory, words, limit);
    // A panic gets here only if the program has since set a hook of its own.
    let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut output)));
    match worked {
        Ok(Ok(())) => output.finish(),
        Ok(Err(error)) => words.failed(&error),
        Err(_) => words.failed(&Error::internal("the query failed unexpectedly")),
    }
    end()
}

/// A child that runs or has ended. Dropping it ends it; either way it is reaped.
pub struct Child {
    pid: libc::pid_t,
    /// Tells when it has ended; `None` where the system does not have such files.
    end: Option<OwnedFd>,
    memory: Memory,
    pub(super) duration: Duration,
    reaped: bool,
    /// What it has taken, in this process's account.
    charge: Charge,
}

impl Child {
    pub(super) fn new(pid: libc::pid_t, memory: Memory, duration: Duration) -> Child {
        // SAFETY: a number of a process; the answer is a file of our own.
        let end = unsafe {
            let number = libc::syscall(libc::SYS_pidfd_open, pid, 0);
            (number >= 0).then(|| OwnedFd::from_raw_fd(number as i32))
        };
        Child { pid, end, memory, duration, reaped: false, charge: Charge::default() }
    }

    /// Its process number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits until it has ended and gives its results, or its error. Blocks the thread.
    ///
    /// # Errors
    /// 58000 if a user or the system has ended it. Once `cancelled` says so, the child is ended, and the error is 57014.
    pub fn wait(mut self, cancelled: &dyn Fn() -> bool) -> Result<SharedBytes> {
        loop {
            if let Some(status) = self.reap(libc::WNOHANG) {
                self.charge.set(0);
                return match self.memory.outcome()? {
                    Some(results) => Ok(results),
                    None => Err(ended(status)),
                };
            }
            if cancelled() {
                return Err(Error::new(SqlState::QueryCanceled, "canceling statement due to user request"));
            }
            self.charge.set(self.memory.taken());
            self.rest();
        }
    }

    /// How it ended, if it has. It must not have been reaped elsewhere; where a program ignores SIGCHLD the
    /// system does, and its words are all there is.
    fn reap(&mut self, options: i32) -> Option<i32> {
        let mut status = 0;
        loop {
            // SAFETY: our child, not reaped yet.
            match unsafe { libc::waitpid(self.pid, &mut status, options) } {
                0 => return None,
                -1 if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
                _ => {
                    self.reaped = true;
                    return Some(status);
                }
            }
        }
    }

    /// Sleeps until the child ends or it is time to check for cancellation.
    fn rest(&self) {
        let Some(end) = &self.end else { return std::thread::sleep(END_POLL) };
        let mut poll = libc::pollfd { fd: end.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one file, which is open.
        unsafe { libc::poll(&mut poll, 1, CANCEL_POLL.as_millis() as i32) };
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            // SAFETY: our child, not reaped, so the number is its own.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            self.reap(0);
        }
    }
}

/// The error for a child that ended without a word.
fn ended(status: i32) -> Error {
    if !libc::WIFSIGNALED(status) {
        let code = libc::WEXITSTATUS(status);
        let message = format!("the process that ran the query ended with code {code} and without a result");
        return Error::new(SqlState::SystemError, message);
    }
    let signal = libc::WTERMSIG(status);
    let name = match signal {
        libc::SIGKILL => " (SIGKILL)",
        libc::SIGTERM => " (SIGTERM)",
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGABRT => " (SIGABRT)",
        _ => "",
    };
    let message = format!("the process that ran the query was ended by signal {signal}{name}");
    let error = Error::new(SqlState::SystemError, message);
    match signal {
        libc::SIGKILL => error.with_hint("The system ends processes in this way when it runs out of memory."),
        _ => error,
    }
}
