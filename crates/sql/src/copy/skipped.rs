//! Rows that COPY leaves out, as ON_ERROR says.

use super::options::{OnError, Verbosity};
use ankerdb_engine::{Error, Result, SqlState};

/// Rows that were left out, in the order of their lines.
#[derive(Default)]
pub(super) struct Skipped {
    pub count: usize,
    /// Where the first of them are, as many as are needed to tell which one was too many.
    places: Vec<String>,
    /// What the client is told of each, if it wants to know.
    notices: Vec<String>,
}

impl Skipped {
    /// Adds a row: where its line is, and the value that is wrong.
    pub(super) fn add(&mut self, on_error: OnError, place: String, notice: impl FnOnce() -> String) {
        let OnError::Ignore { limit, verbosity } = on_error else { return };
        self.count += 1;
        if limit.is_some_and(|limit| self.places.len() <= limit) {
            self.places.push(place);
        }
        if verbosity == Verbosity::Verbose {
            self.notices.push(notice());
        }
    }

    /// Adds those of later lines. 22P02 if there are too many.
    pub(super) fn append(&mut self, mut later: Skipped, on_error: OnError) -> Result<()> {
        let before = self.count;
        self.count += later.count;
        self.notices.append(&mut later.notices);
        match on_error {
            OnError::Ignore { limit: Some(limit), .. } if self.count > limit => {
                let message =
                    format!("skipped more than REJECT_LIMIT ({limit}) rows due to data type incompatibility");
                let error = Error::new(SqlState::InvalidTextRepresentation, message);
                Err(match later.places.into_iter().nth(limit - before) {
                    Some(place) => error.with_context(place),
                    None => error,
                })
            }
            _ => Ok(()),
        }
    }

    /// What is to be told of rows that were left out since this was last asked.
    pub(super) fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// What is to be told at the end.
    pub(super) fn summary(&self, on_error: OnError) -> Option<String> {
        match (on_error, self.count) {
            (OnError::Stop | OnError::Ignore { verbosity: Verbosity::Silent, .. }, _) | (_, 0) => None,
            (_, 1) => Some("1 row was skipped due to data type incompatibility".to_owned()),
            (_, count) => Some(format!("{count} rows were skipped due to data type incompatibility")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: std::ops::Range<usize>, on_error: OnError) -> Skipped {
        let mut skipped = Skipped::default();
        lines.for_each(|line| skipped.add(on_error, format!("line {line}"), || format!("notice {line}")));
        skipped
    }

    #[test]
    fn the_first_one_too_many_is_told() {
        let on_error = OnError::Ignore { limit: Some(5), verbosity: Verbosity::Verbose };
        let mut all = Skipped::default();
        all.append(of(1..4, on_error), on_error).unwrap();
        all.append(of(4..6, on_error), on_error).unwrap();
        assert_eq!(all.take_notices().len(), 5);
        assert_eq!(all.summary(on_error).unwrap(), "5 rows were skipped due to data type incompatibility");
        let error = all.append(of(6..9, on_error), on_error).unwrap_err();
        assert_eq!((error.state().code(), error.context()), ("22P02", Some("line 6")));
    }
}
