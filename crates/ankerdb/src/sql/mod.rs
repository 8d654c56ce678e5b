//! SQL: statements with parameters, and rows or Arrow batches as results.

mod arrow;
mod bind;
mod database;
mod rows;
mod run;
mod snapshot;
mod statement;
mod transaction;

pub use arrow::ArrowBatches;
pub use rows::{Row, Rows};
pub use statement::{AsStatement, Statement};
