//! What one analytical query reads: a snapshot and, inside a transaction, the transaction's own writes over it.

use crate::compressed::CompressedColumn;
use crate::image::{BlockImage, ColumnCopy, ColumnImage, all_ones};
use crate::snapshot::Snapshot;
use crate::statistics::{TableStatistics, estimate, table_statistics};
use ankerdb_base::{BlockNumber, Error, ROWS_PER_BLOCK, Result, RowId, TableId, Timestamp};
use ankerdb_table::{Cell, CellLayout, Gate, Storage, Table};
use ankerdb_value::Value;
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// What a transaction did to a committed row.
#[derive(Clone, Debug)]
pub enum OwnChange {
    /// New values of some columns.
    Updated(Vec<(usize, Value)>),
    /// The row was deleted.
    Deleted,
}

/// The uncommitted writes of one transaction to one table.
#[derive(Clone, Default, Debug)]
pub struct OwnTableWrites {
    /// Changes of committed rows.
    pub changes: BTreeMap<RowId, OwnChange>,
    /// New rows, one value per column.
    pub inserts: Vec<Vec<Value>>,
    /// What the transaction calls each of the new rows.
    pub new_rows: Vec<RowId>,
}

/// The uncommitted writes of one transaction.
pub type OwnWrites = HashMap<TableId, OwnTableWrites>;

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct ReadView {
    snapshot: Snapshot,
    own: Option<Arc<OwnWrites>>,
}

impl ReadView {
    /// What a snapshot shows.
    pub fn of_snapshot(snapshot: Snapshot) -> ReadView {
        ReadView { snapshot, own: None }
    }

    /// What a snapshot shows, overlaid by a transaction's own writes.
    pub fn of_transaction(snapshot: Snapshot, own: OwnWrites) -> ReadView {
        ReadView { snapshot, own: (!own.is_empty()).then(|| Arc::new(own)) }
    }

    /// What a query reads in a copy of the process that is made while commits are held; see
    /// [`SnapshotStrategy::Forked`](crate::SnapshotStrategy). Not for a transaction's own writes.
    pub fn in_copy(&self) -> ReadView {
        debug_assert!(self.own.is_none());
        ReadView::of_snapshot(self.snapshot.by(crate::SnapshotStrategy::Forked))
    }

    /// The snapshot's timestamp.
    pub fn timestamp(&self) -> Timestamp {
        self.snapshot.timestamp()
    }

    /// Whether the table has its rows as of the view: those of one that was redefined may have been copied to it later.
    ///
    /// # Errors
    /// `SerializationFailure` if they have.
    pub fn check_has(&self, table: &Table) -> Result<()> {
        if Gate::of(table).since() <= self.timestamp() {
            return Ok(());
        }
        let message = "could not serialize access due to a concurrent change of a table";
        Err(Error::serialization(message))
    }

    /// Estimates about the table for the planner.
    pub fn statistics(&self, table: &Table) -> Arc<TableStatistics> {
        match self.snapshot.is_forked() {
            // A thread that held the lock of the kept ones may not exist in the copy.
            true => Arc::new(estimate(table)),
            false => table_statistics(table),
        }
    }

    /// Materializes as [`Snapshot::materialize`] does, for callers that know beforehand what a query is going to
    /// read.
    ///
    /// # Errors
    /// Those of [`Snapshot::materialize`].
    pub fn materialize(&self, table: &Table, columns: &[usize]) -> Result<()> {
        self.snapshot.materialize(table, columns)
    }

    /// Checks as [`Snapshot::check`] does.
    ///
    /// # Errors
    /// Those of [`Snapshot::check`].
    pub fn check(&self) -> Result<()> {
        self.snapshot.check()
    }

    fn own(&self, table: &Table) -> Option<&OwnTableWrites> {
        self.own.as_ref()?.get(&table.id())
    }

    /// The number of parts of the table: own new rows, if any, as part 0, then its blocks. Rows that commit later may
    /// add parts; a view need not read them.
    pub fn parts(&self, table: &Table) -> usize {
        table.block_count() + self.own_parts(table)
    }

    fn own_parts(&self, table: &Table) -> usize {
        self.own(table).is_some_and(|own| !own.inserts.is_empty()) as usize
    }

    /// The columns of one part. Lends the live arrays where the block is full and has not changed since the
    /// snapshot; otherwise copies them, once per snapshot. Own writes are put into a copy of their own.
    ///
    /// # Errors
    /// Those of [`Snapshot::read_block`].
    pub fn read(&self, table: &Table, part: usize, columns: &[usize]) -> Result<BlockImage> {
        let own = self.own(table);
        let Some(block) = part.checked_sub(self.own_parts(table)) else {
            return own_rows(table, own.map_or(&[], |own| &own.inserts), columns);
        };
        let image = self.snapshot.read_block(table, BlockNumber(block), columns)?;
        match own {
            Some(own) => overlay(table, BlockNumber(block), image, &own.changes, columns),
            None => Ok(image),
        }
    }

    /// Between which numbers the values of a column lie in a part, NULL aside, for columns that [have bounds](ankerdb_table::Zone::covers);
    /// numerics are their unscaled numbers. Wider than they are, as bounds never narrow; an empty range if there was never a value. `None` where nothing is
    /// known, as under a transaction's own writes. Costs two loads.
    pub fn bounds(&self, table: &Table, part: usize, column: usize) -> Option<RangeInclusive<i64>> {
        if self.own(table).is_some() {
            return None;
        }
        let zone = Storage::of(table).block(BlockNumber(part)).zone(column)?;
        // What a snapshot shows was written, and its bounds widened, before the snapshot was taken.
        let (least, greatest) = zone.bounds().unwrap_or((i64::MAX, i64::MIN));
        Some(least..=greatest)
    }

    /// A compressed copy of a column, of which [`read`](Self::read) has given `image` as that of a part: the same values, a code for each. `None`
    /// where none is kept: for a copy, under own writes, for the first one who asks after a change, and for columns with too many
    /// different values, or of types that have no codes. Making one costs two passes over the column, and finding it two locks.
    pub fn compressed(
        &self,
        table: &Table,
        part: usize,
        column: usize,
        image: &ColumnImage,
    ) -> Option<Arc<CompressedColumn>> {
        let block = part.checked_sub(self.own_parts(table))?;
        self.snapshot.compressed(table, BlockNumber(block), column, image)
    }

    /// Which rows the places of a part's image stand for, those without a visible row among them; `rows` is the image's
    /// number of places. A transaction that reads through this view may write to the visible ones by these names.
    pub fn row_ids(&self, table: &Table, part: usize, rows: usize) -> Vec<RowId> {
        match part.checked_sub(self.own_parts(table)) {
            Some(block) => (0..rows).map(|offset| RowId::new(BlockNumber(block), offset)).collect(),
            None => self.own(table).map_or_else(Vec::new, |own| own.new_rows.clone()),
        }
    }

    /// The part that has a row of [`row_ids`](Self::row_ids), and the row's place there; `None` for a new row that the view does not have.
    /// Costs a search among the view's own new rows for one of them.
    pub fn place_of(&self, table: &Table, row: RowId) -> Option<(usize, usize)> {
        match row.provisional_number() {
            None => Some((row.block().0 + self.own_parts(table), row.offset())),
            // They are in the order in which they were inserted, and so in that of their numbers.
            Some(_) => self.own(table)?.new_rows.binary_search(&row).ok().map(|place| (0, place)),
        }
    }
}

fn own_rows(table: &Table, inserts: &[Vec<Value>], columns: &[usize]) -> Result<BlockImage> {
    let images = columns.iter().map(|&column| -> Result<ColumnImage> {
        let definition = &table.columns()[column];
        let layout = CellLayout::of(definition.data_type);
        let mut copy = ColumnCopy::empty(layout, definition.nullable, inserts.len());
        for (row, values) in inserts.iter().enumerate() {
            copy.set(row, Cell::of(&values[column], definition.data_type)?, 0);
        }
        Ok(copy.finish(Vec::new()))
    });
    Ok(BlockImage { rows: inserts.len(), selection: None, columns: images.collect::<Result<_>>()? })
}

/// That many bits set, none beyond.
fn ones(rows: usize) -> Box<[u64]> {
    let word = |index: usize| match rows - index * 64 {
        64.. => u64::MAX,
        rest => (1 << rest) - 1,
    };
    (0..rows.div_ceil(64)).map(word).collect()
}

fn overlay(
    table: &Table,
    block: BlockNumber,
    image: BlockImage,
    changes: &BTreeMap<RowId, OwnChange>,
    columns: &[usize],
) -> Result<BlockImage> {
    // Below REPEATABLE READ, a row written by an earlier statement may have gone since, and a block ends with its last
    // row: what is behind it is not there for this statement.
    let rows = RowId::new(block, 0)..=RowId::new(block, ROWS_PER_BLOCK - 1);
    let changes: Vec<_> = changes.range(rows).filter(|(row, _)| row.offset() < image.rows).collect();
    if changes.is_empty() {
        return Ok(image);
    }
    let mut bits = image.selection.unwrap_or_else(|| ones(image.rows));
    for (row, change) in &changes {
        if matches!(change, OwnChange::Deleted) {
            bits[row.offset() / 64] &= !(1 << (row.offset() % 64));
        }
    }
    let own_column = |(i, &column): (usize, &usize)| -> Result<ColumnImage> {
        let updates = changes.iter().filter_map(|(row, change)| match change {
            OwnChange::Updated(values) => values
                .iter()
                .find(|(position, _)| *position == column)
                .map(|(_, value)| (row.offset(), value)),
            OwnChange::Deleted => None,
        });
        let mut updates = updates.peekable();
        if updates.peek().is_none() {
            return Ok(image.columns[i].clone());
        }
        let data_type = table.columns()[column].data_type;
        let (mut copy, heaps) =
            ColumnCopy::of_image(&image.columns[i], CellLayout::of(data_type), image.rows);
        for (row, value) in updates {
            copy.set(row, Cell::of(value, data_type)?, heaps.len());
        }
        Ok(copy.finish(heaps))
    };
    let columns = columns.iter().enumerate().map(own_column).collect::<Result<_>>()?;
    let selection = (!all_ones(&bits, image.rows)).then_some(bits);
    Ok(BlockImage { rows: image.rows, selection, columns })
}
