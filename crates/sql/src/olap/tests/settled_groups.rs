//! Groups of a table in the order of their key, which are final when their block has been read, beside DataFusion's.

use super::Fixture;
use crate::compiler_mode::CompilerMode;
use ankerdb_engine::{
    ColumnDefinition, ColumnSet, DataType, IndexPosition, Isolation, Table, TableDefinition, Value,
};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// Three rows each, of which blocks have not a whole number; more of them than there are groups in other pipelines.
const ORDERS: i32 = 140_000;
const ROWS: i32 = 3 * ORDERS;

/// `part(id, order_no, quantity, note)`, the rows of an order one after the other.
fn fixture() -> (Fixture, Arc<Table>) {
    let fixture = Fixture::new();
    let definition = TableDefinition::new("part")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("order_no", DataType::BigInt).nullable())
        .column(ColumnDefinition::new("quantity", DataType::Integer).nullable())
        .column(ColumnDefinition::new("note", DataType::Varchar(3)))
        .primary_key(&["id"]);
    let table = fixture.create(definition);
    let row = |id: i32| {
        let order = if id % 9973 == 0 { Value::Null } else { Value::BigInt(i64::from(id / 3) * 5) };
        let quantity = if id % 11 == 0 { Value::Null } else { Value::Integer(id * 31 % 50) };
        vec![Value::Integer(id), order, quantity, Value::text(if id % 2 == 0 { "abc" } else { "x" })]
    };
    for start in (0..ROWS).step_by(60_000) {
        fixture.insert(&table, (start..start + 60_000).map(row).collect());
    }
    (fixture, table)
}

fn set_order(fixture: &Fixture, table: &Arc<Table>, id: i32, order: i64) {
    let changed = fixture.database.session().run(Isolation::Serializable, |transaction| {
        let mut key = Vec::new();
        table.index(IndexPosition(0)).encode(&[Value::Integer(id)], &mut key)?;
        let row = transaction.find(table, IndexPosition(0), &key, ColumnSet::EMPTY)?;
        transaction.update(table, row.expect("the row is there"), vec![(1, Value::BigInt(order))])
    });
    changed.expect("nobody else writes");
}

fn settles(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut found = false;
    let visited = plan.apply(|node| {
        found |= node.name() == "SettledGroupsExec";
        Ok(TreeNodeRecursion::Continue)
    });
    visited.expect("a plan");
    found
}

impl Fixture {
    /// How many rows the query has, which are those without the compiler, and whether it settles groups.
    fn settled(&self, sql: &str) -> (usize, bool) {
        let (rows, plan) = self.rows_and_operators(sql, CompilerMode::Always);
        assert_eq!(rows, self.rows_of(sql, &self.view(), CompilerMode::Off), "{sql}");
        (rows.len(), settles(&plan))
    }
}

#[test]
fn groups_of_a_table_in_their_order_are_settled() {
    let (fixture, table) = fixture();
    for sql in [
        "SELECT order_no, sum(quantity) FROM part GROUP BY order_no HAVING sum(quantity) > 100",
        "SELECT order_no, count(*), avg(quantity) FROM part GROUP BY order_no HAVING count(*) <> 3",
        "SELECT max(quantity) FROM part GROUP BY order_no HAVING min(quantity) > order_no / 100000",
        "SELECT max(quantity), order_no FROM part GROUP BY order_no HAVING min(quantity) > 20",
        "SELECT count(*) FROM part WHERE order_no IN (SELECT order_no FROM part GROUP BY order_no HAVING sum(quantity) > 100)",
        "SELECT a.order_no, a.s, b.c FROM (SELECT order_no, sum(quantity) s FROM part GROUP BY order_no HAVING sum(quantity) > 100) a JOIN (SELECT order_no, count(*) c FROM part GROUP BY order_no HAVING sum(quantity) > 95) b ON a.order_no = b.order_no",
    ] {
        let (rows, is_settled) = fixture.settled(sql);
        assert!(rows > 0 && is_settled, "{rows} rows, settled: {is_settled}: {sql}");
    }
    let sql =
        "SELECT order_no, count(*), sum(quantity) FROM part GROUP BY order_no HAVING sum(quantity) > 95";
    let before = fixture.view();
    let old = fixture.rows_of(sql, &before, CompilerMode::Off);
    // Into the order of the rows behind: the block's bounds stay, and an old view shows it as it was.
    set_order(&fixture, &table, 30_000, 30_003 / 3 * 5);
    assert!(fixture.settled(sql).1);
    // One block may have nearly any key now, and another one by rows that have gone back: their keys are looked at.
    set_order(&fixture, &table, 100, i64::from(ORDERS) * 5);
    set_order(&fixture, &table, 101, 200_000);
    set_order(&fixture, &table, 50_000, 5);
    set_order(&fixture, &table, 50_000, 50_000 / 3 * 5);
    assert!(fixture.settled(sql).1);
    assert_eq!(fixture.rows_of(sql, &before, CompilerMode::Always), old);
    // So many that no block has a key alone.
    for block in 2..6 {
        set_order(&fixture, &table, block * 8192 + 5, i64::from(ORDERS) * 5 + i64::from(block));
    }
    assert!(!fixture.settled(sql).1);
    assert_eq!(fixture.rows_of(sql, &before, CompilerMode::Always), old);
}

#[test]
fn what_has_no_filter_of_groups_is_not_settled() {
    let (fixture, _) = fixture();
    for sql in [
        "SELECT count(*) FROM (SELECT order_no, sum(quantity) FROM part GROUP BY order_no) AS of_orders",
        "SELECT note, count(*) FROM part GROUP BY note HAVING count(*) > 1",
        // Columns are left out in between.
        "SELECT max(quantity) FROM part GROUP BY order_no HAVING min(quantity) > 10",
        "SELECT id % 100000, count(*) FROM part GROUP BY id % 100000 HAVING count(*) > 4",
    ] {
        assert!(!fixture.settled(sql).1, "{sql}");
    }
}
