//! Telling a thread's owner before the thread blocks.
//!
//! # Idea
//! A server serves many connections on few threads. A statement that takes microseconds is cheapest where its message
//! was read: handing it to another thread and back costs more than the statement. But such a statement may meet a
//! row that another transaction holds, and then the thread sleeps, with every connection that it serves. Only the
//! place that is about to sleep knows that in time. So the server says what a thread does around sleeps
//! ([`with_sleeper`]), and whatever blocks goes through [`blocking`], which asks the server's function to run it. That
//! function can give the other connections to another thread first; the statement that never sleeps never pays.
//!
//! ```text
//! server      with_sleeper(hand over, statement)
//!                  └─ statement ─ takes a lock ... finds it held ─ blocking(sleep)
//! server                                                             └─ hand over ─ sleep ─ take back
//! ```
//!
//! "Blocks" means sleeping for another thread, and computing for so long (planning a large query) that others would
//! notice. Spinning for microseconds is not worth a handover.
//!
//! The function belongs to one thread and to one call of `with_sleeper`. Threads without one block as they are: those
//! of embedding programs, and those on which somebody has already arranged for the wait.
//!
//! # Not here
//! No runtime, no threads: this file only carries a function from those who know how to hand over to those who know
//! when.

use std::cell::Cell;

/// Runs the work that it is given, exactly once, on the calling thread, and makes arrangements around it.
pub type Sleeper = fn(&mut dyn FnMut());

thread_local! {
    static SLEEPER: Cell<Option<Sleeper>> = const { Cell::new(None) };
}

/// Puts the former function back, also when the work panics.
struct Restore(Option<Sleeper>);

impl Drop for Restore {
    fn drop(&mut self) {
        SLEEPER.set(self.0);
    }
}

/// Runs the work; what blocks in it, on this thread, is run by `sleeper`. Costs two accesses to thread-local memory.
pub fn with_sleeper<T>(sleeper: Sleeper, work: impl FnOnce() -> T) -> T {
    let _restore = Restore(SLEEPER.replace(Some(sleeper)));
    work()
}

/// Runs work that blocks. Inside of it nothing is announced again: the thread is already nobody else's.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    let Some(sleeper) = SLEEPER.take() else { return work() };
    let _restore = Restore(Some(sleeper));
    let mut work = Some(work);
    let mut done = None;
    sleeper(&mut || done = work.take().map(|work| work()));
    done.expect("a sleeper runs its work exactly once")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    thread_local! {
        static ANNOUNCED: Cell<usize> = const { Cell::new(0) };
    }

    fn count(work: &mut dyn FnMut()) {
        ANNOUNCED.set(ANNOUNCED.get() + 1);
        work();
    }

    fn announced(work: impl FnOnce()) -> usize {
        ANNOUNCED.set(0);
        work();
        ANNOUNCED.get()
    }

    #[test]
    fn only_work_under_a_sleeper_is_announced() {
        assert_eq!(announced(|| assert_eq!(blocking(|| 1), 1)), 0);
        assert_eq!(announced(|| with_sleeper(count, || assert_eq!(blocking(|| 2), 2))), 1);
        let other_thread = || std::thread::spawn(|| blocking(|| ())).join().unwrap();
        assert_eq!(announced(|| with_sleeper(count, other_thread)), 0);
    }

    #[test]
    fn what_blocks_inside_of_what_blocks_is_announced_once() {
        assert_eq!(announced(|| with_sleeper(count, || blocking(|| blocking(|| ())))), 1);
        assert_eq!(
            announced(|| with_sleeper(count, || {
                blocking(|| ());
                blocking(|| ());
            })),
            2
        );
    }

    #[test]
    fn a_panic_leaves_the_thread_as_it_was() {
        let panicking = || with_sleeper(count, || blocking(|| panic!("on purpose")));
        assert!(std::panic::catch_unwind(panicking).is_err());
        assert_eq!(announced(|| blocking(|| ())), 0);
    }
}
