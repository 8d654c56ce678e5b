//! Names of tables in front of columns, where PostgreSQL does not know which table is meant.
//!
//! `FROM a.t, b.t` has two tables of the name `t`, and `t.x` is neither's. In `FROM a.t AS t` the table is called by its alias alone, so
//! `a.t.x` is nobody's. DataFusion would take the first one that fits.

use crate::name::{folded, quoted};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{Expr, Query, SetExpr, TableFactor, TableWithJoins};

/// The tables of a FROM clause.
pub(super) type TableReferences = Vec<TableReference>;

/// A table by its names.
pub(super) struct TableReference {
    schema: Option<String>,
    name: String,
    alias: Option<String>,
}

impl TableReference {
    /// What columns are called by.
    fn shown(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.name)
    }
}

/// The tables that a query's own columns may be of.
pub(super) fn tables(query: &Query) -> TableReferences {
    let mut tables = TableReferences::new();
    if let SetExpr::Select(select) = query.body.as_ref() {
        select.from.iter().for_each(|item| collect(item, &mut tables));
    }
    tables
}

fn collect(item: &TableWithJoins, tables: &mut TableReferences) {
    let joined = item.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&item.relation).chain(joined) {
        match factor {
            TableFactor::Table { name, alias, .. } => {
                let mut parts = name.0.iter().rev().map(|part| part.as_ident().map(folded));
                let Some(Some(name)) = parts.next() else { continue };
                let alias = alias.as_ref().map(|alias| folded(&alias.name));
                tables.push(TableReference { schema: parts.next().flatten(), name, alias });
            }
            TableFactor::Derived { alias: Some(alias), .. } => {
                let name = folded(&alias.name);
                tables.push(TableReference { schema: None, alias: Some(name.clone()), name });
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => collect(table_with_joins, tables),
            _ => {}
        }
    }
}

/// # Errors
/// 42712 for two tables of one name.
pub(super) fn check_apart(tables: &[TableReference]) -> Result<()> {
    for (count, table) in tables.iter().enumerate() {
        let is_same = |before: &&TableReference| {
            let are_plain = before.alias.is_none() && table.alias.is_none();
            before.shown() == table.shown() && (!are_plain || before.schema == table.schema)
        };
        if tables[..count].iter().any(|before| is_same(&before)) {
            let message = format!("table name {} specified more than once", quoted(table.shown()));
            return Err(Error::new(SqlState::DuplicateAlias, message));
        }
    }
    Ok(())
}

/// # Errors
/// 42P09 for a name of several tables, 42P01 for one that an alias hides.
pub(super) fn check(expression: &Expr, around: &[TableReferences]) -> Result<()> {
    let Expr::CompoundIdentifier(parts) = expression else { return Ok(()) };
    let names: Vec<String> = parts.iter().map(folded).collect();
    match names.as_slice() {
        [table, _] => of_name(table, around),
        [schema, table, _] => of_full_name(schema, table, around),
        _ => Ok(()),
    }
}

fn of_name(name: &str, around: &[TableReferences]) -> Result<()> {
    for tables in around.iter().rev() {
        let found: Vec<&TableReference> = tables.iter().filter(|table| table.shown() == name).collect();
        let is_plain = |table: &&TableReference| table.alias.is_none();
        if let [first, second, ..] = found.as_slice()
            && found.iter().all(is_plain)
            && first.schema != second.schema
        {
            let message = format!("table reference {} is ambiguous", quoted(name));
            return Err(Error::new(SqlState::AmbiguousAlias, message));
        }
        if !found.is_empty() {
            return Ok(());
        }
    }
    Ok(())
}

fn of_full_name(schema: &str, name: &str, around: &[TableReferences]) -> Result<()> {
    let has_schema = |table: &&TableReference| table.schema.as_deref().is_none_or(|own| own == schema);
    let all = || around.iter().flatten().filter(has_schema);
    let is_meant = all().any(|table| table.alias.is_none() && table.name == name);
    // A database before the name of a schema, or a name of something that is no table here.
    let hidden = all().any(|table| {
        table
            .alias
            .as_deref()
            .is_some_and(|alias| table.schema.is_some() && (table.name == name || alias == name))
    });
    match hidden && !is_meant {
        true => {
            let message = format!("invalid reference to FROM-clause entry for table {}", quoted(name));
            Err(Error::new(SqlState::UndefinedTable, message))
        }
        false => Ok(()),
    }
}
