//! `LIKE` patterns, and the choice between them and those of `SIMILAR TO`.

use super::PatternSyntax;
use super::similar::Similar;
use super::text::lower;
use ankerdb_engine::{Error, Interrupt, Result, SqlState};

/// Characters compared between two looks at the interrupt: well under a millisecond.
const STEPS_BETWEEN_CHECKS: u32 = 1 << 16;

/// A parsed pattern.
pub(crate) enum Pattern {
    /// `%` stands for any characters, `_` for one, and the escape character takes the next one literally.
    Like(Vec<LikePart>),
    /// A pattern of LIKE in lower case, for texts in lower case.
    Ilike(Vec<LikePart>),
    Similar(Similar),
}

impl Pattern {
    /// # Errors
    /// 22025 if nothing stands behind an escape character, and those of [`Similar::new`].
    pub(crate) fn new(pattern: &str, escape: Option<char>, syntax: PatternSyntax) -> Result<Pattern> {
        Ok(match syntax {
            PatternSyntax::Like => Pattern::Like(parse(pattern, escape)?),
            PatternSyntax::Ilike => Pattern::Ilike(parse(&lower(pattern), escape)?),
            PatternSyntax::Similar => Pattern::Similar(Similar::new(pattern, escape)?),
        })
    }

    /// Whether the text matches. Time is at most the product of both lengths, so the interrupt ends it.
    pub(crate) fn matches(&self, text: &str, interrupt: &Interrupt) -> Result<bool> {
        match self {
            Pattern::Like(parts) => matches(text, parts, interrupt),
            Pattern::Ilike(parts) => matches(&lower(text), parts, interrupt),
            Pattern::Similar(pattern) => pattern.matches(text, interrupt),
        }
    }
}

fn matches(text: &str, pattern: &[LikePart], interrupt: &Interrupt) -> Result<bool> {
    // The rest of the text, and the next part of the pattern.
    let (mut rest, mut p) = (text.chars(), 0);
    // Where to go on if the rest does not match: behind the last `%`, with one more character swallowed by it.
    let mut retry = None;
    let mut steps: u32 = 0;
    loop {
        steps += 1;
        if steps.is_multiple_of(STEPS_BETWEEN_CHECKS) {
            interrupt.check()?;
            steps = 0;
        }
        match pattern.get(p) {
            Some(LikePart::Any) => {
                p += 1;
                retry = Some((rest.clone(), p));
                continue;
            }
            Some(part) => {
                let mut behind = rest.clone();
                if behind.next().is_some_and(|character| part.takes(character)) {
                    (rest, p) = (behind, p + 1);
                    continue;
                }
            }
            None if rest.as_str().is_empty() => return Ok(true),
            None => {}
        }
        let Some((start, after)) = &mut retry else { return Ok(false) };
        if start.next().is_none() {
            return Ok(false);
        }
        (rest, p) = (start.clone(), *after);
    }
}

/// One part of a LIKE pattern.
pub(crate) enum LikePart {
    Any,
    One,
    Exactly(char),
}

impl LikePart {
    fn takes(&self, character: char) -> bool {
        match self {
            LikePart::Any => false,
            LikePart::One => true,
            LikePart::Exactly(expected) => *expected == character,
        }
    }
}

fn parse(pattern: &str, escape: Option<char>) -> Result<Vec<LikePart>> {
    let mut parts = Vec::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        parts.push(if Some(character) == escape {
            let message = "LIKE pattern must not end with escape character";
            let next = characters.next();
            LikePart::Exactly(next.ok_or_else(|| Error::new(SqlState::InvalidEscapeSequence, message))?)
        } else {
            match character {
                '%' => LikePart::Any,
                '_' => LikePart::One,
                other => LikePart::Exactly(other),
            }
        });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_engine::Cause;
    use std::time::{Duration, Instant};

    fn matches(text: &str, pattern: &str) -> bool {
        let pattern = Pattern::new(pattern, Some('\\'), PatternSyntax::Like).unwrap();
        pattern.matches(text, &Interrupt::new()).unwrap()
    }

    #[test]
    fn wildcards_escapes_and_plain_text() {
        assert!(matches("BARBARBAR", "BAR%"));
        assert!(matches("öde", "_d_"));
        assert!(matches("", "%") && matches("", "") && !matches("", "_"));
        assert!(matches("aXbXc", "a%X%c") && !matches("aXbX", "a%X%c"));
        assert!(matches("100%", "100\\%") && !matches("1000", "100\\%"));
        assert!(!matches("abc", "ab") && !matches("ab", "abc"));
        assert!(Pattern::new("a\\", Some('\\'), PatternSyntax::Like).is_err());
    }

    #[test]
    fn many_wildcards_stay_quick() {
        let text = "a".repeat(2000);
        assert!(!matches(&text, &("%a".repeat(50) + "b")));
    }

    #[test]
    fn a_match_that_would_take_for_ever_is_interrupted() {
        // Each of 300,000 places is tried with a pattern that fails at its last character.
        let (text, pattern) = ("a".repeat(300_000), format!("%{}b", "a".repeat(150_000)));
        let interrupt = Interrupt::new();
        interrupt.raise(Cause::Timeout);
        let begun = Instant::now();
        assert!(
            Pattern::new(&pattern, None, PatternSyntax::Like).unwrap().matches(&text, &interrupt).is_err()
        );
        assert!(begun.elapsed() < Duration::from_secs(1));
    }
}
