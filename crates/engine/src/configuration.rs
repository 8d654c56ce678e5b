//! Configurations: the ways of processing transactions and queries that AnKer compares (§6.1), and ours.
//!
//! | | transactions | queries read | old versions go |
//! | --- | --- | --- | --- |
//! | `ankerdb` | serializable | a snapshot: arrays lent or materialized | at once, where nobody needs them |
//! | `see-fs` | serializable | as a transaction: headers and version chains | by a pass every second |
//! | `see-si` | repeatable read (snapshot isolation) | the same | the same |
//! | `see-ru` | read uncommitted | the newest values, unchecked | at once, the last by a pass every second |
//!
//! The level is what sessions use unless they ask for another. docs/design/configurations.md says where the single
//! execution engines differ from the paper's.

use ankerdb_base::{Error, Result, SqlState};
use ankerdb_snapshot::{SnapshotStrategy, TightLoops};
use ankerdb_transaction::{History, Isolation};
use std::time::Duration;

/// A way of processing transactions and queries on the same data. A database has one from its creation on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Configuration {
    /// Ours: serializable transactions, snapshots in place with history.
    #[default]
    AnkerDb,
    /// Single execution engine, full serializability.
    SeeFs,
    /// Single execution engine, snapshot isolation.
    SeeSi,
    /// Single execution engine, read uncommitted.
    SeeRu,
}

/// Configurations of the paper whose technique this database does not have, and which one that is.
const MISSING: [(&str, &str); 2] = [
    ("hee-anker", "the system call vm_snapshot, which takes snapshots of virtual memory"),
    ("hee-fork", "snapshots by fork, which runs queries in a copy of the process"),
];

impl Configuration {
    /// All of them, ours first.
    pub const ALL: [Configuration; 4] =
        [Configuration::AnkerDb, Configuration::SeeFs, Configuration::SeeSi, Configuration::SeeRu];

    /// The name on command lines and in results.
    pub fn name(self) -> &'static str {
        match self {
            Configuration::AnkerDb => "ankerdb",
            Configuration::SeeFs => "see-fs",
            Configuration::SeeSi => "see-si",
            Configuration::SeeRu => "see-ru",
        }
    }

    /// Reads a name; underscores count as hyphens. 22023 with the names there are; for configurations of the papers
    /// that need a technique not built in, with what is missing.
    pub fn parse(name: &str) -> Result<Configuration> {
        let wanted = name.to_ascii_lowercase().replace('_', "-");
        if let Some(found) = Self::ALL.into_iter().find(|configuration| configuration.name() == wanted) {
            return Ok(found);
        }
        let names = Self::ALL.map(Configuration::name).join(", ");
        let message = match MISSING.iter().find(|(missing, _)| *missing == wanted) {
            Some((_, technique)) => {
                format!("engine \"{wanted}\" is not available: it needs {technique}; there are {names}")
            }
            None => format!("unknown engine \"{name}\"; there are {names}"),
        };
        Err(Error::new(SqlState::InvalidParameterValue, message))
    }

    /// The isolation level of sessions that do not ask for another.
    pub fn isolation(self) -> Isolation {
        match self {
            Configuration::AnkerDb | Configuration::SeeFs => Isolation::Serializable,
            Configuration::SeeSi => Isolation::RepeatableRead,
            Configuration::SeeRu => Isolation::ReadUncommitted,
        }
    }

    /// Whether queries read a snapshot rather than as transactions of the one engine.
    pub fn has_snapshots(self) -> bool {
        self == Configuration::AnkerDb
    }

    /// How old versions are read and let go.
    pub(crate) fn history(self) -> History {
        match self {
            Configuration::AnkerDb => History::default(),
            Configuration::SeeFs | Configuration::SeeSi => History {
                strategy: SnapshotStrategy::Versions(TightLoops::default()),
                is_left_to_collector: true,
            },
            Configuration::SeeRu => {
                History { strategy: SnapshotStrategy::Newest, is_left_to_collector: false }
            }
        }
    }

    /// Time between two passes that let old versions go, if that is fixed.
    pub(crate) fn collection_interval(self) -> Option<Duration> {
        (self != Configuration::AnkerDb).then_some(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for configuration in Configuration::ALL {
            assert_eq!(Configuration::parse(configuration.name()), Ok(configuration));
        }
        assert_eq!(Configuration::parse("SEE_FS"), Ok(Configuration::SeeFs));
    }

    #[test]
    fn missing_techniques_are_named() {
        let refusal = |name| Configuration::parse(name).expect_err("is refused").to_string();
        assert!(refusal("hee-anker").contains("it needs the system call vm_snapshot"));
        assert!(refusal("HEE_FORK").contains("it needs snapshots by fork"));
        assert!(
            refusal("silo").contains("unknown engine \"silo\"; there are ankerdb, see-fs, see-si, see-ru")
        );
    }
}
