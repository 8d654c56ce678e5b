//! Backups beside the load: full ones and incremental ones on top, made by the command while the server is killed, and killed themselves.
//!
//! ```text
//! begin    what the server shows then is the least that the backup has to have
//! end      the file has its name: the chain is restored into a folder of its own, which `ankerdb check` and all checks look at
//!          it has not: what is left is no backup, and nothing can be restored with it
//! ```

use super::load::{Acknowledged, TRANSFERS};
use super::{Kept, Plan, Plant, check, number, path_text, rest, rows};
use crate::server::attended_command;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

/// Backups of a chain, after which a new one begins.
const CHAIN_MAX: usize = 4;
/// How long a backup is let go on before something is killed.
const BACKUP_MILLIS: std::ops::Range<u64> = 0..120;
/// How long the server outlives a backup that is killed first, or a backup the server.
const BETWEEN_MILLIS: std::ops::Range<u64> = 0..40;
/// The ending of a file that is not a backup yet.
const UNFINISHED: &str = ".tmp";

/// When a backup is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BackupEnd {
    /// While the server goes on.
    BeforeServer,
    /// Where there is no server any more.
    AfterServer,
    /// Never: it goes on while the server is killed and started again.
    Never,
}

impl BackupEnd {
    /// In half of the rounds there is a backup.
    pub(super) fn drawn(random: &mut fastrand::Rng) -> Option<BackupEnd> {
        match random.u8(..8) {
            0 => Some(BackupEnd::BeforeServer),
            1 => Some(BackupEnd::AfterServer),
            2 | 3 => Some(BackupEnd::Never),
            _ => None,
        }
    }
}

/// A backup under way.
pub(super) struct BackupUnderWay {
    process: Option<Child>,
    file: PathBuf,
    end: BackupEnd,
    /// What was known to be committed when it began.
    least: Acknowledged,
}

impl BackupUnderWay {
    pub(super) fn kill_before_server(&mut self, random: &mut fastrand::Rng) -> io::Result<()> {
        rest(random, BACKUP_MILLIS);
        if self.end == BackupEnd::BeforeServer {
            self.kill()?;
            rest(random, BETWEEN_MILLIS);
        }
        Ok(())
    }

    pub(super) fn kill_after_server(&mut self, random: &mut fastrand::Rng) -> io::Result<()> {
        if self.end == BackupEnd::AfterServer {
            rest(random, BETWEEN_MILLIS);
            self.kill()?;
        }
        Ok(())
    }

    fn kill(&mut self) -> io::Result<()> {
        match &mut self.process {
            Some(process) => process.kill(),
            None => Ok(()),
        }
    }
}

impl Drop for BackupUnderWay {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// The backups of one database.
pub(super) struct Backups<'a> {
    plan: &'a Plan,
    data: &'a Path,
    folder: PathBuf,
    /// The full one and those on top that have ended well.
    chain: Vec<PathBuf>,
}

impl<'a> Backups<'a> {
    pub(super) fn new(plan: &'a Plan, data: &'a Path) -> io::Result<Backups<'a>> {
        let folder = plan.folder.join("backups");
        fs::create_dir_all(&folder)?;
        Ok(Backups { plan, data, folder, chain: Vec::new() })
    }

    /// Begins a backup, which is an incremental one if there is something that it can be made since.
    pub(super) fn begin(
        &mut self,
        server: &Kept,
        known: &Acknowledged,
        end: BackupEnd,
        random: &mut fastrand::Rng,
    ) -> io::Result<BackupUnderWay> {
        if self.chain.len() == CHAIN_MAX {
            self.chain.drain(..).try_for_each(fs::remove_file)?;
        }
        let least = least(server, known)?;
        let file = self.folder.join(format!("{}.backup", self.chain.len()));
        let mut command = attended_command(&self.plan.binary)?;
        command.args(["backup", path_text(self.data)?, path_text(&file)?]);
        command.args(["--rate", ["0", "4MB", "16MB"][random.usize(..3)]]);
        if let Some(since) = self.chain.last() {
            command.args(["--since", path_text(since)?]);
        }
        let process = Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
        Ok(BackupUnderWay { process, file, end, least })
    }

    /// Waits for a backup's end and looks at what there is of it. `most`: all that was ever committed. Returns what is wrong.
    pub(super) fn end(
        &mut self,
        mut backup: BackupUnderWay,
        most: &Acknowledged,
        report: &mut super::CrashReport,
    ) -> io::Result<Vec<String>> {
        let process = backup.process.take().expect("it is taken here only");
        let output = process.wait_with_output()?;
        let unfinished = PathBuf::from(format!("{}{UNFINISHED}", backup.file.display()));
        if self.plan.plant == Some(Plant::TornBackup) && unfinished.exists() {
            fs::rename(&unfinished, &backup.file)?;
        }
        if !backup.file.exists() {
            if backup.end == BackupEnd::Never || output.status.code().is_some() {
                return Ok(vec![format!("a backup that was not killed failed: {}", said(&output))]);
            }
            report.killed_backups += 1;
            return self.nothing_is_left(&unfinished);
        }
        report.incremental_backups += u64::from(!self.chain.is_empty());
        report.backups += 1;
        self.chain.push(backup.file.clone());
        self.is_whole(&backup.least, most)
    }

    /// What is left of a backup that was killed is not taken for one: it has not the name, and is refused under the one that it has.
    fn nothing_is_left(&self, unfinished: &Path) -> io::Result<Vec<String>> {
        let mut wrong = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path != unfinished && !self.chain.contains(&path) {
                wrong.push(format!("a backup that was killed has left {}", path.display()));
            }
        }
        if !unfinished.exists() {
            return Ok(wrong);
        }
        let files: Vec<&Path> = self.chain.iter().map(PathBuf::as_path).chain([unfinished]).collect();
        let (output, restored) = self.restore(&files)?;
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        // Killed between its last byte and its name it is whole. Then there is nothing to refuse.
        if !output.status.success() {
            if !message.contains(path_text(unfinished)?) {
                wrong.push(format!("the rest of a backup that was killed is refused so: {message}"));
            }
            if restored.exists() && fs::read_dir(&restored)?.next().is_some() {
                wrong.push(format!("a restore that was refused has left files in {}", restored.display()));
            }
        }
        if wrong.is_empty() {
            remove_if_there(&restored)?;
        }
        Ok(wrong)
    }

    /// The chain is restored, and has all that was committed when its last backup began.
    fn is_whole(&self, least: &Acknowledged, most: &Acknowledged) -> io::Result<Vec<String>> {
        let mut files: Vec<&Path> = self.chain.iter().map(PathBuf::as_path).collect();
        if self.plan.plant == Some(Plant::StaleBackup) && files.len() > 1 {
            files.pop();
        }
        let (output, restored) = self.restore(&files)?;
        if !output.status.success() {
            return Ok(vec![format!("a backup that ended cannot be restored: {}", said(&output))]);
        }
        let mut looks = attended_command(&self.plan.binary)?;
        let looked = looks.args(["check", path_text(&restored)?]).output()?;
        if !looked.status.success() {
            return Ok(vec![format!("a restored folder has faults: {}", said(&looked))]);
        }
        let server = Kept::start(self.plan, &restored)?;
        let wrong = check::check(&mut server.connect()?, &mut least.up_to(most))?;
        drop(server);
        if wrong.is_empty() {
            remove_if_there(&restored)?;
        }
        Ok(wrong.into_iter().map(|told| format!("of a backup: {told}")).collect())
    }

    /// Runs the command that restores files into a new folder.
    fn restore(&self, files: &[&Path]) -> io::Result<(Output, PathBuf)> {
        let restored = self.plan.folder.join("restored");
        let mut command = attended_command(&self.plan.binary)?;
        command.arg("restore").args(files).arg(&restored);
        Ok((command.output()?, restored))
    }
}

/// What a backup that begins now has to have: what is known, and what a query shows, which waits for the disk.
fn least(server: &Kept, known: &Acknowledged) -> io::Result<Acknowledged> {
    let mut client = server.connect()?;
    let mut least = known.clone();
    let counts = rows(&mut client, "SELECT value FROM counter ORDER BY worker")?;
    for (worker, row) in counts.iter().enumerate().take(TRANSFERS) {
        let value = row.first().and_then(|value| value.parse().ok());
        let value = value.ok_or_else(|| io::Error::other("a counter is no number"))?;
        least.transfers[worker].found(value);
        least.seen[worker] = value;
    }
    least.keys.found(number(&mut client, "SELECT value FROM keys_done WHERE id = 1")? as u64);
    Ok(least)
}

/// What a command has said.
fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{} {}{}", output.status, text(&output.stdout), text(&output.stderr))
}

fn remove_if_there(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
