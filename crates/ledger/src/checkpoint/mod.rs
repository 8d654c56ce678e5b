//! Logical checkpoints (section 4.5.5): every so many blocks the rows of all shared tables go into a file, from which a
//! partial replay begins. Three are kept.
//!
//! ```text
//! blocks       ... 8 ─ 9 ─ 10 ─ 11 ─ 12 ─ 13 ─ 14 ...      a checkpoint every 2 blocks
//! checkpoints      │       │         └ being written, by a thread of its own
//!                  8       10         (and 6)
//! ```
//! The dissertation keeps them as tables of the same database, where whoever changes the one changes the other, and stops
//! between blocks to make them. Here a transaction that sees one state is begun between two blocks ([`MemberSnapshot`]), and
//! read while later blocks are executed. A checkpoint whose rows do not add up to the state that its block certifies is not
//! made: something has changed the database, and that is said.
//!
//! One is made at a time: where the next one is due and the last one is not done, that one is left out.

mod format;

pub use format::{CheckpointSize, RowsVisitor, read_checkpoint, write_checkpoint};

use crate::chain::LedgerChain;
use crate::error::{LedgerError, LedgerResult};
use crate::member::snapshot::{MemberSnapshot, OpenSnapshot};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// How many checkpoints are kept.
pub const CHECKPOINTS_KEPT: usize = 3;

/// What the name of a checkpoint ends with, and that of one that is being written.
const SUFFIX: &str = ".checkpoint";
const WRITTEN_SUFFIX: &str = ".checkpoint.new";

/// Where checkpoints go, and when.
pub struct CheckpointSettings {
    /// The folder; it is made.
    pub folder: PathBuf,
    /// After how many blocks there is one.
    pub blocks: u64,
    /// Opens a snapshot of the member's database.
    pub open_snapshot: OpenSnapshot,
}

/// A checkpoint that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MadeCheckpoint {
    /// After which block.
    pub height: u64,
    /// How long it is.
    pub size: CheckpointSize,
}

/// A checkpoint that is being written.
struct RunningCheckpoint {
    height: u64,
    is_cancelled: Arc<AtomicBool>,
    thread: JoinHandle<LedgerResult<MadeCheckpoint>>,
}

/// The checkpoints of an organization.
pub struct Checkpoints {
    settings: CheckpointSettings,
    running: Option<RunningCheckpoint>,
    /// What the last ones have come to that nobody has asked for yet.
    ended: VecDeque<LedgerResult<MadeCheckpoint>>,
    /// The chain at the last checkpoints, so that a replay need not verify the blocks before them again.
    positions: VecDeque<LedgerChain>,
}

/// The checkpoints in a folder with their heights, the newest first. A folder that cannot be read has none.
pub fn find_checkpoints(folder: &Path) -> Vec<(u64, PathBuf)> {
    let height = |path: &Path| path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.parse::<u64>().ok();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<(u64, PathBuf)> =
        entries.filter_map(|path| Some((height(&path)?, path.clone()))).collect();
    found.sort();
    found.reverse();
    found
}

/// The folder beside a ledger file.
pub fn checkpoint_folder(ledger: &Path) -> PathBuf {
    ledger.with_extension("checkpoints")
}

fn sync_folder(folder: &Path) -> LedgerResult<()> {
    let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| LedgerError::file(folder, error))
}

/// Writes a checkpoint, gives it its name, and removes those that are too many.
fn make_checkpoint(
    folder: &Path,
    position: &LedgerChain,
    snapshot: &mut MemberSnapshot,
    is_cancelled: &AtomicBool,
) -> LedgerResult<MadeCheckpoint> {
    let height = position.height;
    let written = folder.join(format!("{height:012}{WRITTEN_SUFFIX}"));
    let mut check = || match is_cancelled.load(Ordering::Relaxed) {
        false => Ok(()),
        true => Err(LedgerError::Missing(format!("the checkpoint of block {height} was given up"))),
    };
    let size = write_checkpoint(&written, position, snapshot, &mut check);
    let size = size.inspect_err(|_| drop(fs::remove_file(&written)))?;
    let path = folder.join(format!("{height:012}{SUFFIX}"));
    fs::rename(&written, &path).map_err(|error| LedgerError::file(&path, error))?;
    sync_folder(folder)?;
    // Those of later blocks are of another time of this ledger's file, and are no reason to remove this one.
    let older = find_checkpoints(folder).into_iter().filter(|(other, _)| *other <= height);
    for (_, path) in older.skip(CHECKPOINTS_KEPT) {
        fs::remove_file(&path).map_err(|error| LedgerError::file(&path, error))?;
    }
    Ok(MadeCheckpoint { height, size })
}

impl Checkpoints {
    /// Makes the folder, and removes what a stop has left of a checkpoint that was being written.
    ///
    /// # Errors
    /// [`LedgerError::File`].
    pub fn open(settings: CheckpointSettings) -> LedgerResult<Checkpoints> {
        let failed = |error: std::io::Error| LedgerError::file(&settings.folder, error);
        fs::create_dir_all(&settings.folder).map_err(failed)?;
        for entry in fs::read_dir(&settings.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.to_str().is_some_and(|name| name.ends_with(WRITTEN_SUFFIX)) {
                fs::remove_file(&path).map_err(failed)?;
            }
        }
        Ok(Checkpoints { settings, running: None, ended: VecDeque::new(), positions: VecDeque::new() })
    }

    /// The checkpoints that there are, the newest first.
    pub fn found(&self) -> Vec<(u64, PathBuf)> {
        find_checkpoints(&self.settings.folder)
    }

    /// Their heights, the newest first.
    pub fn heights(&self) -> Vec<u64> {
        self.found().into_iter().map(|(height, _)| height).collect()
    }

    /// The chain at a checkpoint, if that was made since the start.
    pub(crate) fn position(&self, height: u64) -> Option<&LedgerChain> {
        self.positions.iter().find(|position| position.height == height)
    }

    /// Begins a checkpoint if one is due after the last block of this chain, which the database has just committed. Takes as
    /// long as to begin a transaction over a new connection. What goes wrong is told by [`Checkpoints::ended`], since the
    /// block is committed.
    pub(crate) fn begin(&mut self, chain: &LedgerChain) {
        if self.settings.blocks == 0 || !chain.height.is_multiple_of(self.settings.blocks) {
            return;
        }
        self.collect(false);
        if let Some(running) = &self.running {
            let (height, last) = (chain.height, running.height);
            let reason = format!("block {height} gets no checkpoint: that of block {last} is not done");
            self.ended.push_back(Err(LedgerError::Missing(reason)));
            return;
        }
        match self.start(chain) {
            Ok(running) => self.running = Some(running),
            Err(error) => self.ended.push_back(Err(error)),
        }
    }

    fn start(&mut self, chain: &LedgerChain) -> LedgerResult<RunningCheckpoint> {
        let mut snapshot = (self.settings.open_snapshot)()?;
        let height = chain.height;
        if snapshot.height() != height {
            let other = snapshot.height();
            let reason = format!("block {height} gets no checkpoint: its snapshot is of block {other}");
            return Err(LedgerError::Missing(reason));
        }
        self.positions.push_back(chain.clone());
        if self.positions.len() > CHECKPOINTS_KEPT + 1 {
            self.positions.pop_front();
        }
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let (position, folder, cancelled) =
            (chain.clone(), self.settings.folder.clone(), is_cancelled.clone());
        let thread =
            std::thread::spawn(move || make_checkpoint(&folder, &position, &mut snapshot, &cancelled));
        Ok(RunningCheckpoint { height, is_cancelled, thread })
    }

    /// Takes what a thread has come to, if it has ended or is to be waited for.
    fn collect(&mut self, waits: bool) {
        if let Some(running) = self.running.take_if(|running| waits || running.thread.is_finished()) {
            let panicked = |_| Err(LedgerError::Missing("the thread of a checkpoint has panicked".into()));
            self.ended.push_back(running.thread.join().unwrap_or_else(panicked));
        }
    }

    /// What a checkpoint has come to since the last call, the oldest first; nothing if none has ended.
    pub fn ended(&mut self) -> Option<LedgerResult<MadeCheckpoint>> {
        self.collect(false);
        self.ended.pop_front()
    }

    /// Waits for the checkpoint that is being written, if one is.
    pub fn wait(&mut self) {
        self.collect(true);
    }

    /// Gives up the checkpoint that is being written, and waits until its transaction has ended.
    pub(crate) fn cancel(&mut self) {
        if let Some(running) = &self.running {
            running.is_cancelled.store(true, Ordering::Relaxed);
        }
        self.collect(true);
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.cancel();
    }
}
