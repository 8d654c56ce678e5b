//! When the flusher sleeps, and who wakes whom.
//!
//! # Idea
//! The flusher clocks itself: it begins the next flush as soon as the one before is on disk, if anything was appended or somebody
//! waits, and else sleeps. An appender wakes it if it sleeps. So does a waiter, since the flusher may have written the record
//! before the commit had finished: then the watermark W that it read did not cover the commit, and nobody appends anything more.
//!
//! ```text
//! worker   A1  append (under the buffer's lock)      flusher   F1  lock control, asleep := true
//!          A2  if asleep: take it back, wake                   F2  look for work (under each buffer's lock): asleep := false, flush
//!          ... the commit finishes: watermark >= c             F3  else wait on control while asleep
//! waiter   W1  durable >= c: done                              F4  W := watermark
//!          W2  lock control, wanted := c                       F5  take the buffers, write, sync
//!          W3  if asleep: take it back, wake                   F6  durable := W
//!          W4  wait on control while durable < c               F7  lock control, wake waiters
//! ```
//!
//! # No wake-up is lost
//! - *An append.* A1 and F2 lock one mutex. If A1 comes first, F2 sees what was appended. If F2 comes first, A1 sees all that was
//!   done before it, so A2 sees that the flusher sleeps. Between F2 and F3 it holds the control lock, which A2 takes before it
//!   wakes, so the flusher waits by then. Exactly one of several appenders takes `asleep` back: one system call for a flush.
//! - *A waiter.* W2 and F1 lock one mutex. If W2 comes first, the flusher sees `wanted > durable` at F2 and goes on. If F1 comes
//!   first, W3 sees that it sleeps.
//! - *One round is enough.* A waiter waits after its commit is visible. So the watermark had passed c before W2, and a flusher that
//!   has seen `wanted` under the lock reads such a watermark at F4.
//! - *The end of a flush.* A waiter looks at `durable` under the lock before W4. Either it does so after F7 and sees F6, or it
//!   waits at F7 and is woken.
//!
//! # What durable means
//! The watermark passes c after the commit has finished, which is after A1. F4 comes before F5, so the buffers that are taken, or
//! those taken before, hold every record up to W.
//!
//! `pace_model` tries all interleavings, and with each of these steps taken out it finds a waiter that is never woken, or one that is
//! told too early.
//!
//! # Asking without waiting
//! A thread that serves many sessions does not stand still for one of them: it asks ([`Pace::ask`]: W2 and W3), and looks at `durable`
//! later. What was asked for and is not durable keeps the flusher from sleeping as a waiter does, for the reasons above.
//!
//! # A pause
//! Where few wait, there is no hurry: after a flush the flusher pauses for some milliseconds, so that what is committed meanwhile
//! goes with one flush and not with hundreds. Where most wait it does not: an append wakes it sooner than the waiter behind it would, by
//! a quarter of a lone session's commit. All of the pause is under the control lock: the flusher pauses only if nobody waits for more
//! than is durable, and W2, who wants room, and who stops it end the pause. An append does not.
//!
//! # Not here
//! Records of commits for which nobody waits (`synchronous_commit = off`) and that the last W did not cover: the flusher asks to
//! be woken by the clock then.

use crate::primitive::{
    AtomicBool, AtomicU64, Condvar, Mutex, Ordering, ProofStep, wait, wait_for, weakened,
};
use ankerdb_base::Timestamp;
use std::time::Duration;

/// What the flusher does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    Flush,
    /// Flush what is left, and end.
    Stop,
}

/// Why a waiter is told nothing about its commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NotDurable;

/// See the module.
pub(crate) struct Pace {
    durable: AtomicU64,
    /// Whether the flusher waits for work, or is about to. Changed by read-modify-writes alone, so that of two changes the later one
    /// is known: each reads what the one before has written.
    is_asleep: AtomicBool,
    control: Mutex<Control>,
    flusher: Condvar,
    waiters: Condvar,
}

struct Control {
    /// The largest timestamp that somebody has waited or asked for.
    wanted: u64,
    waiting: usize,
    /// How often somebody has begun to wait or has asked, since that was last looked at.
    waits: u64,
    is_stopping: bool,
    /// The flusher waits although there may be work.
    is_pausing: bool,
    /// The flusher has ended; nothing becomes durable any more.
    has_ended: bool,
}

impl Control {
    /// Whether somebody waits or has asked for more than is durable. (The waiter for `wanted` leaves when it is durable.)
    fn is_wanted(&self, durable: Timestamp) -> bool {
        self.wanted > durable.0
    }
}

impl Pace {
    pub(crate) fn new(durable: Timestamp) -> Pace {
        Pace {
            durable: AtomicU64::new(durable.0),
            is_asleep: AtomicBool::new(false),
            control: Mutex::new(Control {
                wanted: 0,
                waiting: 0,
                waits: 0,
                is_stopping: false,
                is_pausing: false,
                has_ended: false,
            }),
            flusher: Condvar::new(),
            waiters: Condvar::new(),
        }
    }

    #[inline]
    pub(crate) fn durable(&self) -> Timestamp {
        Timestamp(self.durable.load(Ordering::Acquire))
    }

    /// A2: called after something was left for the flusher, under a lock that it looks under, and after that lock was given up.
    #[inline]
    pub(crate) fn nudge(&self) {
        if self.is_asleep.load(Ordering::Acquire) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.is_asleep.swap(false, Ordering::AcqRel) {
            drop(self.control.lock());
            self.flusher.notify_one();
        }
    }

    /// W1 to W4: returns when everything up to the commit is durable. The commit must be visible.
    #[inline]
    pub(crate) fn wait(&self, commit: Timestamp) -> Result<(), NotDurable> {
        if self.durable() >= commit { Ok(()) } else { self.wait_long(commit) }
    }

    /// W2 and W3: asks for everything up to the commit to be durable soon. The commit must be visible.
    #[inline]
    pub(crate) fn ask(&self, commit: Timestamp) {
        if self.durable() < commit {
            self.want(&mut self.control.lock(), commit);
        }
    }

    fn want(&self, control: &mut Control, commit: Timestamp) {
        control.wanted = control.wanted.max(commit.0);
        control.waits += 1;
        if !weakened(ProofStep::WaiterWakes) && self.is_asleep.swap(false, Ordering::AcqRel) {
            self.flusher.notify_one();
        }
        if !weakened(ProofStep::WaiterEndsPause) {
            self.end_pause(control);
        }
    }

    #[cold]
    fn wait_long(&self, commit: Timestamp) -> Result<(), NotDurable> {
        let mut control = self.control.lock();
        self.want(&mut control, commit);
        control.waiting += 1;
        while self.durable() < commit && !control.has_ended {
            wait(&self.waiters, &mut control);
        }
        control.waiting -= 1;
        if self.durable() >= commit { Ok(()) } else { Err(NotDurable) }
    }

    /// F6 and F7: everything up to here is on disk.
    pub(crate) fn announce(&self, durable: Timestamp) {
        self.durable.store(durable.0, Ordering::Release);
        let control = (!weakened(ProofStep::WakesUnderLock)).then(|| self.control.lock());
        if control.as_ref().is_none_or(|control| control.waiting > 0) {
            self.waiters.notify_all();
        }
    }

    /// F1 to F3: sleeps until there is something to do, at most so long.
    pub(crate) fn rest(&self, longest: Option<Duration>, has_work: &mut dyn FnMut() -> bool) -> Turn {
        let mut control = self.control.lock();
        let early_look = weakened(ProofStep::SleepsBeforeItLooks) && has_work();
        self.is_asleep.swap(true, Ordering::AcqRel);
        let look = |has_work: &mut dyn FnMut() -> bool| match weakened(ProofStep::SleepsBeforeItLooks) {
            true => early_look,
            false => has_work(),
        };
        if !control.is_stopping && !control.is_wanted(self.durable()) && !look(has_work) {
            while self.is_asleep.load(Ordering::Acquire) && !control.is_stopping {
                match longest {
                    Some(longest) => {
                        wait_for(&self.flusher, &mut control, longest);
                        break;
                    }
                    None => wait(&self.flusher, &mut control),
                }
            }
        }
        self.is_asleep.swap(false, Ordering::AcqRel);
        if control.is_stopping { Turn::Stop } else { Turn::Flush }
    }

    /// How often somebody has begun to wait since the last call.
    pub(crate) fn take_waits(&self) -> u64 {
        std::mem::take(&mut self.control.lock().waits)
    }

    /// Waits so long if nobody waits for more than is durable, for what else is committed.
    pub(crate) fn pause(&self, longest: Duration) {
        let mut control = self.control.lock();
        if control.is_wanted(self.durable()) || control.is_stopping {
            return;
        }
        control.is_pausing = true;
        wait_for(&self.flusher, &mut control, longest);
        control.is_pausing = false;
    }

    /// Ends a pause: somebody needs the flusher for something else than a flush.
    pub(crate) fn hurry(&self) {
        self.nudge();
        self.end_pause(&mut self.control.lock());
    }

    fn end_pause(&self, control: &mut Control) {
        if std::mem::take(&mut control.is_pausing) {
            self.flusher.notify_one();
        }
    }

    /// Asks the flusher to end.
    pub(crate) fn stop(&self) {
        self.control.lock().is_stopping = true;
        self.flusher.notify_one();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.control.lock().is_stopping
    }

    /// The flusher has ended: nobody may wait for it any more.
    pub(crate) fn end(&self) {
        self.control.lock().has_ended = true;
        self.waiters.notify_all();
    }
}
