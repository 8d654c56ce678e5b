//! Entries of a catalog but tables, as bytes.

use super::bytes::{ByteReader, Fields, Writer, damaged};
use super::definition::{
    options, push_check, push_column, push_options, push_reads, read_check, read_column, reads,
};
use super::key::{name as relation_name, push_name};
use super::types::{StoredTypes, push_type};
use crate::domain::{Domain, DomainCheck};
use crate::schema::RelationName;
use crate::sequence::{Sequence, SequenceCount, SequenceDefinition};
use crate::user_type::UserType;
use crate::view::View;
use ankerdb_base::Result;
use ankerdb_value::{DataType, EnumType, Label};
use std::sync::Arc;

mod sequence {
    pub(super) const NUMBER: u8 = 1;
    pub(super) const COUNT: u8 = 2;
    pub(super) const TYPE: u8 = 3;
    pub(super) const BOUNDS: u8 = 4;
    pub(super) const CYCLE: u8 = 5;
    pub(super) const OWNER: u8 = 6;
    pub(super) const LAST: u8 = OWNER;
}

mod view {
    pub(super) const COLUMN: u8 = 1;
    pub(super) const QUERY: u8 = 2;
    pub(super) const READS: u8 = 3;
    pub(super) const OPTION: u8 = 4;
    pub(super) const LAST: u8 = OPTION;
}

mod user_type {
    pub(super) const OID: u8 = 1;
    pub(super) const LABEL: u8 = 2;
    pub(super) const LAST: u8 = LABEL;
}

mod domain {
    pub(super) const OID: u8 = 1;
    pub(super) const BASE: u8 = 2;
    pub(super) const OVER: u8 = 3;
    pub(super) const COLLATION: u8 = 4;
    pub(super) const DEFAULT: u8 = 5;
    pub(super) const NOT_NULL: u8 = 6;
    pub(super) const CHECK: u8 = 7;
    pub(super) const LAST: u8 = CHECK;
}

pub(super) fn push_sequence(out: &mut Writer, known: &Sequence) {
    let SequenceDefinition { start, increment, minimum, maximum, .. } = *known.definition();
    let SequenceCount { changes, last, is_used } = known.told();
    out.field(sequence::NUMBER, |out| out.u64(known.number()));
    out.field(sequence::COUNT, |out| {
        out.u64(changes);
        out.i64(last);
        out.byte(u8::from(is_used));
    });
    out.field(sequence::TYPE, |out| push_type(out, known.definition().data_type));
    out.field(sequence::BOUNDS, |out| {
        [start, increment, minimum, maximum].into_iter().for_each(|number| out.i64(number));
    });
    out.flag(sequence::CYCLE, known.definition().cycle);
    out.optional(sequence::OWNER, known.definition().owner.as_ref(), |out, (table, column)| {
        push_name(out, table);
        out.place(*column);
    });
}

/// The number of the sequence in an entry.
pub(super) fn sequence_number(body: &[u8]) -> Result<u64> {
    Fields::read(body, sequence::LAST)?.one(sequence::NUMBER, ByteReader::u64)
}

/// A sequence, with the newer one of the count that was written with it and the one that `known` finds.
pub(super) fn read_sequence(
    name: RelationName,
    body: &[u8],
    known: impl FnOnce(u64) -> Option<SequenceCount>,
) -> Result<Sequence> {
    let fields = Fields::read(body, sequence::LAST)?;
    let types = StoredTypes::default();
    let data_type = fields.one(sequence::TYPE, |reader| types.data_type(reader))?;
    if !matches!(data_type, DataType::SmallInt | DataType::Integer | DataType::BigInt) {
        return Err(damaged("a sequence is of a type that does not count"));
    }
    let bounds =
        |reader: &mut ByteReader<'_>| Ok([reader.i64()?, reader.i64()?, reader.i64()?, reader.i64()?]);
    let [start, increment, minimum, maximum] = fields.one(sequence::BOUNDS, bounds)?;
    let RelationName { schema, name } = name;
    let definition = SequenceDefinition {
        schema,
        name,
        data_type,
        start,
        increment,
        minimum,
        maximum,
        cycle: fields.has(sequence::CYCLE),
        owner: fields.optional(sequence::OWNER, |reader| Ok((relation_name(reader)?, reader.place()?)))?,
    };
    let number = fields.one(sequence::NUMBER, ByteReader::u64)?;
    let count = fields.one(sequence::COUNT, |reader| {
        Ok(SequenceCount { changes: reader.u64()?, last: reader.i64()?, is_used: reader.byte()? != 0 })
    })?;
    let newer = known(number).filter(|known| known.changes > count.changes);
    Ok(Sequence::with_count(number, definition, newer.unwrap_or(count)))
}

pub(super) fn push_view(out: &mut Writer, known: &View) {
    out.each(view::COLUMN, &known.columns, push_column);
    out.field(view::QUERY, |out| out.sql(&known.query));
    push_reads(out, view::READS, &known.reads);
    push_options(out, view::OPTION, &known.options);
}

pub(super) fn read_view(name: RelationName, body: &[u8], types: &StoredTypes) -> Result<View> {
    let fields = Fields::read(body, view::LAST)?;
    let RelationName { schema, name } = name;
    Ok(View {
        schema,
        name,
        columns: fields.each(view::COLUMN, |reader| read_column(reader, types).map(|(column, _)| column))?,
        query: fields.one(view::QUERY, |reader| types.sql(reader))?,
        reads: reads(&fields, view::READS)?,
        options: options(&fields, view::OPTION)?,
    })
}

pub(super) fn push_user_type(out: &mut Writer, known: &UserType) {
    out.field(user_type::OID, |out| out.u32(known.labels.oid()));
    out.each(user_type::LABEL, known.state.labels(), |out, label| {
        let Label { position, oid, text } = label;
        out.i64(*position);
        out.u32(*oid);
        out.text(text);
    });
}

/// The numbers that clients know a type and its labels by; that of the type is the first.
pub(super) fn user_type_oids(body: &[u8]) -> Result<Vec<u32>> {
    let fields = Fields::read(body, user_type::LAST)?;
    let mut oids = vec![fields.one(user_type::OID, ByteReader::u32)?];
    oids.extend(fields.each(user_type::LABEL, |reader| {
        let (_, oid, _) = (reader.i64()?, reader.u32()?, reader.text()?);
        Ok(oid)
    })?);
    Ok(oids)
}

pub(super) fn read_user_type(name: RelationName, body: &[u8]) -> Result<UserType> {
    let fields = Fields::read(body, user_type::LAST)?;
    let oid = fields.one(user_type::OID, ByteReader::u32)?;
    let labels =
        fields.each(user_type::LABEL, |reader| Ok((reader.i64()?, reader.u32()?, reader.text()?)))?;
    let RelationName { schema, name } = name;
    let (labels, life) = EnumType::restore(&name, oid, &labels)?;
    Ok(UserType { schema, name, labels, life: Arc::new(life), state: labels.state() })
}

pub(super) fn push_domain(out: &mut Writer, known: &Domain) {
    out.field(domain::OID, |out| out.u32(known.identity.oid()));
    out.field(domain::BASE, |out| push_type(out, known.base));
    out.optional(domain::OVER, known.over, |out, over| out.u32(over.oid()));
    out.optional(domain::COLLATION, known.collation.as_ref(), |out, name| out.text(name));
    out.optional(domain::DEFAULT, known.default.as_ref(), |out, text| out.sql(text));
    out.flag(domain::NOT_NULL, known.is_not_null);
    out.each(domain::CHECK, &known.checks, |out, check| {
        push_check(out, &check.name, &check.text, check.is_validated);
    });
}

/// The number that clients know a domain by.
pub(super) fn domain_oid(body: &[u8]) -> Result<u32> {
    Fields::read(body, domain::LAST)?.one(domain::OID, ByteReader::u32)
}

/// A domain, of version 0.
pub(super) fn read_domain(name: RelationName, body: &[u8], types: &StoredTypes) -> Result<Domain> {
    let fields = Fields::read(body, domain::LAST)?;
    let RelationName { schema, name } = name;
    let checks = fields.each(domain::CHECK, |reader| read_check(reader, types))?;
    Ok(Domain {
        schema,
        name,
        identity: types.domain(domain_oid(body)?)?,
        version: 0,
        base: fields.one(domain::BASE, |reader| types.data_type(reader))?,
        over: fields.optional(domain::OVER, |reader| types.domain(reader.u32()?))?,
        collation: fields.optional(domain::COLLATION, ByteReader::string)?,
        default: fields.optional(domain::DEFAULT, |reader| types.sql(reader))?,
        is_not_null: fields.has(domain::NOT_NULL),
        checks: checks
            .into_iter()
            .map(|check| DomainCheck { name: check.name, text: check.text, is_validated: check.is_validated })
            .collect(),
    })
}
