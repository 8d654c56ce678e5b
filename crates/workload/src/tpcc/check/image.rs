//! The sums that the conditions compare, over the tables by warehouse, district, customer and order.

use crate::tpcc::schema::{
    TpccTables, customer, district, history, new_order, order_line, orders, warehouse,
};
use ankerdb_engine::{Cell, ColumnSet, Result, RowReader, Table, Transaction};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Warehouse and district.
pub(super) type DistrictKey = (i32, i16);

/// Numbers of orders above this count as damage, so that one wrong number does not take all memory.
const ORDER_MAX: i32 = 1 << 27;

/// The database, added up. Money is in cents.
#[derive(Default)]
pub(super) struct DatabaseSums {
    /// W_YTD
    pub warehouses: BTreeMap<i32, i64>,
    /// Districts that are in DISTRICT, or that other rows say to be in.
    pub districts: BTreeMap<DistrictKey, District>,
}

/// One district.
#[derive(Default)]
pub(super) struct District {
    /// D_YTD
    pub ytd: i64,
    /// D_NEXT_O_ID
    pub next_order: i32,
    /// By C_ID.
    pub customers: Vec<Customer>,
    /// By O_ID.
    pub orders: Vec<CheckedOrder>,
    /// Rows of ORDER.
    pub order_count: i64,
    /// Largest O_ID.
    pub last_order: i32,
    /// NEW-ORDER: smallest and largest number, and rows.
    pub new_orders: Option<(i32, i32, i64)>,
    /// Sum of O_OL_CNT.
    pub lines_expected: i64,
    /// Rows of ORDER-LINE.
    pub lines: i64,
    /// Sum of H_AMOUNT of payments made here.
    pub paid: i64,
}

/// One customer.
#[derive(Clone, Copy, Default)]
pub(super) struct Customer {
    /// C_BALANCE
    pub balance: i64,
    /// C_YTD_PAYMENT
    pub ytd_payment: i64,
    /// C_DELIVERY_CNT
    pub deliveries: i32,
    /// Sum of H_AMOUNT of the customer's payments.
    pub paid: i64,
}

/// One order.
#[derive(Clone, Copy, Default)]
pub(super) struct CheckedOrder {
    /// O_C_ID
    pub customer: i32,
    /// O_OL_CNT
    pub lines_expected: i16,
    /// Rows of ORDER-LINE.
    pub lines: i16,
    /// Those with OL_DELIVERY_D.
    pub lines_delivered: i16,
    /// Whether there is a row of ORDER.
    pub exists: bool,
    /// Whether that row has O_CARRIER_ID.
    pub has_carrier: bool,
    /// Whether there is a row of NEW-ORDER.
    pub is_new: bool,
    /// Sum of OL_AMOUNT of the lines with OL_DELIVERY_D.
    pub delivered: i64,
}

/// The element of a number, made if it is missing; numbers that cannot be right share element 0.
fn element<T: Copy + Default>(list: &mut Vec<T>, number: i32) -> &mut T {
    let position = if (1..=ORDER_MAX).contains(&number) { number as usize } else { 0 };
    if list.len() <= position {
        list.resize(position + 1, T::default());
    }
    &mut list[position]
}

impl DatabaseSums {
    /// Reads everything as of the transaction's timestamp.
    pub(super) fn read(transaction: &mut Transaction, tables: &TpccTables) -> Result<DatabaseSums> {
        let mut image = DatabaseSums::default();
        image.read_warehouses(transaction, &tables.warehouse)?;
        image.read_districts(transaction, &tables.district)?;
        image.read_customers(transaction, &tables.customer)?;
        image.read_history(transaction, &tables.history)?;
        image.read_orders(transaction, &tables.orders)?;
        image.read_new_orders(transaction, &tables.new_order)?;
        image.read_lines(transaction, &tables.order_line)?;
        Ok(image)
    }

    fn district(&mut self, place: DistrictKey) -> &mut District {
        self.districts.entry(place).or_default()
    }

    fn read_warehouses(&mut self, transaction: &mut Transaction, table: &Arc<Table>) -> Result<()> {
        scan(transaction, table, &mut |row| {
            self.warehouses.insert(row.integer(warehouse::W_ID), row.cents(warehouse::W_YTD));
        })
    }

    fn read_districts(&mut self, transaction: &mut Transaction, table: &Arc<Table>) -> Result<()> {
        scan(transaction, table, &mut |row| {
            let entry = self.district(row.place(district::D_W_ID, district::D_ID));
            entry.ytd = row.cents(district::D_YTD);
            entry.next_order = row.integer(district::D_NEXT_O_ID);
        })
    }

    fn read_customers(&mut self, transaction: &mut Transaction, table: &Arc<Table>) -> Result<()> {
        scan(transaction, table, &mut |row| {
            let entry = self.district(row.place(customer::C_W_ID, customer::C_D_ID));
            *element(&mut entry.customers, row.integer(customer::C_ID)) = Customer {
                balance: row.cents(customer::C_BALANCE),
                ytd_payment: row.cents(customer::C_YTD_PAYMENT),
                deliveries: row.integer(customer::C_DELIVERY_CNT),
                paid: 0,
            };
        })
    }

    fn read_history(&mut self, transaction: &mut Transaction, table: &Arc<Table>) -> Result<()> {
        scan(transaction, table, &mut |row| {
            let amount = row.cents(history::H_AMOUNT);
            self.district(row.place(history::H_W_ID, history::H_D_ID)).paid += amount;
            let home = self.district(row.place(history::H_C_W_ID, history::H_C_D_ID));
            element(&mut home.customers, row.integer(history::H_C_ID)).paid += amount;
        })
    }

    fn read_orders(&mut self, transaction: &mut Transaction, table: &Arc<Table>) -> Result<()> {
        scan(transaction, table, &mut |row| {
            let entry = self.district(row.place(orders::O_W_ID, orders::O_D_ID));
            let (number, lines) = (row.integer(orders::O_ID), row.smallint(orders::O_OL_CNT));
            entry.order_count += 1;
            entry.last_order = entry.last_order.max(number);
            entry.lines_expected += i64::from(lines);
            let order = element(&mut entry.orders, number);
            order.exists = true;
            order.customer = row.integer(orders::O_C_ID);
            order.lines_expected = lines;
            order.has_carrier = !row.is_null(orders::O_CARRIER_ID);
        })
    }

    fn read_new_orders(&mut self, transaction: &mut Transaction, table: &Arc<Table>) -> Result<()> {
        scan(transaction, table, &mut |row| {
            let number = row.integer(new_order::NO_O_ID);
            let entry = self.district(row.place(new_order::NO_W_ID, new_order::NO_D_ID));
            let (low, high, rows) = entry.new_orders.get_or_insert((number, number, 0));
            *low = number.min(*low);
            *high = number.max(*high);
            *rows += 1;
            element(&mut entry.orders, number).is_new = true;
        })
    }

    fn read_lines(&mut self, transaction: &mut Transaction, table: &Arc<Table>) -> Result<()> {
        scan(transaction, table, &mut |row| {
            let entry = self.district(row.place(order_line::OL_W_ID, order_line::OL_D_ID));
            entry.lines += 1;
            let order = element(&mut entry.orders, row.integer(order_line::OL_O_ID));
            order.lines = order.lines.saturating_add(1);
            if !row.is_null(order_line::OL_DELIVERY_D) {
                order.lines_delivered = order.lines_delivered.saturating_add(1);
                order.delivered += row.cents(order_line::OL_AMOUNT);
            }
        })
    }
}

/// A row being looked at.
struct Row<'a>(RowReader<'a>);

impl Row<'_> {
    fn integer(&self, column: usize) -> i32 {
        self.0.integer(column)
    }

    fn smallint(&self, column: usize) -> i16 {
        self.0.smallint(column)
    }

    /// Sums of money have 18 digits, which fit.
    fn cents(&self, column: usize) -> i64 {
        self.0.decimal(column) as i64
    }

    fn is_null(&self, column: usize) -> bool {
        self.0.cell(column, |cell| cell == Cell::Null)
    }

    fn place(&self, warehouse: usize, district: usize) -> DistrictKey {
        (self.integer(warehouse), self.smallint(district))
    }
}

fn scan(transaction: &mut Transaction, table: &Arc<Table>, visit: &mut dyn FnMut(&Row<'_>)) -> Result<()> {
    transaction.scan_table(table, ColumnSet::ALL, None, &mut |transaction, row| {
        visit(&Row(transaction.row(table, row)));
        Ok(ControlFlow::Continue(()))
    })
}
