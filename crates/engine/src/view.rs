//! Views: queries that have names.

use crate::schema::RelationName;
use ankerdb_base::SchemaId;
use ankerdb_table::{ColumnDefinition, Table};

/// A view. The engine keeps it for the SQL floor, and knows nothing of what it says.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// The schema that it is in.
    pub schema: SchemaId,
    /// Its name, unique among tables, indexes, sequences and views of the schema.
    pub name: String,
    /// The columns that it shows.
    pub columns: Vec<ColumnDefinition>,
    /// The query, in SQL, which names relations with their schemas.
    pub query: String,
    /// The tables and views that the query reads.
    pub reads: Vec<RelationName>,
}

impl View {
    /// The view that a table is the rows of, if it is a materialized one.
    pub fn of_table(table: &Table) -> Option<View> {
        let definition = table.definition();
        let materialized = definition.materialized.as_ref()?;
        let read = |(schema, name): &(SchemaId, String)| RelationName::new(*schema, name.as_str());
        Some(View {
            schema: definition.schema,
            name: definition.name.clone(),
            columns: definition.columns.clone(),
            query: materialized.query.clone(),
            reads: materialized.reads.iter().map(read).collect(),
        })
    }

    /// Its name with its schema.
    pub fn full_name(&self) -> RelationName {
        RelationName::new(self.schema, self.name.as_str())
    }
}
