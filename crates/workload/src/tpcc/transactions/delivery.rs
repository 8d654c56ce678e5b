//! Delivery (clause 2.7): the oldest undelivered order of each district of a warehouse is delivered.
//!
//! All ten districts in one transaction, run at once by the client instead of from a queue: clause 2.7.2.2 asks for a
//! queue because terminals must not wait, and allows one transaction for all districts.
//!
//! The rows of NEW-ORDER are a queue: orders are numbered upwards, and leave at the lower end. While some reader still
//! sees the rows that have left, their index entries stay, and looking for the first row from the lower end on would step
//! over all of them, longer with every delivery. So a client remembers, by district, the last order that it has seen
//! delivered, and looks from there: nothing below can come back.

use super::Procedure;
use crate::tpcc::input::DeliveryInput;
use crate::tpcc::load::{DISTRICTS, money_cell};
use crate::tpcc::schema::{PRIMARY, customer, new_order, order_line, orders};
use ankerdb_engine::{Cell, ColumnSet, Direction, Result, RowId};
use std::ops::{Bound, ControlFlow};

/// What is written to the result file (clause 2.7.2.2).
#[derive(Debug, PartialEq, Eq)]
pub struct DeliveryOutput {
    /// O_ID of the order delivered, by district; `None` where every order had been delivered already.
    pub orders: [Option<i32>; DISTRICTS as usize],
}

impl DeliveryOutput {
    /// Districts without an order to deliver; clause 2.7.4.2 wants them counted.
    pub fn skipped(&self) -> u64 {
        self.orders.iter().filter(|order| order.is_none()).count() as u64
    }
}

/// The last order of each district that a client has seen delivered.
#[derive(Default)]
pub(crate) struct Delivered(Vec<[i32; DISTRICTS as usize]>);

impl Delivered {
    /// 0 if none was.
    pub(crate) fn last(&self, warehouse: i32, district: i16) -> i32 {
        self.0.get(warehouse as usize).map_or(0, |districts| districts[district as usize - 1])
    }

    /// Remembers the orders of a committed delivery.
    pub(crate) fn note(&mut self, warehouse: i32, output: &DeliveryOutput) {
        let place = warehouse as usize;
        if self.0.len() <= place {
            self.0.resize(place + 1, [0; DISTRICTS as usize]);
        }
        for (last, order) in self.0[place].iter_mut().zip(output.orders) {
            *last = order.unwrap_or(*last);
        }
    }
}

/// Replaces a bound, in the memory that it has.
fn put(bound: &mut Bound<Vec<u8>>, key: &[u8]) {
    match bound {
        Bound::Included(old) => {
            old.clear();
            old.extend_from_slice(key);
        }
        other => *other = Bound::Included(key.to_vec()),
    }
}

const LINE_COLUMNS: ColumnSet = ColumnSet::of(&[order_line::OL_AMOUNT]);
const CUSTOMER_COLUMNS: ColumnSet = ColumnSet::of(&[customer::C_BALANCE, customer::C_DELIVERY_CNT]);

impl Procedure<'_> {
    pub(super) fn delivery(&mut self, input: &DeliveryInput) -> Result<DeliveryOutput> {
        let mut output = DeliveryOutput { orders: [None; DISTRICTS as usize] };
        for (number, delivered) in output.orders.iter_mut().enumerate() {
            let district = number as i16 + 1;
            if let Some((row, order)) = self.oldest_new_order(input.warehouse, district)? {
                self.transaction.delete(&self.tables.new_order, row)?;
                let customer = self.give_to_carrier(input, district, order)?;
                let amount = self.deliver_lines(input.warehouse, district, order)?;
                self.charge(input.warehouse, district, customer, amount)?;
                *delivered = Some(order);
            }
        }
        Ok(output)
    }

    /// The district's row of NEW-ORDER with the smallest number.
    fn oldest_new_order(&mut self, warehouse: i32, district: i16) -> Result<Option<(RowId, i32)>> {
        let next = self.delivered.last(warehouse, district) + 1;
        put(&mut self.range.lower, self.key.in_district(warehouse, district, next));
        // All numbers of the district.
        put(&mut self.range.upper, self.key.in_district(warehouse, district, i32::MAX));
        let table = &self.tables.new_order;
        let mut oldest = None;
        let columns = ColumnSet::of(&[new_order::NO_O_ID]);
        let mut first = |transaction: &mut ankerdb_engine::Transaction, row| {
            oldest = Some((row, transaction.integer(table, row, new_order::NO_O_ID)));
            Ok(ControlFlow::Break(()))
        };
        self.transaction.scan_index(table, PRIMARY, self.range, Direction::Forward, columns, &mut first)?;
        Ok(oldest)
    }

    /// Notes the carrier; returns the customer.
    fn give_to_carrier(&mut self, input: &DeliveryInput, district: i16, order: i32) -> Result<i32> {
        let table = &self.tables.orders;
        let key = self.key.in_district(input.warehouse, district, order);
        let columns = const { ColumnSet::of(&[orders::O_C_ID]) };
        let row = Self::require(self.transaction, table, key, columns)?;
        let carrier = [(orders::O_CARRIER_ID, Cell::smallint(input.carrier))];
        self.transaction.update_cells(table, row, &carrier)?;
        Ok(self.transaction.integer(table, row, orders::O_C_ID))
    }

    /// Dates the order's lines; returns the sum of their amounts.
    fn deliver_lines(&mut self, warehouse: i32, district: i16, order: i32) -> Result<i128> {
        let prefix = self.key.in_district(warehouse, district, order);
        let (table, now) = (&self.tables.order_line, self.now);
        let mut sum = 0;
        let mut deliver = |transaction: &mut ankerdb_engine::Transaction, row| {
            sum += transaction.decimal(table, row, order_line::OL_AMOUNT);
            transaction.update_cells(table, row, &[(order_line::OL_DELIVERY_D, Cell::bigint(now))])?;
            Ok(ControlFlow::Continue(()))
        };
        let forward = Direction::Forward;
        self.transaction.scan_prefix(table, PRIMARY, prefix, forward, LINE_COLUMNS, &mut deliver)?;
        Ok(sum)
    }

    /// Puts the order's amount onto the customer's balance.
    fn charge(&mut self, warehouse: i32, district: i16, customer: i32, amount: i128) -> Result<()> {
        let table = &self.tables.customer;
        let key = self.key.in_district(warehouse, district, customer);
        let row = Self::require(self.transaction, table, key, CUSTOMER_COLUMNS)?;
        let balance = self.transaction.decimal(table, row, customer::C_BALANCE) + amount;
        let deliveries = self.transaction.integer(table, row, customer::C_DELIVERY_CNT) + 1;
        let changes = [
            (customer::C_BALANCE, money_cell(balance)),
            (customer::C_DELIVERY_CNT, Cell::integer(deliveries)),
        ];
        self.transaction.update_cells(table, row, &changes)
    }
}
