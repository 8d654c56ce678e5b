//! Wildcards that share columns, written out.
//!
//! `SELECT *, *` has every column twice, and so may a subquery's `*` over a join. DataFusion expands wildcards after the names
//! of columns are told apart (`duplicate.rs`), too late for those; so where a list has several wildcards, or one over columns
//! that share names within a subquery, or over a join that merges columns, which DataFusion leaves in their places, they are replaced by
//! their columns before, as far as these can be told ([`Scope`]); else a wildcard stays one.

use super::planner::TableSources;
use super::scope::{Relation, Scope, ScopeColumn, is_wildcard, merges_columns, wildcard_columns};
use super::whole_rows;
use crate::name::identifier;
use crate::visit::{Work, visit};
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, SelectItem, SetExpr, Statement};
use std::collections::HashSet;

/// The query with such wildcards written out.
pub(super) fn written_out(mut query: Statement, tables: &dyn TableSources) -> Statement {
    write_out(&mut query, tables, false);
    query
}

/// The query with all wildcards written out whose columns can be told: it gives the same columns when its tables have got more.
pub(super) fn without_wildcards(query: &Statement, tables: &dyn TableSources) -> Statement {
    let mut query = query.clone();
    write_out(&mut query, tables, true);
    query
}

fn write_out(query: &mut Statement, tables: &dyn TableSources, all: bool) {
    visit(
        query,
        &mut Lists { scope: Scope::new(tables), depths: Vec::new(), around: Around::default(), all },
    );
}

struct Lists<'a> {
    scope: Scope<'a>,
    /// How many common table expressions were known around each query that is being visited.
    depths: Vec<usize>,
    around: Around,
    /// Whether wildcards are written out that need not be.
    all: bool,
}

/// What names of rows may stand for, but for the relations of a query itself.
#[derive(Default)]
struct Around {
    /// The relations of the queries around what is being visited, and its own.
    levels: Vec<Vec<Relation>>,
    /// Queries that do not see those of the query that they stand in.
    apart: Vec<*const Query>,
    /// For each query that is being visited the level that it does not see.
    hidden: Vec<Option<Vec<Relation>>>,
}

impl Around {
    fn enter(&mut self, query: &Query) {
        let at = self.apart.iter().position(|known| std::ptr::eq(*known, query));
        let hidden = at.and_then(|at| {
            self.apart.swap_remove(at);
            self.levels.pop()
        });
        self.hidden.push(hidden);
    }

    fn go_in(&mut self, (relations, apart): (Vec<Relation>, Vec<*const Query>)) {
        self.levels.push(relations);
        self.apart.extend(apart);
    }

    fn leave(&mut self) {
        self.levels.pop();
        self.levels.extend(self.hidden.pop().flatten());
    }
}

impl Work for Lists<'_> {
    fn query(&mut self, query: &mut Query) {
        let is_nested = !self.depths.is_empty();
        self.depths.push(self.scope.depth());
        self.scope.enter(query);
        if !self.all {
            self.around.enter(query);
            whole_rows::write(&self.scope, &self.around.levels, query);
            self.around.go_in(whole_rows::relations(&self.scope, query));
        }
        self.write_out(&mut query.body, is_nested);
    }

    fn end_of_query(&mut self) {
        self.scope.leave(self.depths.pop().unwrap_or(0));
        if !self.all {
            self.around.leave();
        }
    }
}

impl Lists<'_> {
    fn write_out(&self, body: &mut SetExpr, is_nested: bool) {
        match body {
            SetExpr::Select(select) => self.write_out_list(select, is_nested),
            SetExpr::SetOperation { left, right, .. } => {
                self.write_out(left, is_nested);
                self.write_out(right, is_nested);
            }
            // Queries in parentheses are visited by themselves.
            _ => {}
        }
    }

    fn write_out_list(&self, select: &mut Select, is_nested: bool) {
        let wildcards = select.projection.iter().filter(|item| is_wildcard(item)).count();
        let merges = select.from.iter().any(merges_columns);
        if wildcards == 0 || (wildcards == 1 && !is_nested && !self.all && !merges) {
            return;
        }
        let Some(from) = self.scope.columns_of_from(&select.from) else { return };
        let mut names = HashSet::new();
        if wildcards == 1 && !self.all && !merges && from.all.iter().all(|column| names.insert(&column.name))
        {
            return;
        }
        let items = select.projection.iter().map(|item| match wildcard_columns(item, &from) {
            Some(columns) => columns.into_iter().map(item_of).collect(),
            None => vec![item.clone()],
        });
        select.projection = items.collect::<Vec<_>>().concat();
    }
}

fn item_of(column: ScopeColumn) -> SelectItem {
    match column.value {
        value @ Expr::CompoundIdentifier(_) => SelectItem::UnnamedExpr(value),
        expr => SelectItem::ExprWithAlias { expr, alias: identifier(&column.name) },
    }
}
