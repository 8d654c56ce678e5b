//! A snapshot: a consistent image of the whole database at one timestamp.
//!
//! Taking one reads the watermark and announces it (`ActiveReaders`): no lock, no copy, no waiting. What the
//! snapshot needs is kept from then on by the version chains; reading a block lends the live arrays or, where the
//! block has changed, materializes the columns asked for, once, and keeps them for the other queries of the same
//! snapshot. Dropping the last clone lets everything go.

use crate::image::{BlockImage, ColumnImage};
use crate::materialize::{Rows, copy_column, lend, rows_at};
use ankerdb_base::{TableId, Timestamp};
use ankerdb_sync::readers::ReaderSlot;
use ankerdb_table::Table;
use crossbeam_epoch::Guard;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Copies that one snapshot keeps for its other queries; past this, each query makes its own.
const KEPT_BYTES_MAX: usize = 256 << 20;
const SHARDS: usize = 16;

/// How snapshots were used since the database was created.
#[derive(Default)]
pub struct SnapshotCounters {
    /// Snapshots taken.
    pub taken: AtomicU64,
    /// Column arrays lent.
    pub columns_lent: AtomicU64,
    /// Column arrays copied.
    pub columns_materialized: AtomicU64,
}

/// See the module. Cheap to clone and to share between threads.
#[derive(Clone)]
pub struct Snapshot(Arc<Inner>);

struct Inner {
    timestamp: Timestamp,
    /// Announces the timestamp; shared with the transaction that the snapshot belongs to, if any.
    _slot: Arc<ReaderSlot>,
    counters: Arc<SnapshotCounters>,
    /// Made at the first block: many snapshots live for one short query.
    kept: std::sync::OnceLock<Box<[Mutex<Kept>; SHARDS]>>,
    kept_bytes: AtomicUsize,
}

#[derive(Default)]
struct Kept {
    rows: HashMap<(TableId, usize), Rows>,
    columns: HashMap<(TableId, usize, usize), ColumnImage>,
}

impl Snapshot {
    /// The image at `timestamp`, which `slot` announces.
    pub fn new(timestamp: Timestamp, slot: Arc<ReaderSlot>, counters: Arc<SnapshotCounters>) -> Snapshot {
        debug_assert_eq!(slot.timestamp(), Some(timestamp));
        counters.taken.fetch_add(1, Ordering::Relaxed);
        let kept = std::sync::OnceLock::new();
        Snapshot(Arc::new(Inner { timestamp, _slot: slot, counters, kept, kept_bytes: AtomicUsize::new(0) }))
    }

    /// Everything committed up to here is in it, and nothing else.
    pub fn timestamp(&self) -> Timestamp {
        self.0.timestamp
    }

    /// What an analytical query reads of it.
    pub fn read_view(&self) -> crate::ReadView {
        crate::ReadView::of_snapshot(self.clone())
    }

    /// The columns of one block as of the snapshot.
    pub fn read_block(&self, table: &Table, number: usize, columns: &[usize], pin: &Guard) -> BlockImage {
        let mut kept = self.shard(number).lock();
        let mut images: Vec<Option<ColumnImage>> =
            columns.iter().map(|&column| kept.columns.get(&(table.id(), number, column)).cloned()).collect();
        let rows = kept.rows.get(&(table.id(), number)).cloned();
        if let Some(rows) = &rows
            && images.iter().all(Option::is_some)
        {
            let columns = images.into_iter().flatten().collect();
            return BlockImage { rows: rows.count, selection: rows.selection.clone(), columns };
        }
        // The shard stays locked: another query of this snapshot that wants the same block waits for this one's
        // work instead of doing it again.
        let block = table.block(number);
        let missing: Vec<usize> =
            (0..columns.len()).filter(|&i| images[i].is_none()).map(|i| columns[i]).collect();
        let (rows, made) = match lend(block, &missing, self.0.timestamp, pin) {
            Some((lent_rows, made)) => {
                self.0.counters.columns_lent.fetch_add(made.len() as u64, Ordering::Relaxed);
                (rows.unwrap_or(lent_rows), made)
            }
            None => {
                let rows = rows.unwrap_or_else(|| rows_at(block, self.0.timestamp, pin));
                let copy = |&column: &usize| copy_column(block, column, rows.count, self.0.timestamp, pin);
                let made: Vec<ColumnImage> = missing.iter().map(copy).collect();
                self.0.counters.columns_materialized.fetch_add(made.len() as u64, Ordering::Relaxed);
                (rows, made)
            }
        };
        self.keep(&mut kept, table.id(), number, &rows, &missing, &made);
        let mut made = made.into_iter();
        let columns = images.iter_mut().map(|image| image.take().or_else(|| made.next()));
        let columns = columns.map(|image| image.expect("each column was kept or made")).collect();
        BlockImage { rows: rows.count, selection: rows.selection, columns }
    }

    fn shard(&self, number: usize) -> &Mutex<Kept> {
        let shards = self.0.kept.get_or_init(|| Box::new(std::array::from_fn(|_| Mutex::default())));
        &shards[number % SHARDS]
    }

    fn keep(
        &self,
        kept: &mut Kept,
        table: TableId,
        number: usize,
        rows: &Rows,
        columns: &[usize],
        made: &[ColumnImage],
    ) {
        let bytes: usize = made.iter().map(ColumnImage::copied_bytes).sum();
        if self.0.kept_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > KEPT_BYTES_MAX {
            self.0.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return;
        }
        kept.rows.entry((table, number)).or_insert_with(|| rows.clone());
        for (column, image) in columns.iter().zip(made) {
            kept.columns.insert((table, number, *column), image.clone());
        }
    }
}
