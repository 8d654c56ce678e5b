//! Table 1: creating a snapshot of 1, 25 and 50 columns.
//!
//! Writing to a page of rewired memory costs a mapping only while a snapshot shares the page. So a snapshot of all
//! those columns is taken first, then their pages are modified, each by one write, then that snapshot is dropped and others are
//! taken, again and again. *Refreshed* starts from a snapshot taken before the pages were modified, and brings it up to date in place.

use crate::finding::{Findings, Panel, Series};
use crate::harness::{Harness, unless_stopped};
use crate::rows::LoadedTable;
use crate::technique::{Memory, OURS, WORDS_PER_PAGE, median_of_runs, shuffled_pages, time_of_fork};
use ankerdb_engine::{Error, Result, SqlState, Technique};
use std::ops::Range;
use std::time::Instant;

/// Columns of the table.
pub const COLUMNS: usize = 50;
/// Columns of a snapshot.
const SNAPSHOTTED: [usize; 3] = [1, 25, COLUMNS];
/// Pages modified in a column.
const MODIFIED: [usize; 4] = [0, 500, 5000, 50_000];
/// Pages of a column in the paper.
const PAPER_PAGES: usize = 51_200;

/// The table's rows in milliseconds, by [`SNAPSHOTTED`].
const PAPER: [(&str, [f64; 3]); 6] = [
    ("physical", [108.09, 2693.69, 5382.87]),
    ("fork", [108.28, 108.28, 108.28]),
    ("rewiring, 0 pages", [0.02, 0.39, 7.72]),
    ("rewiring, 500 pages", [1.22, 30.90, 61.87]),
    ("rewiring, 5000 pages", [14.17, 352.15, 712.96]),
    ("rewiring, 50000 pages", [169.28, 4210.17, 8459.67]),
];

/// The measurement and its results.
struct Table<'a> {
    harness: &'a Harness<'a>,
    creation: Panel,
    refresh: Panel,
    lending: Panel,
    notes: Vec<String>,
}

/// Runs it.
///
/// # Errors
/// 57014 if the user stops it before there is something to report; the database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let names = ["1", "25", "50"];
    let panel = |title, unit| Panel::bars(title, "columns", unit, &names);
    let mut table = Table {
        harness,
        creation: panel("Snapshot creation", "ms"),
        refresh: panel("An older snapshot refreshed in place", "ms"),
        lending: panel("ankerdb: a snapshot, and lending all blocks of the columns to a reader", "ms"),
        notes: Vec::new(),
    };
    let pages = MODIFIED.map(|pages| scaled(pages, harness.setup.megabytes << 8));
    table.notes.push(format!(
        "of the {} pages of a column as large a share is modified as in the paper: {pages:?} for its {MODIFIED:?}",
        harness.setup.megabytes << 8
    ));
    let of_technique = |technique: &Technique| if has_pages(*technique) { MODIFIED.len() } else { 1 };
    harness.expect(harness.setup.techniques.iter().map(of_technique).sum::<usize>() + MODIFIED.len());
    for &technique in &harness.setup.techniques {
        table.technique(technique)?;
    }
    table.ours()?;
    for (name, times) in PAPER {
        let points = times.into_iter().enumerate().map(|(place, time)| (place as f64, time));
        table.creation.series.push(Series::paper(name, points.collect()));
    }
    let Table { creation, refresh, lending, notes, .. } = table;
    let panels = [creation, refresh, lending].into_iter().filter(|panel| !panel.series.is_empty()).collect();
    Ok(Findings { panels, notes })
}

/// Whether a snapshot, or refreshing one, may depend on the number of pages that were modified.
fn has_pages(technique: Technique) -> bool {
    !matches!(technique, Technique::Physical | Technique::Fork)
}

/// The pages to modify: as large a share of a column's pages as in the paper.
fn scaled(pages: usize, of: usize) -> usize {
    match pages {
        0 => 0,
        pages => (pages * of / PAPER_PAGES).max(1),
    }
}

impl Table<'_> {
    /// All rows of a technique. Where nothing depends on the number of modified pages, most pages are modified.
    fn technique(&mut self, technique: Technique) -> Result<()> {
        let modified = if has_pages(technique) { &MODIFIED[..] } else { &MODIFIED[3..] };
        for &pages in modified {
            if self.harness.is_stopped() {
                return Ok(());
            }
            let name = match technique {
                Technique::Physical | Technique::Fork => technique.name().to_owned(),
                _ => format!("{}, {pages} pages", technique.name()),
            };
            let label = format!("{name}, {COLUMNS} columns");
            let harness = self.harness;
            match harness.measure(&label, || self.measure(technique, pages, &name)) {
                // Out of memory or mappings: the others can be measured all the same.
                Err(error) if error.state() == SqlState::OutOfMemory => self.note(&name, &error),
                outcome => outcome?,
            }
        }
        Ok(())
    }

    fn note(&mut self, name: &str, error: &Error) {
        self.notes.push(format!("{name}: left out what ended with: {error}"));
    }

    fn measure(&mut self, technique: Technique, pages: usize, name: &str) -> Result<()> {
        let (harness, setup) = (self.harness, &self.harness.setup);
        let memory = Memory::new(technique, COLUMNS, setup.megabytes)?;
        let order = shuffled_pages(setup.megabytes, setup.seed);
        let order = &order[..scaled(pages, order.len())];
        let time = setup.time.div_f64(10.0);
        if technique == Technique::Fork {
            let fork = median_of_runs(harness, time, || Ok(time_of_fork()?.as_secs_f64() * 1e3))?;
            self.creation.add(name, &[Some(fork); 3]);
            return Ok(());
        }
        let modify = |columns: Range<usize>| columns.for_each(|column| memory.write_pages(column, order));
        let (mut created, mut refreshed, mut failed) = ([None; 3], [None; 3], None);
        let mut modified = 0;
        for (at, columns) in SNAPSHOTTED.into_iter().enumerate() {
            harness.progress(at as f64 / SNAPSHOTTED.len() as f64);
            let before = memory.snapshot(columns)?;
            modify(modified..columns);
            modified = columns;
            drop(before);
            if at == 0 && has_pages(technique) {
                self.notes.push(format!("{name}: {} mappings in the first column", memory.mappings(0)));
            }
            let creation = median_of_runs(harness, time, || {
                let begun = Instant::now();
                memory.snapshot(columns).map(|_snapshot| begun.elapsed().as_secs_f64() * 1e3)
            });
            let mut old = None;
            let refresh = median_of_runs(harness, time, || {
                let stale = old.take().map_or_else(|| memory.snapshot(columns), Ok)?;
                modify(0..columns);
                let begun = Instant::now();
                old = Some(memory.refresh(stale)?);
                Ok(begun.elapsed().as_secs_f64() * 1e3)
            });
            for (value, outcome) in [(&mut created[at], creation), (&mut refreshed[at], refresh)] {
                match outcome {
                    Ok(time) => *value = Some(time),
                    Err(error) if error.state() == SqlState::OutOfMemory => failed = Some(error),
                    Err(error) => return Err(error),
                }
            }
        }
        self.creation.add(name, &created);
        self.refresh.add(name, &refreshed);
        if memory.compactions() > 0 {
            let note = "columns copied to be of one piece again, as the process may have no more mappings";
            self.notes
                .push(format!("{name}: {} times {note}: what came after was cheaper", memory.compactions()));
        }
        if let Some(error) = failed {
            self.note(name, &error);
        }
        Ok(())
    }

    /// Ours: one database, more and more rows changed.
    fn ours(&mut self) -> Result<()> {
        let harness = self.harness;
        if harness.is_stopped() {
            return Ok(());
        }
        let Some(rows) = unless_stopped(LoadedTable::load(harness, COLUMNS, harness.setup.megabytes))? else {
            return Ok(());
        };
        let order = shuffled_pages(harness.setup.megabytes, harness.setup.seed);
        let (mut session, mut changed) = (rows.database.session(), 0);
        for pages in MODIFIED {
            if harness.is_stopped() {
                break;
            }
            let end = scaled(pages, order.len());
            let places: Vec<usize> = order[changed..end].iter().map(|page| page * WORDS_PER_PAGE).collect();
            changed = end;
            let name = format!("{OURS}, {pages} rows");
            harness.measure(&name, || {
                rows.update(&mut session, &places, 7)?;
                self.measure_ours(&rows, &name)
            })?;
        }
        Ok(())
    }

    fn measure_ours(&mut self, rows: &LoadedTable, name: &str) -> Result<()> {
        let (harness, time) = (self.harness, self.harness.setup.time.div_f64(10.0));
        let creation = median_of_runs(harness, time, || Ok(creation_ns(rows) / 1e6))?;
        self.creation.add(name, &[Some(creation); 3]);
        let (mut lending, mut counts) = ([None; 3], (0, 0));
        for (at, columns) in SNAPSHOTTED.into_iter().enumerate() {
            lending[at] = Some(median_of_runs(harness, time, || {
                let begun = Instant::now();
                let view = rows.database.snapshot().read_view();
                counts = rows.lend(&view, columns)?;
                Ok(begun.elapsed().as_secs_f64() * 1e3)
            })?);
        }
        self.lending.add(name, &lending);
        self.notes
            .push(format!("{name}: of all arrays {} lent, {} copied for the reader", counts.0, counts.1));
        Ok(())
    }
}

/// Nanoseconds to take a snapshot, of a thousand taken and dropped one after the other.
fn creation_ns(rows: &LoadedTable) -> f64 {
    const TIMES: u32 = 1000;
    let begun = Instant::now();
    let mut spent = begun.elapsed();
    for _ in 0..TIMES {
        let begun = Instant::now();
        let snapshot = rows.database.snapshot();
        spent += begun.elapsed();
        drop(snapshot);
    }
    spent.as_secs_f64() * 1e9 / f64::from(TIMES)
}
