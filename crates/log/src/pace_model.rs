//! loom models of [`crate::pace`].
//!
//! Workers append, finish, and wait; the flusher takes what is there and says what is durable. No worker may wait for ever (loom finds
//! a deadlock), and none may be told that its commit is durable while its record is not on disk.

use std::sync::Arc;

use loom::thread;

use crate::pace::{Pace, Turn};
use crate::primitive::{
    AtomicU64, Condvar, Mutex, Ordering, ProofStep, check, check_without, wait, weakened,
};
use ankerdb_base::Timestamp;
use std::time::Duration;

struct Model {
    pace: Pace,
    watermark: AtomicU64,
    /// Timestamps of the records that are not taken yet, a buffer for each worker.
    buffers: Vec<Mutex<Vec<u64>>>,
    disk: Mutex<Vec<u64>>,
    written: Condvar,
}

impl Model {
    fn new(workers: usize) -> Model {
        Model {
            pace: Pace::new(Timestamp::ZERO),
            watermark: AtomicU64::new(0),
            buffers: (0..workers).map(|_| Mutex::new(Vec::new())).collect(),
            disk: Mutex::new(Vec::new()),
            written: Condvar::new(),
        }
    }

    /// One commit, with the next timestamp after the watermark: those before it have finished.
    fn commit(&self, worker: usize, timestamp: u64) {
        self.buffers[worker].lock().push(timestamp);
        self.pace.nudge();
        self.watermark.store(timestamp, Ordering::Release);
        self.wait(timestamp);
    }

    fn wait(&self, timestamp: u64) {
        self.pace.wait(Timestamp(timestamp)).expect("the flusher is there");
        assert!(self.disk.lock().contains(&timestamp), "told that a commit is durable which is not on disk");
    }

    fn flush(&self) {
        let mut watermark = self.watermark.load(Ordering::Acquire);
        for buffer in &self.buffers {
            let taken = std::mem::take(&mut *buffer.lock());
            let mut disk = self.disk.lock();
            disk.extend(taken);
            self.written.notify_all();
        }
        if weakened(ProofStep::WatermarkFirst) {
            watermark = self.watermark.load(Ordering::Acquire);
        }
        if watermark > self.pace.durable().0 {
            self.pace.announce(Timestamp(watermark));
        }
    }

    fn run_flusher(&self) {
        self.run_flusher_with(|| ());
    }

    /// Does something behind each flush.
    fn run_flusher_with(&self, behind: impl Fn()) {
        loop {
            self.flush();
            behind();
            let mut has_work = || self.buffers.iter().any(|buffer| !buffer.lock().is_empty());
            if self.pace.rest(None, &mut has_work) == Turn::Stop {
                break;
            }
        }
        self.flush();
        self.pace.end();
    }
}

/// One commit, and the end.
fn one_commit() {
    let model = Arc::new(Model::new(1));
    let flushing = Arc::clone(&model);
    let flusher = thread::spawn(move || flushing.run_flusher());
    model.commit(0, 1);
    model.pace.stop();
    flusher.join().unwrap();
}

/// Two workers; the watermark passes the second commit only when the first has finished, too.
fn two_commits() {
    let model = Arc::new(Model::new(2));
    let flushing = Arc::clone(&model);
    let flusher = thread::spawn(move || flushing.run_flusher());
    let finished = Arc::new(Mutex::new([false; 2]));
    let work = |worker: usize, model: &Model, finished: &Mutex<[bool; 2]>| {
        let timestamp = worker as u64 + 1;
        model.buffers[worker].lock().push(timestamp);
        model.pace.nudge();
        let watermark = {
            let mut finished = finished.lock();
            finished[worker] = true;
            let watermark = finished.iter().take_while(|is_finished| **is_finished).count() as u64;
            model.watermark.store(watermark, Ordering::Release);
            watermark
        };
        if watermark >= timestamp {
            model.wait(timestamp);
        }
    };
    let (other, others) = (Arc::clone(&model), Arc::clone(&finished));
    let worker = thread::spawn(move || work(1, &other, &others));
    work(0, &model, &finished);
    worker.join().unwrap();
    model.pace.stop();
    flusher.join().unwrap();
    assert_eq!(model.disk.lock().len(), 2);
}

/// A commit that nobody waits for is on disk when the log is closed; the one before it was waited for by a reader.
fn reader_and_commit() {
    let model = Arc::new(Model::new(1));
    let flushing = Arc::clone(&model);
    let flusher = thread::spawn(move || flushing.run_flusher());
    let reading = Arc::clone(&model);
    let reader = thread::spawn(move || {
        let seen = reading.watermark.load(Ordering::Acquire);
        if seen > 0 {
            reading.wait(seen);
        }
    });
    model.buffers[0].lock().push(1);
    model.pace.nudge();
    model.watermark.store(1, Ordering::Release);
    reader.join().unwrap();
    model.pace.stop();
    flusher.join().unwrap();
    assert_eq!(*model.disk.lock(), [1]);
}

/// One commit, of which the flusher hears while it pauses, and the end in such a pause.
fn commit_in_a_pause() {
    let model = Arc::new(Model::new(1));
    let flushing = Arc::clone(&model);
    let pause = move || flushing.run_flusher_with(|| flushing.pace.pause(Duration::ZERO));
    let flusher = thread::spawn(pause);
    model.commit(0, 1);
    model.pace.stop();
    flusher.join().unwrap();
}

/// One commit that is asked for and not waited for. The flusher may have written its record before the watermark passed it.
fn commit_that_is_asked_for() {
    let model = Arc::new(Model::new(1));
    let flushing = Arc::clone(&model);
    let tell = move || {
        flushing.run_flusher_with(|| {
            let _disk = flushing.disk.lock();
            flushing.written.notify_all();
        });
    };
    let flusher = thread::spawn(tell);
    model.buffers[0].lock().push(1);
    model.pace.nudge();
    model.watermark.store(1, Ordering::Release);
    model.pace.ask(Timestamp(1));
    let mut disk = model.disk.lock();
    while model.pace.durable() < Timestamp(1) {
        wait(&model.written, &mut disk);
    }
    assert_eq!(*disk, [1]);
    drop(disk);
    model.pace.stop();
    flusher.join().unwrap();
}

#[test]
fn what_is_asked_for_becomes_durable_though_nobody_waits() {
    check(3, commit_that_is_asked_for);
}

#[test]
#[should_panic = "deadlock"]
fn one_who_asks_and_does_not_wake_is_not_heard() {
    check_without(ProofStep::WaiterWakes, commit_that_is_asked_for);
}

#[test]
fn a_waiter_ends_a_pause() {
    check(3, commit_in_a_pause);
}

#[test]
#[should_panic = "deadlock"]
fn a_waiter_that_leaves_the_flusher_its_pause_waits_for_ever() {
    check_without(ProofStep::WaiterEndsPause, commit_in_a_pause);
}

#[test]
fn a_commit_is_woken_and_on_disk() {
    check(5, one_commit);
}

#[test]
fn two_workers_are_woken() {
    check(2, two_commits);
}

#[test]
fn a_reader_is_woken_and_what_nobody_waits_for_is_flushed() {
    check(3, reader_and_commit);
}

#[test]
#[should_panic = "deadlock"]
fn a_flusher_that_looks_before_it_sleeps_sleeps_on() {
    check_without(ProofStep::SleepsBeforeItLooks, commit_that_nobody_waits_for);
}

/// Nobody waits for the commit to be durable (`synchronous_commit = off`): only the append wakes the flusher.
fn commit_that_nobody_waits_for() {
    let model = Arc::new(Model::new(1));
    let flushing = Arc::clone(&model);
    let flusher = thread::spawn(move || flushing.run_flusher());
    model.buffers[0].lock().push(1);
    model.pace.nudge();
    let mut disk = model.disk.lock();
    while !disk.contains(&1) {
        wait(&model.written, &mut disk);
    }
    drop(disk);
    model.pace.stop();
    flusher.join().unwrap();
}

#[test]
fn an_append_alone_wakes_the_flusher() {
    check(5, commit_that_nobody_waits_for);
}

#[test]
#[should_panic = "deadlock"]
fn a_waiter_that_does_not_wake_waits_for_ever() {
    check_without(ProofStep::WaiterWakes, one_commit);
}

#[test]
#[should_panic = "deadlock"]
fn a_flusher_that_wakes_without_the_lock_misses_a_waiter() {
    check_without(ProofStep::WakesUnderLock, one_commit);
}

#[test]
#[should_panic = "told that a commit is durable"]
fn a_watermark_read_after_the_buffers_says_too_much() {
    check_without(ProofStep::WatermarkFirst, one_commit);
}
