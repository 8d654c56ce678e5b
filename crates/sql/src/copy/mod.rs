//! COPY.

use crate::{Outcome, SqlSession};
use ankerdb_engine::Result;
use datafusion::sql::sqlparser::ast;

/// COPY table FROM STDIN under way.
pub struct CopyIn {}

/// COPY ... TO STDOUT under way.
pub struct CopyOut {}

/// Begins the COPY.
pub(crate) fn start(_session: &mut SqlSession, _statement: &ast::Statement) -> Result<Outcome> {
    Err(crate::name::not_supported("COPY"))
}
