//! Telling the terminal and the service manager what the server is at.

use super::service_manager::ServiceManager;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often it is told how far recovery is, and that the server is still at work.
const INTERVAL: Duration = Duration::from_secs(2);
/// The time that the service manager is asked to wait from each of these moments on.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tells what the server is at; while that takes time, again and again.
pub(super) struct Herald {
    manager: ServiceManager,
    begun: Instant,
    /// Bytes that recovery has read, and has to read, in this pass over the files.
    read: AtomicU64,
    total: AtomicU64,
    pass: AtomicU64,
    stage: Mutex<Stage>,
    /// Rung when the stage changes.
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting,
    Serving,
    Stopping,
}

impl Herald {
    /// Begins to tell that the server is starting.
    pub(super) fn start() -> Arc<Herald> {
        let herald = Arc::new(Herald {
            manager: ServiceManager::of_environment(),
            begun: Instant::now(),
            read: AtomicU64::new(0),
            total: AtomicU64::new(0),
            pass: AtomicU64::new(1),
            stage: Mutex::new(Stage::Starting),
            changed: Condvar::new(),
        });
        let own = herald.clone();
        // Without this thread nothing is told meanwhile, which is acceptable, too.
        let _ = std::thread::Builder::new().name("herald".into()).spawn(move || own.repeat());
        herald
    }

    /// Recovery has read so many bytes of so many.
    pub(super) fn read(&self, read: u64, total: u64) {
        self.total.store(total, Ordering::Relaxed);
        // Several threads may tell a little less than another has told.
        if read < self.read.swap(read, Ordering::Relaxed) / 2 {
            self.pass.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The server serves. `line` says where.
    pub(super) fn ready(&self, line: &str) {
        self.enter(Stage::Serving);
        if self.begun.elapsed() > INTERVAL && self.total.load(Ordering::Relaxed) > 0 {
            let (total, seconds) = (self.total.load(Ordering::Relaxed), self.begun.elapsed().as_secs_f64());
            eprintln!("ankerdb: recovered {} in {seconds:.1} s", megabytes(total));
        }
        println!("{line}");
        self.manager.tell(&format!("READY=1\nSTATUS={line}"));
    }

    /// The server was asked to end.
    pub(super) fn stopping(&self) {
        self.manager.tell("STOPPING=1\nSTATUS=stopping");
        self.enter(Stage::Stopping);
    }

    fn enter(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
        self.changed.notify_all();
    }

    /// The thread's work, until the process ends.
    fn repeat(&self) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let before = *stage;
            stage = if before == Stage::Serving {
                self.changed.wait(stage).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.changed.wait_timeout(stage, INTERVAL).unwrap_or_else(PoisonError::into_inner).0
            };
            match *stage {
                now if now != before => {}
                Stage::Serving => {}
                Stage::Starting => {
                    let line = self.recovering();
                    eprintln!("ankerdb: {line}");
                    self.extend(&line);
                }
                Stage::Stopping => self.extend("stopping"),
            }
        }
    }

    fn recovering(&self) -> String {
        let (read, total) = (self.read.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        let seconds = self.begun.elapsed().as_secs();
        match read.min(total).saturating_mul(100).checked_div(total) {
            Some(percent) => {
                let (pass, all) = (self.pass.load(Ordering::Relaxed), megabytes(total));
                format!("recovering: {percent} % of {all} read in pass {pass}, {seconds} s")
            }
            None => format!("starting, {seconds} s"),
        }
    }

    fn extend(&self, status: &str) {
        let micros = PATIENCE.as_micros();
        self.manager.tell(&format!("EXTEND_TIMEOUT_USEC={micros}\nSTATUS={status}"));
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes >> 20)
}
