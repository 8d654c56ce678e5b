//! What a session knows of sequences: the numbers that it has got.

use crate::execute::schema::{check_schema, is_temporary};
use crate::expression::{Sequences, SessionCalls, SessionFunction};
use crate::name::sequence_name;
use crate::system::PG_CATALOG;
use ankerdb_engine::{
    Catalog, Database, Error, Interrupt, RelationName, Result, SearchPath, Sequence, SqlState, Value,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// A session's way to the sequences of its database.
pub(crate) struct SessionSequences {
    database: Database,
    /// The open transaction's own catalog, if it has one.
    catalog: Mutex<Option<Arc<Catalog>>>,
    /// Where names without a schema are looked for.
    path: Mutex<Arc<SearchPath>>,
    used: Mutex<Used>,
    calls: Arc<dyn SessionCalls>,
    /// Whether the transaction must not change what others see.
    is_read_only: AtomicBool,
}

#[derive(Default)]
struct Used {
    /// The number got last, by the sequence's name; one that was dropped and made again is another one.
    numbers: HashMap<RelationName, (Weak<Sequence>, i64)>,
    /// The name of the sequence used last.
    last: Option<RelationName>,
}

impl SessionSequences {
    pub(crate) fn new(database: Database, calls: Arc<dyn SessionCalls>) -> SessionSequences {
        let (catalog, path, used) = (Mutex::default(), Mutex::default(), Mutex::default());
        SessionSequences { database, catalog, path, used, calls, is_read_only: AtomicBool::new(false) }
    }

    /// From now on sequences are those of this catalog; `None` is that of all.
    pub(crate) fn use_catalog(&self, catalog: Option<Arc<Catalog>>) {
        *self.catalog.lock() = catalog;
    }

    /// From now on names without a schema are looked for along this path.
    pub(crate) fn look_along(&self, path: Arc<SearchPath>) {
        *self.path.lock() = path;
    }

    /// Whether sequences that do not go with the session may not be changed from now on.
    pub(crate) fn keep_unchanged(&self, is_read_only: bool) {
        self.is_read_only.store(is_read_only, Ordering::Relaxed);
    }

    /// 25006 in a transaction that only reads, but for temporary sequences.
    fn check_changeable(&self, sequence: &Sequence, function: &str) -> Result<()> {
        if !self.is_read_only.load(Ordering::Relaxed) {
            return Ok(());
        }
        if is_temporary(&self.catalog(), &sequence.full_name()) {
            return Ok(());
        }
        let message = format!("cannot execute {function}() in a read-only transaction");
        Err(Error::new(SqlState::ReadOnlySqlTransaction, message))
    }

    fn catalog(&self) -> Arc<Catalog> {
        let catalog = self.catalog.lock().clone();
        catalog.unwrap_or_else(|| Arc::new(self.database.catalog().along(self.path.lock().clone())))
    }

    /// The schema in which relations are made whose names have none; NULL if there is none.
    fn current_schema(&self) -> Value {
        let path = self.path.lock().clone();
        let catalog = self.catalog();
        let is_there = |name: &&String| *name == PG_CATALOG || catalog.schema(name).is_some();
        path.asked.iter().find(is_there).map_or(Value::Null, |name| Value::text(name.as_str()))
    }

    /// Forgets which numbers the session has got.
    pub(crate) fn forget(&self) {
        *self.used.lock() = Used::default();
    }

    fn named(&self, name: &str) -> Result<Arc<Sequence>> {
        let name = sequence_name(name)?;
        let catalog = self.catalog();
        check_schema(&name, &catalog)?;
        catalog.sequence(&name).map_err(|missing| match catalog.has_relation(&name) {
            true => Error::new(SqlState::WrongObjectType, format!("\"{name}\" is not a sequence")),
            false => missing,
        })
    }

    fn note(&self, sequence: &Arc<Sequence>, number: i64, is_last: bool) {
        let mut used = self.used.lock();
        used.numbers.insert(sequence.full_name(), (Arc::downgrade(sequence), number));
        if is_last {
            used.last = Some(sequence.full_name());
        }
    }
}

impl Sequences for SessionSequences {
    fn call(&self, function: SessionFunction, arguments: &[Value], interrupt: &Interrupt) -> Result<Value> {
        match function {
            SessionFunction::CurrentSchema => Ok(self.current_schema()),
            _ => self.calls.call(function, arguments, interrupt),
        }
    }

    fn next(&self, name: &str) -> Result<i64> {
        let sequence = self.named(name)?;
        self.check_changeable(&sequence, "nextval")?;
        let number = sequence.next()?;
        self.note(&sequence, number, true);
        Ok(number)
    }

    fn current(&self, name: &str) -> Result<i64> {
        let sequence = self.named(name)?;
        let used = self.used.lock();
        let known = used.numbers.get(&sequence.full_name());
        match known.filter(|(known, _)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(&sequence))) {
            Some((_, number)) => Ok(*number),
            None => {
                let name = sequence.name();
                let message = format!("currval of sequence \"{name}\" is not yet defined in this session");
                Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message))
            }
        }
    }

    fn last(&self) -> Result<i64> {
        let undefined = || {
            let message = "lastval is not yet defined in this session";
            Error::new(SqlState::ObjectNotInPrerequisiteState, message)
        };
        let used = self.used.lock();
        let name = used.last.as_ref().ok_or_else(undefined)?;
        let (sequence, number) = used.numbers.get(name).ok_or_else(undefined)?;
        if sequence.strong_count() > 0 { Ok(*number) } else { Err(undefined()) }
    }

    fn set(&self, name: &str, value: i64, is_used: bool) -> Result<i64> {
        let sequence = self.named(name)?;
        self.check_changeable(&sequence, "setval")?;
        sequence.set(value, is_used)?;
        if is_used {
            self.note(&sequence, value, false);
        }
        Ok(value)
    }
}
