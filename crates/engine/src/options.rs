//! The options with which a database is opened.

use crate::configuration::Configuration;
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_memory::machine;
use ankerdb_region::PageSize;
use ankerdb_sync::memory_limit::LIMIT_MIN;
use std::sync::OnceLock;

/// The part of the machine's memory, or its control group's, that a database may take by default: four fifths. The rest
/// is for what is not counted piece by piece (stacks, the ends of pieces, what the allocator keeps), and for the system.
const SHARE: (u64, u64) = (4, 5);

/// The part of the memory limit that a shared snapshot's history may take by default: an eighth.
const HISTORY_PART: usize = 8;

/// The options of a database; a [`Configuration`] converts into itself and defaults.
#[derive(Clone, Debug)]
pub struct Options {
    /// How it processes transactions and queries.
    pub configuration: Configuration,
    /// Bytes that the process may take on behalf of this database: requests past it fail with 53200. `None` for no limit.
    /// All tables and indexes of the process count, and its heap: piece by piece where the program's global allocator is a
    /// [`Counted`](crate::Counted), else as the system sees it every few milliseconds.
    pub memory_limit: Option<usize>,
    /// Bytes of history that a [shared snapshot](crate::Database::snapshot_within) may keep, of what has been replaced since it was taken
    /// and of copies made for it: past it no further query shares it. `None` for no bound.
    pub history_limit: Option<usize>,
    /// Pages under the columns where they lie in regions, if not those that the technique asks for.
    pub pages: Option<PageSize>,
    /// Rows from which on a commit is *large*, if not 512: it holds up others for no longer than a small one, at the price
    /// of some tens of nanoseconds a row. For tests, and to compare the two; not for configurations of other systems.
    pub large_commits_from: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Configuration::default().into()
    }
}

impl From<Configuration> for Options {
    fn from(configuration: Configuration) -> Options {
        let memory_limit = default_memory_limit();
        let history_limit = memory_limit.map(|limit| limit / HISTORY_PART);
        Options { configuration, memory_limit, history_limit, pages: None, large_commits_from: None }
    }
}

impl Options {
    /// Sets the memory limit, and with it what shared snapshots may keep by default.
    pub fn set_memory_limit(&mut self, bytes: usize) {
        self.memory_limit = Some(bytes);
        self.history_limit = Some(bytes / HISTORY_PART);
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.memory_limit.is_some_and(|limit| limit < LIMIT_MIN) {
            let message = format!("the memory limit must be at least {} MB", LIMIT_MIN >> 20);
            return Err(Error::new(SqlState::InvalidParameterValue, message));
        }
        self.configuration.check()
    }
}

/// Four fifths of the memory that this process may use; `None` if the system does not say how much that is.
pub fn default_memory_limit() -> Option<usize> {
    static LIMIT: OnceLock<Option<usize>> = OnceLock::new();
    let share = |bytes: u64| (bytes / SHARE.1 * SHARE.0) as usize;
    *LIMIT.get_or_init(|| machine::memory_bytes().map(share).filter(|limit| *limit >= LIMIT_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_takes_four_fifths_of_the_machine_if_nothing_else_is_said() {
        let machine = machine::memory_bytes().expect("Linux says it") as usize;
        let limit = Options::default().memory_limit.expect("a machine for tests is large enough");
        assert!(limit <= machine / 5 * 4 && limit > machine / 5 * 4 - 8, "{limit} of {machine}");
    }

    #[test]
    fn a_limit_too_small_to_work_with_is_refused() {
        let options = Options { memory_limit: Some(LIMIT_MIN - 1), ..Options::default() };
        let error = crate::Database::open(options).err().expect("too small");
        assert_eq!(error.state(), SqlState::InvalidParameterValue);
        assert_eq!(error.message(), "the memory limit must be at least 32 MB");
    }
}
