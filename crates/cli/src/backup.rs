//! `ankerdb backup` and `ankerdb restore`

use crate::progress::StageProgress;
use ankerdb_engine::{Database, NewBackup, Restored, Result, read_moment, show_moment};
use ankerdb_sql::parse_bytes;
use clap::Args;
use std::path::{Path, PathBuf};

/// Options of `backup`.
#[derive(Args)]
pub(crate) struct BackupOptions {
    /// Folder that a server keeps its database in; it may be at work there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// File to write; it must not be there yet
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write only what differs from this backup, full or incremental, which a restore needs first
    #[arg(long, value_name = "EARLIER")]
    since: Option<PathBuf>,
    /// Bytes written each second at most, such as 200MB; "0" for as fast as it goes
    #[arg(long, value_name = "SIZE", default_value = "64MB")]
    rate: String,
}

/// Options of `restore`.
#[derive(Args)]
pub(crate) struct RestoreOptions {
    /// Files that `ankerdb backup` has written: a full backup, then incremental ones, each behind the one that it was made since
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Folder to make; it must be empty, or not there yet
    #[arg(value_name = "DIR", required = true)]
    folder: PathBuf,
    /// Go on behind the last backup with the log of the folder that it was made of; a server may be at work there
    #[arg(long, value_name = "DIR")]
    log_of: Option<PathBuf>,
    /// Leave out what was committed later than this moment, such as "2026-11-28 12:00:00+01"; in UTC without a zone
    #[arg(long, value_name = "TIMESTAMP")]
    until: Option<String>,
}

/// Writes a backup. Killed, it leaves at most a file with the ending `.tmp`.
pub(crate) fn back_up(options: &BackupOptions) -> Result<()> {
    let rate = match options.rate.trim() {
        "0" => None,
        size => Some(parse_bytes("--rate", size)? as u64),
    };
    let new = NewBackup { file: &options.file, since: options.since.as_deref() };
    let report = Database::backup_folder(&options.folder, &new, rate, &|| Ok(()))?;
    let images = match &options.since {
        None => format!("{} images", report.images),
        Some(earlier) => format!(
            "{} of {} images that differ from those of \"{}\"",
            report.images_copied,
            report.images,
            earlier.display()
        ),
    };
    println!(
        "\"{}\" is a backup of \"{}\": checkpoint {} with {images}, and the log up to chunk {}; {} bytes, {:.1} s",
        options.file.display(),
        options.folder.display(),
        report.checkpoint,
        report.chunks,
        report.bytes,
        report.duration.as_secs_f64()
    );
    if report.earliest.is_known() {
        let (earliest, latest) = (show_moment(report.earliest), show_moment(report.latest));
        println!("it can be restored as of any moment from {earliest} to {latest}");
    }
    Ok(())
}

/// Makes a folder of backups.
pub(crate) fn restore(options: &RestoreOptions) -> Result<()> {
    let until = options.until.as_deref().map(read_moment).transpose()?;
    let backups: Vec<&Path> = options.files.iter().map(PathBuf::as_path).collect();
    let what = Restored { backups: &backups, log: options.log_of.as_deref(), until };
    let shown = StageProgress::new();
    let restored = Database::restore(&what, &options.folder, &|done, total| {
        shown.show("restoring", done, total);
    });
    shown.clear();
    let report = restored?;
    let names: Vec<String> = backups.iter().map(|path| format!("\"{}\"", path.display())).collect();
    let moment = until.map_or(String::new(), |until| format!(" as of {}", show_moment(until)));
    println!(
        "\"{}\" has the database of {}{moment}: {} files of {} bytes of backup, {:.1} s",
        options.folder.display(),
        names.join(", "),
        report.files,
        report.bytes,
        report.duration.as_secs_f64()
    );
    Ok(())
}
