//! [Warranties and returns](crate::ch::warranty): a line of an order that was delivered is delivered again, or paid back.

use super::Procedure;
use crate::ch::warranty::WarrantyInput;
use crate::serial::keys;
use ankerdb_engine::Result;
use ankerdb_serial::Store;

impl<S: Store> Procedure<'_, '_, S> {
    pub(super) fn warranty(&mut self, input: &WarrantyInput) -> Result<()> {
        let WarrantyInput { warehouse, district, order, line, is_return } = *input;
        let tables = self.tables;
        let order = keys::in_district(warehouse, district.into(), order);
        let relation = tables.order_line.relation;
        let tuple = self.require(relation, keys::order_line(order, line.into()))?;
        if !is_return {
            let mut change = self.transaction.change(relation, tuple)?;
            tables.order_line.delivered.set(&mut change, self.now);
            return Ok(());
        }
        let amount = tables.order_line.amount.get(self.read(relation, tuple)?);
        if amount == 0 {
            // Loaded lines that were delivered cost nothing.
            return Ok(());
        }
        let mut change = self.transaction.change(relation, tuple)?;
        tables.order_line.amount.set(&mut change, 0);
        let customer = tables.orders.customer_key(self.read_by_key(tables.orders.relation, order)?);
        let mut change = self.change_by_key(tables.customer.relation, customer)?;
        let balance = tables.customer.balance.get(&change) - amount;
        tables.customer.balance.set(&mut change, balance);
        Ok(())
    }
}
