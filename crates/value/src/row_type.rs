//! Rows as values: `ROW(1, 'x')`, and `SELECT t FROM t`.
//!
//! A row's value is its text, `(1,x)`, in the form that clients see; its type has the types of its fields, by which the text can be taken
//! apart again. Rows are values of results only: columns of tables cannot have their types.

use crate::key::{push_bytes, push_text, push_value};
use crate::numbered::{Numbered, charge};
use crate::{DataType, SystemType, parse_text};
use ankerdb_base::{Error, Result, SqlState};
use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, Mutex};

/// Added to a relation's number for the number of the type of its rows.
const OF_ROWS: u32 = 1 << 31;
/// Added to a relation's number for the number of arrays of its rows.
const OF_ARRAYS: u32 = 3 << 30;
/// The number of rows that are no relation's.
const RECORD_OID: u32 = 2249;
/// That of arrays of them.
const RECORDS_OID: u32 = 2287;

/// What stands before a field's value in a key, and for NULL.
const MARK_VALUE: u8 = 1;
const MARK_NULL: u8 = 2;

/// The type of a row. Two with the same fields and the same relation are the same type.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowType(u32);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Shape {
    fields: Box<[DataType]>,
    /// The number of the relation that has such rows.
    relation: Option<u32>,
}

static SHAPES: Numbered<Shape> = Numbered::new();
/// Their numbers. Asked only when a statement is planned.
static KNOWN: LazyLock<Mutex<HashMap<Shape, RowType>>> = LazyLock::new(Mutex::default);

impl RowType {
    /// The type of rows with such fields. Lengths and precisions do not count: each field keeps its own.
    ///
    /// # Errors
    /// `OutOfMemory`: types are kept until the process ends.
    pub fn of(fields: impl IntoIterator<Item = DataType>) -> Result<RowType> {
        RowType::known(Shape { fields: fields.into_iter().map(of_any_length).collect(), relation: None })
    }

    /// The type that rows of the relation with this number have.
    ///
    /// # Errors
    /// `OutOfMemory`
    pub fn of_relation(self, relation: u32) -> Result<RowType> {
        RowType::known(Shape { relation: Some(relation), ..self.shape().clone() })
    }

    fn known(shape: Shape) -> Result<RowType> {
        let mut known = KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(known) = known.get(&shape) {
            return Ok(*known);
        }
        charge(2 * (size_of::<Shape>() + shape.fields.len() * size_of::<DataType>()) + size_of::<RowType>())?;
        let mut made = RowType(0);
        SHAPES.add(|number| {
            made = RowType(number);
            shape.clone()
        });
        known.insert(shape, made);
        Ok(made)
    }

    /// The type with this number.
    pub fn by_number(number: u32) -> Option<RowType> {
        SHAPES.get(number).map(|_| RowType(number))
    }

    /// Its number, by which this process knows it.
    pub fn number(self) -> u32 {
        self.0
    }

    fn shape(self) -> &'static Shape {
        SHAPES.get(self.0).expect("a type that was made")
    }

    /// The types of its fields.
    pub fn fields(self) -> &'static [DataType] {
        &self.shape().fields
    }

    /// Its number for clients.
    pub fn oid(self) -> u32 {
        self.shape().relation.map_or(RECORD_OID, row_type_oid)
    }

    /// The number of arrays of it.
    pub fn list_oid(self) -> u32 {
        self.shape().relation.map_or(RECORDS_OID, row_array_oid)
    }
}

/// The number of the type of a relation's rows, by the relation's own.
pub fn row_type_oid(relation: u32) -> u32 {
    relation | OF_ROWS
}

/// The number of the type of arrays of a relation's rows, by the relation's own.
pub fn row_array_oid(relation: u32) -> u32 {
    relation | OF_ARRAYS
}

/// The relation whose rows have the type with this number, or arrays of whose rows do: which of the two it is.
pub fn relation_of_rows(oid: u32) -> Option<(u32, bool)> {
    match oid & OF_ARRAYS {
        OF_ROWS => Some((oid & !OF_ARRAYS, false)),
        OF_ARRAYS => Some((oid & !OF_ARRAYS, true)),
        _ => None,
    }
}

fn of_any_length(field: DataType) -> DataType {
    match field {
        DataType::Numeric { .. } => DataType::Number,
        DataType::Varchar(_) => DataType::ANY_VARCHAR,
        // Its text has the blanks already.
        DataType::Char(_) => DataType::Char(1),
        DataType::Packed(packed) => DataType::Packed(packed.of_any_length()),
        other => other.of_any_precision(),
    }
}

impl fmt::Debug for RowType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} {:?}", self.0, self.fields())
    }
}

/// The text of a row with these texts for its fields; `None` is NULL.
pub fn row_text<'a>(fields: impl IntoIterator<Item = Option<&'a str>>) -> String {
    let mut out = String::from("(");
    for (position, field) in fields.into_iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        if let Some(text) = field {
            push_field(text, &mut out);
        }
    }
    out.push(')');
    out
}

fn push_field(text: &str, out: &mut String) {
    let is_special = |c: char| matches!(c, '"' | '\\' | '(' | ')' | ',' | '\x0b') || c.is_ascii_whitespace();
    if !text.is_empty() && !text.contains(is_special) {
        return out.push_str(text);
    }
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push(c);
        }
        out.push(c);
    }
    out.push('"');
}

/// Appends bytes that order as rows of the type do: field by field, NULL behind all values and equal to itself, as PostgreSQL's
/// `record_cmp` has it.
///
/// # Errors
/// `UndefinedFunction` for a field of a type that has no order, and those of [`row_fields`].
pub fn push_row_key(text: &str, row: RowType, out: &mut Vec<u8>) -> Result<()> {
    for (field, &data_type) in row_fields(text)?.iter().zip(row.fields()) {
        let Some(field) = field else {
            out.push(MARK_NULL);
            continue;
        };
        out.push(MARK_VALUE);
        match data_type {
            DataType::Json => {
                let message = "could not identify a comparison function for type json";
                return Err(Error::new(SqlState::UndefinedFunction, message));
            }
            DataType::System(SystemType::Row(inner)) => {
                let mut key = Vec::new();
                push_row_key(field, inner, &mut key)?;
                push_bytes(out, &key);
            }
            // The blanks of a `char(n)` do not count; names of objects are as they are shown.
            DataType::Char(_) => push_text(out, field.trim_end_matches(' ')),
            DataType::System(SystemType::Object(_)) => push_text(out, field),
            DataType::System(SystemType::List(list)) if list.is_vector() => push_text(out, field),
            data_type => push_value(out, &parse_text(data_type, field)?, data_type, false)?,
        }
    }
    Ok(())
}

/// The fields of a row's text, as PostgreSQL's `record_in` reads them; `None` is NULL. A row without fields has one that is NULL.
///
/// # Errors
/// `InvalidTextRepresentation`
pub fn row_fields(text: &str) -> Result<Vec<Option<String>>> {
    let malformed = |detail: &str| {
        let message = format!("malformed record literal: \"{text}\"");
        Err(Error::new(SqlState::InvalidTextRepresentation, message).with_detail(detail))
    };
    let mut rest = text.trim_start().chars();
    if rest.next() != Some('(') {
        return malformed("Missing left parenthesis.");
    }
    let mut fields = Vec::new();
    loop {
        let (mut field, mut is_null, mut is_quoted) = (String::new(), true, false);
        let end = loop {
            match rest.next() {
                Some(end @ (',' | ')')) if !is_quoted => break end,
                Some('"') if !is_quoted => (is_quoted, is_null) = (true, false),
                Some('"') if rest.as_str().starts_with('"') => field.extend(rest.next()),
                Some('"') => is_quoted = false,
                Some('\\') => match rest.next() {
                    Some(c) => (is_null, _) = (false, field.push(c)),
                    None => return malformed("Unexpected end of input."),
                },
                Some(c) => (is_null, _) = (false, field.push(c)),
                None => return malformed("Unexpected end of input."),
            }
        };
        fields.push((!is_null).then_some(field));
        if end == ')' {
            break;
        }
    }
    match rest.as_str().trim_start().is_empty() {
        true => Ok(fields),
        false => malformed("Junk after right parenthesis."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Precision;

    #[test]
    fn texts_are_those_of_postgresql_and_lead_back_to_their_fields() {
        let cases: [(&[Option<&str>], &str); 7] = [
            (&[Some("1"), Some("x")], "(1,x)"),
            (&[None, None], "(,)"),
            (&[Some("")], "(\"\")"),
            (&[Some("a,b"), Some("c d"), None], "(\"a,b\",\"c d\",)"),
            (&[Some("a\"b"), Some("\\x01")], "(\"a\"\"b\",\"\\\\x01\")"),
            (&[Some("(1,2)"), Some("{a,b}")], "(\"(1,2)\",\"{a,b}\")"),
            (&[Some("("), Some("1")], "(\"(\",1)"),
        ];
        for (fields, written) in cases {
            assert_eq!(row_text(fields.iter().copied()), written);
            let read = row_fields(written).unwrap();
            assert_eq!(read.iter().map(Option::as_deref).collect::<Vec<_>>(), fields);
        }
        assert_eq!(row_fields(" (a\\,b, \"c\"d)").unwrap(), [Some("a,b".into()), Some(" cd".into())]);
        for malformed in ["", "1,2", "(1", "(1,\"2)", "(1)x", "(\\"] {
            assert_eq!(row_fields(malformed).unwrap_err().state(), SqlState::InvalidTextRepresentation);
        }
    }

    #[test]
    fn keys_order_as_rows_do() {
        let row = RowType::of([DataType::Integer, DataType::Text, DataType::Number]).unwrap();
        let key = |text: &str| {
            let mut key = Vec::new();
            push_row_key(text, row, &mut key).unwrap();
            key
        };
        let ordered = [
            "(-1,z,)",
            "(2,\"\",1)",
            "(2,a,1)",
            "(2,a,1.5)",
            "(2,a,)",
            "(2,ab,0)",
            "(2,,0)",
            "(10,a,1)",
            "(,,)",
        ];
        assert!(ordered.map(key).is_sorted_by(|one, other| one < other));
        assert_eq!(key("(1,a,1.0)"), key("(1,a,1.00)"));
    }

    #[test]
    fn rows_with_the_same_fields_have_the_same_type() {
        let one = RowType::of([DataType::Integer, DataType::Varchar(3)]).unwrap();
        let timed = DataType::Timestamp(Precision::digits(3));
        assert_eq!(one, RowType::of([DataType::Integer, DataType::Varchar(4)]).unwrap());
        assert_ne!(one, RowType::of([DataType::Integer, timed]).unwrap());
        assert_eq!((one.oid(), RowType::by_number(one.number())), (RECORD_OID, Some(one)));
        let rows = one.of_relation(16_400).unwrap();
        assert_eq!((rows.fields(), rows.oid()), (one.fields(), 16_400 + OF_ROWS));
        assert_ne!(rows, one);
        assert_eq!(relation_of_rows(rows.oid()), Some((16_400, false)));
        assert_eq!(relation_of_rows(row_array_oid(16_400)), Some((16_400, true)));
        assert_eq!(relation_of_rows((1 << 30) + 7), None);
    }
}
