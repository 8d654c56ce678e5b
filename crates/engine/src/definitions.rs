//! Changing the catalog: tables and indexes come and go while transactions go on.
//!
//! What one transaction changes is a [`Definitions`]: a catalog of its own, which it works by, and which others get when it
//! commits (docs/design/definitions.md).
//!
//! ```text
//! base     the catalog of all, as this transaction has last seen it
//! own      base, with this transaction's changes
//! current  the catalog of all now: when it is not base any more, own becomes current with the same changes, or the
//!          transaction ends with 40001, because both have changed the same relation
//! ```
//!
//! An index of a table that others have, too, is maintained from the moment that it is added, is then filled from a snapshot,
//! and is read by transactions that begin after that. Filling takes time in proportion to the table, and other changes wait
//! for their turn meanwhile; so every loop and every wait here checks the interrupt of its statement.

use crate::catalog::{Catalog, changed_by_others, relation_exists, schema_exists};
use crate::comment::{Object, Part, Subject};
use crate::database::Database;
use crate::image::{CatalogChange, ChangedIndexes};
use crate::index_filling::IndexFilling;
use crate::schema::{NameRef, RelationName, Schema, SearchPath};
use crate::sequence::{Sequence, SequenceCount, SequenceDefinition};
use crate::shared::DatabaseState;
use crate::view::View;
use ankerdb_base::{Error, Result, RowId, SchemaId, SqlState, TableId, Timestamp};
use ankerdb_snapshot::Snapshot;
use ankerdb_table::{
    Entries, Gate, Index, IndexDefinition, IndexLife, ReadAt, Storage, Table, TableDefinition,
};
use ankerdb_transaction::{DefinitionChange, Interrupt, Isolation, Transaction};
use parking_lot::MutexGuard;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// How long a change that waits for its turn takes to notice its interrupt.
const TURN_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The changes that one transaction makes to a database's catalog; see [`Database::definitions`]. Dropped without
/// [`commit`](Self::commit), nothing of them remains.
pub struct Definitions {
    database: Database,
    interrupt: Interrupt,
    /// By which it closes gates.
    closer: NonZeroU64,
    base: Arc<Catalog>,
    own: Arc<Catalog>,
    /// What it did besides changing its own catalog, to be undone backwards.
    steps: Vec<Step>,
}

enum Step {
    /// An index was added to a table.
    Built(Arc<Index>),
    /// An index is to go when the transaction commits.
    Dropped(Arc<Index>),
    /// The gate of a table was closed.
    Closed(Arc<Table>),
    /// The rows of a table got another definition.
    Redefined { old: Arc<Table>, new: Arc<Table> },
}

/// How far the changes of a transaction had come; see [`Definitions::mark`].
#[derive(Clone)]
pub struct DefinitionMark {
    base: Arc<Catalog>,
    own: Arc<Catalog>,
    steps: usize,
}

impl Database {
    /// Changes of the catalog by one transaction, or by one statement that is its own. Once the interrupt is raised they
    /// fail with its error.
    pub fn definitions(&self, interrupt: &Interrupt) -> Definitions {
        interrupt.limit_memory(self.memory_limit());
        let base = self.catalog();
        let (closer, own) = (self.shared.next_closer(), base.clone());
        Definitions {
            database: self.clone(),
            interrupt: interrupt.clone(),
            closer,
            base,
            own,
            steps: Vec::new(),
        }
    }

    /// Makes a change at once.
    pub(crate) fn define<T>(&self, change: impl Fn(&mut Definitions) -> Result<T>) -> Result<T> {
        loop {
            let mut definitions = self.definitions(&Interrupt::new());
            let changed = change(&mut definitions);
            let done = changed.and_then(|value| definitions.commit(None).map(|()| value));
            match done {
                Err(error) if error.is_retryable() => std::thread::yield_now(),
                done => return done,
            }
        }
    }
}

impl Definitions {
    /// The catalog as this transaction sees it: with what others have committed, and with its own changes.
    ///
    /// # Errors
    /// `SerializationFailure`, or `DuplicateTable`, if others have changed what it has changed.
    pub fn catalog(&mut self) -> Result<Arc<Catalog>> {
        if self.database.catalog_version() != self.base.version {
            let current = self.database.catalog();
            self.own = Arc::new(self.merged(&current)?);
            self.base = current;
        }
        Ok(self.own.clone())
    }

    /// The catalog as it was when [`catalog`](Self::catalog) was last asked for, and this transaction's changes since.
    pub fn known_catalog(&self) -> &Arc<Catalog> {
        &self.own
    }

    /// A point to which the changes can be rolled back.
    pub fn mark(&self) -> DefinitionMark {
        DefinitionMark { base: self.base.clone(), own: self.own.clone(), steps: self.steps.len() }
    }

    /// Takes back the changes since, or all.
    pub fn rollback_to(&mut self, mark: Option<&DefinitionMark>, transaction: Option<&mut Transaction>) {
        self.undo(mark.map_or(0, |mark| mark.steps), transaction);
        match mark {
            Some(mark) => (self.base, self.own) = (mark.base.clone(), mark.own.clone()),
            None => self.own = self.base.clone(),
        }
        self.show_private_types();
    }

    /// The catalog of all, as this transaction has last seen it.
    pub(crate) fn base_catalog(&self) -> &Catalog {
        &self.base
    }

    /// Adds a table.
    ///
    /// # Errors
    /// `DuplicateTable` if the name, or the name of one of its indexes, is taken; `InvalidTableDefinition` and
    /// `DuplicateColumn` if the definition is malformed.
    pub fn create_table(&mut self, definition: TableDefinition) -> Result<Arc<Table>> {
        self.create_table_with(definition, Vec::new())
    }

    /// Adds a table together with the sequences that its columns count by.
    ///
    /// # Errors
    /// Those of [`create_table`](Self::create_table), and `InvalidParameterValue` for a sequence that cannot count.
    pub fn create_table_with(
        &mut self,
        definition: TableDefinition,
        sequences: Vec<SequenceDefinition>,
    ) -> Result<Arc<Table>> {
        definition.validate()?;
        sequences.iter().try_for_each(SequenceDefinition::validate)?;
        self.check_types_of(&definition)?;
        let schema = definition.schema;
        let catalog = self.catalog_with(schema)?;
        let names = definition.indexes.iter().map(|index| &index.name);
        let names = names.chain(sequences.iter().map(|sequence| &sequence.name));
        let is_taken = |name: &&String| catalog.has_relation(NameRef::In(schema, name));
        if let Some(name) = std::iter::once(&definition.name).chain(names).find(is_taken) {
            return Err(relation_exists(name));
        }
        let table = Arc::new(self.new_table(definition)?);
        let sequences: Vec<_> =
            sequences.into_iter().map(|definition| self.new_sequence(definition)).collect();
        self.change(|catalog| {
            Arc::make_mut(&mut catalog.tables).insert(RelationName::of(&table), table.clone());
            Arc::make_mut(&mut catalog.sequences).extend(sequences);
        });
        Ok(table)
    }

    fn new_sequence(&self, definition: SequenceDefinition) -> (RelationName, Arc<Sequence>) {
        let sequence = self.sequence_from(definition.start, definition);
        (sequence.full_name(), Arc::new(sequence))
    }

    /// A sequence of its own whose first number this is.
    fn sequence_from(&self, start: i64, definition: SequenceDefinition) -> Sequence {
        let shared = &self.database.shared;
        let is_temporary = self.own.is_temporary(definition.schema);
        let start = SequenceCount::starting_at(start);
        let sequence = Sequence::with_count(shared.next_number(), definition, start);
        if is_temporary { sequence } else { sequence.logged_by(&shared.manager) }
    }

    /// The catalog, in which something is to be made in a schema.
    pub(crate) fn catalog_with(&mut self, schema: SchemaId) -> Result<Arc<Catalog>> {
        let catalog = self.catalog()?;
        let is_there = catalog.schemas.values().any(|known| known.id == schema);
        let missing = || Error::new(SqlState::InvalidSchemaName, "the schema does not exist");
        is_there.then_some(catalog).ok_or_else(missing)
    }

    /// From now on names without a schema are looked for along this path.
    pub fn set_path(&mut self, path: &Arc<SearchPath>) {
        if !Arc::ptr_eq(self.own.path(), path) {
            self.own = Arc::new(self.own.along(path.clone()));
        }
    }

    /// Adds a schema.
    ///
    /// # Errors
    /// `DuplicateSchema` if the name is taken.
    pub fn create_schema(&mut self, name: &str) -> Result<SchemaId> {
        if self.catalog()?.schema(name).is_some() {
            return Err(schema_exists(name));
        }
        let schema = Schema { id: SchemaId(self.database.shared.next_version()), name: name.to_owned() };
        let id = schema.id;
        self.change(|catalog| Arc::make_mut(&mut catalog.schemas).insert(name.to_owned(), Arc::new(schema)));
        Ok(id)
    }

    /// Removes a schema that nothing is in.
    ///
    /// # Errors
    /// `InvalidSchemaName` if there is none; `DependentObjectsStillExist` if there is something in it.
    pub fn drop_schema(&mut self, name: &str) -> Result<()> {
        let schema = self.known_schema(name)?;
        if self.own.is_used(schema.id) {
            let message = format!("cannot drop schema {name} because other objects depend on it");
            return Err(Error::new(SqlState::DependentObjectsStillExist, message));
        }
        self.change(|catalog| {
            Arc::make_mut(&mut catalog.schemas).remove(&schema.name);
            catalog.forget_comments(&Object::Schema(schema.id));
        });
        Ok(())
    }

    /// Gives a schema another name. What is in it stays.
    ///
    /// # Errors
    /// `InvalidSchemaName` if there is none; `DuplicateSchema` if the new name is taken.
    pub fn rename_schema(&mut self, name: &str, new: &str) -> Result<()> {
        let schema = self.known_schema(name)?;
        if self.own.schema(new).is_some() {
            return Err(schema_exists(new));
        }
        self.change(|catalog| {
            let schemas = Arc::make_mut(&mut catalog.schemas);
            schemas.remove(&schema.name);
            schemas.insert(new.to_owned(), Arc::new(Schema { id: schema.id, name: new.to_owned() }));
        });
        Ok(())
    }

    fn known_schema(&mut self, name: &str) -> Result<Arc<Schema>> {
        let missing = || Error::new(SqlState::InvalidSchemaName, format!("schema \"{name}\" does not exist"));
        self.catalog()?.schema(name).cloned().ok_or_else(missing)
    }

    /// An empty table, not yet in a catalog.
    fn new_table(&self, definition: TableDefinition) -> Result<Table> {
        let shared = &self.database.shared;
        let id = shared.manager.new_table();
        let is_temporary = self.own.is_temporary(definition.schema);
        let table = match shared.placement {
            None => Storage::create(id, definition),
            Some(placement) => Storage::create_in_regions(id, definition, placement)?,
        };
        Ok(if is_temporary { table.unlogged() } else { table })
    }

    /// Adds a sequence.
    ///
    /// # Errors
    /// `DuplicateTable` if the name is taken, `InvalidParameterValue` if it cannot count like that.
    pub fn create_sequence(&mut self, definition: SequenceDefinition) -> Result<()> {
        definition.validate()?;
        if self
            .catalog_with(definition.schema)?
            .has_relation(NameRef::In(definition.schema, &definition.name))
        {
            return Err(relation_exists(&definition.name));
        }
        let sequence = self.new_sequence(definition);
        self.change(|catalog| Arc::make_mut(&mut catalog.sequences).extend([sequence]));
        Ok(())
    }

    /// Removes a sequence.
    ///
    /// # Errors
    /// `UndefinedTable`.
    pub fn drop_sequence<'n>(&mut self, name: impl Into<NameRef<'n>>) -> Result<()> {
        let name = name.into();
        let missing = |_| Error::new(SqlState::UndefinedTable, format!("sequence \"{name}\" does not exist"));
        let sequence = self.catalog()?.sequence(name).map_err(missing)?;
        self.change(|catalog| {
            Arc::make_mut(&mut catalog.sequences).remove(&sequence.full_name());
            catalog.forget_comments(&Object::Sequence(sequence.full_name()));
        });
        Ok(())
    }

    /// Adds a view, or puts it in the place of the one of the same name.
    ///
    /// # Errors
    /// `DuplicateTable` if another relation has the name, or a view and it is not to be replaced.
    pub fn create_view(&mut self, view: View, replaces: bool) -> Result<()> {
        let catalog = self.catalog_with(view.schema)?;
        let name = view.full_name();
        let may_be = replaces && catalog.view(&name).is_some();
        if !may_be && catalog.has_relation(&name) {
            return Err(relation_exists(&view.name));
        }
        self.change(|catalog| Arc::make_mut(&mut catalog.views).insert(name, Arc::new(view)));
        Ok(())
    }

    /// Removes a view.
    ///
    /// # Errors
    /// `UndefinedTable`.
    pub fn drop_view<'n>(&mut self, name: impl Into<NameRef<'n>>) -> Result<()> {
        let name = name.into();
        let missing = || Error::new(SqlState::UndefinedTable, format!("view \"{name}\" does not exist"));
        let name = self.catalog()?.view(name).map(|view| view.full_name()).ok_or_else(missing)?;
        self.change(|catalog| {
            Arc::make_mut(&mut catalog.views).remove(&name);
            catalog.forget_comments(&Object::View(name));
        });
        Ok(())
    }

    /// Removes a table, and the sequences that count for its columns. Transactions and snapshots that use it keep it until
    /// they end; those that have written to it, or read it to write elsewhere, end with 40001. Its foreign keys go with it, also
    /// from the definitions of tables that they refer to, which `transaction` may have used.
    ///
    /// # Errors
    /// `UndefinedTable`; `DependentObjectsStillExist` if a foreign key of another table refers to it.
    pub fn drop_table<'n>(
        &mut self,
        name: impl Into<NameRef<'n>>,
        mut transaction: Option<&mut Transaction>,
    ) -> Result<()> {
        let name = name.into();
        let missing = |_| Error::new(SqlState::UndefinedTable, format!("table \"{name}\" does not exist"));
        let catalog = self.catalog()?;
        let mut table = catalog.table(name).map_err(missing)?;
        catalog.check_unreferenced(&table)?;
        let name = RelationName::of(&table);
        while let Some(key) = table.definition().foreign_keys.first() {
            self.drop_foreign_key(&table, &key.name, transaction.as_deref_mut())?;
            table = self.catalog()?.table(&name)?;
        }
        self.change(|catalog| {
            Arc::make_mut(&mut catalog.tables).remove(&name);
            catalog.forget_comments(&Object::Table(table.origin()));
            let is_owned = |sequence: &&Arc<Sequence>| {
                sequence.definition().owner.as_ref().is_some_and(|(table, _)| *table == name)
            };
            let owned: Vec<_> =
                catalog.sequences.values().filter(is_owned).map(|sequence| sequence.full_name()).collect();
            for sequence in owned {
                Arc::make_mut(&mut catalog.sequences).remove(&sequence);
                catalog.forget_comments(&Object::Sequence(sequence));
            }
        });
        Ok(())
    }

    /// Adds an index and fills it from the rows there are, while transactions go on. Others must not break its promise from
    /// now on if it is unique; rows that this transaction has written are checked when it commits. It is usable by
    /// transactions that begin later, and at once if the table is this transaction's own.
    ///
    /// # Errors
    /// `UndefinedTable`, `DuplicateTable`; `UniqueViolation` if the index is unique and two rows share a key,
    /// `OutOfMemory` past the memory limit, and `QueryCanceled` if it is interrupted, in which cases nothing remains
    /// of it.
    pub fn create_index<'n>(
        &mut self,
        table: impl Into<NameRef<'n>>,
        definition: IndexDefinition,
    ) -> Result<()> {
        let database = self.database.clone();
        let _turn = database.shared.take_turn(&self.interrupt)?;
        let catalog = self.catalog()?;
        let table = catalog.table(table)?;
        table.definition().validate_index(&definition)?;
        if catalog.has_relation(NameRef::In(table.definition().schema, &definition.name)) {
            return Err(relation_exists(&definition.name));
        }
        let index = Storage::of(&table).add_index(definition);
        self.steps.push(Step::Built(index.clone()));
        let valid_from = match self.is_private(&table) {
            // There is no row but those that this transaction has written, which are found by other means.
            true => Ok(Timestamp::ZERO),
            false => self.fill(&table, &index),
        };
        match valid_from {
            Ok(timestamp) => IndexLife::of(&index).set_valid_from(timestamp),
            Err(error) => {
                self.undo(self.steps.len() - 1, None);
                database.shared.manager.reclaim();
                return Err(error);
            }
        }
        let is_ready = index.valid_from() == Timestamp::ZERO;
        self.change(|catalog| catalog.unready.extend((!is_ready).then_some(index)));
        Ok(())
    }

    /// Whether nobody else knows the rows of the table.
    pub fn is_private(&self, table: &Table) -> bool {
        self.base.tables().all(|known| known.id() != table.id())
    }

    /// Fills a new index; returns from when on it is complete.
    fn fill(&self, table: &Table, index: &Index) -> Result<Timestamp> {
        let manager = &self.database.shared.manager;
        // From the next commit on the index is maintained. Commits under way may not know it: let them finish.
        manager.wait_for_commits();
        let snapshot = manager.snapshot();
        let filling = IndexFilling {
            storage: Storage::of(table),
            index,
            at: ReadAt::Snapshot(snapshot.timestamp()),
            interrupt: &self.interrupt,
            limit: manager.memory_limit(),
        };
        let filled = filling.fill();
        // The check must see commits that looked for their keys in a half-filled index.
        manager.wait_for_commits();
        filled?;
        check_unique(table, index, &manager.snapshot(), &self.interrupt)?;
        Ok(snapshot.timestamp())
    }

    /// Removes an index; others use and maintain it until the commit.
    ///
    /// # Errors
    /// `UndefinedObject`; `FeatureNotSupported` for the index of a primary key.
    pub fn drop_index<'n>(&mut self, name: impl Into<NameRef<'n>>) -> Result<()> {
        self.drop_index_or_key(name.into(), false)
    }

    /// Removes the index of a constraint, also of a primary key, as [`drop_index`](Self::drop_index) does.
    ///
    /// # Errors
    /// `UndefinedObject`.
    pub fn drop_key<'n>(&mut self, name: impl Into<NameRef<'n>>) -> Result<()> {
        self.drop_index_or_key(name.into(), true)
    }

    fn drop_index_or_key(&mut self, name: NameRef<'_>, may_be_primary: bool) -> Result<()> {
        let missing = || Error::new(SqlState::UndefinedObject, format!("index \"{name}\" does not exist"));
        let table = self.catalog()?.table_of_index(name).ok_or_else(missing)?;
        let (_, index) = (table.maintained_indexes())
            .find(|(_, index)| index.definition().name == name.name())
            .ok_or_else(missing)?;
        if index.definition().primary && !may_be_primary {
            let message = format!(
                "cannot drop index {0} because constraint {0} on table {1} requires it",
                name.name(),
                table.name()
            );
            return Err(Error::new(SqlState::FeatureNotSupported, message));
        }
        let index = index.clone();
        self.own.check_key_unreferenced(&table, &index)?;
        self.steps.push(Step::Dropped(index.clone()));
        self.change(|catalog| {
            let name = &index.definition().name;
            catalog.move_comments(&Object::Table(table.origin()), |subject| match &subject.part {
                Part::Index(own) | Part::Constraint(own) if own == name => None,
                _ => Some(subject.clone()),
            });
            catalog.hidden.push(index);
        });
        Ok(())
    }

    /// Keeps all others from committing to a table until this transaction ends: they end with 40001 if they try, and wait
    /// before they try again. When this returns, everything that they have committed is in
    /// [`Transaction::newest_view`].
    ///
    /// # Errors
    /// `SerializationFailure` if another transaction has done so.
    pub fn close(&mut self, table: &Arc<Table>, transaction: &mut Transaction) -> Result<()> {
        if self.is_private(table) {
            return Ok(());
        }
        if !Gate::of(table).close(self.closer) {
            return Err(changed_by_others(table.name()));
        }
        self.steps.push(Step::Closed(table.clone()));
        transaction.set_closer(self.closer);
        self.database.shared.manager.wait_for_commits();
        Ok(())
    }

    /// Gives the rows of a table another definition, whose columns have the same types and allow NULL alike. The caller
    /// has [closed](Self::close) the table and knows that its rows fit.
    ///
    /// # Errors
    /// `DuplicateTable` if it has another name, which is taken; those of a malformed definition.
    pub fn redefine_table(
        &mut self,
        old: &Arc<Table>,
        definition: TableDefinition,
        transaction: &mut Transaction,
    ) -> Result<Arc<Table>> {
        self.redefine(old, definition, Some(transaction))
    }

    /// Takes the default of a column away.
    ///
    /// # Errors
    /// Those of [`redefine_table`](Self::redefine_table).
    pub fn drop_default(
        &mut self,
        table: &Arc<Table>,
        column: usize,
        transaction: Option<&mut Transaction>,
    ) -> Result<Arc<Table>> {
        let mut definition = table.definition().clone();
        definition.columns[column].default = None;
        self.redefine(table, definition, transaction)
    }

    pub(crate) fn redefine(
        &mut self,
        old: &Arc<Table>,
        definition: TableDefinition,
        transaction: Option<&mut Transaction>,
    ) -> Result<Arc<Table>> {
        definition.validate()?;
        self.check_types_of(&definition)?;
        self.check_renamed(old, &definition)?;
        let new = Arc::new(Storage::redefine(old, definition));
        if let Some(transaction) = transaction {
            transaction.redefine(old, &new);
        }
        self.steps.push(Step::Redefined { old: old.clone(), new: new.clone() });
        self.put_in_place(old, &new, Some);
        self.change(|catalog| {
            catalog.forget_constraints(old.origin(), old.definition(), new.definition());
        });
        Ok(new)
    }

    /// Puts an empty table in the place of another one, of which the caller has closed the gate and copies the rows. Columns of
    /// the old one are at `moved`, or gone; sequences that count for those go too.
    ///
    /// # Errors
    /// Those of [`redefine_table`](Self::redefine_table).
    pub fn replace_table(
        &mut self,
        old: &Arc<Table>,
        definition: TableDefinition,
        moved: impl Fn(usize) -> Option<usize>,
    ) -> Result<Arc<Table>> {
        definition.validate()?;
        self.check_types_of(&definition)?;
        self.check_renamed(old, &definition)?;
        let new = Arc::new(Storage::succeed(self.new_table(definition)?, old));
        let has_key = |name: &str| new.definition().indexes.iter().any(|index| index.name == name);
        let had_key = |name: &str| self.own.indexes_of(old).any(|index| index.definition().name == name);
        let goes = |name: &str| had_key(name) && !has_key(name);
        let object = Object::Table(old.origin());
        let mut own = (*self.own).clone();
        own.move_comments(&object, |subject| {
            let part = match &subject.part {
                Part::Column(column) => Part::Column(moved(*column)?),
                Part::Index(name) | Part::Constraint(name) if goes(name) => return None,
                other => other.clone(),
            };
            Some(Subject::new(object.clone(), part))
        });
        self.own = Arc::new(own);
        self.put_in_place(old, &new, moved);
        Ok(new)
    }

    fn check_renamed(&mut self, old: &Table, definition: &TableDefinition) -> Result<()> {
        let catalog = self.catalog_with(definition.schema)?;
        let new = RelationName::new(definition.schema, definition.name.as_str());
        let is_taken = |name: &RelationName| catalog.has_relation(name);
        if new != RelationName::of(old) && is_taken(&new) {
            return Err(relation_exists(&new.name));
        }
        if new.schema == old.definition().schema {
            return Ok(());
        }
        let indexes = catalog.indexes_of(old).map(|index| &index.definition().name);
        let taken = indexes.map(|name| RelationName::new(new.schema, name.as_str())).find(is_taken);
        taken.map_or(Ok(()), |name| Err(relation_exists(&name.name)))
    }

    fn put_in_place(&mut self, old: &Table, new: &Arc<Table>, moved: impl Fn(usize) -> Option<usize>) {
        let (old, name) = (RelationName::of(old), RelationName::of(new));
        self.change(|catalog| {
            let tables = Arc::make_mut(&mut catalog.tables);
            tables.remove(&old);
            tables.insert(name.clone(), new.clone());
            let owned = catalog.sequences.values().filter_map(|sequence| {
                let (table, column) = sequence.definition().owner.as_ref()?;
                (*table == old).then(|| (sequence.clone(), moved(*column)))
            });
            let owned: Vec<_> = owned.collect();
            for (sequence, column) in owned {
                let was = sequence.full_name();
                Arc::make_mut(&mut catalog.sequences).remove(&was);
                let Some(column) = column else {
                    catalog.forget_comments(&Object::Sequence(was));
                    continue;
                };
                let owner = Some((name.clone(), column));
                let schema = name.schema;
                let definition = SequenceDefinition { owner, schema, ..sequence.definition().clone() };
                let sequence = Arc::new(sequence.redefined(definition));
                let is = sequence.full_name();
                catalog.rename_commented(&Object::Sequence(was), &Object::Sequence(is.clone()));
                Arc::make_mut(&mut catalog.sequences).insert(is, sequence);
            }
        });
    }

    /// Gives a sequence another definition, which hands out the numbers behind those that it has handed out, or begins again where
    /// `restart` says. Others go on with the former one until the commit.
    ///
    /// # Errors
    /// `DuplicateTable` if it has another name, which is taken; `UndefinedTable` if there is no such sequence;
    /// `InvalidParameterValue` if it cannot count like that.
    pub fn redefine_sequence(
        &mut self,
        name: &RelationName,
        definition: SequenceDefinition,
        restart: Option<i64>,
    ) -> Result<()> {
        definition.validate()?;
        let catalog = self.catalog_with(definition.schema)?;
        let sequence = catalog.sequence(name)?;
        let new = RelationName::new(definition.schema, definition.name.as_str());
        if new != *name && catalog.has_relation(&new) {
            return Err(relation_exists(&new.name));
        }
        let redefined = match restart {
            Some(start) => self.sequence_from(start, definition),
            None => sequence.redefined(definition),
        };
        self.change(|catalog| {
            let sequences = Arc::make_mut(&mut catalog.sequences);
            sequences.remove(name);
            sequences.insert(new.clone(), Arc::new(redefined));
            catalog.rename_commented(&Object::Sequence(name.clone()), &Object::Sequence(new));
        });
        Ok(())
    }

    /// Puts a view in the place of another one, under the same name or another.
    ///
    /// # Errors
    /// `DuplicateTable` if it has another name, which is taken.
    pub fn redefine_view(&mut self, name: &RelationName, view: View) -> Result<()> {
        let new = view.full_name();
        if new != *name && self.catalog_with(view.schema)?.has_relation(&new) {
            return Err(relation_exists(&new.name));
        }
        self.change(|catalog| {
            let views = Arc::make_mut(&mut catalog.views);
            views.remove(name);
            views.insert(new.clone(), Arc::new(view));
            catalog.rename_commented(&Object::View(name.clone()), &Object::View(new));
        });
        Ok(())
    }

    /// Commits the transaction, if there is one, and lets everybody see its definitions together with its rows.
    ///
    /// # Errors
    /// Those of the transaction's commit; `SerializationFailure` or `DuplicateTable` if others have changed what it has
    /// changed. Nothing remains of either then.
    pub fn commit(mut self, transaction: Option<&mut Transaction>) -> Result<()> {
        let database = self.database.clone();
        let shared = &database.shared;
        {
            let _turn = shared.take_turn(&self.interrupt)?;
            let mut catalog = (*self.catalog()?).clone();
            let image = self.image(&catalog)?;
            catalog.hidden.clear();
            catalog.unready.clear();
            let catalog = Arc::new(catalog);
            // What can be read until then, and from then on, goes by the commit's timestamp.
            let ended = self.base.tables().filter(|table| !remains(&catalog, table));
            let ended: Vec<TableId> = ended.map(|table| table.id()).collect();
            let mut publish = |commit| self.publish(&catalog, commit);
            let change = DefinitionChange { ended: &ended, image: &image };
            match transaction {
                Some(transaction) => transaction.commit_with(change, &mut publish).map(drop)?,
                None if !ended.is_empty() || !image.is_empty() => {
                    let mut session = database.session();
                    let mut transaction = session.begin_procedure(Isolation::RepeatableRead);
                    transaction.set_interrupt(self.interrupt.clone());
                    transaction.commit_with(change, &mut publish).map(drop)?;
                }
                None => publish(shared.manager.watermark()),
            }
        }
        for step in std::mem::take(&mut self.steps) {
            match step {
                Step::Dropped(index) => shared.empty_index(&index),
                Step::Closed(table) => Gate::of(&table).open(self.closer),
                Step::Built(_) | Step::Redefined { .. } => {}
            }
        }
        shared.manager.note_definitions();
        Ok(())
    }

    /// What the log is told of the changes, which lead to this catalog. Empty if there is no log, or nothing to tell.
    fn image(&self, catalog: &Catalog) -> Result<Vec<u8>> {
        if !self.database.shared.manager.is_logged() {
            return Ok(Vec::new());
        }
        let change = self.catalog_change(catalog);
        if change.is_empty() { Ok(Vec::new()) } else { change.encode() }
    }

    /// Makes a catalog everybody's. Nobody commits any more to tables that are not in it, and nobody reads copies of tables as
    /// of a time before they were filled.
    fn publish(&self, catalog: &Arc<Catalog>, commit: Timestamp) {
        let was = |table: &Arc<Table>| self.base.tables.get(&RelationName::of(table));
        let copies = catalog.tables().filter(|table| was(table).is_some_and(|was| was.id() != table.id()));
        copies.for_each(|table| Gate::of(table).set_since(commit));
        self.base
            .tables()
            .filter(|table| !remains(catalog, table))
            .for_each(|table| Gate::of(table).end(commit));
        catalog.show_types();
        catalog.show_domains();
        for step in &self.steps {
            if let Step::Built(index) = step {
                IndexLife::of(index).set_committed();
            }
        }
        self.database.shared.publish(Arc::new(catalog.along(Arc::default())));
    }

    /// What the commit changes, if `catalog` is the one that it publishes. To be asked in its turn.
    pub fn catalog_change(&self, catalog: &Catalog) -> CatalogChange {
        let (mut built, mut dropped) = (Vec::new(), Vec::new());
        for step in &self.steps {
            match step {
                Step::Built(index) => built.push(index.clone()),
                Step::Dropped(index) => dropped.push(index.clone()),
                Step::Closed(_) | Step::Redefined { .. } => {}
            }
        }
        CatalogChange::between(&self.base, catalog, ChangedIndexes { built: &built, dropped: &dropped })
    }

    /// The catalog of all with this transaction's changes.
    fn merged(&self, current: &Catalog) -> Result<Catalog> {
        let mut merged = self.own.with_changes(&self.base, current)?;
        merged.version = self.database.shared.next_version();
        Ok(merged)
    }

    pub(crate) fn change<T>(&mut self, change: impl FnOnce(&mut Catalog) -> T) {
        let mut catalog = (*self.own).clone();
        catalog.version = self.database.shared.next_version();
        change(&mut catalog);
        self.own = Arc::new(catalog);
    }

    /// Undoes all steps but the first so many.
    fn undo(&mut self, kept: usize, mut transaction: Option<&mut Transaction>) {
        let shared = &self.database.shared;
        for step in self.steps.drain(kept..).rev() {
            match step {
                Step::Built(index) => {
                    let was_usable = index.valid_from() < Timestamp::MAX;
                    shared.empty_index(&index);
                    if was_usable {
                        // By plans of others, too.
                        shared.renew();
                    }
                }
                Step::Dropped(_) => {}
                Step::Closed(table) => Gate::of(&table).open(self.closer),
                Step::Redefined { old, new } => {
                    if let Some(transaction) = transaction.as_deref_mut() {
                        transaction.redefine(&new, &old);
                    }
                }
            }
        }
    }
}

impl Drop for Definitions {
    fn drop(&mut self) {
        self.undo(0, None);
    }
}

impl DatabaseState {
    /// Waits until no other change is under way.
    fn take_turn(&self, interrupt: &Interrupt) -> Result<MutexGuard<'_, ()>> {
        if let Some(turn) = self.defining.try_lock() {
            return Ok(turn);
        }
        loop {
            interrupt.check()?;
            if let Some(turn) = self.defining.try_lock_for(TURN_CHECK_INTERVAL) {
                return Ok(turn);
            }
        }
    }

    /// Stops maintaining an index and frees its entries.
    fn empty_index(&self, index: &Index) {
        IndexLife::of(index).set_dropped();
        self.manager.wait_for_commits();
        let entries = Entries::of(index);
        entries.visit_all(|key, row| {
            entries.remove(key, row);
            ControlFlow::Continue(())
        });
    }
}

/// Whether the catalog has this very table.
fn remains(catalog: &Catalog, table: &Arc<Table>) -> bool {
    catalog.tables.get(&RelationName::of(table)).is_some_and(|new| Arc::ptr_eq(new, table))
}

/// 23505 if two rows have the same key without NULL in the snapshot. Later commits check their own keys; and only in
/// a snapshot does a key that moves from one row to another never belong to both.
fn check_unique(table: &Table, index: &Index, snapshot: &Snapshot, interrupt: &Interrupt) -> Result<()> {
    if !index.definition().unique {
        return Ok(());
    }
    let (at, pin) = (ReadAt::Snapshot(snapshot.timestamp()), crossbeam_epoch::pin());
    let mut previous: Option<Vec<u8>> = None;
    let (mut duplicate, mut ended) = (false, Ok(()));
    Entries::of(index).visit_all(|key, row| {
        let current = Storage::of(table).key_at(index, RowId(row), at, &pin).ok().flatten();
        let Some((_, false)) = current.filter(|(current, _)| current == key) else {
            return ControlFlow::Continue(());
        };
        ended = interrupt.check();
        duplicate = previous.as_deref() == Some(key);
        previous = Some(key.to_vec());
        if duplicate || ended.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    ended?;
    if duplicate {
        let message = format!("could not create unique index \"{}\"", index.definition().name);
        let error = Error::new(SqlState::UniqueViolation, message).with_detail("Two rows have the same key.");
        return Err(error.with_table(table.schema(), table.name()).with_constraint(&index.definition().name));
    }
    Ok(())
}
