//! The relations of a statement that writes, as its queries see them: besides those of the catalog, the table that a
//! statement over a join writes to, and what statements behind WITH give back.
//!
//! A query that finds the rows of the target names the table by [`TARGET`], which no client can write, and reads one column more of it: [`ROW_IDENTITY`],
//! the name that the transaction has for the row. See `docs/design/joined-writes.md`.

use super::names::HIDDEN;
use super::planner::{CatalogSources, TableSources};
use super::scan::TableHandle;
use super::step::StepHandle;
use crate::name::quoted;
use ankerdb_engine::{Error, Result, RowId, SqlState, Table};
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::logical_expr::{ScalarUDF, TableSource};
use datafusion::sql::sqlparser::ast::Ident;
use std::sync::Arc;

/// The name by which a query reads the table that its statement writes to.
pub(crate) const TARGET: &str = "\0target";
/// The column of the rows' identities.
pub(crate) const ROW_IDENTITY: &str = "\0row";

/// What the names of relations in a statement stand for.
pub(crate) struct Relations {
    pub catalog: CatalogSources,
    /// What [`TARGET`] stands for.
    pub target: Option<Arc<Table>>,
    /// Statements behind WITH that write. They hide tables of the same name.
    pub steps: Vec<NamedStep>,
}

/// A statement behind WITH that writes, as the rest of the statement sees it.
#[derive(Clone)]
pub(crate) struct NamedStep {
    pub name: String,
    /// `None` if it gives nothing back.
    pub handle: Option<Arc<StepHandle>>,
}

impl Relations {
    /// Whether the name stands for no relation of the catalog.
    fn is_made(&self, schema: Option<&str>, name: &str) -> bool {
        name == TARGET || self.steps.iter().any(|step| schema.is_none() && step.name == name)
    }
}

impl TableSources for Relations {
    fn source(&self, schema: Option<&str>, name: &str) -> Result<Arc<dyn TableSource>> {
        if let (TARGET, Some(target)) = (name, &self.target) {
            return Ok(provider_as_source(Arc::new(TableHandle::identified(target.clone()))));
        }
        match self.steps.iter().find(|step| schema.is_none() && step.name == name) {
            None => self.catalog.source(schema, name),
            Some(NamedStep { handle: Some(handle), .. }) => Ok(provider_as_source(handle.clone())),
            Some(_) => {
                let message = format!("WITH query {} does not have a RETURNING clause", quoted(name));
                Err(Error::new(SqlState::FeatureNotSupported, message))
            }
        }
    }

    fn schema_of(&self, name: &str) -> Option<String> {
        let is_made = name == TARGET || self.steps.iter().any(|step| step.name == name);
        if is_made { None } else { self.catalog.schema_of(name) }
    }

    fn number(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        if self.is_made(schema, name) { None } else { self.catalog.number(schema, name) }
    }

    fn table_number(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        if self.is_made(schema, name) { None } else { self.catalog.table_number(schema, name) }
    }

    fn function(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.catalog.function(name)
    }
}

/// The name, as a query has to write it.
pub(crate) fn hidden(name: &str) -> Ident {
    debug_assert!(name.contains(HIDDEN));
    Ident::with_quote('"', name)
}

/// The row's identity as a number.
pub(crate) fn number_of(row: RowId) -> i64 {
    row.0.cast_signed()
}

/// The row that such a number stands for.
pub(crate) fn row_of(number: i64) -> RowId {
    RowId(number.cast_unsigned())
}
