//! Patterns before ANY and ALL of a list: `a LIKE ANY (ARRAY[b, c])` is `a LIKE b OR a LIKE c`.
//!
//! Lists that are not written out are asked item by item, and so are subqueries:
//! ```text
//! a LIKE ANY (list)   CASE WHEN list IS NULL THEN NULL
//!                     ELSE (SELECT CASE WHEN bool_or(a LIKE i) THEN true WHEN bool_or((a LIKE i) IS NULL) THEN NULL ELSE false END
//!                           FROM unnest(list) AS s (i)) END
//! ```

use crate::expression::Quantifier;
use crate::expression::quantified::parts;
use ankerdb_engine::{DataType, ListType, SystemType, Value, ValueRef};
use ankerdb_value::parse_text;
use datafusion::sql::sqlparser::ast::{Array, BinaryOperator, Expr, Value as Literal};

/// The name of a list's item; no client can write it.
const ITEM: &str = "\0pattern";

/// The comparisons with the items; `None` for other expressions, and for a constant that is no list.
pub(super) fn over_items(expression: &Expr) -> Option<Expr> {
    let (left, operator, quantifier, right) = parts(expression)?;
    if !is_pattern(operator) {
        return None;
    }
    let mut right = right;
    while let Expr::Nested(inner) = right {
        right = inner;
    }
    match right {
        Expr::Array(Array { elem, .. }) => Some(joined(left, operator, quantifier, elem.clone())),
        Expr::Value(value) => match &value.value {
            Literal::SingleQuotedString(text) => Some(joined(left, operator, quantifier, items(text)?)),
            _ => None,
        },
        Expr::Cast { expr, .. } if matches!(&**expr, Expr::Array(Array { elem, .. }) if elem.is_empty()) => {
            Some(joined(left, operator, quantifier, Vec::new()))
        }
        other => asked(left, operator, quantifier, other),
    }
}

fn is_pattern(operator: &BinaryOperator) -> bool {
    use BinaryOperator::{
        PGILikeMatch, PGLikeMatch, PGNotILikeMatch, PGNotLikeMatch, PGRegexIMatch, PGRegexMatch,
        PGRegexNotIMatch, PGRegexNotMatch,
    };
    matches!(
        operator,
        PGLikeMatch
            | PGILikeMatch
            | PGNotLikeMatch
            | PGNotILikeMatch
            | PGRegexMatch
            | PGRegexIMatch
            | PGRegexNotMatch
            | PGRegexNotIMatch
    )
}

/// The items of a constant list of texts.
pub(super) fn items(text: &str) -> Option<Vec<Expr>> {
    let list = DataType::System(SystemType::List(ListType::Text));
    let Ok(Value::Array(array)) = parse_text(list, text) else { return None };
    let item = |item: ValueRef<'_>| match item {
        ValueRef::Text(text) => Expr::value(Literal::SingleQuotedString(text.to_owned())),
        _ => Expr::value(Literal::Null),
    };
    Some(array.borrow().items().map(item).collect())
}

fn joined(left: &Expr, operator: &BinaryOperator, quantifier: Quantifier, items: Vec<Expr>) -> Expr {
    let one = |item: Expr| Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(left.clone()))),
        op: operator.clone(),
        right: Box::new(Expr::Nested(Box::new(item))),
    };
    let (op, none) = match quantifier {
        Quantifier::Any => (BinaryOperator::Or, false),
        Quantifier::All => (BinaryOperator::And, true),
    };
    let whole = items.into_iter().map(one).reduce(|whole, item| Expr::BinaryOp {
        left: Box::new(whole),
        op: op.clone(),
        right: Box::new(item),
    });
    Expr::Nested(Box::new(whole.unwrap_or_else(|| Expr::value(Literal::Boolean(none)))))
}

/// The comparisons as a query over the items.
fn asked(left: &Expr, operator: &BinaryOperator, quantifier: Quantifier, right: &Expr) -> Option<Expr> {
    let (aggregate, decides) = match quantifier {
        Quantifier::Any => ("bool_or", true),
        Quantifier::All => ("bool_and", false),
    };
    let one = format!("(({left}) {operator} \"{ITEM}\")");
    let decided = if decides { format!("{aggregate}({one})") } else { format!("NOT {aggregate}({one})") };
    let value = format!(
        "CASE WHEN {decided} THEN {decides} WHEN bool_or({one} IS NULL) THEN NULL ELSE {} END",
        !decides
    );
    let text = match right {
        Expr::Subquery(query) => format!("(SELECT {value} FROM ({query}) AS \"{ITEM}s\" (\"{ITEM}\"))"),
        list => format!(
            "CASE WHEN ({list}) IS NULL THEN NULL ELSE (SELECT {value} FROM unnest({list}) AS \"{ITEM}s\" (\"{ITEM}\")) END"
        ),
    };
    use crate::dialect::Postgres;
    use datafusion::sql::sqlparser::parser::Parser;
    Parser::new(&Postgres::default()).try_with_sql(&text).ok()?.parse_expr().ok()
}
