//! Private databases for demonstrations and tests: Debian's PostgreSQL 15 and MariaDB, and the command `ankerdb`, each in a
//! folder of its own, on a free port of the loopback interface, as durable as they are when installed. They end when dropped,
//! by their process numbers, or, if this process is killed, by the signal that `setpriv --pdeathsig` arranges.

use crate::error::{LedgerError, LedgerResult};
use crate::member::Member;
use crate::member::address::{open_parallel_product, open_product, product_snapshot_opener};
use crate::member::connection::DatabaseAddress;
use crate::member::snapshot::OpenSnapshot;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take to answer its first connection.
const START_SECONDS_MAX: u64 = 60;

/// How long a server may take to end before it is killed.
const END_SECONDS_MAX: u64 = 10;

/// MariaDB ignores SIGINT.
const MARIADB_ENDING: &str = "TERM";

/// A database product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Product {
    /// PostgreSQL, with the folder of its programs.
    Postgres(PathBuf),
    /// MariaDB, with its server and the program that makes its folder.
    MariaDb(PathBuf, PathBuf),
    /// AnKerDB, with its command.
    AnkerDb(PathBuf),
}

/// The first of these folders, and those of the search path, in which a program is.
fn find_program(name: &str, folders: &[&str]) -> Option<PathBuf> {
    let searched = std::env::var_os("PATH").unwrap_or_default();
    let known = folders.iter().map(PathBuf::from);
    known.chain(std::env::split_paths(&searched)).map(|folder| folder.join(name)).find(|path| path.is_file())
}

impl Product {
    /// PostgreSQL 15.
    ///
    /// # Errors
    /// [`LedgerError::Missing`] with how to get it.
    pub fn find_postgres() -> LedgerResult<Product> {
        let initdb = find_program("initdb", &["/usr/lib/postgresql/15/bin"]);
        let folder = initdb.and_then(|path| path.parent().map(Path::to_owned));
        let missing = "PostgreSQL 15 is missing; on Debian: apt-get install postgresql-15";
        folder.map(Product::Postgres).ok_or_else(|| LedgerError::Missing(missing.into()))
    }

    /// MariaDB 10.11.
    ///
    /// # Errors
    /// [`LedgerError::Missing`] with how to get it.
    pub fn find_mariadb() -> LedgerResult<Product> {
        let server = find_program("mariadbd", &["/usr/sbin"]);
        let installer = find_program("mariadb-install-db", &["/usr/bin"]);
        let missing = "MariaDB is missing; on Debian: apt-get install mariadb-server";
        let both = server.zip(installer).map(|(server, installer)| Product::MariaDb(server, installer));
        both.ok_or_else(|| LedgerError::Missing(missing.into()))
    }

    /// AnKerDB: this command, the one beside it, or one in the search path.
    ///
    /// # Errors
    /// [`LedgerError::Missing`] with how to get it.
    pub fn find_ankerdb(given: Option<&Path>) -> LedgerResult<Product> {
        if let Some(given) = given {
            let missing = format!("{} is no file; --ankerdb names the command", given.display());
            let found = given.is_file().then(|| Product::AnkerDb(given.to_owned()));
            return found.ok_or(LedgerError::Missing(missing));
        }
        let own = std::env::current_exe().ok();
        let own_folder = own.as_deref().and_then(Path::parent);
        let beside = own_folder.map(|folder| folder.display().to_string()).unwrap_or_default();
        let missing = "the command ankerdb is missing; --ankerdb names it";
        let found = find_program("ankerdb", &[&beside]);
        found.map(Product::AnkerDb).ok_or_else(|| LedgerError::Missing(missing.into()))
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Product::Postgres(_) => "PostgreSQL",
            Product::MariaDb(..) => "MariaDB",
            Product::AnkerDb(_) => "AnKerDB",
        }
    }
}

/// A running server.
pub struct PrivateServer {
    product: Product,
    process: Child,
    folder: PathBuf,
    /// Where it is, and as whom to come.
    pub address: DatabaseAddress,
}

impl PrivateServer {
    /// Starts an empty database. Takes some seconds. The thread that calls it has to outlive the server.
    ///
    /// # Errors
    /// [`LedgerError::Missing`] with what a program has said that did not start.
    pub fn start(product: &Product) -> LedgerResult<PrivateServer> {
        let folder = private_folder().map_err(|error| LedgerError::Missing(format!("no folder: {error}")))?;
        let started = match product {
            Product::Postgres(programs) => make_postgres(programs, &folder)
                .and_then(|()| free_port())
                .and_then(|port| start_postgres(programs, &folder, port)),
            Product::MariaDb(server, installer) => make_mariadb(installer, &folder)
                .and_then(|()| free_port())
                .and_then(|port| start_mariadb(server, &folder, port)),
            Product::AnkerDb(command) => start_ankerdb(command, &folder, 0),
        };
        let (process, port) = started.inspect_err(|_| drop(fs::remove_dir_all(&folder)))?;
        let (user, database) = match product {
            Product::Postgres(_) => ("ledger", "postgres"),
            Product::MariaDb(..) => ("root", "ledger"),
            Product::AnkerDb(_) => ("ledger", "ankerdb"),
        };
        let address = DatabaseAddress {
            host: "127.0.0.1".to_owned(),
            port,
            user: user.to_owned(),
            password: None,
            database: database.to_owned(),
        };
        let mut server = PrivateServer { product: product.clone(), process, folder, address };
        server.wait()?;
        Ok(server)
    }

    /// Its product's name.
    pub fn name(&self) -> &'static str {
        self.product.name()
    }

    /// The number of its process.
    pub fn process_number(&self) -> u32 {
        self.process.id()
    }

    /// Where it keeps everything. It goes with the server.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills it as a loss of power would, and starts it again over what it has kept, on the same port.
    ///
    /// # Errors
    /// Those of [`PrivateServer::start`].
    pub fn kill_and_restart(&mut self) -> LedgerResult<()> {
        self.kill();
        let port = self.address.port;
        (self.process, _) = match &self.product {
            Product::Postgres(programs) => start_postgres(programs, &self.folder, port),
            Product::MariaDb(server, _) => start_mariadb(server, &self.folder, port),
            Product::AnkerDb(command) => start_ankerdb(command, &self.folder, port),
        }?;
        self.wait()
    }

    /// Kills it as a loss of power would.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// A member over it.
    ///
    /// # Errors
    /// [`LedgerError::Database`].
    pub fn member(&self) -> LedgerResult<Box<dyn Member>> {
        open_product(&self.name().to_lowercase(), &self.address)
    }

    /// A member over it that executes blocks over up to so many connections.
    ///
    /// # Errors
    /// [`LedgerError::Database`].
    pub fn parallel_member(&self, connections: usize) -> LedgerResult<Box<dyn Member>> {
        open_parallel_product(&self.name().to_lowercase(), &self.address, connections)
    }

    /// What opens snapshots of its database.
    pub fn snapshot_opener(&self) -> OpenSnapshot {
        product_snapshot_opener(&self.name().to_lowercase(), &self.address)
    }

    /// Waits until it takes connections.
    fn wait(&mut self) -> LedgerResult<()> {
        let deadline = Instant::now() + Duration::from_secs(START_SECONDS_MAX);
        loop {
            let failure = match self.try_connect() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let has_ended = !matches!(self.process.try_wait(), Ok(None));
            if has_ended && Instant::now() < deadline && self.log().contains("is still in use") {
                // PostgreSQL was killed, and its children have not noticed yet.
                std::thread::sleep(Duration::from_millis(200));
                if let Product::Postgres(programs) = &self.product {
                    (self.process, _) = start_postgres(programs, &self.folder, self.address.port)?;
                }
                continue;
            }
            if has_ended || Instant::now() > deadline {
                let log = self.log();
                let end: Vec<&str> = log.lines().rev().take(5).collect();
                let said = end.into_iter().rev().collect::<Vec<_>>().join("\n");
                return Err(LedgerError::Missing(format!(
                    "{} does not start: {failure}\n{said}",
                    self.name()
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn try_connect(&self) -> LedgerResult<()> {
        use crate::member::connection::{MariaDbConnection, PostgresConnection, SqlConnection as _};
        if !matches!(self.product, Product::MariaDb(..)) {
            return PostgresConnection::open(&self.address).map(drop);
        }
        let system = DatabaseAddress { database: "mysql".to_owned(), ..self.address.clone() };
        let mut connection = MariaDbConnection::open(&system)?;
        let made = connection
            .run("CREATE DATABASE IF NOT EXISTS ledger CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin");
        made.map(drop).map_err(|failure| LedgerError::database("MariaDB", failure.message))
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        let ending = if matches!(self.product, Product::MariaDb(..)) { MARIADB_ENDING } else { "INT" };
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ =
                Command::new("kill").args([&format!("-{ending}"), &self.process.id().to_string()]).status();
        }
        let deadline = Instant::now() + Duration::from_secs(END_SECONDS_MAX);
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A new folder for one server.
fn private_folder() -> std::io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("ankerdb-ledger-{}-{number}", std::process::id()));
    fs::create_dir(&folder)?;
    Ok(folder)
}

/// A command that ends with this process, and runs as another user where this one is root, as which databases refuse to run.
fn attended(program: &Path, folder: &Path, ending: &str) -> LedgerResult<Command> {
    let failed = |error: std::io::Error| LedgerError::file(folder, error);
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", ending]);
    let own = fs::metadata("/proc/self").map_err(failed)?.uid();
    let mut owner = fs::metadata(folder).map_err(failed)?;
    if own == 0 && owner.uid() == 0 {
        let (user, group) = unprivileged_user()?;
        chown(folder, Some(user), Some(group)).map_err(failed)?;
        owner = fs::metadata(folder).map_err(failed)?;
    }
    if owner.uid() != own {
        command.args([format!("--reuid={}", owner.uid()), format!("--regid={}", owner.gid())]);
        command.arg("--clear-groups");
    }
    // The working folder may be one that the other user cannot enter.
    command.arg(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    Ok(command)
}

/// User and group of `nobody`.
fn unprivileged_user() -> LedgerResult<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = users.lines().find(|line| line.starts_with("nobody:"));
    let mut fields =
        line.into_iter().flat_map(|line| line.split(':').skip(2)).filter_map(|field| field.parse().ok());
    let missing = "databases do not run as root, and there is no user nobody";
    fields.next().zip(fields.next()).ok_or_else(|| LedgerError::Missing(missing.into()))
}

fn free_port() -> LedgerResult<u16> {
    // Free now, and unlikely to be taken within a second.
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound
        .map(|address| address.port())
        .map_err(|error| LedgerError::Missing(format!("no free port: {error}")))
}

fn failed(program: &Path) -> impl Fn(std::io::Error) -> LedgerError + '_ {
    move |error| LedgerError::Missing(format!("{}, run by setpriv: {error}", program.display()))
}

/// Runs a program to its end.
fn run(command: &mut Command, program: &Path) -> LedgerResult<()> {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().map_err(failed(program))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(LedgerError::Missing(format!("{}: {}", program.display(), String::from_utf8_lossy(&said))))
}

fn make_postgres(programs: &Path, folder: &Path) -> LedgerResult<()> {
    let data = folder.join("data");
    let initdb = programs.join("initdb");
    let mut making = attended(&initdb, folder, "INT")?;
    making.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--username=ledger", "-D"]).arg(&data);
    run(&mut making, &initdb)
}

fn start_postgres(programs: &Path, folder: &Path, port: u16) -> LedgerResult<(Child, u16)> {
    let data = folder.join("data");
    let log = fs::File::create(folder.join("log")).map_err(|error| LedgerError::file(folder, error))?;
    let program = programs.join("postgres");
    let mut command = attended(&program, folder, "INT")?;
    command
        .arg("-D")
        .arg(&data)
        .arg("-k")
        .arg(folder)
        .args(["-h", "127.0.0.1", "-p", &port.to_string()])
        .stderr(log);
    Ok((command.spawn().map_err(failed(&program))?, port))
}

/// A MariaDB that starts removes temporary tables from the folder for them, those of others included.
fn own_temporary_files(folder: &Path) -> String {
    format!("--tmpdir={}", folder.display())
}

fn make_mariadb(installer: &Path, folder: &Path) -> LedgerResult<()> {
    let data = format!("--datadir={}", folder.join("data").display());
    let mut making = attended(installer, folder, MARIADB_ENDING)?;
    making.args(["--no-defaults", &data, "--auth-root-authentication-method=normal", "--skip-test-db"]);
    making.arg(own_temporary_files(folder));
    run(&mut making, installer)
}

fn start_mariadb(server: &Path, folder: &Path, port: u16) -> LedgerResult<(Child, u16)> {
    let data = format!("--datadir={}", folder.join("data").display());
    let log = fs::File::create(folder.join("log")).map_err(|error| LedgerError::file(folder, error))?;
    let mut command = attended(server, folder, MARIADB_ENDING)?;
    command.args(["--no-defaults", &data, "--bind-address=127.0.0.1", "--skip-log-bin"]);
    command
        .arg(own_temporary_files(folder))
        .arg(format!("--port={port}"))
        .arg(format!("--socket={}", folder.join("socket").display()));
    command.arg(format!("--pid-file={}", folder.join("pid").display())).stderr(log);
    Ok((command.spawn().map_err(failed(server))?, port))
}

fn start_ankerdb(command: &Path, folder: &Path, port: u16) -> LedgerResult<(Child, u16)> {
    // As this process's own user, who can read the command.
    let mut starting = Command::new("setpriv");
    starting.args(["--pdeathsig", "INT"]).arg(command).args([
        "serve",
        "--listen",
        &format!("127.0.0.1:{port}"),
        "--data-dir",
    ]);
    let log = fs::File::create(folder.join("log")).map_err(|error| LedgerError::file(folder, error))?;
    let started =
        starting.arg(folder.join("data")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn();
    let mut process = started.map_err(failed(command))?;
    let output = process.stdout.take().expect("it was asked for");
    let mut said = String::new();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let address = line.strip_prefix("ankerdb is ready on ").and_then(|rest| rest.split(' ').next());
        let port = address.and_then(|address| address.rsplit(':').next()?.parse().ok());
        if let Some(port) = port {
            return Ok((process, port));
        }
        said.push_str(&line);
        said.push('\n');
    }
    let _ = process.kill();
    let _ = process.wait();
    Err(LedgerError::Missing(format!("{} does not start: {said}", command.display())))
}
