//! Where PostgreSQL has the arrays and objects of a document in its binary form, which ids of `.keyvalue()` are made of.
//!
//! A container has a word for itself and one for each element, or two for each member; then come the keys, then the values.
//! Numbers and containers begin at multiples of four bytes (`jsonb_util.c`, `numeric.c`):
//! ```text
//! {"a": [1], "bc": "xy"}
//! 0 object | 4 a | 8 bc | 12 [1] | 16 "xy" | 20 abc | 24 array | 28 1 | 32 the number 1 | 40 xy
//! ```

use super::super::parse::{Document, JsonNode, NodeKind, parse};
use super::super::string::unescaped;
use ankerdb_base::Result;

const WORD: u64 = 4;

/// Where containers are: in the canonical text, and in PostgreSQL's binary form of it.
#[derive(Debug, Default)]
pub(super) struct Offsets(Vec<(usize, u64)>);

/// A container whose values are being placed.
struct Frame {
    /// The next node within it.
    node: usize,
    /// How many values are left.
    left: u32,
    is_object: bool,
}

impl Offsets {
    /// Those of all containers of a document. One pass over it.
    ///
    /// # Errors
    /// Those of [`check`](super::super::check).
    pub(super) fn of(jsonb: &str) -> Result<Offsets> {
        let document = parse(jsonb)?;
        let (mut offsets, mut at) = (Vec::new(), 0);
        let mut frames = vec![Frame { node: 0, left: 1, is_object: false }];
        while let Some(frame) = frames.last_mut() {
            if frame.left == 0 {
                frames.pop();
                continue;
            }
            let position = frame.node + usize::from(frame.is_object);
            let node = document.nodes[position];
            frame.left -= 1;
            frame.node = node.next as usize;
            let source = document.source(node);
            match node.kind {
                NodeKind::Null | NodeKind::True | NodeKind::False => {}
                NodeKind::String | NodeKind::EscapedString => at += unescaped(source)?.len() as u64,
                NodeKind::Number => at = at.next_multiple_of(WORD) + number_length(source),
                NodeKind::Array | NodeKind::Object => {
                    at = at.next_multiple_of(WORD);
                    offsets.push((node.start as usize, at));
                    let is_object = node.kind == NodeKind::Object;
                    at += WORD + WORD * u64::from(node.count) * if is_object { 2 } else { 1 };
                    if is_object {
                        at += keys_length(&document, position, node)?;
                    }
                    frames.push(Frame { node: position + 1, left: node.count, is_object });
                }
            }
        }
        Ok(Offsets(offsets))
    }

    /// The binary position of the container that begins here in the text.
    pub(super) fn binary(&self, text: usize) -> u64 {
        let found = self.0.binary_search_by_key(&text, |(text, _)| *text);
        found.map_or(0, |at| self.0[at].1)
    }
}

/// Bytes of all keys of an object.
fn keys_length(document: &Document<'_>, position: usize, object: JsonNode) -> Result<u64> {
    let (mut key, mut length) = (position + 1, 0);
    for _ in 0..object.count {
        length += unescaped(document.source(document.nodes[key]))?.len() as u64;
        key = document.nodes[key + 1].next as usize;
    }
    Ok(length)
}

/// Bytes of a `numeric`: its length, one or two words of two bytes for its form, and its digits by fours.
fn number_length(canonical: &str) -> u64 {
    let unsigned = canonical.trim_start_matches('-');
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let is_digit = |digit: u8| digit != b'0';
    let units = whole.len() as i64 - 1;
    let digits = || whole.bytes().chain(fraction.bytes());
    let first = digits().position(is_digit).map(|at| (units - at as i64).div_euclid(4));
    let last = digits().enumerate().filter(|(_, digit)| is_digit(*digit)).last();
    let (weight, groups) = match (first, last) {
        (Some(weight), Some((at, _))) => (weight, weight - (units - at as i64).div_euclid(4) + 1),
        _ => (0, 0),
    };
    let is_short = fraction.len() <= 63 && (-64..=63).contains(&weight);
    WORD + if is_short { 2 } else { 4 } + 2 * groups as u64
}
