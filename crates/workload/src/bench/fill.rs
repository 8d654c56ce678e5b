//! Loads tables whose rows are numbered, in parallel.

use super::rounds::stopped;
use crate::watch::Watch;
use ankerdb_engine::{Database, Error, Isolation, Result, Session, Table, Value};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers that one loading transaction inserts the rows of.
const NUMBERS_PER_TRANSACTION: u64 = 1000;

/// The rows of one number: of each table one.
pub type RowsOf<'a> = &'a (dyn Fn(u64) -> Vec<Value> + Sync);

/// Inserts the rows of the numbers `0..count` into each of the tables, with all cores.
///
/// # Errors
/// 57014 if the user stops.
pub fn fill(
    database: &Database,
    count: u64,
    tables: &[(&Arc<Table>, RowsOf<'_>)],
    watch: &Watch<'_>,
) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, done, failure) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(None::<Error>));
    let work = |mut session: Session| {
        loop {
            let first = next.fetch_add(NUMBERS_PER_TRANSACTION, Ordering::Relaxed);
            if first >= count || failure.lock().is_some() {
                return;
            }
            let last = (first + NUMBERS_PER_TRANSACTION).min(count);
            // Nothing is read, so nothing needs validation.
            let inserted = session.try_run(Isolation::RepeatableRead, |transaction| {
                (first..last).try_for_each(|number| {
                    tables
                        .iter()
                        .try_for_each(|(table, row)| transaction.insert(table, row(number)).map(drop))
                })
            });
            let done = done.fetch_add(last - first, Ordering::Relaxed) + last - first;
            let told = watch.loading(done, count);
            if let Err(error) = inserted.and_then(|()| if told.is_break() { Err(stopped()) } else { Ok(()) })
            {
                failure.lock().get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(database.session()));
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}
