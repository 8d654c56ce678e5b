//! Work that is shared out to all processors.

use ankerdb_base::Result;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Does all tasks, in any order, until one fails.
pub(crate) fn on_all_processors<T: Sync>(tasks: &[T], work: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let run = || {
        while !has_failed.load(Ordering::Relaxed)
            && let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed))
        {
            work(task).inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..processors().min(tasks.len())).map(|_| scope.spawn(run)).collect();
        others.into_iter().fold(run(), |outcome, other| {
            outcome.and(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    })
}

/// How many threads work.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
