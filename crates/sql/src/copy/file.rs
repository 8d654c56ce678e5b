//! Files on the server that COPY reads and writes.
//!
//! A client may read and write what the operator has given away, and nothing else: the files below one folder. There are
//! no roles to ask, and where no folder was named there are no files. A path is looked at with all of its links followed.
//!
//! A name that ends in `.gz` or `.zst` is that of a compressed file, unless COMPRESSION says something else.

use super::options::Compression;
use ankerdb_engine::{Error, Result, SqlState};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Linux's flags for `open`: no wait for the other end of a pipe, and no link at the end of the path.
const NO_WAIT_NO_LINK: i32 = 0o4000 | 0o400_000;
/// Bytes that are written at a time.
const WRITE_BYTES: usize = 256 * 1024;
/// Tells names of files that are not whole apart.
static NEXT_TEMPORARY: AtomicU64 = AtomicU64::new(0);
/// zstd's own default.
const ZSTD_LEVEL: i32 = 3;

/// A file that COPY FROM reads.
pub struct SourceFile {
    reader: Box<dyn Read + Send>,
    name: String,
}

impl SourceFile {
    /// # Errors
    /// 42501, 58P01, 42809, as PostgreSQL.
    pub(super) fn open(
        folder: Option<&Path>,
        name: &str,
        compression: Option<Compression>,
    ) -> Result<SourceFile> {
        let file = open_source(folder, name)?;
        let reader: Box<dyn Read + Send> = match compression.unwrap_or_else(|| Compression::of(name)) {
            Compression::None => Box::new(file),
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(file)),
            Compression::Zstd => {
                Box::new(zstd::Decoder::new(file).map_err(|error| failed("read from", &error))?)
            }
        };
        Ok(SourceFile { reader, name: name.to_owned() })
    }

    /// Reads the next bytes; none at the end.
    ///
    /// # Errors
    /// 58030; 22P04 for a compressed file that is none.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            match self.reader.read(into) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_malformed(&error) => {
                    let message = format!("could not decompress file \"{}\": {error}", self.name);
                    return Err(Error::new(SqlState::BadCopyFileFormat, message));
                }
                read => return read.map_err(|error| failed("read from", &error)),
            }
        }
    }
}

/// A file to be read as it lies.
///
/// # Errors
/// 42501, 58P01, 42809, as PostgreSQL.
pub(super) fn open_source(folder: Option<&Path>, name: &str) -> Result<File> {
    let folder = allowed_folder(folder, "COPY from a file")?;
    let cannot = |error: io::Error| cannot_open(name, "reading", "FROM", &error);
    let path = folder.join(name).canonicalize().map_err(cannot)?;
    check_below(&path, &folder, name, "reading")?;
    let file = OpenOptions::new().read(true).custom_flags(NO_WAIT_NO_LINK).open(&path).map_err(cannot)?;
    check_kind(&file, name)?;
    Ok(file)
}

/// Whether it is the data, not the reading of it.
fn is_malformed(error: &io::Error) -> bool {
    error.raw_os_error().is_none()
}

/// A file that COPY TO writes.
pub struct TargetFile {
    writer: Option<Writer>,
    /// Where it is put when it is whole.
    place: Option<Place>,
}

/// A file that nobody sees before it is whole: it is written under a name of its own, and renamed at the end.
struct Place {
    temporary: PathBuf,
    path: PathBuf,
}

enum Writer {
    Plain(BufWriter<File>),
    Gzip(Box<flate2::write::GzEncoder<BufWriter<File>>>),
    Zstd(Box<zstd::Encoder<'static, BufWriter<File>>>),
}

impl TargetFile {
    /// # Errors
    /// 42501, 42602, 58P01, 42809, as PostgreSQL.
    pub(super) fn create(
        folder: Option<&Path>,
        name: &str,
        compression: Option<Compression>,
    ) -> Result<TargetFile> {
        let path = target_path(folder, name)?;
        let cannot = |error: io::Error| cannot_open(name, "writing", "TO", &error);
        let mut open = OpenOptions::new();
        open.write(true).create(true).custom_flags(NO_WAIT_NO_LINK).mode(0o644);
        let file = match open.open(&path) {
            Err(_) if path.is_dir() => return Err(is_directory(name)),
            opened => opened.map_err(cannot)?,
        };
        check_kind(&file, name)?;
        // What is no file was not cut off.
        file.set_len(0).map_err(cannot)?;
        let buffered = BufWriter::with_capacity(WRITE_BYTES, file);
        let writer = match compression.unwrap_or_else(|| Compression::of(name)) {
            Compression::None => Writer::Plain(buffered),
            Compression::Gzip => {
                let encoder = flate2::write::GzEncoder::new(buffered, flate2::Compression::default());
                Writer::Gzip(Box::new(encoder))
            }
            Compression::Zstd => {
                let encoder = zstd::Encoder::new(buffered, ZSTD_LEVEL);
                Writer::Zstd(Box::new(encoder.map_err(|error| failed("write to", &error))?))
            }
        };
        Ok(TargetFile { writer: Some(writer), place: None })
    }

    /// A file that takes the place of the one with that name when it is whole, and not before.
    ///
    /// # Errors
    /// Those of [`create`](Self::create).
    pub(super) fn replace(folder: Option<&Path>, name: &str) -> Result<TargetFile> {
        let path = target_path(folder, name)?;
        let cannot = |error: io::Error| cannot_open(name, "writing", "TO", &error);
        match File::open(&path) {
            _ if path.is_dir() => return Err(is_directory(name)),
            Ok(old) => check_kind(&old, name)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(cannot(error)),
        }
        let (Some(folder), Some(file_name)) = (path.parent(), path.file_name()) else {
            return Err(is_directory(name));
        };
        let number = NEXT_TEMPORARY.fetch_add(1, Ordering::Relaxed);
        let end = format!(".{}-{number}.tmp", std::process::id());
        let mut temporary = file_name.to_owned();
        temporary.push(end);
        let temporary = folder.join(temporary);
        let mut open = OpenOptions::new();
        open.write(true).create_new(true).custom_flags(NO_WAIT_NO_LINK).mode(0o644);
        let file = open.open(&temporary).map_err(cannot)?;
        let writer = Writer::Plain(BufWriter::with_capacity(WRITE_BYTES, file));
        Ok(TargetFile { writer: Some(writer), place: Some(Place { temporary, path }) })
    }

    /// Writes bytes behind those before.
    ///
    /// # Errors
    /// 58030, 53100.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match &mut self.writer {
            Some(Writer::Plain(writer)) => writer.write_all(bytes),
            Some(Writer::Gzip(writer)) => writer.write_all(bytes),
            Some(Writer::Zstd(writer)) => writer.write_all(bytes),
            None => return Err(Error::internal("a COPY file is written to after its end")),
        };
        written.map_err(|error| failed("write to", &error))
    }

    /// Writes what is left, and puts the file into its place.
    ///
    /// # Errors
    /// 58030, 53100.
    pub fn finish(mut self) -> Result<()> {
        let ended = match self.writer.take() {
            Some(Writer::Plain(writer)) => Ok(writer),
            Some(Writer::Gzip(writer)) => writer.finish(),
            Some(Writer::Zstd(writer)) => writer.finish(),
            None => return Err(Error::internal("a COPY file is ended twice")),
        };
        let flushed = ended.and_then(|mut writer| writer.flush().map(|()| writer));
        let writer = flushed.map_err(|error| failed("write to", &error))?;
        if let Some(Place { temporary, path }) = &self.place {
            // Else a crash of the system could leave an empty file in the place of the old one.
            writer.get_ref().sync_data().map_err(|error| failed("write to", &error))?;
            fs::rename(temporary, path).map_err(|error| failed("rename", &error))?;
            self.place = None;
        }
        Ok(())
    }
}

/// What is not whole is removed.
impl Drop for TargetFile {
    fn drop(&mut self) {
        if let Some(Place { temporary, .. }) = &self.place {
            // That it cannot be removed is no error of the statement, which has one already.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Where a file with that name is to be.
///
/// # Errors
/// 42501, 42602, 58P01.
fn target_path(folder: Option<&Path>, name: &str) -> Result<PathBuf> {
    let folder = allowed_folder(folder, "COPY to a file")?;
    if !Path::new(name).is_absolute() {
        let message = "relative path not allowed for COPY to file";
        return Err(Error::new(SqlState::InvalidName, message));
    }
    let path = resolved(Path::new(name)).map_err(|error| cannot_open(name, "writing", "TO", &error))?;
    check_below(&path, &folder, name, "writing")?;
    Ok(path)
}

/// The path with all links followed, whether or not there is a file yet.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => {
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Err(error) };
            Ok(folder.canonicalize()?.join(name))
        }
        resolved => resolved,
    }
}

fn allowed_folder(folder: Option<&Path>, what: &str) -> Result<PathBuf> {
    let folder = folder.and_then(|folder| folder.canonicalize().ok());
    folder.ok_or_else(|| {
        let message = format!("permission denied to {what}");
        let hint = "Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone. \
                    The server's option --copy-folder names a folder whose files COPY may use.";
        let detail = "The server was started without a folder for COPY.";
        Error::new(SqlState::InsufficientPrivilege, message).with_detail(detail).with_hint(hint)
    })
}

fn check_below(path: &Path, folder: &Path, name: &str, purpose: &str) -> Result<()> {
    if path.starts_with(folder) {
        return Ok(());
    }
    let message = format!("could not open file \"{name}\" for {purpose}: Permission denied");
    let detail = format!("COPY may use the files below \"{}\".", folder.display());
    Err(Error::new(SqlState::InsufficientPrivilege, message).with_detail(detail))
}

/// Only files have an end that comes without somebody else.
fn check_kind(file: &File, name: &str) -> Result<()> {
    match file.metadata().map_err(|error| failed("read from", &error))? {
        data if data.is_file() => Ok(()),
        data if data.is_dir() => Err(is_directory(name)),
        _ => Err(Error::new(SqlState::WrongObjectType, format!("\"{name}\" is not a regular file"))),
    }
}

fn is_directory(name: &str) -> Error {
    Error::new(SqlState::WrongObjectType, format!("\"{name}\" is a directory"))
}

/// The system's words without its number, as PostgreSQL shows them.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

fn cannot_open(name: &str, purpose: &str, direction: &str, error: &io::Error) -> Error {
    let state = match error.kind() {
        ErrorKind::NotFound => SqlState::UndefinedFile,
        ErrorKind::PermissionDenied => SqlState::InsufficientPrivilege,
        _ => SqlState::IoError,
    };
    let message = format!("could not open file \"{name}\" for {purpose}: {}", reason(error));
    let verb = if direction == "TO" { "write" } else { "read" };
    let hint = format!(
        "COPY {direction} instructs the PostgreSQL server process to {verb} a file. You may want a client-side facility such \
         as psql's \\copy."
    );
    Error::new(state, message).with_hint(hint)
}

pub(super) fn failed(what: &str, error: &io::Error) -> Error {
    let state = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => SqlState::DiskFull,
        _ => SqlState::IoError,
    };
    Error::new(state, format!("could not {what} COPY file: {}", reason(error)))
}
