//! Orders come in while a report over all of them runs again and again: each answer is of its own moment, and the orders do not wait.
//!
//! `cargo run --release -p ankerdb --example live_report`

use ankerdb::arrow::array::AsArray;
use ankerdb::arrow::datatypes::Int64Type;
use ankerdb::{Database, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const REPORT: &str = "SELECT product, count(*) AS orders, sum(quantity)::bigint AS sold FROM orders \
    GROUP BY product ORDER BY sold DESC LIMIT 3";

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    db.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY, product int NOT NULL, quantity int NOT NULL)",
        (),
    )?;
    let closing = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let shop = scope.spawn(|| take_orders(&db, &closing));
        let report = db.prepare(REPORT)?;
        let begun = Instant::now();
        let mut answers = 0;
        while begun.elapsed() < Duration::from_secs(2) {
            for batch in db.query_arrow(&report, ())? {
                let batch = batch?;
                let sold = batch.column(2).as_primitive::<Int64Type>();
                if answers % 50 == 0 && batch.num_rows() > 0 {
                    println!(
                        "{:>5.2} s: the best product was sold {} times",
                        begun.elapsed().as_secs_f64(),
                        sold.value(0)
                    );
                }
            }
            answers += 1;
        }
        closing.store(true, Ordering::Relaxed);
        let orders = shop.join().expect("the shop does not panic")?;
        let counted: i64 = db.query_one("SELECT count(*) FROM orders", ())?.get(0)?;
        assert_eq!(counted, orders, "every order was counted");
        println!("{orders} orders, {answers} reports");
        Ok(())
    })
}

/// Orders until the shop closes.
fn take_orders(db: &Database, closing: &AtomicBool) -> Result<i64> {
    let orders = db.table("orders")?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut id = 0;
    while !closing.load(Ordering::Relaxed) {
        let (product, quantity) = (random.i32(0..100), random.i32(1..10));
        db.transaction(|tx| tx.table(&orders)?.insert((id, product, quantity)))?;
        id += 1;
    }
    Ok(id)
}
