//! A key of a unique index that an UPDATE gives to a row while another row has it (`statement_keys`).

use ankerdb_base::{IndexPosition, RowId};

/// See the module.
pub(crate) struct ContestedKey {
    /// The table's number in the transaction.
    pub table: usize,
    pub index: IndexPosition,
    /// The row that gets the key.
    pub row: RowId,
}
