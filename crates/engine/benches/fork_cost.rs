//! What a fork costs by the size of the database, with and without leaving columns out.
//!
//! `cargo bench -p ankerdb-engine --bench fork_cost -- 256 1024`: for tables of 25 bigint columns with so many MiB
//! altogether, the median of some forks: the call itself, and how long commits were held, for a child that has
//! all columns, one of them, or none.

use ankerdb_engine::*;
use ankerdb_measure::arguments::arguments;
use ankerdb_measure::latency::median;
use ankerdb_region::fork::spawn;
use std::time::{Duration, Instant};

const COLUMNS: usize = 25;
const ROUNDS: usize = 7;

fn main() -> Result<()> {
    let sizes: Vec<usize> = arguments().filter_map(|size| size.parse().ok()).collect();
    println!("{:>8} {:>14} {:>12} {:>12} {:>12}", "MiB", "in the child", "call us", "held us", "creation us");
    for megabytes in if sizes.is_empty() { vec![256] } else { sizes } {
        let (database, table) = filled(megabytes)?;
        for (name, keep) in
            [("all", ColumnSet::ALL), ("one column", ColumnSet::of(&[3])), ("none", ColumnSet::EMPTY)]
        {
            let runs: Vec<[Duration; 3]> =
                (0..ROUNDS).map(|_| once(&database, &table, keep)).collect::<Result<_>>()?;
            let [call, held, creation] = [0, 1, 2].map(|place| {
                let mut times: Vec<f64> = runs.iter().map(|run| run[place].as_secs_f64() * 1e6).collect();
                median(&mut times).unwrap_or_default()
            });
            println!("{megabytes:>8} {name:>14} {call:>12.0} {held:>12.0} {creation:>12.0}");
        }
    }
    Ok(())
}

fn filled(megabytes: usize) -> Result<(Database, std::sync::Arc<Table>)> {
    let database = Database::open(Configuration::HeeFork)?;
    let columns = (0..COLUMNS).map(|column| ColumnDefinition::new(format!("c{column}"), DataType::BigInt));
    let table = database.create_table(columns.fold(TableDefinition::new("wide"), TableDefinition::column))?;
    let rows = (megabytes << 20) / (8 * COLUMNS);
    let mut session = database.session();
    for begin in (0..rows).step_by(10_000) {
        session.run(Isolation::Serializable, |transaction| {
            (begin..(begin + 10_000).min(rows)).try_for_each(|row| {
                let values = (0..COLUMNS).map(|column| Value::BigInt((row * column) as i64)).collect();
                transaction.insert(&table, values).map(drop)
            })
        })?;
    }
    Ok((database, table))
}

/// The call, the time that commits were held, and everything.
fn once(database: &Database, table: &Table, keep: ColumnSet) -> Result<[Duration; 3]> {
    let begun = Instant::now();
    table.exclude_from_fork(keep)?;
    let since = Instant::now();
    let child = spawn(1 << 20, || database.quiesce(), |_| Ok(()))?;
    let held = since.elapsed();
    table.include_in_fork()?;
    let times = [child.fork_time(), held, begun.elapsed()];
    child.wait(&|| false)?;
    Ok(times)
}
