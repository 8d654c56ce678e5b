//! The rows of a snapshot, read by a transaction at its timestamp.

use crate::ch::schema::{ChTables, nation, region, supplier};
use crate::tpcc::schema::{TpccTables, customer, item, new_order, order_line, orders, stock};
use ankerdb_engine::{Cell, ColumnSet, Result, RowReader, Session, Snapshot, Table, Transaction};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Warehouse, district, and the number of an order or customer.
pub(super) type Place = (i32, i16, i32);

/// A row of ORDER-LINE.
pub(super) struct LineRow {
    pub order: Place,
    pub number: i16,
    pub item: i32,
    pub supply_warehouse: i32,
    pub delivered: Option<i64>,
    pub quantity: i16,
    /// In cents.
    pub amount: i64,
}

/// A row of ORDER.
#[derive(Clone, Copy)]
pub(super) struct OrderRow {
    pub place: Place,
    pub customer: i32,
    pub entered: i64,
    pub carrier: Option<i16>,
    pub lines: i16,
}

impl OrderRow {
    /// The customer's key.
    pub(super) fn customer_place(&self) -> Place {
        (self.place.0, self.place.1, self.customer)
    }
}

/// A row of CUSTOMER.
pub(super) struct CustomerRow {
    pub place: Place,
    pub last: String,
    pub city: String,
    pub phone: String,
    pub state: String,
    /// In cents.
    pub balance: i64,
}

impl CustomerRow {
    /// The first letter of the state.
    pub(super) fn letter(&self) -> &str {
        self.state.get(..1).unwrap_or_default()
    }

    /// The number of the nation; of no nation if there is no state.
    pub(super) fn nation(&self) -> i32 {
        self.state.bytes().next().map_or(0, i32::from)
    }
}

/// A row of ITEM.
pub(super) struct ItemRow {
    pub number: i32,
    pub name: String,
    /// In cents.
    pub price: i64,
    pub data: String,
}

/// A row of STOCK.
pub(super) struct StockRow {
    pub warehouse: i32,
    pub item: i32,
    pub quantity: i16,
    pub orders: i32,
}

impl StockRow {
    /// The number of the supplier.
    pub(super) fn supplier(&self) -> i32 {
        supplier_of(self.warehouse, self.item)
    }
}

/// The supplier of an item to a warehouse.
pub(super) fn supplier_of(warehouse: i32, item: i32) -> i32 {
    warehouse * item % 10_000
}

/// A row of SUPPLIER.
pub(super) struct SupplierRow {
    pub number: i32,
    pub name: String,
    pub address: String,
    pub nation: i32,
    pub phone: String,
    pub comment: String,
}

/// A row of NATION.
pub(super) struct NationRow {
    pub number: i32,
    pub name: String,
    pub region: i32,
}

/// A row of REGION.
pub(super) struct RegionRow {
    pub number: i32,
    pub name: String,
}

/// Reads whole tables as of one snapshot.
pub struct SnapshotRows<'a> {
    transaction: Transaction,
    tables: &'a TpccTables,
    added: &'a ChTables,
}

impl<'a> SnapshotRows<'a> {
    /// A reader of what the snapshot shows.
    ///
    /// # Errors
    /// 22023 if the snapshot is of another database.
    pub fn at(
        session: &mut Session,
        snapshot: &Snapshot,
        tables: &'a TpccTables,
        added: &'a ChTables,
    ) -> Result<SnapshotRows<'a>> {
        Ok(SnapshotRows { transaction: session.begin_at(snapshot)?, tables, added })
    }

    fn read<T>(&mut self, table: &Arc<Table>, make: impl Fn(&RowReader<'_>) -> T) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        self.transaction.scan_table(table, ColumnSet::ALL, None, &mut |transaction, row| {
            rows.push(make(&transaction.row(table, row)));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }

    /// ORDER-LINE
    pub(super) fn lines(&mut self) -> Result<Vec<LineRow>> {
        self.read(&self.tables.order_line, |row| LineRow {
            order: place(row, order_line::OL_W_ID, order_line::OL_D_ID, order_line::OL_O_ID),
            number: row.smallint(order_line::OL_NUMBER),
            item: row.integer(order_line::OL_I_ID),
            supply_warehouse: row.integer(order_line::OL_SUPPLY_W_ID),
            delivered: if_any(row, order_line::OL_DELIVERY_D, RowReader::bigint),
            quantity: row.smallint(order_line::OL_QUANTITY),
            amount: cents(row, order_line::OL_AMOUNT),
        })
    }

    /// ORDER
    pub(super) fn orders(&mut self) -> Result<Vec<OrderRow>> {
        self.read(&self.tables.orders, |row| OrderRow {
            place: place(row, orders::O_W_ID, orders::O_D_ID, orders::O_ID),
            customer: row.integer(orders::O_C_ID),
            entered: row.bigint(orders::O_ENTRY_D),
            carrier: if_any(row, orders::O_CARRIER_ID, RowReader::smallint),
            lines: row.smallint(orders::O_OL_CNT),
        })
    }

    /// ORDER, by its key.
    pub(super) fn orders_by_place(&mut self) -> Result<HashMap<Place, OrderRow>> {
        Ok(self.orders()?.into_iter().map(|order| (order.place, order)).collect())
    }

    /// NEW-ORDER
    pub(super) fn new_orders(&mut self) -> Result<Vec<Place>> {
        self.read(&self.tables.new_order, |row| {
            place(row, new_order::NO_W_ID, new_order::NO_D_ID, new_order::NO_O_ID)
        })
    }

    /// CUSTOMER
    pub(super) fn customers(&mut self) -> Result<Vec<CustomerRow>> {
        self.read(&self.tables.customer, |row| CustomerRow {
            place: place(row, customer::C_W_ID, customer::C_D_ID, customer::C_ID),
            last: text(row, customer::C_LAST),
            city: text(row, customer::C_CITY),
            phone: text(row, customer::C_PHONE),
            state: text(row, customer::C_STATE),
            balance: cents(row, customer::C_BALANCE),
        })
    }

    /// CUSTOMER, by its key.
    pub(super) fn customers_by_place(&mut self) -> Result<HashMap<Place, CustomerRow>> {
        Ok(self.customers()?.into_iter().map(|customer| (customer.place, customer)).collect())
    }

    /// ITEM
    pub(super) fn items(&mut self) -> Result<Vec<ItemRow>> {
        self.read(&self.tables.item, |row| ItemRow {
            number: row.integer(item::I_ID),
            name: text(row, item::I_NAME),
            price: cents(row, item::I_PRICE),
            data: text(row, item::I_DATA),
        })
    }

    /// STOCK
    pub(super) fn stock(&mut self) -> Result<Vec<StockRow>> {
        self.read(&self.tables.stock, |row| StockRow {
            warehouse: row.integer(stock::S_W_ID),
            item: row.integer(stock::S_I_ID),
            quantity: row.smallint(stock::S_QUANTITY),
            orders: row.integer(stock::S_ORDER_CNT),
        })
    }

    /// SUPPLIER
    pub(super) fn suppliers(&mut self) -> Result<Vec<SupplierRow>> {
        self.read(&self.added.supplier, |row| SupplierRow {
            number: row.integer(supplier::SU_SUPPKEY),
            name: text(row, supplier::SU_NAME),
            address: text(row, supplier::SU_ADDRESS),
            nation: row.integer(supplier::SU_NATIONKEY),
            phone: text(row, supplier::SU_PHONE),
            comment: text(row, supplier::SU_COMMENT),
        })
    }

    /// NATION
    pub(super) fn nations(&mut self) -> Result<Vec<NationRow>> {
        self.read(&self.added.nation, |row| NationRow {
            number: row.integer(nation::N_NATIONKEY),
            name: text(row, nation::N_NAME),
            region: row.integer(nation::N_REGIONKEY),
        })
    }

    /// REGION
    pub(super) fn regions(&mut self) -> Result<Vec<RegionRow>> {
        self.read(&self.added.region, |row| RegionRow {
            number: row.integer(region::R_REGIONKEY),
            name: text(row, region::R_NAME),
        })
    }
}

fn place(row: &RowReader<'_>, warehouse: usize, district: usize, number: usize) -> Place {
    (row.integer(warehouse), row.smallint(district), row.integer(number))
}

/// Amounts have at most 18 digits, which fit.
fn cents(row: &RowReader<'_>, column: usize) -> i64 {
    row.decimal(column) as i64
}

fn text(row: &RowReader<'_>, column: usize) -> String {
    row.text(column, str::to_owned)
}

fn if_any<'r, T>(
    row: &RowReader<'r>,
    column: usize,
    read: impl FnOnce(&RowReader<'r>, usize) -> T,
) -> Option<T> {
    let is_null = row.cell(column, |cell| cell == Cell::Null);
    (!is_null).then(|| read(row, column))
}
