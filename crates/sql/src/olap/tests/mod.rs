//! The OLAP path against the engine: what comes out of SQL, and how it fails.

mod columns;
mod compiled;
mod compressed_copies;
mod failure;
mod join_filters;
mod join_order;
mod late_columns;
mod layout;
mod query;
mod reused;
mod settled_groups;
mod shared;
mod single;
mod skipped_blocks;

use super::{After, OlapEngine, OlapPlan, analytical};
use crate::columns::Columns;
use crate::compiler_mode::CompilerMode;
use crate::explain::Probe;
use crate::{CancelHandle, SqlOptions};
use ankerdb_engine::{
    ColumnDefinition, DataType, Database, Decimal, Isolation, ReadView, Result, Table, TableDefinition, Value,
};
use chrono::Utc;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::{Arc, OnceLock};

/// A database, and the OLAP path over it.
struct Fixture {
    database: Database,
    olap: OlapEngine,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::with_memory(256 << 20)
    }

    fn with_memory(memory_limit_bytes: usize) -> Fixture {
        let database = Database::new();
        let olap = OlapEngine::new(&database, &SqlOptions { olap_threads: 2, memory_limit_bytes }).unwrap();
        Fixture { database, olap }
    }

    /// `line`: `rows` order lines, spread over 10 districts, amounts 0.00, 0.01, 0.02 ...
    fn with_lines(rows: i32) -> Fixture {
        let fixture = Fixture::new();
        let line = fixture.create(
            TableDefinition::new("line")
                .column(ColumnDefinition::new("id", DataType::Integer))
                .column(ColumnDefinition::new("district", DataType::SmallInt))
                .column(
                    ColumnDefinition::new("amount", DataType::Numeric { precision: 6, scale: 2 }).nullable(),
                )
                .column(ColumnDefinition::new("info", DataType::Varchar(24)))
                .primary_key(&["id"]),
        );
        let row = |id: i32| {
            vec![
                Value::Integer(id),
                Value::SmallInt((id % 10) as i16),
                numeric(i128::from(id), 2),
                Value::text(format!("information about {id}")),
            ]
        };
        fixture.insert(&line, (0..rows).map(row).collect());
        fixture
    }

    fn create(&self, definition: TableDefinition) -> Arc<Table> {
        self.database.create_table(definition).unwrap()
    }

    fn insert(&self, table: &Arc<Table>, rows: Vec<Vec<Value>>) {
        let mut session = self.database.session();
        let inserted = session.run(Isolation::Serializable, |transaction| {
            rows.iter().try_for_each(|row| transaction.insert(table, row.clone()).map(drop))
        });
        inserted.unwrap();
    }

    fn view(&self) -> ReadView {
        self.database.snapshot().read_view()
    }

    fn plan(&self, sql: &str, declared: &[Option<DataType>]) -> Result<Arc<OlapPlan>> {
        self.olap.plan(&*analytical::parse(sql)?, &self.database.catalog(), declared).map(Arc::new)
    }

    fn query(&self, sql: &str) -> Result<Vec<Vec<Value>>> {
        self.query_with(sql, &[])
    }

    fn query_with(&self, sql: &str, parameters: &[Value]) -> Result<Vec<Vec<Value>>> {
        let plan = self.plan(sql, &[])?;
        self.run(&plan, parameters, self.view())
    }

    fn run(&self, plan: &Arc<OlapPlan>, parameters: &[Value], view: ReadView) -> Result<Vec<Vec<Value>>> {
        let mut result = self.olap.run(plan, parameters, view, never_canceled());
        let mut rows = Vec::new();
        while let Some(batch) = result.next_batch()? {
            rows.extend(batch);
        }
        Ok(rows)
    }

    /// Sorted rows, and the operators that gave them.
    fn rows_and_operators(&self, sql: &str, compiler: CompilerMode) -> (Vec<String>, Arc<dyn ExecutionPlan>) {
        let plan = self.plan(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let probe = Arc::new(Probe { began: Utc::now(), operators: OnceLock::new() });
        let after = After { compiler, probe: Some(probe.clone()), ..After::default() };
        let mut result = self.olap.run_after(&plan, &[], self.view(), after, never_canceled());
        let mut rows = Vec::new();
        while let Some(batch) = result.next_batch().unwrap_or_else(|error| panic!("{sql}: {error:?}")) {
            rows.extend(batch.into_iter().map(|row| format!("{row:?}")));
        }
        rows.sort();
        (rows, probe.operators.get().expect("it has run").clone())
    }

    /// Sorted rows as a view shows them.
    fn rows_of(&self, sql: &str, view: &ReadView, compiler: CompilerMode) -> Vec<String> {
        let plan = self.plan(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let after = After { compiler, ..After::default() };
        let mut result = self.olap.run_after(&plan, &[], view.clone(), after, never_canceled());
        let mut rows = Vec::new();
        while let Some(batch) = result.next_batch().unwrap_or_else(|error| panic!("{sql}: {error:?}")) {
            rows.extend(batch.into_iter().map(|row| format!("{row:?}")));
        }
        rows.sort();
        rows
    }

    /// What all operators of a query have counted by that name; its rows are the same as without the compiler.
    fn counted(&self, sql: &str, counter: &str) -> usize {
        let (found, operators) = self.rows_and_operators(sql, CompilerMode::Always);
        assert_eq!(found, self.rows_of(sql, &self.view(), CompilerMode::Off), "{sql}");
        let mut all = 0;
        let counted = operators.apply(|node| {
            let count = node.metrics().and_then(|metrics| metrics.sum_by_name(counter));
            all += count.map_or(0, |count| count.as_usize());
            Ok(TreeNodeRecursion::Continue)
        });
        counted.expect("a plan");
        all
    }

    /// The only value of a query of one row and column.
    fn value(&self, sql: &str) -> Value {
        let mut rows = self.query(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!((rows.len(), rows[0].len()), (1, 1), "{sql}");
        rows.remove(0).remove(0)
    }
}

fn never_canceled() -> CancelHandle {
    CancelHandle::default()
}

fn numeric(unscaled: i128, scale: u8) -> Value {
    Value::Numeric(Decimal::new(unscaled, scale))
}

/// The rows of a batch.
fn rows_of(batch: &RecordBatch) -> Result<Vec<Vec<Value>>> {
    let columns = Columns::new(batch)?;
    Ok((0..columns.len()).map(|row| columns.row(row)).collect())
}
