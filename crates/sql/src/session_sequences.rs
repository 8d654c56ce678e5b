//! What a session knows of sequences: the numbers that it has got.

use crate::expression::{Sequences, SessionCalls, SessionFunction};
use crate::name::sequence_name;
use ankerdb_engine::{Catalog, Database, Error, Interrupt, Result, Sequence, SqlState, Value};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// A session's way to the sequences of its database.
pub(crate) struct SessionSequences {
    database: Database,
    /// The open transaction's own catalog, if it has one.
    catalog: Mutex<Option<Arc<Catalog>>>,
    used: Mutex<Used>,
    calls: Arc<dyn SessionCalls>,
}

#[derive(Default)]
struct Used {
    /// The number got last, by the sequence's name; one that was dropped and made again is another one.
    numbers: HashMap<String, (Weak<Sequence>, i64)>,
    /// The name of the sequence used last.
    last: Option<String>,
}

impl SessionSequences {
    pub(crate) fn new(database: Database, calls: Arc<dyn SessionCalls>) -> SessionSequences {
        SessionSequences { database, catalog: Mutex::default(), used: Mutex::default(), calls }
    }

    /// From now on sequences are those of this catalog; `None` is that of all.
    pub(crate) fn use_catalog(&self, catalog: Option<Arc<Catalog>>) {
        *self.catalog.lock() = catalog;
    }

    /// Forgets which numbers the session has got.
    pub(crate) fn forget(&self) {
        *self.used.lock() = Used::default();
    }

    fn named(&self, name: &str) -> Result<Arc<Sequence>> {
        let name = sequence_name(name)?;
        let catalog = self.catalog.lock().clone().unwrap_or_else(|| self.database.catalog());
        catalog.sequence(&name).map_err(|missing| match catalog.has_relation(&name) {
            true => Error::new(SqlState::WrongObjectType, format!("\"{name}\" is not a sequence")),
            false => missing,
        })
    }

    fn note(&self, sequence: &Arc<Sequence>, number: i64, is_last: bool) {
        let mut used = self.used.lock();
        used.numbers.insert(sequence.name().to_owned(), (Arc::downgrade(sequence), number));
        if is_last {
            used.last = Some(sequence.name().to_owned());
        }
    }
}

impl Sequences for SessionSequences {
    fn call(&self, function: SessionFunction, arguments: &[Value], interrupt: &Interrupt) -> Result<Value> {
        self.calls.call(function, arguments, interrupt)
    }

    fn next(&self, name: &str) -> Result<i64> {
        let sequence = self.named(name)?;
        let number = sequence.next()?;
        self.note(&sequence, number, true);
        Ok(number)
    }

    fn current(&self, name: &str) -> Result<i64> {
        let sequence = self.named(name)?;
        let used = self.used.lock();
        let known = used.numbers.get(sequence.name());
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
        sequence.set(value, is_used)?;
        if is_used {
            self.note(&sequence, value, false);
        }
        Ok(value)
    }
}
