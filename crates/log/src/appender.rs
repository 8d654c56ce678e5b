//! A worker's buffer: how a record is left for the flusher without waiting for anybody.
//!
//! Everything that can fail is done by [`Appender::reserve`]: memory for the record, which is capacity of the buffer, and room on the
//! disk. [`Appender::append`] copies bytes into capacity that is there, under a lock that only the flusher takes besides, to copy
//! them out.
//!
//! # Invariant
//! *Capacity:* the buffer's capacity beyond its length is at least the sum of what is reserved. A reservation raises the capacity;
//! an append moves from one side to the other; the flusher empties the buffer and keeps its memory, unless nothing is reserved.

use crate::format::{push_record, record_at, record_bytes};
use crate::pace::Pace;
use crate::position::Position;
use crate::room::{Room, closed, record_cost};
use ankerdb_base::{Error, Result, SqlState, Timestamp, failpoint};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Where [`Appender::append_ahead`] begins to wait for the flusher.
const AHEAD_BYTES_MAX: usize = 8 << 20;
/// Memory that an empty buffer keeps.
const KEPT_BYTES: usize = 1 << 20;
/// Room that is taken at once, in small segments less.
const ROOM_BYTES: u64 = 64 << 10;

/// What appenders and the flusher share.
pub(crate) struct Shared {
    pub(crate) pace: Pace,
    pub(crate) room: Room,
    pub(crate) position: Position,
    pub(crate) record_bytes_max: usize,
    pub(crate) segment_bytes: u64,
}

/// Where one worker leaves its records.
pub struct Appender {
    shared: Arc<Shared>,
    buffer: Mutex<Buffer>,
}

#[derive(Default)]
struct Buffer {
    /// Records one after the other; those before `taken` have been taken.
    bytes: Vec<u8>,
    taken: usize,
    /// Bytes of records that are reserved.
    reserved: usize,
    /// Room on disk that is taken and not used yet.
    room: u64,
}

/// Memory and room for a record. Dropped unused it gives them back.
pub struct Reservation {
    appender: Arc<Appender>,
    payload_bytes: usize,
    is_spent: bool,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.is_spent {
            self.appender.give_back(self.payload_bytes, record_cost(self.payload_bytes));
        }
    }
}

impl Reservation {
    /// Bytes of payload that there is room for.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }
}

impl Appender {
    pub(crate) fn new(shared: &Arc<Shared>) -> Appender {
        Appender { shared: Arc::clone(shared), buffer: Mutex::new(Buffer::default()) }
    }

    /// Memory and room on disk for a record with so many bytes of payload. Usually takes no lock but this appender's own; once in
    /// many times it takes room from all, and may wait until there is another segment.
    ///
    /// # Errors
    /// - 53100 if the disk is full. It is tried again for reservations later on, so this ends when there is room.
    /// - 53200 if there is no memory.
    /// - 54000 if a record may not be that long ([`LogOptions::record_bytes_max`](crate::LogOptions::record_bytes_max)).
    /// - 58030 if the log is closed.
    pub fn reserve(self: &Arc<Self>, payload_bytes: usize) -> Result<Reservation> {
        self.reserve_or(payload_bytes, &|| Ok(()))
    }

    fn reserve_or(
        self: &Arc<Self>,
        payload_bytes: usize,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<Reservation> {
        failpoint::reach("room in the log")?;
        if self.shared.room.is_closed() {
            return Err(closed());
        }
        let longest = self.shared.record_bytes_max;
        if payload_bytes > longest {
            return Err(Error::new(
                SqlState::ProgramLimitExceeded,
                format!("a record of the log of {payload_bytes} bytes is longer than {longest} bytes"),
            ));
        }
        let (bytes, cost) = (record_bytes(payload_bytes), record_cost(payload_bytes));
        let missing = {
            let mut buffer = self.buffer.lock();
            let needed = buffer.reserved + bytes;
            buffer.bytes.try_reserve(needed).map_err(|_| Error::out_of_memory(needed))?;
            buffer.reserved = needed;
            let missing = cost.saturating_sub(buffer.room);
            buffer.room -= cost - missing;
            missing
        };
        if missing > 0 {
            let wanted = missing.max(ROOM_BYTES.min(self.shared.segment_bytes / 32));
            let nudge = || self.shared.pace.hurry();
            match self.shared.room.take(missing, wanted, &nudge, interrupt) {
                Ok(given) => self.buffer.lock().room += given - missing,
                Err(error) => {
                    self.give_back(payload_bytes, cost - missing);
                    return Err(error);
                }
            }
        }
        Ok(Reservation { appender: Arc::clone(self), payload_bytes, is_spent: false })
    }

    fn give_back(&self, payload_bytes: usize, room: u64) {
        let surplus = {
            let mut buffer = self.buffer.lock();
            buffer.reserved -= record_bytes(payload_bytes);
            buffer.room += room;
            let surplus = buffer.room.saturating_sub(4 * ROOM_BYTES);
            buffer.room -= surplus;
            surplus
        };
        self.shared.room.give_back(surplus);
    }

    /// Appends a record. Cannot fail, does not allocate, does not wait. What was reserved and is not needed is given back.
    ///
    /// # Panics
    /// If the reservation is another appender's or too small: mistakes of the caller.
    pub fn append(&self, mut reservation: Reservation, kind: u8, timestamp: Timestamp, payload: &[u8]) {
        assert!(std::ptr::eq(self, &raw const *reservation.appender), "a reservation of another appender");
        let reserved = reservation.payload_bytes;
        assert!(payload.len() <= reserved, "a record of {} bytes, {reserved} reserved", payload.len());
        {
            let mut buffer = self.buffer.lock();
            push_record(&mut buffer.bytes, kind, timestamp, payload);
            buffer.reserved -= record_bytes(reserved);
            buffer.room += record_cost(reserved) - record_cost(payload.len());
            reservation.is_spent = true;
        }
        self.shared.pace.nudge();
    }

    /// Appends a record that belongs to no timestamp: a part of a large commit, or what a sequence may have counted. Waits while
    /// 8 MiB of this appender's are not written, and asks `interrupt` every few milliseconds then.
    ///
    /// # Errors
    /// Those of [`reserve`](Self::reserve), and the interrupt's.
    pub fn append_ahead(
        self: &Arc<Self>,
        kind: u8,
        payload: &[u8],
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let ahead_max = AHEAD_BYTES_MAX.min(self.shared.segment_bytes as usize);
        while self.waiting_bytes() >= ahead_max {
            if self.shared.room.is_closed() {
                return Err(closed());
            }
            interrupt()?;
            self.shared.pace.hurry();
            std::thread::sleep(Duration::from_millis(1));
        }
        let reservation = self.reserve_or(payload.len(), interrupt)?;
        self.append(reservation, kind, Timestamp::ZERO, payload);
        Ok(())
    }

    fn waiting_bytes(&self) -> usize {
        let buffer = self.buffer.lock();
        buffer.bytes.len() - buffer.taken
    }

    pub(crate) fn has_records(&self) -> bool {
        self.waiting_bytes() > 0
    }

    /// How far the buffer goes now, for [`take`](Self::take): bytes that are to be taken in this round.
    pub(crate) fn begin_taking(&self) -> usize {
        self.waiting_bytes()
    }

    /// Copies whole records behind `chunk`, at most `left` bytes of them and no further than its length `chunk_max`, and does not
    /// allocate. Returns how many bytes were copied; fewer than `left` if there is no room for the next record.
    pub(crate) fn take(&self, chunk: &mut Vec<u8>, chunk_max: usize, left: usize) -> usize {
        let mut buffer = self.buffer.lock();
        let waiting = &buffer.bytes[buffer.taken..];
        let space = chunk_max.saturating_sub(chunk.len());
        let mut length = left.min(waiting.len());
        if length > space {
            length = whole_records(waiting, space);
        }
        chunk.extend_from_slice(&waiting[..length]);
        buffer.taken += length;
        if buffer.taken == buffer.bytes.len() {
            buffer.bytes.clear();
            buffer.taken = 0;
            if buffer.reserved == 0 && buffer.bytes.capacity() > KEPT_BYTES {
                buffer.bytes = Vec::new();
            }
        }
        length
    }

    /// Gives back the room that is taken and not used. For one that nobody has any more.
    pub(crate) fn retire(&self) {
        let room = std::mem::take(&mut self.buffer.lock().room);
        self.shared.room.give_back(room);
    }
}

/// Length of as many whole records as fit into the space.
fn whole_records(bytes: &[u8], space: usize) -> usize {
    let mut length = 0;
    while let Some(record) = record_at(bytes, length) {
        if record.payload.end > space {
            break;
        }
        length = record.payload.end;
    }
    length
}

impl fmt::Debug for Appender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Appender({} bytes)", self.waiting_bytes())
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reservation({} bytes)", self.payload_bytes)
    }
}
