//! The keys of a row's states, and the entries of indexes that go with them.
//!
//! An index has an entry for each key that a row has in some state that a reader may see. When states are about to go, the
//! keys that only they had are found by going through the row's chain, and their entries go with them. Only the row's
//! owner may call these functions.

use crate::cell::{Cell, OwnedCell};
use crate::entries::Entries;
use crate::index::Index;
use crate::storage::Storage;
use ankerdb_base::{ColumnPosition, RowId, Timestamp};
use ankerdb_value::Value;
use crossbeam_epoch::Guard;

impl Storage {
    /// The keys of all states that a row has in memory, newest first; for a deleted row the newest is the one that
    /// was deleted. The caller owns the row.
    fn keys_of_states(&self, index: &Index, row: RowId, pin: &Guard) -> Vec<Vec<u8>> {
        let block = self.block(row.block());
        let columns = index.sources();
        let mut state: Vec<OwnedCell> = columns
            .iter()
            .map(|&column| block.owned_cell(row.offset(), ColumnPosition(column), pin))
            .collect();
        let mut keys = vec![encode_state(index, &state)];
        for version in block.chain(row.offset()).iter(pin) {
            for (&column, cell) in columns.iter().zip(&mut state) {
                if let Some(before) = version.cell(column) {
                    *cell = before.to_owned();
                }
            }
            keys.push(encode_state(index, &state));
        }
        keys
    }

    /// See `OwnedRow::has_had_key`.
    pub(crate) fn has_had_key(&self, index: &Index, row: RowId, key: &[u8], pin: &Guard) -> bool {
        let (block, offset) = (self.block(row.block()), row.offset());
        // The cells of a slot that holds no row mean nothing.
        let is_row = block.header(offset).exists() || !block.chain(offset).is_empty();
        is_row && self.keys_of_states(index, row, pin).iter().any(|had| had == key)
    }

    /// Removes the index entries of keys that a row had in the states about to be dropped, and, if it is deleted,
    /// of its last key. The caller owns the row.
    pub(crate) fn remove_stale_entries(&self, row: RowId, exists: bool, pin: &Guard) {
        let chain = self.block(row.block()).chain(row.offset());
        for index in self.maintained_indexes() {
            let key_changed = index.keys_move()
                && chain.iter(pin).any(|version| version.columns().intersects(index.key_columns()));
            if exists && !key_changed {
                continue;
            }
            let keys = self.keys_of_states(index, row, pin);
            for key in keys.iter().filter(|key| !exists || **key != keys[0]) {
                Entries::of(index).remove(key, row.0);
            }
        }
    }

    /// Prunes the row's history and removes the index entries of the keys that go with it, except those that
    /// `changes` are about to bring back.
    pub(crate) fn prune_entries<'a>(
        &self,
        row: RowId,
        changes: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        in_use: &[Timestamp],
        pin: &Guard,
    ) {
        let chain = self.block(row.block()).chain(row.offset());
        if chain.is_empty() {
            return;
        }
        let held = |index: &Index| {
            index.keys_move()
                && chain.iter(pin).any(|version| version.columns().intersects(index.key_columns()))
        };
        let affected = self.maintained_indexes().filter(|index| held(index));
        let before: Vec<_> = affected.map(|index| (index, self.keys_of_states(index, row, pin))).collect();
        if before.is_empty() {
            return;
        }
        chain.prune(self.block(row.block()).header(row.offset()).timestamp(), in_use, pin);
        for (index, before) in before {
            let mut kept = self.keys_of_states(index, row, pin);
            kept.push(self.key_after(index, row, changes.clone(), pin));
            for key in before.iter().filter(|key| !kept.contains(key)) {
                Entries::of(index).remove(key, row.0);
            }
        }
    }

    /// The key that a row is going to have after the changes.
    fn key_after<'a>(
        &self,
        index: &Index,
        row: RowId,
        changes: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        pin: &Guard,
    ) -> Vec<u8> {
        let mut key = Vec::new();
        if index.derivation().is_some() {
            let cell = |&column: &usize| match changes.clone().find(|(changed, _)| *changed == column) {
                Some((_, cell)) => cell.to_owned(),
                None => self.block(row.block()).owned_cell(row.offset(), ColumnPosition(column), pin),
            };
            let state: Vec<OwnedCell> = index.sources().iter().map(cell).collect();
            return encode_state(index, &state);
        }
        for (part, &column) in index.sources().iter().enumerate() {
            let pushed = match changes.clone().find(|(changed, _)| *changed == column) {
                Some((_, cell)) => index.push_part(part, cell, &mut key),
                None => {
                    let cell = self.block(row.block()).owned_cell(row.offset(), ColumnPosition(column), pin);
                    index.push_part(part, cell.borrow(), &mut key)
                }
            };
            pushed.expect("the key was encoded before");
        }
        key
    }
}

/// The key made of one cell per key column.
fn encode_state(index: &Index, state: &[OwnedCell]) -> Vec<u8> {
    let mut key = Vec::new();
    if index.derivation().is_some() {
        let values = state.iter().zip(index.source_types());
        let values: Vec<Value> = values.map(|(cell, data_type)| cell.borrow().to_value(*data_type)).collect();
        // A state from before the index may have no key, and has no entry then.
        if index.encode_sources(&values, &mut key).is_err() {
            key.clear();
        }
        return key;
    }
    for (part, cell) in state.iter().enumerate() {
        index.push_part(part, cell.borrow(), &mut key).expect("a stored row's key was encoded before");
    }
    key
}
