//! Locks on tables that a session has: taken before a statement runs, given back at the end of its transaction.
//!
//! A statement outside of a transaction block gives its locks back when it has run, or, for COPY from the client, when its message has been
//! dealt with. Its rows may still be read then: they are of a snapshot, to which nobody writes.

use super::SqlSession;
use crate::activity::{Activity, Live};
use crate::name::{not_supported, object_name, quoted};
use crate::plan::tables_of;
use crate::table_locks::{Claim, Hold, Mode, Patience, Slot, TableLocks};
use ankerdb_engine::{Error, NameRef, QualifiedName, Result, SqlState, Table, Wait};
use datafusion::sql::sqlparser::ast;
use std::collections::HashMap;
use std::sync::Arc;

/// Locks on tables that a session has; all are given back when it is dropped.
pub(super) struct HeldTableLocks {
    locks: Arc<TableLocks>,
    slot: Arc<Slot>,
    /// In the order in which they were taken.
    held: Vec<Hold>,
}

impl HeldTableLocks {
    pub(super) fn new(locks: Arc<TableLocks>, owner: u64) -> HeldTableLocks {
        let slot = locks.join(owner);
        HeldTableLocks { locks, slot, held: Vec::new() }
    }

    /// How many there are.
    pub(super) fn mark(&self) -> usize {
        self.held.len()
    }

    /// Gives back those that were taken since there were so many.
    pub(super) fn release_since(&mut self, mark: usize) {
        match (self.held.len() > mark, mark) {
            (true, 0) => self.locks.release_all(&self.slot, &mut self.held),
            (true, _) => self.locks.release(&self.slot, self.held.split_off(mark)),
            (false, _) => {}
        }
    }
}

impl Drop for HeldTableLocks {
    fn drop(&mut self) {
        self.release_since(0);
    }
}

/// LOCK TABLE.
#[derive(Clone, Debug)]
pub(crate) struct LockedTables {
    names: Vec<QualifiedName>,
    mode: Mode,
    waits: bool,
}

impl LockedTables {
    /// What the statement asks for.
    ///
    /// # Errors
    /// Those of names.
    pub(crate) fn read(lock: &ast::Lock) -> Result<LockedTables> {
        use ast::LockTableMode as Written;
        let names = lock.tables.iter().map(|target| object_name(&target.name));
        let mode = match lock.lock_mode {
            Some(Written::AccessShare) => Mode::AccessShare,
            Some(Written::RowShare) => Mode::RowShare,
            Some(Written::RowExclusive) => Mode::RowExclusive,
            Some(Written::ShareUpdateExclusive) => Mode::ShareUpdateExclusive,
            Some(Written::Share) => Mode::Share,
            Some(Written::ShareRowExclusive) => Mode::ShareRowExclusive,
            Some(Written::Exclusive) => Mode::Exclusive,
            Some(Written::AccessExclusive) | None => Mode::AccessExclusive,
        };
        Ok(LockedTables { names: names.collect::<Result<_>>()?, mode, waits: !lock.nowait })
    }
}

impl SqlSession {
    /// Takes the locks that a statement needs and that the session lacks; whether it has waited for one, so that the tables may be
    /// other ones by now.
    pub(super) fn use_tables(&mut self, holds: &[Hold]) -> Result<bool> {
        for hold in holds {
            if self.tables.held.contains(hold) {
                continue;
            }
            let is_taken =
                matches!(hold.claim, Claim::Use(_)) && self.tables.locks.take_weak(&self.tables.slot, *hold);
            let waited = !is_taken && self.wait_for_table(*hold)?;
            self.tables.held.push(*hold);
            if waited {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives back the locks of a statement that is no part of a transaction block.
    pub(super) fn leave_tables(&mut self) {
        if !self.block.is_open() {
            self.tables.release_since(0);
        }
    }

    #[cold]
    fn wait_for_table(&self, hold: Hold) -> Result<bool> {
        let live = self.runner.engine.olap().live();
        let elsewhere = || waits_elsewhere(live);
        // Outside of a block a session holds nothing but locks that programs agree about.
        let may_hold = self.block.is_open() || self.functions.holds_of_session();
        let patience = Patience {
            limit: self.settings.limits.lock,
            interrupt: self.runner.interrupt(),
            elsewhere: may_hold.then_some(&elsewhere),
        };
        self.tables.locks.take(&self.tables.slot, hold, &patience)
    }

    /// LOCK TABLE.
    pub(super) fn lock_tables(&mut self, lock: &LockedTables) -> Result<()> {
        if !self.block.is_open() {
            let message = "LOCK TABLE can only be used in transaction blocks";
            return Err(Error::new(SqlState::NoActiveSqlTransaction, message));
        }
        for name in &lock.names {
            self.lock_relation(name, lock)?;
        }
        Ok(())
    }

    fn lock_relation(&mut self, name: &QualifiedName, lock: &LockedTables) -> Result<()> {
        loop {
            let mut waited = false;
            for table in self.lockable(name)? {
                let hold = Hold { table: table.origin(), claim: Claim::Lock(lock.mode) };
                if self.tables.held.contains(&hold) {
                    continue;
                }
                if lock.waits {
                    waited |= self.wait_for_table(hold)?;
                } else if !self.tables.locks.try_take(&self.tables.slot, hold) {
                    let message = format!("could not obtain lock on relation {}", quoted(table.name()));
                    return Err(Error::new(SqlState::LockNotAvailable, message));
                }
                self.tables.held.push(hold);
            }
            if !waited {
                return Ok(());
            }
            // The name may stand for another table by now.
            self.catch_up()?;
        }
    }

    /// The tables that LOCK TABLE of a name locks: it, or those that a view reads.
    fn lockable(&self, name: &QualifiedName) -> Result<Vec<Arc<Table>>> {
        let catalog = self.runner.catalog();
        let reference = NameRef::from(name);
        let found = tables_of(&catalog, reference);
        if !found.is_empty() || catalog.view(reference).is_some() {
            return Ok(found);
        }
        let schema = name.schema.as_deref().unwrap_or("pg_catalog");
        if crate::system::relation(schema, &name.name).is_some() {
            return Err(not_supported("LOCK TABLE of a relation of the system"));
        }
        if catalog.lookup(reference).is_none() {
            return catalog.table(reference).map(|table| vec![table]);
        }
        let kind = if catalog.sequence(reference).is_ok() { "sequences" } else { "indexes" };
        let message = format!("cannot lock relation {}", quoted(&name.name));
        let detail = format!("This operation is not supported for {kind}.");
        Err(Error::new(SqlState::WrongObjectType, message).with_detail(detail))
    }
}

/// By session, those that it waits for because of rows and advisory locks.
fn waits_elsewhere(live: &Live) -> HashMap<u64, Vec<u64>> {
    let sessions = live.activities.all();
    let owner = |session: &Arc<Activity>| Some((session.interrupt.holds_as()?, session.lock_owner));
    let owners: HashMap<u64, u64> = sessions.iter().filter_map(owner).collect();
    let row = |wait: Wait| {
        let holder = owners.get(&wait.holder?.0)?;
        Some((*owners.get(&wait.waiter.0)?, vec![*holder]))
    };
    let rows = live.database.row_waits().into_iter().filter_map(row);
    let agreed = live.advisory.all().into_iter().filter(|(.., is_held)| !is_held);
    let agreed = agreed.map(|(owner, ..)| (owner, live.advisory.blockers(owner)));
    rows.chain(agreed).collect()
}
