//! Analytical queries from Rust, for embedding and benchmarks: Arrow batches instead of rows.

use super::Telling;
use super::function::is_postgres;
use super::planner::TableSources;
use super::scan::table_schema;
use super::{OlapEngine, OlapPlan, materialize};
use crate::CancelHandle;
use crate::compiler_mode::CompilerMode;
use ankerdb_engine::{ReadView, Result, SqlState};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, MutableArrayData, make_array};
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::TableSource;
use datafusion::physical_plan::collect;
use datafusion::sql::sqlparser::ast::Statement;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::from_datafusion;
use ankerdb_engine::Error;

/// An analytical query that can be run again and again. From the third time on a run has the physical plan of an earlier one, where
/// that still suits the data.
pub struct AnalyticalQuery {
    engine: OlapEngine,
    plan: Arc<OlapPlan>,
}

impl AnalyticalQuery {
    /// Runs on the analytical threads and waits. Must not be called from an async task.
    ///
    /// # Errors
    /// The query's; 53200 if there is no memory.
    pub fn run(&self, view: &ReadView) -> Result<Vec<RecordBatch>> {
        let (engine, plan, read) = (self.engine.clone(), self.plan.clone(), view.clone());
        let batches = self.engine.wait(async move {
            let logical = || engine.instantiate(&plan, &[], None, &read);
            let operators = engine.operators(&plan, (&read, &[]), CompilerMode::default(), logical).await?;
            collect(operators.plan, engine.tasks.clone()).await.map_err(from_datafusion)
        })?;
        view.check().map(|()| batches)
    }

    /// Runs over everything committed so far, as a statement outside of a transaction does, and waits: in a copy of the
    /// process where the database's queries run in such ([`Configuration::HeeFork`](ankerdb_engine::Configuration)),
    /// over a snapshot elsewhere. Also returns how long it took to take the snapshot, with the columns that the query
    /// names where columns are snapshotted as a whole, or to make the copy. Must not be called from an async task.
    ///
    /// # Errors
    /// The query's; 53200 if there is no memory, 53300 if there may be no more processes.
    pub fn run_now(&self) -> Result<(Vec<RecordBatch>, Duration)> {
        if let Some(answer) = self.engine.run_forked(&self.plan)? {
            return Ok(answer);
        }
        let started = Instant::now();
        let view = self.engine.database.snapshot().read_view();
        self.materialize(&view)?;
        let creation = started.elapsed();
        Ok((self.run(&view)?, creation))
    }

    /// Takes snapshots of the columns that the query names, where the view reads whole columns and has not read these;
    /// elsewhere nothing happens.
    ///
    /// # Errors
    /// 53200 if memory or mappings run out.
    pub fn materialize(&self, view: &ReadView) -> Result<()> {
        materialize(self.engine.named_columns(&self.plan), view)
    }

    /// The physical plan as text, one line per operator.
    ///
    /// # Errors
    /// The planner's.
    pub fn explain(&self) -> Result<Vec<String>> {
        let node = self.engine.explain_apart(
            &self.plan,
            Telling { verbose: false, compiler: CompilerMode::default() },
            &CancelHandle::default(),
        )?;
        Ok(crate::explain::lines(node))
    }
}

/// The named tables as DataFusion itself would hold them: the yardstick for what our storage costs. Queries
/// planned here run on the same threads, with the same settings, functions and types.
pub struct MemoryBaseline {
    engine: OlapEngine,
    tables: Tables,
}

struct Tables(HashMap<String, Arc<MemTable>>);

impl TableSources for Tables {
    fn source(&self, _schema: Option<&str>, name: &str) -> Result<Arc<dyn TableSource>> {
        match self.0.get(name) {
            Some(table) => Ok(provider_as_source(table.clone())),
            None => Err(Error::new(SqlState::UndefinedTable, format!("relation \"{name}\" does not exist"))),
        }
    }

    fn schema_of(&self, _name: &str) -> Option<String> {
        None
    }
}

impl MemoryBaseline {
    /// Plans a query over the copies. Its `run` does not look at the view.
    ///
    /// # Errors
    /// 42601 on bad syntax, 42P01 if the table was not copied.
    pub fn plan(&self, sql: &str) -> Result<AnalyticalQuery> {
        let plan = self.engine.plan_over(&*parse(sql)?, &self.tables, &[])?;
        Ok(AnalyticalQuery { engine: self.engine.clone(), plan: Arc::new(plan) })
    }
}

impl OlapEngine {
    /// The names of all functions that queries may call here.
    pub(crate) fn function_names(&self) -> Vec<String> {
        let state = &self.state;
        let scalars = state.scalar_functions().keys().chain(state.higher_order_functions().keys());
        let groups = state.aggregate_functions().keys().chain(state.window_functions().keys());
        let all = scalars.chain(groups).chain(state.table_functions().keys());
        let ours =
            [super::sets::UNNEST, super::sets::SUBSCRIPTS, super::whole_rows::MAKERS[0]].map(str::to_owned);
        all.filter(|name| is_postgres(name)).cloned().chain(ours).collect()
    }

    /// Plans one SELECT without parameters.
    pub(crate) fn query(&self, sql: &str) -> Result<AnalyticalQuery> {
        let plan = self.plan(&*parse(sql)?, &self.database.catalog(), &[])?;
        if !plan.parameters().is_empty() {
            return Err(Error::new(SqlState::UndefinedParameter, "there is no parameter $1"));
        }
        Ok(AnalyticalQuery { engine: self.clone(), plan: Arc::new(plan) })
    }

    /// Copies the named tables, as the view shows them, into DataFusion's own in-memory tables.
    pub(crate) fn memory_baseline(&self, view: &ReadView, tables: &[&str]) -> Result<MemoryBaseline> {
        let catalog = self.database.catalog();
        let mut copies = HashMap::new();
        for &name in tables {
            let table = catalog.table(name)?;
            let schema = table_schema(table.columns());
            let partition_count = self.threads.count;
            let mut partitions: Vec<Vec<RecordBatch>> = vec![Vec::new(); partition_count];
            let types: Vec<_> = table.columns().iter().map(|column| column.data_type).collect();
            let columns: Vec<usize> = (0..types.len()).collect();
            for part in 0..view.parts(&table) {
                let image = view.read(&table, part, &columns)?;
                let batch = copied(&super::arrow::record_batch(image, &types, &schema)?)?;
                partitions[part % partition_count].push(batch);
            }
            let copy = MemTable::try_new(schema, partitions).map_err(from_datafusion)?;
            copies.insert(table.name().to_owned(), Arc::new(copy));
        }
        Ok(MemoryBaseline { engine: self.clone(), tables: Tables(copies) })
    }
}

/// The batch in memory of its own.
fn copied(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(copied_array).collect::<Result<_>>()?;
    RecordBatch::try_new(batch.schema(), columns).map_err(internal)
}

fn internal(error: ArrowError) -> Error {
    Error::internal(error.to_string())
}

fn copied_array(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        ArrowType::Utf8View => Arc::new(array.as_string_view().gc()),
        ArrowType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => {
            let data = array.to_data();
            let mut copy = MutableArrayData::new(vec![&data], false, data.len());
            copy.try_extend(0, 0, data.len()).map_err(internal)?;
            make_array(copy.freeze())
        }
    })
}

/// One SELECT, by the parser of all statements, with its limits.
pub(crate) fn parse(sql: &str) -> Result<Arc<Statement>> {
    let mut statements = crate::parse::parse(sql)?;
    if statements.iter().any(|statement| statement.as_of.is_some()) {
        return Err(crate::name::not_supported("AS OF in an analytical query, which is told what it reads"));
    }
    match (statements.pop().and_then(|statement| statement.ast), statements.is_empty()) {
        (Some(statement), true) if matches!(*statement, Statement::Query(_)) => Ok(statement),
        _ => Err(Error::new(SqlState::SyntaxError, "an analytical query is one SELECT")),
    }
}
