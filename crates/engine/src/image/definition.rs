//! Definitions of tables as bytes.
//!
//! What computes something comes from texts, which are bound again by whoever knows their language; so a [`TableImage`] has a definition
//! without that, and the texts.

use super::bytes::{ByteReader, Fields, Writer, damaged};
use super::key::{name as relation_name, push_name};
use super::types::{StoredTypes, push_type, push_value};
use crate::schema::RelationName;
use ankerdb_base::{DatabaseId, Result, TableId};
use ankerdb_table::{
    ColumnDefinition, ColumnDomain, ColumnText, ConstraintTiming, Derivation, ForeignKey, Identity, Index,
    IndexDefinition, IndexKind, IndexStyle, KeyStyle, Materialized, OnCommit, ReadColumn, ReadRelation,
    Reference, ReferentialAction, Table, TableDefinition,
};
use std::sync::Arc;

/// A condition that is to be bound.
pub(super) struct CheckText {
    pub name: String,
    pub text: String,
    pub is_validated: bool,
}

/// How an index computes its keys, to be bound.
pub(super) struct DerivationText {
    /// Which of the table's indexes.
    pub index: usize,
    pub parts: Vec<ColumnText>,
    pub predicate: Option<ColumnText>,
}

/// A table as it is read.
pub(super) struct TableImage {
    pub number: u32,
    /// Without checks, without what computes columns and keys, and with domains of version 0.
    pub definition: TableDefinition,
    pub checks: Vec<CheckText>,
    pub generations: Vec<(usize, String)>,
    pub derivations: Vec<DerivationText>,
}

/// Checks whose names begin so are made anew with what they come from.
const UNSEEN: char = '\0';

mod table {
    pub(super) const NUMBER: u8 = 1;
    pub(super) const NAME: u8 = 2;
    pub(super) const COLUMN: u8 = 3;
    pub(super) const INDEX: u8 = 4;
    pub(super) const CHECK: u8 = 5;
    pub(super) const FOREIGN_KEY: u8 = 6;
    pub(super) const REFERENCE: u8 = 7;
    pub(super) const QUERY: u8 = 8;
    pub(super) const LAST: u8 = QUERY;
}

mod column {
    pub(super) const NAME: u8 = 1;
    pub(super) const TYPE: u8 = 2;
    pub(super) const NULLABLE: u8 = 3;
    pub(super) const DEFAULT: u8 = 4;
    pub(super) const IDENTITY: u8 = 5;
    pub(super) const GENERATION: u8 = 6;
    pub(super) const DOMAIN: u8 = 7;
    pub(super) const COLLATION: u8 = 8;
    pub(super) const LAST: u8 = COLLATION;
}

mod index {
    pub(super) const NAME: u8 = 1;
    pub(super) const COLUMNS: u8 = 2;
    pub(super) const PART: u8 = 3;
    pub(super) const PREDICATE: u8 = 4;
    pub(super) const UNIQUE: u8 = 5;
    pub(super) const PRIMARY: u8 = 6;
    pub(super) const CONSTRAINT: u8 = 7;
    pub(super) const HASH: u8 = 8;
    pub(super) const KEY: u8 = 9;
    pub(super) const INCLUDED: u8 = 10;
    pub(super) const OPTION: u8 = 11;
    pub(super) const NULLS_ARE_EQUAL: u8 = 12;
    pub(super) const LAST: u8 = NULLS_ARE_EQUAL;
}

mod key_style {
    pub(super) const COLLATION: u8 = 1;
    pub(super) const CLASS: u8 = 2;
    pub(super) const DESCENDING: u8 = 3;
    pub(super) const NULLS_FIRST: u8 = 4;
    pub(super) const LAST: u8 = NULLS_FIRST;
}

mod check {
    pub(super) const NAME: u8 = 1;
    pub(super) const TEXT: u8 = 2;
    pub(super) const VALIDATED: u8 = 3;
    pub(super) const LAST: u8 = VALIDATED;
}

mod foreign_key {
    pub(super) const NAME: u8 = 1;
    pub(super) const COLUMNS: u8 = 2;
    pub(super) const PARENT: u8 = 3;
    pub(super) const ACTIONS: u8 = 4;
    pub(super) const SET_COLUMNS: u8 = 5;
    pub(super) const DEFAULT: u8 = 6;
    pub(super) const FULL: u8 = 7;
    pub(super) const TIMING: u8 = 8;
    pub(super) const VALIDATED: u8 = 9;
    pub(super) const LAST: u8 = VALIDATED;
}

mod query {
    pub(super) const TEXT: u8 = 1;
    pub(super) const READS: u8 = 2;
    pub(super) const POPULATED: u8 = 3;
    pub(super) const LAST: u8 = POPULATED;
}

mod read {
    pub(super) const NAME: u8 = 1;
    pub(super) const COLUMN: u8 = 2;
    pub(super) const LAST: u8 = COLUMN;
}

const ACTIONS: [ReferentialAction; 5] = [
    ReferentialAction::NoAction,
    ReferentialAction::Restrict,
    ReferentialAction::Cascade,
    ReferentialAction::SetNull,
    ReferentialAction::SetDefault,
];
const TIMINGS: [ConstraintTiming; 3] =
    [ConstraintTiming::Immediate, ConstraintTiming::Deferrable, ConstraintTiming::Deferred];

fn place<T: PartialEq>(all: &[T], one: &T) -> u8 {
    all.iter().position(|known| known == one).unwrap_or_default() as u8
}

fn at<T: Copy>(all: &[T], reader: &mut ByteReader<'_>) -> Result<T> {
    all.get(usize::from(reader.byte()?)).copied().ok_or_else(|| damaged("a choice is unknown"))
}

/// Writes a table that has these indexes.
pub(super) fn push_table(out: &mut Writer, known: &Table, indexes: &[Arc<Index>]) {
    let definition = known.definition();
    debug_assert!(definition.on_commit == OnCommit::Preserve, "tables of sessions are not written");
    out.field(table::NUMBER, |out| out.u32(known.id().number()));
    out.field(table::NAME, |out| push_name(out, &RelationName::of(known)));
    out.each(table::COLUMN, &definition.columns, push_column);
    out.each(table::INDEX, indexes, |out, index| push_index(out, index.definition()));
    let checks = definition.checks.iter().filter(|check| !check.name.starts_with(UNSEEN));
    out.each(table::CHECK, checks, |out, known| {
        push_check(out, &known.name, &known.text, known.is_validated)
    });
    out.each(table::FOREIGN_KEY, &definition.foreign_keys, push_foreign_key);
    out.each(table::REFERENCE, &definition.referenced_by, |out, side| {
        out.text(&side.name);
        out.u32(side.child.number());
        out.places(&side.columns);
    });
    out.optional(table::QUERY, definition.materialized.as_ref(), |out, materialized| {
        out.field(query::TEXT, |out| out.sql(&materialized.query));
        push_reads(out, query::READS, &materialized.reads);
        out.flag(query::POPULATED, materialized.is_populated);
    });
}

pub(super) fn push_column(out: &mut Writer, known: &ColumnDefinition) {
    out.field(column::NAME, |out| out.text(&known.name));
    out.field(column::TYPE, |out| push_type(out, known.data_type));
    out.flag(column::NULLABLE, known.nullable);
    out.optional(column::DEFAULT, known.default.as_ref(), |out, text| out.sql(text));
    out.optional(column::IDENTITY, known.identity, |out, identity| {
        out.byte(u8::from(identity == Identity::Always));
    });
    out.optional(column::GENERATION, known.generation.as_ref(), |out, how| out.sql(&how.text));
    out.optional(column::DOMAIN, known.domain, |out, domain| {
        out.u32(domain.identity.oid());
        out.byte(u8::from(domain.gives_default));
    });
    out.optional(column::COLLATION, known.collation.as_ref(), |out, name| out.text(name));
}

fn push_index(out: &mut Writer, known: &IndexDefinition) {
    out.field(index::NAME, |out| out.text(&known.name));
    out.field(index::COLUMNS, |out| out.places(&known.columns));
    if let Some(Derivation { parts, predicate, .. }) = known.derivation.as_deref() {
        out.each(index::PART, parts, push_column_text);
        out.optional(index::PREDICATE, predicate.as_ref(), push_column_text);
    }
    out.flag(index::UNIQUE, known.unique);
    out.flag(index::PRIMARY, known.primary);
    out.flag(index::CONSTRAINT, known.is_constraint);
    out.flag(index::HASH, known.kind == IndexKind::Hash);
    let IndexStyle { keys, included, options, nulls_are_equal } = &known.style;
    out.each(index::KEY, keys, |out, style| {
        out.optional(key_style::COLLATION, style.collation.as_ref(), |out, name| out.text(name));
        out.optional(key_style::CLASS, style.class.as_ref(), |out, name| out.text(name));
        out.flag(key_style::DESCENDING, style.descending);
        out.flag(key_style::NULLS_FIRST, style.nulls_first);
    });
    out.field(index::INCLUDED, |out| out.places(included));
    push_options(out, index::OPTION, options);
    out.flag(index::NULLS_ARE_EQUAL, *nulls_are_equal);
}

pub(super) fn push_options(out: &mut Writer, tag: u8, options: &[(String, String)]) {
    out.each(tag, options, |out, (name, value)| {
        out.text(name);
        out.text(value);
    });
}

pub(super) fn options(fields: &Fields<'_>, tag: u8) -> Result<Vec<(String, String)>> {
    fields.each(tag, |reader| Ok((reader.string()?, reader.string()?)))
}

fn push_column_text(out: &mut Writer, text: &ColumnText) {
    let (texts, columns) = text.parts();
    for (place, text) in texts.iter().enumerate() {
        if place > 0 {
            out.place(columns[place - 1]);
        }
        out.sql(text);
    }
}

pub(super) fn push_check(out: &mut Writer, name: &str, text: &str, is_validated: bool) {
    out.field(check::NAME, |out| out.text(name));
    out.field(check::TEXT, |out| out.sql(text));
    out.flag(check::VALIDATED, is_validated);
}

fn push_foreign_key(out: &mut Writer, key: &ForeignKey) {
    out.field(foreign_key::NAME, |out| out.text(&key.name));
    out.field(foreign_key::COLUMNS, |out| out.places(&key.columns));
    out.field(foreign_key::PARENT, |out| out.u32(key.parent.number()));
    out.field(foreign_key::ACTIONS, |out| {
        out.fixed(&[place(&ACTIONS, &key.on_delete), place(&ACTIONS, &key.on_update)]);
    });
    out.field(foreign_key::SET_COLUMNS, |out| out.places(&key.set_columns));
    out.each(foreign_key::DEFAULT, &key.defaults, push_value);
    out.flag(foreign_key::FULL, key.is_full);
    out.field(foreign_key::TIMING, |out| out.byte(place(&TIMINGS, &key.timing)));
    out.flag(foreign_key::VALIDATED, key.is_validated);
}

pub(super) fn push_reads(out: &mut Writer, tag: u8, reads: &[ReadRelation]) {
    out.each(tag, reads, |out, relation| {
        out.field(read::NAME, |out| {
            push_name(out, &RelationName::new(relation.schema, relation.name.as_str()));
        });
        out.each(read::COLUMN, &relation.columns, |out, column| {
            out.text(&column.name);
            out.text(&column.called);
        });
    });
}

pub(super) fn reads(fields: &Fields<'_>, tag: u8) -> Result<Vec<ReadRelation>> {
    fields.each(tag, |reader| {
        let fields = reader.fields(read::LAST)?;
        let RelationName { schema, name } = fields.one(read::NAME, relation_name)?;
        let columns = fields.each(read::COLUMN, |reader| {
            Ok(ReadColumn { name: reader.string()?, called: reader.string()? })
        })?;
        Ok(ReadRelation { schema, name, columns })
    })
}

/// The number of the table in an entry.
pub(super) fn table_number(body: &[u8]) -> Result<u32> {
    Fields::read(body, table::LAST)?.one(table::NUMBER, ByteReader::u32)
}

/// Reads a table.
pub(super) fn read_table(body: &[u8], types: &StoredTypes, database: DatabaseId) -> Result<TableImage> {
    let fields = Fields::read(body, table::LAST)?;
    let RelationName { schema, name } = fields.one(table::NAME, relation_name)?;
    let columns = fields.each(table::COLUMN, |reader| read_column(reader, types))?;
    let generations = columns.iter().enumerate();
    let generations = generations.filter_map(|(at, (_, text))| Some((at, text.clone()?))).collect();
    let columns: Vec<ColumnDefinition> = columns.into_iter().map(|(column, _)| column).collect();
    let indexes = fields.each(table::INDEX, |reader| read_index(reader, types))?;
    let derivations = indexes.iter().enumerate().filter_map(|(index, (_, derivation))| {
        let (parts, predicate) = derivation.clone()?;
        Some(DerivationText { index, parts, predicate })
    });
    let derivations: Vec<_> = derivations.collect();
    let foreign_keys = fields.each(table::FOREIGN_KEY, |reader| read_foreign_key(reader, types, database))?;
    let referenced_by = fields.each(table::REFERENCE, |reader| {
        let (name, child) = (reader.string()?, TableId::new(database, reader.u32()?));
        Ok(Reference { name, child, columns: reader.places()? })
    })?;
    let definition = TableDefinition {
        schema,
        name,
        on_commit: OnCommit::Preserve,
        columns,
        indexes: indexes.into_iter().map(|(index, _)| index).collect(),
        checks: Vec::new(),
        foreign_keys,
        referenced_by,
        materialized: fields.optional(table::QUERY, |reader| read_query(reader, types))?,
    };
    check_places(&definition, &derivations)?;
    let checks = fields.each(table::CHECK, |reader| read_check(reader, types))?;
    let number = fields.one(table::NUMBER, ByteReader::u32)?;
    Ok(TableImage { number, definition, checks, generations, derivations })
}

/// That all columns are there that others say.
fn check_places(definition: &TableDefinition, derivations: &[DerivationText]) -> Result<()> {
    let indexes =
        definition.indexes.iter().flat_map(|index| index.columns.iter().chain(&index.style.included));
    let keys = definition.foreign_keys.iter().flat_map(|key| key.columns.iter().chain(&key.set_columns));
    let references = definition.referenced_by.iter().flat_map(|side| &side.columns);
    let texts = derivations.iter().flat_map(|known| known.parts.iter().chain(&known.predicate));
    let named = texts.flat_map(|text| text.parts().1);
    let mut all = indexes.chain(keys).chain(references).copied().chain(named);
    match all.any(|place| place >= definition.columns.len()) {
        true => Err(damaged("a column is missing")),
        false => Ok(()),
    }
}

/// A column, and the text of what computes it.
pub(super) fn read_column(
    reader: &mut ByteReader<'_>,
    types: &StoredTypes,
) -> Result<(ColumnDefinition, Option<String>)> {
    let fields = reader.fields(column::LAST)?;
    let definition = ColumnDefinition {
        name: fields.one(column::NAME, ByteReader::string)?,
        data_type: fields.one(column::TYPE, |reader| types.data_type(reader))?,
        nullable: fields.has(column::NULLABLE),
        default: fields.optional(column::DEFAULT, |reader| types.sql(reader))?,
        identity: fields.optional(column::IDENTITY, |reader| {
            Ok(if reader.byte()? != 0 { Identity::Always } else { Identity::ByDefault })
        })?,
        generation: None,
        domain: fields.optional(column::DOMAIN, |reader| {
            let (identity, gives_default) = (types.domain(reader.u32()?)?, reader.byte()? != 0);
            Ok(ColumnDomain { identity, version: 0, gives_default })
        })?,
        collation: fields.optional(column::COLLATION, ByteReader::string)?,
    };
    Ok((definition, fields.optional(column::GENERATION, |reader| types.sql(reader))?))
}

type DerivationTexts = (Vec<ColumnText>, Option<ColumnText>);

fn read_index(
    reader: &mut ByteReader<'_>,
    types: &StoredTypes,
) -> Result<(IndexDefinition, Option<DerivationTexts>)> {
    let fields = reader.fields(index::LAST)?;
    let style = IndexStyle {
        keys: fields.each(index::KEY, |reader| {
            let fields = reader.fields(key_style::LAST)?;
            Ok(KeyStyle {
                collation: fields.optional(key_style::COLLATION, ByteReader::string)?,
                class: fields.optional(key_style::CLASS, ByteReader::string)?,
                descending: fields.has(key_style::DESCENDING),
                nulls_first: fields.has(key_style::NULLS_FIRST),
            })
        })?,
        included: fields.one(index::INCLUDED, ByteReader::places)?,
        options: options(&fields, index::OPTION)?,
        nulls_are_equal: fields.has(index::NULLS_ARE_EQUAL),
    };
    let definition = IndexDefinition {
        name: fields.one(index::NAME, ByteReader::string)?,
        columns: fields.one(index::COLUMNS, ByteReader::places)?,
        derivation: None,
        unique: fields.has(index::UNIQUE),
        primary: fields.has(index::PRIMARY),
        is_constraint: fields.has(index::CONSTRAINT),
        kind: if fields.has(index::HASH) { IndexKind::Hash } else { IndexKind::Ordered },
        style,
    };
    let parts = fields.each(index::PART, |reader| column_text(reader, types))?;
    let predicate = fields.optional(index::PREDICATE, |reader| column_text(reader, types))?;
    Ok((definition, (!parts.is_empty()).then_some((parts, predicate))))
}

fn column_text(reader: &mut ByteReader<'_>, types: &StoredTypes) -> Result<ColumnText> {
    let (mut texts, mut columns) = (vec![types.sql(reader)?], Vec::new());
    while !reader.is_empty() {
        columns.push(reader.place()?);
        texts.push(types.sql(reader)?);
    }
    Ok(ColumnText::new(texts, &columns))
}

pub(super) fn read_check(reader: &mut ByteReader<'_>, types: &StoredTypes) -> Result<CheckText> {
    let fields = reader.fields(check::LAST)?;
    Ok(CheckText {
        name: fields.one(check::NAME, ByteReader::string)?,
        text: fields.one(check::TEXT, |reader| types.sql(reader))?,
        is_validated: fields.has(check::VALIDATED),
    })
}

fn read_foreign_key(
    reader: &mut ByteReader<'_>,
    types: &StoredTypes,
    database: DatabaseId,
) -> Result<ForeignKey> {
    let fields = reader.fields(foreign_key::LAST)?;
    let (on_delete, on_update) =
        fields.one(foreign_key::ACTIONS, |reader| Ok((at(&ACTIONS, reader)?, at(&ACTIONS, reader)?)))?;
    let key = ForeignKey {
        name: fields.one(foreign_key::NAME, ByteReader::string)?,
        columns: fields.one(foreign_key::COLUMNS, ByteReader::places)?,
        parent: TableId::new(database, fields.one(foreign_key::PARENT, ByteReader::u32)?),
        on_delete,
        on_update,
        set_columns: fields.one(foreign_key::SET_COLUMNS, ByteReader::places)?,
        defaults: fields.each(foreign_key::DEFAULT, |reader| types.value(reader))?,
        is_full: fields.has(foreign_key::FULL),
        timing: fields.one(foreign_key::TIMING, |reader| at(&TIMINGS, reader))?,
        is_validated: fields.has(foreign_key::VALIDATED),
    };
    let has_defaults = key.defaults.is_empty() || key.defaults.len() == key.columns.len();
    if has_defaults { Ok(key) } else { Err(damaged("a default is missing")) }
}

fn read_query(reader: &mut ByteReader<'_>, types: &StoredTypes) -> Result<Arc<Materialized>> {
    let fields = reader.fields(query::LAST)?;
    Ok(Arc::new(Materialized {
        query: fields.one(query::TEXT, |reader| types.sql(reader))?,
        reads: reads(&fields, query::READS)?,
        is_populated: fields.has(query::POPULATED),
    }))
}
