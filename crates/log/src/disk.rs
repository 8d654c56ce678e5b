//! Every operation on files that durability is made of, so that one that drops, tears and fails can take the system's place.
//!
//! What may be relied on, of a file as of [`SystemDisk`]:
//! - What was written is read back at once, by this process and by later ones, as long as the machine runs.
//! - After a loss of power a file has what it had at its last [`sync`](DiskFile::sync), and of what was written since, any part.
//! - A name (of a created, renamed or removed file) is there to stay after [`sync_folder`](Disk::sync_folder), and not before.
//! - After a failed sync nothing is known about what was written since the one before.

use std::any::Any;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A place for files.
pub trait Disk: Send + Sync + 'static {
    /// Creates the folder and those above it, if they are not there, for good.
    ///
    /// # Errors
    /// What the system says of it.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;
    /// Names of the files in the folder, in any order.
    ///
    /// # Errors
    /// What the system says of it.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Creates a file, or empties it.
    ///
    /// # Errors
    /// What the system says of it.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file to read and write.
    ///
    /// # Errors
    /// What the system says of it.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, in the same folder.
    ///
    /// # Errors
    /// What the system says of it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// What the system says of it.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in the folder durable.
    ///
    /// # Errors
    /// What the system says of it.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// Locks the file for this process, creates it if it is missing, and leaves the process's number in it.
    ///
    /// # Errors
    /// What the system says of it.
    fn lock(&self, path: &Path) -> io::Result<LockOutcome>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Its length.
    ///
    /// # Errors
    /// What the system says of it.
    fn length(&self) -> io::Result<u64>;
    /// Reads at the place; fewer bytes than asked for may come, none at the end of the file.
    ///
    /// # Errors
    /// What the system says of it.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at the place; fewer bytes than given may be written.
    ///
    /// # Errors
    /// What the system says of it.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Writes zeros over a range, beyond the end of the file, too, so that the disk has room for it.
    ///
    /// # Errors
    /// What the system says of it.
    fn preallocate(&self, from: u64, to: u64) -> io::Result<()>;
    /// Makes durable what was written, and the file's length.
    ///
    /// # Errors
    /// What the system says of it.
    fn sync(&self) -> io::Result<()>;
}

/// What came of [`Disk::lock`].
pub enum LockOutcome {
    /// Locked until this is dropped.
    Locked(Box<dyn Any + Send + Sync>),
    /// Another process has it locked, this one if it could be told.
    TakenBy(Option<u32>),
}

/// Reads until the bytes are full or the file ends; returns how many came.
///
/// # Errors
/// What the system says of it.
pub fn read_full(file: &dyn DiskFile, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Writes all bytes; a short write is continued.
///
/// # Errors
/// What the system says of it; `WriteZero` if it takes no more bytes.
pub fn write_full(file: &dyn DiskFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The system's disk.
#[derive(Clone, Copy, Default, Debug)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
        if let Some(above) = above {
            self.create_folder(above)?;
        }
        match fs::create_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            other => other?,
        }
        self.sync_folder(above.unwrap_or(Path::new(".")))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        fs::read_dir(folder)?.map(name).collect()
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(Box::new(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<LockOutcome> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                file.write_all(format!("{}\n", std::process::id()).as_bytes())?;
                Ok(LockOutcome::Locked(Box::new(file)))
            }
            Err(TryLockError::WouldBlock) => Ok(LockOutcome::TakenBy(told_process(&mut file))),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// The process that a lock file names, if it is there: those that only look leave the number of one before them.
pub(crate) fn told_process(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let process: u32 = text.trim().parse().ok()?;
    let processes = Path::new("/proc");
    (!processes.join("self").exists() || processes.join(process.to_string()).exists()).then_some(process)
}

/// What [`SystemDisk`] writes to preallocate. Zeros, since blocks that are only promised have to be entered in the file
/// system's own log when they are first written, at the very sync that a commit waits for.
static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn preallocate(&self, from: u64, to: u64) -> io::Result<()> {
        let mut at = from;
        while at < to {
            let length = (to - at).min(ZEROS.len() as u64);
            write_full(self, &ZEROS[..length as usize], at)?;
            at += length;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
