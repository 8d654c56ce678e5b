//! Messages of PostgreSQL's protocol, sent to a server behind a startup packet that is right.
//!
//! What must be true: the server's answer ends, it is made of whole messages, and the next client is served. A stream whose last message is
//! cut off is ended by the client, else it takes its leave.

use crate::sql::engine;
use ankerdb_server::{Server, ServerOptions};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

/// Longer than an answer takes.
const PATIENCE: Duration = Duration::from_secs(60);
const TERMINATE: &[u8] = b"X\0\0\0\x04";
/// Version 3.0, a user, and a limit of time for each statement.
const STARTUP: &[u8] = b"\0\x03\0\0user\0fuzz\0database\0ankerdb\0options\0-c statement_timeout=200\0\0";

/// Where the server listens.
struct Listening {
    socket: PathBuf,
}

fn listening() -> &'static Listening {
    static LISTENING: OnceLock<Listening> = OnceLock::new();
    LISTENING.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("ankerdb-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the socket");
        let options = ServerOptions {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            socket_folder: Some(folder.clone()),
            max_connections: 100,
            password: None,
            tls: None,
        };
        let server = Server::bind(&options).expect("a port");
        server.admit(engine()).expect("threads");
        let socket = folder.join(format!(".s.PGSQL.{}", server.local_address().port()));
        std::thread::spawn(move || server.run());
        Listening { socket }
    })
}

/// How many bytes of a stream are whole messages, of a type and a length that counts itself.
fn whole_messages(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Some(length) = bytes.get(end + 1..end + 5) {
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
        if length < 4 || bytes.len() - end - 1 < length {
            break;
        }
        end += 1 + length;
    }
    end
}

/// Sends the bytes as a client's messages, and reads the answer to its end.
pub fn run(bytes: &[u8]) {
    let mut stream = UnixStream::connect(&listening().socket).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    let length = (STARTUP.len() + 4) as u32;
    let is_whole = whole_messages(bytes) == bytes.len();
    let leave = if is_whole { TERMINATE } else { &[] };
    let sent = [&length.to_be_bytes(), STARTUP, bytes, leave].concat();
    // A server that has closed the connection reads no more.
    if stream.write_all(&sent).is_ok() && !is_whole {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => assert_eq!(whole_messages(&answer), answer.len(), "the answer ends within a message"),
        Err(error) => {
            use std::io::ErrorKind::{ConnectionReset, TimedOut, WouldBlock};
            assert!(!matches!(error.kind(), WouldBlock | TimedOut), "no answer in {PATIENCE:?}");
            assert_eq!(error.kind(), ConnectionReset, "{error}");
        }
    }
    // One that has ended its stream at once is gone for the server, and told so.
    let is_let_in = answer.starts_with(b"R\0\0\0\x08\0\0\0\0");
    assert!(is_let_in || !is_whole, "the client is let in: {:?}", String::from_utf8_lossy(&answer));
}

fn message(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), &body].concat()
}

fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), b"\0"])
}

fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', &[name.as_bytes(), b"\0", sql.as_bytes(), b"\0\0\x02\0\0\0\x17\0\0\0\0"])
}

/// Two parameters in one format, results in another.
fn bind(name: &str, format: u8, parameters: [&[u8]; 2], results: u8) -> Vec<u8> {
    let [first, second] = parameters.map(|value| [&(value.len() as u32).to_be_bytes()[..], value].concat());
    message(
        b'B',
        &[
            b"\0",
            name.as_bytes(),
            b"\0\0\x01\0",
            &[format],
            b"\0\x02",
            &first,
            &second,
            b"\0\x01\0",
            &[results],
        ],
    )
}

/// Simple and extended queries, COPY in three formats, cursors, and what else programs send.
pub fn seeds() -> Vec<Vec<u8>> {
    let (describe, execute, sync) =
        (message(b'D', &[b"P\0"]), message(b'E', &[b"\0\0\0\0\x02"]), message(b'S', &[]));
    let table = query("CREATE TEMP TABLE t (a int PRIMARY KEY, b text, n numeric, at timestamptz, l int[])");
    let sql = "SELECT $1 + 1, $2, 1.5::numeric, now(), ARRAY[1, 2], interval '1 day', '{\"a\": 1}'::jsonb";
    let rows = b"1\tone\t1.5\t2024-01-01\t{1,2}\n2\t\\N\t\\N\t\\N\t\\N\n";
    let header = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x04\0\0\0\x07\xff\xff";
    vec![
        query("SELECT 1; SELECT 'a' AS b; BEGIN; SAVEPOINT s; ROLLBACK TO s; COMMIT"),
        [
            table.clone(),
            query("INSERT INTO t (a, b) SELECT g, g::text FROM generate_series(1, 5) g"),
            query("SELECT * FROM t"),
        ]
        .concat(),
        [parse("", sql), bind("", 0, [b"7", b"x"], 0), describe.clone(), execute.clone(), sync.clone()]
            .concat(),
        [
            parse("s", sql),
            bind("s", 1, [b"\0\0\0\x07", b"x"], 1),
            describe,
            execute.clone(),
            execute.clone(),
            sync.clone(),
        ]
        .concat(),
        [
            table.clone(),
            query("COPY t FROM STDIN"),
            message(b'd', &[rows]),
            message(b'c', &[]),
            query("COPY t TO STDOUT (FORMAT csv, HEADER)"),
        ]
        .concat(),
        [
            table.clone(),
            query("COPY t (a) FROM STDIN (FORMAT binary)"),
            message(b'd', &[header]),
            message(b'c', &[]),
        ]
        .concat(),
        [
            table,
            query("COPY t FROM STDIN (FORMAT csv)"),
            message(b'd', &[b"1,\"o\"\"ne\",1.5,,\"{1}\"\n"]),
            message(b'f', &[b"no\0"]),
        ]
        .concat(),
        [
            query("BEGIN; DECLARE c CURSOR FOR SELECT g FROM generate_series(1, 9) g"),
            query("FETCH 3 FROM c; MOVE 2 IN c; CLOSE c; END"),
        ]
        .concat(),
        [
            query("LISTEN a; NOTIFY a, 'b'"),
            query("SET datestyle = 'German, DMY'; SHOW ALL"),
            message(b'H', &[]),
            sync.clone(),
        ]
        .concat(),
        [
            parse("p", "SELECT $1, $2"),
            message(b'D', &[b"Sp\0"]),
            message(b'C', &[b"Sp\0"]),
            bind("p", 0, [b"1", b"2"], 0),
            execute,
            sync,
        ]
        .concat(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_messages_end_where_one_is_cut_off() {
        let two = [query("a"), message(b'S', &[])].concat();
        assert_eq!(whole_messages(&two), two.len());
        assert_eq!(whole_messages(&two[..two.len() - 1]), query("a").len());
        assert_eq!(
            (whole_messages(b""), whole_messages(b"Q\0\0\0\x03"), whole_messages(b"Q\0\0")),
            (0, 0, 0)
        );
    }
}
