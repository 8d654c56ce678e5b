//! SQL behaviour, written in SQL: runs every `.slt` file under `tests/slt` over the wire.
//!
//! A file is a list of records, parted by empty lines; `#` begins a comment line. Each file gets an empty database.
//!
//! ```text
//! connection NAME             the following records use this connection (the first is `main`)
//! statement ok [TAG]          must succeed; TAG, if given, is its command tag
//! statement error CODE        must fail with this SQLSTATE
//! status I|T|E                the status byte of the last ReadyForQuery
//! query TYPES [rowsort]       must give the rows behind `----`, cells parted by one blank
//! copy ok [TAG]               COPY FROM, its data behind `----`
//! copy error CODE
//! ```
//! TYPES has one letter for each column: I integer, N numeric, R floating point, B boolean, T text, D date,
//! P timestamp, Z timestamptz, X bytea, U uuid, M time, V interval, K jsonb. NULL is `NULL`, the empty string `(empty)`.
//! Lines `$1 = value` between the header and the SQL are parameters; a statement with them takes the extended
//! protocol. Queries without are run by both protocols, and the two answers must agree.
//!
//! What the records expect is what PostgreSQL 15 answers; `ankerdb-judge` runs them on both servers. A record that begins
//! with a line `differs NAME` is one that AnKerDB does not answer like PostgreSQL yet: it is left out here, the judge checks
//! that it still differs, and `crates/judge/differences.txt` has the reason under that name. (`differs olap NAME`: only as a
//! subquery for the OLAP path, which is the judge's alone.)

use crate::client::{Client, Reply};
use crate::server::TestServer;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A record of a file.
struct Record<'a> {
    line: usize,
    differs: bool,
    header: Vec<&'a str>,
    sql: String,
    parameters: Vec<Option<&'a str>>,
    expected: Vec<&'a str>,
}

fn records(text: &str) -> Vec<Record<'_>> {
    let mut records = Vec::new();
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')).peekable();
    while let Some((number, line)) = lines.next() {
        if line.trim().is_empty() {
            continue;
        }
        // What differs only on the OLAP path when wrapped for it is right as it stands here.
        let noted = line.starts_with("differs ");
        let differs = noted && !line.starts_with("differs olap ");
        let line = if noted { lines.next().map_or("", |(_, line)| line) } else { line };
        let mut record = Record {
            line: number + 1,
            differs,
            header: line.split_whitespace().collect(),
            sql: String::new(),
            parameters: Vec::new(),
            expected: Vec::new(),
        };
        let mut behind = false;
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.trim().is_empty()) {
            match line.strip_prefix('$').and_then(|line| line.split_once(" = ")) {
                _ if behind => record.expected.push(line),
                Some((_, "NULL")) => record.parameters.push(None),
                Some((_, value)) => record.parameters.push(Some(value)),
                None if line == "----" => behind = true,
                None => record.sql.push_str(&format!("{line}\n")),
            }
        }
        records.push(record);
    }
    records
}

fn type_letter(oid: u32) -> char {
    match oid {
        20 | 21 | 23 => 'I',
        1700 => 'N',
        700 | 701 => 'R',
        16 => 'B',
        26 => 'I',
        // Texts, names, lists, names of objects, json.
        25
        | 1042
        | 1043
        | 18
        | 19
        | 22
        | 30
        | 1000..=1028
        | 1115
        | 1182
        | 1183
        | 1185
        | 1187
        | 1231
        | 2951
        | 24
        | 2205
        | 2206
        | 4089
        | 4096
        | 114 => 'T',
        1082 => 'D',
        1114 => 'P',
        1184 => 'Z',
        17 => 'X',
        2950 => 'U',
        1083 => 'M',
        1186 => 'V',
        3802 => 'K',
        _ => '?',
    }
}

struct Runner<'a> {
    server: &'a TestServer,
    clients: HashMap<String, (Client, u8)>,
    current: String,
}

impl Runner<'_> {
    fn run(&mut self, record: &Record) -> Result<(), String> {
        match record.header[..] {
            ["connection", name] => {
                self.current = name.to_owned();
                Ok(())
            }
            ["status", status] => same("status", &(self.client().1 as char).to_string(), status),
            ["statement", "ok", ref tag @ ..] => succeeded(&self.reply(record), &tag.join(" ")),
            ["statement", "error", code] => same("code", self.reply(record).code(), code),
            ["copy", "ok", ref tag @ ..] => succeeded(&self.copy(record), &tag.join(" ")),
            ["copy", "error", code] => same("code", self.copy(record).code(), code),
            ["query", types, ref sort @ ..] => self.query(record, types, sort == ["rowsort"]),
            _ => Err("unknown kind of record".into()),
        }
    }

    fn client(&mut self) -> &mut (Client, u8) {
        let server = self.server;
        let connect = || (Client::connect(server), b'I');
        self.clients.entry(self.current.clone()).or_insert_with(connect)
    }

    fn reply(&mut self, record: &Record) -> Reply {
        let (client, status) = self.client();
        let reply = match record.parameters.is_empty() {
            true => client.query(&record.sql),
            false => client.extended(&record.sql, &record.parameters),
        };
        *status = reply.status;
        reply
    }

    fn copy(&mut self, record: &Record) -> Reply {
        let data: String = record.expected.iter().map(|line| format!("{line}\n")).collect();
        let (client, status) = self.client();
        let reply = client.copy_in(&record.sql, data.as_bytes(), 5);
        *status = reply.status;
        reply
    }

    fn query(&mut self, record: &Record, types: &str, sort: bool) -> Result<(), String> {
        let reply = self.reply(record);
        check_rows(record, &reply, types, sort)?;
        let again =
            record.parameters.is_empty() && record.sql.trim_start().to_lowercase().starts_with("select");
        if again && self.client().1 != b'E' {
            let reply = self.client().0.extended(&record.sql, &[]);
            check_rows(record, &reply, types, sort).map_err(|told| format!("extended protocol: {told}"))?;
        }
        Ok(())
    }
}

fn same(what: &str, found: &str, expected: &str) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what} is {found:?}, not {expected:?}")),
    }
}

fn succeeded(reply: &Reply, tag: &str) -> Result<(), String> {
    match &reply.error {
        Some(error) => Err(format!("{error:?}")),
        None if tag.is_empty() => Ok(()),
        None => same("tag", &reply.tags.join(" "), tag),
    }
}

fn check_rows(record: &Record, reply: &Reply, types: &str, sort: bool) -> Result<(), String> {
    succeeded(reply, "")?;
    let found: String = reply.columns.iter().map(|column| type_letter(column.oid)).collect();
    same("types", &found, types)?;
    let cell = |cell: String| if cell.is_empty() { "(empty)".to_owned() } else { cell };
    let row = |row: Vec<String>| row.into_iter().map(cell).collect::<Vec<_>>().join(" ");
    let mut rows: Vec<String> = reply.text().into_iter().map(row).collect();
    let mut expected: Vec<String> = record.expected.iter().map(ToString::to_string).collect();
    if sort {
        rows.sort();
        expected.sort();
    }
    same("result", &rows.join("\n"), &expected.join("\n"))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.is_dir() => files(&path, found),
            Some(extension) if extension == "slt" => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn slt_files() {
    // Asked when the test runs: clones share build results, and the clone that built this one may be gone.
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    let folder = Path::new(&here).join("tests/slt");
    let mut paths = Vec::new();
    files(&folder, &mut paths);
    paths.sort();
    assert!(!paths.is_empty());
    let mut failures = Vec::new();
    for path in &paths {
        let text = std::fs::read_to_string(path).unwrap();
        let server = TestServer::start();
        let mut runner = Runner { server: &server, clients: HashMap::new(), current: "main".into() };
        for record in records(&text).into_iter().filter(|record| !record.differs) {
            if let Err(told) = runner.run(&record) {
                let place = path.strip_prefix(&folder).unwrap().display();
                failures.push(format!("{place}:{}: {}\n{told}\n", record.line, record.sql.trim()));
            }
        }
    }
    assert!(failures.is_empty(), "{} records failed\n\n{}", failures.len(), failures.join("\n"));
}
