//! Tables: columns in place, older versions beside them.
//!
//! A [`Table`] says what it is called, and which columns and indexes it has; its [`Storage`] is a sequence of
//! [`RowBlock`]s and the [`Entries`] of its [`Index`]es. A block keeps the newest committed value of
//! each cell in place, in Arrow's physical layout, and older values in version chains. This crate is physical: it
//! reads and writes rows as told, in the protocols of `header`, `version` and `block`; transactions decide what
//! may be read and written, snapshots hand blocks to analytics.
//!
//! `unsafe` is allowed here; `area` defines its vocabulary.

mod append_list;
mod area;
mod array;
mod bitmap;
mod block;
mod block_image;
mod cell;
mod change;
mod check;
mod derivation;
mod derived;
mod dirty;
mod entries;
mod fresh;
mod gate;
mod generated;
mod generation;
mod header;
mod heap;
mod history;
mod index;
mod key_run;
mod materialized;
mod memory_use;
mod owned;
mod prefetch;
mod reference;
mod restore;
mod schema;
mod segment;
mod storage;
mod sweep;
mod table;
mod version;
mod zone;

pub use ankerdb_sync::pending::PendingCommit;
pub use area::Area;
pub use array::{ColumnArray, RawCell, inline_view, outline_view};
pub use bitmap::{BITMAP_WORDS, Bitmap, ones_of};
pub use block::{ReadAt, RowBlock, begin_pending, take_pre_image_bytes};
pub use block_image::{ChangeBytes, ImageColumn, ImageOfBlock};
pub use cell::{Cell, CellLayout, OwnedCell};
pub use change::RowChange;
pub use check::{Check, RowTest};
pub use derivation::{ColumnText, Derivation, KeyFunction};
pub use entries::Entries;
pub use fresh::{FreshBlock, LoadedBlock};
pub use gate::{Admission, Gate};
pub use generation::{Computation, Generation};
pub use header::Header;
pub use heap::Chunk;
pub use index::{Index, IndexLife};
pub use key_run::{KeyRun, MergedKeys, RUNS_BYTES_MAX};
pub use materialized::{Materialized, ReadColumn, ReadRelation};
pub use memory_use::MemoryUse;
pub use owned::{KeptRow, KeptRows, OwnedRow};
pub use reference::{ConstraintTiming, ForeignKey, Reference, ReferentialAction};
pub use restore::RestoredChange;
pub use schema::{
    ColumnDefinition, ColumnDomain, Identity, IndexDefinition, IndexKind, IndexStyle, KeyStyle, MAX_COLUMNS,
    OnCommit, TableDefinition,
};
pub use segment::{ColumnRegions, Placement, Segments};
pub use storage::Storage;
pub use table::Table;
pub use version::{Version, VersionChain};
pub use zone::Zone;
