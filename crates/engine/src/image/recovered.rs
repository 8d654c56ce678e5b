//! A catalog that is being put together again from its images.

use super::bytes::{ByteReader, damaged, whole};
use super::change::{CatalogChange, PUT, REMOVED, VERSION};
use super::definition::{TableImage, read_table, table_number};
use super::entry::{domain_oid, read_user_type, sequence_number, user_type_oids};
use super::key::{EntryKind, name};
use super::types::StoredTypes;
use crate::catalog::Catalog;
use crate::sequence::SequenceCount;
use crate::user_type::UserType;
use ankerdb_base::{DatabaseId, Error, Result, SqlState};
use ankerdb_value::{DomainType, EnumType};
use std::collections::{BTreeMap, HashMap};

/// Entries as the last change of each has left them. They are read when all changes are there; until then a change costs the copying of
/// its bytes.
pub struct RecoveredCatalog {
    /// By kind and key.
    pub(super) entries: BTreeMap<(EntryKind, Vec<u8>), Vec<u8>>,
    /// How far sequences have counted, by their numbers.
    pub(super) counts: HashMap<u64, SequenceCount>,
    /// Behind the largest number of a table that there ever was.
    pub(super) tables_end: u32,
    /// The largest number of anything else.
    pub(super) numbers_last: u64,
    pub(super) types: Option<Types>,
}

/// The types of users, as this process has them.
pub(super) struct Types {
    pub stored: StoredTypes,
    pub user_types: Vec<UserType>,
}

impl Default for RecoveredCatalog {
    fn default() -> RecoveredCatalog {
        RecoveredCatalog::new()
    }
}

impl RecoveredCatalog {
    /// The catalog that every database begins with.
    pub fn new() -> RecoveredCatalog {
        let mut recovered = RecoveredCatalog {
            entries: BTreeMap::new(),
            counts: HashMap::new(),
            tables_end: 0,
            numbers_last: 0,
            types: None,
        };
        let first = Catalog::default();
        let nothing = Catalog { schemas: Default::default(), comments: Default::default(), ..first.clone() };
        let first = CatalogChange::between(&nothing, &first, Default::default()).encode();
        let first = first.and_then(|bytes| recovered.apply(&bytes));
        first.expect("the catalog that every database begins with is written and read");
        recovered
    }

    /// Makes a change that [`CatalogChange::encode`] has written, behind those of all commits before.
    ///
    /// # Errors
    /// `DataCorrupted` for other bytes; nothing of the change is made then.
    pub fn apply(&mut self, bytes: &[u8]) -> Result<()> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != VERSION {
            let message = "an image of the catalog has a format that this version does not know";
            return Err(Error::new(SqlState::DataCorrupted, message));
        }
        let (mut changes, mut marks) = (Vec::new(), Vec::new());
        while !reader.is_empty() {
            let (kind, action) = (EntryKind::of_number(reader.byte()?)?, reader.byte()?);
            let key = reader.counted()?;
            let body = match action {
                REMOVED => None,
                PUT => Some(reader.counted()?),
                _ => return Err(damaged("an entry is neither put nor removed")),
            };
            if let Some(body) = body {
                marks.push(Mark::of(kind, key, body)?);
            }
            changes.push((kind, key, body));
        }
        marks.into_iter().for_each(|mark| self.mark(mark));
        for (kind, key, body) in changes {
            match body {
                Some(body) => self.entries.insert((kind, key.to_vec()), body.to_vec()),
                None => self.entries.remove(&(kind, key.to_vec())),
            };
        }
        self.types = None;
        Ok(())
    }

    /// What is new must not get numbers that were given, also to what has gone.
    fn mark(&mut self, mark: Mark) {
        match mark {
            Mark::Table(number) => self.note_table(number),
            Mark::Number(number) => self.numbers_last = self.numbers_last.max(number),
            Mark::Labels(oids) => EnumType::leave_oids(oids),
            Mark::Domain(oid) => DomainType::leave_oid(oid),
            Mark::Nothing => {}
        }
    }

    /// Notes how far a sequence had counted at some time, in any order.
    pub fn note_sequence(&mut self, number: u64, count: SequenceCount) {
        self.numbers_last = self.numbers_last.max(number);
        let known = self.counts.entry(number).or_insert(count);
        if count.changes > known.changes {
            *known = count;
        }
    }

    /// Notes that numbers up to here were given to schemas, sequences and the like.
    pub fn note_numbers(&mut self, last: u64) {
        self.numbers_last = self.numbers_last.max(last);
    }

    /// Notes that the number was that of a table, if only of one that has gone: no other one gets it.
    pub fn note_table(&mut self, number: u32) {
        self.tables_end = self.tables_end.max(number.saturating_add(1));
    }

    /// The types of users that are there, by what stored bytes have for them. The first call makes them.
    ///
    /// # Errors
    /// `DataCorrupted`, and those of making types.
    pub fn types(&mut self) -> Result<&StoredTypes> {
        if self.types.is_none() {
            self.types = Some(self.make_types()?);
        }
        self.types.as_ref().map(|types| &types.stored).ok_or_else(|| Error::internal("types were made"))
    }

    fn make_types(&self) -> Result<Types> {
        let (mut stored, mut user_types) = (StoredTypes::default(), Vec::new());
        for (key, body) in self.of_kind(EntryKind::Type) {
            let made = read_user_type(whole(key, name)?, body)?;
            stored.labels.insert(made.labels.oid(), made.labels);
            user_types.push(made);
        }
        for (_, body) in self.of_kind(EntryKind::Domain) {
            let oid = domain_oid(body)?;
            stored.domains.insert(oid, DomainType::restore(oid)?);
        }
        Ok(Types { stored, user_types })
    }

    /// The keys and bytes of all entries of a kind.
    pub(super) fn of_kind(&self, kind: EntryKind) -> impl Iterator<Item = (&[u8], &[u8])> {
        let entries = self.entries.range((kind, Vec::new())..);
        let entries = entries.take_while(move |((known, _), _)| *known == kind);
        entries.map(|((_, key), body)| (key.as_slice(), body.as_slice()))
    }

    /// The tables, with the numbers of their origins. The types have been made.
    pub(super) fn read_tables(&self, database: DatabaseId) -> Result<Vec<(u32, TableImage)>> {
        let types = self.types.as_ref().ok_or_else(|| Error::internal("types come before tables"))?;
        let tables = self.of_kind(EntryKind::Table);
        let read =
            |(key, body)| Ok((whole(key, ByteReader::u32)?, read_table(body, &types.stored, database)?));
        tables.map(read).collect()
    }
}

/// Numbers that an entry has taken.
enum Mark {
    Table(u32),
    Number(u64),
    Labels(Vec<u32>),
    Domain(u32),
    Nothing,
}

impl Mark {
    fn of(kind: EntryKind, key: &[u8], body: &[u8]) -> Result<Mark> {
        Ok(match kind {
            EntryKind::Schema => Mark::Number(whole(key, ByteReader::u64)?),
            EntryKind::Table => Mark::Table(table_number(body)?.max(whole(key, ByteReader::u32)?)),
            EntryKind::Sequence => Mark::Number(sequence_number(body)?),
            EntryKind::Type => {
                let mut oids = user_type_oids(body)?;
                // That of arrays.
                oids.push(oids[0].saturating_add(1));
                Mark::Labels(oids)
            }
            EntryKind::Domain => Mark::Domain(domain_oid(body)?),
            EntryKind::View | EntryKind::Comment => Mark::Nothing,
        })
    }
}
