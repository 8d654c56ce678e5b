//! Joins by `USING` and `NATURAL`, written with ON.
//!
//! For DataFusion the name of a merged column means the left table's, although a FULL JOIN leaves that NULL where only the right table has a
//! row; it finds no such name beside a third table, and in a subquery it takes the column of the query around in its place. So a
//! condition says which columns are equal, and wherever a merged column is meant by its name alone, its value is written.

use super::planner::TableSources;
use super::scope::{Scope, ScopeColumn, joined, merged_names, merges_columns, only};
use crate::column_name::column_name;
use crate::name::{folded, identifier};
use crate::visit::{Work, visit};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, JoinConstraint, JoinOperator, OrderByKind, Query, Select, SelectItem, SetExpr,
    Statement, TableFactor, TableWithJoins, Value, VisitMut,
};
use std::collections::{HashMap, HashSet};

/// The query with such joins written so, as far as the columns of their tables can be told.
pub(super) fn with_conditions(mut query: Statement, tables: &dyn TableSources) -> Statement {
    visit(&mut query, &mut Joins { scope: Scope::new(tables), depths: Vec::new() });
    query
}

struct Joins<'a> {
    scope: Scope<'a>,
    /// How many common table expressions were known around each query that is being visited.
    depths: Vec<usize>,
}

/// The values of merged columns, by name.
type Values = HashMap<String, Expr>;

impl Work for Joins<'_> {
    fn query(&mut self, query: &mut Query) {
        self.depths.push(self.scope.depth());
        self.scope.enter(query);
        let names = match query.body.as_mut() {
            SetExpr::Select(select) => {
                let given = select.projection.iter().filter_map(given_name).collect::<HashSet<_>>();
                self.write(select).map(|values| (values, given))
            }
            body => {
                self.write_all(body);
                None
            }
        };
        let Some((values, given)) = names else { return };
        let Some(OrderByKind::Expressions(order)) = query.order_by.as_mut().map(|order| &mut order.kind)
        else {
            return;
        };
        // A name alone means a column of the result here, if it has one of the name.
        let is_given =
            |expression: &Expr| matches!(expression, Expr::Identifier(name) if given.contains(&folded(name)));
        for item in order.iter_mut().filter(|item| !is_given(&item.expr)) {
            self.replace(&mut item.expr, &values);
        }
    }

    fn end_of_query(&mut self) {
        self.scope.leave(self.depths.pop().unwrap_or(0));
    }
}

impl Joins<'_> {
    fn write_all(&self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => {
                self.write(select);
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.write_all(left);
                self.write_all(right);
            }
            // Queries in parentheses are visited by themselves.
            _ => {}
        }
    }

    /// Returns the values of merged columns if there are some.
    fn write(&self, select: &mut Select) -> Option<Values> {
        if !select.from.iter().any(merges_columns) {
            return None;
        }
        let mut from = select.from.clone();
        let mut all = Vec::new();
        for item in &mut from {
            all.extend(self.write_joins(item, &all)?);
        }
        let values = values(&all);
        select.from = Vec::new();
        for item in &mut select.projection {
            self.replace_item(item, &values);
        }
        let projection = std::mem::take(&mut select.projection);
        self.replace(select, &values);
        select.projection = projection;
        select.from = from;
        Some(values)
    }

    /// `before`: columns of the items to its left, which functions and LATERAL may use. Returns the item's columns.
    fn write_joins(&self, item: &mut TableWithJoins, before: &[ScopeColumn]) -> Option<Vec<ScopeColumn>> {
        let mut left = self.write_factor(&mut item.relation, before)?;
        for join in &mut item.joins {
            let around: Vec<ScopeColumn> = before.iter().chain(&left).cloned().collect();
            let right = self.write_factor(&mut join.relation, &around)?;
            let names = merged_names(&left, &right, &join.join_operator)?;
            let equal = names.iter().map(|name| {
                let sides = [only(&left, name)?, only(&right, name)?];
                let [left, right] = sides.map(|column| Box::new(column.value.clone()));
                Some(Expr::BinaryOp { left, op: BinaryOperator::Eq, right })
            });
            let equal = equal.collect::<Option<Vec<_>>>()?;
            let all = joined(left, right, &join.join_operator)?;
            match constraint(&mut join.join_operator)? {
                constraint @ (JoinConstraint::Using(_) | JoinConstraint::Natural) => {
                    let and = |left, right| Expr::BinaryOp {
                        left: Box::new(left),
                        op: BinaryOperator::And,
                        right: Box::new(right),
                    };
                    let condition = equal.into_iter().reduce(and);
                    let condition = condition.unwrap_or(Expr::Value(Value::Boolean(true).into()));
                    *constraint = JoinConstraint::On(condition);
                }
                JoinConstraint::On(condition) => self.replace(condition, &values(&all)),
                JoinConstraint::None => {}
            }
            left = all;
        }
        Some(left)
    }

    fn write_factor(&self, factor: &mut TableFactor, around: &[ScopeColumn]) -> Option<Vec<ScopeColumn>> {
        let columns = self.scope.columns_of_factor(factor)?.all;
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => {
                return self.write_joins(table_with_joins, around);
            }
            TableFactor::Derived { lateral: false, .. } | TableFactor::Table { args: None, .. } => {}
            factor => self.replace(factor, &values(around)),
        }
        Some(columns)
    }

    /// A computed column keeps the name that it had.
    fn replace_item(&self, item: &mut SelectItem, values: &Values) {
        let SelectItem::UnnamedExpr(expression) = item else { return self.replace(item, values) };
        let before = column_name(expression);
        self.replace(expression, values);
        if column_name(expression) != before {
            let (expr, alias) = (expression.clone(), identifier(&before));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }

    fn replace(&self, tree: &mut impl VisitMut, values: &Values) {
        if !values.is_empty() {
            let scope = Scope::over(&self.scope);
            visit(tree, &mut Names { scope, depths: Vec::new(), values, hidden: Vec::new() });
        }
    }
}

/// Writes values for names.
struct Names<'a> {
    scope: Scope<'a>,
    depths: Vec<usize>,
    values: &'a Values,
    /// The names that each query inside has of its own; none where they cannot be told.
    hidden: Vec<Option<HashSet<String>>>,
}

impl Work for Names<'_> {
    fn query(&mut self, query: &mut Query) {
        self.depths.push(self.scope.depth());
        self.scope.enter(query);
        let mut own = Some(HashSet::new());
        self.collect(&query.body, &mut own);
        self.hidden.push(own);
    }

    fn end_of_query(&mut self) {
        self.scope.leave(self.depths.pop().unwrap_or(0));
        self.hidden.pop();
    }

    fn expression(&mut self, expression: &mut Expr) {
        let Expr::Identifier(name) = &expression else { return };
        let name = folded(name);
        let is_hidden = |own: &Option<HashSet<String>>| own.as_ref().is_none_or(|own| own.contains(&name));
        if let Some(value) = self.values.get(&name).filter(|_| !self.hidden.iter().any(is_hidden)) {
            *expression = value.clone();
        }
    }
}

impl Names<'_> {
    fn collect(&self, body: &SetExpr, own: &mut Option<HashSet<String>>) {
        match body {
            SetExpr::Select(select) => match (self.scope.columns_of_from(&select.from), own.as_mut()) {
                (Some(from), Some(own)) => own.extend(from.all.into_iter().map(|column| column.name)),
                _ => *own = None,
            },
            SetExpr::SetOperation { left, right, .. } => {
                self.collect(left, own);
                self.collect(right, own);
            }
            _ => {}
        }
    }
}

/// Merged columns whose names mean nothing else.
fn values(columns: &[ScopeColumn]) -> Values {
    let merged = columns.iter().filter(|column| column.is_merged && only(columns, &column.name).is_some());
    merged.map(|column| (column.name.clone(), column.value.clone())).collect()
}

/// The name of a column of a list.
fn given_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expression) => Some(column_name(expression)),
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    }
}

fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::CrossJoin(constraint) => Some(constraint),
        _ => None,
    }
}
