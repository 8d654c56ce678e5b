//! CREATE DOMAIN and ALTER DOMAIN as definitions.

use super::define::{Definition, column_type};
use crate::domains::{self, Constraint};
use crate::name::{folded, object_name};
use ankerdb_engine::{DataType, DomainType, Result};
use datafusion::sql::sqlparser::ast;

/// A domain that is to be made.
pub(crate) struct NewDomain {
    pub base: DataType,
    pub over: Option<DomainType>,
    pub collation: Option<String>,
    pub default: Option<ast::Expr>,
    pub is_not_null: bool,
    /// Names, where they were given, and conditions.
    pub checks: Vec<(Option<String>, String)>,
}

/// CREATE DOMAIN and ALTER DOMAIN.
pub(super) fn definition(written: &ast::CreateDomain) -> Result<Definition> {
    let name = object_name(&written.name)?;
    if let Some(action) = domains::action(written) {
        return Ok(Definition::AlterDomain(name, action));
    }
    let base = column_type(&written.data_type)?;
    let collation = written.collation.as_ref().map(folded);
    if let Some(collation) = &collation {
        crate::system::sortable_collation(collation, base)?;
    }
    let over = domains::domain(&written.data_type).map(|below| below.identity);
    let (default, mut is_not_null, mut checks) = (written.default.clone(), false, Vec::new());
    for constraint in domains::constraints(written) {
        match constraint {
            Constraint::NotNull => is_not_null = true,
            Constraint::Check(name, expr) => checks.push((name, domains::condition_text(expr))),
        }
    }
    Ok(Definition::CreateDomain(name, NewDomain { base, over, collation, default, is_not_null, checks }))
}
