//! The values of one line: numbers and the like by themselves, texts where they lie in the line.
//!
//! A line of COPY becomes cells of a block without an allocation for each text in it: a text is a piece of the line, or, where
//! escapes were replaced, of a buffer that is used for all lines.

use ankerdb_engine::Value;
use ankerdb_value::ValueRef;
use std::ops::Range;

/// The value of a column.
enum Slot {
    Value(Value),
    /// A text, in the line.
    InLine(Range<usize>),
    /// A text, in the row's own buffer.
    Own(Range<usize>),
}

/// A row that is being read. Keeps its memory from line to line.
#[derive(Default)]
pub(super) struct InputRow {
    slots: Vec<Slot>,
    own: String,
}

impl InputRow {
    /// Begins a row of so many columns, all NULL.
    pub(super) fn begin(&mut self, columns: usize) {
        self.own.clear();
        self.slots.clear();
        self.slots.resize_with(columns, || Slot::Value(Value::Null));
    }

    /// Sets a value.
    pub(super) fn set(&mut self, column: usize, value: Value) {
        self.slots[column] = Slot::Value(value);
    }

    /// Sets a text: as a piece of the line if it is one, else as a copy.
    pub(super) fn set_text(&mut self, column: usize, text: &str, line: &str) {
        let start = text.as_ptr().addr().wrapping_sub(line.as_ptr().addr());
        self.slots[column] = match line.get(start..start.wrapping_add(text.len())) {
            Some(piece) if std::ptr::eq(piece, text) => Slot::InLine(start..start + text.len()),
            _ => {
                let start = self.own.len();
                self.own.push_str(text);
                Slot::Own(start..self.own.len())
            }
        };
    }

    /// The values. The line is the one that texts were pieces of.
    pub(super) fn values<'a>(&'a self, line: &'a str) -> RowValues<'a> {
        RowValues { row: self, line }
    }
}

/// The values of a row, as they lie.
#[derive(Clone, Copy)]
pub(super) struct RowValues<'a> {
    row: &'a InputRow,
    line: &'a str,
}

impl<'a> RowValues<'a> {
    /// The value of a column.
    #[inline]
    pub(super) fn value(&self, column: usize) -> ValueRef<'a> {
        match &self.row.slots[column] {
            Slot::Value(value) => ValueRef::from(value),
            Slot::InLine(place) => ValueRef::Text(&self.line[place.clone()]),
            Slot::Own(place) => ValueRef::Text(&self.row.own[place.clone()]),
        }
    }

    /// All values.
    pub(super) fn to_values(self) -> Vec<Value> {
        (0..self.row.slots.len()).map(|column| self.value(column).to_value()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_pieces_of_the_line_or_copies() {
        let line = "one|two";
        let mut row = InputRow::default();
        for _ in 0..2 {
            row.begin(5);
            row.set_text(0, &line[4..], line);
            row.set_text(1, "copied", line);
            row.set(2, Value::Integer(7));
            row.set_text(3, "", line);
            assert!(matches!(row.slots[0], Slot::InLine(_)) && matches!(row.slots[1], Slot::Own(_)));
            let values = row.values(line).to_values();
            let expected = [Value::text("two"), Value::text("copied"), Value::Integer(7), Value::text("")];
            assert_eq!(values[..4], expected);
            assert!(values[4].is_null());
        }
    }
}
