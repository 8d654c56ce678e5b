//! Snapshots: consistent images of the database for analytics.
//!
//! The default [`SnapshotStrategy`] is *in place* (docs/design/snapshots.md): data stays in place, with before-images of
//! rows beside it, and a pre-image of a whole array wherever a writer meets one that is lent. The others read as a single
//! execution engine does, through version chains or past them, or what a technique of the operating system has made of the
//! memory (docs/design/techniques.md). [`Snapshot`] is the image, [`ReadView`] what one query reads of it, [`BlockImage`]
//! one block's columns in Arrow's physical layout.
//!
//! `unsafe` is used to copy between areas and to call the lending protocol; the words are those of
//! `ankerdb_table`'s `area` and `ankerdb_sync::lending`.

mod column;
mod compressed;
mod counters;
mod forked;
mod image;
mod materialize;
mod snapshot;
mod statistics;
mod strategy;
mod version_scan;
mod view;
mod work;

pub use column::{column_snapshot_bytes, release_column_snapshots};
pub use compressed::{CodesMean, CompressedColumn, drop_compressed};
pub use counters::SnapshotCounters;
pub use image::{BlockImage, Bytes, ColumnImage};
pub use snapshot::{Snapshot, SnapshotOrigin, reader_slot};
pub use statistics::{ColumnStatistics, TableStatistics, table_statistics};
pub use strategy::{SnapshotStrategy, TightLoops};
pub use view::{OwnChange, OwnTableWrites, OwnWrites, ReadView};
pub use work::{CopiedColumns, CopyCount, SnapshotWork};
