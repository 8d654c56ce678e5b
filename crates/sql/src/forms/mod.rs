//! Expressions that are written in simpler ones before anything is planned, the same for both paths: comparisons of rows are
//! comparisons of their values ([`rows`]).

mod rows;

pub(crate) use rows::{columns_of_row, row};

use crate::visit::{Work, visit};
use ankerdb_engine::{Error, Result};
use datafusion::sql::sqlparser::ast::{Expr, Query, Statement};

/// Rewrites a statement.
///
/// # Errors
/// `SyntaxError` for rows of different lengths.
pub(crate) fn rewrite(statement: &mut Statement) -> Result<()> {
    let mut forms = Forms { refused: None };
    visit(statement, &mut forms);
    forms.refused.map_or(Ok(()), Err)
}

struct Forms {
    refused: Option<Error>,
}

impl Work for Forms {
    fn query(&mut self, query: &mut Query) {
        if let Err(error) = rows::conditions(query) {
            self.refused.get_or_insert(error);
        }
    }

    fn expression(&mut self, expression: &mut Expr) {
        if let Err(error) = rows::value(expression) {
            self.refused.get_or_insert(error);
        }
    }
}
