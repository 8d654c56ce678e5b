//! GROUP BY with grouping sets in all of its forms, as one list of sets: what stands beside each other is multiplied.
//!
//! ```text
//! GROUP BY a, ROLLUP (b, c)                GROUPING SETS ((a, b, c), (a, b), (a))
//! GROUP BY GROUPING SETS (CUBE (a), b)     GROUPING SETS ((a), (), (b))
//! GROUP BY DISTINCT ROLLUP (a), ROLLUP (a) GROUPING SETS ((a), ())
//! ```

use super::grouped_columns::GroupedColumns;
use crate::plain_query::function;
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Query,
    Select, SetExpr, Value,
};

/// What stands before a list whose equal sets are one; no client can write it.
pub(crate) const DISTINCT: &str = "\0distinct sets";
/// PostgreSQL's limit.
const SETS_MAX: usize = 4096;

type Sets = Vec<Vec<Expr>>;

/// Writes the groups of all selects of the query.
///
/// # Errors
/// 54001 for more sets than PostgreSQL takes.
pub(super) fn written(query: &mut Query) -> Result<()> {
    selects(&mut query.body)
}

fn selects(body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::Select(select) => select_groups(select),
        SetExpr::SetOperation { left, right, .. } => {
            selects(left)?;
            selects(right)
        }
        _ => Ok(()),
    }
}

fn select_groups(select: &mut Select) -> Result<()> {
    let GroupByExpr::Expressions(items, modifiers) = &mut select.group_by else { return Ok(()) };
    let is_mark = |item: &Expr| matches!(item, Expr::Identifier(name) if name.value == DISTINCT);
    let is_distinct = items.first().is_some_and(is_mark);
    items.retain(|item| !is_mark(item));
    if items.iter().any(|item| sets(item).is_some()) {
        let mut columns = GroupedColumns { list: &mut select.projection, from: &mut select.from };
        columns.tell_apart(items);
        columns.written(items)?;
    }
    let mut is_one = items.is_empty() && modifiers.is_empty() && select.having.is_some();
    let is_plain = |item: &Expr| sets(item).is_none();
    let is_usual = match items.as_slice() {
        // What the planner knows by itself.
        [Expr::GroupingSets(list)] => list.iter().flatten().all(|item| is_plain(item) && !is_tuple(item)),
        [Expr::Rollup(list) | Expr::Cube(list)] => {
            let is_new = |(place, set): (usize, &Vec<Expr>)| !list[..place].contains(set);
            list.iter().all(|set| set.len() == 1 && !is_tuple(&set[0])) && list.iter().enumerate().all(is_new)
        }
        items => items.iter().all(is_plain),
    };
    if modifiers.is_empty() && !is_usual || is_distinct {
        let mut whole: Sets = vec![Vec::new()];
        for item in items.iter() {
            let sets = sets(item).unwrap_or_else(|| vec![vec![item.clone()]]);
            if whole.len().saturating_mul(sets.len()) > SETS_MAX {
                let message = format!("too many grouping sets present (maximum {SETS_MAX})");
                return Err(Error::new(SqlState::StatementTooComplex, message));
            }
            let product = whole.iter().flat_map(|before| {
                sets.iter().map(|set| {
                    let mut both = before.clone();
                    for item in set {
                        if !both.contains(item) {
                            both.push(item.clone());
                        }
                    }
                    both
                })
            });
            whole = product.collect();
        }
        if is_distinct {
            let mut known: Vec<Vec<String>> = Vec::new();
            whole.retain(|set| {
                let mut names: Vec<String> = set.iter().map(ToString::to_string).collect();
                names.sort_unstable();
                let is_new = !known.contains(&names);
                known.push(names);
                is_new
            });
        }
        *items = match <[Vec<Expr>; 1]>::try_from(whole) {
            Ok([set]) => {
                is_one |= set.is_empty();
                set
            }
            Err(sets) => vec![Expr::GroupingSets(sets)],
        };
    }
    if is_one {
        one_group(select);
    }
    Ok(())
}

fn is_tuple(item: &Expr) -> bool {
    matches!(item, Expr::Tuple(_))
}

/// The sets that an item stands for; `None` for a plain one.
fn sets(item: &Expr) -> Option<Sets> {
    let flat = |set: &Vec<Expr>| -> Vec<Expr> {
        let parts = set.iter().flat_map(|part| match part {
            Expr::Tuple(parts) => parts.clone(),
            part => vec![part.clone()],
        });
        parts.collect()
    };
    match item {
        Expr::Rollup(list) => Some(rolled(&list.iter().map(flat).collect::<Sets>())),
        Expr::Cube(list) => Some(cubed(&list.iter().map(flat).collect::<Sets>())),
        Expr::GroupingSets(list) => {
            let inner = list.iter().flat_map(|set| match set.as_slice() {
                [one] => sets(one).unwrap_or_else(|| vec![flat(set)]),
                _ => vec![flat(set)],
            });
            Some(inner.collect())
        }
        Expr::Tuple(parts) => Some(vec![parts.clone()]),
        Expr::Function(function) => {
            let FunctionArguments::List(list) = &function.args else { return None };
            let given = list.args.iter().map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(given)) => Some(flat(&vec![given.clone()])),
                _ => None,
            });
            match function.name.to_string().to_ascii_lowercase().as_str() {
                "rollup" => Some(rolled(&given.collect::<Option<Sets>>()?)),
                "cube" => Some(cubed(&given.collect::<Option<Sets>>()?)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether the call stands for sets within others.
pub(super) fn sets_function(function: &Function) -> bool {
    matches!(function.name.to_string().to_ascii_lowercase().as_str(), "rollup" | "cube")
}

/// All of them, all but the last, and so on.
fn rolled(list: &[Vec<Expr>]) -> Sets {
    (0..=list.len()).rev().map(|count| list[..count].concat()).collect()
}

/// Each choice of them; of so many that the choices are too many, those that are one more than these.
fn cubed(list: &[Vec<Expr>]) -> Sets {
    let count = list.len().min(SETS_MAX.ilog2() as usize + 1);
    let choice = |bits: usize| {
        let chosen = (0..count).filter(|place| bits >> (count - 1 - place) & 1 == 1);
        chosen.flat_map(|place| list[place].clone()).collect()
    };
    (0..1_usize << count).rev().map(choice).collect()
}

/// A select without groups that has HAVING, or GROUP BY (), is of one group, whether there is an aggregate in it or not: there is one
/// in its condition then.
fn one_group(select: &mut Select) {
    let rows = Expr::Function(function("count", vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]));
    let number = Expr::value(Value::Number("0".to_owned(), false));
    let any = Expr::BinaryOp { left: Box::new(rows), op: BinaryOperator::GtEq, right: Box::new(number) };
    select.having = Some(match select.having.take() {
        None => any,
        Some(having) => Expr::BinaryOp {
            left: Box::new(any),
            op: BinaryOperator::And,
            right: Box::new(Expr::Nested(Box::new(having))),
        },
    });
}
