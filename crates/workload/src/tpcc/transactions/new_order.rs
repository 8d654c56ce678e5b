//! New-Order (clause 2.4): a customer orders five to fifteen items.

use super::{Procedure, missing_row};
use crate::tpcc::input::{NewOrderInput, OrderLineInput};
use crate::tpcc::label::Label;
use crate::tpcc::load::money_cell;
use crate::tpcc::schema::{PRIMARY, customer, district, item, stock, warehouse};
use ankerdb_engine::{Cell, ColumnSet, Result, RowId};
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// What the terminal shows (clause 2.4.3).
#[derive(Debug)]
pub struct NewOrderOutput {
    /// O_ID
    pub order: i32,
    /// C_LAST
    pub customer_last: Label,
    /// C_CREDIT
    pub customer_credit: Label,
    /// The lines.
    pub lines: Vec<OrderLineOutput>,
    /// Sum of the lines' amounts with discount and taxes, in cents, rounded down.
    pub total_cents: i128,
}

/// One line as the terminal shows it.
#[derive(Debug)]
pub struct OrderLineOutput {
    /// I_NAME
    pub item_name: Label,
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

/// Where an order's line finds its item and the stock of it.
#[derive(Clone, Copy)]
pub(super) struct LineRows {
    item: RowId,
    stock: RowId,
}

const CUSTOMER_COLUMNS: ColumnSet =
    ColumnSet::of(&[customer::C_DISCOUNT, customer::C_LAST, customer::C_CREDIT]);
const ITEM_COLUMNS: ColumnSet = ColumnSet::of(&[item::I_PRICE, item::I_NAME, item::I_DATA]);

const ITEM_TEXTS: ColumnSet = ColumnSet::of(&[item::I_NAME, item::I_DATA]);

/// The columns of STOCK that an order of the district looks at.
fn stock_columns(district: i16) -> ColumnSet {
    const ALWAYS: ColumnSet = ColumnSet::of(&[
        stock::S_QUANTITY,
        stock::S_YTD,
        stock::S_ORDER_CNT,
        stock::S_REMOTE_CNT,
        stock::S_DATA,
    ]);
    ALWAYS.union(ColumnSet::of(&[dist_column(district)]))
}

fn dist_column(district: i16) -> usize {
    stock::S_DIST_01 + district as usize - 1
}

impl Procedure<'_> {
    /// `None` if an item number is not valid: the transaction must be rolled back.
    pub(super) fn new_order(&mut self, input: &NewOrderInput) -> Result<Option<NewOrderOutput>> {
        let warehouse_tax = self.warehouse_tax(input.warehouse)?;
        let (district_tax, id) = self.take_order_number(input)?;
        let order = Order { warehouse: input.warehouse, district: input.district, id };
        let table = &self.tables.customer;
        let key = self.key.in_district(input.warehouse, input.district, input.customer);
        let row = Self::require(self.transaction, table, key, CUSTOMER_COLUMNS)?;
        let customer = self.transaction.row(table, row);
        let discount = customer.decimal(customer::C_DISCOUNT);
        let customer_last = customer.text(customer::C_LAST, Label::of);
        let customer_credit = customer.text(customer::C_CREDIT, Label::of);
        drop(customer);

        if !self.find_lines(&order, input)? {
            return Ok(None);
        }
        self.insert_order(&order, input)?;
        let mut lines = Vec::with_capacity(input.lines.len());
        for (number, line) in input.lines.iter().enumerate() {
            lines.push(self.add_line(&order, number, line)?);
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
        let reader = self.transaction.row(table, row);
        let tax = reader.decimal(district::D_TAX);
        let id = reader.integer(district::D_NEXT_O_ID);
        drop(reader);
        self.transaction.update_cells(table, row, &[(district::D_NEXT_O_ID, Cell::integer(id + 1))])?;
        Ok((tax, id))
    }

    /// Finds all rows of ITEM and STOCK before the first of them is read, so that the waits for memory overlap. False if
    /// an item number is not valid.
    fn find_lines(&mut self, order: &Order, input: &NewOrderInput) -> Result<bool> {
        let (items, stocks) = (&self.tables.item, &self.tables.stock);
        let (batch, found) = (&mut self.batch.keys, &mut self.batch.rows);
        batch.clear();
        input.lines.iter().for_each(|line| batch.push(self.key.id(line.item)));
        self.transaction.find_all(items, PRIMARY, batch, ITEM_COLUMNS, found)?;
        self.lines.clear();
        for item in found.iter() {
            let Some(item) = *item else { return Ok(false) };
            self.lines.push(LineRows { item, stock: item });
        }
        batch.clear();
        input.lines.iter().for_each(|line| batch.push(self.key.stock(line.supply_warehouse, line.item)));
        self.transaction.find_all(stocks, PRIMARY, batch, stock_columns(order.district), found)?;
        for (line, stock) in self.lines.iter_mut().zip(found.iter()) {
            line.stock = stock.ok_or_else(|| missing_row(stocks))?;
        }
        let stock_texts = ColumnSet::of(&[dist_column(order.district), stock::S_DATA]);
        for line in self.lines.iter() {
            self.transaction.prefetch_texts(items, line.item, ITEM_TEXTS);
            self.transaction.prefetch_texts(stocks, line.stock, stock_texts);
        }
        Ok(true)
    }

    fn insert_order(&mut self, order: &Order, input: &NewOrderInput) -> Result<()> {
        let local = input.lines.iter().all(|line| line.supply_warehouse == input.warehouse);
        let key = [Cell::integer(order.id), Cell::smallint(order.district), Cell::integer(order.warehouse)];
        let [id, district, warehouse] = key;
        self.transaction.insert_cells(
            &self.tables.orders,
            &[
                id,
                district,
                warehouse,
                Cell::integer(input.customer),
                Cell::bigint(self.now),
                Cell::Null,
                Cell::smallint(input.lines.len() as i16),
                Cell::smallint(i16::from(local)),
            ],
        )?;
        self.transaction.insert_cells(&self.tables.new_order, &key)?;
        Ok(())
    }

    /// Takes the item from stock and adds the line.
    fn add_line(&mut self, order: &Order, number: usize, line: &OrderLineInput) -> Result<OrderLineOutput> {
        let rows = self.lines[number];
        let item = self.transaction.row(&self.tables.item, rows.item);
        let price_cents = item.decimal(item::I_PRICE);
        let item_name = item.text(item::I_NAME, Label::of);
        let original = item.text(item::I_DATA, is_original);
        drop(item);
        let (stock_quantity, dist_info, stock_original) = self.take_from_stock(order, rows.stock, line)?;
        let amount_cents = price_cents * i128::from(line.quantity);
        self.transaction.insert_cells(
            &self.tables.order_line,
            &[
                Cell::integer(order.id),
                Cell::smallint(order.district),
                Cell::integer(order.warehouse),
                Cell::smallint(number as i16 + 1),
                Cell::integer(line.item),
                Cell::integer(line.supply_warehouse),
                Cell::Null,
                Cell::smallint(line.quantity),
                money_cell(amount_cents),
                Cell::Bytes(dist_info.as_bytes()),
            ],
        )?;
        let brand = if original && stock_original { 'B' } else { 'G' };
        Ok(OrderLineOutput { item_name, stock_quantity, brand, price_cents, amount_cents })
    }

    /// Lowers the stock, restocking by 91 when fewer than ten would be left. Returns the quantity left, the
    /// district's information, and whether the stock is "original".
    fn take_from_stock(
        &mut self,
        order: &Order,
        row: RowId,
        line: &OrderLineInput,
    ) -> Result<(i16, Label, bool)> {
        let table = &self.tables.stock;
        let stock = self.transaction.row(table, row);
        let quantity = stock.smallint(stock::S_QUANTITY);
        let left = if quantity >= line.quantity + 10 {
            quantity - line.quantity
        } else {
            quantity - line.quantity + 91
        };
        let remote = line.supply_warehouse != order.warehouse;
        let changes = [
            (stock::S_QUANTITY, Cell::smallint(left)),
            (stock::S_YTD, Cell::integer(stock.integer(stock::S_YTD) + i32::from(line.quantity))),
            (stock::S_ORDER_CNT, Cell::integer(stock.integer(stock::S_ORDER_CNT) + 1)),
            (stock::S_REMOTE_CNT, Cell::integer(stock.integer(stock::S_REMOTE_CNT) + 1)),
        ];
        let dist_info = stock.text(dist_column(order.district), Label::of);
        let original = stock.text(stock::S_DATA, is_original);
        drop(stock);
        let changes = if remote { &changes[..] } else { &changes[..3] };
        self.transaction.update_cells(table, row, changes)?;
        Ok((left, dist_info, original))
    }
}

/// Clause 2.4.2.2: whether the text contains `ORIGINAL`.
pub(crate) fn is_original(data: &str) -> bool {
    static ORIGINAL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("ORIGINAL"));
    ORIGINAL.find(data.as_bytes()).is_some()
}
