//! The marker: a commit acknowledged directly before a query starts, for the check that it is visible.
//!
//! ```text
//! OLAP stream   ask for marker n ----------.          take snapshot, run query, read marker: at least n?
//!                                          v          ^
//! OLTP thread                   update to n, commit, acknowledge
//! ```
//!
//! The commit happens in an OLTP thread in the middle of its transactions, and the acknowledgement crosses threads, as it would
//! from one client to another. The marker has a table of its own; the orders and payments in a query's answer tell whether the
//! tables that it reads are as fresh ([`known`](super::known)).

use super::known::sum_of_words;
use ankerdb_engine::{
    ColumnDefinition, ColumnSet, DataType, Database, Error, IndexPosition, Isolation, ReadView, Result,
    Session, Table, TableDefinition, Value,
};
use ankerdb_value::push_integer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The marker table's name.
pub const NAME: &str = "htap_marker";

const VALUE: usize = 1;
/// Pause between looks for the acknowledgement: OLTP transactions take tens of microseconds.
const POLL: Duration = Duration::from_micros(20);

/// The marker row and the two counters by which the streams talk.
pub struct Marker {
    table: Arc<Table>,
    requested: AtomicU64,
    acknowledged: AtomicU64,
}

impl Marker {
    /// Creates the table with its only row, value 0.
    ///
    /// # Errors
    /// 42P07 if it exists.
    pub fn create(database: &Database) -> Result<Marker> {
        let definition = TableDefinition::new(NAME)
            .column(ColumnDefinition::new("id", DataType::Integer))
            .column(ColumnDefinition::new("value", DataType::BigInt))
            .primary_key(&["id"]);
        let table = database.create_table(definition)?;
        database.session().run(Isolation::Serializable, |transaction| {
            transaction.insert(&table, vec![Value::Integer(1), Value::BigInt(0)]).map(drop)
        })?;
        Ok(Marker { table, requested: AtomicU64::new(0), acknowledged: AtomicU64::new(0) })
    }

    /// Called by an OLTP thread between transactions: commits the requested marker. One atomic load if there is none.
    ///
    /// # Errors
    /// The database's.
    pub fn serve(&self, session: &mut Session) -> Result<()> {
        let requested = self.requested.load(Ordering::Acquire);
        if requested == self.acknowledged.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.write(session, requested)?;
        self.acknowledged.store(requested, Ordering::Release);
        Ok(())
    }

    fn write(&self, session: &mut Session, value: u64) -> Result<()> {
        let mut key = Vec::new();
        push_integer(&mut key, 1);
        session.run(Isolation::Serializable, |transaction| {
            let row = transaction.find(&self.table, IndexPosition(0), &key, ColumnSet::of(&[VALUE]))?;
            let row = row.ok_or_else(|| Error::internal("the marker row is missing"))?;
            transaction.update(&self.table, row, vec![(VALUE, Value::BigInt(value as i64))])
        })
    }

    /// The value that a snapshot shows.
    ///
    /// # Errors
    /// The database's.
    pub fn read(&self, view: &ReadView) -> Result<i64> {
        let value = sum_of_words(view, &self.table, VALUE)?;
        view.check().map(|()| value)
    }

    /// Called by the OLAP stream (one thread): has the next marker committed and waits for the acknowledgement.
    /// Returns the value that any later snapshot must show; `None` if `stop` ended the wait.
    pub fn commit_one(&self, stop: &AtomicBool) -> Option<i64> {
        let wanted = self.requested.load(Ordering::Relaxed) + 1;
        self.requested.store(wanted, Ordering::Release);
        while self.acknowledged.load(Ordering::Acquire) < wanted {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            std::thread::sleep(POLL);
        }
        Some(wanted as i64)
    }
}
