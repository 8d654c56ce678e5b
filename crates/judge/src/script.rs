//! `.slt` files on both servers.
//!
//! The format is described in `crates/server/tests/wire/script.rs`, which runs the same files on AnKerDB alone. Here each
//! record runs on both servers, and the answers must agree in everything that is compared; and PostgreSQL must answer what
//! the record says. So a record cannot claim something that is not PostgreSQL's behaviour. A record that begins with
//! `differs NAME` is one that AnKerDB answers differently, for the reason that the list of differences gives under that
//! name; when it no longer does, the record is stale. With `differs olap NAME` AnKerDB answers what the record says, and
//! only what the record does not say may differ: names of columns, and the form wrapped for the OLAP path.

use crate::answer::{Answer, RowOrder, differences, lines};
use crate::case::{Finding, Judge, Way, wrapped};
use crate::known::KnownDifferences;
use crate::wire::ServerConnection;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

/// A record of a file.
#[derive(Debug, Clone)]
pub struct Record {
    /// Where it begins, counted from 1.
    pub line: usize,
    /// The entry of the list of differences that explains why AnKerDB answers differently.
    pub differs: Option<String>,
    /// Only when it is wrapped for the OLAP path.
    pub wrapped_only: bool,
    /// Words of its first line.
    pub header: Vec<String>,
    /// The statement.
    pub sql: String,
    /// Values of $1, $2, ...
    pub parameters: Vec<Option<String>>,
    /// Lines behind `----`.
    pub expected: Vec<String>,
}

/// The records of a file.
pub fn records(text: &str) -> Vec<Record> {
    let mut records = Vec::new();
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')).peekable();
    while let Some((number, line)) = lines.next() {
        if line.trim().is_empty() {
            continue;
        }
        let differs = line.strip_prefix("differs ").map(str::trim);
        let wrapped_only = differs.is_some_and(|name| name.starts_with("olap "));
        let differs = differs.map(|name| name.strip_prefix("olap ").unwrap_or(name).to_owned());
        let line = match differs.is_some() {
            true => lines.next().map_or("", |(_, line)| line),
            false => line,
        };
        let header = line.split_whitespace().map(str::to_owned).collect();
        let (sql, parameters, expected) = (String::new(), Vec::new(), Vec::new());
        let mut record =
            Record { line: number + 1, differs, wrapped_only, header, sql, parameters, expected };
        let mut behind = false;
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.trim().is_empty()) {
            match line.strip_prefix('$').and_then(|line| line.split_once(" = ")) {
                _ if behind => record.expected.push(line.to_owned()),
                Some((_, value)) => record.parameters.push((value != "NULL").then(|| value.to_owned())),
                None if line == "----" => behind = true,
                None => record.sql.push_str(&format!("{line}\n")),
            }
        }
        records.push(record);
    }
    records
}

/// The letter of a type in a query's header.
pub fn type_letter(oid: u32) -> char {
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

/// The results of the files.
#[derive(Default)]
pub struct ScriptReport {
    /// Files and records run.
    pub files: usize,
    /// Records run.
    pub records: usize,
    /// Known differences met, by the entry's name.
    pub known: BTreeMap<String, u64>,
    /// The others, printable.
    pub unknown: Vec<String>,
}

/// All `.slt` files below the folder, in order of their names.
///
/// # Errors
/// When the folder cannot be read.
pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Runs a file from empty databases.
///
/// # Errors
/// When PostgreSQL does not answer, or the file cannot be read.
pub fn run(
    judge: &mut Judge,
    known: &KnownDifferences,
    path: &Path,
    report: &mut ScriptReport,
) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(entry) = known.leaves_out(&name) {
        *report.known.entry(entry.name.clone()).or_default() += 1;
        return Ok(());
    }
    let text = std::fs::read_to_string(path)?;
    judge.reset()?;
    report.files += 1;
    let mut script = Script { judge, known, report, name, sessions: HashMap::new(), current: "main".into() };
    for record in records(&text) {
        script.run(&record)?;
    }
    Ok(())
}

struct Script<'a> {
    judge: &'a mut Judge,
    known: &'a KnownDifferences,
    report: &'a mut ScriptReport,
    name: String,
    sessions: HashMap<String, (ServerConnection, ServerConnection)>,
    current: String,
}

impl Script<'_> {
    fn run(&mut self, record: &Record) -> io::Result<()> {
        self.report.records += 1;
        match record.header.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["connection", name] => name.clone_into(&mut self.current),
            // The status is compared with every answer.
            ["status", _] => {}
            _ => self.statement(record)?,
        }
        Ok(())
    }

    fn statement(&mut self, record: &Record) -> io::Result<()> {
        if !self.sessions.contains_key(&self.current) {
            self.sessions.insert(self.current.clone(), self.judge.sessions()?);
        }
        let Some((left, right)) = self.sessions.get_mut(&self.current) else { return Ok(()) };
        let sorted = record.header.last().is_some_and(|word| word == "rowsort");
        let order = match sorted || !record.sql.to_lowercase().contains("order by") {
            true => RowOrder::Any,
            false => RowOrder::Total,
        };
        let outside = left.status == 'I' && right.status == 'I';
        let postgres = ask(left, record, Way::Simple)?;
        let (mut found, mut refuted) = (Vec::new(), false);
        let reads = record.header.first().is_some_and(|word| word == "query");
        let select = record.sql.trim_start().to_lowercase();
        let writes = ["insert into", "update ", "delete from", "merge into"];
        let wraps = ["select", "with", "values"].iter().any(|word| select.starts_with(word))
            && !(select.starts_with("with") && writes.iter().any(|words| select.contains(words)))
            && !["for update", "for share", "for key", "for no key"]
                .iter()
                .any(|words| select.contains(words));
        let ways = match reads && outside && record.parameters.is_empty() && wraps {
            true => &[Way::Simple, Way::Extended, Way::Olap][..],
            false => &[Way::Simple],
        };
        for &way in ways {
            let ankerdb = ask(right, record, way)?;
            refuted |= way != Way::Olap && disagreement(record, &ankerdb).is_some();
            let order = if way == Way::Olap { RowOrder::Any } else { order };
            let differences = differences(&postgres, &ankerdb, order);
            found.extend(differences.into_iter().map(|difference| Finding { way, difference }));
        }
        let agree = found.is_empty();
        match &record.differs {
            Some(name) => self.explained(record, name, agree, refuted),
            None if refuted => {
                found.iter().for_each(|finding| self.tell_finding(record, finding, "REFUTED "))
            }
            None => found.iter().for_each(|finding| self.note(record, finding)),
        }
        // If the servers differ, that has been reported already.
        if let Some(told) = disagreement(record, &postgres).filter(|_| agree || record.differs.is_some()) {
            let place = format!("{}:{}", self.name, record.line);
            self.tell(format!("{place}: {}\nPostgreSQL contradicts the record: {told}\n", record.sql.trim()));
        }
        Ok(())
    }

    /// A record that names the entry that explains it. `refuted`: AnKerDB does not answer what it expects.
    fn explained(&mut self, record: &Record, name: &str, agree: bool, refuted: bool) {
        let place = format!("{}:{}", self.name, record.line);
        let sql = record.sql.trim();
        if !self.known.entries.iter().any(|entry| entry.name == name) {
            self.tell(format!("{place}: there is no entry [{name}]\n"));
        } else if agree || (!refuted && !record.wrapped_only) {
            self.tell(format!("STALE: {place}: {sql}\n`differs` does not hold now\n"));
        } else if refuted && record.wrapped_only {
            self.tell(format!("{place}: {sql}\nnot only on the OLAP path\n"));
        } else {
            *self.report.known.entry(name.to_owned()).or_default() += 1;
        }
    }

    fn note(&mut self, record: &Record, finding: &Finding) {
        match self.known.explains_record(&record.sql, finding) {
            Some(entry) => *self.report.known.entry(self.known.entries[entry].name.clone()).or_default() += 1,
            None => self.tell_finding(record, finding, ""),
        }
    }

    fn tell_finding(&mut self, record: &Record, finding: &Finding, how: &str) {
        let place = format!("{}:{}", self.name, record.line);
        let (sql, way) = (record.sql.trim(), finding.way.word());
        self.tell(format!("{how}{place}: {sql}\n-- asked: {way}\n{}\n", finding.difference));
    }

    fn tell(&mut self, text: String) {
        println!("{text}");
        self.report.unknown.push(text);
    }
}

/// Runs a record's statement.
///
/// # Errors
/// When the server does not answer.
pub fn ask(client: &mut ServerConnection, record: &Record, way: Way) -> io::Result<Answer> {
    if record.header.first().is_some_and(|word| word == "copy") {
        let data: String = record.expected.iter().map(|line| format!("{line}\n")).collect();
        return client.copy(&record.sql, &data);
    }
    match way {
        _ if !record.parameters.is_empty() => client.extended(&record.sql, &record.parameters),
        Way::Extended => client.extended(&record.sql, &[]),
        Way::Olap => client.simple(&wrapped(&record.sql)),
        _ => client.simple(&record.sql),
    }
}

/// The aspect in which the answer is not what the record says.
pub fn disagreement(record: &Record, answer: &Answer) -> Option<String> {
    let header: Vec<&str> = record.header.iter().map(String::as_str).collect();
    let code = answer.error.as_deref().unwrap_or("");
    let same = |what: &str, found: &str, expected: &str| {
        (found != expected).then(|| format!("{what} is {found:?}, not {expected:?}"))
    };
    match header[..] {
        ["statement" | "copy", "ok", ref tag @ ..] => {
            same("error", code, "").or_else(|| match tag.is_empty() {
                true => None,
                false => same("tag", &answer.tags.join(" "), &tag.join(" ")),
            })
        }
        ["statement" | "copy", "error", expected] => same("code", code, expected),
        ["query", types, ref sort @ ..] => {
            let letters: String = answer.columns.iter().map(|column| type_letter(column.oid)).collect();
            let mut rows: Vec<String> = lines(&answer.rows).lines().map(str::to_owned).collect();
            let mut expected = record.expected.clone();
            if sort == ["rowsort"] {
                rows.sort();
                expected.sort();
            }
            let rows_differ = || same("result", &rows.join("\n"), &expected.join("\n"));
            same("error", code, "").or_else(|| same("types", &letters, types)).or_else(rows_differ)
        }
        _ => Some("unknown kind of record".into()),
    }
}
