//! Channels: which sessions hear what NOTIFY says.
//!
//! ```text
//! NOTIFY ──commit──> Channels ── of each session that listens ──> Mailbox ──ring──> its connection, if it is idle
//! ```
//! A session keeps what it says, and what it wants to hear, until its transaction commits ([`Talk`]). The commit of a transaction
//! that says something and the delivery behind it are one step for all others that do ([`Channels::in_order`]), so that messages
//! come in the order of commits. Mailboxes are bounded: past [`WAITING_BYTES_MAX`] nothing more can be said until the slowest
//! listener has read, as with PostgreSQL's queue. See docs/design/channels.md.

use ankerdb_engine::{Error, Result, SqlState};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The longest name of a channel, in bytes.
const CHANNEL_BYTES_MAX: usize = 63;
/// The longest payload, in bytes.
const PAYLOAD_BYTES_MAX: usize = 7_999;
/// Channel names and payloads that may wait for one session.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// A message of NOTIFY.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Notification {
    /// The number of the session that said it.
    pub sender: i32,
    /// Where it was said.
    pub channel: String,
    /// What was said.
    pub payload: String,
}

/// What wakes a connection that waits for its client.
pub trait Doorbell: Send + Sync {
    /// Wakes it; does not wait.
    fn ring(&self);
}

/// The channels of a database.
#[derive(Default)]
pub(crate) struct Channels {
    listeners: Mutex<HashMap<String, Vec<Arc<Mailbox>>>>,
    /// Held by a transaction that says something, from before its commit until what it said is delivered.
    order: Mutex<()>,
}

/// What was said to a session and not taken by it.
#[derive(Default)]
pub(crate) struct Mailbox(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    messages: Vec<Arc<Notification>>,
    bytes: usize,
    bell: Option<Arc<dyn Doorbell>>,
}

impl Channels {
    fn listen(&self, channel: &str, mailbox: &Arc<Mailbox>) {
        self.listeners.lock().entry(channel.to_owned()).or_default().push(mailbox.clone());
    }

    fn unlisten(&self, channel: &str, mailbox: &Arc<Mailbox>) {
        let mut listeners = self.listeners.lock();
        let Some(known) = listeners.get_mut(channel) else { return };
        known.retain(|other| !Arc::ptr_eq(other, mailbox));
        if known.is_empty() {
            listeners.remove(channel);
        }
    }

    /// The turn of a transaction to commit and deliver. 54000 if a session that listens has too much unread.
    fn in_order(&self) -> Result<MutexGuard<'_, ()>> {
        let turn = self.order.lock();
        let listeners = self.listeners.lock();
        let is_full = |mailbox: &Arc<Mailbox>| mailbox.0.lock().bytes > WAITING_BYTES_MAX;
        if listeners.values().flatten().any(is_full) {
            return Err(Error::new(
                SqlState::ProgramLimitExceeded,
                "too many notifications in the NOTIFY queue",
            ));
        }
        Ok(turn)
    }

    fn deliver(&self, message: Notification) {
        let listeners = self.listeners.lock();
        let Some(known) = listeners.get(&message.channel) else { return };
        let message = Arc::new(message);
        for mailbox in known {
            let mut waiting = mailbox.0.lock();
            waiting.bytes += message.channel.len() + message.payload.len() + size_of::<Notification>();
            waiting.messages.push(message.clone());
            if let Some(bell) = &waiting.bell {
                bell.ring();
            }
        }
    }
}

/// What a session says and wants to hear.
pub(crate) struct Talk {
    channels: Arc<Channels>,
    mailbox: Arc<Mailbox>,
    state: Mutex<TalkState>,
}

#[derive(Default)]
struct TalkState {
    /// Channels that it listens to.
    heard: HashSet<String>,
    /// What happens when the transaction commits, in this order.
    pending: Vec<Action>,
    /// The messages among it: a transaction says each only once.
    said: HashSet<(String, String)>,
}

/// What a statement asks for.
#[derive(Clone, Debug)]
enum Action {
    Say(String, String),
    Listen(String),
    Unlisten(String),
    UnlistenAll,
}

impl Talk {
    pub(crate) fn new(channels: Arc<Channels>) -> Talk {
        Talk { channels, mailbox: Arc::default(), state: Mutex::default() }
    }

    /// NOTIFY. 22023 for names and payloads that are too long.
    pub(crate) fn say(&self, channel: &str, payload: &str) -> Result<()> {
        let refused = match (channel.len(), payload.len()) {
            (0, _) => "channel name cannot be empty",
            (name, _) if name > CHANNEL_BYTES_MAX => "channel name too long",
            (_, payload) if payload > PAYLOAD_BYTES_MAX => "payload string too long",
            _ => "",
        };
        if !refused.is_empty() {
            return Err(Error::new(SqlState::InvalidParameterValue, refused));
        }
        let mut state = self.state.lock();
        let message = (channel.to_owned(), payload.to_owned());
        if state.said.insert(message.clone()) {
            state.pending.push(Action::Say(message.0, message.1));
        }
        Ok(())
    }

    pub(crate) fn listen(&self, channel: &str) {
        self.state.lock().pending.push(Action::Listen(channel.to_owned()));
    }

    /// From all channels if none is named.
    pub(crate) fn unlisten(&self, channel: Option<&str>) {
        let action = channel.map_or(Action::UnlistenAll, |channel| Action::Unlisten(channel.to_owned()));
        self.state.lock().pending.push(action);
    }

    /// How much waits for the commit.
    pub(crate) fn mark(&self) -> usize {
        self.state.lock().pending.len()
    }

    /// Forgets what was asked for since.
    pub(crate) fn forget_since(&self, mark: usize) {
        let mut state = self.state.lock();
        let TalkState { pending, said, .. } = &mut *state;
        for action in pending.drain(mark.min(pending.len())..) {
            if let Action::Say(channel, payload) = action {
                said.remove(&(channel, payload));
            }
        }
    }

    /// The turn to commit, if the transaction says something. 54000 if a listener has too much unread.
    pub(crate) fn turn(&self) -> Result<Option<MutexGuard<'_, ()>>> {
        let says = !self.state.lock().said.is_empty();
        says.then(|| self.channels.in_order()).transpose()
    }

    /// The transaction has committed: does what was asked for. What it says it hears itself, too, if it listens.
    pub(crate) fn settle(&self, sender: i32) {
        let mut state = self.state.lock();
        if state.pending.is_empty() {
            return;
        }
        let TalkState { heard, pending, said } = &mut *state;
        said.clear();
        let (said, asked): (Vec<Action>, Vec<Action>) =
            pending.drain(..).partition(|action| matches!(action, Action::Say(..)));
        for action in asked {
            match action {
                Action::Listen(channel) => {
                    if heard.insert(channel.clone()) {
                        self.channels.listen(&channel, &self.mailbox);
                    }
                }
                Action::Unlisten(channel) => {
                    if heard.remove(&channel) {
                        self.channels.unlisten(&channel, &self.mailbox);
                    }
                }
                Action::UnlistenAll => self.leave(heard),
                Action::Say(..) => {}
            }
        }
        drop(state);
        for action in said {
            if let Action::Say(channel, payload) = action {
                self.channels.deliver(Notification { sender, channel, payload });
            }
        }
    }

    fn leave(&self, heard: &mut HashSet<String>) {
        heard.drain().for_each(|channel| self.channels.unlisten(&channel, &self.mailbox));
    }

    /// Whether the session listens to any channel.
    pub(crate) fn hears(&self) -> bool {
        !self.state.lock().heard.is_empty()
    }

    /// From now on this is rung when a message comes.
    pub(crate) fn use_bell(&self, bell: Arc<dyn Doorbell>) {
        self.mailbox.0.lock().bell = Some(bell);
    }

    /// What has come since this was last asked.
    pub(crate) fn take(&self) -> Vec<Arc<Notification>> {
        let mut waiting = self.mailbox.0.lock();
        waiting.bytes = 0;
        std::mem::take(&mut waiting.messages)
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let mut heard = std::mem::take(&mut self.state.lock().heard);
        self.leave(&mut heard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payloads(talk: &Talk) -> Vec<String> {
        talk.take().iter().map(|message| format!("{}:{}", message.channel, message.payload)).collect()
    }

    #[test]
    fn messages_come_with_the_commit_each_once() {
        let channels = Arc::<Channels>::default();
        let (speaker, listener) = (Talk::new(channels.clone()), Talk::new(channels.clone()));
        listener.listen("a");
        speaker.say("a", "before it listens").unwrap();
        speaker.settle(1);
        listener.settle(2);
        for payload in ["1", "2", "1"] {
            speaker.say("a", payload).unwrap();
        }
        let mark = speaker.mark();
        speaker.say("a", "3").unwrap();
        speaker.forget_since(mark);
        speaker.say("b", "4").unwrap();
        assert!(payloads(&listener).is_empty());
        drop(speaker.turn().unwrap());
        speaker.settle(1);
        assert_eq!(payloads(&listener), ["a:1", "a:2"]);
        speaker.say("a", "5").unwrap();
        speaker.forget_since(0);
        speaker.settle(1);
        assert!(payloads(&listener).is_empty() && speaker.turn().unwrap().is_none());
        drop(listener);
        assert!(channels.listeners.lock().is_empty());
    }

    #[test]
    fn a_listener_that_does_not_read_stops_those_who_speak() {
        let channels = Arc::<Channels>::default();
        let (speaker, listener) = (Talk::new(channels.clone()), Talk::new(channels));
        listener.listen("a");
        listener.settle(2);
        let long = "x".repeat(PAYLOAD_BYTES_MAX);
        for _ in 0..=WAITING_BYTES_MAX / PAYLOAD_BYTES_MAX {
            speaker.say("a", &long).unwrap();
            speaker.settle(1);
        }
        speaker.say("a", "one too many").unwrap();
        assert_eq!(speaker.turn().unwrap_err().state(), SqlState::ProgramLimitExceeded);
        assert!(!listener.take().is_empty() && speaker.turn().unwrap().is_some());
    }

    #[test]
    fn names_and_payloads_have_limits() {
        let talk = Talk::new(Arc::default());
        let long = "x".repeat(8000);
        for (channel, payload) in [("", ""), (&long[..64], ""), ("a", &long[..])] {
            assert_eq!(talk.say(channel, payload).unwrap_err().state(), SqlState::InvalidParameterValue);
        }
        assert!(talk.say(&long[..63], &long[..7999]).is_ok());
    }
}
