//! Runs of a small database over a simulated disk, and what must be true of what is read back afterwards.

use super::{Order, Read, commit, open_with, options};
use ankerdb_log::simulated::SimulatedDisk;
use ankerdb_log::{Appender, Log, LogOptions};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// All that was done, of all runs.
#[derive(Default)]
pub(crate) struct History {
    /// Payloads by incarnation and timestamp, noted before they are appended.
    appended: Mutex<BTreeMap<(u64, u64), Vec<u8>>>,
    /// Up to here all was acknowledged, in each incarnation. What one has not acknowledged may be dropped when the next begins.
    acknowledged: Mutex<BTreeMap<u64, u64>>,
    /// Sentences of `on_failure`, and errors that callers got.
    pub(crate) reported: Mutex<Vec<String>>,
}

/// Options whose failures are noted and end the run.
fn noting(history: &Arc<History>, is_over: &Arc<AtomicBool>) -> LogOptions {
    let (history, is_over) = (Arc::clone(history), Arc::clone(is_over));
    LogOptions {
        on_failure: Some(Arc::new(move |what| {
            history.report(what);
            is_over.store(true, Ordering::SeqCst);
        })),
        ..options()
    }
}

impl History {
    fn report(&self, what: impl ToString) {
        self.reported.lock().expect("nobody panics").push(what.to_string());
    }

    /// A run with the number of one before it has found nothing of that one, which had then better not acknowledged any record.
    fn begin(&self, log: &Log) {
        let mut appended = self.appended.lock().expect("nobody panics");
        let forgotten = appended.split_off(&(log.incarnation(), 0));
        let told = self.acknowledged.lock().expect("nobody panics").remove(&log.incarnation());
        let lost = forgotten.keys().find(|(_, timestamp)| *timestamp <= told.unwrap_or_default());
        assert!(lost.is_none(), "{lost:?} is lost, {told:?} was told");
    }

    fn note_acknowledged(&self, log: &Log) {
        let mut acknowledged = self.acknowledged.lock().expect("nobody panics");
        let last = acknowledged.entry(log.incarnation()).or_default();
        *last = log.durable().0.max(*last);
    }

    /// One run: opens, commits with several workers until they are done or the disk fails, closes. `seed` decides about lengths.
    pub(crate) fn run(self: &Arc<Self>, disk: &SimulatedDisk, commits: u64, seed: u64) {
        let is_over = Arc::new(AtomicBool::new(false));
        let log = match open_with(disk, &noting(self, &is_over)) {
            Ok((log, _)) => log,
            Err(error) => return self.report(error),
        };
        self.begin(&log);
        let order = super::start(&log);
        std::thread::scope(|scope| {
            for worker in 0..3 {
                let (log, order, is_over) = (&log, &order, &is_over);
                scope.spawn(move || self.work(log, order, is_over, commits, seed ^ worker << 32));
            }
        });
        if let Err(error) = log.close() {
            self.report(error);
        }
    }

    fn work(&self, log: &Log, order: &Order, is_over: &AtomicBool, commits: u64, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let appender = log.appender();
        for _ in 0..commits {
            if let Err(error) = self.commit_one(log, &appender, order, is_over, &mut random) {
                self.report(error);
                is_over.store(true, Ordering::SeqCst);
            }
            if is_over.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    fn commit_one(
        &self,
        log: &Log,
        appender: &Arc<Appender>,
        order: &Order,
        is_over: &AtomicBool,
        random: &mut fastrand::Rng,
    ) -> ankerdb_base::Result<()> {
        let length = if random.u8(0..8) == 0 { random.usize(0..3000) } else { random.usize(0..80) };
        let payload: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        if random.u8(0..6) == 0 {
            appender.append_ahead(9, &payload, &|| Ok(()))?;
        }
        let reservation = appender.reserve(length)?;
        let timestamp = order.draw();
        let is_aborted = random.u8(0..5) == 0;
        if !is_aborted {
            let key = (log.incarnation(), timestamp.0);
            self.appended.lock().expect("nobody panics").insert(key, payload.clone());
            appender.append(reservation, 1, timestamp, &payload);
        }
        order.finish(timestamp);
        // Some do not wait.
        if random.u8(0..4) > 0 && order.wait_visible(timestamp, is_over) {
            log.wait_until_durable(timestamp)?;
            self.note_acknowledged(log);
        }
        Ok(())
    }

    /// What is wrong with what was read back.
    pub(crate) fn check(&self, read: &[Read]) -> Result<(), String> {
        let appended = self.appended.lock().expect("nobody panics");
        let acknowledged = self.acknowledged.lock().expect("nobody panics");
        let commits: Vec<&Read> = read.iter().filter(|record| record.kind == 1).collect();
        if let Some(pair) = commits.windows(2).find(|pair| pair[0].timestamp >= pair[1].timestamp) {
            return Err(format!("{} comes before {}", pair[0].timestamp, pair[1].timestamp));
        }
        for record in &commits {
            match appended.get(&(record.incarnation, record.timestamp)) {
                Some(payload) if *payload == record.payload => {}
                Some(_) => return Err(format!("{} has another payload", record.timestamp)),
                None => return Err(format!("{} was invented", record.timestamp)),
            }
        }
        for (incarnation, timestamp) in appended.keys() {
            let told = acknowledged.get(incarnation).copied().unwrap_or_default();
            let place = commits.binary_search_by_key(timestamp, |record| record.timestamp);
            if *timestamp <= told && place.is_err() {
                return Err(format!("{timestamp} of run {incarnation} is lost, {told} was told"));
            }
        }
        Ok(())
    }

    /// Opens the disk, twice, and checks what is read; it must be the same.
    pub(crate) fn check_disk(&self, disk: &SimulatedDisk) -> Result<Vec<Read>, String> {
        let (log, read) = open_with(disk, &options()).map_err(|error| format!("not opened: {error}"))?;
        log.close().map_err(|error| format!("not closed: {error}"))?;
        self.check(&read)?;
        let (_, again) = open_with(disk, &options()).map_err(|error| format!("not reopened: {error}"))?;
        if read == again { Ok(read) } else { Err("another reading gives something else".to_owned()) }
    }

    /// A run after a crash: commits a little more, so that later checks see what the crash has left behind.
    pub(crate) fn go_on(self: &Arc<Self>, disk: &SimulatedDisk) -> Result<(), String> {
        let (log, _) = open_with(disk, &options()).map_err(|error| format!("not opened: {error}"))?;
        self.begin(&log);
        let order = super::start(&log);
        let appender = log.appender();
        // More than a segment.
        for number in 0..30u8 {
            let payload = vec![number; 600];
            let timestamp = commit(&appender, &order, &payload).map_err(|error| error.to_string())?;
            self.appended.lock().expect("nobody panics").insert((log.incarnation(), timestamp.0), payload);
            log.wait_until_durable(timestamp).expect("the log is open");
            self.note_acknowledged(&log);
        }
        Ok(())
    }
}
