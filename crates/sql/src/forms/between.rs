//! `a BETWEEN SYMMETRIC b AND c`: between them in either order.

use crate::plain_query::function_call;
use crate::written_forms::SYMMETRIC;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
};

/// The lower bound as the dialect reads it: the argument of a function that no client can write.
const MARK: &str = "\0symmetric";

/// The bound that was read behind the word.
pub(crate) fn marked(bound: Expr) -> Expr {
    debug_assert!(MARK.ends_with(SYMMETRIC));
    function_call(MARK, vec![bound])
}

/// The two ranges of which a value may be in either; `None` for other expressions.
pub(super) fn either(expression: &Expr) -> Option<Expr> {
    let Expr::Between { expr, negated, low, high } = expression else { return None };
    let low = bound(low)?;
    let between = |low: &Expr, high: &Expr| Expr::Between {
        expr: expr.clone(),
        negated: *negated,
        low: Box::new(low.clone()),
        high: Box::new(high.clone()),
    };
    let whole = Expr::BinaryOp {
        left: Box::new(between(&low, high)),
        op: if *negated { BinaryOperator::And } else { BinaryOperator::Or },
        right: Box::new(between(high, &low)),
    };
    Some(Expr::Nested(Box::new(whole)))
}

/// The bound without its mark; `None` if it has none.
fn bound(low: &Expr) -> Option<Expr> {
    let Expr::Function(function) = low else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    match (function.name.0.as_slice(), list.args.as_slice()) {
        ([name], [FunctionArg::Unnamed(FunctionArgExpr::Expr(bound))]) => {
            (name.as_ident()?.value == MARK).then(|| bound.clone())
        }
        _ => None,
    }
}
