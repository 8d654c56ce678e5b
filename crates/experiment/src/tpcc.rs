//! TPC-C with AnKer's three transactions and eight queries (§6.2), in any configuration.

use crate::harness::Harness;
use crate::stream::{Ask, Hybrid, HybridResult, QueryTime, Transact, run};
use ankerdb_engine::{Configuration, Database, Error, Isolation, Result, SqlState};
use ankerdb_sql::{AnalyticalQuery, SqlEngine, SqlOptions};
use ankerdb_workload::htap::queries::QUERIES;
use ankerdb_workload::tpcc::input::{Access, Inputs};
use ankerdb_workload::tpcc::load::{LoadOptions, load, now};
use ankerdb_workload::tpcc::schema::{TpccTables, order_line};
use ankerdb_workload::tpcc::transactions::Terminal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A loaded database with its queries planned.
pub struct TpcC {
    database: Database,
    tables: Arc<TpccTables>,
    warehouses: u32,
    queries: Vec<AnalyticalQuery>,
    /// Runs so far: no two repeat the same inputs.
    runs: u64,
}

/// The streams that run side by side.
pub struct Mix<'a> {
    /// OLTP threads.
    pub oltp: usize,
    /// Streams of queries.
    pub streams: usize,
    /// The access pattern of transactions.
    pub access: Access,
    /// Positions in [`QUERIES`] of the queries to choose from.
    pub queries: &'a [usize],
    /// Width of the samples of throughput.
    pub sample: Duration,
}

/// Positions of all eight queries.
pub const ALL_QUERIES: [usize; QUERIES.len()] = [0, 1, 2, 3, 4, 5, 6, 7];

impl TpcC {
    /// Loads a database.
    ///
    /// # Errors
    /// 57014 if the user stops it.
    pub fn load(
        harness: &Harness<'_>,
        configuration: Configuration,
        warehouses: u32,
        olap_threads: usize,
    ) -> Result<TpcC> {
        TpcC::load_into(harness, Database::with(configuration), warehouses, olap_threads)
    }

    /// Loads the tables into an empty database.
    ///
    /// # Errors
    /// 57014 if the user stops it.
    pub fn load_into(
        harness: &Harness<'_>,
        database: Database,
        warehouses: u32,
        olap_threads: usize,
    ) -> Result<TpcC> {
        let options = LoadOptions::new(warehouses as i32, harness.setup.seed);
        let tables = Arc::new(load(&database, &options, &harness.loading())?);
        let engine = sql_engine(harness, &database, olap_threads)?;
        let queries = QUERIES.iter().map(|query| engine.plan(query.sql)).collect::<Result<_>>()?;
        Ok(TpcC { database, tables, warehouses, queries, runs: 0 })
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The planned queries, in the order of [`QUERIES`].
    pub fn queries(&self) -> &[AnalyticalQuery] {
        &self.queries
    }

    /// Rows of ORDER_LINE, the table that grows most.
    pub fn order_lines(&self) -> usize {
        self.database.catalog().table(order_line::NAME).map_or(0, |table| table.row_count())
    }

    /// How queries have read blocks since the tables were loaded.
    pub fn how_queries_read(&self) -> String {
        let statistics = self.database.statistics();
        match self.database.configuration() {
            Configuration::AnkerDb => format!(
                "{} columns of blocks lent, {} copied when they were first read",
                statistics.columns_lent, statistics.columns_materialized
            ),
            Configuration::HeeFork => "each query in a child of one thread".to_owned(),
            engine if engine.technique().is_some() => format!(
                "{} columns taken, {} shared with an earlier snapshot as they had not changed",
                statistics.column_snapshots, statistics.column_snapshots_shared
            ),
            _ => "no snapshots".to_owned(),
        }
    }

    /// Runs transactions and queries for one measurement; every query has a snapshot of its own.
    ///
    /// # Errors
    /// The database's.
    pub fn run(&mut self, harness: &Harness<'_>, mix: &Mix<'_>) -> Result<HybridResult> {
        let asked = mix.queries;
        self.run_with(harness, mix, harness.setup.time, |tpcc| {
            Box::new(move |number| {
                let query = asked[number];
                let started = Instant::now();
                let (_, creation) = tpcc.queries[query].run_now()?;
                Ok(QueryTime { query, creation, latency: started.elapsed() - creation })
            })
        })
    }

    /// Runs transactions for so long, and beside them streams of queries that `stream` makes.
    ///
    /// # Errors
    /// The database's.
    pub fn run_with<'a>(
        &'a mut self,
        harness: &Harness<'_>,
        mix: &Mix<'_>,
        time: Duration,
        stream: impl Fn(&'a TpcC) -> Ask<'a>,
    ) -> Result<HybridResult> {
        self.runs += 1;
        let tpcc: &'a TpcC = self;
        let seed = harness.setup.seed.wrapping_add(tpcc.runs << 20);
        let hybrid = Hybrid {
            transactions: (0..mix.oltp).map(|number| tpcc.transact(number, seed, mix.access)).collect(),
            queries: (0..mix.streams).map(|_| stream(tpcc)).collect(),
            query_count: mix.queries.len(),
            query_limit: usize::MAX,
            time,
            lead: harness.setup.lead,
            interval: harness.setup.interval,
            sample: mix.sample,
            seed,
        };
        run(harness, hybrid)
    }

    /// A thread's transactions.
    fn transact(&self, number: usize, seed: u64, access: Access) -> Transact<'_> {
        let isolation = self.database.configuration().isolation();
        let mut client = Terminal::new(&self.database, self.tables.clone(), isolation);
        let mut inputs = Inputs::new(seed, number as u64, self.warehouses as i32, access);
        Box::new(move |stop| {
            let input = inputs.next_input();
            let mut retries = 0;
            loop {
                match client.run_once(&input, now()) {
                    Ok(_) => return Ok(retries),
                    Err(error) if may_run_again(&error, isolation) => retries += 1,
                    Err(error) => return Err(error),
                }
                if stop.load(Ordering::Relaxed) {
                    return Ok(retries);
                }
                pause(retries);
            }
        })
    }
}

/// SQL over a database of an experiment.
///
/// # Errors
/// Those of the system, if it refuses the threads.
pub fn sql_engine(harness: &Harness<'_>, database: &Database, olap_threads: usize) -> Result<SqlEngine> {
    let memory_limit_bytes = (harness.machine.memory_bytes / 4).max(1 << 30) as usize;
    SqlEngine::new(database.clone(), SqlOptions { olap_threads, memory_limit_bytes })
}

/// Below REPEATABLE READ two New-Orders may read the same next order number; the primary key then refuses the second.
fn may_run_again(error: &Error, isolation: Isolation) -> bool {
    let weak = matches!(isolation, Isolation::ReadUncommitted | Isolation::ReadCommitted);
    error.is_retryable() || (weak && error.state() == SqlState::UniqueViolation)
}

/// Lets the conflicting transaction finish; waits longer the more often there was a conflict.
pub fn pause(retries: u64) {
    match retries {
        0..=6 => (0..1 << retries).for_each(|_| std::hint::spin_loop()),
        _ => std::thread::yield_now(),
    }
}
