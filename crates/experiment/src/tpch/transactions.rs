//! The hand-made OLTP transactions of AnKerDB (arXiv 2017) §5.2.
//!
//! Figure 6, which lists them, is missing in our copy of the paper; its text tells their shape: find a row by its key
//! and change one attribute of it. Texts get another value that the column has; amounts grow by some percent of their
//! current value; l_shipdate moves by some days. The numbers are missing, too; here they are 1 to 5 percent, and 1 to
//! 5 days.

use super::TpcH;
use super::load::Keys;
use super::schema::{TpchTables, lineitem, orders, part};
use crate::tpcc::pause;
use ankerdb_engine::{ColumnSet, Error, IndexPosition, Isolation, Result, Session, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a transaction does to its attribute.
#[derive(Clone, Copy)]
enum Change {
    /// Another of the column's values.
    Text(&'static [&'static str]),
    /// 1 to 5 percent more.
    Amount,
    /// 1 to 5 days later.
    Date,
    /// One of the 25 brands.
    Brand,
}

/// The nine transactions: table by position in `NAMES`, column, change.
const TRANSACTIONS: [(usize, usize, Change); 9] = [
    (0, lineitem::RETURNFLAG, Change::Text(&["A", "N", "R"])),
    (0, lineitem::LINESTATUS, Change::Text(&["F", "O"])),
    (0, lineitem::DISCOUNT, Change::Amount),
    (0, lineitem::EXTENDEDPRICE, Change::Amount),
    (0, lineitem::SHIPDATE, Change::Date),
    (1, orders::ORDERPRIORITY, Change::Text(&["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"])),
    (1, orders::TOTALPRICE, Change::Amount),
    (2, part::BRAND, Change::Brand),
    (2, part::RETAILPRICE, Change::Amount),
];

/// One client: a session and its inputs.
pub struct TpchClient {
    session: Session,
    tables: Arc<TpchTables>,
    keys: Arc<Keys>,
    random: fastrand::Rng,
    isolation: Isolation,
    key: Vec<u8>,
}

impl TpchClient {
    /// A client with a session of its own. Same seed, same inputs.
    pub fn new(world: &TpcH, seed: u64) -> TpchClient {
        TpchClient {
            session: world.database.session(),
            tables: world.tables.clone(),
            keys: world.keys.clone(),
            random: fastrand::Rng::with_seed(seed),
            isolation: world.isolation(),
            key: Vec::with_capacity(16),
        }
    }

    /// Runs a random transaction until it commits or the flag is raised; returns how often it had to be run again.
    ///
    /// # Errors
    /// The database's, but for those after which the transaction is run again.
    pub fn run_next(&mut self, stop: &AtomicBool) -> Result<u64> {
        let (table, column, change) = TRANSACTIONS[self.random.usize(..TRANSACTIONS.len())];
        self.choose_row(table)?;
        let change = self.choose(change);
        let mut retries = 0;
        loop {
            match self.update(table, column, &change) {
                Err(error) if error.is_retryable() => retries += 1,
                outcome => return outcome.map(|()| retries),
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(retries);
            }
            pause(retries);
        }
    }

    /// Puts the key of a random row into the buffer.
    fn choose_row(&mut self, table: usize) -> Result<()> {
        self.key.clear();
        let values = match table {
            0 => {
                let (order, line) = self.keys.lineitem[self.random.usize(..self.keys.lineitem.len())];
                vec![Value::BigInt(order), Value::Integer(line)]
            }
            1 => vec![Value::BigInt(self.keys.orders[self.random.usize(..self.keys.orders.len())])],
            _ => vec![Value::BigInt(self.keys.part[self.random.usize(..self.keys.part.len())])],
        };
        self.tables.table(table).index(IndexPosition(0)).encode(&values, &mut self.key)
    }

    /// The parameter of a change.
    fn choose(&mut self, change: Change) -> Chosen {
        match change {
            Change::Text(values) => Chosen::Text(values[self.random.usize(..values.len())].into()),
            Change::Brand => {
                Chosen::Text(format!("Brand#{}{}", self.random.u32(1..=5), self.random.u32(1..=5)).into())
            }
            Change::Amount => Chosen::Factor(1.0 + f64::from(self.random.u32(1..=5)) / 100.0),
            Change::Date => Chosen::Days(self.random.i32(1..=5)),
        }
    }

    fn update(&mut self, table: usize, column: usize, change: &Chosen) -> Result<()> {
        let (table, key) = (self.tables.table(table), &self.key);
        self.session.try_run(self.isolation, |transaction| {
            let row = transaction.find(table, IndexPosition(0), key, ColumnSet::of(&[column]))?;
            let row = row.ok_or_else(|| Error::internal(format!("a row of {} is missing", table.name())))?;
            let value = change.applied_to(transaction.value(table, row, column));
            transaction.update(table, row, vec![(column, value)])
        })
    }
}

/// A change with its parameter.
enum Chosen {
    Text(Box<str>),
    Factor(f64),
    Days(i32),
}

impl Chosen {
    fn applied_to(&self, value: Value) -> Value {
        match (self, value) {
            (Chosen::Text(text), _) => Value::Text(text.clone()),
            (Chosen::Factor(factor), Value::Double(amount)) => Value::Double(amount * factor),
            (Chosen::Days(days), Value::Date(date)) => Value::Date(date + days),
            (_, other) => other,
        }
    }
}
