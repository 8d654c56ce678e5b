//! The competitors: memory that is not protected at all, the techniques, and ours.
//!
//! All have one column of words in blocks of 8,192. A writer stores random words, a reader takes an image and adds its
//! words up block by block.

use crate::harness::Harness;
use crate::rows::{LoadedTable, load_installs, row_at};
use crate::technique::{Memory, OURS, fork_and_sum, sum, sum_of_child, sum_shared};
use ankerdb_base::ROWS_PER_BLOCK;
use ankerdb_engine::{Cell, Isolation, ReadView, Result, Table, Technique};
use ankerdb_region::RegionSnapshot;
use ankerdb_region::fork::Child;
use ankerdb_transaction::Installs;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Rows that the larger commits of ours change.
pub const ROWS_PER_COMMIT: usize = 64;

/// Stores random words at random rows, so many at a time.
pub type WriteSome<'a> = Box<dyn FnMut(&mut fastrand::Rng, usize) -> Result<()> + Send + 'a>;

/// Writes rows that are chosen.
pub type WriteThese<'a> = Box<dyn FnMut(&[usize]) -> Result<()> + Send + 'a>;

/// A competitor, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompetitorKind {
    /// Stores and loads, no snapshots.
    Unprotected,
    /// A technique; whether an older snapshot is refreshed in place.
    Technique(Technique, bool),
    /// Ours, without what a transaction does around the installation of its writes.
    Installs,
    /// Ours, whole transactions of so many rows.
    Transactions(usize),
}

impl CompetitorKind {
    /// All that a run compares.
    pub fn all(techniques: &[Technique]) -> Vec<CompetitorKind> {
        let mut all = vec![CompetitorKind::Unprotected];
        all.extend(techniques.iter().map(|&technique| CompetitorKind::Technique(technique, false)));
        if techniques.contains(&Technique::VmSnapshot) {
            all.push(CompetitorKind::Technique(Technique::VmSnapshot, true));
        }
        all.extend([
            CompetitorKind::Installs,
            CompetitorKind::Transactions(ROWS_PER_COMMIT),
            CompetitorKind::Transactions(1),
        ]);
        all
    }

    /// The name in results.
    pub fn name(self) -> String {
        match self {
            CompetitorKind::Unprotected => "unprotected".to_owned(),
            CompetitorKind::Technique(technique, false) => technique.name().to_owned(),
            CompetitorKind::Technique(technique, true) => format!("{}, refreshed", technique.name()),
            CompetitorKind::Installs => format!("{OURS}, installs only"),
            CompetitorKind::Transactions(1) => format!("{OURS}, transactions of a row"),
            CompetitorKind::Transactions(rows) => format!("{OURS}, transactions of {rows} rows"),
        }
    }

    /// Whether it is ours.
    pub fn is_ours(self) -> bool {
        matches!(self, CompetitorKind::Installs | CompetitorKind::Transactions(_))
    }
}

/// A competitor with its data.
pub struct Competitor {
    /// Which.
    pub kind: CompetitorKind,
    data: Data,
}

enum Data {
    Memory(Memory),
    Rows(usize, LoadedTable),
    Installs(Installs),
}

/// The image that a reader reads.
pub enum RaceImage {
    /// The live memory.
    Live,
    /// A region's snapshot.
    Snapshot(Vec<RegionSnapshot>),
    /// A child that is reading.
    Child(Child),
    /// What a child has read.
    Read,
    /// A view of a table.
    View(ReadView),
}

impl Competitor {
    /// Makes its data.
    ///
    /// # Errors
    /// 57014 if the user stops it, 53200 if there is no memory.
    pub fn new(harness: &Harness<'_>, kind: CompetitorKind) -> Result<Competitor> {
        let megabytes = harness.setup.megabytes;
        let data = match kind {
            CompetitorKind::Unprotected => Data::Memory(Memory::new(Technique::Physical, 1, megabytes)?),
            CompetitorKind::Technique(technique, _) => Data::Memory(Memory::new(technique, 1, megabytes)?),
            CompetitorKind::Transactions(size) => Data::Rows(size, LoadedTable::load(harness, 1, megabytes)?),
            CompetitorKind::Installs => Data::Installs(load_installs(harness, megabytes)?),
        };
        Ok(Competitor { kind, data })
    }

    /// Words of the column.
    pub fn rows(&self) -> usize {
        match &self.data {
            Data::Memory(memory) => memory.words(0).len(),
            Data::Rows(_, rows) => rows.count,
            Data::Installs(installs) => installs.table().row_count(),
        }
    }

    /// Blocks of the column.
    pub fn blocks(&self) -> usize {
        self.rows() / ROWS_PER_BLOCK
    }

    /// Whether the reader of an image chooses its range when it takes the image.
    pub fn reads_at_once(&self) -> bool {
        self.kind == CompetitorKind::Technique(Technique::Fork, false)
    }

    /// A writer of random rows.
    pub fn writer(&self) -> WriteSome<'_> {
        let mut write = self.write_places();
        let rows = self.rows();
        let mut places = Vec::new();
        Box::new(move |random, count| {
            places.clear();
            places.extend((0..count).map(|_| random.usize(..rows)));
            write(&places)
        })
    }

    /// A writer of chosen rows.
    pub fn write_places(&self) -> WriteThese<'_> {
        match &self.data {
            Data::Memory(memory) => {
                let words = memory.words(0);
                Box::new(move |places| {
                    places.iter().for_each(|&place| words[place].store(place as u64, Relaxed));
                    Ok(())
                })
            }
            Data::Installs(installs) => {
                let mut installer = installs.installer();
                Box::new(move |places| {
                    places.chunks(ROWS_PER_COMMIT).try_for_each(|places| {
                        installer.install(places.iter().map(|place| row_at(*place)), places[0] as u64)
                    })
                })
            }
            Data::Rows(size, rows) => {
                let mut session = rows.database.session();
                Box::new(move |places| {
                    places.chunks(*size).try_for_each(|places| {
                        session.run(Isolation::Serializable, |transaction| {
                            let changes = [(0, Cell::Word(places[0] as u64))];
                            places.iter().try_for_each(|place| {
                                transaction.update_cells(&rows.table, row_at(*place), &changes)
                            })
                        })
                    })
                })
            }
        }
    }

    /// A new image; `old` is taken where it is brought up to date for it. A child begins to read the range at once.
    ///
    /// # Errors
    /// 53200 if memory or mappings run out, 53300 if there may be no more processes.
    pub fn take(&self, old: &mut Option<RaceImage>, range: Range<usize>) -> Result<RaceImage> {
        let renewed = if matches!(self.kind, CompetitorKind::Technique(_, true)) { old.take() } else { None };
        match (&self.data, self.kind, renewed) {
            (_, CompetitorKind::Unprotected, _) => Ok(RaceImage::Live),
            (Data::Memory(memory), CompetitorKind::Technique(Technique::Fork, _), _) => {
                Ok(RaceImage::Child(fork_and_sum(&memory.words(0)[words_of(range)])?))
            }
            (Data::Memory(memory), CompetitorKind::Technique(_, true), Some(RaceImage::Snapshot(old))) => {
                Ok(RaceImage::Snapshot(memory.refresh(old)?))
            }
            (Data::Memory(memory), ..) => Ok(RaceImage::Snapshot(memory.snapshot(1)?)),
            (Data::Rows(_, rows), ..) => Ok(RaceImage::View(rows.database.snapshot().read_view())),
            (Data::Installs(installs), ..) => Ok(RaceImage::View(installs.snapshot().read_view())),
        }
    }

    /// Adds up some blocks of the image; how long that took. What a child reads was decided when it was made, and it reads
    /// once.
    ///
    /// # Errors
    /// 53200 if the image had to end; that of the child.
    pub fn scan(&self, image: &mut RaceImage, range: Range<usize>) -> Result<Duration> {
        let begun = Instant::now();
        let total = match (std::mem::replace(image, RaceImage::Read), &self.data) {
            (RaceImage::Child(child), _) => return Ok(sum_of_child(child)?.0),
            (RaceImage::Read, _) => return Ok(Duration::ZERO),
            (RaceImage::Live, Data::Memory(memory)) => {
                *image = RaceImage::Live;
                sum_shared(&memory.words(0)[words_of(range)])
            }
            (RaceImage::Snapshot(snapshot), _) => {
                let total = sum(&snapshot[0].words()[words_of(range)]);
                snapshot[0].check()?;
                *image = RaceImage::Snapshot(snapshot);
                total
            }
            (RaceImage::View(view), Data::Rows(_, rows)) => {
                let total = sum_of_blocks(&view, &rows.table, range)?;
                *image = RaceImage::View(view);
                total
            }
            (RaceImage::View(view), Data::Installs(installs)) => {
                let total = sum_of_blocks(&view, installs.table(), range)?;
                *image = RaceImage::View(view);
                total
            }
            (RaceImage::Live | RaceImage::View(_), _) => 0,
        };
        std::hint::black_box(total);
        Ok(begun.elapsed())
    }

    /// Between phases, frees versions that no reader needs, which otherwise happens in the background.
    pub fn rest(&self) {
        if let Data::Installs(installs) = &self.data {
            installs.sweep();
        }
    }
}

fn sum_of_blocks(view: &ReadView, table: &Table, blocks: Range<usize>) -> Result<u64> {
    blocks.into_iter().try_fold(0u64, |total, block| {
        let read = view.read(table, block, &[0])?;
        Ok(total.wrapping_add(sum(&read.columns[0].words()[..read.rows])))
    })
}

fn words_of(blocks: Range<usize>) -> Range<usize> {
    blocks.start * ROWS_PER_BLOCK..blocks.end * ROWS_PER_BLOCK
}
