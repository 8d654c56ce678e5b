//! What entries of a catalog are known by in images.

use super::bytes::{ByteReader, Writer, damaged};
use crate::comment::{Object, Part, Subject};
use crate::schema::RelationName;
use ankerdb_base::{DatabaseId, Result, SchemaId, TableId};

/// The kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum EntryKind {
    Schema,
    Type,
    Domain,
    Table,
    Sequence,
    View,
    Comment,
}

impl EntryKind {
    /// By their numbers in images, which never change.
    const ALL: [(u8, EntryKind); 7] = [
        (1, EntryKind::Schema),
        (2, EntryKind::Table),
        (3, EntryKind::Sequence),
        (4, EntryKind::View),
        (5, EntryKind::Type),
        (6, EntryKind::Domain),
        (7, EntryKind::Comment),
    ];

    pub(super) fn of_number(number: u8) -> Result<EntryKind> {
        let found = EntryKind::ALL.iter().find(|(known, _)| *known == number);
        found.map(|(_, kind)| *kind).ok_or_else(|| damaged("an entry is of an unknown kind"))
    }

    pub(super) fn number(self) -> u8 {
        EntryKind::ALL.iter().find(|(_, known)| *known == self).map_or(0, |(number, _)| *number)
    }
}

/// An entry's identity: what stays the same when it gets another name, where there is such a thing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum EntryKey {
    Schema(SchemaId),
    /// By the number of its origin.
    Table(u32),
    /// Of the other kinds.
    Named(EntryKind, RelationName),
    Comment(Subject),
}

impl EntryKey {
    pub(super) fn kind(&self) -> EntryKind {
        match self {
            EntryKey::Schema(_) => EntryKind::Schema,
            EntryKey::Table(_) => EntryKind::Table,
            EntryKey::Named(kind, _) => *kind,
            EntryKey::Comment(_) => EntryKind::Comment,
        }
    }

    pub(super) fn push(&self, out: &mut Writer) {
        match self {
            EntryKey::Schema(id) => out.u64(id.0),
            EntryKey::Table(origin) => out.u32(*origin),
            EntryKey::Named(_, name) => push_name(out, name),
            EntryKey::Comment(subject) => push_subject(out, subject),
        }
    }
}

pub(super) fn push_name(out: &mut Writer, name: &RelationName) {
    out.u64(name.schema.0);
    out.text(&name.name);
}

pub(super) fn name(reader: &mut ByteReader<'_>) -> Result<RelationName> {
    Ok(RelationName { schema: SchemaId(reader.u64()?), name: reader.string()? })
}

fn push_subject(out: &mut Writer, subject: &Subject) {
    let mut named = |tag: u8, name: &RelationName| {
        out.byte(tag);
        push_name(out, name);
    };
    match &subject.object {
        Object::View(name) => named(4, name),
        Object::Sequence(name) => named(5, name),
        Object::Type(name) => named(6, name),
        Object::Database => out.byte(1),
        Object::Schema(id) => {
            out.byte(2);
            out.u64(id.0);
        }
        Object::Table(origin) => {
            out.byte(3);
            out.u32(origin.number());
        }
    }
    match &subject.part {
        Part::Whole => out.byte(1),
        Part::Column(column) => {
            out.byte(2);
            out.place(*column);
        }
        Part::Index(name) => {
            out.byte(3);
            out.text(name);
        }
        Part::Constraint(name) => {
            out.byte(4);
            out.text(name);
        }
    }
}

/// What a comment is about, in this database.
pub(super) fn subject(reader: &mut ByteReader<'_>, database: DatabaseId) -> Result<Subject> {
    let object = match reader.byte()? {
        1 => Object::Database,
        2 => Object::Schema(SchemaId(reader.u64()?)),
        3 => Object::Table(TableId::new(database, reader.u32()?)),
        4 => Object::View(name(reader)?),
        5 => Object::Sequence(name(reader)?),
        6 => Object::Type(name(reader)?),
        _ => return Err(damaged("a comment is about something unknown")),
    };
    let part = match reader.byte()? {
        1 => Part::Whole,
        2 => Part::Column(reader.place()?),
        3 => Part::Index(reader.string()?),
        4 => Part::Constraint(reader.string()?),
        _ => return Err(damaged("a comment is about something unknown")),
    };
    Ok(Subject { object, part })
}
