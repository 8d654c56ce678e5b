//! Tables whose rows are those that a query had: materialized views.
//!
//! To this crate, and to transactions, such a table is a table. What may be done with it is the matter of the floor that knows queries.

use ankerdb_base::SchemaId;

/// The query that a table shows.
#[derive(Clone, PartialEq, Debug)]
pub struct Materialized {
    /// The query, in the language of the floor above, which names relations with their schemas.
    pub query: String,
    /// The relations that it reads.
    pub reads: Vec<ReadRelation>,
    /// Whether the rows are there: the query has been run.
    pub is_populated: bool,
}

/// A relation that a query reads, by what it is called now.
#[derive(Clone, PartialEq, Debug)]
pub struct ReadRelation {
    /// The schema that it is in.
    pub schema: SchemaId,
    /// Its name there.
    pub name: String,
    /// The columns that it had when the query was written and that it still has, in the order of that time. The query sees no others.
    pub columns: Vec<ReadColumn>,
}

/// A column of a relation that a query reads.
#[derive(Clone, PartialEq, Debug)]
pub struct ReadColumn {
    /// What the relation calls it now.
    pub name: String,
    /// What the query calls it: its name of that time.
    pub called: String,
}
