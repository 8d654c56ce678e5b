//! What the model is made of here: real atomics, under the names that `ankerdb_sync` gives to loom's.

use crate::row_model::RowStep;
use std::cell::Cell;
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

/// A step that a control takes out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProofStep {
    Row(RowStep),
}

thread_local! {
    static TAKEN_OUT: Cell<Option<ProofStep>> = const { Cell::new(None) };
}

/// Whether this thread is to leave the step out.
pub(crate) fn weakened(step: ProofStep) -> bool {
    TAKEN_OUT.get() == Some(step)
}

/// This thread leaves a step out from now on.
pub(crate) fn take_out(step: Option<RowStep>) {
    TAKEN_OUT.set(step.map(ProofStep::Row));
}

/// A cell with loom's interface, without loom's checks.
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with<R>(&self, use_value: impl FnOnce(*const T) -> R) -> R {
        use_value(self.0.get())
    }
}
