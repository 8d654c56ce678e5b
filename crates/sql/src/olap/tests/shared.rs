//! Aggregates that stand twice in a plan, beside the same without sharing.

use super::super::After;
use super::{Fixture, never_canceled};
use crate::compiler_mode::CompilerMode;
use ankerdb_engine::SqlState;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

const LINES: usize = 20_000;

/// How many rows the scans of a plan have given.
fn rows_read_by(operators: &Arc<dyn ExecutionPlan>) -> usize {
    let mut read = 0;
    let counted = operators.apply(|node| {
        if node.name() == "ScanExec" {
            read += node.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or_default();
        }
        Ok(TreeNodeRecursion::Continue)
    });
    counted.expect("a plan");
    read
}

impl Fixture {
    /// How many rows scans have given, with sharing and without; the results are the same.
    fn rows_read(&self, sql: &str) -> [usize; 2] {
        let mut results = Vec::new();
        let read = [CompilerMode::Always, CompilerMode::Off].map(|mode| {
            let (rows, operators) = self.rows_and_operators(sql, mode);
            results.push(rows);
            rows_read_by(&operators)
        });
        assert_eq!(results[0], results[1], "{sql}");
        assert!(!results[0].is_empty(), "{sql}");
        read
    }
}

#[test]
fn an_aggregate_that_stands_twice_is_computed_once() {
    let fixture = Fixture::with_lines(LINES as i32);
    for sql in [
        "WITH t AS (SELECT district, sum(amount) AS total FROM line GROUP BY district) \
         SELECT district, total FROM t WHERE total = (SELECT max(total) FROM t)",
        "WITH t AS (SELECT district, count(*) AS lines FROM line WHERE amount > 5 GROUP BY district) \
         SELECT a.lines, b.lines FROM t a JOIN t b ON a.district = b.district",
        "WITH t AS (SELECT district, count(*) AS lines FROM line GROUP BY district) \
         SELECT district FROM t UNION ALL SELECT district FROM t ORDER BY 1",
    ] {
        assert_eq!(fixture.rows_read(sql), [LINES, 2 * LINES], "{sql}");
    }
}

#[test]
fn aggregates_that_differ_are_computed_each() {
    let fixture = Fixture::with_lines(LINES as i32);
    for sql in [
        "SELECT (SELECT sum(amount) FROM line WHERE amount > 5), (SELECT sum(amount) FROM line WHERE amount > 6)",
        "SELECT (SELECT sum(amount) FROM line), (SELECT min(amount) FROM line)",
        "SELECT (SELECT count(amount) FROM line), (SELECT count(DISTINCT amount) FROM line)",
    ] {
        assert_eq!(fixture.rows_read(sql), [2 * LINES, 2 * LINES], "{sql}");
    }
}

#[test]
fn an_error_of_a_shared_aggregate_is_an_error_of_the_query() {
    let fixture = Fixture::with_lines(LINES as i32);
    let sql = "WITH t AS (SELECT district, sum(1 / (amount - 7)) AS total FROM line GROUP BY district) \
               SELECT district FROM t WHERE total = (SELECT max(total) FROM t)";
    let plan = fixture.plan(sql, &[]).expect("a plan");
    let after = After { compiler: CompilerMode::Always, ..After::default() };
    let mut result = fixture.olap.run_after(&plan, &[], fixture.view(), after, never_canceled());
    let error = loop {
        match result.next_batch() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("an amount is 7"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.state(), SqlState::DivisionByZero);
}

#[test]
fn rows_that_are_too_many_are_computed_by_each_reader() {
    let fixture = Fixture::with_lines(LINES as i32);
    // A group for each line; one that is kept again, and one whose two readers wait for each other.
    for sql in [
        "WITH t AS (SELECT id, count(*) AS lines, sum(amount) AS total FROM line WHERE id >= 0 GROUP BY id) \
         SELECT count(*), sum(total), sum(lines) FROM (SELECT * FROM t UNION ALL SELECT * FROM t) AS u",
        "WITH t AS (SELECT id, sum(amount) AS total FROM line GROUP BY id) \
         SELECT id, total FROM t WHERE total = (SELECT max(total) FROM t)",
        "WITH t AS (SELECT id, sum(amount) AS total FROM line GROUP BY id) \
         SELECT count(*), sum(a.total + b.total) FROM t a JOIN t b ON a.id = b.id",
    ] {
        let [read, all] = fixture.rows_read(sql);
        assert!(read > LINES, "{sql}: {read} rows");
        assert_eq!(all, 2 * LINES, "{sql}");
    }
}
