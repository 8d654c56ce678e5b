//! Sessions on threads, one of which runs at a time, from step to step.
//!
//! A session that has come to a step records the state, and chooses which session goes on: often itself, which
//! costs no change of threads.

use crate::script::{COLUMNS, Call, Outcome, Random, Script};
use ankerdb_base::failpoint;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

/// Places that can fail, of which the model has none.
const NOT_MODELED: [&str; 4] = ["record of a commit", "lock of a row", "version of a row", "slot of a row"];

/// The code, or the model of it.
pub(crate) trait World: Send + Sync + 'static {
    /// Runs a session on this thread, and records the result of each call.
    fn run(&self, calls: &[Call], tell: &mut dyn FnMut(Call, Outcome));
    fn state(&self) -> State;
}

/// All that there is in memory, with the first timestamp that a transaction can read at as 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct State {
    pub watermark: u64,
    /// The timestamps of all readers.
    pub in_use: Vec<u64>,
    /// When each column was last changed; the largest number while that is not known.
    pub changes: [u64; COLUMNS],
    pub rows: Vec<RowState>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RowState {
    /// The largest number while it has none.
    pub timestamp: u64,
    pub is_locked: bool,
    pub is_swept: bool,
    pub is_installing: bool,
    pub is_dirty: bool,
    pub cells: [u64; COLUMNS],
    pub versions: Vec<(u64, [Option<u64>; COLUMNS])>,
}

/// Where a session has come to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// At a step of its code.
    Step(&'static str),
    /// At the end of a call.
    Call(Call, Outcome),
    /// At its end.
    Over,
    /// It has panicked, as a model may that lacks a step.
    Panicked,
}

/// What a session has done, and the state at that time.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Moment {
    session: usize,
    event: Event,
    state: State,
}

impl Moment {
    pub(crate) fn short(&self) -> String {
        format!("  {}: {:?}", self.session, self.event)
    }
}

/// A session as the schedule sees it.
#[derive(Clone)]
struct Session {
    last: Event,
    /// The watermark then.
    watermark: u64,
}

impl Session {
    /// Whether it can go on without waiting for another session.
    fn can_run(&self, state: &State) -> bool {
        match self.last {
            Event::Over | Event::Panicked => false,
            // It would find what it has found before.
            Event::Step("waits until visible") => state.watermark > self.watermark,
            Event::Step("waits for a sweep") => !state.rows.iter().any(|row| row.is_swept),
            _ => true,
        }
    }
}

struct Schedule {
    turns: VecDeque<usize>,
    random: Random,
    /// A session that runs goes on with so many chances in eight.
    steadiness: usize,
    sessions: Vec<Session>,
    /// The session that runs; `None` when all have ended.
    current: Option<usize>,
    moments: Vec<Moment>,
}

struct Stage<W> {
    world: W,
    schedule: Mutex<Schedule>,
    /// Wakes each session, and at the end the watching thread.
    wakes: Vec<Condvar>,
}

impl Schedule {
    /// Notes what a session has come to, and chooses which one goes on.
    fn note(&mut self, session: usize, event: Event, state: State) {
        self.sessions[session] = Session { last: event.clone(), watermark: state.watermark };
        let ready = |at: &usize| self.sessions[*at].can_run(&state);
        let ready: Vec<usize> = (0..self.sessions.len()).filter(ready).collect();
        let goes_on = ready.contains(&session) && self.random.below(8) < self.steadiness;
        let next = self.turns.pop_front().filter(|next| ready.contains(next));
        self.current = match ready.len() {
            // The others stay where they are: a session that has panicked may have left behind something that they
            // would wait for.
            _ if event == Event::Panicked => None,
            0 => None,
            _ if next.is_some() => next,
            _ if goes_on => Some(session),
            count => Some(ready[self.random.below(count)]),
        };
        self.moments.push(Moment { session, event, state });
    }
}

impl<W: World> Stage<W> {
    /// Stops a session at an event until it is to go on.
    fn stop(&self, session: usize, event: Event) {
        let mut schedule = self.schedule.lock().expect("no thread panics with the schedule");
        let is_end = matches!(event, Event::Over | Event::Panicked);
        schedule.note(session, event, self.world.state());
        if schedule.current != Some(session) {
            self.wakes[schedule.current.unwrap_or(schedule.sessions.len())].notify_one();
            if !is_end {
                drop(self.wait(schedule, Some(session)));
            }
        }
    }

    /// Waits until a session is to go on, or `None`, until all is over.
    fn wait<'s>(
        &'s self,
        schedule: MutexGuard<'s, Schedule>,
        turn: Option<usize>,
    ) -> MutexGuard<'s, Schedule> {
        let wake = &self.wakes[turn.unwrap_or(schedule.sessions.len())];
        wake.wait_while(schedule, |schedule| schedule.current != turn)
            .expect("no thread panics with the schedule")
    }

    fn play(self: Arc<Self>, session: usize, calls: &[Call]) {
        let schedule = self.schedule.lock().expect("no thread panics with the schedule");
        drop(self.wait(schedule, Some(session)));
        let mut ending = Ending { stage: self.clone(), session, event: Event::Panicked };
        let stage = self.clone();
        failpoint::watch(Some(Rc::new(move |name| {
            if !NOT_MODELED.contains(&name) {
                stage.stop(session, Event::Step(name));
            }
        })));
        self.world.run(calls, &mut |call, outcome| self.stop(session, Event::Call(call, outcome)));
        ending.event = Event::Over;
    }
}

/// Notes that a session has ended, one way or the other.
struct Ending<W: World> {
    stage: Arc<Stage<W>>,
    session: usize,
    event: Event,
}

impl<W: World> Drop for Ending<W> {
    fn drop(&mut self) {
        failpoint::watch(None);
        self.stage.stop(self.session, self.event.clone());
    }
}

/// Leads the sessions of a script through the interleaving that the seed stands for.
pub(crate) fn run<W: World>(world: W, script: &Script, seed: u64) -> Vec<Moment> {
    let session = Session { last: Event::Step("start"), watermark: 0 };
    let mut turns = VecDeque::from(script.turns.clone());
    let first = turns.pop_front().unwrap_or(0);
    let schedule = Schedule {
        turns,
        random: Random(seed ^ 0x5DEE_CE66),
        // Some schedules change sessions often, some seldom.
        steadiness: 7 - seed as usize % 5,
        sessions: vec![session; script.calls.len()],
        current: Some(first),
        moments: Vec::new(),
    };
    let wakes = (0..=script.calls.len()).map(|_| Condvar::new()).collect();
    let stage = Arc::new(Stage { world, schedule: Mutex::new(schedule), wakes });
    for (session, calls) in script.calls.iter().cloned().enumerate() {
        let stage = stage.clone();
        thread::spawn(move || stage.play(session, &calls));
    }
    let schedule = stage.schedule.lock().expect("no thread panics with the schedule");
    let mut schedule = stage.wait(schedule, None);
    let is_end = |session: &Session| matches!(session.last, Event::Over | Event::Panicked);
    let has_ended = schedule.sessions.iter().all(is_end);
    let has_panicked = schedule.sessions.iter().any(|session| session.last == Event::Panicked);
    assert!(has_ended || has_panicked, "sessions wait for each other: {:?}", schedule.moments);
    std::mem::take(&mut schedule.moments)
}
