//! `snapshot-race`: two writers and one reader over one column, by every technique, beside unprotected memory.
//!
//! Each competitor runs in rounds, and every round begins with the same writers and the same scan over plain memory:
//! *writers kept* is the writers' speed in relation to that. Then a snapshot is taken before every scan, then a
//! thousand times a second.
//!
//! It also measures what the first write to a page costs after a snapshot, and how fast a snapshot is scanned after a
//! part of it has changed.

pub mod competitor;
mod phase;
mod standing;

use crate::finding::{Findings, Panel, Series};
use crate::harness::{Harness, unless_stopped};
use crate::setup::PaperSetup;
use crate::technique::{OURS, WORDS_PER_PAGE};
use ankerdb_base::ROWS_PER_BLOCK;
use ankerdb_engine::{Result, SqlState};
use ankerdb_measure::latency::median;
use competitor::{Competitor, CompetitorKind, RaceImage};
use phase::{PhaseOutcome, RefreshPace};
use std::time::{Duration, Instant};

/// Two writers, one reader.
pub const SETUP: PaperSetup = PaperSetup {
    oltp: 2,
    olap: 1,
    seconds: 15,
    quick_seconds: 2,
    lead: Duration::ZERO,
    interval: Duration::ZERO,
    threads_vary: false,
};
/// Rounds of each competitor.
const ROUNDS: usize = 3;
/// Snapshots per second at the faster pace.
const RATE: u32 = 1000;
/// First writes that are timed.
const FIRST_WRITES: usize = 1000;
/// Rows changed in percent.
const CHANGED: [usize; 6] = [0, 1, 5, 10, 50, 100];

/// Every number that is shown of a competitor: of the paces, then the single ones.
#[derive(Default)]
struct Score {
    name: String,
    is_ours: bool,
    is_control: bool,
    /// By pace: microseconds, median and 99th percentile.
    creation_us: [[f64; 2]; 2],
    kept: [f64; 2],
    /// Millions of words per second, by pace.
    writes: [f64; 2],
    scan_gb: [f64; 2],
    rate: f64,
    /// Microseconds of the first write and of the second one.
    write_us: [f64; 2],
}

/// Runs it.
///
/// # Errors
/// 57014 if the user stops it before there is something to report; the database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let kinds = CompetitorKind::all(&harness.setup.techniques);
    harness.expect(2 * kinds.len());
    let mut notes = Vec::new();
    let mut changed = Panel::lines("Scan of a snapshot after rows have changed", "changed rows, %", "GB/s");
    let mut scores = Vec::new();
    for kind in kinds {
        if harness.is_stopped() {
            break;
        }
        match unless_stopped(contest(harness, kind, &mut changed)) {
            Ok(Some(score)) => scores.push(score),
            Ok(None) => break,
            Err(error) if error.state() == SqlState::OutOfMemory => {
                notes.push(format!("{}: left out, it ended with: {error}", kind.name()));
            }
            Err(error) => return Err(error),
        }
    }
    notes.extend(standing::of(&scores));
    let mut panels = panels(&scores);
    panels.push(changed);
    Ok(Findings { panels: panels.into_iter().filter(|panel| !panel.series.is_empty()).collect(), notes })
}

fn panels(scores: &[Score]) -> Vec<Panel> {
    let paces = ["one per scan", "1000/s"];
    let both = ["one per scan, median", "99%", "1000/s, median", "99%"];
    let mut creation = Panel::bars("Snapshot creation", "technique", "us", &both);
    let mut kept = Panel::bars("Writers kept, of unprotected memory", "technique", "x", &paces);
    let mut writes = Panel::bars("Words written", "technique", "million/s", &paces);
    let mut scan = Panel::bars("Scan", "technique", "GB/s", &paces);
    let mut rate = Panel::bars("Snapshots taken of 1000/s", "technique", "1/s", &["snapshots"]);
    let names = ["first write to a page", "next write to it"];
    let mut write = Panel::bars("Write after a snapshot (ours: to a block)", "technique", "us", &names);
    for score in scores {
        let [[a, b], [c, d]] = score.creation_us.map(|pair| pair.map(Some));
        if !score.is_control {
            creation.add(&score.name, &[a, b, c, d]);
            rate.add(&score.name, &[Some(score.rate)]);
        }
        kept.add(&score.name, &score.kept.map(Some));
        writes.add(&score.name, &score.writes.map(Some));
        scan.add(&score.name, &score.scan_gb.map(Some));
        write.add(&score.name, &score.write_us.map(Some));
    }
    vec![creation, kept, writes, scan, rate, write]
}

/// Everything about one competitor.
fn contest(harness: &Harness<'_>, kind: CompetitorKind, changed: &mut Panel) -> Result<Score> {
    let control = Competitor::new(harness, CompetitorKind::Unprotected)?;
    let competitor = Competitor::new(harness, kind)?;
    let mut score = harness.measure(&kind.name(), || rounds(harness, &control, &competitor))?;
    let label = format!("{}: first writes, changed rows", kind.name());
    harness.measure(&label, || {
        score.write_us = first_writes(harness, &competitor)?;
        for is_read in if kind.is_ours() { &[false, true][..] } else { &[false] } {
            // Whole transactions change rows as installs do, only slower.
            if !matches!(kind, CompetitorKind::Transactions(_)) && !competitor.reads_at_once() {
                let name = match (kind.is_ours(), is_read) {
                    (true, true) => format!("{OURS}, read before"),
                    (true, false) => OURS.to_owned(),
                    _ => kind.name(),
                };
                changed
                    .series
                    .push(Series::measured(name, scans_of_changed(harness, &competitor, *is_read)?));
            }
        }
        Ok(())
    })?;
    Ok(score)
}

/// The rounds: medians over them.
fn rounds(harness: &Harness<'_>, control: &Competitor, competitor: &Competitor) -> Result<Score> {
    let time = harness.setup.time / ROUNDS as u32;
    let (mut kept, mut scan, mut rates) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()], Vec::new());
    let mut writes = [Vec::new(), Vec::new()];
    let mut outcomes = [PhaseOutcome::default(), PhaseOutcome::default()];
    for _ in 0..ROUNDS {
        let plain = phase::run(harness, control, RefreshPace::EveryScan, time)?;
        for (at, pace) in [RefreshPace::EveryScan, RefreshPace::PerSecond(RATE)].into_iter().enumerate() {
            let outcome = phase::run(harness, competitor, pace, time)?;
            kept[at].push(outcome.writes_per_second / plain.writes_per_second.max(1.0));
            writes[at].push(outcome.writes_per_second / 1e6);
            scan[at].push(outcome.scanned_per_second / 1e9);
            outcomes[at].creation.add(&outcome.creation);
            if at == 1 {
                rates.push(outcome.images_per_second);
            }
        }
        if harness.is_stopped() {
            break;
        }
    }
    let middle = |values: &mut Vec<f64>| median(values).unwrap_or_default();
    Ok(Score {
        name: competitor.kind.name(),
        is_ours: competitor.kind.is_ours(),
        is_control: competitor.kind == CompetitorKind::Unprotected,
        creation_us: outcomes.map(|outcome| [0.5, 0.99].map(|share| outcome.creation.quantile_us(share))),
        kept: kept.map(|mut values| middle(&mut values)),
        writes: writes.map(|mut values| middle(&mut values)),
        scan_gb: scan.map(|mut values| middle(&mut values)),
        rate: middle(&mut rates),
        write_us: [0.0; 2],
    })
}

/// Microseconds of a write to a page (of ours: to a block) that an image shares, and of the next one to it.
fn first_writes(harness: &Harness<'_>, competitor: &Competitor) -> Result<[f64; 2]> {
    let words = if competitor.kind.is_ours() { ROWS_PER_BLOCK } else { WORDS_PER_PAGE };
    let mut places: Vec<usize> = (0..competitor.rows()).step_by(words).collect();
    fastrand::Rng::with_seed(harness.setup.seed).shuffle(&mut places);
    places.truncate(FIRST_WRITES);
    let mut write = competitor.write_places();
    // The cells are touched before, so that caches do not decide.
    write(&places)?;
    let all = 0..competitor.blocks();
    let mut image = competitor.take(&mut None, all.clone())?;
    // A child keeps its pages while it reads.
    if !matches!(image, RaceImage::Child(_)) {
        competitor.scan(&mut image, all)?;
    }
    let mut times = [0.0; 2];
    for time in &mut times {
        let begun = Instant::now();
        write(&places)?;
        *time = begun.elapsed().as_secs_f64() * 1e6 / places.len() as f64;
    }
    if let RaceImage::Child(_) = image {
        competitor.scan(&mut image, 0..1)?;
    }
    Ok(times)
}

/// GB/s of scanning images of which a share of the rows has changed, by the share.
fn scans_of_changed(
    harness: &Harness<'_>,
    competitor: &Competitor,
    is_read: bool,
) -> Result<Vec<(f64, f64)>> {
    let mut order: Vec<usize> = (0..competitor.rows()).collect();
    fastrand::Rng::with_seed(harness.setup.seed).shuffle(&mut order);
    let mut write = competitor.write_places();
    let mut points = Vec::new();
    for (step, percent) in CHANGED.into_iter().enumerate() {
        harness.progress(step as f64 / CHANGED.len() as f64);
        if harness.is_stopped() {
            break;
        }
        let all = 0..competitor.blocks();
        let mut image = competitor.take(&mut None, all.clone())?;
        if is_read {
            competitor.scan(&mut image, all.clone())?;
        }
        for places in order[..order.len() * percent / 100].chunks(4096) {
            write(places)?;
            if harness.is_stopped() {
                return Ok(points);
            }
        }
        let time = competitor.scan(&mut image, all)?;
        points.push((percent as f64, competitor.rows() as f64 * 8.0 / time.as_secs_f64() / 1e9));
        drop(image);
        competitor.rest();
    }
    Ok(points)
}
