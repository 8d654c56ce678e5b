//! The clients of CH-benCHmark: TPC-C's full mix, and [warranties and returns](super::warranty).

use super::warranty::{WarrantyInput, WarrantyInputs, run_once};
use crate::bench::client::{Client, ClientSetup, Done, Workload};
use crate::htap::acknowledged::{Acknowledged, AcknowledgedCount};
use crate::htap::marker::Marker;
use crate::tpcc::input::{Access, Input, Inputs, TpccTransaction};
use crate::tpcc::key::KeyBuffer;
use crate::tpcc::mix::Mix;
use crate::tpcc::schema::TpccTables;
use crate::tpcc::transactions::{Outcome, Terminal};
use ankerdb_engine::{Database, Error, Isolation, Result};
use std::sync::Arc;

/// Names of the transactions.
pub(super) const KINDS: [&str; 6] =
    ["new_order", "payment", "order_status", "delivery", "stock_level", "warranty_return"];
/// Position of the last one.
const WARRANTY: usize = TpccTransaction::ALL.len();

/// The database that clients work on.
#[derive(Clone)]
pub struct ChWorld {
    /// The database.
    pub database: Database,
    /// TPC-C's tables.
    pub tables: Arc<TpccTables>,
    /// Served by the first client.
    pub marker: Arc<Marker>,
    /// Warehouses that were loaded.
    pub warehouses: u32,
    /// The access pattern.
    pub access: Access,
}

/// The clients of one phase, and what they know to be committed.
pub struct ChWorkload {
    world: ChWorld,
    counts: Arc<[AcknowledgedCount]>,
}

impl ChWorkload {
    /// For that many clients.
    pub fn new(world: &ChWorld, clients: usize) -> ChWorkload {
        ChWorkload {
            world: world.clone(),
            counts: (0..clients).map(|_| AcknowledgedCount::default()).collect(),
        }
    }

    /// What clients know to be committed since they began.
    pub fn acknowledged(&self) -> Acknowledged {
        self.counts.iter().map(AcknowledgedCount::so_far).fold(Acknowledged::default(), Acknowledged::and)
    }
}

impl Workload for ChWorkload {
    fn kinds(&self) -> &[&'static str] {
        &KINDS
    }

    fn client(&self, setup: &ClientSetup) -> Result<Box<dyn Client>> {
        let ClientSetup { number, seed, isolation } = *setup;
        let ChWorld { database, tables, marker, warehouses, access } = &self.world;
        let (client, warehouses) = (number as u64, *warehouses as i32);
        let mut inputs = Inputs::of_mix(seed, client, warehouses, *access, Mix::Full);
        if number >= self.counts.len() {
            return Err(Error::internal("more clients than the workload was made for"));
        }
        Ok(Box::new(ChClient {
            next: Next::Tpcc(inputs.next_input()),
            inputs,
            warranties: WarrantyInputs::new(seed, client, warehouses, *access),
            terminal: Terminal::new(database, tables.clone(), isolation),
            tables: tables.clone(),
            marker: (number == 0).then(|| marker.clone()),
            counts: self.counts.clone(),
            number,
            isolation,
            key: KeyBuffer::default(),
        }))
    }
}

/// The drawn transaction.
#[expect(clippy::large_enum_variant, reason = "a client has one; a box would cost an allocation each time")]
enum Next {
    Tpcc(Input),
    Warranty(WarrantyInput),
}

struct ChClient {
    next: Next,
    inputs: Inputs,
    warranties: WarrantyInputs,
    terminal: Terminal,
    tables: Arc<TpccTables>,
    /// The first client's.
    marker: Option<Arc<Marker>>,
    counts: Arc<[AcknowledgedCount]>,
    number: usize,
    isolation: Isolation,
    key: KeyBuffer,
}

impl Client for ChClient {
    fn draw(&mut self) -> usize {
        self.next = match self.warranties.next_input() {
            Some(input) => Next::Warranty(input),
            None => Next::Tpcc(self.inputs.next_input()),
        };
        match &self.next {
            Next::Tpcc(input) => input.kind() as usize,
            Next::Warranty(_) => WARRANTY,
        }
    }

    fn run(&mut self, now: i64) -> Result<Done> {
        let done = match &self.next {
            Next::Warranty(input) => {
                let session = self.terminal.session();
                run_once(session, self.isolation, &self.tables, &mut self.key, (input, now))?;
                Done::Committed
            }
            Next::Tpcc(input) => {
                let outcome = self.terminal.run_once(input, now)?;
                self.counts[self.number].add(input, &outcome);
                match (input, outcome) {
                    (_, Outcome::NewOrderRolledBack) => Done::RolledBack,
                    (Input::Delivery(input), Outcome::Delivery(output)) => {
                        self.warranties.note_delivered(input.warehouse, &output);
                        match output.skipped() {
                            0 => Done::Committed,
                            skipped => Done::Skipped(skipped as u32),
                        }
                    }
                    _ => Done::Committed,
                }
            }
        };
        if let Some(marker) = &self.marker {
            marker.serve(self.terminal.session())?;
        }
        Ok(done)
    }
}
