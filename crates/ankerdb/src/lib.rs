//! AnKerDB is an in-memory SQL database to embed, for transactions and analytics **on the same data at the same time**.
//!
//! # Quick start
//!
//! ```
//! use ankerdb::Database;
//!
//! # #[cfg(feature = "sql")] {
//! let db = Database::in_memory()?;
//! db.execute("CREATE TABLE account (id int PRIMARY KEY, owner text, balance bigint NOT NULL)", ())?;
//!
//! // A transaction: serializable, and run again by itself when others are in its way.
//! db.transaction(|tx| {
//!     let account = tx.table("account")?;
//!     account.insert((1, "Ann", 100))?;
//!     account.insert((2, "Bob", 50))?;
//!     account.update(1, [("balance", 75)])?;
//!     Ok(())
//! })?;
//!
//! // SQL, with parameters; rows come while the query runs.
//! for row in db.query("SELECT owner, balance FROM account WHERE balance > $1", 60)? {
//!     let row = row?;
//!     println!("{} has {}", row.get::<String>("owner")?, row.get::<i64>("balance")?);
//! }
//!
//! // Everything as of now, for as long as you like, beside any number of transactions.
//! let snapshot = db.snapshot();
//! db.execute("UPDATE account SET balance = balance - 25 WHERE id = $id", ankerdb::named! { id: 1 })?;
//! let total: i64 = snapshot.query_one("SELECT sum(balance)::bigint FROM account", ())?.get(0)?;
//! assert_eq!(total, 125);
//! # }
//! # Ok::<(), ankerdb::Error>(())
//! ```
//!
//! # What to use when
//!
//! | to ... | use |
//! | --- | --- |
//! | run one statement | [`Database::execute`], [`query`](Database::query), [`query_one`](Database::query_one); often: [`prepare`](Database::prepare) it |
//! | do several things at once, or not at all | [`Database::transaction`]: tables ([`Transaction::table`]) and SQL side by side |
//! | wait for a user between two statements | [`Database::begin`], which locks the rows that it writes |
//! | read much, beside writers | [`Database::query`], or a [`Snapshot`] for queries that must fit together |
//! | give results to other libraries | [`Database::query_arrow`] |
//! | load many rows | [`Database::appender`] |
//! | write a hot loop | a [`Table`] and [`Column`] handles, resolved once |
//! | count nanoseconds | the module [`procedure`], the engine itself |
//! | end what runs | [`Database::interrupt_handle`], and the limits of time in [`Options`] |
//!
//! A [`Database`] is shared: clone it, or lend it to as many threads as you like. There are no connections; each call
//! takes a session from a pool. Everything is in memory. What is [kept in a folder](Database::open) outlives the process; else the data is freed
//! with the last handle.
//!
//! # Types
//!
//! Values go into columns and parameters by [`ToValue`], and come back by [`FromValue`]. Nothing panics, wraps around
//! or is cut: what does not fit is an [`Error`].
//!
//! | SQL | written from | read as |
//! | --- | --- | --- |
//! | `boolean` | `bool` | `bool` |
//! | `smallint`, `int`, `bigint` | integers, if they fit (22003) | integers, if they fit |
//! | `real`, `double precision` | `f32`, `f64`, integers, [`Decimal`] | `f32` (of `real`), `f64` |
//! | `numeric(p, s)` | [`Decimal`], integers, floats: rounded to the scale; `rust_decimal` | [`Decimal`], `rust_decimal` |
//! | `text`, `varchar(n)`, `char(n)` | `&str`, `String`; 22001 if too long | `String`, `Box<str>`, `Arc<str>` |
//! | `bytea` | `&[u8]`, `Vec<u8>` | `Vec<u8>`, `Box<[u8]>` |
//! | `date`, `timestamp`, `timestamptz` | `chrono`, [`Value`], texts like `'2024-06-30'` | `chrono`, [`Value`] |
//! | `time` | `chrono`, [`Value`], texts like `'12:30'` | `chrono`, [`Value`] |
//! | `interval` | [`Interval`], texts like `'1 day 02:00'` | [`Interval`] |
//! | `uuid` | `uuid`, texts, [`Value`] | `uuid`, `[u8; 16]` |
//! | `json`, `jsonb` | `&str`, `String`: JSON (22P02); to tables' own calls a `jsonb` in its canonical text | `String`, `Box<str>`, `Arc<str>` |
//! | arrays | [`Value::Array`] | `String`, like `{1,2}` |
//! | NULL | `None` | `Option` of any of these, [`Value`] |
//!
//! A text is converted to any type but `bytea` and arrays if it has that type's form, like a constant in quotes in SQL.
//! Integers are all of Rust's but `u8` and 128 bits; a `Vec<u8>` is bytes.
//!
//! # Features
//!
//! - `sql` (default): SQL, Arrow batches. Without it the crate builds in seconds and has transactions, tables (made from a
//!   [`TableDefinition`]) and snapshots.
//! - `chrono`, `uuid`, `rust_decimal`: their types as values.
#![forbid(unsafe_code)]
// Its documentation names what there is with SQL.
#![cfg_attr(not(feature = "sql"), allow(rustdoc::broken_intra_doc_links))]

mod appender;
mod column;
mod connection;
mod database;
mod error;
mod open_table;
mod options;
pub mod procedure;
mod scan;
mod snapshot;
#[cfg(feature = "sql")]
mod sql;
mod table;
mod transaction;
mod value;
mod values;

pub use ankerdb_engine::{
    Array, ArrayBuilder, ArrayRef, ColumnDefinition, Configuration, DataType, Decimal, IndexDefinition,
    IndexKind, Interval, Isolation, ListType, SqlState, TableDefinition, Value, ValueRef,
};
#[cfg(feature = "sql")]
pub use ankerdb_sql::arrow;
pub use appender::Appender;
pub use column::{Column, ColumnIndex, ColumnInfo, ColumnPlace};
pub use database::{Database, InterruptHandle};
pub use error::{Error, ErrorKind, Result};
pub use open_table::{OpenTable, TableRow};
pub use options::Options;
pub use scan::{OpenIndex, Scan, TableRows};
pub use snapshot::{Snapshot, SnapshotTable};
#[cfg(feature = "sql")]
pub use sql::{ArrowBatches, AsStatement, Row, Rows, Statement};
pub use table::{Table, TableName};
pub use transaction::Transaction;
pub use value::{FromValue, ToValue};
pub use values::{ColumnName, Target, Values};

/// The manual's chapters with Rust in them: their blocks are compiled and run as this crate's other examples are.
#[cfg(all(doctest, feature = "sql"))]
mod manual {
    #[doc = include_str!("../../../docs/manual/src/tutorial.md")]
    struct Tutorial;
    #[doc = include_str!("../../../docs/manual/src/embedding.md")]
    struct Embedding;
    #[doc = include_str!("../../../docs/manual/src/isolation.md")]
    struct Isolation;
}
