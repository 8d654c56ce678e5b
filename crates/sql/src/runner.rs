//! The context in which statements run, and the running of those that need queries first.

use crate::CancelHandle;
use crate::OutputColumn;
use crate::activity::Activity;
use crate::engine::SqlEngine;
use crate::execute::{self, Done, Environment, SharedView};
use crate::explain::{Meter, Stage, address};
use crate::olap::step::StepRows;
use crate::olap::{After, OlapPlan};
use crate::plan::{
    ColumnSource, InsertPlan, InsertSource, LastStep, Planner, QueryPlan, SelectPlan, WithPlan, WritePlan,
};
use crate::session_sequences::SessionSequences;
use ankerdb_engine::{
    Catalog, DataType, Definitions, Error, Interrupt, Isolation, Result, SearchPath, SystemType, Transaction,
    Value,
};
use ankerdb_value::cast;
use std::sync::Arc;

/// The context that a statement needs besides a transaction.
pub(crate) struct Runner {
    pub engine: SqlEngine,
    pub cancel: CancelHandle,
    /// What others see of the session.
    pub activity: Arc<Activity>,
    pub sequences: Arc<SessionSequences>,
    /// What the open transaction has defined.
    pub definitions: Option<Definitions>,
    /// Where statements look for names without a schema.
    pub path: Arc<SearchPath>,
    /// What EXPLAIN ANALYZE notes of the running statement.
    pub meter: Option<Arc<Meter>>,
}

impl Runner {
    /// The catalog that statements see: the open transaction's, or that of all.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        match &self.definitions {
            Some(definitions) => definitions.known_catalog().clone(),
            None => Arc::new(self.engine.database().catalog().along(self.path.clone())),
        }
    }

    /// From now on names without a schema are looked for along this path.
    pub(crate) fn look_along(&mut self, path: &Arc<SearchPath>) {
        if Arc::ptr_eq(&self.path, path) {
            return;
        }
        self.path = path.clone();
        self.sequences.look_along(path.clone());
        if let Some(definitions) = &mut self.definitions {
            definitions.set_path(path);
        }
    }

    /// A planner for the session's statements over this catalog.
    pub(crate) fn planner(&self, catalog: Arc<Catalog>) -> Planner<'_> {
        Planner::new(&self.engine, &self.cancel, &self.activity, catalog)
    }

    /// Its version.
    pub(crate) fn catalog_version(&self) -> u64 {
        match &self.definitions {
            Some(definitions) => definitions.known_catalog().version(),
            None => self.engine.database().catalog_version(),
        }
    }

    /// Takes what others have defined since into the open transaction's catalog.
    ///
    /// # Errors
    /// `SerializationFailure`, or `DuplicateTable`, if that is not possible.
    pub(crate) fn catch_up(&mut self) -> Result<()> {
        if let Some(definitions) = &mut self.definitions {
            self.sequences.use_catalog(Some(definitions.catalog()?));
        }
        Ok(())
    }

    /// Ends the running statement.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        self.cancel.interrupt()
    }

    /// What a statement sees besides rows. `locking`: it locks rows before it writes them.
    pub(crate) fn environment<'a>(
        &'a self,
        parameters: &'a [Value],
        now: i64,
        locking: bool,
    ) -> Environment<'a> {
        let (interrupt, sequences, meter) = (self.interrupt(), &*self.sequences, self.meter.as_deref());
        Environment { parameters, subqueries: &[], now, locking, interrupt, sequences, shared: None, meter }
    }

    /// Runs a statement that writes, after its subqueries.
    pub(crate) fn run_write(
        &self,
        plan: &WritePlan,
        transaction: &mut Transaction,
        parameters: &[Value],
        now: i64,
        locking: bool,
    ) -> Result<Done> {
        let environment = self.environment(parameters, now, locking);
        let done = match plan {
            WritePlan::With(plan) => self.run_steps(plan, transaction, environment),
            plan => self.run_step(plan, transaction, &environment, &[]),
        }?;
        transaction.check_constraints()?;
        Ok(done)
    }

    /// Runs the statements behind WITH and the one that they stand before, all on the first one's view.
    fn run_steps(
        &self,
        plan: &WithPlan,
        transaction: &mut Transaction,
        environment: Environment,
    ) -> Result<Done> {
        let shared = SharedView::default();
        let environment = Environment { shared: Some(&shared), ..environment };
        let mut results = Vec::with_capacity(plan.steps.len());
        for step in &plan.steps {
            let done = self.run_step(&step.plan, transaction, &environment, &results)?;
            let columns = step.columns.as_deref().unwrap_or_default();
            results.push(Arc::new(StepRows::new(columns, &done.rows, self.interrupt())?));
        }
        match &plan.last {
            LastStep::Write(plan) => self.run_step(plan, transaction, &environment, &results),
            LastStep::Query(plan, _) => {
                let rows = self.run_analytical(plan, transaction, &environment, &results)?;
                Ok(Done { count: rows.len(), rows })
            }
        }
    }

    fn run_step(
        &self,
        plan: &WritePlan,
        transaction: &mut Transaction,
        environment: &Environment,
        steps: &[Arc<StepRows>],
    ) -> Result<Done> {
        let results = self.run_subqueries(plan.subqueries(), transaction, environment, steps)?;
        let environment = Environment { subqueries: &results, ..*environment };
        let done = match plan {
            WritePlan::Insert(plan) => self.run_insert(plan, transaction, &environment, steps),
            WritePlan::Update(plan) => execute::update(plan, transaction, &environment),
            WritePlan::Delete(plan) => execute::delete(plan, transaction, &environment),
            WritePlan::Joined(plan) => {
                let query = |transaction: &mut Transaction| {
                    self.run_analytical(&plan.query, transaction, &environment, steps)
                };
                execute::joined(plan, query, transaction, &environment)
            }
            WritePlan::With(_) => Err(Error::internal("a statement behind WITH has steps of its own")),
        }?;
        if let Some(meter) = &self.meter {
            meter.note_rows(address(plan), Stage::Whole, done.rows.len());
        }
        Ok(done)
    }

    fn run_insert(
        &self,
        plan: &InsertPlan,
        transaction: &mut Transaction,
        environment: &Environment,
        steps: &[Arc<StepRows>],
    ) -> Result<Done> {
        match &plan.source {
            InsertSource::Values(rows) => {
                let context = environment.constant();
                let rows = rows.iter().map(|row| {
                    row.iter().map(|expression| crate::expression::evaluate(expression, &context)).collect()
                });
                execute::insert(plan, rows, transaction, environment)
            }
            InsertSource::Query(query, places) => {
                let rows = self.run_query(query, transaction, environment, steps)?;
                let context = environment.constant();
                let rows = rows.into_iter().map(|row| {
                    let value = |place: &ColumnSource| match place {
                        ColumnSource::Of(column) => Ok(row[*column].clone()),
                        ColumnSource::Default(expression) => {
                            crate::expression::evaluate(expression, &context)
                        }
                    };
                    places.iter().map(value).collect()
                });
                execute::insert(plan, rows, transaction, environment)
            }
        }
    }

    /// All rows of a query inside a statement that writes.
    pub(crate) fn run_query(
        &self,
        query: &QueryPlan,
        transaction: &mut Transaction,
        environment: &Environment,
        steps: &[Arc<StepRows>],
    ) -> Result<Vec<Vec<Value>>> {
        match query {
            QueryPlan::Select(plan) => Ok(self.run_select(plan, transaction, environment)?.rows),
            QueryPlan::Analytical(plan) => self.run_analytical(plan, transaction, environment, steps),
        }
    }

    /// Runs a query of the OLTP path, after its subqueries.
    pub(crate) fn run_select(
        &self,
        plan: &SelectPlan,
        transaction: &mut Transaction,
        environment: &Environment,
    ) -> Result<Done> {
        if plan.subqueries.is_empty() {
            return execute::select(plan, transaction, environment);
        }
        let results = self.run_subqueries(&plan.subqueries, transaction, environment, &[])?;
        execute::select(plan, transaction, &Environment { subqueries: &results, ..*environment })
    }

    /// The first columns of what the queries give.
    fn run_subqueries(
        &self,
        subqueries: &[QueryPlan],
        transaction: &mut Transaction,
        environment: &Environment,
        steps: &[Arc<StepRows>],
    ) -> Result<Vec<Vec<Value>>> {
        let mut results = Vec::with_capacity(subqueries.len());
        for subquery in subqueries {
            let rows = self.run_query(subquery, transaction, environment, steps)?;
            results.push(rows.into_iter().map(|row| row.into_iter().next().unwrap_or(Value::Null)).collect());
        }
        Ok(results)
    }

    /// What a query is run with that nothing has been done before. `now`: when its transaction began.
    pub(crate) fn after(&self, plan: &Arc<OlapPlan>, now: i64) -> After {
        let probe = self.meter.as_ref().map(|meter| meter.probe(Arc::as_ptr(plan).addr()));
        let (steps, compiler) = (Vec::new(), self.activity.compiler());
        After { now: Some(now), steps, probe, compiler, sequences: Some(self.sequences.clone()) }
    }

    /// Whether somebody looks at the run of its queries: the statement is one of EXPLAIN ANALYZE.
    pub(crate) fn is_measured(&self) -> bool {
        self.meter.is_some()
    }

    /// All rows of an analytical query inside a statement that writes.
    fn run_analytical(
        &self,
        plan: &Arc<OlapPlan>,
        transaction: &mut Transaction,
        environment: &Environment,
        steps: &[Arc<StepRows>],
    ) -> Result<Vec<Vec<Value>>> {
        note_reads(plan, transaction)?;
        let shared = environment.shared.and_then(|shared| shared.view().cloned());
        let view = shared.unwrap_or_else(|| transaction.read_view());
        let (parameters, cancel) = (environment.parameters, self.cancel.clone());
        let after = After { steps: steps.to_vec(), ..self.after(plan, environment.now) };
        let mut result = self.engine.olap().run_after(plan, parameters, view, after, cancel);
        let lists: Vec<(usize, DataType)> = lists(plan.output()).collect();
        let mut rows = Vec::new();
        while let Some(batch) = result.next_batch()? {
            self.interrupt().check()?;
            for mut row in batch {
                for &(place, list) in &lists {
                    row[place] = cast(std::mem::replace(&mut row[place], Value::Null), list)?;
                }
                rows.push(row);
            }
        }
        Ok(rows)
    }
}

/// The columns that are arrays, with their types: the OLAP path gives them as texts, for clients.
fn lists(output: &[OutputColumn]) -> impl Iterator<Item = (usize, DataType)> {
    output.iter().enumerate().filter_map(|(place, column)| match column.data_type {
        list @ DataType::System(SystemType::List(items)) if !items.is_vector() => Some((place, list)),
        _ => None,
    })
}

/// At SERIALIZABLE, what an analytical query reads takes part in validation.
///
/// # Errors
/// `UndefinedTable` if the plan is of another database.
pub(crate) fn note_reads(plan: &OlapPlan, transaction: &mut Transaction) -> Result<()> {
    if transaction.isolation() == Isolation::Serializable {
        for (table, columns) in plan.tables() {
            transaction.note_table_read(table, *columns, None)?;
        }
    }
    Ok(())
}
