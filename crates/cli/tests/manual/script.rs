//! Runs the SQL of chapters, and compares what it prints.

use crate::chapter::{Block, blocks, chapters};
use crate::client::Client;
use crate::support::server::Server;

/// What parts the columns of a block with several sessions.
const BAR: char = '│';

/// A session of a block, and what is not yet compared of its last answer.
struct Session {
    client: Client,
    place: String,
    sql: String,
    /// Whether the server has a statement that is not answered yet.
    asked: bool,
    answer: Vec<String>,
    /// Lines of the answer that were compared.
    seen: usize,
}

type Outcome = Result<(), String>;

impl Session {
    fn new(server: &Server) -> Session {
        Session {
            client: Client::connect(server),
            place: String::new(),
            sql: String::new(),
            asked: false,
            answer: Vec::new(),
            seen: 0,
        }
    }

    /// Takes a line of a block: a part of a statement, or what is expected of the last one. A statement that is `patient`
    /// is going to wait for others.
    fn line(&mut self, line: &str, patient: bool, place: &str) -> Outcome {
        match line.trim().strip_prefix("--") {
            Some(expected) => self.expect(expected.trim(), place),
            None if line.trim().is_empty() => Ok(()),
            None => self.statement(line.trim(), patient, place),
        }
    }

    fn statement(&mut self, line: &str, patient: bool, place: &str) -> Outcome {
        if self.sql.is_empty() {
            self.settle()?;
            self.place = place.to_owned();
        } else {
            self.sql.push('\n');
        }
        self.sql.push_str(line);
        // A remark behind the statement is the reader's.
        if line.split_once("; ").is_some_and(|(_, rest)| rest.trim().starts_with("--")) || line.ends_with(';')
        {
            self.client.ask(&std::mem::take(&mut self.sql));
            self.asked = true;
            if !patient {
                self.fetch();
            }
        }
        Ok(())
    }

    fn fetch(&mut self) {
        if std::mem::take(&mut self.asked) {
            self.answer = self.client.answer();
            self.seen = 0;
        }
    }

    fn expect(&mut self, expected: &str, place: &str) -> Outcome {
        if expected == "waits" {
            let waits = self.asked && self.client.is_waiting();
            return if waits { Ok(()) } else { Err(format!("{place}: it does not wait")) };
        }
        self.fetch();
        if expected == "..." {
            self.seen = self.answer.len();
            return Ok(());
        }
        let found = self.answer.get(self.seen).map_or("nothing", String::as_str);
        self.seen += 1;
        let is_same = match expected.strip_suffix("...") {
            Some(begin) => plain(found).starts_with(&plain(begin)),
            None => plain(found) == plain(expected),
        };
        if is_same { Ok(()) } else { Err(format!("{place}: expected {expected:?}, found {found:?}")) }
    }

    /// What the last answer has to be when the next statement comes: compared to its end, or a success.
    fn settle(&mut self) -> Outcome {
        self.fetch();
        let (place, answer) = (&self.place, std::mem::take(&mut self.answer));
        match (self.seen, answer.first()) {
            (0, Some(error)) if error.starts_with("ERROR ") => Err(format!("{place}: {error}")),
            (0, _) => Ok(()),
            (seen, _) if seen < answer.len() => {
                Err(format!("{place}: more than is expected: {}", answer[seen..].join("; ")))
            }
            _ => Ok(()),
        }
    }

    fn end(mut self) -> Outcome {
        let settled = self.settle();
        self.client.end();
        match settled {
            Ok(()) if !self.sql.is_empty() => Err(format!("{}: a statement without its `;`", self.place)),
            settled => settled,
        }
    }
}

/// Cells without the blanks around them.
fn plain(line: &str) -> String {
    line.split('|').map(str::trim).collect::<Vec<_>>().join("|")
}

/// Runs a block of the chapter's own session.
fn run_sql(block: &Block, session: &mut Session) -> Outcome {
    for (number, line) in block.text.lines().enumerate() {
        session.line(line, false, &block.place(number))?;
    }
    session.settle()?;
    session.seen = 0;
    Ok(())
}

/// Runs a block of several sessions.
fn run_sessions(block: &Block, server: &Server) -> Outcome {
    let lines: Vec<Vec<&str>> =
        block.text.lines().map(|line| line.split(BAR).map(str::trim).collect()).collect();
    let names = lines.first().map_or(0, Vec::len);
    let mut sessions: Vec<Session> = (0..names).map(|_| Session::new(server)).collect();
    for (number, line) in lines.iter().enumerate().skip(1) {
        for (column, (session, cell)) in sessions.iter_mut().zip(line).enumerate() {
            let mut below = lines[number + 1..].iter().filter_map(|line| line.get(column));
            let next = below.find(|cell| !cell.is_empty());
            let patient = next.is_some_and(|next| next.starts_with("--") && next.ends_with(" waits"));
            session.line(cell, patient, &block.place(number))?;
        }
    }
    sessions.into_iter().try_for_each(Session::end)
}

/// Runs the SQL of a chapter on a server of its own; how many blocks there were.
fn run(name: &str, text: &str) -> Result<usize, String> {
    let blocks = blocks(name, text);
    let with_sql: Vec<&Block> =
        blocks.iter().filter(|block| matches!(block.kind.as_str(), "sql" | "sessions")).collect();
    if with_sql.is_empty() {
        return Ok(0);
    }
    let server = Server::start(&["--in-memory"]);
    let mut session = Session::new(&server);
    for block in &with_sql {
        match block.kind.as_str() {
            "sql" => run_sql(block, &mut session)?,
            _ => run_sessions(block, &server)?,
        }
    }
    session.end()?;
    Ok(with_sql.len())
}

#[test]
fn the_sql_of_every_chapter_prints_what_it_says() {
    let mut blocks = 0;
    let mut failures = Vec::new();
    for (name, text) in chapters() {
        match run(&name, &text) {
            Ok(count) => blocks += count,
            Err(failure) => failures.push(failure),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(blocks > 30, "only {blocks} blocks found: the manual has changed its ways");
}

/// The control: each kind of mistake in a chapter is found.
#[test]
fn a_wrong_example_is_found() {
    let right = "```sql\nCREATE TABLE t (a int PRIMARY KEY, b text);\nINSERT INTO t VALUES (1, NULL);\n-- INSERT 0 1\n\
        SELECT a, b\nFROM t;\n-- a | b\n-- 1 | NULL\nSELECT 1 / 0;\n-- ERROR 22012: division...\n```\n\
        ```sessions\nAnn │ Bob\nBEGIN; │\nUPDATE t SET b = 'x'; │\n │ UPDATE t SET b = 'y';\n │ -- waits\nCOMMIT; │\n\
        │ -- UPDATE 1\n```\n";
    assert_eq!(run("control", right), Ok(2));
    for (part, wrong, told) in [
        ("-- 1 | NULL", "-- 2 | NULL", "control:8: expected \"2 | NULL\", found \"1 | NULL\""),
        ("-- a | b", "-- a | c", "control:7"),
        ("-- 1 | NULL", "-- 1 | NULL\n-- 2 | NULL", "found \"nothing\""),
        ("-- 1 | NULL\n", "", "control:5: more than is expected: 1 | NULL"),
        ("-- INSERT 0 1", "-- INSERT 0 2", "control:4"),
        ("-- ERROR 22012: division...\n", "", "control:9: ERROR 22012: division by zero"),
        ("22012", "22013", "control:10"),
        ("FROM t;", "FROM t", "found \"nothing\""),
        ("BEGIN; │\n", "", "it does not wait"),
        ("│ -- UPDATE 1", "│ -- UPDATE 2", "control:19"),
    ] {
        let failure = run("control", &right.replace(part, wrong)).expect_err(wrong);
        assert!(failure.contains(told), "{wrong:?} gives {failure:?}, not {told:?}");
    }
}
