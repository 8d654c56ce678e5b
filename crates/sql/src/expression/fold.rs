//! Constant folding: what depends on constants only is computed once, when the statement is planned.
//!
//! PostgreSQL does so, and clients see it: `SELECT 1 / 0 FROM t` fails on an empty table, too, and `WHERE false AND 1 / 0 =
//! 1` does not fail. Branches of CASE, COALESCE, AND and OR that a constant decides against are dropped unseen; a NULL for a
//! function that gives NULL for it drops the other arguments.
//!
//! Not here: functions whose results depend on settings or time (`concat`, dates from and to text), which PostgreSQL
//! computes for each row; and the values of parameters.

use super::evaluate::Context;
use super::{Expression, Function, document, evaluate};
use ankerdb_engine::{DataType, Interrupt, PackedType, Result, SqlState, Value};
use ankerdb_value::{assign, cast};
use std::cell::RefCell;

thread_local! {
    static INTERRUPT: RefCell<Option<Interrupt>> = const { RefCell::new(None) };
}

/// Does work that may fold, which this interrupt ends.
pub(crate) fn interruptible<T>(interrupt: &Interrupt, work: impl FnOnce() -> T) -> T {
    let before = INTERRUPT.replace(Some(interrupt.clone()));
    let done = work();
    INTERRUPT.set(before);
    done
}

/// The interrupt of the work that the thread does, or one that nobody raises.
pub(crate) fn interrupt() -> Interrupt {
    INTERRUPT.with_borrow(|current| current.clone().unwrap_or_default())
}

/// The expression with results in place of constant parts.
///
/// # Errors
/// Those of the operators, for parts that are always computed.
pub(crate) fn fold(expression: Expression) -> Result<Expression> {
    match expression {
        Expression::And(operands) => junction(operands, false),
        Expression::Or(operands) => junction(operands, true),
        Expression::Case(branches, otherwise) => case(branches, *otherwise),
        Expression::Coalesce(items) => coalesce(items),
        other => simple(other),
    }
}

/// An operator that looks at all its operands.
fn simple(mut expression: Expression) -> Result<Expression> {
    for operand in expression.operands_mut() {
        let taken = std::mem::replace(operand, Expression::Literal(Value::Null));
        *operand = fold(taken)?;
    }
    computed(expression)
}

fn is_null(expression: &Expression) -> bool {
    matches!(expression, Expression::Literal(Value::Null))
}

fn junction(operands: Vec<Expression>, decisive: bool) -> Result<Expression> {
    let mut kept = Vec::with_capacity(operands.len());
    for operand in operands {
        match fold(operand)? {
            Expression::Literal(Value::Boolean(value)) if value == decisive => {
                return Ok(Expression::Literal(Value::Boolean(decisive)));
            }
            Expression::Literal(Value::Boolean(_)) => {}
            other => kept.push(other),
        }
    }
    Ok(match kept.len() {
        0 => Expression::Literal(Value::Boolean(!decisive)),
        1 => kept.swap_remove(0),
        _ if kept.iter().all(is_null) => Expression::Literal(Value::Null),
        _ if decisive => Expression::Or(kept),
        _ => Expression::And(kept),
    })
}

fn case(branches: Vec<(Expression, Expression)>, otherwise: Expression) -> Result<Expression> {
    let mut kept = Vec::with_capacity(branches.len());
    for (condition, result) in branches {
        match fold(condition)? {
            Expression::Literal(Value::Boolean(false) | Value::Null) => {}
            Expression::Literal(_) if kept.is_empty() => return fold(result),
            Expression::Literal(_) => return Ok(Expression::Case(kept, Box::new(fold(result)?))),
            condition => kept.push((condition, fold(result)?)),
        }
    }
    let otherwise = fold(otherwise)?;
    Ok(if kept.is_empty() { otherwise } else { Expression::Case(kept, Box::new(otherwise)) })
}

fn coalesce(items: Vec<Expression>) -> Result<Expression> {
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        match fold(item)? {
            Expression::Literal(Value::Null) => {}
            constant @ Expression::Literal(_) if kept.is_empty() => return Ok(constant),
            constant @ Expression::Literal(_) => {
                kept.push(constant);
                break;
            }
            other => kept.push(other),
        }
    }
    Ok(match kept.len() {
        0 => Expression::Literal(Value::Null),
        1 => kept.swap_remove(0),
        _ => Expression::Coalesce(kept),
    })
}

/// The result, if all operands are constants, or one that makes it NULL whatever the others are.
fn computed(expression: Expression) -> Result<Expression> {
    let operands = expression.operands();
    // An operator is never computed then, so that it does not matter what else it depends on.
    let is_operator = matches!(
        expression,
        Expression::Cast(..) | Expression::Arithmetic(..) | Expression::Negate(_) | Expression::Compare(..)
    );
    let is_immutable = is_immutable(&expression);
    let is_settled = is_immutable || is_operator;
    if is_settled && is_strict(&expression) && operands.iter().any(|operand| is_null(operand)) {
        return Ok(Expression::Literal(Value::Null));
    }
    if !is_immutable || !operands.iter().all(|operand| matches!(operand, Expression::Literal(_))) {
        return Ok(expression);
    }
    let interrupt = interrupt();
    let no_column = |_: usize| Value::Null;
    let context = Context {
        column: &no_column,
        parameters: &[],
        subqueries: &[],
        now: 0,
        interrupt: &interrupt,
        sequences: &super::NoSequences,
    };
    evaluate(&expression, &context).map(Expression::Literal)
}

/// A cast of something whose type is known; of a literal, its result. What cannot be computed fails where it is needed: not in the branch of
/// a CASE that nothing takes, nor, where the result depends on settings, without a row.
pub(super) fn cast_if_possible(operand: Expression, target: DataType) -> Expression {
    let whole = Expression::Cast(Box::new(operand), target);
    match &whole {
        Expression::Cast(operand, _) if is_immutable(&whole) => match operand.as_ref() {
            Expression::Literal(value) => {
                cast(value.clone(), target).map(Expression::Literal).unwrap_or(whole)
            }
            _ => whole,
        },
        _ => whole,
    }
}

/// A value on its way into a column of the type: a constant that the type's limits do not admit is refused without a row, too.
///
/// # Errors
/// 22001 and 22003.
pub(crate) fn within_limits(expression: Expression, target: DataType) -> Result<Expression> {
    let has_limits = target.is_numeric() || matches!(target, DataType::Varchar(_) | DataType::Char(_));
    match expression {
        Expression::Literal(value @ Value::Text(_)) if target.is_numeric() => Ok(Expression::Literal(value)),
        // The text is by the settings of when it is written.
        Expression::Literal(value) if target.is_text() && is_shown_by_settings(&value) => {
            Ok(Expression::Literal(value))
        }
        Expression::Literal(value) if has_limits => match assign(value.clone(), target) {
            // NaN, which only a row is refused for.
            Err(error) if error.state() == SqlState::FeatureNotSupported => Ok(Expression::Literal(value)),
            done => done.map(Expression::Literal),
        },
        other => Ok(other),
    }
}

/// Whether the text of a value depends on settings.
pub(super) fn is_shown_by_settings(value: &Value) -> bool {
    match value {
        Value::Date(_) | Value::Timestamp(_) | Value::TimestampTz(_) | Value::Interval(_) => true,
        Value::Packed(packed) => matches!(packed.packed_type(), PackedType::Range(_)),
        _ => false,
    }
}

/// Whether equal operands always give equal results.
fn is_immutable(expression: &Expression) -> bool {
    let is_time = |data_type: DataType| {
        use DataType::{Date, Interval, Time, Timestamp, TimestampTz};
        match data_type {
            Date | Timestamp(_) | TimestampTz(_) | Time(_) | Interval(_) => true,
            DataType::Packed(packed) => !packed.is_network(),
            _ => false,
        }
    };
    let is_moment = |operand: &Expression| {
        use Value::{Date, Interval, Time, Timestamp, TimestampTz};
        matches!(
            operand,
            Expression::Literal(Date(_) | Timestamp(_) | TimestampTz(_) | Time(_) | Interval(_))
        )
    };
    match expression {
        Expression::Column(_) | Expression::Parameter(_) | Expression::Literal(_) => false,
        Expression::InSubquery(..) => false,
        Expression::Cast(operand, target) => match **operand {
            Expression::Literal(Value::TimestampTz(_)) => matches!(target, DataType::TimestampTz(_)),
            Expression::Literal(Value::Date(_) | Value::Timestamp(_)) => {
                !target.is_text() && !matches!(target, DataType::TimestampTz(_))
            }
            Expression::Literal(Value::Interval(_)) => !target.is_text(),
            Expression::Literal(Value::Packed(ref packed)) if !packed.packed_type().is_network() => {
                !target.is_text()
            }
            Expression::Literal(Value::Text(_)) => !is_time(*target),
            _ => true,
        },
        // By the time zone, or the style of dates.
        Expression::Arithmetic(_, pair) => {
            !matches!(pair.0, Expression::Literal(Value::TimestampTz(_)))
                && !matches!(pair.1, Expression::Literal(Value::TimestampTz(_)))
        }
        Expression::Concatenate(pair) => !is_moment(&pair.0) && !is_moment(&pair.1),
        // An index is looked up by the document, not by its key.
        other if document::keyed(other).is_some() => false,
        Expression::Call(function, _) => function.is_immutable(),
        _ => true,
    }
}

/// Whether a NULL among the operands makes the result NULL.
fn is_strict(expression: &Expression) -> bool {
    match expression {
        Expression::Cast(..)
        | Expression::Arithmetic(..)
        | Expression::Negate(_)
        | Expression::Compare(..)
        | Expression::Not(_)
        | Expression::Like(_)
        | Expression::Concatenate(_) => true,
        Expression::Call(Function::Library(function, _), _) => function.is_strict(),
        Expression::Call(Function::Array(function, _), _) => function.is_strict(),
        Expression::Call(function, _) => !matches!(
            function,
            Function::Greatest | Function::Least | Function::MakeArray(_) | Function::Domain(_)
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Arithmetic;

    fn number(value: i32) -> Expression {
        Expression::Literal(Value::Integer(value))
    }

    fn divided(left: Expression, right: Expression) -> Expression {
        Expression::Arithmetic(Arithmetic::Divide, Box::new((left, right)))
    }

    fn truth(value: bool) -> Expression {
        Expression::Literal(Value::Boolean(value))
    }

    #[test]
    fn constants_are_computed_and_fail_when_they_are_folded() {
        assert_eq!(fold(divided(number(7), number(2))), Ok(number(3)));
        assert!(fold(divided(number(1), number(0))).is_err());
        let in_sum = Expression::Arithmetic(
            Arithmetic::Add,
            Box::new((Expression::Column(0), divided(number(1), number(0)))),
        );
        assert!(fold(in_sum).is_err());
    }

    #[test]
    fn what_a_constant_decides_against_is_never_computed() {
        let fails = || divided(number(1), number(0));
        let case = Expression::Case(vec![(truth(false), fails())], Box::new(number(1)));
        assert_eq!(fold(case), Ok(number(1)));
        let condition = || Expression::IsNull(Box::new(fails()), true);
        assert_eq!(fold(Expression::And(vec![truth(false), condition()])), Ok(truth(false)));
        assert!(fold(Expression::And(vec![truth(true), condition()])).is_err());
        assert_eq!(fold(Expression::Coalesce(vec![number(1), fails()])), Ok(number(1)));
    }

    #[test]
    fn a_null_makes_the_rest_unneeded() {
        let sum = divided(Expression::Literal(Value::Null), Expression::Column(0));
        assert_eq!(fold(sum), Ok(Expression::Literal(Value::Null)));
    }

    #[test]
    fn dates_become_texts_row_by_row() {
        let date = Expression::Literal(Value::Date(0));
        let text = Expression::Cast(Box::new(date), DataType::Text);
        assert_eq!(fold(text.clone()), Ok(text));
    }
}
