//! Whether what a file says of itself can be true.
//!
//! The library reserves memory for as many values as a file says that it has, and follows its schema as deep as it goes. A
//! few bytes could so end the process, which has other clients. Everything is therefore looked at before the library sees it:
//!
//! - Lists of the footer have no more items than there are bytes left, schemas no more levels than [`LEVELS_MAX`].
//! - A page is at most as much longer than its compressed form as its codec can make it, and a dictionary has no more values than
//!   bytes.
//! - Pages whose encoding counts values inside of what is compressed are refused.
//!
//! The footer and the headers of pages are structs of Thrift's compact protocol:
//! ```text
//! field    step of its number (4 bits) | type (4 bits), value        a step of 0: the number follows
//! list     count (4 bits) | type (4 bits), items                     a count of 15: the count follows
//! number   7 bits of it in each byte, the last one below 128; signs are in the lowest bit
//! end      0
//! ```

use super::{malformed, unreadable};
use ankerdb_engine::{Error, Result, SqlState};
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The length of the footer, and the word that ends a file.
const TAIL_BYTES: u64 = 8;
const FOOTER_BYTES_MAX: u64 = 256 << 20;
/// Structs in structs that are looked at; the format has seven.
const STRUCTS_MAX: usize = 32;
/// Groups in groups: a list has two.
const LEVELS_MAX: usize = 100;
/// The library counts row groups in 16 bits.
const GROUPS_MAX: usize = i16::MAX as usize;
/// Memory for a footer that was read, for each of its bytes.
const FOOTER_MEMORY: usize = 8;
/// Bytes in which a page's header mostly lies; one with long statistics is longer.
const HEADER_BYTES: usize = 256;
const HEADER_BYTES_MAX: usize = 16 << 20;
/// Three bytes of Snappy's stand for 64 at most.
const SNAPPY_RATIO: u64 = 32;
const SNAPPY_MORE: u64 = 64;

/// Types of the compact protocol.
const BOOLEANS: [u8; 2] = [1, 2];
const BYTE: u8 = 3;
const NUMBERS: [u8; 3] = [4, 5, 6];
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LISTS: [u8; 2] = [9, 10];
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// Looks at the footer. Returns the bytes of memory that it may take when it is read.
///
/// # Errors
/// 22P04, 58030.
pub(super) fn check_footer(file: &File) -> Result<usize> {
    let length = file.metadata().map_err(failed)?.len();
    let mut tail = [0; TAIL_BYTES as usize];
    let Some(end) = length.checked_sub(TAIL_BYTES) else { return Err(malformed("it is too short")) };
    file.read_exact_at(&mut tail, end).map_err(failed)?;
    let [a, b, c, d, word @ ..] = tail;
    let footer = u64::from(u32::from_le_bytes([a, b, c, d]));
    if &word != b"PAR1" {
        return Err(malformed("it does not end as a Parquet file"));
    }
    let Some(start) = end.checked_sub(footer).filter(|_| footer <= FOOTER_BYTES_MAX) else {
        return Err(malformed("its footer is longer than it can be"));
    };
    let mut bytes = vec![0; footer as usize];
    file.read_exact_at(&mut bytes, start).map_err(failed)?;
    let mut walk = Walk { bytes: &bytes, at: 0 };
    walk.fields(|walk, number, kind| match (number, LISTS.contains(&kind)) {
        (2, true) => walk.schema(),
        (4, true) => {
            let at = walk.at;
            let (_, count) = walk.list()?;
            walk.at = at;
            if count > GROUPS_MAX { Err(Stop::False) } else { walk.skip(kind, 0) }
        }
        _ => walk.skip(kind, 0),
    })
    .map_err(|_| malformed("its footer is damaged"))?;
    Ok(bytes.len() * FOOTER_MEMORY)
}

/// Looks at all pages of columns. Returns the bytes of memory that a page of each, and its dictionary, may take.
///
/// # Errors
/// 22P04, 58030; 0A000 for encodings that are not read; those of `stop`, which is asked once for each column of a row group.
pub(super) fn check_pages(
    file: &File,
    metadata: &ParquetMetaData,
    is_read: impl Fn(usize) -> bool,
    stop: impl Fn() -> Result<()>,
) -> Result<usize> {
    let leaves = metadata.file_metadata().schema_descr().num_columns();
    let mut memory = 0_usize;
    for leaf in (0..leaves).filter(|leaf| is_read(*leaf)) {
        let mut most = 0;
        for group in metadata.row_groups() {
            stop()?;
            let chunk = group.columns().get(leaf).ok_or_else(|| malformed("a row group lacks a column"))?;
            most = most.max(check_chunk(file, chunk)?);
        }
        memory = memory.saturating_add(most);
    }
    Ok(memory)
}

/// The bytes of the largest page and of the dictionary.
fn check_chunk(file: &File, chunk: &ColumnChunkMetaData) -> Result<usize> {
    let damaged = || malformed("a page is damaged");
    let starts = [Some(chunk.data_page_offset()), chunk.dictionary_page_offset()];
    let start = starts.into_iter().flatten().filter(|offset| *offset > 0).min().unwrap_or(0);
    let mut at = u64::try_from(start).map_err(|_| damaged())?;
    let length = u64::try_from(chunk.compressed_size()).map_err(|_| damaged())?;
    let end = at.checked_add(length).ok_or_else(damaged)?;
    if end > file.metadata().map_err(failed)?.len() {
        return Err(damaged());
    }
    let (mut dictionary, mut page) = (0, 0);
    while at < end {
        let (header, header_length) = header_at(file, at)?;
        header.check(chunk.compression())?;
        at = at
            .checked_add(header_length)
            .and_then(|at| at.checked_add(header.compressed))
            .ok_or_else(damaged)?;
        match header.is_dictionary {
            true => dictionary = header.uncompressed,
            false => page = header.uncompressed.max(page),
        }
    }
    // Each is there as it was read and as it is decoded.
    usize::try_from(dictionary.saturating_add(page).saturating_mul(2)).map_err(|_| damaged())
}

/// What a page says of itself.
#[derive(Default, Debug, PartialEq)]
struct PageHeader {
    is_dictionary: bool,
    uncompressed: u64,
    compressed: u64,
    /// Of a dictionary.
    values: u64,
    encoding: i64,
}

impl PageHeader {
    fn check(&self, codec: Compression) -> Result<()> {
        /// Their texts lie behind a count and lengths of their own.
        const DELTA_TEXTS: [i64; 2] = [6, 7];
        let is_possible = match codec {
            Compression::UNCOMPRESSED => self.uncompressed == self.compressed,
            Compression::SNAPPY => self.uncompressed <= self.compressed * SNAPPY_RATIO + SNAPPY_MORE,
            _ => true,
        };
        if !is_possible || self.values > self.uncompressed {
            return Err(malformed("a page says that it is longer than it can be"));
        }
        if DELTA_TEXTS.contains(&self.encoding) {
            let message =
                "COPY FROM of texts that are encoded by their differences is not supported in PARQUET mode";
            let hint =
                "Write the file with the encodings PLAIN and RLE_DICTIONARY: version 1 in most programs.";
            return Err(Error::new(SqlState::FeatureNotSupported, message).with_hint(hint));
        }
        Ok(())
    }
}

/// The header at a place, and its length.
fn header_at(file: &File, at: u64) -> Result<(PageHeader, u64)> {
    let mut bytes = vec![0; HEADER_BYTES];
    loop {
        let read = read_at(file, &mut bytes, at)?;
        let mut walk = Walk { bytes: &bytes[..read], at: 0 };
        match walk.page_header() {
            Ok(header) => return Ok((header, walk.at as u64)),
            Err(Stop::Short) if read == bytes.len() && read < HEADER_BYTES_MAX => bytes.resize(read * 4, 0),
            Err(_) => return Err(malformed("the header of a page is damaged")),
        }
    }
}

fn read_at(file: &File, bytes: &mut [u8], at: u64) -> Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], at + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(read)
}

fn failed(error: io::Error) -> Error {
    unreadable(error.into())
}

/// Why a walk ends before its end.
#[derive(Debug, PartialEq)]
enum Stop {
    /// There are no more bytes.
    Short,
    /// It cannot be true.
    False,
}

/// A walk over bytes of the compact protocol.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    fn byte(&mut self) -> Result<u8, Stop> {
        let byte = self.bytes.get(self.at).copied().ok_or(Stop::Short)?;
        self.at += 1;
        Ok(byte)
    }

    fn pass(&mut self, count: u64) -> Result<(), Stop> {
        let left = self.bytes.len() - self.at;
        match usize::try_from(count) {
            Ok(count) if count <= left => {
                self.at += count;
                Ok(())
            }
            _ => Err(Stop::Short),
        }
    }

    fn unsigned(&mut self) -> Result<u64, Stop> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Stop::False)
    }

    fn signed(&mut self) -> Result<i64, Stop> {
        let number = self.unsigned()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// The fields of a struct; `visit` passes over the value of each.
    fn fields(&mut self, mut visit: impl FnMut(&mut Self, i64, u8) -> Result<(), Stop>) -> Result<(), Stop> {
        let mut number = 0_i64;
        loop {
            let head = self.byte()?;
            let (step, kind) = (head >> 4, head & 0x0f);
            if head == 0 {
                return Ok(());
            }
            number = if step == 0 { self.signed()? } else { number.wrapping_add(step.into()) };
            visit(self, number, kind)?;
        }
    }

    /// Type and number of the items that follow.
    fn list(&mut self) -> Result<(u8, usize), Stop> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.unsigned()?,
            count => count.into(),
        };
        // An item has a byte at least.
        let left = self.bytes.len() - self.at;
        let count = usize::try_from(count).ok().filter(|count| *count <= left).ok_or(Stop::Short)?;
        Ok((head & 0x0f, count))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Result<(), Stop> {
        if depth > STRUCTS_MAX {
            return Err(Stop::False);
        }
        match kind {
            kind if BOOLEANS.contains(&kind) => Ok(()),
            BYTE => self.pass(1),
            kind if NUMBERS.contains(&kind) => self.unsigned().map(drop),
            DOUBLE => self.pass(8),
            BINARY => {
                let length = self.unsigned()?;
                self.pass(length)
            }
            kind if LISTS.contains(&kind) => {
                let (item, count) = self.list()?;
                (0..count).try_for_each(|_| self.skip_item(item, depth + 1))
            }
            MAP => {
                let count = self.unsigned()?;
                if count == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                (0..count).try_for_each(|_| {
                    self.skip_item(kinds >> 4, depth + 1)?;
                    self.skip_item(kinds & 0x0f, depth + 1)
                })
            }
            STRUCT => self.fields(|walk, _, kind| walk.skip(kind, depth + 1)),
            UUID => self.pass(16),
            _ => Err(Stop::False),
        }
    }

    /// In lists, booleans have bytes.
    fn skip_item(&mut self, kind: u8, depth: usize) -> Result<(), Stop> {
        if BOOLEANS.contains(&kind) { self.pass(1) } else { self.skip(kind, depth) }
    }

    /// The schema: its elements in the order of a walk, each with the number of those below it.
    fn schema(&mut self) -> Result<(), Stop> {
        const CHILDREN: i64 = 5;
        let (kind, count) = self.list()?;
        if kind != STRUCT && count > 0 {
            return Err(Stop::False);
        }
        let mut left: Vec<i64> = Vec::new();
        for _ in 0..count {
            let mut children = 0;
            self.fields(|walk, number, kind| match number {
                CHILDREN if NUMBERS.contains(&kind) => {
                    children = walk.signed()?;
                    Ok(())
                }
                _ => walk.skip(kind, 0),
            })?;
            while left.last() == Some(&0) {
                left.pop();
            }
            if let Some(left) = left.last_mut() {
                *left -= 1;
            }
            if children < 0 || left.len() > LEVELS_MAX {
                return Err(Stop::False);
            }
            left.push(children);
        }
        Ok(())
    }

    fn page_header(&mut self) -> Result<PageHeader, Stop> {
        const DICTIONARY: i64 = 2;
        let mut header = PageHeader::default();
        let length = |number: i64| u64::try_from(number).map_err(|_| Stop::False);
        self.fields(|walk, number, kind| match (number, kind) {
            (1, kind) if NUMBERS.contains(&kind) => {
                header.is_dictionary = walk.signed()? == DICTIONARY;
                Ok(())
            }
            (2, kind) if NUMBERS.contains(&kind) => {
                header.uncompressed = length(walk.signed()?)?;
                Ok(())
            }
            (3, kind) if NUMBERS.contains(&kind) => {
                header.compressed = length(walk.signed()?)?;
                Ok(())
            }
            // Headers of data pages: the first version's encoding is its second field, the other's the fourth.
            (5, STRUCT) => walk.numbers(|number, value| {
                if number == 2 {
                    header.encoding = value;
                }
            }),
            (8, STRUCT) => walk.numbers(|number, value| {
                if number == 4 {
                    header.encoding = value;
                }
            }),
            (7, STRUCT) => {
                let mut values = 0;
                walk.numbers(|number, value| {
                    if number == 1 {
                        values = value;
                    }
                })?;
                header.values = length(values)?;
                Ok(())
            }
            _ => walk.skip(kind, 0),
        })?;
        Ok(header)
    }

    /// The numbers among the fields of a struct.
    fn numbers(&mut self, mut tell: impl FnMut(i64, i64)) -> Result<(), Stop> {
        self.fields(|walk, number, kind| match NUMBERS.contains(&kind) {
            true => {
                tell(number, walk.signed()?);
                Ok(())
            }
            false => walk.skip(kind, 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_engine::SqlState;

    /// A file that ends with this footer.
    fn file(footer: &[u8]) -> File {
        let mut spool = super::super::Spool::new().unwrap();
        spool.write(b"PAR1").unwrap();
        spool.write(footer).unwrap();
        spool.write(&(footer.len() as u32).to_le_bytes()).unwrap();
        spool.write(b"PAR1").unwrap();
        spool.finish().unwrap()
    }

    fn code(footer: &[u8]) -> Option<&'static str> {
        check_footer(&file(footer)).err().map(|error| error.state().code())
    }

    /// A schema of so many groups, each in the one before.
    fn nested(groups: usize) -> Vec<u8> {
        // Field 2 is a list of structs, whose count follows.
        let mut bytes = vec![0x29, 0xfc];
        let mut count = groups;
        while count >= 0x80 {
            bytes.push((count & 0x7f) as u8 | 0x80);
            count >>= 7;
        }
        bytes.push(count as u8);
        for _ in 0..groups {
            // Field 4 is a name of one letter, field 5 the number 1.
            bytes.extend_from_slice(&[0x48, 1, b'a', 0x15, 2, 0]);
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn counts_that_cannot_be_true_are_refused() {
        assert_eq!(code(&[0]), None);
        // Row groups: 2^31 - 1 of them, in no bytes.
        assert_eq!(code(&[0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0]), Some("22P04"));
        // A text that is longer than the footer.
        assert_eq!(code(&[0x68, 0xff, 0xff, 0x03, 0]), Some("22P04"));
        assert_eq!(code(&[]), Some("22P04"));
    }

    #[test]
    fn a_schema_has_an_end() {
        assert_eq!(code(&nested(20)), None);
        assert_eq!(code(&nested(100_000)), Some("22P04"));
    }

    #[test]
    fn values_have_an_end() {
        // Structs in structs.
        assert_eq!(code(&vec![0x1c; 100_000]), Some("22P04"));
        // Lists of one list.
        let mut lists = vec![0x19];
        lists.extend(vec![0x19; 100_000]);
        assert_eq!(code(&lists), Some("22P04"));
    }

    #[test]
    fn pages_are_not_longer_than_their_codec_can_make_them() {
        let page = |uncompressed, values, encoding| PageHeader {
            is_dictionary: false,
            uncompressed,
            compressed: 100,
            values,
            encoding,
        };
        let state = |header: PageHeader, codec| header.check(codec).err().map(|error| error.state());
        assert_eq!(state(page(3264, 0, 0), Compression::SNAPPY), None);
        assert_eq!(state(page(1 << 31, 0, 0), Compression::SNAPPY), Some(SqlState::BadCopyFileFormat));
        assert_eq!(state(page(101, 0, 0), Compression::UNCOMPRESSED), Some(SqlState::BadCopyFileFormat));
        assert_eq!(state(page(100, 101, 0), Compression::UNCOMPRESSED), Some(SqlState::BadCopyFileFormat));
        assert_eq!(state(page(100, 100, 6), Compression::UNCOMPRESSED), Some(SqlState::FeatureNotSupported));
    }

    #[test]
    fn a_file_shorter_than_its_tail_is_none() {
        let mut short = super::super::Spool::new().unwrap();
        short.write(b"PAR1").unwrap();
        let error = check_footer(&short.finish().unwrap()).unwrap_err();
        assert_eq!(error.state(), SqlState::BadCopyFileFormat);
    }
}
