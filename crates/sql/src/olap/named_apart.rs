//! Common table expressions and columns whose names DataFusion mixes up.
//!
//! - `WITH a AS (...) SELECT ... (WITH a AS (SELECT ... FROM a) ...)`: the inner query gets another name, since DataFusion knows each
//!   name once.
//! - `FROM (SELECT 1, 2) AS a (b)`: the second column gets its name in the list, too.
//! - `SELECT a, b FROM t UNION SELECT b, c FROM u ORDER BY b`: the order is that of `SELECT * FROM (... UNION ...)`, which has the names of
//!   the first query alone.
//! - `SELECT 1 AS k FROM t GROUP BY k + 1`, `HAVING k > 1`: names of columns of the result mean nothing within expressions.

use super::planner::TableSources;
use super::scope::Scope;
use crate::column_name::column_name;
use crate::name::{folded, identifier, quoted, undefined_column};
use crate::plain_query::{plain_select, query_of};
use crate::view_text;
use crate::visit::{Work, visit, visit_expressions, walk};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, GroupByExpr, Query, Select, SelectItem, SetExpr, Statement, TableAlias, TableAliasColumnDef,
    TableFactor, TableWithJoins, Visitor, WildcardAdditionalOptions,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// The query in which each name is one thing's.
///
/// # Errors
/// 42712 for a name that WITH gives twice, 42P10 for more names of columns than there are columns.
pub(super) fn told_apart(mut query: Statement, tables: &dyn TableSources) -> Result<Statement> {
    let mut given = Given { known: Vec::new(), depths: Vec::new(), next: 0, refused: None };
    visit(&mut query, &mut given);
    let mut lists = Lists { scope: Scope::new(tables), depths: Vec::new(), refused: None };
    visit(&mut query, &mut lists);
    given.refused.or(lists.refused).map_or(Ok(query), Err)
}

/// Names that WITH gives.
struct Given {
    /// Those of the queries around.
    known: Vec<String>,
    depths: Vec<usize>,
    next: usize,
    refused: Option<Error>,
}

impl Work for Given {
    fn query(&mut self, query: &mut Query) {
        self.depths.push(self.known.len());
        let count = query.with.as_ref().map_or(0, |with| with.cte_tables.len());
        let mut own: Vec<String> = Vec::new();
        for position in 0..count {
            let Some(name) = query.with.as_ref().map(|with| folded(&with.cte_tables[position].alias.name))
            else {
                continue;
            };
            if own.contains(&name) {
                let message = format!("WITH query name {} specified more than once", quoted(&name));
                self.refused.get_or_insert(Error::new(SqlState::DuplicateAlias, message));
            }
            if self.known.contains(&name) {
                self.next += 1;
                rename(query, position, &name, &format!("{name} {}", self.next));
            }
            own.push(name);
        }
        self.known.extend(own);
    }

    fn end_of_query(&mut self) {
        self.known.truncate(self.depths.pop().unwrap_or(0));
    }
}

/// Gives another name to one of the queries of WITH, and to what is read of it.
fn rename(query: &mut Query, position: usize, name: &str, new: &str) {
    let Some(mut with) = query.with.take() else { return };
    let renamed = |query: &mut Query| {
        view_text::rename(query, |relation| {
            let is_it = matches!(relation.0.as_slice(), [part] if part.as_ident().map(folded).as_deref() == Some(name));
            is_it.then(|| (None, new.to_owned()))
        });
    };
    let is_recursive = with.recursive;
    for (place, cte) in with.cte_tables.iter_mut().enumerate() {
        if place > position || is_recursive {
            renamed(&mut cte.query);
        }
    }
    with.cte_tables[position].alias.name = identifier(new);
    renamed(query);
    query.with = Some(with);
}

/// Orders a set operation by its columns, where those of its queries have other names.
fn order_by_columns(query: &mut Query) {
    if query.order_by.is_none() || !matches!(query.body.as_ref(), SetExpr::SetOperation { .. }) {
        return;
    }
    let Some(names) = names(&query.body) else { return };
    let mut seen = HashSet::new();
    let are_unique = names.first().is_some_and(|first| first.iter().all(|name| seen.insert(name)));
    if are_unique && names.windows(2).all(|pair| pair[0] == pair[1]) {
        return;
    }
    let set = query_of(None, plain_select(Vec::new(), Vec::new(), None));
    let body = std::mem::replace(&mut query.body, set.body.clone());
    let subquery = Box::new(Query { body, ..set });
    let name = identifier("set operation");
    let alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    let relation = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
    let from = vec![TableWithJoins { relation, joins: Vec::new() }];
    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    *query.body = SetExpr::Select(Box::new(plain_select(vec![all], from, None)));
}

/// The names of the columns that each of the queries gives, if none is a wildcard.
fn names(body: &SetExpr) -> Option<Vec<Vec<String>>> {
    let (mut bodies, mut all) = (vec![body], Vec::new());
    while let Some(body) = bodies.pop() {
        match body {
            SetExpr::Select(select) => {
                let name = |item: &SelectItem| match item {
                    SelectItem::UnnamedExpr(expression) => Some(column_name(expression)),
                    SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
                    _ => None,
                };
                all.push(select.projection.iter().map(name).collect::<Option<Vec<String>>>()?);
            }
            SetExpr::SetOperation { left, right, .. } => bodies.extend([right.as_ref(), left.as_ref()]),
            _ => return None,
        }
    }
    Some(all)
}

/// The names in an expression, but for those in its subqueries.
struct NamesHere {
    names: Vec<String>,
    depth: usize,
}

impl Visitor for NamesHere {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if let (0, Expr::Identifier(name)) = (self.depth, expression) {
            self.names.push(folded(name));
        }
        ControlFlow::Continue(())
    }
}

/// Lists of columns' names behind those of tables.
struct Lists<'a> {
    scope: Scope<'a>,
    depths: Vec<usize>,
    refused: Option<Error>,
}

impl Work for Lists<'_> {
    fn query(&mut self, query: &mut Query) {
        self.depths.push(self.scope.depth());
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let Cte { alias, query, .. } = cte;
            let columns = self.scope.columns_of_query(query);
            self.complete(alias, columns);
        }
        self.scope.enter(query);
        self.body(&mut query.body);
        order_by_columns(query);
    }

    fn end_of_query(&mut self) {
        self.scope.leave(self.depths.pop().unwrap_or(0));
    }
}

impl Lists<'_> {
    fn body(&mut self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => {
                select.from.iter_mut().for_each(|item| self.joins(item));
                if let Err(error) = self.groups(select) {
                    self.refused.get_or_insert(error);
                }
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left);
                self.body(right);
            }
            // Queries in parentheses are visited by themselves.
            _ => {}
        }
    }

    /// # Errors
    /// 42702 for a group of a name that several tables have, 42703 for an expression over names of the result.
    fn groups(&self, select: &Select) -> Result<()> {
        let GroupByExpr::Expressions(groups, _) = &select.group_by else { return Ok(()) };
        if groups.is_empty() && select.having.is_none() {
            return Ok(());
        }
        let Some(from) = self.scope.columns_of_from(&select.from) else { return Ok(()) };
        let count = |name: &str| from.all.iter().filter(|column| column.name == name).count();
        let is_alias = |name: &str| {
            select
                .projection
                .iter()
                .any(|item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if folded(alias) == name))
        };
        for group in groups {
            if let Expr::Identifier(name) = group {
                if count(&folded(name)) > 1 {
                    let message = format!("column reference {} is ambiguous", quoted(&folded(name)));
                    return Err(Error::new(SqlState::AmbiguousColumn, message));
                }
                continue;
            }
            let wrong = visit_expressions(group, |part| match part {
                Expr::Identifier(name) if count(&folded(name)) == 0 && is_alias(&folded(name)) => {
                    ControlFlow::Break(folded(name))
                }
                _ => ControlFlow::Continue(()),
            });
            // Within a query it may be a column of the one around.
            if let (ControlFlow::Break(name), [_]) = (wrong, self.depths.as_slice())
                && !matches!(group, Expr::GroupingSets(_) | Expr::Rollup(_) | Expr::Cube(_) | Expr::Nested(_))
            {
                return Err(undefined_column(&name));
            }
        }
        if let (Some(having), [_]) = (&select.having, self.depths.as_slice()) {
            let mut used = NamesHere { names: Vec::new(), depth: 0 };
            let _ = walk(having, &mut used);
            let of_result = used.names.iter().find(|name| count(name) == 0 && is_alias(name));
            return of_result.map_or(Ok(()), |name| Err(undefined_column(name)));
        }
        Ok(())
    }

    fn joins(&mut self, item: &mut TableWithJoins) {
        let joined = item.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut item.relation).chain(joined) {
            match factor {
                TableFactor::Table { name, alias: Some(alias), args: None, .. }
                    if !alias.columns.is_empty() =>
                {
                    let columns = self.scope.columns_of_table(name);
                    self.complete(alias, columns);
                }
                TableFactor::Derived { subquery, alias: Some(alias), .. } if !alias.columns.is_empty() => {
                    let columns = self.scope.columns_of_query(subquery);
                    self.complete(alias, columns);
                }
                TableFactor::NestedJoin { table_with_joins, .. } => self.joins(table_with_joins),
                _ => {}
            }
        }
    }

    /// Completes a list of names by those of the columns that are left.
    fn complete(&mut self, alias: &mut TableAlias, columns: Option<Vec<String>>) {
        let Some(columns) = columns.filter(|_| !alias.columns.is_empty()) else { return };
        let (given, there) = (alias.columns.len(), columns.len());
        if given > there {
            let name = quoted(&folded(&alias.name));
            let message = format!("table {name} has {there} columns available but {given} columns specified");
            self.refused.get_or_insert(Error::new(SqlState::InvalidColumnReference, message));
        }
        let rest = columns.iter().skip(given);
        alias
            .columns
            .extend(rest.map(|name| TableAliasColumnDef { name: identifier(name), data_type: None }));
    }
}
