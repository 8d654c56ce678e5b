//! The flusher: one thread that writes what all workers have appended, and says what is durable.
//!
//! # A round
//! W is read first, then all buffers are taken, then they are written, as one chunk that says W, if they fit into one. If not, the
//! chunks before the last one say what was covered before: they hold some of the records up to W, not all.
//!
//! # When nothing has to be written
//! If no record at or below W is on disk without a chunk that covers it, then there is nothing to say: those who drew the
//! timestamps since have written nothing. W is durable at once. So a chunk without records is written only if it covers a record,
//! and each record has paid for one (`room`).

use crate::appender::{Appender, Shared};
use crate::failure::FileFailure;
use crate::format::{CHUNK_HEADER_BYTES, TIME_BYTES, record_at, record_bytes};
use crate::pace::Turn;
use crate::primitive::{ProofStep, weakened};
use crate::record::LogStart;
use crate::room::{COVER_COST, record_cost};
use crate::segments::Segments;
use ankerdb_base::Timestamp;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// How long the flusher leaves commits alone for which nobody waits.
const PAUSE: Duration = Duration::from_millis(10);
/// How many records of those for which somebody waits make a pause not worth it.
const RECORDS_OF_A_WAIT: u64 = 4;
/// How soon the flusher looks again whether the watermark has passed commits for which nobody waits; longer each time.
const COVER_SOON: Duration = Duration::from_micros(200);
const COVER_DOUBLINGS: u32 = 6;
/// How often the flusher looks for the end of a commit that has appended its record: some microseconds long.
const LOOKS_FOR_A_COMMIT: u32 = 200;

/// A chunk's time, and what fills it up to a multiple of 8.
const BEHIND_RECORDS: usize = TIME_BYTES + 8;

/// All appenders.
pub(crate) type Registry = Mutex<Vec<Arc<Appender>>>;

pub(crate) struct Flusher {
    pub(crate) shared: Arc<Shared>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) segments: Segments,
    pub(crate) watermark: Box<dyn Fn() -> Timestamp + Send>,
    /// Those of the present round.
    appenders: Vec<Arc<Appender>>,
    /// A chunk, with room for its header in front. Its capacity is that of the largest.
    chunk: Vec<u8>,
    /// What the last chunk says.
    covered: Timestamp,
    /// Timestamps of records that are on disk and above it.
    uncovered: Vec<Timestamp>,
    /// Whether the last attempt to make a segment ahead failed.
    is_refused: bool,
    /// Records since the last look at how many wait.
    records: u64,
    recent: Recent,
}

/// Records and waits of late: what is new counts sixteenfold, and a quarter of it is forgotten with each look.
#[derive(Default)]
struct Recent {
    records: u64,
    waits: u64,
}

impl Recent {
    /// Whether few wait for what is written.
    fn is_leisurely(&mut self, records: u64, waits: u64) -> bool {
        self.records = self.records - self.records / 4 + 16 * records;
        self.waits = self.waits - self.waits / 4 + 16 * waits;
        self.records > RECORDS_OF_A_WAIT * self.waits
    }
}

impl Flusher {
    /// Takes the memory for its chunk.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        registry: &Arc<Registry>,
        segments: Segments,
        watermark: Box<dyn Fn() -> Timestamp + Send>,
    ) -> Flusher {
        let longest = CHUNK_HEADER_BYTES + record_bytes(segments.record_bytes_max);
        let mut chunk = Vec::with_capacity(longest + BEHIND_RECORDS);
        chunk.resize(CHUNK_HEADER_BYTES, 0);
        Flusher {
            covered: shared.pace.durable(),
            shared: Arc::clone(shared),
            registry: Arc::clone(registry),
            segments,
            watermark,
            appenders: Vec::new(),
            chunk,
            uncovered: Vec::with_capacity(1024),
            is_refused: false,
            records: 0,
            recent: Recent::default(),
        }
    }

    /// Flushes until it is asked to stop, and then what is left.
    pub(crate) fn run(&mut self) -> Result<(), FileFailure> {
        let mut idle: u32 = 0;
        loop {
            let has_flushed = self.flush()?;
            let is_making = self.make_ahead()?;
            if (has_flushed || is_making) && !self.shared.pace.is_stopping() {
                idle = 0;
                let (records, waits) = (std::mem::take(&mut self.records), self.shared.pace.take_waits());
                if self.recent.is_leisurely(records, waits) && !is_making {
                    self.shared.pace.pause(PAUSE);
                }
                continue;
            }
            idle = idle.saturating_add(1);
            if idle > 1 {
                // Somebody waits for what the watermark has not passed, or it is time to look whether it has.
                std::thread::sleep(Duration::from_micros(50));
            }
            let soon = COVER_SOON * (1 << idle.min(COVER_DOUBLINGS));
            let longest = (!self.uncovered.is_empty()).then_some(soon);
            let (registry, room) = (&self.registry, &self.shared.room);
            let mut has_work =
                || registry.lock().iter().any(|appender| appender.has_records()) || room.is_wanted();
            match self.shared.pace.rest(longest, &mut has_work) {
                Turn::Flush => {}
                Turn::Stop => break,
            }
        }
        while self.flush()? {}
        Ok(())
    }

    /// Waits some microseconds for the watermark if it covers nothing new while records are there. An append wakes the flusher, and
    /// the commit finishes right after it: the record would be written without being covered, and need another flush.
    fn await_a_commit(&self) {
        let durable = self.shared.pace.durable();
        let has_records = || self.registry.lock().iter().any(|appender| appender.has_records());
        let mut looks = 0;
        while looks < LOOKS_FOR_A_COMMIT && (self.watermark)() <= durable && (looks > 0 || has_records()) {
            looks += 1;
            std::hint::spin_loop();
        }
    }

    /// A round. Returns whether anything was written or became durable.
    fn flush(&mut self) -> Result<bool, FileFailure> {
        self.await_a_commit();
        let mut watermark = (self.watermark)();
        self.note_appenders();
        let has_written = self.take_all()?;
        if weakened(ProofStep::WatermarkFirst) {
            watermark = (self.watermark)();
        }
        // Only a bug of the caller lets the watermark go back; what has been said stays.
        let watermark = watermark.max(self.shared.pace.durable());
        let is_left = self.chunk.len() > CHUNK_HEADER_BYTES;
        if is_left || self.uncovered.iter().any(|timestamp| *timestamp <= watermark) {
            self.write(watermark)?;
        }
        let is_news = watermark > self.shared.pace.durable();
        if is_news {
            self.shared.pace.announce(watermark);
        }
        Ok(has_written || is_left || is_news)
    }

    /// Those who may have appended anything. Forgets those that nobody has any more.
    fn note_appenders(&mut self) {
        self.appenders.clear();
        let mut registry = self.registry.lock();
        registry.retain(|appender| {
            let is_used = Arc::strong_count(appender) > 1 || appender.has_records();
            if !is_used {
                appender.retire();
            }
            is_used
        });
        self.appenders.extend(registry.iter().cloned());
    }

    /// Copies what has been appended into the chunk; full ones are written. Returns whether one was.
    fn take_all(&mut self) -> Result<bool, FileFailure> {
        let mut has_written = false;
        for number in 0..self.appenders.len() {
            let mut left = self.appenders[number].begin_taking();
            while left > 0 {
                let taken = match self.segments.payload_max() {
                    Some(payload) => {
                        let longest =
                            (CHUNK_HEADER_BYTES + payload).min(self.chunk.capacity() - BEHIND_RECORDS);
                        self.appenders[number].take(&mut self.chunk, longest, left)
                    }
                    None => 0,
                };
                left -= taken;
                if left == 0 {
                    break;
                }
                if self.chunk.len() > CHUNK_HEADER_BYTES {
                    self.write(self.covered)?;
                    has_written = true;
                } else {
                    self.switch()?;
                }
            }
        }
        self.appenders.clear();
        Ok(has_written)
    }

    /// Goes on in the next segment.
    fn switch(&mut self) -> Result<(), FileFailure> {
        self.segments.switch(self.covered, &self.shared.position)?;
        let Segments { present, chunks, incarnation, .. } = &self.segments;
        let timestamp = Timestamp::ZERO;
        let start =
            LogStart { segment: present.number, chunks: *chunks, incarnation: *incarnation, timestamp };
        self.shared.position.enter(start);
        Ok(())
    }

    /// Writes the chunk at hand, which may be empty.
    fn write(&mut self, covered: Timestamp) -> Result<(), FileFailure> {
        if self.segments.payload_max().is_none() {
            self.switch()?;
        }
        let (records, mut cost) = self.note_records();
        self.records += u64::from(records);
        self.segments.write(&mut self.chunk, covered, records)?;
        self.shared.position.count(self.chunk.len() as u64, self.segments.chunks);
        self.chunk.truncate(CHUNK_HEADER_BYTES);
        self.covered = covered;
        let before = self.uncovered.len();
        self.uncovered.retain(|timestamp| *timestamp > covered);
        cost += COVER_COST * (before - self.uncovered.len()) as u64;
        self.shared.room.written(cost, self.segments.capacity());
        Ok(())
    }

    /// Counts the records of the chunk and what of their cost is over; notes their timestamps.
    fn note_records(&mut self) -> (u32, u64) {
        let payload = &self.chunk[CHUNK_HEADER_BYTES..];
        let (mut at, mut records, mut cost) = (0, 0, 0);
        while let Some(record) = record_at(payload, at) {
            at = record.payload.end;
            records += 1;
            cost += record_cost(record.payload.len());
            if record.timestamp > Timestamp::ZERO {
                cost -= COVER_COST;
                self.uncovered.push(record.timestamp);
            }
        }
        (records, cost)
    }

    /// Makes a piece of the next segment, if there is none or somebody needs one more. Returns whether there is more to do.
    fn make_ahead(&mut self) -> Result<bool, FileFailure> {
        let is_wanted = self.shared.room.is_wanted();
        let is_due = self.segments.ready.is_empty() && !self.is_refused;
        if !is_wanted && !is_due && self.segments.making.is_none() {
            return Ok(false);
        }
        match self.segments.make_step(&self.shared.position) {
            Ok(false) => Ok(true),
            Ok(true) => {
                self.is_refused = false;
                self.shared.room.grown(self.segments.capacity());
                Ok(self.segments.ready.is_empty())
            }
            Err(failure) if failure.is_full() => {
                self.is_refused = true;
                self.shared.room.refuse(failure.into_error());
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Recent;

    #[test]
    fn the_flusher_is_leisurely_where_few_wait() {
        let mut recent = Recent::default();
        assert!(!recent.is_leisurely(0, 0));
        assert!(recent.is_leisurely(1, 0));
        // Each session waits; a round that only covers has no records.
        for round in 0..20 {
            let is_leisurely = recent.is_leisurely(round % 2, round % 2);
            assert!(round < 4 || !is_leisurely, "round {round}");
        }
        for round in 0..20 {
            let is_leisurely = recent.is_leisurely(32, 1);
            assert!(round < 4 || is_leisurely, "round {round}");
        }
    }
}
