//! Configurations: the ways of processing transactions and queries that AnKer compares (§6.1), and ours.
//!
//! | | transactions | queries read | old versions are freed |
//! | --- | --- | --- | --- |
//! | `ankerdb` | serializable | a snapshot: arrays lent or materialized | at once, where no reader needs them |
//! | `see-fs` | serializable | as a transaction: headers and version chains | by a pass every second |
//! | `see-si` | repeatable read (snapshot isolation) | as `see-fs` | as `see-fs` |
//! | `see-ru` | read uncommitted | the newest values, unchecked | at once, the last by a pass every second |
//! | `hee-physical`, `hee-rewiring`, `hee-rewiring-userfaultfd`, `hee-anker` | serializable, aborted at the first old version they would have to look for | snapshots of columns by a technique of the operating system | at once |
//! | `hee-fork` | as above | a copy of the process; in transaction blocks as in `ankerdb` | at once |
//!
//! The level is what sessions use unless they ask for another. docs/design/configurations.md says where the single
//! execution engines differ from the paper's.

use ankerdb_base::{Error, Result, SqlState};
use ankerdb_region::Technique;
use ankerdb_snapshot::{SnapshotStrategy, TightLoops};
use ankerdb_transaction::{Isolation, Versioning};
use std::time::Duration;

/// A way of processing transactions and queries on the same data. A database has one from its creation on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Configuration {
    /// Ours: serializable transactions, snapshots in place.
    #[default]
    AnkerDb,
    /// Single execution engine, full serializability.
    SeeFs,
    /// Single execution engine, snapshot isolation.
    SeeSi,
    /// Single execution engine, read uncommitted.
    SeeRu,
    /// Hybrid execution with columns copied for each snapshot.
    HeePhysical,
    /// Hybrid execution with columns rewired, writes found by `mprotect`.
    HeeRewiring,
    /// Hybrid execution with columns rewired, writes found by `userfaultfd`.
    HeeRewiringUserfaultfd,
    /// Hybrid execution as in the paper: columns snapshotted by the system call `vm_snapshot`.
    HeeAnker,
    /// Hybrid execution with queries in copies of the process.
    HeeFork,
}

impl Configuration {
    /// All of them, ours first.
    pub const ALL: [Configuration; 9] = [
        Configuration::AnkerDb,
        Configuration::SeeFs,
        Configuration::SeeSi,
        Configuration::SeeRu,
        Configuration::HeePhysical,
        Configuration::HeeRewiring,
        Configuration::HeeRewiringUserfaultfd,
        Configuration::HeeAnker,
        Configuration::HeeFork,
    ];

    /// Those that this machine can run.
    pub fn available() -> Vec<Configuration> {
        Self::ALL.into_iter().filter(|configuration| configuration.check().is_ok()).collect()
    }

    /// The name on command lines and in results.
    pub fn name(self) -> &'static str {
        match self {
            Configuration::AnkerDb => "ankerdb",
            Configuration::SeeFs => "see-fs",
            Configuration::SeeSi => "see-si",
            Configuration::SeeRu => "see-ru",
            Configuration::HeePhysical => "hee-physical",
            Configuration::HeeRewiring => "hee-rewiring",
            Configuration::HeeRewiringUserfaultfd => "hee-rewiring-userfaultfd",
            Configuration::HeeAnker => "hee-anker",
            Configuration::HeeFork => "hee-fork",
        }
    }

    /// Reads a name; underscores count as hyphens.
    ///
    /// # Errors
    /// `InvalidParameterValue` with the names that exist; `FeatureNotSupported` as of [`check`](Self::check).
    pub fn parse(name: &str) -> Result<Configuration> {
        let wanted = name.to_ascii_lowercase().replace('_', "-");
        let found = Self::ALL.into_iter().find(|configuration| configuration.name() == wanted);
        let found = found.ok_or_else(|| {
            let names = Self::ALL.map(Configuration::name).join(", ");
            let message = format!("unknown engine \"{name}\"; there are {names}");
            Error::new(SqlState::InvalidParameterValue, message)
        })?;
        found.check().map(|()| found)
    }

    /// Whether this machine can run it.
    ///
    /// # Errors
    /// `FeatureNotSupported` with what is missing and how to get it.
    pub fn check(self) -> Result<()> {
        let Some(Err(error)) = self.technique().map(Technique::check) else { return Ok(()) };
        let message = format!("engine \"{}\" is not available: {}", self.name(), error.message());
        let mut refusal = Error::new(error.state(), message);
        if let Some(detail) = error.detail() {
            refusal = refusal.with_detail(detail);
        }
        Err(match error.hint() {
            Some(hint) => refusal.with_hint(hint),
            None => refusal,
        })
    }

    /// The technique that takes its snapshots, if that is one of the operating system.
    pub fn technique(self) -> Option<Technique> {
        match self {
            Configuration::HeePhysical => Some(Technique::Physical),
            Configuration::HeeRewiring => Some(Technique::Rewiring),
            Configuration::HeeRewiringUserfaultfd => Some(Technique::RewiringUserfaultfd),
            Configuration::HeeAnker => Some(Technique::VmSnapshot),
            Configuration::HeeFork => Some(Technique::Fork),
            _ => None,
        }
    }

    fn is_single_engine(self) -> bool {
        matches!(self, Configuration::SeeFs | Configuration::SeeSi | Configuration::SeeRu)
    }

    /// The isolation level of sessions that do not ask for another.
    pub fn isolation(self) -> Isolation {
        match self {
            Configuration::SeeSi => Isolation::RepeatableRead,
            Configuration::SeeRu => Isolation::ReadUncommitted,
            _ => Isolation::Serializable,
        }
    }

    /// Whether queries read a snapshot rather than as transactions of the one engine.
    pub fn has_snapshots(self) -> bool {
        !self.is_single_engine()
    }

    /// How old versions are read and freed.
    pub(crate) fn versioning(self) -> Versioning {
        let behind = Versioning { ahead_from: usize::MAX, ..Versioning::default() };
        match self {
            Configuration::AnkerDb => Versioning::default(),
            Configuration::SeeFs | Configuration::SeeSi => Versioning {
                strategy: SnapshotStrategy::Versions(TightLoops::default()),
                is_left_to_collector: true,
                ..Versioning::default()
            },
            Configuration::SeeRu => Versioning { strategy: SnapshotStrategy::Newest, ..behind },
            Configuration::HeeFork => Versioning { can_quiesce: true, aborts_on_versions: true, ..behind },
            _ => Versioning { strategy: SnapshotStrategy::Columns, aborts_on_versions: true, ..behind },
        }
    }

    /// Time between two passes that free old versions, if that is fixed.
    pub(crate) fn collection_interval(self) -> Option<Duration> {
        self.is_single_engine().then_some(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for configuration in Configuration::available() {
            assert_eq!(Configuration::parse(configuration.name()), Ok(configuration));
        }
        assert_eq!(Configuration::parse("SEE_FS"), Ok(Configuration::SeeFs));
        let unknown = Configuration::parse("silo").expect_err("there is none").to_string();
        assert!(unknown.contains("unknown engine \"silo\"; there are ankerdb, see-fs, see-si, see-ru, hee-"));
    }

    #[test]
    fn what_the_machine_cannot_run_is_refused_with_what_is_missing() {
        assert!(Configuration::available().contains(&Configuration::HeePhysical), "copying needs nothing");
        for configuration in Configuration::ALL {
            let parsed = Configuration::parse(configuration.name());
            let Some(Err(missing)) = configuration.technique().map(Technique::check) else {
                assert_eq!(parsed, Ok(configuration));
                continue;
            };
            let refusal = parsed.expect_err("the technique is missing");
            assert_eq!(refusal.state(), missing.state());
            assert!(refusal.to_string().contains(missing.message()), "{refusal}");
            assert!(refusal.to_string().contains(configuration.name()), "{refusal}");
        }
    }
}
