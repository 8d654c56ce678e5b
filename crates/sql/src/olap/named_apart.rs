//! Common table expressions and columns whose names DataFusion mixes up.
//!
//! - `WITH a AS (...) SELECT ... (WITH a AS (SELECT ... FROM a) ...)`: the inner query gets another name, since DataFusion knows each
//!   name once.
//! - `FROM (SELECT 1, 2) AS a (b)`: the second column gets its name in the list, too.

use super::planner::TableSources;
use super::scope::Scope;
use crate::name::{folded, identifier, quoted};
use crate::view_text;
use crate::visit::{Work, visit};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    Cte, Query, Select, SetExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
};

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
    }

    fn end_of_query(&mut self) {
        self.scope.leave(self.depths.pop().unwrap_or(0));
    }
}

impl Lists<'_> {
    fn body(&mut self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => {
                let Select { from, .. } = select.as_mut();
                from.iter_mut().for_each(|item| self.joins(item));
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left);
                self.body(right);
            }
            // Queries in parentheses are visited by themselves.
            _ => {}
        }
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
