//! INSERT, UPDATE and DELETE.

use super::scan::RowSource;
use super::select::project;
use super::{Done, Environment, until_stable};
use crate::explain::{Actual, Stage, address};
use crate::expression::{Expression, evaluate, is_true};
use crate::plan::{Conflict, ConflictAction, DeletePlan, InsertPlan, Returning, UpdatePlan, ViewCheck};
use ankerdb_engine::{
    ColumnSet, Error, LockWait, Locked, Result, RowId, SqlState, Table, Transaction, Value,
};
use ankerdb_value::assign;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// New values of one row.
type Changes = Vec<(usize, Value)>;

/// Adds rows: one value for each column, not yet of the columns' exact types.
pub(crate) fn insert(
    plan: &InsertPlan,
    rows: impl IntoIterator<Item = Result<Vec<Value>>>,
    transaction: &mut Transaction,
    environment: &Environment,
) -> Result<Done> {
    let assigned = rows.into_iter().map(|values| {
        environment.interrupt.check()?;
        let mut values = assigned(&plan.table, values?)?;
        // Keys, and what is excluded, are looked at before the row is written.
        if plan.conflict.is_some() {
            plan.table.generate(&mut values)?;
        }
        Ok(values)
    });
    match &plan.conflict {
        Some(conflict) if environment.locking => {
            let rows = assigned.collect::<Result<Vec<_>>>()?;
            lock_conflicting(&plan.table, conflict, &rows, transaction, environment)?;
            insert_assigned(plan, rows.into_iter().map(Ok), transaction, environment)
        }
        _ => insert_assigned(plan, assigned, transaction, environment),
    }
}

/// Locks the rows that ON CONFLICT DO UPDATE is about to change, before anything is written: where one has changed
/// meanwhile, the look at all of them begins again.
fn lock_conflicting(
    table: &Arc<Table>,
    conflict: &Conflict,
    rows: &[Vec<Value>],
    transaction: &mut Transaction,
    environment: &Environment,
) -> Result<()> {
    if matches!(conflict.action, ConflictAction::Nothing) {
        return Ok(());
    }
    until_stable(transaction, environment, |transaction| {
        let mut existing = Vec::new();
        for values in rows {
            environment.interrupt.check()?;
            existing.extend(conflicting(table, conflict, values, transaction)?);
        }
        Ok(lock_all(table, existing.into_iter(), transaction, environment)?.then_some(()))
    })
}

/// Adds or merges rows of the columns' exact types.
fn insert_assigned(
    plan: &InsertPlan,
    rows: impl Iterator<Item = Result<Vec<Value>>>,
    transaction: &mut Transaction,
    environment: &Environment,
) -> Result<Done> {
    let mut done = Done { count: 0, rows: Vec::new() };
    let (mut written, mut added, mut conflicting_rows) = (HashSet::new(), 0, 0);
    environment.before_writes(transaction);
    for values in rows {
        environment.interrupt.check()?;
        let values = values?;
        let existing = match &plan.conflict {
            Some(conflict) => {
                // Also of a row that is not inserted.
                transaction.check_row(&plan.table, &values)?;
                conflicting(&plan.table, conflict, &values, transaction)?
            }
            None => None,
        };
        let row = match (existing, &plan.conflict) {
            (Some(row), Some(conflict)) => {
                conflicting_rows += 1;
                let changed = resolve(plan, conflict, row, &values, &written, transaction, environment)?;
                let Some(row) = changed else { continue };
                row
            }
            _ => {
                added += 1;
                transaction.insert(&plan.table, values)?
            }
        };
        if plan.conflict.is_some() {
            written.insert(row);
        }
        done.count += 1;
        check_view(&plan.checks, &plan.table, row, transaction, environment)?;
        give_back(plan.returning.as_ref(), &plan.table, row, transaction, environment, &mut done)?;
    }
    if let Some(meter) = environment.meter.filter(|_| plan.conflict.is_some()) {
        let actual = Actual { rows: added, times: None, removed: Some(conflicting_rows) };
        meter.note(address(plan), Stage::Conflicts, actual);
    }
    Ok(done)
}

/// The values as the columns' exact types.
pub(super) fn assigned(table: &Table, values: Vec<Value>) -> Result<Vec<Value>> {
    let columns = table.columns().iter();
    values.into_iter().zip(columns).map(|(value, column)| assign_to(value, column.data_type)).collect()
}

fn assign_to(value: Value, data_type: ankerdb_engine::DataType) -> Result<Value> {
    if value.is_null() { Ok(value) } else { assign(value, data_type) }
}

/// The visible row that has one of the new row's keys.
fn conflicting(
    table: &Arc<Table>,
    conflict: &Conflict,
    values: &[Value],
    transaction: &mut Transaction,
) -> Result<Option<RowId>> {
    for &position in &conflict.indexes {
        let index = table.index(position);
        let mut key = Vec::new();
        if index.encode_row(|column| values[column].clone(), &mut key)? {
            continue;
        }
        if let Some(row) = transaction.find(table, position, &key, ColumnSet::EMPTY)? {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// ON CONFLICT's action on the row that exists, which is locked where rows are; the row if it was changed.
fn resolve(
    plan: &InsertPlan,
    conflict: &Conflict,
    row: RowId,
    values: &[Value],
    written: &HashSet<RowId>,
    transaction: &mut Transaction,
    environment: &Environment,
) -> Result<Option<RowId>> {
    let ConflictAction::Update(assignments, condition) = &conflict.action else { return Ok(None) };
    let table = &plan.table;
    if written.contains(&row) {
        let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
        return Err(Error::new(SqlState::CardinalityViolation, message));
    }
    let width = table.columns().len();
    let changes = {
        let column = |column: usize| match column.checked_sub(width) {
            Some(excluded) => values[excluded].clone(),
            None => transaction.value(table, row, column),
        };
        let context = environment.context(&column);
        for shown in &conflict.visible {
            if !is_true(&shown.condition, &context)? {
                let message = format!("conflicting row is not visible through view \"{}\"", shown.view);
                return Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message));
            }
        }
        if let Some(condition) = condition
            && !is_true(condition, &context)?
        {
            return Ok(None);
        }
        changes(table, assignments, &context)?
    };
    transaction.update(table, row, changes)?;
    Ok(Some(row))
}

pub(super) fn changes(
    table: &Table,
    assignments: &[(usize, Expression)],
    context: &crate::expression::Context,
) -> Result<Changes> {
    let mut changes = Vec::with_capacity(assignments.len());
    for (column, expression) in assignments {
        let definition = &table.columns()[*column];
        let value = assign_to(evaluate(expression, context)?, definition.data_type)?;
        changes.push((*column, value));
    }
    Ok(changes)
}

/// Changes rows.
pub(crate) fn update(
    plan: &UpdatePlan,
    transaction: &mut Transaction,
    environment: &Environment,
) -> Result<Done> {
    let source = RowSource::all(&plan.table, &plan.access, plan.filter.as_ref(), plan.columns);
    let found = until_stable(transaction, environment, |transaction| {
        let mut found = Vec::new();
        source.visit(transaction, environment, &mut |transaction, row| {
            let column = |column: usize| transaction.value(&plan.table, row, column);
            found.push((row, changes(&plan.table, &plan.assignments, &environment.context(&column))?));
            Ok(ControlFlow::Continue(()))
        })?;
        let rows = found.iter().map(|(row, _)| *row);
        Ok(lock_all(&plan.table, rows, transaction, environment)?.then_some(found))
    })?;
    let mut done = Done { count: found.len(), rows: Vec::new() };
    environment.before_writes(transaction);
    for (row, changes) in found {
        environment.interrupt.check()?;
        environment.may_write(&plan.table, row);
        transaction.update(&plan.table, row, changes)?;
        check_view(&plan.checks, &plan.table, row, transaction, environment)?;
        give_back(plan.returning.as_ref(), &plan.table, row, transaction, environment, &mut done)?;
    }
    Ok(done)
}

/// Removes rows.
pub(crate) fn delete(
    plan: &DeletePlan,
    transaction: &mut Transaction,
    environment: &Environment,
) -> Result<Done> {
    // It may need much memory, but frees more.
    environment.interrupt.set_frees(!transaction.has_writes());
    let source = RowSource::all(&plan.table, &plan.access, plan.filter.as_ref(), plan.columns);
    let found = until_stable(transaction, environment, |transaction| {
        let mut found = Vec::new();
        source.visit(transaction, environment, &mut |_, row| {
            found.push(row);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(lock_all(&plan.table, found.iter().copied(), transaction, environment)?.then_some(found))
    })?;
    let mut done = Done { count: found.len(), rows: Vec::new() };
    environment.before_writes(transaction);
    for row in found {
        environment.interrupt.check()?;
        environment.may_write(&plan.table, row);
        give_back(plan.returning.as_ref(), &plan.table, row, transaction, environment, &mut done)?;
        transaction.delete(&plan.table, row)?;
    }
    Ok(done)
}

/// Locks the rows where the transaction locks; `false` if one has changed since the statement saw it. All are
/// locked even then, so that the next look is final.
pub(super) fn lock_all(
    table: &Arc<Table>,
    rows: impl Iterator<Item = RowId>,
    transaction: &mut Transaction,
    environment: &Environment,
) -> Result<bool> {
    let mut unchanged = true;
    if environment.locking {
        for row in rows {
            environment.interrupt.check()?;
            unchanged &= transaction.lock(table, row, LockWait::Wait)? == Locked::Unchanged;
        }
    }
    Ok(unchanged)
}

/// 44000 if a row that was written through a view is none that it may show.
pub(super) fn check_view(
    checks: &[ViewCheck],
    table: &Arc<Table>,
    row: RowId,
    transaction: &Transaction,
    environment: &Environment,
) -> Result<()> {
    for check in checks {
        let column = |column: usize| transaction.value(table, row, column);
        if !is_true(&check.condition, &environment.context(&column))? {
            let message = format!("new row violates check option for view \"{}\"", check.view);
            let detail = transaction.failing_row(table, row);
            return Err(Error::new(SqlState::WithCheckOptionViolation, message).with_detail(detail));
        }
    }
    Ok(())
}

fn give_back(
    returning: Option<&Returning>,
    table: &Arc<Table>,
    row: RowId,
    transaction: &Transaction,
    environment: &Environment,
    done: &mut Done,
) -> Result<()> {
    if let Some(returning) = returning {
        done.rows.push(project(&returning.projection, table, transaction, row, environment)?);
    }
    Ok(())
}
