//! The embeddable database.
//!
//! [`Database`] owns the catalog and the data. A [`Session`] runs [`Transaction`]s; a [`Snapshot`] is a consistent
//! image of everything committed before it was taken; a [`ReadView`] is a snapshot plus, inside a transaction, the
//! transaction's own uncommitted writes, and hands out blocks of columns to analytics.
//!
//! ```
//! use ankerdb_engine::*;
//!
//! let database = Database::new();
//! let account = TableDefinition::new("account")
//!     .column(ColumnDefinition::new("id", DataType::Integer))
//!     .column(ColumnDefinition::new("balance", DataType::BigInt))
//!     .primary_key(&["id"]);
//! let account = database.create_table(account)?;
//!
//! let mut session = database.session();
//! session.run(Isolation::Serializable, |transaction| {
//!     transaction.insert(&account, vec![Value::Integer(1), Value::BigInt(100)])
//! })?;
//! let balance = session.run(Isolation::Serializable, |transaction| {
//!     let mut key = Vec::new();
//!     account.index(IndexPosition(0)).encode(&[Value::Integer(1)], &mut key)?;
//!     let row = transaction.find(&account, IndexPosition(0), &key, ColumnSet::of(&[1]))?;
//!     Ok(row.map(|row| transaction.bigint(&account, row, 1)))
//! })?;
//! assert_eq!(balance, Some(100));
//! # Ok::<(), Error>(())
//! ```
//!
//! Only transactions change rows. Programs cannot reach the storage of tables and indexes, or the manager of transactions
//! (`crates/engine/tests/interface.rs`):
//!
//! ```compile_fail,E0599
//! # use ankerdb_engine::*;
//! fn rows(table: &Table) {
//!     table.block(BlockNumber(0));
//! }
//! ```
//!
//! ```compile_fail,E0599
//! # use ankerdb_engine::*;
//! fn entries(table: &Table) {
//!     table.index(IndexPosition(0)).tree();
//! }
//! ```
#![forbid(unsafe_code)]

mod backups;
mod catalog;
mod check;
mod checkpointer;
mod checkpoints;
mod comment;
mod commented;
mod configuration;
mod contention;
mod database;
mod definitions;
mod domain;
mod domains;
mod durability_state;
mod durable;
mod foreign_keys;
mod image;
mod index_filling;
mod interval_pruning;
mod options;
mod processors;
mod pruner;
mod recovered_rows;
mod recovery;
mod recovery_report;
mod schema;
mod sequence;
mod session;
mod shared;
mod snapshot_manager;
mod user_type;
mod user_types;
mod view;

pub use ankerdb_base::{
    BlockNumber, ColumnPosition, ColumnSet, DatabaseId, Error, IndexPosition, ROWS_PER_BLOCK, Result, RowId,
    SchemaId, SqlState, TableId, Timestamp,
};
pub use ankerdb_checkpoint::{BackupReport, NewBackup, RestoreReport, Restored, read_moment, show_moment};
pub use ankerdb_log::{Disk, LogOptions, Loss, WallTime};
pub use ankerdb_memory::account::Counted;
pub use ankerdb_memory::emergency_pool::Backed;
pub use ankerdb_memory::machine::memory_bytes as machine_memory_bytes;
pub use ankerdb_region::{PageSize, Technique};
pub use ankerdb_snapshot::{
    BlockImage, Bytes, CodesMean, ColumnImage, ColumnStatistics, CompressedColumn, CopyCount, ReadView,
    Snapshot, SnapshotStrategy, TableStatistics, TightLoops,
};
pub use ankerdb_table::{
    Cell, Check, ColumnDefinition, ColumnDomain, ColumnText, ConstraintTiming, Derivation, ForeignKey,
    Generation, Identity, Index, IndexDefinition, IndexKind, IndexStyle, KeyFunction, KeyStyle, Materialized,
    MemoryUse, OnCommit, ReadColumn, ReadRelation, Reference, ReferentialAction, RowTest, Table,
    TableDefinition,
};
pub use ankerdb_transaction::{
    Cause, Claim, Direction, Interrupt, Isolation, KeyBatch, KeyRange, LoadPart, LockWait, Locked,
    MemoryLimit, Owner, Quiesced, Relations, RowFilter, RowReader, Savepoint, Transaction, Wait, WaitsFor,
    mixed_nulls, no_parent,
};
pub use ankerdb_value::{
    Array, ArrayBuilder, ArrayRef, BitLength, Bits, DataType, Decimal, DomainType, ENUM_SLOTS, EnumLife,
    EnumPlace, EnumState, EnumType, EnumValue, Interval, ItemLimit, KEPT_DOMAIN, KEPT_ENUM, Label, ListType,
    Network, ObjectKind, Packed, PackedRef, PackedType, RangeType, SystemType, TimeTz, Value, ValueRef,
};
pub use catalog::Catalog;
pub use check::{CheckProgress, CheckReport, CheckStage, FAULTS_TOLD};
pub use checkpoints::{CheckpointOptions, CheckpointReport};
pub use comment::{Object, Part, Subject};
pub use configuration::Configuration;
pub use database::{Database, Statistics};
pub use definitions::{DefinitionMark, Definitions};
pub use domain::{Domain, DomainCheck};
pub use durability_state::DurabilityState;
pub use foreign_keys::NewForeignKey;
pub use image::{Binder, CatalogChange, ChangedIndexes, NoTexts, RecoveredCatalog, StoredTypes};
pub use options::{Options, default_memory_limit};
pub use recovery::Durability;
pub use recovery_report::RecoveryReport;
pub use schema::{NameRef, PUBLIC, QualifiedName, RelationName, Schema, SearchPath};
pub use sequence::{Sequence, SequenceCount, SequenceDefinition};
pub use session::Session;
pub use snapshot_manager::{Renewal, SharedSnapshot, SnapshotDecisions, SnapshotReport};
pub use user_type::{UserType, labels_of};
pub use view::View;
