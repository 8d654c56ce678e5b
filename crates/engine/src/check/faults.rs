//! Faults, as they are found by several threads: the first ones, and how many there are.

use ankerdb_base::{Error, Result, SqlState};
use parking_lot::Mutex;

/// How many faults a report has at most: what a person reads, and what says which kind of damage it is.
pub const FAULTS_TOLD: usize = 100;

/// See the module.
#[derive(Default)]
pub(super) struct Faults(Mutex<(Vec<Error>, u64)>);

impl Faults {
    pub(super) fn tell(&self, fault: Error) {
        let (first, count) = &mut *self.0.lock();
        *count += 1;
        if first.len() < FAULTS_TOLD {
            first.push(fault);
        }
    }

    pub(super) fn are_none(&self) -> bool {
        self.0.lock().1 == 0
    }

    /// The first ones, and how many there are.
    pub(super) fn told(&self) -> (Vec<Error>, u64) {
        self.0.lock().clone()
    }

    /// What came of a recovery: an error is a fault of what is kept, unless it says that this program, or this machine, cannot do it.
    pub(super) fn of_recovery<T>(&self, outcome: Result<T>) -> Result<Option<T>> {
        match outcome {
            Ok(there) => Ok(Some(there)),
            Err(error) => match error.state() {
                SqlState::OutOfMemory
                | SqlState::FeatureNotSupported
                | SqlState::InsufficientPrivilege
                | SqlState::ProgramLimitExceeded
                | SqlState::QueryCanceled => Err(error),
                _ => {
                    self.tell(error);
                    Ok(None)
                }
            },
        }
    }
}
