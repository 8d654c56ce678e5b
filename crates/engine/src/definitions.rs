//! Changing the catalog: tables and indexes come and go, one change at a time, while transactions go on.
//!
//! An index is maintained from the moment that it is added, is then filled from a snapshot, and is read by transactions
//! that begin after that. Filling takes time in proportion to the table, and other changes wait for their turn
//! meanwhile; so every loop and every wait here checks the interrupt of its statement.

use crate::catalog::Catalog;
use crate::sequence::{Sequence, SequenceDefinition};
use crate::shared::DatabaseState;
use ankerdb_base::{Error, Result, RowId, SqlState};
use ankerdb_snapshot::Snapshot;
use ankerdb_table::{Entries, Index, IndexDefinition, IndexLife, ReadAt, Storage, Table, TableDefinition};
use ankerdb_transaction::{Claim, Interrupt, MemoryLimit};
use parking_lot::MutexGuard;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a change that waits for its turn takes to notice its interrupt.
const TURN_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Changes of a database's catalog on behalf of one statement; see [`Database::definitions`](crate::Database::definitions).
pub struct Definitions<'a> {
    shared: &'a DatabaseState,
    interrupt: &'a Interrupt,
}

impl<'a> Definitions<'a> {
    pub(crate) fn new(shared: &'a DatabaseState, interrupt: &'a Interrupt) -> Definitions<'a> {
        interrupt.limit_memory(shared.manager.memory_limit());
        Definitions { shared, interrupt }
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.shared.catalog.read().clone()
    }

    /// Waits until no other change is under way.
    fn take_turn(&self) -> Result<MutexGuard<'a, ()>> {
        let defining = &self.shared.defining;
        if let Some(turn) = defining.try_lock() {
            return Ok(turn);
        }
        loop {
            self.interrupt.check()?;
            if let Some(turn) = defining.try_lock_for(TURN_CHECK_INTERVAL) {
                return Ok(turn);
            }
        }
    }

    /// Adds a table.
    ///
    /// # Errors
    /// `DuplicateTable` if the name, or the name of one of its indexes, is taken; `InvalidTableDefinition` and
    /// `DuplicateColumn` if the definition is malformed; `QueryCanceled` if it is interrupted.
    pub fn create_table(&self, definition: TableDefinition) -> Result<Arc<Table>> {
        self.create_table_with(definition, Vec::new())
    }

    /// Adds a table together with the sequences that its columns count by.
    ///
    /// # Errors
    /// Those of [`create_table`](Self::create_table), and `InvalidParameterValue` for a sequence that cannot count.
    pub fn create_table_with(
        &self,
        definition: TableDefinition,
        sequences: Vec<SequenceDefinition>,
    ) -> Result<Arc<Table>> {
        definition.validate()?;
        sequences.iter().try_for_each(SequenceDefinition::validate)?;
        let _turn = self.take_turn()?;
        let catalog = self.catalog();
        let names = definition.indexes.iter().map(|index| &index.name);
        let names = names.chain(sequences.iter().map(|sequence| &sequence.name));
        if let Some(name) =
            std::iter::once(&definition.name).chain(names).find(|name| catalog.has_relation(name))
        {
            return Err(relation_exists(name));
        }
        let id = self.shared.manager.new_table();
        let table = Arc::new(match self.shared.placement {
            None => Storage::create(id, definition),
            Some(placement) => Storage::create_in_regions(id, definition, placement)?,
        });
        self.change(|catalog| {
            catalog.tables.insert(table.name().to_owned(), table.clone());
            catalog.sequences.extend(sequences.into_iter().map(named));
        });
        Ok(table)
    }

    /// Adds a sequence.
    ///
    /// # Errors
    /// `DuplicateTable` if the name is taken, `InvalidParameterValue` if it cannot count like that; `QueryCanceled` if it is
    /// interrupted.
    pub fn create_sequence(&self, definition: SequenceDefinition) -> Result<()> {
        definition.validate()?;
        let _turn = self.take_turn()?;
        if self.catalog().has_relation(&definition.name) {
            return Err(relation_exists(&definition.name));
        }
        self.change(|catalog| catalog.sequences.extend([named(definition)]));
        Ok(())
    }

    /// Removes a sequence.
    ///
    /// # Errors
    /// `UndefinedTable`; `QueryCanceled` if it is interrupted.
    pub fn drop_sequence(&self, name: &str) -> Result<()> {
        let _turn = self.take_turn()?;
        let missing = |_| Error::new(SqlState::UndefinedTable, format!("sequence \"{name}\" does not exist"));
        self.catalog().sequence(name).map_err(missing)?;
        self.change(|catalog| catalog.sequences.remove(name));
        Ok(())
    }

    /// Removes a table, and the sequences that count for its columns. Transactions and snapshots that use it keep it until
    /// they end.
    ///
    /// # Errors
    /// `UndefinedTable`; `QueryCanceled` if it is interrupted.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let _turn = self.take_turn()?;
        let missing = |_| Error::new(SqlState::UndefinedTable, format!("table \"{name}\" does not exist"));
        self.catalog().table(name).map_err(missing)?;
        self.change(|catalog| {
            catalog.tables.remove(name);
            let is_owned = |sequence: &Sequence| {
                sequence.definition().owner.as_ref().is_some_and(|(table, _)| table == name)
            };
            catalog.sequences.retain(|_, sequence| !is_owned(sequence));
        });
        self.shared.manager.note_definitions();
        Ok(())
    }

    /// Adds an index and fills it from the rows there are, while transactions go on.
    ///
    /// # Errors
    /// `UndefinedTable`, `DuplicateTable`; `UniqueViolation` if the index is unique and two rows share a key,
    /// `OutOfMemory` past the memory limit, and `QueryCanceled` if it is interrupted, in which cases nothing remains
    /// of it.
    pub fn create_index(&self, table: &str, definition: IndexDefinition) -> Result<()> {
        let _turn = self.take_turn()?;
        let catalog = self.catalog();
        let table = catalog.table(table)?;
        table.definition().validate_index(&definition)?;
        if catalog.has_relation(&definition.name) {
            return Err(relation_exists(&definition.name));
        }
        let index = Storage::of(&table).add_index(definition);
        // From the next commit on the index is maintained. Commits under way may not know it: let them finish.
        self.shared.manager.wait_for_commits();
        let snapshot = self.shared.manager.snapshot();
        let limit = self.shared.manager.memory_limit();
        let filled = {
            let _ceiling = limit.put_up(Claim::Large);
            let filled = fill_index(&table, &index, &snapshot, (self.interrupt, limit));
            filled.map_err(|error| limit.explain(error))
        };
        // The check must see commits that looked for their keys in a half-filled index.
        self.shared.manager.wait_for_commits();
        if let Err(error) = filled
            .and_then(|()| check_unique(&table, &index, &self.shared.manager.snapshot(), self.interrupt))
        {
            self.empty_index(&index);
            self.shared.manager.reclaim();
            return Err(error);
        }
        IndexLife::of(&index).set_valid_from(snapshot.timestamp());
        self.change(|_| ());
        Ok(())
    }

    /// Removes an index.
    ///
    /// # Errors
    /// `UndefinedObject`; `FeatureNotSupported` for the index of a primary key; `QueryCanceled` if it is interrupted.
    pub fn drop_index(&self, name: &str) -> Result<()> {
        let _turn = self.take_turn()?;
        let missing = || Error::new(SqlState::UndefinedObject, format!("index \"{name}\" does not exist"));
        let table = self.catalog().table_of_index(name).ok_or_else(missing)?;
        let (_, index) = (table.maintained_indexes())
            .find(|(_, index)| index.definition().name == name)
            .ok_or_else(missing)?;
        if index.definition().primary {
            let message = format!(
                "cannot drop index {name} because constraint {name} on table {} requires it",
                table.name()
            );
            return Err(Error::new(SqlState::FeatureNotSupported, message));
        }
        self.empty_index(index);
        self.change(|_| ());
        Ok(())
    }

    /// Stops maintaining an index and frees its entries.
    fn empty_index(&self, index: &Index) {
        IndexLife::of(index).set_dropped();
        self.shared.manager.wait_for_commits();
        let entries = Entries::of(index);
        entries.visit_all(|key, row| {
            entries.remove(key, row);
            ControlFlow::Continue(())
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut Catalog) -> T) {
        let mut catalog = (*self.catalog()).clone();
        catalog.version += 1;
        change(&mut catalog);
        let version = catalog.version;
        *self.shared.catalog.write() = Arc::new(catalog);
        self.shared.version.store(version, Ordering::Release);
    }
}

fn named(definition: SequenceDefinition) -> (String, Arc<Sequence>) {
    (definition.name.clone(), Arc::new(Sequence::new(definition)))
}

fn relation_exists(name: &str) -> Error {
    Error::new(SqlState::DuplicateTable, format!("relation \"{name}\" already exists"))
}

/// Enters the rows of a snapshot. Rows that change meanwhile are entered by their commits.
fn fill_index(
    table: &Table,
    index: &Index,
    snapshot: &Snapshot,
    (interrupt, limit): (&Interrupt, MemoryLimit),
) -> Result<()> {
    let at = ReadAt::Snapshot(snapshot.timestamp());
    let storage = Storage::of(table);
    for number in 0..storage.block_count() {
        limit.check(Claim::Large, 0)?;
        let pin = crossbeam_epoch::pin();
        for offset in 0..storage.block(number).fill() {
            interrupt.check()?;
            let row = RowId::new(number, offset);
            if let Some((key, _)) = storage.key_at(index, row, at, &pin)? {
                Entries::of(index).insert(&key, row.0)?;
            }
        }
    }
    Ok(())
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
        return Err(Error::new(SqlState::UniqueViolation, message).with_detail("Two rows have the same key."));
    }
    Ok(())
}
