//! Scripts for psql, as PostgreSQL's own regression tests are: their statements, without what is meant for psql itself.
//!
//! psql sends a statement at a semicolon outside of quotes, comments and parentheses. Its variables are replaced, since paths of
//! data files are made of them; rows behind `COPY ... FROM stdin` are taken along, and so are files that `COPY` reads, because
//! no server here reads files. Left out: what psql answers itself (`\d`), and what it makes of results (`\gset`, `\gexec`).

use std::collections::HashMap;
use std::iter::Peekable;
use std::path::Path;
use std::str::Chars;

/// No name of a variable is longer.
const NAME_MAX: usize = 64;

/// A statement of a script.
#[derive(Debug, PartialEq, Eq)]
pub struct ScriptStatement {
    /// Where it begins, counted from 1.
    pub line: usize,
    /// How often the script has connected anew before it.
    pub session: usize,
    /// Without the semicolon.
    pub sql: String,
    /// The rows that `COPY` reads.
    pub rows: Option<String>,
}

/// What is being read.
struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
    session: usize,
    /// The statement so far, and where it began.
    sql: String,
    begun: usize,
    /// Parentheses that are open.
    depth: usize,
    variables: HashMap<String, String>,
    folder: &'a Path,
    statements: Vec<ScriptStatement>,
}

/// The statements of a script. `folder` holds the data files, in a folder `data`.
pub fn statements(text: &str, folder: &Path) -> Vec<ScriptStatement> {
    let mut reader = Reader {
        rest: text.chars().peekable(),
        line: 1,
        session: 0,
        sql: String::new(),
        begun: 0,
        depth: 0,
        variables: HashMap::new(),
        folder,
        statements: Vec::new(),
    };
    while reader.step() {}
    reader.statements
}

impl Reader<'_> {
    /// The next character, counted.
    fn next(&mut self) -> Option<char> {
        let letter = self.rest.next()?;
        self.line += usize::from(letter == '\n');
        Some(letter)
    }

    /// Appends to the statement.
    fn keep(&mut self, letter: char) {
        if self.sql.is_empty() {
            if letter.is_whitespace() {
                return;
            }
            self.begun = self.line;
        }
        self.sql.push(letter);
    }

    /// Reads what belongs together. Returns whether the script goes on.
    fn step(&mut self) -> bool {
        let Some(letter) = self.next() else { return false };
        match letter {
            '\'' => {
                let before = self.sql.trim_end_matches(['e', 'E']);
                let escapes = before.len() + 1 == self.sql.len()
                    && !before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
                self.quoted('\'', escapes);
            }
            '"' => self.quoted('"', false),
            '-' if self.rest.peek() == Some(&'-') => {
                self.rest_of_line();
                self.keep('\n');
            }
            '/' if self.rest.peek() == Some(&'*') => self.comment(),
            '$' => self.dollar(),
            ':' => self.variable(),
            '\\' => return self.command(),
            ';' if self.depth == 0 => self.end(),
            _ => {
                self.depth = match letter {
                    '(' => self.depth + 1,
                    ')' => self.depth.saturating_sub(1),
                    _ => self.depth,
                };
                self.keep(letter);
            }
        }
        true
    }

    /// Behind the quote that begins it. A doubled quote is an end and a beginning.
    fn quoted(&mut self, quote: char, escapes: bool) {
        self.keep(quote);
        while let Some(letter) = self.next() {
            self.keep(letter);
            if letter == '\\' && escapes {
                if let Some(letter) = self.next() {
                    self.keep(letter);
                }
            } else if letter == quote {
                return;
            }
        }
    }

    /// Comments lie within each other.
    fn comment(&mut self) {
        self.next();
        let (mut depth, mut before) = (1, None);
        while depth > 0 {
            let Some(letter) = self.next() else { return };
            match (before, letter) {
                (Some('*'), '/') => depth -= 1,
                (Some('/'), '*') => depth += 1,
                _ => {
                    before = Some(letter);
                    continue;
                }
            }
            before = None;
        }
        self.keep(' ');
    }

    /// A text between dollar signs, or the number of a parameter.
    fn dollar(&mut self) {
        let mut tag = String::from("$");
        while let Some(&letter) = self.rest.peek() {
            let is_name =
                letter.is_alphabetic() || letter == '_' || (letter.is_ascii_digit() && tag.len() > 1);
            if !is_name && letter != '$' {
                break;
            }
            tag.extend(self.next());
            if letter == '$' {
                break;
            }
        }
        tag.chars().for_each(|letter| self.keep(letter));
        if tag.len() == 1 || !tag.ends_with('$') {
            return;
        }
        let from = self.sql.len();
        while let Some(letter) = self.next() {
            self.sql.push(letter);
            if letter == '$' && self.sql[from..].ends_with(&tag) {
                return;
            }
        }
    }

    /// Behind a colon: a cast, a slice, or a variable that is known.
    fn variable(&mut self) {
        if self.rest.peek() == Some(&':') {
            self.keep(':');
            let second = self.next().unwrap_or(':');
            return self.keep(second);
        }
        let ahead: String = self.rest.clone().take(NAME_MAX).collect();
        let quote = ahead.chars().next().filter(|letter| ['\'', '"'].contains(letter));
        let behind = &ahead[quote.map_or(0, char::len_utf8)..];
        let name: String =
            behind.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
        let is_whole = quote.is_none_or(|quote| behind[name.len()..].starts_with(quote));
        let Some(value) = self.variables.get(&name).filter(|_| is_whole).cloned() else {
            return self.keep(':');
        };
        for _ in 0..name.chars().count() + 2 * usize::from(quote.is_some()) {
            self.next();
        }
        let text = match quote {
            Some(quote) => {
                let doubled = value.replace(quote, &format!("{quote}{quote}"));
                format!("{quote}{doubled}{quote}")
            }
            None => value,
        };
        text.chars().for_each(|letter| self.keep(letter));
    }

    fn rest_of_line(&mut self) -> String {
        let mut line = String::new();
        while let Some(letter) = self.next().filter(|letter| *letter != '\n') {
            line.push(letter);
        }
        line
    }

    /// A command of psql's, behind its backslash. Returns whether the script goes on.
    fn command(&mut self) -> bool {
        let line = self.rest_of_line();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["quit" | "q", ..] => return false,
            ["g" | "gx", ..] => self.end(),
            ["set", name, ref parts @ ..] => {
                let value = parts.iter().map(|part| self.value(part)).collect();
                self.variables.insert(name.to_owned(), value);
            }
            ["getenv", name, "PG_ABS_SRCDIR"] => {
                self.variables.insert(name.to_owned(), self.folder.display().to_string());
            }
            ["c" | "connect", ..] => self.session += 1,
            ["if", ..] => self.skip_condition(),
            [what, ..] if what.starts_with(['g', 'b', 'c']) => {
                self.sql.clear();
                self.depth = 0;
            }
            _ => {}
        }
        true
    }

    /// A part of the value of a variable.
    fn value(&self, part: &str) -> String {
        let known = part.strip_prefix(':').and_then(|name| self.variables.get(name));
        known.cloned().unwrap_or_else(|| part.trim_matches('\'').to_owned())
    }

    /// What stands under a condition concerns machines without something.
    fn skip_condition(&mut self) {
        let mut depth = 1;
        while depth > 0 && self.rest.peek().is_some() {
            let line = self.rest_of_line();
            depth = match line.split_whitespace().next() {
                Some("\\if") => depth + 1,
                Some("\\endif") => depth - 1,
                _ => depth,
            };
        }
    }

    /// The statement is complete.
    fn end(&mut self) {
        let sql = std::mem::take(&mut self.sql).trim().to_owned();
        self.depth = 0;
        if sql.is_empty() {
            return;
        }
        let (line, session) = (self.begun, self.session);
        let (sql, rows) = self.with_rows(sql);
        self.statements.push(ScriptStatement { line, session, sql, rows });
    }

    /// `COPY` with the rows that it reads.
    fn with_rows(&mut self, sql: String) -> (String, Option<String>) {
        let lower = sql.to_lowercase();
        let Some(from) = lower.find(" from ").filter(|_| lower.starts_with("copy ")) else {
            return (sql, None);
        };
        let source = sql[from + 6..].trim_start().to_owned();
        if source.to_lowercase().starts_with("stdin") {
            self.rest_of_line();
            let mut rows = String::new();
            while self.rest.peek().is_some() {
                let line = self.rest_of_line();
                if line == "\\." {
                    break;
                }
                rows.push_str(&line);
                rows.push('\n');
            }
            return (sql, Some(rows));
        }
        let Some((path, options)) = source.strip_prefix('\'').and_then(|source| source.split_once('\''))
        else {
            return (sql, None);
        };
        match std::fs::read_to_string(path).ok().filter(|_| Path::new(path).starts_with(self.folder)) {
            Some(rows) => (format!("{} FROM stdin{options}", &sql[..from]), Some(rows)),
            None => (sql, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(usize, String, Option<String>)> {
        let statements = statements(text, Path::new("/nowhere"));
        statements.into_iter().map(|told| (told.line, told.sql, told.rows)).collect()
    }

    #[test]
    fn statements_end_at_semicolons_outside_of_quotes_comments_and_parentheses() {
        let text = "select 1; select ';' -- ;\n, $a$ ; $$ $a$, E'\\';', \"a;b\" /* ; /* ; */ ; */;\n\
            create rule r as on insert to t do (select 1; select 2);\nselect $1, '\\' ;";
        let expected = [
            (1, "select 1"),
            (1, "select ';' \n, $a$ ; $$ $a$, E'\\';', \"a;b\""),
            (3, "create rule r as on insert to t do (select 1; select 2)"),
            (4, "select $1, '\\'"),
        ];
        assert_eq!(read(text), expected.map(|(line, sql)| (line, sql.to_owned(), None)));
    }

    #[test]
    fn variables_are_replaced_and_commands_left_out() {
        let text = "\\set x 1\n\\set y :x '/it''s'\nselect :x, :'y', a[1:x], b::int, :z;\n\\d t\nselect 2 \\gset\n\
            select 3 \\g\n\\if :x\nselect 4;\n\\endif\nselect 5;\n\\q\nselect 6;";
        let sql: Vec<String> = read(text).into_iter().map(|(_, sql, _)| sql).collect();
        assert_eq!(sql, ["select 1, '1/it''''s', a[11], b::int, :z", "select 3", "select 5"]);
    }

    #[test]
    fn rows_of_copy_are_taken_along() {
        let text = "copy t from stdin;\n1\t;\n\\N\t2\n\\.\nselect 1;";
        let expected = [
            (1, "copy t from stdin".to_owned(), Some("1\t;\n\\N\t2\n".to_owned())),
            (5, "select 1".to_owned(), None),
        ];
        assert_eq!(read(text), expected);
    }
}
