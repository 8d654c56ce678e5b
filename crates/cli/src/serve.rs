//! `ankerdb serve`

use crate::engine::EngineOption;
use crate::{at_least_one, invalid};
use ankerdb_engine::{Database, Durability, Error, Result};
use ankerdb_measure::machine::Machine;
use ankerdb_server::{ServerOptions, serve_blocking};
use ankerdb_sql::{KeptTexts, SqlEngine, SqlOptions, parse_bytes};
use ankerdb_workload::htap::config::default_threads;
use clap::Args;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The share of memory that analytical queries together may use for hash tables, sorts and so on is 1 / this.
const QUERY_MEMORY_SHARE: u64 = 4;

/// How often it is told how much of the log has been read.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// Options of `serve`.
#[derive(Args)]
pub(crate) struct Options {
    /// Host and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5432")]
    listen: String,
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

impl Options {
    /// The options with which the database is opened.
    fn database(&self) -> Result<ankerdb_engine::Options> {
        let mut options = ankerdb_engine::Options::from(self.engine.engine);
        if let Some(size) = &self.memory_limit {
            options.memory_limit = Some(parse_bytes("memory_limit", size)?);
        }
        Ok(options)
    }
}

/// Serves until ctrl-c or SIGTERM.
pub(crate) fn run(options: &Options) -> Result<()> {
    at_least_one("--olap-threads", options.olap_threads)?;
    at_least_one("--max-connections", options.max_connections)?;
    let listen = resolve(&options.listen)?;
    let query_bytes = (Machine::detect().memory_bytes / QUERY_MEMORY_SHARE).max(256 << 20) as usize;
    let sql_options = SqlOptions { olap_threads: options.olap_threads, memory_limit_bytes: query_bytes };
    let database = open(options)?;
    let engine = SqlEngine::new(database.clone(), sql_options)?;
    if let Some(folder) = &options.copy_folder {
        let found = folder.canonicalize().ok().filter(|found| found.is_dir());
        let wrong = || invalid(format!("--copy-folder must be a folder, not \"{}\"", folder.display()));
        engine.give_files(found.ok_or_else(wrong)?);
    }
    let server_options = ServerOptions { listen, max_connections: options.max_connections };
    let kept = match options.in_memory {
        false => format!("data is kept in {}", absolute(&options.data_dir).display()),
        true => "in-memory: data is gone when it stops".to_owned(),
    };
    serve_blocking(engine, &server_options, |address: SocketAddr| {
        println!("ankerdb is ready on {address} ({kept})");
    })
    .map_err(|error| match error.message().contains("in use") {
        true => Error::new(error.state(), error.message().to_owned())
            .with_hint("Another server listens there; choose another port with --listen."),
        false => error,
    })?;
    // What sessions did not wait for, too.
    database.close()
}

/// The database, with what its folder keeps.
fn open(options: &Options) -> Result<Database> {
    let own = options.database()?;
    if options.in_memory {
        return Database::open(own);
    }
    let mut durability = Durability::in_folder(&options.data_dir);
    durability.log.recover_to_last_valid = options.recover_to_last_valid;
    let told = Mutex::new(Instant::now());
    durability.log.progress = Some(Arc::new(move |read, total| {
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if read < total && told.elapsed() >= PROGRESS_INTERVAL {
            *told = Instant::now();
            eprintln!("ankerdb: reading the log: {} of {} MB", read >> 20, total >> 20);
        }
    }));
    let database = Database::open_in(own, &durability, &KeptTexts::new())?;
    if let Some(loss) = database.loss() {
        let (bytes, offset, file) = (loss.bytes, loss.offset, loss.file.display());
        eprintln!(
            "ankerdb: the log was damaged; {bytes} bytes from offset {offset} of {file} on are given up"
        );
    }
    Ok(database)
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
