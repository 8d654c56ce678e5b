//! A client: the transactions that CH-benCHmark's clients run, one after the other.

use super::relations::SerialTables;
use super::transactions::SerialTerminal;
use crate::ch::warranty::WarrantyInputs;
use crate::tpcc::input::{Access, Input, Inputs};
use crate::tpcc::mix::Mix;
use crate::tpcc::transactions::Outcome;
use ankerdb_engine::Result;
use ankerdb_serial::{SerialDatabase, Store};

/// TPC-C's full mix, with [warranties and returns](crate::ch::warranty).
pub struct SerialClient {
    inputs: Inputs,
    warranties: WarrantyInputs,
    terminal: SerialTerminal,
}

impl SerialClient {
    /// A client whose transactions depend on (seed, client), and on its deliveries.
    pub fn new(
        tables: SerialTables,
        seed: u64,
        client: u64,
        warehouses: i32,
        access: Access,
    ) -> SerialClient {
        SerialClient {
            inputs: Inputs::of_mix(seed, client, warehouses, access, Mix::Full),
            warranties: WarrantyInputs::new(seed, client, warehouses, access),
            terminal: SerialTerminal::new(tables),
        }
    }

    /// Draws a transaction and runs it; `None` is the outcome of a warranty or return. `now` is the date of orders, payments and
    /// deliveries, in microseconds since 1970.
    ///
    /// # Errors
    /// Those of [`SerialTerminal::run_once`].
    pub fn run_next<S: Store>(
        &mut self,
        database: &mut SerialDatabase<S>,
        now: i64,
    ) -> Result<Option<Outcome>> {
        if let Some(input) = self.warranties.next_input() {
            self.terminal.run_warranty(database, &input, now)?;
            return Ok(None);
        }
        let input = self.inputs.next_input();
        let outcome = self.terminal.run_once(database, &input, now)?;
        if let (Input::Delivery(input), Outcome::Delivery(output)) = (&input, &outcome) {
            self.warranties.note_delivered(input.warehouse, output);
        }
        Ok(Some(outcome))
    }
}
