//! A disk in memory that can lose power, for tests: of this crate, and of those that use it.
//!
//! It keeps to what [`disk`](crate::disk) promises and to nothing more. What is not synced is, after a
//! [loss of power](SimulatedDisk::after_power_loss), there or not, sector by sector and in any order; names that are not synced are
//! there or not, one by one. Operations are numbered, and a [fault](Fault) can be planned for each.
//!
//! [`SimulatedDisk::ignore_syncs`] is for controls: a test that passes with it tests nothing.
//!
//! # Not here
//! Folders are durable at once, and there are no folders in folders to list.

use crate::disk::{Disk, DiskFile, LockOutcome};
use parking_lot::Mutex;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is written as a whole or not at all.
const SECTOR_BYTES: usize = 512;

/// What happens at an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The machine is off from here on: this operation and all later ones fail. A write may have been done in part.
    PowerLoss,
    /// The operation fails and does nothing; a write may have been done in part, and a failed sync forgets what it had to write.
    Error(ErrorKind),
    /// A write or a read is short: half of it is done, and that is no error.
    Short,
}

/// Which syncs are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncKind {
    /// Of what is in files.
    File,
    /// Of names.
    Folder,
}

/// See the module. Clones are the same disk.
#[derive(Clone, Default)]
pub struct SimulatedDisk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    files: BTreeMap<u64, Contents>,
    names: BTreeMap<PathBuf, u64>,
    /// Names that are there after a loss of power, if nothing of `unsynced` is.
    durable_names: BTreeMap<PathBuf, u64>,
    unsynced: Vec<NameChange>,
    folders: BTreeSet<PathBuf>,
    locked: BTreeSet<PathBuf>,
    files_made: u64,
    operations: u64,
    faults: BTreeMap<u64, Fault>,
    is_off: bool,
    ignored: Option<SyncKind>,
    space: Option<u64>,
}

#[derive(Clone, Default)]
struct Contents {
    now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<(u64, Vec<u8>)>,
}

#[derive(Clone)]
enum NameChange {
    Set(PathBuf, u64),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

fn apply_name(names: &mut BTreeMap<PathBuf, u64>, change: NameChange) {
    match change {
        NameChange::Set(path, file) => {
            names.insert(path, file);
        }
        NameChange::Remove(path) => {
            names.remove(&path);
        }
        NameChange::Rename(from, to) => {
            // Where the creation was lost there is nothing to rename.
            if let Some(file) = names.remove(&from) {
                names.insert(to, file);
            }
        }
    }
}

fn apply_write(bytes: &mut Vec<u8>, offset: u64, written: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + written.len());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(written);
}

impl SimulatedDisk {
    /// An empty one.
    pub fn new() -> SimulatedDisk {
        SimulatedDisk::default()
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// Plans a fault for the operation with this number; the first is 1.
    pub fn plan(&self, operation: u64, fault: Fault) {
        self.0.lock().faults.insert(operation, fault);
    }

    /// The power goes now.
    pub fn switch_off(&self) {
        self.0.lock().is_off = true;
    }

    /// From now on these syncs do nothing, and say that they did.
    pub fn ignore_syncs(&self, kind: SyncKind) {
        self.0.lock().ignored = Some(kind);
    }

    /// Files may have so many bytes together; `None` if as many as memory has.
    pub fn set_space(&self, bytes: Option<u64>) {
        self.0.lock().space = bytes;
    }

    /// What a later process finds after this one was killed: all that was written, synced or not. Nothing is locked, no faults are
    /// planned. What was not synced can still be lost by a loss of power.
    pub fn after_kill(&self) -> SimulatedDisk {
        let state = self.0.lock();
        SimulatedDisk(Arc::new(Mutex::new(State {
            files: state.files.clone(),
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            unsynced: state.unsynced.clone(),
            folders: state.folders.clone(),
            files_made: state.files_made,
            ..State::default()
        })))
    }

    /// What a later process finds after a loss of power; the seed decides what is left of what was not synced.
    pub fn after_power_loss(&self, seed: u64) -> SimulatedDisk {
        let mut random = fastrand::Rng::with_seed(seed);
        let state = self.0.lock();
        let mut names = state.durable_names.clone();
        for change in state.unsynced.iter().filter(|_| random.bool()) {
            apply_name(&mut names, change.clone());
        }
        let files = (state.files.iter())
            .filter(|(file, _)| names.values().any(|named| named == *file))
            .map(|(file, contents)| (*file, contents.after_power_loss(&mut random)));
        SimulatedDisk(Arc::new(Mutex::new(State {
            files: files.collect(),
            durable_names: names.clone(),
            names,
            folders: state.folders.clone(),
            files_made: state.files_made,
            ..State::default()
        })))
    }

    /// What is in a file, for tests that damage it.
    pub fn read_file(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.0.lock();
        Some(state.files[state.names.get(path)?].now.clone())
    }

    /// Puts these bytes into a file, durably, and makes it if it is not there.
    pub fn write_file(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.0.lock();
        let file = state.add_file(path);
        state.folders.extend(path.parent().map(Path::to_owned));
        state.durable_names.insert(path.to_owned(), file);
        state
            .files
            .insert(file, Contents { now: bytes.to_vec(), durable: bytes.to_vec(), unsynced: Vec::new() });
    }

    /// Removes a file, durably.
    pub fn remove_file(&self, path: &Path) {
        let mut state = self.0.lock();
        state.names.remove(path);
        state.durable_names.remove(path);
    }

    /// Paths of all files.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.lock().names.keys().cloned().collect()
    }
}

impl Contents {
    fn after_power_loss(&self, random: &mut fastrand::Rng) -> Contents {
        let mut bytes = self.durable.clone();
        for (offset, written) in &self.unsynced {
            // All of it, nothing, or some sectors.
            let fate = random.u8(0..4);
            let mut at = 0;
            while at < written.len() {
                let sector_end = SECTOR_BYTES - (*offset as usize + at) % SECTOR_BYTES;
                let end = (at + sector_end).min(written.len());
                if fate == 0 || (fate > 1 && random.bool()) {
                    apply_write(&mut bytes, offset + at as u64, &written[at..end]);
                }
                at = end;
            }
        }
        Contents { now: bytes.clone(), durable: bytes, unsynced: Vec::new() }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        apply_write(&mut self.now, offset, bytes);
        self.unsynced.push((offset, bytes.to_vec()));
    }
}

fn off() -> io::Error {
    io::Error::other("the simulated machine is off")
}

impl State {
    /// Counts an operation. Returns whether it is to be short.
    fn begin(&mut self) -> io::Result<bool> {
        if self.is_off {
            return Err(off());
        }
        self.operations += 1;
        match self.faults.get(&self.operations) {
            None => Ok(false),
            Some(Fault::Short) => Ok(true),
            Some(Fault::Error(kind)) => Err((*kind).into()),
            Some(Fault::PowerLoss) => {
                self.is_off = true;
                Err(off())
            }
        }
    }

    fn file_of(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn add_file(&mut self, path: &Path) -> u64 {
        self.files_made += 1;
        self.names.insert(path.to_owned(), self.files_made);
        self.files.insert(self.files_made, Contents::default());
        self.files_made
    }

    /// How many of the bytes there is space for.
    fn fitting(&self, file: u64, offset: u64, length: usize) -> usize {
        let Some(space) = self.space else { return length };
        let used: u64 = (self.names.values()).map(|file| self.files[file].now.len() as u64).sum();
        let length_now = self.files[&file].now.len() as u64;
        let end = length_now + space.saturating_sub(used);
        end.saturating_sub(offset).min(length as u64) as usize
    }

    fn write(&mut self, file: u64, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let was_off = self.is_off;
        let begun = self.begin();
        let is_whole = matches!(begun, Ok(false));
        // What fails or is short has been done in part.
        let wanted = if is_whole { bytes.len() } else { bytes.len().div_ceil(2) };
        let length = self.fitting(file, offset, wanted);
        let contents = self.files.get_mut(&file).ok_or(ErrorKind::NotFound)?;
        if !was_off {
            contents.write(offset, &bytes[..length]);
        }
        begun?;
        if length == 0 && !bytes.is_empty() { Err(ErrorKind::StorageFull.into()) } else { Ok(length) }
    }

    fn sync(&mut self, file: u64) -> io::Result<()> {
        let begun = self.begin();
        let is_ignored = self.ignored == Some(SyncKind::File);
        let contents = self.files.get_mut(&file).ok_or(ErrorKind::NotFound)?;
        match begun {
            Ok(_) if is_ignored => Ok(()),
            Ok(_) => {
                for (offset, bytes) in std::mem::take(&mut contents.unsynced) {
                    apply_write(&mut contents.durable, offset, &bytes);
                }
                Ok(())
            }
            Err(error) => {
                if !self.is_off {
                    contents.unsynced.clear();
                }
                Err(error)
            }
        }
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    file: u64,
}

impl DiskFile for SimulatedFile {
    fn length(&self) -> io::Result<u64> {
        let mut state = self.disk.0.lock();
        state.begin()?;
        Ok(state.files.get(&self.file).ok_or(ErrorKind::NotFound)?.now.len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.0.lock();
        let is_short = state.begin()?;
        let now = &state.files.get(&self.file).ok_or(ErrorKind::NotFound)?.now;
        let there = now.get(offset as usize..).unwrap_or_default();
        let wanted = if is_short { bytes.len().div_ceil(2) } else { bytes.len() };
        let length = there.len().min(wanted);
        bytes[..length].copy_from_slice(&there[..length]);
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.disk.0.lock().write(self.file, offset, bytes)
    }

    fn preallocate(&self, from: u64, to: u64) -> io::Result<()> {
        let zeros = vec![0; (to - from) as usize];
        let mut written = 0;
        while written < zeros.len() {
            written += self.write_at(&zeros[written..], from + written as u64)?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.0.lock().sync(self.file)
    }
}

struct Locked {
    disk: SimulatedDisk,
    path: PathBuf,
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.disk.0.lock().locked.remove(&self.path);
    }
}

impl Disk for SimulatedDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.begin()?;
        state.folders.insert(folder.to_owned());
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut state = self.0.lock();
        state.begin()?;
        if !state.folders.contains(folder) {
            return Err(ErrorKind::NotFound.into());
        }
        let inside = state.names.keys().filter(|path| path.parent() == Some(folder));
        let name = |path: &PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
        Ok(inside.filter_map(name).collect())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.0.lock();
        state.begin()?;
        let file = state.add_file(path);
        state.unsynced.push(NameChange::Set(path.to_owned(), file));
        Ok(Box::new(SimulatedFile { disk: self.clone(), file }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.0.lock();
        state.begin()?;
        let file = state.file_of(path)?;
        Ok(Box::new(SimulatedFile { disk: self.clone(), file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.begin()?;
        state.file_of(from)?;
        let change = NameChange::Rename(from.to_owned(), to.to_owned());
        apply_name(&mut state.names, change.clone());
        state.unsynced.push(change);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.begin()?;
        state.file_of(path)?;
        let change = NameChange::Remove(path.to_owned());
        apply_name(&mut state.names, change.clone());
        state.unsynced.push(change);
        Ok(())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.begin()?;
        if !state.folders.contains(folder) {
            return Err(ErrorKind::NotFound.into());
        }
        if state.ignored != Some(SyncKind::Folder) {
            for change in std::mem::take(&mut state.unsynced) {
                apply_name(&mut state.durable_names, change);
            }
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<LockOutcome> {
        let mut state = self.0.lock();
        state.begin()?;
        if !state.locked.insert(path.to_owned()) {
            return Ok(LockOutcome::TakenBy(Some(std::process::id())));
        }
        if state.file_of(path).is_err() {
            state.add_file(path);
        }
        drop(state);
        let lock: Box<dyn Any + Send + Sync> = Box::new(Locked { disk: self.clone(), path: path.to_owned() });
        Ok(LockOutcome::Locked(lock))
    }
}
