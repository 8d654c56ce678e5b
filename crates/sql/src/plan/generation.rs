//! Columns that are computed from others (`GENERATED ALWAYS AS (...) STORED`): from SQL to what the engine computes.

use super::default::parsed;
use super::derivation::{is_immutable, normal};
use crate::aggregates::aggregates;
use crate::expression::moments::settled;
use crate::expression::{Binder, Context, Expression, Parameters, Refusal, Scope, columns_of, evaluate};
use crate::name::{folded, identifier, quoted};
use crate::visit;
use ankerdb_engine::{
    ColumnDefinition, DataType, Error, Generation, Interrupt, Result, SqlState, TableDefinition, Value,
};
use ankerdb_value::assign;
use datafusion::sql::sqlparser::ast::Expr;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A column that is to be computed, by its name, and the expression.
pub(crate) type NewGeneration = (String, Expr);

/// Binds what is computed in a table that has all its columns: what its columns say already, and what is new.
///
/// # Errors
/// 42P17 for an expression that refers to a computed column, or does not depend on the row alone; those of binding.
pub(crate) fn bind_generations(table: &mut TableDefinition, new: &[NewGeneration]) -> Result<()> {
    let known = table.columns.iter().filter_map(|column| {
        let text = &column.generation.as_ref()?.text;
        Some(parsed(text).map(|expr| (column.name.clone(), expr)))
    });
    let mut all = known.collect::<Result<Vec<_>>>()?;
    all.extend(new.iter().cloned());
    let is_computed = |name: &str| all.iter().any(|(computed, _)| computed == name);
    let mut bound = Vec::with_capacity(all.len());
    for (name, expr) in &all {
        let Some(position) = table.position(name) else { continue };
        if let Some(used) = names(expr).into_iter().find(|name| is_computed(name)) {
            let message =
                format!("cannot use generated column {} in column generation expression", quoted(&used));
            let detail = "A generated column cannot reference another generated column.";
            return Err(Error::new(SqlState::InvalidObjectDefinition, message).with_detail(detail));
        }
        bound.push((position, generation(table, &table.columns[position], expr)?));
    }
    bound
        .into_iter()
        .for_each(|(position, generation)| table.columns[position].generation = Some(generation));
    Ok(())
}

/// What computes a column by the text that a table has kept.
///
/// # Errors
/// Those of binding.
pub(crate) fn kept(table: &TableDefinition, column: usize, text: &str) -> Result<Generation> {
    let bound = generation(table, &table.columns[column], &parsed(text)?)?;
    Ok(Generation { text: text.to_owned(), ..bound })
}

/// The names of columns that an expression uses.
pub(crate) fn names(expr: &Expr) -> Vec<String> {
    let mut names = Vec::new();
    let _ = visit::visit_expressions(expr, |expr| {
        names.extend(match expr {
            Expr::Identifier(name) => Some(folded(name)),
            Expr::CompoundIdentifier(parts) => parts.last().map(folded),
            _ => None,
        });
        ControlFlow::<()>::Continue(())
    });
    names
}

/// The computed columns that use one of these names, in their order.
pub(crate) fn users_of(table: &TableDefinition, name: &str) -> Result<Vec<String>> {
    let mut users = Vec::new();
    for column in &table.columns {
        if let Some(generation) = &column.generation
            && names(&parsed(&generation.text)?).iter().any(|used| used == name)
        {
            users.push(column.name.clone());
        }
    }
    Ok(users)
}

fn generation(table: &TableDefinition, column: &ColumnDefinition, expr: &Expr) -> Result<Generation> {
    check_form(expr)?;
    let (kept, bound) = settled(expr, |expr| {
        let mut parameters = Parameters::default();
        let scope = Scope::default().with(table.name.clone(), &table.columns);
        let bound = Binder::new(scope, &mut parameters).bind_assigned(expr, column);
        let bound = bound.map_err(Refusal::into_error)?;
        match parameters.known().is_empty() {
            true => Ok(bound),
            false => Err(Error::new(SqlState::UndefinedParameter, "there is no parameter $1")),
        }
    })?;
    if !is_immutable(&bound, &table.columns) {
        let message = "generation expression is not immutable";
        return Err(Error::new(SqlState::InvalidObjectDefinition, message));
    }
    let (sources, data_type) = (columns_of([&bound], table.columns.len()), column.data_type);
    let compute = Arc::new(move |value: &dyn Fn(usize) -> Value| computed(&bound, data_type, value));
    Ok(Generation { text: text(&kept), sources, compute })
}

/// That it is an expression about one row; PostgreSQL's words for what is not.
///
/// # Errors
/// `FeatureNotSupported` for a subquery, `GroupingError` for an aggregate.
fn check_form(expr: &Expr) -> Result<()> {
    let refused = |state: SqlState, message: &'static str| ControlFlow::Break(Error::new(state, message));
    let found = visit::visit_expressions(expr, |expr| match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
            refused(SqlState::FeatureNotSupported, "cannot use subquery in column generation expression")
        }
        Expr::Function(call) if aggregates(call) => {
            let message = "aggregate functions are not allowed in column generation expressions";
            refused(SqlState::GroupingError, message)
        }
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn computed(expression: &Expression, data_type: DataType, value: &dyn Fn(usize) -> Value) -> Result<Value> {
    let interrupt = Interrupt::default();
    let context = Context::of_row(value, &interrupt);
    match evaluate(expression, &context)? {
        Value::Null => Ok(Value::Null),
        value => assign(value, data_type),
    }
}

/// The text that the table keeps, and shows.
fn text(expr: &Expr) -> String {
    let mut expr = normal(expr);
    let _ = visit::visit_expressions_mut(&mut expr, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let Some(name) = parts.last()
        {
            *expr = Expr::Identifier(identifier(&folded(name)));
        }
        ControlFlow::<()>::Continue(())
    });
    expr.to_string()
}
