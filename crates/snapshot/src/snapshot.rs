//! A snapshot: a consistent image of the whole database at one timestamp.
//!
//! Taking one reads the watermark and announces it (`ActiveReaders`): no lock, no copy, no waiting. What the
//! snapshot needs is kept from then on by the version chains; reading a block lends the live arrays or, where the
//! block has changed, materializes the columns asked for, once, and keeps them for the other queries of the same
//! snapshot. Dropping the last clone lets everything go.

use crate::image::{BlockImage, ColumnImage};
use crate::materialize::{Rows, is_lendable, lend, read_column, rows_at};
use ankerdb_base::{TableId, Timestamp};
use ankerdb_sync::readers::ReaderSlot;
use ankerdb_table::{RowBlock, Table};
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

/// What was lent or made for the blocks of a shard.
type Kept = HashMap<(TableId, usize), KeptBlock>;

struct KeptBlock {
    rows: Rows,
    columns: Vec<(usize, ColumnImage)>,
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
        // The shard stays locked: another query of this snapshot that wants the same block waits for this one's
        // work instead of doing it again.
        let mut shard = self.shard(number).lock();
        let block = table.block(number);
        let kept = shard.entry((table.id(), number)).or_insert_with(|| KeptBlock {
            rows: rows_at(block, self.0.timestamp, pin),
            columns: Vec::with_capacity(columns.len()),
        });
        let image = |kept: &KeptBlock, column: usize| {
            kept.columns.iter().find(|(position, _)| *position == column).map(|(_, image)| image.clone())
        };
        let missing: Vec<usize> =
            columns.iter().copied().filter(|&column| image(kept, column).is_none()).collect();
        let made = self.make(block, &missing, kept.rows.count, pin);
        let Rows { count: rows, selection } = kept.rows.clone();
        let bytes: usize = made.iter().map(|(_, image)| image.copied_bytes()).sum();
        let columns_of = |kept: &KeptBlock, made: &[(usize, ColumnImage)]| {
            let find = |&column: &usize| {
                let made = made.iter().find(|(position, _)| *position == column);
                image(kept, column).or_else(|| made.map(|(_, image)| image.clone()))
            };
            columns.iter().map(|column| find(column).expect("each column was kept or made")).collect()
        };
        if self.0.kept_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > KEPT_BYTES_MAX {
            self.0.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return BlockImage { rows, selection, columns: columns_of(kept, &made) };
        }
        kept.columns.extend(made);
        BlockImage { rows, selection, columns: columns_of(kept, &[]) }
    }

    /// Lends the columns that can be lent and copies the others.
    fn make(
        &self,
        block: &RowBlock,
        columns: &[usize],
        rows: usize,
        pin: &Guard,
    ) -> Vec<(usize, ColumnImage)> {
        let at = self.0.timestamp;
        let (lendable, mut others): (Vec<usize>, Vec<usize>) =
            columns.iter().partition(|&&column| is_lendable(block, column, at));
        let mut made = Vec::with_capacity(columns.len());
        if !lendable.is_empty() {
            match lend(block, &lendable, at, pin) {
                Some(images) => {
                    self.0.counters.columns_lent.fetch_add(images.len() as u64, Ordering::Relaxed);
                    made.extend(lendable.into_iter().zip(images));
                }
                None => others.extend(lendable),
            }
        }
        let mut copied = 0;
        for column in others {
            let (image, is_copy) = read_column(block, column, rows, at, pin);
            copied += is_copy as u64;
            made.push((column, image));
        }
        if copied > 0 {
            self.0.counters.columns_materialized.fetch_add(copied, Ordering::Relaxed);
        }
        made
    }

    fn shard(&self, number: usize) -> &Mutex<Kept> {
        let shards = self.0.kept.get_or_init(|| Box::new(std::array::from_fn(|_| Mutex::default())));
        &shards[number % SHARDS]
    }
}
