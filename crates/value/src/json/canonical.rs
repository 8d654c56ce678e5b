//! `jsonb` from text: the canonical text of a document.

use super::number::push_canonical;
use super::parse::{Document, JsonNode, NodeKind, parse};
use super::string::{push_string, unescaped};
use ankerdb_base::{Error, Result, SqlState};
use std::borrow::Cow;
use std::cmp::Ordering;

/// PostgreSQL's limit for what an array or object of a `jsonb` takes.
const BYTES_MAX: usize = 268_435_455;

/// The canonical text of a document. Costs a pass over the text, about 20 bytes for each value in it while that lasts, and
/// sorting the keys of each object.
///
/// # Errors
/// 22P02 if the text is no JSON, 22P05 for `\u0000`, 22003 for numbers that no numeric of PostgreSQL has, 54001 for a document that
/// is too deep, and 54000 for one whose text is too long.
pub fn to_jsonb(text: &str) -> Result<String> {
    let document = parse(text)?;
    let mut out = String::with_capacity(text.len());
    write(&document, &mut out)?;
    Ok(out)
}

/// The order of keys in an object: by length, then by bytes.
pub(super) fn key_order(left: &str, right: &str) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.as_bytes().cmp(right.as_bytes()))
}

/// An array or object that is being written.
struct Frame<'a> {
    /// What is left to write; members of objects with their keys.
    items: std::vec::IntoIter<(Option<Cow<'a, str>>, usize)>,
    close: char,
    is_first: bool,
}

fn write(document: &Document<'_>, out: &mut String) -> Result<()> {
    let mut frames: Vec<Frame<'_>> = Vec::new();
    let mut next = Some(0);
    loop {
        if let Some(node) = next.take() {
            match frame(document, node)? {
                Some(frame) => {
                    out.push(if frame.close == '}' { '{' } else { '[' });
                    frames.push(frame);
                }
                None => push_leaf(document, document.nodes[node], out)?,
            }
            if out.len() > BYTES_MAX {
                return Err(too_long());
            }
        }
        let Some(frame) = frames.last_mut() else { return Ok(()) };
        match frame.items.next() {
            Some((key, value)) => {
                if !std::mem::replace(&mut frame.is_first, false) {
                    out.push_str(", ");
                }
                if let Some(key) = key {
                    push_string(&key, out);
                    out.push_str(": ");
                }
                next = Some(value);
            }
            None => {
                out.push(frame.close);
                frames.pop();
            }
        }
    }
}

fn too_long() -> Error {
    let message = format!("total size of jsonb array elements exceeds the maximum of {BYTES_MAX} bytes");
    Error::new(SqlState::ProgramLimitExceeded, message)
}

fn push_leaf(document: &Document<'_>, node: JsonNode, out: &mut String) -> Result<()> {
    let source = document.source(node);
    match node.kind {
        NodeKind::Number => push_canonical(source, out)?,
        NodeKind::EscapedString => push_string(&unescaped(source)?, out),
        _ => out.push_str(source),
    }
    Ok(())
}

/// The elements or members of the node at a position, in the order in which they are written; `None` for what has none.
fn frame<'a>(document: &Document<'a>, position: usize) -> Result<Option<Frame<'a>>> {
    let node = document.nodes[position];
    let is_object = match node.kind {
        NodeKind::Array => false,
        NodeKind::Object => true,
        _ => return Ok(None),
    };
    let mut items = Vec::with_capacity(node.count as usize);
    let mut at = position + 1;
    for _ in 0..node.count {
        let key = match is_object {
            true => Some(unescaped(document.source(document.nodes[at]))?),
            false => None,
        };
        at += usize::from(is_object);
        items.push((key, at));
        at = document.nodes[at].next as usize;
    }
    if is_object {
        // Each key once: of several, the last one counts.
        items.sort_by(|(left, one), (right, other)| match (left, right) {
            (Some(left), Some(right)) => key_order(left, right).then(other.cmp(one)),
            _ => Ordering::Equal,
        });
        items.dedup_by(|(later, _), (earlier, _)| later == earlier);
    }
    Ok(Some(Frame { items: items.into_iter(), close: if is_object { '}' } else { ']' }, is_first: true }))
}
