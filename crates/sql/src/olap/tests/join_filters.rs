//! Joins whose scans leave out rows that nobody asks for, beside the same without.

use super::Fixture;
use crate::compiler_mode::CompilerMode;
use ankerdb_engine::{ColumnDefinition, DataType, TableDefinition, Value};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use std::sync::Arc;

const LINES: i32 = 30_000;
const PARTS: i32 = 1_000;

/// `part(id, size)`, `line(id, part, supplier, amount)`, whose part is NULL or unknown now and then, and `supplier(id, part)`.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    let integer = |name: &str| ColumnDefinition::new(name, DataType::Integer);
    let part = fixture.create(
        TableDefinition::new("part").column(integer("id")).column(integer("size")).primary_key(&["id"]),
    );
    let line = fixture.create(
        TableDefinition::new("line")
            .column(integer("id"))
            .column(integer("part").nullable())
            .column(ColumnDefinition::new("supplier", DataType::BigInt))
            .column(ColumnDefinition::new("amount", DataType::Numeric { precision: 12, scale: 2 }))
            .primary_key(&["id"]),
    );
    let supplier = fixture.create(
        TableDefinition::new("supplier")
            .column(ColumnDefinition::new("id", DataType::BigInt))
            .column(integer("part").nullable())
            .primary_key(&["id"]),
    );
    let rows = (0..PARTS).map(|id| vec![Value::Integer(id), Value::Integer(id % 50)]);
    fixture.insert(&part, rows.collect());
    let rows = (0..LINES).map(|id| {
        let part = if id % 11 == 0 { Value::Null } else { Value::Integer(id % (PARTS + 100)) };
        vec![Value::Integer(id), part, Value::BigInt((id % 40).into()), super::numeric(id.into(), 2)]
    });
    fixture.insert(&line, rows.collect());
    let rows = (0..40).map(|id| {
        let part = if id % 7 == 0 { Value::Null } else { Value::Integer(id * 3) };
        vec![Value::BigInt(id.into()), part]
    });
    fixture.insert(&supplier, rows.collect());
    fixture
}

impl Fixture {
    /// Sorted rows, and how many rows the scans of `line`, or selections above them, have given.
    fn rows_and_lines(&self, sql: &str, compiler: CompilerMode) -> (Vec<String>, usize) {
        let (rows, operators) = self.rows_and_operators(sql, compiler);
        let mut lines = 0;
        let counted = operators.apply(|node| {
            let is_line = |node: &Arc<dyn ExecutionPlan>| format!("{node:?}") == "ScanExec(line)";
            // A selection is asked in place of the scan below it.
            let is_selection = node.name() == "SelectionExec" && node.children().into_iter().any(is_line);
            if is_line(node) || is_selection {
                lines += node.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or_default();
            }
            Ok(if is_selection { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue })
        });
        counted.expect("a plan");
        (rows, lines)
    }

    /// The rows are the same with filters, of which at least one leaves out nine rows of ten if `is_filtered`.
    fn same_rows(&self, sql: &str, is_filtered: bool) {
        let (expected, all) = self.rows_and_lines(sql, CompilerMode::Off);
        let (found, few) = self.rows_and_lines(sql, CompilerMode::Always);
        assert_eq!(found, expected, "{sql}");
        assert!(all >= LINES as usize, "{sql}");
        match is_filtered {
            true => assert!(few * 10 < all, "{sql}: {few} rows of {all}"),
            false => assert_eq!(few, all, "{sql}"),
        }
    }
}

#[test]
fn rows_that_no_join_asks_for_are_left_out() {
    let fixture = fixture();
    for sql in [
        "SELECT l.id, p.size FROM part p JOIN line l ON p.id = l.part WHERE p.size = 7",
        "SELECT p.id, l.id FROM part p LEFT JOIN line l ON p.id = l.part WHERE p.size = 7",
        "SELECT count(*), sum(amount) FROM line WHERE part IN (SELECT id FROM part WHERE size = 7)",
        "SELECT p.id FROM part p WHERE size = 7 AND NOT EXISTS (SELECT FROM line l WHERE l.part = p.id)",
        // Through an aggregate, and another join.
        "SELECT p.id, q.total FROM part p JOIN (SELECT part, sum(amount) AS total FROM line GROUP BY part) q ON q.part = p.id \
         WHERE p.size = 7",
        "SELECT l.id, s.id FROM part p JOIN line l ON p.id = l.part JOIN supplier s ON s.id = l.supplier WHERE p.size = 7",
        // What is sorted by columns of the asked side is sorted when joined, for a window, too, and through a projection.
        "SELECT l.id, p.size FROM part p JOIN line l ON p.id = l.part WHERE p.size = 7 ORDER BY l.amount, l.id",
        "SELECT l.id, rank() OVER (ORDER BY l.amount) FROM part p JOIN line l ON p.id = l.part WHERE p.size = 7",
        "SELECT l.id, p.size + l.supplier FROM part p JOIN line l ON p.id = l.part WHERE p.size = 7 ORDER BY l.supplier, l.amount",
        // Of two keys, one of which has other names below.
        "SELECT q.id FROM supplier s JOIN (SELECT id, part AS p, supplier AS s FROM line) q ON q.s = s.id AND q.p = s.part \
         WHERE s.part < 9",
    ] {
        fixture.same_rows(sql, true);
    }
}

#[test]
fn rows_that_are_missed_stay() {
    let fixture = fixture();
    for sql in [
        "SELECT l.id, p.size FROM line l LEFT JOIN (SELECT * FROM part WHERE size = 7) p ON p.id = l.part",
        "SELECT l.id, p.id FROM line l FULL JOIN (SELECT * FROM part WHERE size = 7) p ON p.id = l.part",
        "SELECT id FROM part p WHERE size = 7 AND id NOT IN (SELECT part FROM line)",
        "SELECT l.id FROM line l WHERE NOT EXISTS (SELECT FROM part p WHERE size = 7 AND l.part = p.id)",
        "SELECT l.id, s.id FROM supplier s JOIN line l ON l.part IS NOT DISTINCT FROM s.part WHERE s.id < 9",
        // Groups of something else, and a window.
        "SELECT q.n FROM part p JOIN (SELECT count(*)::int AS n FROM line GROUP BY part) q ON q.n = p.id WHERE p.size = 7",
        "SELECT q.id, q.r FROM part p JOIN (SELECT id, part, row_number() OVER (ORDER BY id) AS r FROM line) q ON q.part = p.id \
         WHERE p.size = 7",
    ] {
        fixture.same_rows(sql, false);
    }
}

#[test]
fn what_is_counted_by_each_row_sees_them_all() {
    let fixture = fixture();
    let sql = "SELECT count(*) FROM part p JOIN (SELECT part, random() AS r FROM line) q ON q.part = p.id \
               WHERE p.size = 7 AND q.r >= 0";
    fixture.same_rows(sql, false);
}

#[test]
fn joins_are_sorted_unless_they_give_far_more_rows_than_one_side_has() {
    let fixture = fixture();
    let copy = TableDefinition::new("copy")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("part", DataType::Integer))
        .primary_key(&["id"]);
    let copy = fixture.create(copy);
    let copies = PARTS * 4;
    fixture
        .insert(&copy, (0..copies).map(|id| vec![Value::Integer(id), Value::Integer(id % PARTS)]).collect());
    for (table, key, is_above) in [("part", "id", true), ("copy", "part", false)] {
        let sql = format!(
            "SELECT l.id, t.id FROM line l JOIN {table} t ON t.{key} = l.part ORDER BY l.amount, l.id, t.id"
        );
        let sorted_by_line = sql.replace(", t.id FROM", " FROM").replace(", t.id", "");
        let (_, operators) = fixture.rows_and_operators(&sorted_by_line, CompilerMode::On);
        let shown = displayable(operators.as_ref()).indent(false).to_string();
        let (sort, join) =
            (shown.find("SortExec:").expect("a sort"), shown.find("HashJoinExec").expect("a join"));
        assert_eq!(sort < join, is_above, "{shown}");
        fixture.same_rows(&sql, false);
    }
}

#[test]
fn the_side_of_which_few_rows_pass_is_built() {
    let fixture = fixture();
    let item = TableDefinition::new("item")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("kind", DataType::Text))
        .primary_key(&["id"]);
    let item = fixture.create(item);
    let kind = |id: i32| if id % 1000 == 0 { "rare" } else { "common" };
    fixture.insert(
        &item,
        (0..70_000).map(|id| vec![Value::Integer(id), Value::Text(kind(id).into())]).collect(),
    );
    for (kind, built) in [("rare", "item"), ("common", "line")] {
        let sql = format!("SELECT l.id FROM line l JOIN item i ON i.id = l.id WHERE i.kind LIKE '{kind}'");
        let (_, operators) = fixture.rows_and_operators(&sql, CompilerMode::On);
        let shown = displayable(operators.as_ref()).indent(false).to_string();
        let first = shown.split("ScanExec: table=").nth(1).expect("a scan");
        assert!(first.starts_with(built), "{shown}");
    }
}
