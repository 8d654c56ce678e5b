//! Identifiers, timestamps and errors shared by every floor.
//!
//! Nothing here knows about tables, SQL or threads. A name that only one crate uses does not belong here.
#![forbid(unsafe_code)]

mod error;
pub mod failpoint;
mod id;

pub use error::{Error, Result, SqlState};
pub use id::{
    BlockNumber, ColumnPosition, ColumnSet, DatabaseId, IndexPosition, ROWS_PER_BLOCK, RowId, SchemaId,
    TableId, Timestamp,
};
