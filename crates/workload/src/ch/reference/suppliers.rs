//! Queries about suppliers, and nations.

use super::dates::{midnight, year};
use super::rows::{Place, SnapshotRows, StockRow, SupplierRow};
use crate::ch::answer::{ChRow, ChValue};
use ankerdb_engine::Result;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Since when rows count, in most queries.
const BEGIN: i64 = midnight(2007, 1, 2);
/// The last moment that counts, in others.
const END: i64 = midnight(2100, 1, 2);

/// Suppliers, nations and regions by their numbers.
struct World {
    suppliers: HashMap<i32, SupplierRow>,
    /// Name and region.
    nations: HashMap<i32, (String, i32)>,
    regions: HashMap<i32, String>,
}

impl World {
    fn read(rows: &mut SnapshotRows<'_>) -> Result<World> {
        let suppliers = rows.suppliers()?.into_iter().map(|supplier| (supplier.number, supplier)).collect();
        let nations =
            rows.nations()?.into_iter().map(|nation| (nation.number, (nation.name, nation.region))).collect();
        let regions = rows.regions()?.into_iter().map(|region| (region.number, region.name)).collect();
        Ok(World { suppliers, nations, regions })
    }

    fn nation_name(&self, nation: i32) -> Option<&str> {
        Some(&self.nations.get(&nation)?.0)
    }

    fn region_name(&self, nation: i32) -> Option<&str> {
        Some(self.regions.get(&self.nations.get(&nation)?.1)?)
    }

    /// The supplier of a row of STOCK, with the name of the nation.
    fn supplier(&self, stock: &StockRow) -> Option<(&SupplierRow, &str)> {
        let supplier = self.suppliers.get(&stock.supplier())?;
        Some((supplier, self.nation_name(supplier.nation)?))
    }
}

/// STOCK by warehouse and item.
fn stock_by_place(rows: &mut SnapshotRows<'_>) -> Result<HashMap<(i32, i32), StockRow>> {
    Ok(rows.stock()?.into_iter().map(|stock| ((stock.warehouse, stock.item), stock)).collect())
}

/// The numbers of items whose data are as wanted.
fn items_with(rows: &mut SnapshotRows<'_>, is_wanted: fn(&str) -> bool) -> Result<HashSet<i32>> {
    Ok(rows.items()?.iter().filter(|item| is_wanted(&item.data)).map(|item| item.number).collect())
}

pub(super) fn q2(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let world = World::read(rows)?;
    let items: HashMap<i32, String> = rows
        .items()?
        .into_iter()
        .filter(|item| item.data.ends_with('b'))
        .map(|item| (item.number, item.name))
        .collect();
    let mut stock = rows.stock()?;
    stock.retain(|stock| {
        let supplier = world.suppliers.get(&stock.supplier());
        let region = supplier.and_then(|supplier| world.region_name(supplier.nation));
        region.is_some_and(|region| region.starts_with("Europ"))
    });
    let mut least = HashMap::<i32, i16>::new();
    for stock in &stock {
        let least = least.entry(stock.item).or_insert(stock.quantity);
        *least = stock.quantity.min(*least);
    }
    let mut answer = Vec::new();
    for stock in stock.iter().filter(|stock| least[&stock.item] == stock.quantity) {
        if let (Some(name), Some((supplier, nation))) = (items.get(&stock.item), world.supplier(stock)) {
            answer.push(vec![
                ChValue::whole(supplier.number),
                ChValue::text(&supplier.name),
                ChValue::text(nation),
                ChValue::whole(stock.item),
                ChValue::text(name),
                ChValue::text(&supplier.address),
                ChValue::text(&supplier.phone),
                ChValue::text(&supplier.comment),
            ]);
        }
    }
    Ok(answer)
}

pub(super) fn q5(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let world = World::read(rows)?;
    let (customers, orders, stock) =
        (rows.customers_by_place()?, rows.orders_by_place()?, stock_by_place(rows)?);
    let mut groups = BTreeMap::<&str, i64>::new();
    for line in rows.lines()? {
        let Some(order) = orders.get(&line.order).filter(|order| order.entered >= BEGIN) else { continue };
        let Some(customer) = customers.get(&order.customer_place()) else { continue };
        let Some(stock) = stock.get(&(line.order.0, line.item)) else { continue };
        let Some((supplier, nation)) = world.supplier(stock) else { continue };
        if supplier.nation == customer.nation() && world.region_name(supplier.nation) == Some("Europe") {
            *groups.entry(nation).or_default() += line.amount;
        }
    }
    Ok(groups
        .into_iter()
        .map(|(nation, amount)| vec![ChValue::text(nation), ChValue::cents(amount)])
        .collect())
}

pub(super) fn q7(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let world = World::read(rows)?;
    let (customers, orders, stock) =
        (rows.customers_by_place()?, rows.orders_by_place()?, stock_by_place(rows)?);
    let mut groups = BTreeMap::<(i32, &str, i64), i64>::new();
    for line in rows.lines()? {
        if line.delivered.is_none_or(|date| !(BEGIN..=END).contains(&date)) {
            continue;
        }
        let Some(order) = orders.get(&line.order) else { continue };
        let Some(customer) = customers.get(&order.customer_place()) else { continue };
        let Some(stock) = stock.get(&(line.supply_warehouse, line.item)) else { continue };
        let Some((supplier, nation)) = world.supplier(stock) else { continue };
        let pair = (nation, world.nation_name(customer.nation()).unwrap_or_default());
        if pair == ("Germany", "Cambodia") || pair == ("Cambodia", "Germany") {
            let group = (supplier.nation, customer.letter(), year(order.entered));
            *groups.entry(group).or_default() += line.amount;
        }
    }
    let row = |((nation, letter, year), amount): ((i32, &str, i64), i64)| {
        vec![ChValue::whole(nation), ChValue::text(letter), ChValue::whole(year), ChValue::cents(amount)]
    };
    Ok(groups.into_iter().map(row).collect())
}

pub(super) fn q8(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let world = World::read(rows)?;
    let items = items_with(rows, |data| data.ends_with('b'))?;
    let (customers, orders, stock) =
        (rows.customers_by_place()?, rows.orders_by_place()?, stock_by_place(rows)?);
    // Of Germany, and of all.
    let mut groups = BTreeMap::<i64, (i64, i64)>::new();
    for line in rows.lines()? {
        if line.item >= 1000 || !items.contains(&line.item) {
            continue;
        }
        let Some(order) = orders.get(&line.order) else { continue };
        let Some(customer) = customers.get(&order.customer_place()) else { continue };
        let Some(stock) = stock.get(&(line.supply_warehouse, line.item)) else { continue };
        let Some((_, nation)) = world.supplier(stock) else { continue };
        let is_european = world.region_name(customer.nation()) == Some("Europe");
        if is_european && (BEGIN..=END).contains(&order.entered) {
            let (german, all) = groups.entry(year(order.entered)).or_default();
            *german += if nation == "Germany" { line.amount } else { 0 };
            *all += line.amount;
        }
    }
    let share = |(year, (german, all)): (i64, (i64, i64))| {
        vec![ChValue::whole(year), ChValue::Ratio(german as f64 / all as f64)]
    };
    Ok(groups.into_iter().map(share).collect())
}

pub(super) fn q9(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let world = World::read(rows)?;
    let items = items_with(rows, |data| data.ends_with("BB"))?;
    let (orders, stock) = (rows.orders_by_place()?, stock_by_place(rows)?);
    let mut groups = BTreeMap::<(&str, i64), i64>::new();
    for line in rows.lines()?.iter().filter(|line| items.contains(&line.item)) {
        let Some(order) = orders.get(&line.order) else { continue };
        let Some(stock) = stock.get(&(line.supply_warehouse, line.item)) else { continue };
        let Some((_, nation)) = world.supplier(stock) else { continue };
        *groups.entry((nation, year(order.entered))).or_default() += line.amount;
    }
    let row = |((nation, year), amount): ((&str, i64), i64)| {
        vec![ChValue::text(nation), ChValue::whole(year), ChValue::cents(amount)]
    };
    Ok(groups.into_iter().map(row).collect())
}

pub(super) fn q11(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let world = World::read(rows)?;
    let mut groups = BTreeMap::<i32, i64>::new();
    for stock in rows.stock()? {
        if world.supplier(&stock).is_some_and(|(_, nation)| nation == "Germany") {
            *groups.entry(stock.item).or_default() += i64::from(stock.orders);
        }
    }
    let all: i64 = groups.values().sum();
    // More than five thousandths.
    let counted = groups.into_iter().filter(|(_, orders)| orders * 200 > all);
    Ok(counted.map(|(item, orders)| vec![ChValue::whole(item), ChValue::whole(orders)]).collect())
}

pub(super) fn q15(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let stock = stock_by_place(rows)?;
    let mut revenue = HashMap::<i32, i64>::new();
    for line in rows.lines()?.iter().filter(|line| line.delivered.is_some_and(|date| date >= BEGIN)) {
        if let Some(stock) = stock.get(&(line.supply_warehouse, line.item)) {
            *revenue.entry(stock.supplier()).or_default() += line.amount;
        }
    }
    let Some(&most) = revenue.values().max() else { return Ok(Vec::new()) };
    let mut suppliers = rows.suppliers()?;
    suppliers.retain(|supplier| revenue.get(&supplier.number) == Some(&most));
    let row = |supplier: &SupplierRow| {
        vec![
            ChValue::whole(supplier.number),
            ChValue::text(&supplier.name),
            ChValue::text(&supplier.address),
            ChValue::text(&supplier.phone),
            ChValue::cents(most),
        ]
    };
    Ok(suppliers.iter().map(row).collect())
}

pub(super) fn q16(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let suppliers = rows.suppliers()?;
    let bad: HashSet<i32> = suppliers
        .iter()
        .filter(|supplier| supplier.comment.contains("bad"))
        .map(|supplier| supplier.number)
        .collect();
    let mut items = rows.items()?;
    items.retain(|item| !item.data.starts_with("zz"));
    let items: HashMap<i32, _> = items.iter().map(|item| (item.number, item)).collect();
    let mut groups = HashMap::<(&str, &str, i64), HashSet<i32>>::new();
    for stock in rows.stock()? {
        let supplier = stock.supplier();
        if let (Some(item), false) = (items.get(&stock.item), bad.contains(&supplier)) {
            groups.entry((&item.name, &item.data[..3], item.price)).or_default().insert(supplier);
        }
    }
    let row = |((name, brand, price), suppliers): ((&str, &str, i64), HashSet<i32>)| {
        vec![
            ChValue::text(name),
            ChValue::text(brand),
            ChValue::cents(price),
            ChValue::whole(suppliers.len() as i64),
        ]
    };
    Ok(groups.into_iter().map(row).collect())
}

pub(super) fn q20(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let noon = midnight(2010, 5, 23) + 12 * 3600 * 1_000_000;
    let world = World::read(rows)?;
    let items = items_with(rows, |data| data.starts_with("co"))?;
    // Quantities delivered by any warehouse, of items of which there was any.
    let mut delivered = HashMap::<i32, i64>::new();
    for line in rows.lines()?.iter().filter(|line| items.contains(&line.item)) {
        if line.delivered.is_some_and(|date| date > noon) {
            *delivered.entry(line.item).or_default() += i64::from(line.quantity);
        }
    }
    let mut stock = rows.stock()?;
    stock.retain(|stock| {
        delivered.get(&stock.item).is_some_and(|delivered| 2 * i64::from(stock.quantity) > *delivered)
    });
    let wanted: HashSet<i32> = stock.iter().map(StockRow::supplier).collect();
    let counted = world.suppliers.values().filter(|supplier| {
        wanted.contains(&supplier.number) && world.nation_name(supplier.nation) == Some("Germany")
    });
    Ok(counted
        .map(|supplier| vec![ChValue::text(&supplier.name), ChValue::text(&supplier.address)])
        .collect())
}

pub(super) fn q21(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let world = World::read(rows)?;
    let (orders, stock) = (rows.orders_by_place()?, stock_by_place(rows)?);
    let lines = rows.lines()?;
    let mut last_delivery = HashMap::<Place, i64>::new();
    for line in &lines {
        if let Some(delivered) = line.delivered {
            let last = last_delivery.entry(line.order).or_insert(delivered);
            *last = delivered.max(*last);
        }
    }
    let mut groups = BTreeMap::<&str, i64>::new();
    for line in &lines {
        let Some(delivered) = line.delivered else { continue };
        let Some(order) = orders.get(&line.order) else { continue };
        let Some(stock) = stock.get(&(line.order.0, line.item)) else { continue };
        let Some((supplier, nation)) = world.supplier(stock) else { continue };
        let is_last = last_delivery[&line.order] == delivered;
        if delivered > order.entered && is_last && nation == "Germany" {
            *groups.entry(&supplier.name).or_default() += 1;
        }
    }
    Ok(groups.into_iter().map(|(name, count)| vec![ChValue::text(name), ChValue::whole(count)]).collect())
}
