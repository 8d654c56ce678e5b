//! The keys that rows with pending writes are going to have.

use crate::write_set::{Write, WriteSet};
use ankerdb_base::{ColumnPosition, Result};
use ankerdb_table::{Cell, Index, ReadAt, Storage, Table};
use ankerdb_value::Value;
use crossbeam_epoch::Guard;

/// Appends pending rows' keys as of a timestamp, and says whether there is one.
pub(crate) fn push_as_of<'a>(
    table: &'a Table,
    index: &'a Index,
    at: ReadAt,
) -> impl Fn(&WriteSet, &Write, &mut Vec<u8>) -> bool + 'a {
    move |writes, write, key| {
        push_pending_key(writes, write, table, index, at, &crossbeam_epoch::pin(), key).is_ok()
    }
}

/// Appends the key in an index that a row with a pending write is going to have; returns whether a part is NULL. What
/// the write does not give is read from the table.
pub(crate) fn push_pending_key(
    writes: &WriteSet,
    write: &Write,
    table: &Table,
    index: &Index,
    at: ReadAt,
    pin: &Guard,
    out: &mut Vec<u8>,
) -> Result<bool> {
    if index.derivation().is_some() {
        return push_derived_key(writes, write, table, index, at, pin, out);
    }
    let mut has_null = false;
    let mut push = |part: usize, cell: Cell<'_>| {
        has_null |= matches!(cell, Cell::Null);
        index.push_part(part, cell, out)
    };
    for (part, &column) in index.sources().iter().enumerate() {
        if let Some(cell) = writes.cell(write, column) {
            push(part, cell)?;
            continue;
        }
        let block = Storage::of(table).block(write.row.block());
        match block.read(write.row.offset(), ColumnPosition(column), at, pin, |cell| push(part, cell)) {
            Some(pushed) => pushed?,
            None => push(part, Cell::Null)?,
        }
    }
    Ok(index.is_apart(has_null))
}

#[cold]
fn push_derived_key(
    writes: &WriteSet,
    write: &Write,
    table: &Table,
    index: &Index,
    at: ReadAt,
    pin: &Guard,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let value = |&column: &usize| match writes.cell(write, column) {
        Some(cell) => cell.to_value(table.data_type(column)),
        None => Storage::of(table).value(write.row, column, at, pin).unwrap_or(Value::Null),
    };
    let values: Vec<Value> = index.sources().iter().map(value).collect();
    index.encode_sources(&values, out)
}
