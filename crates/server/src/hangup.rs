//! Noticing a client that hangs up while its statement runs.
//!
//! A statement may wait long, for a row lock for example, and the connection's task waits with it. Somebody else
//! has to look at the socket: a second task, asleep until the client closes its end, which then ends the session:
//! what it runs and all that it would run after that.
//!
//! A client that closes only its sending side and waits for results counts as gone, too: the two cannot be told
//! apart without sending.

use crate::wire::closed;
use ankerdb_sql::{CancelHandle, Cause};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// The watch over one connection; ends when dropped.
pub(crate) struct HangupWatch(JoinHandle<()>);

impl HangupWatch {
    pub fn start(stream: Arc<TcpStream>, cancel: CancelHandle) -> HangupWatch {
        HangupWatch(tokio::spawn(async move {
            closed(&stream).await;
            cancel.raise(Cause::Disconnected);
        }))
    }
}

impl Drop for HangupWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}
