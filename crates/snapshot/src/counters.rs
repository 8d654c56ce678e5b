//! How the snapshots of a database were used.

use std::sync::atomic::AtomicU64;

/// How snapshots were used since the database was created.
#[derive(Default)]
pub struct SnapshotCounters {
    /// Snapshots taken.
    pub taken: AtomicU64,
    /// Column arrays lent.
    pub columns_lent: AtomicU64,
    /// Column arrays copied.
    pub columns_materialized: AtomicU64,
    /// Snapshots of whole columns taken.
    pub columns_snapshotted: AtomicU64,
    /// Snapshots of whole columns that a snapshot shared with an earlier one, because the column had not changed.
    pub columns_shared: AtomicU64,
    /// Nanoseconds spent taking them, waiting for their locks included.
    pub snapshot_nanos: AtomicU64,
    /// Nanoseconds spent correcting rows in them.
    pub correction_nanos: AtomicU64,
}
