//! Sequences, and which columns they belong to: `pg_sequence`, `pg_sequences`, `pg_depend`.

use super::default_text::default_sequence;
use super::objects::OWNER;
use super::types::type_of;
use super::views;
use super::{
    Datum, Rows, SequenceEntry, SystemCatalog, SystemColumn, TableEntry, column_number, columns, row,
};
use ankerdb_engine::Sequence;
use std::sync::LazyLock;

/// The number of `pg_class`, and of `pg_constraint`, and of `pg_attrdef`.
const CLASS: u32 = 1259;
const CONSTRAINT: u32 = 2606;
const DEFAULT: u32 = 2604;

/// The column that a sequence belongs to.
pub(super) fn owner<'a>(
    catalog: &'a SystemCatalog,
    sequence: &SequenceEntry,
) -> Option<(&'a TableEntry, usize)> {
    // A sequence is in the schema of its table.
    let (table, column) = sequence.definition.owner.as_ref()?;
    Some((catalog.table_by_name(&sequence.schema.name, &table.name)?, *column))
}

/// The columns of a sequence that is read as a relation.
pub(crate) fn sequence_columns() -> &'static [SystemColumn] {
    static COLUMNS: LazyLock<Vec<SystemColumn>> =
        LazyLock::new(|| columns("last_value int8, log_cnt int8, is_called bool"));
    &COLUMNS
}

/// Its row. What PostgreSQL's log knows ahead of a sequence is kept elsewhere here, so nothing is said of it.
pub(crate) fn sequence_row(sequence: &Sequence) -> Vec<Datum> {
    let (last, is_called) = sequence.last();
    row![last, 0, is_called]
}

pub(super) fn sequences(catalog: &SystemCatalog) -> Rows {
    let sequence = |entry: &SequenceEntry| {
        let definition = &entry.definition;
        row![
            entry.oid,
            type_of(definition.data_type).0,
            definition.start,
            definition.increment,
            definition.maximum,
            definition.minimum,
            1,
            definition.cycle,
        ]
    };
    catalog.sequences.iter().map(sequence).collect()
}

pub(super) fn sequence_view(catalog: &SystemCatalog) -> Rows {
    let sequence = |entry: &SequenceEntry| {
        let definition = &entry.definition;
        let last = entry.sequence.upgrade().map(|sequence| sequence.last());
        row![
            &*entry.schema.name,
            definition.name.as_str(),
            OWNER,
            type_of(definition.data_type).0,
            definition.start,
            definition.minimum,
            definition.maximum,
            definition.increment,
            definition.cycle,
            1,
            last.and_then(|(last, is_used)| is_used.then_some(last)),
        ]
    };
    catalog.sequences.iter().map(sequence).collect()
}

/// What depends on what: sequences on their columns, indexes of constraints on these, the others on columns.
pub(super) fn dependencies(catalog: &SystemCatalog) -> Rows {
    let mut rows = Vec::new();
    for sequence in &catalog.sequences {
        if let Some((table, column)) = owner(catalog, sequence) {
            let is_identity =
                table.columns.get(column).is_some_and(|column| column.definition.identity.is_some());
            let kind = if is_identity { "i" } else { "a" };
            rows.push(row![CLASS, sequence.oid, 0, CLASS, table.oid, column_number(column), kind]);
        }
    }
    for table in &catalog.tables {
        for (position, column) in table.columns.iter().enumerate() {
            if let Some(oid) = column.default_oid.filter(|_| column.definition.identity.is_none()) {
                rows.push(row![DEFAULT, oid, 0, CLASS, table.oid, column_number(position), "a"]);
                if let Some(sequence) = default_sequence(catalog, table, &column.definition) {
                    rows.push(row![DEFAULT, oid, 0, CLASS, sequence, 0, "n"]);
                }
            }
        }
        for index in &table.indexes {
            let on_columns = |class: u32, object: u32| -> Vec<Vec<Datum>> {
                let columns = index.definition.columns.iter();
                columns
                    .map(|&column| row![class, object, 0, CLASS, table.oid, column_number(column), "a"])
                    .collect()
            };
            match index.constraint_oid {
                Some(constraint) => {
                    rows.push(row![CLASS, index.oid, 0, CONSTRAINT, constraint, 0, "i"]);
                    rows.extend(on_columns(CONSTRAINT, constraint));
                }
                None => rows.extend(on_columns(CLASS, index.oid)),
            }
        }
        for key in &table.foreign_keys {
            let columns = key.definition.columns.iter();
            let own = columns
                .map(|&column| row![CONSTRAINT, key.oid, 0, CLASS, table.oid, column_number(column), "a"]);
            rows.extend(own);
            let theirs = key.parent_columns.iter().map(|&column| {
                row![CONSTRAINT, key.oid, 0, CLASS, key.parent_oid, column_number(column), "n"]
            });
            rows.extend(theirs);
            rows.push(row![CONSTRAINT, key.oid, 0, CLASS, key.key_oid, 0, "n"]);
        }
        for check in &table.checks {
            let columns = check.columns.iter();
            rows.extend(
                columns.map(|&column| {
                    row![CONSTRAINT, check.oid, 0, CLASS, table.oid, column_number(column), "a"]
                }),
            );
        }
    }
    rows.extend(views::dependencies(catalog));
    rows
}
