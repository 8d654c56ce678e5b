//! The standard's schema: what `information_schema` shows.

use super::constraints::{Constraint, action_name, of_table};
use super::default_text::default_text;
use super::objects::OWNER;
use super::types::{by_oid, type_of};
use super::{
    ColumnEntry, Datum, ForeignKeyEntry, NULL, Rows, SequenceEntry, SystemCatalog, TableEntry, column_number,
    relations, row,
};
use crate::name::DATABASE;
use ankerdb_engine::{DataType, Identity, SystemType};

fn yes_or_no(is: bool) -> &'static str {
    if is { "YES" } else { "NO" }
}

pub(super) fn catalog_name(_: &SystemCatalog) -> Rows {
    vec![row![DATABASE]]
}

pub(super) fn enabled_roles(_: &SystemCatalog) -> Rows {
    vec![row![OWNER]]
}

pub(super) fn character_sets(_: &SystemCatalog) -> Rows {
    vec![row![NULL, NULL, "UTF8", "UCS", "UTF8", DATABASE, "pg_catalog", "C"]]
}

pub(super) fn schemata(catalog: &SystemCatalog) -> Rows {
    catalog.all_schemas().map(|(_, name)| row![DATABASE, name, OWNER, NULL, NULL, NULL, NULL]).collect()
}

pub(super) fn tables(catalog: &SystemCatalog) -> Rows {
    let table = |schema: &str, name: &str, kind: &str, is_writable: bool| {
        let writable = yes_or_no(is_writable);
        row![DATABASE, schema, name, kind, NULL, NULL, NULL, NULL, NULL, writable, "NO", NULL]
    };
    let own = catalog.tables.iter().filter(|entry| entry.materialized.is_none()).map(|entry| {
        let kind = if entry.schema.is_temporary() { "LOCAL TEMPORARY" } else { "BASE TABLE" };
        table(&entry.schema.name, &entry.name, kind, true)
    });
    let system = relations().iter().map(|relation| {
        let kind = if relation.definition.is_view { "VIEW" } else { "BASE TABLE" };
        table(relation.schema, relation.name(), kind, false)
    });
    let views = catalog
        .views
        .iter()
        .map(|entry| table(&entry.schema.name, &entry.view.name, "VIEW", entry.is_written()));
    own.chain(views).chain(system).collect()
}

/// The views, with their texts.
pub(super) fn views(catalog: &SystemCatalog) -> Rows {
    let view = |entry: &super::ViewEntry| {
        let (name, text) = (entry.view.name.as_str(), super::views::text(catalog, &entry.view));
        let check = crate::updatable::check_option(&entry.view).map_or("NONE".to_owned(), str::to_uppercase);
        // Those that rows can only be deleted through count as not updatable.
        let written = yes_or_no(entry.is_written());
        row![DATABASE, &*entry.schema.name, name, text, check, written, written, "NO", "NO", "NO"]
    };
    catalog.views.iter().map(view).collect()
}

/// What a column's type says about its values.
#[derive(Default)]
struct Limits {
    characters: Option<i64>,
    octets: Option<i64>,
    precision: Option<i64>,
    radix: Option<i64>,
    scale: Option<i64>,
    datetime: Option<i64>,
    fields: Option<String>,
}

fn limits(data_type: DataType) -> Limits {
    /// The most bytes of a text in PostgreSQL, and of one of its characters.
    const OCTETS_MAX: i64 = 1 << 30;
    const CHARACTER_OCTETS: i64 = 4;
    let binary = |bits| Limits { precision: Some(bits), radix: Some(2), ..Limits::default() };
    let exact = |bits| Limits { scale: Some(0), ..binary(bits) };
    match data_type {
        DataType::SmallInt => exact(16),
        DataType::Integer => exact(32),
        DataType::BigInt => exact(64),
        DataType::Real => binary(24),
        DataType::DoublePrecision => binary(53),
        DataType::Number => Limits { radix: Some(10), ..Limits::default() },
        DataType::Numeric { precision, scale } => Limits {
            precision: Some(precision.into()),
            radix: Some(10),
            scale: Some(scale.into()),
            ..Limits::default()
        },
        DataType::Text | DataType::ANY_VARCHAR | DataType::ANY_CHAR => {
            Limits { octets: Some(OCTETS_MAX), ..Limits::default() }
        }
        DataType::Varchar(length) | DataType::Char(length) => Limits {
            characters: Some(length.into()),
            octets: Some(i64::from(length) * CHARACTER_OCTETS),
            ..Limits::default()
        },
        DataType::Packed(packed) => {
            Limits { characters: packed.length().map(i64::from), ..Limits::default() }
        }
        DataType::Date => Limits { datetime: Some(0), ..Limits::default() },
        DataType::Timestamp(precision) | DataType::TimestampTz(precision) | DataType::Time(precision) => {
            Limits { datetime: Some(precision.kept().into()), ..Limits::default() }
        }
        DataType::Interval(limit) => {
            let fields = Some(limit.fields.name().to_uppercase()).filter(|name| !name.is_empty());
            Limits { datetime: Some(limit.precision.kept().into()), fields, ..Limits::default() }
        }
        _ => Limits::default(),
    }
}

/// The type's name without its limits.
fn plain_name(data_type: DataType) -> String {
    match data_type {
        DataType::System(SystemType::List(_)) => "ARRAY".to_owned(),
        DataType::Enum(_) => "USER-DEFINED".to_owned(),
        other => {
            let mut name = other.of_any_precision().to_string();
            name.truncate(name.find('(').unwrap_or(name.len()));
            name
        }
    }
}

pub(super) fn columns(catalog: &SystemCatalog) -> Rows {
    let own = catalog.tables.iter().filter(|table| table.materialized.is_none()).flat_map(|table| {
        let columns = table.columns.iter().enumerate();
        columns.map(move |(position, column)| own_column(catalog, table, position, column))
    });
    let system = relations().iter().flat_map(|relation| {
        relation.columns.iter().enumerate().map(move |(position, column)| {
            let place = (relation.schema, relation.name(), column.name, position);
            column_row(catalog, place, column.data_type, NULL, true, last_columns(None, NULL, false))
        })
    });
    let of_views = catalog.views.iter().flat_map(|entry| {
        let columns = entry.view.columns.iter().enumerate();
        columns.map(move |(position, column)| {
            let place = (&*entry.schema.name, entry.view.name.as_str(), column.name.as_str(), position);
            let is_written = entry.written.as_ref().is_some_and(|columns| columns[position]);
            let default = column.default.as_deref().map_or(NULL, Datum::from);
            column_row(catalog, place, column.data_type, default, true, last_columns(None, NULL, is_written))
        })
    });
    own.chain(of_views).chain(system).collect()
}

fn own_column(
    catalog: &SystemCatalog,
    table: &TableEntry,
    position: usize,
    column: &ColumnEntry,
) -> Vec<Datum> {
    let definition = &column.definition;
    let counted = definition.identity.and_then(|identity| {
        let owns = |entry: &&SequenceEntry| {
            super::sequences::owner(catalog, entry)
                .is_some_and(|(owner, at)| owner.oid == table.oid && at == position)
        };
        Some((identity, catalog.sequences.iter().find(owns)?))
    });
    let text = || Datum::from(default_text(catalog, table, definition));
    let (default, generation) = match (definition.identity, &definition.generation) {
        (Some(_), _) => (NULL, NULL),
        (None, Some(_)) => (NULL, text()),
        (None, None) => (text(), NULL),
    };
    let place = (&*table.schema.name, table.name.as_str(), definition.name.as_str(), position);
    let last = last_columns(counted, generation, true);
    let domain = catalog.domain_of(definition);
    let is_nullable = definition.nullable && !domain.is_some_and(|entry| entry.domain.is_not_null);
    let mut row = column_row(catalog, place, definition.data_type, default, is_nullable, last);
    if let Some(collation) = &definition.collation {
        let named = row![DATABASE, crate::system::PG_CATALOG, collation.as_str()];
        row.splice(DOMAIN_CATALOG - named.len()..DOMAIN_CATALOG, named);
    }
    if let Some(entry) = domain {
        let of_domain = row![DATABASE, &*entry.schema.name, entry.domain.name.as_str()];
        row.splice(DOMAIN_CATALOG..DOMAIN_CATALOG + of_domain.len(), of_domain);
        // A domain over another one is of a type of users, of which nothing more is told.
        if let Some((schema, below)) = catalog.below(&entry.domain) {
            row[DATA_TYPE] = OF_USERS.into();
            row[DATA_TYPE + 1..DOMAIN_CATALOG].fill(NULL);
            row[UDT_SCHEMA] = (&*schema).into();
            row[UDT_SCHEMA + 1] = below.into();
        }
    }
    row
}

/// Places among the columns of `columns`.
const DATA_TYPE: usize = 7;
const DOMAIN_CATALOG: usize = 22;
const UDT_SCHEMA: usize = 26;
/// The type of columns of types that users make.
const OF_USERS: &str = "USER-DEFINED";

/// A row of `domains`.
pub(super) fn domain_row(
    (schema, name): (&str, &str),
    (base, is_over): (DataType, bool),
    default: Option<String>,
    (udt_schema, udt): super::Named,
) -> Vec<Datum> {
    let limits = if is_over { Limits::default() } else { limits(base) };
    let data_type = if is_over { OF_USERS.to_owned() } else { plain_name(base) };
    row![
        DATABASE,
        schema,
        name,
        data_type,
        limits.characters,
        limits.octets,
        NULL,
        NULL,
        NULL,
        NULL,
        NULL,
        NULL,
        limits.precision,
        limits.radix,
        limits.scale,
        limits.datetime,
        limits.fields,
        NULL,
        default,
        DATABASE,
        &*udt_schema,
        udt,
        NULL,
        NULL,
        NULL,
        NULL,
        "1"
    ]
}

/// From `is_identity` on.
fn last_columns(
    counted: Option<(Identity, &SequenceEntry)>,
    generation: Datum,
    is_updatable: bool,
) -> Vec<Datum> {
    let mut columns = identity_columns(counted);
    let is_generated = if generation == NULL { "NEVER" } else { "ALWAYS" };
    columns.extend(row![is_generated, generation, yes_or_no(is_updatable)]);
    columns
}

/// `is_identity` and what follows about it.
fn identity_columns(counted: Option<(Identity, &SequenceEntry)>) -> Vec<Datum> {
    match counted {
        None => row!["NO", NULL, NULL, NULL, NULL, NULL, "NO"],
        Some((identity, sequence)) => {
            let definition = &sequence.definition;
            row![
                "YES",
                match identity {
                    Identity::Always => "ALWAYS",
                    Identity::ByDefault => "BY DEFAULT",
                },
                definition.start.to_string(),
                definition.increment.to_string(),
                definition.maximum.to_string(),
                definition.minimum.to_string(),
                yes_or_no(definition.cycle),
            ]
        }
    }
}

fn column_row(
    catalog: &SystemCatalog,
    (schema, relation, name, position): (&str, &str, &str, usize),
    data_type: DataType,
    default: Datum,
    is_nullable: bool,
    last: Vec<Datum>,
) -> Vec<Datum> {
    let limits = limits(data_type);
    let own = catalog.udt(data_type);
    let (udt_schema, udt) = match &own {
        Some((schema, name)) => (&**schema, name.as_str()),
        None => (super::PG_CATALOG, by_oid(type_of(data_type).0).map_or("", |known| known.name)),
    };
    let number = column_number(position);
    let mut row = row![
        DATABASE,
        schema,
        relation,
        name,
        number,
        default,
        yes_or_no(is_nullable),
        plain_name(data_type),
        limits.characters,
        limits.octets,
        limits.precision,
        limits.radix,
        limits.scale,
        limits.datetime,
        limits.fields,
        NULL,
        NULL,
        NULL,
        NULL,
        NULL,
        NULL,
        NULL,
        NULL,
        NULL,
        NULL,
        DATABASE,
        udt_schema,
        udt,
        NULL,
        NULL,
        NULL,
        NULL,
        number.to_string(),
        "NO",
    ];
    row.extend(last);
    row
}

pub(super) fn table_constraints(catalog: &SystemCatalog) -> Rows {
    let mut rows = Vec::new();
    for table in &catalog.tables {
        let mut push = |name: &str, kind: &str, deferral: (bool, bool), distinct: Datum| {
            rows.push(row![
                DATABASE,
                &*table.schema.name,
                name,
                DATABASE,
                &*table.schema.name,
                table.name.as_str(),
                kind,
                yes_or_no(deferral.0),
                yes_or_no(deferral.1),
                "YES",
                distinct
            ]);
        };
        for constraint in of_table(table) {
            let distinct = match &constraint {
                Constraint::Key(index) if !index.definition.primary => {
                    yes_or_no(!index.definition.style.nulls_are_equal).into()
                }
                _ => NULL,
            };
            let deferral = match &constraint {
                Constraint::ForeignKey(key) => key.deferral(),
                _ => (false, false),
            };
            push(constraint.name(), constraint.kind(), deferral, distinct);
        }
        not_null_checks(table).for_each(|(name, _)| push(&name, "CHECK", (false, false), NULL));
    }
    rows
}

/// The standard takes NOT NULL for a condition; names of these, and the conditions.
fn not_null_checks(table: &TableEntry) -> impl Iterator<Item = (String, String)> {
    let columns = table.columns.iter().enumerate().filter(|(_, column)| !column.definition.nullable);
    columns.map(|(position, column)| {
        let name = format!("{}_{}_{}_not_null", table.schema.oid, table.oid, position + 1);
        (name, format!("{} IS NOT NULL", super::quoting::quote_ident(&column.definition.name)))
    })
}

pub(super) fn check_constraints(catalog: &SystemCatalog) -> Rows {
    let mut rows = Vec::new();
    for table in &catalog.tables {
        let declared = table.checks.iter().map(|check| (check.name.clone(), format!("(({}))", check.text)));
        rows.extend(
            declared
                .chain(not_null_checks(table))
                .map(|(name, clause)| row![DATABASE, &*table.schema.name, name, clause]),
        );
    }
    rows.extend(super::domains::check_constraints(catalog));
    rows
}

pub(super) fn key_column_usage(catalog: &SystemCatalog) -> Rows {
    let mut rows = Vec::new();
    for table in &catalog.tables {
        for constraint in of_table(table).filter(|constraint| constraint.kind() != "CHECK") {
            let columns = constraint.columns().iter().enumerate();
            rows.extend(columns.map(|(position, &column)| {
                let place = match &constraint {
                    Constraint::ForeignKey(key) => place_in_key(catalog, key, position),
                    _ => NULL,
                };
                row![
                    DATABASE,
                    &*table.schema.name,
                    constraint.name(),
                    DATABASE,
                    &*table.schema.name,
                    table.name.as_str(),
                    table.column_name(column),
                    column_number(position),
                    place
                ]
            }));
        }
    }
    rows
}

/// The place of a foreign key's column in the key that it refers to.
fn place_in_key(catalog: &SystemCatalog, key: &ForeignKeyEntry, position: usize) -> Datum {
    let parent = catalog.tables.iter().find(|table| table.oid == key.parent_oid);
    let index = parent.and_then(|parent| parent.indexes.iter().find(|index| index.oid == key.key_oid));
    let place = index.and_then(|index| {
        index.definition.columns.iter().position(|column| *column == key.parent_columns[position])
    });
    place.map_or(NULL, |place| column_number(place).into())
}

/// Foreign keys, with the keys that they refer to.
pub(super) fn referential_constraints(catalog: &SystemCatalog) -> Rows {
    let mut rows = Vec::new();
    for table in &catalog.tables {
        rows.extend(table.foreign_keys.iter().map(|key| {
            let definition = &key.definition;
            row![
                DATABASE,
                &*table.schema.name,
                definition.name.as_str(),
                DATABASE,
                &*key.parent_schema,
                key.key.as_str(),
                if definition.is_full { "FULL" } else { "NONE" },
                action_name(definition.on_update),
                action_name(definition.on_delete)
            ]
        }));
    }
    rows
}

pub(super) fn constraint_column_usage(catalog: &SystemCatalog) -> Rows {
    let mut rows = Vec::new();
    for table in &catalog.tables {
        for constraint in of_table(table) {
            let schema = &*table.schema.name;
            let used: Vec<(&str, &str, &str)> = match &constraint {
                Constraint::ForeignKey(key) => {
                    let columns = key.parent_names.iter();
                    columns
                        .map(|column| (&*key.parent_schema, key.parent.as_str(), column.as_str()))
                        .collect()
                }
                own => {
                    let columns = own.columns().iter();
                    columns.map(|&column| (schema, table.name.as_str(), table.column_name(column))).collect()
                }
            };
            rows.extend(used.into_iter().map(|(of, table, column)| {
                row![DATABASE, of, table, column, DATABASE, schema, constraint.name()]
            }));
        }
    }
    rows
}

/// Tables that keys belong to.
pub(super) fn constraint_table_usage(catalog: &SystemCatalog) -> Rows {
    let mut rows = Vec::new();
    for table in &catalog.tables {
        let keys = of_table(table).filter(|constraint| constraint.kind() != "CHECK");
        rows.extend(keys.map(|key| {
            let schema = &*table.schema.name;
            let (of, used) = match &key {
                Constraint::ForeignKey(key) => (&*key.parent_schema, key.parent.as_str()),
                _ => (schema, table.name.as_str()),
            };
            row![DATABASE, of, used, DATABASE, schema, key.name()]
        }));
    }
    rows
}

pub(super) fn sequences(catalog: &SystemCatalog) -> Rows {
    // Those of identity columns are a part of these.
    let own = catalog.sequences.iter().filter(|entry| {
        super::sequences::owner(catalog, entry).is_none_or(|(table, column)| {
            table.columns.get(column).is_none_or(|column| column.definition.identity.is_none())
        })
    });
    let sequence = |entry: &SequenceEntry| {
        let definition = &entry.definition;
        row![
            DATABASE,
            &*entry.schema.name,
            definition.name.as_str(),
            definition.data_type.to_string(),
            limits(definition.data_type).precision,
            2,
            0,
            definition.start.to_string(),
            definition.minimum.to_string(),
            definition.maximum.to_string(),
            definition.increment.to_string(),
            yes_or_no(definition.cycle),
        ]
    };
    own.map(sequence).collect()
}

/// The owner may do everything with every table.
pub(super) fn table_privileges(catalog: &SystemCatalog) -> Rows {
    const PRIVILEGES: [&str; 7] =
        ["INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"];
    let of_table = |table: &TableEntry| {
        PRIVILEGES.map(|privilege| {
            let hierarchy = yes_or_no(privilege == "SELECT");
            row![
                OWNER,
                OWNER,
                DATABASE,
                &*table.schema.name,
                table.name.as_str(),
                privilege,
                "YES",
                hierarchy
            ]
        })
    };
    catalog.tables.iter().flat_map(of_table).collect()
}
