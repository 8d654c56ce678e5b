//! `search_path`: where names without a schema are looked for.

use crate::name::ROLE;
use crate::system::PG_CATALOG;
use ankerdb_engine::SearchPath;

/// What stands for the schema of the session's temporary relations.
const TEMPORARY: &str = "pg_temp";
/// What stands for the schema that is called as the role.
const USER: &str = "$user";

/// The names of a list in a text, as the setting has them: folded unless in quotes. `None` if it is no list of names.
fn names(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, behind) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_name(quoted)?,
            None => {
                let end = rest.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(rest.len());
                let (name, behind) = rest.split_at(end);
                (name.to_lowercase(), behind)
            }
        };
        if name.is_empty() && !rest.starts_with('"') {
            return None;
        }
        names.push(name);
        rest = match behind.trim_start() {
            "" => return Some(names),
            more => more.strip_prefix(',')?.trim_start(),
        };
        if rest.is_empty() {
            return None;
        }
    }
    Some(names)
}

/// The name up to the next quotation mark, and what is behind.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' if characters.next_if(|(_, next)| *next == '"').is_some() => name.push('"'),
            '"' => return Some((name, &text[at + 1..])),
            other => name.push(other),
        }
    }
    None
}

/// The path that a value of the setting stands for, in a session whose temporary relations are in the schema `temporary`. `None` if
/// it is no list of names.
pub(super) fn parse(text: &str, temporary: &str) -> Option<SearchPath> {
    let mut asked: Vec<String> = Vec::new();
    for name in names(text)? {
        let name = match name.as_str() {
            USER => ROLE.to_owned(),
            TEMPORARY => temporary.to_owned(),
            _ => name,
        };
        if !asked.contains(&name) {
            asked.push(name);
        }
    }
    let implied = [temporary, PG_CATALOG].into_iter().filter(|name| !asked.iter().any(|known| known == name));
    let searched = implied.map(str::to_owned).chain(asked.iter().cloned()).collect();
    Some(SearchPath { searched, asked, temporary: Some(temporary.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lists_as_postgres_reads_them() {
        let read = |text: &str| names(text).map(|names| names.join("|"));
        assert_eq!(read("\"$user\", public").as_deref(), Some("$user|public"));
        assert_eq!(read(" A ,\"B\"\"c,d\"").as_deref(), Some("a|B\"c,d"));
        assert_eq!(read("").as_deref(), Some(""));
        assert_eq!(read("\"\"").as_deref(), Some(""));
        for wrong in ["a,", ",a", "a b", "\"a", "a,,b"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn temporary_relations_and_the_system_come_first_unless_they_are_asked_for() {
        let searched = |text: &str| parse(text, "pg_temp_3").unwrap().searched.join(" ");
        assert_eq!(searched("\"$user\", public"), "pg_temp_3 pg_catalog ankerdb public");
        assert_eq!(searched("public, pg_catalog, public"), "pg_temp_3 public pg_catalog");
        assert_eq!(searched("a, pg_temp"), "pg_catalog a pg_temp_3");
    }
}
