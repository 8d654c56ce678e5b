//! What the protocols are made of: real atomics and locks, or, under `--cfg loom`, the model checker's.
//!
//! Also the seam for control models: a protocol asks [`weakened`] at each step that its proof leans on. In
//! normal builds the answer is the constant `false` and costs nothing; a control model takes the step out
//! and expects loom to find the failure, which shows that the model is able to see it.

#[cfg(not(loom))]
mod real {
    pub(crate) use parking_lot::Mutex;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

    /// Spins a little longer each time, then yields the core.
    pub(crate) struct Backoff(crossbeam_utils::Backoff);

    impl Backoff {
        pub(crate) fn new() -> Backoff {
            Backoff(crossbeam_utils::Backoff::new())
        }

        pub(crate) fn snooze(&self) {
            self.0.snooze();
        }
    }
}

#[cfg(loom)]
mod modeled {
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

    /// loom's mutex with parking_lot's interface.
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("a model that panics is over")
        }
    }

    /// Tells the model that this thread cannot go on before another one has.
    pub(crate) struct Backoff;

    impl Backoff {
        pub(crate) fn new() -> Backoff {
            Backoff
        }

        pub(crate) fn snooze(&self) {
            loom::thread::yield_now();
        }
    }
}

#[cfg(loom)]
pub(crate) use modeled::*;
#[cfg(not(loom))]
pub(crate) use real::*;

/// A step that some proof leans on, for control models to take out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// lending: a reader looks again at the array pointers after it has set the lent bits.
    LendChecksPointers,
    /// lending: a reader sets lent bits only while no writer is registered.
    LendMeetsNoWriter,
    /// lending: who finds a lent bit finds the count of lenders too.
    LendReleases,
    /// lending: a reader asks whether the array is clean after it has set the lent bits.
    LendAsksLast,
    /// lending: only one writer moves a column away.
    MoveOnce,
    /// lending: the end of a loan is a release.
    LoanEndReleases,
    /// commit order: a finisher's mark is globally visible before it looks at its neighbours' marks.
    FinishFences,
    /// commit order: the watermark passes only finished commits.
    AdvanceChecksMark,
    /// commit order: a validator waits for slots that are drawn but not published.
    VisitWaits,
    /// commit order: a validator looks again at a slot's timestamp after it has read the slot's pointer.
    VisitRechecks,
    /// commit order: a slot is closed before its pointer changes.
    PublishCloses,
    /// readers: a reader looks at the horizon after it has published its timestamp.
    EnterChecksHorizon,
    /// readers: a reader's timestamp is globally visible before it looks at the horizon.
    EnterFences,
    /// readers: a pruner's horizon is globally visible before it looks at the slots.
    PruneFences,
}

#[cfg(all(test, loom))]
mod control {
    use super::Step;
    use std::cell::Cell;

    thread_local! {
        // loom runs all threads of a model on one thread of the operating system.
        static TAKEN_OUT: Cell<Option<Step>> = const { Cell::new(None) };
    }

    pub(crate) fn weakened(step: Step) -> bool {
        TAKEN_OUT.get() == Some(step)
    }

    /// Runs `model` under the model checker with one step of the protocol taken out.
    pub(crate) fn check_without(step: Step, model: impl Fn() + Sync + Send + 'static) {
        TAKEN_OUT.set(Some(step));
        check(3, model);
        TAKEN_OUT.set(None);
    }

    /// Runs `model` under the model checker, with at most this many preemptions per execution.
    pub(crate) fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(model);
    }
}

#[cfg(all(test, loom))]
pub(crate) use control::*;

/// Whether a control model has taken this step out. Never in a normal build.
#[cfg(not(all(test, loom)))]
#[inline(always)]
pub(crate) const fn weakened(_: Step) -> bool {
    false
}
