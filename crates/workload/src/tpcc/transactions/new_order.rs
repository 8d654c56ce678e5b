//! New-Order (clause 2.4): a customer orders five to fifteen items.

use super::Procedure;
use crate::tpcc::input::{NewOrderInput, OrderLineInput};
use crate::tpcc::load::money;
use crate::tpcc::schema::{customer, district, item, stock, warehouse};
use ankerdb_engine::{ColumnSet, Result, Value};

/// What the terminal shows (clause 2.4.3).
#[derive(Debug)]
pub struct NewOrderOutput {
    /// O_ID
    pub order: i32,
    /// C_LAST
    pub customer_last: Box<str>,
    /// C_CREDIT
    pub customer_credit: Box<str>,
    /// The lines.
    pub lines: Vec<OrderLineOutput>,
    /// Sum of the lines' amounts with discount and taxes, in cents, rounded down.
    pub total_cents: i128,
}

/// One line as the terminal shows it.
#[derive(Debug)]
pub struct OrderLineOutput {
    /// I_NAME
    pub item_name: Box<str>,
    /// S_QUANTITY after the order.
    pub stock_quantity: i16,
    /// Whether both the item and the stock are "original" (clause 2.4.2.2): B, else G.
    pub brand: char,
    /// I_PRICE in cents.
    pub price_cents: i128,
    /// OL_AMOUNT in cents.
    pub amount_cents: i128,
}

/// 1 in rates: they have four fractional digits.
const ONE: i128 = 10_000;

/// The order's identity, shared by its rows.
struct Order {
    warehouse: i32,
    district: i16,
    id: i32,
}

impl Procedure<'_> {
    /// `None` if an item number is not valid: the transaction must be rolled back.
    pub(super) fn new_order(&mut self, input: &NewOrderInput) -> Result<Option<NewOrderOutput>> {
        let warehouse_tax = self.warehouse_tax(input.warehouse)?;
        let (district_tax, id) = self.take_order_number(input)?;
        let order = Order { warehouse: input.warehouse, district: input.district, id };
        let columns = ColumnSet::of(&[customer::C_DISCOUNT, customer::C_LAST, customer::C_CREDIT]);
        let table = &self.tables.customer;
        let key = self.key.in_district(input.warehouse, input.district, input.customer);
        let row = Self::require(self.transaction, table, key, columns)?;
        let discount = self.transaction.decimal(table, row, customer::C_DISCOUNT);
        let customer_last = self.transaction.text(table, row, customer::C_LAST);
        let customer_credit = self.transaction.text(table, row, customer::C_CREDIT);

        self.insert_order(&order, input)?;
        let mut lines = Vec::with_capacity(input.lines.len());
        for (number, line) in input.lines.iter().enumerate() {
            match self.add_line(&order, number as i16 + 1, line)? {
                Some(line) => lines.push(line),
                None => return Ok(None),
            }
        }
        let amount: i128 = lines.iter().map(|line| line.amount_cents).sum();
        let total_cents = amount * (ONE - discount) * (ONE + warehouse_tax + district_tax) / (ONE * ONE);
        Ok(Some(NewOrderOutput { order: id, customer_last, customer_credit, lines, total_cents }))
    }

    fn warehouse_tax(&mut self, warehouse: i32) -> Result<i128> {
        let table = &self.tables.warehouse;
        let columns = const { ColumnSet::of(&[warehouse::W_TAX]) };
        let row = Self::require(self.transaction, table, self.key.id(warehouse), columns)?;
        Ok(self.transaction.decimal(table, row, warehouse::W_TAX))
    }

    /// Reads the district's tax and takes its next order number.
    fn take_order_number(&mut self, input: &NewOrderInput) -> Result<(i128, i32)> {
        let table = &self.tables.district;
        let columns = const { ColumnSet::of(&[district::D_TAX, district::D_NEXT_O_ID]) };
        let key = self.key.district(input.warehouse, input.district);
        let row = Self::require(self.transaction, table, key, columns)?;
        let tax = self.transaction.decimal(table, row, district::D_TAX);
        let id = self.transaction.integer(table, row, district::D_NEXT_O_ID);
        self.transaction.update(table, row, vec![(district::D_NEXT_O_ID, Value::Integer(id + 1))])?;
        Ok((tax, id))
    }

    fn insert_order(&mut self, order: &Order, input: &NewOrderInput) -> Result<()> {
        let local = input.lines.iter().all(|line| line.supply_warehouse == input.warehouse);
        self.transaction.insert(
            &self.tables.orders,
            vec![
                Value::Integer(order.id),
                Value::SmallInt(order.district),
                Value::Integer(order.warehouse),
                Value::Integer(input.customer),
                Value::Timestamp(self.now),
                Value::Null,
                Value::SmallInt(input.lines.len() as i16),
                Value::SmallInt(i16::from(local)),
            ],
        )?;
        self.transaction.insert(
            &self.tables.new_order,
            vec![Value::Integer(order.id), Value::SmallInt(order.district), Value::Integer(order.warehouse)],
        )?;
        Ok(())
    }

    /// Takes the item from stock and adds the line; `None` if there is no such item.
    fn add_line(
        &mut self,
        order: &Order,
        number: i16,
        line: &OrderLineInput,
    ) -> Result<Option<OrderLineOutput>> {
        let items = &self.tables.item;
        let columns = const { ColumnSet::of(&[item::I_PRICE, item::I_NAME, item::I_DATA]) };
        let Some(row) = self.transaction.find(items, super::PRIMARY, self.key.id(line.item), columns)? else {
            return Ok(None);
        };
        let price_cents = self.transaction.decimal(items, row, item::I_PRICE);
        let item_name = self.transaction.text(items, row, item::I_NAME);
        let original = self.transaction.text(items, row, item::I_DATA).contains("ORIGINAL");
        let (stock_quantity, dist_info, stock_original) = self.take_from_stock(order, line)?;
        let amount_cents = price_cents * i128::from(line.quantity);
        self.transaction.insert(
            &self.tables.order_line,
            vec![
                Value::Integer(order.id),
                Value::SmallInt(order.district),
                Value::Integer(order.warehouse),
                Value::SmallInt(number),
                Value::Integer(line.item),
                Value::Integer(line.supply_warehouse),
                Value::Null,
                Value::SmallInt(line.quantity),
                money(amount_cents),
                Value::Text(dist_info),
            ],
        )?;
        let brand = if original && stock_original { 'B' } else { 'G' };
        Ok(Some(OrderLineOutput { item_name, stock_quantity, brand, price_cents, amount_cents }))
    }

    /// Lowers the stock, restocking by 91 when fewer than ten would be left. Returns the quantity left, the
    /// district's information, and whether the stock is "original".
    fn take_from_stock(&mut self, order: &Order, line: &OrderLineInput) -> Result<(i16, Box<str>, bool)> {
        let table = &self.tables.stock;
        let dist_column = stock::S_DIST_01 + order.district as usize - 1;
        let mut columns = const {
            ColumnSet::of(&[
                stock::S_QUANTITY,
                stock::S_YTD,
                stock::S_ORDER_CNT,
                stock::S_REMOTE_CNT,
                stock::S_DATA,
            ])
        };
        columns.insert(dist_column);
        let key = self.key.stock(line.supply_warehouse, line.item);
        let row = Self::require(self.transaction, table, key, columns)?;
        let quantity = self.transaction.smallint(table, row, stock::S_QUANTITY);
        let left = if quantity >= line.quantity + 10 {
            quantity - line.quantity
        } else {
            quantity - line.quantity + 91
        };
        let integer = |column| self.transaction.integer(table, row, column);
        let mut changes = vec![
            (stock::S_QUANTITY, Value::SmallInt(left)),
            (stock::S_YTD, Value::Integer(integer(stock::S_YTD) + i32::from(line.quantity))),
            (stock::S_ORDER_CNT, Value::Integer(integer(stock::S_ORDER_CNT) + 1)),
        ];
        if line.supply_warehouse != order.warehouse {
            changes.push((stock::S_REMOTE_CNT, Value::Integer(integer(stock::S_REMOTE_CNT) + 1)));
        }
        let dist_info = self.transaction.text(table, row, dist_column);
        let original = self.transaction.text(table, row, stock::S_DATA).contains("ORIGINAL");
        self.transaction.update(table, row, changes)?;
        Ok((left, dist_info, original))
    }
}
