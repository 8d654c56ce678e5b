//! What documents are compared by: bytes that order as PostgreSQL orders `jsonb`.
//!
//! Object > array > boolean > number > string > null. Objects and arrays with more members or elements are larger than those
//! with fewer; then members are compared in the order in which they are kept. An empty array is smaller than everything else
//! if it is the whole document, but not within one.
//!
//! | part    | bytes                                                                        |
//! | ------- | ---------------------------------------------------------------------------- |
//! | null    | `10`                                                                         |
//! | string  | `20`, its bytes, `00` (a string of a `jsonb` has no zero character)          |
//! | number  | `30`, its sign, where its first digit is, its digits, `00`; negative ones inverted |
//! | boolean | `40` or `41`                                                                 |
//! | array   | `50`, the number of its elements, the elements                               |
//! | object  | `60`, the number of its members, keys and values by turns                    |

use super::number;
use super::parse::{NodeKind, parse};
use super::string::unescaped;
use ankerdb_base::Result;

/// The key of a canonical text. Costs a pass over the text and 20 bytes for each value in it while that lasts.
///
/// # Errors
/// Those of [`to_jsonb`](super::to_jsonb), for texts that are no `jsonb`.
pub fn comparison_key(jsonb: &str) -> Result<Vec<u8>> {
    if jsonb == "[]" {
        return Ok(vec![0x01]);
    }
    let document = parse(jsonb)?;
    let mut out = Vec::with_capacity(jsonb.len() + 8);
    for node in &document.nodes {
        match node.kind {
            NodeKind::Null => out.push(0x10),
            NodeKind::String | NodeKind::EscapedString => {
                out.push(0x20);
                out.extend_from_slice(unescaped(document.source(*node))?.as_bytes());
                out.push(0);
            }
            NodeKind::Number => {
                out.push(0x30);
                number::push_key(document.source(*node), &mut out)?;
            }
            NodeKind::False => out.push(0x40),
            NodeKind::True => out.push(0x41),
            NodeKind::Array => {
                out.push(0x50);
                out.extend_from_slice(&node.count.to_be_bytes());
            }
            NodeKind::Object => {
                out.push(0x60);
                out.extend_from_slice(&node.count.to_be_bytes());
            }
        }
    }
    Ok(out)
}
