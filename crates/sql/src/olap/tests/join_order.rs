//! Joins in the order of FROM and in the order that costs least.

use super::Fixture;
use crate::compiler_mode::CompilerMode;
use ankerdb_engine::{ColumnDefinition, DataType, TableDefinition, Value};
use datafusion::physical_plan::displayable;

/// `nation(id, name)`, `customer(id, nation)`, `orders(id, customer, total)` and `line(orders, number, part)`; keys are NULL or have no partner
/// now and then.
fn fixture(customers: i32) -> Fixture {
    let fixture = Fixture::new();
    let integer = |name: &str| ColumnDefinition::new(name, DataType::Integer);
    let nation = TableDefinition::new("nation").column(integer("id")).column(integer("region"));
    let nation = fixture.create(nation.primary_key(&["id"]));
    let customer =
        TableDefinition::new("customer").column(integer("id")).column(integer("nation").nullable());
    let customer = fixture.create(customer.primary_key(&["id"]));
    let orders = TableDefinition::new("orders")
        .column(integer("id"))
        .column(integer("customer").nullable())
        .column(integer("total"));
    let orders = fixture.create(orders.primary_key(&["id"]));
    let line = TableDefinition::new("line")
        .column(integer("orders"))
        .column(integer("number"))
        .column(integer("part"));
    let line = fixture.create(line.primary_key(&["orders", "number"]));
    let or_null =
        |value: i32, every: i32| if value % every == 0 { Value::Null } else { Value::Integer(value) };
    fixture.insert(&nation, (0..25).map(|id| vec![Value::Integer(id), Value::Integer(id / 5)]).collect());
    let rows = (0..customers).map(|id| vec![Value::Integer(id), or_null(id % 27, 26)]);
    fixture.insert(&customer, rows.collect());
    let rows = (0..customers * 4)
        .map(|id| vec![Value::Integer(id), or_null(id % (customers + 10), 17), Value::Integer(id % 1000)]);
    fixture.insert(&orders, rows.collect());
    let rows = (0..customers * 12)
        .map(|id| vec![Value::Integer(id / 3), Value::Integer(id % 3), Value::Integer(id % 40)]);
    fixture.insert(&line, rows.collect());
    fixture
}

impl Fixture {
    /// The tables in the order in which the plan names them.
    fn order(&self, sql: &str, compiler: CompilerMode) -> (Vec<String>, Vec<String>) {
        let (rows, operators) = self.rows_and_operators(sql, compiler);
        let shown = displayable(operators.as_ref()).indent(false).to_string();
        let name = |part: &str| part.split(',').next().unwrap_or_default().to_owned();
        (rows, shown.split("ScanExec: table=").skip(1).map(name).collect())
    }
}

#[test]
fn the_rows_are_the_same_in_any_order() {
    let fixture = fixture(60);
    let mut changed = 0;
    for sql in [
        "SELECT n.id, c.id, o.id, l.number FROM line l JOIN orders o ON o.id = l.orders JOIN customer c ON c.id = o.customer \
         JOIN nation n ON n.id = c.nation WHERE n.region = 2",
        // Columns of the same name, the same column twice, and none of some tables.
        "SELECT o.id, o.id, c.id FROM line l, orders o, customer c, nation n \
         WHERE o.id = l.orders AND c.id = o.customer AND n.id = c.nation AND n.region < 2 AND l.part = 3",
        "SELECT count(*) FROM line l, orders o, customer c WHERE o.id = l.orders AND c.id = o.customer",
        // Conditions over several tables, and a table twice.
        "SELECT a.id, b.id, o.id FROM orders o JOIN customer a ON a.id = o.customer JOIN nation n ON n.id = a.nation \
         JOIN customer b ON b.nation = n.id AND b.id < a.id AND b.id + n.id > o.total - 150",
        "SELECT c.id, l.part FROM line l JOIN orders o ON o.id = l.orders JOIN customer c ON c.id = o.customer \
         JOIN nation n ON n.id = c.nation AND (n.region = 1 AND l.part = 7 OR n.region = 3 AND l.part = 9)",
        // A key that two tables make together, and keys that are computed.
        "SELECT l.orders, l.number, n.id FROM line l JOIN orders o ON o.id = l.orders JOIN customer c ON c.id = o.customer \
         JOIN nation n ON n.id = l.part + c.nation",
        "SELECT l.orders, n.id FROM line l JOIN orders o ON o.id + 1 = l.orders - 1 JOIN nation n ON n.id * 2 = o.total % 50",
        "SELECT n.id, c.id, o.id, l.number FROM nation n, customer c, orders o, line l WHERE l.orders = o.id AND o.customer = c.id \
         AND c.nation % 7 = n.id % 5 AND n.region = 1",
        "SELECT a.id, b.id, l.part FROM customer a JOIN customer b ON abs(a.nation) = b.nation + 1 JOIN orders o ON o.customer - 1 = b.id - 1 \
         JOIN line l ON l.orders = o.id AND l.part > a.nation - b.nation AND abs(a.nation) < l.part",
        "SELECT q.x, n.id, n.region FROM (SELECT c.nation + 1 AS x, c.id, -o.id AS y FROM customer c JOIN orders o ON o.customer = c.id) q \
         JOIN nation n ON n.id = q.x * 2 JOIN line l ON -l.orders = q.y",
        "SELECT c.id, o.id FROM line l JOIN orders o ON o.id = l.orders JOIN customer c ON c.id = o.customer \
         JOIN nation n ON n.id = coalesce(c.nation, 3)",
        // Of two tables, of none, and each time another one.
        "SELECT o.id, n.region, q.k FROM (SELECT c.id, c.nation + o.total AS k, 7 AS seven FROM orders o JOIN customer c ON c.id = o.customer) q \
         JOIN nation n ON n.id = q.k JOIN orders o ON o.customer = q.id JOIN nation m ON m.id = q.seven",
        "SELECT c.id, o.id FROM nation n, customer c, orders o \
         WHERE n.id = c.nation + CASE WHEN random() < 0 THEN 1 ELSE 0 END AND o.customer = c.id AND n.region > 1",
        // Keys that are implied by others, and a class of them with two columns of one table.
        "SELECT n.id, c.id, o.id FROM orders o, customer c, nation n WHERE c.nation = n.id AND o.total = n.id AND o.customer <> c.id \
         AND n.region = 1",
        "SELECT n.id, a.id, b.id, o.id FROM customer a JOIN customer b ON a.nation = b.nation JOIN nation n ON n.id = b.nation \
         JOIN orders o ON o.customer = a.id WHERE n.region = 1",
        "SELECT l.orders, l.part, o.id, c.id, n.id FROM line l JOIN orders o ON o.id = l.part AND o.customer = l.part \
         JOIN customer c ON c.id = o.customer JOIN nation n ON n.id = c.id",
        // Two keys, in a circle.
        "SELECT a.orders, a.number, o.total FROM line a JOIN line b ON a.orders = b.orders AND a.number = b.number + 1 \
         JOIN orders o ON o.id = b.orders AND o.id = a.orders",
        // Other joins in between and below.
        "SELECT n.id, o.id, l.part FROM nation n JOIN customer c ON c.nation = n.id LEFT JOIN orders o ON o.customer = c.id \
         JOIN line l ON l.orders = o.id AND l.number = 1 WHERE n.region = 0",
        "SELECT q.id, n.id FROM (SELECT c.id, c.nation, count(*) FROM line l JOIN orders o ON o.id = l.orders JOIN customer c \
         ON c.id = o.customer GROUP BY c.id, c.nation) q JOIN nation n ON n.id = q.nation JOIN customer d ON d.id = q.id",
        "SELECT l.orders FROM line l JOIN orders o ON o.id = l.orders JOIN customer c ON c.id = o.customer WHERE EXISTS \
         (SELECT FROM nation n JOIN customer d ON d.nation = n.id JOIN orders p ON p.customer = d.id WHERE p.id = l.orders)",
        // Semi joins that are inner ones, and one that is not.
        "SELECT l.orders, l.number FROM line l JOIN orders o ON o.id = l.orders WHERE o.customer IN (SELECT id FROM customer WHERE nation = 4) \
         AND EXISTS (SELECT FROM nation n WHERE n.id = l.part % 25 AND n.region = 1)",
        "SELECT l.part, c.id FROM line l JOIN orders o ON o.id = l.orders JOIN customer c ON c.id = o.customer \
         WHERE o.id IN (SELECT orders FROM line GROUP BY orders HAVING sum(part) > 60) AND c.nation IN (SELECT nation FROM customer)",
        // NULLs that equal each other.
        "SELECT a.id, o.id FROM customer a JOIN customer b ON a.nation IS NOT DISTINCT FROM b.nation JOIN orders o ON o.customer = b.id",
        "SELECT l.orders, random() < 2 FROM nation n, customer c, orders o, line l \
         WHERE l.orders = o.id AND c.id = o.customer AND n.id = c.nation AND o.total + random() > 3",
    ] {
        let (expected, written) = fixture.order(sql, CompilerMode::On);
        let (found, chosen) = fixture.order(sql, CompilerMode::Always);
        assert_eq!(found, expected, "{sql}");
        assert!(!found.is_empty(), "{sql}");
        changed += usize::from(written != chosen);
    }
    assert!(changed > 3, "{changed}");
}

#[test]
fn the_order_of_from_does_not_matter() {
    let fixture = fixture(1_500);
    let conditions = "WHERE l.orders = o.id AND o.customer = c.id AND c.nation = n.id AND n.id = 7";
    let mut orders = Vec::new();
    for tables in ["line l, orders o, customer c, nation n", "nation n, customer c, orders o, line l"] {
        let sql = format!("SELECT n.region, c.id, o.id, l.number FROM {tables} {conditions}");
        orders.push(fixture.order(&sql, CompilerMode::On));
    }
    assert_eq!(orders[0], orders[1]);
    assert_eq!(orders[0].1, ["nation", "customer", "orders", "line"]);
}

/// Like CH-benCHmark's Q5, where the nation of a customer is computed of a text.
#[test]
fn keys_that_are_computed_of_one_table_are_keys() {
    let fixture = fixture(1_500);
    let conditions =
        "WHERE l.orders = o.id AND o.customer = c.id AND abs(c.nation) + 0 * c.id = n.id AND n.id = 7";
    let mut orders = Vec::new();
    for tables in ["line l, orders o, customer c, nation n", "nation n, customer c, orders o, line l"] {
        let sql = format!("SELECT n.region, c.id, o.id, l.number FROM {tables} {conditions}");
        orders.push(fixture.order(&sql, CompilerMode::On));
    }
    assert_eq!(orders[0], orders[1]);
    assert_eq!(orders[0].1, ["nation", "customer", "orders", "line"]);
    assert!(!orders[0].0.is_empty());
}
