//! One phase: two writers store as fast as they can, one reader takes images and scans them.

use super::competitor::{Competitor, ROWS_PER_COMMIT, RaceImage};
use crate::harness::{Harness, joined};
use ankerdb_engine::Result;
use ankerdb_measure::latency::Latencies;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Writes between two looks at whether the phase is over.
const WRITES_AT_ONCE: usize = ROWS_PER_COMMIT;
/// Blocks scanned between two looks at the clock: a MiB.
const BLOCKS_AT_ONCE: usize = 16;

/// When the reader takes a new image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RefreshPace {
    /// Before every scan of the column.
    EveryScan,
    /// So many times a second; a scan goes on in the newer image.
    PerSecond(u32),
}

/// The results of a phase.
#[derive(Clone, Default)]
pub(super) struct PhaseOutcome {
    /// Words written per second by all writers.
    pub writes_per_second: f64,
    /// Times to take an image.
    pub creation: Latencies,
    /// Images per second.
    pub images_per_second: f64,
    /// Bytes scanned per second of scanning.
    pub scanned_per_second: f64,
}

/// Runs writers and the reader for a while.
pub(super) fn run(
    harness: &Harness<'_>,
    competitor: &Competitor,
    pace: RefreshPace,
    time: Duration,
) -> Result<PhaseOutcome> {
    let stop = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let stop = &stop;
        let writers: Vec<_> = (0..harness.setup.oltp as u64)
            .map(|number| scope.spawn(move || write(competitor, seed_of(number), stop)))
            .collect();
        let reader = scope.spawn(move || read(competitor, pace, stop));
        let begun = Instant::now();
        harness.wait(time, &mut |passed| {
            harness.progress(passed.as_secs_f64() / time.as_secs_f64());
            let ended = reader.is_finished() || writers.iter().any(|writer| writer.is_finished());
            if ended { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        stop.store(true, Ordering::Relaxed);
        let elapsed = begun.elapsed().as_secs_f64();
        let mut outcome = joined(reader.join())?;
        for writer in writers {
            outcome.writes_per_second += joined(writer.join())?;
        }
        outcome.images_per_second = outcome.creation.count() as f64 / elapsed;
        Ok(outcome)
    });
    competitor.rest();
    outcome
}

fn seed_of(number: u64) -> u64 {
    0x9e37_79b9_7f4a_7c15u64.wrapping_mul(number + 1)
}

/// One writer: its writes per second.
fn write(competitor: &Competitor, seed: u64, stop: &AtomicBool) -> Result<f64> {
    let (mut write, mut random) = (competitor.writer(), fastrand::Rng::with_seed(seed));
    let (begun, mut written) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        write(&mut random, WRITES_AT_ONCE)?;
        written += WRITES_AT_ONCE;
    }
    Ok(written as f64 / begun.elapsed().as_secs_f64())
}

/// The reader.
fn read(competitor: &Competitor, pace: RefreshPace, stop: &AtomicBool) -> Result<PhaseOutcome> {
    let (mut outcome, mut scanned, mut scanning) = (PhaseOutcome::default(), 0, Duration::ZERO);
    let (blocks, mut block) = (competitor.blocks(), 0);
    let mut image: Option<RaceImage> = None;
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let is_due = match pace {
            RefreshPace::EveryScan => block == 0,
            RefreshPace::PerSecond(_) => Instant::now() >= due,
        };
        let piece = match (pace, blocks) {
            // A child reads the whole column.
            (RefreshPace::EveryScan, all) if competitor.reads_at_once() => 0..all,
            (_, all) => block..(block + BLOCKS_AT_ONCE).min(all),
        };
        if is_due || image.is_none() {
            let begun = Instant::now();
            let taken = competitor.take(&mut image, piece.clone())?;
            outcome.creation.record(begun.elapsed());
            // The former one goes now; that is not part of the creation.
            image = Some(taken);
            if let RefreshPace::PerSecond(rate) = pace {
                // Missed images are not made up for.
                due = (due + Duration::from_secs(1) / rate).max(begun);
            }
        }
        if let Some(image) = &mut image {
            let time = competitor.scan(image, piece.clone())?;
            if !time.is_zero() {
                scanning += time;
                scanned += piece.len();
            } else if let RefreshPace::PerSecond(_) = pace {
                // A child has read what it was made for; the next one is not due yet.
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        block = if piece.end >= blocks { 0 } else { piece.end };
    }
    let bytes = scanned * ankerdb_base::ROWS_PER_BLOCK * 8;
    outcome.scanned_per_second = bytes as f64 / scanning.as_secs_f64().max(1e-9);
    Ok(outcome)
}
