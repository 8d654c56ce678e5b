//! The table that a statement over a join writes to, as the query that finds its rows sees it.
//!
//! Such a query names the table by [`TARGET`], which no client can write, and reads one column more of it: [`ROW_IDENTITY`],
//! the name that the transaction has for the row. See `docs/design/joined-writes.md`.

use super::names::HIDDEN;
use super::planner::TableSources;
use super::scan::TableHandle;
use ankerdb_engine::{Catalog, Result, RowId, Table};
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::logical_expr::TableSource;
use datafusion::sql::sqlparser::ast::Ident;
use std::sync::Arc;

/// The name by which a query reads the table that its statement writes to.
pub(crate) const TARGET: &str = "\0target";
/// The column of the rows' identities.
pub(crate) const ROW_IDENTITY: &str = "\0row";

/// The tables of the catalog, and the target under a name of its own.
pub(crate) struct WithTarget {
    pub catalog: Arc<Catalog>,
    pub target: Arc<Table>,
}

impl TableSources for WithTarget {
    fn source(&self, name: &str) -> Result<Arc<dyn TableSource>> {
        match name {
            TARGET => Ok(provider_as_source(Arc::new(TableHandle::identified(self.target.clone())))),
            other => self.catalog.source(other),
        }
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
