//! Ours: the same rows in a table, the same transactions by an index, and Q6 as SQL.

use super::lineitem::{Lineitem, Q6, WORDS};
use super::{CalderaOutcome, Plan, ROWS_PER_TRANSACTION, Runner};
use crate::harness::{Harness, joined};
use crate::tpcc::sql_engine;
use ankerdb_engine::{
    Cell, ColumnDefinition, ColumnSet, DataType, Database, Decimal, Error, IndexPosition, Isolation, Result,
    Session, Table, TableDefinition, Value,
};
use ankerdb_sql::AnalyticalQuery;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Rows of one loading transaction.
const ROWS_PER_LOAD: usize = 1000;
const PRICE: usize = 2;

/// A loaded database.
pub(super) struct Ours {
    database: Database,
    table: Arc<Table>,
    query: AnalyticalQuery,
}

impl Ours {
    /// Loads the rows.
    ///
    /// # Errors
    /// 57014 if the user stops it.
    pub(super) fn load(harness: &Harness<'_>, rows: &Lineitem) -> Result<Ours> {
        let database = Database::new();
        let numeric = |precision, scale| DataType::Numeric { precision, scale };
        let columns = [
            ("l_number", DataType::BigInt),
            ("l_quantity", numeric(12, 2)),
            ("l_extendedprice", numeric(12, 2)),
            ("l_discount", numeric(12, 2)),
            ("l_shipdate", DataType::Date),
        ];
        let definition =
            columns.into_iter().fold(TableDefinition::new("lineitem"), |table, (name, data_type)| {
                table.column(ColumnDefinition::new(name, data_type))
            });
        let definition = definition.primary_key(&["l_number"]).hashed("lineitem_pkey");
        let table = database.create_table(definition)?;
        fill(harness, &mut database.session(), &table, rows)?;
        let query = sql_engine(harness, &database, 1)?.plan(Q6)?;
        Ok(Ours { database, table, query })
    }
}

fn fill(harness: &Harness<'_>, session: &mut Session, table: &Arc<Table>, rows: &Lineitem) -> Result<()> {
    let (progress, total) = (harness.loading(), rows.len() as u64);
    let mut number = 0;
    for part in rows.rows().chunks(ROWS_PER_LOAD) {
        session.try_run(Isolation::RepeatableRead, |transaction| {
            (number..)
                .zip(part)
                .try_for_each(|(number, row)| transaction.insert(table, values(number, row)).map(drop))
        })?;
        number += part.len() as i64;
        if progress(number as u64, total).is_break() {
            return Err(Error::new(ankerdb_engine::SqlState::QueryCanceled, "loading was stopped"));
        }
    }
    Ok(())
}

fn values(number: i64, [quantity, price, discount, date]: &[u64; WORDS]) -> Vec<Value> {
    let hundredths = |unscaled: u64| Value::Numeric(Decimal::new(unscaled.into(), 2));
    vec![
        Value::BigInt(number),
        hundredths(quantity * 100),
        hundredths(*price),
        hundredths(*discount),
        Value::Date(*date as i32),
    ]
}

impl Runner for Ours {
    fn run(&mut self, harness: &Harness<'_>, plan: Plan) -> Result<CalderaOutcome> {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let session = self.database.session();
            let transactions = scope.spawn(|| transact(session, &self.table, plan, &stop));
            let begun = Instant::now();
            let latencies = self.ask_all(harness, plan);
            let elapsed = begun.elapsed();
            stop.store(true, Relaxed);
            let transactions = joined(transactions.join())?;
            Ok(CalderaOutcome { transactions, elapsed, latencies: latencies? })
        })
    }
}

impl Ours {
    fn ask_all(&self, harness: &Harness<'_>, plan: Plan) -> Result<Vec<Duration>> {
        let mut latencies = Vec::new();
        while latencies.len() < plan.queries && !harness.is_stopped() {
            harness.progress(latencies.len() as f64 / plan.queries as f64);
            let snapshot = self.database.snapshot();
            for _ in 0..plan.sharing.min(plan.queries - latencies.len()) {
                let begun = Instant::now();
                self.query.run(&snapshot.read_view())?;
                latencies.push(begun.elapsed());
            }
        }
        Ok(latencies)
    }
}

/// Runs transactions until it is told to stop; how many.
fn transact(mut session: Session, table: &Arc<Table>, plan: Plan, stop: &AtomicBool) -> Result<u64> {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let (mut count, mut key) = (0, Vec::new());
    while !stop.load(Relaxed) {
        session.try_run(Isolation::Serializable, |transaction| {
            (0..ROWS_PER_TRANSACTION).try_for_each(|_| {
                let number = random.u64(..plan.working_set.max(1) as u64) as i64;
                key.clear();
                table.index(IndexPosition(0)).encode(&[Value::BigInt(number)], &mut key)?;
                let row = transaction.find(table, IndexPosition(0), &key, ColumnSet::of(&[PRICE]))?;
                let row = row.ok_or_else(|| Error::internal("a row is missing"))?;
                let price = transaction.decimal(table, row, PRICE) + 1;
                transaction.update_cells(table, row, &[(PRICE, Cell::Word(price as u64))])
            })
        })?;
        count += 1;
    }
    Ok(count)
}
