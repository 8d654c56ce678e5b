//! Histories over registers: few rows that are read, moved between kinds, deleted and inserted again.
//!
//! A row's column a is the number of its last writer. The table `absent` has a row for each id for good, whose column a
//! is the number of whoever deleted or inserted the id last: so absence has a version, too. Whoever writes an id notes
//! the version that it replaces, which it read under the same row lock or validates with it.

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
/// Rows that nobody touches and whose kind is in no range: they fill a block, so that its arrays are lent.
const PADDING: i32 = 8_200;

pub struct Registers {
    database: Database,
    items: Arc<Table>,
    absent: Arc<Table>,
    clock: Clock,
}

impl World for Registers {
    fn new(plan: &Plan) -> Registers {
        let database = Database::open(plan.configuration).expect("it is available");
        let (items, absent) = (items(&database, "items"), items(&database, "absent"));
        fill(&database, &items, (0..IDS).map(|id| item(id, MAKER, 0, id % KINDS)));
        fill(&database, &absent, (0..IDS).map(|id| item(id, MAKER, 0, 0)));
        if plan.readers > 0 {
            fill(&database, &items, (IDS..PADDING).map(|id| item(id, MAKER, 0, -1)));
        }
        Registers { database, items, absent, clock: Clock::default() }
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
                0..3 => self.statement(|actor| actor.read(id))?,
                3..5 => {
                    let (high, how) = (random.i32(kind..KINDS), random.u8(0..4));
                    self.statement(|actor| actor.read_range(kind, high, how))?;
                }
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

    /// Own writes are nobody's version yet.
    fn note(&mut self, id: i32, seen: Number) {
        if seen != self.done.number {
            self.done.statements.last_mut().expect("a statement runs").reads.push((id, seen));
        }
    }

    fn read(&mut self, id: i32) -> Result<()> {
        let (row, seen) = self.world.find(self.transaction, id)?;
        // READ UNCOMMITTED does not find row and marker at the same moment.
        if row.is_some() || self.level() != Isolation::ReadUncommitted {
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
                self.transaction.note_table_read(&items, columns, Some(kinds(low, high)));
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
            statement.ranges.push(Range { low, high, found, not_found });
        }
        Ok(())
    }

    /// Which versions of the other ids this statement reads at. They are looked up behind the engine's back, in a view
    /// for which no read is noted, so that only the range itself protects them.
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
        while !self.statement(|actor| actor.try_write(id, kind, action))? {}
        Ok(())
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
        if found.is_some() || self.level() != Isolation::ReadUncommitted {
            self.note(id, former);
        }
        let me = || (A, Value::BigInt(self.done.number));
        match (found, kind) {
            (Some(row), Some(kind)) => {
                let mut changes = vec![me()];
                // Where updates may be lost, a version is still all of one writer's.
                if action == 0 || self.style == Style::Optimistic {
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
