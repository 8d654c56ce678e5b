//! Numbers of objects.
//!
//! An object gets the next number when a description first meets it, and keeps it as long as the database lives that has it.
//! Numbers are counted from PostgreSQL's first for users' objects. A table's parts are known by the table and their names, so
//! that whoever describes the same table finds the same numbers, also from another version of the catalog.

use ankerdb_engine::{Catalog, NameRef, RelationName, Schema, SchemaId, Sequence, Table, TableId, View};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// PostgreSQL's first number for objects of users.
pub(super) const FIRST: u32 = 16_384;
/// How many numbers are kept before those of objects that are gone are looked for.
const KEPT_MIN: usize = 1024;

/// What has a number.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ObjectKey {
    Table(TableId),
    Index(TableId, String),
    Constraint(TableId, String),
    Default(TableId, usize),
    Sequence(RelationName),
    View(RelationName),
    Schema(SchemaId),
}

/// The object whose life is that of the number.
pub(crate) enum OidOwner {
    Table(Weak<Table>),
    Sequence(Weak<Sequence>),
    View(Weak<View>),
    Schema(Weak<Schema>),
}

impl From<&Arc<Table>> for OidOwner {
    fn from(table: &Arc<Table>) -> OidOwner {
        OidOwner::Table(Arc::downgrade(table))
    }
}

impl From<&Arc<Sequence>> for OidOwner {
    fn from(sequence: &Arc<Sequence>) -> OidOwner {
        OidOwner::Sequence(Arc::downgrade(sequence))
    }
}

impl From<&Arc<View>> for OidOwner {
    fn from(view: &Arc<View>) -> OidOwner {
        OidOwner::View(Arc::downgrade(view))
    }
}

impl From<&Arc<Schema>> for OidOwner {
    fn from(schema: &Arc<Schema>) -> OidOwner {
        OidOwner::Schema(Arc::downgrade(schema))
    }
}

impl OidOwner {
    fn is_gone(&self) -> bool {
        match self {
            OidOwner::Table(table) => table.strong_count() == 0,
            OidOwner::Sequence(sequence) => sequence.strong_count() == 0,
            OidOwner::View(view) => view.strong_count() == 0,
            OidOwner::Schema(schema) => schema.strong_count() == 0,
        }
    }
}

/// The numbers of one database's objects.
#[derive(Default)]
pub(crate) struct Oids(Mutex<AssignedOids>);

impl Oids {
    pub(crate) fn lock(&self) -> MutexGuard<'_, AssignedOids> {
        self.0.lock()
    }
}

/// The number of the table or view that a name stands for.
pub(crate) fn relation_number(catalog: &Catalog, oids: &Oids, name: NameRef<'_>) -> Option<u32> {
    if let Ok(table) = catalog.table(name) {
        return Some(oids.lock().of(ObjectKey::Table(table.origin()), || (&table).into()));
    }
    let view = catalog.view(name)?;
    Some(oids.lock().of(ObjectKey::View(view.full_name()), || view.into()))
}

#[derive(Default)]
pub(crate) struct AssignedOids {
    given: u32,
    oids: HashMap<ObjectKey, (u32, OidOwner)>,
    /// When those that are gone are looked for next.
    kept_max: usize,
}

impl AssignedOids {
    /// The object's number: the one that it has, or the next.
    pub(crate) fn of(&mut self, key: ObjectKey, owner: impl FnOnce() -> OidOwner) -> u32 {
        if let Some((oid, kept)) = self.oids.get_mut(&key) {
            if kept.is_gone() {
                *kept = owner();
            }
            return *oid;
        }
        if self.oids.len() >= self.kept_max.max(KEPT_MIN) {
            self.oids.retain(|_, (_, owner)| !owner.is_gone());
            self.kept_max = self.oids.len() * 2;
        }
        // After four billion objects the first numbers come again.
        let oid = FIRST + self.given % (u32::MAX - FIRST);
        self.given = self.given.wrapping_add(1);
        self.oids.insert(key, (oid, owner()));
        oid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone() -> OidOwner {
        OidOwner::Table(Weak::new())
    }

    #[test]
    fn an_object_keeps_its_number() {
        let mut known = AssignedOids::default();
        let named = |name: &str| ObjectKey::Sequence(RelationName::new(SchemaId::PUBLIC, name));
        let key = || named("s");
        let first = known.of(key(), gone);
        let second = known.of(named("t"), gone);
        assert_eq!((first, second), (FIRST, FIRST + 1));
        assert_eq!(known.of(key(), gone), first);
    }

    #[test]
    fn numbers_of_what_is_gone_are_forgotten() {
        let mut known = AssignedOids::default();
        for number in 0..10 * KEPT_MIN {
            known.of(ObjectKey::Schema(SchemaId(number as u64)), gone);
        }
        assert!(known.oids.len() <= KEPT_MIN);
    }
}
