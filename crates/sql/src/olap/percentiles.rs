//! Several percentiles at once: `percentile_cont(ARRAY[0.25, 0.5]) WITHIN GROUP (ORDER BY x)`, as a list of single ones.
//!
//! ```text
//! CASE WHEN count(x) > 0 THEN ARRAY[percentile_cont(0.25) WITHIN GROUP (ORDER BY x), percentile_cont(0.5) ...] END
//! ```
//! Each keeps the values of its group for itself. A list that is no constant, or one of lists, is left to the planner, which refuses it.

use crate::name::folded;
use crate::plain_query::function;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
    ValueWithSpan,
};

/// The call in other words; `None` for other calls.
pub(super) fn as_list(call: &Function) -> Option<Expr> {
    let name = folded(call.name.0.last()?.as_ident()?);
    let [key] = call.within_group.as_slice() else { return None };
    let FunctionArguments::List(list) = &call.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(given))] = list.args.as_slice() else { return None };
    if !matches!(name.as_str(), "percentile_cont" | "percentile_disc") {
        return None;
    }
    let single = |fraction: Expr| {
        let mut single = call.clone();
        if let FunctionArguments::List(list) = &mut single.args {
            list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(fraction))];
        }
        Expr::Function(single)
    };
    let all = fractions(given)?
        .into_iter()
        .map(|fraction| if is_null(&fraction) { fraction } else { single(fraction) });
    let all = Expr::Array(Array { elem: all.collect(), named: true });
    let mut rows = function("count", vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(key.expr.clone()))]);
    rows.filter.clone_from(&call.filter);
    let condition = Expr::BinaryOp {
        left: Box::new(Expr::Function(rows)),
        op: BinaryOperator::Gt,
        right: Box::new(Expr::value(Value::Number("0".to_owned(), false))),
    };
    Some(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: all }],
        else_result: None,
    })
}

/// The items of a list that is written out, at least one of them known.
fn fractions(list: &Expr) -> Option<Vec<Expr>> {
    let items = match list {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => return fractions(inner),
        Expr::Array(Array { elem, .. }) => elem.clone(),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
            let items = text.trim().strip_prefix('{')?.strip_suffix('}')?.split(',').map(str::trim);
            let item = |item: &str| match item.parse::<f64>() {
                Ok(_) => Some(Expr::value(Value::Number(item.to_owned(), false))),
                Err(_) => item.eq_ignore_ascii_case("null").then(|| Expr::value(Value::Null)),
            };
            items.map(item).collect::<Option<_>>()?
        }
        _ => return None,
    };
    let is_plain = items.iter().all(|item| !matches!(item, Expr::Array(_)));
    (is_plain && items.iter().any(|item| !is_null(item))).then_some(items)
}

fn is_null(item: &Expr) -> bool {
    matches!(item, Expr::Value(ValueWithSpan { value: Value::Null, .. }))
}
