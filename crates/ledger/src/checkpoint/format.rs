//! The file of a checkpoint: all rows of the shared tables after a block, which has to have certified just these.
//!
//! ```text
//! "AnKerChk" | version 1 (4) | network (32) | height (8) | LedgerBlockHash (32) | state (32) | checksum of all this (4)
//! kind (1) | zeros (3) | length (4) | checksum of the payload (4) | checksum of this, place, network (4) | payload
//! ...
//! kinds: 1 a table   Bytes(name), hash of the definition
//!        2 rows      List of Bytes(row)
//!        3 its end   number of rows (8), hash of the fingerprint
//!        4 the end   number of records before it (8)
//! ```
//! Checksums are for the disk's faults. What protects against people is the ledger: the rows of all tables add up to the state
//! in the header of the block, which a quorum has voted for. So a checkpoint needs no signature, and nobody is trusted with it.
//! It is written under another name, synced, and renamed.

use crate::bytes::{CanonicalReader, CanonicalWriter};
use crate::chain::LedgerChain;
use crate::change::TableStates;
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::member::RowSource;
use crate::ranges::TableSums;
use crate::value::{Content, decode_row, encode_row, row_hash};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write as _};
use std::path::Path;

const MAGIC: &[u8; 8] = b"AnKerChk";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 120;
const RECORD_HEADER_BYTES: usize = 16;

/// A record of rows is written when it has so many bytes.
const ROWS_BYTES: usize = 1 << 20;

/// The longest payload; a row may be as long as a transaction.
const PAYLOAD_BYTES_MAX: usize = 64 << 20;

const TABLE: u8 = 1;
const ROWS: u8 = 2;
const TABLE_END: u8 = 3;
const END: u8 = 4;

/// How long a finished checkpoint is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckpointSize {
    /// Rows of all tables.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

fn header(position: &LedgerChain) -> Vec<u8> {
    let mut writer = CanonicalWriter::default();
    writer.fixed(MAGIC).u32(VERSION).fixed(&position.network.0).u64(position.height);
    writer.fixed(&position.head.0).fixed(&position.state.unwrap_or_default().0);
    let mut header = writer.finish();
    header.extend_from_slice(&crc32c::crc32c(&header).to_be_bytes());
    header
}

fn header_checksum(start: &[u8], place: u64, network: &LedgerHash) -> u32 {
    let sum = crc32c::crc32c_append(crc32c::crc32c(start), &place.to_be_bytes());
    crc32c::crc32c_append(sum, &network.0)
}

struct RecordWriter<'a> {
    file: BufWriter<File>,
    path: &'a Path,
    network: LedgerHash,
    place: u64,
    records: u64,
}

impl RecordWriter<'_> {
    fn put(&mut self, kind: u8, payload: &[u8]) -> LedgerResult<()> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(LedgerError::file(
                self.path,
                format!("a row of {} bytes is too long", payload.len()),
            ));
        }
        let mut header = CanonicalWriter::default();
        header.byte(kind).fixed(&[0; 3]).count(payload.len()).u32(crc32c::crc32c(payload));
        let mut header = header.finish();
        header.extend_from_slice(&header_checksum(&header, self.place, &self.network).to_be_bytes());
        self.write(&header)?;
        self.write(payload)?;
        self.records += 1;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> LedgerResult<()> {
        self.place += bytes.len() as u64;
        self.file.write_all(bytes).map_err(|error| LedgerError::file(self.path, error))
    }

    /// Writes a table and follows what its rows add up to.
    fn put_table(
        &mut self,
        table: &SharedTable,
        source: &mut dyn RowSource,
        check: &mut dyn FnMut() -> LedgerResult<()>,
    ) -> LedgerResult<(u64, TableSums)> {
        let name = CanonicalWriter::default().bytes(table.name.as_bytes()).fixed(&table.hash().0).finish();
        self.put(TABLE, &name)?;
        let (mut count, mut sums) = (0, TableSums::default());
        let (mut rows, mut bytes) = (Vec::new(), 0);
        source.visit_rows(table, &mut |row| {
            check()?;
            sums.add(&table.key_bytes(&row), &row_hash(&row));
            count += 1;
            let row = encode_row(&row);
            bytes += row.len();
            rows.push(row);
            if bytes >= ROWS_BYTES {
                bytes = 0;
                self.put(ROWS, &list(&std::mem::take(&mut rows)))?;
            }
            Ok(())
        })?;
        if !rows.is_empty() {
            self.put(ROWS, &list(&rows))?;
        }
        self.put(
            TABLE_END,
            &CanonicalWriter::default().u64(count).fixed(&sums.fingerprint().hash().0).finish(),
        )?;
        Ok((count, sums))
    }
}

fn list(rows: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = CanonicalWriter::default();
    writer.count(rows.len());
    for row in rows {
        writer.bytes(row);
    }
    writer.finish()
}

/// Writes all tables of a source, a snapshot after the last block of `position`, into a new file, and syncs it. `check` is
/// asked at each row whether to go on. Reads all rows; a mebibyte of them is in memory.
///
/// # Errors
/// [`LedgerError::Untrusted`] if the rows are not those that the block certifies; [`LedgerError::Database`],
/// [`LedgerError::File`], and what `check` says. What was written stays under this name.
pub fn write_checkpoint(
    path: &Path,
    position: &LedgerChain,
    source: &mut dyn RowSource,
    check: &mut dyn FnMut() -> LedgerResult<()>,
) -> LedgerResult<CheckpointSize> {
    let file = File::create(path).map_err(|error| LedgerError::file(path, error))?;
    let (network, file) = (position.network, BufWriter::with_capacity(1 << 20, file));
    let mut writer = RecordWriter { file, path, network, place: 0, records: 0 };
    writer.write(&header(position))?;
    let (mut states, mut rows) = (TableStates::default(), 0);
    for table in position.tables.values() {
        let (count, sums) = writer.put_table(table, source, check)?;
        states.tables.insert(table.name.clone(), table.clone());
        states.sums.insert(table.name.clone(), sums);
        rows += count;
    }
    if position.state != Some(states.hash()) {
        let (have, need) = (states.hash().short(), position.state.unwrap_or_default().short());
        let height = position.height;
        let reason = format!("the database's rows add up to {have}, and block {height} certifies {need}");
        return Err(LedgerError::Untrusted(reason));
    }
    let records = writer.records;
    writer.put(END, &CanonicalWriter::default().u64(records).finish())?;
    let failed = |error: std::io::Error| LedgerError::file(path, error);
    writer.file.flush().map_err(failed)?;
    writer.file.get_ref().sync_all().map_err(failed)?;
    Ok(CheckpointSize { rows, bytes: writer.place })
}

struct RecordReader<'a> {
    file: BufReader<File>,
    path: &'a Path,
    network: LedgerHash,
    place: u64,
    records: u64,
    payload: Vec<u8>,
}

impl RecordReader<'_> {
    fn wrong(&self, reason: impl std::fmt::Display) -> LedgerError {
        LedgerError::file(self.path, format!("at byte {}: {reason}", self.place))
    }

    /// The kind of the next record, whose payload is read.
    fn next(&mut self) -> LedgerResult<u8> {
        let mut header = [0; RECORD_HEADER_BYTES];
        let read = self.file.read_exact(&mut header);
        read.map_err(|_| self.wrong("it ends too early"))?;
        let (start, sum) = header.split_at(12);
        let number = |at: usize| u32::from_be_bytes(start[at..at + 4].try_into().expect("four bytes"));
        let length = number(4) as usize;
        let is_whole = sum == header_checksum(start, self.place, &self.network).to_be_bytes()
            && length <= PAYLOAD_BYTES_MAX;
        if !is_whole {
            return Err(self.wrong("a record is damaged"));
        }
        self.payload.resize(length, 0);
        let read = self.file.read_exact(&mut self.payload);
        read.map_err(|_| self.wrong("it ends too early"))?;
        if crc32c::crc32c(&self.payload) != number(8) {
            return Err(self.wrong("a record is damaged"));
        }
        self.place += (RECORD_HEADER_BYTES + length) as u64;
        self.records += 1;
        Ok(start[0])
    }

    /// Reads a table and shows its rows.
    fn table(&mut self, table: &SharedTable, show: &mut RowsVisitor<'_>) -> LedgerResult<(u64, TableSums)> {
        let kind = self.next()?;
        let expected =
            CanonicalWriter::default().bytes(table.name.as_bytes()).fixed(&table.hash().0).finish();
        if kind != TABLE || self.payload != expected {
            return Err(self.wrong(format!("table \"{}\" is expected, with its definition", table.name)));
        }
        let (mut count, mut sums) = (0, TableSums::default());
        loop {
            match self.next()? {
                ROWS => {
                    let rows = decode_rows(&self.payload, table.columns.len())?;
                    rows.iter().for_each(|row| sums.add(&table.key_bytes(row), &row_hash(row)));
                    count += rows.len() as u64;
                    show(table, rows)?;
                }
                TABLE_END => break,
                _ => return Err(self.wrong("rows are expected")),
            }
        }
        let mut reader = CanonicalReader::new(&self.payload, "end of a table");
        let (rows, hash) = (reader.u64()?, reader.hash()?);
        reader.end()?;
        if (rows, hash) != (count, sums.fingerprint().hash()) {
            let reason = format!("the rows of table \"{}\" do not add up to its fingerprint", table.name);
            return Err(LedgerError::Untrusted(reason));
        }
        Ok((count, sums))
    }
}

fn decode_rows(payload: &[u8], columns: usize) -> LedgerResult<Vec<Vec<Content>>> {
    let mut reader = CanonicalReader::new(payload, "rows of a checkpoint");
    let mut rows = Vec::new();
    for _ in 0..reader.count()? {
        rows.push(decode_row(reader.bytes()?, columns)?);
    }
    reader.end()?;
    Ok(rows)
}

/// What is shown the rows of a checkpoint, some at a time.
pub type RowsVisitor<'a> = dyn FnMut(&SharedTable, Vec<Vec<Content>>) -> LedgerResult<()> + 'a;

/// Reads a checkpoint, which has to be one of this position: its network, its last block, its tables, the state that it
/// certifies. Rows are shown before it is known whether all of them add up to that state, so the caller reads it once
/// without using them. Returns how many rows there are, and what they add up to.
///
/// # Errors
/// [`LedgerError::File`] and [`LedgerError::Malformed`] if it cannot be read or is damaged, [`LedgerError::Untrusted`] if its
/// rows are not those that the block certifies; and those of `show`.
pub fn read_checkpoint(
    path: &Path,
    position: &LedgerChain,
    show: &mut RowsVisitor<'_>,
) -> LedgerResult<(u64, TableStates)> {
    let file = File::open(path).map_err(|error| LedgerError::file(path, error))?;
    let (network, place) = (position.network, HEADER_BYTES as u64);
    let file = BufReader::with_capacity(1 << 20, file);
    let mut reader = RecordReader { file, path, network, place, records: 0, payload: Vec::new() };
    read_header(&mut reader.file, path, position)?;
    let (mut states, mut rows) = (TableStates::default(), 0);
    for table in position.tables.values() {
        let (count, sums) = reader.table(table, show)?;
        states.tables.insert(table.name.clone(), table.clone());
        states.sums.insert(table.name.clone(), sums);
        rows += count;
    }
    let (kind, records) = (reader.next()?, reader.records - 1);
    if kind != END || reader.payload != records.to_be_bytes() {
        return Err(reader.wrong("it has other tables than the block"));
    }
    if reader.file.read(&mut [0]).map_err(|error| reader.wrong(error))? != 0 {
        return Err(reader.wrong("something follows its end"));
    }
    if position.state != Some(states.hash()) {
        let (have, need) = (states.hash().short(), position.state.unwrap_or_default().short());
        let height = position.height;
        let reason = format!("its rows add up to {have}, and block {height} certifies {need}");
        return Err(LedgerError::Untrusted(reason));
    }
    Ok((rows, states))
}

fn read_header(file: &mut impl Read, path: &Path, position: &LedgerChain) -> LedgerResult<()> {
    let wrong = |reason: String| LedgerError::file(path, reason);
    let mut bytes = [0; HEADER_BYTES];
    file.read_exact(&mut bytes).map_err(|_| wrong("it is too short for a checkpoint".into()))?;
    let mut fields = CanonicalReader::new(&bytes, "header of a checkpoint");
    if fields.array::<8>()? != *MAGIC {
        return Err(wrong("it is no checkpoint".into()));
    }
    let version = fields.u32()?;
    if version != VERSION {
        return Err(wrong(format!("it has format version {version}; this command knows version {VERSION}")));
    }
    if bytes[..] != header(position)[..] {
        let (height, head) = (position.height, position.head.short());
        return Err(wrong(format!("its first {HEADER_BYTES} bytes are not those of block {height}, {head}")));
    }
    Ok(())
}
