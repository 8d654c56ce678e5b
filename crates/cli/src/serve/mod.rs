//! `ankerdb serve`

mod herald;
mod password;
mod secret;
mod service_manager;
mod tls;

use crate::engine::EngineOption;
use crate::{at_least_one, invalid};
use ankerdb_engine::{Database, Durability, Error, Result};
use ankerdb_measure::machine::Machine;
use ankerdb_server::{DatabaseOwner, ServerOptions, serve_blocking};
use ankerdb_sql::{KeptTexts, SqlEngine, SqlOptions, parse_bytes};
use ankerdb_workload::htap::config::default_threads;
use clap::Args;
use herald::Herald;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tls::TlsFiles;

/// The share of memory that analytical queries together may use for hash tables, sorts and so on is 1 / this.
const QUERY_MEMORY_SHARE: u64 = 4;

/// Options of `serve`.
#[derive(Args)]
pub(crate) struct ServeOptions {
    /// Host and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5432")]
    listen: String,
    /// Folder with a socket for programs on this machine, such as /tmp: `psql -h /tmp`; by default there is none
    #[arg(long, value_name = "FOLDER")]
    socket_folder: Option<PathBuf>,
    /// File whose first line is the password that clients have to know, or PostgreSQL's SCRAM-SHA-256 verifier of it; readable
    /// for its owner alone. By default everybody who reaches the server may connect
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// File with the server's certificate in PEM, and those that lead from it to an authority: clients may then ask for TLS. By default
    /// there is none
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// File with the certificate's private key in PEM; readable for its owner alone. SIGHUP has both files read again
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Refuse clients that come over the network without TLS
    #[arg(long, requires = "tls_certificate")]
    tls_required: bool,
    /// Threads that run analytical queries
    #[arg(long, value_name = "N", default_value_t = default_threads())]
    olap_threads: usize,
    /// Connections at the same time
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_connections: usize,
    /// Memory that the server may take, such as 4GB: requests for more get an error. By default four fifths of the
    /// machine's
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<String>,
    /// Memory that a snapshot may keep of the past while queries with ankerdb.max_staleness share it, such as 512MB. By default an
    /// eighth of the memory limit
    #[arg(long, value_name = "SIZE")]
    history_limit: Option<String>,
    /// Folder that the database is kept in; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "ankerdb-data", conflicts_with = "in_memory")]
    data_dir: PathBuf,
    /// Keep nothing: the data is gone when the server stops
    #[arg(long)]
    in_memory: bool,
    /// Where the log in the folder is damaged, begin with what comes before the damage, and lose what comes behind it
    #[arg(long, conflicts_with = "in_memory")]
    recover_to_last_valid: bool,
    /// Folder whose files every client may read and write with COPY FROM and TO; by default there is none
    #[arg(long, value_name = "FOLDER")]
    copy_folder: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineOption,
}

impl ServeOptions {
    /// The options with which the database is opened.
    fn database(&self) -> Result<ankerdb_engine::Options> {
        let mut options = ankerdb_engine::Options::from(self.engine.engine);
        if let Some(size) = &self.memory_limit {
            options.set_memory_limit(parse_bytes("memory_limit", size)?);
        }
        if let Some(size) = &self.history_limit {
            options.history_limit = Some(parse_bytes("history_limit", size)?);
        }
        Ok(options)
    }

    /// The folder that the database is kept in, if it is to be kept.
    fn data_dir(&self) -> Result<Option<PathBuf>> {
        if self.in_memory {
            return Ok(None);
        }
        // Of it and the folders that it lies in, those that are there must be folders.
        match self.data_dir.ancestors().find(|folder| folder.exists()).filter(|folder| !folder.is_dir()) {
            Some(file) => {
                Err(invalid(format!("--data-dir must be a folder, and \"{}\" is none", file.display())))
            }
            None => Ok(Some(self.data_dir.clone())),
        }
    }

    /// The folder whose files COPY may use.
    fn copy_folder(&self) -> Result<Option<PathBuf>> {
        folder("--copy-folder", self.copy_folder.as_deref())
    }

    /// The folder of the socket.
    fn socket_folder(&self) -> Result<Option<PathBuf>> {
        folder("--socket-folder", self.socket_folder.as_deref())
    }
}

/// A folder that is there, if one is given.
fn folder(option: &str, given: Option<&Path>) -> Result<Option<PathBuf>> {
    let Some(folder) = given else { return Ok(None) };
    let found = folder.canonicalize().ok().filter(|found| found.is_dir());
    let wrong = || invalid(format!("{option} must be a folder, not \"{}\"", folder.display()));
    found.ok_or_else(wrong).map(Some)
}

/// Serves until ctrl-c or SIGTERM.
pub(crate) fn run(options: &ServeOptions) -> Result<()> {
    at_least_one("--olap-threads", options.olap_threads)?;
    at_least_one("--max-connections", options.max_connections)?;
    let tls = TlsFiles::read(options)?;
    let server_options = ServerOptions {
        listen: resolve(&options.listen)?,
        socket_folder: options.socket_folder()?,
        max_connections: options.max_connections,
        password: options.password_file.as_deref().map(password::read).transpose()?,
        tls: tls.as_ref().map(TlsFiles::tls),
    };
    if let Some(warning) = password::warning(server_options.listen, server_options.password.as_ref()) {
        eprintln!("ankerdb: {warning}");
    }
    let query_bytes = (Machine::detect().memory_bytes / QUERY_MEMORY_SHARE).max(256 << 20) as usize;
    let keeper = Keeper {
        database_options: options.database()?,
        sql_options: SqlOptions { olap_threads: options.olap_threads, memory_limit_bytes: query_bytes },
        data_dir: options.data_dir()?,
        recover_to_last_valid: options.recover_to_last_valid,
        copy_folder: options.copy_folder()?,
        tls,
        herald: Herald::start(),
        database: OnceLock::new(),
    };
    serve_blocking(&server_options, &Arc::new(keeper)).map_err(|error| {
        let is_port = error.message().starts_with("cannot listen on") && error.hint().is_none();
        match is_port && error.message().contains("in use") {
            true => Error::new(error.state(), error.message().to_owned())
                .with_hint("Another server listens there; choose another port with --listen."),
            false => error,
        }
    })
}

/// The server's database.
struct Keeper {
    database_options: ankerdb_engine::Options,
    sql_options: SqlOptions,
    /// None for a database that is gone when the server stops.
    data_dir: Option<PathBuf>,
    recover_to_last_valid: bool,
    copy_folder: Option<PathBuf>,
    tls: Option<TlsFiles>,
    herald: Arc<Herald>,
    database: OnceLock<Database>,
}

impl DatabaseOwner for Keeper {
    fn open(&self) -> Result<SqlEngine> {
        let database = self.open_database()?;
        let engine = SqlEngine::new(database.clone(), self.sql_options.clone())?;
        if let Some(folder) = &self.copy_folder {
            engine.give_files(folder.clone());
        }
        let _ = self.database.set(database);
        Ok(engine)
    }

    fn ready(&self, address: SocketAddr, socket: Option<&Path>) {
        let kept = match &self.data_dir {
            Some(folder) => format!("data is kept in {}", absolute(folder).display()),
            None => "in-memory: data is gone when it stops".to_owned(),
        };
        let socket = socket.map_or_else(String::new, |path| format!(" and {}", path.display()));
        self.herald.ready(&format!("ankerdb is ready on {address}{socket} ({kept})"));
    }

    fn renew(&self) {
        self.tls.iter().for_each(TlsFiles::renew);
    }

    fn stopping(&self) {
        self.herald.stopping();
    }

    /// What sessions did not wait for is written, too.
    fn close(&self) -> Result<()> {
        self.database.get().map_or(Ok(()), Database::close)
    }
}

impl Keeper {
    /// The database, with what its folder keeps.
    fn open_database(&self) -> Result<Database> {
        let own = self.database_options.clone();
        let Some(folder) = &self.data_dir else { return Database::open(own) };
        let mut durability = Durability::in_folder(folder);
        durability.log.recover_to_last_valid = self.recover_to_last_valid;
        let herald = self.herald.clone();
        durability.log.progress = Some(Arc::new(move |read, total| herald.read(read, total)));
        let database = Database::open_in(own, &durability, &KeptTexts::new())?;
        if let Some(loss) = database.loss() {
            let (bytes, offset, file) = (loss.bytes, loss.offset, loss.file.display());
            eprintln!(
                "ankerdb: the log was damaged; {bytes} bytes from offset {offset} of {file} on are given up"
            );
            if database.loss_splits_commits() {
                eprintln!(
                    "ankerdb: that reaches into the last checkpoint: of the last commits before it some rows may be there and others not"
                );
            }
        }
        Ok(database)
    }
}

/// A folder as it is found from everywhere.
fn absolute(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

fn resolve(listen: &str) -> Result<SocketAddr> {
    let wrong = || invalid(format!("--listen must be HOST:PORT, such as 127.0.0.1:5432, not \"{listen}\""));
    if !listen.contains(':') {
        return Err(wrong());
    }
    listen.to_socket_addrs().map_err(|_| wrong())?.next().ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_host_and_port() {
        assert_eq!(resolve("127.0.0.1:0").expect("is an address").to_string(), "127.0.0.1:0");
        assert_eq!(resolve("[::1]:99").expect("is an address").port(), 99);
        for wrong in ["5432", "localhost", "127.0.0.1:x", "127.0.0.1:99999", ""] {
            let message = resolve(wrong).expect_err("is no address").to_string();
            assert!(message.contains("HOST:PORT"), "{wrong}: {message}");
        }
    }
}
