//! Tables.
mod schema;
pub use schema::{ColumnDefinition, IndexDefinition, TableDefinition};
