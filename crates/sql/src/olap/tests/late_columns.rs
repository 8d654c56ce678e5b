//! Columns that a top-k reads late, beside the same query without a limit.

use super::super::late_columns::LateColumnsExec;
use super::{Fixture, numeric};
use crate::compiler_mode::CompilerMode;
use ankerdb_engine::{
    ColumnDefinition, ColumnSet, DataType, IndexPosition, Isolation, Table, TableDefinition, Value,
};
use datafusion::common::tree_node::TreeNode;
use std::sync::Arc;

/// Several blocks, of which the last is not full.
const ORDERS: i32 = 30_000;
const CUSTOMERS: i32 = 10_000;
const NATIONS: i32 = 25;

/// `nation(id, name)`, `customer(id, name, comment, nation, balance)` and `orders(id, customer, price, note)`. Some customers have no order, some
/// orders no customer, and some names and comments are NULL.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    let text = |name| ColumnDefinition::new(name, DataType::Varchar(100)).nullable();
    let number = |name| ColumnDefinition::new(name, DataType::Integer);
    let money = |name| ColumnDefinition::new(name, DataType::Numeric { precision: 15, scale: 2 });
    let nation =
        TableDefinition::new("nation").column(number("id")).column(text("name")).primary_key(&["id"]);
    let nation = fixture.create(nation);
    let customer = TableDefinition::new("customer")
        .column(number("id"))
        .column(text("name"))
        .column(text("comment"))
        .column(number("nation"))
        .column(money("balance"))
        .primary_key(&["id"]);
    let customer = fixture.create(customer);
    let orders = TableDefinition::new("orders")
        .column(number("id"))
        .column(number("customer"))
        .column(money("price"))
        .column(text("note"))
        .primary_key(&["id"]);
    let orders = fixture.create(orders);
    let nations = (0..NATIONS).map(|id| vec![Value::Integer(id), Value::text(format!("nation {}", id / 2))]);
    fixture.insert(&nation, nations.collect());
    fixture.insert(&customer, (0..CUSTOMERS).map(a_customer).collect());
    for start in (0..ORDERS).step_by(10_000) {
        fixture.insert(&orders, (start..start + 10_000).map(an_order).collect());
    }
    fixture
}

fn a_customer(id: i32) -> Vec<Value> {
    let name = if id % 7 == 0 { Value::Null } else { Value::text(format!("customer {}", id / 3)) };
    let comment = Value::text(format!("what there is to say of customer {id}, at some length"));
    vec![
        Value::Integer(id),
        name,
        if id % 11 == 0 { Value::Null } else { comment },
        Value::Integer(id % NATIONS),
        numeric(i128::from(id * 31 % 9_999) - 5_000, 2),
    ]
}

fn an_order(id: i32) -> Vec<Value> {
    let customer = id * 17 % (CUSTOMERS + 500);
    let note = Value::text(format!("note of order {id}"));
    let price = numeric(i128::from(id * 7_919 % 100_000), 2);
    vec![Value::Integer(id), Value::Integer(customer), price, note]
}

fn reads_late(fixture: &Fixture, sql: &str) -> bool {
    let (_, operators) = fixture.rows_and_operators(sql, CompilerMode::On);
    operators.exists(|node| Ok(node.is::<LateColumnsExec>())).expect("a plan")
}

/// The rows of a query with a limit are the first of those without.
fn check(fixture: &Fixture, sql: &str, skipped: usize, rows: usize) {
    let all = fixture.query(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let limited = format!("{sql} LIMIT {rows} OFFSET {skipped}");
    let expected: Vec<_> = all.into_iter().skip(skipped).take(rows).collect();
    let plan = fixture.plan(&limited, &[]).expect("it was planned without a limit");
    // The second run makes operators that are kept, and the third one has a copy of them.
    for run in 0..3 {
        let found = fixture.run(&plan, &[], fixture.view());
        let found = found.unwrap_or_else(|error| panic!("{limited}: {error:?}"));
        assert_eq!(found, expected, "{limited}, run {run}");
    }
}

/// Each has an order of all its rows.
const LATE: [&str; 10] = [
    "SELECT * FROM customer ORDER BY balance DESC, id",
    "SELECT name, comment, balance FROM customer WHERE nation <> 3 ORDER BY id",
    "SELECT o.price, c.name, c.comment, n.name FROM orders o JOIN customer c ON o.customer = c.id \
     JOIN nation n ON c.nation = n.id ORDER BY o.price DESC, o.id",
    // No customer: all of its columns are NULL.
    "SELECT o.id, c.name, c.comment, c.balance FROM orders o LEFT JOIN customer c ON o.customer = c.id \
     ORDER BY o.customer DESC, o.id",
    "SELECT c.id, c.name, c.balance, c.comment, n.name, sum(o.price) AS s FROM customer c, orders o, nation n \
     WHERE c.id = o.customer AND c.nation = n.id AND o.id % 3 = 0 \
     GROUP BY c.id, c.name, c.balance, c.comment, n.name ORDER BY s DESC, c.id",
    // What an order is grouped by determines its customer.
    "SELECT o.id, c.name, c.comment, count(*) FROM orders o JOIN customer c ON c.id = o.customer \
     GROUP BY o.id, c.name, c.comment ORDER BY o.id DESC",
    "SELECT o.customer, c.comment, max(o.price) AS m FROM orders o JOIN customer c ON c.id = o.customer \
     GROUP BY o.customer, c.comment ORDER BY m, o.customer",
    "SELECT id, name, comment, count(*) AS n FROM customer GROUP BY id HAVING max(balance) > 3 ORDER BY n, id",
    "SELECT x.a, x.b, c.comment FROM (SELECT o.id AS a, o.note AS b, o.customer FROM orders o \
     WHERE o.price > 500) AS x JOIN customer c ON c.id = x.customer AND c.balance < 0 ORDER BY x.a",
    "SELECT name, comment, note FROM (SELECT * FROM customer WHERE id IN (SELECT customer FROM orders \
     WHERE price > 900)) AS c JOIN (SELECT id AS number, note, customer FROM orders) AS o ON o.customer = c.id \
     ORDER BY o.number",
];

#[test]
fn columns_that_are_read_late_are_those_of_their_rows() {
    let fixture = fixture();
    for sql in LATE {
        for (skipped, rows) in [(0, 1), (0, 20), (37, 100), (0, 1024)] {
            check(&fixture, sql, skipped, rows);
        }
        assert!(reads_late(&fixture, &format!("{sql} LIMIT 20")), "{sql}");
    }
}

#[test]
fn columns_are_not_read_late_where_groups_have_several_rows_or_little_is_saved() {
    let fixture = fixture();
    for sql in [
        // By a name that several customers have, and by one that several nations have.
        "SELECT name, comment, count(*) AS n FROM customer GROUP BY name, comment ORDER BY n DESC, name, comment LIMIT 20",
        "SELECT n.name, sum(c.balance) AS s FROM customer c JOIN nation n ON n.id = c.nation \
         GROUP BY n.name ORDER BY s, n.name LIMIT 20",
        "SELECT c.id, o.note, count(*) FROM customer c JOIN orders o ON c.id = o.customer \
         GROUP BY c.id, o.note ORDER BY c.id, o.note LIMIT 20",
        "SELECT id, customer FROM orders ORDER BY price, id LIMIT 20",
        "SELECT name, comment FROM customer ORDER BY name, comment LIMIT 20",
        "SELECT name, comment FROM customer ORDER BY id LIMIT 1025",
        "SELECT upper(name) AS u, lower(comment) AS l FROM customer ORDER BY id LIMIT 20",
    ] {
        assert!(!reads_late(&fixture, sql), "{sql}");
    }
}

#[test]
fn each_view_reads_the_columns_that_it_shows() {
    let fixture = fixture();
    let customer: Arc<Table> = fixture.database.catalog().table("customer").expect("it was created");
    let change = |id: i32, comment: Option<&str>| {
        let changed = fixture.database.session().run(Isolation::Serializable, |transaction| {
            let mut key = Vec::new();
            customer.index(IndexPosition(0)).encode(&[Value::Integer(id)], &mut key)?;
            let row = transaction.find(&customer, IndexPosition(0), &key, ColumnSet::EMPTY)?;
            let row = row.expect("the row is there");
            match comment {
                Some(comment) => transaction.update(&customer, row, vec![(2, Value::text(comment))]),
                None => transaction.delete(&customer, row),
            }
        });
        changed.expect("nobody else writes");
    };
    let sql = "SELECT id, comment, name FROM customer WHERE id >= 8190 ORDER BY id LIMIT 4";
    let plan = fixture.plan(sql, &[]).expect("it is a query");
    let rows = |view| -> Vec<(i32, Value)> {
        let rows = fixture.run(&plan, &[], view).expect("it runs");
        let row = |row: Vec<Value>| match row[0] {
            Value::Integer(id) => (id, row[1].clone()),
            _ => panic!("no id"),
        };
        rows.into_iter().map(row).collect()
    };
    let before = fixture.view();
    let first = rows(before.clone());
    assert_eq!(first.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [8190, 8191, 8192, 8193]);
    change(8191, Some("a new comment, as long as the others are"));
    change(8192, None);
    let after = rows(fixture.view());
    assert_eq!(after.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [8190, 8191, 8193, 8194]);
    assert_eq!(after[1].1, Value::text("a new comment, as long as the others are"));
    assert_eq!((&after[0], &after[2]), (&first[0], &first[3]));
    assert_eq!(rows(before), first);
}
