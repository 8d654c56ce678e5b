//! Columns of the select list among grouping sets. A number there is a column, which the planner knows in plain lists only. Two
//! columns of one expression are two groups, of which a set may have one, and to the planner they would be the same:
//!
//! ```text
//! SELECT a AS x, a AS y FROM t GROUP BY ROLLUP (x, y)
//! SELECT a AS x, g.y AS y FROM t, LATERAL (SELECT a AS y) AS g GROUP BY ROLLUP (x, y)
//! ```

use crate::column_name::column_name;
use crate::name::{folded, identifier};
use crate::plain_query::plain_query;
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, SelectItem, TableAlias, TableFactor,
    TableWithJoins, Value,
};

/// The list, and what it is made from.
pub(super) struct GroupedColumns<'a> {
    pub(super) list: &'a mut [SelectItem],
    pub(super) from: &'a mut Vec<TableWithJoins>,
}

impl GroupedColumns<'_> {
    /// Gives columns of the same expression that are groups of their own expressions that differ.
    pub(super) fn tell_apart(&mut self, groups: &mut [Expr]) {
        let mut meant: Vec<usize> = Vec::new();
        each(groups, &mut |group| meant.extend(self.place(group)));
        meant.sort_unstable();
        meant.dedup();
        for (count, &place) in meant.iter().enumerate() {
            let Some(expression) = expression(&self.list[place]).cloned() else { continue };
            let same = |&before: &usize| self::expression(&self.list[before]) == Some(&expression);
            if !meant[..count].iter().any(same) {
                continue;
            }
            let alias = match &self.list[place] {
                SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
                _ => identifier(&column_name(&expression)),
            };
            let relation = Ident::with_quote('"', format!("group {}", place + 1));
            let column = Ident::with_quote('"', "column");
            let expr = Expr::CompoundIdentifier(vec![relation.clone(), column.clone()]);
            self.list[place] = SelectItem::ExprWithAlias { expr, alias };
            let item = SelectItem::ExprWithAlias { expr: expression, alias: column };
            let subquery = Box::new(plain_query(None, vec![item], Vec::new(), None));
            let alias = Some(TableAlias { explicit: true, name: relation, columns: Vec::new(), at: None });
            let relation = TableFactor::Derived { lateral: true, subquery, alias, sample: None };
            self.from.push(TableWithJoins { relation, joins: Vec::new() });
        }
    }

    /// Writes expressions in place of numbers.
    ///
    /// # Errors
    /// 42P10 for a number that no column has.
    pub(super) fn written(&self, groups: &mut [Expr]) -> Result<()> {
        let mut refused = None;
        each(groups, &mut |group| {
            let Some(number) = number(group) else { return };
            match self.list.get(number.wrapping_sub(1)).map(expression) {
                Some(Some(column)) => *group = column.clone(),
                // Which column it is depends on what a wildcard stands for.
                _ if self.list.iter().any(|item| expression(item).is_none()) => {}
                _ => {
                    let message = format!("GROUP BY position {number} is not in select list");
                    refused = Some(Error::new(SqlState::InvalidColumnReference, message));
                }
            }
        });
        refused.map_or(Ok(()), Err)
    }

    /// The place in the list that a group names.
    fn place(&self, group: &Expr) -> Option<usize> {
        let is_named = |item: &SelectItem| match (item, group) {
            (SelectItem::ExprWithAlias { alias, .. }, Expr::Identifier(name)) => {
                folded(alias) == folded(name)
            }
            _ => false,
        };
        match number(group) {
            Some(number) => number.checked_sub(1).filter(|&place| place < self.list.len()),
            None => self.list.iter().position(is_named),
        }
    }
}

/// The expression of a column; `None` for a wildcard.
fn expression(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn number(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Visits all single groups.
fn each(groups: &mut [Expr], see: &mut dyn FnMut(&mut Expr)) {
    for group in groups {
        match group {
            Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
                sets.iter_mut().for_each(|set| each(set, see));
            }
            Expr::Tuple(parts) => each(parts, see),
            Expr::Function(function) if super::grouping::sets_function(function) => {
                let FunctionArguments::List(list) = &mut function.args else { continue };
                for argument in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(given)) = argument {
                        each(std::slice::from_mut(given), see);
                    }
                }
            }
            group => see(group),
        }
    }
}
