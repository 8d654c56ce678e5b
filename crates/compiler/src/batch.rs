//! What a pipeline reads: slices of columns whose lengths were checked.

use crate::ir::{InputColumn, Pipeline, ValueKind};

/// One column of a batch.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSlice<'a> {
    /// The stored values, in the byte order of the machine; bits from the lowest of a byte on.
    pub values: &'a [u8],
    /// The first value's place among bits; 0 for others.
    pub first_bit: usize,
    /// A bit for each value that is not NULL, and the first one's place; `None` if no value is NULL.
    pub validity: Option<(&'a [u8], usize)>,
    /// Its values in fewer bytes, if they are at hand: what [bitmaps](crate::BitmapCondition) read in their place.
    pub compressed: Option<CompressedSlice<'a>>,
}

/// A compressed copy of a column: a code for each value, in the order of numbers.
#[derive(Clone, Copy, Debug)]
pub struct CompressedSlice<'a> {
    /// The codes, any for a NULL.
    pub codes: &'a [u8],
    /// Bytes of a code: 1, 2 or 4.
    pub bytes: u8,
    /// What codes mean.
    pub meaning: CodeMeaning<'a>,
}

/// What the codes of a column mean.
#[derive(Clone, Copy, Debug)]
pub enum CodeMeaning<'a> {
    /// A number: by how much it is more than this one.
    Above(i64),
    /// A text: its place among these, which are as a column has them. All that have more than 12 bytes may be one, which equals
    /// no shorter text.
    Texts(&'a [u128]),
}

/// Columns of equal length, as a pipeline declares them.
#[derive(Clone, Debug)]
pub struct PipelineBatch<'a> {
    pub(crate) columns: Vec<ColumnSlice<'a>>,
    pub(crate) rows: usize,
}

impl<'a> PipelineBatch<'a> {
    /// The columns as the pipeline's input; `None` if one of them has fewer than `rows` values, or there are others.
    pub fn new(pipeline: &Pipeline, columns: Vec<ColumnSlice<'a>>, rows: usize) -> Option<PipelineBatch<'a>> {
        let has_bits = |bits: &[u8], first: usize| {
            first.checked_add(rows).is_some_and(|end| bits.len() >= end.div_ceil(8))
        };
        let fits = |(column, declared): (&ColumnSlice<'_>, &InputColumn)| {
            let has_values = match declared.bytes {
                0 => has_bits(column.values, column.first_bit),
                bytes => column.first_bit == 0 && column.values.len() / usize::from(bytes) >= rows,
            };
            let has_codes = |compressed: CompressedSlice<'_>| {
                let is_of_kind = match compressed.meaning {
                    CodeMeaning::Above(_) => declared.kind.is_number() || declared.kind == ValueKind::Date,
                    CodeMeaning::Texts(_) => matches!(declared.kind, ValueKind::Text { .. }),
                };
                let bytes = usize::from(compressed.bytes);
                is_of_kind && matches!(bytes, 1 | 2 | 4) && compressed.codes.len() / bytes >= rows
            };
            has_values
                && column.validity.is_none_or(|(bits, first)| has_bits(bits, first))
                && column.compressed.is_none_or(has_codes)
        };
        let all = columns.len() == pipeline.columns.len() && columns.iter().zip(&pipeline.columns).all(fits);
        all.then_some(PipelineBatch { columns, rows })
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// A bit for each column that has NULLs in it.
    pub fn nulls(&self) -> u64 {
        let bits =
            self.columns.iter().enumerate().map(|(at, column)| u64::from(column.validity.is_some()) << at);
        bits.fold(0, |mask, bit| mask | bit)
    }
}

fn bit(bits: &[u8], at: usize) -> bool {
    bits[at / 8] >> (at % 8) & 1 == 1
}

impl ColumnSlice<'_> {
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.validity.is_none_or(|(bits, first)| bit(bits, first + row))
    }

    fn bytes<const N: usize>(&self, row: usize) -> [u8; N] {
        let at = row * N;
        self.values[at..at + N].try_into().expect("a slice of N bytes")
    }

    /// The value of a row that is not NULL.
    pub(crate) fn value(&self, column: InputColumn, row: usize) -> Datum {
        match (column.kind, column.bytes) {
            (ValueKind::Bool, _) => Datum::Bool(bit(self.values, self.first_bit + row)),
            (ValueKind::Double, _) => Datum::Double(f64::from_ne_bytes(self.bytes(row))),
            (ValueKind::Text { .. }, _) => Datum::Text(u128::from_le_bytes(self.bytes(row))),
            (_, 4) => Datum::Number(i32::from_ne_bytes(self.bytes(row)).into()),
            (_, 8) => Datum::Number(i64::from_ne_bytes(self.bytes(row)).into()),
            _ => Datum::Number(i128::from_ne_bytes(self.bytes(row))),
        }
    }
}

/// A value that is not NULL.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Datum {
    /// A truth value.
    Bool(bool),
    /// An integer, a date's days, or a decimal's unscaled number.
    Number(i128),
    /// A double.
    Double(f64),
    /// The 16 bytes of a short text, the first one lowest.
    Text(u128),
}

impl Datum {
    /// A text of at most 12 bytes.
    pub fn text(text: &str) -> Option<Datum> {
        let mut bytes = [0; 16];
        bytes[0] = u8::try_from(text.len()).ok()?;
        bytes.get_mut(4..4 + text.len())?.copy_from_slice(text.as_bytes());
        Some(Datum::Text(u128::from_le_bytes(bytes)))
    }

    /// The text, of a text.
    pub fn to_text(self) -> Option<String> {
        let Datum::Text(bits) = self else { return None };
        let bytes = bits.to_le_bytes();
        let length = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
        let text = bytes[4..].get(..length as usize)?;
        String::from_utf8(text.to_vec()).ok()
    }

    /// Whether it is of that kind.
    pub(crate) fn is_of(self, kind: ValueKind) -> bool {
        let below = |number: i128, bits: u8| match bits {
            127.. => true,
            bits => number.unsigned_abs() < 1 << bits,
        };
        match (self, kind) {
            (Datum::Bool(_), ValueKind::Bool) | (Datum::Double(_), ValueKind::Double) => true,
            (Datum::Number(number), ValueKind::Int32 | ValueKind::Date) => i32::try_from(number).is_ok(),
            (Datum::Number(number), ValueKind::Int64) => i64::try_from(number).is_ok(),
            (Datum::Number(number), ValueKind::Decimal { bits }) => below(number, bits),
            (Datum::Text(bits), ValueKind::Text { words }) => words == 2 || bits >> 64 == 0,
            _ => false,
        }
    }

    /// The value in words, the lowest first; a number with its sign in all.
    pub(crate) fn words(self) -> [u64; 2] {
        let bits = match self {
            Datum::Bool(value) => u128::from(value),
            Datum::Number(number) => number as u128,
            Datum::Double(value) => u128::from(value.to_bits()),
            Datum::Text(bits) => bits,
        };
        [bits as u64, (bits >> 64) as u64]
    }

    /// The value of that kind that was stored in words.
    pub(crate) fn from_words(kind: ValueKind, words: &[u64]) -> Datum {
        let low = words[0];
        let high = words.get(1).copied();
        match kind {
            ValueKind::Bool => Datum::Bool(low != 0),
            ValueKind::Double => Datum::Double(f64::from_bits(low)),
            ValueKind::Text { .. } => Datum::Text(u128::from(low) | u128::from(high.unwrap_or(0)) << 64),
            _ => match high {
                Some(high) => Datum::Number((u128::from(low) | u128::from(high) << 64) as i128),
                None => Datum::Number((low as i64).into()),
            },
        }
    }
}
