//! The log as a whole: opened, started, waited for, closed.

use crate::appender::{Appender, Shared};
use crate::disk::Disk;
use crate::failure::{FileFailure, failed};
use crate::flusher::{Flusher, Registry};
use crate::folder::{list_segments, open_folder, segment_path};
use crate::options::{LogOptions, Loss, OnFailure};
use crate::pace::Pace;
use crate::pin::are_pinned;
use crate::position::Position;
use crate::record::{LogStart, Replay};
use crate::replay::replay;
use crate::room::{Room, closed};
use crate::segments::Segments;
use ankerdb_base::{Error, Result, SqlState, Timestamp};
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// An open log. See the crate.
pub struct Log {
    shared: Arc<Shared>,
    registry: Arc<Registry>,
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    database: [u8; 16],
    incarnation: u64,
    last_timestamp: Timestamp,
    loss: Option<Loss>,
    /// The number of the first segment that is there as such. Held while segments are given up.
    first: Mutex<u64>,
    on_failure: OnFailure,
    stage: Mutex<Stage>,
    lock: Mutex<Option<Box<dyn Any + Send + Sync>>>,
}

enum Stage {
    Opened(Box<Segments>),
    /// The flusher says at its end whether it failed.
    Started(JoinHandle<Result<(), String>>),
    Closed,
}

/// Opens the log in a folder, which is created if it is not there, and made a log's if it is empty. All records that were
/// acknowledged, and possibly some more, go to `visit`, in each pass that it wants: those of commits in the order of their timestamps, those without a timestamp
/// in the order in which they were flushed, each of these before all commits that were appended after it.
///
/// # Errors
/// 55006 if another process is at work in the folder; XX001 if something is damaged, missing or another database's; 0A000 if it is of
/// a newer format; 53100 if there is no room; 42501 and 58030 if files cannot be read or written. Nothing is changed then but the
/// torn end, which is cut. Errors of `visit` are passed on.
pub fn open(disk: Arc<dyn Disk>, folder: &Path, options: &LogOptions, visit: &mut dyn Replay) -> Result<Log> {
    let segment_bytes = options.segment_bytes();
    let record_bytes_max = options.record_bytes_max();
    let opened = open_folder(&*disk, folder, segment_bytes)?;
    let start = visit.begin(opened.database)?;
    let files = list_segments(&*disk, folder, start.segment, options.recover_to_last_valid)?;
    let found = replay(&*disk, folder, opened.database, files, &start, options, visit)?;
    let incarnation = found.incarnation + 1;
    let position = Position::new(found.present_start, found.chunks);
    let segments = Segments {
        disk: disk.clone(),
        folder: folder.to_owned(),
        database: opened.database,
        segment_bytes,
        record_bytes_max,
        incarnation,
        chunks: found.chunks,
        present: found.present,
        ready: found.ready,
        making: None,
    };
    let room = Room::default();
    room.written(0, segments.capacity());
    let pace = Pace::new(found.last_timestamp);
    Ok(Log {
        shared: Arc::new(Shared { pace, room, position, record_bytes_max, segment_bytes }),
        registry: Arc::default(),
        disk,
        folder: folder.to_owned(),
        first: Mutex::new(start.segment),
        database: opened.database,
        incarnation,
        last_timestamp: found.last_timestamp,
        loss: found.loss,
        on_failure: options.on_failure.clone().unwrap_or_else(|| Arc::new(end_process)),
        stage: Mutex::new(Stage::Opened(Box::new(segments))),
        lock: Mutex::new(Some(opened.lock)),
    })
}

/// After a failed write or sync nobody knows what is on disk, and acknowledging anything on top of it would be a guess.
fn end_process(what: &str) {
    eprintln!("ankerdb: {what}: the server ends, since nothing can be made durable any more");
    std::process::abort();
}

impl Log {
    /// The database's identity: 128 random bits, drawn when the folder was made.
    pub fn database(&self) -> [u8; 16] {
        self.database
    }

    /// The number of this run over the folder: that of the records that are appended now.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The largest timestamp that was read, also of records that were dropped: the commit order has to begin behind it.
    pub fn last_timestamp(&self) -> Timestamp {
        self.last_timestamp
    }

    /// The longest payload of one record.
    pub fn record_bytes_max(&self) -> usize {
        self.shared.record_bytes_max
    }

    /// From where on the log has what is appended from now on: the beginning of the segment that is written.
    pub fn position(&self) -> LogStart {
        self.shared.position.segment()
    }

    /// How many chunks the log has had, in all its segments, that are on disk: at least those that hold what is durable.
    pub fn chunks(&self) -> u64 {
        self.shared.position.chunks()
    }

    /// Bytes written since the log was opened.
    pub fn bytes_written(&self) -> u64 {
        self.shared.position.bytes()
    }

    /// Segments before this one will not be read any more: later ones are made of some of them, the others are removed. While somebody
    /// [copies them](crate::pin_files) they stay, for a later call.
    ///
    /// # Errors
    /// 42501 and 58030 if one cannot be removed. They are as good as gone, and the next opening tries again.
    pub fn give_up_before(&self, segment: u64) -> Result<()> {
        let mut first = self.first.lock();
        if *first < segment && are_pinned(&*self.disk, &self.folder)? {
            return Ok(());
        }
        while *first < segment {
            let number = *first;
            *first += 1;
            if !self.shared.position.keep_spare(number) {
                let path = segment_path(&self.folder, number);
                self.disk.remove(&path).map_err(failed("remove", &path))?;
            }
        }
        Ok(())
    }

    /// What was cut off because of damage, if that was allowed.
    pub fn loss(&self) -> Option<&Loss> {
        self.loss.as_ref()
    }

    /// Starts the flusher's thread. It reads `watermark` at the start of each flush: the timestamp up to which all commits have
    /// appended their records and are visible, or have aborted. Does nothing when called again.
    ///
    /// # Panics
    /// If the system has no thread.
    pub fn start(&self, watermark: impl Fn() -> Timestamp + Send + 'static) {
        let mut stage = self.stage.lock();
        *stage = match std::mem::replace(&mut *stage, Stage::Closed) {
            Stage::Opened(segments) => {
                let flusher = Flusher::new(&self.shared, &self.registry, *segments, Box::new(watermark));
                let (shared, on_failure) = (Arc::clone(&self.shared), Arc::clone(&self.on_failure));
                let thread = std::thread::Builder::new().name("ankerdb-log".into());
                let started = thread.spawn(move || run(flusher, &shared, &on_failure));
                Stage::Started(started.expect("the system gives a thread to the log"))
            }
            other => other,
        };
    }

    /// A new appender, for one worker.
    pub fn appender(&self) -> Arc<Appender> {
        let appender = Arc::new(Appender::new(&self.shared));
        self.registry.lock().push(Arc::clone(&appender));
        appender
    }

    /// Everything up to this timestamp is on disk.
    pub fn durable(&self) -> Timestamp {
        self.shared.pace.durable()
    }

    /// Returns when everything up to `commit`, which must be visible, is on disk. Costs one load if it is.
    ///
    /// # Errors
    /// 58030 if the log is closed or has failed: nobody can tell then.
    #[inline]
    pub fn wait_until_durable(&self, commit: Timestamp) -> Result<()> {
        self.shared.pace.wait(commit).map_err(|_| closed())
    }

    /// Asks for everything up to `commit`, which must be visible, to be on disk soon, and does not wait: for a thread that serves many
    /// sessions, and answers each when [`durable`](Self::durable) has come so far. Costs one load if it has.
    #[inline]
    pub fn ask_for_durable(&self, commit: Timestamp) {
        self.shared.pace.ask(commit);
    }

    /// Flushes what was appended, stops the flusher, closes the files and gives up the folder. To be called when nobody appends any
    /// more; what is appended later is lost.
    ///
    /// # Errors
    /// 58030 if the log had failed before or fails now.
    pub fn close(&self) -> Result<()> {
        let stage = std::mem::replace(&mut *self.stage.lock(), Stage::Closed);
        let outcome = match stage {
            Stage::Started(thread) => {
                self.shared.pace.stop();
                thread.join().unwrap_or_else(|_| Err("the log's thread has panicked".into()))
            }
            Stage::Opened(_) | Stage::Closed => Ok(()),
        };
        self.shared.room.close();
        self.shared.pace.end();
        *self.lock.lock() = None;
        outcome.map_err(|what| Error::new(SqlState::IoError, what))
    }
}

/// The flusher's thread.
fn run(mut flusher: Flusher, shared: &Shared, on_failure: &OnFailure) -> Result<(), String> {
    /// Waiters must not wait for a thread that is gone.
    struct Ends<'a>(&'a Shared, &'a OnFailure);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                (self.1)("the log's thread has panicked");
            }
            self.0.room.close();
            self.0.pace.end();
        }
    }
    let _ends = Ends(shared, on_failure);
    flusher.run().map_err(|failure: FileFailure| {
        let what = failure.to_string();
        on_failure(&what);
        what
    })
}

impl Drop for Log {
    fn drop(&mut self) {
        // A failure has been told to `on_failure`.
        let _ = self.close();
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("incarnation", &self.incarnation)
            .field("durable", &self.durable())
            .finish_non_exhaustive()
    }
}
