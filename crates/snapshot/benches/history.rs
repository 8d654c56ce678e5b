//! What history costs the reader of an older snapshot, and those who wrote it.
//!
//! `cargo bench -p ankerdb-snapshot --bench history -- [BLOCKS] [TURNS]`
//!
//! A table of two columns of words is changed behind a snapshot: one word in each of a share of its rows, in the order of the
//! rows or in a random one. Then the snapshot's column is read, block by block: put together, and summed up. Yardsticks of
//! the same run: a scan of lent arrays, of which nothing has changed, and a plain copy of the column into memory that was in use
//! before. Gigabytes are those of the column.
//!
//! All figures are those of the median block, in the median turn: blocks during which the thread lost its processor do not
//! count.

use ankerdb_base::{BlockNumber, DatabaseId, ROWS_PER_BLOCK, RowId, TableId, Timestamp};
use ankerdb_measure::arguments::arguments;
use ankerdb_measure::latency::median;
use ankerdb_snapshot::{Snapshot, SnapshotCounters, SnapshotOrigin, SnapshotStrategy};
use ankerdb_sync::memory_limit::MemoryLimit;
use ankerdb_sync::readers::ActiveReaders;
use ankerdb_table::{Cell, ColumnDefinition, Storage, Table, TableDefinition};
use ankerdb_value::DataType;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// The column that changes.
const CHANGED: usize = 1;
const BLOCK_BYTES: f64 = (ROWS_PER_BLOCK * 8) as f64;

fn main() {
    let mut numbers = arguments().filter_map(|argument| argument.parse().ok());
    let (blocks, turns) = (numbers.next().unwrap_or(128), numbers.next().unwrap_or(9));
    println!("{blocks} blocks of {} KiB a column, {turns} turns", BLOCK_BYTES / 1024.0);
    println!(
        "{:>8} {:>7} | {:>10} {:>10} {:>10} | {:>12} {:>12} | {:>10} {:>10}",
        "changed",
        "order",
        "read GB/s",
        "with sum",
        "copy GB/s",
        "of a scan",
        "of a copy",
        "ns a write",
        "B a version"
    );
    let mut clean = 0.0;
    for (share, shuffled) in [(0.0, false), (0.01, true), (0.1, true), (1.0, false), (1.0, true)] {
        let stage = Stage::new(blocks);
        let (write_ns, version_bytes) = stage.change(share, shuffled);
        let (read, scan) = stage.read(turns);
        let copy = stage.copy(turns);
        if share == 0.0 {
            clean = scan;
        }
        println!(
            "{:>7}% {:>7} | {read:>10.2} {scan:>10.2} {copy:>10.2} | {:>12.2} {:>12.2} | {write_ns:>10.0} {version_bytes:>10.1}",
            share * 100.0,
            if shuffled { "random" } else { "rows" },
            scan / clean,
            read / copy,
        );
    }
}

/// A table and the snapshot that is older than its changes.
struct Stage {
    table: Table,
    rows: Vec<RowId>,
    snapshot: Snapshot,
}

impl Stage {
    fn new(blocks: usize) -> Stage {
        let database = DatabaseId::new();
        let definition = TableDefinition::new("history")
            .column(ColumnDefinition::new("id", DataType::BigInt))
            .column(ColumnDefinition::new("word", DataType::BigInt));
        let table = Storage::create(TableId::new(database, 1), definition);
        let storage = Storage::of(&table);
        let insert = |number: usize| {
            let row = storage.allocate_row(0).expect("there is memory");
            let (id, pin) = (row.id(), crossbeam_epoch::pin());
            let cells = [Cell::Word(number as u64), Cell::Word(number as u64)].into_iter().enumerate();
            row.write_new(cells.clone(), &mut Vec::new(), &pin).expect("there is memory");
            // SAFETY: written just now; no text.
            unsafe { row.install_insert(Timestamp(1), cells, &mut std::iter::empty(), &pin) };
            id
        };
        let rows: Vec<RowId> = (0..blocks * ROWS_PER_BLOCK).map(insert).collect();
        storage.sweep(Timestamp(1), &crossbeam_epoch::pin());
        let slot = Arc::new(ActiveReaders::new().register());
        let at = slot.enter(|| Timestamp(1));
        let origin = SnapshotOrigin { database, memory_limit: MemoryLimit::NONE };
        let counters = Arc::new(SnapshotCounters::default());
        let snapshot = Snapshot::new(origin, at, slot, SnapshotStrategy::InPlace, counters);
        Stage { table, rows, snapshot }
    }

    /// Changes a share of the rows, each by a commit of its own; nanoseconds a change, and bytes of a version.
    fn change(&self, share: f64, shuffled: bool) -> (f64, f64) {
        let storage = Storage::of(&self.table);
        let mut rows = self.rows.clone();
        if shuffled {
            fastrand::Rng::with_seed(1).shuffle(&mut rows);
        }
        rows.truncate((rows.len() as f64 * share) as usize);
        let mut times = Vec::new();
        for (part, rows) in rows.chunks(1024).enumerate() {
            let begun = Instant::now();
            for (number, row) in rows.iter().enumerate() {
                let commit = Timestamp((part * 1024 + number) as u64 + 2);
                let (row, pin) = (storage.try_own(*row).expect("nobody else writes"), crossbeam_epoch::pin());
                let changes = std::iter::once((CHANGED, Cell::Word(commit.0)));
                let in_use = [Timestamp(1), Timestamp(commit.0 - 1)];
                row.save_update(changes.clone(), &in_use, &mut Vec::new(), &pin).expect("there is memory");
                // SAFETY: saved just now; no text.
                unsafe { row.install_update(commit, changes, &mut std::iter::empty(), &pin) };
            }
            times.push(begun.elapsed().as_nanos() as f64 / rows.len() as f64);
        }
        let bytes = self.table.version_bytes(&crossbeam_epoch::pin()) as f64 / rows.len().max(1) as f64;
        (median(&mut times).unwrap_or(0.0), bytes)
    }

    /// Gigabytes a second of reading the column as of the snapshot, and of reading it with a look at each word.
    fn read(&self, turns: usize) -> (f64, f64) {
        let (mut reads, mut scans) = (Vec::new(), Vec::new());
        for _ in 0..turns {
            let snapshot = self.snapshot.by(SnapshotStrategy::InPlace);
            let (mut read, mut scan, mut sum) = (Vec::new(), Vec::new(), 0u64);
            for number in (0..self.table.block_count()).map(BlockNumber) {
                let begun = Instant::now();
                let image = snapshot.read_block(&self.table, number, &[CHANGED]).expect("it is ours");
                read.push(begun.elapsed().as_nanos() as f64);
                sum += image.columns[0].words().iter().fold(0, |sum: u64, word| sum.wrapping_add(*word));
                scan.push(begun.elapsed().as_nanos() as f64);
            }
            let rows = self.rows.len() as u64;
            assert_eq!(
                black_box(sum),
                rows * (rows - 1) / 2,
                "the snapshot's words are those from before all changes"
            );
            reads.extend(median(&mut read));
            scans.extend(median(&mut scan));
        }
        (rate(&mut reads), rate(&mut scans))
    }

    /// Gigabytes a second of copying the column, block by block.
    fn copy(&self, turns: usize) -> f64 {
        let pin = crossbeam_epoch::pin();
        let blocks = self.table.block_count();
        let mut copies = vec![vec![1u64; ROWS_PER_BLOCK]; blocks];
        let mut rates = Vec::new();
        for _ in 0..turns {
            let mut times = Vec::new();
            for (number, copy) in copies.iter_mut().enumerate() {
                let block = Storage::of(&self.table).block(BlockNumber(number));
                let begun = Instant::now();
                // SAFETY: inside a pin; nobody writes now, and a block has as many words.
                unsafe {
                    let words = block.columns().current(CHANGED).values().pointer().cast::<u64>();
                    std::ptr::copy_nonoverlapping(words, copy.as_mut_ptr(), ROWS_PER_BLOCK);
                }
                times.push(begun.elapsed().as_nanos() as f64);
            }
            black_box(&copies);
            rates.extend(median(&mut times));
        }
        let _inside = pin;
        rate(&mut rates)
    }
}

/// Gigabytes a second, of nanoseconds a block.
fn rate(nanos: &mut [f64]) -> f64 {
    BLOCK_BYTES / median(nanos).expect("there are turns")
}
