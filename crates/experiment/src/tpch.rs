//! TPC-H's LINEITEM, ORDERS and PART with hand-made transactions and seven queries, as AnKerDB (arXiv 2017) §5.2
//! describes them.

pub mod load;
pub mod queries;
pub mod schema;
pub mod transactions;

use crate::harness::Harness;
use crate::stream::{Ask, QueryTime, Transact};
use crate::tpcc::sql_engine;
use ankerdb_engine::{Configuration, Database, Isolation, Result};
use ankerdb_sql::{AnalyticalQuery, SqlEngine};
use load::Keys;
use queries::KINDS;
use schema::TpchTables;
use std::sync::Arc;
use std::time::Instant;
use transactions::TpchClient;

/// Parameters of each kind of query that are planned beforehand, chosen at random for each run.
const VARIANTS: usize = 4;

/// A loaded database with its queries planned.
pub struct TpcH {
    /// The database.
    pub database: Database,
    /// Its tables.
    pub tables: Arc<TpchTables>,
    /// The keys of all rows.
    pub keys: Arc<Keys>,
    queries: Vec<[AnalyticalQuery; VARIANTS]>,
    scans: [AnalyticalQuery; 3],
    seed: u64,
}

impl TpcH {
    /// Loads a database, and plans for that many analytical threads.
    ///
    /// # Errors
    /// 57014 if the user stops it.
    pub fn load(harness: &Harness<'_>, configuration: Configuration, olap_threads: usize) -> Result<TpcH> {
        let database = Database::with(configuration);
        let (tables, keys) = load::load(&database, harness.setup.scale, &harness.loading())?;
        let engine = sql_engine(harness, &database, olap_threads)?;
        let mut random = fastrand::Rng::with_seed(harness.setup.seed);
        let queries =
            KINDS.iter().map(|kind| variants(&engine, &mut random, kind.sql)).collect::<Result<_>>()?;
        let scans = queries::SCANS.map(|sql| engine.plan(sql));
        let [lineitem, orders, part] = scans;
        let scans = [lineitem?, orders?, part?];
        Ok(TpcH {
            database,
            tables: Arc::new(tables),
            keys: Arc::new(keys),
            queries,
            scans,
            seed: harness.setup.seed,
        })
    }

    /// The level of its configuration.
    pub fn isolation(&self) -> Isolation {
        self.database.configuration().isolation()
    }

    /// A thread's transactions. Different numbers, different inputs.
    pub fn transact(&self, number: u64) -> Transact<'_> {
        let seed = self.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut client = TpchClient::new(self, seed);
        Box::new(move |stop| client.run_next(stop))
    }

    /// A stream's queries, by position in [`KINDS`].
    pub fn ask(&self, number: u64) -> Ask<'_> {
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_add(number));
        Box::new(move |query| {
            let started = Instant::now();
            let (_, creation) = self.queries[query][random.usize(..VARIANTS)].run_now()?;
            Ok(QueryTime { query, creation, latency: started.elapsed() - creation })
        })
    }

    /// The scan of a table, by position in [`schema::NAMES`].
    pub fn scan(&self, table: usize) -> &AnalyticalQuery {
        &self.scans[table]
    }
}

fn variants(
    engine: &SqlEngine,
    random: &mut fastrand::Rng,
    sql: fn(&mut fastrand::Rng) -> String,
) -> Result<[AnalyticalQuery; VARIANTS]> {
    let mut plan = || engine.plan(&sql(random));
    Ok([plan()?, plan()?, plan()?, plan()?])
}
