//! Transactions: serializable MVCC with precision locking.
//!
//! A [`Transaction`] reads the newest state committed before it began (or, by level, before its statement), keeps
//! its writes to itself, and commits through the six steps of `commit`. What it read is remembered as predicates
//! (`read_set`), which at SERIALIZABLE are matched against the writes of transactions that committed meanwhile.
//! [`TransactionManager`] is what the transactions of one database share: no commit takes a mutex.
//!
//! `unsafe` occurs in three places: to walk the ring of records and to take them out of it inside an epoch pin, and where text goes into storage
//! (by commits and loads) and comes out of it, which relies on its being UTF-8.

mod ahead;
mod announced;
mod blocker;
mod check;
mod commit;
mod contested;
mod ends_process;
mod find;
mod foreign_key;
mod generated;
mod installs;
mod isolation;
mod key_batch;
mod key_filter;
mod load;
mod lock;
mod log_commit;
mod logging;
mod lookup;
mod manager;
mod old_records;
mod own_keys;
mod own_slots;
mod pending_key;
mod places;
mod progress;
mod quiescence;
mod read_set;
mod record;
mod redo;
mod references;
mod referential_action;
mod refusal;
mod relations;
mod retired;
mod room;
mod row;
mod row_locks;
mod rows_to_load;
mod savepoint;
mod scan;
mod stale;
mod statement;
mod statement_keys;
mod touched_tables;
mod transaction;
mod undo;
mod unique;
mod validate;
mod worker;
mod write;
mod write_set;

pub use ankerdb_index::Direction;
pub use ankerdb_sync::interrupt::{Cause, Interrupt, WaitsFor};
pub use ankerdb_sync::lock_table::{Owner, Wait};
pub use ankerdb_sync::memory_limit::{Claim, MemoryLimit};
pub use ankerdb_sync::patience::Patience;
pub use commit::DefinitionChange;
pub use foreign_key::{converted, mixed_nulls, no_parent};
pub use installs::{Installer, Installs, Loader};
pub use isolation::Isolation;
pub use key_batch::KeyBatch;
pub use load::LoadPart;
pub use lock::{LockWait, Locked};
pub use manager::{Quiesced, TransactionManager, Versioning};
pub use read_set::{KeyRange, RowFilter};
pub use record::CommitRecord;
pub use redo::{COMMIT, PART, read_definitions, read_record, visit_changes};
pub use relations::Relations;
pub use row::RowReader;
pub use savepoint::Savepoint;
pub use transaction::Transaction;
pub use worker::Worker;
