//! CHECK constraints: from SQL to what the engine tests.

use crate::expression::moments::settled;
use crate::expression::{
    Binder, Context, Expression, NoSequences, Parameters, Refusal, Scope, columns_of, evaluate,
};
use ankerdb_engine::{Check, Interrupt, Result, TableDefinition, Value};
use datafusion::sql::sqlparser::ast::Expr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Adds constraints to a table that has all its columns, each with its name if it has one. They are tested in the order of
/// their names, as PostgreSQL does.
///
/// # Errors
/// 42703 for unknown columns, 42804 if it is no condition, 0A000 for what a condition on a row cannot have.
pub(crate) fn add_checks(table: &mut TableDefinition, checks: Vec<(Option<String>, &Expr)>) -> Result<()> {
    for (name, expr) in checks {
        let check = check(table, name, expr)?;
        table.checks.push(check);
    }
    table.checks.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(())
}

/// A constraint of a table that has all its columns.
///
/// # Errors
/// Those of [`add_checks`].
pub(crate) fn check(table: &TableDefinition, name: Option<String>, expr: &Expr) -> Result<Check> {
    let (kept, condition) = settled(expr, |expr| {
        let scope = Scope::default().with(table.name.clone(), &table.columns);
        let mut parameters = Parameters::default();
        let bound = Binder::new(scope, &mut parameters).bind_condition(expr, "CHECK");
        bound.map_err(Refusal::into_error)
    })?;
    let name = name.unwrap_or_else(|| generated_name(table, &condition));
    let columns = columns_of([&condition], table.columns.len());
    let test = Arc::new(move |value: &dyn Fn(usize) -> Value| is_satisfied(&condition, value));
    Ok(Check { name, text: kept.to_string(), columns, is_validated: true, test })
}

/// The condition whose text a table keeps.
pub(crate) fn parsed_check(text: &str) -> Result<Expr> {
    super::default::parsed(text)
}

/// `table_column_check`, or `table_check` where it is not about one column; numbered if that is taken.
fn generated_name(table: &TableDefinition, condition: &Expression) -> String {
    let mut columns = Vec::new();
    condition.collect_columns(&mut columns);
    columns.sort_unstable();
    columns.dedup();
    let base = match columns.as_slice() {
        [column] => format!("{}_{}_check", table.name, table.columns[*column].name),
        _ => format!("{}_check", table.name),
    };
    let is_free = |name: &String| table.checks.iter().all(|check| check.name != *name);
    let numbered = (1..).map(|number| format!("{base}{number}"));
    std::iter::once(base.clone()).chain(numbered).find(is_free).unwrap_or(base)
}

fn is_satisfied(condition: &Expression, value: &dyn Fn(usize) -> Value) -> Result<bool> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
    let interrupt = Interrupt::default();
    let context = Context {
        column: value,
        parameters: &[],
        subqueries: &[],
        now,
        interrupt: &interrupt,
        sequences: &NoSequences,
    };
    Ok(evaluate(condition, &context)? != Value::Boolean(false))
}
