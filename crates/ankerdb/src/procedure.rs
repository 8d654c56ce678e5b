//! The engine itself, for procedures in which every nanosecond counts.
//!
//! Below the front door a program encodes its own keys, names columns by position, says beforehand which of them it is
//! going to read, and promises types: a wrong one panics. `docs/design/embedding.md` has measurements of what that
//! saves. Start from [`Database::engine`](crate::Database::engine); data and transactions are the same.
//!
//! ```
//! use ankerdb::procedure::{ColumnSet, IndexPosition, Isolation, Value};
//! use ankerdb::{ColumnDefinition, DataType, Database, TableDefinition};
//!
//! let db = Database::in_memory()?;
//! let definition = TableDefinition::new("account")
//!     .column(ColumnDefinition::new("id", DataType::Integer))
//!     .column(ColumnDefinition::new("balance", DataType::BigInt))
//!     .primary_key(&["id"]);
//! db.create_table(definition)?;
//!
//! let account = db.engine().catalog().table("account")?;
//! let mut session = db.engine().session();
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
//! # Ok::<(), ankerdb::Error>(())
//! ```

pub use ankerdb_engine::*;
