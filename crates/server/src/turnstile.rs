//! Clients that come before queries are let in, or when the server ends, are told so as PostgreSQL tells them.

use crate::cancel::CancelRegistry;
use crate::connection::{farewell, turn_away};
use crate::connections::{ConnectionPlace, Connections};
use crate::startup;
use crate::tls::Tls;
use crate::wire::{Failure, Wire};
use crate::workers::{Work, Workers};
use ankerdb_base::{Error, SqlState};
use ankerdb_socket::Stream;
use std::sync::Arc;

/// Newcomers at the same time who are waited for until they have said what they want.
const PLACES: usize = 64;

/// Why nobody is let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closed {
    Starting,
    Ending,
}

impl Closed {
    fn error(self) -> Error {
        let message = match self {
            Closed::Starting => "the database system is starting up",
            Closed::Ending => "the database system is shutting down",
        };
        Error::new(SqlState::CannotConnectNow, message)
    }
}

/// The places of those who are turned away.
pub(crate) struct Turnstile {
    connections: Arc<Connections>,
    cancels: Arc<CancelRegistry>,
    workers: Arc<Workers>,
    tls: Option<Tls>,
}

impl Turnstile {
    pub(crate) fn new(cancels: Arc<CancelRegistry>, workers: Arc<Workers>, tls: Option<Tls>) -> Turnstile {
        Turnstile { connections: Arc::default(), cancels, workers, tls }
    }

    /// Tells a newcomer why it is not let in, once it has asked for a session. Cancel requests are served.
    pub(crate) fn turn_away(&self, stream: Stream, why: Closed) {
        let stream = Arc::new(stream);
        let Some(place) = self.connections.enter(stream.clone(), PLACES) else {
            return turn_away(stream, &self.connections, why.error());
        };
        let (connections, cancels) = (self.connections.clone(), self.cancels.clone());
        let tls = self.tls.clone();
        self.workers.serve(Box::new(Newcomer { stream, connections, cancels, tls, why, _place: place }));
    }

    /// Cuts off those who have not said yet what they want.
    pub(crate) fn cut(&self) {
        self.connections.cut();
    }
}

struct Newcomer {
    stream: Arc<Stream>,
    connections: Arc<Connections>,
    cancels: Arc<CancelRegistry>,
    tls: Option<Tls>,
    why: Closed,
    _place: ConnectionPlace,
}

impl Work for Newcomer {
    fn run(self: Box<Self>) {
        let mut wire = Wire::new(self.stream.clone(), self.connections.clone());
        let parameters = match startup::negotiate(&mut wire, &self.cancels, self.tls.as_ref()) {
            Ok(Some(parameters)) => parameters,
            Ok(None) => return,
            Err(failure) => return farewell(&mut wire, failure),
        };
        let refused = startup::user(&parameters).err();
        farewell(&mut wire, refused.unwrap_or_else(|| Failure::Fatal(self.why.error())));
    }

    fn refuse(self: Box<Self>) {
        turn_away(self.stream, &self.connections, self.why.error());
    }
}
