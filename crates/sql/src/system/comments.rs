//! Comments: `pg_description` and `pg_shdescription`.

use super::objects::DATABASE_OID;
use super::oids::{AssignedOids, ObjectKey};
use super::{PUBLIC_OID, Rows, SystemCatalog, row};
use ankerdb_engine::{Catalog, Object, Part, RelationName, SchemaId, Subject, Table, TableId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The relations that list what there are comments on.
pub(super) const RELATIONS: u32 = 1259;
pub(super) const DATABASES: u32 = 1262;
const SCHEMAS: u32 = 2615;
const CONSTRAINTS: u32 = 2606;
const TYPES: u32 = 1247;

/// What a comment is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Commented {
    /// Its number.
    pub(super) object: u32,
    /// The relation that lists it.
    pub(super) class: u32,
    /// The column, counted from 1; 0 for all of the object.
    pub(super) column: i32,
}

pub(super) type Comments = BTreeMap<Commented, String>;

/// All comments of a catalog but those on temporary relations of other sessions.
pub(super) fn describe(catalog: &Catalog, oids: &mut AssignedOids) -> Comments {
    let schemas: HashSet<SchemaId> = catalog.schemas().map(|schema| schema.id).collect();
    let tables = catalog.tables().filter(|table| schemas.contains(&table.schema()));
    let known = Tables { catalog, tables: tables.map(|table| (table.origin(), table)).collect(), schemas };
    let described = catalog.comments().filter_map(|(subject, text)| {
        let (class, object) = known.number(subject, oids)?;
        let column = match subject.part {
            Part::Column(position) => i32::try_from(super::column_number(position)).unwrap_or(i32::MAX),
            _ => 0,
        };
        Some((Commented { object, class, column }, text.to_owned()))
    });
    described.collect()
}

/// What the session may know of a catalog.
struct Tables<'a> {
    catalog: &'a Catalog,
    tables: HashMap<TableId, &'a Arc<Table>>,
    schemas: HashSet<SchemaId>,
}

impl Tables<'_> {
    /// The relation that lists what a comment is about, and its number there.
    fn number(&self, subject: &Subject, oids: &mut AssignedOids) -> Option<(u32, u32)> {
        let is_known = |name: &RelationName| self.schemas.contains(&name.schema);
        match &subject.object {
            Object::Database => Some((DATABASES, DATABASE_OID)),
            Object::Schema(SchemaId::PUBLIC) => Some((SCHEMAS, PUBLIC_OID)),
            Object::Schema(id) => {
                let schema = self.catalog.schemas().find(|schema| schema.id == *id)?;
                Some((SCHEMAS, oids.of(ObjectKey::Schema(*id), || schema.into())))
            }
            Object::View(name) => {
                let view = self.catalog.view(name).filter(|_| is_known(name))?;
                Some((RELATIONS, oids.of(ObjectKey::View(name.clone()), || view.into())))
            }
            Object::Sequence(name) => {
                let sequence = self.catalog.sequence(name).ok().filter(|_| is_known(name))?;
                Some((RELATIONS, oids.of(ObjectKey::Sequence(name.clone()), || (&sequence).into())))
            }
            Object::Type(name) => {
                let labels = self.catalog.user_type(name).map(|known| known.labels.oid());
                let domain = || self.catalog.domain(name).map(|domain| domain.identity.oid());
                Some((TYPES, labels.or_else(domain).filter(|_| is_known(name))?))
            }
            Object::Table(origin) => {
                let table = *self.tables.get(origin)?;
                let (class, key) = match &subject.part {
                    Part::Whole | Part::Column(_) => (RELATIONS, ObjectKey::Table(*origin)),
                    Part::Index(name) => (RELATIONS, ObjectKey::Index(*origin, name.clone())),
                    Part::Constraint(name) => (CONSTRAINTS, ObjectKey::Constraint(*origin, name.clone())),
                };
                Some((class, oids.of(key, || table.into())))
            }
        }
    }
}

pub(super) fn descriptions(catalog: &SystemCatalog) -> Rows {
    let own = catalog.comments.iter().filter(|(about, _)| about.class != DATABASES);
    own.map(|(about, text)| row![about.object, about.class, about.column, text.as_str()]).collect()
}

pub(super) fn shared_descriptions(catalog: &SystemCatalog) -> Rows {
    let shared = catalog.comments.iter().filter(|(about, _)| about.class == DATABASES);
    shared.map(|(about, text)| row![about.object, about.class, text.as_str()]).collect()
}
