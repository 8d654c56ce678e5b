//! Delivery (clause 2.7): the oldest undelivered order of each district of a warehouse is delivered.

use super::{PRIMARY, Procedure};
use crate::serial::keys;
use crate::tpcc::input::DeliveryInput;
use crate::tpcc::load::DISTRICTS;
use crate::tpcc::transactions::DeliveryOutput;
use ankerdb_engine::Result;
use ankerdb_serial::{Store, TupleId};
use std::ops::ControlFlow;

impl<S: Store> Procedure<'_, '_, S> {
    pub(super) fn delivery(&mut self, input: &DeliveryInput) -> Result<DeliveryOutput> {
        let mut output = DeliveryOutput { orders: [None; DISTRICTS as usize] };
        for (district, delivered) in (1..).zip(&mut output.orders) {
            if let Some((tuple, order)) = self.oldest_new_order(input.warehouse, district) {
                let key = keys::in_district(input.warehouse, district, order);
                self.transaction.delete(self.tables.new_order.relation, tuple, &[key])?;
                let customer = self.give_to_carrier(key, input.carrier)?;
                let amount = self.deliver_lines(key)?;
                self.charge(keys::in_district(input.warehouse, district, customer), amount)?;
                *delivered = Some(order);
            }
        }
        Ok(output)
    }

    /// The district's tuple of NEW-ORDER with the smallest number, from the last delivery on: entries of those that were delivered
    /// stay for a while in indexes that queries share.
    fn oldest_new_order(&self, warehouse: i32, district: i32) -> Option<(TupleId, i32)> {
        let next = self.delivered.last(warehouse, district as i16) + 1;
        let (relation, from) = (self.tables.new_order.relation, keys::in_district(warehouse, district, next));
        let mut oldest = None;
        self.transaction.scan_index(relation, PRIMARY, from, |key, tuple| {
            let (place, order) = keys::parts_in_district(key);
            oldest = (place == keys::district(warehouse, district)).then_some((tuple, order));
            ControlFlow::Break(())
        });
        oldest
    }

    /// Notes the carrier; returns the customer.
    fn give_to_carrier(&mut self, order: u64, carrier: i16) -> Result<i32> {
        let table = &self.tables.orders;
        let mut change = self.change_by_key(table.relation, order)?;
        table.carrier.set(&mut change, carrier.into());
        Ok(table.customer.get(&change))
    }

    /// Dates the order's lines; returns the sum of their amounts.
    fn deliver_lines(&mut self, order: u64) -> Result<i64> {
        self.find_lines(order);
        let (table, mut sum) = (&self.tables.order_line, 0);
        for line in &self.buffers.lines {
            let mut line = self.transaction.change(table.relation, *line)?;
            sum += table.amount.get(&line);
            table.delivered.set(&mut line, self.now);
        }
        Ok(sum)
    }

    /// Puts the order's amount onto the customer's balance.
    fn charge(&mut self, customer: u64, amount: i64) -> Result<()> {
        let table = &self.tables.customer;
        let mut change = self.change_by_key(table.relation, customer)?;
        let balance = table.balance.get(&change) + amount;
        let deliveries = table.deliveries.get(&change) + 1;
        table.balance.set(&mut change, balance);
        table.deliveries.set(&mut change, deliveries);
        Ok(())
    }
}
