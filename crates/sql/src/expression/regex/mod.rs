//! PostgreSQL's regular expressions.
//!
//! A pattern is read into a tree (`syntax.rs`), made a program (`program.rs`), and run as an automaton that is made on the way
//! (`automaton.rs`), over classes of characters (`characters.rs`). Groups are found in what has matched (`parts.rs`).
//!
//! Of all matches it is the leftmost, and of these the longest, or the shortest where the pattern prefers that: not the
//! first that a search with backtracking would find. Libraries for Rust have that other rule, and none looks at an interrupt.
//!
//! Whether a text matches, and where the first match is, takes time in proportion to its length; to find all matches takes as much
//! again for each, at worst. The interrupt ends it. What was compiled is kept by the thread, as PostgreSQL keeps it for a session: [`with`].
//!
//! Not here: back references and look-around, which PostgreSQL has.

mod automaton;
mod characters;
mod parts;
mod program;
mod syntax;

#[cfg(test)]
mod tests;

use ankerdb_engine::{Error, Interrupt, Result, SqlState};
use automaton::{Automaton, Subject};
use characters::Colors;
use parts::{Groups, RegexPart};
use program::{Budget, Fragment};
use std::cell::RefCell;
use syntax::Pattern;

/// The most steps of all programs of a pattern.
const PROGRAM_MAX: usize = 1 << 17;
/// The most classes of characters in all sets of a pattern together.
const MEMBERS_MAX: usize = 1 << 21;
/// How many patterns a thread keeps.
const KEPT_MAX: usize = 16;
/// How many places are tried before the first one is looked for in one pass, which costs more for each character.
const TRIED_MAX: usize = 8;
/// The longest pattern that is kept, in bytes.
const KEPT_BYTES_MAX: usize = 1 << 10;

/// How a pattern is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Flags {
    ignores_case: bool,
    /// `.` and negated classes do not take the end of a line.
    stops_at_newline: bool,
    /// `^` and `$` are beginnings and ends of lines.
    has_line_anchors: bool,
    /// White space and comments are ignored.
    is_expanded: bool,
    is_literal: bool,
}

impl Flags {
    /// Those of `~`, or of `~*`.
    pub(crate) fn of_operator(ignores_case: bool) -> Flags {
        Flags { ignores_case, ..Flags::default() }
    }

    /// Sets the option of a letter; false if there is none.
    ///
    /// # Errors
    /// 0A000 for PostgreSQL's older kinds of regular expressions.
    pub(crate) fn set(&mut self, letter: char) -> Result<bool> {
        match letter {
            'c' => self.ignores_case = false,
            'i' => self.ignores_case = true,
            'm' | 'n' => (self.stops_at_newline, self.has_line_anchors) = (true, true),
            'p' => (self.stops_at_newline, self.has_line_anchors) = (true, false),
            's' => (self.stops_at_newline, self.has_line_anchors) = (false, false),
            'w' => (self.stops_at_newline, self.has_line_anchors) = (false, true),
            't' => self.is_expanded = false,
            'x' => self.is_expanded = true,
            'q' => self.is_literal = true,
            'b' => return Err(crate::name::not_supported("a basic regular expression")),
            'e' => return Err(crate::name::not_supported("an extended regular expression")),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Regex {
    pattern: Pattern,
    colors: Colors,
    /// Finds whether there is a match, and about where.
    floating: Automaton,
    /// Finds where a match ends.
    anchored: Automaton,
    /// Finds the groups of a match.
    parts: Option<RegexPart>,
    prefers_shortest: bool,
}

impl Regex {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// 2201B for what is no regular expression, 0A000 for one with parts that are not supported.
    pub(crate) fn new(pattern: &str, flags: Flags) -> Result<Regex> {
        let pattern = syntax::read(pattern, flags)?;
        let colors = Colors::new(&pattern.sets)?;
        let steps = program::program(Fragment::Whole(&pattern.alternatives), &mut Budget::new())?;
        Ok(Regex {
            prefers_shortest: parts::prefers_shortest(&pattern.alternatives),
            colors,
            floating: Automaton::new(steps.clone(), true),
            anchored: Automaton::new(steps, false),
            parts: None,
            pattern,
        })
    }

    /// How many groups it captures.
    pub(crate) fn groups(&self) -> usize {
        self.pattern.groups
    }

    /// Whether there is a match anywhere in the text.
    ///
    /// # Errors
    /// The interrupt's.
    pub(crate) fn is_match(&mut self, text: &str, interrupt: &Interrupt) -> Result<bool> {
        let mut subject = Subject::new(text, interrupt);
        Ok(self.floating.floating(&mut subject, &self.colors, 0)?.is_some())
    }

    /// Where the first match is that begins at a place or behind it, as places in the text. With `groups`, where its groups are is
    /// found, too.
    ///
    /// # Errors
    /// The interrupt's, and 2201B if the groups make the pattern too complex.
    pub(crate) fn find(
        &mut self,
        text: &str,
        from: usize,
        groups: Option<&mut Groups>,
        interrupt: &Interrupt,
    ) -> Result<Option<(usize, usize)>> {
        let subject = &mut Subject::new(text, interrupt);
        let Some((mut begin, close)) = self.floating.floating(subject, &self.colors, from)? else {
            return Ok(None);
        };
        let mut tried = 0;
        let found = loop {
            tried += 1;
            let end = match self.prefers_shortest {
                true => self.anchored.shortest(subject, &self.colors, begin, (begin, text.len()))?,
                false => self.anchored.longest(subject, &self.colors, begin, text.len())?,
            };
            match end {
                Some(end) => break (begin, end),
                None if begin >= close => return Ok(None),
                None if tried == TRIED_MAX => match self.anchored.leftmost(subject, &self.colors, begin)? {
                    Some(first) => begin = first,
                    None => return Ok(None),
                },
                None => begin = subject.behind(begin),
            }
        };
        if let Some(groups) = groups {
            groups.clear();
            groups.resize(self.groups() + 1, None);
            groups[0] = Some(found);
            if self.parts.is_none() {
                self.parts = Some(parts::parts(&self.pattern.alternatives, &mut Budget::new())?);
            }
            if let Some(parts) = &mut self.parts {
                parts.take_apart(subject, &self.colors, found, groups)?;
            }
        }
        Ok(Some(found))
    }
}

/// Uses a pattern that the thread may have compiled before.
///
/// # Errors
/// Those of [`Regex::new`], and of what it is used for.
pub(crate) fn with<T>(pattern: &str, flags: Flags, used: impl FnOnce(&mut Regex) -> Result<T>) -> Result<T> {
    thread_local! {
        /// The one used last is the last.
        static KEPT: RefCell<Vec<(Box<str>, Flags, Regex)>> = const { RefCell::new(Vec::new()) };
    }
    let kept = KEPT.with_borrow_mut(|kept| {
        let is_it = |(known, of, _): &(Box<str>, Flags, Regex)| **known == *pattern && *of == flags;
        let position = kept.iter().rposition(is_it)?;
        Some(if position + 1 == kept.len() { kept.pop()? } else { kept.remove(position) })
    });
    let (text, flags, mut regex) = match kept {
        Some(kept) => kept,
        None => (pattern.into(), flags, Regex::new(pattern, flags)?),
    };
    let result = used(&mut regex);
    if pattern.len() <= KEPT_BYTES_MAX {
        KEPT.with_borrow_mut(|kept| {
            if kept.len() == KEPT_MAX {
                kept.remove(0);
            }
            kept.push((text, flags, regex));
        });
    }
    result
}

pub(super) fn invalid(problem: &str) -> Error {
    Error::new(SqlState::InvalidRegularExpression, format!("invalid regular expression: {problem}"))
}

fn too_complex() -> Error {
    invalid("regular expression is too complex")
}
