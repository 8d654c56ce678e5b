//! Expressions that are written in simpler ones before anything is planned, the same for both paths: comparisons of rows are
//! comparisons of their values ([`rows`]), and their fields are these ([`fields`]), windows that are made of named ones have their clauses ([`windows`]), GROUP BY is one list
//! of sets ([`grouping`]), DISTINCT ON names expressions ([`distinct`]), BETWEEN SYMMETRIC and patterns before ANY and ALL are what they
//! are made of ([`between`], [`patterns`]), aggregates in conditions of subqueries are subqueries ([`conditions`]), names in constant lists of objects are numbers ([`object_lists`]). Forms that the parser takes
//! and PostgreSQL does not are refused ([`refused`]), and so are columns of nobody knows which table ([`references`]), functions where they
//! have no place ([`places`]), orders of nobody knows which column
//! ([`orders`]), and recursions that have no meaning ([`recursion`]).

mod between;
mod conditions;
mod distinct;
mod fields;
mod grouped_columns;
mod grouping;
mod object_lists;
mod orders;
mod patterns;
mod places;
mod recursion;
mod references;
mod refused;
mod rows;
mod windows;

pub(crate) use between::marked;
pub(crate) use grouping::DISTINCT;
pub(crate) use places::check_condition_of_rows;
pub(crate) use rows::{balanced, columns_of_row, row, row_among};

use crate::visit::{Work, visit};
use ankerdb_engine::{Error, Result};
use datafusion::sql::sqlparser::ast::{DataType, Expr, Ident, ObjectName, Query, Statement, TypedString};
use references::TableReferences;
use windows::Windows;

/// Rewrites a statement.
///
/// # Errors
/// `SyntaxError` for rows of different lengths; `UndefinedObject` and `WindowingError` for windows; those of what is refused.
pub(crate) fn rewrite(statement: &mut Statement) -> Result<()> {
    refused::statement(statement)?;
    let mut forms = Forms { refused: None, windows: Vec::new(), tables: Vec::new() };
    visit(statement, &mut forms);
    forms.refused.map_or(Ok(()), Err)
}

struct Forms {
    refused: Option<Error>,
    /// Named windows of the queries around what is being visited.
    windows: Vec<Windows>,
    /// Their tables.
    tables: Vec<TableReferences>,
}

impl Forms {
    fn note(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.refused.get_or_insert(error);
        }
    }
}

/// `bit '101'` is a string of any length, where `'101'::bit` is its first bit.
fn any_bits(expression: &mut Expr) {
    if let Expr::TypedString(TypedString { data_type: data_type @ DataType::Bit(None), .. }) = expression {
        let name = vec![Ident::new("pg_catalog"), Ident::with_quote('"', "bit")];
        *data_type = DataType::Custom(ObjectName::from(name), Vec::new());
    }
}

impl Work for Forms {
    fn relation(&mut self, relation: &ObjectName) {
        let checked = refused::relation(relation);
        self.note(checked);
    }

    fn query(&mut self, query: &mut Query) {
        let tables = references::tables(query);
        let checked = refused::query(query)
            .and_then(|()| references::check_apart(&tables))
            .and_then(|()| places::check(query))
            .and_then(|()| orders::written(query))
            .and_then(|()| recursion::check(query));
        self.note(checked);
        self.tables.push(tables);
        if !self.windows.is_empty() {
            conditions::hidden(query);
        }
        let rewritten = fields::listed(query).and_then(|()| rows::conditions(query));
        self.note(rewritten);
        let rewritten = grouping::written(query);
        self.note(rewritten);
        let rewritten = distinct::written(query);
        self.note(rewritten);
        let windows = windows::defined(query);
        self.note(windows.as_ref().map(|_| ()).map_err(Error::clone));
        self.windows.push(windows.unwrap_or_default());
    }

    fn end_of_query(&mut self) {
        self.windows.pop();
        self.tables.pop();
    }

    fn expression(&mut self, expression: &mut Expr) {
        let checked = refused::expression(expression);
        self.note(checked);
        let checked = references::check(expression, &self.tables);
        self.note(checked);
        let done = fields::value(expression).and_then(|()| rows::value(expression));
        self.note(done);
        any_bits(expression);
        let written = between::either(expression).or_else(|| patterns::over_items(expression));
        if let Some(written) = written.or_else(|| object_lists::numbers(expression)) {
            *expression = written;
        }
        let done = self.windows.last().map_or(Ok(()), |windows| windows::call(expression, windows));
        self.note(done);
    }
}
