//! Rows of VALUES whose cells DataFusion finds no common type for.
//!
//! Its planner compares the types of a column's cells as soon as it sees them, before constants have taken the types of what they stand
//! beside, and refuses `VALUES (true), ('f')` and `VALUES ('{1}'::int[]), (NULL)`. Where it does, the query is planned again with each
//! cell within a call that has one type for the whole column, the first cell's that has one. [`typing`](super::typing) takes the calls
//! off and finds the types by PostgreSQL's rules.

use super::spelling::calls;
use crate::visit::{Work, visit, visit_expressions};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{Expr, Query, SetExpr, Statement, Value, ValueWithSpan};
use std::borrow::Cow;
use std::ops::ControlFlow;

/// The function of a cell and of the one whose type the planner is told.
pub(super) const CELL: &str = "cell of a row";

/// Whether the planner refused the rows of VALUES.
pub(super) fn are_refused(error: &DataFusionError) -> bool {
    let DataFusionError::Plan(message) = error.find_root() else { return false };
    message.starts_with("Inconsistent") && message.contains("across values list")
}

/// The query with the cells of VALUES as calls.
pub(super) fn as_calls(mut query: Statement) -> Statement {
    visit(&mut query, &mut Cells { with_parameters: false });
    query
}

/// The query with the cells of those columns of VALUES as calls that have parameters: DataFusion would give them the digits of a numeric
/// beside them.
pub(super) fn with_parameters(query: &Statement) -> Cow<'_, Statement> {
    let is_parameter = |expression: &Expr| match is_parameter(expression) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    if visit_expressions(query, is_parameter).is_continue() {
        return Cow::Borrowed(query);
    }
    let mut query = query.clone();
    visit(&mut query, &mut Cells { with_parameters: true });
    Cow::Owned(query)
}

fn is_parameter(cell: &Expr) -> bool {
    matches!(cell, Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }))
}

struct Cells {
    /// Only of columns that have parameters.
    with_parameters: bool,
}

impl Work for Cells {
    fn query(&mut self, query: &mut Query) {
        let mut bodies = vec![query.body.as_mut()];
        while let Some(body) = bodies.pop() {
            match body {
                SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_mut(), right.as_mut()]),
                SetExpr::Values(values) => {
                    let rows = values.rows.iter_mut().map(|row| row.content.as_mut_slice());
                    self.wrap(rows.collect());
                }
                _ => {}
            }
        }
    }
}

impl Cells {
    fn wrap(&self, mut rows: Vec<&mut [Expr]>) {
        let width = rows.first().map_or(0, |row| row.len());
        if rows.iter().any(|row| row.len() != width) {
            return;
        }
        for position in 0..width {
            let mut cells = rows.iter().map(|row| &row[position]);
            if self.with_parameters && !cells.clone().any(is_parameter) {
                continue;
            }
            let Some(told) = cells.clone().find(|cell| has_type(cell)).or_else(|| cells.next()).cloned()
            else {
                return;
            };
            for row in &mut rows {
                let cell = row[position].clone();
                row[position] = calls(CELL, vec![cell, told.clone()], Vec::new());
            }
        }
    }
}

/// Whether the cell has a type of its own.
fn has_type(cell: &Expr) -> bool {
    let unknown =
        |value: &Value| matches!(value, Value::Null | Value::SingleQuotedString(_) | Value::Placeholder(_));
    !matches!(cell, Expr::Value(ValueWithSpan { value, .. }) if unknown(value))
}
