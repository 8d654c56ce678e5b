//! MERGE, and UPDATE and DELETE over several relations: writes to rows that a query has found.
//!
//! A query gives the rows of the join, with the identities of the target's rows. Those that are to be written are locked,
//! and if one has changed meanwhile the query runs again; so do the statements on one table. Then each is written, once.

use super::select::values;
use super::write::{assigned, changes, check_view, lock_all};
use super::{Done, Environment, until_stable};
use crate::expression::{evaluate, is_true};
use crate::olap::target::row_of;
use crate::plan::{Action, Clause, JoinedPlan, Returning};
use ankerdb_engine::{Error, Result, RowId, SqlState, Transaction, Value};
use std::collections::HashSet;

/// A row of the join, and what is to be done with it.
struct Found<'a> {
    /// The target's row.
    row: Option<RowId>,
    action: &'a Action,
    /// The query's result, identity first.
    values: Vec<Value>,
}

impl Found<'_> {
    /// The value in a column of the target or, behind those, of the query's result. `row`: the target's.
    fn value(
        &self,
        plan: &JoinedPlan,
        transaction: &Transaction,
        row: Option<RowId>,
        column: usize,
    ) -> Value {
        value(plan, transaction, row, &self.values, column)
    }
}

fn value(
    plan: &JoinedPlan,
    transaction: &Transaction,
    row: Option<RowId>,
    values: &[Value],
    column: usize,
) -> Value {
    match (column.checked_sub(plan.table.columns().len()), row) {
        (Some(place), _) => values[place].clone(),
        (None, Some(row)) => transaction.value(&plan.table, row, column),
        (None, None) => Value::Null,
    }
}

/// Runs the plan. `query` gives the rows of the join as the transaction sees them now.
pub(crate) fn joined(
    plan: &JoinedPlan,
    query: impl Fn(&mut Transaction) -> Result<Vec<Vec<Value>>>,
    transaction: &mut Transaction,
    environment: &Environment,
) -> Result<Done> {
    if plan.clauses.iter().all(|clause| matches!(clause.action, Action::Delete)) {
        // It may need much memory, but frees more.
        environment.interrupt.set_frees(!transaction.has_writes());
    }
    let found = until_stable(transaction, environment, |transaction| {
        let rows = query(transaction)?;
        transaction.note_table_read(&plan.table, plan.columns, None)?;
        let found = chosen(plan, rows, transaction, environment)?;
        let rows = found.iter().filter_map(|found| found.row);
        Ok(lock_all(&plan.table, rows, transaction, environment)?.then_some(found))
    })?;
    let mut done = Done { count: 0, rows: Vec::new() };
    environment.before_writes(transaction);
    for found in found {
        environment.interrupt.check()?;
        if found.row.is_some_and(|row| !environment.may_write(&plan.table, row)) {
            continue;
        }
        done.count += 1;
        write(plan, &found, transaction, environment, &mut done)?;
    }
    Ok(done)
}

/// What is to be done, each row of the target once.
fn chosen<'a>(
    plan: &'a JoinedPlan,
    rows: Vec<Vec<Value>>,
    transaction: &Transaction,
    environment: &Environment,
) -> Result<Vec<Found<'a>>> {
    let mut chosen = Vec::new();
    let mut taken = HashSet::new();
    for values in rows {
        environment.interrupt.check()?;
        let row = match values.first() {
            Some(Value::BigInt(number)) => Some(row_of(*number)),
            _ => None,
        };
        let column = |column: usize| value(plan, transaction, row, &values, column);
        let Some(clause) = fitting(&plan.clauses, row, &environment.context(&column))? else { continue };
        match row {
            _ if matches!(clause.action, Action::Nothing) => continue,
            // An UPDATE or DELETE takes any one of the rows that its row is joined with.
            Some(row) if !taken.insert(row) => match plan.command {
                "MERGE" => return Err(second_time()),
                _ => continue,
            },
            _ => {}
        }
        chosen.push(Found { row, action: &clause.action, values });
    }
    Ok(chosen)
}

fn fitting<'a>(
    clauses: &'a [Clause],
    row: Option<RowId>,
    context: &crate::expression::Context,
) -> Result<Option<&'a Clause>> {
    for clause in clauses.iter().filter(|clause| clause.matched == row.is_some()) {
        match &clause.condition {
            Some(condition) if !is_true(condition, context)? => {}
            _ => return Ok(Some(clause)),
        }
    }
    Ok(None)
}

fn second_time() -> Error {
    let message = "MERGE command cannot affect row a second time";
    let hint = "Ensure that not more than one source row matches any one target row.";
    Error::new(SqlState::CardinalityViolation, message).with_hint(hint)
}

fn write(
    plan: &JoinedPlan,
    found: &Found,
    transaction: &mut Transaction,
    environment: &Environment,
    done: &mut Done,
) -> Result<()> {
    let table = &plan.table;
    match (found.action, found.row) {
        (Action::Update(assignments), Some(row)) => {
            let changes = {
                let column = |column: usize| found.value(plan, transaction, found.row, column);
                changes(table, assignments, &environment.context(&column))?
            };
            transaction.update(table, row, changes)?;
            check_view(&plan.checks, table, row, transaction, environment)?;
            give_back(plan, found, found.row, transaction, environment, done)
        }
        (Action::Delete, Some(row)) => {
            give_back(plan, found, found.row, transaction, environment, done)?;
            transaction.delete(table, row)
        }
        (Action::Insert(expressions), _) => {
            let row = {
                let column = |column: usize| found.value(plan, transaction, None, column);
                let context = environment.context(&column);
                let values = expressions.iter().map(|expression| evaluate(expression, &context));
                assigned(table, values.collect::<Result<_>>()?)?
            };
            transaction.insert(table, row).map(drop)
        }
        _ => Ok(()),
    }
}

fn give_back(
    plan: &JoinedPlan,
    found: &Found,
    row: Option<RowId>,
    transaction: &Transaction,
    environment: &Environment,
    done: &mut Done,
) -> Result<()> {
    if let Some(Returning { projection, .. }) = &plan.returning {
        let column = |column: usize| found.value(plan, transaction, row, column);
        done.rows.push(values(projection, &environment.context(&column))?);
    }
    Ok(())
}
