//! Names of relations in the queries of views.
//!
//! A view keeps the relations that it was made over, whatever path is set later: its text names each with its schema. Names that WITH
//! gives have none, and stay. Its columns are those of the time when it was made, by their names of then: where relations have others now, queries
//! that give them these names are put in their places ([`current_query`]).

use crate::name::{folded, identifier};
use crate::plain_query::plain_query;
use crate::visit::{visit_expressions_mut, walk_mut};
use ankerdb_engine::{Catalog, Error, ReadColumn, ReadRelation, RelationName, Result, SchemaId, View};
use datafusion::sql::sqlparser::ast::{self, ObjectName, ObjectNamePart, VisitMut, VisitorMut};
use std::ops::ControlFlow;

/// Schema and name that a relation is to be called by.
pub(crate) type NewName = (Option<String>, String);

/// Renames all relations of a query for which `rename` gives another name, but those that WITH gives names to. It is asked about the
/// new names, too.
pub(crate) fn rename(query: &mut ast::Query, rename: impl FnMut(&ObjectName) -> Option<NewName>) {
    let mut names = Names { frames: Vec::new(), rename };
    let _ = walk_mut(query, &mut names);
}

/// Leaves out the schemas in names of columns, so that the relations can get others.
pub(crate) fn unqualify_columns(query: &mut ast::Query) {
    let _ = visit_expressions_mut(query, |expr| {
        if let ast::Expr::CompoundIdentifier(parts) = expr
            && parts.len() > 2
        {
            parts.drain(..parts.len() - 2);
        }
        ControlFlow::<()>::Continue(())
    });
}

/// The text of a view's query with other names for its relations, which are given by schema and name.
///
/// # Errors
/// `SyntaxError` if it is no query.
pub(crate) fn with_names(
    text: &str,
    mut new_name: impl FnMut(&str, &str) -> Option<NewName>,
) -> Result<String> {
    let mut query = parsed(text)?;
    rename(&mut query, |name| names(name).and_then(|(schema, name)| new_name(&schema, &name)));
    Ok(query.to_string())
}

/// The query of a view.
///
/// # Errors
/// `SyntaxError` if it is no query.
pub(crate) fn parsed(text: &str) -> Result<ast::Query> {
    let statement = crate::parse::parse(text)?.pop().and_then(|statement| statement.ast);
    match statement.as_deref() {
        Some(ast::Statement::Query(query)) => Ok((**query).clone()),
        _ => Err(Error::internal("the query of a view is no query")),
    }
}

/// The schema and the name of a relation that is named with both.
pub(crate) fn names(name: &ObjectName) -> Option<(String, String)> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(name)] => {
            Some((folded(schema), folded(name)))
        }
        _ => None,
    }
}

/// The query of a view over the relations as they are now: each has the columns that it had when the view was made, by their names of
/// that time, and no others.
///
/// # Errors
/// `SyntaxError` if it is no query.
pub(crate) fn current_query(view: &View, catalog: &Catalog) -> Result<ast::Query> {
    let mut query = parsed(&view.query)?;
    keep_columns(&mut query, view, catalog);
    Ok(query)
}

/// Lets a part of the view's query see the columns that there were when the view was made.
pub(crate) fn keep_columns<T: VisitMut>(part: &mut T, view: &View, catalog: &Catalog) {
    let differs = |read: &&ReadRelation| {
        let is_called = read.columns.iter().map(|column| &column.called);
        let name = RelationName::new(read.schema, read.name.as_str());
        match (catalog.table(&name), catalog.view(&name)) {
            (Ok(table), _) => !is_called.eq(table.columns().iter().map(|column| &column.name)),
            (_, Some(view)) => !is_called.eq(view.columns.iter().map(|column| &column.name)),
            _ => false,
        }
    };
    let reads = view.reads.iter().filter(differs).collect();
    let _ = walk_mut(part, &mut Columns { reads, schema_of: |id| catalog.schema_name(id) });
}

/// The text of a view's query without a column of a relation that is about to go, in the lists of names that it gives to the columns of
/// that relation.
///
/// # Errors
/// `SyntaxError` if it is no query.
pub(crate) fn without_name(text: &str, relation: (&str, &str), position: usize) -> Result<String> {
    let mut query = parsed(text)?;
    let mut drop_name = |factor: &mut ast::TableFactor| {
        if let ast::TableFactor::Table { name, alias: Some(alias), args: None, .. } = factor
            && names(name).is_some_and(|(schema, name)| (schema.as_str(), name.as_str()) == relation)
            && position < alias.columns.len()
        {
            alias.columns.remove(position);
        }
    };
    let _ = walk_mut(&mut query, &mut Factors(&mut drop_name));
    Ok(query.to_string())
}

struct Factors<'a>(&'a mut dyn FnMut(&mut ast::TableFactor));

impl VisitorMut for Factors<'_> {
    type Break = ();

    fn post_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<()> {
        (self.0)(factor);
        ControlFlow::Continue(())
    }
}

/// Puts queries in the places of relations whose columns are to have other names.
struct Columns<'a, F> {
    reads: Vec<&'a ReadRelation>,
    schema_of: F,
}

impl<'a, F: Fn(SchemaId) -> &'a str> VisitorMut for Columns<'_, F> {
    type Break = ();

    // What is put there is not visited again, as it would be before its parts are.
    fn post_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<()> {
        let ast::TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let Some((schema, relation)) = names(name) else { return ControlFlow::Continue(()) };
        let is_it = |read: &&&ReadRelation| read.name == relation && (self.schema_of)(read.schema) == schema;
        let Some(read) = self.reads.iter().find(is_it) else { return ControlFlow::Continue(()) };
        let alias = alias.take().unwrap_or_else(|| ast::TableAlias {
            explicit: true,
            name: identifier(&relation),
            columns: Vec::new(),
            at: None,
        });
        let item = |column: &ReadColumn| ast::SelectItem::ExprWithAlias {
            expr: ast::Expr::Identifier(identifier(&column.name)),
            alias: identifier(&column.called),
        };
        let items = read.columns.iter().map(item).collect();
        let from = ast::TableWithJoins { relation: factor.clone(), joins: Vec::new() };
        let subquery = Box::new(plain_query(None, items, vec![from], None));
        *factor = ast::TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
        ControlFlow::Continue(())
    }
}

/// The names that the WITH of one query gives.
struct Frame {
    names: Vec<String>,
    is_recursive: bool,
    /// Queries directly below that have been visited: those of WITH come first.
    visited: usize,
}

impl Frame {
    /// Whether the query gives the name to what is visited now.
    fn has(&self, name: &str) -> bool {
        let seen = if self.is_recursive { self.names.len() } else { self.visited.min(self.names.len()) };
        self.names[..seen].iter().any(|known| known == name)
    }
}

struct Names<F> {
    frames: Vec<Frame>,
    rename: F,
}

impl<F: FnMut(&ObjectName) -> Option<NewName>> VisitorMut for Names<F> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        let with = query.with.as_ref();
        let names = with.map_or(Vec::new(), |with| {
            with.cte_tables.iter().map(|table| folded(&table.alias.name)).collect()
        });
        let is_recursive = with.is_some_and(|with| with.recursive);
        self.frames.push(Frame { names, is_recursive, visited: 0 });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.frames.pop();
        if let Some(frame) = self.frames.last_mut() {
            frame.visited += 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<()> {
        if let ast::TableFactor::Table { name, alias, args: None, .. } = factor {
            let before = name.0.last().cloned();
            let _ = self.pre_visit_relation(name);
            // Columns are called by the name that the relation had.
            if let (None, Some(before), after) =
                (&alias, before.as_ref().and_then(|name| name.as_ident()), name.0.last())
                && after.and_then(|name| name.as_ident()).is_some_and(|after| folded(after) != folded(before))
            {
                let (name, columns) = (before.clone(), Vec::new());
                *alias = Some(ast::TableAlias { explicit: true, name, columns, at: None });
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        let is_given = match relation.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => {
                let name = folded(name);
                self.frames.iter().any(|frame| frame.has(&name))
            }
            _ => false,
        };
        if let Some((schema, name)) = (!is_given).then(|| (self.rename)(relation)).flatten() {
            let parts = schema.into_iter().chain([name]).map(|part| identifier(&part)).collect::<Vec<_>>();
            *relation = ObjectName::from(parts);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> String {
        let statement = crate::parse::parse(text).unwrap().remove(0).ast.unwrap();
        let ast::Statement::Query(query) = &*statement else { panic!("not a query") };
        let mut query = query.clone();
        rename(&mut query, |name| (name.0.len() == 1).then(|| (Some("s".into()), name.to_string())));
        query.to_string()
    }

    #[test]
    fn names_that_with_gives_stay() {
        let cases = [
            ("SELECT * FROM t, u", "SELECT * FROM s.t, s.u"),
            ("WITH t AS (SELECT * FROM t) SELECT * FROM t", "WITH t AS (SELECT * FROM s.t) SELECT * FROM t"),
            (
                "WITH a AS (SELECT 1 FROM b), b AS (SELECT 1 FROM a) SELECT (SELECT 1 FROM b)",
                "WITH a AS (SELECT 1 FROM s.b), b AS (SELECT 1 FROM a) SELECT (SELECT 1 FROM b)",
            ),
            (
                "WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT * FROM t) SELECT * FROM t, u",
                "WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT * FROM t) SELECT * FROM t, s.u",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(named(text), expected);
        }
    }

    #[test]
    fn a_relation_of_a_view_gets_another_name() {
        let moved = |schema: &str, name: &str| (schema == "a").then(|| (Some("B".into()), name.to_owned()));
        let text = with_names("SELECT x FROM a.t JOIN c.u ON true", moved).unwrap();
        assert_eq!(text, "SELECT x FROM \"B\".t JOIN c.u ON true");
    }
}
