//! `timetz`: a time of day and how far from Greenwich the clock is that shows it.
//!
//! Values order by the time at Greenwich and, of equal ones, by the place of the clock, those in the east first:
//! ```text
//! microseconds since midnight at Greenwich, which may be of the day before or after   seconds west of Greenwich
//! 8                                                                                   4
//! ```
//! Both big-endian with the sign turned, as in keys of indexes.

use super::{Packed, PackedType};
use crate::datetime::{self, MICROSECONDS_PER_DAY};
use crate::zone::push_offset;
use crate::{Interval, push_bigint, push_integer};
use ankerdb_base::{Error, Result, SqlState};

const MICROSECONDS: i64 = 1_000_000;
/// Bytes of a value.
pub(super) const LENGTH: usize = 12;
/// A clock is less than so many seconds from Greenwich.
const ZONE_LIMIT: i32 = 16 * 3600;

/// A time of day with the place of the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimeTz {
    /// Microseconds since midnight, at most those of a day.
    pub time: i64,
    /// Seconds west of Greenwich.
    pub west: i32,
}

impl TimeTz {
    /// What a clock shows, so many microseconds east of Greenwich.
    pub fn new(time: i64, east: i64) -> TimeTz {
        TimeTz { time, west: -(east / MICROSECONDS) as i32 }
    }

    /// Microseconds since midnight at Greenwich.
    pub fn universal(self) -> i64 {
        self.time + i64::from(self.west) * MICROSECONDS
    }

    /// What a clock shows then that is so many microseconds east of Greenwich.
    pub fn moved(self, east: i64) -> TimeTz {
        let time = (self.universal() + east).rem_euclid(MICROSECONDS_PER_DAY);
        TimeTz::new(time, east)
    }

    /// The time so much later; only what is less than a day counts.
    pub fn later(self, interval: Interval) -> TimeTz {
        let by = interval.microseconds.rem_euclid(MICROSECONDS_PER_DAY);
        TimeTz { time: (self.time + by).rem_euclid(MICROSECONDS_PER_DAY), ..self }
    }

    /// The time so much earlier.
    pub fn earlier(self, interval: Interval) -> TimeTz {
        let by = interval.microseconds.rem_euclid(MICROSECONDS_PER_DAY);
        TimeTz { time: (self.time - by).rem_euclid(MICROSECONDS_PER_DAY), ..self }
    }

    /// As a value.
    pub fn packed(self) -> Packed {
        let mut bytes = Vec::with_capacity(LENGTH);
        push_bigint(&mut bytes, self.universal());
        push_integer(&mut bytes, self.west);
        Packed { packed_type: PackedType::TimeTz, bytes: bytes.into() }
    }

    /// What was packed.
    pub(super) fn unpacked(bytes: &[u8]) -> TimeTz {
        let mut whole = [0; LENGTH];
        let known = bytes.len().min(LENGTH);
        whole[..known].copy_from_slice(&bytes[..known]);
        let [a, b, c, d, e, f, g, h, i, j, k, l] = whole;
        let universal = i64::from_be_bytes([a, b, c, d, e, f, g, h]) ^ i64::MIN;
        let west = i32::from_be_bytes([i, j, k, l]) ^ i32::MIN;
        TimeTz { time: universal.wrapping_sub(i64::from(west) * MICROSECONDS), west }
    }

    /// Whether there is such a time, and such a clock.
    pub(super) fn check(self) -> Result<TimeTz> {
        if !(0..=MICROSECONDS_PER_DAY).contains(&self.time) {
            return Err(Error::new(SqlState::DatetimeFieldOverflow, "time out of range"));
        }
        if self.west.unsigned_abs() >= ZONE_LIMIT.unsigned_abs() {
            let message = "time zone displacement out of range";
            return Err(Error::new(SqlState::InvalidTimeZoneDisplacement, message));
        }
        Ok(self)
    }
}

/// Reads what a time can be written as, with an offset; without one it is of the clocks of the thread's zone, on the day that is
/// written, or today.
pub(super) fn parse(text: &str) -> Result<TimeTz> {
    let (time, east) = datetime::parse_time_with_zone(text)?;
    Ok(TimeTz { time, west: -east as i32 })
}

/// Appends the text.
pub(super) fn push(time: TimeTz, out: &mut String) {
    datetime::push_time(time.time, out);
    push_offset(-i64::from(time.west), out);
}

/// The bytes as drivers read them.
pub(super) fn to_wire(time: TimeTz) -> Vec<u8> {
    let mut bytes = time.time.to_be_bytes().to_vec();
    bytes.extend(time.west.to_be_bytes());
    bytes
}

/// # Errors
/// 22008 and 22009 for times and clocks that there are not, 22P03 for bytes of another length.
pub(super) fn from_wire(bytes: &[u8]) -> Result<TimeTz> {
    let (Some((time, rest)), true) = (bytes.split_first_chunk::<8>(), bytes.len() == LENGTH) else {
        let (state, message) = match bytes.len() < LENGTH {
            true => (SqlState::ProtocolViolation, "insufficient data left in message"),
            false => (SqlState::InvalidBinaryRepresentation, "incorrect binary data format"),
        };
        return Err(Error::new(state, message));
    };
    let west = rest.try_into().map_or(0, i32::from_be_bytes);
    TimeTz { time: i64::from_be_bytes(*time), west }.check()
}
