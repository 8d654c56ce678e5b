//! The transaction that the HyPer paper adds to TPC-C's five (DaMoN 2011, 5.3): warranty and return of goods, so that some older
//! lines of orders are changed even after they were delivered, 2% of them on average.
//!
//! The paper says no more. Here half of the transactions are warranties: the line gets the date of the delivery that replaces
//! it. The other half are returns: its amount becomes 0 and leaves the customer's balance, so that TPC-C's consistency conditions
//! go on to hold. One line each; one in 13.5 transactions, since of 100 a Delivery takes four, with ten orders of ten lines each,
//! and 2% of those are eight.

use crate::tpcc::input::Access;
use crate::tpcc::key::KeyBuffer;
use crate::tpcc::load::{DISTRICTS, FIRST_UNDELIVERED, money_cell};
use crate::tpcc::random::Random;
use crate::tpcc::schema::{PRIMARY, TpccTables, customer, order_line, orders};
use crate::tpcc::transactions::DeliveryOutput;
use ankerdb_engine::{Cell, ColumnSet, Error, Isolation, Result, RowId, Session, Table, Transaction};
use std::collections::HashMap;
use std::sync::Arc;

/// Of so many transactions ...
const TRANSACTIONS: i32 = 108;
/// ... this many are of this kind.
const WARRANTIES: i32 = 8;
/// Lines that every order has.
const LINES_MIN: i16 = 5;
/// Streams of random values of clients' inputs of this kind.
const STREAM: u64 = 1 << 41;

/// A line, and what becomes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WarrantyInput {
    /// OL_W_ID
    pub warehouse: i32,
    /// OL_D_ID
    pub district: i16,
    /// OL_O_ID of an order that was delivered.
    pub order: i32,
    /// OL_NUMBER
    pub line: i16,
    /// Whether the customer gets the money back; the goods again if not.
    pub is_return: bool,
}

/// An endless stream of inputs; one per client thread.
pub struct WarrantyInputs {
    random: Random,
    client: u64,
    warehouses: i32,
    access: Access,
    /// The newest order of a district that the client knows to be delivered, if it is not one that was loaded.
    delivered: HashMap<(i32, i16), i32>,
}

impl WarrantyInputs {
    /// Inputs of one client: they depend on seed, client, and its Deliveries.
    pub fn new(seed: u64, client: u64, warehouses: i32, access: Access) -> WarrantyInputs {
        let random = Random::new(seed, STREAM + client);
        WarrantyInputs { random, client, warehouses, access, delivered: HashMap::new() }
    }

    /// The next transaction, if it is one of this kind.
    pub fn next_input(&mut self) -> Option<WarrantyInput> {
        (self.random.uniform(1, TRANSACTIONS) <= WARRANTIES).then(|| self.input())
    }

    fn input(&mut self) -> WarrantyInput {
        let warehouse = match self.access {
            Access::Home => 1 + (self.client % self.warehouses as u64) as i32,
            Access::Uniform | Access::Skewed => self.random.uniform(1, self.warehouses),
        };
        let district = self.random.small(1, DISTRICTS);
        let newest = self.delivered.get(&(warehouse, district)).copied().unwrap_or(FIRST_UNDELIVERED - 1);
        WarrantyInput {
            warehouse,
            district,
            order: self.random.uniform(1, newest),
            line: self.random.small(1, LINES_MIN),
            is_return: self.random.percent(50),
        }
    }

    /// Notes orders that the client knows to be delivered: these may come back, too.
    pub fn note_delivered(&mut self, warehouse: i32, output: &DeliveryOutput) {
        for (district, order) in (1..).zip(output.orders) {
            if let Some(order) = order {
                self.delivered.insert((warehouse, district), order);
            }
        }
    }
}

/// Runs the transaction once. `now` is the date of a new delivery, in microseconds since 1970.
///
/// # Errors
/// 40001 if it is to be run again; the database's.
pub fn run_once(
    session: &mut Session,
    isolation: Isolation,
    tables: &TpccTables,
    key: &mut KeyBuffer,
    (input, now): (&WarrantyInput, i64),
) -> Result<()> {
    session.try_run(isolation, |transaction| {
        let WarrantyInput { warehouse, district, order, line, is_return } = *input;
        let lines = &tables.order_line;
        let columns = ColumnSet::of(&[order_line::OL_AMOUNT, order_line::OL_DELIVERY_D]);
        let line_key = key.order_line(warehouse, district, order, line);
        let row = require(transaction, lines, line_key, columns)?;
        if !is_return {
            return transaction.update_cells(lines, row, &[(order_line::OL_DELIVERY_D, Cell::bigint(now))]);
        }
        let amount = transaction.decimal(lines, row, order_line::OL_AMOUNT);
        if amount == 0 {
            // Loaded lines that were delivered cost nothing.
            return Ok(());
        }
        transaction.update_cells(lines, row, &[(order_line::OL_AMOUNT, money_cell(0))])?;
        let order_key = key.in_district(warehouse, district, order);
        let row = require(transaction, &tables.orders, order_key, ColumnSet::of(&[orders::O_C_ID]))?;
        let customer = transaction.integer(&tables.orders, row, orders::O_C_ID);
        pay_back(transaction, tables, key.in_district(warehouse, district, customer), amount)
    })
}

fn pay_back(transaction: &mut Transaction, tables: &TpccTables, key: &[u8], amount: i128) -> Result<()> {
    let customers = &tables.customer;
    let row = require(transaction, customers, key, ColumnSet::of(&[customer::C_BALANCE]))?;
    let balance = transaction.decimal(customers, row, customer::C_BALANCE) - amount;
    transaction.update_cells(customers, row, &[(customer::C_BALANCE, money_cell(balance))])
}

fn require(
    transaction: &mut Transaction,
    table: &Arc<Table>,
    key: &[u8],
    columns: ColumnSet,
) -> Result<RowId> {
    let row = transaction.find(table, PRIMARY, key, columns)?;
    row.ok_or_else(|| {
        Error::internal(format!("a row of table \"{}\" that was delivered is missing", table.name()))
    })
}
