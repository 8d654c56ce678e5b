//! What a commit changes in the catalog, and its bytes.

use super::bytes::Writer;
use super::definition::push_table;
use super::entry::{push_domain, push_sequence, push_user_type, push_view};
use super::key::{EntryKey, EntryKind};
use crate::catalog::{Catalog, TEMPORARY_PREFIX};
use crate::comment::{self, Object, Subject};
use crate::domain::Domain;
use crate::schema::{RelationName, Schema};
use crate::sequence::Sequence;
use crate::user_type::UserType;
use crate::view::View;
use ankerdb_base::{Result, SchemaId, TableId};
use ankerdb_table::{Index, IndexLife, Table};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The version of the format.
pub(super) const VERSION: u8 = 1;
/// What is done with an entry.
pub(super) const REMOVED: u8 = 0;
pub(super) const PUT: u8 = 1;

/// Entries of the catalog that come, change and go together. Nothing of sessions' temporary schemas is among them.
#[derive(Default)]
pub struct CatalogChange {
    removed: Vec<EntryKey>,
    put: Vec<Entry>,
}

enum Entry {
    Schema(Arc<Schema>),
    Type(Arc<UserType>),
    Domain(Arc<Domain>),
    Table(Arc<Table>, Vec<Arc<Index>>),
    Sequence(Arc<Sequence>),
    View(Arc<View>),
    Comment(Subject, Arc<str>),
}

/// Indexes that come and go with a commit while the definitions of their tables stay.
#[derive(Clone, Copy, Default)]
pub struct ChangedIndexes<'a> {
    /// Those that this commit makes. Those that other transactions have made are not written before they commit.
    pub built: &'a [Arc<Index>],
    /// Those that this commit drops, and that are still maintained.
    pub dropped: &'a [Arc<Index>],
}

impl ChangedIndexes<'_> {
    fn has(list: &[Arc<Index>], index: &Arc<Index>) -> bool {
        list.iter().any(|known| Arc::ptr_eq(known, index))
    }

    /// The table's indexes when this commit is over.
    fn of<'t>(&self, catalog: &'t Catalog, table: &'t Table) -> impl Iterator<Item = &'t Arc<Index>> {
        let stays = |index: &&Arc<Index>| {
            !Self::has(self.dropped, index)
                && (IndexLife::of(index).is_committed() || Self::has(self.built, index))
        };
        catalog.indexes_of(table).filter(stays)
    }

    /// Whether one of them is of this table.
    fn are_in(&self, table: &Table) -> bool {
        let mut all = table.all_indexes().map(|(_, index)| index);
        !(self.built.is_empty() && self.dropped.is_empty())
            && all.any(|index| Self::has(self.built, index) || Self::has(self.dropped, index))
    }
}

impl CatalogChange {
    /// What turns one catalog into another one.
    pub fn between(base: &Catalog, new: &Catalog, indexes: ChangedIndexes<'_>) -> CatalogChange {
        let mut change = CatalogChange::default();
        let lasting = Lasting::of(base, new);
        change.schemas(base, new, &lasting);
        change.tables(base, new, indexes, &lasting);
        change.named(&base.types, &new.types, EntryKind::Type, Entry::Type, &lasting);
        change.named(&base.domains, &new.domains, EntryKind::Domain, Entry::Domain, &lasting);
        change.named(&base.sequences, &new.sequences, EntryKind::Sequence, Entry::Sequence, &lasting);
        change.named(&base.views, &new.views, EntryKind::View, Entry::View, &lasting);
        if !Arc::ptr_eq(&base.comments, &new.comments) {
            for subject in comment::changed(&base.comments, &new.comments) {
                if !lasting.has_subject(&subject) {
                    continue;
                }
                match new.comments.get(&subject) {
                    Some(text) => change.put.push(Entry::Comment(subject, text.clone())),
                    None => change.removed.push(EntryKey::Comment(subject)),
                }
            }
        }
        change
    }

    /// All of a catalog, for one that begins as every database does.
    pub fn whole(catalog: &Catalog) -> CatalogChange {
        CatalogChange::between(&Catalog::default(), catalog, ChangedIndexes::default())
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.put.is_empty()
    }

    fn schemas(&mut self, base: &Catalog, new: &Catalog, lasting: &Lasting) {
        if Arc::ptr_eq(&base.schemas, &new.schemas) {
            return;
        }
        let ids: HashSet<SchemaId> = new.schemas.values().map(|schema| schema.id).collect();
        let gone = base.schemas.values().filter(|schema| !ids.contains(&schema.id) && lasting.has(schema.id));
        self.removed.extend(gone.map(|schema| EntryKey::Schema(schema.id)));
        let is_same = |schema: &&Arc<Schema>| {
            base.schemas.get(&schema.name).is_some_and(|known| Arc::ptr_eq(known, schema))
        };
        let changed = new.schemas.values().filter(|schema| !is_same(schema) && lasting.has(schema.id));
        self.put.extend(changed.map(|schema| Entry::Schema(schema.clone())));
    }

    fn tables(&mut self, base: &Catalog, new: &Catalog, indexes: ChangedIndexes<'_>, lasting: &Lasting) {
        let is_in = |catalog: &Catalog, table: &Arc<Table>| {
            let known = catalog.tables.get(&RelationName::of(table));
            known.is_some_and(|known| Arc::ptr_eq(known, table))
        };
        let differ: Vec<&Arc<Table>> = base.tables.values().filter(|table| !is_in(new, table)).collect();
        if !differ.is_empty() {
            let origins: HashSet<TableId> = new.tables.values().map(|table| table.origin()).collect();
            let gone = differ.into_iter().filter(|table| !origins.contains(&table.origin()));
            let gone = gone.filter(|table| lasting.has(table.schema()));
            self.removed.extend(gone.map(|table| EntryKey::Table(table.origin().number())));
        }
        for table in new.tables.values() {
            if lasting.has(table.schema()) && (!is_in(base, table) || indexes.are_in(table)) {
                let own = indexes.of(new, table).cloned().collect();
                self.put.push(Entry::Table(table.clone(), own));
            }
        }
    }

    fn named<T>(
        &mut self,
        base: &Arc<BTreeMap<RelationName, Arc<T>>>,
        new: &Arc<BTreeMap<RelationName, Arc<T>>>,
        kind: EntryKind,
        entry: impl Fn(Arc<T>) -> Entry,
        lasting: &Lasting,
    ) {
        if Arc::ptr_eq(base, new) {
            return;
        }
        let gone = base.keys().filter(|name| !new.contains_key(name) && lasting.has(name.schema));
        self.removed.extend(gone.map(|name| EntryKey::Named(kind, name.clone())));
        let is_same = |name: &RelationName, value: &Arc<T>| {
            base.get(name).is_some_and(|known| Arc::ptr_eq(known, value))
        };
        let changed = new.iter().filter(|(name, value)| !is_same(name, value) && lasting.has(name.schema));
        self.put.extend(changed.map(|(_, value)| entry(value.clone())));
    }

    /// The bytes by which [`RecoveredCatalog::apply`](super::RecoveredCatalog::apply) makes the change. How far sequences have counted is
    /// as of now.
    ///
    /// # Errors
    /// `ProgramLimitExceeded` for a definition of more than 4 GiB.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut out = Writer::default();
        out.byte(VERSION);
        for key in &self.removed {
            out.fixed(&[key.kind().number(), REMOVED]);
            out.measured(|out| key.push(out));
        }
        for entry in &self.put {
            let key = entry.key();
            out.fixed(&[key.kind().number(), PUT]);
            out.measured(|out| key.push(out));
            out.measured(|out| entry.push(out));
        }
        out.finish()
    }
}

impl Entry {
    fn key(&self) -> EntryKey {
        match self {
            Entry::Schema(schema) => EntryKey::Schema(schema.id),
            Entry::Type(known) => EntryKey::Named(EntryKind::Type, known.full_name()),
            Entry::Domain(known) => EntryKey::Named(EntryKind::Domain, known.full_name()),
            Entry::Table(table, _) => EntryKey::Table(table.origin().number()),
            Entry::Sequence(known) => EntryKey::Named(EntryKind::Sequence, known.full_name()),
            Entry::View(known) => EntryKey::Named(EntryKind::View, known.full_name()),
            Entry::Comment(subject, _) => EntryKey::Comment(subject.clone()),
        }
    }

    fn push(&self, out: &mut Writer) {
        match self {
            Entry::Schema(schema) => out.text(&schema.name),
            Entry::Type(known) => push_user_type(out, known),
            Entry::Domain(known) => push_domain(out, known),
            Entry::Table(table, indexes) => push_table(out, table, indexes),
            Entry::Sequence(known) => push_sequence(out, known),
            Entry::View(known) => push_view(out, known),
            Entry::Comment(_, text) => out.text(text),
        }
    }
}

/// What is not of one session alone, in two catalogs.
struct Lasting {
    temporary: HashSet<SchemaId>,
    /// Origins of tables in those.
    tables: HashSet<TableId>,
}

impl Lasting {
    fn of(base: &Catalog, new: &Catalog) -> Lasting {
        let schemas = base.schemas.values().chain(new.schemas.values());
        let temporary = schemas.filter(|schema| schema.name.starts_with(TEMPORARY_PREFIX));
        let temporary: HashSet<SchemaId> = temporary.map(|schema| schema.id).collect();
        let mut tables = HashSet::new();
        if !temporary.is_empty() {
            let all = base.tables.values().chain(new.tables.values());
            tables
                .extend(all.filter(|table| temporary.contains(&table.schema())).map(|table| table.origin()));
        }
        Lasting { temporary, tables }
    }

    fn has(&self, schema: SchemaId) -> bool {
        !self.temporary.contains(&schema)
    }

    fn has_subject(&self, subject: &Subject) -> bool {
        match &subject.object {
            Object::Database => true,
            Object::Schema(id) => self.has(*id),
            Object::Table(origin) => !self.tables.contains(origin),
            Object::View(name) | Object::Sequence(name) | Object::Type(name) => self.has(name.schema),
        }
    }
}
