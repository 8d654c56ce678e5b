//! The kill test: a server that keeps its data in a folder is killed at random moments, also while it recovers, and started again; then all
//! that it had acknowledged must be there, and nothing half done.
//!
//! ```text
//! load     one connection each: transfers and their journal, the same without waiting for the disk, batches of many rows, definitions,
//!          keys that come and go, a reader, checkpoints
//! kill     SIGKILL after a random time; now and then once more in the middle of the recovery
//! check    every acknowledged commit, no half transaction, indexes as their tables, what the reader had seen
//! backup   in half of the rounds: begun shortly before the kill, and killed before the server, after it, or not at all
//! ```
//! What is killed is the process, not the machine: what it had handed to the system is there. What a machine without power loses is tested
//! with a simulated disk, in the crate of the log.

mod backup;
mod check;
mod load;

use crate::server::{attended_ankerdb, first_address};
use crate::wire::ServerConnection;
use backup::{BackupEnd, Backups};
use load::{Acknowledged, CrashLoad};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

/// Accounts that money is moved between.
const ACCOUNTS: u64 = 50;
/// What each of them has at the beginning.
const BALANCE: i64 = 1_000;
/// How long a round lasts.
const ROUND_MILLIS: std::ops::Range<u64> = 30..900;
/// How long a recovery is let go on, where it is killed.
const RECOVERY_MILLIS: std::ops::Range<u64> = 0..60;

/// What is to be done.
pub struct Plan {
    /// The command `ankerdb`.
    pub binary: PathBuf,
    /// Where the folder of the database and that of its backups are made. It must be empty.
    pub folder: PathBuf,
    /// How often it is killed.
    pub rounds: u64,
    /// Of the random moments.
    pub seed: u64,
    /// A fault that the checks must find.
    pub plant: Option<Plant>,
}

/// A fault of the judge's own, made to see that it is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// Nobody waits for the disk.
    Loss,
    /// The last incremental backup is left out where it should be restored.
    StaleBackup,
    /// What is left of a backup that was killed gets the name of one that has ended.
    TornBackup,
}

impl Plant {
    /// The fault of this name.
    pub fn named(name: &str) -> Option<Plant> {
        match name {
            "loss" => Some(Plant::Loss),
            "stale-backup" => Some(Plant::StaleBackup),
            "torn-backup" => Some(Plant::TornBackup),
            _ => None,
        }
    }
}

/// What was done.
#[derive(Default, Debug)]
pub struct CrashReport {
    /// Kills while statements ran.
    pub kills: u64,
    /// Kills while it recovered.
    pub kills_in_recovery: u64,
    /// Commits that were acknowledged.
    pub commits: u64,
    /// Checkpoints that were made.
    pub checkpoints: u64,
    /// Backups that ended well, and were restored.
    pub backups: u64,
    /// Those of them that were incremental.
    pub incremental_backups: u64,
    /// Backups that were killed before they had ended.
    pub killed_backups: u64,
    /// What was wrong; none if all is well.
    pub violations: Vec<String>,
}

/// A server that can be killed.
struct Kept {
    process: Child,
    address: SocketAddr,
}

impl Kept {
    fn start(plan: &Plan, folder: &Path) -> io::Result<Kept> {
        let (process, address) = first_address(spawn(plan, folder)?)?;
        Ok(Kept { process, address })
    }

    fn connect(&self) -> io::Result<ServerConnection> {
        ServerConnection::connect(self.address, "judge", "ankerdb")
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(plan: &Plan, folder: &Path) -> io::Result<Child> {
    attended_ankerdb(&plan.binary, &["--data-dir", path_text(folder)?])
}

fn path_text(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| io::Error::other("the folder's path is not text"))
}

/// Carries the plan out. Ends at the first round in which something is wrong.
///
/// # Errors
/// If the server does not start, or answers what no statement here can lead to.
pub fn run(plan: &Plan) -> io::Result<CrashReport> {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let mut report = CrashReport::default();
    let mut known = Acknowledged::default();
    let data = plan.folder.join("data");
    let mut backups = Backups::new(plan, &data)?;
    let mut server = Kept::start(plan, &data)?;
    load::set_up(&mut server.connect()?)?;
    for round in 0..plan.rounds {
        let load = CrashLoad::start(server.address, &known, plan.plant == Some(Plant::Loss), random.u64(..))?;
        rest(&mut random, ROUND_MILLIS);
        let mut backup = match BackupEnd::drawn(&mut random) {
            Some(end) => Some(backups.begin(&server, &known, end, &mut random)?),
            None => None,
        };
        if let Some(backup) = &mut backup {
            backup.kill_before_server(&mut random)?;
        }
        drop(server);
        report.kills += 1;
        if let Some(backup) = &mut backup {
            backup.kill_after_server(&mut random)?;
        }
        let mut wrong = load.end(&mut known);
        while random.u8(..4) == 0 {
            let mut recovering = spawn(plan, &data)?;
            rest(&mut random, RECOVERY_MILLIS);
            recovering.kill()?;
            recovering.wait()?;
            report.kills_in_recovery += 1;
        }
        server = Kept::start(plan, &data)?;
        wrong.extend(check::check(&mut server.connect()?, &mut known)?);
        // After the check nothing writes, so what a backup has is at most what is known now.
        if let Some(backup) = backup {
            wrong.extend(backups.end(backup, &known, &mut report)?);
        }
        report.violations.extend(wrong.into_iter().map(|told| format!("round {round}: {told}")));
        report.commits = known.commits();
        report.checkpoints = known.checkpoints;
        if !report.violations.is_empty() {
            break;
        }
    }
    Ok(report)
}

fn rest(random: &mut fastrand::Rng, millis: std::ops::Range<u64>) {
    std::thread::sleep(Duration::from_millis(random.u64(millis)));
}

/// The rows of a query.
fn rows(client: &mut ServerConnection, sql: &str) -> io::Result<Vec<Vec<String>>> {
    let answer = client.simple(sql)?;
    match answer.error {
        Some(state) => Err(io::Error::other(format!("{sql}: {state} {}", answer.message))),
        None => {
            let text = |value: Option<String>| value.unwrap_or_default();
            Ok(answer.rows.into_iter().map(|row| row.into_iter().map(text).collect()).collect())
        }
    }
}

/// The one number that a query gives.
fn number(client: &mut ServerConnection, sql: &str) -> io::Result<i64> {
    let found = rows(client, sql)?;
    let found = found.first().and_then(|row| row.first()).and_then(|value| value.parse().ok());
    found.ok_or_else(|| io::Error::other(format!("{sql}: no number")))
}

/// Whether a path is a folder without anything in it, or can be made one.
///
/// # Errors
/// If it is something else.
pub fn empty_folder(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)?;
    match std::fs::read_dir(path)?.next() {
        None => Ok(()),
        Some(_) => Err(io::Error::other(format!("{} is not empty", path.display()))),
    }
}
