//! Documents made of others: concatenation, replacement at a path, deletion. All take and give canonical texts, except where
//! they say so.

use super::canonical::key_order;
use super::parse::{JsonNode, NodeKind, check, parse};
use super::string::{push_string, unescaped};
use super::walk::{JsonKind, Member, element, elements, kind, members, position};
use ankerdb_base::{Error, Result, SqlState};
use std::borrow::Cow;
use std::cmp::Ordering;

/// The longest text that is indented, as PostgreSQL limits texts.
const PRETTY_BYTES_MAX: usize = 1 << 30;

fn invalid(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(SqlState::InvalidParameterValue, message)
}

/// `left || right`: objects are merged, of equal keys the right one counts; everything else becomes one array.
///
/// # Errors
/// Those of [`unescaped`] for the keys.
pub fn concatenated(left: &str, right: &str) -> Result<String> {
    if (kind(left), kind(right)) != (JsonKind::Object, JsonKind::Object) {
        let items = items(left).into_iter().chain(items(right));
        return Ok(array(items));
    }
    let mut out = Vec::new();
    let (mut left, mut right) = (keyed(left)?.into_iter().peekable(), keyed(right)?.into_iter().peekable());
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        let order = key_order(&one.0, &other.0);
        if order == Ordering::Equal {
            left.next();
        }
        let next = if order == Ordering::Less { left.next() } else { right.next() };
        out.extend(next.map(|(_, member)| member));
    }
    out.extend(left.chain(right).map(|(_, member)| member));
    Ok(object(out))
}

fn keyed(jsonb: &str) -> Result<Vec<(std::borrow::Cow<'_, str>, Member<'_>)>> {
    members(jsonb).into_iter().flatten().map(|member| Ok((member.key()?, member))).collect()
}

/// The elements of an array; anything else by itself.
fn items(jsonb: &str) -> Vec<&str> {
    match elements(jsonb) {
        Some(elements) => elements.collect(),
        None => vec![jsonb],
    }
}

fn array<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::from("[");
    for item in items {
        if out.len() > 1 {
            out.push_str(", ");
        }
        out.push_str(item);
    }
    out.push(']');
    out
}

fn object<'a>(members: impl IntoIterator<Item = Member<'a>>) -> String {
    let mut out = String::from("{");
    for member in members {
        if out.len() > 1 {
            out.push_str(", ");
        }
        out.push_str(member.quoted);
        out.push_str(": ");
        out.push_str(member.value);
    }
    out.push('}');
    out
}

/// The document without the members of these keys, or the elements that are these strings.
///
/// # Errors
/// 22023 for a scalar.
pub fn without_keys(jsonb: &str, keys: &[String]) -> Result<String> {
    let mut quoted: Vec<String> = Vec::with_capacity(keys.len());
    for key in keys {
        let mut text = String::with_capacity(key.len() + 2);
        push_string(key, &mut text);
        quoted.push(text);
    }
    quoted.sort_unstable();
    let is_kept = |text: &str| quoted.binary_search_by(|key| key.as_str().cmp(text)).is_err();
    match kind(jsonb) {
        JsonKind::Object => {
            Ok(object(members(jsonb).into_iter().flatten().filter(|member| is_kept(member.quoted))))
        }
        JsonKind::Array => Ok(array(elements(jsonb).into_iter().flatten().filter(|item| is_kept(item)))),
        _ => Err(invalid("cannot delete from scalar")),
    }
}

/// The array without the element at a position, counted from its end if that is negative.
///
/// # Errors
/// 22023 for what is no array.
pub fn without_index(jsonb: &str, index: i32) -> Result<String> {
    match kind(jsonb) {
        JsonKind::Array => {}
        JsonKind::Object => return Err(invalid("cannot delete from object using integer index")),
        _ => return Err(invalid("cannot delete from scalar")),
    }
    let all = items(jsonb);
    let at = match usize::try_from(index) {
        Ok(at) => Some(at),
        Err(_) => all.len().checked_sub(index.unsigned_abs() as usize),
    };
    let kept = all.iter().enumerate().filter(|(position, _)| Some(*position) != at);
    Ok(array(kept.map(|(_, item)| *item)))
}

/// The most nulls that an array is filled up with, which take some 100 MB meanwhile.
const GAP_MAX: usize = 1 << 22;

/// What is done at the end of a path.
#[derive(Clone, Copy)]
enum Edit<'a> {
    Set { value: &'a str, creates: bool },
    Insert { value: &'a str, place: InsertPosition },
    Delete,
}

/// Where a value is inserted into an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InsertPosition {
    /// Before the element that the path names.
    Before,
    /// After it.
    After,
}

impl Edit<'_> {
    /// What is put where the path ends at nothing.
    fn created(&self) -> Option<&str> {
        match self {
            Edit::Set { value, creates: true } | Edit::Insert { value, .. } => Some(value),
            Edit::Set { .. } | Edit::Delete => None,
        }
    }
}

/// `jsonb_set`: the document with another value at the path, which is added if it `creates` what is not there.
///
/// # Errors
/// 22023 for a scalar, 22P02 for a step in an array that is no number.
pub fn set(jsonb: &str, steps: &[String], value: &str, creates: bool) -> Result<String> {
    if kind(jsonb).is_scalar() {
        return Err(invalid("cannot set path in scalar"));
    }
    edited(jsonb, steps, Edit::Set { value, creates })
}

/// `jsonb_insert`: the document with a value more.
///
/// # Errors
/// Those of [`set`], and 22023 for a key that is there already.
pub fn inserted(jsonb: &str, steps: &[String], value: &str, place: InsertPosition) -> Result<String> {
    if kind(jsonb).is_scalar() {
        return Err(invalid("cannot set path in scalar"));
    }
    edited(jsonb, steps, Edit::Insert { value, place })
}

/// `jsonb #- path`: the document without the value at the path.
///
/// # Errors
/// Those of [`set`].
pub fn without_path(jsonb: &str, steps: &[String]) -> Result<String> {
    if kind(jsonb).is_scalar() {
        return Err(invalid("cannot delete path in scalar"));
    }
    edited(jsonb, steps, Edit::Delete)
}

/// `SET document['a'][1] = value`: the document with the value at the path. What the path leads through is made where it is not there: an
/// array for a step that is a number, filled with nulls before it, or an object. (PostgreSQL, 8.14.5.)
///
/// # Errors
/// 22023 for a path through a scalar or before the beginning of an array, 22P02 for a step in an array that is no number, 54000 for
/// too many nulls, and those of [`check`] for a document that would be too deep.
pub fn assigned(jsonb: &str, steps: &[String], value: &str) -> Result<String> {
    let (mut out, mut tails, mut at) = (String::with_capacity(jsonb.len()), Vec::new(), jsonb);
    for (level, step) in steps.iter().enumerate() {
        let index = match kind(at) {
            JsonKind::Array => Some(index_within(step, level, at)?),
            JsonKind::Object => None,
            _ => {
                let detail = "The path assumes key is a composite object, but it is a scalar value.";
                return Err(invalid("cannot replace existing key").with_detail(detail));
            }
        };
        let part = match index {
            Some(index) => i32::try_from(index).ok().and_then(|index| element(at, index)),
            None => super::walk::field(at, step)?,
        };
        let rest = &steps[level + 1..];
        let Some(part) = part.filter(|_| !rest.is_empty()) else {
            let value = made(rest, value)?;
            out.push_str(&match index {
                Some(index) => with_element(at, index, &value)?,
                None => edited_object(at, step, Edit::Set { value: &value, creates: true })?,
            });
            break;
        };
        // Both are addresses in one text.
        let start = part.as_ptr() as usize - at.as_ptr() as usize;
        out.push_str(&at[..start]);
        tails.push(&at[start + part.len()..]);
        at = part;
    }
    tails.into_iter().rev().for_each(|tail| out.push_str(tail));
    check(&out)?;
    Ok(out)
}

/// The position in the array that a step names, counted from 0.
fn index_within(step: &str, level: usize, array: &str) -> Result<usize> {
    index(step, level, array)?.ok_or_else(|| {
        invalid(format!("path element at position {} is out of range: {}", level + 1, step.trim()))
    })
}

/// The value within arrays and objects that the steps lead through.
fn made(steps: &[String], value: &str) -> Result<String> {
    steps.iter().rev().try_fold(value.to_owned(), |value, step| match position(step) {
        Some(index) => with_element("[]", usize::try_from(index).unwrap_or(0), &value),
        None => edited_object("{}", step, Edit::Set { value: &value, creates: true }),
    })
}

/// The array with the value at a position, and nulls before it where there was nothing.
fn with_element(jsonb: &str, index: usize, value: &str) -> Result<String> {
    let mut all = items(jsonb);
    if index.saturating_sub(all.len()) > GAP_MAX {
        let message = format!("a jsonb array is filled with at most {GAP_MAX} nulls at a time");
        return Err(Error::new(SqlState::ProgramLimitExceeded, message));
    }
    if index >= all.len() {
        all.resize(index + 1, "null");
    }
    all[index] = value;
    Ok(array(all))
}

/// Follows the path; what lies beside it is copied as it is.
fn edited(jsonb: &str, steps: &[String], edit: Edit<'_>) -> Result<String> {
    let (mut out, mut tails, mut at) = (String::with_capacity(jsonb.len()), Vec::new(), jsonb);
    for (level, step) in steps.iter().enumerate() {
        let index = match kind(at) {
            JsonKind::Array => Some(index(step, level, at)?),
            JsonKind::Object => None,
            _ => break,
        };
        if level + 1 == steps.len() {
            let changed = match index {
                Some(index) => edited_array(at, index, edit),
                None => edited_object(at, step, edit)?,
            };
            out.push_str(&changed);
            at = "";
            break;
        }
        let part = match index {
            Some(index) => index.and_then(|index| element(at, i32::try_from(index).ok()?)),
            None => super::walk::field(at, step)?,
        };
        let Some(part) = part else { break };
        // Both are addresses in one text.
        let start = part.as_ptr() as usize - at.as_ptr() as usize;
        out.push_str(&at[..start]);
        tails.push(&at[start + part.len()..]);
        at = part;
    }
    out.push_str(at);
    tails.into_iter().rev().for_each(|tail| out.push_str(tail));
    Ok(out)
}

/// The position in the array that a step names, counted from 0; `None` before its beginning.
fn index(step: &str, level: usize, array: &str) -> Result<Option<usize>> {
    let index = position(step).ok_or_else(|| {
        let message = format!("path element at position {} is not an integer: \"{step}\"", level + 1);
        Error::new(SqlState::InvalidTextRepresentation, message)
    })?;
    Ok(match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => items(array).len().checked_sub(index.unsigned_abs() as usize),
    })
}

fn edited_array(jsonb: &str, index: Option<usize>, edit: Edit<'_>) -> String {
    let mut all = items(jsonb);
    match (index.filter(|index| *index < all.len()), edit) {
        (Some(index), Edit::Set { value, .. }) => all[index] = value,
        (Some(index), Edit::Insert { value, place }) => {
            all.insert(index + usize::from(place == InsertPosition::After), value);
        }
        (Some(index), Edit::Delete) => {
            all.remove(index);
        }
        (None, edit) => {
            if let Some(value) = edit.created() {
                let at = if index.is_none() { 0 } else { all.len() };
                let value = value.to_owned();
                let items =
                    all[..at].iter().copied().chain([value.as_str()]).chain(all[at..].iter().copied());
                return array(items);
            }
        }
    }
    array(all)
}

fn edited_object(jsonb: &str, key: &str, edit: Edit<'_>) -> Result<String> {
    let mut all = keyed(jsonb)?;
    let place = all.binary_search_by(|(known, _)| key_order(known, key));
    match (place, edit) {
        (Ok(_), Edit::Insert { .. }) => {
            return Err(invalid("cannot replace existing key")
                .with_hint("Try using the function jsonb_set to replace key value."));
        }
        (Ok(at), Edit::Set { value, .. }) => all[at].1.value = value,
        (Ok(at), Edit::Delete) => {
            all.remove(at);
        }
        (Err(at), edit) => {
            if let Some(value) = edit.created() {
                let mut quoted = String::new();
                push_string(key, &mut quoted);
                let new = Member { quoted: &quoted, value };
                let before = all[..at].iter().map(|(_, member)| *member);
                let after = all[at..].iter().map(|(_, member)| *member);
                return Ok(object(before.chain([new]).chain(after)));
            }
        }
    }
    Ok(object(all.into_iter().map(|(_, member)| member)))
}

/// How the parts of a document are put together.
struct Separators {
    item: &'static str,
    key: &'static str,
}

/// The document without the members that are null. A `json` comes back without blanks, a `jsonb` as one.
///
/// # Errors
/// Those of [`to_jsonb`](super::to_jsonb), for strings of a `json` that are no texts.
pub fn without_nulls(json: &str, is_jsonb: bool) -> Result<String> {
    let separators = match is_jsonb {
        true => Separators { item: ", ", key: ": " },
        false => Separators { item: ",", key: ":" },
    };
    let document = parse(json)?;
    let (mut out, mut at) = (String::with_capacity(json.len()), 0);
    // What is open: whether it is an object, and where it ends.
    let mut open: Vec<(bool, usize)> = Vec::new();
    loop {
        while let Some((is_object, _)) = open.pop_if(|(_, end)| *end == at) {
            out.push(if is_object { '}' } else { ']' });
        }
        let Some(&node) = document.nodes.get(at) else { return Ok(out) };
        let (mut node, mut is_first): (JsonNode, bool) = (node, out.ends_with(['{', '[']));
        if let Some((true, _)) = open.last() {
            let key = document.source(node);
            at += 1;
            node = document.nodes[at];
            if node.kind == NodeKind::Null {
                at += 1;
                continue;
            }
            if !std::mem::replace(&mut is_first, true) {
                out.push_str(separators.item);
            }
            push_string(&unescaped(key)?, &mut out);
            out.push_str(separators.key);
        } else if !is_first && !open.is_empty() {
            out.push_str(separators.item);
        }
        at += 1;
        match node.kind {
            NodeKind::Array | NodeKind::Object => {
                let is_object = node.kind == NodeKind::Object;
                out.push(if is_object { '{' } else { '[' });
                open.push((is_object, node.next as usize));
            }
            NodeKind::EscapedString => push_string(&unescaped(document.source(node))?, &mut out),
            _ => out.push_str(document.source(node)),
        }
    }
}

/// `jsonb_pretty`: one line for each part, indented by four blanks.
///
/// # Errors
/// 54000 for a text of more than a gibibyte: lines of deep documents are long.
pub fn pretty(jsonb: &str) -> Result<String> {
    const INDENT: &str = "    ";
    let (mut out, mut depth) = (String::with_capacity(jsonb.len() * 2), 0usize);
    let (mut in_string, mut is_escaped) = (false, false);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str(INDENT));
    };
    for (at, c) in jsonb.char_indices() {
        if in_string {
            out.push(c);
            in_string = c != '"' || is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            continue;
        }
        match c {
            '{' | '[' => {
                out.push(c);
                depth += 1;
                if !jsonb[at + 1..].starts_with(['}', ']']) {
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth -= 1;
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ' ' if out.ends_with(INDENT) || out.ends_with('\n') => {}
            _ => {
                in_string = c == '"';
                out.push(c);
            }
        }
        if out.len() > PRETTY_BYTES_MAX {
            let message = "string buffer exceeds maximum allowed length (1073741823 bytes)";
            return Err(Error::new(SqlState::ProgramLimitExceeded, message));
        }
    }
    Ok(out)
}
