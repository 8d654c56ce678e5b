//! The ledger file of an organization: append-only records, each with checksums.
//!
//! ```text
//! "AnKerLdg" | version 1 (4) | checksum of the network (4) | network (32)
//! "LREC" | kind (1) | zeros (3) | length (4) | checksum of the payload (4) | checksum of this, place, network (4) | payload
//! ...
//! ```
//! A block is appended and synced before its member's vote leaves; the votes that made it count follow in a record of their
//! own. So a member that stops between the two knows what it has voted for. Where the file does not go on with a whole record,
//! and no whole record lies behind, the end is torn and is cut when the file is opened; where one lies behind, the file is
//! damaged and is not opened. The place is in the checksum, so a record that somebody has put into a transaction is not taken
//! for one of the file.

use crate::bytes::{CanonicalReader, CanonicalWriter};
use crate::error::{LedgerError, LedgerResult};
use crate::genesis::Genesis;
use crate::hash::LedgerHash;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"AnKerLdg";
const VERSION: u32 = 1;
const HEADER_BYTES: u64 = 48;
const RECORD_MAGIC: &[u8; 4] = b"LREC";
const RECORD_HEADER_BYTES: usize = 20;

/// The longest payload, so that a damaged length asks for no absurd memory.
const PAYLOAD_BYTES_MAX: u32 = 256 << 20;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// The founding document; the first record and no other.
    Genesis,
    /// A ledger block, and the member's own vote for it.
    Block,
    /// The votes by which the block before it has its quorum.
    Votes,
}

impl RecordKind {
    fn of(byte: u8) -> Option<RecordKind> {
        [RecordKind::Genesis, RecordKind::Block, RecordKind::Votes]
            .into_iter()
            .find(|kind| kind.byte() == byte)
    }

    fn byte(self) -> u8 {
        match self {
            RecordKind::Genesis => 1,
            RecordKind::Block => 2,
            RecordKind::Votes => 3,
        }
    }
}

/// What is shown a record: its kind, its payload, and its place in the file.
pub type RecordVisitor<'a> = dyn FnMut(RecordKind, &[u8], u64) -> LedgerResult<()> + 'a;

/// Where a file's whole records end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileEnd {
    /// Bytes of whole records.
    pub whole_bytes: u64,
    /// Bytes behind them.
    pub torn_bytes: u64,
}

fn record_header(kind: u8, payload: &[u8], place: u64, network: &LedgerHash) -> Vec<u8> {
    let mut header = CanonicalWriter::default();
    header.fixed(RECORD_MAGIC).byte(kind).fixed(&[0; 3]).count(payload.len()).u32(crc32c::crc32c(payload));
    let mut header = header.finish();
    header.extend_from_slice(&header_checksum(&header, place, network).to_be_bytes());
    header
}

fn header_checksum(start: &[u8], place: u64, network: &LedgerHash) -> u32 {
    let sum = crc32c::crc32c_append(crc32c::crc32c(start), &place.to_be_bytes());
    crc32c::crc32c_append(sum, &network.0)
}

/// Kind, length and checksum of the payload, if these bytes are the header of a record at this place.
fn read_header(bytes: &[u8], place: u64, network: &LedgerHash) -> Option<(RecordKind, u32, u32)> {
    let (start, sum) = bytes.get(..RECORD_HEADER_BYTES)?.split_at(16);
    let number = |at: usize| u32::from_be_bytes(start[at..at + 4].try_into().expect("four bytes"));
    let is_whole = start.starts_with(RECORD_MAGIC)
        && sum == header_checksum(start, place, network).to_be_bytes()
        && number(8) <= PAYLOAD_BYTES_MAX;
    is_whole.then(|| Some((RecordKind::of(start[4])?, number(8), number(12)))).flatten()
}

/// Reads a file from its beginning, and shows each whole record with its place.
///
/// # Errors
/// [`LedgerError::File`] if it is no ledger file, or is damaged; and those of `visit`.
pub fn visit_records(path: &Path, visit: &mut RecordVisitor<'_>) -> LedgerResult<FileEnd> {
    let failed = |error: std::io::Error| LedgerError::file(path, error);
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let network = read_file_header(&mut reader, path)?;
    let (mut place, mut header, mut payload) = (HEADER_BYTES, [0; RECORD_HEADER_BYTES], Vec::new());
    while place < length {
        let rest = length - place;
        let found = if rest >= RECORD_HEADER_BYTES as u64 {
            reader.read_exact(&mut header).map_err(failed)?;
            read_header(&header, place, &network)
        } else {
            None
        };
        let whole = found.filter(|(_, bytes, _)| u64::from(*bytes) + RECORD_HEADER_BYTES as u64 <= rest);
        let Some((kind, bytes, sum)) = whole else { break };
        payload.resize(bytes as usize, 0);
        reader.read_exact(&mut payload).map_err(failed)?;
        if crc32c::crc32c(&payload) != sum {
            break;
        }
        visit(kind, &payload, place)?;
        place += RECORD_HEADER_BYTES as u64 + u64::from(bytes);
    }
    let end = FileEnd { whole_bytes: place, torn_bytes: length - place };
    refuse_damage(path, &end, &network)?;
    Ok(end)
}

fn read_file_header(reader: &mut impl Read, path: &Path) -> LedgerResult<LedgerHash> {
    let mut header = [0; HEADER_BYTES as usize];
    let wrong = |reason: &str| LedgerError::file(path, reason);
    reader.read_exact(&mut header).map_err(|_| wrong("it is too short for a ledger file"))?;
    let mut fields = CanonicalReader::new(&header, "file header");
    if fields.array::<8>()? != *MAGIC {
        return Err(wrong("it is no ledger file"));
    }
    let version = fields.u32()?;
    if version != VERSION {
        return Err(wrong(&format!("it has format version {version}; this command knows version {VERSION}")));
    }
    let (sum, network) = (fields.u32()?, fields.hash()?);
    if crc32c::crc32c(&network.0) != sum {
        return Err(wrong("its first 48 bytes are damaged"));
    }
    Ok(network)
}

/// Whole records behind the end say that something was damaged after it was written.
fn refuse_damage(path: &Path, end: &FileEnd, network: &LedgerHash) -> LedgerResult<()> {
    if end.torn_bytes == 0 {
        return Ok(());
    }
    let failed = |error: std::io::Error| LedgerError::file(path, error);
    let mut file = File::open(path).map_err(failed)?;
    file.seek(SeekFrom::Start(end.whole_bytes)).map_err(failed)?;
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).map_err(failed)?;
    let is_record = |at: usize| read_header(&rest[at..], end.whole_bytes + at as u64, network).is_some();
    match (1..rest.len()).find(|at| rest[*at..].starts_with(RECORD_MAGIC) && is_record(*at)) {
        None => Ok(()),
        Some(at) => {
            let (from, to) = (end.whole_bytes, end.whole_bytes + at as u64);
            let advice = "restore the file from a copy, or take that of a consenting member";
            Err(LedgerError::file(
                path,
                format!("bytes {from} to {to} are damaged: records go on behind them; {advice}"),
            ))
        }
    }
}

/// What people can do about a full disk, behind what the system says about it.
const FULL_DISK_ADVICE: &str = "; nothing was voted for or committed that is not in it: make room on its file system, and the organization goes on by itself";

/// Whether a file could not be written for want of room.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// A ledger file that is written.
#[derive(Debug)]
pub struct LedgerFile {
    path: PathBuf,
    file: File,
    network: LedgerHash,
    length: u64,
}

impl LedgerFile {
    /// Makes a file with the founding document, synced with its name.
    ///
    /// # Errors
    /// [`LedgerError::File`]; a file that is there is not overwritten.
    pub fn create(path: &Path, genesis: &Genesis) -> LedgerResult<LedgerFile> {
        let failed = |error: std::io::Error| LedgerError::file(path, error);
        let network = genesis.network();
        let mut file = OpenOptions::new().create_new(true).write(true).open(path).map_err(failed)?;
        let mut header = CanonicalWriter::default();
        header.fixed(MAGIC).u32(VERSION).u32(crc32c::crc32c(&network.0)).fixed(&network.0);
        file.write_all(&header.finish()).map_err(failed)?;
        let mut made = LedgerFile { path: path.to_owned(), file, network, length: HEADER_BYTES };
        made.append(RecordKind::Genesis, &genesis.encode())?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        Ok(made)
    }

    /// Opens a file to go on with it, and cuts its torn end. Records are shown as by [`visit_records`].
    ///
    /// # Errors
    /// Those of [`visit_records`].
    pub fn open(path: &Path, visit: &mut RecordVisitor<'_>) -> LedgerResult<(LedgerFile, FileEnd)> {
        let failed = |error: std::io::Error| LedgerError::file(path, error);
        let end = visit_records(path, visit)?;
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        let network = read_file_header(&mut file, path)?;
        if end.torn_bytes > 0 {
            file.set_len(end.whole_bytes).and_then(|()| file.sync_all()).map_err(failed)?;
        }
        Ok((LedgerFile { path: path.to_owned(), file, network, length: end.whole_bytes }, end))
    }

    /// Appends a record and waits until it is on disk. Returns its place.
    ///
    /// # Errors
    /// [`LedgerError::File`]; what was written of the record is cut off again where that is possible, and when the file is
    /// opened.
    pub fn append(&mut self, kind: RecordKind, payload: &[u8]) -> LedgerResult<u64> {
        let place = self.length;
        if payload.len() > PAYLOAD_BYTES_MAX as usize {
            return Err(LedgerError::file(
                &self.path,
                format!("a record of {} bytes is too long", payload.len()),
            ));
        }
        let header = record_header(kind.byte(), payload, place, &self.network);
        let record = [&header[..], payload].concat();
        // At its place, whatever an earlier failure has left behind: a record elsewhere would not be taken for one.
        let written = self.file.write_all_at(&record, place).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            let _ = self.file.set_len(place);
            let advice = if is_full(&error) { FULL_DISK_ADVICE } else { "" };
            return Err(LedgerError::file(
                &self.path,
                format!("a record could not be written: {error}{advice}"),
            ));
        }
        self.length += record.len() as u64;
        Ok(place)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads records of a file at places that are known, while others may be appended to it.
#[derive(Debug)]
pub struct LedgerFileReader {
    path: PathBuf,
    file: File,
    network: LedgerHash,
}

impl LedgerFileReader {
    /// The place of the first record.
    pub const FIRST_PLACE: u64 = HEADER_BYTES;

    /// Opens a file to read in it.
    ///
    /// # Errors
    /// [`LedgerError::File`] if it is no ledger file.
    pub fn open(path: &Path) -> LedgerResult<LedgerFileReader> {
        let mut file = File::open(path).map_err(|error| LedgerError::file(path, error))?;
        let network = read_file_header(&mut file, path)?;
        Ok(LedgerFileReader { path: path.to_owned(), file, network })
    }

    fn header_at(&self, place: u64) -> Option<(RecordKind, u32, u32)> {
        let mut header = [0; RECORD_HEADER_BYTES];
        self.file.read_exact_at(&mut header, place).ok()?;
        read_header(&header, place, &self.network)
    }

    /// The kind of the record at a place, and the place behind it; nothing if none begins there. Its payload is not read.
    pub fn kind_at(&self, place: u64) -> Option<(RecordKind, u64)> {
        let (kind, bytes, _) = self.header_at(place)?;
        Some((kind, place + RECORD_HEADER_BYTES as u64 + u64::from(bytes)))
    }

    /// The payload of the record at a place.
    ///
    /// # Errors
    /// [`LedgerError::File`] if there is none, or it is damaged.
    pub fn payload_at(&self, place: u64) -> LedgerResult<Vec<u8>> {
        let wrong = || LedgerError::file(&self.path, format!("no whole record is at byte {place}"));
        let (_, bytes, sum) = self.header_at(place).ok_or_else(wrong)?;
        let mut payload = vec![0; bytes as usize];
        let read = self.file.read_exact_at(&mut payload, place + RECORD_HEADER_BYTES as u64);
        read.map_err(|_| wrong())?;
        if crc32c::crc32c(&payload) == sum { Ok(payload) } else { Err(wrong()) }
    }
}
