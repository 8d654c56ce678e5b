//! Relations and their columns: `pg_class`, `pg_attribute`.

use super::constraints::{key_columns, key_parts, key_types};
use super::definition::DefinitionStyle;
use super::objects::{OWNER_OID, schema_oid};
use super::oids;
use super::operator_classes::collation_number;
use super::types::{TypeEntry, by_oid, type_of};
use super::{
    ColumnEntry, Datum, IndexEntry, NULL, Rows, SystemCatalog, SystemColumn, SystemRelation, TableEntry,
    column_number, relations, row,
};
use ankerdb_engine::{DataType, Identity, IndexKind, SystemType};
use ankerdb_value::row_type_oid;

/// Bytes of what PostgreSQL calls a page.
const PAGE_BYTES: i64 = 8192;

/// What differs between relations.
struct Class {
    oid: u32,
    name: String,
    schema_oid: u32,
    is_temporary: bool,
    /// The access method.
    method: u32,
    /// Pages and rows, as an estimate.
    pages: i64,
    rows: f64,
    has_index: bool,
    kind: char,
    is_populated: bool,
    columns: usize,
    /// Storage options.
    options: Vec<String>,
    checks: usize,
    /// PostgreSQL tests foreign keys by triggers, and clients look for them only where there are some.
    has_triggers: bool,
}

pub(super) fn classes(catalog: &SystemCatalog) -> Rows {
    let mut classes: Vec<Class> = Vec::new();
    for table in &catalog.tables {
        classes.push(table_class(table));
        classes.extend(table.indexes.iter().map(|index| index_class(table, index)));
    }
    classes.extend(catalog.views.iter().map(|entry| Class {
        oid: entry.oid,
        name: entry.view.name.clone(),
        schema_oid: entry.schema.oid,
        is_temporary: entry.schema.is_temporary(),
        method: 0,
        pages: 0,
        rows: -1.0,
        has_index: false,
        kind: 'v',
        is_populated: true,
        columns: entry.view.columns.len(),
        options: entry.view.options.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        checks: 0,
        has_triggers: false,
    }));
    classes.extend(catalog.sequences.iter().map(|sequence| Class {
        oid: sequence.oid,
        name: sequence.definition.name.clone(),
        schema_oid: sequence.schema.oid,
        is_temporary: sequence.schema.is_temporary(),
        method: 0,
        pages: 1,
        rows: 1.0,
        has_index: false,
        kind: 'S',
        is_populated: true,
        columns: SEQUENCE_COLUMNS.len(),
        options: Vec::new(),
        checks: 0,
        has_triggers: false,
    }));
    classes.extend(relations().iter().map(system_class));
    classes.into_iter().map(class_row).collect()
}

fn table_class(table: &TableEntry) -> Class {
    let (rows, bytes) = size(table);
    Class {
        oid: table.oid,
        name: table.name.clone(),
        schema_oid: table.schema.oid,
        is_temporary: table.schema.is_temporary(),
        method: 2,
        pages: (bytes + PAGE_BYTES - 1) / PAGE_BYTES,
        rows: rows as f64,
        has_index: !table.indexes.is_empty(),
        kind: if table.materialized.is_some() { 'm' } else { 'r' },
        is_populated: table.materialized.as_ref().is_none_or(|(_, is_populated)| *is_populated),
        columns: table.columns.len(),
        options: Vec::new(),
        checks: table.checks.len(),
        has_triggers: table.is_referenced || !table.foreign_keys.is_empty(),
    }
}

fn index_class(table: &TableEntry, index: &IndexEntry) -> Class {
    Class {
        oid: index.oid,
        name: index.definition.name.clone(),
        schema_oid: table.schema.oid,
        is_temporary: table.schema.is_temporary(),
        method: method_oid(index.definition.kind),
        pages: 1,
        rows: 0.0,
        has_index: false,
        kind: 'i',
        is_populated: true,
        columns: key_columns(index).len() + index.definition.style.included.len(),
        options: index
            .definition
            .style
            .options
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect(),
        checks: 0,
        has_triggers: false,
    }
}

fn system_class(relation: &SystemRelation) -> Class {
    Class {
        oid: relation.definition.oid,
        name: relation.name().to_owned(),
        schema_oid: schema_oid(relation.schema).unwrap_or(0),
        is_temporary: false,
        method: if relation.definition.is_view { 0 } else { 2 },
        pages: 0,
        rows: -1.0,
        has_index: false,
        kind: if relation.definition.is_view { 'v' } else { 'r' },
        is_populated: true,
        columns: relation.columns.len(),
        options: Vec::new(),
        checks: 0,
        has_triggers: false,
    }
}

pub(super) fn method_oid(kind: IndexKind) -> u32 {
    match kind {
        IndexKind::Ordered => 403,
        IndexKind::Hash => 405,
    }
}

/// Rows of a table, and the bytes that they take; zero if it is gone.
pub(super) fn size(table: &TableEntry) -> (i64, i64) {
    let Some(table) = table.table() else { return (0, 0) };
    let wide = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    (wide(table.row_count()), wide(super::functions::memory_bytes(&table)))
}

fn class_row(class: Class) -> Vec<Datum> {
    let has_rows = matches!(class.kind, 'r' | 'v' | 'm') && class.oid >= oids::FIRST;
    row![
        class.oid,
        class.name,
        class.schema_oid,
        if has_rows { row_type_oid(class.oid) } else { 0 },
        0,
        OWNER_OID,
        class.method,
        class.oid,
        0,
        class.pages,
        class.rows,
        0,
        0,
        class.has_index,
        false,
        if class.is_temporary { "t" } else { "p" },
        class.kind.to_string(),
        class.columns,
        class.checks,
        false,
        class.has_triggers,
        false,
        false,
        false,
        class.is_populated,
        if matches!(class.kind, 'r' | 'm') { "d" } else { "n" },
        false,
        0,
        0,
        0,
        NULL,
        (!class.options.is_empty()).then_some(class.options),
        NULL,
    ]
}

/// The columns that a sequence has as a relation.
const SEQUENCE_COLUMNS: [(&str, DataType); 3] =
    [("last_value", DataType::BigInt), ("log_cnt", DataType::BigInt), ("is_called", DataType::Boolean)];

pub(super) fn attributes(catalog: &SystemCatalog) -> Rows {
    let mut rows = Vec::new();
    for table in &catalog.tables {
        let columns = table.columns.iter().enumerate();
        rows.extend(columns.map(|(position, column)| table_column(catalog, table.oid, position, column)));
        for index in &table.indexes {
            rows.extend(index_columns(catalog, table, index));
        }
    }
    for entry in &catalog.views {
        let columns = entry.view.columns.iter().enumerate();
        rows.extend(columns.map(|(position, column)| {
            attribute(entry.oid, position, &column.name, column.data_type, &Traits::default())
        }));
    }
    for sequence in &catalog.sequences {
        let columns = SEQUENCE_COLUMNS.iter().enumerate();
        rows.extend(columns.map(|(position, &(name, data_type))| {
            attribute(
                sequence.oid,
                position,
                name,
                data_type,
                &Traits { is_not_null: true, ..Traits::default() },
            )
        }));
    }
    for relation in relations() {
        let columns = relation.columns.iter().enumerate();
        rows.extend(columns.map(|(position, column)| system_column(relation, position, column)));
    }
    rows
}

/// What a column is besides its type.
#[derive(Default)]
struct Traits {
    is_not_null: bool,
    has_default: bool,
    /// `a` or `d` for columns that number their rows.
    identity: &'static str,
    /// `s` for columns that are computed, and stored.
    generated: &'static str,
    /// Its collation, if it is not that of its type.
    collation: Option<i64>,
}

fn table_column(catalog: &SystemCatalog, table: u32, position: usize, column: &ColumnEntry) -> Vec<Datum> {
    let definition = &column.definition;
    let domain = catalog.domain_of(definition);
    let of_domain = domain.and_then(|entry| entry.domain.collation.as_deref());
    let collation = definition.collation.as_deref().or(of_domain);
    let traits = Traits {
        is_not_null: !definition.nullable,
        // The numbers of an identity column are no default.
        has_default: column.default_oid.is_some() && definition.identity.is_none(),
        identity: identity(definition.identity),
        generated: if definition.generation.is_some() { "s" } else { "" },
        collation: collation.map(collation_number),
    };
    let mut row = attribute(table, position, &definition.name, definition.data_type, &traits);
    if let Some(entry) = domain {
        // The domain says what its values are limited to.
        row[TYPE] = entry.domain.identity.oid().into();
        row[MODIFIER] = (-1).into();
    }
    row
}

/// Places of `atttypid` and `atttypmod`.
const TYPE: usize = 2;
const MODIFIER: usize = 8;

fn identity(identity: Option<Identity>) -> &'static str {
    match identity {
        None => "",
        Some(Identity::Always) => "a",
        Some(Identity::ByDefault) => "d",
    }
}

fn index_columns(catalog: &SystemCatalog, table: &TableEntry, index: &IndexEntry) -> Vec<Vec<Datum>> {
    let name = |column: usize| table.column_name(column).to_owned();
    let parts = key_parts(catalog, table, index, DefinitionStyle::PLAIN);
    let keys = key_columns(index).into_iter().zip(key_types(table, index)).zip(parts);
    let mut columns: Vec<(String, DataType)> = Vec::new();
    for ((column, data_type), part) in keys {
        let own = column.map_or_else(|| expression_name(&part), name);
        let is_taken = |wanted: &String| columns.iter().any(|(known, _)| known == wanted);
        let numbered = (1..).map(|number| format!("{own}{number}"));
        let own = std::iter::once(own.clone()).chain(numbered).find(|own| !is_taken(own)).unwrap_or(own);
        columns.push((own, data_type));
    }
    let included = index.definition.style.included.iter().filter_map(|&column| table.columns.get(column));
    columns.extend(included.map(|column| (column.definition.name.clone(), column.definition.data_type)));
    let each = columns.iter().enumerate();
    each.map(|(position, (name, data_type))| {
        attribute(index.oid, position, name, *data_type, &Traits::default())
    })
    .collect()
}

/// What PostgreSQL calls the column of an index that an expression is.
fn expression_name(part: &str) -> String {
    let name = crate::plan::default::parsed(part).map(|expr| crate::column_name::column_name(&expr));
    name.ok().filter(|name| name != "?column?").unwrap_or_else(|| "expr".to_owned())
}

fn system_column(relation: &SystemRelation, position: usize, column: &SystemColumn) -> Vec<Datum> {
    attribute(relation.definition.oid, position, column.name, column.data_type, &Traits::default())
}

fn attribute(relation: u32, position: usize, name: &str, data_type: DataType, traits: &Traits) -> Vec<Datum> {
    let (oid, modifier) = type_of(data_type);
    let known = by_oid(oid);
    let letter = |of: fn(&TypeEntry) -> char| known.map(of).unwrap_or('i');
    let (length, by_value, align, stored) = super::user_types::storage(data_type).unwrap_or_else(|| {
        let length = known.map_or(-1, |known| known.length);
        let by_value = known.is_some_and(|known| known.by_value);
        (length, by_value, letter(TypeEntry::align), letter(TypeEntry::storage))
    });
    row![
        relation,
        name,
        oid,
        -1,
        length,
        column_number(position),
        // How many dimensions were written is not kept, as they mean nothing.
        i64::from(matches!(data_type, DataType::System(SystemType::List(list)) if !list.is_vector())),
        -1,
        modifier,
        by_value,
        align.to_string(),
        stored.to_string(),
        "",
        traits.is_not_null,
        traits.has_default,
        false,
        traits.identity,
        traits.generated,
        false,
        true,
        0,
        traits.collation.unwrap_or_else(|| known.map_or(0, |known| known.collation.into())),
        NULL,
        NULL,
        NULL,
        NULL,
    ]
}
