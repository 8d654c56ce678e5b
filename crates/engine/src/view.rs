//! Views: queries that have names.

use ankerdb_table::ColumnDefinition;

/// A view. The engine keeps it for the SQL floor, and knows nothing of what it says.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// Its name, unique among tables, indexes, sequences and views.
    pub name: String,
    /// The columns that it shows.
    pub columns: Vec<ColumnDefinition>,
    /// The query, in SQL.
    pub query: String,
    /// The names of the tables and views that the query reads.
    pub reads: Vec<String>,
}
