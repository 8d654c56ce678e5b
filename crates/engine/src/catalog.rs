//! Which tables, sequences and views exist.

use crate::sequence::Sequence;
use crate::view::View;
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_table::{Index, Table};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An immutable picture of which tables and indexes exist.
#[derive(Clone, Default)]
pub struct Catalog {
    pub(crate) version: u64,
    pub(crate) tables: BTreeMap<String, Arc<Table>>,
    pub(crate) sequences: BTreeMap<String, Arc<Sequence>>,
    pub(crate) views: BTreeMap<String, Arc<View>>,
    /// Indexes that go when the transaction commits whose own catalog this is.
    pub(crate) hidden: Vec<Arc<Index>>,
    /// Indexes that it has made and that lack rows which it may see, as it began before.
    pub(crate) unready: Vec<Arc<Index>>,
}

impl Catalog {
    /// Another one after every change, so that cached plans know when they are stale. The catalogs that transactions have of
    /// their own have versions that no other one has.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The table with this name.
    ///
    /// # Errors
    /// `UndefinedTable`.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        self.tables.get(name).cloned().ok_or_else(|| {
            Error::new(SqlState::UndefinedTable, format!("relation \"{name}\" does not exist"))
        })
    }

    /// All tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// The sequence with this name.
    ///
    /// # Errors
    /// `UndefinedTable`.
    pub fn sequence(&self, name: &str) -> Result<Arc<Sequence>> {
        self.sequences.get(name).cloned().ok_or_else(|| {
            Error::new(SqlState::UndefinedTable, format!("relation \"{name}\" does not exist"))
        })
    }

    /// All sequences, by name.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<Sequence>> {
        self.sequences.values()
    }

    /// The view with this name, if there is one.
    pub fn view(&self, name: &str) -> Option<&Arc<View>> {
        self.views.get(name)
    }

    /// All views, by name.
    pub fn views(&self) -> impl Iterator<Item = &Arc<View>> {
        self.views.values()
    }

    /// Whether a table, index, sequence or view has the name.
    pub fn has_relation(&self, name: &str) -> bool {
        self.tables.contains_key(name)
            || self.sequences.contains_key(name)
            || self.views.contains_key(name)
            || self.table_of_index(name).is_some()
    }

    /// The table that has the index.
    pub fn table_of_index(&self, index: &str) -> Option<Arc<Table>> {
        let has = |table: &&Arc<Table>| self.indexes_of(table).any(|found| found.definition().name == index);
        self.tables.values().find(has).cloned()
    }

    /// The indexes of a table that are maintained and not about to go.
    pub fn indexes_of<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = &'a Arc<Index>> {
        let stays = |index: &&Arc<Index>| !self.hidden.iter().any(|hidden| Arc::ptr_eq(hidden, index));
        table.maintained_indexes().map(|(_, index)| index).filter(stays)
    }

    /// The indexes of a table that statements may use, by position; see [`Table::usable_indexes`].
    pub fn usable_indexes<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = (usize, &'a Arc<Index>)> {
        let is_left_out = |index: &Arc<Index>| self.unready.iter().any(|unready| Arc::ptr_eq(unready, index));
        table.usable_indexes().filter(move |(_, index)| !is_left_out(index))
    }

    /// `current`, with what this catalog has changed since `base`, from which it was made.
    ///
    /// # Errors
    /// `SerializationFailure` if `current` has other changes of the same relation; `DuplicateTable` if both have made one
    /// of the same name.
    pub(crate) fn with_changes(&self, base: &Catalog, current: &Catalog) -> Result<Catalog> {
        let (hidden, unready) = (self.hidden.clone(), self.unready.clone());
        let mut merged = Catalog { hidden, unready, ..current.clone() };
        let mut made = carry(&base.tables, &self.tables, &mut merged.tables)?;
        made.extend(carry(&base.sequences, &self.sequences, &mut merged.sequences)?);
        made.extend(carry(&base.views, &self.views, &mut merged.views)?);
        let tables = made.iter().filter_map(|name| merged.tables.get(*name));
        let indexes = tables.flat_map(|table| merged.indexes_of(table).map(|index| &index.definition().name));
        let made = made.iter().copied().chain(indexes);
        let taken = made.into_iter().find(|name| merged.relations(name) > 1);
        taken.map_or(Ok(()), |name| Err(relation_exists(name)))?;
        Ok(merged)
    }

    /// How many relations have the name.
    fn relations(&self, name: &str) -> usize {
        let indexes = self.tables.values().flat_map(|table| self.indexes_of(table));
        let indexes = indexes.filter(|index| index.definition().name == name).count();
        let others = [
            self.tables.contains_key(name),
            self.sequences.contains_key(name),
            self.views.contains_key(name),
        ];
        indexes + others.into_iter().filter(|has| *has).count()
    }
}

type Relations<T> = BTreeMap<String, Arc<T>>;

/// Makes the changes from `base` to `own` in `merged`, too. Returns the names of those that are new or changed.
fn carry<'a, T>(
    base: &Relations<T>,
    own: &'a Relations<T>,
    merged: &mut Relations<T>,
) -> Result<Vec<&'a String>> {
    let is_same = |one: Option<&Arc<T>>, other: Option<&Arc<T>>| match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    };
    let mut made = Vec::new();
    for (name, relation) in own {
        let before = base.get(name);
        if is_same(before, Some(relation)) {
            continue;
        }
        let now = merged.get(name);
        if !is_same(before, now) {
            return Err(if before.is_none() { relation_exists(name) } else { changed_by_others(name) });
        }
        merged.insert(name.clone(), relation.clone());
        made.push(name);
    }
    for (name, relation) in base.iter().filter(|(name, _)| !own.contains_key(*name)) {
        if !is_same(Some(relation), merged.get(name)) {
            return Err(changed_by_others(name));
        }
        merged.remove(name);
    }
    Ok(made)
}

pub(crate) fn relation_exists(name: &str) -> Error {
    Error::new(SqlState::DuplicateTable, format!("relation \"{name}\" already exists"))
}

pub(crate) fn changed_by_others(name: &str) -> Error {
    let message = format!("could not serialize access due to a concurrent change of relation \"{name}\"");
    Error::new(SqlState::SerializationFailure, message)
}
