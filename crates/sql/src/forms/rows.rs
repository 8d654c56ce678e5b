//! Comparisons of rows, as comparisons of their values:
//!
//! ```text
//! (a, b) = (c, d)            a = c AND b = d
//! (a, b) < (c, d)            a < c OR (a = c AND b < d)
//! (a, b) IN ((c, d), ...)    (a = c AND b = d) OR ...
//! (a, b) = (SELECT c, d q)   a = (SELECT c q) AND b = (SELECT d q)
//! (a, b) IN (q)              EXISTS (SELECT FROM (q) AS s (c, d) WHERE a = c AND b = d)   where unknown is as good as false
//! (a, b) NOT IN (q)          NOT EXISTS (SELECT ... WHERE neither a = c nor b = d is false), there, too
//! (a, b) IN (q)              CASE WHEN the one THEN true WHEN NOT the other THEN NULL ELSE false END   elsewhere
//! ```

use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, Select,
    SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, UnaryOperator, Value,
};

/// The name of a subquery that rows are compared with, which a view keeps in its text.
const COMPARED: &str = "operator rows";

/// Writes the comparisons with subqueries in WHERE and HAVING, where unknown is as good as false.
pub(super) fn conditions(query: &mut Query) -> Result<()> {
    selects(&mut query.body, &mut |select| {
        let mut conditions = select.selection.iter_mut().chain(&mut select.having);
        conditions.try_for_each(condition)
    })
}

fn selects(body: &mut SetExpr, work: &mut impl FnMut(&mut Select) -> Result<()>) -> Result<()> {
    match body {
        SetExpr::Select(select) => work(select),
        SetExpr::SetOperation { left, right, .. } => {
            selects(left, work)?;
            selects(right, work)
        }
        _ => Ok(()),
    }
}

fn condition(expression: &mut Expr) -> Result<()> {
    match expression {
        Expr::Nested(inner) => condition(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            condition(left)?;
            condition(right)
        }
        Expr::InSubquery { expr, subquery, negated } => {
            let Some(row) = row(expr) else { return Ok(()) };
            let found = if *negated { not(maybe_in(&row, subquery)) } else { surely_in(&row, subquery) };
            *expression = found;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Writes a comparison of rows.
pub(super) fn value(expression: &mut Expr) -> Result<()> {
    let written = match expression {
        Expr::BinaryOp { left, op, right } => compared(left, op, right)?,
        Expr::IsDistinctFrom(left, right) => distinct(left, right)?,
        Expr::IsNotDistinctFrom(left, right) => distinct(left, right)?.map(not),
        Expr::InList { expr, list, negated } => {
            let Some(row) = row(expr) else { return Ok(()) };
            let found = list.iter().map(|item| match self::row(item) {
                Some(item) => equal(&row, &item),
                None => Err(unequal()),
            });
            let found = nested(any(found.collect::<Result<_>>()?));
            Some(if *negated { not(found) } else { found })
        }
        Expr::AnyOp { left, compare_op, right, .. } => quantified(left, compare_op, true, right)?,
        Expr::AllOp { left, compare_op, right } => quantified(left, compare_op, false, right)?,
        Expr::InSubquery { expr, subquery, negated } => {
            let Some(row) = row(expr) else { return Ok(()) };
            let surely = (surely_in(&row, subquery), boolean(!*negated));
            let unknown = (maybe_in(&row, subquery), Expr::value(Value::Null));
            let branch = |(condition, result)| CaseWhen { condition, result };
            Some(Expr::Case {
                case_token: AttachedToken::empty(),
                end_token: AttachedToken::empty(),
                operand: None,
                conditions: vec![branch(surely), branch(unknown)],
                else_result: Some(Box::new(boolean(*negated))),
            })
        }
        _ => None,
    };
    if let Some(written) = written {
        *expression = written;
    }
    Ok(())
}

/// A row compared with any or all rows of a subquery:
/// ```text
/// (a, b) op ANY (q)   CASE WHEN EXISTS (row with op) THEN true WHEN EXISTS (row with op unknown) THEN NULL ELSE false END
/// ```
fn quantified(left: &Expr, op: &BinaryOperator, any: bool, right: &Expr) -> Result<Option<Expr>> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let mut right = right;
    while let Expr::Nested(inner) = right {
        right = inner;
    }
    let (Some(row), Expr::Subquery(query)) = (row(left), right) else { return Ok(None) };
    if !matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
        return Ok(None);
    }
    let compared = |columns: &[Expr]| match op {
        Eq => equal(&row, columns),
        NotEq => equal(&row, columns).map(not),
        Lt | LtEq => Ok(ordered(&row, columns, Lt, op.clone())),
        _ => Ok(ordered(&row, columns, Gt, op.clone())),
    };
    let names = names(row.len());
    let columns: Vec<Expr> = names.iter().cloned().map(Expr::Identifier).collect();
    let compared = nested(compared(&columns)?);
    let decides = if any { compared.clone() } else { not(compared.clone()) };
    let decided = (rows_with(&names, query, Some(decides)), boolean(any));
    let unknown = rows_with(&names, query, Some(Expr::IsNull(Box::new(compared))));
    let branch = |(condition, result)| CaseWhen { condition, result };
    Ok(Some(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![branch(decided), branch((unknown, Expr::value(Value::Null)))],
        else_result: Some(Box::new(boolean(!any))),
    }))
}

/// The values of a row that is written as one.
pub(crate) fn row(expression: &Expr) -> Option<Vec<Expr>> {
    match expression {
        Expr::Tuple(values) => Some(values.clone()),
        Expr::Nested(inner) => row(inner),
        Expr::Function(function) => {
            let [name] = function.name.0.as_slice() else { return None };
            let FunctionArguments::List(list) = &function.args else { return None };
            if !name.as_ident()?.value.eq_ignore_ascii_case("row") {
                return None;
            }
            let value = |argument: &FunctionArg| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
                _ => None,
            };
            list.args.iter().map(value).collect()
        }
        _ => None,
    }
}

fn compared(left: &Expr, op: &BinaryOperator, right: &Expr) -> Result<Option<Expr>> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    if !matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
        return Ok(None);
    }
    let (left, right) = match (row(left), row(right)) {
        (Some(left), Some(right)) => (left, right),
        (Some(left), None) => match columns_of_row(right) {
            Some(right) => (left, right),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    if left.len() != right.len() {
        return Err(unequal());
    }
    if left.is_empty() {
        return Err(Error::new(SqlState::FeatureNotSupported, "cannot compare rows of zero length"));
    }
    Ok(Some(nested(match op {
        Eq => equal(&left, &right)?,
        NotEq => any(pairs(&left, &right).map(|(left, right)| binary(left, NotEq, right)).collect()),
        Lt | LtEq => ordered(&left, &right, Lt, op.clone()),
        _ => ordered(&left, &right, Gt, op.clone()),
    })))
}

/// The first values decide unless they are equal; the last ones by the operator as it is written.
fn ordered(left: &[Expr], right: &[Expr], strictly: BinaryOperator, last: BinaryOperator) -> Expr {
    let ([first, rest @ ..], [other, others @ ..]) = (left, right) else { return boolean(true) };
    if rest.is_empty() {
        return binary(first.clone(), last, other.clone());
    }
    let equal = binary(first.clone(), BinaryOperator::Eq, other.clone());
    let behind = nested(ordered(rest, others, strictly.clone(), last));
    let tied = nested(binary(equal, BinaryOperator::And, behind));
    binary(binary(first.clone(), strictly, other.clone()), BinaryOperator::Or, tied)
}

fn distinct(left: &Expr, right: &Expr) -> Result<Option<Expr>> {
    let (Some(left), Some(right)) = (row(left), row(right)) else { return Ok(None) };
    if left.len() != right.len() {
        return Err(unequal());
    }
    let each =
        pairs(&left, &right).map(|(left, right)| Expr::IsDistinctFrom(Box::new(left), Box::new(right)));
    Ok(Some(nested(any(each.collect()))))
}

/// A row that a subquery gives, as one subquery for each of its columns; `None` if it cannot be taken apart.
pub(crate) fn columns_of_row(expression: &Expr) -> Option<Vec<Expr>> {
    let Expr::Subquery(query) = expression else { return None };
    let SetExpr::Select(select) = &*query.body else { return None };
    let is_wildcard =
        |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    if select.distinct.is_some() || select.projection.iter().any(is_wildcard) {
        return None;
    }
    let single = |item: &SelectItem| {
        let mut query = query.clone();
        let mut select = select.clone();
        select.projection = vec![item.clone()];
        *query.body = SetExpr::Select(select);
        Expr::Subquery(query)
    };
    Some(select.projection.iter().map(single).collect())
}

/// Whether the subquery has a row for which the comparison is true.
fn surely_in(row: &[Expr], query: &Query) -> Expr {
    exists(row, query, |left, right| binary(left, BinaryOperator::Eq, right))
}

/// Whether the subquery has a row for which the comparison is true or unknown.
fn maybe_in(row: &[Expr], query: &Query) -> Expr {
    exists(row, query, |left, right| {
        let unknown = [&left, &right].map(|side| Expr::IsNull(Box::new(side.clone())));
        let [left_is_null, right_is_null] = unknown;
        any(vec![binary(left, BinaryOperator::Eq, right), left_is_null, right_is_null])
    })
}

fn exists(row: &[Expr], query: &Query, pair: impl Fn(Expr, Expr) -> Expr) -> Expr {
    let names = names(row.len());
    let columns: Vec<Expr> = names.iter().cloned().map(Expr::Identifier).collect();
    let condition = pairs(row, &columns).map(|(left, right)| nested(pair(left, right)));
    let condition = condition.reduce(|all, next| binary(all, BinaryOperator::And, next));
    rows_with(&names, query, condition)
}

/// Names for the columns of a subquery.
fn names(count: usize) -> Vec<Ident> {
    (0..count).map(|place| Ident::with_quote('"', format!("{COMPARED}{place}"))).collect()
}

/// Whether the subquery, whose columns get these names, has a row that satisfies the condition.
fn rows_with(names: &[Ident], query: &Query, condition: Option<Expr>) -> Expr {
    let columns_of = |name: Ident| TableAliasColumnDef { name, data_type: None };
    let alias = TableAlias {
        explicit: true,
        name: Ident::with_quote('"', COMPARED),
        columns: names.iter().cloned().map(columns_of).collect(),
        at: None,
    };
    let subquery = Box::new(query.clone());
    let relation = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
    let one = SelectItem::UnnamedExpr(Expr::value(Value::Number("1".into(), false)));
    let from = vec![TableWithJoins { relation, joins: Vec::new() }];
    let subquery = Box::new(crate::plain_query::plain_query(None, vec![one], from, condition));
    Expr::Exists { subquery, negated: false }
}

/// What a subquery was written for, if it was for a row that is among those of another query.
pub(crate) struct RowAmong<'a> {
    pub(crate) row: Vec<&'a Expr>,
    pub(crate) query: &'a Query,
    /// Whether it is for rows that may be equal, too.
    pub(crate) is_maybe: bool,
}

/// The row and the query that `EXISTS (query)` compares.
pub(crate) fn row_among(query: &Query) -> Option<RowAmong<'_>> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let [from] = select.from.as_slice() else { return None };
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = &from.relation else { return None };
    let mut among = RowAmong { row: Vec::new(), query: subquery, is_maybe: false };
    let is_one = alias.name.value == COMPARED && gather(select.selection.as_ref()?, &mut among);
    (is_one && among.row.len() == alias.columns.len()).then_some(among)
}

/// Gathers what is compared with the columns of the query; whether all of the condition is that.
fn gather<'a>(condition: &'a Expr, among: &mut RowAmong<'a>) -> bool {
    match condition {
        Expr::Nested(inner) => gather(inner, among),
        Expr::IsNull(_) => {
            among.is_maybe = true;
            true
        }
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            gather(left, among) && gather(right, among)
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            among.row.push(left);
            matches!(&**right, Expr::Identifier(name) if name.value.starts_with(COMPARED))
        }
        _ => false,
    }
}

fn pairs<'a>(left: &'a [Expr], right: &'a [Expr]) -> impl Iterator<Item = (Expr, Expr)> + 'a {
    left.iter().cloned().zip(right.iter().cloned())
}

fn equal(left: &[Expr], right: &[Expr]) -> Result<Expr> {
    if left.len() != right.len() {
        return Err(unequal());
    }
    let each = pairs(left, right).map(|(left, right)| binary(left, BinaryOperator::Eq, right));
    Ok(each.reduce(|all, next| binary(all, BinaryOperator::And, next)).unwrap_or_else(|| boolean(true)))
}

fn any(conditions: Vec<Expr>) -> Expr {
    let any = balanced(conditions.into_iter().map(nested).collect(), |left, right| {
        binary(left, BinaryOperator::Or, right)
    });
    any.unwrap_or_else(|| boolean(false))
}

/// All in one, as a tree that is no deeper than it must be: a list of thousands of rows is no chain of thousands.
pub(crate) fn balanced<T>(mut parts: Vec<T>, both: impl Fn(T, T) -> T) -> Option<T> {
    while parts.len() > 1 {
        let mut halved = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(left) = rest.next() {
            halved.push(match rest.next() {
                Some(right) => both(left, right),
                None => left,
            });
        }
        parts = halved;
    }
    parts.pop()
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn not(expression: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(expression)) }
}

fn nested(expression: Expr) -> Expr {
    Expr::Nested(Box::new(expression))
}

fn boolean(value: bool) -> Expr {
    Expr::value(Value::Boolean(value))
}

fn unequal() -> Error {
    Error::new(SqlState::SyntaxError, "unequal number of entries in row expressions")
}
