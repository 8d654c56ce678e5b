//! Which of several mistakes is told: that of the clause which PostgreSQL binds first.

use super::bind::{Bound, Refusal};
use ankerdb_engine::{Error, SqlState};

/// What two clauses are bound to, where `later` was bound before the one that PostgreSQL binds first, whose mistake is told. Only what
/// fails to be computed of constants comes after all mistakes.
pub(crate) fn in_order<L, F>(later: Bound<L>, first: impl FnOnce() -> Bound<F>) -> Bound<(L, F)> {
    match later {
        Ok(later) => Ok((later, first()?)),
        Err(Refusal::Failed(error)) => Err(match first() {
            Err(Refusal::Failed(first)) if !is_of_constants(&first) => Refusal::Failed(first),
            Err(elsewhere @ Refusal::Elsewhere(_)) => elsewhere,
            _ => Refusal::Failed(error),
        }),
        Err(elsewhere) => Err(elsewhere),
    }
}

/// Whether something could not be computed, other than a text that is none of its type.
fn is_of_constants(error: &Error) -> bool {
    let computed =
        [SqlState::DivisionByZero, SqlState::NumericValueOutOfRange, SqlState::DatetimeFieldOverflow];
    computed.contains(&error.state())
}
