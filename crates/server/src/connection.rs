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
//! A connection has a thread as long as its client is busy, which sleeps in a read of the socket, and runs each message to its end. So a
//! statement may compute or wait for any time, and a short one costs two calls to the system: docs/design
//! (connections.md) has the comparison with few threads that serve many connections. A client that says nothing between two
//! transactions loses its thread to others (`idle`) until it does.

use crate::authentication::{Password, authenticate};
use crate::cancel::{CancelEntry, CancelRegistry};
use crate::connections::{ConnectionPlace, Connections};
use crate::encryption::Encryption;
use crate::frontend::{Frame, Message};
use crate::guard::guard;
use crate::hangup::{HangupWatch, Hangups};
use crate::idle::{IdleConnections, LINGER, Resting};
use crate::polling::Polling;
use crate::portal::{NamedStatement, Portal};
use crate::startup;
use crate::tls::Tls;
use crate::wire::{Failure, Served, Wire};
use crate::workers::Work;
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_socket::{Bell, Stream, Woken};
use ankerdb_sql::{Doorbell, Outcome, Peer, Prepared, SqlEngine, SqlSession, TransactionStatus};
use ankerdb_value::Value;
use pgwire::messages::response::NotificationResponse;
use pgwire::messages::startup::ParameterStatus;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const ERROR: &str = "ERROR";
const FATAL: &str = "FATAL";
/// How long a client that does not read is waited for, to tell it why its connection ends.
const FAREWELL: Duration = Duration::from_secs(1);
/// The type of the message with which a client takes its leave.
const TERMINATE: u8 = b'X';

/// What all connections of a server share.
pub(crate) struct ServerState {
    pub engine: SqlEngine,
    pub cancels: Arc<CancelRegistry>,
    pub connections: Arc<Connections>,
    pub hangups: Hangups,
    pub idle: IdleConnections,
    pub sessions: Arc<Sessions>,
    pub password: Option<Password>,
    pub tls: Option<Tls>,
}

/// The number of sessions, and its limit.
pub(crate) struct Sessions {
    limit: usize,
    open: AtomicUsize,
}

/// A place for one session; given up when dropped.
struct Permit(Arc<Sessions>);

impl Sessions {
    pub(crate) fn at_most(limit: usize) -> Arc<Sessions> {
        Arc::new(Sessions { limit, open: AtomicUsize::new(0) })
    }

    /// # Errors
    /// `TooManyConnections`.
    fn enter(self: &Arc<Self>) -> Result<Permit> {
        let one_more = |open| (open < self.limit).then_some(open + 1);
        match self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(Permit(self.clone())),
            Err(_) => Err(too_many()),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// There are more connections than there can be sessions.
pub(crate) fn too_many() -> Error {
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
    /// Whether the client's last silence was a short one.
    is_busy: bool,
    /// Whether it pays to stay awake until the client's next message.
    polling: Polling,
}

/// A client's connection, from its first byte to its last.
pub(crate) struct Client {
    stage: Stage,
    stream: Arc<Stream>,
    shared: Arc<ServerState>,
    _place: ConnectionPlace,
}

enum Stage {
    /// Nothing has been read yet.
    New,
    Session(Box<Started>),
}

/// A session that messages are served of. Declared in the order in which it is taken down.
struct Started {
    connection: Connection,
    /// Since it has no thread.
    silent_since: Instant,
    _watch: HangupWatch,
    cancel: CancelEntry,
    _permit: Permit,
}

/// Why no more messages are served.
enum Pause {
    /// The client says nothing, and has nothing open that others could wait for.
    Idle,
    /// The client has ended the connection.
    Over,
}

/// The end of a session, told once all that it held is given up.
type Ended = Box<(Wire, Failure)>;

impl Client {
    pub(crate) fn new(stream: Arc<Stream>, shared: Arc<ServerState>, place: ConnectionPlace) -> Box<Client> {
        Box::new(Client { stage: Stage::New, stream, shared, _place: place })
    }

    fn session(&self) -> Option<&SqlSession> {
        match &self.stage {
            Stage::New => None,
            Stage::Session(started) => Some(&started.connection.session),
        }
    }

    /// Starts the session that the client asks for, and serves its first messages.
    fn start(&mut self) -> Result<Pause, Ended> {
        // Answers are written in one piece; waiting for more to send only delays them. Failing is no harm.
        let _ = self.stream.send_at_once();
        let mut wire = Wire::new(self.stream.clone(), self.shared.connections.clone());
        match startup::negotiate(&mut wire, &self.shared.cancels, self.shared.tls.as_ref()) {
            Ok(Some(parameters)) => {
                if let Err(failure) = let_in(&mut wire, &self.shared, &parameters) {
                    return Err(Box::new((wire, failure)));
                }
                let started = open_session(&self.stream, wire, &self.shared, &parameters)?;
                self.serve_session(started, |connection, shared, cancel| {
                    connection.greet(&parameters, cancel)?;
                    connection.serve(&shared.idle)
                })
            }
            Ok(None) => Ok(Pause::Over),
            Err(failure) => Err(Box::new((wire, failure))),
        }
    }

    fn resume(&mut self, mut started: Box<Started>) -> Result<Pause, Ended> {
        started.connection.is_busy = started.silent_since.elapsed() < LINGER;
        self.serve_session(started, |connection, shared, _| connection.serve(&shared.idle))
    }

    /// Serves messages. The session is gone when this fails, and with it all that it holds, even if the client is slow to read why.
    fn serve_session(
        &mut self,
        mut started: Box<Started>,
        serve: impl FnOnce(&mut Connection, &ServerState, &CancelEntry) -> Served<Pause>,
    ) -> Result<Pause, Ended> {
        match serve(&mut started.connection, &self.shared, &started.cancel) {
            Ok(Pause::Idle) => {
                started.connection.wire.give_buffers_back();
                started.silent_since = Instant::now();
                self.stage = Stage::Session(started);
                Ok(Pause::Idle)
            }
            Ok(Pause::Over) => Ok(Pause::Over),
            // Another session may have ended this one while it waited for its client. What has ended the last statement only is no
            // reason to tell a client that has taken its leave.
            Err(Failure::Gone)
                if let Err(error) = started.connection.session.cancel_handle().check()
                    && let ended @ Failure::Fatal(_) = Failure::from(error) =>
            {
                Err(Box::new((started.connection.wire, ended)))
            }
            Err(failure) => Err(Box::new((started.connection.wire, failure))),
        }
    }
}

impl Resting for Client {
    fn statements(&self) -> usize {
        self.session().map_or(0, SqlSession::recent_statements)
    }

    fn is_outdated(&self) -> bool {
        self.session().is_some_and(SqlSession::has_outdated_statements)
    }

    fn forget(&mut self) -> Option<Box<dyn Send>> {
        match &mut self.stage {
            Stage::New => None,
            Stage::Session(started) => Some(Box::new(started.connection.session.forget_recent())),
        }
    }
}

impl Work for Client {
    fn run(mut self: Box<Self>) {
        let served = match std::mem::replace(&mut self.stage, Stage::New) {
            Stage::New => self.start(),
            Stage::Session(started) => self.resume(started),
        };
        match served {
            Ok(Pause::Idle) => {
                let (stream, shared) = (self.stream.clone(), self.shared.clone());
                shared.idle.take(&stream, self);
            }
            Ok(Pause::Over) => {}
            Err(ended) => {
                let (mut wire, failure) = *ended;
                farewell(&mut wire, failure);
            }
        }
    }

    fn refuse(self: Box<Self>) {
        turn_away(self.stream, &self.shared.connections, too_many());
    }
}

/// Turns a client away before it has sent anything.
pub(crate) fn turn_away(stream: Arc<Stream>, connections: &Arc<Connections>, why: Error) {
    let mut wire = Wire::new(stream, connections.clone());
    farewell(&mut wire, Failure::Fatal(why));
}

/// Lets a client in that has come as it has to, and knows the password.
fn let_in(wire: &mut Wire, shared: &ServerState, parameters: &HashMap<String, String>) -> Served {
    startup::check_encryption(wire, shared.tls.as_ref(), parameters)?;
    match &shared.password {
        Some(password) => authenticate(wire, password, parameters),
        None => Ok(()),
    }
}

/// Opens the session that a client asks for.
fn open_session(
    stream: &Arc<Stream>,
    wire: Wire,
    shared: &ServerState,
    parameters: &HashMap<String, String>,
) -> Result<Box<Started>, Ended> {
    let permit = match shared.sessions.enter() {
        Ok(permit) => permit,
        Err(error) => return Err(Box::new((wire, Failure::Fatal(error)))),
    };
    if let Err(failure) = startup::check(parameters) {
        return Err(Box::new((wire, failure)));
    }
    let mut session = shared.engine.session();
    let cancel = shared.cancels.register(session.cancel_handle(), stream.clone());
    let peer = Peer {
        user: parameters.get("user").cloned().unwrap_or_default(),
        client: stream.peer_address(),
        server: stream.local_address(),
        cipher: wire.encryption().map(Encryption::cipher),
    };
    session.join_backends(cancel.process, peer, shared.cancels.clone());
    let watch = match shared.hangups.watch(stream.clone(), session.cancel_handle()) {
        Ok(watch) => watch,
        Err(error) => return Err(Box::new((wire, Failure::Fatal(error)))),
    };
    let mut wire = wire;
    wire.limit_memory(session.engine().database().memory_limit());
    if let Err(failure) = wire.heed(session.cancel_handle()) {
        return Err(Box::new((wire, failure)));
    }
    let connection = Connection {
        wire,
        session,
        unnamed: None,
        portals: HashMap::new(),
        reported: Vec::new(),
        bell: None,
        implicit: false,
        skipping: false,
        is_busy: false,
        polling: Polling::default(),
    };
    let silent_since = Instant::now();
    Ok(Box::new(Started { connection, silent_since, _watch: watch, cancel, _permit: permit }))
}

/// Sends the last message, if the client is still there.
pub(crate) fn farewell(wire: &mut Wire, failure: Failure) {
    let (Failure::Fatal(error) | Failure::Statement(error)) = failure else { return };
    if wire.send_error(FATAL, &error, None).is_ok() {
        wire.flush_last(FAREWELL);
    }
}

impl Connection {
    /// Applies the settings that the client asks for, and accepts it.
    fn greet(&mut self, parameters: &HashMap<String, String>, cancel: &CancelEntry) -> Served {
        self.apply_settings(parameters)?;
        self.session.begin_with_these_settings();
        self.reported = self.session.take_reports().unwrap_or_default();
        startup::greet(&mut self.wire, parameters, &self.reported, cancel)?;
        self.ready()
    }

    /// Serves messages until the client leaves, says nothing for a while, or something ends the connection.
    fn serve(&mut self, idle: &IdleConnections) -> Served<Pause> {
        let mut frame = Frame::default();
        loop {
            match self.next_frame(&mut frame, idle) {
                Ok(true) if frame.kind == TERMINATE => return Ok(Pause::Over),
                Ok(true) => self.serve_frame(&frame)?,
                Ok(false) => return Ok(Pause::Idle),
                Err(Failure::Statement(error)) => self.refuse_frame(&frame, error)?,
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Waits for the next message; with an open transaction not longer than the session allows. `false` if there is none and the
    /// connection can do without a thread.
    fn next_frame(&mut self, frame: &mut Frame, idle: &IdleConnections) -> Served<bool> {
        self.await_client()?;
        let limit = self.session.idle_limit();
        self.wire.set_patience(Some(limit.unwrap_or(LINGER)))?;
        // One that listens is woken by its bell, for which it needs a thread.
        let may_leave = self.session.transaction_status() == TransactionStatus::Idle
            && self.bell.is_none()
            && !self.skipping;
        if idle.may_poll() {
            self.wire.poll(&mut self.polling);
        }
        if may_leave && !self.wire.has_input() {
            let lingerer = idle.linger(self.is_busy);
            if !self.wire.fill_once(lingerer.is_some())? {
                return Ok(false);
            }
            self.is_busy = true;
        }
        self.wire.read_frame(frame, &mut || match limit {
            None => Ok(()),
            Some(_) => Err(Failure::Fatal(Error::new(
                SqlState::IdleInTransactionSessionTimeout,
                "terminating connection due to idle-in-transaction timeout",
            ))),
        })?;
        Ok(true)
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
            if self.wire.is_full() {
                self.wire.flush()?;
            }
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
                self.report(served)?;
                if self.skipping { self.wire.flush() } else { Ok(()) }
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
        if self.skipping { self.wire.flush() } else { self.ready() }
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
                self.wire.send_error(ERROR, &error, schema)
            }
            other => other,
        }
    }

    fn ready(&mut self) -> Served {
        let status = self.session.transaction_status();
        // Portals live as long as their transaction; those that are cursors, also behind an error in it, as it may go back to a savepoint.
        if status != TransactionStatus::InTransaction {
            let is_failed = status == TransactionStatus::Failed;
            let gone = |_: &String, portal: &mut Portal| !(is_failed && portal.is_cursor());
            self.portals.extract_if(gone).for_each(|(name, _)| self.session.release_portal(&name));
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
    pub(crate) fn send_notices(&mut self) -> Served {
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
