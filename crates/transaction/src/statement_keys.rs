//! Unique keys at the statements of interactive transactions, before the commit checks them for good (`unique`).
//!
//! An INSERT finds at its row that the key is taken. An UPDATE may move keys along: `SET id = id + 1` gives each row the key
//! that the next one is about to leave. So a key that is taken when a row is changed is *contested*, and is looked at again
//! at the end of the statement ([`Transaction::check_constraints`]). Keys that nobody else had are not noted: of two rows
//! that end with one key, the later one to get it found the other. Procedures note nothing.

use crate::contested::ContestedKey;
use crate::key_filter::key_hash;
use crate::refusal::duplicate_key;
use crate::transaction::Transaction;
use crate::write_set::WriteKind;
use ankerdb_base::{ColumnSet, Error, IndexPosition, Result, RowId};
use ankerdb_table::{Index, Table};
use ankerdb_value::Value;
use std::sync::Arc;

/// Where a key of a unique index was looked for.
#[derive(Default)]
pub(crate) struct KeyHolder {
    /// The key's hash, unless it is NULL in part.
    hash: Option<u64>,
    /// The row that has it.
    row: Option<RowId>,
    /// Whether the row has it from this transaction.
    is_pending: bool,
}

impl Transaction {
    /// Notes the unique keys that these changes are about to give to the row and that other rows have.
    pub(crate) fn note_contested(
        &mut self,
        table: &Arc<Table>,
        row: RowId,
        changes: &[(usize, Value)],
    ) -> Result<()> {
        let mut changed = ColumnSet::EMPTY;
        changes.iter().for_each(|(column, _)| changed.insert(*column));
        for (position, index) in table.maintained_indexes() {
            if !index.definition().unique || !index.key_columns().intersects(changed) {
                continue;
            }
            let value = |column: usize| {
                let change = changes.iter().find(|(position, _)| *position == column);
                change.map_or_else(|| self.value(table, row, column), |(_, value)| value.clone())
            };
            let values: Vec<(usize, Value)> =
                index.sources().iter().map(|&column| (column, value(column))).collect();
            let value = |column: usize| {
                let value = values.iter().find(|(position, _)| *position == column);
                value.expect("all key columns were read").1.clone()
            };
            if self.row_with_key(table, position, index, Some(row), &value)?.row.is_some() {
                self.make_room_to_note(self.contested.len(), size_of::<ContestedKey>())?;
                let no_room = |_| Error::out_of_memory(size_of::<ContestedKey>());
                self.contested.try_reserve(1).map_err(no_room)?;
                let table = self.tables.number(table)?;
                self.contested.push(ContestedKey { table, index: position, row });
            }
        }
        Ok(())
    }

    /// 23505 if one of the contested keys is that of another row by now, too.
    #[cold]
    pub(crate) fn settle_contested(&mut self) -> Result<()> {
        for ContestedKey { table: number, index: position, row } in std::mem::take(&mut self.contested) {
            self.check_interrupt()?;
            let kind = self.writes.get(number, row).map(|write| write.kind);
            if !matches!(kind, Some(WriteKind::Insert | WriteKind::Update)) {
                continue;
            }
            let table = self.tables[number].clone();
            let index = table.index(position);
            let values: Vec<Value> =
                index.sources().iter().map(|&column| self.value(&table, row, column)).collect();
            let value = |column: usize| {
                let place = index.sources().iter().position(|source| *source == column);
                values[place.expect("all key columns were read")].clone()
            };
            self.check_key_is_free(&table, position, index, Some(row), &value)?;
        }
        Ok(())
    }

    /// 23505 if a row visible to this transaction, other than `myself`, has the key. It has then read that row. Else the key's
    /// hash, unless it is NULL in part.
    pub(crate) fn check_key_is_free(
        &mut self,
        table: &Arc<Table>,
        position: IndexPosition,
        index: &Index,
        myself: Option<RowId>,
        value: &dyn Fn(usize) -> Value,
    ) -> Result<Option<u64>> {
        let found = self.row_with_key(table, position, index, myself, value)?;
        let Some(row) = found.row else {
            // If no row has it, nothing is noted: the commit checks the key again anyway.
            return Ok(found.hash);
        };
        if !found.is_pending {
            self.note_row(table.id(), row, index.key_columns());
        }
        Err(duplicate_key(table, index, value))
    }

    /// The row other than `myself` that has a key for this transaction, pending or committed; nothing is noted as read. Costs
    /// a descent in the index, and a look at each row that has or had the key.
    pub(crate) fn row_with_key(
        &mut self,
        table: &Arc<Table>,
        position: IndexPosition,
        index: &Index,
        myself: Option<RowId>,
        value: &dyn Fn(usize) -> Value,
    ) -> Result<KeyHolder> {
        let mut key = std::mem::take(&mut self.buffers.key);
        key.clear();
        let has_null = index.encode_row(value, &mut key);
        let holder = match has_null {
            Ok(false) if index.valid_from() <= self.start => {
                self.holder_of(table, position, index, &key, myself)
            }
            has_null => has_null.map(|_| KeyHolder::default()),
        };
        self.buffers.key = key;
        holder
    }

    fn holder_of(
        &mut self,
        table: &Arc<Table>,
        position: IndexPosition,
        index: &Index,
        key: &[u8],
        myself: Option<RowId>,
    ) -> Result<KeyHolder> {
        self.before_read()?;
        let (number, hash) = (self.tables.number(table)?, key_hash(key));
        if self.writes.has_own_keys(number, index.key_columns())
            && self.may_have_key(number, position, index, hash)?
            && let Some(row) = self.own_keys(number, position, index)?.get_other(key, myself)
        {
            return Ok(KeyHolder { hash: Some(hash), row: Some(row), is_pending: true });
        }
        let found = self.committed_row(number, index, key, &crossbeam_epoch::pin());
        self.check_still_there(index)?;
        let row = found.filter(|row| Some(*row) != myself);
        Ok(KeyHolder { hash: Some(hash), row, is_pending: false })
    }
}
