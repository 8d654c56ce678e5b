//! `LIKE` patterns.

use ankerdb_engine::{Error, Result, SqlState};

/// Whether the text matches the pattern, in which `%` stands for any characters, `_` for one, and the escape
/// character takes the next one literally. Time is at most the product of both lengths.
pub(super) fn like(text: &str, pattern: &str, escape: Option<char>) -> Result<bool> {
    let pattern = parse(pattern, escape)?;
    let text: Vec<char> = text.chars().collect();
    let (mut t, mut p) = (0, 0);
    // Where to go on if the rest does not match: behind the last `%`, with one more character swallowed by it.
    let mut retry = None;
    loop {
        match pattern.get(p) {
            Some(Part::Any) => {
                p += 1;
                retry = Some((t, p));
                continue;
            }
            Some(part) if t < text.len() && part.takes(text[t]) => {
                (t, p) = (t + 1, p + 1);
                continue;
            }
            None if t == text.len() => return Ok(true),
            _ => {}
        }
        match retry {
            Some((start, after)) if start < text.len() => {
                retry = Some((start + 1, after));
                (t, p) = (start + 1, after);
            }
            _ => return Ok(false),
        }
    }
}

enum Part {
    Any,
    One,
    Exactly(char),
}

impl Part {
    fn takes(&self, character: char) -> bool {
        match self {
            Part::Any => false,
            Part::One => true,
            Part::Exactly(expected) => *expected == character,
        }
    }
}

fn parse(pattern: &str, escape: Option<char>) -> Result<Vec<Part>> {
    let mut parts = Vec::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        parts.push(if Some(character) == escape {
            let message = "LIKE pattern must not end with escape character";
            let next = characters.next();
            Part::Exactly(next.ok_or_else(|| Error::new(SqlState::InvalidParameterValue, message))?)
        } else {
            match character {
                '%' => Part::Any,
                '_' => Part::One,
                other => Part::Exactly(other),
            }
        });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(text: &str, pattern: &str) -> bool {
        like(text, pattern, Some('\\')).unwrap()
    }

    #[test]
    fn wildcards_escapes_and_plain_text() {
        assert!(matches("BARBARBAR", "BAR%"));
        assert!(matches("öde", "_d_"));
        assert!(matches("", "%") && matches("", "") && !matches("", "_"));
        assert!(matches("aXbXc", "a%X%c") && !matches("aXbX", "a%X%c"));
        assert!(matches("100%", "100\\%") && !matches("1000", "100\\%"));
        assert!(!matches("abc", "ab") && !matches("ab", "abc"));
        assert!(like("a", "a\\", Some('\\')).is_err());
    }

    #[test]
    fn many_wildcards_stay_quick() {
        let text = "a".repeat(2000);
        assert!(!matches(&text, &("%a".repeat(50) + "b")));
    }
}
