//! SQL over the engine.
//!
//! A [`SqlSession`] parses statements ([`SqlSession::parse`]), binds and plans them once
//! ([`SqlSession::prepare`]), and runs them with parameters ([`SqlSession::execute`]). Each statement takes one of
//! two paths:
//!
//! - the **OLTP path**, our own planner and executor: all writes, and reads that reach few rows by a key or a range
//!   of an index. A prepared statement of this path costs microseconds.
//! - the **OLAP path**, DataFusion over the blocks of a snapshot, on threads of its own: every other query. Inside
//!   a transaction it sees the transaction's own writes. In a `hee-fork` database it runs outside of transactions in a
//!   copy of the process.
//!
//! The life of a statement: `parse` (text to syntax tree), `plan` (path, index, types; `expression` binds what is
//! computed), `prepared` (plans by version of the catalog), `session` (transactions and settings), `execute` (the
//! OLTP path) or `olap`, and `rows` (what the client reads).
//!
//! Nothing here knows the wire protocol, and only this crate knows DataFusion and Arrow.
#![deny(unsafe_code)]

mod absent;
mod absent_clauses;
mod activity;
mod advisory;
mod aggregates;
mod altered_sequence;
mod as_of;
mod channels;
mod clauses;
mod column_name;
mod columns;
mod command;
mod commenting;
mod compiler_mode;
mod continued_texts;
mod copy;
mod cursor;
mod deadline;
mod dialect;
mod do_block;
mod domains;
mod drop_expression;
mod engine;
mod execute;
mod expand_array;
mod explain;
mod exported;
mod expression;
mod forms;
mod identity_actions;
mod item_assignments;
mod kept_snapshots;
mod kept_texts;
mod like_clause;
mod made_table;
mod materialized_table;
mod name;
mod named_arguments;
mod naming;
mod null_keys;
mod olap;
mod only;
mod parse;
mod plain_query;
mod plan;
mod position;
mod prepared;
mod recent;
mod refreshing;
mod result;
mod rewrite;
mod rows;
mod runner;
mod sample;
mod sequence_options;
mod session;
mod session_sequences;
mod set_columns;
mod signs;
mod size;
mod syntax_error;
mod system;
mod table_actions;
mod table_locks;
mod updatable;
mod user_types;
mod version;
mod view_options;
mod view_text;
mod visit;
mod window_frames;
mod worded_calls;
mod words;
mod written_forms;

pub use activity::{Backends, Cipher, Peer};
pub use ankerdb_engine::{Cause, Claim, MemoryLimit};
pub use channels::{Doorbell, Notification};
pub use copy::{CopyIn, CopyOut, Lines, Pieces, SourceFile, TargetFile};
pub use datafusion::arrow;
pub use engine::{SqlEngine, SqlOptions};
pub use kept_texts::KeptTexts;
pub use olap::{AnalyticalQuery, ForkCounters, MemoryBaseline};
pub use parse::Statement;
pub use prepared::{OutputColumn, Prepared, SourceColumn};
pub use rows::{Batch, ResultRows};
pub use session::{CancelHandle, Notice, Severity, SqlSession, TransactionStatus};
pub use size::{parse_bytes, shown_bytes};
pub use version::SERVER_VERSION;

/// The outcome of a statement.
pub enum Outcome {
    /// Done; the command tag, e.g. `INSERT 0 3`.
    Command(String),
    /// Rows; the tag is `SELECT <rows sent>` unless `tag` says otherwise (INSERT ... RETURNING).
    Rows(ResultRows),
    /// COPY ... FROM STDIN waits for data.
    CopyIn(Box<CopyIn>),
    /// COPY ... TO STDOUT has data.
    CopyOut(Box<CopyOut>),
}
