//! Work in a child process made by `fork(2)`: the snapshot is the child's memory (HyPer; AnKer §4.2.2).
//!
//! ```text
//! parent  spawn ── prepare ── fork ── undo prepare ─────────── wait ──► SharedBytes
//!                              │                                 ▲
//! child                        └── work ── writes ── ends        │
//!                                             │                  │
//! shared memory                          ░░░░░▼░░░░░ mapped, not copied
//! ```
//!
//! [`spawn`] forks while what `prepare` returned is alive: locks that the image needs held, mappings marked to be left
//! out. The child runs `work`, whose results go through an [`Output`] to memory that both processes have, and
//! ends without running destructors; [`Child::wait`] hands them over where they lie, or says why there are none.
//!
//! **What work may do.** Of the parent's threads the child has only the one that forked. So it must not wait for
//! anything that another thread might have held at that moment: no lock, no lazily made static that might have been
//! half made, no thread pool, no channel. It may allocate memory as `ankerdb_memory::child` says. It must not start
//! threads: threads that wait for each other's locks use tables of the process that may themselves be locked.
//! docs/design/fork.md lists everything that a query does in a child, checked against these rules.
//!
//! **What the child is.** Signals are as in a new program, but SIGINT, which a terminal sends to all processes and whose
//! meaning is up to the parent, and SIGPIPE are ignored. All files but the standard ones and its output are closed, so
//! that it holds no port of the parent's. It dies with the thread that made it (PR_SET_PDEATHSIG): that thread should be
//! the one that waits. A panic ends it at once, its message becomes the error; it does not unwind.
//!
//! Forks happen one at a time in a process, because marks of mappings are of the whole process; children run side by
//! side. A child cannot fork.
//!
//! Not here: what a child computes, and what has to be held meanwhile.

mod output;
mod process;

#[cfg(test)]
mod tests;

pub use output::{Output, SharedBytes};
pub use process::Child;

use ankerdb_base::{Error, Result, SqlState};
use output::Memory;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// One fork at a time.
static FORKING: Mutex<()> = Mutex::new(());

/// Runs `work` in a child of this process; see the module for what it may do. `prepare` runs before the fork, in the
/// parent, and what it returns is dropped there right after it; in the child it is never dropped. `limit`: bytes
/// that the output may have.
///
/// Costs the copying of the page tables of all memory that is not left out: about a millisecond per 100 MiB in small pages,
/// next to nothing for huge ones.
///
/// # Errors
/// 53300 if there may be no more processes, 53200 if there is no memory for one.
pub fn spawn<H>(
    limit: usize,
    prepare: impl FnOnce() -> Result<H>,
    work: impl FnOnce(&mut Output) -> Result<()>,
) -> Result<Child> {
    if ankerdb_memory::child::is_child() {
        return Err(Error::new(SqlState::FeatureNotSupported, "a forked process cannot fork again"));
    }
    process::report_panics();
    let memory = Memory::new()?;
    let forking = FORKING.lock();
    let held = prepare()?;
    let begun = Instant::now();
    let forked = process::fork();
    if let Ok(None) = forked {
        process::run(memory, limit, work);
    }
    let duration = begun.elapsed();
    drop(held);
    drop(forking);
    match forked {
        Ok(Some(pid)) => Ok(Child::new(pid, memory, duration)),
        _ => Err(refused(forked.err().unwrap_or_default())),
    }
}

/// The error for a fork that the system refuses.
fn refused(number: i32) -> Error {
    let system = std::io::Error::from_raw_os_error(number);
    match number {
        libc::EAGAIN => Error::new(
            SqlState::TooManyConnections,
            format!("could not fork a process for the query: {system}"),
        )
        .with_hint(
            "The number of processes is limited by `ulimit -u`, the control group, or kernel.pid_max.",
        ),
        _ => Error::new(SqlState::OutOfMemory, format!("could not fork a process for the query: {system}"))
            .with_hint("The system must be able to promise memory for a copy: see vm.overcommit_memory."),
    }
}

/// What a fork cost.
impl Child {
    /// How long the call took.
    pub fn fork_time(&self) -> Duration {
        self.duration
    }
}
