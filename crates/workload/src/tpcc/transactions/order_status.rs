//! Order-Status (clause 2.6): the status of a customer's last order. Reads only.

use super::Procedure;
use crate::tpcc::input::OrderStatusInput;
use crate::tpcc::label::Label;
use crate::tpcc::schema::{PRIMARY, customer, order_line, orders};
use ankerdb_engine::{ColumnSet, Direction, Result, RowId, Value};
use std::ops::ControlFlow;

/// What the terminal shows (clause 2.6.3).
#[derive(Debug)]
pub struct OrderStatusOutput {
    /// C_ID
    pub customer: i32,
    /// C_FIRST, C_MIDDLE and C_LAST
    pub name: [Label; 3],
    /// C_BALANCE in cents.
    pub balance_cents: i128,
    /// O_ID, if the customer ever ordered.
    pub order: Option<i32>,
    /// O_ENTRY_D and O_CARRIER_ID
    pub entry_and_carrier: Option<(Value, Value)>,
    /// The order's lines.
    pub lines: Vec<OrderStatusLine>,
}

/// One line of the order.
#[derive(Debug)]
pub struct OrderStatusLine {
    /// OL_I_ID
    pub item: i32,
    /// OL_SUPPLY_W_ID
    pub supply_warehouse: i32,
    /// OL_QUANTITY
    pub quantity: i16,
    /// OL_AMOUNT in cents.
    pub amount_cents: i128,
    /// OL_DELIVERY_D, or NULL.
    pub delivery: Value,
}

const CUSTOMER_COLUMNS: ColumnSet =
    ColumnSet::of(&[customer::C_FIRST, customer::C_MIDDLE, customer::C_LAST, customer::C_BALANCE]);
const ORDER_COLUMNS: ColumnSet = ColumnSet::of(&[orders::O_ENTRY_D, orders::O_CARRIER_ID]);
const LINE_COLUMNS: ColumnSet = ColumnSet::of(&[
    order_line::OL_I_ID,
    order_line::OL_SUPPLY_W_ID,
    order_line::OL_QUANTITY,
    order_line::OL_AMOUNT,
    order_line::OL_DELIVERY_D,
]);

impl Procedure<'_> {
    pub(super) fn order_status(&mut self, input: &OrderStatusInput) -> Result<OrderStatusOutput> {
        let row = self.find_customer(input.warehouse, input.district, &input.customer, CUSTOMER_COLUMNS)?;
        let table = &self.tables.customer;
        let reader = self.transaction.row(table, row);
        let text = |column| reader.text(column, Label::of);
        let mut output = OrderStatusOutput {
            customer: reader.integer(customer::C_ID),
            name: [text(customer::C_FIRST), text(customer::C_MIDDLE), text(customer::C_LAST)],
            balance_cents: reader.decimal(customer::C_BALANCE),
            order: None,
            entry_and_carrier: None,
            lines: Vec::new(),
        };
        drop(reader);
        if let Some(order) = self.last_order(input, output.customer)? {
            let table = &self.tables.orders;
            let id = self.transaction.integer(table, order, orders::O_ID);
            let cell = |column| self.transaction.value(table, order, column);
            output.order = Some(id);
            output.entry_and_carrier = Some((cell(orders::O_ENTRY_D), cell(orders::O_CARRIER_ID)));
            output.lines = self.order_lines(input, id)?;
        }
        Ok(output)
    }

    /// The customer's order with the largest number.
    fn last_order(&mut self, input: &OrderStatusInput, customer: i32) -> Result<Option<RowId>> {
        let prefix = self.key.in_district(input.warehouse, input.district, customer);
        let (table, index) = (&self.tables.orders, self.tables.orders_by_customer);
        let mut last = None;
        self.transaction.scan_prefix(
            table,
            index,
            prefix,
            Direction::Backward,
            ORDER_COLUMNS,
            &mut |_, row| {
                last = Some(row);
                Ok(ControlFlow::Break(()))
            },
        )?;
        Ok(last)
    }

    fn order_lines(&mut self, input: &OrderStatusInput, order: i32) -> Result<Vec<OrderStatusLine>> {
        let prefix = self.key.in_district(input.warehouse, input.district, order);
        let table = &self.tables.order_line;
        let mut lines = Vec::with_capacity(15);
        self.transaction.scan_prefix(
            table,
            PRIMARY,
            prefix,
            Direction::Forward,
            LINE_COLUMNS,
            &mut |transaction, row| {
                let line = transaction.row(table, row);
                lines.push(OrderStatusLine {
                    item: line.integer(order_line::OL_I_ID),
                    supply_warehouse: line.integer(order_line::OL_SUPPLY_W_ID),
                    quantity: line.smallint(order_line::OL_QUANTITY),
                    amount_cents: line.decimal(order_line::OL_AMOUNT),
                    delivery: line.value(order_line::OL_DELIVERY_D),
                });
                Ok(ControlFlow::Continue(()))
            },
        )?;
        Ok(lines)
    }
}
