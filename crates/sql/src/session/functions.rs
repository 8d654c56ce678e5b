//! What functions of sessions find and change: settings, advisory locks, other sessions.
//!
//! A function runs in the middle of a statement, which has the session to itself. So the settings are lent to the functions before the
//! statement, and what they have changed is taken over behind it; a statement that fails changes nothing.

use super::SqlSession;
use super::setting::{self, Settings};
use crate::activity::{Activity, Backends, Peer};
use crate::advisory::{AdvisoryLocks, Hold, LockKey};
use crate::channels::Talk;
use crate::engine::SqlEngine;
use crate::exported::ExportedSnapshots;
use crate::expression::{LockAction, LockCall, SessionCalls, SessionFunction};
use crate::name::not_supported;
use crate::plan::{Modes, Setting};
use ankerdb_engine::{Database, Error, Interrupt, Isolation, Result, Snapshot, SqlState, Value, WaitsFor};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A session as functions see it.
pub(super) struct Functions {
    activity: Arc<Activity>,
    lent: Mutex<Lent>,
    locks: Arc<AdvisoryLocks>,
    snapshots: Arc<ExportedSnapshots>,
    database: Database,
    held: Mutex<Held>,
    /// What the session says on channels, and hears there.
    pub(super) talk: Talk,
}

#[derive(Default)]
struct Lent {
    settings: Option<Settings>,
    modes: Modes,
    /// The transaction's number, if it was asked for.
    number: Option<u64>,
    changes: Vec<Setting>,
    exportable: Exportable,
}

/// The snapshot that the statement's transaction can export.
#[derive(Default)]
enum Exportable {
    /// The statement is not one of those that can.
    #[default]
    Nothing,
    /// The transaction ends with the statement, and what it exports, too.
    OfStatement,
    /// There are savepoints.
    OfSubtransaction,
    OfBlock(Snapshot),
}

/// Locks that the session has, each as often as it has taken it.
#[derive(Default)]
struct Held {
    of_session: Vec<Hold>,
    /// In the order in which they were taken.
    of_transaction: Vec<Hold>,
    /// Identifiers of snapshots that the transaction has exported.
    exported: Vec<String>,
}

impl Functions {
    pub(super) fn new(activity: Arc<Activity>, engine: &SqlEngine) -> Functions {
        Functions {
            activity,
            lent: Mutex::default(),
            locks: engine.advisory().clone(),
            snapshots: engine.exported().clone(),
            database: engine.database().clone(),
            held: Mutex::default(),
            talk: Talk::new(engine.channels().clone()),
        }
    }

    /// The session's number among those of its server.
    pub(super) fn number(&self) -> i32 {
        self.activity.number()
    }

    /// 0A000 for a session of no server, which nobody would read messages of.
    pub(super) fn check_served(&self, what: &str) -> Result<()> {
        if self.activity.joined().is_some() { Ok(()) } else { Err(not_supported(what)) }
    }

    /// Locks of the transaction so far.
    pub(super) fn mark(&self) -> usize {
        self.held.lock().of_transaction.len()
    }

    /// Gives back the locks that the transaction has taken since it had so many.
    pub(super) fn release_since(&self, mark: usize) {
        let mut held = self.held.lock();
        let from = mark.min(held.of_transaction.len());
        for hold in held.of_transaction.drain(from..) {
            self.locks.release(self.activity.lock_owner, hold);
        }
    }

    /// Nobody can import the snapshots any more that the transaction has exported.
    pub(super) fn end_exports(&self) {
        for identifier in std::mem::take(&mut self.held.lock().exported) {
            self.snapshots.remove(&identifier);
        }
    }

    /// Whether the session has locks that outlive its transactions.
    pub(super) fn holds_of_session(&self) -> bool {
        !self.held.lock().of_session.is_empty()
    }

    pub(super) fn release_all_of_session(&self) {
        for hold in self.held.lock().of_session.drain(..) {
            self.locks.release(self.activity.lock_owner, hold);
        }
    }

    fn setting(&self, name: &str, is_missing_ok: bool) -> Result<Value> {
        let lent = self.lent.lock();
        let Some(settings) = &lent.settings else { return Err(not_supported("a setting here")) };
        match lent.shown(settings, &name.to_lowercase()) {
            Ok(value) => Ok(Value::text(value)),
            Err(_) if is_missing_ok => Ok(Value::Null),
            Err(error) => Err(error),
        }
    }

    fn set(&self, name: &str, value: &str, is_local: bool) -> Result<Value> {
        let mut lent = self.lent.lock();
        let lent = &mut *lent;
        let Some(settings) = &mut lent.settings else { return Err(not_supported("a setting here")) };
        let name = name.to_lowercase();
        let change = Setting { name: name.clone(), value: Some(value.to_owned()), is_local };
        settings.set(&change)?;
        let shown = Value::text(settings.get(&name)?);
        lent.changes.push(change);
        Ok(shown)
    }

    fn lock(&self, call: LockCall, key: LockKey, interrupt: &Interrupt) -> Result<Value> {
        let hold = Hold { key, is_shared: call.is_shared };
        let is_taken = match call.action {
            LockAction::Release => {
                let mut held = self.held.lock();
                let Some(position) = held.of_session.iter().rposition(|known| *known == hold) else {
                    return Ok(Value::Boolean(false));
                };
                held.of_session.remove(position);
                return Ok(Value::Boolean(self.locks.release(self.activity.lock_owner, hold)));
            }
            LockAction::Try => self.locks.try_take(self.activity.lock_owner, hold),
            LockAction::Take => {
                let limit = self.lent.lock().settings.as_ref().and_then(|settings| settings.limits.lock);
                self.locks.take(self.activity.lock_owner, hold, limit, interrupt)?;
                true
            }
        };
        let mut held = self.held.lock();
        match (is_taken, call.is_of_transaction) {
            (true, true) => held.of_transaction.push(hold),
            (true, false) => held.of_session.push(hold),
            (false, _) => {}
        }
        Ok(if call.action == LockAction::Take { Value::text("") } else { Value::Boolean(is_taken) })
    }

    fn export_snapshot(&self) -> Result<Value> {
        let identifier = self.snapshots.new_identifier(self.number());
        match &self.lent.lock().exportable {
            Exportable::Nothing => return Err(not_supported("pg_export_snapshot() here")),
            Exportable::OfSubtransaction => {
                let message = "cannot export a snapshot from a subtransaction";
                return Err(Error::new(SqlState::ActiveSqlTransaction, message));
            }
            Exportable::OfStatement => {}
            Exportable::OfBlock(snapshot) => {
                self.snapshots.add(&identifier, snapshot.clone());
                self.held.lock().exported.push(identifier.clone());
            }
        }
        Ok(Value::text(identifier))
    }

    /// The number of the transaction, which it has from the first time that it is asked for.
    fn transaction_number(&self) -> Value {
        let mut lent = self.lent.lock();
        let number = *lent.number.get_or_insert_with(|| self.database.new_session_number());
        Value::BigInt(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl Lent {
    fn shown(&self, settings: &Settings, name: &str) -> Result<String> {
        match name {
            "transaction_isolation" => {
                let isolation = self.modes.isolation.unwrap_or(settings.default_isolation);
                Ok(setting::isolation_name(isolation).into())
            }
            "transaction_read_only" => {
                let read_only = self.modes.read_only.unwrap_or(settings.default_read_only);
                Ok(if read_only { "on" } else { "off" }.into())
            }
            _ => settings.get(name),
        }
    }
}

impl SessionCalls for Functions {
    fn call(&self, function: SessionFunction, arguments: &[Value], interrupt: &Interrupt) -> Result<Value> {
        use SessionFunction as Call;
        match (function, arguments) {
            (Call::Sleep, [Value::Double(seconds)]) => {
                let _waiting = interrupt.waits_for(WaitsFor::Time);
                sleep(*seconds, interrupt)
            }
            (Call::Number, []) => Ok(Value::Integer(self.number())),
            (Call::Setting, [Value::Text(name)]) => self.setting(name, false),
            (Call::Setting, [Value::Text(name), Value::Boolean(missing_ok)]) => {
                self.setting(name, *missing_ok)
            }
            (Call::SetSetting, [Value::Text(name), Value::Text(value), Value::Boolean(is_local)]) => {
                self.set(name, value, *is_local)
            }
            (Call::TransactionNumber, []) => Ok(self.transaction_number()),
            (Call::Lock(call), [Value::BigInt(key)]) => self.lock(call, LockKey::One(*key), interrupt),
            (Call::Lock(call), [Value::Integer(one), Value::Integer(two)]) => {
                self.lock(call, LockKey::Pair(*one, *two), interrupt)
            }
            (Call::Notify, [Value::Text(channel), Value::Text(payload)]) => {
                self.check_served("pg_notify without a server")?;
                self.talk.say(channel, payload)?;
                Ok(Value::text(""))
            }
            (Call::ExportSnapshot, []) => self.export_snapshot(),
            (Call::UnlockAll, []) => {
                self.release_all_of_session();
                Ok(Value::text(""))
            }
            _ => Err(Error::internal("a function of the session with other arguments than its own")),
        }
    }
}

impl Drop for Functions {
    fn drop(&mut self) {
        self.release_since(0);
        self.release_all_of_session();
        self.end_exports();
    }
}

/// Sleeps, but not past an interrupt.
fn sleep(seconds: f64, interrupt: &Interrupt) -> Result<Value> {
    // More than this is for ever.
    let time = Duration::try_from_secs_f64(seconds.max(0.0))
        .unwrap_or(Duration::MAX)
        .min(Duration::from_secs(1 << 32));
    let until = Instant::now() + time;
    let _woken = interrupt.wakes_me();
    loop {
        interrupt.check()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Value::text(""));
        }
        std::thread::park_timeout(left);
    }
}

impl SqlSession {
    /// Tells the session its number among the server's sessions, who its client is, and how to reach the others: for
    /// `pg_backend_pid`, `pg_cancel_backend` and their like. From here on others see what the session does.
    pub fn join_backends(&mut self, number: i32, peer: Peer, backends: Arc<dyn Backends>) {
        self.publisher.join(number, peer, backends);
    }

    /// Runs a statement that may call functions of the session.
    pub(super) fn calling_session<T>(
        &mut self,
        body: impl FnOnce(&mut SqlSession) -> Result<T>,
    ) -> Result<T> {
        let (settings, modes) = (Some(self.settings.clone()), self.block.modes());
        let number = self.block.number.filter(|_| self.block.is_open());
        *self.functions.lent.lock() = Lent { settings, modes, number, ..Lent::default() };
        self.calls_session = true;
        let done = body(self);
        self.calls_session = false;
        let lent = std::mem::take(&mut *self.functions.lent.lock());
        self.block.number = lent.number.filter(|_| self.block.is_open());
        for change in lent.changes.iter().filter(|_| done.is_ok()) {
            self.set(change)?;
        }
        if !self.block.is_open() {
            self.functions.release_since(0);
            self.end_talk(done.is_ok());
        }
        done
    }

    /// Lends the transaction's snapshot to a statement that may export it. What the client gets to know of it binds the transaction:
    /// it does not begin again.
    pub(super) fn lend_snapshot(&mut self) {
        let exportable = if !self.block.is_open() {
            Exportable::OfStatement
        } else if !self.block.savepoints.is_empty() {
            Exportable::OfSubtransaction
        } else {
            let transaction = self.block_transaction();
            Exportable::OfBlock(match transaction.isolation() {
                Isolation::RepeatableRead | Isolation::Serializable => transaction.snapshot(),
                // That of the statement.
                _ => self.session.database().snapshot(),
            })
        };
        self.functions.lent.lock().exportable = exportable;
    }

    /// SET TRANSACTION SNAPSHOT: the transaction reads what another one reads that is open, or was when it was asked.
    ///
    /// # Errors
    /// 25001 if the transaction has begun; 0A000 below REPEATABLE READ, and for a SERIALIZABLE one that may write; 22023 for what is
    /// no snapshot's identifier.
    pub(super) fn import_snapshot(&mut self, identifier: &str) -> Result<()> {
        if !self.block.can_import() {
            let message = "SET TRANSACTION SNAPSHOT must be called before any query";
            return Err(Error::new(SqlState::ActiveSqlTransaction, message));
        }
        let modes = self.block.modes();
        let isolation = modes.isolation.unwrap_or(self.settings.default_isolation);
        let refused = match isolation {
            Isolation::ReadUncommitted | Isolation::ReadCommitted => {
                "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ"
            }
            Isolation::Serializable if !modes.read_only.unwrap_or(self.settings.default_read_only) => {
                "a snapshot-importing transaction at isolation level SERIALIZABLE must be READ ONLY"
            }
            _ => "",
        };
        if !refused.is_empty() {
            return Err(Error::new(SqlState::FeatureNotSupported, refused));
        }
        let snapshot = self.runner.engine.exported().find(identifier)?;
        match self.block.is_open() {
            true => self.begin_block_at(isolation, &snapshot),
            false => {
                self.warn_of_no_block();
                Ok(())
            }
        }
    }
}
