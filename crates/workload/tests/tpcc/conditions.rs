//! The consistency conditions survive concurrency, and the violation of each is found.

use crate::world::{World, loaded};
use ankerdb_engine::{ColumnSet, Isolation, Result, RowId, Table, Transaction, Value};
use ankerdb_workload::bench::stream::{Stream, StreamOptions};
use ankerdb_workload::bench::tpcc::TpccWorkload;
use ankerdb_workload::tpcc::check::check;
use ankerdb_workload::tpcc::input::Access;
use ankerdb_workload::tpcc::key::KeyBuffer;
use ankerdb_workload::tpcc::mix::Mix;
use ankerdb_workload::tpcc::schema::{
    PRIMARY, TpccTables, customer, district, history, order_line, orders, warehouse,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Runs the full mix until so many transactions are completed.
fn run_transactions(world: &World, completed: u64) {
    let workload = TpccWorkload::new(&world.database, &world.tables, 1, Mix::Full, Access::Skewed);
    let options =
        StreamOptions { threads: 4, isolation: Isolation::Serializable, seed: 3, allocations: None };
    let stream = Stream::start(&workload, &options).expect("the stream starts");
    while stream.completed() < completed && !stream.has_failed() {
        std::thread::sleep(Duration::from_millis(1));
    }
    stream.stop().expect("the transactions work");
}

#[test]
fn consistency_survives_concurrent_transactions_and_each_violation_is_found() {
    let world = loaded(2);
    run_transactions(&world, 8_000);
    assert_eq!(check(&world.database, &world.tables).expect("checking works"), []);
    let mut expected = 0;
    world.scan(&world.tables.district, |transaction, row| {
        expected += transaction.integer(&world.tables.district, row, district::D_NEXT_O_ID) - 1;
    });
    assert!(expected > 33_000, "{expected} orders after 8,000 transactions, 45% of them new orders");
    assert_eq!(world.count(&world.tables.orders), expected as usize);

    let clauses: BTreeSet<&str> = DAMAGES.iter().flat_map(|(clauses, _)| clauses.iter().copied()).collect();
    assert_eq!(clauses.len(), 12, "each clause has its damage: {clauses:?}");
    for (clauses, damage) in DAMAGES {
        damage_is_found(&world, clauses, *damage);
    }
}

type Damage = fn(&TpccTables, &mut Transaction) -> Result<()>;

/// For each clause a change that violates it, and which clauses are violated then: some imply each other.
const DAMAGES: &[(&[&str], Damage)] = &[
    // First, because later changes of W_YTD would show here, too.
    (&["3.3.2.8", "3.3.2.9"], |tables, transaction| {
        add(transaction, &tables.warehouse, KeyBuffer::default().id(1), warehouse::W_YTD, 7)?;
        add(transaction, &tables.district, KeyBuffer::default().district(1, 7), district::D_YTD, 7)
    }),
    (&["3.3.2.1", "3.3.2.8"], |tables, transaction| {
        add(transaction, &tables.warehouse, KeyBuffer::default().id(1), warehouse::W_YTD, 1)
    }),
    (&["3.3.2.2"], |tables, transaction| {
        add(transaction, &tables.district, KeyBuffer::default().district(1, 3), district::D_NEXT_O_ID, 90_000)
    }),
    (&["3.3.2.3", "3.3.2.5", "3.3.2.11"], |tables, transaction| {
        let row = row_of(transaction, &tables.new_order, &order(2, 3010));
        transaction.delete(&tables.new_order, row)
    }),
    (&["3.3.2.4", "3.3.2.6"], |tables, transaction| {
        let row = row_of(transaction, &tables.order_line, &first_line(1, 1));
        transaction.delete(&tables.order_line, row)
    }),
    (&["3.3.2.5", "3.3.2.7"], |tables, transaction| {
        set(transaction, &tables.orders, &order(4, 3011), orders::O_CARRIER_ID, Value::SmallInt(3))
    }),
    (&["3.3.2.6"], |tables, transaction| {
        add(transaction, &tables.orders, &order(5, 100), orders::O_OL_CNT, 1)?;
        add(transaction, &tables.orders, &order(5, 101), orders::O_OL_CNT, -1)
    }),
    // The loader's delivered lines have no amount, so no balance depends on them.
    (&["3.3.2.7"], |tables, transaction| {
        set(transaction, &tables.order_line, &first_line(6, 7), order_line::OL_DELIVERY_D, Value::Null)
    }),
    (&["3.3.2.9"], |tables, transaction| {
        add(transaction, &tables.district, KeyBuffer::default().district(1, 8), district::D_YTD, 5)?;
        add(transaction, &tables.district, KeyBuffer::default().district(1, 9), district::D_YTD, -5)
    }),
    (&["3.3.2.10"], |tables, transaction| {
        let table = &tables.history;
        let mut first = None;
        transaction.scan_table(table, ColumnSet::ALL, None, &mut |_, row| {
            first = Some(row);
            Ok(ControlFlow::Break(()))
        })?;
        let row = first.expect("there is a payment");
        let other = transaction.integer(table, row, history::H_C_ID) % 3000 + 1;
        transaction.update(table, row, vec![(history::H_C_ID, Value::Integer(other))])
    }),
    (&["3.3.2.11"], |tables, transaction| {
        add(transaction, &tables.customer, &order(1, 5), customer::C_DELIVERY_CNT, 1)
    }),
    (&["3.3.2.12"], |tables, transaction| {
        add(transaction, &tables.customer, &order(1, 6), customer::C_YTD_PAYMENT, 1)
    }),
];

/// Key of an order or of a customer.
fn order(district: i16, number: i32) -> Vec<u8> {
    KeyBuffer::default().in_district(1, district, number).to_vec()
}

/// Key of the first line of an order.
fn first_line(district: i16, number: i32) -> Vec<u8> {
    let mut key = order(district, number);
    ankerdb_value::push_smallint(&mut key, 1);
    key
}

fn row_of(transaction: &mut Transaction, table: &Arc<Table>, key: &[u8]) -> RowId {
    transaction.find(table, PRIMARY, key, ColumnSet::ALL).expect("finding works").expect("the row exists")
}

fn set(
    transaction: &mut Transaction,
    table: &Arc<Table>,
    key: &[u8],
    column: usize,
    value: Value,
) -> Result<()> {
    let row = row_of(transaction, table, key);
    transaction.update(table, row, vec![(column, value)])
}

fn add(
    transaction: &mut Transaction,
    table: &Arc<Table>,
    key: &[u8],
    column: usize,
    amount: i32,
) -> Result<()> {
    let row = row_of(transaction, table, key);
    let value = match transaction.value(table, row, column) {
        Value::SmallInt(value) => Value::SmallInt(value + amount as i16),
        Value::Integer(value) => Value::Integer(value + amount),
        Value::Numeric(mut value) => {
            value.unscaled += i128::from(amount);
            Value::Numeric(value)
        }
        other => panic!("{other:?} is no number"),
    };
    transaction.update(table, row, vec![(column, value)])
}

/// Does the damage; exactly the expected clauses must be found violated in places where they were not before.
fn damage_is_found(world: &World, expected: &[&str], damage: Damage) {
    let before = check(&world.database, &world.tables).expect("checking works");
    world.write(|transaction| damage(&world.tables, transaction));
    let after = check(&world.database, &world.tables).expect("checking works");
    let new = after.iter().filter(|violation| !before.contains(violation));
    let clauses: BTreeSet<&str> = new.clone().map(|violation| violation.clause).collect();
    assert_eq!(clauses, expected.iter().copied().collect(), "{:?}", new.collect::<Vec<_>>());
}
