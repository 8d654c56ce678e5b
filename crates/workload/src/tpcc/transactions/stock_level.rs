//! Stock-Level (clause 2.8): how many of the items that a district sold last are low in stock. Reads only.

use super::{Procedure, missing_row};
use crate::tpcc::input::StockLevelInput;
use crate::tpcc::schema::{PRIMARY, district, order_line, stock};
use ankerdb_engine::{ColumnSet, Direction, KeyRange, Result};
use std::ops::{Bound, ControlFlow};

/// Orders that are looked at (clause 2.8.2.2).
pub(crate) const LAST_ORDERS: i32 = 20;

/// What the terminal shows (clause 2.8.3).
#[derive(Debug, PartialEq, Eq)]
pub struct StockLevelOutput {
    /// Different items of the last orders whose stock is below the threshold.
    pub low_stock: usize,
}

const STOCK_COLUMNS: ColumnSet = ColumnSet::of(&[stock::S_QUANTITY]);

impl Procedure<'_> {
    pub(super) fn stock_level(&mut self, input: &StockLevelInput) -> Result<StockLevelOutput> {
        let table = &self.tables.district;
        let key = self.key.district(input.warehouse, input.district);
        let columns = const { ColumnSet::of(&[district::D_NEXT_O_ID]) };
        let row = Self::require(self.transaction, table, key, columns)?;
        let next = self.transaction.integer(table, row, district::D_NEXT_O_ID);
        self.items_sold(input, next)?;
        let (table, batch) = (&self.tables.stock, &mut *self.batch);
        batch.keys.clear();
        self.items.iter().for_each(|item| batch.keys.push(self.key.stock(input.warehouse, *item)));
        self.transaction.find_all(table, PRIMARY, &batch.keys, STOCK_COLUMNS, &mut batch.rows)?;
        let mut low_stock = 0;
        for row in &batch.rows {
            let row = row.ok_or_else(|| missing_row(table))?;
            let quantity = self.transaction.smallint(table, row, stock::S_QUANTITY);
            low_stock += usize::from(quantity < input.threshold);
        }
        Ok(StockLevelOutput { low_stock })
    }

    /// Collects the different items of the orders before `next` in the client's buffer.
    fn items_sold(&mut self, input: &StockLevelInput, next: i32) -> Result<()> {
        let mut key_of = |order| self.key.in_district(input.warehouse, input.district, order).to_vec();
        // An order's number is a prefix of its lines' keys, so the bound is before the lines of `next`.
        let (lower, upper) = (key_of(next - LAST_ORDERS), key_of(next));
        let range = KeyRange { lower: Bound::Included(lower), upper: Bound::Excluded(upper) };
        let (table, items) = (&self.tables.order_line, &mut *self.items);
        items.clear();
        let columns = const { ColumnSet::of(&[order_line::OL_I_ID]) };
        let mut note = |transaction: &mut ankerdb_engine::Transaction, row| {
            items.push(transaction.integer(table, row, order_line::OL_I_ID));
            Ok(ControlFlow::Continue(()))
        };
        self.transaction.scan_index(table, PRIMARY, &range, Direction::Forward, columns, &mut note)?;
        items.sort_unstable();
        items.dedup();
        Ok(())
    }
}
