//! `COPY table FROM ... WHERE condition`: which rows are stored.
//!
//! The parser knows no condition there, so it is an option whose value is the condition's text (`extra`).

use super::row::RowValues;
use crate::expression::evaluate::is_true;
use crate::expression::{Binder, Context, Expression, Parameters, Refusal, Scope};
use crate::forms::check_condition_of_rows;
use crate::plain_query::plain_query;
use crate::session_sequences::SessionSequences;
use ankerdb_engine::{Error, Interrupt, Result, SqlState, Table};
use datafusion::sql::sqlparser::ast::{Expr, SetExpr, Statement};

/// The condition of a text, over the rows of a table.
///
/// # Errors
/// 42601 for a text that is no condition; those of the condition.
pub(super) fn bound(text: &str, table: &Table) -> Result<Expression> {
    let condition = parsed(text)?;
    check_condition_of_rows(&condition, "COPY FROM WHERE conditions")?;
    let scope = Scope::default().with(table.name(), table.columns());
    let mut parameters = Parameters::default();
    let bound = Binder::new(scope, &mut parameters).bind_condition(&condition, "WHERE");
    bound.map_err(Refusal::into_error)
}

fn parsed(text: &str) -> Result<Expr> {
    let statement = crate::parse::parse(&format!("SELECT 1 WHERE {text}"))?.pop();
    if let Some(Statement::Query(query)) = statement.and_then(|statement| statement.ast).as_deref()
        && let SetExpr::Select(select) = &*query.body
        && **query == plain_query(None, select.projection.clone(), Vec::new(), select.selection.clone())
        && let Some(condition) = &select.selection
    {
        return Ok(condition.clone());
    }
    Err(Error::new(SqlState::SyntaxError, "syntax error in the WHERE clause of COPY"))
}

/// Whether a row is stored.
pub(super) fn is_met(
    condition: &Expression,
    row: RowValues<'_>,
    (now, interrupt, sequences): (i64, &Interrupt, &SessionSequences),
) -> Result<bool> {
    let column = |column: usize| row.value(column).to_value();
    is_true(
        condition,
        &Context { column: &column, parameters: &[], subqueries: &[], now, interrupt, sequences },
    )
}
