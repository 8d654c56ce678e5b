//! Public test suites that others wrote for other databases, on both servers: files in the sqllogictest format, and scripts for
//! psql, as PostgreSQL's own regression tests are.
//!
//! What such a suite expects is its own database's behaviour. So nothing is compared with its results: a record counts where
//! PostgreSQL does what the record says (it succeeds, or it fails), and AnKerDB must answer as PostgreSQL does. A statement
//! that PostgreSQL refuses and the suite does not is not sent to AnKerDB, and one that it runs against the suite's expectation is, so
//! that both databases stay the same.
//!
//! Loops are unrolled. A file ends where it asks for something that is not SQL: an extension, a file to be loaded.

use crate::answer::{Answer, Aspect, Difference, RowOrder, differences};
use crate::case::Judge;
use crate::psql;
use crate::wire::ServerConnection;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

/// More turns of a loop say nothing new.
const TURNS_MAX: usize = 16;
/// No statement takes longer: it ends on both servers.
const LIMIT: &str = "SET statement_timeout = '5s'";
/// What a file may require and get from any database.
const HARMLESS: [&str; 8] = [
    "skip_reload",
    "vector_size",
    "noforcestorage",
    "notwindows",
    "notmingw",
    "64bit",
    "no_alternative_verify",
    "no_vector_verification",
];

/// A statement of a suite.
struct Record {
    line: usize,
    /// Of the connections that the file names.
    session: String,
    /// Whether it must fail; scripts for psql do not say.
    fails: Option<bool>,
    sql: String,
    /// What `COPY` reads.
    rows: Option<String>,
}

impl Record {
    fn send(&self, client: &mut ServerConnection) -> io::Result<Answer> {
        match &self.rows {
            Some(rows) => client.copy(&self.sql, rows),
            None => client.simple(&self.sql),
        }
    }
}

/// Records that AnKerDB answers wrongly in one way.
#[derive(Default)]
pub struct Group {
    /// How many.
    pub count: u64,
    /// The first one: place, statement and difference.
    pub example: String,
}

/// What came of the suites.
#[derive(Default)]
pub struct SuiteReport {
    /// Files with at least one record that counts.
    pub files: u64,
    /// Records that count.
    pub records: u64,
    /// Those with the same outcome and the same rows.
    pub right: u64,
    /// Those of them with ORDER BY whose rows come in another order: rows that are equal by it have none.
    pub other_order: u64,
    /// Records that PostgreSQL does not refuse, and those of them that are right.
    pub answered: (u64, u64),
    /// Those in which everything that a client sees is the same, SQLSTATEs, types and names too.
    pub same: u64,
    /// The wrong ones, by what AnKerDB says, or by what differs.
    pub wrong: BTreeMap<String, Group>,
    /// All wrong ones, printable.
    pub details: Vec<String>,
}

/// All files of suites below a folder, in order of their names.
///
/// # Errors
/// When the folder cannot be read.
pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if folder.is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir()
            || path
                .extension()
                .is_some_and(|extension| ["test", "slt", "sql"].iter().any(|kind| extension == *kind))
        {
            found.extend(files(&path)?);
        }
    }
    found.sort();
    Ok(found)
}

/// The records of a file.
fn records(path: &Path) -> io::Result<Vec<Record>> {
    let text = String::from_utf8_lossy(&std::fs::read(path)?).into_owned();
    if path.extension().is_some_and(|extension| extension == "sql") {
        // Data files lie beside the folder of the scripts.
        let folder = path.parent().and_then(Path::parent).unwrap_or(Path::new(""));
        let record = |told: psql::ScriptStatement| Record {
            line: told.line,
            session: told.session.to_string(),
            fails: None,
            sql: told.sql,
            rows: told.rows,
        };
        return Ok(psql::statements(&text, folder).into_iter().map(record).collect());
    }
    let numbered: Vec<_> = text.lines().enumerate().map(|(at, line)| (at + 1, line.to_owned())).collect();
    let mut records = Vec::new();
    read(&numbered, &mut records);
    Ok(records)
}

/// Runs a file from empty databases, on which `setup`, another file, has been run uncounted.
///
/// # Errors
/// When PostgreSQL does not answer, or a file cannot be read.
pub fn run(judge: &mut Judge, setup: Option<&Path>, path: &Path, report: &mut SuiteReport) -> io::Result<()> {
    let records = records(path)?;
    if records.is_empty() {
        return Ok(());
    }
    judge.reset_for_guests()?;
    if let Some(setup) = setup {
        let (mut left, mut right) = judge.guests()?;
        for record in self::records(setup)? {
            record.send(&mut left)?;
            record.send(&mut right)?;
        }
    }
    let mut sessions: HashMap<String, (ServerConnection, ServerConnection)> = HashMap::new();
    let before = report.records;
    for record in &records {
        if !sessions.contains_key(&record.session) {
            let (mut left, mut right) = judge.guests()?;
            left.simple(LIMIT)?;
            right.simple(LIMIT)?;
            sessions.insert(record.session.clone(), (left, right));
        }
        let Some((left, right)) = sessions.get_mut(&record.session) else { continue };
        let Ok(postgres) = record.send(left) else {
            // It has ended its session.
            sessions.remove(&record.session);
            continue;
        };
        // A plan is each database's own, and a wait for another session's lock says nothing of the statement.
        let is_own =
            record.sql.trim_start().get(..7).is_some_and(|word| word.eq_ignore_ascii_case("explain"))
                || postgres.error.as_deref() == Some("55P03");
        // Neither does a right that the guest lacks.
        let is_as_told = match record.fails {
            Some(fails) => postgres.error.is_some() == fails,
            None => postgres.error.as_deref() != Some("42501"),
        };
        let counts = !postgres.copying && !is_own && is_as_told;
        let mut is_copying = postgres.copying;
        if !counts && !postgres.copying && postgres.error.is_none() {
            // What it has done is done on both.
            let _ = record.send(right);
        }
        if counts {
            let place = format!("{}:{}", path.display(), record.line);
            let ankerdb = record.send(right).ok();
            report.add(&place, record, &postgres, ankerdb.as_ref());
            let Some(ankerdb) = ankerdb else { break };
            is_copying = ankerdb.copying;
        }
        if is_copying {
            sessions.remove(&record.session);
        } else if left.status != right.status {
            left.simple("ROLLBACK")?;
            if right.simple("ROLLBACK").is_err() {
                break;
            }
        }
    }
    report.files += u64::from(report.records > before);
    Ok(())
}

/// Appends the records of some lines. Returns whether the file goes on behind them.
fn read(lines: &[(usize, String)], records: &mut Vec<Record>) -> bool {
    let mut at = 0;
    let mut is_skipped = false;
    while at < lines.len() {
        let (number, line) = &lines[at];
        at += 1;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["mode", "skip", ..] => is_skipped = true,
            ["mode", "unskip", ..] => is_skipped = false,
            ["require", what, ..] if !HARMLESS.contains(&what) => return false,
            [
                "require-env" | "halt" | "load" | "restart" | "concurrentloop" | "concurrentforeach"
                | "unzip",
                ..,
            ] => {
                return false;
            }
            ["loop" | "foreach", ..] => {
                let end = at + end_of_loop(&lines[at..]);
                for value in turns(&words[1..]) {
                    let name = format!("${{{}}}", words[1]);
                    let body = &lines[at..end.min(lines.len())];
                    let turn: Vec<_> =
                        body.iter().map(|(number, line)| (*number, line.replace(&name, &value))).collect();
                    if !read(&turn, records) {
                        return false;
                    }
                }
                at = end + 1;
            }
            ["statement" | "query", how, ref rest @ ..] => {
                let behind = lines[at..].iter().take_while(|(_, line)| !line.trim().is_empty());
                let body: Vec<&str> = behind.map(|(_, line)| line.as_str()).collect();
                at += body.len();
                let sql: Vec<&str> = body.into_iter().take_while(|line| *line != "----").collect();
                let sql = sql.join("\n");
                let is_plain =
                    !sql.contains("__TEST_DIR__") && !sql.contains("{DATA_DIR}") && !sql.contains("${");
                if !is_skipped && is_plain && how != "maybe" {
                    let session = match words[0] {
                        "statement" => rest.first(),
                        _ => rest.iter().find(|word| word.starts_with("con")),
                    };
                    let session = session.map_or(String::new(), |name| (*name).to_owned());
                    let fails = Some(how == "error");
                    records.push(Record { line: *number, session, fails, sql, rows: None });
                }
            }
            _ => {}
        }
    }
    true
}

/// Lines up to the end of the loop that they are in.
fn end_of_loop(lines: &[(usize, String)]) -> usize {
    let mut depth = 1;
    let ends = |(_, line): &(usize, String)| {
        match line.split_whitespace().next() {
            Some("loop" | "foreach" | "concurrentloop" | "concurrentforeach") => depth += 1,
            Some("endloop") => depth -= 1,
            _ => {}
        }
        depth == 0
    };
    lines.iter().position(ends).unwrap_or(lines.len())
}

/// The values of a loop's variable, which is the first word.
fn turns(words: &[&str]) -> Vec<String> {
    if let [_, from, to] = words
        && let (Ok(from), Ok(to)) = (from.parse::<i64>(), to.parse::<i64>())
    {
        return (from..to).take(TURNS_MAX).map(|value| value.to_string()).collect();
    }
    words.iter().skip(1).take(TURNS_MAX).map(|value| (*value).to_owned()).collect()
}

impl SuiteReport {
    /// Counts a record; `ankerdb` is absent if it fell silent.
    fn add(&mut self, place: &str, record: &Record, postgres: &Answer, ankerdb: Option<&Answer>) {
        self.records += 1;
        let is_answered = u64::from(postgres.error.is_none());
        self.answered.0 += is_answered;
        let silent =
            || Difference { aspect: Aspect::Silence, postgres: "answers".into(), ankerdb: String::new() };
        let is_ordered = record.sql.to_lowercase().contains("order by");
        let order = if is_ordered { RowOrder::Total } else { RowOrder::Any };
        let found = match ankerdb {
            None => vec![silent()],
            Some(ankerdb) => differences(postgres, ankerdb, order),
        };
        self.same += u64::from(found.is_empty());
        let any_order = |ankerdb| differences(postgres, ankerdb, RowOrder::Any);
        let is_rows = |difference: &Difference| difference.aspect == Aspect::Rows;
        let is_other_order = found.iter().any(is_rows)
            && !ankerdb.map(any_order).is_some_and(|found| found.iter().any(is_rows));
        self.other_order += u64::from(is_other_order);
        let both_fail = postgres.error.is_some() && ankerdb.is_some_and(|answer| answer.error.is_some());
        let is_wrong = |difference: &&Difference| match difference.aspect {
            Aspect::Error => !both_fail,
            Aspect::Rows => !is_other_order,
            Aspect::Width | Aspect::Signs | Aspect::Scale | Aspect::Blanks | Aspect::Silence => true,
            Aspect::Types | Aspect::Names | Aspect::Tags | Aspect::Status => false,
        };
        let Some(difference) = found.iter().find(is_wrong) else {
            self.right += 1;
            self.answered.1 += is_answered;
            return;
        };
        let said =
            |answer: &Answer| format!("{} {}", answer.error.clone().unwrap_or_default(), answer.message);
        let group = match (difference.aspect, ankerdb) {
            (Aspect::Error, Some(ankerdb)) if ankerdb.error.is_some() => without_names(&said(ankerdb)),
            (Aspect::Error, _) => format!("no error: {}", without_names(&said(postgres))),
            (aspect, _) => aspect.word().to_owned(),
        };
        let told = ankerdb.map(said).unwrap_or_default();
        let detail = format!("[{group}]\n{place}\n{}\n{difference}\n  {told}\n", record.sql);
        let group = self.wrong.entry(group).or_default();
        group.count += 1;
        if group.count == 1 {
            group.example.clone_from(&detail);
        }
        self.details.push(detail);
    }
}

/// A message without what stands between quotes, and without numbers, so that messages about different things are alike.
fn without_names(message: &str) -> String {
    let (mut plain, mut is_quoted) = (String::new(), false);
    for (place, letter) in message.chars().enumerate() {
        match letter {
            '"' => {
                is_quoted = !is_quoted;
                plain.push('"');
            }
            _ if is_quoted => {}
            '0'..='9' if place > 5 => {
                if !plain.ends_with('#') {
                    plain.push('#');
                }
            }
            letter => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(text: &str) -> Vec<(bool, String)> {
        let lines: Vec<_> = text.lines().enumerate().map(|(at, line)| (at, line.to_owned())).collect();
        let mut records = Vec::new();
        read(&lines, &mut records);
        records.into_iter().map(|record| (record.fails == Some(true), record.sql)).collect()
    }

    #[test]
    fn loops_are_unrolled_and_files_end_where_they_ask_for_more_than_sql() {
        let text = "statement ok\nselect 1\n\nforeach t int text\n\nloop i 0 2\n\nquery I\nselect ${i}::${t}\n----\n1\n\n\
            endloop\n\nstatement error\nselect '${t}'\n----\nno\n\nendloop\n\nrequire json\n\nquery I\nselect 3\n";
        let expected = [
            (false, "select 1"),
            (false, "select 0::int"),
            (false, "select 1::int"),
            (true, "select 'int'"),
            (false, "select 0::text"),
            (false, "select 1::text"),
            (true, "select 'text'"),
        ];
        assert_eq!(statements(text), expected.map(|(fails, sql)| (fails, sql.to_owned())));
    }

    #[test]
    fn messages_about_different_things_are_alike() {
        assert_eq!(
            without_names("42P01 relation \"t1\" does not exist at 12"),
            "42P01 relation \"\" does not exist at #"
        );
    }
}
