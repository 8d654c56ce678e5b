//! The log of an ordering server: what the group of ordering servers has agreed about, entry by entry, and the last vote of
//! this server in the group. The k-th entry with proposals is the order of height k.
//!
//! ```text
//! orders:       "AnKerOrd" | version 1 (4) | network (32)
//!               length (4) | CRC-32C (4) | term (8) | server (8) | index (8) | kind (1) | content
//!               ...
//! orders.vote:  "AnKerVot" | CRC-32C (4) | term (8) | server (8) | 1 if it was won, else 0 (1)
//! ```
//! An entry is synced before the server says that it has it, and so is a vote. A torn end is one that was not said, and is cut.
//! Entries that a new leader has otherwise are cut, too: they were never agreed about. What does not fit on a full disk is cut off
//! again, and is written anew when there is room.

use crate::bytes::{CanonicalReader, CanonicalWriter};
use crate::error::{LedgerError, LedgerResult};
use crate::file::is_full;
use crate::hash::LedgerHash;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const MAGIC: &[u8; 8] = b"AnKerOrd";
const VOTE_MAGIC: &[u8; 8] = b"AnKerVot";
const VERSION: u32 = 1;
const HEADER_BYTES: u64 = 44;
const FRAME_BYTES: u64 = 8;

/// The longest order; what a ledger block is around it has to fit into a message.
pub const ORDER_BYTES_MAX: usize = 32 << 20;

/// Which entry: when it was proposed, by which server, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryName {
    /// The term of the leader.
    pub term: u64,
    /// The leader.
    pub server: u64,
    /// The place in the log.
    pub index: u64,
}

/// A vote of this server in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupVote {
    /// The term.
    pub term: u64,
    /// For which server.
    pub server: u64,
    /// Whether that has become the leader.
    pub has_won: bool,
}

/// What an entry is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryContent {
    /// Nothing: a leader's first one.
    Blank,
    /// Proposals, in their order.
    Proposals(Vec<Vec<u8>>),
    /// The servers of the group.
    Group(Vec<Vec<u64>>),
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderEntry {
    /// Which one.
    pub name: EntryName,
    /// What it is about.
    pub content: EntryContent,
}

impl OrderEntry {
    /// The entry's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = CanonicalWriter::default();
        writer.u64(self.name.term).u64(self.name.server).u64(self.name.index);
        match &self.content {
            EntryContent::Blank => drop(writer.byte(0)),
            EntryContent::Proposals(proposals) => {
                writer.byte(1).count(proposals.len());
                for proposal in proposals {
                    writer.bytes(proposal);
                }
            }
            EntryContent::Group(groups) => {
                writer.byte(2).count(groups.len());
                for group in groups {
                    writer.count(group.len());
                    for server in group {
                        writer.u64(*server);
                    }
                }
            }
        }
        writer.finish()
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if it is none.
    pub fn decode(bytes: &[u8]) -> LedgerResult<OrderEntry> {
        let mut reader = CanonicalReader::new(bytes, "entry of the order log");
        let (term, server, index) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let content = match reader.byte()? {
            0 => EntryContent::Blank,
            1 => {
                let mut proposals = Vec::new();
                for _ in 0..reader.count()? {
                    proposals.push(reader.bytes()?.to_vec());
                }
                EntryContent::Proposals(proposals)
            }
            2 => {
                let mut groups = Vec::new();
                for _ in 0..reader.count()? {
                    let count = reader.count()?;
                    groups.push((0..count).map(|_| reader.u64()).collect::<LedgerResult<Vec<u64>>>()?);
                }
                EntryContent::Group(groups)
            }
            kind => return Err(LedgerError::Malformed(format!("an entry of kind {kind}"))),
        };
        reader.end()?;
        Ok(OrderEntry { name: EntryName { term, server, index }, content })
    }
}

#[derive(Debug, Clone, Copy)]
struct EntryPlace {
    at: u64,
    bytes: u32,
    name: EntryName,
}

/// What people can do about a full disk, behind what the system says about it.
const FULL_DISK_ADVICE: &str = "; nothing was signed that is not in it: make room on its file system, and the ordering server goes on by itself";

/// Why nothing can be written for want of room. Shared with those that ask while somebody else writes.
#[derive(Debug, Clone, Default)]
pub struct FullDisk(Arc<Mutex<Option<String>>>);

impl FullDisk {
    fn set(&self, reason: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// What the system has said, and what to do; nothing if the last write has succeeded.
    pub fn reason(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The log in its file.
#[derive(Debug)]
pub struct OrderLog {
    path: PathBuf,
    file: File,
    /// By index.
    places: Vec<EntryPlace>,
    end: u64,
    full_disk: FullDisk,
}

impl OrderLog {
    /// Makes an empty log.
    ///
    /// # Errors
    /// [`LedgerError::File`]; a file that is there is not overwritten.
    pub fn create(path: &Path, network: &LedgerHash) -> LedgerResult<()> {
        let failed = |error: std::io::Error| LedgerError::file(path, error);
        let mut file =
            OpenOptions::new().create_new(true).write(true).mode(0o600).open(path).map_err(failed)?;
        let header = CanonicalWriter::default().fixed(MAGIC).u32(VERSION).fixed(&network.0).finish();
        file.write_all(&header).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// Opens a log, and cuts its torn end.
    ///
    /// # Errors
    /// [`LedgerError::File`] if it is not of this network, or is damaged.
    pub fn open(path: &Path, network: &LedgerHash) -> LedgerResult<OrderLog> {
        let failed = |error: std::io::Error| LedgerError::file(path, error);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut reader = BufReader::with_capacity(1 << 20, &file);
        let expected = CanonicalWriter::default().fixed(MAGIC).u32(VERSION).fixed(&network.0).finish();
        let mut header = [0; HEADER_BYTES as usize];
        if reader.read_exact(&mut header).is_err() || header != expected[..] {
            return Err(LedgerError::file(path, "it is not the log of this network's orders"));
        }
        let (mut places, mut end): (Vec<EntryPlace>, u64) = (Vec::new(), HEADER_BYTES);
        while length - end >= FRAME_BYTES {
            let mut frame = [0; FRAME_BYTES as usize];
            reader.read_exact(&mut frame).map_err(failed)?;
            let [a, b, c, d, sum @ ..] = frame;
            let bytes = u32::from_be_bytes([a, b, c, d]);
            if u64::from(bytes) > length - end - FRAME_BYTES {
                break;
            }
            let mut entry = vec![0; bytes as usize];
            reader.read_exact(&mut entry).map_err(failed)?;
            if crc32c::crc32c(&entry).to_be_bytes() != sum {
                break;
            }
            let name = OrderEntry::decode(&entry)
                .map_err(|error| LedgerError::file(path, format!("at byte {end}: {error}")))?
                .name;
            if name.index != places.len() as u64 {
                let reason = format!("at byte {end}: entry {} instead of {}", name.index, places.len());
                return Err(LedgerError::file(path, reason));
            }
            places.push(EntryPlace { at: end + FRAME_BYTES, bytes, name });
            end += FRAME_BYTES + u64::from(bytes);
        }
        if end < length {
            file.set_len(end).and_then(|()| file.sync_all()).map_err(failed)?;
        }
        Ok(OrderLog { path: path.to_owned(), file, places, end, full_disk: FullDisk::default() })
    }

    /// The last entry.
    pub fn last(&self) -> Option<EntryName> {
        self.places.last().map(|place| place.name)
    }

    /// Appends entries, and waits until they are on disk.
    ///
    /// # Errors
    /// [`LedgerError::File`], also if they do not follow the last one.
    pub fn append(&mut self, entries: &[OrderEntry]) -> LedgerResult<()> {
        let (mut record, mut places) = (CanonicalWriter::default(), Vec::new());
        let mut end = self.end;
        for entry in entries {
            if entry.name.index != (self.places.len() + places.len()) as u64 {
                let reason = format!("entry {} does not follow the last one", entry.name.index);
                return Err(LedgerError::file(&self.path, reason));
            }
            let bytes = entry.encode();
            record.count(bytes.len()).u32(crc32c::crc32c(&bytes)).fixed(&bytes);
            places.push(EntryPlace { at: end + FRAME_BYTES, bytes: bytes.len() as u32, name: entry.name });
            end += FRAME_BYTES + bytes.len() as u64;
        }
        let written = self.file.write_all_at(&record.finish(), self.end).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            let _ = self.file.set_len(self.end);
            return Err(self.unwritten(&self.path, &error));
        }
        self.full_disk.set(None);
        self.places.extend(places);
        self.end = end;
        Ok(())
    }

    /// Whether there was room for the last write.
    pub fn full_disk(&self) -> FullDisk {
        self.full_disk.clone()
    }

    fn unwritten(&self, path: &Path, error: &std::io::Error) -> LedgerError {
        let advice = if is_full(error) { FULL_DISK_ADVICE } else { "" };
        let reason = format!("its log could not be written: {error}{advice}");
        let unwritten = LedgerError::file(path, &reason);
        self.full_disk.set(Some(reason).filter(|_| !advice.is_empty()));
        unwritten
    }

    /// Cuts the log before an entry.
    ///
    /// # Errors
    /// [`LedgerError::File`].
    pub fn cut(&mut self, index: u64) -> LedgerResult<()> {
        let Some(place) = usize::try_from(index).ok().and_then(|index| self.places.get(index).copied())
        else {
            return Ok(());
        };
        let end = place.at - FRAME_BYTES;
        let cut = self.file.set_len(end).and_then(|()| self.file.sync_all());
        cut.map_err(|error| LedgerError::file(&self.path, error))?;
        self.places.truncate(index as usize);
        self.end = end;
        Ok(())
    }

    /// An entry.
    ///
    /// # Errors
    /// [`LedgerError::File`] and [`LedgerError::Malformed`].
    pub fn read(&self, index: u64) -> LedgerResult<Option<OrderEntry>> {
        let place = usize::try_from(index).ok().and_then(|index| self.places.get(index));
        let Some(place) = place else { return Ok(None) };
        let mut bytes = vec![0; place.bytes as usize];
        let read = self.file.read_exact_at(&mut bytes, place.at);
        read.map_err(|error| LedgerError::file(&self.path, error))?;
        OrderEntry::decode(&bytes).map(Some)
    }

    /// The bytes of an entry, or 0 if there is none.
    pub fn bytes_of(&self, index: u64) -> usize {
        let place = usize::try_from(index).ok().and_then(|index| self.places.get(index));
        place.map_or(0, |place| place.bytes as usize)
    }

    fn vote_path(&self) -> PathBuf {
        self.path.with_extension("vote")
    }

    /// Writes the last vote, and waits until it is on disk.
    ///
    /// # Errors
    /// [`LedgerError::File`].
    pub fn write_vote(&mut self, vote: &GroupVote) -> LedgerResult<()> {
        let content =
            CanonicalWriter::default().u64(vote.term).u64(vote.server).byte(u8::from(vote.has_won)).finish();
        let record = CanonicalWriter::default()
            .fixed(VOTE_MAGIC)
            .u32(crc32c::crc32c(&content))
            .fixed(&content)
            .finish();
        let path = self.vote_path();
        replace_file(&path, &record).map_err(|error| self.unwritten(&path, &error))?;
        self.full_disk.set(None);
        Ok(())
    }

    /// The last vote.
    ///
    /// # Errors
    /// [`LedgerError::File`] if it is damaged.
    pub fn read_vote(&self) -> LedgerResult<Option<GroupVote>> {
        let path = self.vote_path();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LedgerError::file(&path, error)),
        };
        let mut reader = CanonicalReader::new(&bytes, "vote of an ordering server");
        let (magic, sum) = (reader.array::<8>()?, reader.u32()?);
        let is_whole =
            magic == *VOTE_MAGIC && bytes.get(12..).is_some_and(|rest| crc32c::crc32c(rest) == sum);
        if !is_whole {
            return Err(LedgerError::file(&path, "it is damaged"));
        }
        let vote = GroupVote { term: reader.u64()?, server: reader.u64()?, has_won: reader.byte()? == 1 };
        reader.end()?;
        Ok(Some(vote))
    }
}

/// Writes a file under another name, syncs it, and gives it its name.
fn replace_file(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let written = path.with_extension("new");
    let mut file = File::create(&written)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&written, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(term: u64, index: u64, content: EntryContent) -> OrderEntry {
        OrderEntry { name: EntryName { term, server: 1, index }, content }
    }

    #[test]
    fn entries_come_back_torn_ends_are_cut_and_votes_are_kept() {
        let folder = std::env::temp_dir().join(format!("order-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (path, network) = (folder.join("orders"), LedgerHash([7; 32]));
        OrderLog::create(&path, &network).expect("a file");
        let entries = [
            entry(1, 0, EntryContent::Group(vec![vec![1, 2, 3]])),
            entry(1, 1, EntryContent::Blank),
            entry(1, 2, EntryContent::Proposals(vec![vec![1, 2], Vec::new()])),
        ];
        let mut log = OrderLog::open(&path, &network).expect("a log");
        log.append(&entries).expect("entries");
        assert!(log.append(&entries[1..2]).is_err());
        let vote = GroupVote { term: 3, server: 2, has_won: true };
        log.write_vote(&vote).expect("a vote");
        let whole = std::fs::read(&path).expect("a file");
        for length in HEADER_BYTES as usize..=whole.len() {
            std::fs::write(&path, &whole[..length]).expect("a file");
            let log = OrderLog::open(&path, &network).expect("a log");
            let count = log.last().map_or(0, |last| last.index + 1);
            assert_eq!(count == 3, length == whole.len());
            for index in 0..count {
                assert_eq!(log.read(index).expect("an entry").as_ref(), Some(&entries[index as usize]));
            }
            assert_eq!(log.read_vote().expect("a vote"), Some(vote));
        }
        let mut log = OrderLog::open(&path, &network).expect("a log");
        log.cut(1).expect("it is cut");
        log.append(&[entry(2, 1, EntryContent::Blank)]).expect("another entry");
        assert_eq!(OrderLog::open(&path, &network).expect("a log").last().map(|last| last.term), Some(2));
        assert!(OrderLog::open(&path, &LedgerHash([8; 32])).is_err());
        std::fs::remove_dir_all(&folder).expect("a folder");
    }
}
