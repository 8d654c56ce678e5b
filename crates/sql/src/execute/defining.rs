//! What definitions work with: the transaction's catalog, and names that nobody has.

use super::schema::check_schema;
use crate::expression::Context;
use crate::plan::OwnSequence;
use crate::plan::default::next_value;
use crate::runner::Runner;
use crate::system::oids::relation_number;
use ankerdb_engine::{
    Catalog, Definitions, Error, NameRef, QualifiedName, RelationName, Result, SchemaId, SequenceDefinition,
    SqlState, TableDefinition, Transaction, Value,
};

/// What a definition works with.
pub(crate) struct Defining<'a> {
    pub definitions: &'a mut Definitions,
    pub transaction: &'a mut Transaction,
    pub runner: &'a Runner,
    pub parameters: &'a [Value],
    /// When the transaction began.
    pub now: i64,
}

impl<'a> Defining<'a> {
    /// Gives the new relation its number for clients: objects are numbered in the order in which they are made.
    pub(super) fn number<'n>(&mut self, name: impl Into<NameRef<'n>>) -> Result<()> {
        let catalog = self.definitions.catalog()?;
        relation_number(&catalog, self.runner.engine.olap().oids(), name.into());
        Ok(())
    }

    /// The context of an expression that reads no column.
    pub(super) fn context(&self) -> Context<'a> {
        let Defining { runner, parameters, now, .. } = *self;
        let (interrupt, sequences) = (runner.interrupt(), &*runner.sequences);
        Context { column: &|_| Value::Null, parameters, subqueries: &[], now, interrupt, sequences }
    }
}

/// The table with defaults that count, and the sequences with their names. 55000 for a name in another schema.
pub(super) fn counted(
    table: &TableDefinition,
    sequences: &[OwnSequence],
    catalog: &Catalog,
) -> Result<(TableDefinition, Vec<SequenceDefinition>)> {
    let (mut table, mut named) = (table.clone(), Vec::<SequenceDefinition>::with_capacity(sequences.len()));
    for sequence in sequences {
        let column = sequence.column;
        let base = || format!("{}_{}_seq", table.name, table.columns[column].name);
        let is_taken = |name: &str| {
            catalog.has_relation(NameRef::In(table.schema, name))
                || named.iter().any(|other| other.name == name)
        };
        let given = sequence.name.as_ref().map(|name| name_beside(name, table.schema, catalog));
        let name = given.transpose()?.unwrap_or_else(|| numbered(base(), is_taken));
        table.columns[column].default = Some(next_value(&name));
        named.push(SequenceDefinition {
            schema: table.schema,
            name,
            owner: Some((RelationName::new(table.schema, table.name.as_str()), column)),
            ..sequence.definition.clone()
        });
    }
    Ok((table, named))
}

/// The name that the sequence of a column of a table is to have. 55000 if it is in another schema than the table.
pub(super) fn name_beside(name: &QualifiedName, schema: SchemaId, catalog: &Catalog) -> Result<String> {
    check_schema(name, catalog)?;
    match &name.schema {
        Some(given) if *given != catalog.schema_name(schema) => Err(in_another_schema()),
        _ => Ok(name.name.clone()),
    }
}

/// 55000
pub(super) fn in_another_schema() -> Error {
    let message = "sequence must be in same schema as table it is linked to";
    Error::new(SqlState::ObjectNotInPrerequisiteState, message)
}

/// The name, or the first of those with a number behind it, that is not taken.
pub(super) fn numbered(base: String, taken: impl Fn(&str) -> bool) -> String {
    if !taken(&base) {
        return base;
    }
    let numbered = (1..).map(|number| format!("{base}{number}"));
    numbered.into_iter().find(|name| !taken(name)).unwrap_or(base)
}
