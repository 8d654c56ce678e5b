//! How a transaction finds the other tables of foreign keys.

use ankerdb_base::TableId;
use ankerdb_table::Table;
use std::sync::Arc;

/// The tables of a database, or those that one transaction sees.
pub trait Relations: Send + Sync {
    /// The table with this [origin](Table::origin), if there is one.
    fn relation(&self, origin: TableId) -> Option<Arc<Table>>;
}
