//! What a transaction is going to write: private until it commits, so that abort is free.

use ankerdb_base::{ColumnSet, RowId, TableId};
use ankerdb_table::{Index, Table};
use ankerdb_value::Value;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Hashes small integers by multiplication: the keys are our own numbers, not a stranger's.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(*byte as u64));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number as u64);
    }
}

type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// One row's pending change.
#[derive(Clone, Debug)]
pub(crate) enum WriteKind {
    /// A new row: one value per column.
    Insert(Vec<Value>),
    /// New values of some columns.
    Update(Vec<(usize, Value)>),
    /// The row goes.
    Delete,
    /// A new row that was deleted again: nothing to do.
    Nothing,
}

pub(crate) struct Write {
    /// Position in [`WriteSet::tables`].
    pub table: usize,
    /// The committed row; for a new row its provisional identity.
    pub row: RowId,
    pub kind: WriteKind,
}

/// Pending writes in the order in which rows were first written.
#[derive(Default)]
pub(crate) struct WriteSet {
    pub tables: Vec<Arc<Table>>,
    pub writes: Vec<Write>,
    /// Committed rows only; a new row's number is its position in `writes`.
    places: NumberMap<(u32, u64), usize>,
    /// Keys of pending inserts and key updates by (table, index): made when a table has many of them.
    own_keys: HashMap<(usize, usize), OwnKeys>,
}

/// Keys of pending rows in one index.
#[derive(Default)]
struct OwnKeys {
    entries: BTreeSet<(Vec<u8>, RowId)>,
    /// Writes looked at so far.
    absorbed: usize,
}

impl WriteSet {
    pub fn clear(&mut self) {
        self.tables.clear();
        self.writes.clear();
        self.places.clear();
        self.own_keys.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The table's position in this set, if it was written to.
    pub fn table_position(&self, table: TableId) -> Option<usize> {
        self.tables.iter().position(|written| written.id() == table)
    }

    fn table_position_or_add(&mut self, table: &Arc<Table>) -> usize {
        self.table_position(table.id()).unwrap_or_else(|| {
            self.tables.push(table.clone());
            self.tables.len() - 1
        })
    }

    /// The pending change of a row.
    pub fn get(&self, table: TableId, row: RowId) -> Option<&WriteKind> {
        self.place(table, row).map(|place| &self.writes[place].kind)
    }

    fn place(&self, table: TableId, row: RowId) -> Option<usize> {
        match row.provisional_number() {
            Some(number) => Some(number),
            None if self.places.is_empty() => None,
            None => self.places.get(&(table.0, row.0)).copied(),
        }
    }

    pub fn insert(&mut self, table: &Arc<Table>, values: Vec<Value>) -> RowId {
        let table = self.table_position_or_add(table);
        let row = RowId::provisional(self.writes.len());
        self.writes.push(Write { table, row, kind: WriteKind::Insert(values) });
        row
    }

    pub fn update(&mut self, table: &Arc<Table>, row: RowId, changes: Vec<(usize, Value)>) {
        let key_columns = table.key_columns();
        if changes.iter().any(|(column, _)| key_columns.contains(*column)) {
            // Keys noted for this row may be out of date now.
            self.own_keys.clear();
        }
        let Some(place) = self.place(table.id(), row) else {
            self.add(table, row, WriteKind::Update(changes));
            return;
        };
        match &mut self.writes[place].kind {
            WriteKind::Insert(values) => {
                changes.into_iter().for_each(|(column, value)| values[column] = value)
            }
            WriteKind::Update(pending) => {
                for (column, value) in changes {
                    match pending.iter_mut().find(|(position, _)| *position == column) {
                        Some((_, old)) => *old = value,
                        None => pending.push((column, value)),
                    }
                }
            }
            kind => unreachable!("a deleted row is not visible: {kind:?}"),
        }
    }

    pub fn delete(&mut self, table: &Arc<Table>, row: RowId) {
        let Some(place) = self.place(table.id(), row) else {
            self.add(table, row, WriteKind::Delete);
            return;
        };
        let kind = &mut self.writes[place].kind;
        *kind = match kind {
            WriteKind::Insert(_) | WriteKind::Nothing => WriteKind::Nothing,
            WriteKind::Update(_) | WriteKind::Delete => WriteKind::Delete,
        };
    }

    fn add(&mut self, table: &Arc<Table>, row: RowId, kind: WriteKind) {
        self.places.insert((table.id().0, row.0), self.writes.len());
        let table = self.table_position_or_add(table);
        self.writes.push(Write { table, row, kind });
    }

    /// The pending new rows of a table, first to last.
    pub fn inserts(&self, table: TableId) -> impl Iterator<Item = (RowId, &[Value])> {
        let position = self.table_position(table);
        let writes = if position.is_some() { &self.writes[..] } else { &[] };
        writes.iter().filter(move |write| Some(write.table) == position).filter_map(|write| {
            match &write.kind {
                WriteKind::Insert(values) => Some((write.row, &values[..])),
                _ => None,
            }
        })
    }

    /// Pending rows of a table whose keys in the index come from this transaction: new rows, and rows whose key
    /// columns it updates. In key order. `current_key` encodes the key as this transaction sees it.
    pub fn own_keys(
        &mut self,
        table: TableId,
        position: usize,
        index: &Index,
        current_key: impl Fn(&WriteSet, RowId) -> Option<Vec<u8>>,
    ) -> Option<&BTreeSet<(Vec<u8>, RowId)>> {
        let written = self.table_position(table)?;
        let mut own = self.own_keys.remove(&(written, position)).unwrap_or_default();
        for write in &self.writes[own.absorbed..] {
            let has_own_key = write.table == written
                && match &write.kind {
                    WriteKind::Insert(_) => true,
                    WriteKind::Update(changes) => {
                        changes.iter().any(|(column, _)| index.key_columns().contains(*column))
                    }
                    _ => false,
                };
            if has_own_key && let Some(key) = current_key(self, write.row) {
                own.entries.insert((key, write.row));
            }
        }
        own.absorbed = self.writes.len();
        let place = (written, position);
        Some(&self.own_keys.entry(place).or_insert(own).entries)
    }

    /// Whether the pending change of a committed row touches these columns or ends the row.
    pub fn hides(&self, table: TableId, row: RowId, key_columns: ColumnSet) -> bool {
        match self.get(table, row) {
            Some(WriteKind::Update(changes)) => {
                changes.iter().any(|(column, _)| key_columns.contains(*column))
            }
            Some(WriteKind::Delete | WriteKind::Nothing) => true,
            _ => false,
        }
    }
}
