//! The consistency conditions survive concurrency, and the violation of each is found.

use crate::world::{World, loaded};
use ankerdb_engine::{ColumnSet, Isolation, RowId, Table, Transaction, Value};
use ankerdb_workload::htap::marker::Marker;
use ankerdb_workload::htap::oltp::{OltpOptions, OltpStream, OltpWorld};
use ankerdb_workload::tpcc::check::check;
use ankerdb_workload::tpcc::input::Access;
use ankerdb_workload::tpcc::key::KeyBuffer;
use ankerdb_workload::tpcc::schema::{PRIMARY, Tables, district};
use std::sync::Arc;

#[test]
fn consistency_survives_concurrent_transactions_and_its_violation_is_found() {
    let world = loaded(2);
    let marker = Arc::new(Marker::create(&world.database).expect("the table is new"));
    let oltp = OltpWorld { database: world.database.clone(), tables: world.tables.clone(), marker };
    let options = OltpOptions {
        threads: 4,
        isolation: Isolation::Serializable,
        access: Access::Skewed,
        warehouses: 1,
        seed: 3,
        limit: Some(2_000),
    };
    let mut stream = OltpStream::start(&oltp, &options);
    stream.record();
    stream.join().expect("the transactions work");
    assert_eq!(check(&world.database, &world.tables).expect("checking works"), []);
    let mut expected = 0;
    world.scan(&world.tables.district, |transaction, row| {
        expected += transaction.integer(&world.tables.district, row, district::D_NEXT_O_ID) - 1;
    });
    assert!(expected > 32_000, "{expected} orders after 8,000 transactions, a third of them new orders");
    assert_eq!(world.count(&world.tables.orders), expected as usize);
    for (clause, damage) in DAMAGES {
        violated(&world, clause, *damage);
    }
}

type Damage = fn(&Tables, &mut Transaction) -> ankerdb_engine::Result<()>;

/// For each clause a change that violates it.
const DAMAGES: &[(&str, Damage)] = &[
    ("3.3.2.4", |tables, transaction| {
        let row = row_of(transaction, &tables.order_line, &first_line(1));
        transaction.delete(&tables.order_line, row)
    }),
    ("3.3.2.3", |tables, transaction| {
        let row = row_of(transaction, &tables.new_order, KeyBuffer::default().in_district(1, 2, 2500));
        transaction.delete(&tables.new_order, row)
    }),
    ("3.3.2.2", |tables, transaction| {
        let row = row_of(transaction, &tables.district, KeyBuffer::default().district(1, 3));
        transaction.update(&tables.district, row, vec![(district::D_NEXT_O_ID, Value::Integer(99_999))])
    }),
    ("3.3.2.1", |tables, transaction| {
        let row = row_of(transaction, &tables.district, KeyBuffer::default().district(1, 4));
        let ytd = transaction.value(&tables.district, row, district::D_YTD);
        let Value::Numeric(mut sum) = ytd else { panic!("{ytd:?}") };
        sum.unscaled += 1;
        transaction.update(&tables.district, row, vec![(district::D_YTD, Value::Numeric(sum))])
    }),
];

/// Key of the first line of the district's first order.
fn first_line(district: i16) -> Vec<u8> {
    let mut key = KeyBuffer::default().in_district(1, district, 1).to_vec();
    ankerdb_value::push_smallint(&mut key, 1);
    key
}

fn row_of(transaction: &mut Transaction, table: &Arc<Table>, key: &[u8]) -> RowId {
    transaction.find(table, PRIMARY, key, ColumnSet::ALL).expect("finding works").expect("the row exists")
}

fn violated(world: &World, clause: &str, damage: Damage) {
    let before = check(&world.database, &world.tables).expect("checking works").len();
    world.write(|transaction| damage(&world.tables, transaction));
    let violations = check(&world.database, &world.tables).expect("checking works");
    assert!(
        violations.iter().any(|violation| violation.clause == clause),
        "{clause} is not in {violations:?}"
    );
    assert!(violations.len() > before);
}
