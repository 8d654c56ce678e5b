//! Panics in statements: each ends its own connection only.

use crate::wire::{Failure, Served};
use ankerdb_base::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a piece of a statement. A panic in it ends this connection and no other, since the session's state is
/// unknown then.
pub(crate) fn guard<T>(work: impl FnOnce() -> Result<T>) -> Served<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => Ok(result?),
        Err(_) => Err(panicked()),
    }
}

fn panicked() -> Failure {
    let error = Error::internal("the statement hit a bug in AnKerDB; its transaction was rolled back");
    Failure::Fatal(error.with_hint("The server's standard error output says where; please report it."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_base::SqlState;

    #[test]
    fn a_panic_ends_its_own_connection() {
        let failure = guard(|| -> Result<()> { panic!("on purpose") }).unwrap_err();
        assert!(matches!(failure, Failure::Fatal(error) if error.state() == SqlState::InternalError));
        assert_eq!(guard(|| Ok(1)).unwrap(), 1);
    }
}
