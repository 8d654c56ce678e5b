//! CH-benCHmark's Q1 and Q5 ([texts](crate::ch::queries)), written by hand over a snapshot: the two queries of the HyPer paper.
//!
//! Q1 reads all lines once. Q5 has two plans:
//!
//! ```text
//! indexes     orders ── customer ── lines of the order ── stock        each by its key, one order after the other
//! none        customers, orders, stock into hash tables, in this order; then all lines once, which look into two of them
//! ```
//!
//! Both read the few suppliers, nations and regions first.

use super::keys;
use super::relations::{PRIMARY, SerialTables};
use crate::ch::answer::{ChRow, ChValue};
use ankerdb_engine::Result;
use ankerdb_serial::{SerialSnapshot, Store, View};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;

/// Tuples between two checks of whether to go on.
const CHECK_EVERY: usize = 4096;
/// 2 January 2007, since when rows count.
const BEGIN: i64 = 13_515 * 86_400 * 1_000_000;
/// OL_NUMBER and above.
const NUMBERS: usize = 16;
/// The region whose nations Q5 is about.
const EUROPE: &str = "Europe";
/// Suppliers are numbered below this.
const SUPPLIERS: i64 = 10_000;

/// Whether to go on; an error ends the query.
pub type Check<'a> = &'a dyn Fn() -> Result<()>;

/// A row of Q1's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Q1Row {
    /// OL_NUMBER
    pub number: i32,
    /// Sum of OL_QUANTITY.
    pub quantity: i64,
    /// Sum of OL_AMOUNT in cents.
    pub amount_cents: i64,
    /// How many lines.
    pub lines: i64,
}

impl Q1Row {
    /// The average of OL_QUANTITY.
    pub fn average_quantity(&self) -> f64 {
        self.quantity as f64 / self.lines as f64
    }

    /// The average of OL_AMOUNT.
    pub fn average_amount(&self) -> f64 {
        self.amount_cents as f64 / 100.0 / self.lines as f64
    }

    /// The row as SQL answers it.
    pub fn to_row(&self) -> ChRow {
        vec![
            ChValue::whole(self.number),
            ChValue::whole(self.quantity),
            ChValue::cents(self.amount_cents),
            ChValue::Ratio(self.average_quantity()),
            ChValue::Ratio(self.average_amount()),
            ChValue::whole(self.lines),
        ]
    }
}

/// A row of Q5's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Q5Row {
    /// N_NAME
    pub nation: String,
    /// Sum of OL_AMOUNT in cents.
    pub revenue_cents: i64,
}

impl Q5Row {
    /// The row as SQL answers it.
    pub fn to_row(&self) -> ChRow {
        vec![ChValue::text(&self.nation), ChValue::cents(self.revenue_cents)]
    }
}

/// Q1: delivered lines, by their number.
///
/// # Errors
/// That of `check`.
pub fn q1<S: Store>(
    snapshot: &SerialSnapshot<S>,
    tables: &SerialTables,
    check: Check<'_>,
) -> Result<Vec<Q1Row>> {
    let table = &tables.order_line;
    let mut groups: [Q1Row; NUMBERS] =
        std::array::from_fn(|number| Q1Row { number: number as i32, quantity: 0, amount_cents: 0, lines: 0 });
    scan(snapshot.relation(table.relation), check, |line| {
        // NULL is before all dates.
        if table.delivered.get(line) > BEGIN
            && let Some(group) = groups.get_mut(table.number.get(line) as usize)
        {
            group.quantity += i64::from(table.quantity.get(line));
            group.amount_cents += table.amount.get(line);
            group.lines += 1;
        }
    })?;
    Ok(groups.into_iter().filter(|group| group.lines > 0).collect())
}

/// Q5: revenue where customer and supplier are of one European nation; the largest first. By indexes if the snapshot has them.
///
/// # Errors
/// That of `check`.
pub fn q5<S: Store>(
    snapshot: &SerialSnapshot<S>,
    tables: &SerialTables,
    check: Check<'_>,
) -> Result<Vec<Q5Row>> {
    match snapshot.has_indexes() {
        true => q5_by_indexes(snapshot, tables, check),
        false => q5_by_hash_tables(snapshot, tables, check),
    }
}

/// Shows all tuples.
fn scan(view: &impl View, check: Check<'_>, mut see: impl FnMut(&[AtomicU64])) -> Result<()> {
    let (mut seen, mut goes_on) = (0_usize, Ok(()));
    view.scan(|tuple| {
        see(tuple);
        seen += 1;
        if seen.is_multiple_of(CHECK_EVERY) {
            goes_on = check();
        }
        goes_on.is_ok()
    });
    goes_on
}

/// European suppliers and nations, and what they have sold.
struct Europe {
    /// Names by the nation's number: the ASCII code of the first letter of its customers' states.
    nations: HashMap<u8, String>,
    /// Nations by the supplier's number.
    suppliers: KeyMap<u8>,
    /// In cents, by nation; `None` of nothing.
    revenue: [Option<i64>; 256],
}

impl Europe {
    fn read<S: Store>(
        snapshot: &SerialSnapshot<S>,
        tables: &SerialTables,
        check: Check<'_>,
    ) -> Result<Europe> {
        let SerialTables { supplier, nation, region, .. } = tables;
        let (mut regions, mut nations, mut suppliers) = (Vec::new(), HashMap::new(), KeyMap::default());
        scan(snapshot.relation(region.relation), check, |tuple| {
            if region.name.read(tuple, &mut [0; 56]) == EUROPE {
                regions.push(region.number.get(tuple));
            }
        })?;
        scan(snapshot.relation(nation.relation), check, |tuple| {
            // No customer lives in a nation with another number.
            if let Ok(number) = u8::try_from(nation.number.get(tuple))
                && regions.contains(&nation.region.get(tuple))
            {
                nations.insert(number, nation.name.read(tuple, &mut [0; 32]).to_owned());
            }
        })?;
        scan(snapshot.relation(supplier.relation), check, |tuple| {
            if let Ok(nation) = u8::try_from(supplier.nation.get(tuple))
                && nations.contains_key(&nation)
            {
                suppliers.insert(keys::number(supplier.number.get(tuple)), nation);
            }
        })?;
        Ok(Europe { nations, suppliers, revenue: [None; 256] })
    }

    /// The nation of who supplies an item to a warehouse.
    fn supplier_nation(&self, warehouse: i32, item: i32) -> Option<u8> {
        let number = i64::from(warehouse) * i64::from(item) % SUPPLIERS;
        self.suppliers.get(&keys::number(number as i32)).copied()
    }

    fn sell(&mut self, nation: u8, cents: i64) {
        *self.revenue[usize::from(nation)].get_or_insert(0) += cents;
    }

    fn answer(self) -> Vec<Q5Row> {
        let mut by_name = BTreeMap::new();
        for (number, name) in self.nations {
            if let Some(cents) = self.revenue[usize::from(number)] {
                *by_name.entry(name).or_insert(0) += cents;
            }
        }
        let row = |(nation, revenue_cents)| Q5Row { nation, revenue_cents };
        let mut rows: Vec<Q5Row> = by_name.into_iter().map(row).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.revenue_cents));
        rows
    }
}

/// Q5 by indexes; empty if the snapshot has none.
///
/// # Errors
/// That of `check`.
pub fn q5_by_indexes<S: Store>(
    snapshot: &SerialSnapshot<S>,
    tables: &SerialTables,
    check: Check<'_>,
) -> Result<Vec<Q5Row>> {
    let mut europe = Europe::read(snapshot, tables, check)?;
    let SerialTables { customer, orders, order_line, stock, .. } = tables;
    // Item and amount of the lines of an order.
    let mut lines = Vec::new();
    scan(snapshot.relation(orders.relation), check, |order| {
        if orders.entered.get(order) < BEGIN {
            return;
        }
        let found = snapshot.find(customer.relation, PRIMARY, orders.customer_key(order));
        let Some(nation) = found.map(|found| customer.state.first_byte(found)) else { return };
        if !europe.nations.contains_key(&nation) {
            return;
        }
        let order_key = orders.key(order);
        lines.clear();
        snapshot.scan_index(order_line.relation, PRIMARY, keys::order_line(order_key, 0), |key, line| {
            if keys::order_of_line(key) != order_key {
                return ControlFlow::Break(());
            }
            lines.push((order_line.item.get(line), order_line.amount.get(line)));
            ControlFlow::Continue(())
        });
        // The stock of a line has its warehouse and item, which tell the supplier: few are looked for.
        let warehouse = orders.warehouse.get(order);
        for &(item, amount) in &lines {
            let is_here = || snapshot.find(stock.relation, PRIMARY, keys::stock(warehouse, item)).is_some();
            if europe.supplier_nation(warehouse, item) == Some(nation) && is_here() {
                europe.sell(nation, amount);
            }
        }
    })?;
    Ok(europe.answer())
}

/// Q5 without indexes.
///
/// # Errors
/// That of `check`.
pub fn q5_by_hash_tables<S: Store>(
    snapshot: &SerialSnapshot<S>,
    tables: &SerialTables,
    check: Check<'_>,
) -> Result<Vec<Q5Row>> {
    let mut europe = Europe::read(snapshot, tables, check)?;
    let SerialTables { customer, orders, order_line, stock, .. } = tables;
    // Nations, by keys.
    let (mut customers, mut european_orders) = (KeyMap::default(), KeyMap::default());
    scan(snapshot.relation(customer.relation), check, |tuple| {
        let nation = customer.state.first_byte(tuple);
        if europe.nations.contains_key(&nation) {
            let (warehouse, district) = (customer.warehouse.get(tuple), customer.district.get(tuple));
            customers.insert(keys::in_district(warehouse, district, customer.number.get(tuple)), nation);
        }
    })?;
    scan(snapshot.relation(orders.relation), check, |order| {
        if orders.entered.get(order) >= BEGIN
            && let Some(nation) = customers.get(&orders.customer_key(order))
        {
            european_orders.insert(orders.key(order), *nation);
        }
    })?;
    drop(customers);
    let mut stocks = KeyMap::default();
    scan(snapshot.relation(stock.relation), check, |tuple| {
        let (warehouse, item) = (stock.warehouse.get(tuple), stock.item.get(tuple));
        if let Some(nation) = europe.supplier_nation(warehouse, item) {
            stocks.insert(keys::stock(warehouse, item), nation);
        }
    })?;
    scan(snapshot.relation(order_line.relation), check, |line| {
        let Some(nation) = european_orders.get(&order_line.order_key(line)) else { return };
        let key = keys::stock(order_line.warehouse.get(line), order_line.item.get(line));
        if stocks.get(&key) == Some(nation) {
            europe.sell(*nation, order_line.amount.get(line));
        }
    })?;
    Ok(europe.answer())
}

/// A hash table by packed keys.
type KeyMap<T> = HashMap<u64, T, BuildHasherDefault<KeyHasher>>;

/// Both halves of a product: the keys are ours, so nobody chooses them to collide.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, key: u64) {
        let product = u128::from(self.0 ^ key ^ 0x517c_c1b7_2722_0a95) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}
