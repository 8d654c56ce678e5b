//! `ankerdb backup` and `ankerdb restore`

use crate::progress::StageProgress;
use ankerdb_engine::{Database, Result};
use ankerdb_sql::parse_bytes;
use clap::Args;
use std::path::PathBuf;

/// Options of `backup`.
#[derive(Args)]
pub(crate) struct BackupOptions {
    /// Folder that a server keeps its database in; it may be at work there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// File to write; it must not be there yet
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Bytes written each second at most, such as 200MB; "0" for as fast as it goes
    #[arg(long, value_name = "SIZE", default_value = "64MB")]
    rate: String,
}

/// Options of `restore`.
#[derive(Args)]
pub(crate) struct RestoreOptions {
    /// File that `ankerdb backup` has written
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Folder to make; it must be empty, or not there yet
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes a backup. Killed, it leaves at most a file with the ending `.tmp`.
pub(crate) fn back_up(options: &BackupOptions) -> Result<()> {
    let rate = match options.rate.trim() {
        "0" => None,
        size => Some(parse_bytes("--rate", size)? as u64),
    };
    let report = Database::backup_folder(&options.folder, &options.file, rate, &|| Ok(()))?;
    println!(
        "\"{}\" is a backup of \"{}\": checkpoint {} with {} images, and the log up to chunk {}; {} bytes, {:.1} s",
        options.file.display(),
        options.folder.display(),
        report.checkpoint,
        report.images,
        report.chunks,
        report.bytes,
        report.duration.as_secs_f64()
    );
    Ok(())
}

/// Makes a folder of a backup.
pub(crate) fn restore(options: &RestoreOptions) -> Result<()> {
    let shown = StageProgress::new();
    let restored = Database::restore(&options.file, &options.folder, &|done, total| {
        shown.show("restoring", done, total);
    });
    shown.clear();
    let report = restored?;
    println!(
        "\"{}\" has the database of \"{}\": {} files of {} bytes of backup, {:.1} s",
        options.folder.display(),
        options.file.display(),
        report.files,
        report.bytes,
        report.duration.as_secs_f64()
    );
    Ok(())
}
