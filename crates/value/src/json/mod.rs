//! Documents: `json` as the text that was given, `jsonb` as the text that PostgreSQL shows.
//!
//! A `jsonb` has one *canonical* text: keys ordered by length and then by bytes, no key twice (the last one counts), numbers
//! without exponents but with the fractional digits that were written, strings with the fewest escapes. Each part of a
//! canonical text is the canonical text of that part, so that looking into a document is finding a slice of it.
//! ```text
//! '{"bb":[1,2.50], "a" : "\u00e4" }'  -- parse -->  nodes  -- canonical -->  {"a": "ä", "bb": [1, 2.50]}
//!                                                      `---- comparison_key --> bytes that sort as PostgreSQL sorts
//! ```
//! - `parse`: checks a text, and notes where its parts are.
//! - `canonical`: `jsonb` from text. `key`: what documents are compared by.
//! - `walk`: parts of a text that was checked before. `change`: documents made of others. `contain`: `@>`.
//! - `path_language`: `jsonpath`.
//!
//! Nothing here recurses over the text: the depth of documents is bounded by [`DEPTH_MAX`], not by the stack. (`contain`
//! does recurse, and has a limit of its own.)

mod canonical;
mod change;
mod contain;
mod key;
mod number;
mod parse;
mod path_language;
mod string;
mod walk;

#[cfg(test)]
mod tests;

pub use canonical::to_jsonb;
pub use change::{
    InsertPosition, assigned, concatenated, inserted, pretty, set, without_index, without_keys,
    without_nulls, without_path,
};
pub use contain::contains;
pub use key::comparison_key;
pub use parse::{DEPTH_MAX, check};
pub use path_language::{JsonPath, PathFunctions};
pub use string::{push_string, unescaped};
pub use walk::{
    Elements, JsonKind, Member, Members, element, elements, exists, field, kind, members, path, scalar_text,
};
