//! The consistency conditions of clauses 3.3.2.1 to 3.3.2.4: what must hold in every state that a
//! serializable database can be in, whatever mix of transactions ran.
//!
//! One transaction at REPEATABLE READ scans the tables once: a consistent image, and nothing to validate.

use super::schema::{Tables, district, new_order, order_line, orders, warehouse};
use ankerdb_engine::{ColumnSet, Database, Isolation, Result, RowId, Table, Transaction};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A condition that does not hold, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The clause, such as `3.3.2.1`.
    pub clause: &'static str,
    /// What was found.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TPC-C consistency condition {} is violated: {}", self.clause, self.message)
    }
}

/// What one district's rows add up to.
#[derive(Default)]
struct District {
    ytd: i128,
    next_order: i32,
    max_order: i32,
    order_lines_expected: i64,
    order_lines: i64,
    /// NEW-ORDER: smallest and largest number, and rows.
    new_orders: Option<(i32, i32, i64)>,
}

type Districts = BTreeMap<(i32, i16), District>;

/// Checks all four conditions as of now; an empty list means that they hold. Reads every order line: about a
/// second for some millions of them.
pub fn check(database: &Database, tables: &Tables) -> Result<Vec<Violation>> {
    let mut session = database.session();
    let mut transaction = session.begin(Isolation::RepeatableRead);
    let mut warehouses = BTreeMap::new();
    let columns = ColumnSet::of(&[warehouse::W_ID, warehouse::W_YTD]);
    scan(&mut transaction, &tables.warehouse, columns, &mut |transaction, row| {
        let table = &tables.warehouse;
        let id = transaction.integer(table, row, warehouse::W_ID);
        warehouses.insert(id, transaction.decimal(table, row, warehouse::W_YTD));
    })?;
    let districts = read_districts(&mut transaction, tables)?;
    transaction.rollback();

    let mut violations = Vec::new();
    check_warehouses(&warehouses, &districts, &mut violations);
    for (&(warehouse, number), district) in &districts {
        check_district(warehouse, number, district, &mut violations);
    }
    Ok(violations)
}

fn scan(
    transaction: &mut Transaction,
    table: &Arc<Table>,
    columns: ColumnSet,
    visit: &mut dyn FnMut(&Transaction, RowId),
) -> Result<()> {
    transaction.scan_table(table, columns, None, &mut |transaction, row| {
        visit(transaction, row);
        Ok(ControlFlow::Continue(()))
    })
}

fn read_districts(transaction: &mut Transaction, tables: &Tables) -> Result<Districts> {
    let mut districts = Districts::new();
    let table = &tables.district;
    scan(transaction, table, ColumnSet::ALL, &mut |transaction, row| {
        let place = place(transaction, table, row, district::D_W_ID, district::D_ID);
        let entry = districts.entry(place).or_default();
        entry.ytd = transaction.decimal(table, row, district::D_YTD);
        entry.next_order = transaction.integer(table, row, district::D_NEXT_O_ID);
    })?;
    let table = &tables.orders;
    scan(transaction, table, ColumnSet::ALL, &mut |transaction, row| {
        let entry =
            districts.entry(place(transaction, table, row, orders::O_W_ID, orders::O_D_ID)).or_default();
        entry.max_order = entry.max_order.max(transaction.integer(table, row, orders::O_ID));
        entry.order_lines_expected += i64::from(transaction.smallint(table, row, orders::O_OL_CNT));
    })?;
    let table = &tables.new_order;
    scan(transaction, table, ColumnSet::ALL, &mut |transaction, row| {
        let place = place(transaction, table, row, new_order::NO_W_ID, new_order::NO_D_ID);
        let order = transaction.integer(table, row, new_order::NO_O_ID);
        let (low, high, rows) =
            districts.entry(place).or_default().new_orders.get_or_insert((order, order, 0));
        *low = order.min(*low);
        *high = order.max(*high);
        *rows += 1;
    })?;
    let table = &tables.order_line;
    let columns = ColumnSet::of(&[order_line::OL_W_ID, order_line::OL_D_ID]);
    scan(transaction, table, columns, &mut |transaction, row| {
        let place = place(transaction, table, row, order_line::OL_W_ID, order_line::OL_D_ID);
        districts.entry(place).or_default().order_lines += 1;
    })?;
    Ok(districts)
}

fn place(
    transaction: &Transaction,
    table: &Arc<Table>,
    row: RowId,
    warehouse: usize,
    district: usize,
) -> (i32, i16) {
    (transaction.integer(table, row, warehouse), transaction.smallint(table, row, district))
}

/// 3.3.2.1: W_YTD = sum(D_YTD).
fn check_warehouses(
    warehouses: &BTreeMap<i32, i128>,
    districts: &Districts,
    violations: &mut Vec<Violation>,
) {
    for (&id, &ytd) in warehouses {
        let sum: i128 =
            districts.range((id, i16::MIN)..=(id, i16::MAX)).map(|(_, district)| district.ytd).sum();
        if ytd != sum {
            let message = format!("warehouse {id} has w_ytd {ytd} cents, its districts have {sum}");
            violations.push(Violation { clause: "3.3.2.1", message });
        }
    }
}

fn check_district(warehouse: i32, number: i16, district: &District, violations: &mut Vec<Violation>) {
    let mut found = |clause, message: String| {
        let message = format!("district {warehouse}/{number} has {message}");
        violations.push(Violation { clause, message });
    };
    // 3.3.2.2: D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID). A district without new orders has no maximum.
    let last = district.next_order - 1;
    if last != district.max_order {
        found("3.3.2.2", format!("d_next_o_id - 1 = {last}, max(o_id) = {}", district.max_order));
    }
    if let Some((low, high, rows)) = district.new_orders {
        if high != last {
            found("3.3.2.2", format!("d_next_o_id - 1 = {last}, max(no_o_id) = {high}"));
        }
        // 3.3.2.3: max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER.
        if i64::from(high) - i64::from(low) + 1 != rows {
            found("3.3.2.3", format!("no_o_id from {low} to {high}, but {rows} rows of new_order"));
        }
    }
    // 3.3.2.4: sum(O_OL_CNT) = rows of ORDER-LINE.
    if district.order_lines_expected != district.order_lines {
        let (expected, rows) = (district.order_lines_expected, district.order_lines);
        found("3.3.2.4", format!("sum(o_ol_cnt) = {expected}, but {rows} rows of order_line"));
    }
}
