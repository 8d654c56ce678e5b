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
//! Messages are read on the runtime's worker threads, which serve all connections. Work that blocks a worker has to run in
//! [`tokio::task::block_in_place`], which gives the other connections to another thread: two wake-ups and some task
//! switches, more than a short statement costs itself. So there are two ways to run something:
//!
//! - [`Connection::briefly`], for what takes microseconds: right here. Should it have to sleep after all, for a row that
//!   another transaction has locked, the place that is about to sleep says so
//!   ([`with_sleeper`](ankerdb_sql::with_sleeper)), and only that sleep is handed over.
//! - [`Connection::blocking`], for everything whose length nothing bounds: all of it is handed over.
//!
//! Which is which, the SQL session knows ([`SqlSession::is_brief`]). Results that go on for long give way to other
//! connections after each piece that was written ([`Wire::flush_if_full`]).

use crate::cancel::{CancelEntry, CancelRegistry};
use crate::frontend::{Frame, Message};
use crate::hangup::HangupWatch;
use crate::portal::{NamedStatement, Portal};
use crate::startup;
use crate::wire::{Failure, Served, Wire};
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_sql::{Outcome, Prepared, SqlEngine, SqlSession, TransactionStatus, with_sleeper};
use ankerdb_value::Value;
use futures::FutureExt;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};

/// How long a client may take to say what it wants, as PostgreSQL's `authentication_timeout`.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);

/// Texts up to this length are parsed and planned within microseconds, but for the planning of analytical queries, which
/// announces itself; and as much data of a COPY is taken.
const BRIEF_BYTES: usize = 8 * 1024;

const ERROR: &str = "ERROR";
const FATAL: &str = "FATAL";

/// What all connections of a server share.
pub(crate) struct Shared {
    pub engine: SqlEngine,
    pub cancels: Arc<CancelRegistry>,
    /// One permit for each session.
    pub sessions: Semaphore,
}

/// A started session.
pub(crate) struct Connection {
    pub wire: Wire,
    pub session: SqlSession,
    pub statements: HashMap<String, NamedStatement>,
    pub portals: HashMap<String, Portal>,
    /// Whether a transaction is open that the client did not begin.
    implicit: bool,
    /// Whether messages are skipped until the next Sync.
    skipping: bool,
}

/// Serves one client from its first byte to its last.
pub(crate) async fn serve(stream: TcpStream, shared: Arc<Shared>, shutdown: watch::Receiver<bool>) {
    // Answers are written in one piece; waiting for more to send only delays them. Failing is no harm.
    let _ = stream.set_nodelay(true);
    let stream = Arc::new(stream);
    let mut wire = Wire::new(stream.clone(), shutdown);
    let parameters =
        match tokio::time::timeout(STARTUP_TIMEOUT, startup::negotiate(&mut wire, &shared.cancels)).await {
            Ok(Ok(Some(parameters))) => parameters,
            Ok(Ok(None)) | Err(_) => return,
            Ok(Err(failure)) => return farewell(&mut wire, failure).await,
        };
    let Ok(_permit) = shared.sessions.try_acquire() else {
        let error = Error::new(SqlState::TooManyConnections, "sorry, too many clients already");
        return farewell(&mut wire, Failure::Fatal(error)).await;
    };
    if let Err(failure) = startup::check(&parameters) {
        return farewell(&mut wire, failure).await;
    }
    let session = shared.engine.session();
    let cancel = shared.cancels.register(session.cancel_handle());
    let _watch = HangupWatch::start(stream, session.cancel_handle());
    let mut connection = Connection {
        wire,
        session,
        statements: HashMap::new(),
        portals: HashMap::new(),
        implicit: false,
        skipping: false,
    };
    let Err(failure) = connection.run(&parameters, &cancel).await else { return };
    // The client may take its time to hear why; nobody else waits for that.
    let Connection { mut wire, session, .. } = connection;
    drop(session);
    farewell(&mut wire, failure).await;
}

/// The last words, if there is anyone to hear them.
async fn farewell(wire: &mut Wire, failure: Failure) {
    let (Failure::Fatal(error) | Failure::Statement(error)) = failure else { return };
    if wire.send_error(FATAL, &error).is_ok() {
        // The connection ends here; that the client cannot be told changes nothing.
        let _ = wire.flush().await;
    }
}

impl Connection {
    /// Serves messages until the client leaves or something ends the connection.
    async fn run(&mut self, parameters: &HashMap<String, String>, cancel: &CancelEntry) -> Served {
        self.apply_settings(parameters)?;
        startup::greet(&mut self.wire, parameters, cancel)?;
        self.ready().await?;
        loop {
            let frame = self.next_frame().await?;
            self.serve_frame(&frame).await?;
            // A client that always has something to say must not keep the thread from the others.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Waits for the next message; with an open transaction not longer than the session allows.
    async fn next_frame(&mut self) -> Served<Frame> {
        let Some(limit) = self.session.idle_limit() else { return self.wire.read_frame().await };
        match tokio::time::timeout(limit, self.wire.read_frame()).await {
            Ok(frame) => frame,
            Err(_) => Err(Failure::Fatal(Error::new(
                SqlState::IdleInTransactionSessionTimeout,
                "terminating connection due to idle-in-transaction timeout",
            ))),
        }
    }

    /// Applies the settings of the startup packet.
    ///
    /// Drivers send what they would like (a time zone, a date style); what they cannot have they do not get, as they
    /// read from the parameters that the server reports. What a user asks for in `options` must be.
    fn apply_settings(&mut self, parameters: &HashMap<String, String>) -> Served {
        for (name, value) in parameters.iter().filter(|(name, _)| startup::is_setting(name)) {
            let _ = self.set(name, value);
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

    async fn serve_frame(&mut self, frame: &Frame) -> Served {
        match frame.kind {
            b'X' => Err(Failure::Gone),
            b'S' => {
                self.skipping = false;
                let synced = self.sync(frame);
                self.report(synced).await?;
                self.ready().await
            }
            _ if self.skipping => Ok(()),
            b'Q' => {
                self.session.begin_message();
                let served = self.query(frame).await;
                self.report(served).await?;
                self.ready().await
            }
            _ => {
                self.session.begin_message();
                let served = self.extended(frame).await;
                self.skipping = matches!(served, Err(Failure::Statement(_)));
                self.report(served).await
            }
        }
    }

    async fn query(&mut self, frame: &Frame) -> Served {
        match frame.decode()? {
            Message::Query { sql } => self.simple_query(sql).await,
            _ => Ok(()),
        }
    }

    fn sync(&mut self, frame: &Frame) -> Served {
        // First what was done is ended, then the message may turn out to be malformed.
        self.end_implicit()?;
        frame.decode()?;
        Ok(())
    }

    async fn extended(&mut self, frame: &Frame) -> Served {
        match frame.decode()? {
            Message::Parse { name, sql, parameter_oids } => self.parse(name, sql, &parameter_oids),
            Message::Bind(bind) => self.bind(&bind),
            Message::Describe { target, name } => self.describe(target, name),
            Message::Execute { portal, max_rows } => self.execute_portal(portal, max_rows).await,
            Message::Close { target, name } => self.close(target, name),
            Message::Flush => self.wire.flush().await,
            // Left over from a COPY that failed.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail { .. } => Ok(()),
            Message::Query { .. } | Message::Sync | Message::Terminate => Ok(()),
        }
    }

    /// Tells the client of a failed statement; passes on what ends the connection.
    async fn report(&mut self, served: Served) -> Served {
        match served {
            Err(Failure::Statement(error)) => {
                self.fail_transaction()?;
                self.wire.send_error(ERROR, &error)?;
                self.wire.flush().await
            }
            other => other,
        }
    }

    async fn ready(&mut self) -> Served {
        let status = self.session.transaction_status();
        if status != TransactionStatus::InTransaction {
            // Portals live as long as their transaction.
            self.portals.clear();
        }
        self.session.end_message();
        self.wire.send_ready(status)?;
        self.wire.flush().await
    }

    /// Runs something that may take long or wait.
    pub(crate) fn blocking<T>(&mut self, work: impl FnOnce(&mut SqlSession) -> Result<T>) -> Served<T> {
        let session = &mut self.session;
        guard(|| tokio::task::block_in_place(|| work(session)))
    }

    /// Runs something that takes microseconds unless it announces that it blocks.
    fn briefly<T>(&mut self, work: impl FnOnce(&mut SqlSession) -> Result<T>) -> Served<T> {
        let session = &mut self.session;
        guard(|| with_sleeper(|sleep| tokio::task::block_in_place(sleep), || work(session)))
    }

    fn brief_or_blocking<T>(
        &mut self,
        is_brief: bool,
        work: impl FnOnce(&mut SqlSession) -> Result<T>,
    ) -> Served<T> {
        if is_brief { self.briefly(work) } else { self.blocking(work) }
    }

    /// Parses or plans a text, or takes data, of this length.
    pub(crate) fn by_length<T>(
        &mut self,
        length: usize,
        work: impl FnOnce(&mut SqlSession) -> Result<T>,
    ) -> Served<T> {
        self.brief_or_blocking(length <= BRIEF_BYTES, work)
    }

    /// Runs a statement.
    pub(crate) fn execute(&mut self, prepared: &Arc<Prepared>, parameters: &[Value]) -> Served<Outcome> {
        let is_brief = self.session.is_brief(prepared);
        self.brief_or_blocking(is_brief, |session| session.execute(prepared, parameters))
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
            true => self.brief_or_blocking(self.session.ends_briefly(), SqlSession::end_implicit),
            false => Ok(()),
        }
    }

    /// After an error: rolls an implicit transaction back, makes an explicit one fail.
    fn fail_transaction(&mut self) -> Served {
        let open = self.session.transaction_status() == TransactionStatus::InTransaction;
        if std::mem::take(&mut self.implicit) || open {
            self.brief_or_blocking(self.session.ends_briefly(), |session| {
                session.fail_implicit();
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Runs a piece of a statement. A panic in it ends this connection, since nothing is known about the session's
/// state then, and no other.
fn guard<T>(work: impl FnOnce() -> Result<T>) -> Served<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => Ok(result?),
        Err(_) => Err(panicked()),
    }
}

/// As [`guard`], for work that waits.
pub(crate) async fn guarded<T>(work: impl Future<Output = Result<T>>) -> Served<T> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(result) => Ok(result?),
        Err(_) => Err(panicked()),
    }
}

fn panicked() -> Failure {
    let error = Error::internal("the statement hit a bug in AnKerDB; its transaction was rolled back");
    Failure::Fatal(error.with_hint("The server's standard error output says where; please report it."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_its_own_connection() {
        let failure = guard(|| -> Result<()> { panic!("on purpose") }).unwrap_err();
        assert!(matches!(failure, Failure::Fatal(error) if error.state() == SqlState::InternalError));
        assert_eq!(guard(|| Ok(1)).unwrap(), 1);
    }

    #[test]
    fn a_panic_while_waiting_ends_its_own_connection() {
        let waiting = guarded(async { if true { panic!("on purpose") } else { Ok(()) } });
        let failure = futures::executor::block_on(waiting).unwrap_err();
        assert!(matches!(failure, Failure::Fatal(error) if error.state() == SqlState::InternalError));
    }
}
