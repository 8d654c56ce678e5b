//! New-Order (clause 2.4): a customer orders five to fifteen items.

use super::Procedure;
use crate::serial::keys;
use crate::serial::layout::Small;
use crate::tpcc::input::{NewOrderInput, OrderLineInput};
use crate::tpcc::transactions::{NewOrderOutput, OrderLineOutput, is_original};
use ankerdb_engine::Result;
use ankerdb_serial::Store;

/// 1 in rates: they have four fractional digits.
const ONE: i128 = 10_000;

/// The order's identity, shared by its tuples.
struct Order {
    warehouse: i32,
    district: i32,
    id: i32,
}

impl Order {
    fn key(&self) -> u64 {
        keys::in_district(self.warehouse, self.district, self.id)
    }
}

/// What a line takes from stock.
struct Taken {
    left: i16,
    dist_info: [u64; 3],
    is_original: bool,
}

impl<S: Store> Procedure<'_, '_, S> {
    /// `None` if an item number is not valid: the transaction must be taken back.
    pub(super) fn new_order(&mut self, input: &NewOrderInput) -> Result<Option<NewOrderOutput>> {
        let (warehouse, district) = (input.warehouse, i32::from(input.district));
        let tables = self.tables;
        let found = self.read_by_key(tables.warehouse.relation, keys::number(warehouse))?;
        let warehouse_tax = tables.warehouse.tax.get(found);
        let (district_tax, id) = self.take_order_number(warehouse, district)?;
        let order = Order { warehouse, district, id };
        let key = keys::in_district(warehouse, district, input.customer);
        let customer = self.read_by_key(tables.customer.relation, key)?;
        let discount = tables.customer.discount.get(customer);
        let customer_last = tables.customer.last.label(customer);
        let customer_credit = tables.customer.credit.label(customer);
        self.insert_order(&order, input)?;
        let mut lines = Vec::with_capacity(input.lines.len());
        for (number, line) in (1..).zip(input.lines.iter()) {
            match self.add_line(&order, number, line)? {
                Some(line) => lines.push(line),
                None => return Ok(None),
            }
        }
        let amount: i128 = lines.iter().map(|line| line.amount_cents).sum();
        let taxes = ONE + i128::from(warehouse_tax + district_tax);
        let total_cents = amount * (ONE - i128::from(discount)) * taxes / (ONE * ONE);
        Ok(Some(NewOrderOutput { order: id, customer_last, customer_credit, lines, total_cents }))
    }

    /// Reads the district's tax and takes its next order number.
    fn take_order_number(&mut self, warehouse: i32, district: i32) -> Result<(i64, i32)> {
        let table = &self.tables.district;
        let mut change = self.change_by_key(table.relation, keys::district(warehouse, district))?;
        let (tax, id) = (table.tax.get(&change), table.next_order.get(&change));
        table.next_order.set(&mut change, id + 1);
        Ok((tax, id))
    }

    fn insert_order(&mut self, order: &Order, input: &NewOrderInput) -> Result<()> {
        let local = input.lines.iter().all(|line| line.supply_warehouse == input.warehouse);
        let table = &self.tables.orders;
        let row = self.buffers.new_row(table.words);
        table.number.put(row, order.id);
        table.district.put(row, order.district);
        table.warehouse.put(row, order.warehouse);
        table.customer.put(row, input.customer);
        table.entered.put(row, self.now);
        table.carrier.put(row, Small::NULL);
        table.lines.put(row, input.lines.len() as i32);
        table.all_local.put(row, local.into());
        let district = keys::district(order.warehouse, order.district);
        let by_customer = keys::order_by_customer(district, input.customer, order.id);
        self.transaction.insert(table.relation, row, &[order.key(), by_customer])?;
        let table = &self.tables.new_order;
        let row = self.buffers.new_row(table.words);
        table.order.put(row, order.id);
        table.district.put(row, order.district);
        table.warehouse.put(row, order.warehouse);
        self.transaction.insert(table.relation, row, &[order.key()])?;
        Ok(())
    }

    /// Takes the item from stock and adds the line; `None` if there is no such item.
    fn add_line(
        &mut self,
        order: &Order,
        number: i32,
        line: &OrderLineInput,
    ) -> Result<Option<OrderLineOutput>> {
        let table = &self.tables.item;
        let Some(item) = self.transaction.find(table.relation, super::PRIMARY, keys::number(line.item))
        else {
            return Ok(None);
        };
        let item = self.read(table.relation, item)?;
        let (price, item_name) = (table.price.get(item), table.name.label(item));
        let item_is_original = is_original(table.data.read(item, &mut [0; 56]));
        let taken = self.take_from_stock(order, line)?;
        let amount = price * i64::from(line.quantity);
        let table = &self.tables.order_line;
        let row = self.buffers.new_row(table.words);
        table.order.put(row, order.id);
        table.district.put(row, order.district);
        table.warehouse.put(row, order.warehouse);
        table.number.put(row, number);
        table.item.put(row, line.item);
        table.supply_warehouse.put(row, line.supply_warehouse);
        table.delivered.put(row, crate::serial::layout::Long::NULL);
        table.quantity.put(row, line.quantity.into());
        table.amount.put(row, amount);
        table.dist_info.put_raw(row, &taken.dist_info);
        self.transaction.insert(table.relation, row, &[keys::order_line(order.key(), number)])?;
        Ok(Some(OrderLineOutput {
            item_name,
            stock_quantity: taken.left,
            brand: if item_is_original && taken.is_original { 'B' } else { 'G' },
            price_cents: price.into(),
            amount_cents: amount.into(),
        }))
    }

    /// Lowers the stock, restocking by 91 when fewer than ten would be left.
    fn take_from_stock(&mut self, order: &Order, line: &OrderLineInput) -> Result<Taken> {
        let table = &self.tables.stock;
        let mut stock = self.change_by_key(table.relation, keys::stock(line.supply_warehouse, line.item))?;
        let (quantity, ordered) = (table.quantity.get(&stock), i32::from(line.quantity));
        let left = if quantity >= ordered + 10 { quantity - ordered } else { quantity - ordered + 91 };
        let (ytd, orders) = (table.ytd.get(&stock) + ordered, table.orders.get(&stock) + 1);
        table.quantity.set(&mut stock, left);
        table.ytd.set(&mut stock, ytd);
        table.orders.set(&mut stock, orders);
        if line.supply_warehouse != order.warehouse {
            let remote = table.remote.get(&stock) + 1;
            table.remote.set(&mut stock, remote);
        }
        Ok(Taken {
            left: left as i16,
            dist_info: table.dist[order.district as usize - 1].raw(&stock),
            is_original: is_original(table.data.read(&stock, &mut [0; 56])),
        })
    }
}
