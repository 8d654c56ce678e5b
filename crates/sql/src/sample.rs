//! `FROM t TABLESAMPLE BERNOULLI (10)`, in which each row has the same chance, as a query with a condition that is drawn for each row:
//!
//! ```text
//! FROM t AS a TABLESAMPLE BERNOULLI (10)    FROM (SELECT * FROM t AS a WHERE random() * 100 < 10) AS a
//! ```
//! `SYSTEM` draws in PostgreSQL whole pages, which tables here do not have, so it draws rows, too.

use crate::plain_query::{function_call, plain_query};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, SelectItem, TableAlias, TableFactor, TableSample, TableSampleKind,
    TableSampleMethod, TableWithJoins, Value, ValueWithSpan, WildcardAdditionalOptions,
};

/// Writes a sample of a table as a query, if it is one that [`check`] has nothing against.
pub(crate) fn rewrite(factor: &mut TableFactor) {
    let TableFactor::Table { name, alias, args: None, sample, .. } = factor else { return };
    let Some(percent) = sample.as_ref().and_then(|kind| percent(kind).ok()) else { return };
    let Some(own) = name.0.last().and_then(|part| part.as_ident()).cloned() else { return };
    *sample = None;
    let alias = alias.clone().map_or(own, |alias: TableAlias| alias.name);
    let drawn = Expr::BinaryOp {
        left: Box::new(function_call("random", Vec::new())),
        op: BinaryOperator::Multiply,
        right: Box::new(number("100")),
    };
    let chosen = Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(drawn))),
        op: BinaryOperator::Lt,
        right: Box::new(percent),
    };
    let rows = vec![TableWithJoins { relation: factor.clone(), joins: Vec::new() }];
    let all = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
    let subquery = Box::new(plain_query(None, all, rows, Some(chosen)));
    let alias = Some(named(alias));
    *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
}

/// What is wrong with a sample that was not rewritten.
///
/// # Errors
/// 2202H for a percentage that is none, 0A000 for what is not supported.
pub(crate) fn check(sample: &TableSampleKind) -> Result<()> {
    percent(sample).map(drop)
}

fn percent(kind: &TableSampleKind) -> Result<Expr> {
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = kind;
    let missing = |what: &str| Err(crate::name::not_supported(what));
    let TableSample { name, quantity: Some(quantity), seed, bucket: None, offset: None, .. } =
        sample.as_ref()
    else {
        return missing("TABLESAMPLE of this form");
    };
    if seed.is_some() {
        return missing("TABLESAMPLE ... REPEATABLE");
    }
    if !matches!(name, Some(TableSampleMethod::Bernoulli | TableSampleMethod::System))
        || quantity.unit.is_some()
    {
        return missing("TABLESAMPLE by another method than BERNOULLI and SYSTEM");
    }
    let invalid = |message| Err(Error::new(SqlState::InvalidTablesampleArgument, message));
    match value(&quantity.value) {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(quantity.value.clone()),
        Some(_) => invalid("sample percentage must be between 0 and 100"),
        None if is_null(&quantity.value) => invalid("TABLESAMPLE parameter cannot be null"),
        None => missing("TABLESAMPLE of a percentage that is no constant"),
    }
}

fn is_null(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(ValueWithSpan { value: Value::Null, .. }))
}

fn value(expression: &Expr) -> Option<f64> {
    use datafusion::sql::sqlparser::ast::UnaryOperator::Minus;
    match expression {
        Expr::UnaryOp { op: Minus, expr } => value(expr).map(|value| -value),
        Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) => text.parse().ok(),
        _ => None,
    }
}

fn number(text: &str) -> Expr {
    Expr::value(Value::Number(text.to_owned(), false))
}

fn named(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}
