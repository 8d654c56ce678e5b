//! Ending a session's statement from outside.
//!
//! A [`CancelHandle`] is the session's [`Interrupt`], which its threads check and sleep by, and a bell for async tasks
//! that wait for the session: a query's watch.

use ankerdb_engine::{Cause, Error, Interrupt, Result, WaitsFor};
use std::sync::Arc;
use tokio::sync::Notify;

/// Ends the running statement of a session, or the session, from another thread. Clones are for the same session.
#[derive(Clone, Default)]
pub struct CancelHandle(Arc<CancelState>);

#[derive(Default)]
struct CancelState {
    interrupt: Interrupt,
    bell: Notify,
}

impl CancelHandle {
    /// A handle whose interrupt others look at as well: raising the handle ends them, too.
    pub fn of(interrupt: Interrupt) -> CancelHandle {
        CancelHandle(Arc::new(CancelState { interrupt, bell: Notify::default() }))
    }

    /// Ends the statement that runs now, if any, with 57014.
    pub fn cancel(&self) {
        self.raise(Cause::Request);
    }

    /// Ends the statement that runs now with the cause's error. [`Cause::Disconnected`] and [`Cause::Shutdown`] end
    /// all that follow as well.
    pub fn raise(&self, cause: Cause) {
        self.0.interrupt.raise(cause);
        self.0.bell.notify_waiters();
    }

    /// The error that the statement is to end with, if it is to end. One load if not.
    ///
    /// # Errors
    /// Those of [`Interrupt::check`].
    pub fn check(&self) -> Result<()> {
        self.0.interrupt.check()
    }

    /// From here until the result is dropped, others see that the running statement sleeps until its client sends something.
    pub fn awaits_client(&self) -> impl Drop + '_ {
        self.0.interrupt.waits_for(WaitsFor::Client)
    }

    /// From here until the result is dropped, others see that the running statement sleeps until its client reads what it was sent.
    pub fn awaits_reader(&self) -> impl Drop + '_ {
        self.0.interrupt.waits_for(WaitsFor::Reader)
    }

    /// The interrupt that the session's threads check.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.0.interrupt
    }

    /// Waits until the statement is to end; the error that it ends with. Other threads' async tasks may wait, too.
    pub async fn raised(&self) -> Error {
        loop {
            let mut rung = std::pin::pin!(self.0.bell.notified());
            // On the list before the cause is looked at, so that a bell between the two is heard.
            rung.as_mut().enable();
            if let Some(cause) = self.0.interrupt.cause() {
                return cause.error();
            }
            rung.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_task_that_waits_is_told_the_cause() {
        let handle = CancelHandle::default();
        assert!(handle.raised().now_or_never().is_none());
        let raiser = handle.clone();
        let thread = std::thread::spawn(move || raiser.raise(Cause::Timeout));
        assert_eq!(futures::executor::block_on(handle.raised()), Cause::Timeout.error());
        thread.join().expect("raises");
        // Later waiters are told at once.
        assert!(handle.raised().now_or_never().is_some());
    }
}
