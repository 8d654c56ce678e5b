//! Which schemas, tables, sequences and views exist.

use crate::comment::{self, Comments, Subject};
use crate::domain::Domain;
use crate::schema::{NameRef, PUBLIC, RelationName, Schema, SearchPath};
use crate::sequence::Sequence;
use crate::user_type::UserType;
use crate::view::View;
use ankerdb_base::{Error, IndexPosition, Result, SchemaId, SqlState, TableId};
use ankerdb_table::{Index, IndexDefinition, Table};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// What statements call the schema of their session's temporary relations.
const TEMPORARY: &str = "pg_temp";
/// How the names of such schemas begin.
pub(crate) const TEMPORARY_PREFIX: &str = "pg_temp_";

/// An immutable picture of which schemas, tables and indexes exist, looked at along a [`SearchPath`]. A copy costs some
/// references, and a change the copying of one of its maps.
#[derive(Clone)]
pub struct Catalog {
    pub(crate) version: u64,
    pub(crate) path: Arc<SearchPath>,
    pub(crate) schemas: Arc<BTreeMap<String, Arc<Schema>>>,
    pub(crate) tables: Arc<RelationMap<Table>>,
    pub(crate) sequences: Arc<RelationMap<Sequence>>,
    pub(crate) views: Arc<RelationMap<View>>,
    pub(crate) types: Arc<RelationMap<UserType>>,
    pub(crate) domains: Arc<RelationMap<Domain>>,
    pub(crate) comments: Arc<Comments>,
    /// Indexes that go when the transaction commits whose own catalog this is.
    pub(crate) hidden: Vec<Arc<Index>>,
    /// Indexes that it has made and that lack rows which it may see, as it began before.
    pub(crate) unready: Vec<Arc<Index>>,
}

impl Default for Catalog {
    fn default() -> Catalog {
        let public = Schema { id: SchemaId::PUBLIC, name: PUBLIC.to_owned() };
        Catalog {
            version: 0,
            path: Arc::default(),
            schemas: Arc::new(BTreeMap::from([(public.name.clone(), Arc::new(public))])),
            tables: Arc::default(),
            sequences: Arc::default(),
            views: Arc::default(),
            types: Arc::default(),
            domains: Arc::default(),
            comments: Arc::new(comment::first()),
            hidden: Vec::new(),
            unready: Vec::new(),
        }
    }
}

impl ankerdb_transaction::Relations for Catalog {
    fn relation(&self, origin: TableId) -> Option<Arc<Table>> {
        self.by_origin(origin)
    }
}

impl Catalog {
    /// Another one after every change, so that cached plans know when they are stale. The catalogs that transactions have of
    /// their own have versions that no other one has. The path is no part of it.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// This catalog, looked at along another path.
    pub fn along(&self, path: Arc<SearchPath>) -> Catalog {
        Catalog { path, ..self.clone() }
    }

    /// Where names without a schema are looked for.
    pub fn path(&self) -> &Arc<SearchPath> {
        &self.path
    }

    /// All schemas, by name, but those of other sessions' temporary relations.
    pub fn schemas(&self) -> impl Iterator<Item = &Arc<Schema>> {
        self.schemas.values().filter(|schema| self.schema(&schema.name).is_some())
    }

    /// The schema with this name; `pg_temp` is that of the session's temporary relations. Nobody finds other sessions'.
    pub fn schema(&self, name: &str) -> Option<&Arc<Schema>> {
        let own = self.path.temporary.as_deref();
        match name {
            TEMPORARY => self.schemas.get(own?),
            _ if name.starts_with(TEMPORARY_PREFIX) && own != Some(name) => None,
            _ => self.schemas.get(name),
        }
    }

    /// The name of a schema. Costs a look at all schemas.
    pub fn schema_name(&self, id: SchemaId) -> &str {
        self.schemas.values().find(|schema| schema.id == id).map_or("", |schema| &schema.name)
    }

    /// Whether a schema is one of a session's temporary relations. Costs a look at all schemas.
    pub(crate) fn is_temporary(&self, schema: SchemaId) -> bool {
        self.schema_name(schema).starts_with(TEMPORARY_PREFIX)
    }

    /// The schema that gets what is made under this name.
    ///
    /// # Errors
    /// `InvalidSchemaName` if there is none.
    pub fn schema_for<'n>(&self, name: impl Into<NameRef<'n>>) -> Result<SchemaId> {
        let missing = |message: String| Error::new(SqlState::InvalidSchemaName, message);
        match name.into() {
            NameRef::In(schema, _) => Ok(schema),
            NameRef::Qualified(schema, _) => match self.schema(schema) {
                Some(found) => Ok(found.id),
                None => Err(missing(format!("schema \"{schema}\" does not exist"))),
            },
            NameRef::Unqualified(_) => {
                let found = self.path.asked.iter().find_map(|name| self.schemas.get(name));
                found
                    .map(|schema| schema.id)
                    .ok_or_else(|| missing("no schema has been selected to create in".into()))
            }
        }
    }

    /// The schema that a table and its indexes are in.
    pub fn schema_of(&self, table: &Table) -> &str {
        self.schema_name(table.definition().schema)
    }

    /// The full name of the relation that a name stands for, whatever its kind: the first one along the path.
    pub fn lookup<'n>(&self, name: impl Into<NameRef<'n>>) -> Option<RelationName> {
        let in_schema = |schema: SchemaId, name: &str| {
            let name = RelationName::new(schema, name);
            self.is_taken(&name).then_some(name)
        };
        match name.into() {
            NameRef::In(schema, name) => in_schema(schema, name),
            NameRef::Qualified(schema, name) => in_schema(self.schema(schema)?.id, name),
            NameRef::Unqualified(name) => {
                let schemas = self.path.searched.iter().filter_map(|schema| self.schemas.get(schema));
                schemas.into_iter().find_map(|schema| in_schema(schema.id, name))
            }
        }
    }

    /// The table with this name.
    ///
    /// # Errors
    /// `UndefinedTable`.
    pub fn table<'n>(&self, name: impl Into<NameRef<'n>>) -> Result<Arc<Table>> {
        let name = name.into();
        let found = self.lookup(name).and_then(|name| self.tables.get(&name).cloned());
        found.ok_or_else(|| undefined(name))
    }

    /// The table with this origin. Costs a look at all tables.
    pub fn by_origin(&self, origin: TableId) -> Option<Arc<Table>> {
        self.tables.values().find(|table| table.origin() == origin).cloned()
    }

    /// All tables, by schema and name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// The sequence with this name.
    ///
    /// # Errors
    /// `UndefinedTable`.
    pub fn sequence<'n>(&self, name: impl Into<NameRef<'n>>) -> Result<Arc<Sequence>> {
        let name = name.into();
        let found = self.lookup(name).and_then(|name| self.sequences.get(&name).cloned());
        found.ok_or_else(|| undefined(name))
    }

    /// All sequences, by schema and name.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<Sequence>> {
        self.sequences.values()
    }

    /// The view with this name, if there is one.
    pub fn view<'n>(&self, name: impl Into<NameRef<'n>>) -> Option<&Arc<View>> {
        self.views.get(&self.lookup(name)?)
    }

    /// All views, by schema and name.
    pub fn views(&self) -> impl Iterator<Item = &Arc<View>> {
        self.views.values()
    }

    /// Whether the name stands for a table, index, sequence or view.
    pub fn has_relation<'n>(&self, name: impl Into<NameRef<'n>>) -> bool {
        self.lookup(name).is_some()
    }

    /// The table that has the index.
    pub fn table_of_index<'n>(&self, index: impl Into<NameRef<'n>>) -> Option<Arc<Table>> {
        let index = self.lookup(index)?;
        self.tables_in(index.schema).find(|table| self.has_index(table, &index.name)).cloned()
    }

    /// The tables of a schema, by name.
    pub fn tables_in(&self, schema: SchemaId) -> impl Iterator<Item = &Arc<Table>> {
        let tables = self.tables.range(RelationName::new(schema, "")..);
        tables.take_while(move |(name, _)| name.schema == schema).map(|(_, table)| table)
    }

    pub(crate) fn has_index(&self, table: &Table, name: &str) -> bool {
        self.indexes_of(table).any(|index| index.definition().name == name)
    }

    /// Whether a relation has this very name.
    pub(crate) fn is_taken(&self, name: &RelationName) -> bool {
        self.tables.contains_key(name)
            || self.sequences.contains_key(name)
            || self.views.contains_key(name)
            || self.tables_in(name.schema).any(|table| self.has_index(table, &name.name))
    }

    /// Whether a relation or type is in the schema.
    pub fn is_used(&self, schema: SchemaId) -> bool {
        let is_in = |name: &RelationName| name.schema == schema;
        self.tables.keys().any(is_in)
            || self.sequences.keys().any(is_in)
            || self.views.keys().any(is_in)
            || self.types.keys().any(is_in)
            || self.domains.keys().any(is_in)
    }

    /// The indexes of a table that are maintained and not about to go.
    pub fn indexes_of<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = &'a Arc<Index>> {
        let stays = |index: &&Arc<Index>| !self.hidden.iter().any(|hidden| Arc::ptr_eq(hidden, index));
        table.maintained_indexes().map(|(_, index)| index).filter(stays)
    }

    /// The indexes of a table that statements may use, by position; see [`Table::usable_indexes`].
    pub fn usable_indexes<'a>(
        &'a self,
        table: &'a Table,
    ) -> impl Iterator<Item = (IndexPosition, &'a Arc<Index>)> {
        let is_left_out = |index: &Arc<Index>| self.unready.iter().any(|unready| Arc::ptr_eq(unready, index));
        table.usable_indexes().filter(move |(_, index)| !is_left_out(index))
    }

    /// Whether a table has a constraint of this name: a key, a condition, or a foreign key.
    pub fn has_constraint(&self, table: &Table, name: &str) -> bool {
        let definition = table.definition();
        definition.foreign_keys.iter().any(|key| key.name == name)
            || definition.checks.iter().any(|check| check.name == name)
            || self
                .indexes_of(table)
                .any(|index| index.definition().is_constraint && index.definition().name == name)
    }

    /// The other tables with foreign keys to this one, and the constraints' names.
    pub fn references_to(&self, table: &Table) -> Vec<(Arc<Table>, String)> {
        let sides = table.definition().referenced_by.iter().filter(|side| side.child != table.origin());
        sides.filter_map(|side| Some((self.by_origin(side.child)?, side.name.clone()))).collect()
    }

    /// That no other table refers to this one.
    ///
    /// # Errors
    /// `DependentObjectsStillExist`, which names the first one that does.
    pub fn check_unreferenced(&self, table: &Table) -> Result<()> {
        let Some((child, constraint)) = self.references_to(table).into_iter().next() else { return Ok(()) };
        let message = format!("cannot drop table {} because other objects depend on it", table.name());
        let detail =
            format!("constraint {constraint} on table {} depends on table {}", child.name(), table.name());
        let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
        Err(Error::new(SqlState::DependentObjectsStillExist, message).with_detail(detail).with_hint(hint))
    }

    /// That an index can go: no foreign key needs it, or there is another one over the same columns.
    ///
    /// # Errors
    /// `DependentObjectsStillExist`.
    pub(crate) fn check_key_unreferenced(&self, table: &Table, index: &Arc<Index>) -> Result<()> {
        let is_same = |key: &IndexDefinition, columns: &[usize]| {
            key.unique
                && key.columns.len() == columns.len()
                && key.columns.iter().all(|at| columns.contains(at))
        };
        let name = &index.definition().name;
        for side in &table.definition().referenced_by {
            let others = self.indexes_of(table).filter(|other| !Arc::ptr_eq(other, index));
            let mut others = others.map(|other| other.definition());
            if is_same(index.definition(), &side.columns)
                && !others.any(|other| is_same(other, &side.columns))
            {
                let child = self.by_origin(side.child);
                let child = child.as_ref().map_or("", |child| child.name());
                let message = format!("cannot drop index {name} because other objects depend on it");
                let detail = format!("constraint {} on table {child} depends on index {name}", side.name);
                let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
                let state = SqlState::DependentObjectsStillExist;
                return Err(Error::new(state, message).with_detail(detail).with_hint(hint));
            }
        }
        Ok(())
    }

    /// `current`, with what this catalog has changed since `base`, from which it was made.
    ///
    /// # Errors
    /// `SerializationFailure` if `current` has other changes of the same relation or schema; `DuplicateTable` or
    /// `DuplicateSchema` if both have made one of the same name.
    pub(crate) fn with_changes(&self, base: &Catalog, current: &Catalog) -> Result<Catalog> {
        let (hidden, unready, path) = (self.hidden.clone(), self.unready.clone(), self.path.clone());
        let mut merged = Catalog { hidden, unready, path, ..current.clone() };
        carry(&base.schemas, &self.schemas, &mut merged.schemas)?;
        let mut made = carry(&base.tables, &self.tables, &mut merged.tables)?;
        made.extend(carry(&base.sequences, &self.sequences, &mut merged.sequences)?);
        made.extend(carry(&base.views, &self.views, &mut merged.views)?);
        // They have names of their own.
        self.check_made_types(base, current)?;
        self.check_made_domains(base, current)?;
        carry(&base.types, &self.types, &mut merged.types)?;
        carry(&base.domains, &self.domains, &mut merged.domains)?;
        self.check_comments(base, current)?;
        carry(&base.comments, &self.comments, &mut merged.comments)?;
        let tables = made.iter().filter_map(|name| merged.tables.get(*name));
        let in_schema = |table: &Table, index: &Index| {
            RelationName::new(table.definition().schema, index.definition().name.as_str())
        };
        let indexes = tables.flat_map(|table| merged.indexes_of(table).map(|index| in_schema(table, index)));
        let made = made.iter().map(|name| (*name).clone()).chain(indexes);
        let taken = made.into_iter().find(|name| merged.relations(name) > 1);
        taken.map_or(Ok(()), |name| Err(relation_exists(&name.name)))?;
        merged.check_schemas()?;
        merged.check_types()?;
        merged.check_domains()?;
        Ok(merged)
    }

    /// That no relation was made in a schema while that was dropped.
    pub(crate) fn check_schemas(&self) -> Result<()> {
        let known: HashSet<SchemaId> = self.schemas.values().map(|schema| schema.id).collect();
        let names = self.tables.keys().chain(self.sequences.keys()).chain(self.views.keys());
        let names = names.chain(self.types.keys()).chain(self.domains.keys());
        let lost = names.into_iter().find(|name| !known.contains(&name.schema));
        lost.map_or(Ok(()), |name| Err(changed_by_others(&name.name)))
    }

    /// How many relations have the name.
    fn relations(&self, name: &RelationName) -> usize {
        let indexes = self.tables_in(name.schema).flat_map(|table| self.indexes_of(table));
        let indexes = indexes.filter(|index| index.definition().name == name.name).count();
        let others = [
            self.tables.contains_key(name),
            self.sequences.contains_key(name),
            self.views.contains_key(name),
        ];
        indexes + others.into_iter().filter(|has| *has).count()
    }
}

/// Relations of one kind.
pub(crate) type RelationMap<T> = BTreeMap<RelationName, Arc<T>>;

/// What a catalog knows things by.
trait Key: Ord + Clone {
    /// 42P07 or 42P06.
    fn exists(&self) -> Error;
    /// 40001.
    fn changed(&self) -> Error;
}

impl Key for RelationName {
    fn exists(&self) -> Error {
        relation_exists(&self.name)
    }

    fn changed(&self) -> Error {
        changed_by_others(&self.name)
    }
}

impl Key for String {
    fn exists(&self) -> Error {
        schema_exists(self)
    }

    fn changed(&self) -> Error {
        let message = format!("could not serialize access due to a concurrent change of schema \"{self}\"");
        Error::new(SqlState::SerializationFailure, message)
    }
}

impl Key for Subject {
    fn exists(&self) -> Error {
        comment::changed_by_others()
    }

    fn changed(&self) -> Error {
        comment::changed_by_others()
    }
}

/// Makes the changes from `base` to `own` in `merged`, too. Returns the names of those that are new or changed.
fn carry<'a, K: Key, T: ?Sized>(
    base: &BTreeMap<K, Arc<T>>,
    own: &'a BTreeMap<K, Arc<T>>,
    merged: &mut Arc<BTreeMap<K, Arc<T>>>,
) -> Result<Vec<&'a K>> {
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
            return Err(if before.is_none() { name.exists() } else { name.changed() });
        }
        Arc::make_mut(merged).insert(name.clone(), relation.clone());
        made.push(name);
    }
    for (name, relation) in base.iter().filter(|(name, _)| !own.contains_key(*name)) {
        if !is_same(Some(relation), merged.get(name)) {
            return Err(name.changed());
        }
        Arc::make_mut(merged).remove(name);
    }
    Ok(made)
}

fn undefined(name: NameRef<'_>) -> Error {
    Error::new(SqlState::UndefinedTable, format!("relation \"{name}\" does not exist"))
}

pub(crate) fn relation_exists(name: &str) -> Error {
    Error::new(SqlState::DuplicateTable, format!("relation \"{name}\" already exists"))
}

pub(crate) fn schema_exists(name: &str) -> Error {
    Error::new(SqlState::DuplicateSchema, format!("schema \"{name}\" already exists"))
}

pub(crate) fn changed_by_others(name: &str) -> Error {
    let message = format!("could not serialize access due to a concurrent change of relation \"{name}\"");
    Error::new(SqlState::SerializationFailure, message)
}
