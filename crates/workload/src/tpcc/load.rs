//! The initial population (clause 4.3.3), in parallel.
//!
//! The work is cut into units: a range of items, one warehouse with its districts, a range of a warehouse's
//! stock, the customers of a district, the orders of a district. Every unit has its own source of random
//! values, so the rows depend on the seed alone and not on how many threads load or in which order. A unit
//! commits every [`ROWS_PER_TRANSACTION`] rows or so, at REPEATABLE READ: nothing is read, so nothing needs
//! validation.

use super::random::{Random, last_name};
use super::schema::TpccTables;
use ankerdb_engine::{Cell, Database, Decimal, Error, Isolation, Result, Session, SqlState, Table, Value};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Rows of ITEM.
pub const ITEMS: i32 = 100_000;
/// Districts of a warehouse.
pub const DISTRICTS: i16 = 10;
/// Customers of a district.
pub const CUSTOMERS: i32 = 3000;
/// Orders of a district.
pub const ORDERS: i32 = 3000;
/// The first order that is not delivered yet.
pub const FIRST_UNDELIVERED: i32 = 2101;
/// Rows that one loading transaction inserts, roughly.
pub const ROWS_PER_TRANSACTION: usize = 1000;

/// Rows of ITEM or STOCK in one unit of work.
const ITEMS_PER_UNIT: i32 = 10_000;
/// Rows of a warehouse; its order lines are random, about ten an order.
const ROWS_PER_WAREHOUSE: u64 = 1 + 10 + 100_000 + 30_000 + 30_000 + 30_000 + 300_000 + 9_000;

/// Options of the load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Number of warehouses, from 1 on.
    pub warehouses: i32,
    /// Same seed, same rows.
    pub seed: u64,
    /// Threads that load.
    pub threads: usize,
    /// The date of the population, in microseconds since 1970.
    pub now: i64,
}

impl LoadOptions {
    /// Loads with all cores, dated now.
    pub fn new(warehouses: i32, seed: u64) -> LoadOptions {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        LoadOptions { warehouses, seed, threads, now: now() }
    }
}

/// The wall clock as a timestamp value: microseconds since 1970.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_micros() as i64)
}

/// Called with (rows loaded, rows expected) after every transaction, from any thread; `Break` ends the load.
pub type LoadProgress<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// Creates the tables and fills them. The expected total of rows is an estimate (order lines are random); the last call to
/// `progress` says that all are done.
///
/// # Errors
/// 57014 if `progress` ends it.
pub fn load(database: &Database, options: &LoadOptions, progress: LoadProgress<'_>) -> Result<TpccTables> {
    let tables = TpccTables::create(database)?;
    let job = Job {
        tables: &tables,
        options,
        units: units(options.warehouses),
        next: AtomicUsize::new(0),
        done: AtomicU64::new(0),
        total: ITEMS as u64 + options.warehouses as u64 * ROWS_PER_WAREHOUSE,
        progress,
        failure: Mutex::new(None),
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| job.work(database.session()));
        }
    });
    match job.failure.into_inner() {
        Some(error) => Err(error),
        None => {
            let _ = progress(job.total, job.total);
            Ok(tables)
        }
    }
}

/// A piece of the population with its own random values.
#[derive(Clone, Copy, Debug)]
enum Unit {
    Items { first: i32 },
    Warehouse { warehouse: i32 },
    Stock { warehouse: i32, first: i32 },
    Customers { warehouse: i32, district: i16 },
    Orders { warehouse: i32, district: i16 },
}

fn units(warehouses: i32) -> Vec<Unit> {
    let chunks = || (1..=ITEMS).step_by(ITEMS_PER_UNIT as usize);
    let mut units: Vec<Unit> = chunks().map(|first| Unit::Items { first }).collect();
    for warehouse in 1..=warehouses {
        units.push(Unit::Warehouse { warehouse });
        units.extend(chunks().map(|first| Unit::Stock { warehouse, first }));
        units.extend((1..=DISTRICTS).map(|district| Unit::Customers { warehouse, district }));
        units.extend((1..=DISTRICTS).map(|district| Unit::Orders { warehouse, district }));
    }
    units
}

struct Job<'a> {
    tables: &'a TpccTables,
    options: &'a LoadOptions,
    units: Vec<Unit>,
    next: AtomicUsize,
    done: AtomicU64,
    total: u64,
    progress: LoadProgress<'a>,
    failure: Mutex<Option<Error>>,
}

impl<'a> Job<'a> {
    fn work(&'a self, mut session: Session) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(&unit) = self.units.get(number) else { return };
            if self.failure.lock().is_some() {
                return;
            }
            if let Err(error) = self.load_unit(&mut session, number, unit) {
                self.failure.lock().get_or_insert(error);
                return;
            }
        }
    }

    fn load_unit(&'a self, session: &mut Session, number: usize, unit: Unit) -> Result<()> {
        let mut rows =
            RowMaker { random: Random::new(self.options.seed, number as u64), now: self.options.now };
        let mut writer = Writer { job: self, session, pending: Vec::with_capacity(ROWS_PER_TRANSACTION) };
        let tables = self.tables;
        match unit {
            Unit::Items { first } => {
                for id in first..first + ITEMS_PER_UNIT {
                    writer.insert(&tables.item, rows.item(id))?;
                }
            }
            Unit::Warehouse { warehouse } => {
                writer.insert(&tables.warehouse, rows.warehouse(warehouse))?;
                for district in 1..=DISTRICTS {
                    writer.insert(&tables.district, rows.district(warehouse, district))?;
                }
            }
            Unit::Stock { warehouse, first } => {
                for item in first..first + ITEMS_PER_UNIT {
                    writer.insert(&tables.stock, rows.stock(warehouse, item))?;
                }
            }
            Unit::Customers { warehouse, district } => {
                for customer in 1..=CUSTOMERS {
                    writer.insert(&tables.customer, rows.customer(warehouse, district, customer))?;
                    writer.insert(&tables.history, rows.history(warehouse, district, customer))?;
                }
            }
            Unit::Orders { warehouse, district } => {
                self.load_orders(&mut rows, &mut writer, warehouse, district)?;
            }
        }
        writer.commit()
    }

    fn load_orders(
        &'a self,
        rows: &mut RowMaker,
        writer: &mut Writer<'a>,
        warehouse: i32,
        district: i16,
    ) -> Result<()> {
        let customers = rows.random.permutation(CUSTOMERS);
        for order in 1..=ORDERS {
            let lines = rows.random.small(5, 15);
            let customer = customers[order as usize - 1];
            writer.insert(&self.tables.orders, rows.order(warehouse, district, order, customer, lines))?;
            for line in 1..=lines {
                writer.insert(&self.tables.order_line, rows.order_line(warehouse, district, order, line))?;
            }
            if order >= FIRST_UNDELIVERED {
                writer.insert(&self.tables.new_order, new_order(warehouse, district, order))?;
            }
        }
        Ok(())
    }
}

/// Inserts rows and commits from time to time.
struct Writer<'a> {
    job: &'a Job<'a>,
    session: &'a mut Session,
    pending: Vec<(&'a Arc<Table>, Vec<Value>)>,
}

impl<'a> Writer<'a> {
    fn insert(&mut self, table: &'a Arc<Table>, values: Vec<Value>) -> Result<()> {
        self.pending.push((table, values));
        if self.pending.len() < ROWS_PER_TRANSACTION { Ok(()) } else { self.commit() }
    }

    fn commit(&mut self) -> Result<()> {
        let rows = self.pending.len() as u64;
        let pending = &mut self.pending;
        self.session.try_run(Isolation::RepeatableRead, |transaction| {
            pending.drain(..).try_for_each(|(table, values)| transaction.insert(table, values).map(drop))
        })?;
        let done = self.job.done.fetch_add(rows, Ordering::Relaxed) + rows;
        match (self.job.progress)(done.min(self.job.total), self.job.total) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                Err(Error::new(SqlState::QueryCanceled, "the load was stopped by the user"))
            }
        }
    }
}

/// A numeric with two fractional digits.
pub(crate) fn money(cents: i128) -> Value {
    Value::Numeric(Decimal::new(cents, 2))
}

/// A cell of a numeric with two fractional digits.
pub(crate) fn money_cell(cents: i128) -> Cell<'static> {
    Cell::bigint(cents as i64)
}

fn rate(ten_thousandths: i32) -> Value {
    Value::Numeric(Decimal::new(ten_thousandths.into(), 4))
}

fn new_order(warehouse: i32, district: i16, order: i32) -> Vec<Value> {
    vec![Value::Integer(order), Value::SmallInt(district), Value::Integer(warehouse)]
}

/// Makes rows, values in the order of the columns (clause 4.3.3.1).
struct RowMaker {
    random: Random,
    now: i64,
}

impl RowMaker {
    fn text(&mut self, low: usize, high: usize) -> Value {
        Value::text(self.random.text(low, high))
    }

    /// Street 1 and 2, city, state, zip.
    fn address(&mut self) -> [Value; 5] {
        [
            self.text(10, 20),
            self.text(10, 20),
            self.text(10, 20),
            Value::text(self.random.state()),
            Value::text(self.random.zip()),
        ]
    }

    fn item(&mut self, id: i32) -> Vec<Value> {
        vec![
            Value::Integer(id),
            Value::Integer(self.random.uniform(1, 10_000)),
            self.text(14, 24),
            money(self.random.uniform(100, 10_000).into()),
            Value::text(self.random.data()),
        ]
    }

    fn warehouse(&mut self, id: i32) -> Vec<Value> {
        let mut row = vec![Value::Integer(id), self.text(6, 10)];
        row.extend(self.address());
        row.extend([rate(self.random.uniform(0, 2000)), money(300_000_00)]);
        row
    }

    fn district(&mut self, warehouse: i32, id: i16) -> Vec<Value> {
        let mut row = vec![Value::SmallInt(id), Value::Integer(warehouse), self.text(6, 10)];
        row.extend(self.address());
        row.extend([rate(self.random.uniform(0, 2000)), money(30_000_00), Value::Integer(ORDERS + 1)]);
        row
    }

    fn stock(&mut self, warehouse: i32, item: i32) -> Vec<Value> {
        let quantity = self.random.small(10, 100);
        let mut row = vec![Value::Integer(item), Value::Integer(warehouse), Value::SmallInt(quantity)];
        row.extend((0..10).map(|_| self.text(24, 24)));
        row.extend([Value::Integer(0), Value::Integer(0), Value::Integer(0)]);
        row.push(Value::text(self.random.data()));
        row
    }

    fn customer(&mut self, warehouse: i32, district: i16, id: i32) -> Vec<Value> {
        let last = if id <= 1000 { last_name(id as u32 - 1) } else { self.random.last_name_for_load() };
        let mut row = vec![
            Value::Integer(id),
            Value::SmallInt(district),
            Value::Integer(warehouse),
            self.text(8, 16),
            Value::text("OE"),
            Value::text(&*last),
        ];
        row.extend(self.address());
        row.extend([
            Value::text(self.random.digits(16)),
            Value::Timestamp(self.now),
            Value::text(if self.random.percent(10) { "BC" } else { "GC" }),
            money(50_000_00),
            rate(self.random.uniform(0, 5000)),
            money(-10_00),
            money(10_00),
            Value::Integer(1),
            Value::Integer(0),
            self.text(300, 500),
        ]);
        row
    }

    fn history(&mut self, warehouse: i32, district: i16, customer: i32) -> Vec<Value> {
        vec![
            Value::Integer(customer),
            Value::SmallInt(district),
            Value::Integer(warehouse),
            Value::SmallInt(district),
            Value::Integer(warehouse),
            Value::Timestamp(self.now),
            money(10_00),
            self.text(12, 24),
        ]
    }

    fn order(&mut self, warehouse: i32, district: i16, id: i32, customer: i32, lines: i16) -> Vec<Value> {
        let delivered = id < FIRST_UNDELIVERED;
        vec![
            Value::Integer(id),
            Value::SmallInt(district),
            Value::Integer(warehouse),
            Value::Integer(customer),
            Value::Timestamp(self.now),
            if delivered { Value::SmallInt(self.random.small(1, 10)) } else { Value::Null },
            Value::SmallInt(lines),
            Value::SmallInt(1),
        ]
    }

    fn order_line(&mut self, warehouse: i32, district: i16, order: i32, line: i16) -> Vec<Value> {
        let delivered = order < FIRST_UNDELIVERED;
        vec![
            Value::Integer(order),
            Value::SmallInt(district),
            Value::Integer(warehouse),
            Value::SmallInt(line),
            Value::Integer(self.random.uniform(1, ITEMS)),
            Value::Integer(warehouse),
            if delivered { Value::Timestamp(self.now) } else { Value::Null },
            Value::SmallInt(5),
            money(if delivered { 0 } else { self.random.uniform(1, 999_999).into() }),
            self.text(24, 24),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::{customer, district, item, order_line, orders, stock, warehouse};
    use super::*;

    fn rows(stream: u64) -> RowMaker {
        RowMaker { random: Random::new(11, stream), now: 1 }
    }

    #[test]
    fn rows_have_one_value_for_each_column() {
        let mut rows = rows(0);
        for (row, definition) in [
            (rows.item(1), item::definition()),
            (rows.warehouse(1), warehouse::definition()),
            (rows.district(1, 1), district::definition()),
            (rows.stock(1, 1), stock::definition()),
            (rows.customer(1, 1, 1), customer::definition()),
            (rows.order(1, 1, 3000, 1, 5), orders::definition()),
            (rows.order_line(1, 1, 3000, 1), order_line::definition()),
        ] {
            assert_eq!(row.len(), definition.columns.len(), "{}", definition.name);
            for (value, column) in row.iter().zip(&definition.columns) {
                assert!(column.nullable || !value.is_null(), "{}", column.name);
            }
        }
    }

    #[test]
    fn same_stream_makes_the_same_rows() {
        assert_eq!(rows(3).customer(1, 2, 1500), rows(3).customer(1, 2, 1500));
        assert_ne!(rows(3).customer(1, 2, 1500), rows(4).customer(1, 2, 1500));
    }

    #[test]
    fn undelivered_orders_have_no_carrier_and_an_amount() {
        let mut rows = rows(5);
        assert!(!rows.order(1, 1, 2100, 1, 5)[orders::O_CARRIER_ID].is_null());
        assert!(rows.order(1, 1, 2101, 1, 5)[orders::O_CARRIER_ID].is_null());
        assert_eq!(rows.order_line(1, 1, 2100, 1)[order_line::OL_AMOUNT], money(0));
        assert_ne!(rows.order_line(1, 1, 2101, 1)[order_line::OL_AMOUNT], money(0));
        assert!(rows.order_line(1, 1, 2101, 1)[order_line::OL_DELIVERY_D].is_null());
    }

    #[test]
    fn every_piece_of_a_warehouse_is_a_unit_once() {
        let units = units(2);
        let count = |pick: fn(&Unit) -> bool| units.iter().filter(|unit| pick(unit)).count();
        assert_eq!(count(|unit| matches!(unit, Unit::Items { .. })), 10);
        assert_eq!(count(|unit| matches!(unit, Unit::Stock { .. })), 20);
        assert_eq!(count(|unit| matches!(unit, Unit::Customers { .. })), 20);
        assert_eq!(count(|unit| matches!(unit, Unit::Orders { .. })), 20);
    }
}
