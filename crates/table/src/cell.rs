//! One cell inside of storage: what a value looks like as bits.

use ankerdb_base::{Error, Result, SqlState};
use ankerdb_value::{ArrayRef, DataType, Decimal, Interval, PackedRef, SystemType, Value, ValueRef};

/// Longest byte string that lies in its view.
pub(crate) const INLINE_BYTES: usize = 12;

/// How a column's cells lie in memory (Arrow's physical layouts).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellLayout {
    /// One bit.
    Bit,
    /// 2 bytes.
    Half,
    /// 4 bytes.
    Quad,
    /// 8 bytes.
    Word,
    /// 16 bytes.
    Wide,
    /// A 16-byte view of a byte string: its length, and the bytes themselves (12 at most) or their first four
    /// and their place in a heap.
    View,
}

impl CellLayout {
    /// Whether a cell is written by several stores and half of one is no cell: views and wide numbers. (A cell that may be
    /// NULL has a validity bit besides, but each combination of bit and value is a cell.)
    #[inline]
    pub(crate) fn is_compound(self) -> bool {
        matches!(self, CellLayout::Wide | CellLayout::View)
    }

    /// The layout of a type. Numerics take the narrowest integer that holds their digits.
    ///
    /// # Errors
    /// `InternalError` if the value is of another type: callers convert before they store.
    pub fn of(data_type: DataType) -> CellLayout {
        match data_type {
            DataType::Boolean => CellLayout::Bit,
            DataType::SmallInt => CellLayout::Half,
            DataType::Integer | DataType::Real | DataType::Date => CellLayout::Quad,
            DataType::BigInt | DataType::DoublePrecision => CellLayout::Word,
            DataType::Timestamp(_) | DataType::TimestampTz(_) | DataType::Time(_) => CellLayout::Word,
            DataType::Enum(_) => CellLayout::Word,
            DataType::Numeric { precision: 0..=9, .. } => CellLayout::Quad,
            DataType::Numeric { precision: 10..=18, .. } => CellLayout::Word,
            DataType::Numeric { .. } | DataType::Uuid | DataType::Interval(_) => CellLayout::Wide,
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Bytea => CellLayout::View,
            DataType::Number | DataType::Json | DataType::Jsonb | DataType::Packed(_) => CellLayout::View,
            DataType::System(system) if system.is_number() => CellLayout::Word,
            DataType::System(_) => CellLayout::View,
        }
    }

    /// Bytes that `rows` cells take.
    pub fn bytes(self, rows: usize) -> usize {
        match self {
            CellLayout::Bit => rows.div_ceil(8),
            CellLayout::Half => rows * 2,
            CellLayout::Quad => rows * 4,
            CellLayout::Word => rows * 8,
            CellLayout::Wide | CellLayout::View => rows * 16,
        }
    }
}

/// A cell's content, borrowed. Narrow integers are sign-extended into the word; floats are their bits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cell<'a> {
    /// NULL
    Null,
    /// Up to 64 bits.
    Word(u64),
    /// 128 bits.
    Wide(u128),
    /// A byte string.
    Bytes(&'a [u8]),
}

/// A cell's content, owned.
#[derive(Clone, PartialEq, Default, Debug)]
pub enum OwnedCell {
    /// NULL
    #[default]
    Null,
    /// Up to 64 bits.
    Word(u64),
    /// 128 bits, the lower half first: a `u128` would make every cell larger for its alignment.
    Wide([u64; 2]),
    /// A byte string.
    Bytes(Box<[u8]>),
}

impl OwnedCell {
    /// The cell, borrowed.
    pub fn borrow(&self) -> Cell<'_> {
        match self {
            OwnedCell::Null => Cell::Null,
            OwnedCell::Word(word) => Cell::Word(*word),
            OwnedCell::Wide([low, high]) => Cell::Wide(*low as u128 | (*high as u128) << 64),
            OwnedCell::Bytes(bytes) => Cell::Bytes(bytes),
        }
    }
}

impl Cell<'static> {
    /// A smallint.
    pub const fn smallint(value: i16) -> Cell<'static> {
        Cell::Word(value as i64 as u64)
    }

    /// An integer or a date.
    pub const fn integer(value: i32) -> Cell<'static> {
        Cell::Word(value as i64 as u64)
    }

    /// A bigint, a timestamp, a time of day, the position of a label, or the unscaled digits of a numeric of at most 18.
    pub const fn bigint(value: i64) -> Cell<'static> {
        Cell::Word(value as u64)
    }
}

impl<'a> Cell<'a> {
    /// The bits of a value in a column of this type.
    ///
    /// # Errors
    /// XX000 for a value that is not of the column's type, 0A000 for an array of several dimensions, or one that does not count from
    /// 1: analytical queries have no such lists.
    pub fn of(value: &'a Value, data_type: DataType) -> Result<Cell<'a>> {
        Cell::of_borrowed(ValueRef::from(value), data_type)
    }

    /// Like [`of`](Self::of), for a value that borrows its text or bytes.
    ///
    /// # Errors
    /// Those of [`of`](Self::of).
    #[inline]
    pub fn of_borrowed(value: ValueRef<'a>, data_type: DataType) -> Result<Cell<'a>> {
        Ok(match (value, data_type) {
            (ValueRef::Null, _) => Cell::Null,
            (ValueRef::Boolean(value), DataType::Boolean) => Cell::Word(value as u64),
            (ValueRef::SmallInt(value), DataType::SmallInt) => Cell::smallint(value),
            (ValueRef::Integer(value), DataType::Integer) | (ValueRef::Date(value), DataType::Date) => {
                Cell::integer(value)
            }
            (ValueRef::BigInt(value), DataType::System(system)) if system.is_number() => Cell::bigint(value),
            (ValueRef::BigInt(value), DataType::BigInt)
            | (ValueRef::Timestamp(value), DataType::Timestamp(_))
            | (ValueRef::TimestampTz(value), DataType::TimestampTz(_))
            | (ValueRef::Time(value), DataType::Time(_)) => Cell::bigint(value),
            (ValueRef::Real(value), DataType::Real) => Cell::Word(value.to_bits() as u64),
            (ValueRef::Double(value), DataType::DoublePrecision) => Cell::Word(value.to_bits()),
            (ValueRef::Numeric(value), DataType::Numeric { scale, .. }) if value.scale == scale => {
                match CellLayout::of(data_type) {
                    CellLayout::Wide => Cell::Wide(value.unscaled as u128),
                    _ => Cell::Word(value.unscaled as i64 as u64),
                }
            }
            (ValueRef::Enum(value), DataType::Enum(labels)) if value.enum_type == labels => {
                Cell::bigint(value.position)
            }
            (ValueRef::Uuid(value), DataType::Uuid) => Cell::Wide(u128::from_le_bytes(value)),
            (ValueRef::Interval(value), DataType::Interval(_)) => Cell::Wide(value.to_bits()),
            (ValueRef::Text(value), _) if data_type.is_text() || data_type.is_document() => {
                Cell::Bytes(value.as_bytes())
            }
            (ValueRef::Number(text), DataType::Number) => Cell::Bytes(text.as_bytes()),
            (ValueRef::Packed(packed), DataType::Packed(known)) if packed.is_of(known) => {
                Cell::Bytes(packed.bytes())
            }
            (ValueRef::Bytea(value), DataType::Bytea) => Cell::Bytes(value),
            (ValueRef::Array(array), DataType::System(SystemType::List(list)))
                if array.list_type() == list.unlimited() =>
            {
                array_cell(array)?
            }
            _ => return Err(misfit(value, data_type)),
        })
    }

    /// The value that these bits are in a column of this type. Allocates for text, bytea and arrays.
    pub fn to_value(self, data_type: DataType) -> Value {
        self.to_borrowed(data_type).to_value()
    }

    /// Like [`to_value`](Self::to_value), without a copy of text or bytes.
    #[inline]
    pub fn to_borrowed(self, data_type: DataType) -> ValueRef<'a> {
        match (self, data_type) {
            (Cell::Null, _) => ValueRef::Null,
            (Cell::Word(word), DataType::Boolean) => ValueRef::Boolean(word != 0),
            (Cell::Word(word), DataType::SmallInt) => ValueRef::SmallInt(word as i16),
            (Cell::Word(word), DataType::Integer) => ValueRef::Integer(word as i32),
            (Cell::Word(word), DataType::BigInt) => ValueRef::BigInt(word as i64),
            (Cell::Word(word), DataType::System(_)) => ValueRef::BigInt(word as i64),
            (Cell::Word(word), DataType::Real) => ValueRef::Real(f32::from_bits(word as u32)),
            (Cell::Word(word), DataType::DoublePrecision) => ValueRef::Double(f64::from_bits(word)),
            (Cell::Word(word), DataType::Date) => ValueRef::Date(word as i32),
            (Cell::Word(word), DataType::Timestamp(_)) => ValueRef::Timestamp(word as i64),
            (Cell::Word(word), DataType::TimestampTz(_)) => ValueRef::TimestampTz(word as i64),
            (Cell::Word(word), DataType::Time(_)) => ValueRef::Time(word as i64),
            (Cell::Word(word), DataType::Enum(labels)) => ValueRef::Enum(labels.at(word as i64)),
            (Cell::Word(word), DataType::Numeric { scale, .. }) => {
                ValueRef::Numeric(Decimal::new(word as i64 as i128, scale))
            }
            (Cell::Wide(wide), DataType::Numeric { scale, .. }) => {
                ValueRef::Numeric(Decimal::new(wide as i128, scale))
            }
            (Cell::Wide(wide), DataType::Uuid) => ValueRef::Uuid(wide.to_le_bytes()),
            (Cell::Wide(wide), DataType::Interval(_)) => ValueRef::Interval(Interval::from_bits(wide)),
            (Cell::Bytes(bytes), DataType::Bytea) => ValueRef::Bytea(bytes),
            (Cell::Bytes(bytes), DataType::Number) => ValueRef::Number(stored_text(bytes)),
            (Cell::Bytes(bytes), DataType::Packed(packed)) => ValueRef::Packed(PackedRef::new(packed, bytes)),
            (Cell::Bytes(bytes), DataType::System(SystemType::List(_))) => {
                ValueRef::Array(ArrayRef::from_bytes(bytes))
            }
            (Cell::Bytes(bytes), _) if data_type.is_text() || data_type.is_document() => {
                ValueRef::Text(stored_text(bytes))
            }
            (cell, _) => unreachable!("{cell:?} in a column of type {data_type}"),
        }
    }

    /// The bytes of a string that does not fit into its view.
    #[inline]
    pub(crate) fn long_bytes(self) -> Option<&'a [u8]> {
        match self {
            Cell::Bytes(bytes) if bytes.len() > INLINE_BYTES => Some(bytes),
            _ => None,
        }
    }

    /// An owned copy.
    pub fn to_owned(self) -> OwnedCell {
        match self {
            Cell::Null => OwnedCell::Null,
            Cell::Word(word) => OwnedCell::Word(word),
            Cell::Wide(wide) => OwnedCell::Wide([wide as u64, (wide >> 64) as u64]),
            Cell::Bytes(bytes) => OwnedCell::Bytes(bytes.into()),
        }
    }
}

fn stored_text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("stored text is UTF-8")
}

/// An array as it is stored.
fn array_cell(array: ArrayRef<'_>) -> Result<Cell<'_>> {
    if array.is_plain() {
        return Ok(Cell::Bytes(array.as_bytes()));
    }
    let message =
        "an array of several dimensions, or one that does not count from 1, in a column is not supported";
    Err(Error::new(SqlState::FeatureNotSupported, message))
}

#[cold]
fn misfit(value: ValueRef<'_>, data_type: DataType) -> Error {
    Error::internal(format!("{value:?} is not a value of type {data_type}"))
}
