//! What definitions work with: the transaction's catalog, and names that nobody has.

use crate::expression::Context;
use crate::plan::default::next_value;
use crate::runner::Runner;
use crate::system::oids::relation_number;
use ankerdb_engine::{
    Catalog, Definitions, NameRef, RelationName, Result, SequenceDefinition, TableDefinition, Transaction,
    Value,
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

/// The table with defaults that count, and the sequences with their names.
pub(super) fn counted(
    table: &TableDefinition,
    sequences: &[(usize, SequenceDefinition)],
    catalog: &Catalog,
) -> (TableDefinition, Vec<SequenceDefinition>) {
    let (mut table, mut named) = (table.clone(), Vec::<SequenceDefinition>::with_capacity(sequences.len()));
    for (column, sequence) in sequences {
        let base = format!("{}_{}_seq", table.name, table.columns[*column].name);
        let is_taken = |name: &str| {
            catalog.has_relation(NameRef::In(table.schema, name))
                || named.iter().any(|other| other.name == name)
        };
        let name = numbered(base, is_taken);
        table.columns[*column].default = Some(next_value(&name));
        named.push(SequenceDefinition {
            schema: table.schema,
            name,
            owner: Some((RelationName::new(table.schema, table.name.as_str()), *column)),
            ..sequence.clone()
        });
    }
    (table, named)
}

/// The name, or the first of those with a number behind it, that is not taken.
pub(super) fn numbered(base: String, taken: impl Fn(&str) -> bool) -> String {
    if !taken(&base) {
        return base;
    }
    let numbered = (1..).map(|number| format!("{base}{number}"));
    numbered.into_iter().find(|name| !taken(name)).unwrap_or(base)
}
