//! CREATE INDEX and DROP INDEX.

use super::defining::{Defining, numbered};
use super::schema::check_schema;
use crate::plan::derivation::derive;
use crate::plan::{Indexed, IndexedColumn, NewIndex, positions};
use crate::system::{operator_class, sortable_collation};
use ankerdb_engine::{
    DataType, Definitions, Derivation, IndexDefinition, IndexKind, IndexStyle, KeyStyle, NameRef,
    QualifiedName, RelationName, Result, Table,
};
use datafusion::sql::sqlparser::ast::Expr;
use std::sync::Arc;

pub(super) fn create_index(defining: &mut Defining, new: &NewIndex) -> Result<()> {
    let definitions = &mut *defining.definitions;
    let catalog = definitions.catalog()?;
    let table = catalog.table(&new.table)?;
    defining.transaction.check_none_deferred(&table, "CREATE INDEX")?;
    let is_taken = |name: &str| catalog.has_relation(NameRef::In(table.definition().schema, name));
    let name = match &new.name {
        Some(name) => name.clone(),
        None => index_name(&table, new, is_taken),
    };
    let included = positions(&table, &new.included)?;
    let key = key(&table, new)?;
    let keys = new.columns.iter().zip(&key.types);
    let keys: Vec<KeyStyle> =
        keys.map(|(column, &data_type)| style(data_type, column, new.kind)).collect::<Result<_>>()?;
    // As on PostgreSQL, what it asks for has to fit all the same.
    if new.if_not_exists && is_taken(&name) {
        return Ok(());
    }
    let is_plain = keys.iter().all(|key| *key == KeyStyle::default());
    let keys = if is_plain { Vec::new() } else { keys };
    let index = IndexDefinition {
        name,
        columns: key.columns,
        derivation: key.derivation,
        unique: new.unique,
        primary: false,
        is_constraint: false,
        kind: new.kind,
        style: IndexStyle {
            keys,
            included,
            options: new.options.clone(),
            nulls_are_equal: new.nulls_are_equal,
        },
    };
    definitions.create_index(&RelationName::of(&table), index)
}

/// What the keys of an index are made of.
struct Key {
    columns: Vec<usize>,
    derivation: Option<Arc<Derivation>>,
    types: Vec<DataType>,
}

fn key(table: &Table, new: &NewIndex) -> Result<Key> {
    let names = new.columns.iter().map(|column| match &column.what {
        Indexed::Column(name) => Some(name.clone()),
        Indexed::Expression(_) => None,
    });
    let names: Option<Vec<String>> = names.collect();
    // Also for the error if one does not exist.
    let columns = names.map(|names| positions(table, &names)).transpose()?;
    match columns.filter(|_| new.predicate.is_none()) {
        Some(columns) => {
            let types = columns.iter().map(|&column| table.columns()[column].data_type).collect();
            Ok(Key { columns, derivation: None, types })
        }
        None => {
            let parts: Vec<Expr> = new.columns.iter().map(|column| column.what.expr()).collect();
            let derivation = derive(table.definition(), &parts, new.predicate.as_ref())?;
            let types = derivation.types.clone();
            Ok(Key { columns: Vec::new(), derivation: Some(Arc::new(derivation)), types })
        }
    }
}

/// How a column is to be shown, if values of its type can be kept like that: there is one order of them.
fn style(data_type: DataType, column: &IndexedColumn, kind: IndexKind) -> Result<KeyStyle> {
    let collation = column.style.collation.as_deref();
    let collation = collation.map(|name| sortable_collation(name, data_type)).transpose()?.flatten();
    let class = column.style.class.as_deref();
    let class = class.map(|name| operator_class(name, kind, data_type)).transpose()?.flatten();
    Ok(KeyStyle { collation, class, ..column.style })
}

pub(super) fn drop_indexes(
    definitions: &mut Definitions,
    names: &[QualifiedName],
    if_exists: bool,
) -> Result<()> {
    for name in names {
        let catalog = definitions.catalog()?;
        if catalog.table_of_index(name).is_some() {
            definitions.drop_index(name)?;
        } else if !if_exists {
            check_schema(name, &catalog)?;
            definitions.drop_index(name)?;
        }
    }
    Ok(())
}

/// PostgreSQL's name for an index without one: `table_column_idx`, numbered if that is taken.
fn index_name(table: &Table, new: &NewIndex, taken: impl Fn(&str) -> bool) -> String {
    let keys = new.columns.iter().map(|column| column.what.name());
    let columns: Vec<String> = keys.chain(new.included.iter().cloned()).collect();
    numbered(format!("{}_{}_idx", table.name(), columns.join("_")), taken)
}
