//! Writing: checks at the statement, values kept private until the commit.

use crate::transaction::{Isolation, LockedRow, Transaction};
use ankerdb_base::{ColumnSet, Error, Result, RowId, SqlState};
use ankerdb_sync::lock_table::Waited;
use ankerdb_table::{Cell, CellLayout, Index, RowLock, Table};
use ankerdb_value::{Value, format_text};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Instant;

/// Whether and how long to wait for a row that another transaction has locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockWait {
    /// Until it is free; 40P01 if that would never be, 55P03 after the lock timeout, and the interrupt's error.
    Wait,
    /// 55P03 at once.
    NoWait,
    /// Report [`Locked::Busy`].
    Skip,
}

/// What [`Transaction::lock`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locked {
    /// The row is ours and is still as this transaction reads it.
    Unchanged,
    /// The row is ours, but was changed or deleted after this statement's snapshot; only at READ COMMITTED and below.
    /// Begin a new statement and look again. (Above: 40001.)
    Changed,
    /// Somebody else has it ([`LockWait::Skip`] only).
    Busy,
}

/// How often to look at a row that a committing transaction has for a moment before giving way to others.
const SPINS: u32 = 100;

impl Transaction {
    /// Adds a row: one value per column, already of the columns' types. 23502 at once; 23505 at once in an interactive
    /// transaction if a visible row has the key, else at commit.
    pub fn insert(&mut self, table: &Arc<Table>, values: Vec<Value>) -> Result<RowId> {
        if values.len() != table.columns().len() {
            return Err(Error::internal(format!("{} values for table {}", values.len(), table.name())));
        }
        values.iter().enumerate().try_for_each(|(column, value)| check_value(table, column, value))?;
        if self.interactive {
            for (position, index) in table.maintained_indexes().filter(|(_, index)| index.definition().unique)
            {
                self.check_key_is_free(table, position, index, None, &|column| values[column].clone())?;
            }
        }
        let number = self.tables.number(table);
        let cells = values.iter().enumerate().map(|(column, value)| cell_of(table, column, value));
        Ok(self.writes.insert(number, cells))
    }

    /// As [`insert`](Self::insert), of cells: one per column. For procedures: builds no values. XX000 if a cell does
    /// not fit its column's layout, 22021 if a text is not UTF-8. Keys are checked at commit.
    pub fn insert_cells(&mut self, table: &Arc<Table>, cells: &[Cell<'_>]) -> Result<RowId> {
        if cells.len() != table.columns().len() {
            return Err(Error::internal(format!("{} cells for table {}", cells.len(), table.name())));
        }
        cells.iter().enumerate().try_for_each(|(column, cell)| check_cell(table, column, *cell))?;
        let number = self.tables.number(table);
        Ok(self.writes.insert(number, cells.iter().copied()))
    }

    /// As [`update`](Self::update), of cells with their columns. Errors as [`insert_cells`](Self::insert_cells).
    pub fn update_cells(
        &mut self,
        table: &Arc<Table>,
        row: RowId,
        changes: &[(usize, Cell<'_>)],
    ) -> Result<()> {
        changes.iter().try_for_each(|&(column, cell)| check_cell(table, column, cell))?;
        let number = self.tables.number(table);
        self.note_unlocked(table, row);
        self.writes.update(number, row, changes.iter().copied());
        Ok(())
    }

    /// Changes columns of a visible row. Errors as [`insert`](Self::insert).
    pub fn update(&mut self, table: &Arc<Table>, row: RowId, changes: Vec<(usize, Value)>) -> Result<()> {
        changes.iter().try_for_each(|(column, value)| check_value(table, *column, value))?;
        if self.interactive {
            let mut changed = ColumnSet::EMPTY;
            changes.iter().for_each(|(column, _)| changed.insert(*column));
            for (position, index) in table.maintained_indexes() {
                if index.definition().unique && index.key_columns().intersects(changed) {
                    let value = |column: usize| {
                        let change = changes.iter().find(|(position, _)| *position == column);
                        change.map_or_else(|| self.value(table, row, column), |(_, value)| value.clone())
                    };
                    let values: Vec<(usize, Value)> =
                        index.definition().columns.iter().map(|&column| (column, value(column))).collect();
                    let value = |column: usize| {
                        let value = values.iter().find(|(position, _)| *position == column);
                        value.expect("all key columns were read").1.clone()
                    };
                    self.check_key_is_free(table, position, index, Some(row), &value)?;
                }
            }
        }
        let number = self.tables.number(table);
        let cells = changes.iter().map(|(column, value)| (*column, cell_of(table, *column, value)));
        self.note_unlocked(table, row);
        self.writes.update(number, row, cells);
        Ok(())
    }

    /// Ends a visible row.
    pub fn delete(&mut self, table: &Arc<Table>, row: RowId) -> Result<()> {
        let number = self.tables.number(table);
        self.note_unlocked(table, row);
        self.writes.delete(number, row);
        Ok(())
    }

    /// The row must stay in its slot until the commit, which a lock would take care of; see `enter`.
    fn note_unlocked(&mut self, table: &Table, row: RowId) {
        let is_weak = matches!(self.isolation, Isolation::ReadCommitted | Isolation::ReadUncommitted);
        if self.interactive && is_weak && !self.has_unlocked_writes && row.provisional_number().is_none() {
            self.has_unlocked_writes = !self.has_locked(table, row);
        }
    }

    /// 23505 if a row visible to this transaction, other than `myself`, has the key. It has then read that row.
    fn check_key_is_free(
        &mut self,
        table: &Arc<Table>,
        position: usize,
        index: &Index,
        myself: Option<RowId>,
        value: &dyn Fn(usize) -> Value,
    ) -> Result<()> {
        let mut key = Vec::new();
        if index.encode_row(value, &mut key)? || index.valid_from() > self.start {
            return Ok(());
        }
        let range = crate::KeyRange { lower: Bound::Included(key.clone()), upper: Bound::Included(key) };
        let mut taken = false;
        let (ranges, rows) = (self.reads.ranges.len(), self.reads.rows.len());
        let forward = ankerdb_index::Direction::Forward;
        self.scan_index(table, position, &range, forward, ColumnSet::EMPTY, &mut |_, row| {
            taken = Some(row) != myself;
            Ok(if taken { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if taken {
            return Err(duplicate_key(table, index, value));
        }
        // The commit checks the key again, whatever happens until then: nothing was learnt that could go stale.
        self.reads.ranges.truncate(ranges);
        self.reads.rows.truncate(rows);
        Ok(())
    }

    /// Locks a visible row until the end of the transaction. Interactive transactions lock before they write, because
    /// they keep others off for milliseconds, and hot rows must queue, not abort; procedures need not.
    pub fn lock(&mut self, table: &Arc<Table>, row: RowId, wait: LockWait) -> Result<Locked> {
        if row.provisional_number().is_some() || self.has_locked(table, row) {
            return Ok(Locked::Unchanged);
        }
        let key = (table.id().0, row.0);
        let owner = *self.owner.get_or_insert_with(|| self.manager.next_owner());
        let block = table.block(row.block());
        let mut spins = 0;
        let header = loop {
            match block.try_lock(row.offset()) {
                RowLock::Acquired(header) => break header,
                RowLock::Busy if self.manager.locks.is_held(key).is_none() => {
                    // A commit or a sweep has the row for a moment.
                    spins += 1;
                    if spins % SPINS == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
                }
                RowLock::Busy => match wait {
                    LockWait::Skip => return Ok(Locked::Busy),
                    LockWait::NoWait => {
                        let message =
                            format!("could not obtain lock on row in relation \"{}\"", table.name());
                        return Err(Error::new(SqlState::LockNotAvailable, message));
                    }
                    LockWait::Wait => self.wait_for(key)?,
                },
            }
        };
        self.manager.locks.hold(key, owner);
        self.locked.push(LockedRow { table: table.clone(), row, given_up: false });
        if header.timestamp() <= self.start && header.exists() {
            return Ok(Locked::Unchanged);
        }
        match self.isolation {
            Isolation::ReadCommitted | Isolation::ReadUncommitted => {
                // The commit that changed the row gave it up a moment before it became visible. The next statement
                // must see it, as this transaction will be taken to know the row's newest state.
                self.manager.order.wait_until_visible(header.timestamp());
                Ok(Locked::Changed)
            }
            _ => Err(concurrent_update()),
        }
    }

    pub(crate) fn has_locked(&self, table: &Table, row: RowId) -> bool {
        !self.locked.is_empty()
            && self.locked.iter().rev().any(|locked| locked.row == row && locked.table.id() == table.id())
    }

    /// Waits, between two tries of a procedure, for the interactive transaction that has stopped the last one.
    pub fn wait_for_blocker(&mut self) -> Result<()> {
        match self.blocked_by.take() {
            Some(key) if self.manager.locks.is_held(key).is_some() => self.wait_for(key),
            _ => Ok(()),
        }
    }

    /// Waits until an interactive transaction gives up a row.
    pub(crate) fn wait_for(&mut self, key: (u32, u64)) -> Result<()> {
        let owner = *self.owner.get_or_insert_with(|| self.manager.next_owner());
        let deadline = self.lock_timeout.and_then(|limit| Instant::now().checked_add(limit));
        match self.manager.locks.wait(key, owner, &self.interrupt, deadline) {
            Waited::Released | Waited::NotHeld => Ok(()),
            Waited::Deadlock => Err(Error::new(SqlState::DeadlockDetected, "deadlock detected")
                .with_detail("transactions wait for each other's rows; this one was ended")),
            Waited::Interrupted(cause) => Err(cause.error()),
            Waited::TimedOut => {
                Err(Error::new(SqlState::LockNotAvailable, "canceling statement due to lock timeout"))
            }
        }
    }

    /// Gives up the rows locked by [`lock`](Self::lock) that no commit has given up, and wakes those who wait.
    pub(crate) fn release_locks(&mut self) {
        let Some(owner) = self.owner.take() else { return };
        let keys: Vec<(u32, u64)> =
            self.locked.iter().map(|locked| (locked.table.id().0, locked.row.0)).collect();
        for LockedRow { table, row, given_up } in self.locked.drain(..) {
            if !given_up {
                table.block(row.block()).unlock(row.offset());
            }
        }
        self.manager.locks.release(owner, &keys);
    }
}

fn check_value(table: &Table, column: usize, value: &Value) -> Result<()> {
    let definition = &table.columns()[column];
    if value.is_null() && !definition.nullable {
        return Err(not_null(table, column));
    }
    Cell::of(value, definition.data_type).map(drop)
}

/// The cell of a checked value.
fn cell_of<'a>(table: &Table, column: usize, value: &'a Value) -> Cell<'a> {
    Cell::of(value, table.data_type(column)).expect("checked when it was written")
}

#[inline]
fn check_cell(table: &Table, column: usize, cell: Cell<'_>) -> Result<()> {
    let layout = table.layout(column);
    let fits = match cell {
        Cell::Null => table.is_nullable(column),
        Cell::Word(_) => !matches!(layout, CellLayout::Wide | CellLayout::View),
        Cell::Wide(_) => layout == CellLayout::Wide,
        Cell::Bytes(bytes) => {
            layout == CellLayout::View && (std::str::from_utf8(bytes).is_ok() || is_bytea(table, column))
        }
    };
    if fits { Ok(()) } else { Err(misfit(table, column, cell)) }
}

fn is_bytea(table: &Table, column: usize) -> bool {
    !table.data_type(column).is_text()
}

/// What is wrong with a cell that does not fit.
#[cold]
fn misfit(table: &Table, column: usize, cell: Cell<'_>) -> Error {
    match cell {
        Cell::Null => not_null(table, column),
        Cell::Bytes(_) if table.layout(column) == CellLayout::View => {
            let message = "invalid byte sequence for encoding \"UTF8\"";
            Error::new(SqlState::CharacterNotInRepertoire, message)
        }
        cell => Error::internal(format!("{cell:?} in a column of type {}", table.data_type(column))),
    }
}

/// 23502 in PostgreSQL's words.
#[cold]
fn not_null(table: &Table, column: usize) -> Error {
    let message = format!(
        "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
        table.columns()[column].name,
        table.name()
    );
    Error::new(SqlState::NotNullViolation, message)
}

/// 23505 in PostgreSQL's words.
pub(crate) fn duplicate_key(table: &Table, index: &Index, value: &dyn Fn(usize) -> Value) -> Error {
    let definition = index.definition();
    let message = format!("duplicate key value violates unique constraint \"{}\"", definition.name);
    let names: Vec<&str> =
        definition.columns.iter().map(|&column| &table.columns()[column].name[..]).collect();
    let values: Vec<String> = (definition.columns.iter())
        .map(|&column| {
            let mut text = String::new();
            format_text(&value(column), table.data_type(column), &mut text);
            text
        })
        .collect();
    let detail = format!("Key ({})=({}) already exists.", names.join(", "), values.join(", "));
    Error::new(SqlState::UniqueViolation, message).with_detail(detail)
}

/// 40001 in PostgreSQL's words.
pub(crate) fn concurrent_update() -> Error {
    Error::serialization("could not serialize access due to concurrent update")
}
