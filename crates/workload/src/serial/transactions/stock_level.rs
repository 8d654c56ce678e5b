//! Stock-Level (clause 2.8): how many of the items that a district sold last are low in stock. Reads only.

use super::{PRIMARY, Procedure};
use crate::serial::keys;
use crate::tpcc::input::StockLevelInput;
use crate::tpcc::transactions::{LAST_ORDERS, StockLevelOutput};
use ankerdb_engine::Result;
use ankerdb_serial::Store;
use std::ops::ControlFlow;

impl<S: Store> Procedure<'_, '_, S> {
    pub(super) fn stock_level(&mut self, input: &StockLevelInput) -> Result<StockLevelOutput> {
        self.items_sold(input)?;
        let (table, mut low_stock) = (&self.tables.stock, 0);
        for item in &self.buffers.items {
            let stock = self.read_by_key(table.relation, keys::stock(input.warehouse, *item))?;
            low_stock += usize::from(table.quantity.get(stock) < input.threshold.into());
        }
        Ok(StockLevelOutput { low_stock })
    }

    /// Collects the different items of the district's last orders.
    fn items_sold(&mut self, input: &StockLevelInput) -> Result<()> {
        let (warehouse, district) = (input.warehouse, i32::from(input.district));
        let table = &self.tables.district;
        let found = self.read_by_key(table.relation, keys::district(warehouse, district))?;
        let next = table.next_order.get(found);
        let line_of = |order| keys::order_line(keys::in_district(warehouse, district, order), 0);
        let (from, end) = (line_of(next - LAST_ORDERS), line_of(next));
        let (table, transaction) = (&self.tables.order_line, &*self.transaction);
        let items = &mut self.buffers.items;
        items.clear();
        transaction.scan_index(table.relation, PRIMARY, from, |key, tuple| {
            if key >= end {
                return ControlFlow::Break(());
            }
            items.extend(transaction.read(table.relation, tuple).map(|line| table.item.get(line)));
            ControlFlow::Continue(())
        });
        items.sort_unstable();
        items.dedup();
        Ok(())
    }
}
