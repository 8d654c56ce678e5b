//! The system catalog: `pg_catalog` and `information_schema`, computed from the [`Catalog`] that a statement is planned with.
//!
//! A [`SystemCatalog`] describes the tables, indexes, constraints and sequences of one catalog, each with its number. A relation
//! of the system catalog is a [`Definition`]: names and types of columns, and a function that makes its rows of such a
//! description. Nothing is stored, so nothing has to be kept in step with the tables. See docs/design/system-catalog.md.
//!
//! ```text
//! Catalog -- describe --> SystemCatalog -- Definition::rows --> rows of pg_class, pg_attribute, ...
//!                               └──────── functions --> pg_get_indexdef(oid), 't'::regclass, ...
//! ```
//! A description keeps no table alive: what it knows of rows and memory it asks the tables for that still exist when a query
//! runs.
//!
//! Not here: what a session has (settings, temporary objects), and how rows become batches (`olap/system.rs`).

mod casts;
mod catalog_relations;
mod classes;
mod comments;
mod constraints;
mod default_text;
mod definition;
mod domains;
mod extensions;
mod functions;
mod list;
mod live;
mod live_relations;
mod objects;
pub(crate) mod oids;
mod operator_classes;
mod quoting;
mod ranges;
mod row_types;
mod sequences;
mod settings;
mod standard;
mod standard_relations;
mod type_functions;
mod types;
mod user_types;
mod views;

pub(crate) use extensions::is_known as is_known_extension;
pub(crate) use functions::{SystemFunction, by_name as function, names as function_names};
pub(crate) use list::shown_list;
pub(crate) use operator_classes::{operator_class, sortable_collation};
pub(crate) use quoting::{quote_ident, quote_literal};
pub(crate) use sequences::{sequence_columns, sequence_row};
pub(crate) use types::is_of_one_length;

use crate::activity::Live;
use crate::updatable::written_columns;
use ankerdb_engine::{
    Catalog, ColumnDefinition, DataType, ForeignKey, IndexDefinition, ListType, ObjectKind, PUBLIC,
    Reference, RelationName, Schema, SchemaId, SearchPath, Sequence, SequenceDefinition, SystemType, Table,
    View,
};
use oids::{ObjectKey, Oids};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

pub(crate) const PG_CATALOG: &str = "pg_catalog";
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

/// Numbers of schemas, as PostgreSQL has them.
const PG_CATALOG_OID: u32 = 11;
const PUBLIC_OID: u32 = 2200;
const INFORMATION_SCHEMA_OID: u32 = 13_207;

/// A value in a row of a relation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Datum {
    Null,
    Boolean(bool),
    /// Of any integer type, and numbers of objects.
    Integer(i64),
    Float(f64),
    Text(String),
    /// A `timestamptz`: microseconds since 1970-01-01 UTC.
    Moment(i64),
    /// An `interval` of so many microseconds.
    Span(i64),
    Integers(Vec<i64>),
    Texts(Vec<String>),
}

macro_rules! datum_from {
    ($($from:ty => |$value:ident| $datum:expr;)*) => {
        $(impl From<$from> for Datum {
            fn from($value: $from) -> Datum {
                $datum
            }
        })*
    };
}

datum_from! {
    bool => |value| Datum::Boolean(value);
    u32 => |value| Datum::Integer(i64::from(value));
    i32 => |value| Datum::Integer(i64::from(value));
    i64 => |value| Datum::Integer(value);
    usize => |value| Datum::Integer(i64::try_from(value).unwrap_or(i64::MAX));
    f64 => |value| Datum::Float(value);
    &str => |value| Datum::Text(value.to_owned());
    String => |value| Datum::Text(value);
    Vec<i64> => |value| Datum::Integers(value);
    Vec<String> => |value| Datum::Texts(value);
}

impl<T: Into<Datum>> From<Option<T>> for Datum {
    fn from(value: Option<T>) -> Datum {
        value.map_or(Datum::Null, Into::into)
    }
}

/// A row of values that become [`Datum`]s.
macro_rules! row {
    ($($value:expr),* $(,)?) => { vec![$($crate::system::Datum::from($value)),*] };
}
use row;

/// NULL, in a row.
const NULL: Datum = Datum::Null;

/// What a relation's function makes.
type Rows = Vec<Vec<Datum>>;

/// A relation of the system catalog.
pub(crate) struct Definition {
    name: &'static str,
    oid: u32,
    is_view: bool,
    /// Names and types, parted by commas.
    columns: &'static str,
    rows: fn(&SystemCatalog) -> Rows,
}

/// The rows of what AnKerDB does not have.
fn nothing(_: &SystemCatalog) -> Rows {
    Vec::new()
}

/// A column of a relation.
#[derive(Clone, Debug)]
pub(crate) struct SystemColumn {
    pub name: &'static str,
    pub data_type: DataType,
}

/// A relation with its columns read.
pub(crate) struct SystemRelation {
    definition: &'static Definition,
    schema: &'static str,
    columns: Vec<SystemColumn>,
}

impl SystemRelation {
    pub(crate) fn name(&self) -> &'static str {
        self.definition.name
    }

    pub(crate) fn oid(&self) -> u32 {
        self.definition.oid
    }

    pub(crate) fn is_view(&self) -> bool {
        self.definition.is_view
    }

    pub(crate) fn columns(&self) -> &[SystemColumn] {
        &self.columns
    }

    /// Whether it shows what a session shows to itself alone.
    pub(crate) fn is_of_session(&self) -> bool {
        live_relations::OF_SESSION.contains(&self.definition.name)
    }

    /// Its rows, of as many values as there are columns. Costs the making of all rows.
    pub(crate) fn rows(&self, catalog: &SystemCatalog) -> Vec<Vec<Datum>> {
        (self.definition.rows)(catalog)
    }
}

/// All relations, by schema.
fn relations() -> &'static [SystemRelation] {
    static RELATIONS: LazyLock<Vec<SystemRelation>> = LazyLock::new(|| {
        let read = |schema| {
            move |definition: &'static Definition| SystemRelation {
                definition,
                schema,
                columns: columns(definition.columns),
            }
        };
        let catalog =
            catalog_relations::RELATIONS.iter().chain(live_relations::RELATIONS).map(read(PG_CATALOG));
        catalog.chain(standard_relations::RELATIONS.iter().map(read(INFORMATION_SCHEMA))).collect()
    });
    &RELATIONS
}

/// The relation of one of the system's schemas.
pub(crate) fn relation(schema: &str, name: &str) -> Option<&'static SystemRelation> {
    relations().iter().find(|relation| relation.schema == schema && relation.name() == name)
}

fn columns(text: &'static str) -> Vec<SystemColumn> {
    let column = |text: &'static str| {
        let (name, declared) = text.trim().split_once(' ').unwrap_or((text, "text"));
        SystemColumn { name, data_type: column_type(declared) }
    };
    text.split(',').map(column).collect()
}

/// What a declared type of PostgreSQL's catalog is here.
fn column_type(declared: &str) -> DataType {
    use DataType::System;
    use SystemType::{List, Object};
    match declared {
        "bool" => DataType::Boolean,
        "int2" => DataType::SmallInt,
        "int4" | "cardinal_number" => DataType::Integer,
        "int8" | "xid" => DataType::BigInt,
        "float4" => DataType::Real,
        "float8" => DataType::DoublePrecision,
        "oid" => System(SystemType::Oid),
        "name" => System(SystemType::Name),
        "\"char\"" => System(SystemType::Char),
        "regproc" => System(Object(ObjectKind::Function)),
        "regtype" => System(Object(ObjectKind::Type)),
        "timestamptz" | "time_stamp" => DataType::TIMESTAMPTZ,
        "interval" => DataType::INTERVAL,
        "int2vector" => System(List(ListType::SmallIntVector)),
        "oidvector" => System(List(ListType::OidVector)),
        "int2[]" => System(List(ListType::SmallInt)),
        "oid[]" | "regtype[]" => System(List(ListType::Oid)),
        "name[]" => System(List(ListType::Name)),
        "\"char\"[]" => System(List(ListType::Char)),
        "text[]" | "aclitem[]" | "anyarray" => System(List(ListType::Text)),
        "character_data" => DataType::ANY_VARCHAR,
        "yes_or_no" => DataType::Varchar(3),
        // Texts, and types that have no values here: trees of expressions, addresses, bytes.
        _ => DataType::Text,
    }
}

/// One catalog, described.
#[derive(Debug)]
pub(crate) struct SystemCatalog {
    tables: Vec<TableEntry>,
    views: Vec<ViewEntry>,
    sequences: Vec<SequenceEntry>,
    types: Vec<user_types::TypeEntry>,
    domains: Vec<domains::DomainEntry>,
    comments: comments::Comments,
    /// Schemas that relations of users may be in.
    schemas: Vec<SchemaEntry>,
    schema_names: HashMap<SchemaId, Arc<str>>,
    /// Where names without a schema are looked for.
    path: Arc<SearchPath>,
    /// Names of relations, by number, and numbers by name.
    names: HashMap<u32, Named>,
    oids: HashMap<Named, u32>,
    /// What changes while the definitions stay what they are.
    live: Live,
}

/// The names of a schema and of a relation in it.
type Named = (Arc<str>, String);

/// A schema.
#[derive(Clone, Debug)]
struct SchemaEntry {
    oid: u32,
    name: Arc<str>,
}

impl SchemaEntry {
    /// Whether what is in it is temporary.
    fn is_temporary(&self) -> bool {
        self.name.starts_with("pg_temp_")
    }
}

/// A table.
#[derive(Debug)]
struct TableEntry {
    oid: u32,
    schema: SchemaEntry,
    name: String,
    columns: Vec<ColumnEntry>,
    indexes: Vec<IndexEntry>,
    checks: Vec<CheckEntry>,
    foreign_keys: Vec<ForeignKeyEntry>,
    is_referenced: bool,
    /// What it shows, if it is a materialized view, and whether it does.
    materialized: Option<(View, bool)>,
    table: Weak<Table>,
}

/// A view.
#[derive(Debug)]
struct ViewEntry {
    oid: u32,
    schema: SchemaEntry,
    view: Arc<View>,
    /// Which of its columns can be written, if rows can be deleted through it.
    written: Option<Vec<bool>>,
}

impl ViewEntry {
    /// Whether rows can be inserted and changed through it.
    fn is_written(&self) -> bool {
        self.written.as_ref().is_some_and(|columns| columns.contains(&true))
    }
}

#[derive(Debug)]
struct ColumnEntry {
    definition: ColumnDefinition,
    /// The number of its default.
    default_oid: Option<u32>,
}

#[derive(Debug)]
struct IndexEntry {
    oid: u32,
    definition: IndexDefinition,
    /// The number of its constraint.
    constraint_oid: Option<u32>,
}

#[derive(Debug)]
struct CheckEntry {
    oid: u32,
    name: String,
    text: String,
    is_validated: bool,
    columns: Vec<usize>,
}

/// A foreign key, on the side of the table that has it.
#[derive(Debug)]
struct ForeignKeyEntry {
    oid: u32,
    definition: ForeignKey,
    parent_oid: u32,
    parent_schema: Box<str>,
    parent: String,
    /// The parent's name, with its schema where it is not found without.
    parent_shown: String,
    /// Positions of the parent's columns, and their names.
    parent_columns: Vec<usize>,
    parent_names: Vec<String>,
    /// The parent's index over them, and its number.
    key: String,
    key_oid: u32,
}

#[derive(Debug)]
struct SequenceEntry {
    oid: u32,
    schema: SchemaEntry,
    definition: SequenceDefinition,
    sequence: Weak<Sequence>,
}

impl SystemCatalog {
    /// Describes the catalog. Costs a copy of all definitions.
    pub(crate) fn describe(catalog: &Catalog, oids: &Oids, live: Live) -> SystemCatalog {
        let mut oids = oids.lock();
        let schemas: HashMap<SchemaId, SchemaEntry> =
            catalog.schemas().map(|schema| (schema.id, describe_schema(schema, &mut oids))).collect();
        // Temporary relations of other sessions are in none of them.
        let schema = |id: SchemaId| schemas.get(&id).cloned();
        let table = |table: &Arc<Table>| {
            Some(describe_table(catalog, table, schema(table.definition().schema)?, &mut oids))
        };
        let tables: Vec<TableEntry> = catalog.tables().filter_map(table).collect();
        let sequence = |sequence: &Arc<Sequence>| {
            Some(SequenceEntry {
                schema: schema(sequence.definition().schema)?,
                oid: oids.of(ObjectKey::Sequence(sequence.full_name()), || sequence.into()),
                definition: sequence.definition().clone(),
                sequence: Arc::downgrade(sequence),
            })
        };
        let sequences: Vec<SequenceEntry> = catalog.sequences().filter_map(sequence).collect();
        let view = |view: &Arc<View>| {
            Some(ViewEntry {
                schema: schema(view.schema)?,
                oid: oids.of(ObjectKey::View(view.full_name()), || view.into()),
                view: view.clone(),
                written: written_columns(view, catalog),
            })
        };
        let views: Vec<ViewEntry> = catalog.views().filter_map(view).collect();
        let types = user_types::describe(catalog, schema);
        let domains = domains::describe(catalog, schema);
        let schema_names = schemas.iter().map(|(id, schema)| (*id, schema.name.clone())).collect();
        let mut schemas: Vec<SchemaEntry> = schemas.into_values().collect();
        schemas.sort_by_key(|schema| schema.oid);
        let path = catalog.path().clone();
        let comments = comments::describe(catalog, &mut oids);
        let (names, oids) = (HashMap::new(), HashMap::new());
        let mut described = SystemCatalog {
            tables,
            views,
            sequences,
            types,
            domains,
            comments,
            schemas,
            schema_names,
            path,
            names,
            oids,
            live,
        };
        described.show_types();
        let names = described.all_names();
        let oids = names.iter().map(|(oid, name)| (name.clone(), *oid)).collect();
        SystemCatalog { names, oids, ..described }
    }

    /// A text that is kept, with the names of types and domains.
    fn with_shown_types(&self, text: &str) -> String {
        self.shown_domains(&self.shown_types(text))
    }

    /// Puts the names of types in texts that name them by numbers.
    fn show_types(&mut self) {
        if self.types.is_empty() && self.domains.is_empty() {
            return;
        }
        let mut tables = std::mem::take(&mut self.tables);
        for table in &mut tables {
            for column in table.columns.iter_mut().map(|column| &mut column.definition) {
                let computed = column.generation.as_mut().map(|how| &mut how.text);
                column
                    .default
                    .as_mut()
                    .into_iter()
                    .chain(computed)
                    .for_each(|text| *text = self.shown_domains(&self.shown_types(text)));
            }
            table
                .checks
                .iter_mut()
                .for_each(|check| check.text = self.shown_domains(&self.shown_types(&check.text)));
        }
        self.tables = tables;
    }

    fn all_names(&self) -> HashMap<u32, Named> {
        let named =
            |oid: u32, schema: &SchemaEntry, name: &str| (oid, (schema.name.clone(), name.to_owned()));
        let tables = self.tables.iter().map(|table| named(table.oid, &table.schema, &table.name));
        let indexes =
            self.indexes().map(|(table, index)| named(index.oid, &table.schema, &index.definition.name));
        let views = self.views.iter().map(|entry| named(entry.oid, &entry.schema, &entry.view.name));
        let sequences =
            self.sequences.iter().map(|entry| named(entry.oid, &entry.schema, &entry.definition.name));
        tables.chain(indexes).chain(views).chain(sequences).collect()
    }

    fn table(&self, oid: u32) -> Option<&TableEntry> {
        self.tables.iter().find(|table| table.oid == oid)
    }

    fn table_by_name(&self, schema: &str, name: &str) -> Option<&TableEntry> {
        self.tables.iter().find(|table| &*table.schema.name == schema && table.name == name)
    }

    fn index(&self, oid: u32) -> Option<(&TableEntry, &IndexEntry)> {
        self.indexes().find(|(_, index)| index.oid == oid)
    }

    /// All indexes, with their tables.
    fn indexes(&self) -> impl Iterator<Item = (&TableEntry, &IndexEntry)> {
        self.tables.iter().flat_map(|table| table.indexes.iter().map(move |index| (table, index)))
    }

    /// The number of the relation with that name, in a schema or where names without one are looked for.
    fn relation_oid(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        match schema {
            Some(schema) => self.oid_in(schema, name),
            None => self.path.searched.iter().find_map(|schema| self.oid_in(schema, name)),
        }
    }

    fn oid_in(&self, schema: &str, name: &str) -> Option<u32> {
        if let Some(relation) = relation(schema, name) {
            return Some(relation.definition.oid);
        }
        let schema = match (schema, &self.path.temporary) {
            ("pg_temp", Some(temporary)) => temporary,
            _ => schema,
        };
        self.oids.get(&(schema.into(), name.to_owned())).copied()
    }

    /// Schema and name of the relation.
    fn relation_name(&self, oid: u32) -> Option<(&str, &str)> {
        if let Some((schema, name)) = self.names.get(&oid) {
            return Some((schema, name));
        }
        let relation = relations().iter().find(|relation| relation.definition.oid == oid)?;
        Some((relation.schema, relation.name()))
    }

    /// The name of a relation as SQL has to write it: with its schema where it is not found without.
    fn shown_name(&self, schema: &str, name: &str) -> String {
        let visible = self.relation_oid(None, name);
        match visible.is_some() && visible == self.oid_in(schema, name) {
            true => quoting::quote_ident(name),
            false => format!("{}.{}", quoting::quote_ident(schema), quoting::quote_ident(name)),
        }
    }

    /// All schemas with their numbers, those of the system among them.
    fn all_schemas(&self) -> impl Iterator<Item = (u32, &str)> {
        objects::SYSTEM_SCHEMAS
            .iter()
            .copied()
            .chain(self.schemas.iter().map(|schema| (schema.oid, &*schema.name)))
    }
}

impl TableEntry {
    fn column_name(&self, position: usize) -> &str {
        self.columns.get(position).map_or("", |column| column.definition.name.as_str())
    }

    /// The table, if it still exists.
    fn table(&self) -> Option<Arc<Table>> {
        self.table.upgrade()
    }
}

/// A number of a column: from 1.
fn column_number(position: usize) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX - 1) + 1
}

fn describe_schema(schema: &Arc<Schema>, oids: &mut oids::AssignedOids) -> SchemaEntry {
    let oid = match schema.name.as_str() {
        PUBLIC if schema.id == SchemaId::PUBLIC => PUBLIC_OID,
        _ => oids.of(ObjectKey::Schema(schema.id), || schema.into()),
    };
    SchemaEntry { oid, name: schema.name.as_str().into() }
}

fn describe_table(
    catalog: &Catalog,
    table: &Arc<Table>,
    schema: SchemaEntry,
    oids: &mut oids::AssignedOids,
) -> TableEntry {
    let id = table.origin();
    let mut oid = |key: ObjectKey| oids.of(key, || table.into());
    let column = |(position, definition): (usize, &ColumnDefinition)| {
        let mut definition = definition.clone();
        // The default of its domain is that of the domain alone.
        definition.default =
            definition.default.filter(|_| !definition.domain.is_some_and(|of| of.gives_default));
        // What computes a column is kept where defaults are, as in PostgreSQL.
        let has_default = definition.default.is_some() || definition.generation.is_some();
        let default_oid = has_default.then(|| oid(ObjectKey::Default(id, position)));
        ColumnEntry { definition, default_oid }
    };
    let columns = table.columns().iter().enumerate().map(column).collect();
    let mut index = |definition: &IndexDefinition| {
        let name = definition.name.clone();
        let constraint = definition.is_constraint.then(|| oid(ObjectKey::Constraint(id, name.clone())));
        IndexEntry {
            oid: oid(ObjectKey::Index(id, name)),
            definition: definition.clone(),
            constraint_oid: constraint,
        }
    };
    let indexes = catalog.indexes_of(table).map(|found| index(found.definition())).collect();
    let check = |check: &ankerdb_engine::Check| CheckEntry {
        oid: oid(ObjectKey::Constraint(id, check.name.clone())),
        name: check.name.clone(),
        text: check.text.clone(),
        is_validated: check.is_validated,
        columns: (0..table.columns().len()).filter(|&column| check.columns.contains(column)).collect(),
    };
    let checks = table.checks().iter().filter(|check| !crate::domains::is_check(&check.name));
    let checks = checks.map(check).collect();
    let foreign_keys = table.definition().foreign_keys.iter();
    let foreign_keys =
        foreign_keys.filter_map(|key| describe_foreign_key(catalog, table, key, oids)).collect();
    let is_populated =
        table.definition().materialized.as_ref().is_some_and(|materialized| materialized.is_populated);
    TableEntry {
        oid: oids.of(ObjectKey::Table(id), || table.into()),
        schema,
        name: table.name().to_owned(),
        columns,
        indexes,
        checks,
        foreign_keys,
        is_referenced: !table.definition().referenced_by.is_empty(),
        materialized: View::of_table(table).map(|view| (view, is_populated)),
        table: Arc::downgrade(table),
    }
}

fn describe_foreign_key(
    catalog: &Catalog,
    table: &Arc<Table>,
    key: &ForeignKey,
    oids: &mut oids::AssignedOids,
) -> Option<ForeignKeyEntry> {
    let parent = catalog.by_origin(key.parent)?;
    let is_side = |side: &&Reference| side.child == table.origin() && side.name == key.name;
    let side = parent.definition().referenced_by.iter().find(is_side)?;
    let columns = &side.columns;
    let mut keys = catalog.indexes_of(&parent).map(|index| index.definition());
    let index = keys.find(|index| {
        index.unique
            && index.columns.len() == columns.len()
            && index.columns.iter().all(|at| columns.contains(at))
    })?;
    let id = parent.origin();
    let shown = match catalog.lookup(parent.name()) == Some(RelationName::of(&parent)) {
        true => quoting::quote_ident(parent.name()),
        false => crate::name::full_name(catalog.schema_of(&parent), parent.name()),
    };
    Some(ForeignKeyEntry {
        oid: oids.of(ObjectKey::Constraint(table.origin(), key.name.clone()), || table.into()),
        definition: key.clone(),
        parent_oid: oids.of(ObjectKey::Table(id), || (&parent).into()),
        parent_schema: catalog.schema_of(&parent).into(),
        parent: parent.name().to_owned(),
        parent_shown: shown,
        parent_columns: columns.clone(),
        parent_names: columns.iter().map(|&column| parent.columns()[column].name.clone()).collect(),
        key: index.name.clone(),
        key_oid: oids.of(ObjectKey::Index(id, index.name.clone()), || (&parent).into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_relation_has_its_own_number_and_name() {
        let mut seen = HashSet::new();
        for relation in relations() {
            assert!(seen.insert(relation.definition.oid.to_string()), "{}", relation.name());
            assert!(seen.insert(format!("{}.{}", relation.schema, relation.name())));
        }
    }
}
