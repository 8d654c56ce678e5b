//! How blocks are read as of a snapshot. A database chooses once, when it is created.

/// A way of getting a block's columns as of a timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SnapshotStrategy {
    /// *In place* (docs/design/snapshots.md): arrays that have not changed are lent, the others are materialized
    /// once per snapshot and kept for its other queries.
    #[default]
    InPlace,
    /// Through versions, like a transaction of a single execution engine (AnKer §6.1, SEE_FS and SEE_SI): every
    /// query goes through headers and version chains itself; nothing is lent, nothing is kept.
    Versions(TightLoops),
    /// The newest installed values, as they come, without a look at versions (AnKer §6.1, SEE_RU). Not consistent.
    Newest,
    /// Columns in regions are snapshotted as a whole by the technique of the region, once for each snapshot that names
    /// them, and corrected from versions; what lies elsewhere is read in place (AnKer §3.2).
    Columns,
    /// For queries that run in a copy of the process, made by `fork` while commits were held: the arrays as they are,
    /// without a look at headers or versions, without any lock (AnKer §6.1, HEE_fork).
    Forked,
}

impl SnapshotStrategy {
    /// Whether queries that share a snapshot share what was lent or copied for one of them.
    pub fn keeps_copies(self) -> bool {
        matches!(self, SnapshotStrategy::InPlace | SnapshotStrategy::Columns)
    }
}

/// Where a scan over versions may go in tight loops without checking headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TightLoops {
    /// Before the first and behind the last versioned row of every 1,024 rows.
    #[default]
    OutsideVersioned,
    /// Nowhere: each row's header is checked.
    Nowhere,
}
