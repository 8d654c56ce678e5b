//! Rows put back into an empty table, as a log tells of them.
//!
//! Changes come in the order of their commits, each with the place of its row, and there are no readers and no other writers. A slot
//! may have had several rows, one after the other. No versions are kept, and no index is looked at: those are filled when all rows are there.

use crate::block::RowBlock;
use crate::cell::{Cell, CellLayout};
use crate::storage::Storage;
use ankerdb_base::{Error, ROWS_PER_BLOCK, Result, RowId, SqlState, Timestamp};
use ankerdb_value::DataType;
use crossbeam_epoch::Guard;

/// The largest number of a block that is believed: more rows than that have never been in one table.
const BLOCKS_MAX: usize = 1 << 28;

/// What a commit did to a row.
#[derive(Clone, Copy, Debug)]
pub enum RestoredChange<'a> {
    /// A new row: one cell per column.
    Insert(&'a [Cell<'a>]),
    /// New cells of some columns.
    Update(&'a [(usize, Cell<'a>)]),
    /// The row went.
    Delete,
}

impl Storage {
    /// Repeats a change.
    ///
    /// # Errors
    /// `DataCorrupted` if it does not fit what is there: the row of an insertion is there already, that of another change is not, a cell is
    /// none of its column. 53200 and 54000 without memory.
    pub fn restore(
        &self,
        row: RowId,
        commit: Timestamp,
        change: RestoredChange<'_>,
        pin: &Guard,
    ) -> Result<()> {
        let is_insertion = matches!(change, RestoredChange::Insert(_));
        let block = self.block_to_restore(row, is_insertion)?;
        let owned = self.try_own(row).ok_or_else(|| misfit("a row that has an owner"))?;
        if owned.header().exists() == is_insertion {
            return Err(misfit(if is_insertion {
                "a row that is there already"
            } else {
                "a row that is not there"
            }));
        }
        if owned.header().timestamp() >= commit {
            return Err(misfit("a row that has a newer change"));
        }
        match change {
            RestoredChange::Insert(cells) => {
                let is_whole = cells.len() == self.types().len();
                self.check_cells(is_whole, cells.iter().copied().enumerate())?;
                block.restore_insert(row.offset(), commit, cells, pin)?;
                // It gave the row up.
                std::mem::forget(owned);
                Ok(())
            }
            RestoredChange::Update(changes) => {
                let changes = changes.iter().copied();
                self.check_cells(true, changes.clone())?;
                block.restore_update(row.offset(), commit, changes, pin)?;
                // It gave the row up.
                std::mem::forget(owned);
                Ok(())
            }
            RestoredChange::Delete => {
                // SAFETY: no reader needs the row as it was, so nothing has to be saved of it.
                unsafe { owned.install_delete(commit) };
                Ok(())
            }
        }
    }

    pub(crate) fn block_to_restore(&self, row: RowId, is_insertion: bool) -> Result<&RowBlock> {
        let number = row.block();
        if row.provisional_number().is_some() || number.0 >= BLOCKS_MAX {
            return Err(misfit("a place that no row has had"));
        }
        if number.0 >= self.block_count() && !is_insertion {
            return Err(misfit("a row that is not there"));
        }
        while self.block_count() <= number.0 {
            let added = self.add_block()?;
            self.block(added).open_all_slots();
        }
        Ok(self.block(number))
    }

    /// That cells are ones of their columns: what is written for one of another layout would be read as something else.
    fn check_cells<'a>(
        &self,
        is_whole: bool,
        mut cells: impl Iterator<Item = (usize, Cell<'a>)>,
    ) -> Result<()> {
        let fits = |(column, cell): (usize, Cell<'_>)| {
            let Some(&(data_type, nullable)) = self.types().get(column) else { return false };
            match (cell, CellLayout::of(data_type)) {
                (Cell::Null, _) => nullable,
                (Cell::Word(_), layout) => !matches!(layout, CellLayout::Wide | CellLayout::View),
                (Cell::Wide(_), layout) => layout == CellLayout::Wide,
                (Cell::Bytes(bytes), layout) => {
                    let is_text = fits_text(data_type);
                    layout == CellLayout::View && (!is_text || std::str::from_utf8(bytes).is_ok())
                }
            }
        };
        if is_whole && cells.all(fits) {
            Ok(())
        } else {
            Err(misfit("cells of other columns than the table has"))
        }
    }

    /// Ends the restoring of rows: slots without a row wait for new ones, or are handed out in turn in blocks that were not full, and the others are as if nobody had ever seen their former states.
    /// `now` is the timestamp of the last commit.
    pub fn end_restoring(&self, now: Timestamp, pin: &Guard) {
        self.sweep(now, pin);
        let mut tails = self.tails().iter();
        // The last ones were being filled.
        for number in self.block_numbers().rev() {
            let block = self.block(number);
            let has_had_row = |offset: &usize| block.header(*offset).timestamp() > Timestamp::ZERO;
            let mut end = (0..ROWS_PER_BLOCK).rev().find(has_had_row).map_or(0, |last| last + 1);
            match (end < ROWS_PER_BLOCK).then(|| tails.next()).flatten() {
                Some(tail) => {
                    block.close_slots_from(end);
                    tail.lock().block = Some(number);
                }
                None => end = ROWS_PER_BLOCK,
            }
            let is_unused = |offset: &usize| !has_had_row(offset) && block.set_free(*offset);
            let unused: Vec<RowId> =
                (0..end).filter(is_unused).map(|offset| RowId::new(number, offset)).collect();
            self.add_free_slots(number, unused);
        }
    }
}

/// Whether the bytes of such a column have to be UTF-8.
pub(crate) fn fits_text(data_type: DataType) -> bool {
    data_type.is_text() || data_type.is_document() || data_type == DataType::Number
}

#[cold]
pub(crate) fn misfit(what: &str) -> Error {
    Error::new(SqlState::DataCorrupted, format!("the log tells of {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::ReadAt;
    use crate::block_image::{ImageColumn, ImageOfBlock};
    use crate::entries::Entries;
    use crate::{ColumnDefinition, TableDefinition};
    use ankerdb_base::BlockNumber;
    use ankerdb_value::Value;

    fn table() -> crate::Table {
        let definition = TableDefinition::new("t")
            .column(ColumnDefinition::new("id", DataType::BigInt))
            .column(ColumnDefinition::new("note", DataType::Text).nullable())
            .primary_key(&["id"]);
        let database = ankerdb_base::DatabaseId::new();
        Storage::create(ankerdb_base::TableId::new(database, 0), definition)
    }

    fn insert(storage: &Storage, row: RowId, at: u64, id: i64, note: &str) -> Result<()> {
        let cells = [Cell::bigint(id), Cell::Bytes(note.as_bytes())];
        storage.restore(row, Timestamp(at), RestoredChange::Insert(&cells), &crossbeam_epoch::pin())
    }

    fn rows(storage: &Storage) -> Vec<(i64, String)> {
        let pin = crossbeam_epoch::pin();
        let mut found = Vec::new();
        for number in storage.block_numbers() {
            for offset in storage.block(number).exists().rows() {
                let row = RowId::new(number, offset);
                let value = |column| storage.value(row, column, ReadAt::Newest, &pin).expect("it exists");
                let (Value::BigInt(id), Value::Text(note)) = (value(0), value(1)) else {
                    panic!("other types")
                };
                found.push((id, note.to_string()));
            }
        }
        found
    }

    #[test]
    fn slots_have_the_rows_of_their_last_commits_and_the_others_are_free() {
        let table = table();
        let storage = Storage::of(&table);
        let (long, pin) = ("a note that is longer than its view", crossbeam_epoch::pin());
        insert(storage, RowId::new(BlockNumber(1), 5), 3, 1, long).unwrap();
        insert(storage, RowId::new(BlockNumber(0), 7), 4, 2, "gone").unwrap();
        storage.restore(RowId::new(BlockNumber(0), 7), Timestamp(5), RestoredChange::Delete, &pin).unwrap();
        insert(storage, RowId::new(BlockNumber(0), 7), 9, 3, "again").unwrap();
        insert(storage, RowId::new(BlockNumber(0), 8), 9, 4, "gone").unwrap();
        storage.restore(RowId::new(BlockNumber(0), 8), Timestamp(10), RestoredChange::Delete, &pin).unwrap();
        let changes = [(1, Cell::Bytes(b"another note that is longer than its view"))];
        storage
            .restore(RowId::new(BlockNumber(1), 5), Timestamp(11), RestoredChange::Update(&changes), &pin)
            .unwrap();
        storage.end_restoring(Timestamp(11), &pin);
        let expected = [(3, "again".to_owned()), (1, "another note that is longer than its view".to_owned())];
        assert_eq!(rows(storage), expected);
        // Slots behind the last row of a block are handed out in turn.
        assert_eq!(
            (
                storage.free_slots(),
                storage.block(BlockNumber(0)).fill(),
                storage.block(BlockNumber(1)).fill()
            ),
            (7 + 1 + 5, 9, 6)
        );
        let index = storage.indexes().get(0).expect("a primary key");
        for number in storage.block_numbers() {
            for offset in 0..storage.block(number).fill() {
                let (row, mut key) = (RowId::new(number, offset), Vec::new());
                if storage.push_key_at(index, row, ReadAt::Newest, &pin, &mut key).unwrap().is_some() {
                    Entries::of(index).insert(&key, row.0).unwrap();
                }
            }
        }
        let mut entries = Vec::new();
        Entries::of(index).visit_all(|_, row| {
            entries.push(RowId(row));
            std::ops::ControlFlow::Continue(())
        });
        assert_eq!(entries, [RowId::new(BlockNumber(1), 5), RowId::new(BlockNumber(0), 7)]);
        // New rows take all other slots, each once, before there is another block.
        let mut taken =
            std::collections::HashSet::from([RowId::new(BlockNumber(1), 5), RowId::new(BlockNumber(0), 7)]);
        let of_first = 8 + (ROWS_PER_BLOCK - 6);
        for number in 0..2 * ROWS_PER_BLOCK - 2 {
            let slot = storage.allocate_row(usize::from(number >= of_first)).unwrap();
            assert!(taken.insert(slot.id()), "{:?} is taken twice", slot.id());
            std::mem::forget(slot);
        }
        assert_eq!(storage.block_count(), 2);
        assert_eq!(storage.allocate_row(0).unwrap().id().block(), BlockNumber(2));
    }

    #[test]
    fn an_image_with_a_row_behind_its_last_slot_is_refused() {
        let table = table();
        let storage = Storage::of(&table);
        storage.add_blocks_to_restore(1).unwrap();
        let (ids, lengths) = ([7u64, 8, 9].map(u64::to_le_bytes).concat(), [0; 12]);
        let column = |layout, values, validity| ImageColumn { layout, validity, values, strings: &[] };
        let no_notes = [0; 8];
        let columns = [
            column(CellLayout::Word, &ids[..], None),
            column(CellLayout::View, &lengths[..], Some(&no_notes[..])),
        ];
        let restore = |exists: u64| {
            let exists = exists.to_le_bytes();
            let (number, timestamp) = (BlockNumber(0), Timestamp(5));
            let image = ImageOfBlock { number, timestamp, rows: 3, exists: &exists, columns: &columns };
            storage.restore_block(&image, None, &crossbeam_epoch::pin()).map_err(|error| error.state())
        };
        assert_eq!(restore(0b1101), Err(SqlState::DataCorrupted));
        assert_eq!(restore(1 << 63), Err(SqlState::DataCorrupted));
        assert!(storage.block(BlockNumber(0)).exists().is_empty());
        assert_eq!(restore(0b101), Ok(()));
        assert!(storage.block(BlockNumber(0)).exists().rows().eq([0, 2]));
        assert_eq!(storage.block(BlockNumber(0)).zone(0).and_then(|zone| zone.bounds()), Some((7, 9)));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let table = table();
        let storage = Storage::of(&table);
        let (row, pin) = (RowId::new(BlockNumber(0), 0), crossbeam_epoch::pin());
        let restore = |at: u64, change: RestoredChange<'_>| {
            storage.restore(row, Timestamp(at), change, &pin).map_err(|error| error.state())
        };
        let corrupted = Err(SqlState::DataCorrupted);
        assert_eq!(restore(1, RestoredChange::Delete), corrupted);
        assert_eq!(restore(1, RestoredChange::Insert(&[Cell::bigint(1)])), corrupted);
        assert_eq!(restore(1, RestoredChange::Insert(&[Cell::Null, Cell::Null])), corrupted);
        assert_eq!(restore(1, RestoredChange::Insert(&[Cell::bigint(1), Cell::Bytes(b"\xff")])), corrupted);
        assert_eq!(restore(1, RestoredChange::Insert(&[Cell::bigint(1), Cell::Null])), Ok(()));
        assert_eq!(restore(2, RestoredChange::Insert(&[Cell::bigint(1), Cell::Null])), corrupted);
        assert_eq!(restore(2, RestoredChange::Update(&[(2, Cell::Null)])), corrupted);
        assert_eq!(restore(1, RestoredChange::Update(&[(1, Cell::Null)])), corrupted);
        assert_eq!(restore(2, RestoredChange::Update(&[(1, Cell::Bytes(b"x"))])), Ok(()));
    }
}
