//! Histories over registers: few rows that are read, moved between kinds, deleted and inserted again.
//!
//! A row's column a is the number of its last writer. The table `absent` has a row for each id for good, whose column a
//! is the number of the last transaction that deleted or inserted the id: so absence has a version, too. A writer of an
//! id notes the version that it replaces, which it read under the same row lock or validates with it.

use crate::history::{Clock, Done, MAKER, NOTHING, Number, Range, Span, Statement, Write};
use crate::run::{Plan, Style, World};
use crate::support::*;
use ankerdb_engine::*;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Ids of the rows.
const IDS: i32 = 12;
/// Kinds lie in 0..KINDS; ranges cut it.
const KINDS: i32 = 6;
/// Untouched rows whose kind is in no range: they fill a block, so that its arrays are lent.
const PADDING: i32 = 8_200;

pub(crate) struct Registers {
    database: Database,
    items: Arc<Table>,
    absent: Arc<Table>,
    clock: Clock,
    /// Untouched rows.
    padding: usize,
}

impl World for Registers {
    fn new(plan: &Plan) -> Registers {
        let database = plan.database();
        let (items, absent) = (items(&database, "items"), items(&database, "absent"));
        fill(&database, &items, (0..IDS).map(|id| item(id, MAKER, 0, id % KINDS)));
        fill(&database, &absent, (0..IDS).map(|id| item(id, MAKER, 0, 0)));
        if plan.readers > 0 {
            fill(&database, &items, (IDS..PADDING).map(|id| item(id, MAKER, 0, -1)));
        }
        let padding = if plan.readers > 0 { (PADDING - IDS) as usize } else { 0 };
        Registers { database, items, absent, clock: Clock::default(), padding }
    }

    fn database(&self) -> &Database {
        &self.database
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn made(&self) -> Vec<Write> {
        (0..IDS).map(|key| Write { key, kind: Some(key % KINDS), former: NOTHING }).collect()
    }

    fn act(
        &self,
        transaction: &mut Transaction,
        style: Style,
        done: &mut Done,
        random: &mut fastrand::Rng,
    ) -> Result<()> {
        Actor { world: self, transaction, style, done }.run(random)
    }

    fn observe(&self, view: &ReadView) -> Vec<(i32, Number)> {
        let mut versions: Vec<_> = self.versions(view).into_iter().collect();
        versions.sort_unstable();
        versions
    }

    fn look(&self, transaction: &mut Transaction) -> Result<Vec<(i32, Number)>> {
        let mut seen = Vec::new();
        for id in 0..IDS {
            let (_, version) = self.find(transaction, id)?;
            seen.push((id, version));
            std::thread::yield_now();
        }
        Ok(seen)
    }
}

impl Registers {
    /// The row with this id, and the version: of the row, or of its absence.
    fn find(&self, transaction: &mut Transaction, id: i32) -> Result<(Option<RowId>, Number)> {
        if let Some(row) = find(transaction, &self.items, id, &[A, KIND])? {
            return Ok((Some(row), transaction.bigint(&self.items, row, A)));
        }
        let marker = self.marker(transaction, id)?;
        Ok((None, transaction.bigint(&self.absent, marker, A)))
    }

    fn marker(&self, transaction: &mut Transaction, id: i32) -> Result<RowId> {
        Ok(find(transaction, &self.absent, id, &[A])?.expect("one for each id"))
    }

    /// The versions of the rows in a view whose kinds are in the range.
    fn of_kinds(&self, view: &ReadView, low: i32, high: i32) -> Vec<(i32, Number)> {
        let is_inside = |kind: &Value| matches!(kind, Value::Integer(kind) if (low..=high).contains(kind));
        let rows = view_rows_if(view, &self.items, &[KIND, ID, A], is_inside);
        let version = |row: Vec<Value>| match row[..] {
            [_, Value::Integer(id), Value::BigInt(writer)] => (id, writer),
            _ => panic!("{row:?} is not what was asked for"),
        };
        rows.into_iter().map(version).collect()
    }

    /// The version of every id in a view.
    fn versions(&self, view: &ReadView) -> HashMap<i32, Number> {
        let mut versions = HashMap::new();
        for table in [&self.absent, &self.items] {
            for row in view_rows_if(view, table, &[ID, A], |id| matches!(id, Value::Integer(0..IDS))) {
                if let [Value::Integer(id), Value::BigInt(writer)] = row[..] {
                    versions.insert(id, writer);
                }
            }
        }
        versions
    }
}

/// One transaction at work; notes what it does.
struct Actor<'a> {
    world: &'a Registers,
    transaction: &'a mut Transaction,
    style: Style,
    done: &'a mut Done,
}

impl Actor<'_> {
    fn run(&mut self, random: &mut fastrand::Rng) -> Result<()> {
        for _ in 0..random.u8(1..=4) {
            let (id, kind) = (random.i32(0..IDS), random.i32(0..KINDS));
            match random.u8(0..10) {
                0..2 => self.statement(|actor| actor.read(id))?,
                2 => {
                    let (high, how) = (random.i32(kind..KINDS), random.u8(0..4));
                    self.statement(|actor| actor.count(kind, high, how))?;
                }
                3..5 => {
                    let (high, how) = (random.i32(kind..KINDS), random.u8(0..4));
                    self.statement(|actor| actor.read_range(kind, high, how))?;
                }
                5 => self.delete_kind(kind)?,
                _ => self.write(id, kind, random.u8(0..5))?,
            }
            if random.u8(0..3) == 0 {
                // Lets others in between, also where there are few cores.
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    fn level(&self) -> Isolation {
        self.transaction.isolation()
    }

    /// Runs one statement; at the weak levels it begins at a timestamp of its own.
    fn statement<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let began = self.world.clock.tick();
        self.transaction.begin_statement();
        self.done.statements.push(Statement::default());
        let result = run(self)?;
        let span = Span { began, ended: self.world.clock.tick() };
        self.done.statements.last_mut().expect("just pushed").span = span;
        Ok(result)
    }

    /// Whether what two reads of a statement find may be of two moments.
    fn moves(&self) -> bool {
        match self.level() {
            Isolation::ReadUncommitted => true,
            Isolation::ReadCommitted => self.style == Style::Procedure,
            _ => false,
        }
    }

    /// Where updates may be lost, a version is still to be all of one writer's.
    fn may_lose_updates(&self) -> bool {
        match self.style {
            Style::Procedure => self.moves(),
            Style::Locking => false,
            Style::Optimistic => true,
        }
    }

    /// Own writes are no version yet.
    fn note(&mut self, id: i32, seen: Number) {
        if seen != self.done.number {
            self.done.statements.last_mut().expect("a statement runs").reads.push((id, seen));
        }
    }

    fn read(&mut self, id: i32) -> Result<()> {
        let (row, seen) = self.world.find(self.transaction, id)?;
        // The row was not there at one moment, and the marker is of another one.
        if row.is_some() || !self.moves() {
            self.note(id, seen);
        }
        Ok(())
    }

    /// Rows with kinds in the range, through the index, a filtered scan or a view.
    fn read_range(&mut self, low: i32, high: i32, how: u8) -> Result<()> {
        let (items, mut found) = (self.world.items.clone(), Vec::new());
        let is_newest = self.level() == Isolation::ReadUncommitted;
        let columns = ColumnSet::of(&[ID, A, KIND]);
        let mut visit = |t: &mut Transaction, row: RowId| {
            found.push((t.integer(&items, row, ID), t.bigint(&items, row, A)));
            if is_newest {
                std::thread::yield_now();
            }
            Ok(ControlFlow::Continue(()))
        };
        match how {
            0 | 1 => {
                let direction = if how == 0 { Direction::Forward } else { Direction::Backward };
                let range = range(&items, BY_KIND, low, high);
                self.transaction.scan_index(&items, BY_KIND, &range, direction, columns, &mut visit)?;
            }
            2 => {
                self.transaction.scan_table(&items, columns, Some(kinds(low, high)), &mut visit)?;
            }
            _ => {
                self.transaction.note_table_read(&items, columns, Some(kinds(low, high)))?;
                let is_inside =
                    |kind: &Value| matches!(kind, Value::Integer(kind) if (low..=high).contains(kind));
                for row in view_rows_if(&self.transaction.read_view(), &items, &[KIND, ID, A], is_inside) {
                    if let [_, Value::Integer(id), Value::BigInt(writer)] = row[..] {
                        found.push((id, writer));
                    }
                }
            }
        }
        // A transaction's own rows hide what it read of them before: leave ranges over own writes out.
        if self.done.writes.is_empty() {
            let not_found = if is_newest { Vec::new() } else { self.versions_of_others(&found) };
            let statement = self.done.statements.last_mut().expect("a statement runs");
            statement.ranges.push(Range { low, high, found, counted: Vec::new(), not_found });
        }
        Ok(())
    }

    /// Which versions of the other ids this statement reads at. They are looked up in a view for which no read is
    /// noted, so that only the range itself protects them.
    fn versions_of_others(&self, found: &[(i32, Number)]) -> Vec<(i32, Number)> {
        let mut versions = self.world.versions(&self.transaction.read_view());
        versions.retain(|id, _| found.iter().all(|(other, _)| other != id));
        versions.into_iter().collect()
    }

    /// Locks the row if this transaction locks at all; false if another statement must look again.
    fn lock(&mut self, table: &Arc<Table>, row: RowId) -> Result<bool> {
        if self.style != Style::Locking {
            return Ok(true);
        }
        Ok(self.transaction.lock(table, row, LockWait::Wait)? == Locked::Unchanged)
    }

    /// Updates, moves, deletes or inserts the id, whichever applies; once per transaction and id.
    fn write(&mut self, id: i32, kind: i32, action: u8) -> Result<()> {
        if self.done.writes.iter().any(|write| write.key == id) {
            return Ok(());
        }
        self.until_stable(|actor| actor.try_write(id, kind, action))
    }

    /// Runs a statement again while it finds rows changed that it has locked. What it saw then counts for nothing.
    fn until_stable(&mut self, mut run: impl FnMut(&mut Self) -> Result<bool>) -> Result<()> {
        while !self.statement(&mut run)? {
            self.transaction.restart_statement()?;
            if self.level() == Isolation::Serializable {
                self.done.statements.pop();
            }
        }
        Ok(())
    }

    /// How many rows have kinds in the range, or whether there are any, without a look at any column.
    fn count(&mut self, low: i32, high: i32, how: u8) -> Result<()> {
        if self.level() == Isolation::ReadUncommitted || !self.done.writes.is_empty() {
            return self.read_range(low, high, how);
        }
        let items = self.world.items.clone();
        let (low, high) = if how == 0 { (0, KINDS - 1) } else { (low, high) };
        let rows = match how {
            0 => count(self.transaction, &items, usize::MAX)? - self.world.padding,
            _ => rows_of_kinds(self.transaction, &items, low, high)?.len(),
        };
        self.note_count((low, high), rows);
        Ok(())
    }

    /// Notes which keys are in the range as of this statement, which has counted so many and looked at nothing else.
    fn note_count(&mut self, (low, high): (i32, i32), rows: usize) {
        let counted = self.world.of_kinds(&self.transaction.read_view(), low, high);
        assert_eq!(rows, counted.len(), "rows and a view as of one timestamp");
        let not_found = self.versions_of_others(&counted);
        let range = Range { low, high, found: Vec::new(), counted, not_found };
        self.done.statements.last_mut().expect("a statement runs").ranges.push(range);
    }

    /// Deletes all rows of a kind, which it finds without a look at any other column.
    fn delete_kind(&mut self, kind: i32) -> Result<()> {
        if self.level() == Isolation::ReadUncommitted || !self.done.writes.is_empty() {
            return Ok(());
        }
        self.until_stable(|actor| actor.try_delete_kind(kind))
    }

    fn try_delete_kind(&mut self, kind: i32) -> Result<bool> {
        let (items, absent) = (self.world.items.clone(), self.world.absent.clone());
        let rows = rows_of_kinds(self.transaction, &items, kind, kind)?;
        self.note_count((kind, kind), rows.len());
        let mut deleted = Vec::new();
        for row in rows {
            let id = self.transaction.integer(&items, row, ID);
            let former = self.transaction.bigint(&items, row, A);
            let marker = self.world.marker(self.transaction, id)?;
            if !self.lock(&items, row)? || !self.lock(&absent, marker)? {
                return Ok(false);
            }
            deleted.push((row, marker, Write { key: id, kind: None, former }));
        }
        for (row, marker, write) in deleted {
            self.transaction.delete(&items, row)?;
            self.transaction.update(&absent, marker, vec![(A, Value::BigInt(self.done.number))])?;
            self.done.writes.push(write);
        }
        Ok(true)
    }

    fn try_write(&mut self, id: i32, kind: i32, action: u8) -> Result<bool> {
        let (items, absent) = (self.world.items.clone(), self.world.absent.clone());
        let (found, former) = self.world.find(self.transaction, id)?;
        let marker = self.world.marker(self.transaction, id)?;
        // The marker's row serializes those who insert or delete the id, as the row itself does those who update it.
        let (kind, table, row) = match found {
            Some(row) if action < 3 => {
                let old = self.transaction.integer(&items, row, KIND);
                (Some(if action == 0 { kind } else { old }), &items, row)
            }
            Some(row) => (None, &items, row),
            None => (Some(kind), &absent, marker),
        };
        let moves = found.is_none() || kind.is_none();
        if !self.lock(table, row)? || moves && !self.lock(&absent, marker)? {
            return Ok(false);
        }
        if found.is_some() || !self.moves() {
            self.note(id, former);
        }
        let me = || (A, Value::BigInt(self.done.number));
        match (found, kind) {
            (Some(row), Some(kind)) => {
                let mut changes = vec![me()];
                if action == 0 || self.may_lose_updates() {
                    changes.push((KIND, Value::Integer(kind)));
                }
                self.transaction.update(&items, row, changes)?;
            }
            (Some(row), None) => {
                self.transaction.delete(&items, row)?;
                self.transaction.update(&absent, marker, vec![me()])?;
            }
            (None, kind) => {
                self.transaction.insert(&items, item(id, self.done.number, 0, kind.expect("it is new")))?;
                self.transaction.update(&absent, marker, vec![me()])?;
            }
        }
        self.done.writes.push(Write { key: id, kind, former });
        Ok(true)
    }
}
