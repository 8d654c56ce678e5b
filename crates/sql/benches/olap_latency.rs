//! The eight analytical queries of AnKer (Figure 5) over order lines, orders, stock and so on in TPC-C's shape, on
//! the idle database, next to the same queries over DataFusion's own in-memory tables. First on one snapshot for
//! all rounds, then on a fresh snapshot for each, which has to copy the blocks that are not full.
//!
//! `cargo bench --workspace --bench olap_latency -- WAREHOUSES ROUNDS THREADS [QUERY]`; with `EXPLAIN` set, plans as
//! well.

use ankerdb_engine::{
    ColumnDefinition, DataType, Database, Decimal, Isolation, ReadView, Result, TableDefinition, Value,
};
use ankerdb_sql::{AnalyticalQuery, SqlEngine, SqlOptions};
use std::time::Instant;

const QUERIES: [&str; 8] = [
    "select w_id, count(*) from warehouse, stock where w_id = s_w_id group by w_id",
    "select ol_d_id, avg(ol_amount) from order_line group by ol_d_id",
    "select ol_w_id, sum(ol_quantity), avg(ol_amount) from order_line group by ol_w_id",
    "select * from orders",
    "select * from new_order",
    "select avg(d_tax), avg(d_ytd) from district",
    "select avg(ol_amount) from order_line",
    "select avg(s_quantity) from stock",
];

fn main() -> Result<()> {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .map(|argument| argument.parse().expect("a number"));
    let mut next = |default: usize| arguments.next().unwrap_or(default);
    let (warehouses, rounds, threads, only) = (next(4), next(30), next(2), next(0));
    let database = Database::new();
    load(&database, warehouses as i32)?;
    let sql =
        SqlEngine::new(database.clone(), SqlOptions { olap_threads: threads, memory_limit_bytes: 1 << 30 })?;
    let view = database.snapshot().read_view();
    let names = ["warehouse", "district", "stock", "orders", "new_order", "order_line"];
    let baseline = sql.memory_baseline(&view, &names)?;
    println!("query      ours us  baseline us   ratio     fresh us  baseline us   ratio");
    for (number, text) in QUERIES.iter().enumerate().filter(|(number, _)| only == 0 || number + 1 == only) {
        let (ours, theirs) = (sql.plan(text)?, baseline.plan(text)?);
        if std::env::var_os("EXPLAIN").is_some() {
            println!("{}\n{}", ours.explain()?.join("\n"), theirs.explain()?.join("\n"));
        }
        let (kept, beside_kept) = side_by_side(&ours, &theirs, || view.clone(), rounds)?;
        let (fresh, beside_fresh) = side_by_side(&ours, &theirs, || database.snapshot().read_view(), rounds)?;
        print!("Q{}    {kept:12.0} {beside_kept:12.0} {:7.2}", number + 1, kept / beside_kept);
        println!(" {fresh:12.0} {beside_fresh:12.0} {:7.2}", fresh / beside_fresh);
    }
    Ok(())
}

/// Median times in microseconds, rounds alternating.
fn side_by_side(
    ours: &AnalyticalQuery,
    theirs: &AnalyticalQuery,
    view: impl Fn() -> ReadView,
    rounds: usize,
) -> Result<(f64, f64)> {
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = Instant::now();
        std::hint::black_box(ours.run(&view())?);
        our_times.push(start.elapsed());
        let start = Instant::now();
        std::hint::black_box(theirs.run(&view())?);
        their_times.push(start.elapsed());
    }
    let median = |times: &mut Vec<std::time::Duration>| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e6
    };
    Ok((median(&mut our_times), median(&mut their_times)))
}

fn numeric(precision: u8, scale: u8) -> DataType {
    DataType::Numeric { precision, scale }
}

/// Tables with the columns that matter here, and TPC-C's numbers of rows.
#[expect(clippy::too_many_lines, reason = "a list of tables with their columns and rows")]
fn load(database: &Database, warehouses: i32) -> Result<()> {
    let table = |name: &str, columns: &[(&str, DataType)]| {
        let definition = TableDefinition::new(name);
        columns.iter().fold(definition, |definition, (name, data_type)| {
            definition.column(ColumnDefinition::new(*name, *data_type))
        })
    };
    use DataType::*;
    let decimal = |unscaled: i32, scale| Value::Numeric(Decimal::new(unscaled.into(), scale));
    let small = |value: i32| Value::SmallInt(value as i16);

    let columns =
        [("w_id", SmallInt), ("w_name", Varchar(10)), ("w_tax", numeric(4, 4)), ("w_ytd", numeric(12, 2))];
    fill(database, table("warehouse", &columns), warehouses, |row| {
        vec![small(row + 1), Value::text("name"), decimal(row, 4), decimal(30_000_000, 2)]
    })?;
    let columns =
        [("d_id", SmallInt), ("d_w_id", SmallInt), ("d_tax", numeric(4, 4)), ("d_ytd", numeric(12, 2))];
    fill(database, table("district", &columns), warehouses * 10, |row| {
        vec![small(row % 10 + 1), small(row / 10 + 1), decimal(row, 4), decimal(3_000_000 + row, 2)]
    })?;
    let columns =
        [("s_i_id", Integer), ("s_w_id", SmallInt), ("s_quantity", SmallInt), ("s_dist_01", Char(24))];
    fill(database, table("stock", &columns), warehouses * 100_000, |row| {
        let distribution = Value::text("twenty-four characters..");
        vec![Value::Integer(row % 100_000), small(row / 100_000 + 1), small(10 + row % 91), distribution]
    })?;
    let columns = [
        ("o_id", Integer),
        ("o_d_id", SmallInt),
        ("o_w_id", SmallInt),
        ("o_c_id", Integer),
        ("o_entry_d", DataType::TIMESTAMP),
        ("o_carrier_id", SmallInt),
        ("o_ol_cnt", SmallInt),
        ("o_all_local", SmallInt),
    ];
    fill(database, table("orders", &columns), warehouses * 30_000, |row| {
        let entry = Value::Timestamp(1_600_000_000_000_000 + i64::from(row));
        let district = small(row / 3000 % 10 + 1);
        vec![
            Value::Integer(row % 3000),
            district,
            small(row / 30_000 + 1),
            Value::Integer(row % 3000),
            entry,
            small(row % 10),
            small(5 + row % 11),
            small(1),
        ]
    })?;
    let columns = [("no_o_id", Integer), ("no_d_id", SmallInt), ("no_w_id", SmallInt)];
    fill(database, table("new_order", &columns), warehouses * 9_000, |row| {
        vec![Value::Integer(row % 900), small(row / 900 % 10 + 1), small(row / 9000 + 1)]
    })?;
    let columns = [
        ("ol_o_id", Integer),
        ("ol_d_id", SmallInt),
        ("ol_w_id", SmallInt),
        ("ol_number", SmallInt),
        ("ol_quantity", SmallInt),
        ("ol_amount", numeric(6, 2)),
        ("ol_dist_info", Char(24)),
    ];
    fill(database, table("order_line", &columns), warehouses * 300_000, |row| {
        let order = row / 10;
        let info = Value::text("twenty-four characters..");
        vec![
            Value::Integer(order % 3000),
            small(order / 3000 % 10 + 1),
            small(order / 30_000 + 1),
            small(row % 10 + 1),
            small(5),
            decimal(row % 999_999, 2),
            info,
        ]
    })
}

fn fill(
    database: &Database,
    definition: TableDefinition,
    rows: i32,
    row: impl Fn(i32) -> Vec<Value>,
) -> Result<()> {
    let table = database.create_table(definition)?;
    let mut session = database.session();
    for start in (0..rows).step_by(8192) {
        let end = rows.min(start + 8192);
        session.run(Isolation::RepeatableRead, |transaction| {
            (start..end).try_for_each(|number| transaction.insert(&table, row(number)).map(drop))
        })?;
    }
    Ok(())
}
