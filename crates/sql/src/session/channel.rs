//! LISTEN, NOTIFY and UNLISTEN: they are parts of transactions.

use super::SqlSession;
use crate::channels::{Doorbell, Notification};
use crate::command::Command;
use ankerdb_engine::Result;
use std::sync::Arc;

impl SqlSession {
    /// Notes what the command asks for; outside of a transaction block it is done at once.
    pub(super) fn talk(&mut self, command: &Command) -> Result<()> {
        self.functions.check_served(&format!("{} without a server", command.tag()))?;
        let talk = &self.functions.talk;
        match command {
            Command::Listen(channel) => talk.listen(channel),
            Command::Unlisten(channel) => talk.unlisten(channel.as_deref()),
            Command::Notify { channel, payload } => talk.say(channel, payload)?,
            _ => {}
        }
        if !self.block.is_open() {
            let functions = self.functions.clone();
            let turn = functions.talk.turn();
            self.end_talk(turn.is_ok());
            turn.map(drop)?;
        }
        Ok(())
    }

    /// The transaction has ended.
    pub(super) fn end_talk(&mut self, is_committed: bool) {
        match is_committed {
            true => self.functions.talk.settle(self.functions.number()),
            false => self.functions.talk.forget_since(0),
        }
    }

    /// Whether the session listens to any channel.
    pub fn is_listening(&self) -> bool {
        self.functions.talk.hears()
    }

    /// What is rung when a message has come for the session.
    pub fn use_doorbell(&mut self, bell: Arc<dyn Doorbell>) {
        self.functions.talk.use_bell(bell);
    }

    /// The messages that have come since this was last asked, in the order in which they were said.
    pub fn take_notifications(&mut self) -> Vec<Arc<Notification>> {
        self.functions.talk.take()
    }
}
