//! What queries must answer, known without running them.
//!
//! Three kinds of knowledge, which TPC-C's transactions keep true in every state that a snapshot can show:
//!
//! - **Constants**: warehouses, districts and stock are neither inserted nor deleted, and no transaction changes a tax. So
//!   the groups of Q1, Q2 and Q3, the counts of Q1, and the average of D_TAX are known, and averages of amounts and
//!   quantities have bounds.
//! - **Floors**: orders are only added, and sums of payments and quantities only grow. A query must show at least what was
//!   there when the stream began and what clients were told to be committed before the query began: freshness, in the very
//!   rows that the query reads.
//! - **Equations** between [`Sums`] of one state: W_YTD = D_YTD and four more, and that the answer of a query on the same
//!   snapshot is the same sum. Orders, lines, stock, districts and warehouses are written by the same transactions in
//!   different columns, so a snapshot whose columns are of different times breaks them.
//!
//! Only the mix of the papers is meant: New-Order, Payment, Order-Status. Delivery would remove new orders.

use super::acknowledged::Acknowledged;
use super::marker;
use crate::tpcc::load::{DISTRICTS, ITEMS};
use crate::tpcc::schema::{TpccTables, district, warehouse};
use ankerdb_engine::{Error, ReadView, Result, Table};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::record_batch::RecordBatch;
use std::fmt::Write as _;
use std::sync::Arc;

/// The largest amount of an order line.
const AMOUNT_MAX: f64 = 9_999.99;
/// Bounds of S_QUANTITY: New-Order fills up what would fall below ten, and nothing is above a hundred.
const QUANTITIES: (f64, f64) = (10.0, 100.0);
/// How far a constant may be from itself after being divided.
const TOLERANCE: f64 = 1e-9;

/// The names of the fields of [`Sums`], in order.
const SUMS: [(&str, &str); 9] = [
    ("sum(w_ytd) * 100", "warehouse"),
    ("sum(d_ytd) * 100", "district"),
    ("sum(d_next_o_id) - count(*)", "district"),
    ("count(*)", "orders"),
    ("count(*)", "new_order"),
    ("sum(o_ol_cnt)", "orders"),
    ("count(*)", "order_line"),
    ("sum(ol_quantity)", "order_line"),
    ("sum(s_ytd)", "stock"),
];

/// Sums over the tables in one state. Money is in cents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Of W_YTD.
    pub warehouse_ytd: i64,
    /// Of D_YTD.
    pub district_ytd: i64,
    /// Of D_NEXT_O_ID - 1.
    pub order_numbers: i64,
    /// Rows of ORDER.
    pub orders: i64,
    /// Rows of NEW-ORDER.
    pub new_orders: i64,
    /// Of O_OL_CNT.
    pub lines_of_orders: i64,
    /// Rows of ORDER-LINE.
    pub lines: i64,
    /// Of OL_QUANTITY.
    pub quantity: i64,
    /// Of S_YTD.
    pub stock_ytd: i64,
    /// The marker's value.
    pub marker: i64,
}

impl Sums {
    /// One query for all of them, so that they are of one state wherever it runs.
    pub fn sql() -> String {
        let mut sql = String::new();
        for (number, (sum, table)) in SUMS.iter().enumerate() {
            let _ = write!(
                sql,
                "select cast({number} as bigint) as number, cast({sum} as bigint) as total from {table} union all "
            );
        }
        sql + &format!("select cast({} as bigint), value from {} where id = 1", SUMS.len(), marker::NAME)
    }

    /// Reads the answer to [`sql`](Self::sql).
    ///
    /// # Errors
    /// XX000 for an answer of another form.
    pub fn of(batches: &[RecordBatch]) -> Result<Sums> {
        let mut totals = [None; SUMS.len() + 1];
        for (number, total) in numbers(batches, 0)?.into_iter().zip(numbers(batches, 1)?) {
            if let Some(place) = totals.get_mut(number as usize) {
                *place = Some(total as i64);
            }
        }
        let of = |place: usize| {
            totals[place].ok_or_else(|| {
                Error::internal(format!("the sums over the tables are not complete: {totals:?}"))
            })
        };
        Ok(Sums {
            warehouse_ytd: of(0)?,
            district_ytd: of(1)?,
            order_numbers: of(2)?,
            orders: of(3)?,
            new_orders: of(4)?,
            lines_of_orders: of(5)?,
            lines: of(6)?,
            quantity: of(7)?,
            stock_ytd: of(8)?,
            marker: of(9)?,
        })
    }

    /// The first of the equations that does not hold.
    pub fn violation(&self, kept: &KeptDifferences) -> Option<String> {
        let delivered = self.orders - self.new_orders;
        let equations = [
            ("sum(w_ytd) in cents", self.warehouse_ytd, "sum(d_ytd)", self.district_ytd),
            ("rows of orders", self.orders, "sum(d_next_o_id - 1)", self.order_numbers),
            ("orders not in new_order", delivered, "those loaded", kept.delivered.unwrap_or(delivered)),
            ("rows of order_line", self.lines, "sum(o_ol_cnt)", self.lines_of_orders),
            (
                "sum(ol_quantity) - sum(s_ytd)",
                self.quantity - self.stock_ytd,
                "the quantity loaded",
                kept.quantity_loaded,
            ),
        ];
        let (left, value, right, other) = equations.into_iter().find(|(_, left, _, right)| left != right)?;
        Some(format!("{left} is {value}, {right} is {other}"))
    }

    /// What they should show and do not, because they are older than what was acknowledged. New orders may have been delivered.
    pub fn missed(&self, floor: &Floor) -> Option<String> {
        let shown = Answer {
            orders: Some(self.orders),
            new_orders: None,
            quantity: Some(self.quantity),
            district_ytd: Some(self.district_ytd),
        };
        shown.missed(floor)
    }
}

/// Differences between sums that transactions keep.
#[derive(Clone, Copy, Debug)]
pub struct KeptDifferences {
    /// Orders that are not in NEW-ORDER; not kept where there are Deliveries.
    delivered: Option<i64>,
    /// OL_QUANTITY of orders that the loader made: they are not in S_YTD.
    quantity_loaded: i64,
}

impl KeptDifferences {
    /// From an idle database.
    pub fn of(sums: &Sums, has_deliveries: bool) -> KeptDifferences {
        KeptDifferences {
            delivered: (!has_deliveries).then_some(sums.orders - sums.new_orders),
            quantity_loaded: sums.quantity - sums.stock_ytd,
        }
    }
}

/// The least that a query that begins now must show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    orders: i64,
    new_orders: i64,
    quantity: i64,
    district_ytd: i64,
}

impl Floor {
    /// After `begin`, when nothing ran, this much was acknowledged.
    pub fn of(begin: &Sums, since: Acknowledged) -> Floor {
        Floor {
            orders: begin.orders + since.orders,
            new_orders: begin.new_orders + since.orders,
            quantity: begin.quantity + since.quantity,
            district_ytd: begin.district_ytd + since.paid,
        }
    }
}

/// Constants of a loaded database.
#[derive(Clone, Copy, Debug)]
pub struct LoadedConstants {
    warehouses: usize,
    /// The average of D_TAX.
    tax: f64,
    kept: KeptDifferences,
}

/// What the answer of one of the eight queries tells about the state that it was computed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    orders: Option<i64>,
    new_orders: Option<i64>,
    quantity: Option<i64>,
    district_ytd: Option<i64>,
}

impl LoadedConstants {
    /// From an idle database: its sums, and the answer to Q6.
    ///
    /// # Errors
    /// XX000 if the sums contradict each other.
    pub fn of(warehouses: usize, sums: &Sums, sixth: &[RecordBatch]) -> Result<LoadedConstants> {
        let tax = single(sixth, 0)?;
        let known = LoadedConstants { warehouses, tax, kept: KeptDifferences::of(sums, false) };
        match known.violation(sums) {
            Some(violation) => Err(Error::internal(format!("the loaded tables are wrong: {violation}"))),
            None => Ok(known),
        }
    }

    /// The first of the equations that does not hold.
    pub fn violation(&self, sums: &Sums) -> Option<String> {
        sums.violation(&self.kept)
    }

    /// Reads the answer of a query, by its position in [`QUERIES`](super::queries::QUERIES). The text describes errors that
    /// do not depend on transactions.
    ///
    /// # Errors
    /// XX000 for an answer of another form.
    pub fn read(&self, query: usize, batches: &[RecordBatch]) -> Result<std::result::Result<Answer, String>> {
        let mut answer = Answer::default();
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let counted = |expected: usize| (rows != expected).then(|| format!("{rows} rows, not {expected}"));
        let amounts = |column| within(batches, column, (0.0, AMOUNT_MAX));
        let wrong = match query {
            0 => counted(self.warehouses).or(within(batches, 1, (f64::from(ITEMS), f64::from(ITEMS)))?),
            1 => counted(DISTRICTS as usize).or(amounts(1)?),
            2 => {
                answer.quantity = Some(numbers(batches, 1)?.iter().sum::<f64>() as i64);
                counted(self.warehouses).or(amounts(2)?)
            }
            3 => {
                answer.orders = Some(rows as i64);
                None
            }
            4 => {
                answer.new_orders = Some(rows as i64);
                None
            }
            5 => {
                let districts = (self.warehouses * DISTRICTS as usize) as f64;
                answer.district_ytd = Some((single(batches, 1)? * districts * 100.0).round() as i64);
                counted(1).or(within(batches, 0, (self.tax - TOLERANCE, self.tax + TOLERANCE))?)
            }
            6 => counted(1).or(amounts(0)?),
            _ => counted(1).or(within(batches, 0, QUANTITIES)?),
        };
        Ok(wrong.map_or(Ok(answer), Err))
    }
}

impl Answer {
    /// What it should show and does not, because the answer is older than the query.
    pub fn missed(&self, floor: &Floor) -> Option<String> {
        let shown = [
            ("orders", self.orders, floor.orders),
            ("new orders", self.new_orders, floor.new_orders),
            ("sum(ol_quantity)", self.quantity, floor.quantity),
            ("sum(d_ytd) in cents", self.district_ytd, floor.district_ytd),
        ];
        let (what, shown, floor) = shown
            .into_iter()
            .find_map(|(what, shown, floor)| Some((what, shown.filter(|shown| *shown < floor)?, floor)))?;
        Some(format!("{shown} {what}, but {floor} were acknowledged before the query began"))
    }

    /// Its differences from the sums of the same state.
    pub fn differs(&self, sums: &Sums) -> Option<String> {
        let pairs = [
            ("orders", self.orders, sums.orders),
            ("new orders", self.new_orders, sums.new_orders),
            ("sum(ol_quantity)", self.quantity, sums.quantity),
            ("sum(d_ytd) in cents", self.district_ytd, sums.warehouse_ytd),
        ];
        let (what, shown, sum) = pairs
            .into_iter()
            .find_map(|(what, shown, sum)| Some((what, shown.filter(|shown| *shown != sum)?, sum)))?;
        Some(format!("{shown} {what}, but {sum} in another query on the same snapshot"))
    }
}

/// A column of the answer, as numbers.
fn numbers(batches: &[RecordBatch], column: usize) -> Result<Vec<f64>> {
    let mut numbers = Vec::new();
    for batch in batches {
        let missing = || Error::internal(format!("an answer has no column {column}"));
        let array = batch.columns().get(column).ok_or_else(missing)?;
        let array = cast(array, &DataType::Float64)
            .map_err(|error| Error::internal(format!("an answer is no number: {error}")))?;
        // NULL is no number that anything equals.
        numbers.extend(array.as_primitive::<Float64Type>().iter().map(|number| number.unwrap_or(f64::NAN)));
    }
    Ok(numbers)
}

/// The only number of a column.
fn single(batches: &[RecordBatch], column: usize) -> Result<f64> {
    numbers(batches, column)?.first().copied().ok_or_else(|| Error::internal("an answer has no row"))
}

/// A number that is out of bounds.
fn within(batches: &[RecordBatch], column: usize, bounds: (f64, f64)) -> Result<Option<String>> {
    let outside = |number: &f64| !(bounds.0..=bounds.1).contains(number);
    let found = numbers(batches, column)?.into_iter().find(outside);
    Ok(found.map(|number| format!("{number} is not from {} to {}", bounds.0, bounds.1)))
}

/// W_YTD and D_YTD of all rows, added up, of a snapshot: a read of few rows that Payments change all the time. Cents.
///
/// # Errors
/// The database's.
pub fn read_ytd(view: &ReadView, tables: &TpccTables) -> Result<(i64, i64)> {
    let of_warehouses = sum_of_words(view, &tables.warehouse, warehouse::W_YTD)?;
    let of_districts = sum_of_words(view, &tables.district, district::D_YTD)?;
    view.check().map(|()| (of_warehouses, of_districts))
}

/// The sum of a column that is stored in words and forbids NULL.
pub(super) fn sum_of_words(view: &ReadView, table: &Arc<Table>, column: usize) -> Result<i64> {
    let mut sum = 0;
    for part in 0..view.parts(table) {
        let image = view.read(table, part, &[column])?;
        let exists =
            |row: usize| image.selection.as_ref().is_none_or(|bits| bits[row / 64] >> (row % 64) & 1 == 1);
        let words = image.columns[0].words().iter().take(image.rows).enumerate();
        sum += words.filter(|(row, _)| exists(*row)).map(|(_, word)| *word as i64).sum::<i64>();
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array};

    fn batch(columns: Vec<ArrayRef>) -> Vec<RecordBatch> {
        let named = columns.into_iter().enumerate().map(|(place, column)| (place.to_string(), column));
        vec![RecordBatch::try_from_iter(named).expect("columns of one length")]
    }

    fn bigints(values: &[i64]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    const LOADED: Sums = Sums {
        warehouse_ytd: 60_000_000,
        district_ytd: 60_000_000,
        order_numbers: 60_000,
        orders: 60_000,
        new_orders: 18_000,
        lines_of_orders: 600_000,
        lines: 600_000,
        quantity: 3_000_000,
        stock_ytd: 0,
        marker: 0,
    };

    fn sixth(ytd_cents: i64) -> Vec<RecordBatch> {
        let average = Decimal128Array::from(vec![i128::from(ytd_cents) * 10_i128.pow(14) / 20])
            .with_precision_and_scale(38, 16)
            .expect("it fits");
        batch(vec![Arc::new(Float64Array::from(vec![0.0987])), Arc::new(average)])
    }

    fn known() -> LoadedConstants {
        LoadedConstants::of(2, &LOADED, &sixth(60_000_000)).expect("the sums are right")
    }

    fn read(query: usize, batches: &[RecordBatch]) -> std::result::Result<Answer, String> {
        known().read(query, batches).expect("it can be read")
    }

    #[test]
    fn sums_are_read_in_any_order_and_must_be_complete() {
        let totals = [60_000_000, 60_000_000, 60_000, 60_000, 18_000, 600_000, 600_000, 3_000_000, 0, 7];
        let numbers: Vec<i64> = (0..10).rev().collect();
        let reversed: Vec<i64> = totals.iter().rev().copied().collect();
        let sums = Sums::of(&batch(vec![bigints(&numbers), bigints(&reversed)])).expect("it is complete");
        assert_eq!(sums, Sums { marker: 7, ..LOADED });
        let cut = Sums::of(&batch(vec![bigints(&numbers[1..]), bigints(&reversed[1..])]));
        assert!(cut.expect_err("one is missing").to_string().contains("not complete"));
        assert_eq!(Sums::sql().matches("union all").count(), 9);
    }

    #[test]
    fn what_transactions_keep_holds_and_columns_of_different_times_break_it() {
        let later = Sums {
            warehouse_ytd: LOADED.warehouse_ytd + 500,
            district_ytd: LOADED.district_ytd + 500,
            order_numbers: LOADED.order_numbers + 1,
            orders: LOADED.orders + 1,
            new_orders: LOADED.new_orders + 1,
            lines_of_orders: LOADED.lines_of_orders + 9,
            lines: LOADED.lines + 9,
            quantity: LOADED.quantity + 45,
            stock_ytd: 45,
            marker: 3,
        };
        assert_eq!(known().violation(&later), None);
        let stale: [fn(&mut Sums); 9] = [
            |sums| sums.warehouse_ytd = LOADED.warehouse_ytd,
            |sums| sums.district_ytd = LOADED.district_ytd,
            |sums| sums.order_numbers = LOADED.order_numbers,
            |sums| sums.orders = LOADED.orders,
            |sums| sums.new_orders = LOADED.new_orders,
            |sums| sums.lines_of_orders = LOADED.lines_of_orders,
            |sums| sums.lines = LOADED.lines,
            |sums| sums.quantity = LOADED.quantity,
            |sums| sums.stock_ytd = LOADED.stock_ytd,
        ];
        for (number, stale) in stale.into_iter().enumerate() {
            let mut sums = later;
            stale(&mut sums);
            assert!(known().violation(&sums).is_some(), "sum {number}");
        }
    }

    #[test]
    fn wrong_answers_are_found_in_every_query() {
        let doubles = |values: &[f64]| -> ArrayRef { Arc::new(Float64Array::from(values.to_vec())) };
        let (two, ten) = (bigints(&[1, 2]), bigints(&[0; 10]));
        for (query, right, wrong) in [
            (0, vec![two.clone(), bigints(&[100_000; 2])], vec![two.clone(), bigints(&[100_000, 99_999])]),
            (1, vec![ten.clone(), doubles(&[40.0; 10])], vec![two.clone(), doubles(&[40.0; 2])]),
            (
                2,
                vec![two.clone(), bigints(&[50, 60]), doubles(&[1.0, 2.0])],
                vec![two.clone(), bigints(&[50, 60]), doubles(&[1.0, -2.0])],
            ),
            (6, vec![doubles(&[3.5])], vec![doubles(&[f64::NAN])]),
            (7, vec![doubles(&[55.0])], vec![doubles(&[9.0])]),
        ] {
            assert!(read(query, &batch(right)).is_ok(), "query {query}");
            assert!(read(query, &batch(wrong)).is_err(), "query {query}");
        }
        let mut other_tax = sixth(60_000_000);
        other_tax = batch(vec![doubles(&[0.0988]), other_tax[0].column(1).clone()]);
        assert!(read(5, &sixth(60_000_000)).is_ok() && read(5, &other_tax).is_err());
    }

    #[test]
    fn answers_older_than_what_was_acknowledged_are_told() {
        let rows = |count: usize| batch(vec![Arc::new(Int32Array::from(vec![0; count])) as ArrayRef]);
        let begin = Sums { orders: 100, new_orders: 30, quantity: 500, district_ytd: 60_000_000, ..LOADED };
        let floor = Floor::of(&begin, Acknowledged { orders: 5, quantity: 20, paid: 250 });
        let quantity = |sum| batch(vec![bigints(&[1, 2]), bigints(&[sum, 0]), bigints(&[1, 1])]);
        for (query, fresh, stale) in [
            (3, rows(105), rows(104)),
            (4, rows(35), rows(34)),
            (2, quantity(520), quantity(519)),
            (5, sixth(60_000_250), sixth(60_000_249)),
        ] {
            assert_eq!(read(query, &fresh).expect("it is right").missed(&floor), None, "query {query}");
            let missed = read(query, &stale).expect("it is right").missed(&floor);
            assert!(missed.is_some_and(|text| text.contains("acknowledged before")), "query {query}");
        }
    }

    #[test]
    fn an_answer_is_the_sum_of_its_snapshot() {
        let answer = read(5, &sixth(60_000_123)).expect("it is right");
        let sums = |ytd| Sums { warehouse_ytd: ytd, ..LOADED };
        assert_eq!(answer.differs(&sums(60_000_123)), None);
        assert!(answer.differs(&sums(60_000_122)).is_some_and(|text| text.contains("same snapshot")));
    }
}
