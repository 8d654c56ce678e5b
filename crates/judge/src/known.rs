//! The list of what differs on purpose, or not yet on purpose: `differences.txt`.
//!
//! ```text
//! [name of the entry]
//! reason: why, in words; may go on in lines
//!     that begin with blanks
//! aspect: rows tags            one or several, as in `Aspect::word`
//! postgres: 22012              for errors: SQLSTATE, or `ok`; `*` stands for anything, `!` for not
//! ankerdb: ok
//! way: olap                    simple, extended, parameters (also: again), olap; left out: any
//! statement: *sum(* | *avg(*   the statement in lower case, blanks made one, patterns parted by ` | `
//! confirmed: smaller           the other server fails with that code on a smaller form of the statement
//! file: name.slt               instead of all these: this whole file
//! example:
//! CREATE TABLE t0 (id int PRIMARY KEY);
//! SELECT 1 / {0} FROM t0;      the last statement shows it, at each run; {} marks what may be sent as a parameter
//! ```
//!
//! Patterns are matched with statements that have been shrunk, so that an entry hides nothing that merely stands beside it. A
//! *confirmed* error is not AnKerDB's alone: the statement contains something that PostgreSQL refuses as well, and the servers
//! differ only in whether they evaluate it. The example of each entry runs every time: an entry whose example no longer differs
//! is stale, which is as wrong as a difference without an entry. An entry with a reason only is for records of `.slt` files
//! that name it.

use crate::answer::{Difference, RowOrder};
use crate::case::{Effect, Finding, Judge, Step, Way};
use crate::shrink;
use crate::tree::{Sort, Tree};
use std::io;

/// An entry.
#[derive(Debug, Clone, Default)]
pub struct KnownDifference {
    /// Its name.
    pub name: String,
    /// Why it differs.
    pub reason: String,
    aspect: String,
    postgres: String,
    ankerdb: String,
    way: Option<String>,
    is_confirmed: bool,
    statements: Vec<String>,
    /// A file of SQL tests that is not comparable as a whole.
    pub file: Option<String>,
    example: Vec<String>,
}

/// The list.
#[derive(Debug, Default)]
pub struct KnownDifferences {
    /// In the order of the file.
    pub entries: Vec<KnownDifference>,
}

impl KnownDifferences {
    /// Reads the list.
    ///
    /// # Errors
    /// A sentence with the line's number, if something in it is not as described above.
    pub fn parse(text: &str) -> Result<KnownDifferences, String> {
        let mut known = KnownDifferences::default();
        let mut example = false;
        for (number, line) in text.lines().enumerate() {
            let wrong = |what: &str| format!("line {}: {what}: {line}", number + 1);
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                known.entries.push(KnownDifference { name: name.to_owned(), ..KnownDifference::default() });
                example = false;
                continue;
            }
            let entry = known.entries.last_mut().ok_or_else(|| wrong("no entry has begun"))?;
            if example {
                entry.example.push(line.trim().trim_end_matches(';').to_owned());
            } else if line.starts_with(' ') {
                entry.reason.push(' ');
                entry.reason.push_str(line.trim());
            } else {
                let (key, value) = line.split_once(':').ok_or_else(|| wrong("no key"))?;
                example = key == "example";
                entry.set(key, value.trim()).ok_or_else(|| wrong("unknown key"))?;
            }
        }
        match known.entries.iter().find(|entry| !entry.is_complete()) {
            Some(entry) => Err(format!(
                "[{}] needs a reason, and all of aspect, statement and example or none",
                entry.name
            )),
            None => Ok(known),
        }
    }

    /// The entry that explains the difference which the statement shows on the databases as they are.
    ///
    /// # Errors
    /// When PostgreSQL does not answer.
    pub fn explains(&self, judge: &mut Judge, tree: &Tree, finding: &Finding) -> io::Result<Option<usize>> {
        for (position, entry) in self.matching(&tree.sql(), finding) {
            if !entry.is_confirmed || shrink::confirmed(judge, tree, finding)? {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    /// The entry that explains the difference of a record of an SQL test. Such statements have no smaller form, so
    /// nothing can be confirmed.
    pub fn explains_record(&self, sql: &str, finding: &Finding) -> Option<usize> {
        self.matching(sql, finding).find(|(_, entry)| !entry.is_confirmed).map(|(position, _)| position)
    }

    /// The entries whose patterns fit.
    fn matching(&self, sql: &str, finding: &Finding) -> impl Iterator<Item = (usize, &KnownDifference)> {
        let sql = normalized(sql);
        self.entries.iter().enumerate().filter(move |(_, entry)| entry.matches(&sql, finding))
    }

    /// Whether a file of SQL tests is left out as a whole.
    pub fn leaves_out(&self, file: &str) -> Option<&KnownDifference> {
        self.entries.iter().find(|entry| entry.file.as_deref() == Some(file))
    }

    /// Entries without an example, which records of tests must name.
    pub fn without_example(&self) -> impl Iterator<Item = &KnownDifference> {
        self.entries.iter().filter(|entry| entry.example.is_empty())
    }

    /// Entries whose example no longer shows what they say.
    ///
    /// # Errors
    /// When PostgreSQL does not answer.
    pub fn stale(&self, judge: &mut Judge) -> io::Result<Vec<&KnownDifference>> {
        let mut stale = Vec::new();
        for entry in self.entries.iter().filter(|entry| !entry.example.is_empty()) {
            if !entry.still_differs(judge)? {
                stale.push(entry);
            }
        }
        Ok(stale)
    }
}

impl KnownDifference {
    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "reason" => self.reason = value.to_owned(),
            "aspect" => self.aspect = value.to_owned(),
            "postgres" => self.postgres = value.to_owned(),
            "ankerdb" => self.ankerdb = value.to_owned(),
            "way" => self.way = Some(value.to_owned()),
            "statement" => self.statements.extend(value.split(" | ").map(normalized)),
            "confirmed" if value == "smaller" => self.is_confirmed = true,
            "file" => self.file = Some(value.to_owned()),
            "example" => {}
            _ => return None,
        }
        Some(())
    }

    fn is_complete(&self) -> bool {
        let parts = [self.aspect.is_empty(), self.statements.is_empty(), self.example.is_empty()];
        !self.reason.is_empty() && (parts == [true; 3] || parts == [false; 3])
    }

    fn matches(&self, sql: &str, finding: &Finding) -> bool {
        let Difference { aspect, postgres, ankerdb } = &finding.difference;
        let side = |pattern: &str, side: &str| match pattern.strip_prefix('!') {
            Some(other) => !glob(other, side),
            None => pattern.is_empty() || glob(pattern, side),
        };
        self.aspect.split_whitespace().any(|word| word == aspect.word())
            && self.way.as_deref().is_none_or(|way| {
                way == finding.way.word() || way == "parameters" && finding.way == Way::Again
            })
            && side(&self.postgres, postgres)
            && side(&self.ankerdb, ankerdb)
            && self.statements.iter().any(|pattern| glob(pattern, sql))
    }

    fn still_differs(&self, judge: &mut Judge) -> io::Result<bool> {
        judge.clear()?;
        let Some((last, before)) = self.example.split_last() else { return Ok(false) };
        for sql in before {
            judge.replay(&Step::change(Tree::statement(sql)))?;
        }
        let reads =
            ["select", "with", "values", "("].iter().any(|word| last.to_lowercase().starts_with(word));
        let kind = if reads { Effect::Read } else { Effect::Change };
        let way = if self.way.as_deref() == Some("extended") { Way::Extended } else { Way::Simple };
        let order = if last.to_lowercase().contains("order by") { RowOrder::Total } else { RowOrder::Any };
        let step = Step { tree: with_constants(last), order, kind, way };
        let found = judge.run(&step)?;
        judge.clear()?;
        let sql = normalized(&step.tree.sql());
        Ok(found.iter().any(|finding| self.matches(&sql, finding)))
    }
}

/// The statement; what stands in braces is a constant, which may be sent as a parameter.
fn with_constants(sql: &str) -> Tree {
    let mut tree = Tree::new(Sort::Statement);
    for (number, piece) in sql.split(['{', '}']).enumerate() {
        tree = match number % 2 {
            0 => tree.text(piece),
            _ => tree.child(Tree::constant(Sort::Word, piece, piece.trim_matches('\''))),
        };
    }
    tree
}

/// In lower case and with single blanks.
fn normalized(sql: &str) -> String {
    sql.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the text matches the pattern, in which `*` stands for any characters.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some(at) = text.find(piece) else { return false };
        text = &text[at + piece.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Aspect;

    fn finding(aspect: Aspect, postgres: &str, ankerdb: &str) -> Finding {
        let difference = Difference { aspect, postgres: postgres.into(), ankerdb: ankerdb.into() };
        Finding { way: Way::Olap, difference }
    }

    const LIST: &str = "# comment\n\n[zero]\nreason: because\n  of this\naspect: error\npostgres: 22012\nankerdb: ok\n\
                        way: olap\nstatement: select * / 0 | *%*\nexample:\nSELECT 1 / 0;\n";

    #[test]
    fn entries_match_by_aspect_codes_way_and_pattern() {
        let known = KnownDifferences::parse(LIST).unwrap();
        assert_eq!(known.entries[0].reason, "because of this");
        let explains = |sql: &str, finding: &Finding| known.matching(sql, finding).next().is_some();
        let zero = finding(Aspect::Error, "22012", "ok");
        assert!(explains("SELECT  d0\n/ 0", &zero));
        assert!(explains("SELECT 1 % 0", &zero));
        assert!(!explains("SELECT d0 / 1", &zero));
        assert!(!explains("SELECT d0 / 0", &finding(Aspect::Error, "22012", "XX000")));
        assert!(!explains("SELECT d0 / 0", &finding(Aspect::Rows, "22012", "ok")));
        assert!(!explains("SELECT d0 / 0", &Finding { way: Way::Simple, ..zero }));
    }

    #[test]
    fn patterns_are_whole() {
        assert!(glob("a*c", "abc") && glob("*", "") && glob("a*b*c", "aXbYc") && glob("abc", "abc"));
        assert!(!glob("a*c", "abcd") && !glob("b*", "abc") && !glob("a*b*c", "acb"));
        // The last piece must not be the text that an earlier one took.
        assert!(!glob("*ab*b", "xab"));
    }

    #[test]
    fn an_entry_without_a_reason_or_an_example_is_refused() {
        assert!(
            KnownDifferences::parse(&LIST.replace("reason: because", "reason:").replace("  of this\n", ""))
                .is_err()
        );
        assert!(KnownDifferences::parse(&LIST.replace("SELECT 1 / 0;\n", "")).is_err());
        assert!(KnownDifferences::parse("[a]\nnonsense: b").is_err());
        assert!(KnownDifferences::parse("reason: b").is_err());
    }
}
