//! PostgreSQL's advanced regular expressions, read into a tree.
//!
//! Not here: back references, look-around, basic and extended expressions (`(?b)`, `(?e)`), collating elements of several
//! characters. Those are refused by name.

use super::characters::{CharSet, class};
use super::{Flags, invalid, too_complex};
use crate::name::not_supported;
use ankerdb_engine::Result;
use std::collections::HashMap;

/// The deepest nesting of parentheses.
const NESTING_MAX: usize = 200;
/// The largest count in braces, as in PostgreSQL.
const REPEATS_MAX: usize = 255;

/// Branches of which one matches.
#[derive(Debug)]
pub(super) struct Alternatives(pub Vec<Vec<Piece>>);

/// An atom, and how often it is repeated.
#[derive(Debug)]
pub(super) struct Piece {
    pub atom: Atom,
    pub least: usize,
    pub most: Option<usize>,
    /// What the quantifier prefers, if it says.
    pub prefers: Option<Preference>,
}

#[derive(Debug)]
pub(super) enum Atom {
    /// One character of the set of this number.
    Class(usize),
    Assert(Assertion),
    /// With the number of the group, if it captures.
    Group(Alternatives, Option<usize>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    Longest,
    Shortest,
}

/// What has to be true of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assertion {
    TextStart,
    TextEnd,
    LineStart,
    LineEnd,
    WordStart,
    WordEnd,
    WordEdge,
    NoWordEdge,
}

/// A pattern that was read.
#[derive(Debug)]
pub(super) struct Pattern {
    pub alternatives: Alternatives,
    /// The sets of characters, by number.
    pub sets: Vec<CharSet>,
    /// How many groups capture.
    pub groups: usize,
}

/// Reads a pattern.
///
/// # Errors
/// 2201B for what is no pattern, 0A000 for one with parts that are not supported.
pub(super) fn read(pattern: &str, flags: Flags) -> Result<Pattern> {
    let mut reader = Reader {
        rest: pattern,
        flags,
        sets: Vec::new(),
        numbers: HashMap::new(),
        groups: 0,
        depth: 0,
        has_assertions: false,
    };
    reader.directors()?;
    if reader.flags.is_literal {
        let literal = std::mem::take(&mut reader.rest);
        let pieces = literal.chars().map(|character| {
            let set = reader.one(character);
            once(Atom::Class(set))
        });
        let branch = pieces.collect();
        return Ok(reader.finished(Alternatives(vec![branch])));
    }
    let alternatives = reader.alternatives()?;
    match reader.rest.is_empty() {
        true => Ok(reader.finished(alternatives)),
        false => Err(invalid("parentheses () not balanced")),
    }
}

fn once(atom: Atom) -> Piece {
    Piece { atom, least: 1, most: Some(1), prefers: None }
}

/// Reads from left to right.
struct Reader<'p> {
    rest: &'p str,
    flags: Flags,
    sets: Vec<CharSet>,
    numbers: HashMap<CharSet, usize>,
    groups: usize,
    depth: usize,
    has_assertions: bool,
}

impl Reader<'_> {
    fn finished(mut self, alternatives: Alternatives) -> Pattern {
        if self.has_assertions {
            // Assertions tell lines and words apart.
            self.number(CharSet::of('\n'));
            self.number(class("word").cloned().unwrap_or_default());
        }
        let Reader { sets, groups, .. } = self;
        Pattern { alternatives, sets, groups }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.rest = &self.rest[character.len_utf8()..];
        Some(character)
    }

    fn take_if(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// The number of a set that is settled.
    fn number(&mut self, set: CharSet) -> usize {
        let next = self.sets.len();
        let number = *self.numbers.entry(set.clone()).or_insert(next);
        if number == next {
            self.sets.push(set);
        }
        number
    }

    fn one(&mut self, character: char) -> usize {
        let set = CharSet::of(character);
        let set = if self.flags.ignores_case { set.without_case() } else { set };
        self.number(set)
    }

    /// `***:`, `***=` and `(?flags)` at the beginning.
    fn directors(&mut self) -> Result<()> {
        if self.flags.is_literal {
            return Ok(());
        }
        if self.take_if("***=") {
            self.flags.is_literal = true;
            return Ok(());
        }
        if !self.take_if("***:") && self.rest.starts_with("***") {
            return Err(invalid("quantifier operand invalid"));
        }
        let is_option = |rest: &str| rest.chars().nth(2).is_some_and(char::is_alphabetic);
        if self.rest.starts_with("(?") && is_option(self.rest) {
            let (options, rest) =
                self.rest[2..].split_once(')').ok_or_else(|| invalid("invalid embedded option"))?;
            self.rest = rest;
            for option in options.chars() {
                if !self.flags.set(option)? {
                    return Err(invalid("invalid embedded option"));
                }
            }
        }
        Ok(())
    }

    /// Passes what stands for nothing: comments, and white space where it is to be ignored.
    fn skip(&mut self) {
        loop {
            let before = self.rest.len();
            if self.flags.is_expanded {
                self.rest = self.rest.trim_start();
                if self.rest.starts_with('#') {
                    self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
                }
            }
            if self.rest.starts_with("(?#") {
                self.rest = self.rest.split_once(')').map_or("", |(_, rest)| rest);
            }
            if self.rest.len() == before {
                return;
            }
        }
    }

    /// Up to the end, or to the parenthesis that closes them.
    fn alternatives(&mut self) -> Result<Alternatives> {
        let mut branches = vec![self.branch()?];
        while self.take_if("|") {
            branches.push(self.branch()?);
        }
        Ok(Alternatives(branches))
    }

    fn branch(&mut self) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        loop {
            self.skip();
            match self.peek() {
                None | Some('|' | ')') => return Ok(pieces),
                Some(_) => pieces.push(self.piece()?),
            }
        }
    }

    fn piece(&mut self) -> Result<Piece> {
        let atom = self.atom()?;
        self.skip();
        if matches!(atom, Atom::Assert(_)) {
            return Ok(once(atom));
        }
        let (least, most, has_preference) = match self.peek() {
            Some('*') => (0, None, true),
            Some('+') => (1, None, true),
            Some('?') => (0, Some(1), true),
            Some('{') if self.is_bound() => {
                self.take();
                self.bound()?
            }
            _ => return Ok(once(atom)),
        };
        // The closing brace of a bound is not taken yet, either.
        self.take();
        let is_shortest = self.take_if("?");
        let preference = if is_shortest { Preference::Shortest } else { Preference::Longest };
        let atom = match most {
            Some(0) => Atom::Group(Alternatives(vec![Vec::new()]), None),
            _ => atom,
        };
        match most {
            Some(0) => Ok(once(atom)),
            _ => Ok(Piece { atom, least, most, prefers: has_preference.then_some(preference) }),
        }
    }

    fn is_bound(&self) -> bool {
        self.rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit)
    }

    /// `m`, `m,` or `m,n`, up to the closing brace; whether it prefers one length to another.
    fn bound(&mut self) -> Result<(usize, Option<usize>, bool)> {
        let least = self.count()?;
        let has_comma = self.take_if(",");
        let most = match (has_comma, self.peek().is_some_and(|next| next.is_ascii_digit())) {
            (true, true) => Some(self.count()?),
            (true, false) => None,
            (false, _) => Some(least),
        };
        if most.is_some_and(|most| most < least) {
            return Err(invalid("invalid repetition count(s)"));
        }
        match self.peek() {
            Some('}') => Ok((least, most, has_comma)),
            None => Err(invalid("braces {} not balanced")),
            Some(_) => Err(invalid("invalid repetition count(s)")),
        }
    }

    fn count(&mut self) -> Result<usize> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        let count = digits.parse().ok().filter(|&count: &usize| count <= REPEATS_MAX);
        count.ok_or_else(|| invalid("invalid repetition count(s)"))
    }

    /// What a quantifier may follow, or an assertion.
    fn atom(&mut self) -> Result<Atom> {
        Ok(match self.take().unwrap_or_default() {
            '(' => return self.group(),
            '*' | '+' | '?' => return Err(invalid("quantifier operand invalid")),
            '{' if self.peek().is_some_and(|next| next.is_ascii_digit()) => {
                return Err(invalid("quantifier operand invalid"));
            }
            '^' => self.assertion(match self.flags.has_line_anchors {
                true => Assertion::LineStart,
                false => Assertion::TextStart,
            }),
            '$' => self.assertion(match self.flags.has_line_anchors {
                true => Assertion::LineEnd,
                false => Assertion::TextEnd,
            }),
            '.' => {
                let set = self.without_newline(CharSet::all());
                Atom::Class(self.number(set))
            }
            '[' => return self.brackets(),
            '\\' => return self.escaped_atom(),
            other => Atom::Class(self.one(other)),
        })
    }

    fn assertion(&mut self, assertion: Assertion) -> Atom {
        self.has_assertions = true;
        Atom::Assert(assertion)
    }

    /// A set of what is not asked for by name: without the end of a line, where lines are to be told apart.
    fn without_newline(&self, set: CharSet) -> CharSet {
        match self.flags.stops_at_newline {
            true => {
                let mut others = set.negated();
                others.add(&CharSet::of('\n'));
                others.settled().negated()
            }
            false => set,
        }
    }

    /// Behind a parenthesis, up to the one that closes it.
    fn group(&mut self) -> Result<Atom> {
        let capture = match self.take_if("?") {
            true => match self.rest {
                rest if rest.starts_with(['=', '!']) => {
                    return Err(not_supported("look-ahead in a regular expression"));
                }
                rest if rest.starts_with("<=") || rest.starts_with("<!") => {
                    return Err(not_supported("look-behind in a regular expression"));
                }
                _ if self.take_if(":") => None,
                _ => return Err(invalid("quantifier operand invalid")),
            },
            false => {
                self.groups += 1;
                Some(self.groups)
            }
        };
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(too_complex());
        }
        let alternatives = self.alternatives()?;
        self.depth -= 1;
        match self.take_if(")") {
            true => Ok(Atom::Group(alternatives, capture)),
            false => Err(invalid("parentheses () not balanced")),
        }
    }

    fn escaped_atom(&mut self) -> Result<Atom> {
        let assertion = match self.peek() {
            Some('A') => Assertion::TextStart,
            Some('Z') => Assertion::TextEnd,
            Some('m') => Assertion::WordStart,
            Some('M') => Assertion::WordEnd,
            Some('y') => Assertion::WordEdge,
            Some('Y') => Assertion::NoWordEdge,
            Some('1'..='9') => match self.reference() {
                Some(group) if group > self.groups => return Err(invalid("invalid backreference number")),
                Some(_) => return Err(not_supported("a back reference in a regular expression")),
                None => return self.escaped_class(),
            },
            _ => return self.escaped_class(),
        };
        self.take();
        Ok(self.assertion(assertion))
    }

    fn escaped_class(&mut self) -> Result<Atom> {
        Ok(Atom::Class(match self.escaped()? {
            Escaped::One(character) => self.one(character),
            Escaped::Class(set, negated) => {
                let set = if negated { set.negated() } else { set.clone() };
                self.number(set)
            }
        }))
    }

    /// The group whose number is behind a backslash; `None` if the number is a character's, in octal.
    fn reference(&self) -> Option<usize> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let number = self.rest[..end].parse().ok();
        number.filter(|&group| end == 1 || group <= self.groups)
    }

    /// Behind a bracket, up to the one that closes it.
    fn brackets(&mut self) -> Result<Atom> {
        for (word, assertion) in [("[:<:]]", Assertion::WordStart), ("[:>:]]", Assertion::WordEnd)] {
            if self.take_if(word) {
                return Ok(self.assertion(assertion));
            }
        }
        let negated = self.take_if("^");
        let mut set = CharSet::default();
        let mut is_first = true;
        loop {
            let character = self.take().ok_or_else(|| invalid("brackets [] not balanced"))?;
            if character == ']' && !is_first {
                break;
            }
            self.member(character, is_first, &mut set)?;
            is_first = false;
        }
        let set = set.settled();
        let set = if self.flags.ignores_case { set.without_case() } else { set };
        let set = if negated { self.without_newline(set.negated()) } else { set };
        Ok(Atom::Class(self.number(set)))
    }

    /// A character, a range or a class within brackets.
    fn member(&mut self, character: char, is_first: bool, set: &mut CharSet) -> Result<()> {
        let low = match character {
            '[' if self.rest.starts_with(['.', '=']) => self.element()?,
            '[' if self.take_if(":") => {
                let found = self.class_name()?;
                set.add(found);
                return self.no_range();
            }
            '\\' => match self.escaped()? {
                Escaped::One(character) => character,
                Escaped::Class(class, negated) => {
                    set.add(&if negated { class.negated() } else { class.clone() });
                    return self.no_range();
                }
            },
            '-' if !is_first && !self.rest.starts_with(']') => {
                return Err(invalid("invalid character range"));
            }
            other => other,
        };
        let high = self.range_end(low)?;
        set.add_range(low, high);
        Ok(())
    }

    /// Refuses a range that would begin with a class.
    fn no_range(&self) -> Result<()> {
        match self.rest.starts_with('-') && !self.rest.starts_with("-]") {
            true => Err(invalid("invalid character range")),
            false => Ok(()),
        }
    }

    /// `[.x.]` or `[=x=]`, of one character.
    fn element(&mut self) -> Result<char> {
        let delimiter = self.take().unwrap_or_default();
        let end = format!("{delimiter}]");
        let (name, rest) =
            self.rest.split_once(end.as_str()).ok_or_else(|| invalid("brackets [] not balanced"))?;
        self.rest = rest;
        let mut characters = name.chars();
        match (characters.next(), characters.next()) {
            (Some(one), None) => Ok(one),
            (Some(_), Some(_)) => Err(not_supported("a named collating element in a regular expression")),
            (None, _) => Err(invalid("invalid collating element")),
        }
    }

    /// The last character of a range that begins with `low`, which may be that one alone.
    fn range_end(&mut self, low: char) -> Result<char> {
        let mut ahead = self.rest.chars();
        if !matches!((ahead.next(), ahead.next()), (Some('-'), Some(next)) if next != ']') {
            return Ok(low);
        }
        self.take();
        let high = match self.take().unwrap_or_default() {
            '\\' => match self.escaped()? {
                Escaped::One(character) => character,
                Escaped::Class(..) => return Err(invalid("invalid character range")),
            },
            '[' if self.rest.starts_with(':') => return Err(invalid("invalid character range")),
            '[' if self.rest.starts_with(['.', '=']) => self.element()?,
            other => other,
        };
        if high < low { Err(invalid("invalid character range")) } else { Ok(high) }
    }

    /// Behind `[:` the name of a class and `:]`.
    fn class_name(&mut self) -> Result<&'static CharSet> {
        let (name, rest) = self.rest.split_once(":]").ok_or_else(|| invalid("brackets [] not balanced"))?;
        self.rest = rest;
        let name = match name {
            "upper" | "lower" if self.flags.ignores_case => "alpha",
            name => name,
        };
        class(name).ok_or_else(|| invalid("invalid character class"))
    }

    /// Behind a backslash: what stands for characters.
    fn escaped(&mut self) -> Result<Escaped> {
        let named = |name: &str, negated| match class(name) {
            Some(class) => Ok(Escaped::Class(class, negated)),
            None => Err(invalid("invalid character class")),
        };
        Ok(Escaped::One(match self.take() {
            Some('d') => return named("digit", false),
            Some('D') => return named("digit", true),
            Some('w') => return named("word", false),
            Some('W') => return named("word", true),
            Some('s') => return named("space", false),
            Some('S') => return named("space", true),
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('B') => '\\',
            Some('e') => '\u{1b}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some('c') => match self.take() {
                Some(control) => char::from_u32(control as u32 & 0x1f).unwrap_or_default(),
                None => return Err(bad_escape()),
            },
            Some('u') => self.coded(4, 4, 16)?,
            Some('U') => self.coded(8, 8, 16)?,
            Some('x') => self.coded(1, 255, 16)?,
            Some(first @ '0'..='9') => {
                let first = first.to_digit(8).ok_or_else(bad_escape)?;
                let end =
                    self.rest.find(|c: char| !('0'..='7').contains(&c)).unwrap_or(self.rest.len()).min(2);
                let (digits, rest) = self.rest.split_at(end);
                self.rest = rest;
                let code = digits
                    .chars()
                    .filter_map(|digit| digit.to_digit(8))
                    .fold(first, |code, digit| 8 * code + digit);
                char::from_u32(code).ok_or_else(bad_escape)?
            }
            Some(other) if !other.is_ascii_alphanumeric() => other,
            _ => return Err(bad_escape()),
        }))
    }

    /// A character by its number of so many digits.
    fn coded(&mut self, least: usize, most: usize, base: u32) -> Result<char> {
        let end = self.rest.find(|c: char| !c.is_digit(base)).unwrap_or(self.rest.len()).min(most);
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        let code = u32::from_str_radix(digits.trim_start_matches('0'), base);
        match (end >= least, code.ok().or(digits.starts_with('0').then_some(0)).and_then(char::from_u32)) {
            (true, Some(character)) => Ok(character),
            _ => Err(bad_escape()),
        }
    }
}

fn bad_escape() -> ankerdb_engine::Error {
    invalid("invalid escape \\ sequence")
}

/// What an escape stands for.
enum Escaped {
    One(char),
    /// A class, or with `true` all other characters.
    Class(&'static CharSet, bool),
}
