//! Writes PostgreSQL's answers into `.slt` files: a record whose header is `?` gets the header and the rows that
//! PostgreSQL 15 gives. So tests are written as statements, and PostgreSQL supplies what they expect.

use crate::answer::{Answer, lines};
use crate::case::Way;
use crate::script::{ask, records, type_letter};
use crate::server::Server;
use crate::wire::ServerConnection;
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// Fills the file in place; other records run, too, and stay as they are. How many were filled.
///
/// # Errors
/// When PostgreSQL does not answer, or the file cannot be read or written.
pub fn fill(postgres: &mut Server, path: &Path) -> io::Result<usize> {
    postgres.reset()?;
    let text = std::fs::read_to_string(path)?;
    let mut sessions: HashMap<String, ServerConnection> = HashMap::new();
    let mut current = "main".to_owned();
    let mut filled: HashMap<usize, (String, String)> = HashMap::new();
    for record in records(&text) {
        let words: Vec<&str> = record.header.iter().map(String::as_str).collect();
        match words[..] {
            ["connection", name] => name.clone_into(&mut current),
            ["status", _] => {}
            _ => {
                if !sessions.contains_key(&current) {
                    sessions.insert(current.clone(), postgres.connect()?);
                }
                let Some(session) = sessions.get_mut(&current) else { continue };
                let answer = ask(session, &record, Way::Simple)?;
                if words == ["?"] {
                    filled.insert(record.line, completed(&record.sql, &answer));
                }
            }
        }
    }
    std::fs::write(path, rewritten(&text, &filled))?;
    Ok(filled.len())
}

/// Header, and what stands behind the statement.
fn completed(sql: &str, answer: &Answer) -> (String, String) {
    if let Some(code) = &answer.error {
        return (format!("statement error {code}"), String::new());
    }
    if answer.columns.is_empty() {
        return (format!("statement ok {}", answer.tags.join(" ")), String::new());
    }
    let letters: String = answer.columns.iter().map(|column| type_letter(column.oid)).collect();
    let sorted = answer.rows.len() > 1 && !sql.to_lowercase().contains("order by");
    let sort = if sorted { " rowsort" } else { "" };
    let mut rows = lines(&answer.rows);
    if sorted {
        let mut sorted: Vec<&str> = rows.lines().collect();
        sorted.sort_unstable();
        rows = sorted.join("\n");
    }
    let rows = if rows.is_empty() { rows } else { format!("{rows}\n") };
    (format!("query {letters}{sort}"), format!("----\n{rows}"))
}

/// The text with headers in place of `?`, and results in front of the empty lines behind.
fn rewritten(text: &str, filled: &HashMap<usize, (String, String)>) -> String {
    let mut result = String::new();
    let mut pending = None;
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty()
            && let Some(behind) = pending.take()
        {
            result.push_str(behind);
        }
        match filled.get(&(number + 1)) {
            Some((header, behind)) => {
                result.push_str(header.trim_end());
                pending = Some(behind);
            }
            None => result.push_str(line),
        }
        result.push('\n');
    }
    if let Some(behind) = pending {
        result.push_str(behind);
    }
    result
}
