//! Bytes of the log: `docs/design/log-format.md` draws them. All numbers are little endian.

use crate::wall_time::WallTime;
use ankerdb_base::Timestamp;
use std::ops::Range;

/// The format that is written, and the newest that is read.
pub const FORMAT_VERSION: u32 = 1;

/// Identity of a database: 128 random bits.
pub(crate) type DatabaseBits = [u8; 16];

pub(crate) const IDENTITY_BYTES: usize = 64;
const IDENTITY_MAGIC: &[u8; 8] = b"AnKerDB\n";

pub(crate) const SEGMENT_HEADER_BYTES: usize = 64;
const SEGMENT_MAGIC: &[u8; 8] = b"AnKerLog";

pub(crate) const CHUNK_HEADER_BYTES: usize = 48;
pub(crate) const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"CHNK");
/// Chunks begin at multiples of it.
pub(crate) const CHUNK_ALIGNMENT: u64 = 8;
const IS_END: u32 = 1;
const HAS_TIME: u32 = 2;
/// Bytes at the end of a payload that say when the chunk was written.
pub(crate) const TIME_BYTES: usize = 8;

pub(crate) const RECORD_HEADER_BYTES: usize = 13;

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes_at(bytes, at).map(u64::from_le_bytes)
}

/// Why a header is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    Damaged,
    /// Of a later version of the format.
    Newer(u32),
}

/// Magic, version, and a checksum over everything but itself, which is at 12.
fn checked(bytes: &[u8], magic: &[u8; 8]) -> Result<(), Refused> {
    if bytes.get(..8) != Some(&magic[..]) {
        return Err(Refused::Damaged);
    }
    let version = u32_at(bytes, 8).ok_or(Refused::Damaged)?;
    if version > FORMAT_VERSION {
        return Err(Refused::Newer(version));
    }
    match u32_at(bytes, 12) == Some(checksum_at_12(bytes)) {
        true => Ok(()),
        false => Err(Refused::Damaged),
    }
}

fn checksum_at_12(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
}

pub(crate) fn encode_identity(database: &DatabaseBits) -> [u8; IDENTITY_BYTES] {
    let mut bytes = [0; IDENTITY_BYTES];
    bytes[..8].copy_from_slice(IDENTITY_MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[16..32].copy_from_slice(database);
    let checksum = checksum_at_12(&bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

pub(crate) fn decode_identity(bytes: &[u8; IDENTITY_BYTES]) -> Result<DatabaseBits, Refused> {
    checked(bytes, IDENTITY_MAGIC)?;
    bytes_at(bytes, 16).ok_or(Refused::Damaged)
}

/// What a segment begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHeader {
    pub(crate) database: DatabaseBits,
    pub(crate) number: u64,
    /// Length of the file.
    pub(crate) bytes: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.database);
        bytes[32..40].copy_from_slice(&self.number.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.bytes.to_le_bytes());
        let checksum = checksum_at_12(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Result<SegmentHeader, Refused> {
        checked(bytes, SEGMENT_MAGIC)?;
        let field = |at| u64_at(bytes, at).ok_or(Refused::Damaged);
        Ok(SegmentHeader {
            database: bytes_at(bytes, 16).ok_or(Refused::Damaged)?,
            number: field(32)?,
            bytes: field(40)?,
        })
    }
}

/// Where a chunk lies. It goes into the checksum of the header, so that a copy of a chunk elsewhere is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkPlace {
    pub(crate) database: DatabaseBits,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
}

/// What a chunk begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChunkHeader {
    pub(crate) incarnation: u64,
    /// Chunks are numbered from 1 through all segments.
    pub(crate) number: u64,
    /// All records up to this timestamp are in this chunk or in those before it.
    pub(crate) covered: Timestamp,
    pub(crate) payload_bytes: u32,
    pub(crate) payload_checksum: u32,
    pub(crate) records: u32,
    /// The next chunk is in the next segment.
    pub(crate) is_end: bool,
    /// The payload ends with when it was written.
    pub(crate) has_time: bool,
}

impl ChunkHeader {
    pub(crate) fn encode(&self, place: &ChunkPlace) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        bytes[..4].copy_from_slice(&CHUNK_MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.covered.0.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.payload_checksum.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.records.to_le_bytes());
        let flags = if self.is_end { IS_END } else { 0 } | if self.has_time { HAS_TIME } else { 0 };
        bytes[44..48].copy_from_slice(&flags.to_le_bytes());
        let checksum = Self::checksum(&bytes, place);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `None` if there is no header at this place.
    pub(crate) fn decode(bytes: &[u8], place: &ChunkPlace) -> Option<ChunkHeader> {
        let bytes: [u8; CHUNK_HEADER_BYTES] = bytes_at(bytes, 0)?;
        if u32_at(&bytes, 0)? != CHUNK_MAGIC || u32_at(&bytes, 4)? != Self::checksum(&bytes, place) {
            return None;
        }
        Some(ChunkHeader {
            incarnation: u64_at(&bytes, 8)?,
            number: u64_at(&bytes, 16)?,
            covered: Timestamp(u64_at(&bytes, 24)?),
            payload_bytes: u32_at(&bytes, 32)?,
            payload_checksum: u32_at(&bytes, 36)?,
            records: u32_at(&bytes, 40)?,
            is_end: u32_at(&bytes, 44)? & IS_END != 0,
            has_time: u32_at(&bytes, 44)? & HAS_TIME != 0,
        })
    }

    fn checksum(bytes: &[u8; CHUNK_HEADER_BYTES], place: &ChunkPlace) -> u32 {
        let checksum = crc32c::crc32c(&bytes[8..]);
        let checksum = crc32c::crc32c_append(checksum, &place.database);
        let checksum = crc32c::crc32c_append(checksum, &place.segment.to_le_bytes());
        crc32c::crc32c_append(checksum, &place.offset.to_le_bytes())
    }

    /// Where the next chunk begins if this one does at `offset`.
    pub(crate) fn end(&self, offset: u64) -> u64 {
        offset + chunk_bytes(self.payload_bytes as usize)
    }
}

/// When a chunk with this payload was written.
pub(crate) fn time_of(header: &ChunkHeader, payload: &[u8]) -> WallTime {
    let time = payload.last_chunk().filter(|_| header.has_time);
    time.map_or(WallTime::UNKNOWN, |bytes| WallTime(u64::from_le_bytes(*bytes)))
}

/// The checksum in a chunk's header, by which it is told from another one in its place.
pub(crate) fn chunk_checksum(chunk: &[u8]) -> u32 {
    u32_at(chunk, 4).unwrap_or_default()
}

/// Bytes of a chunk with so much payload.
pub(crate) fn chunk_bytes(payload: usize) -> u64 {
    ((CHUNK_HEADER_BYTES + payload) as u64).next_multiple_of(CHUNK_ALIGNMENT)
}

/// Bytes of a record with so much payload.
pub(crate) fn record_bytes(payload: usize) -> usize {
    RECORD_HEADER_BYTES + payload
}

/// Puts a record behind the others. Does not allocate if there is room for [`record_bytes`].
pub(crate) fn push_record(bytes: &mut Vec<u8>, kind: u8, timestamp: Timestamp, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("a record is shorter than a segment");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.push(kind);
    bytes.extend_from_slice(&timestamp.0.to_le_bytes());
    bytes.extend_from_slice(payload);
}

/// A record in the payload of a chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RecordPlace {
    pub(crate) kind: u8,
    pub(crate) timestamp: Timestamp,
    pub(crate) payload: Range<usize>,
}

/// The record that begins at `at`; `None` if there is no whole one.
pub(crate) fn record_at(bytes: &[u8], at: usize) -> Option<RecordPlace> {
    let length = u32_at(bytes, at)? as usize;
    let kind = *bytes.get(at + 4)?;
    let timestamp = Timestamp(u64_at(bytes, at + 5)?);
    let start = at + RECORD_HEADER_BYTES;
    let end = start.checked_add(length).filter(|end| *end <= bytes.len())?;
    Some(RecordPlace { kind, timestamp, payload: start..end })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> ChunkPlace {
        ChunkPlace { database: [7; 16], segment: 3, offset: 4096 }
    }

    #[test]
    fn headers_are_read_as_they_were_written() {
        assert_eq!(decode_identity(&encode_identity(&[9; 16])), Ok([9; 16]));
        let segment = SegmentHeader { database: [1; 16], number: 5, bytes: 1 << 20 };
        assert_eq!(SegmentHeader::decode(&segment.encode()), Ok(segment));
        let chunk = ChunkHeader {
            incarnation: 2,
            number: 77,
            covered: Timestamp(12),
            payload_bytes: 100,
            payload_checksum: 5,
            records: 3,
            is_end: true,
            has_time: true,
        };
        assert_eq!(ChunkHeader::decode(&chunk.encode(&place()), &place()), Some(chunk));
        assert_eq!(chunk.end(4096), 4096 + 152);
    }

    #[test]
    fn a_header_at_another_place_is_none() {
        let chunk = ChunkHeader {
            incarnation: 1,
            number: 1,
            covered: Timestamp::ZERO,
            payload_bytes: 0,
            payload_checksum: 0,
            records: 0,
            is_end: false,
            has_time: false,
        };
        let bytes = chunk.encode(&place());
        for other in [
            ChunkPlace { database: [8; 16], ..place() },
            ChunkPlace { segment: 4, ..place() },
            ChunkPlace { offset: 4104, ..place() },
        ] {
            assert_eq!(ChunkHeader::decode(&bytes, &other), None);
        }
    }

    #[test]
    fn a_newer_format_is_told_apart_from_damage() {
        let mut bytes = encode_identity(&[9; 16]);
        bytes[40] ^= 1;
        assert_eq!(decode_identity(&bytes), Err(Refused::Damaged));
        bytes[8] = 2;
        assert_eq!(decode_identity(&bytes), Err(Refused::Newer(2)));
    }

    #[test]
    fn half_a_record_is_none() {
        let mut bytes = Vec::new();
        push_record(&mut bytes, 4, Timestamp(9), b"cells");
        let found = record_at(&bytes, 0).expect("a whole record");
        assert_eq!(
            (found.kind, found.timestamp, &bytes[found.payload.clone()]),
            (4, Timestamp(9), &b"cells"[..])
        );
        assert!((0..bytes.len()).all(|length| record_at(&bytes[..length], 0).is_none()));
    }
}
