//! Checksums as they ought to be: a change of a byte is then a change of what is said, and not only of what is refused.
//!
//! Written from the pages that draw the bytes (docs/design: log-format.md, checkpoints.md), and not from the code that reads them.

use crc32c::{crc32c, crc32c_append};

const IDENTITY_BYTES: usize = 64;
const SEGMENT_HEADER: usize = 64;
const CHUNK_HEADER: usize = 48;
const IMAGE_HEADER: usize = 64;
/// Images begin at multiples of so many bytes, chunks of 8.
const IMAGES_AT: usize = 64;

fn put(bytes: &mut [u8], at: usize, checksum: u32) {
    bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

/// What in a header says how long the rest is, if the file has that much.
fn payload(bytes: &[u8], begin: usize, length: u64) -> Option<std::ops::Range<usize>> {
    let end = begin.checked_add(usize::try_from(length).ok()?)?;
    (end <= bytes.len()).then_some(begin..end)
}

pub(crate) fn identity(bytes: &mut [u8]) {
    if bytes.len() == IDENTITY_BYTES {
        let checksum = crc32c_append(crc32c(&bytes[..12]), &bytes[16..]);
        put(bytes, 12, checksum);
    }
}

/// A segment of the log with its chunks.
pub(crate) fn segment(bytes: &mut [u8]) {
    if bytes.len() < SEGMENT_HEADER {
        return;
    }
    let checksum = crc32c_append(crc32c(&bytes[..12]), &bytes[16..SEGMENT_HEADER]);
    put(bytes, 12, checksum);
    // The database and the segment's number, which lie behind each other.
    let place: [u8; 24] = std::array::from_fn(|at| bytes[16 + at]);
    let mut at = SEGMENT_HEADER;
    while at + CHUNK_HEADER <= bytes.len() && bytes[at..].starts_with(b"CHNK") {
        let length = u64::from(u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + 32 + byte])));
        let Some(payload) = payload(bytes, at + CHUNK_HEADER, length) else { break };
        let end = payload.end;
        let checksum = crc32c(&bytes[payload]);
        put(bytes, at + 36, checksum);
        let header = crc32c_append(crc32c(&bytes[at + 8..at + CHUNK_HEADER]), &place);
        put(bytes, at + 4, crc32c_append(header, &(at as u64).to_le_bytes()));
        at = end.next_multiple_of(8);
    }
}

/// The manifest.
pub(crate) fn checkpoint(bytes: &mut [u8]) {
    if bytes.len() >= 16 {
        put(bytes, 12, crc32c(&bytes[16..]));
    }
}

/// A file of images.
pub(crate) fn images(bytes: &mut [u8]) {
    if bytes.len() < IMAGES_AT {
        return;
    }
    put(bytes, 12, crc32c(&bytes[16..IMAGES_AT]));
    let place: [u8; 24] = std::array::from_fn(|at| bytes[16 + at]);
    let mut at = IMAGES_AT;
    while at + IMAGE_HEADER <= bytes.len() {
        if bytes[at..].starts_with(b"IMAG")
            && let Some(payload) = payload(bytes, at + IMAGE_HEADER, number(bytes, at + 24))
        {
            let checksum = crc32c(&bytes[payload]);
            put(bytes, at + 32, checksum);
            let header = crc32c_append(crc32c(&bytes[at + 8..at + IMAGE_HEADER]), &place);
            put(bytes, at + 4, crc32c_append(header, &(at as u64).to_le_bytes()));
        }
        at += IMAGES_AT;
    }
}
