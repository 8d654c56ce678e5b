//! Figure 4: one column, every page written once, a new snapshot after each write.
//!
//! Only the newest snapshot is kept. In a reduced run, a snapshot is taken after a number of writes instead of each;
//! every write still is the first one to a page that the newest snapshot shares, so mappings and the cost of writing
//! are the same.

use crate::finding::{Findings, Panel, Series};
use crate::harness::{Harness, unless_stopped};
use crate::rows::{LoadedTable, row_at};
use crate::technique::{Memory, OURS, WORDS_PER_PAGE, shuffled_pages, time_of_fork};
use ankerdb_engine::{Cell, Isolation, Result, SqlState, Technique};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Snapshots in a run that takes only some of them.
const SNAPSHOTS: usize = 64;

/// One line of each diagram.
#[derive(Default)]
struct Line {
    creation_ms: Vec<(f64, f64)>,
    refresh_ms: Vec<(f64, f64)>,
    mappings: Vec<(f64, f64)>,
    write_us: Vec<(f64, f64)>,
}

struct Panels {
    creation: Panel,
    mappings: Panel,
    writing: Panel,
}

impl Panels {
    fn add(&mut self, name: &str, line: Line) {
        let add = |panel: &mut Panel, name: &str, points: Vec<(f64, f64)>| {
            if !points.is_empty() {
                panel.series.push(Series::measured(name, points));
            }
        };
        add(&mut self.creation, name, line.creation_ms);
        add(&mut self.creation, &format!("{name}, refreshed"), line.refresh_ms);
        add(&mut self.mappings, name, line.mappings);
        add(&mut self.writing, name, line.write_us);
    }
}

/// Runs it.
///
/// # Errors
/// 57014 if the user stops it before there is something to report; the database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let panel = |title, unit| Panel::lines(title, "pages written", unit);
    let mut panels = Panels {
        creation: panel("(a) snapshot creation", "ms"),
        mappings: panel("(a) mappings of the column", "mappings"),
        writing: panel("(b) cost of a write to a page that the snapshot shares", "us"),
    };
    let mut notes = Vec::new();
    harness.expect(harness.setup.techniques.len() + 1);
    for &technique in &harness.setup.techniques {
        if harness.is_stopped() {
            break;
        }
        let mut line = Line::default();
        match harness.measure(technique.name(), || measure(harness, technique, &mut line)) {
            Err(error) if error.state() == SqlState::OutOfMemory => {
                notes.push(format!("{}: its line ends with: {error}", technique.name()));
            }
            outcome => outcome?,
        }
        note(&mut notes, technique.name(), &line);
        panels.add(technique.name(), line);
    }
    if !harness.is_stopped()
        && let Some(rows) = unless_stopped(LoadedTable::load(harness, 1, harness.setup.megabytes))?
    {
        let line = harness.measure(OURS, || measure_ours(harness, &rows))?;
        note(&mut notes, OURS, &line);
        panels.add(OURS, line);
    }
    let Panels { creation, mappings, writing } = panels;
    let panels = [creation, mappings, writing].into_iter().filter(|panel| !panel.series.is_empty());
    Ok(Findings { panels: panels.collect(), notes })
}

fn note(notes: &mut Vec<String>, name: &str, line: &Line) {
    if let (Some((_, first)), Some((writes, last))) = (line.creation_ms.first(), line.creation_ms.last()) {
        notes.push(format!(
            "{name}: creation {first:.4} ms at the first point, {last:.4} ms after {writes} writes"
        ));
    }
}

/// The pages in the order in which they are written, in pieces after each of which a snapshot is taken.
fn pieces(harness: &Harness<'_>) -> Vec<Vec<usize>> {
    let pages = shuffled_pages(harness.setup.megabytes, harness.setup.seed);
    let piece = if harness.setup.full { 1 } else { pages.len().div_ceil(SNAPSHOTS) };
    pages.chunks(piece).map(<[usize]>::to_vec).collect()
}

/// Refreshing in place is a run of its own: it would change what the next write costs.
fn measure(harness: &Harness<'_>, technique: Technique, line: &mut Line) -> Result<()> {
    let ways: &[bool] = if technique == Technique::Fork { &[false] } else { &[false, true] };
    for &refreshes in ways {
        let memory = Memory::new(technique, 1, harness.setup.megabytes)?;
        if technique == Technique::Fork {
            fork_line(harness, &memory, line)?;
        } else {
            memory_line(harness, &memory, refreshes, line)?;
        }
    }
    Ok(())
}

fn memory_line(harness: &Harness<'_>, memory: &Memory, refreshes: bool, line: &mut Line) -> Result<()> {
    let pieces = pieces(harness);
    let words = memory.words(0);
    let (mut newest, mut writes) = (memory.snapshot(1)?, 0);
    for (number, pages) in pieces.iter().enumerate() {
        let begun = Instant::now();
        pages.iter().for_each(|page| words[page * WORDS_PER_PAGE].store(1, Relaxed));
        let write_us = begun.elapsed().as_secs_f64() * 1e6 / pages.len() as f64;
        writes += pages.len();
        if refreshes {
            let begun = Instant::now();
            newest = memory.refresh(newest)?;
            line.refresh_ms.push((writes as f64, begun.elapsed().as_secs_f64() * 1e3));
        } else {
            line.write_us.push((writes as f64, write_us));
            if number % pieces.len().div_ceil(SNAPSHOTS) == 0 || number + 1 == pieces.len() {
                line.mappings.push((writes as f64, memory.mappings(0) as f64));
            }
            let begun = Instant::now();
            let snapshot = memory.snapshot(1)?;
            line.creation_ms.push((writes as f64, begun.elapsed().as_secs_f64() * 1e3));
            newest = snapshot;
        }
        harness.progress(0.5 * (f64::from(u8::from(refreshes)) + number as f64 / pieces.len() as f64));
        if harness.is_stopped() {
            break;
        }
    }
    drop(newest);
    Ok(())
}

/// A child that has ended shares nothing any more, so the write cost of this technique is measured in `snapshot-race`.
fn fork_line(harness: &Harness<'_>, memory: &Memory, line: &mut Line) -> Result<()> {
    let mut writes = 0;
    for pages in pieces(harness) {
        memory.write_pages(0, &pages);
        writes += pages.len();
        line.creation_ms.push((writes as f64, time_of_fork()?.as_secs_f64() * 1e3));
        line.mappings.push((writes as f64, memory.mappings(0) as f64));
        if harness.is_stopped() {
            break;
        }
    }
    Ok(())
}

/// One row of a page is changed in a transaction of its own. The snapshot's arrays are lent to a reader before, so that
/// the first write to a block copies them.
fn measure_ours(harness: &Harness<'_>, rows: &LoadedTable) -> Result<Line> {
    let (mut line, pieces) = (Line::default(), pieces(harness));
    let (mut session, mut writes) = (rows.database.session(), 0);
    let mut newest = rows.database.snapshot();
    for (number, pages) in pieces.iter().enumerate() {
        rows.lend(&newest.read_view(), 1)?;
        let begun = Instant::now();
        for page in pages {
            let row = row_at(page * WORDS_PER_PAGE);
            session.run(Isolation::Serializable, |transaction| {
                transaction.update_cells(&rows.table, row, &[(0, Cell::Word(1))])
            })?;
        }
        line.write_us
            .push(((writes + pages.len()) as f64, begun.elapsed().as_secs_f64() * 1e6 / pages.len() as f64));
        writes += pages.len();
        let begun = Instant::now();
        let snapshot = rows.database.snapshot();
        line.creation_ms.push((writes as f64, begun.elapsed().as_secs_f64() * 1e3));
        newest = snapshot;
        harness.progress(number as f64 / pieces.len() as f64);
        if harness.is_stopped() {
            break;
        }
    }
    Ok(line)
}
