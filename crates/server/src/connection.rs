//! One connection: its state, and the loop that serves one message after the other.
//!
//! ```text
//!            error in Parse, Bind, Execute ...
//!   serving ----------------------------------> skipping
//!      ^                                            |
//!      +---------------- Sync ----------------------+
//! ```
//! Query and Sync are answered with ReadyForQuery, whatever happened.
//!
//! # Threads
//! Each connection has a thread of its own, which sleeps in a read of the socket, and runs each message to its end. So a
//! statement may compute or wait for any time, and a short one costs two calls to the system: docs/design
//! (connections.md) has the comparison with few threads that serve many connections.

use crate::cancel::{CancelEntry, CancelRegistry};
use crate::connections::{Connections, Place};
use crate::frontend::{Frame, Message};
use crate::guard::guard;
use crate::hangup::Hangups;
use crate::portal::{NamedStatement, Portal};
use crate::startup;
use crate::wire::{Failure, Served, Wire};
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_socket::{Bell, Woken};
use ankerdb_sql::{Doorbell, Outcome, Peer, Prepared, SqlEngine, SqlSession, TransactionStatus};
use ankerdb_value::Value;
use pgwire::messages::response::NotificationResponse;
use pgwire::messages::startup::ParameterStatus;
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const ERROR: &str = "ERROR";
const FATAL: &str = "FATAL";

/// What all connections of a server share.
pub(crate) struct ServerState {
    pub engine: SqlEngine,
    pub cancels: Arc<CancelRegistry>,
    pub connections: Arc<Connections>,
    pub hangups: Hangups,
    pub sessions: Sessions,
}

/// The number of sessions, and its limit.
pub(crate) struct Sessions {
    limit: usize,
    open: AtomicUsize,
}

/// A place for one session; given up when dropped.
struct Permit<'a>(&'a Sessions);

impl Sessions {
    pub(crate) fn at_most(limit: usize) -> Sessions {
        Sessions { limit, open: AtomicUsize::new(0) }
    }

    /// # Errors
    /// `TooManyConnections`.
    fn enter(&self) -> Result<Permit<'_>> {
        let one_more = |open| (open < self.limit).then_some(open + 1);
        match self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(Permit(self)),
            Err(_) => Err(too_many()),
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn too_many() -> Error {
    Error::new(SqlState::TooManyConnections, "sorry, too many clients already")
}

/// Wakes a connection that waits for its client.
struct ConnectionBell(Bell);

impl Doorbell for ConnectionBell {
    fn ring(&self) {
        self.0.ring();
    }
}

/// A started session.
pub(crate) struct Connection {
    pub wire: Wire,
    pub session: SqlSession,
    /// The statement without a name; the session has the others.
    pub unnamed: Option<NamedStatement>,
    pub portals: HashMap<String, Portal>,
    /// Settings as the client knows them.
    reported: Vec<(&'static str, String)>,
    /// What is rung when another session has said something that this one listens to; there from its first LISTEN on.
    bell: Option<Arc<ConnectionBell>>,
    /// Whether a transaction is open that the client did not begin.
    implicit: bool,
    /// Whether messages are skipped until the next Sync.
    skipping: bool,
}

/// Serves one client from its first byte to its last.
pub(crate) fn serve(stream: Arc<TcpStream>, shared: &ServerState, _place: Place) {
    // Answers are written in one piece; waiting for more to send only delays them. Failing is no harm.
    let _ = stream.set_nodelay(true);
    let mut wire = Wire::new(stream.clone(), shared.connections.clone());
    match startup::negotiate(&mut wire, &shared.cancels) {
        Ok(Some(parameters)) => {
            if let Err((mut wire, failure)) = serve_session(stream, wire, shared, &parameters) {
                farewell(&mut wire, failure);
            }
        }
        Ok(None) => {}
        Err(failure) => farewell(&mut wire, failure),
    }
}

/// Turns a client away when there are more connections than there can be sessions, before it has sent anything.
pub(crate) fn turn_away(stream: Arc<TcpStream>, connections: &Arc<Connections>) {
    let mut wire = Wire::new(stream, connections.clone());
    farewell(&mut wire, Failure::Fatal(too_many()));
}

/// Serves a session to its end. The session is gone when this returns, and with it all that it holds, even if the client
/// is slow to read why.
fn serve_session(
    stream: Arc<TcpStream>,
    wire: Wire,
    shared: &ServerState,
    parameters: &HashMap<String, String>,
) -> Result<(), (Wire, Failure)> {
    let _permit = match shared.sessions.enter() {
        Ok(permit) => permit,
        Err(error) => return Err((wire, Failure::Fatal(error))),
    };
    if let Err(failure) = startup::check(parameters) {
        return Err((wire, failure));
    }
    let session = shared.engine.session();
    let mut session = session;
    let cancel = shared.cancels.register(session.cancel_handle(), stream.clone());
    let peer = Peer {
        user: parameters.get("user").cloned().unwrap_or_default(),
        client: stream.peer_addr().ok(),
        server: stream.local_addr().ok(),
    };
    session.join_backends(cancel.process, peer, shared.cancels.clone());
    let _watch = match shared.hangups.watch(stream, session.cancel_handle()) {
        Ok(watch) => watch,
        Err(error) => return Err((wire, Failure::Fatal(error))),
    };
    let mut wire = wire;
    wire.limit_memory(session.engine().database().memory_limit());
    let mut connection = Connection {
        wire,
        session,
        unnamed: None,
        portals: HashMap::new(),
        reported: Vec::new(),
        bell: None,
        implicit: false,
        skipping: false,
    };
    match connection.serve(parameters, &cancel) {
        Ok(never) => match never {},
        // Another session may have ended this one while it waited for its client. What has ended the last statement only is no
        // reason to tell a client that has taken its leave.
        Err(Failure::Gone)
            if let Err(error) = connection.session.cancel_handle().check()
                && let ended @ Failure::Fatal(_) = Failure::from(error) =>
        {
            Err((connection.wire, ended))
        }
        Err(failure) => Err((connection.wire, failure)),
    }
}

/// Sends the last message, if the client is still there.
fn farewell(wire: &mut Wire, failure: Failure) {
    let (Failure::Fatal(error) | Failure::Statement(error)) = failure else { return };
    if wire.send_error(FATAL, &error, None).is_ok() {
        // The connection ends here, even if the client cannot be told.
        let _ = wire.flush();
    }
}

impl Connection {
    /// Serves messages until the client leaves or something ends the connection.
    fn serve(&mut self, parameters: &HashMap<String, String>, cancel: &CancelEntry) -> Served<Infallible> {
        self.apply_settings(parameters)?;
        self.session.begin_with_these_settings();
        self.reported = self.session.take_reports().unwrap_or_default();
        startup::greet(&mut self.wire, parameters, &self.reported, cancel)?;
        self.ready()?;
        let mut frame = Frame::default();
        loop {
            match self.next_frame(&mut frame) {
                Ok(()) => self.serve_frame(&frame)?,
                Err(Failure::Statement(error)) => self.refuse_frame(&frame, error)?,
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Waits for the next message; with an open transaction not longer than the session allows.
    fn next_frame(&mut self, frame: &mut Frame) -> Served {
        self.await_client()?;
        self.wire.set_patience(self.session.idle_limit())?;
        self.wire.read_frame(frame, &mut || {
            Err(Failure::Fatal(Error::new(
                SqlState::IdleInTransactionSessionTimeout,
                "terminating connection due to idle-in-transaction timeout",
            )))
        })
    }

    /// Between two transactions a session that listens is told what others say, until the client sends something.
    fn await_client(&mut self) -> Served {
        let Some(bell) = self.bell.clone() else { return Ok(()) };
        while self.session.transaction_status() == TransactionStatus::Idle && !self.wire.has_input() {
            match self.wire.wait_beside(&bell.0)? {
                Woken::Readable => return Ok(()),
                Woken::Rung => {
                    bell.0.silence();
                    self.send_notifications()?;
                    self.wire.flush()?;
                }
            }
        }
        Ok(())
    }

    /// Tells the client what has come on the channels that it listens to.
    fn send_notifications(&mut self) -> Served {
        if self.bell.is_none() {
            if !self.session.is_listening() {
                return Ok(());
            }
            let cannot = |error| Error::internal(format!("cannot wait for notifications: {error}"));
            let bell = Arc::new(ConnectionBell(Bell::new().map_err(cannot)?));
            self.session.use_doorbell(bell.clone());
            self.bell = Some(bell);
        }
        for heard in self.session.take_notifications() {
            let (channel, payload) = (heard.channel.clone(), heard.payload.clone());
            self.wire.send(&NotificationResponse::new(heard.sender, channel, payload))?;
            self.wire.flush_if_full()?;
        }
        Ok(())
    }

    /// Applies the settings of the startup packet.
    ///
    /// Drivers send preferences (a date style); those that are not supported are ignored, as the
    /// parameters that the server reports show. A time zone must be one. Settings that a user gives in `options` must be supported.
    fn apply_settings(&mut self, parameters: &HashMap<String, String>) -> Served {
        for (name, value) in parameters.iter().filter(|(name, _)| startup::is_setting(name)) {
            let set = self.set(name, value);
            if name.eq_ignore_ascii_case("timezone") {
                set.map_err(Failure::Fatal)?;
            }
        }
        let asked = startup::parse_options(parameters.get("options").map_or("", String::as_str));
        for (name, value) in asked.map_err(Failure::Fatal)? {
            self.set(&name, &value).map_err(Failure::Fatal)?;
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let quote = |text: &str, quote: &str| text.replace(quote, &quote.repeat(2));
        let sql = format!("SET \"{}\" = '{}'", quote(&name.to_lowercase(), "\""), quote(value, "'"));
        for statement in self.session.parse(&sql)? {
            let prepared = self.session.prepare(statement, &[])?;
            self.session.execute(&prepared, &[])?;
        }
        Ok(())
    }

    fn serve_frame(&mut self, frame: &Frame) -> Served {
        match frame.kind {
            b'X' => Err(Failure::Gone),
            b'S' => {
                self.skipping = false;
                let synced = self.sync(frame);
                self.report(synced)?;
                self.ready()
            }
            _ if self.skipping => Ok(()),
            b'Q' => {
                self.session.begin_message();
                let served = self.query(frame);
                self.report(served)?;
                self.ready()
            }
            _ => {
                self.session.begin_message();
                let served = self.extended(frame);
                self.skipping = matches!(served, Err(Failure::Statement(_)));
                self.report(served)
            }
        }
    }

    /// A message for which there is no memory fails like a statement.
    fn refuse_frame(&mut self, frame: &Frame, error: Error) -> Served {
        if self.skipping {
            return Ok(());
        }
        self.skipping = frame.kind != b'Q';
        self.report(Err(Failure::Statement(error)))?;
        if self.skipping { Ok(()) } else { self.ready() }
    }

    fn query(&mut self, frame: &Frame) -> Served {
        match frame.decode()? {
            Message::Query { sql } => self.simple_query(sql),
            _ => Ok(()),
        }
    }

    fn sync(&mut self, frame: &Frame) -> Served {
        // The previous work is ended first; then the message may turn out to be malformed.
        self.end_implicit()?;
        frame.decode()?;
        Ok(())
    }

    fn extended(&mut self, frame: &Frame) -> Served {
        match frame.decode()? {
            Message::Parse { name, sql, parameter_oids } => self.parse(name, sql, &parameter_oids),
            Message::Bind(bind) => self.bind(&bind),
            Message::Describe { target, name } => self.describe(target, name),
            Message::Execute { portal, max_rows } => self.execute_portal(portal, max_rows),
            Message::Close { target, name } => self.close(target, name),
            Message::Flush => self.wire.flush(),
            // Left over from a COPY that failed.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail { .. } => Ok(()),
            Message::Query { .. } | Message::Sync | Message::Terminate => Ok(()),
        }
    }

    /// Tells the client of a failed statement; passes errors on that end the connection.
    fn report(&mut self, served: Served) -> Served {
        match served {
            Err(Failure::Statement(error)) => {
                let schema = error.schema().map(|schema| self.session.schema_name(schema));
                self.fail_transaction()?;
                self.wire.send_error(ERROR, &error, schema)?;
                self.wire.flush()
            }
            other => other,
        }
    }

    fn ready(&mut self) -> Served {
        let status = self.session.transaction_status();
        if status != TransactionStatus::InTransaction {
            // Portals live as long as their transaction.
            self.portals.drain().for_each(|(name, _)| self.session.release_portal(&name));
        }
        self.session.end_message();
        self.send_notices()?;
        self.report_settings()?;
        if status == TransactionStatus::Idle {
            self.send_notifications()?;
        }
        self.wire.send_ready(status)?;
        self.wire.flush()
    }

    /// Runs a piece of a statement.
    pub(crate) fn run<T>(&mut self, work: impl FnOnce(&mut SqlSession) -> Result<T>) -> Served<T> {
        let session = &mut self.session;
        guard(|| work(session))
    }

    /// Runs a statement, and tells the client what there is to say about it.
    pub(crate) fn execute(&mut self, prepared: &Arc<Prepared>, parameters: &[Value]) -> Served<Outcome> {
        let outcome = self.run(|session| session.execute(prepared, parameters));
        self.send_notices()?;
        outcome
    }

    /// Tells the client what there is to say beside results.
    fn send_notices(&mut self) -> Served {
        self.session.take_notices().iter().try_for_each(|notice| self.wire.send_notice(notice))
    }

    /// Tells the client of settings that have changed.
    fn report_settings(&mut self) -> Served {
        let Some(settings) = self.session.take_reports() else { return Ok(()) };
        for (name, value) in settings.iter().filter(|setting| !self.reported.contains(setting)) {
            self.wire.send(&ParameterStatus::new((*name).to_owned(), value.clone()))?;
        }
        self.reported = settings;
        Ok(())
    }

    /// Begins a transaction that the client did not ask for: for several statements that belong together.
    pub(crate) fn begin_implicit(&mut self) {
        if !self.implicit {
            self.session.begin_implicit();
            self.implicit = true;
        }
    }

    /// Commits what [`begin_implicit`](Self::begin_implicit) began.
    pub(crate) fn end_implicit(&mut self) -> Served {
        match std::mem::take(&mut self.implicit) {
            true => self.run(SqlSession::end_implicit),
            false => Ok(()),
        }
    }

    /// After an error: rolls an implicit transaction back, makes an explicit one fail.
    fn fail_transaction(&mut self) -> Served {
        let open = self.session.transaction_status() == TransactionStatus::InTransaction;
        if std::mem::take(&mut self.implicit) || open {
            self.run(|session| {
                session.fail_implicit();
                Ok(())
            })?;
        }
        Ok(())
    }
}
