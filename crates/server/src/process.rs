//! A server as a process: signals end it (docs/design/server-life.md).

use crate::server::{Server, ServerOptions};
use ankerdb_base::{Error, Result};
use ankerdb_sql::SqlEngine;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A signal that comes so soon after another is the same: `timeout`, for example, sends one to the process and one to its group.
const SAME: Duration = Duration::from_millis(100);
/// Added to a signal's number in the exit code of a process that it has ended, as shells have it.
const SIGNALED: i32 = 128;

/// The owner of a server's database, called at the turns of the server's life.
pub trait DatabaseOwner: Send + Sync {
    /// Opens the database, while clients are told that the system is starting up.
    ///
    /// # Errors
    /// Those that the server ends with.
    fn open(&self) -> Result<SqlEngine>;

    /// Sessions are let in.
    fn ready(&self, address: SocketAddr, socket: Option<&Path>);

    /// The process was sent SIGHUP, which asks for certificates to be read again. Only where there is TLS; elsewhere the signal ends the
    /// process.
    fn renew(&self);

    /// The server was asked to end.
    fn stopping(&self);

    /// Closes the database, when sessions have ended, while clients are told that the system is shutting down.
    ///
    /// # Errors
    /// Those that the server ends with.
    fn close(&self) -> Result<()>;
}

/// Runs a server until the process is asked to end (ctrl-c or SIGTERM). Where sessions were not let in yet, and when it is asked once
/// more, the process ends at once.
///
/// # Errors
/// Those of [`Server::bind`], [`DatabaseOwner::open`] and [`DatabaseOwner::close`].
pub fn serve_blocking(options: &ServerOptions, owner: &Arc<impl DatabaseOwner + 'static>) -> Result<()> {
    let cannot = |error| Error::internal(format!("cannot listen for signals: {error}"));
    let renewal = options.tls.is_some().then_some(SIGHUP);
    let mut signals = Signals::new([SIGINT, SIGTERM].into_iter().chain(renewal)).map_err(cannot)?;
    let server = Server::bind(options)?;
    let stopper = server.stopper();
    let told = owner.clone();
    let listening = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut signals = signals.forever().filter(|signal| {
            let is_renewal = *signal == SIGHUP;
            if is_renewal {
                told.renew();
            }
            !is_renewal
        });
        if signals.next().is_none() {
            return;
        }
        told.stopping();
        if !stopper.stop() {
            // Nothing was acknowledged, and recovery can be repeated.
            std::process::exit(0);
        }
        let begun = Instant::now();
        if let Some(signal) = signals.find(|_| begun.elapsed() > SAME) {
            eprintln!("ankerdb: told twice to stop: the database is not closed");
            std::process::exit(SIGNALED + signal);
        }
    });
    listening.map_err(cannot)?;
    server.admit(owner.open()?)?;
    owner.ready(server.local_address(), server.socket_path());
    server.run();
    owner.close()
}
