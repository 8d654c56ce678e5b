//! Arrays: a run of items of one type in up to six dimensions, in one piece of memory.
//!
//! ```text
//! item type  dimensions d  NULLs?  | length, lower bound (d times) | bits of NULLs, if any | items that are not NULL
//!     1           1          1     |       4 + 4 each, little end   |   1 for each 8 items   | numbers as they are,
//!                                                                                              texts after their length
//! ```
//! The items of a type of labels are their positions, and behind them stands the number of the type, in 4 bytes.
//!
//! So an array is copied, stored and lent like a text, and read from front to back without an allocation. An array without
//! items has no dimensions. Nothing here knows how arrays are written (`array_text`) or how they compare (`array_order`).

use crate::{
    DataType, Decimal, EnumType, Interval, ItemLimit, ListType, Number, PackedRef, SystemType, Value,
    ValueRef,
};
use ankerdb_base::{Error, Result, SqlState};

/// The most dimensions, as in PostgreSQL.
pub(crate) const DIMENSIONS_MAX: usize = 6;
/// The most items, as in PostgreSQL.
const ITEMS_MAX: usize = 134_217_727;
/// The most bytes, as of a text.
const BYTES_MAX: usize = 1 << 30;

const HEADER_BYTES: usize = 3;
const DIMENSION_BYTES: usize = 8;
/// The item type of arrays whose last bytes tell it.
const TOLD_BEHIND: u8 = u8::MAX;

/// One dimension of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dimension {
    /// How many items, or arrays of the next dimension, it has.
    pub length: u32,
    /// The position of the first one.
    pub lower: i32,
}

impl Dimension {
    /// The position of the last one.
    pub fn upper(self) -> i64 {
        i64::from(self.lower) + i64::from(self.length) - 1
    }
}

/// An array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array(Box<[u8]>);

impl Array {
    /// An array without items.
    pub fn empty(list: ListType) -> Array {
        let mut bytes = vec![tag(list), 0, 0];
        push_told(list, &mut bytes);
        Array(bytes.into())
    }

    /// To be read.
    pub fn borrow(&self) -> ArrayRef<'_> {
        ArrayRef(&self.0)
    }
}

/// An array where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrayRef<'a>(&'a [u8]);

impl<'a> ArrayRef<'a> {
    /// An array by its bytes, which are those of [`as_bytes`](Self::as_bytes). Of others nothing is known but that they can be read.
    pub fn from_bytes(bytes: &'a [u8]) -> ArrayRef<'a> {
        ArrayRef(bytes)
    }

    /// The bytes, to be stored.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// An array of its own.
    pub fn to_array(self) -> Array {
        Array(self.0.into())
    }

    /// The type.
    pub fn list_type(self) -> ListType {
        let tag = self.0.first().copied().unwrap_or_default();
        if let (TOLD_BEHIND, Some(number)) = (tag, self.0.last_chunk()) {
            return EnumType::by_number(u32::from_le_bytes(*number)).map_or(ListType::Text, ListType::Enum);
        }
        let at = usize::from(tag);
        ListType::ARRAYS.get(at).copied().unwrap_or(ListType::Text)
    }

    /// The bytes as they are stored on disk: with the number of a type of labels that is the same in every process.
    pub fn to_stored(self) -> Vec<u8> {
        let mut bytes = self.0.to_vec();
        if let ListType::Enum(labels) = self.list_type()
            && let Some(number) = bytes.last_chunk_mut()
        {
            *number = labels.oid().to_le_bytes();
        }
        bytes
    }

    /// Makes bytes that were stored on disk those of an array: `labels` finds the type of labels with a number there.
    ///
    /// # Errors
    /// `DataCorrupted` if there is none.
    pub fn restore(bytes: &mut [u8], labels: impl FnOnce(u32) -> Option<EnumType>) -> Result<()> {
        if bytes.first() != Some(&TOLD_BEHIND) {
            return Ok(());
        }
        let damaged = || Error::new(SqlState::DataCorrupted, "an array is of a type that there is not");
        let number = bytes.last_chunk_mut().ok_or_else(damaged)?;
        *number = labels(u32::from_le_bytes(*number)).ok_or_else(damaged)?.number().to_le_bytes();
        Ok(())
    }

    /// The type's name.
    pub fn type_name(self) -> &'static str {
        SystemType::List(self.list_type()).name()
    }

    /// The dimensions, from the outermost in; none without items.
    pub fn dimensions(self) -> impl ExactSizeIterator<Item = Dimension> + 'a {
        let (pairs, _) = self.0.get(HEADER_BYTES..).unwrap_or_default().as_chunks::<DIMENSION_BYTES>();
        let count = self.0.get(1).map_or(0, |count| usize::from(*count));
        pairs[..count.min(pairs.len())].iter().map(|pair| {
            let [a, b, c, d, e, f, g, h] = *pair;
            Dimension { length: u32::from_le_bytes([a, b, c, d]), lower: i32::from_le_bytes([e, f, g, h]) }
        })
    }

    /// The number of items in all dimensions.
    pub fn len(self) -> usize {
        match self.dimensions().len() {
            0 => 0,
            _ => self.dimensions().map(|dimension| dimension.length as usize).product(),
        }
    }

    /// Whether there are no items.
    pub fn is_empty(self) -> bool {
        self.dimensions().len() == 0
    }

    /// Whether it has at most one dimension, counted from 1.
    pub fn is_plain(self) -> bool {
        self.dimensions().len() < 2 && self.dimensions().all(|dimension| dimension.lower == 1)
    }

    /// Whether an item is NULL.
    pub fn has_null(self) -> bool {
        self.0.get(2).is_some_and(|flag| *flag == 1)
    }

    /// The items, those of the last dimension next to each other. A few nanoseconds each.
    pub fn items(self) -> Items<'a> {
        let rest = self.0.get(HEADER_BYTES + self.dimensions().len() * DIMENSION_BYTES..).unwrap_or_default();
        let nulls = if self.has_null() { self.len().div_ceil(8) } else { 0 };
        let (nulls, items) = rest.split_at(nulls.min(rest.len()));
        Items { list: self.list_type(), nulls, rest: items, next: 0, count: self.len() }
    }
}

/// In place of the scale of a numeric whose text follows, since 38 digits do not hold it.
const ANY_LENGTH: u8 = u8::MAX;

/// The items of an array.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    list: ListType,
    nulls: &'a [u8],
    rest: &'a [u8],
    next: usize,
    count: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = ValueRef<'a>;

    fn next(&mut self) -> Option<ValueRef<'a>> {
        if self.next == self.count {
            return None;
        }
        let at = self.next;
        self.next += 1;
        if self.nulls.get(at / 8).is_some_and(|bits| bits >> (at % 8) & 1 == 1) {
            return Some(ValueRef::Null);
        }
        Some(self.item().unwrap_or(ValueRef::Null))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count - self.next, Some(self.count - self.next))
    }
}

impl ExactSizeIterator for Items<'_> {}

impl<'a> Items<'a> {
    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*first)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.fixed()?) as usize;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    fn item(&mut self) -> Option<ValueRef<'a>> {
        Some(match self.list {
            ListType::Boolean => ValueRef::Boolean(self.fixed::<1>()? != [0]),
            ListType::SmallInt => ValueRef::SmallInt(i16::from_le_bytes(self.fixed()?)),
            ListType::Integer => ValueRef::Integer(i32::from_le_bytes(self.fixed()?)),
            ListType::BigInt | ListType::Oid => ValueRef::BigInt(i64::from_le_bytes(self.fixed()?)),
            ListType::Real => ValueRef::Real(f32::from_le_bytes(self.fixed()?)),
            ListType::DoublePrecision => ValueRef::Double(f64::from_le_bytes(self.fixed()?)),
            ListType::Numeric => {
                let [scale] = self.fixed()?;
                match scale {
                    ANY_LENGTH => ValueRef::Number(std::str::from_utf8(self.bytes()?).ok()?),
                    _ => ValueRef::Numeric(Decimal::new(i128::from_le_bytes(self.fixed()?), scale)),
                }
            }
            ListType::Date => ValueRef::Date(i32::from_le_bytes(self.fixed()?)),
            ListType::Timestamp => ValueRef::Timestamp(i64::from_le_bytes(self.fixed()?)),
            ListType::TimestampTz => ValueRef::TimestampTz(i64::from_le_bytes(self.fixed()?)),
            ListType::Time => ValueRef::Time(i64::from_le_bytes(self.fixed()?)),
            ListType::Interval => ValueRef::Interval(Interval::from_bits(u128::from_le_bytes(self.fixed()?))),
            ListType::Uuid => ValueRef::Uuid(self.fixed()?),
            ListType::Packed(packed) => ValueRef::Packed(PackedRef::new(packed, self.bytes()?)),
            ListType::Enum(labels) => ValueRef::Enum(labels.at(i64::from_le_bytes(self.fixed()?))),
            ListType::Bytea => ValueRef::Bytea(self.bytes()?),
            ListType::Text
            | ListType::Varchar
            | ListType::Bpchar
            | ListType::Name
            | ListType::Char
            | ListType::Row(_) => ValueRef::Text(std::str::from_utf8(self.bytes()?).ok()?),
            // Vectors of the catalog are texts, and values have no limits.
            ListType::SmallIntVector | ListType::OidVector | ListType::Limited(_) => return None,
        })
    }
}

/// The number that stands for a type.
fn tag(list: ListType) -> u8 {
    let list = match list.unlimited() {
        ListType::Enum(_) => return TOLD_BEHIND,
        ListType::Row(_) => ListType::Text,
        other => other,
    };
    ListType::ARRAYS.iter().position(|known| *known == list).unwrap_or_default() as u8
}

/// Appends what tells the type of the items where the tag does not.
fn push_told(list: ListType, out: &mut Vec<u8>) {
    if let ListType::Enum(labels) = list {
        out.extend_from_slice(&labels.number().to_le_bytes());
    }
}

/// An array that is being made, item by item.
#[derive(Debug)]
pub struct ArrayBuilder {
    list: ListType,
    nulls: Vec<u8>,
    has_null: bool,
    items: Vec<u8>,
    count: usize,
}

impl ArrayBuilder {
    /// Without items. A limit of items is not looked at.
    pub fn new(list: ListType) -> ArrayBuilder {
        let list = list.unlimited();
        ArrayBuilder { list, nulls: Vec::new(), has_null: false, items: Vec::new(), count: 0 }
    }

    /// The type of the items.
    pub fn item_type(&self) -> DataType {
        self.list.item_type()
    }

    /// The number of items so far.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no items so far.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends an item, which is NULL or of the variant that the type's items have.
    ///
    /// # Errors
    /// 54000 for more items or bytes than an array can have, an internal error for a value of another type.
    pub fn push(&mut self, item: ValueRef<'_>) -> Result<()> {
        if self.count == ITEMS_MAX {
            return Err(too_many());
        }
        if self.count.is_multiple_of(8) {
            self.nulls.push(0);
        }
        if item.is_null() {
            self.has_null = true;
            if let Some(bits) = self.nulls.last_mut() {
                *bits |= 1 << (self.count % 8);
            }
        } else {
            self.push_bytes(item)?;
        }
        self.count += 1;
        Ok(())
    }

    fn push_bytes(&mut self, item: ValueRef<'_>) -> Result<()> {
        let out = &mut self.items;
        match (self.list, item) {
            (ListType::Boolean, ValueRef::Boolean(value)) => out.push(u8::from(value)),
            (ListType::SmallInt, ValueRef::SmallInt(value)) => out.extend_from_slice(&value.to_le_bytes()),
            (ListType::Integer, ValueRef::Integer(value)) | (ListType::Date, ValueRef::Date(value)) => {
                out.extend_from_slice(&value.to_le_bytes());
            }
            (ListType::BigInt | ListType::Oid, ValueRef::BigInt(value))
            | (ListType::Timestamp, ValueRef::Timestamp(value))
            | (ListType::TimestampTz, ValueRef::TimestampTz(value))
            | (ListType::Time, ValueRef::Time(value)) => out.extend_from_slice(&value.to_le_bytes()),
            (ListType::Real, ValueRef::Real(value)) => out.extend_from_slice(&value.to_le_bytes()),
            (ListType::DoublePrecision, ValueRef::Double(value)) => {
                out.extend_from_slice(&value.to_le_bytes())
            }
            (ListType::Numeric, ValueRef::Numeric(value)) => {
                out.push(value.scale);
                out.extend_from_slice(&value.unscaled.to_le_bytes());
            }
            (ListType::Numeric, ValueRef::Number(text)) => {
                let number = Number::read(text);
                let short = number.to_decimal();
                match short.filter(|short| number.scale() == Some(i32::from(short.scale))) {
                    Some(value) => {
                        out.push(value.scale);
                        out.extend_from_slice(&value.unscaled.to_le_bytes());
                    }
                    None => {
                        out.push(ANY_LENGTH);
                        push_counted(text.as_bytes(), out)?;
                    }
                }
            }
            (ListType::Interval, ValueRef::Interval(value)) => {
                out.extend_from_slice(&value.to_bits().to_le_bytes())
            }
            (ListType::Uuid, ValueRef::Uuid(bytes)) => out.extend_from_slice(&bytes),
            (ListType::Enum(labels), ValueRef::Enum(value)) if value.enum_type == labels => {
                out.extend_from_slice(&value.position.to_le_bytes());
            }
            (ListType::Packed(known), ValueRef::Packed(packed)) if packed.is_of(known) => {
                push_counted(packed.bytes(), out)?;
            }
            (ListType::Bytea, ValueRef::Bytea(bytes)) => push_counted(bytes, out)?,
            (
                ListType::Text
                | ListType::Varchar
                | ListType::Bpchar
                | ListType::Name
                | ListType::Char
                | ListType::Row(_),
                ValueRef::Text(text),
            ) => push_counted(text.as_bytes(), out)?,
            (list, item) => {
                let (list, item) = (SystemType::List(list), item.to_value());
                return Err(Error::internal(format!("a {} in an array of type {list}", item.type_name())));
            }
        }
        if out.len() > BYTES_MAX { Err(too_large()) } else { Ok(()) }
    }

    /// The array, of one dimension that counts from 1.
    pub fn finish(self) -> Array {
        let length = self.count as u32;
        self.with(&[Dimension { length, lower: 1 }])
    }

    /// The array in these dimensions.
    ///
    /// # Errors
    /// An internal error if they have another number of items, 54000 for positions beyond 32 bits.
    pub fn finish_in(self, dimensions: &[Dimension]) -> Result<Array> {
        let mut items = usize::from(!dimensions.is_empty());
        for dimension in dimensions {
            items = items.checked_mul(dimension.length as usize).ok_or_else(too_many)?;
            if dimension.upper() >= i64::from(i32::MAX) {
                let message = format!("array lower bound is too large: {}", dimension.lower);
                return Err(Error::new(SqlState::ProgramLimitExceeded, message));
            }
        }
        match items == self.count && dimensions.len() <= DIMENSIONS_MAX {
            true => Ok(self.with(dimensions)),
            false => Err(Error::internal("an array has other items than its dimensions")),
        }
    }

    fn with(self, dimensions: &[Dimension]) -> Array {
        if self.count == 0 {
            return Array::empty(self.list);
        }
        let nulls: &[u8] = if self.has_null { &self.nulls } else { &[] };
        let mut bytes = Vec::with_capacity(
            HEADER_BYTES + dimensions.len() * DIMENSION_BYTES + nulls.len() + self.items.len(),
        );
        bytes.extend_from_slice(&[tag(self.list), dimensions.len() as u8, u8::from(self.has_null)]);
        for dimension in dimensions {
            bytes.extend_from_slice(&dimension.length.to_le_bytes());
            bytes.extend_from_slice(&dimension.lower.to_le_bytes());
        }
        bytes.extend_from_slice(nulls);
        bytes.extend_from_slice(&self.items);
        push_told(self.list, &mut bytes);
        Array(bytes.into())
    }
}

fn push_counted(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| too_large())?;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

fn too_many() -> Error {
    let message = format!("array size exceeds the maximum allowed ({ITEMS_MAX})");
    Error::new(SqlState::ProgramLimitExceeded, message)
}

fn too_large() -> Error {
    let message = format!("array size exceeds the maximum allowed ({BYTES_MAX} bytes)");
    Error::new(SqlState::ProgramLimitExceeded, message)
}

/// The array with its items as values of another type.
///
/// # Errors
/// Those of `item`, and 54000 if it becomes too large.
pub(crate) fn converted(
    array: ArrayRef<'_>,
    list: ListType,
    item: impl Fn(Value, DataType) -> Result<Value>,
) -> Result<Array> {
    let mut builder = ArrayBuilder::new(list);
    for value in array.items() {
        // Numerics keep their own digits.
        let converted = match (value, list) {
            (ValueRef::Numeric(_) | ValueRef::Number(_), ListType::Numeric) => value.to_value(),
            (_, ListType::Numeric) => item(value.to_value(), DataType::Number)?,
            _ => item(value.to_value(), list.item_type())?,
        };
        builder.push((&converted).into())?;
    }
    builder.finish_in(&array.dimensions().collect::<Vec<_>>())
}

/// The array with its items as values of their limited type.
///
/// # Errors
/// Those of `item`, and 54000 if it becomes too large.
pub(crate) fn limited(
    array: ArrayRef<'_>,
    limit: ItemLimit,
    item: impl Fn(Value, DataType) -> Result<Value>,
) -> Result<Array> {
    let mut builder = ArrayBuilder::new(array.list_type());
    for value in array.items() {
        builder.push((&item(value.to_value(), limit.item_type())?).into())?;
    }
    builder.finish_in(&array.dimensions().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(list: ListType, items: &[Value]) -> Array {
        let mut builder = ArrayBuilder::new(list);
        items.iter().for_each(|item| builder.push(item.into()).unwrap());
        builder.finish()
    }

    #[test]
    fn items_come_back() {
        let texts = [Value::text("a"), Value::Null, Value::text(""), Value::text("ä")];
        let array = built(ListType::Text, &texts);
        assert_eq!(array.borrow().items().map(ValueRef::to_value).collect::<Vec<_>>(), texts);
        assert_eq!((array.borrow().len(), array.borrow().has_null()), (4, true));
        let many: Vec<Value> =
            (0..100).map(|n| if n % 7 == 0 { Value::Null } else { Value::BigInt(n) }).collect();
        let array = built(ListType::BigInt, &many);
        assert_eq!(array.borrow().items().map(ValueRef::to_value).collect::<Vec<_>>(), many);
        let numbers = [Value::Numeric(Decimal::new(-15, 1)), Value::Numeric(Decimal::new(150, 2))];
        let array = built(ListType::Numeric, &numbers);
        assert_eq!(array.borrow().items().map(ValueRef::to_value).collect::<Vec<_>>(), numbers);
        assert!(built(ListType::Integer, &[]).borrow().is_empty());
    }

    #[test]
    fn every_type_of_array_knows_its_items() {
        for list in ListType::ARRAYS {
            assert_eq!(Array::empty(list).borrow().list_type(), list);
        }
        assert_eq!(ListType::of(DataType::Varchar(3)), Some(ListType::Varchar));
        assert_eq!(ListType::of(DataType::Integer), Some(ListType::Integer));
        assert_eq!(ListType::of(DataType::Json), None);
    }

    #[test]
    fn misfits_are_refused() {
        let mut builder = ArrayBuilder::new(ListType::Integer);
        assert!(builder.push(ValueRef::BigInt(1)).is_err());
        builder.push(ValueRef::Integer(1)).unwrap();
        assert!(builder.finish_in(&[Dimension { length: 2, lower: 1 }]).is_err());
        let mut builder = ArrayBuilder::new(ListType::Integer);
        builder.push(ValueRef::Integer(1)).unwrap();
        let refused = builder.finish_in(&[Dimension { length: 1, lower: i32::MAX }]).unwrap_err();
        assert_eq!(refused.state(), SqlState::ProgramLimitExceeded);
    }
}
