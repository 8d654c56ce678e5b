//! `ankerdb check`

use crate::progress::StageProgress;
use ankerdb_engine::{CheckProgress, CheckReport, CheckStage, Database, Error, Result};
use ankerdb_sql::KeptTexts;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Options of `check`.
#[derive(Args)]
pub(crate) struct CheckOptions {
    /// Folder that a server keeps its database in; no server may be at work there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// What ended with faults.
const FAULTS: u8 = 1;

/// Looks at the folder, and says what there is. The exit code is 0 without faults, and 1 with some.
///
/// # Errors
/// What keeps from looking.
pub(crate) fn run(options: &CheckOptions) -> Result<ExitCode> {
    let shown = Arc::new(StageProgress::new());
    let progress: CheckProgress = {
        let shown = shown.clone();
        Arc::new(move |stage, done, total| shown.show(name_of(stage), done, total))
    };
    let checked =
        Database::check(&options.folder, ankerdb_engine::Options::default(), &KeptTexts::new(), &progress);
    shown.clear();
    let report = checked?;
    for fault in &report.faults {
        println!("fault: {}", line_of(fault));
    }
    let untold = report.fault_count - report.faults.len() as u64;
    if untold > 0 {
        println!("and {untold} more");
    }
    println!("{}", summary(&options.folder.display().to_string(), &report));
    Ok(if report.fault_count == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAULTS) })
}

fn name_of(stage: CheckStage) -> &'static str {
    match stage {
        CheckStage::Files => "reading files",
        CheckStage::Recovery => "recovering",
        CheckStage::Tables => "looking at rows and indexes",
    }
}

/// Message, detail and hint in one line.
fn line_of(fault: &Error) -> String {
    let parts = [Some(fault.message()), fault.detail(), fault.hint()];
    let parts: Vec<&str> = parts.into_iter().flatten().map(|part| part.trim_end_matches('.')).collect();
    parts.join(". ").replace('\n', " ")
}

fn summary(folder: &str, report: &CheckReport) -> String {
    let outcome = match report.fault_count {
        0 => "no faults".to_owned(),
        1 => "1 fault".to_owned(),
        count => format!("{count} faults"),
    };
    let tables = match report.has_seen_tables {
        true => format!("{} tables, {} rows, {} indexes", report.tables, report.rows, report.indexes),
        false => "tables not looked at, since files are damaged".to_owned(),
    };
    let torn = match report.torn_bytes {
        0 => String::new(),
        bytes => format!(", a torn end of {bytes} bytes, which the next start cuts off"),
    };
    format!(
        "{outcome} in \"{folder}\": {tables}; {} images of {} bytes, {} segments of the log with {} chunks of {} bytes{torn}; {:.1} s",
        report.images,
        report.image_bytes,
        report.segments,
        report.chunks,
        report.log_bytes,
        report.duration.as_secs_f64()
    )
}
