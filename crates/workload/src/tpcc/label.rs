//! Short texts of terminals' screens, without an allocation each.

use std::fmt;
use std::ops::Deref;

/// The longest text column of TPC-C but for the two `data` columns.
const CAPACITY: usize = 24;

/// A text of at most 24 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Label {
    length: u8,
    bytes: [u8; CAPACITY],
}

impl Label {
    /// A copy of the text; panics if it is longer than a label.
    #[inline]
    pub fn of(text: &str) -> Label {
        let mut bytes = [0; CAPACITY];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Label { length: text.len() as u8, bytes }
    }
}

impl Deref for Label {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).expect("made of a text")
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_its_text() {
        assert_eq!(&*Label::of("ORIGINAL"), "ORIGINAL");
        assert_eq!(&*Label::of(""), "");
        assert_eq!(Label::of(&"x".repeat(24)).len(), 24);
    }
}
