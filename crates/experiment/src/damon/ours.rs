//! Ours with the same transactions and queries: one client, and queries in SQL, each on a snapshot of its own.

use super::hybrid::HybridOutcome;
use super::{load_engine, warehouses};
use crate::harness::{Harness, joined};
use crate::tpcc::sql_engine;
use ankerdb_engine::{Database, Isolation, Result};
use ankerdb_sql::AnalyticalQuery;
use ankerdb_workload::ch::queries::CH_QUERIES;
use ankerdb_workload::ch::warranty::{WarrantyInputs, run_once};
use ankerdb_workload::tpcc::input::{Access, Input, Inputs};
use ankerdb_workload::tpcc::key::KeyBuffer;
use ankerdb_workload::tpcc::load::now;
use ankerdb_workload::tpcc::mix::Mix;
use ankerdb_workload::tpcc::schema::TpccTables;
use ankerdb_workload::tpcc::transactions::{Outcome, Terminal};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Transactions after which it is looked whether to go on.
const LOOK_EVERY: u64 = 256;
/// Positions of the paper's queries.
const QUERIES: [usize; 2] = [0, 4];

/// A loaded database with its client.
pub(super) struct Ours {
    pub database: Database,
    tables: Arc<TpccTables>,
    terminal: Terminal,
    inputs: Inputs,
    warranties: WarrantyInputs,
    key: KeyBuffer,
}

impl Ours {
    /// Loads it.
    ///
    /// # Errors
    /// 57014 if the user stops it.
    pub(super) fn load(harness: &Harness<'_>) -> Result<Ours> {
        let (database, tables) = load_engine(harness)?;
        let (tables, seed) = (Arc::new(tables), harness.setup.seed);
        let warehouses = warehouses(harness);
        Ok(Ours {
            terminal: Terminal::new(&database, tables.clone(), Isolation::Serializable),
            inputs: Inputs::of_mix(seed, 0, warehouses, Access::Home, Mix::Full),
            warranties: WarrantyInputs::new(seed, 0, warehouses, Access::Home),
            key: KeyBuffer::default(),
            database,
            tables,
        })
    }

    /// Runs the next transaction.
    ///
    /// # Errors
    /// The database's.
    pub(super) fn transact(&mut self) -> Result<()> {
        if let Some(input) = self.warranties.next_input() {
            let (session, key) = (self.terminal.session(), &mut self.key);
            return run_once(session, Isolation::Serializable, &self.tables, key, (&input, now()));
        }
        let input = self.inputs.next_input();
        let outcome = self.terminal.run_once(&input, now())?;
        if let (Input::Delivery(input), Outcome::Delivery(output)) = (&input, &outcome) {
            self.warranties.note_delivered(input.warehouse, output);
        }
        Ok(())
    }

    /// Runs transactions and queries until `look` ends it.
    ///
    /// # Errors
    /// The database's.
    pub(super) fn run(
        &mut self,
        harness: &Harness<'_>,
        olap: usize,
        look: &mut dyn FnMut(u64, Duration) -> ControlFlow<()>,
    ) -> Result<HybridOutcome> {
        let plan = || -> Result<Vec<AnalyticalQuery>> {
            let engine = sql_engine(harness, &self.database, 1)?;
            QUERIES.iter().map(|query| engine.plan(CH_QUERIES[*query].sql)).collect()
        };
        let streams = (0..olap).map(|_| plan()).collect::<Result<Vec<_>>>()?;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let ask = |queries: Vec<AnalyticalQuery>| {
                let stop = &stop;
                scope.spawn(move || -> Result<u64> {
                    let mut ended = 0;
                    while !stop.load(Relaxed) {
                        queries[ended as usize % queries.len()].run_now()?;
                        ended += u64::from(!stop.load(Relaxed));
                    }
                    Ok(ended)
                })
            };
            let streams: Vec<_> = streams.into_iter().map(ask).collect();
            let begun = Instant::now();
            let transactions = self.transact_until(harness, begun, look);
            let elapsed = begun.elapsed();
            stop.store(true, Relaxed);
            let mut outcome = HybridOutcome { elapsed, ..HybridOutcome::default() };
            for stream in streams {
                outcome.queries += joined(stream.join())?;
            }
            outcome.transactions = transactions?;
            Ok(outcome)
        })
    }

    fn transact_until(
        &mut self,
        harness: &Harness<'_>,
        begun: Instant,
        look: &mut dyn FnMut(u64, Duration) -> ControlFlow<()>,
    ) -> Result<u64> {
        for count in 1.. {
            self.transact()?;
            if count % LOOK_EVERY == 0 && (look(count, begun.elapsed()).is_break() || harness.is_stopped()) {
                return Ok(count);
            }
        }
        Ok(0)
    }
}
