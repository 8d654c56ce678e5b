//! Views: queries that have names.

use crate::schema::RelationName;
use ankerdb_base::SchemaId;
use ankerdb_table::{ColumnDefinition, ReadRelation, Table};

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
    pub reads: Vec<ReadRelation>,
    /// What it was made WITH, by name: the engine knows none of them.
    pub options: Vec<(String, String)>,
}

impl View {
    /// The view that a table is the rows of, if it is a materialized one.
    pub fn of_table(table: &Table) -> Option<View> {
        let definition = table.definition();
        let materialized = definition.materialized.as_ref()?;
        Some(View {
            schema: definition.schema,
            name: definition.name.clone(),
            columns: definition.columns.clone(),
            query: materialized.query.clone(),
            reads: materialized.reads.clone(),
            options: Vec::new(),
        })
    }

    /// Whether its query reads the relation.
    pub fn reads_relation(&self, name: &RelationName) -> bool {
        self.reads.iter().any(|read| read.schema == name.schema && read.name == name.name)
    }

    /// The names of the relations that its query reads.
    pub fn names_read(&self) -> impl Iterator<Item = RelationName> {
        self.reads.iter().map(|read| RelationName::new(read.schema, read.name.as_str()))
    }

    /// Its name with its schema.
    pub fn full_name(&self) -> RelationName {
        RelationName::new(self.schema, self.name.as_str())
    }
}
