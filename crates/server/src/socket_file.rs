//! The file by which programs on this machine connect, where clients of PostgreSQL look for it: `.s.PGSQL.5432` in a folder.
//!
//! Beside it lies `.s.PGSQL.5432.lock` with the number of the process, as PostgreSQL's servers have it, so that neither takes the other's
//! place. A server of ours also holds a lock on it (`flock`), which ends with the process however that ends: what a killed
//! one has left is taken over, even if its number is another process's by now.

use ankerdb_base::{Error, Result};
use std::fmt::Display;
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// What stands in a lock file of ours behind the number of the process, where PostgreSQL has its data folder.
const OURS: &str = "ankerdb";
/// How often it is tried to make the lock's file, while others make and remove it.
const LOCK_ATTEMPTS: usize = 100;
/// Everybody on this machine may connect, as over the loopback.
const MODE: u32 = 0o777;

/// The file of a server; removed when dropped.
pub(crate) struct SocketFile {
    path: PathBuf,
    lock_path: PathBuf,
    /// Locked as long as this is there.
    _lock: File,
}

impl SocketFile {
    /// Makes the file for this port, and listens there.
    ///
    /// # Errors
    /// If another server has it, the folder is not there or cannot be written, or its path is longer than the system takes.
    pub(crate) fn bind(folder: &Path, port: u16) -> Result<(SocketFile, UnixListener)> {
        let path = folder.join(format!(".s.PGSQL.{port}"));
        let lock_path = folder.join(format!(".s.PGSQL.{port}.lock"));
        let cannot =
            |error: std::io::Error| Error::internal(format!("cannot listen on {}: {error}", path.display()));
        let mut lock = lock(&path, &lock_path)?;
        // Only one that ended without removing it can have left it.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(cannot(error)),
            _ => {}
        }
        lock.set_len(0).map_err(cannot)?;
        lock.rewind().map_err(cannot)?;
        write!(lock, "{}\n{OURS}\n", std::process::id()).map_err(cannot)?;
        let made = UnixListener::bind(&path).and_then(|listener| {
            std::fs::set_permissions(&path, Permissions::from_mode(MODE)).map(|()| listener)
        });
        match made {
            Ok(listener) => Ok((SocketFile { path, lock_path, _lock: lock }, listener)),
            Err(error) => {
                let _ = std::fs::remove_file(&lock_path);
                Err(cannot(error))
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // They may be gone already. The lock's file goes last: until then nobody else makes the socket's.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(&self.lock_path);
    }
}

/// The lock of a socket's file, taken. What others have written is never written over, wherever a link in a folder of everybody's leads.
///
/// # Errors
/// If a server that runs has it, or the file cannot be made.
fn lock(path: &Path, lock_path: &Path) -> Result<File> {
    let cannot = |why: &dyn Display| Error::internal(format!("cannot listen on {}: {why}", path.display()));
    for _ in 0..LOCK_ATTEMPTS {
        let mut options = OpenOptions::new();
        let (mut file, is_new) = match options.read(true).write(true).open(lock_path) {
            Ok(file) => (file, false),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match options.create_new(true).open(lock_path) {
                    Ok(file) => (file, true),
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                    Err(error) => return Err(cannot(&error)),
                }
            }
            Err(error) => return Err(cannot(&error)),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(path, lock_path, None)),
            Err(TryLockError::Error(error)) => return Err(cannot(&error)),
        }
        // Another server may have removed it between the two calls: then this lock is one that nobody sees.
        if !is_same(&file, lock_path) {
            continue;
        }
        let mut content = String::new();
        let _ = file.read_to_string(&mut content);
        let mut lines = content.lines();
        let process = lines.next().and_then(|line| line.trim().parse::<u32>().ok());
        if is_new || lines.next() == Some(OURS) {
            return Ok(file);
        }
        if let Some(process) = process.filter(|process| runs(*process)) {
            return Err(in_use(path, lock_path, Some(process)));
        }
        // Another product's that has ended, or something else: it gives way to a new file.
        std::fs::remove_file(lock_path).map_err(|error| cannot(&error))?;
    }
    Err(cannot(&format_args!("{} cannot be made", lock_path.display())))
}

fn in_use(path: &Path, lock_path: &Path, process: Option<u32>) -> Error {
    let by = process.map_or_else(String::new, |process| format!(" (process {process})"));
    Error::internal(format!("cannot listen on {}: in use by another server{by}", path.display())).with_hint(
        format!(
            "Choose another port or folder. If there is no such server any more, remove {}.",
            lock_path.display()
        ),
    )
}

/// Whether the path still leads to the open file.
fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(found)) => identity(open) == identity(found),
        _ => false,
    }
}

/// Whether there is a process of this number.
fn runs(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("ankerdb-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn files(&self) -> usize {
            std::fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_second_server_is_told_and_the_first_leaves_nothing() {
        let folder = Folder::new("second");
        let (first, _listener) = SocketFile::bind(&folder.0, 7).unwrap();
        let refused = SocketFile::bind(&folder.0, 7).map(drop).unwrap_err();
        assert!(refused.message().contains("in use"), "{refused}");
        let other_port = SocketFile::bind(&folder.0, 8).unwrap();
        assert_eq!(folder.files(), 4);
        drop((first, other_port));
        assert_eq!(folder.files(), 0);
        SocketFile::bind(&folder.0, 7).map(drop).unwrap();
    }

    #[test]
    fn what_a_killed_server_left_is_taken_over_and_what_postgresql_holds_is_not() {
        let folder = Folder::new("left");
        let (socket, lock) = (folder.0.join(".s.PGSQL.7"), folder.0.join(".s.PGSQL.7.lock"));
        let own = std::process::id();
        let nobody = u32::MAX;
        for (content, is_taken_over) in [
            (format!("{own}\n{OURS}\n"), true),
            (format!("{nobody}\n/var/lib/postgresql/15/main\n"), true),
            (String::new(), true),
            (format!("{own}\n/var/lib/postgresql/15/main\n1\n7\n"), false),
        ] {
            std::fs::write(&lock, &content).unwrap();
            std::fs::write(&socket, "").unwrap();
            let bound = SocketFile::bind(&folder.0, 7).map(drop);
            assert_eq!(bound.is_ok(), is_taken_over, "{content}");
        }
        assert_eq!(std::fs::read_to_string(&lock).unwrap().lines().count(), 4, "it is left as it was");
        assert!(socket.exists());
    }

    #[test]
    fn what_a_link_leads_to_is_not_written() {
        let folder = Folder::new("link");
        let (lock, other) = (folder.0.join(".s.PGSQL.7.lock"), folder.0.join("other"));
        for content in ["", "of somebody else"] {
            std::fs::write(&other, content).unwrap();
            std::os::unix::fs::symlink(&other, &lock).unwrap();
            SocketFile::bind(&folder.0, 7).map(drop).unwrap();
            assert_eq!(std::fs::read_to_string(&other).unwrap(), content);
            assert!(!lock.exists());
        }
        std::fs::remove_file(&other).unwrap();
        std::os::unix::fs::symlink(&other, &lock).unwrap();
        let refused = SocketFile::bind(&folder.0, 7).map(drop).unwrap_err();
        assert!(refused.message().contains("cannot be made"), "{refused}");
        assert!(!other.exists());
    }

    #[test]
    fn folders_that_cannot_be_used_are_named() {
        let missing = Path::new("/nowhere-at-all");
        let refused = SocketFile::bind(missing, 7).map(drop).unwrap_err();
        assert!(refused.message().contains("/nowhere-at-all/.s.PGSQL.7"), "{refused}");
        let folder = Folder::new("long");
        let long = folder.0.join("x".repeat(100));
        std::fs::create_dir(&long).unwrap();
        assert!(SocketFile::bind(&long, 7).is_err());
        assert_eq!(std::fs::read_dir(&long).unwrap().count(), 0);
    }
}
