//! Tables whose rows are those that a query had: materialized views.
//!
//! To this crate, and to transactions, such a table is a table. What may be done with it is the matter of the floor that knows queries.

use ankerdb_base::SchemaId;

/// The query that a table shows.
#[derive(Clone, PartialEq, Debug)]
pub struct Materialized {
    /// The query, in the language of the floor above, which names relations with their schemas.
    pub query: String,
    /// The relations that it reads, by schema and name.
    pub reads: Vec<(SchemaId, String)>,
    /// Whether the rows are there: the query has been run.
    pub is_populated: bool,
}
