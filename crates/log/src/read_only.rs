//! The system's disk for one that must not change it: what is written is kept in memory, in layers over the files.
//!
//! So the code that opens a database runs as it always does, cuts torn ends and removes what nobody needs, and the folder stays as it is,
//! byte for byte, also on a medium that cannot be written. A reader of a file sees its layer, as it would see what it has written.
//!
//! ```text
//! names     path ──► a file of the system's, under a layer │ a layer alone (created) │ nothing (removed)
//! layer     pages of 4 KiB that were written, and the length
//! ```
//!
//! The lock is taken for sharing, without leaving a process number: several may look at once, a server is refused meanwhile, and while a server
//! is at work those who look are refused. Where there is no lock file, as in a copy of a folder, nobody is locked out.

use crate::disk::{Disk, DiskFile, LockOutcome, read_full, told_process};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;

/// See the module. Clones have the same layers.
#[derive(Clone, Default)]
pub struct ReadOnlyDisk(Arc<Mutex<BTreeMap<PathBuf, Option<Target>>>>);

/// What a path leads to.
#[derive(Clone, Default)]
struct Target {
    /// The system's file below, by the name that it has there.
    below: Option<PathBuf>,
    layer: Arc<Mutex<Layer>>,
}

#[derive(Default)]
struct Layer {
    /// By their numbers.
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES]>>,
    /// If it is another one than that of the file below.
    length: Option<u64>,
}

impl ReadOnlyDisk {
    /// Nothing is written yet.
    pub fn new() -> ReadOnlyDisk {
        ReadOnlyDisk::default()
    }

    /// What the path leads to; names that nobody has changed are those of the system.
    fn entry(&self, path: &Path) -> io::Result<Target> {
        let mut names = self.0.lock();
        let known = names.entry(path.to_owned());
        let target =
            known.or_insert_with(|| Some(Target { below: Some(path.to_owned()), layer: Arc::default() }));
        target.clone().ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl Disk for ReadOnlyDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() { Ok(()) } else { Err(ErrorKind::NotFound.into()) }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut found = crate::disk::SystemDisk.list(folder)?;
        for (path, entry) in self.0.lock().iter().filter(|(path, _)| path.parent() == Some(folder)) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.retain(|other| *other != name);
            let is_there = |entry: &Target| entry.below.as_ref().is_none_or(|below| below.exists());
            if entry.as_ref().is_some_and(is_there) {
                found.push(name);
            }
        }
        Ok(found)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let entry = Target::default();
        entry.layer.lock().length = Some(0);
        self.0.lock().insert(path.to_owned(), Some(entry.clone()));
        Ok(Box::new(LayeredFile { below: None, layer: entry.layer }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let entry = self.entry(path)?;
        let below = entry.below.map(File::open).transpose()?;
        Ok(Box::new(LayeredFile { below, layer: entry.layer }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let entry = self.entry(from)?;
        let mut names = self.0.lock();
        names.insert(from.to_owned(), None);
        names.insert(to.to_owned(), Some(entry));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.lock().insert(path.to_owned(), None);
        Ok(())
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<LockOutcome> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(LockOutcome::Locked(Box::new(())));
            }
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(LockOutcome::Locked(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(LockOutcome::TakenBy(told_process(&mut file))),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// An open file, below its layer.
struct LayeredFile {
    below: Option<File>,
    layer: Arc<Mutex<Layer>>,
}

impl LayeredFile {
    fn length_below(&self) -> io::Result<u64> {
        self.below.as_ref().map_or(Ok(0), |file| Ok(file.metadata()?.len()))
    }

    /// A page as it is below; zeros where there is nothing.
    fn page_below(&self, number: u64) -> io::Result<Box<[u8; PAGE_BYTES]>> {
        let mut page = Box::new([0; PAGE_BYTES]);
        if let Some(file) = &self.below {
            read_full(file, &mut page[..], number * PAGE_BYTES as u64)?;
        }
        Ok(page)
    }

    /// Writes bytes, or so many zeros.
    fn put(&self, bytes: Option<&[u8]>, offset: u64, count: usize) -> io::Result<()> {
        let mut layer = self.layer.lock();
        let mut done = 0;
        while done < count {
            let (number, at) = place(offset + done as u64);
            let length = (PAGE_BYTES - at).min(count - done);
            let page = match layer.pages.entry(number) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(free) => free.insert(self.page_below(number)?),
            };
            match bytes {
                Some(bytes) => page[at..at + length].copy_from_slice(&bytes[done..done + length]),
                None => page[at..at + length].fill(0),
            }
            done += length;
        }
        let length = layer.length.map_or_else(|| self.length_below(), Ok)?;
        layer.length = Some(length.max(offset + count as u64));
        Ok(())
    }
}

/// The number of the page, and the place in it.
fn place(offset: u64) -> (u64, usize) {
    (offset / PAGE_BYTES as u64, (offset % PAGE_BYTES as u64) as usize)
}

impl DiskFile for LayeredFile {
    fn length(&self) -> io::Result<u64> {
        match self.layer.lock().length {
            Some(length) => Ok(length),
            None => self.length_below(),
        }
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let layer = self.layer.lock();
        if let (true, None, Some(file)) = (layer.pages.is_empty(), layer.length, &self.below) {
            drop(layer);
            return FileExt::read_at(file, bytes, offset);
        }
        drop(layer);
        // Page by page, of which the caller gets one.
        let left = self.length()?.saturating_sub(offset);
        let (number, at) = place(offset);
        let length = bytes.len().min(PAGE_BYTES - at).min(usize::try_from(left).unwrap_or(usize::MAX));
        match self.layer.lock().pages.get(&number) {
            Some(page) => bytes[..length].copy_from_slice(&page[at..at + length]),
            None => bytes[..length].copy_from_slice(&self.page_below(number)?[at..at + length]),
        }
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.put(Some(bytes), offset, bytes.len())?;
        Ok(bytes.len())
    }

    fn preallocate(&self, from: u64, to: u64) -> io::Result<()> {
        let count = usize::try_from(to.saturating_sub(from)).map_err(|_| ErrorKind::OutOfMemory)?;
        self.put(None, from, count)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{SystemDisk, write_full};

    /// A folder of this test's, which goes when it ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("ankerdb-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).expect("room for a folder");
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn bytes_of(disk: &ReadOnlyDisk, path: &Path) -> Vec<u8> {
        let file = disk.open(path).expect("it is there");
        let mut bytes = vec![0; file.length().expect("a length") as usize];
        assert_eq!(read_full(&*file, &mut bytes, 0).expect("read"), bytes.len());
        bytes
    }

    #[test]
    fn what_is_written_is_read_back_and_the_file_stays_as_it_is() {
        let folder = Folder::new("layers");
        let path = folder.0.join("a");
        let before: Vec<u8> = (0..10_000u32).map(|number| number as u8).collect();
        std::fs::write(&path, &before).expect("written");
        let disk = ReadOnlyDisk::new();
        assert_eq!(bytes_of(&disk, &path), before);
        let file = disk.open(&path).expect("it is there");
        write_full(&*file, &[7; 5_000], 3_000).expect("written");
        file.preallocate(9_990, 12_000).expect("there is room");
        let mut expected = before.clone();
        expected[3_000..8_000].fill(7);
        expected.resize(12_000, 0);
        expected[9_990..].fill(0);
        assert_eq!(bytes_of(&disk, &path), expected);
        assert_eq!(std::fs::read(&path).expect("it is there"), before);
    }

    #[test]
    fn names_come_and_go_in_memory_alone() {
        let folder = Folder::new("names");
        let path = |name: &str| folder.0.join(name);
        for name in ["a", "b", "c"] {
            std::fs::write(path(name), name).expect("written");
        }
        let disk = ReadOnlyDisk::new();
        disk.remove(&path("a")).expect("removed");
        disk.rename(&path("b"), &path("d")).expect("renamed");
        write_full(&*disk.create(&path("c")).expect("emptied"), b"xyz", 0).expect("written");
        let mut names = disk.list(&folder.0).expect("listed");
        names.sort();
        assert_eq!(names, ["c", "d"]);
        assert_eq!((bytes_of(&disk, &path("c")), bytes_of(&disk, &path("d"))), (b"xyz".into(), b"b".into()));
        let missing = disk.open(&path("b")).err().expect("it has another name");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let mut names = SystemDisk.list(&folder.0).expect("listed");
        names.sort();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(std::fs::read(path("c")).expect("it is there"), b"c");
    }

    #[test]
    fn a_server_keeps_those_who_look_out_and_they_keep_out_a_server() {
        let folder = Folder::new("locks");
        let path = folder.0.join("lock");
        let disk = ReadOnlyDisk::new();
        assert!(matches!(disk.lock(&path).expect("there is none"), LockOutcome::Locked(_)));
        assert!(!path.exists(), "a lock file was made");
        let LockOutcome::Locked(server) = SystemDisk.lock(&path).expect("made") else { panic!("it is new") };
        // The process that is told is this one, which is alive.
        let LockOutcome::TakenBy(Some(process)) = disk.lock(&path).expect("looked at") else {
            panic!("a server has it")
        };
        assert_eq!(process, std::process::id());
        drop(server);
        let before = std::fs::read(&path).expect("it is there");
        let both = [disk.lock(&path), ReadOnlyDisk::new().lock(&path)];
        assert!(both.iter().all(|lock| matches!(lock, Ok(LockOutcome::Locked(_)))));
        assert!(matches!(SystemDisk.lock(&path), Ok(LockOutcome::TakenBy(_))));
        assert_eq!(std::fs::read(&path).expect("it is there"), before);
    }
}
