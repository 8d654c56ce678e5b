//! Functions and operators of regular expressions.

use super::entry::{Entry, entry, integer, invalid, text};
use super::sets::{SetValues, given};
use crate::expression::regex::{self, Flags, Regex};
use crate::expression::similar;
use ankerdb_engine::DataType::{Boolean, Integer, Text};
use ankerdb_engine::{ArrayBuilder, DataType, Interrupt, ListType, Result, SystemType, Value};

/// A list of texts.
const TEXTS: DataType = DataType::System(SystemType::List(ListType::Text));

pub(super) const ENTRIES: &[Entry] = &[
    entry("operator ~", &[Text, Text], Boolean, |values, interrupt| matches(values, false, interrupt)),
    entry("operator ~*", &[Text, Text], Boolean, |values, interrupt| matches(values, true, interrupt)),
    entry("operator !~", &[Text, Text], Boolean, |values, interrupt| negated(values, false, interrupt)),
    entry("operator !~*", &[Text, Text], Boolean, |values, interrupt| negated(values, true, interrupt)),
    entry("regexp_like", &[Text, Text], Boolean, like),
    entry("regexp_like", &[Text, Text, Text], Boolean, like),
    entry("regexp_count", &[Text, Text], Integer, count),
    entry("regexp_count", &[Text, Text, Integer], Integer, count),
    entry("regexp_count", &[Text, Text, Integer, Text], Integer, count),
    entry("regexp_instr", &[Text, Text], Integer, instr),
    entry("regexp_instr", &[Text, Text, Integer], Integer, instr),
    entry("regexp_instr", &[Text, Text, Integer, Integer], Integer, instr),
    entry("regexp_instr", &[Text, Text, Integer, Integer, Integer], Integer, instr),
    entry("regexp_instr", &[Text, Text, Integer, Integer, Integer, Text], Integer, instr),
    entry("regexp_instr", &[Text, Text, Integer, Integer, Integer, Text, Integer], Integer, instr),
    entry("regexp_substr", &[Text, Text], Text, substr),
    entry("regexp_substr", &[Text, Text, Integer], Text, substr),
    entry("regexp_substr", &[Text, Text, Integer, Integer], Text, substr),
    entry("regexp_substr", &[Text, Text, Integer, Integer, Text], Text, substr),
    entry("regexp_substr", &[Text, Text, Integer, Integer, Text, Integer], Text, substr),
    entry("regexp_replace", &[Text, Text, Text], Text, replace),
    entry("regexp_replace", &[Text, Text, Text, Text], Text, replace_by_flags),
    entry("regexp_replace", &[Text, Text, Text, Integer], Text, replace),
    entry("regexp_replace", &[Text, Text, Text, Integer, Integer], Text, replace),
    entry("regexp_replace", &[Text, Text, Text, Integer, Integer, Text], Text, replace),
    entry("regexp_match", &[Text, Text], TEXTS, first_match),
    entry("regexp_match", &[Text, Text, Text], TEXTS, first_match),
    entry("regexp_split_to_array", &[Text, Text], TEXTS, split_to_array),
    entry("regexp_split_to_array", &[Text, Text, Text], TEXTS, split_to_array),
    entry(SUBSTRING, &[Text, Text], Text, substring),
    entry(SUBSTRING, &[Text, Text, Text], Text, substring_similar),
];

/// The entries for `substring` with a pattern.
pub(crate) const SUBSTRING: &str = "operator substring";

fn matches(values: &[Value], ignores_case: bool, interrupt: &Interrupt) -> Result<Value> {
    let (subject, pattern) = (text(values, 0)?, text(values, 1)?);
    let flags = Flags::of_operator(ignores_case);
    regex::with(pattern, flags, |regex| regex.is_match(subject, interrupt)).map(Value::Boolean)
}

fn negated(values: &[Value], ignores_case: bool, interrupt: &Interrupt) -> Result<Value> {
    Ok(match matches(values, ignores_case, interrupt)? {
        Value::Boolean(found) => Value::Boolean(!found),
        other => other,
    })
}

/// The options of a function, and whether `g` is among them.
fn options(written: &str) -> Result<(Flags, bool)> {
    let (mut flags, mut is_global) = (Flags::default(), false);
    for letter in written.chars() {
        if letter == 'g' {
            is_global = true;
        } else if !flags.set(letter)? {
            return Err(invalid(format!("invalid regular expression option: \"{letter}\"")));
        }
    }
    Ok((flags, is_global))
}

/// The options in an argument that may not be there; `g` is none of them.
fn own_options(values: &[Value], position: usize, function: &str) -> Result<Flags> {
    if values.len() <= position {
        return Ok(Flags::default());
    }
    match options(text(values, position)?)? {
        (_, true) => Err(invalid(format!("{function}() does not support the \"global\" option"))),
        (flags, false) => Ok(flags),
    }
}

/// An integer that may not be there, and is this at least.
fn number(values: &[Value], position: usize, name: &str, (least, usual): (i64, i64)) -> Result<i64> {
    if values.len() <= position {
        return Ok(usual);
    }
    match integer(values, position)? {
        value if value < least => Err(invalid(format!("invalid value for parameter \"{name}\": {value}"))),
        value => Ok(value),
    }
}

/// Where a text's character of that number is, counted from 1; `None` past the place behind the last one.
fn place(text: &str, number: i64) -> Option<usize> {
    let skipped = usize::try_from(number - 1).ok()?;
    let mut places = text.char_indices().map(|(place, _)| place).chain([text.len()]);
    places.nth(skipped)
}

/// Matches one after the other.
struct Matches<'m> {
    regex: &'m mut Regex,
    text: &'m str,
    /// Where the next one may begin.
    next: Option<usize>,
    interrupt: &'m Interrupt,
}

impl Matches<'_> {
    /// The next match; its groups, if they are asked for.
    fn find(&mut self, groups: Option<&mut Vec<Option<(usize, usize)>>>) -> Result<Option<(usize, usize)>> {
        let Some(next) = self.next else { return Ok(None) };
        let found = self.regex.find(self.text, next, groups, self.interrupt)?;
        self.next = match found {
            // An empty match would be found again.
            Some((begin, end)) if begin == end => {
                self.text[end..].chars().next().map(|character| end + character.len_utf8())
            }
            Some((_, end)) => Some(end),
            None => None,
        };
        Ok(found)
    }
}

fn like(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    let flags = own_options(values, 2, "regexp_like")?;
    let subject = text(values, 0)?;
    regex::with(text(values, 1)?, flags, |regex| regex.is_match(subject, interrupt)).map(Value::Boolean)
}

fn count(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    let subject = text(values, 0)?;
    let start = number(values, 2, "start", (1, 1))?;
    let flags = own_options(values, 3, "regexp_count")?;
    regex::with(text(values, 1)?, flags, |regex| {
        let mut matches = Matches { regex, text: subject, next: place(subject, start), interrupt };
        let mut count = 0;
        while matches.find(None)?.is_some() {
            count += 1;
        }
        Ok(Value::Integer(count))
    })
}

/// The group of the match of that number, or all of it: nothing if there is no such match, or no such group in it.
fn nth(
    (subject, pattern): (&str, &str),
    (start, number): (i64, i64),
    flags: Flags,
    group: i64,
    interrupt: &Interrupt,
) -> Result<Option<(usize, usize)>> {
    regex::with(pattern, flags, |regex| {
        // Without groups, all of the match is the first one.
        let group = match (usize::try_from(group), regex.groups()) {
            (Ok(1), 0) => 0,
            (Ok(group), groups) if group <= groups => group,
            _ => return Ok(None),
        };
        let mut matches = Matches { regex, text: subject, next: place(subject, start), interrupt };
        for _ in 1..number {
            if matches.find(None)?.is_none() {
                return Ok(None);
            }
        }
        let mut groups = Vec::new();
        let groups_wanted = if group > 0 { Some(&mut groups) } else { None };
        let whole = matches.find(groups_wanted)?;
        Ok(if group > 0 { whole.and(groups.get(group).copied().flatten()) } else { whole })
    })
}

fn instr(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    let subject = text(values, 0)?;
    let start = number(values, 2, "start", (1, 1))?;
    let wanted = number(values, 3, "n", (1, 1))?;
    let side = number(values, 4, "endoption", (0, 0))?;
    if side > 1 {
        return Err(invalid(format!("invalid value for parameter \"endoption\": {side}")));
    }
    let flags = own_options(values, 5, "regexp_instr")?;
    let group = number(values, 6, "subexpr", (0, 0))?;
    let found = nth((subject, text(values, 1)?), (start, wanted), flags, group, interrupt)?;
    let place = found.map(|(begin, end)| if side == 1 { end } else { begin });
    Ok(Value::Integer(match place {
        Some(place) => crate::expression::text::length(subject[..place].chars().count())? + 1,
        None => 0,
    }))
}

fn substr(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    let subject = text(values, 0)?;
    let start = number(values, 2, "start", (1, 1))?;
    let wanted = number(values, 3, "n", (1, 1))?;
    let flags = own_options(values, 4, "regexp_substr")?;
    let group = number(values, 5, "subexpr", (0, 0))?;
    let found = nth((subject, text(values, 1)?), (start, wanted), flags, group, interrupt)?;
    Ok(found.map_or(Value::Null, |(begin, end)| Value::text(&subject[begin..end])))
}

/// The list of a match's groups, or of all that matches if the pattern has none.
fn groups_of(
    subject: &str,
    (begin, end): (usize, usize),
    groups: &[Option<(usize, usize)>],
    count: usize,
) -> Result<Value> {
    let mut items = ArrayBuilder::new(ListType::Text);
    if count == 0 {
        items.push((&Value::text(&subject[begin..end])).into())?;
    }
    for group in 1..=count {
        let found = groups.get(group).copied().flatten();
        let item = found.map_or(Value::Null, |(begin, end)| Value::text(&subject[begin..end]));
        items.push((&item).into())?;
    }
    Ok(Value::Array(items.finish()))
}

/// `regexp_match(text, pattern [, flags])`
fn first_match(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    let hint = "Use the regexp_matches function instead.";
    let flags = own_options(values, 2, "regexp_match").map_err(|error| {
        if error.message().ends_with("\"global\" option") { error.with_hint(hint) } else { error }
    })?;
    let subject = text(values, 0)?;
    regex::with(text(values, 1)?, flags, |regex| {
        let (count, mut groups) = (regex.groups(), Vec::new());
        match regex.find(subject, 0, (count > 0).then_some(&mut groups), interrupt)? {
            Some(whole) => groups_of(subject, whole, &groups, count),
            None => Ok(Value::Null),
        }
    })
}

/// `regexp_matches(text, pattern [, flags])`: a row for the first match, or for each with the option `g`.
pub(super) fn all_matches(values: &[Value], interrupt: &Interrupt) -> Result<SetValues> {
    let (flags, is_global) =
        if values.len() > 2 { options(text(values, 2)?)? } else { (Flags::default(), false) };
    let subject = text(values, 0)?;
    regex::with(text(values, 1)?, flags, |regex| {
        let (count, mut groups, mut found) = (regex.groups(), Vec::new(), Vec::new());
        let mut matches = Matches { regex, text: subject, next: Some(0), interrupt };
        while let Some(whole) = matches.find((count > 0).then_some(&mut groups))? {
            found.push(groups_of(subject, whole, &groups, count)?);
            if !is_global {
                break;
            }
        }
        Ok(given(found))
    })
}

/// What is between the matches: not beside empty ones at an end of the text or right behind another.
fn pieces(values: &[Value], function: &str, interrupt: &Interrupt) -> Result<Vec<Value>> {
    let flags = own_options(values, 2, function)?;
    let subject = text(values, 0)?;
    regex::with(text(values, 1)?, flags, |regex| {
        let mut matches = Matches { regex, text: subject, next: Some(0), interrupt };
        let (mut found, mut copied, mut before) = (Vec::new(), 0, 0);
        while let Some((begin, end)) = matches.find(None)? {
            if begin < subject.len() && end > before {
                found.push(Value::text(&subject[copied..begin]));
                copied = end;
            }
            before = end;
        }
        found.push(Value::text(&subject[copied..]));
        Ok(found)
    })
}

/// `regexp_split_to_table(text, pattern [, flags])`
pub(super) fn split(values: &[Value], interrupt: &Interrupt) -> Result<SetValues> {
    Ok(given(pieces(values, "regexp_split_to_table", interrupt)?))
}

/// `regexp_split_to_array(text, pattern [, flags])`
fn split_to_array(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    let mut items = ArrayBuilder::new(ListType::Text);
    for piece in pieces(values, "regexp_split_to_array", interrupt)? {
        items.push((&piece).into())?;
    }
    Ok(Value::Array(items.finish()))
}

/// `substring(text FROM pattern)`: the first group, or all that matches if there is none.
fn substring(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    first_group(text(values, 0)?, text(values, 1)?, interrupt)
}

/// `substring(text SIMILAR pattern ESCAPE character)`
fn substring_similar(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    let mut escape = text(values, 2)?.chars();
    let pattern = match (escape.next(), escape.next()) {
        (escape, None) => similar::rewritten(text(values, 1)?, escape)?,
        _ => return Err(similar::invalid_escape()),
    };
    first_group(text(values, 0)?, &pattern, interrupt)
}

fn first_group(subject: &str, pattern: &str, interrupt: &Interrupt) -> Result<Value> {
    regex::with(pattern, Flags::default(), |regex| {
        let mut groups = Vec::new();
        let whole = regex.find(subject, 0, Some(&mut groups), interrupt)?;
        let found = if regex.groups() > 0 { groups.get(1).copied().flatten() } else { whole };
        Ok(found.map_or(Value::Null, |(begin, end)| Value::text(&subject[begin..end])))
    })
}

/// `regexp_replace(text, pattern, by, flags)`
fn replace_by_flags(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    let written = text(values, 3)?;
    if written.starts_with(|first: char| first.is_ascii_digit()) {
        let message = format!("invalid regular expression option: \"{}\"", &written[..1]);
        let hint = "If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly.";
        return Err(invalid(message).with_hint(hint));
    }
    let (flags, is_global) = options(written)?;
    replaced(values, flags, (1, if is_global { 0 } else { 1 }), interrupt)
}

fn replace(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    let start = number(values, 3, "start", (1, 1))?;
    let wanted = number(values, 4, "n", (0, 1))?;
    let (flags, _) = if values.len() > 5 { options(text(values, 5)?)? } else { (Flags::default(), false) };
    replaced(values, flags, (start, wanted), interrupt)
}

/// With the match of that number replaced, or all of them if that is 0.
fn replaced(
    values: &[Value],
    flags: Flags,
    (start, wanted): (i64, i64),
    interrupt: &Interrupt,
) -> Result<Value> {
    let (subject, by) = (text(values, 0)?, text(values, 2)?);
    regex::with(text(values, 1)?, flags, |regex| {
        let mut matches = Matches { regex, text: subject, next: place(subject, start), interrupt };
        let mut groups = Vec::new();
        let mut needs_groups = by.contains('\\').then_some(&mut groups);
        let (mut result, mut copied, mut number) = (String::new(), 0, 0);
        while let Some((begin, end)) = matches.find(needs_groups.as_deref_mut())? {
            number += 1;
            if wanted > 0 && number != wanted {
                continue;
            }
            result.push_str(&subject[copied..begin]);
            match needs_groups.as_deref() {
                Some(groups) => insert(&mut result, by, subject, groups),
                None => result.push_str(by),
            }
            copied = end;
            if result.len() > super::text::BYTES_MAX {
                return Err(super::text::too_long());
            }
            if wanted > 0 {
                break;
            }
        }
        result.push_str(&subject[copied..]);
        Ok(Value::text(result))
    })
}

/// Appends what replaces a match: with groups in place of `\1`, and the match in place of `\&`.
fn insert(result: &mut String, by: &str, subject: &str, groups: &[Option<(usize, usize)>]) {
    let mut rest = by;
    while let Some((before, behind)) = rest.split_once('\\') {
        result.push_str(before);
        let group = match behind.chars().next() {
            Some('&') => 0,
            Some(digit @ '1'..='9') => digit as usize - '0' as usize,
            next => {
                // Two backslashes are one; one before anything else is itself.
                result.push('\\');
                rest = if next == Some('\\') { &behind[1..] } else { behind };
                continue;
            }
        };
        if let Some((begin, end)) = groups.get(group).copied().flatten() {
            result.push_str(&subject[begin..end]);
        }
        rest = &behind[1..];
    }
    result.push_str(rest);
}
