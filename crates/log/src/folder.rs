//! The folder of a log: which server is at work in it, which database it belongs to, and its segments.
//!
//! | file | |
//! | --- | --- |
//! | `lock` | locked while a server is at work, with its process number |
//! | `identity` | version of the format and the database's 128 bits; written last when a folder is made, so with it all else is there |
//! | `0000000000000001.log` ... | the segments, without gaps; those in front go when nobody has to read them any more |
//! | `backup.lock` | locked while somebody copies the files; see `pin` |
//! | `restoring` | there while the folder is being made of a backup |
//! | `*.tmp` | something that was being made; removed when the log is opened |

use crate::disk::{Disk, DiskFile, LockOutcome, read_full, write_full};
use crate::failure::{FileFailure, damaged, failed};
use crate::format::{
    DatabaseBits, FORMAT_VERSION, IDENTITY_BYTES, Refused, SEGMENT_HEADER_BYTES, SegmentHeader,
    decode_identity, encode_identity,
};
use crate::pin::are_pinned;
use crate::window::Window;
use ankerdb_base::{Error, Result, SqlState};
use std::any::Any;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";
const IDENTITY: &str = "identity";
const IDENTITY_TMP: &str = "identity.tmp";
const SEGMENT_TMP: &str = "segment.tmp";
const RESTORING: &str = "restoring";
const SEGMENT_ENDING: &str = ".log";
const SEGMENT_DIGITS: usize = 16;
/// Segments are zeroed and synced in pieces of it while commits go on, so that no flush waits long behind one.
pub(crate) const ZEROED_AT_ONCE: u64 = 1 << 20;

/// A folder that this process has locked.
pub(crate) struct Folder {
    pub(crate) database: DatabaseBits,
    pub(crate) lock: Box<dyn Any + Send + Sync>,
}

/// The segments that are to be read.
pub(crate) struct SegmentFiles {
    /// The number of the first one.
    pub(crate) first: u64,
    /// From the first one on, without a gap.
    pub(crate) segments: Vec<PathBuf>,
    /// Those behind a gap.
    pub(crate) strays: Vec<PathBuf>,
}

/// The path of a segment.
pub fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:0width$}{SEGMENT_ENDING}", width = SEGMENT_DIGITS))
}

pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SEGMENT_ENDING)?;
    (digits.len() == SEGMENT_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}

/// Locks the folder, and makes it a log's if it is empty.
pub(crate) fn open_folder(disk: &dyn Disk, folder: &Path, segment_bytes: u64) -> Result<Folder> {
    disk.create_folder(folder).map_err(failed("create the folder", folder))?;
    let names = disk.list(folder).map_err(failed("list the folder", folder))?;
    refuse_others(folder, &names)?;
    let lock = take_lock(disk, folder)?;
    let names = disk.list(folder).map_err(failed("list the folder", folder))?;
    if !has_identity(&names) {
        create(disk, folder, &names, segment_bytes)?;
    }
    let database = read_identity(disk, folder)?;
    let names = disk.list(folder).map_err(failed("list the folder", folder))?;
    for name in names.iter().filter(|name| *name == IDENTITY_TMP || *name == SEGMENT_TMP) {
        let path = folder.join(name);
        disk.remove(&path).map_err(failed("remove", &path))?;
    }
    // Names that a process before this one gave and that were not synced must not be built upon.
    disk.sync_folder(folder).map_err(failed("sync the folder", folder))?;
    Ok(Folder { database, lock })
}

/// Lists the segments from this one on; those before it are removed, unless somebody copies them. A missing segment is an error, unless what lies behind it may be
/// lost.
pub(crate) fn list_segments(
    disk: &dyn Disk,
    folder: &Path,
    first: u64,
    may_lose: bool,
) -> Result<SegmentFiles> {
    let names = disk.list(folder).map_err(failed("list the folder", folder))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    let present = numbers.iter().skip_while(|number| **number < first).zip(first..);
    let present = present.take_while(|(number, expected)| *number == expected).count();
    let unread = numbers.partition_point(|number| *number < first);
    let is_gap = present == 0 || unread + present < numbers.len();
    if is_gap && !(may_lose && present > 0) {
        return Err(missing_segment(&segment_path(folder, first + present as u64)));
    }
    let are_kept = unread > 0 && are_pinned(disk, folder)?;
    for number in numbers.drain(..unread).filter(|_| !are_kept) {
        let path = segment_path(folder, number);
        disk.remove(&path).map_err(failed("remove", &path))?;
    }
    let mut segments: Vec<PathBuf> = numbers.iter().map(|number| segment_path(folder, *number)).collect();
    let strays = segments.split_off(present);
    Ok(SegmentFiles { first, segments, strays })
}

/// XX001: a segment is not there.
pub(crate) fn missing_segment(path: &Path) -> Error {
    let message = format!("a segment of the log is missing: \"{}\"", path.display());
    Error::new(SqlState::DataCorrupted, message).with_hint(
        "Restore the file from a copy. To give up everything from there on, start once with recovery to the last valid record.",
    )
}

/// Whether a database is there as a whole.
pub(crate) fn has_identity(names: &[String]) -> bool {
    names.iter().any(|name| name == IDENTITY)
}

/// Takes the lock of a folder.
pub(crate) fn take_lock(disk: &dyn Disk, folder: &Path) -> Result<Box<dyn Any + Send + Sync>> {
    let path = &folder.join(LOCK);
    match disk.lock(path).map_err(failed("lock", path))? {
        LockOutcome::Locked(lock) => Ok(lock),
        LockOutcome::TakenBy(process) => {
            let process = process.map_or("another process".to_owned(), |pid| format!("process {pid}"));
            let message = format!("the database is in use by {process}: \"{}\" is locked", path.display());
            let hint = "Stop that server first, or choose another folder.";
            Err(Error::new(SqlState::ObjectInUse, message).with_hint(hint))
        }
    }
}

/// 55000: a folder with other files, and with neither an identity nor segments, is somebody else's. Nothing is made there, not even a
/// lock.
fn refuse_others(folder: &Path, names: &[String]) -> Result<()> {
    refuse_unfinished(folder, names)?;
    let is_ours = names.iter().any(|name| name == IDENTITY || segment_number(name).is_some());
    let is_remnant = |name: &&String| [LOCK, IDENTITY_TMP, SEGMENT_TMP].contains(&name.as_str());
    match names.iter().find(|name| !is_remnant(name)) {
        Some(other) if !is_ours => {
            let other = folder.join(other);
            let message = format!("the folder is neither empty nor a log's: it has \"{}\"", other.display());
            let hint = "Choose another folder.";
            Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message).with_hint(hint))
        }
        _ => Ok(()),
    }
}

/// 55000: a folder that was being made of a backup lacks some of it.
pub(crate) fn refuse_unfinished(folder: &Path, names: &[String]) -> Result<()> {
    if !names.iter().any(|name| name == RESTORING) {
        return Ok(());
    }
    let message =
        format!("a backup is being restored in \"{}\", or that has not come to its end", folder.display());
    let hint = "If nobody is at work there, remove what is in the folder, and restore the backup again.";
    Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message).with_hint(hint))
}

/// A folder that is being made of a copy of another one's files. Until it is finished no server starts there, also after a loss of power.
pub struct RestoredFolder<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    _lock: Box<dyn Any + Send + Sync>,
}

impl<'a> RestoredFolder<'a> {
    /// Begins in an empty folder, or makes one.
    ///
    /// # Errors
    /// 55000 if there is anything in it, 55006 if another process is at work there; those of the disk.
    pub fn begin(disk: &'a dyn Disk, folder: &'a Path) -> Result<RestoredFolder<'a>> {
        disk.create_folder(folder).map_err(failed("create the folder", folder))?;
        let names = disk.list(folder).map_err(failed("list the folder", folder))?;
        refuse_unfinished(folder, &names)?;
        if let Some(other) = names.iter().find(|name| *name != LOCK) {
            let message = format!("the folder is not empty: it has \"{}\"", folder.join(other).display());
            let hint = "Name an empty folder, or one that is not there yet.";
            return Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message).with_hint(hint));
        }
        let lock = take_lock(disk, folder)?;
        let mark = folder.join(RESTORING);
        disk.create(&mark).map_err(failed("create", &mark))?;
        disk.sync_folder(folder).map_err(failed("sync the folder", folder))?;
        Ok(RestoredFolder { disk, folder, _lock: lock })
    }

    /// Writes a small file, and puts it on disk.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.folder.join(name);
        let file = self.disk.create(&path).map_err(failed("create", &path))?;
        write_full(&*file, bytes, 0).map_err(failed("write", &path))?;
        file.sync().map_err(failed("sync", &path))
    }

    /// Ends it, when all files are on disk but the one that says which database it is.
    ///
    /// # Errors
    /// Those of the disk, after which the folder is none.
    pub fn finish(self, identity: &[u8]) -> Result<()> {
        self.write(IDENTITY, identity)?;
        self.disk.sync_folder(self.folder).map_err(failed("sync the folder", self.folder))?;
        let mark = self.folder.join(RESTORING);
        self.disk.remove(&mark).map_err(failed("remove", &mark))?;
        self.disk.sync_folder(self.folder).map_err(failed("sync the folder", self.folder))
    }
}

/// The file that says which database it is: what it says, and its bytes.
///
/// # Errors
/// XX001 if it is damaged, 0A000 if it is of a newer format; those of the disk.
pub fn identity_of(disk: &dyn Disk, folder: &Path) -> Result<([u8; 16], Vec<u8>)> {
    let database = read_identity(disk, folder)?;
    Ok((database, encode_identity(&database).to_vec()))
}

/// Makes the folder a log's: the first segment, then the identity. What an interrupted attempt has left is made anew.
fn create(disk: &dyn Disk, folder: &Path, names: &[String], segment_bytes: u64) -> Result<()> {
    refuse_others(folder, names)?;
    for name in names.iter().filter(|name| *name != LOCK) {
        let path = folder.join(name);
        let is_remnant = match segment_number(name) {
            Some(1) => is_blank_segment(disk, &path)?,
            Some(_) => false,
            None => name == IDENTITY_TMP || name == SEGMENT_TMP,
        };
        if !is_remnant {
            let missing = folder.join(IDENTITY);
            let message = format!("there are segments of a log, but \"{}\" is missing", missing.display());
            let hint = "Restore the file from a copy, or choose another folder.";
            return Err(Error::new(SqlState::DataCorrupted, message).with_hint(hint));
        }
        disk.remove(&path).map_err(failed("remove", &path))?;
    }
    let database = random_bits();
    let header = SegmentHeader { database, number: 1, bytes: segment_bytes };
    let mut making = MakingSegment::begin(disk, folder, header).map_err(FileFailure::into_error)?;
    making.step(disk, folder, u64::MAX).map_err(FileFailure::into_error)?;
    let path = folder.join(IDENTITY_TMP);
    let file = disk.create(&path).map_err(failed("create", &path))?;
    write_full(&*file, &encode_identity(&database), 0).map_err(failed("write", &path))?;
    file.sync().map_err(failed("sync", &path))?;
    disk.rename(&path, &folder.join(IDENTITY)).map_err(failed("rename", &path))?;
    disk.sync_folder(folder).map_err(failed("sync the folder", folder))?;
    Ok(())
}

/// Whether there is no chunk in the segment, nor a trace of one.
fn is_blank_segment(disk: &dyn Disk, path: &Path) -> Result<bool> {
    let file = disk.open(path).map_err(failed("open", path))?;
    let length = file.length().map_err(failed("read", path))?;
    let mut is_blank = true;
    Window::new(&*file, length)
        .scan(SEGMENT_HEADER_BYTES as u64, &mut |_, _| {
            is_blank = false;
            true
        })
        .map_err(failed("read", path))?;
    Ok(is_blank)
}

/// Which database's folder it is.
pub(crate) fn read_identity(disk: &dyn Disk, folder: &Path) -> Result<DatabaseBits> {
    let path = &folder.join(IDENTITY);
    let file = disk.open(path).map_err(failed("open", path))?;
    let mut bytes = [0; IDENTITY_BYTES];
    read_full(&*file, &mut bytes, 0).map_err(failed("read", path))?;
    decode_identity(&bytes).map_err(|refused| refusal(path, refused))
}

/// Why a file with such a header is not read.
pub(crate) fn refusal(path: &Path, refused: Refused) -> Error {
    match refused {
        Refused::Damaged => damaged(path, 0, "its header is not one"),
        Refused::Newer(version) => {
            let message = format!(
                "\"{}\" has format version {version}, this server reads up to {FORMAT_VERSION}",
                path.display()
            );
            Error::new(SqlState::FeatureNotSupported, message).with_hint("Use a newer server.")
        }
    }
}

/// 128 bits that nothing else has: the system's randomness, which the standard library seeds its hash tables with.
pub fn random_bits() -> [u8; 16] {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let word = |salt: u64| RandomState::new().hash_one((salt, now, std::process::id()));
    let mut bits = [0; 16];
    bits[..8].copy_from_slice(&word(1).to_le_bytes());
    bits[8..].copy_from_slice(&word(2).to_le_bytes());
    bits
}

/// A segment that is being made, under another name until it is whole.
pub(crate) struct MakingSegment {
    header: SegmentHeader,
    file: Box<dyn DiskFile>,
    zeroed: u64,
}

impl MakingSegment {
    pub(crate) fn begin(
        disk: &dyn Disk,
        folder: &Path,
        header: SegmentHeader,
    ) -> Result<MakingSegment, FileFailure> {
        let path = folder.join(SEGMENT_TMP);
        let file = disk.create(&path).map_err(FileFailure::of("create", &path))?;
        write_full(&*file, &header.encode(), 0).map_err(FileFailure::of("write", &path))?;
        Ok(MakingSegment { header, file, zeroed: SEGMENT_HEADER_BYTES as u64 })
    }

    /// One that is made of a segment which nobody reads any more. What lies in it is no chunk of the new one: chunks are bound to their
    /// places.
    pub(crate) fn recycle(
        disk: &dyn Disk,
        folder: &Path,
        former: u64,
        header: SegmentHeader,
    ) -> Result<MakingSegment, FileFailure> {
        let (path, former) = (folder.join(SEGMENT_TMP), segment_path(folder, former));
        disk.rename(&former, &path).map_err(FileFailure::of("rename", &former))?;
        let file = disk.open(&path).map_err(FileFailure::of("open", &path))?;
        if file.length().map_err(FileFailure::of("read", &path))? != header.bytes {
            return MakingSegment::begin(disk, folder, header);
        }
        write_full(&*file, &header.encode(), 0).map_err(FileFailure::of("write", &path))?;
        Ok(MakingSegment { zeroed: header.bytes, header, file })
    }

    /// Zeroes and syncs the next piece, of at most so many bytes. Returns the segment's header when it has its name for good.
    pub(crate) fn step(
        &mut self,
        disk: &dyn Disk,
        folder: &Path,
        at_once: u64,
    ) -> Result<Option<SegmentHeader>, FileFailure> {
        let path = folder.join(SEGMENT_TMP);
        let next = self.zeroed.saturating_add(at_once).min(self.header.bytes);
        self.file.preallocate(self.zeroed, next).map_err(FileFailure::of("make room in", &path))?;
        self.file.sync().map_err(FileFailure::of("sync", &path))?;
        self.zeroed = next;
        if next < self.header.bytes {
            return Ok(None);
        }
        let named = segment_path(folder, self.header.number);
        disk.rename(&path, &named).map_err(FileFailure::of("rename", &path))?;
        disk.sync_folder(folder).map_err(FileFailure::of("sync the folder", folder))?;
        Ok(Some(self.header))
    }

    /// The file, when it is whole.
    pub(crate) fn into_file(self) -> Box<dyn DiskFile> {
        self.file
    }
}

/// Takes back what was begun: its room may be needed.
pub(crate) fn remove_remnant(disk: &dyn Disk, folder: &Path) {
    // Another attempt empties the file anyway.
    let _ = disk.remove(&folder.join(SEGMENT_TMP));
}
