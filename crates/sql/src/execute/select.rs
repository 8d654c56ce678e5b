//! SELECT on the OLTP path.

use super::scan::RowSource;
use super::sort::sort;
use super::{Done, Environment, until_stable};
use crate::explain::{Stage, address};
use crate::expression::{Context, Expression, evaluate, is_true};
use crate::plan::SelectPlan;
use crate::plan::access::SortKey;
use ankerdb_engine::{Error, LockWait, Locked, Result, RowId, SqlState, Table, Transaction, Value};
use ankerdb_value::compare;
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Runs the plan.
pub(crate) fn select(
    plan: &SelectPlan,
    transaction: &mut Transaction,
    environment: &Environment,
) -> Result<Done> {
    let (skipped, limit) = window(&plan.limit, &plan.offset, environment)?;
    let rows = match &plan.table {
        None => one_row(plan, environment, skipped, limit)?,
        Some(table) => match plan.lock {
            Some(wait) => until_stable(transaction, environment, |transaction| {
                locked(plan, table, wait, transaction, environment, (skipped, limit))
            })?,
            None if plan.sort.is_empty() => {
                streamed(plan, table, transaction, environment, (skipped, limit))?
            }
            None => {
                let found = sorted(plan, table, transaction, environment, usize::MAX)?;
                let chosen = found.into_iter().skip(skipped).take(limit);
                chosen
                    .map(|row| project(&plan.projection, table, transaction, row, environment))
                    .collect::<Result<_>>()?
            }
        },
    };
    note(plan, Stage::Whole, rows.len(), environment);
    Ok(Done { count: rows.len(), rows })
}

/// Tells EXPLAIN ANALYZE of the rows that a step has given.
fn note(plan: &SelectPlan, stage: Stage, rows: usize, environment: &Environment) {
    if let Some(meter) = environment.meter {
        meter.note_rows(address(plan), stage, rows);
    }
}

/// OFFSET and LIMIT.
pub(super) fn window(
    limit: &Option<Expression>,
    offset: &Option<Expression>,
    environment: &Environment,
) -> Result<(usize, usize)> {
    let count = |expression: &Option<Expression>, clause: &str, default: usize| {
        let Some(expression) = expression else { return Ok(default) };
        match evaluate(expression, &environment.constant())? {
            Value::Null => Ok(default),
            Value::BigInt(count) => usize::try_from(count).map_err(|_| negative(clause)),
            Value::Integer(count) => usize::try_from(count).map_err(|_| negative(clause)),
            Value::SmallInt(count) => usize::try_from(count).map_err(|_| negative(clause)),
            _ => Err(Error::new(
                SqlState::DatatypeMismatch,
                format!("argument of {clause} must be type bigint"),
            )),
        }
    };
    Ok((count(offset, "OFFSET", 0)?, count(limit, "LIMIT", usize::MAX)?))
}

fn negative(clause: &str) -> Error {
    let state = match clause {
        "LIMIT" => SqlState::InvalidRowCountInLimitClause,
        _ => SqlState::InvalidRowCountInResultOffsetClause,
    };
    Error::new(state, format!("{clause} must not be negative"))
}

fn one_row(
    plan: &SelectPlan,
    environment: &Environment,
    skipped: usize,
    limit: usize,
) -> Result<Vec<Vec<Value>>> {
    let context = environment.constant();
    let exists = match &plan.filter {
        Some(filter) => is_true(filter, &context)?,
        None => true,
    };
    if !exists || skipped > 0 || limit == 0 {
        return Ok(Vec::new());
    }
    Ok(vec![values(&plan.projection, &context)?])
}

pub(super) fn values(projection: &[Expression], context: &Context) -> Result<Vec<Value>> {
    let mut values = Vec::with_capacity(projection.len());
    for expression in projection {
        values.push(evaluate(expression, context)?);
    }
    Ok(values)
}

/// The select list over one row.
pub(super) fn project(
    projection: &[Expression],
    table: &Arc<Table>,
    transaction: &Transaction,
    row: RowId,
    environment: &Environment,
) -> Result<Vec<Value>> {
    environment.interrupt.check()?;
    let column = |column: usize| transaction.value(table, row, column);
    values(projection, &environment.context(&column))
}

fn source<'a>(plan: &'a SelectPlan, table: &'a Arc<Table>) -> RowSource<'a> {
    RowSource::all(table, &plan.access, plan.filter.as_ref(), plan.columns)
}

/// Rows in the order of the access path; stops as soon as the limit is reached.
fn streamed(
    plan: &SelectPlan,
    table: &Arc<Table>,
    transaction: &mut Transaction,
    environment: &Environment,
    (mut skipped, limit): (usize, usize),
) -> Result<Vec<Vec<Value>>> {
    let mut rows = Vec::new();
    if limit == 0 {
        return Ok(rows);
    }
    source(plan, table).visit(transaction, environment, &mut |transaction, row| {
        if skipped > 0 {
            skipped -= 1;
            return Ok(ControlFlow::Continue(()));
        }
        rows.push(project(&plan.projection, table, transaction, row, environment)?);
        Ok(if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(rows)
}

/// The rows in the order asked for: all, or only the first ones where the access path delivers the order.
fn sorted(
    plan: &SelectPlan,
    table: &Arc<Table>,
    transaction: &mut Transaction,
    environment: &Environment,
    first: usize,
) -> Result<Vec<RowId>> {
    let mut found: Vec<(Vec<Value>, RowId)> = Vec::new();
    if first == 0 {
        return Ok(Vec::new());
    }
    let is_enough = |found: usize| plan.sort.is_empty() && found >= first;
    source(plan, table).visit(transaction, environment, &mut |transaction, row| {
        let column = |column: usize| transaction.value(table, row, column);
        let context = environment.context(&column);
        let keys = plan.sort.iter().map(|key| evaluate(&key.expression, &context));
        found.push((keys.collect::<Result<_>>()?, row));
        Ok(if is_enough(found.len()) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let found = sort(found, environment.interrupt, |(left, _), (right, _)| order(&plan.sort, left, right))?;
    note(plan, Stage::Sort, found.len(), environment);
    Ok(found.into_iter().map(|(_, row)| row).collect())
}

pub(super) fn order(keys: &[SortKey], left: &[Value], right: &[Value]) -> Result<Ordering> {
    for ((key, left), right) in keys.iter().zip(left).zip(right) {
        let ordering = match (left.is_null(), right.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if key.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if key.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let ordering = compare(left, right)?.unwrap_or(Ordering::Equal);
                if key.descending { ordering.reverse() } else { ordering }
            }
        };
        if ordering.is_ne() {
            return Ok(ordering);
        }
    }
    Ok(Ordering::Equal)
}

/// FOR UPDATE: locks rows in order until the limit is reached. `None` if a row has changed meanwhile.
fn locked(
    plan: &SelectPlan,
    table: &Arc<Table>,
    wait: LockWait,
    transaction: &mut Transaction,
    environment: &Environment,
    (mut skipped, limit): (usize, usize),
) -> Result<Option<Vec<Vec<Value>>>> {
    // What lies behind the rows that are locked is not read, and others may write there. Rows that are skipped have others in their place.
    let first = match wait {
        LockWait::Skip => usize::MAX,
        LockWait::Wait | LockWait::NoWait => skipped.saturating_add(limit),
    };
    let found = sorted(plan, table, transaction, environment, first)?;
    let (mut rows, mut count) = (Vec::new(), 0);
    for row in found {
        if rows.len() >= limit {
            break;
        }
        match transaction.lock(table, row, wait)? {
            Locked::Busy => continue,
            Locked::Changed => return Ok(None),
            Locked::Unchanged if skipped > 0 => skipped -= 1,
            Locked::Unchanged => rows.push(project(&plan.projection, table, transaction, row, environment)?),
        }
        count += 1;
    }
    note(plan, Stage::Lock, count, environment);
    Ok(Some(rows))
}
