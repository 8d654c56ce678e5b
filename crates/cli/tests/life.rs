//! The life of a server as the one who runs it sees it: the service manager, clients that come too early or too late, and signals.

mod support;

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};
use support::server::{Client, SERVE, Server, until};
use support::{ankerdb, signal};

/// Longer than any end takes here.
const SOON: Duration = Duration::from_secs(20);

/// A folder of the test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("ankerdb-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder of the test's own");
        Folder(folder)
    }

    fn data(&self) -> String {
        self.0.join("data").to_str().expect("the path is text").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The service manager's end.
struct Manager(UnixDatagram);

impl Manager {
    fn at(path: &Path) -> Manager {
        Manager::of(UnixDatagram::bind(path).expect("a socket"))
    }

    fn named(name: &str) -> Manager {
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name).expect("a name");
        Manager::of(UnixDatagram::bind_addr(&address).expect("a socket"))
    }

    fn of(socket: UnixDatagram) -> Manager {
        socket.set_read_timeout(Some(SOON)).expect("a timeout");
        Manager(socket)
    }

    fn told(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.0.recv(&mut bytes).expect("the server tells something in time");
        String::from_utf8(bytes[..length].to_vec()).expect("text")
    }

    /// What it is told until something begins so.
    fn told_until(&self, beginning: &str) -> Vec<String> {
        let mut all = Vec::new();
        while !all.last().is_some_and(|told: &String| told.starts_with(beginning)) {
            all.push(self.told());
        }
        all
    }
}

fn server_told(socket: &str, options: &[&str]) -> (Server, String) {
    let mut command = ankerdb(&[SERVE, options].concat());
    command.env("NOTIFY_SOCKET", socket);
    Server::spawn(command)
}

fn ended(process: &mut Child) -> ExitStatus {
    until(|| process.try_wait().expect("a child"))
}

#[test]
fn the_service_manager_is_told_when_it_is_ready_and_when_it_stops() {
    let folder = Folder::new("told");
    let path = folder.0.join("notify");
    let name = format!("ankerdb-told-{}", std::process::id());
    let managers = [
        (Manager::at(&path), path.to_str().expect("the path is text").to_owned()),
        (Manager::named(&name), format!("@{name}")),
    ];
    for (manager, socket) in managers {
        let (mut server, line) = server_told(&socket, &["--data-dir", &folder.data()]);
        assert_eq!(manager.told_until("READY=1").pop(), Some(format!("READY=1\nSTATUS={}", line.trim_end())));
        signal(&server.process, "-TERM");
        assert!(manager.told().starts_with("STOPPING=1\nSTATUS="));
        assert_eq!(ended(&mut server.process).code(), Some(0));
    }
}

#[test]
fn a_service_manager_that_cannot_be_told_is_no_reason_not_to_serve() {
    for socket in ["/no/such/socket", "nonsense", "@", ""] {
        let (server, line) = server_told(socket, &["--in-memory"]);
        assert!(line.contains("is ready"), "{socket}: {line}");
        assert_eq!(Client::connect(&server).query("SELECT 1"), "1");
    }
}

/// A port that is free now, and unlikely to be taken within milliseconds.
fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

/// The SQLSTATE with which a client is turned away; "" if it is let in, none if nobody listens.
fn turned_away(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(SOON)).expect("a timeout");
    let body = [&196_608u32.to_be_bytes()[..], b"user\0tester\0database\0ankerdb\0\0"].concat();
    stream.write_all(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()).ok()?;
    let mut header = [0; 5];
    stream.read_exact(&mut header).ok()?;
    if header[0] != b'E' {
        return Some(String::new());
    }
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body).ok()?;
    let fields = String::from_utf8_lossy(&body).into_owned();
    fields.split('\0').find_map(|field| field.strip_prefix('C')).map(str::to_owned)
}

/// A server on a port that is known before it is ready.
fn recovering(folder: &Folder) -> (Child, SocketAddr) {
    let address = free_port();
    let listen = address.to_string();
    let mut command =
        ankerdb(&["serve", "--olap-threads", "1", "--listen", &listen, "--data-dir", &folder.data()]);
    (command.spawn().expect("the command starts"), address)
}

#[test]
fn a_socket_in_a_folder_is_there_as_long_as_the_server() {
    let folder = Folder::new("socket");
    let path = folder.0.to_str().expect("the path is text");
    let port = free_port().port().to_string();
    let options = ["serve", "--olap-threads", "1", "--in-memory", "--socket-folder", path, "--listen"];
    let socket = folder.0.join(format!(".s.PGSQL.{port}"));
    let first = format!("127.0.0.1:{port}");
    let start = || Server::spawn(ankerdb(&[&options[..], &[&first]].concat()));
    let (mut killed, line) = start();
    assert!(line.contains(&format!(" and {} ", socket.display())), "{line}");
    // On another address the port is free, and the file is not.
    let second = ankerdb(&[&options[..], &[&format!("127.0.0.2:{port}")]].concat()).output();
    let second = second.expect("the command starts");
    let told = support::text(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{told}");
    assert!(told.contains("in use by another server") && told.contains(".lock"), "{told}");
    assert!(UnixStream::connect(&socket).is_ok(), "the first one is not disturbed");
    killed.process.kill().expect("a child");
    ended(&mut killed.process);
    assert!(socket.exists(), "nobody has removed it");
    let (mut server, _) = start();
    assert!(UnixStream::connect(&socket).is_ok());
    signal(&server.process, "-TERM");
    assert_eq!(ended(&mut server.process).code(), Some(0));
    assert_eq!(std::fs::read_dir(&folder.0).expect("the folder").count(), 0, "nothing is left");
}

#[test]
fn a_server_with_a_password_file_asks_for_the_password() {
    let folder = Folder::new("password");
    let file = folder.0.join("password");
    let path = file.to_str().expect("the path is text");
    let options =
        ["serve", "--olap-threads", "1", "--in-memory", "--listen", "127.0.0.1:0", "--password-file", path];
    let refused = |contents: &str, why: &str| {
        std::fs::write(&file, contents).expect("the folder is there");
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("it is the test's own");
        let output = ankerdb(&options).output().expect("the command starts");
        let told = support::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(why), "{told}");
    };
    refused("", "the password is empty");
    refused("\nsecond line", "the password is empty");
    refused("SCRAM-SHA-256$4096:AAAA", "the SCRAM-SHA-256 verifier is malformed");
    std::fs::write(&file, "s3cret\nanother line\n").expect("the folder is there");
    let (mut server, _) = Server::spawn(ankerdb(&options));
    let mut client = TcpStream::connect(server.address).expect("it listens");
    let parameters = b"user\0me\0database\0ankerdb\0\0";
    let packet = [&(8 + parameters.len() as u32).to_be_bytes()[..], &[0, 3, 0, 0], parameters].concat();
    client.write_all(&packet).expect("it reads");
    let mut asked = [0; 9];
    client.read_exact(&mut asked).expect("it answers");
    assert_eq!((asked[0], asked[8]), (b'R', 10), "SASL is asked for");
    signal(&server.process, "-TERM");
    assert_eq!(ended(&mut server.process).code(), Some(0), "a client that is asked holds nothing up");
}

/// A folder with so much in it that to read it takes a while.
fn filled(name: &str) -> Folder {
    let folder = Folder::new(name);
    let mut server = Server::start(&["--data-dir", &folder.data()]);
    let mut client = Client::connect(&server);
    for sql in [
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "INSERT INTO t SELECT i, 'a text of some length, so that there is a lot to read ' || i FROM generate_series(1, 400000) AS s(i)",
    ] {
        assert_eq!(client.query(sql), "", "{sql}");
    }
    signal(&server.process, "-KILL");
    ended(&mut server.process);
    folder
}

#[test]
fn clients_that_come_while_it_recovers_are_told_so_and_a_signal_ends_it_at_once() {
    let folder = filled("early");
    let (process, address) = recovering(&folder);
    let mut server = Server { process, address };
    let mut seen = Vec::new();
    while seen.last().is_none_or(|state: &String| !state.is_empty()) {
        seen.extend(turned_away(address));
        assert!(server.process.try_wait().expect("a child").is_none(), "{seen:?}");
    }
    assert_eq!(seen.pop().as_deref(), Some(""));
    assert!(!seen.is_empty() && seen.iter().all(|state| state == "57P03"), "{seen:?}");
    assert_eq!(Client::connect(&server).query("SELECT count(*), max(id) FROM t"), "400000,400000");
    drop(server);
    let (mut process, address) = recovering(&folder);
    assert_eq!(until(|| turned_away(address)), "57P03");
    let begun = Instant::now();
    signal(&process, "-TERM");
    assert_eq!(ended(&mut process).code(), Some(0));
    assert!(begun.elapsed() < SOON);
    let server = Server::start(&["--data-dir", &folder.data()]);
    assert_eq!(Client::connect(&server).query("SELECT count(*), max(id) FROM t"), "400000,400000");
}

/// A client that asks for more than the system's buffers take, and reads nothing of it.
fn deaf(server: &Server) -> Client {
    let mut client = Client::connect(server);
    client.ask("SELECT repeat('x', 1000) FROM generate_series(1, 100000)");
    client.await_anything();
    // Until the server has filled the buffers.
    std::thread::sleep(Duration::from_millis(300));
    client
}

#[test]
fn a_signal_ends_it_whatever_clients_are_at_and_loses_nothing() {
    let folder = Folder::new("ends");
    let mut server = Server::start(&["--data-dir", &folder.data()]);
    let mut client = Client::connect(&server);
    for sql in [
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "CREATE TABLE loaded (id int)",
        "INSERT INTO t SELECT i, i FROM generate_series(1, 300000) AS s(i)",
    ] {
        assert_eq!(client.query(sql), "", "{sql}");
    }
    let _deaf = deaf(&server);
    let mut idle = Client::connect(&server);
    assert_eq!(idle.query("BEGIN; INSERT INTO t VALUES (-1, -1)"), "");
    let mut copying = Client::connect(&server);
    copying.ask("COPY loaded FROM STDIN");
    let mut updating = Client::connect(&server);
    updating.ask("UPDATE t SET v = v + 1 WHERE id > 0");
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    signal(&server.process, "-TERM");
    until(|| turned_away(server.address).filter(|state| state == "57P03"));
    assert_eq!(ended(&mut server.process).code(), Some(0));
    assert!(begun.elapsed() < SOON);
    let server = Server::start(&["--data-dir", &folder.data()]);
    let mut client = Client::connect(&server);
    // The UPDATE may have been acknowledged, or not; never a part of it.
    let sum = client.query("SELECT sum(v - id), count(*) FROM t");
    assert!(["0,300000", "300000,300000"].contains(&sum.as_str()), "{sum}");
    assert_eq!(client.query("SELECT count(*) FROM loaded"), "0");
}

#[test]
fn a_second_signal_does_not_wait() {
    for (second, code) in [("-INT", 130), ("-TERM", 143)] {
        let mut server = Server::start(&["--in-memory"]);
        let _deaf = deaf(&server);
        signal(&server.process, "-TERM");
        // One that comes at once is the same.
        signal(&server.process, "-INT");
        std::thread::sleep(Duration::from_millis(200));
        assert!(server.process.try_wait().expect("a child").is_none());
        signal(&server.process, second);
        assert_eq!(ended(&mut server.process).code(), Some(code));
    }
}
