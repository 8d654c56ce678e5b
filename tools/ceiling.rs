//! A server that pgbench takes for a database and that does nothing: what a machine lets a server reach at most, where every statement
//! waits for an answer.
//!
//!   rustc -O tools/ceiling.rs -o ceiling && ./ceiling PORT
//!
//! It reads PostgreSQL's messages, a thread for each connection, and answers what pgbench's own scripts expect (`-S`, `-N`, TPC-B, an UPDATE;
//! prepared): one row for a SELECT, a tag for the others. `tools/compare-postgresql.sh` with CEILING=1 measures it beside the databases. It
//! ends with its process.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

/// What a statement is answered with.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    Row,
    /// What pgbench asks before its scripts: one table, which is in no parts.
    Parts,
    Tag(&'static str),
}

fn answer(sql: &str) -> Answer {
    let word = sql.split_ascii_whitespace().next().unwrap_or("").to_ascii_uppercase();
    match word.as_str() {
        "SELECT" if sql.contains("partstrat") => Answer::Parts,
        "SELECT" => Answer::Row,
        "UPDATE" => Answer::Tag("UPDATE 1"),
        "INSERT" => Answer::Tag("INSERT 0 1"),
        "BEGIN" => Answer::Tag("BEGIN"),
        "END" | "COMMIT" => Answer::Tag("COMMIT"),
        _ => Answer::Tag("SET"),
    }
}

fn message(kind: u8, body: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend((body.len() as u32 + 4).to_be_bytes());
    out.extend(body);
}

/// Columns that are integers to the client.
fn description(columns: u8, out: &mut Vec<u8>) {
    let mut body = vec![0, columns];
    for _ in 0..columns {
        body.extend(b"abalance\0");
        body.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 23, 0, 4, 255, 255, 255, 255, 0, 0]);
    }
    message(b'T', &body, out);
}

fn executed(answer: Answer, out: &mut Vec<u8>) {
    match answer {
        Answer::Tag(tag) => return message(b'C', &[tag.as_bytes(), b"\0"].concat(), out),
        Answer::Row => message(b'D', b"\0\x01\0\0\0\x0210", out),
        Answer::Parts => message(b'D', b"\0\x03\0\0\0\x011\xff\xff\xff\xff\0\0\0\x010", out),
    }
    message(b'C', b"SELECT 1\0", out);
}

/// A text that ends with a zero, and what is behind it.
fn text(bytes: &[u8]) -> (&str, &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (std::str::from_utf8(&bytes[..end]).unwrap_or(""), bytes.get(end + 1..).unwrap_or(&[]))
}

fn greet(stream: &mut TcpStream) -> io::Result<()> {
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut body = vec![0; (u32::from_be_bytes(length) as usize).clamp(8, 1 << 16) - 4];
        stream.read_exact(&mut body)?;
        // Requests for encryption are declined.
        match u32::from_be_bytes([body[0], body[1], body[2], body[3]]) {
            80877103 | 80877104 => stream.write_all(b"N")?,
            _ => break,
        }
    }
    let mut out = Vec::new();
    message(b'R', &[0; 4], &mut out);
    message(b'S', b"server_version\x0015.0\0", &mut out);
    message(b'S', b"client_encoding\0UTF8\0", &mut out);
    message(b'S', b"standard_conforming_strings\0on\0", &mut out);
    message(b'Z', b"I", &mut out);
    stream.write_all(&out)
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    greet(&mut stream)?;
    let (mut prepared, mut current, mut status) = (HashMap::<String, Answer>::new(), Answer::Row, b'I');
    let (mut read, mut out, mut piece) = (Vec::new(), Vec::new(), [0; 1 << 14]);
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        read.extend(&piece[..count]);
        let mut at = 0;
        while let Some(header) = read.get(at..at + 5) {
            let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
            let kind = header[0];
            let Some(body) = read.get(at + 5..at + 1 + length) else { break };
            match kind {
                b'P' => {
                    let (name, rest) = text(body);
                    prepared.insert(name.to_owned(), answer(text(rest).0));
                    message(b'1', &[], &mut out);
                }
                b'B' => {
                    let (name, _) = text(text(body).1);
                    current = prepared.get(name).copied().unwrap_or(Answer::Row);
                    message(b'2', &[], &mut out);
                }
                b'D' if current == Answer::Row => description(1, &mut out),
                b'D' => message(b'n', &[], &mut out),
                b'E' | b'Q' => {
                    if kind == b'Q' {
                        current = answer(text(body).0);
                    }
                    match current {
                        Answer::Tag("BEGIN") => status = b'T',
                        Answer::Tag("COMMIT") => status = b'I',
                        _ => {}
                    }
                    match current {
                        Answer::Row if kind == b'Q' => description(1, &mut out),
                        Answer::Parts => description(3, &mut out),
                        _ => {}
                    }
                    executed(current, &mut out);
                    if kind == b'Q' {
                        message(b'Z', &[status], &mut out);
                    }
                }
                b'S' => message(b'Z', &[status], &mut out),
                b'X' => return Ok(()),
                _ => {}
            }
            at += 1 + length;
        }
        read.drain(..at);
        if !out.is_empty() {
            stream.write_all(&out)?;
            out.clear();
        }
    }
}

fn main() -> io::Result<()> {
    let port = std::env::args()
        .nth(1)
        .and_then(|port| port.parse().ok())
        .ok_or_else(|| io::Error::other("PORT is missing"))?;
    for stream in TcpListener::bind(("127.0.0.1", port))?.incoming() {
        let stream = stream?;
        std::thread::spawn(move || serve(stream));
    }
    Ok(())
}
