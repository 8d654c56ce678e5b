//! `SIMILAR TO` patterns: SQL's regular expressions.
//!
//! PostgreSQL rewrites such a pattern to one of its own regular expressions and matches that, so that what is no SQL, such
//! as `\d`, works as well. Here the two steps are the same: [`rewritten`] gives the expression, and [`Similar::new`]
//! compiles it to a program for a machine that follows all ways through the pattern at once:
//! ```text
//! a(b|c)*     0 Take a   1 Split 2,7   2 Split 3,5   3 Take b   4 Jump 6   5 Take c   6 Jump 1   7 (end)
//! ```
//! Time is at most the product of both lengths. Jumps are relative, so that a repeated part is a copied part.
//!
//! Not here: back references, look-ahead, word boundaries, collating elements. Those are refused.

use crate::name::not_supported;
use ankerdb_engine::{Error, Interrupt, Result, SqlState};
use std::sync::Arc;

/// Steps between two looks at the interrupt.
const STEPS_BETWEEN_CHECKS: u32 = 1 << 16;
/// The longest program.
const PROGRAM_MAX: usize = 1 << 18;
/// The deepest nesting of parentheses.
const NESTING_MAX: usize = 200;
/// The largest count in braces, as in PostgreSQL.
const REPEATS_MAX: usize = 255;

/// A compiled pattern.
pub(crate) struct Similar {
    program: Vec<Step>,
}

#[derive(Clone)]
enum Step {
    Take(Class),
    /// Goes on at both places, counted from here.
    Split(isize, isize),
    Jump(isize),
}

/// The characters that one place of a pattern takes.
#[derive(Clone)]
enum Class {
    One(char),
    Any,
    Set(Arc<Set>),
}

struct Set {
    negated: bool,
    ranges: Vec<(char, char)>,
    named: Vec<fn(char) -> bool>,
}

impl Class {
    fn takes(&self, character: char) -> bool {
        match self {
            Class::One(one) => *one == character,
            Class::Any => true,
            Class::Set(set) => {
                let is_in_range = set.ranges.iter().any(|(low, high)| (*low..=*high).contains(&character));
                (is_in_range || set.named.iter().any(|class| class(character))) != set.negated
            }
        }
    }
}

impl Similar {
    /// # Errors
    /// 2201B for what is no regular expression, 0A000 for one with parts that are not supported.
    pub(crate) fn new(pattern: &str, escape: Option<char>) -> Result<Similar> {
        let expression = rewritten(pattern, escape)?;
        let mut compiler = Compiler { rest: &expression, depth: 0 };
        let program = compiler.alternatives()?;
        match compiler.rest.is_empty() {
            true => Ok(Similar { program }),
            false => Err(invalid("parentheses () not balanced")),
        }
    }

    /// Whether the whole text matches. The interrupt ends it.
    pub(crate) fn matches(&self, text: &str, interrupt: &Interrupt) -> Result<bool> {
        let mut machine = Machine::new(self.program.len());
        machine.enter(&self.program, 0);
        let mut steps: u32 = 0;
        for character in text.chars() {
            let current = std::mem::take(&mut machine.waiting);
            if current.is_empty() {
                return Ok(false);
            }
            machine.begin();
            for &place in &current {
                steps += 1;
                if steps.is_multiple_of(STEPS_BETWEEN_CHECKS) {
                    interrupt.check()?;
                }
                if matches!(self.program.get(place), Some(Step::Take(class)) if class.takes(character)) {
                    machine.enter(&self.program, place + 1);
                }
            }
            machine.spare = current;
        }
        Ok(machine.waiting.contains(&self.program.len()))
    }
}

/// Where the program is: at several places at once.
struct Machine {
    /// At [`Step::Take`], or at the end.
    waiting: Vec<usize>,
    /// The round in which each place was reached last.
    reached: Vec<u64>,
    round: u64,
    /// Places that are still to be looked at.
    open: Vec<usize>,
    /// Memory of the former round.
    spare: Vec<usize>,
}

impl Machine {
    fn new(length: usize) -> Machine {
        Machine {
            waiting: Vec::new(),
            reached: vec![0; length + 1],
            round: 1,
            open: Vec::new(),
            spare: Vec::new(),
        }
    }

    fn begin(&mut self) {
        self.waiting = std::mem::take(&mut self.spare);
        self.waiting.clear();
        self.round += 1;
    }

    fn enter(&mut self, program: &[Step], place: usize) {
        self.open.push(place);
        while let Some(place) = self.open.pop() {
            if std::mem::replace(&mut self.reached[place], self.round) == self.round {
                continue;
            }
            match program.get(place) {
                Some(Step::Split(one, other)) => {
                    self.open.extend([place.wrapping_add_signed(*one), place.wrapping_add_signed(*other)]);
                }
                Some(Step::Jump(by)) => self.open.push(place.wrapping_add_signed(*by)),
                Some(Step::Take(_)) | None => self.waiting.push(place),
            }
        }
    }
}

/// The pattern as a regular expression of PostgreSQL's, which has to match the whole text.
fn rewritten(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut expression = String::with_capacity(2 * pattern.len());
    let (mut is_escaped, mut is_in_class) = (false, false);
    for character in pattern.chars() {
        if is_escaped {
            if character == '"' && !is_in_class {
                return Err(not_supported("a separator in a pattern of SIMILAR TO"));
            }
            expression.extend(['\\', character]);
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
    Ok(expression)
}

/// Turns an expression into a program, from left to right.
struct Compiler<'a> {
    rest: &'a str,
    depth: usize,
}

impl Compiler<'_> {
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

    /// Up to the end, or to the parenthesis that closes them.
    fn alternatives(&mut self) -> Result<Vec<Step>> {
        let mut branches = vec![self.branch()?];
        while self.take_if("|") {
            branches.push(self.branch()?);
        }
        let mut whole = branches.pop().unwrap_or_default();
        for mut branch in branches.into_iter().rev() {
            let (own, others) = (branch.len() as isize, whole.len() as isize);
            let mut program = vec![Step::Split(1, own + 2)];
            program.append(&mut branch);
            program.push(Step::Jump(others + 1));
            program.append(&mut whole);
            whole = program;
            check_length(whole.len())?;
        }
        Ok(whole)
    }

    fn branch(&mut self) -> Result<Vec<Step>> {
        let mut program = Vec::new();
        while let Some(character) = self.peek() {
            if matches!(character, '|' | ')') {
                break;
            }
            let part = self.part()?;
            match self.quantifier()? {
                Some((least, most)) => repeat(&mut program, &part, least, most)?,
                None => program.extend(part),
            }
            check_length(program.len())?;
        }
        Ok(program)
    }

    /// What a quantifier may follow.
    fn part(&mut self) -> Result<Vec<Step>> {
        let class = match self.take().unwrap_or_default() {
            '(' => return self.group(),
            '*' | '+' | '?' => return Err(invalid("quantifier operand invalid")),
            '{' if self.peek().is_some_and(|next| next.is_ascii_digit()) => {
                return Err(invalid("quantifier operand invalid"));
            }
            '.' => Class::Any,
            '[' => Class::Set(Arc::new(self.set()?)),
            '\\' => match self.escaped()? {
                Escaped::One(character) => Class::One(character),
                Escaped::Class(class, negated) => {
                    Class::Set(Arc::new(Set { negated, ranges: Vec::new(), named: vec![class] }))
                }
            },
            other => Class::One(other),
        };
        Ok(vec![Step::Take(class)])
    }

    /// Behind a parenthesis, up to the one that closes it.
    fn group(&mut self) -> Result<Vec<Step>> {
        if !self.take_if("?:") {
            return Err(invalid("quantifier operand invalid"));
        }
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(too_complex());
        }
        let program = self.alternatives()?;
        self.depth -= 1;
        match self.take_if(")") {
            true => Ok(program),
            false => Err(invalid("parentheses () not balanced")),
        }
    }

    /// How often the part before is repeated: at least, and at most.
    fn quantifier(&mut self) -> Result<Option<(usize, Option<usize>)>> {
        let is_bound = |rest: &str| rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        let found = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') if is_bound(self.rest) => {
                self.take();
                let bound = self.bound()?;
                self.shortest()?;
                return Ok(Some(bound));
            }
            _ => return Ok(None),
        };
        self.take();
        self.shortest()?;
        Ok(Some(found))
    }

    /// A question mark behind a quantifier asks for the shortest match, which is no other answer; a second quantifier is
    /// an error.
    fn shortest(&mut self) -> Result<()> {
        self.take_if("?");
        let is_bound = self.rest.starts_with('{') && self.rest[1..].starts_with(|c: char| c.is_ascii_digit());
        match self.rest.starts_with(['*', '+', '?']) || is_bound {
            true => Err(invalid("quantifier operand invalid")),
            false => Ok(()),
        }
    }

    /// `m}`, `m,}` or `m,n}`.
    fn bound(&mut self) -> Result<(usize, Option<usize>)> {
        let least = self.count()?;
        let most = match (self.take_if(","), self.peek().is_some_and(|next| next.is_ascii_digit())) {
            (true, true) => Some(self.count()?),
            (true, false) => None,
            (false, _) => Some(least),
        };
        if !self.take_if("}") {
            let problem =
                if self.rest.is_empty() { "braces {} not balanced" } else { "invalid repetition count(s)" };
            return Err(invalid(problem));
        }
        match least > REPEATS_MAX || most.is_some_and(|most| most > REPEATS_MAX || most < least) {
            true => Err(invalid("invalid repetition count(s)")),
            false => Ok((least, most)),
        }
    }

    fn count(&mut self) -> Result<usize> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits.parse().map_err(|_| invalid("invalid repetition count(s)"))
    }

    /// Behind a bracket, up to the one that closes it.
    fn set(&mut self) -> Result<Set> {
        let mut set = Set { negated: self.take_if("^"), ranges: Vec::new(), named: Vec::new() };
        let mut is_first = true;
        loop {
            let character = self.take().ok_or_else(|| invalid("brackets [] not balanced"))?;
            if character == ']' && !is_first {
                return Ok(set);
            }
            is_first = false;
            let low = match character {
                '[' if self.rest.starts_with(['.', '=']) => {
                    return Err(not_supported("a collating element in a pattern"));
                }
                '[' if self.take_if(":") => {
                    set.named.push(self.class_name()?);
                    continue;
                }
                '\\' => match self.escaped()? {
                    Escaped::One(character) => character,
                    Escaped::Class(_, true) => return Err(invalid("invalid escape \\ sequence")),
                    Escaped::Class(class, false) => {
                        set.named.push(class);
                        continue;
                    }
                },
                other => other,
            };
            set.ranges.push((low, self.range_end(low)?));
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
            '[' if self.rest.starts_with([':', '.', '=']) => return Err(invalid("invalid character range")),
            other => other,
        };
        if high < low { Err(invalid("invalid character range")) } else { Ok(high) }
    }

    /// Behind `[:` the name of a class and `:]`.
    fn class_name(&mut self) -> Result<fn(char) -> bool> {
        let (name, rest) = self.rest.split_once(":]").ok_or_else(|| invalid("brackets [] not balanced"))?;
        self.rest = rest;
        Ok(match name {
            "alpha" => char::is_alphabetic,
            "digit" => |c: char| c.is_ascii_digit(),
            "alnum" => char::is_alphanumeric,
            "upper" => char::is_uppercase,
            "lower" => char::is_lowercase,
            "space" => char::is_whitespace,
            "blank" => |c: char| matches!(c, ' ' | '\t'),
            "punct" => |c: char| c.is_ascii_punctuation(),
            "cntrl" => char::is_control,
            "xdigit" => |c: char| c.is_ascii_hexdigit(),
            "print" => |c: char| !c.is_control(),
            "graph" => |c: char| !c.is_control() && !c.is_whitespace(),
            "word" => is_word,
            _ => return Err(invalid("invalid character class")),
        })
    }

    /// Behind a backslash.
    fn escaped(&mut self) -> Result<Escaped> {
        let digit = |c: char| c.is_ascii_digit();
        Ok(match self.take() {
            None => return Err(invalid("invalid escape \\ sequence")),
            Some('d') => Escaped::Class(digit, false),
            Some('D') => Escaped::Class(digit, true),
            Some('w') => Escaped::Class(is_word, false),
            Some('W') => Escaped::Class(is_word, true),
            Some('s') => Escaped::Class(char::is_whitespace, false),
            Some('S') => Escaped::Class(char::is_whitespace, true),
            Some('n') => Escaped::One('\n'),
            Some('r') => Escaped::One('\r'),
            Some('t') => Escaped::One('\t'),
            Some(other) if other.is_ascii_alphanumeric() => {
                return Err(not_supported(&format!("the escape \\{other} in a pattern")));
            }
            Some(other) => Escaped::One(other),
        })
    }
}

/// What an escape stands for.
enum Escaped {
    One(char),
    /// A class, or with `true` all other characters.
    Class(fn(char) -> bool, bool),
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Appends a part at least and at most so often.
fn repeat(program: &mut Vec<Step>, part: &[Step], least: usize, most: Option<usize>) -> Result<()> {
    let copies = most.unwrap_or(least + 1);
    check_length(program.len() + copies.saturating_mul(part.len() + 2))?;
    let length = part.len() as isize;
    for _ in 0..least {
        program.extend_from_slice(part);
    }
    match most {
        Some(most) => {
            for _ in least..most {
                program.push(Step::Split(1, length + 1));
                program.extend_from_slice(part);
            }
        }
        None => {
            program.push(Step::Split(1, length + 2));
            program.extend_from_slice(part);
            program.push(Step::Jump(-(length + 1)));
        }
    }
    Ok(())
}

fn check_length(steps: usize) -> Result<()> {
    if steps > PROGRAM_MAX { Err(too_complex()) } else { Ok(()) }
}

fn too_complex() -> Error {
    invalid("regular expression is too complex")
}

fn invalid(problem: &str) -> Error {
    Error::new(SqlState::InvalidRegularExpression, format!("invalid regular expression: {problem}"))
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
        assert_eq!(refused("\\y"), "0A000");
        assert_eq!(refused(&"(".repeat(100_000)), "2201B");
        assert_eq!(refused("((((a{200}){200}){200}){200})"), "2201B");
    }

    #[test]
    fn a_long_match_is_interrupted() {
        let interrupt = Interrupt::new();
        interrupt.raise(Cause::Timeout);
        let pattern = Similar::new("(%a){100}", Some('\\')).unwrap();
        assert!(pattern.matches(&"a".repeat(10_000), &interrupt).is_err());
        assert!(pattern.matches("b", &Interrupt::new()).is_ok_and(|found| !found));
    }
}
