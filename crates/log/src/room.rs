//! Room in the segments: nobody draws a timestamp for whose record there is none.
//!
//! Room is given for the worst case, so that what was given is always there: a record may need a chunk of its own, another chunk
//! that says a W which covers it, and at the end of each segment less than the longest record is left over ([`usable`]). Workers
//! take more than they need at once (`appender`), so this lock is taken once in many commits.
//!
//! If there is too little, the flusher is asked for another segment. While the disk is full those who ask are refused; the next
//! attempt is made for one who asks a while later.

use crate::format::{CHUNK_HEADER_BYTES, SEGMENT_HEADER_BYTES, TIME_BYTES, chunk_bytes, record_bytes};
use ankerdb_base::{Error, Result, SqlState};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long after a failed attempt to get room the next one is made.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// How often a waiter asks its interrupt.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What a record with so much payload may need.
pub(crate) fn record_cost(payload: usize) -> u64 {
    chunk_bytes(record_bytes(payload) + TIME_BYTES) + COVER_COST
}

/// The part of it that is for a chunk without records, which says that the record's commit is covered.
pub(crate) const COVER_COST: u64 = (CHUNK_HEADER_BYTES + TIME_BYTES) as u64;

/// What can be given of a segment with so many bytes left, with records of so much payload at most.
pub(crate) fn usable(left: u64, record_bytes_max: usize) -> u64 {
    left.saturating_sub(record_cost(record_bytes_max))
}

/// Bytes of a new segment in which chunks may lie; the mark of its end has its place.
pub(crate) fn empty_segment(bytes: u64) -> u64 {
    bytes.saturating_sub((SEGMENT_HEADER_BYTES + CHUNK_HEADER_BYTES) as u64)
}

/// See the module.
#[derive(Default)]
pub(crate) struct Room {
    state: Mutex<State>,
    changed: Condvar,
    is_closed: AtomicBool,
}

#[derive(Default)]
struct State {
    /// What can be given of all segments that are there.
    capacity: u64,
    /// What is given and not yet written.
    given: u64,
    /// Somebody has too little.
    is_wanted: bool,
    /// Attempts to make a segment that have ended.
    attempts: u64,
    refused: Option<(Instant, Error)>,
}

impl State {
    fn give(&mut self, bytes: u64) -> bool {
        let fits = self.given + bytes <= self.capacity;
        self.given += if fits { bytes } else { 0 };
        fits
    }
}

impl Room {
    /// Gives `wanted` bytes, or `least` if there are no more; returns how many. `nudge` wakes the flusher.
    pub(crate) fn take(
        &self,
        least: u64,
        wanted: u64,
        nudge: &dyn Fn(),
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<u64> {
        let mut state = self.state.lock();
        loop {
            if self.is_closed() {
                return Err(closed());
            }
            if let Some(bytes) = [wanted, least].into_iter().find(|bytes| state.give(*bytes)) {
                return Ok(bytes);
            }
            if let Some((at, error)) = &state.refused
                && at.elapsed() < RETRY_AFTER
            {
                return Err(error.clone());
            }
            state.is_wanted = true;
            let attempts = state.attempts;
            drop(state);
            nudge();
            interrupt()?;
            state = self.state.lock();
            let is_over = |state: &State| {
                self.is_closed() || state.attempts != attempts || state.given + least <= state.capacity
            };
            if !is_over(&state) {
                self.changed.wait_for(&mut state, LOOK_EVERY);
            }
        }
    }

    /// What was given is not needed, or has been written.
    pub(crate) fn give_back(&self, bytes: u64) {
        if bytes > 0 {
            let mut state = self.state.lock();
            state.given = state.given.saturating_sub(bytes);
            if state.is_wanted {
                self.changed.notify_all();
            }
        }
    }

    /// What was given has been written, and so much can be given of the segments now.
    pub(crate) fn written(&self, bytes: u64, capacity: u64) {
        let mut state = self.state.lock();
        state.given = state.given.saturating_sub(bytes);
        state.capacity = capacity;
        if state.is_wanted {
            self.changed.notify_all();
        }
    }

    /// There is another segment.
    pub(crate) fn grown(&self, capacity: u64) {
        let mut state = self.state.lock();
        state.capacity = capacity;
        state.is_wanted = false;
        state.refused = None;
        state.attempts += 1;
        self.changed.notify_all();
    }

    /// There is no other segment, for this reason.
    pub(crate) fn refuse(&self, error: Error) {
        let mut state = self.state.lock();
        state.is_wanted = false;
        state.refused = Some((Instant::now(), error));
        state.attempts += 1;
        self.changed.notify_all();
    }

    /// Whether somebody waits for a segment.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state.lock().is_wanted
    }

    /// Whether nothing is written any more.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    pub(crate) fn close(&self) {
        let _state = self.state.lock();
        self.is_closed.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }
}

/// The log is closed, or its disk has failed.
pub(crate) fn closed() -> Error {
    Error::new(SqlState::IoError, "the log is closed")
}
