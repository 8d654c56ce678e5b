//! Estimates for planners. Watches the estimating thread, which builds with debug assertions allow.
#![cfg(debug_assertions)]

use ankerdb_base::{DatabaseId, ROWS_PER_BLOCK, TableId, failpoint};
use ankerdb_snapshot::table_statistics;
use ankerdb_table::{ColumnDefinition, Storage, TableDefinition};
use ankerdb_value::DataType;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// More than those that are estimated anew each time.
const BLOCKS: usize = 8;

#[test]
fn other_planners_do_not_wait_for_an_estimate() {
    let definition = TableDefinition::new("large").column(ColumnDefinition::new("id", DataType::BigInt));
    let table = Arc::new(Storage::create(TableId::new(DatabaseId::new(), 1), definition));
    for _ in 0..BLOCKS * ROWS_PER_BLOCK {
        drop(Storage::of(&table).allocate_row(0).expect("there is memory"));
    }
    let estimates = Rc::new(Cell::new(0));
    let (counted, watched) = (estimates.clone(), table.clone());
    failpoint::watch(Some(Rc::new(move |name| {
        if name == "table estimated" {
            counted.set(counted.get() + 1);
            assert!(Storage::of(&watched).derived().try_lock().is_some(), "others would wait");
        }
    })));
    table_statistics(&table);
    failpoint::watch(None);
    assert_eq!(estimates.get(), 1);
}
