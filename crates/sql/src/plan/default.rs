//! What columns get that a statement names no value for.
//!
//! A table keeps its defaults as SQL texts. They are read and bound with each statement that needs them, which happens
//! once for a prepared one.

use crate::expression::bind::Bound;
use crate::expression::{Binder, Expression, Function, Parameters, Refusal, Scope};
use crate::name::{quoted, sequence_name};
use ankerdb_engine::{ColumnDefinition, Error, Result, SqlState, Table, Value};
use datafusion::sql::sqlparser::ast::{self, Expr};

/// The default of each column of a table that is wanted; NULL for the others, and where there is none. Those that are not
/// wanted are not looked at: a default may fail, and only whoever needs it is to notice.
pub(crate) fn defaults(table: &Table, is_wanted: impl Fn(usize) -> bool) -> Bound<Vec<Expression>> {
    let columns = table.columns().iter().enumerate();
    let each = columns.map(|(position, column)| match is_wanted(position) {
        true => default(column),
        false => Ok(Expression::Literal(Value::Null)),
    });
    each.collect()
}

/// The default of a column.
pub(crate) fn default(column: &ColumnDefinition) -> Bound<Expression> {
    match &column.default {
        None => Ok(Expression::Literal(Value::Null)),
        Some(text) => bind(&parsed(text)?, column),
    }
}

/// The expression that a table keeps as text.
pub(crate) fn parsed(text: &str) -> Result<Expr> {
    let statement = crate::parse::parse(&format!("SELECT {text}"))?.pop();
    if let Some(ast::Statement::Query(query)) = statement.and_then(|statement| statement.ast).as_deref()
        && let ast::SetExpr::Select(select) = &*query.body
        && let [ast::SelectItem::UnnamedExpr(expr)] = select.projection.as_slice()
    {
        return Ok(expr.clone());
    }
    Err(Error::internal(format!("{text} is no expression")))
}

fn bind(expr: &Expr, column: &ColumnDefinition) -> Bound<Expression> {
    Binder::new(Scope::default(), &mut Parameters::default()).bind_assigned(expr, column)
}

/// The text to be kept of a new column's default.
///
/// # Errors
/// Those that PostgreSQL has when the table is made. What fails only when it is computed fails then.
pub(crate) fn checked(expr: &Expr, column: &ColumnDefinition) -> Result<String> {
    let error = match bind(expr, column) {
        Ok(_) => None,
        Err(Refusal::Failed(error)) => match error.state() {
            SqlState::DivisionByZero | SqlState::NumericValueOutOfRange => None,
            SqlState::UndefinedColumn => {
                let message = "cannot use column reference in DEFAULT expression";
                Some(Error::new(SqlState::FeatureNotSupported, message))
            }
            _ => Some(error),
        },
        Err(refusal) => Some(refusal.into_error()),
    };
    match error {
        None => Ok(expr.to_string()),
        Some(error) => Err(error),
    }
}

/// Whether the default of the column counts by a sequence, given by name.
pub(crate) fn counts_by(column: &ColumnDefinition, sequence: &str) -> bool {
    fn has(expression: &Expression, sequence: &str) -> bool {
        let is_next = match expression {
            Expression::Call(Function::NextValue, arguments) => match arguments.as_slice() {
                [Expression::Literal(Value::Text(name))] => {
                    sequence_name(name).is_ok_and(|name| name == sequence)
                }
                _ => false,
            },
            _ => false,
        };
        is_next || expression.operands().into_iter().any(|operand| has(operand, sequence))
    }
    default(column).is_ok_and(|expression| has(&expression, sequence))
}

/// The text of a default that counts by a sequence.
pub(crate) fn next_value(sequence: &str) -> String {
    let name = quoted(&sequence.replace('"', "\"\"")).replace('\'', "''");
    format!("nextval('{name}')")
}
