//! Where a row would stand among those of a group: `rank(v) WITHIN GROUP (ORDER BY x)` and its like, as counts.
//!
//! ```text
//! rank(v)            1 + count(*) FILTER (WHERE x < v)
//! dense_rank(v)      1 + count(DISTINCT x) FILTER (WHERE x < v), and one for a NULL before v
//! percent_rank(v)    count(*) FILTER (WHERE x < v) / count(*), 0 for no rows
//! cume_dist(v)       (1 + count(*) FILTER (WHERE NOT v < x)) / (1 + count(*))
//! ```
//! where `<` is the order that is written, for several columns one after the other. A value with columns in it is that of the group, which
//! is NULL where a grouping set leaves the column out; each row still has its own. So there are counts beside NULL, too, and CASE
//! chooses by the value of the group: `CASE WHEN v IS NULL THEN rank(NULL) ELSE rank(v) END`.

use crate::name::{folded, not_supported};
use crate::plain_query::{function, function_call};
use crate::visit::visit_expressions;
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, OrderByExpr, UnaryOperator, Value,
};
use std::ops::ControlFlow;

/// The call in other words; `None` for other calls.
pub(super) fn as_counts(call: &Function) -> Option<Result<Expr>> {
    if call.within_group.is_empty() {
        return None;
    }
    let name = folded(call.name.0.last()?.as_ident()?);
    matches!(name.as_str(), "rank" | "dense_rank" | "percent_rank" | "cume_dist").then(|| counts(call, &name))
}

fn counts(call: &Function, name: &str) -> Result<Expr> {
    let keys = &call.within_group;
    let values = arguments(call).filter(|values| values.len() == keys.len());
    let Some(values) = values else {
        let message = format!("function {name} does not exist");
        let hint = "The number of hypothetical direct arguments must match the number of ordering columns.";
        return Err(Error::new(SqlState::UndefinedFunction, message).with_hint(hint));
    };
    by_group(&values, 0, &|values| counts_beside(call, name, values))
}

/// The counts beside the values of a group, of which those from a place on may be NULL.
fn by_group(values: &[Expr], place: usize, counts: &dyn Fn(&[Expr]) -> Result<Expr>) -> Result<Expr> {
    let Some(value) = values.get(place) else { return counts(values) };
    let known = by_group(values, place + 1, counts)?;
    if !has_column(value) {
        return Ok(known);
    }
    let mut beside_null = values.to_vec();
    beside_null[place] = Expr::value(Value::Null);
    let result = by_group(&beside_null, place + 1, counts)?;
    Ok(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition: Expr::IsNull(Box::new(nested(value.clone()))), result }],
        else_result: Some(Box::new(known)),
    })
}

fn has_column(value: &Expr) -> bool {
    let found = visit_expressions(value, |part: &Expr| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn counts_beside(call: &Function, name: &str, values: &[Expr]) -> Result<Expr> {
    let keys = &call.within_group;
    let given = call.filter.as_deref();
    let rows = |condition: Option<Expr>| count(None, both(given, condition));
    let before = || ordered(keys, values, false);
    Ok(nested(match name {
        "rank" => binary(number("1"), BinaryOperator::Plus, rows(Some(before()))),
        "percent_rank" => {
            let share =
                binary(double(rows(Some(before()))), BinaryOperator::Divide, double(nonzero(rows(None))));
            function_call("coalesce", vec![share, double(number("0"))])
        }
        "cume_dist" => {
            let not_behind = negated(ordered(keys, values, true));
            let one_more = |rows| double(nested(binary(number("1"), BinaryOperator::Plus, rows)));
            binary(one_more(rows(Some(not_behind))), BinaryOperator::Divide, one_more(rows(None)))
        }
        _ => {
            let [key] = keys.as_slice() else { return Err(not_supported("dense_rank of several columns")) };
            let known = count(Some(key.expr.clone()), both(given, Some(before())));
            let is_null = nested(binary(
                Expr::IsNull(Box::new(key.expr.clone())),
                BinaryOperator::And,
                nested(before()),
            ));
            let nulls = function_call("least", vec![rows(Some(is_null)), number("1")]);
            let several = binary(number("1"), BinaryOperator::Plus, known);
            binary(several, BinaryOperator::Plus, nulls)
        }
    }))
}

fn arguments(call: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let given = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(given)) => Some(given.clone()),
        _ => None,
    });
    given.collect()
}

/// Whether a row stands before the values, or behind them. Never unknown.
fn ordered(keys: &[OrderByExpr], values: &[Expr], is_behind: bool) -> Expr {
    let mut whole: Option<Expr> = None;
    for (key, value) in keys.iter().zip(values).rev() {
        let (left, right) = match is_behind {
            true => (value, &key.expr),
            false => (&key.expr, value),
        };
        let descends = key.options.asc == Some(false);
        let nulls_first = key.options.nulls_first.unwrap_or(descends);
        let op = if descends { BinaryOperator::Gt } else { BinaryOperator::Lt };
        let (null, known) = if nulls_first { (left, right) } else { (right, left) };
        let by_null = binary(
            Expr::IsNull(Box::new(null.clone())),
            BinaryOperator::And,
            Expr::IsNotNull(Box::new(known.clone())),
        );
        let compared = function_call(
            "coalesce",
            vec![nested(binary(left.clone(), op, right.clone())), Expr::value(Value::Boolean(false))],
        );
        let first = nested(binary(compared, BinaryOperator::Or, nested(by_null)));
        whole = Some(match whole {
            None => first,
            Some(rest) => {
                let same = Expr::IsNotDistinctFrom(Box::new(left.clone()), Box::new(right.clone()));
                let rest = nested(binary(nested(same), BinaryOperator::And, rest));
                nested(binary(first, BinaryOperator::Or, rest))
            }
        });
    }
    whole.unwrap_or_else(|| Expr::value(Value::Boolean(false)))
}

fn both(given: Option<&Expr>, condition: Option<Expr>) -> Option<Expr> {
    match (given.cloned(), condition) {
        (Some(given), Some(condition)) => Some(binary(nested(given), BinaryOperator::And, nested(condition))),
        (given, condition) => given.or(condition),
    }
}

/// `count(*)`, or that of different values.
fn count(distinct: Option<Expr>, filter: Option<Expr>) -> Expr {
    let argument = match &distinct {
        Some(value) => FunctionArgExpr::Expr(value.clone()),
        None => FunctionArgExpr::Wildcard,
    };
    let mut call = function("count", vec![FunctionArg::Unnamed(argument)]);
    if let (FunctionArguments::List(list), true) = (&mut call.args, distinct.is_some()) {
        list.duplicate_treatment = Some(DuplicateTreatment::Distinct);
    }
    call.filter = filter.map(Box::new);
    Expr::Function(call)
}

fn nonzero(rows: Expr) -> Expr {
    function_call("nullif", vec![rows, number("0")])
}

fn double(value: Expr) -> Expr {
    Expr::Cast {
        kind: datafusion::sql::sqlparser::ast::CastKind::Cast,
        expr: Box::new(value),
        data_type: DataType::DoublePrecision,
        array: false,
        format: None,
    }
}

fn negated(condition: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(condition)) }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn nested(expression: Expr) -> Expr {
    Expr::Nested(Box::new(expression))
}

fn number(text: &str) -> Expr {
    Expr::value(Value::Number(text.to_owned(), false))
}
