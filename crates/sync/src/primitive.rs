//! What the protocols are made of: real atomics and locks, or, under `--cfg loom`, the model checker's.
//!
//! It is also the hook for control models: a protocol asks [`weakened`] at each step that its proof relies
//! on. In normal builds the answer is the constant `false` and costs nothing; a control model takes the step
//! out and expects loom to find the failure, which shows that the model is able to see it.

#[cfg(not(loom))]
mod real {
    pub(crate) use parking_lot::Mutex;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

    /// Spins a little longer each time, then yields the core, then sleeps.
    pub(crate) struct Backoff(crate::patience::Patience);

    impl Backoff {
        pub(crate) fn new() -> Backoff {
            Backoff(crate::patience::Patience::new())
        }

        pub(crate) fn snooze(&self) {
            self.0.wait();
        }
    }
}

/// loom's atomics, with a point before each operation at which any thread may go first.
///
/// loom leaves out interleavings that differ only in the order of independent operations. Of those that
/// depend on each other it remembers, per atomic, just the last one; so when one thread loads an atomic twice
/// and another changes it between, it may never try the change before both loads (a thread that only loaded
/// the watermark once saw 0 in all executions). At the points all threads store to one atomic that is never
/// loaded: that makes all orders of all operations worth trying to loom, and synchronizes nothing.
#[cfg(loom)]
mod modeled {
    #[cfg(test)]
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{Ordering, fence};

    loom::lazy_static! {
        static ref POINT: loom::sync::atomic::AtomicU32 = loom::sync::atomic::AtomicU32::new(0);
    }

    fn point() {
        POINT.store(0, Ordering::Relaxed);
    }

    macro_rules! atomic {
        ($name:ident $(<$t:ident>)?, $value:ty, [$($operation:ident($($argument:ident: $type:ty),*) -> $result:ty;)*]) => {
            pub(crate) struct $name $(<$t>)? (loom::sync::atomic::$name $(<$t>)?);

            impl $(<$t>)? $name $(<$t>)? {
                pub(crate) fn new(value: $value) -> Self {
                    Self(loom::sync::atomic::$name::new(value))
                }

                $(pub(crate) fn $operation(&self, $($argument: $type),*) -> $result {
                    point();
                    self.0.$operation($($argument),*)
                })*
            }
        };
    }

    atomic!(AtomicU32, u32, [
        load(order: Ordering) -> u32;
        fetch_add(by: u32, order: Ordering) -> u32;
        fetch_sub(by: u32, order: Ordering) -> u32;
    ]);
    atomic!(AtomicU64, u64, [
        load(order: Ordering) -> u64;
        store(value: u64, order: Ordering) -> ();
        fetch_add(by: u64, order: Ordering) -> u64;
        fetch_sub(by: u64, order: Ordering) -> u64;
        swap(value: u64, order: Ordering) -> u64;
        fetch_and(mask: u64, order: Ordering) -> u64;
        fetch_max(value: u64, order: Ordering) -> u64;
        compare_exchange(seen: u64, new: u64, success: Ordering, failure: Ordering) -> Result<u64, u64>;
        compare_exchange_weak(seen: u64, new: u64, success: Ordering, failure: Ordering) -> Result<u64, u64>;
    ]);
    atomic!(AtomicPtr<T>, *mut T, [
        load(order: Ordering) -> *mut T;
        store(value: *mut T, order: Ordering) -> ();
        swap(value: *mut T, order: Ordering) -> *mut T;
        compare_exchange(seen: *mut T, new: *mut T, success: Ordering, failure: Ordering) -> Result<*mut T, *mut T>;
    ]);

    /// loom's mutex with parking_lot's interface.
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            point();
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

/// A step that some proof relies on, for control models to take out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProofStep {
    /// lending: a reader looks again at the array pointers after it has set the lent bits.
    LendChecksPointers,
    /// lending: a reader sets lent bits only while no writer is registered.
    LendMeetsNoWriter,
    /// lending: a writer that finds a lent bit finds the count of lenders too.
    LendReleases,
    /// lending: a reader asks whether the array is clean after it has set the lent bits.
    LendAsksLast,
    /// lending: only one writer copies a column.
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
    /// commit order: forgetting a write set looks at the slot's timestamp after it has read the slot's pointer.
    ForgetRechecks,
    /// commit order: forgetting a write set replaces only that one.
    ForgetCompares,
    /// readers: a reader looks at the horizon after it has published its timestamp.
    EnterChecksHorizon,
    /// readers: a reader's timestamp is globally visible before it looks at the horizon.
    EnterFences,
    /// readers: a pruner's horizon is globally visible before it looks at the slots.
    PruneFences,
    /// pending: a reader looks at the number after it has looked at the timestamp.
    DecisionRechecks,
    /// pending: a slot is closed before its timestamp is taken out.
    EndCloses,
    /// readers: a transaction that finds rows at later timestamps than it announces in the end has made an anchor
    /// before.
    #[cfg(all(test, loom))]
    AnchorsFirst,
    /// under way: a waiter changes the count that it looks at, so that later work sees what it has published.
    WaitModifies,
    /// notice: it is taken away before the set is looked through.
    NoticeGoesFirst,
    /// notice: taking it away is an acquire, so that what was there when it was posted is seen.
    NoticeAcquires,
    /// A step of the model of whole commits, which is code of tests only.
    #[cfg(all(test, loom))]
    Row(crate::row_model::RowStep),
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

    /// Tries all interleavings of `model`'s threads with at most so many preemptions, and all values that
    /// their loads may see.
    pub(crate) fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(model);
    }

    /// Like [`check`], with more preemptions where `./run test --full models` has the minutes for them.
    pub(crate) fn check_further(preemptions: usize, most: usize, model: impl Fn() + Sync + Send + 'static) {
        let is_full = std::env::var_os("ANKERDB_FULL_MODELS").is_some();
        check(if is_full { most } else { preemptions }, model);
    }

    /// Runs `model` with one step of the protocol taken out. Two or three preemptions are enough to fail.
    pub(crate) fn check_without(step: ProofStep, model: impl Fn() + Sync + Send + 'static) {
        check_without_up_to(3, step, model);
    }

    /// Runs `model` with one step taken out and fewer preemptions, for failures that these find much sooner.
    pub(crate) fn check_without_up_to(
        preemptions: usize,
        step: ProofStep,
        model: impl Fn() + Sync + Send + 'static,
    ) {
        TAKEN_OUT.set(Some(step));
        check(preemptions, model);
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
