//! Private servers: a PostgreSQL cluster of the judge's own in a temporary folder, and the command `ankerdb`. Both
//! listen on free loopback ports, hold only what is judged, and end with the judge: when dropped, or, if the judge is
//! killed, by the signal that `setpriv --pdeathsig` arranges.

use crate::wire::ServerConnection;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What sessions with AnKerDB begin with.
pub(crate) const COMPILES_ALL: &str = "SET ankerdb.query_compiler = always";
/// As it is by itself.
pub(crate) const COMPILES_SOME: &str = "SET ankerdb.query_compiler = on";

/// All tables of users.
const TABLES: &str = "SELECT quote_ident(nspname) || '.' || quote_ident(relname) FROM pg_class \
    JOIN pg_namespace n ON n.oid = relnamespace \
    WHERE relkind IN ('r', 'm') AND nspname NOT IN ('pg_catalog', 'information_schema')";

/// How long a server may take to answer its first connection.
const START_SECONDS_MAX: u64 = 60;

/// PostgreSQL's user in its private cluster; AnKerDB accepts any.
const USER: &str = "judge";

/// The kind of a server.
enum ServerKind {
    Postgres,
    Ankerdb { binary: PathBuf, keeping: Keeping },
}

/// Where an AnKerDB keeps its data.
#[derive(Clone)]
pub enum Keeping {
    /// Nowhere.
    InMemory,
    /// In a folder of its own in this one, which goes when the server has been stopped and what it kept has been read again.
    In(PathBuf),
}

/// A running server.
pub struct Server {
    kind: ServerKind,
    address: SocketAddr,
    process: Child,
    /// Removed when the server ends.
    folder: Option<PathBuf>,
}

impl Server {
    /// A new, empty PostgreSQL 15. Takes two seconds or so.
    ///
    /// # Errors
    /// If its programs are missing in `binaries`, or it does not start; the message holds what it said.
    pub fn postgres(binaries: &Path) -> io::Result<Server> {
        let folder = private_folder()?;
        let started = start_postgres(binaries, &folder);
        if started.is_err() {
            let _ = fs::remove_dir_all(&folder);
        }
        started
    }

    /// An empty AnKerDB.
    ///
    /// # Errors
    /// If the command cannot be run, or says that it cannot listen.
    pub fn ankerdb(binary: &Path, keeping: Keeping) -> io::Result<Server> {
        let folder = match &keeping {
            Keeping::InMemory => None,
            Keeping::In(parent) => Some(numbered_folder(parent)?),
        };
        let (process, address) = start_ankerdb(binary, folder.as_deref())?;
        let kind = ServerKind::Ankerdb { binary: binary.to_owned(), keeping };
        Ok(Server { kind, address, process, folder })
    }

    /// A session. Of AnKerDB one whose queries are compiled however few rows they read: the tests' own tables are small.
    ///
    /// # Errors
    /// Those of [`ServerConnection::connect`].
    pub fn connect(&self) -> io::Result<ServerConnection> {
        self.connect_as(USER)
    }

    /// A session of another user.
    ///
    /// # Errors
    /// Those of [`ServerConnection::connect`].
    pub fn connect_as(&self, user: &str) -> io::Result<ServerConnection> {
        match self.kind {
            ServerKind::Postgres => ServerConnection::connect(self.address, user, "postgres"),
            ServerKind::Ankerdb { .. } => {
                let mut client = ServerConnection::connect(self.address, user, "ankerdb")?;
                client.simple(COMPILES_ALL)?;
                Ok(client)
            }
        }
    }

    /// Whether this is PostgreSQL.
    pub fn is_postgres(&self) -> bool {
        matches!(self.kind, ServerKind::Postgres)
    }

    /// Makes the database empty again: PostgreSQL gets a new schema, AnKerDB, which has one schema only, starts again.
    /// Sessions of before must be gone.
    ///
    /// # Errors
    /// If the server does not answer, or does not find again what it kept.
    pub fn reset(&mut self) -> io::Result<()> {
        let (binary, keeping) = match &self.kind {
            ServerKind::Postgres => {
                let sql = "DROP SCHEMA public CASCADE; CREATE SCHEMA public";
                let answer = self.connect()?.simple(sql)?;
                return answer.error.map_or(Ok(()), |code| Err(io::Error::other(format!("{sql}: {code}"))));
            }
            ServerKind::Ankerdb { binary, keeping } => (binary.clone(), keeping.clone()),
        };
        let mut old = std::mem::replace(self, Server::ankerdb(&binary, keeping)?);
        end(&mut old.process);
        // Where that fails the folder stays, to be looked at.
        let Some(folder) = old.folder.take() else { return Ok(()) };
        read_again(&binary, &folder)?;
        fs::remove_dir_all(&folder)
    }

    /// Whether the process still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.process);
        if let Some(folder) = &self.folder {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Asks the process to end at once and, if it does not, kills it. SIGINT is PostgreSQL's "fast shutdown"; AnKerDB takes it as ctrl-c.
fn end(process: &mut Child) {
    if !matches!(process.try_wait(), Ok(None)) {
        return;
    }
    let _ = Command::new("kill").args(["-INT", &process.id().to_string()]).status();
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        if !matches!(process.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = process.kill();
    let _ = process.wait();
}

/// The folder with `initdb` and `postgres` of version 15: as given, Debian's, or what the search path has.
pub fn find_postgres(given: Option<&Path>) -> Option<PathBuf> {
    let debian = PathBuf::from("/usr/lib/postgresql/15/bin");
    let searched = std::env::var_os("PATH").unwrap_or_default();
    let candidates = match given {
        Some(given) => vec![given.to_owned()],
        None => std::iter::once(debian).chain(std::env::split_paths(&searched)).collect(),
    };
    candidates.into_iter().find(|folder| {
        let version = Command::new(folder.join("postgres")).arg("--version").output();
        folder.join("initdb").exists()
            && version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(") 15."))
    })
}

/// The name of a folder in this one that is not there yet; the server makes it.
fn numbered_folder(parent: &Path) -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    fs::create_dir_all(parent)?;
    Ok(fs::canonicalize(parent)?.join(format!("{}-{number}", std::process::id())))
}

fn private_folder() -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("ankerdb-judge-{}-{number}", std::process::id()));
    fs::create_dir(&folder)?;
    Ok(folder)
}

/// A command that dies with the judge, and, because PostgreSQL refuses to run as root, as another user then.
fn attended(program: &Path, folder: Option<&Path>) -> io::Result<Command> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "INT"]);
    if let Some(folder) = folder.filter(|folder| fs::metadata(folder).is_ok_and(|data| data.uid() == 0)) {
        let (uid, gid) = unprivileged_user()?;
        chown(folder, Some(uid), Some(gid))?;
        command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".into()]);
    } else if let Some(folder) = folder {
        let data = fs::metadata(folder)?;
        if data.uid() != fs::metadata("/proc/self")?.uid() {
            command.args([format!("--reuid={}", data.uid()), format!("--regid={}", data.gid())]);
            command.arg("--clear-groups");
        }
    }
    command.arg(program).stdin(Stdio::null());
    // The working folder may be one that the other user cannot enter.
    command.current_dir("/");
    Ok(command)
}

/// User and group of `postgres`, else of `nobody`.
fn unprivileged_user() -> io::Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd")?;
    let find = |name: &str| {
        let line = users.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    find("postgres").or_else(|| find("nobody")).ok_or_else(|| {
        io::Error::other("PostgreSQL does not run as root, and there is no user postgres or nobody")
    })
}

fn start_postgres(binaries: &Path, folder: &Path) -> io::Result<Server> {
    let data = folder.join("data");
    let made = attended(&binaries.join("initdb"), Some(folder))?
        // Texts are compared by their bytes, as ours are; letters of all languages have upper and lower case.
        .args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--lc-ctype=C.UTF-8"])
        .args(["--username", USER, "-D"])
        .arg(&data)
        .output()?;
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        return Err(io::Error::other(format!("initdb failed: {said}")));
    }
    // Free now, and unlikely to be taken within milliseconds.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let log = fs::File::create(folder.join("log"))?;
    let process = attended(&binaries.join("postgres"), Some(folder))?
        .arg("-D")
        .arg(&data)
        .arg("-k")
        .arg(folder)
        .args(postgres_settings(address.port()))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()?;
    let server = Server { kind: ServerKind::Postgres, address, process, folder: Some(folder.to_owned()) };
    wait_for(server)
}

/// Fast rather than durable, and the defaults that AnKerDB has: UTC, SERIALIZABLE. A lock is not waited for: the judge
/// runs one statement at a time, so it would never be released.
fn postgres_settings(port: u16) -> Vec<String> {
    let settings = [
        format!("port={port}"),
        "listen_addresses=127.0.0.1".into(),
        "fsync=off".into(),
        "full_page_writes=off".into(),
        "synchronous_commit=off".into(),
        "autovacuum=off".into(),
        "jit=off".into(),
        "timezone=UTC".into(),
        "lc_messages=C".into(),
        "default_transaction_isolation=serializable".into(),
        "lock_timeout=1s".into(),
        "max_parallel_workers_per_gather=0".into(),
        "shared_buffers=32MB".into(),
    ];
    settings.into_iter().flat_map(|setting| ["-c".into(), setting]).collect()
}

fn wait_for(mut server: Server) -> io::Result<Server> {
    let deadline = Instant::now() + Duration::from_secs(START_SECONDS_MAX);
    loop {
        match server.connect() {
            Ok(_) => return Ok(server),
            Err(error) if Instant::now() > deadline || !server.is_alive() => {
                let log =
                    server.folder.as_ref().and_then(|folder| fs::read_to_string(folder.join("log")).ok());
                let log = log.unwrap_or_default();
                return Err(io::Error::other(format!("the server did not start: {error}\n{log}")));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn start_ankerdb(binary: &Path, folder: Option<&Path>) -> io::Result<(Child, SocketAddr)> {
    match folder
        .map(|folder| folder.to_str().ok_or_else(|| io::Error::other("the folder's path is not text")))
    {
        None => first_address(attended_ankerdb(binary, &["--in-memory"])?),
        Some(folder) => first_address(attended_ankerdb(binary, &["--data-dir", folder?])?),
    }
}

/// A server finds in the folder what one before it has kept, and can read all tables.
fn read_again(binary: &Path, folder: &Path) -> io::Result<()> {
    let told = |error: io::Error| io::Error::other(format!("{}: {error}", folder.display()));
    let (mut process, address) = start_ankerdb(binary, Some(folder)).map_err(told)?;
    let read =
        ServerConnection::connect(address, USER, "ankerdb").and_then(|mut client| read_tables(&mut client));
    end(&mut process);
    read.map_err(told)
}

fn read_tables(client: &mut ServerConnection) -> io::Result<()> {
    let tables = client.simple(TABLES)?;
    for row in &tables.rows {
        let name = row.first().and_then(Option::as_deref).unwrap_or_default();
        let answer = client.simple(&format!("SELECT count(*) FROM {name}"))?;
        if let Some(code) = answer.error {
            return Err(io::Error::other(format!("{name} cannot be read: {code} {}", answer.message)));
        }
    }
    Ok(())
}

/// An AnKerDB, with more arguments than all have.
pub(crate) fn attended_ankerdb(binary: &Path, arguments: &[&str]) -> io::Result<Child> {
    attended_command(binary)?
        .args(["serve", "--listen", "127.0.0.1:0", "--olap-threads", "2"])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
}

/// The command `ankerdb`, without arguments yet.
pub(crate) fn attended_command(binary: &Path) -> io::Result<Command> {
    attended(&fs::canonicalize(binary)?, None)
}

/// Its first line of output names the address.
pub(crate) fn first_address(mut process: Child) -> io::Result<(Child, SocketAddr)> {
    let mut line = String::new();
    if let Some(output) = process.stdout.take() {
        let mut output = BufReader::new(output);
        output.read_line(&mut line)?;
        // Kept open: a server that prints something more must not fail for it.
        process.stdout = Some(output.into_inner());
    }
    let address = line.split_whitespace().find_map(|word| word.parse::<SocketAddr>().ok());
    address
        .map(|address| (process, address))
        .ok_or_else(|| io::Error::other(format!("ankerdb did not say where it listens: {line:?}")))
}
