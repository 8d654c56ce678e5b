//! `SIMILAR TO` patterns: SQL's regular expressions.
//!
//! As in PostgreSQL, such a pattern is rewritten to a regular expression ([`super::regex`]) that has to match the whole text,
//! so that what is no SQL, such as `\d`, works as well.

use super::regex::{self, Flags};
use ankerdb_engine::{Error, Interrupt, Result, SqlState};

/// A pattern, as the regular expression that it stands for.
pub(crate) struct Similar(String);

impl Similar {
    /// # Errors
    /// 2201B for what is no regular expression, 0A000 for one with parts that are not supported.
    pub(crate) fn new(pattern: &str, escape: Option<char>) -> Result<Similar> {
        let expression = rewritten(pattern, escape)?;
        regex::with(&expression, Flags::default(), |_| Ok(()))?;
        Ok(Similar(expression))
    }

    /// Whether the whole text matches. The interrupt ends it.
    pub(crate) fn matches(&self, text: &str, interrupt: &Interrupt) -> Result<bool> {
        regex::with(&self.0, Flags::default(), |regex| regex.is_match(text, interrupt))
    }
}

/// The pattern as a regular expression that matches the whole text. An escaped quote parts what is before and behind a substring
/// that is looked for, which becomes the first group.
///
/// # Errors
/// 2200C for more than two such separators.
pub(crate) fn rewritten(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut expression = String::with_capacity(2 * pattern.len());
    expression.push_str("^(?:");
    let (mut is_escaped, mut is_in_class, mut separators) = (false, false, 0);
    for character in pattern.chars() {
        if is_escaped {
            if character == '"' && !is_in_class {
                separators += 1;
                expression.push_str(match separators {
                    // What is before is to be as short as can be.
                    1 => "){1,1}?(",
                    2 => "){1,1}(?:",
                    _ => return Err(too_many_separators()),
                });
            } else {
                expression.extend(['\\', character]);
            }
            is_escaped = false;
        } else if Some(character) == escape {
            is_escaped = true;
        } else if is_in_class {
            if character == '\\' {
                expression.push('\\');
            }
            expression.push(character);
            is_in_class = character != ']';
        } else {
            match character {
                '%' => expression.push_str(".*"),
                '_' => expression.push('.'),
                '(' => expression.push_str("(?:"),
                '\\' | '.' | '^' | '$' => expression.extend(['\\', character]),
                other => expression.push(other),
            }
            is_in_class = character == '[';
        }
    }
    expression.push_str(")$");
    Ok(expression)
}

fn too_many_separators() -> Error {
    let message = "SQL regular expression may not contain more than two escape-double-quote separators";
    Error::new(SqlState::InvalidUseOfEscapeCharacter, message)
}

/// 22025
pub(crate) fn invalid_escape() -> Error {
    let hint = "Escape string must be empty or one character.";
    Error::new(SqlState::InvalidEscapeSequence, "invalid escape string").with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_engine::Cause;

    fn matches(text: &str, pattern: &str) -> bool {
        Similar::new(pattern, Some('\\')).unwrap().matches(text, &Interrupt::new()).unwrap()
    }

    fn refused(pattern: &str) -> &'static str {
        Similar::new(pattern, Some('\\')).err().unwrap_or_else(|| panic!("{pattern}")).state().code()
    }

    #[test]
    fn patterns_match_the_whole_text() {
        assert!(
            matches("abc", "abc") && matches("abc", "a%") && matches("abc", "_b_") && !matches("abc", "a")
        );
        assert!(
            matches("abc", "%(b|d)%") && !matches("abc", "(b|c)%") && matches("", "") && matches("", "a|")
        );
        assert!(matches("a.c", "a.c") && !matches("abc", "a.c") && matches("^$", "^$"));
        assert!(matches("a%", "a\\%") && !matches("ab", "a\\%") && matches("größe", "gr__e"));
        assert!(matches("12-ab", "\\d+-\\w{2}") && !matches("12-a!", "\\d+-\\w{2}"));
    }

    #[test]
    fn parts_are_repeated() {
        assert!(matches("aaa", "a*") && matches("", "a*") && !matches("", "a+") && matches("a", "a?"));
        assert!(matches("abab", "(ab){2}") && !matches("ababab", "(ab){2}") && matches("ababab", "(ab){2,}"));
        assert!(
            matches("aaa", "a{1,3}")
                && !matches("aaaa", "a{1,3}")
                && matches("", "(a*)*")
                && matches("aa", "(a*)+")
        );
        assert!(matches("{x", "{x") && matches("xyxy", "(x|y)*") && !matches("xyz", "(x|y)*"));
    }

    #[test]
    fn sets_have_ranges_and_classes() {
        assert!(
            matches("b", "[a-c]") && !matches("d", "[a-c]") && matches("d", "[^a-c]") && matches("-", "[a-]")
        );
        assert!(matches("x1", "[[:alpha:]][[:digit:]]") && matches("%", "[%]") && !matches("a", "[%]"));
        assert!(matches("]", "[]a]") && matches("\\", "[\\\\]"));
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for pattern in ["(a", "a)", "[a", "*a", "a**", "a{2,1}", "a{256}", "[b-a]", "[[:what:]]", "a{1"] {
            assert_eq!(refused(pattern), "2201B", "{pattern}");
        }
        assert_eq!(refused("(a)\\1"), "2201B");
        assert_eq!(refused("a\\\"b\\\"c\\\"d"), "2200C");
        assert_eq!(refused(&"(".repeat(100_000)), "2201B");
        assert_eq!(refused("((((a{200}){200}){200}){200})"), "2201B");
    }

    #[test]
    fn a_long_match_is_interrupted() {
        let interrupt = Interrupt::new();
        interrupt.raise(Cause::Timeout);
        let pattern = Similar::new("(%a){100}", Some('\\')).unwrap();
        assert!(pattern.matches(&"a".repeat(1 << 18), &interrupt).is_err());
        assert!(pattern.matches("b", &Interrupt::new()).is_ok_and(|found| !found));
    }
}
