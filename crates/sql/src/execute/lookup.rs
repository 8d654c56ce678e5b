//! SELECT over rows that indexes lead to, one table after the other.

use super::scan::RowSource;
use super::select::{order, values, window};
use super::sort::sort;
use super::{Done, Environment};
use crate::explain::{Stage, address};
use crate::expression::evaluate;
use crate::plan::{Aggregate, AggregateKind, Grouping, LookupPlan};
use ankerdb_engine::{Error, Result, RowId, SqlState, Transaction, Value};
use ankerdb_value::Decimal;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// Rows of all tables that such a plan may visit before it gives way to an analytical one: some milliseconds.
const MOST_ROWS: usize = 10_000;
/// For each place of an index that the statement names, at least so many: it has asked for them.
const ROWS_FOR_PLACE: usize = 4;

/// A row of each table so far, in the order of the steps.
type Joined = [RowId];

/// What is done with each joined row.
type Emit<'a> = dyn FnMut(&Transaction, &Joined) -> Result<ControlFlow<()>> + 'a;

/// Runs the plan; `None` if it meets more rows than it is good for. EXPLAIN ANALYZE runs it to its end.
pub(crate) fn lookup(
    plan: &LookupPlan,
    transaction: &mut Transaction,
    environment: &Environment,
) -> Result<Option<Done>> {
    let places: usize = plan.steps.iter().map(|step| step.access.places()).sum();
    let left = match environment.meter {
        Some(_) => Cell::new(usize::MAX),
        None => Cell::new(MOST_ROWS.max(places.saturating_mul(ROWS_FOR_PLACE))),
    };
    let run = Run { plan, left: &left };
    let (skipped, limit) = window(&plan.limit, &plan.offset, environment)?;
    let rows = match &plan.grouping {
        Some(grouping) => run.grouped(grouping, transaction, environment)?,
        None => run.plain(skipped.saturating_add(limit), transaction, environment)?,
    };
    if left.get() == 0 {
        return Ok(None);
    }
    let rows: Vec<_> = rows.into_iter().skip(skipped).take(limit).collect();
    if let Some(meter) = environment.meter {
        meter.note_rows(address(plan), Stage::Whole, rows.len());
    }
    Ok(Some(Done { count: rows.len(), rows }))
}

struct Run<'a> {
    plan: &'a LookupPlan,
    /// Rows that may still be visited.
    left: &'a Cell<usize>,
}

impl Run<'_> {
    /// Visits each joined row.
    fn each(&self, transaction: &mut Transaction, environment: &Environment, emit: &mut Emit) -> Result<()> {
        self.descend(&mut Vec::new(), transaction, environment, emit).map(drop)
    }

    /// Visits the rows of a step that go with the row before, and for each those of the steps behind it.
    fn descend(
        &self,
        row: &mut Vec<RowId>,
        transaction: &mut Transaction,
        environment: &Environment,
        emit: &mut Emit,
    ) -> Result<ControlFlow<()>> {
        let depth = row.len();
        let Some(step) = self.plan.steps.get(depth) else { return emit(transaction, row) };
        let source = RowSource {
            table: &step.table,
            access: &step.access,
            filter: step.filter.as_ref(),
            columns: step.columns,
            left: Some(self.left),
        };
        let mut parameters = Vec::new();
        if !step.outer.is_empty() {
            parameters.reserve(environment.parameters.len() + step.outer.len());
            parameters.extend_from_slice(environment.parameters);
            parameters.extend(step.outer.iter().map(|column| self.value(transaction, row, *column)));
        }
        // What is noted of a step is that of its only visit.
        let meter = environment.meter.filter(|_| depth == 0);
        let within = match step.outer.is_empty() {
            true => Environment { meter, ..*environment },
            false => Environment { parameters: &parameters, meter, ..*environment },
        };
        let mut last = ControlFlow::Continue(());
        source.visit(transaction, &within, &mut |transaction, found| {
            row.push(found);
            let flow = self.descend(row, transaction, environment, emit);
            row.pop();
            last = flow?;
            Ok(last)
        })?;
        Ok(if self.left.get() == 0 { ControlFlow::Break(()) } else { last })
    }

    /// The value of a column of the joined row.
    fn value(&self, transaction: &Transaction, row: &Joined, column: usize) -> Value {
        for (step, row) in self.plan.steps.iter().zip(row) {
            if (step.first..step.first + step.table.columns().len()).contains(&column) {
                return transaction.value(&step.table, *row, column - step.first);
            }
        }
        Value::Null
    }

    /// Rows of the result in the order asked for, at least as many as are shown.
    fn plain(
        &self,
        most: usize,
        transaction: &mut Transaction,
        environment: &Environment,
    ) -> Result<Vec<Vec<Value>>> {
        let (sorting, mut found) = (!self.plan.sort.is_empty(), Vec::new());
        if most == 0 {
            return Ok(Vec::new());
        }
        self.each(transaction, environment, &mut |transaction, row| {
            let column = |column: usize| self.value(transaction, row, column);
            let context = environment.context(&column);
            let keys = self.plan.sort.iter().map(|key| evaluate(&key.expression, &context));
            let keys = keys.collect::<Result<Vec<_>>>()?;
            found.push((keys, values(&self.plan.projection, &context)?));
            let is_enough = !sorting && found.len() >= most;
            Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if sorting {
            let by = |(left, _): &(Vec<Value>, _), (right, _): &(Vec<Value>, _)| {
                order(&self.plan.sort, left, right)
            };
            found = sort(found, environment.interrupt, by)?;
        }
        Ok(found.into_iter().map(|(_, row)| row).collect())
    }

    /// The groups, in the order in which they appear.
    fn grouped(
        &self,
        grouping: &Grouping,
        transaction: &mut Transaction,
        environment: &Environment,
    ) -> Result<Vec<Vec<Value>>> {
        let mut places = HashMap::new();
        let mut groups: Vec<(Vec<Value>, Vec<State>)> = Vec::new();
        let fresh = || grouping.aggregates.iter().map(State::of).collect::<Vec<_>>();
        if grouping.keys.is_empty() {
            groups.push((Vec::new(), fresh()));
            places.insert(Vec::new(), 0);
        }
        self.each(transaction, environment, &mut |transaction, row| {
            let keys = grouping.keys.iter().map(|column| self.value(transaction, row, *column));
            let keys: Vec<Value> = keys.collect();
            let place = *places.entry(keys.iter().map(word).collect::<Vec<_>>()).or_insert_with(|| {
                groups.push((keys, fresh()));
                groups.len() - 1
            });
            for (state, aggregate) in groups[place].1.iter_mut().zip(&grouping.aggregates) {
                let value = aggregate.column.map(|column| self.value(transaction, row, column));
                state.add(value)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let rows = groups.into_iter().map(|(mut row, states)| {
            row.extend(states.into_iter().map(State::into_value));
            values(&self.plan.projection, &environment.context(&|column| row[column].clone()))
        });
        rows.collect()
    }
}

/// What a value of a type that is a number is told by; `None` for NULL.
fn word(value: &Value) -> Option<i64> {
    match value {
        Value::Date(day) => Some(i64::from(*day)),
        other => other.as_integer(),
    }
}

/// An aggregate of the rows so far.
enum State {
    Count(i64),
    Distinct(HashSet<i64>),
    /// Of smallints and integers; and whether there was any.
    Sum(Option<i64>),
    Exact(Option<Decimal>),
    /// The least, or with `true` the greatest.
    Extreme(Value, bool),
}

impl State {
    fn of(aggregate: &Aggregate) -> State {
        match aggregate.kind {
            AggregateKind::Count if aggregate.distinct => State::Distinct(HashSet::new()),
            AggregateKind::Count => State::Count(0),
            AggregateKind::Sum => State::Sum(None),
            AggregateKind::Min => State::Extreme(Value::Null, false),
            AggregateKind::Max => State::Extreme(Value::Null, true),
        }
    }

    /// Adds the value of a row; `None` where rows are counted.
    fn add(&mut self, value: Option<Value>) -> Result<()> {
        let Some(value) = value else {
            if let State::Count(count) = self {
                *count += 1;
            }
            return Ok(());
        };
        if value.is_null() {
            return Ok(());
        }
        match self {
            State::Count(count) => *count += 1,
            State::Distinct(seen) => seen.extend(word(&value)),
            State::Extreme(found, greatest) => {
                if found.is_null() || (word(&value) > word(found)) == *greatest {
                    *found = value;
                }
            }
            State::Sum(_) | State::Exact(_) => self.sum(&value)?,
        }
        Ok(())
    }

    fn sum(&mut self, value: &Value) -> Result<()> {
        let exact = match (&*self, value) {
            (_, Value::Numeric(decimal)) => Some(*decimal),
            (_, Value::BigInt(number)) => Some(Decimal::new(i128::from(*number), 0)),
            _ => None,
        };
        match (self, exact, value.as_integer()) {
            (State::Exact(Some(sum)), Some(exact), _) => *sum = sum.checked_add(exact)?,
            (state, Some(exact), _) => *state = State::Exact(Some(exact)),
            (State::Sum(sum), None, Some(number)) => {
                let added = sum.unwrap_or(0).checked_add(number);
                let out = || Error::new(SqlState::NumericValueOutOfRange, "bigint out of range");
                *sum = Some(added.ok_or_else(out)?);
            }
            _ => return Err(Error::internal("a sum of values that are no numbers")),
        }
        Ok(())
    }

    fn into_value(self) -> Value {
        match self {
            State::Count(count) => Value::BigInt(count),
            State::Distinct(seen) => Value::BigInt(seen.len() as i64),
            State::Sum(sum) => sum.map_or(Value::Null, Value::BigInt),
            State::Exact(sum) => sum.map_or(Value::Null, Value::Numeric),
            State::Extreme(found, _) => found,
        }
    }
}
