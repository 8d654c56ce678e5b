//! Order-Status (clause 2.6): the status of a customer's last order. Reads only.

use super::Procedure;
use crate::serial::keys;
use crate::serial::layout::{Long, Small};
use crate::serial::relations::ORDERS_BY_CUSTOMER;
use crate::tpcc::input::OrderStatusInput;
use crate::tpcc::transactions::{OrderStatusLine, OrderStatusOutput};
use ankerdb_engine::{Result, Value};
use ankerdb_serial::{Store, TupleId};
use std::ops::ControlFlow;

impl<S: Store> Procedure<'_, '_, S> {
    pub(super) fn order_status(&mut self, input: &OrderStatusInput) -> Result<OrderStatusOutput> {
        let tuple = self.find_customer(input.warehouse, input.district, &input.customer)?;
        let table = &self.tables.customer;
        let customer = self.read(table.relation, tuple)?;
        let [first, middle, last] = [0, 1, 2].map(|place| table.names_to_phone[place]);
        let mut output = OrderStatusOutput {
            customer: table.number.get(customer),
            name: [first, middle, last].map(|field| field.label(customer)),
            balance_cents: table.balance.get(customer).into(),
            order: None,
            entry_and_carrier: None,
            lines: Vec::new(),
        };
        if let Some(tuple) = self.last_order(input, output.customer) {
            let table = &self.tables.orders;
            let order = self.read(table.relation, tuple)?;
            let carrier = match table.carrier.get(order) {
                Small::NULL => Value::Null,
                carrier => Value::SmallInt(carrier as i16),
            };
            let key = table.key(order);
            output.order = Some(table.number.get(order));
            output.entry_and_carrier = Some((moment(table.entered.get(order)), carrier));
            output.lines = self.order_lines(key)?;
        }
        Ok(output)
    }

    /// The customer's order with the largest number.
    fn last_order(&self, input: &OrderStatusInput, customer: i32) -> Option<TupleId> {
        let district = keys::district(input.warehouse, input.district.into());
        let upper_half = keys::customer_of_orders(district, customer);
        let (relation, mut last) = (self.tables.orders.relation, None);
        self.transaction.scan_index(relation, ORDERS_BY_CUSTOMER, upper_half << 32, |key, tuple| {
            last = (key >> 32 == upper_half).then_some(tuple);
            ControlFlow::Break(())
        });
        last
    }

    fn order_lines(&mut self, order: u64) -> Result<Vec<OrderStatusLine>> {
        self.find_lines(order);
        let table = &self.tables.order_line;
        let line = |tuple: &TupleId| {
            let line = self.read(table.relation, *tuple)?;
            Ok(OrderStatusLine {
                item: table.item.get(line),
                supply_warehouse: table.supply_warehouse.get(line),
                quantity: table.quantity.get(line) as i16,
                amount_cents: table.amount.get(line).into(),
                delivery: moment(table.delivered.get(line)),
            })
        };
        self.buffers.lines.iter().map(line).collect()
    }
}

fn moment(microseconds: i64) -> Value {
    if microseconds == Long::NULL { Value::Null } else { Value::Timestamp(microseconds) }
}
