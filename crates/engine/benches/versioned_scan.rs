//! What a snapshot pays for a block whose rows have all changed since: nanoseconds a row to materialize, the median of
//! some turns. `cargo bench -p ankerdb-engine --bench versioned_scan`

use ankerdb_engine::*;
use ankerdb_measure::latency::median;
use std::time::Instant;

const TURNS: usize = 15;

fn main() -> Result<()> {
    let database = Database::new();
    let mut definition = TableDefinition::new("wide").column(ColumnDefinition::new("id", DataType::Integer));
    for column in 0..8 {
        definition = definition.column(ColumnDefinition::new(format!("c{column}"), DataType::BigInt));
    }
    let table = database.create_table(definition.primary_key(&["id"]))?;
    let rows = 400_000;
    let mut session = database.session();
    for first in (0..rows).step_by(1000) {
        session.run(Isolation::RepeatableRead, |transaction| {
            for id in first..first + 1000 {
                let mut values = vec![Value::Integer(id)];
                values.extend((0..8).map(|_| Value::BigInt(i64::from(id))));
                transaction.insert(&table, values)?;
            }
            Ok(())
        })?;
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let reader = database.snapshot();
    let mut ids: Vec<i32> = (0..rows).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut ids);
    for ids in ids.chunks(500) {
        session.run(Isolation::RepeatableRead, |transaction| {
            for &id in ids {
                let mut key = Vec::new();
                table.index(IndexPosition(0)).encode(&[Value::Integer(id)], &mut key)?;
                let row = transaction
                    .find(&table, IndexPosition(0), &key, ColumnSet::of(&[1]))?
                    .expect("it is there");
                transaction.update(&table, row, vec![(1, Value::BigInt(7))])?;
            }
            Ok(())
        })?;
    }
    for columns in [&[1][..], &[1, 2, 3, 4]] {
        let mut times = Vec::new();
        for _ in 0..TURNS {
            let view = reader.by(SnapshotStrategy::InPlace).read_view();
            let begun = Instant::now();
            for part in 0..view.parts(&table) {
                std::hint::black_box(view.read(&table, part, columns)?);
            }
            times.push(begun.elapsed().as_nanos() as f64 / f64::from(rows));
        }
        println!("{} columns: {:.1} ns a row", columns.len(), median(&mut times).unwrap_or_default());
    }
    Ok(())
}
