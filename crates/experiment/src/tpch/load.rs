//! Loading TPC-H rows, in parallel. The rows are those of the official generator, except that comments are cut from a
//! shorter text, which takes milliseconds to make instead of a second and 300 MiB.

use super::schema::TpchTables;
use ankerdb_engine::{Database, Error, Isolation, Result, Session, SqlState, Table, Value};
use ankerdb_workload::tpcc::load::LoadProgress;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tpchgen::decimal::TPCHDecimal;
use tpchgen::distribution::Distributions;
use tpchgen::generators::{LineItemGenerator, OrderGenerator, PartGenerator};
use tpchgen::text::TextPool;

/// Pieces of work for each table.
const PARTS: i32 = 32;
/// Rows of one loading transaction.
const ROWS_PER_TRANSACTION: usize = 1000;
/// Bytes of text that comments are cut from.
const TEXT_BYTES: i32 = 4 << 20;
/// Rows at scale factor 1: ORDERS, PART, and about four lines an order.
const ORDERS_PER_SCALE: f64 = 1_500_000.0;
const PARTS_PER_SCALE: f64 = 200_000.0;
const LINES_PER_ORDER: f64 = 4.0;

/// The primary keys of all rows: transactions choose among them.
pub struct Keys {
    /// l_orderkey and l_linenumber.
    pub lineitem: Vec<(i64, i32)>,
    /// o_orderkey
    pub orders: Vec<i64>,
    /// p_partkey
    pub part: Vec<i64>,
}

/// Creates the tables and fills them.
///
/// # Errors
/// 57014 if `progress` ends it.
pub fn load(database: &Database, scale: f64, progress: LoadProgress<'_>) -> Result<(TpchTables, Keys)> {
    let tables = TpchTables::create(database)?;
    let job = Job {
        tables: &tables,
        scale,
        next: AtomicUsize::new(0),
        done: AtomicU64::new(0),
        total: (scale * (ORDERS_PER_SCALE * (1.0 + LINES_PER_ORDER) + PARTS_PER_SCALE)) as u64,
        progress,
        keys: Mutex::new(Keys { lineitem: Vec::new(), orders: Vec::new(), part: Vec::new() }),
        failure: Mutex::new(None),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| job.work(database.session()));
        }
    });
    if let Some(error) = job.failure.into_inner() {
        return Err(error);
    }
    let _ = progress(job.total, job.total);
    let mut keys = job.keys.into_inner();
    // Threads finish in any order; the keys shall not depend on it.
    keys.lineitem.sort_unstable();
    keys.orders.sort_unstable();
    keys.part.sort_unstable();
    Ok((tables, keys))
}

fn text_pool() -> &'static TextPool {
    static POOL: OnceLock<TextPool> = OnceLock::new();
    POOL.get_or_init(|| TextPool::new(TEXT_BYTES, Distributions::static_default()))
}

struct Job<'a> {
    tables: &'a TpchTables,
    scale: f64,
    next: AtomicUsize,
    done: AtomicU64,
    total: u64,
    progress: LoadProgress<'a>,
    keys: Mutex<Keys>,
    failure: Mutex<Option<Error>>,
}

impl Job<'_> {
    fn work(&self, mut session: Session) {
        loop {
            let unit = self.next.fetch_add(1, Ordering::Relaxed);
            if unit >= 3 * PARTS as usize || self.failure.lock().is_some() {
                return;
            }
            // The largest table first, so that no thread is left alone with it.
            let part = (unit % PARTS as usize) as i32 + 1;
            let loaded = match unit / PARTS as usize {
                0 => self.load_lineitem(&mut session, part),
                1 => self.load_orders(&mut session, part),
                _ => self.load_part(&mut session, part),
            };
            if let Err(error) = loaded {
                self.failure.lock().get_or_insert(error);
                return;
            }
        }
    }

    fn load_lineitem(&self, session: &mut Session, part: i32) -> Result<()> {
        let distributions = Distributions::static_default();
        let generator = LineItemGenerator::new_with_distributions_and_text_pool(
            self.scale,
            part,
            PARTS,
            distributions,
            text_pool(),
        );
        let mut keys = Vec::new();
        let rows = generator.iter().map(|line| {
            keys.push((line.l_orderkey, line.l_linenumber));
            vec![
                Value::BigInt(line.l_orderkey),
                Value::BigInt(line.l_partkey),
                Value::BigInt(line.l_suppkey),
                Value::Integer(line.l_linenumber),
                Value::Double(line.l_quantity as f64),
                double(line.l_extendedprice),
                double(line.l_discount),
                double(line.l_tax),
                Value::text(line.l_returnflag),
                Value::text(line.l_linestatus),
                Value::Date(line.l_shipdate.to_unix_epoch()),
                Value::Date(line.l_commitdate.to_unix_epoch()),
                Value::Date(line.l_receiptdate.to_unix_epoch()),
                Value::text(line.l_shipinstruct),
                Value::text(line.l_shipmode),
                Value::text(line.l_comment),
            ]
        });
        self.insert(session, &self.tables.lineitem, rows)?;
        self.keys.lock().lineitem.extend(keys);
        Ok(())
    }

    fn load_orders(&self, session: &mut Session, part: i32) -> Result<()> {
        let distributions = Distributions::static_default();
        let generator = OrderGenerator::new_with_distributions_and_text_pool(
            self.scale,
            part,
            PARTS,
            distributions,
            text_pool(),
        );
        let mut keys = Vec::new();
        let rows = generator.iter().map(|order| {
            keys.push(order.o_orderkey);
            vec![
                Value::BigInt(order.o_orderkey),
                Value::BigInt(order.o_custkey),
                Value::text(order.o_orderstatus.as_str()),
                double(order.o_totalprice),
                Value::Date(order.o_orderdate.to_unix_epoch()),
                Value::text(order.o_orderpriority),
                Value::text(order.o_clerk.to_string()),
                Value::Integer(order.o_shippriority),
                Value::text(order.o_comment),
            ]
        });
        self.insert(session, &self.tables.orders, rows)?;
        self.keys.lock().orders.extend(keys);
        Ok(())
    }

    fn load_part(&self, session: &mut Session, part: i32) -> Result<()> {
        let distributions = Distributions::static_default();
        let generator = PartGenerator::new_with_distributions_and_text_pool(
            self.scale,
            part,
            PARTS,
            distributions,
            text_pool(),
        );
        let mut keys = Vec::new();
        let rows = generator.iter().map(|part| {
            keys.push(part.p_partkey);
            vec![
                Value::BigInt(part.p_partkey),
                Value::text(part.p_name.to_string()),
                Value::text(part.p_mfgr.to_string()),
                Value::text(part.p_brand.to_string()),
                Value::text(part.p_type),
                Value::Integer(part.p_size),
                Value::text(part.p_container),
                double(part.p_retailprice),
                Value::text(part.p_comment),
            ]
        });
        self.insert(session, &self.tables.part, rows)?;
        self.keys.lock().part.extend(keys);
        Ok(())
    }

    fn insert(
        &self,
        session: &mut Session,
        table: &Arc<Table>,
        rows: impl Iterator<Item = Vec<Value>>,
    ) -> Result<()> {
        let mut rows = rows.peekable();
        while rows.peek().is_some() {
            let batch: Vec<_> = rows.by_ref().take(ROWS_PER_TRANSACTION).collect();
            let count = batch.len() as u64;
            // Nothing is read, so nothing needs validation.
            session.run(Isolation::RepeatableRead, |transaction| {
                batch.iter().try_for_each(|row| transaction.insert(table, row.clone()).map(drop))
            })?;
            let done = self.done.fetch_add(count, Ordering::Relaxed) + count;
            if (self.progress)(done.min(self.total), self.total).is_break() {
                return Err(Error::new(SqlState::QueryCanceled, "loading was stopped"));
            }
        }
        Ok(())
    }
}

fn double(decimal: TPCHDecimal) -> Value {
    Value::Double(decimal.0 as f64 / 100.0)
}
