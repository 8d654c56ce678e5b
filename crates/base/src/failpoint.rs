//! Failpoints: places where tests inject a failure that does not happen by itself, such as of an allocation or of a
//! step of a commit.
//!
//! [`reach`] names a place. A test [`plans`](plan) that the n-th place that its thread reaches fails, with an error or a
//! panic, and so can try all places one after the other.
//!
//! A test can also [`watch`] what a thread does: it is told the names of all places that the thread comes to, and of those
//! that cannot fail ([`step`]). A watcher may hold the thread there while others go on, so that two protocols can be led
//! through the same interleavings, step by step.
//!
//! Builds without debug assertions contain none of this.

use crate::Result;
#[cfg(debug_assertions)]
use crate::{Error, SqlState};
#[cfg(debug_assertions)]
use std::cell::{Cell, RefCell};
#[cfg(debug_assertions)]
use std::rc::Rc;

/// How a place fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InjectedFailure {
    /// 53200.
    OutOfMemory,
    /// A panic.
    Panic,
}

#[cfg(debug_assertions)]
thread_local! {
    /// Places still to be passed, and what happens at the next one after them.
    static PLAN: Cell<Option<(usize, InjectedFailure)>> = const { Cell::new(None) };
}

/// The watcher of the places that a thread comes to.
#[cfg(debug_assertions)]
pub type Watcher = Rc<dyn Fn(&'static str)>;

#[cfg(debug_assertions)]
thread_local! {
    static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
}

/// Calls `watcher` at every place that this thread comes to from now on; `None` ends that.
#[cfg(debug_assertions)]
pub fn watch(watcher: Option<Watcher>) {
    WATCHER.set(watcher);
}

/// A place that is watched and cannot fail.
#[cfg(debug_assertions)]
pub fn step(name: &'static str) {
    // A copy, since the watcher may come to places itself. A thread that ends has no watcher any more.
    let watcher = WATCHER.try_with(|watcher| watcher.borrow().clone());
    if let Ok(Some(watcher)) = watcher {
        watcher(name);
    }
}

/// Makes a place fail: the one after the next `passed` that this thread reaches.
#[cfg(debug_assertions)]
pub fn plan(passed: usize, failure: InjectedFailure) {
    PLAN.set(Some((passed, failure)));
}

/// Takes the plan back. If nothing has failed yet, returns how many places were still to be passed.
#[cfg(debug_assertions)]
pub fn clear() -> Option<usize> {
    PLAN.take().map(|(passed, _)| passed)
}

/// A place that can fail with 53200.
///
/// # Errors
/// The planned failure, if this is its place.
#[cfg(debug_assertions)]
pub fn reach(name: &'static str) -> Result<()> {
    step(name);
    match next() {
        Some(InjectedFailure::Panic) => panic!("planned to fail: {name}"),
        Some(InjectedFailure::OutOfMemory) => {
            Err(Error::new(SqlState::OutOfMemory, format!("out of memory: {name}")))
        }
        None => Ok(()),
    }
}

/// A place that can only panic.
#[cfg(debug_assertions)]
pub fn pass(name: &'static str) {
    step(name);
    if next().is_some() {
        panic!("planned to fail: {name}");
    }
}

#[cfg(debug_assertions)]
fn next() -> Option<InjectedFailure> {
    let (passed, failure) = PLAN.get()?;
    PLAN.set(passed.checked_sub(1).map(|passed| (passed, failure)));
    (passed == 0).then_some(failure)
}

/// A place that can fail; not in this build.
///
/// # Errors
/// None.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn reach(_: &'static str) -> Result<()> {
    Ok(())
}

/// A place that can panic; not in this build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn pass(_: &'static str) {}

/// A place that is watched; not in this build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn step(_: &'static str) {}
