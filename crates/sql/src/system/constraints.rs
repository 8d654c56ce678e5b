//! Indexes, constraints and defaults: `pg_index`, `pg_constraint`, `pg_attrdef`, and what they look like in SQL.

use super::default_text::default_text;
use super::quoting::{list, quote_ident};
use super::types::{by_oid, operator_class, type_of};
use super::{CheckEntry, Datum, IndexEntry, NULL, Rows, SystemCatalog, TableEntry, column_number, row};
use ankerdb_engine::IndexKind;

/// The columns' names of a key.
fn key_names<'a>(table: &'a TableEntry, index: &'a IndexEntry) -> impl Iterator<Item = &'a str> {
    index.definition.columns.iter().map(|&column| table.column_name(column))
}

/// The statement that makes the index; `is_brief` leaves out the schema where the table is found without.
pub(super) fn index_definition(
    catalog: &SystemCatalog,
    table: &TableEntry,
    index: &IndexEntry,
    is_brief: bool,
) -> String {
    let unique = if index.definition.unique { "UNIQUE " } else { "" };
    let whole = || format!("{}.{}", quote_ident(&table.schema.name), quote_ident(&table.name));
    let on = if is_brief { catalog.shown_name(&table.schema.name, &table.name) } else { whole() };
    let method = match index.definition.kind {
        IndexKind::Ordered => "btree",
        IndexKind::Hash => "hash",
    };
    format!(
        "CREATE {unique}INDEX {} ON {on} USING {method} ({})",
        quote_ident(&index.definition.name),
        list(key_names(table, index)),
    )
}

/// The column of an index at a position counted from 1.
pub(super) fn index_column(table: &TableEntry, index: &IndexEntry, number: usize) -> Option<String> {
    let position = index.definition.columns.get(number.checked_sub(1)?)?;
    Some(quote_ident(table.column_name(*position)))
}

/// A constraint: a key, or a condition.
pub(super) enum Constraint<'a> {
    Key(&'a IndexEntry),
    Check(&'a CheckEntry),
}

impl Constraint<'_> {
    pub(super) fn name(&self) -> &str {
        match self {
            Constraint::Key(index) => &index.definition.name,
            Constraint::Check(check) => &check.name,
        }
    }

    pub(super) fn oid(&self) -> u32 {
        match self {
            Constraint::Key(index) => index.constraint_oid.unwrap_or(0),
            Constraint::Check(check) => check.oid,
        }
    }

    /// Its letter in `contype`.
    fn letter(&self) -> &'static str {
        match self {
            Constraint::Key(index) if index.definition.primary => "p",
            Constraint::Key(_) => "u",
            Constraint::Check(_) => "c",
        }
    }

    /// What it is called in the standard's schema.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Constraint::Key(index) if index.definition.primary => "PRIMARY KEY",
            Constraint::Key(_) => "UNIQUE",
            Constraint::Check(_) => "CHECK",
        }
    }

    /// Positions of its columns.
    pub(super) fn columns(&self) -> &[usize] {
        match self {
            Constraint::Key(index) => &index.definition.columns,
            Constraint::Check(check) => &check.columns,
        }
    }

    /// How it is declared.
    pub(super) fn definition(&self, table: &TableEntry, is_brief: bool) -> String {
        match self {
            Constraint::Key(index) => format!("{} ({})", self.kind(), list(key_names(table, index))),
            Constraint::Check(check) if is_brief => format!("CHECK ({})", check.text),
            Constraint::Check(check) => format!("CHECK (({}))", check.text),
        }
    }
}

/// The constraints of a table.
pub(super) fn of_table(table: &TableEntry) -> impl Iterator<Item = Constraint<'_>> {
    let keys = table.indexes.iter().filter(|index| index.constraint_oid.is_some()).map(Constraint::Key);
    keys.chain(table.checks.iter().map(Constraint::Check))
}

/// The constraint with that number, and its table.
pub(super) fn by_number(catalog: &SystemCatalog, oid: u32) -> Option<(&TableEntry, Constraint<'_>)> {
    catalog.tables.iter().find_map(|table| {
        of_table(table).find(|constraint| constraint.oid() == oid).map(|constraint| (table, constraint))
    })
}

pub(super) fn constraints(catalog: &SystemCatalog) -> Rows {
    let rows =
        catalog.tables.iter().flat_map(|table| of_table(table).map(|each| constraint_row(table, &each)));
    rows.collect()
}

fn constraint_row(table: &TableEntry, constraint: &Constraint<'_>) -> Vec<Datum> {
    let key: Vec<i64> = constraint.columns().iter().map(|&column| column_number(column)).collect();
    let (index, expression) = match constraint {
        Constraint::Key(index) => (index.oid, NULL),
        Constraint::Check(check) => (0, Datum::from(check.text.as_str())),
    };
    row![
        constraint.oid(),
        constraint.name(),
        table.schema.oid,
        constraint.letter(),
        false,
        false,
        true,
        table.oid,
        0,
        index,
        0,
        0,
        " ",
        " ",
        " ",
        true,
        0,
        matches!(constraint, Constraint::Key(_)),
        key,
        NULL,
        NULL,
        NULL,
        NULL,
        NULL,
        NULL,
        expression,
    ]
}

pub(super) fn indexes(catalog: &SystemCatalog) -> Rows {
    catalog.indexes().map(|(table, index)| index_row(table, index)).collect()
}

fn index_row(table: &TableEntry, index: &IndexEntry) -> Vec<Datum> {
    let definition = &index.definition;
    let types = || definition.columns.iter().filter_map(|&column| table.columns.get(column));
    let collation = |oid| by_oid(oid).map_or(0, |known| known.collation);
    let collations: Vec<i64> =
        types().map(|column| i64::from(collation(type_of(column.definition.data_type).0))).collect();
    let classes: Vec<i64> =
        types().map(|column| i64::from(operator_class(column.definition.data_type))).collect();
    let numbers: Vec<i64> = definition.columns.iter().map(|&column| column_number(column)).collect();
    let options = vec![0i64; numbers.len()];
    row![
        index.oid,
        table.oid,
        numbers.len(),
        numbers.len(),
        definition.unique,
        false,
        definition.primary,
        false,
        true,
        false,
        true,
        false,
        true,
        true,
        false,
        numbers,
        collations,
        classes,
        options,
        NULL,
        NULL,
    ]
}

pub(super) fn defaults(catalog: &SystemCatalog) -> Rows {
    let rows = catalog.tables.iter().flat_map(|table| {
        table.columns.iter().enumerate().filter_map(move |(position, column)| {
            let oid = column.default_oid.filter(|_| column.definition.identity.is_none())?;
            Some(row![
                oid,
                table.oid,
                column_number(position),
                default_text(catalog, table, &column.definition)
            ])
        })
    });
    rows.collect()
}
