//! Names of users' types in texts that are kept: `pg_catalog.enum_7`, `pg_catalog.domain_3`. The numbers are those of a process.
//!
//! What goes to disk has other numbers, which are the same in every process. So texts on their way there and back get other numbers in their
//! names, but not in their constants and quoted names, which may look like that.

use crate::{KEPT_DOMAIN, KEPT_ENUM};
use ankerdb_base::Result;

/// The schema of such names.
const SCHEMA: &str = "pg_catalog.";

/// A type of users, by the number in its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeptName {
    /// A type of labels.
    Enum(u32),
    /// A domain.
    Domain(u32),
}

/// The text with other numbers in the names of types.
///
/// # Errors
/// Those of `number`, which gives them.
pub fn renumbered(text: &str, mut number: impl FnMut(KeptName) -> Result<u32>) -> Result<String> {
    let mut failed = None;
    let changed = renamed(text, |name| match (number(name), name) {
        (Ok(number), KeptName::Enum(_)) => Some(format!("{SCHEMA}{KEPT_ENUM}{number}")),
        (Ok(number), KeptName::Domain(_)) => Some(format!("{SCHEMA}{KEPT_DOMAIN}{number}")),
        (Err(error), _) => {
            failed.get_or_insert(error);
            None
        }
    });
    failed.map_or(Ok(changed), Err)
}

/// The text with other words in the place of the names of types; a name for which there is none stays.
pub fn renamed(text: &str, mut word: impl FnMut(KeptName) -> Option<String>) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    let mut before = ' ';
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.');
    while let Some(next) = rest.chars().next() {
        let mut other = None;
        let length = match next {
            '\'' => quoted_length(rest, next, matches!(before, 'e' | 'E')),
            '"' => quoted_length(rest, next, false),
            _ if !is_word(before) && rest.starts_with(SCHEMA) => match kept(&rest[SCHEMA.len()..]) {
                Some((length, name)) => {
                    other = word(name);
                    SCHEMA.len() + length
                }
                None => SCHEMA.len(),
            },
            next => next.len_utf8(),
        };
        let (taken, left) = rest.split_at(length);
        out.push_str(other.as_deref().unwrap_or(taken));
        before = taken.chars().next_back().unwrap_or(before);
        rest = left;
    }
    out
}

/// Bytes of what begins with a quote, up to the one that ends it: a doubled one does not, nor one behind a backslash where those count.
fn quoted_length(text: &str, quote: char, has_escapes: bool) -> usize {
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character == '\\' && has_escapes {
            characters.next();
        } else if character == quote && characters.next_if(|(_, next)| *next == quote).is_none() {
            return at + quote.len_utf8();
        }
    }
    text.len()
}

/// The type that is named here, and the bytes of its name: a number without needless zeros, and nothing of a word behind it.
fn kept(name: &str) -> Option<(usize, KeptName)> {
    let (digits, is_enum) = match name.strip_prefix(KEPT_ENUM) {
        Some(digits) => (digits, true),
        None => (name.strip_prefix(KEPT_DOMAIN)?, false),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number: u32 = digits[..end].parse().ok().filter(|number: &u32| number.to_string().len() == end)?;
    let is_end = digits[end..].chars().next().is_none_or(|c| !(c.is_alphanumeric() || c == '_'));
    let known = if is_enum { KeptName::Enum(number) } else { KeptName::Domain(number) };
    is_end.then_some((name.len() - digits.len() + end, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str) -> String {
        let number = |name| {
            Ok(match name {
                KeptName::Enum(number) => number + 100,
                KeptName::Domain(number) => number + 2000,
            })
        };
        renumbered(text, number).unwrap()
    }

    #[test]
    fn names_of_types_get_other_numbers() {
        let text = "CAST('x' AS pg_catalog.enum_7) || a::pg_catalog.enum_12[] > (b::pg_catalog.domain_0)";
        let shown =
            "CAST('x' AS pg_catalog.enum_107) || a::pg_catalog.enum_112[] > (b::pg_catalog.domain_2000)";
        assert_eq!(changed(text), shown);
        assert_eq!(changed("pg_catalog.enum_1"), "pg_catalog.enum_101");
    }

    #[test]
    fn constants_and_quoted_names_do_not() {
        for text in [
            "a <> 'pg_catalog.enum_7'",
            "a <> 'it''s pg_catalog.enum_7'",
            "a <> E'it\\'s pg_catalog.enum_7'",
            "\"pg_catalog.enum_7\" = 1",
            "\"a\"\"pg_catalog.enum_7\" = 'pg_catalog.domain_1",
            "my_pg_catalog.enum_7 = x.pg_catalog.enum_7",
            "pg_catalog.enum_x + pg_catalog.enum_07 + pg_catalog.enum_7a + pg_catalog.enum_99999999999",
            "größer 'ä' \\ pg_catalog.",
        ] {
            assert_eq!(changed(text), text);
        }
        assert_eq!(changed("'\\' || a::pg_catalog.enum_7"), "'\\' || a::pg_catalog.enum_107");
        assert_eq!(changed("'a''b'::pg_catalog.enum_7"), "'a''b'::pg_catalog.enum_107");
    }
}
