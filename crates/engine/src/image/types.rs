//! Types and values as bytes. Types of users stand there by the numbers that clients know, which are the same in every process.

use super::bytes::{ByteReader, Writer, damaged};
use ankerdb_base::Result;
use ankerdb_value::{
    Array, ArrayRef, BitLength, DataType, Decimal, DomainType, EnumType, Interval, IntervalLimit, ItemLimit,
    KeptName, ListType, MAX_NUMERIC_PRECISION, Number, ObjectKind, PackedRef, PackedType, Precision,
    RangeType, RowType, SystemType, Value, renumbered,
};
use std::collections::HashMap;

/// The types of users that stored bytes name, as this process knows them.
#[derive(Clone, Default, Debug)]
pub struct StoredTypes {
    pub(super) labels: HashMap<u32, EnumType>,
    pub(super) domains: HashMap<u32, DomainType>,
}

impl StoredTypes {
    /// Makes an array that was stored (see [`ArrayRef::to_stored`]) one of this process. Other arrays stay as they are.
    ///
    /// # Errors
    /// `DataCorrupted` if it is of a type that there is not.
    pub fn restore_array(&self, bytes: &mut [u8]) -> Result<()> {
        ArrayRef::restore(bytes, |oid| self.labels.get(&oid).copied())
    }

    fn labels(&self, oid: u32) -> Result<EnumType> {
        self.labels.get(&oid).copied().ok_or_else(|| damaged("a type of labels is missing"))
    }

    pub(super) fn domain(&self, oid: u32) -> Result<DomainType> {
        self.domains.get(&oid).copied().ok_or_else(|| damaged("a domain is missing"))
    }

    /// A text of SQL as it is kept in this process.
    pub(super) fn sql(&self, reader: &mut ByteReader<'_>) -> Result<String> {
        renumbered(reader.text()?, |name| {
            Ok(match name {
                KeptName::Enum(oid) => self.labels(oid)?.number(),
                KeptName::Domain(oid) => self.domain(oid)?.number(),
            })
        })
    }

    pub(super) fn data_type(&self, reader: &mut ByteReader<'_>) -> Result<DataType> {
        Ok(match reader.byte()? {
            1 => DataType::Boolean,
            2 => DataType::SmallInt,
            3 => DataType::Integer,
            4 => DataType::BigInt,
            5 => DataType::Real,
            6 => DataType::DoublePrecision,
            7 => {
                let [precision, scale] = reader.fixed()?;
                if !(1..=MAX_NUMERIC_PRECISION).contains(&precision) || scale > precision {
                    return Err(damaged("a numeric has other digits than there can be"));
                }
                DataType::Numeric { precision, scale }
            }
            8 => DataType::Number,
            9 => DataType::Text,
            10 => DataType::Varchar(reader.u32()?),
            11 => DataType::Char(reader.u32()?),
            12 => DataType::Date,
            13 => DataType::Timestamp(precision(reader)?),
            14 => DataType::TimestampTz(precision(reader)?),
            15 => DataType::Time(precision(reader)?),
            16 => DataType::Interval(IntervalLimit::of_modifier(reader.u32()? as i32)),
            17 => DataType::Bytea,
            18 => DataType::Uuid,
            19 => DataType::Json,
            20 => DataType::Jsonb,
            21 => DataType::Packed(packed_type(reader)?),
            22 => DataType::Enum(self.labels(reader.u32()?)?),
            23 => DataType::System(reader.inside(|reader| self.system_type(reader))?),
            _ => return Err(damaged("a type is unknown")),
        })
    }

    fn system_type(&self, reader: &mut ByteReader<'_>) -> Result<SystemType> {
        Ok(match reader.byte()? {
            1 => SystemType::Oid,
            2 => SystemType::Name,
            3 => SystemType::Char,
            4 => SystemType::Object(found(&OBJECTS, reader)?),
            5 => SystemType::List(self.list_type(reader)?),
            6 => SystemType::Row(self.row_type(reader)?),
            7 => SystemType::JsonPath,
            _ => return Err(damaged("a type is unknown")),
        })
    }

    fn list_type(&self, reader: &mut ByteReader<'_>) -> Result<ListType> {
        Ok(match reader.byte()? {
            LIST_PACKED => ListType::Packed(packed_type(reader)?),
            LIST_ENUM => ListType::Enum(self.labels(reader.u32()?)?),
            LIST_ROW => ListType::Row(self.row_type(reader)?),
            LIST_LIMITED => {
                let limit = ItemLimit::by_number(reader.u32()?);
                ListType::Limited(limit.ok_or_else(|| damaged("a limit of items is none"))?)
            }
            at => *LISTS.get(usize::from(at)).ok_or_else(|| damaged("a type is unknown"))?,
        })
    }

    fn row_type(&self, reader: &mut ByteReader<'_>) -> Result<RowType> {
        let count = reader.place()?;
        let mut fields = Vec::new();
        for _ in 0..count {
            fields.push(self.data_type(reader)?);
        }
        RowType::of(fields)
    }

    pub(super) fn value(&self, reader: &mut ByteReader<'_>) -> Result<Value> {
        Ok(match reader.byte()? {
            0 => Value::Null,
            1 => Value::Boolean(reader.byte()? != 0),
            2 => Value::SmallInt(i16::from_le_bytes(reader.fixed()?)),
            3 => Value::Integer(i32::from_le_bytes(reader.fixed()?)),
            4 => Value::BigInt(reader.i64()?),
            5 => Value::Real(f32::from_le_bytes(reader.fixed()?)),
            6 => Value::Double(f64::from_le_bytes(reader.fixed()?)),
            7 => {
                let scale = reader.byte()?;
                let unscaled = i128::from_le_bytes(reader.fixed()?);
                let has_room = unscaled.unsigned_abs() < 10u128.pow(u32::from(MAX_NUMERIC_PRECISION));
                if scale > MAX_NUMERIC_PRECISION || !has_room {
                    return Err(damaged("a numeric has more digits than there can be"));
                }
                Value::Numeric(Decimal::new(unscaled, scale))
            }
            8 => Value::number(&Number::parse(reader.text()?).map_err(|_| damaged("a number is none"))?),
            9 => Value::text(reader.text()?),
            12 => Value::Date(i32::from_le_bytes(reader.fixed()?)),
            13 => Value::Timestamp(reader.i64()?),
            14 => Value::TimestampTz(reader.i64()?),
            15 => Value::Time(reader.i64()?),
            16 => Value::Interval(Interval::from_bits(u128::from_le_bytes(reader.fixed()?))),
            17 => Value::Bytea(reader.counted()?.into()),
            18 => Value::Uuid(reader.fixed()?),
            21 => {
                let packed = packed_type(reader)?;
                let value = packed.from_wire(reader.counted()?);
                Value::Packed(value.map_err(|_| damaged("a value is none of its type"))?)
            }
            22 => Value::Enum(self.labels(reader.u32()?)?.at(reader.i64()?)),
            24 => Value::Array(self.array(reader.counted()?)?),
            _ => return Err(damaged("a value is of an unknown type")),
        })
    }

    fn array(&self, bytes: &[u8]) -> Result<Array> {
        let mut bytes = bytes.to_vec();
        self.restore_array(&mut bytes)?;
        Ok(ArrayRef::from_bytes(&bytes).to_array())
    }
}

/// The digits that are declared, if any are.
const NO_PRECISION: u8 = u8::MAX;
const OBJECTS: [ObjectKind; 5] =
    [ObjectKind::Class, ObjectKind::Type, ObjectKind::Function, ObjectKind::Namespace, ObjectKind::Role];
const RANGES: [RangeType; 5] =
    [RangeType::Integer, RangeType::BigInt, RangeType::Date, RangeType::Timestamp, RangeType::TimestampTz];
/// Lists by their places here, which never change.
const LISTS: [ListType; 22] = [
    ListType::SmallIntVector,
    ListType::OidVector,
    ListType::Boolean,
    ListType::SmallInt,
    ListType::Integer,
    ListType::BigInt,
    ListType::DoublePrecision,
    ListType::Text,
    ListType::Name,
    ListType::Char,
    ListType::Oid,
    ListType::Real,
    ListType::Numeric,
    ListType::Varchar,
    ListType::Bpchar,
    ListType::Date,
    ListType::Timestamp,
    ListType::TimestampTz,
    ListType::Time,
    ListType::Interval,
    ListType::Bytea,
    ListType::Uuid,
];
const LIST_PACKED: u8 = 100;
const LIST_ENUM: u8 = 101;
const LIST_ROW: u8 = 102;
const LIST_LIMITED: u8 = 103;

fn found<T: Copy>(all: &[T], reader: &mut ByteReader<'_>) -> Result<T> {
    all.get(usize::from(reader.byte()?)).copied().ok_or_else(|| damaged("a type is unknown"))
}

/// The place of one in a list that has all.
fn push_place<T: PartialEq>(out: &mut Writer, all: &[T], one: &T) {
    let place = all.iter().position(|known| known == one);
    out.byte(place.expect("the list has all of them") as u8);
}

fn precision(reader: &mut ByteReader<'_>) -> Result<Precision> {
    Ok(match reader.byte()? {
        NO_PRECISION => Precision::NONE,
        digits => Precision::digits(u32::from(digits)),
    })
}

fn push_precision(out: &mut Writer, tag: u8, precision: Precision) {
    out.fixed(&[tag, precision.declared().unwrap_or(NO_PRECISION)]);
}

fn packed_type(reader: &mut ByteReader<'_>) -> Result<PackedType> {
    Ok(match reader.byte()? {
        1 => PackedType::Inet,
        2 => PackedType::Cidr,
        3 => PackedType::TimeTz,
        4 => PackedType::Range(found(&RANGES, reader)?),
        5 => PackedType::Bit(BitLength::new(reader.u32()?)),
        6 => PackedType::Varbit(BitLength::new(reader.u32()?)),
        _ => return Err(damaged("a type is unknown")),
    })
}

fn push_packed_type(out: &mut Writer, packed: PackedType) {
    let mut bits = |tag: u8, length: BitLength| {
        out.byte(tag);
        out.u32(length.declared().unwrap_or(u32::MAX));
    };
    match packed {
        PackedType::Bit(length) => bits(5, length),
        PackedType::Varbit(length) => bits(6, length),
        PackedType::Inet => out.byte(1),
        PackedType::Cidr => out.byte(2),
        PackedType::TimeTz => out.byte(3),
        PackedType::Range(range) => {
            out.byte(4);
            push_place(out, &RANGES, &range);
        }
    }
}

pub(super) fn push_type(out: &mut Writer, data_type: DataType) {
    match data_type {
        DataType::Boolean => out.byte(1),
        DataType::SmallInt => out.byte(2),
        DataType::Integer => out.byte(3),
        DataType::BigInt => out.byte(4),
        DataType::Real => out.byte(5),
        DataType::DoublePrecision => out.byte(6),
        DataType::Numeric { precision, scale } => out.fixed(&[7, precision, scale]),
        DataType::Number => out.byte(8),
        DataType::Text => out.byte(9),
        DataType::Varchar(length) => {
            out.byte(10);
            out.u32(length);
        }
        DataType::Char(length) => {
            out.byte(11);
            out.u32(length);
        }
        DataType::Date => out.byte(12),
        DataType::Timestamp(precision) => push_precision(out, 13, precision),
        DataType::TimestampTz(precision) => push_precision(out, 14, precision),
        DataType::Time(precision) => push_precision(out, 15, precision),
        DataType::Interval(limit) => {
            out.byte(16);
            out.u32(limit.modifier() as u32);
        }
        DataType::Bytea => out.byte(17),
        DataType::Uuid => out.byte(18),
        DataType::Json => out.byte(19),
        DataType::Jsonb => out.byte(20),
        DataType::Packed(packed) => {
            out.byte(21);
            push_packed_type(out, packed);
        }
        DataType::Enum(labels) => {
            out.byte(22);
            out.u32(labels.oid());
        }
        DataType::System(system) => {
            out.byte(23);
            push_system_type(out, system);
        }
    }
}

fn push_system_type(out: &mut Writer, system: SystemType) {
    match system {
        SystemType::Oid => out.byte(1),
        SystemType::Name => out.byte(2),
        SystemType::Char => out.byte(3),
        SystemType::JsonPath => out.byte(7),
        SystemType::Object(kind) => {
            out.byte(4);
            push_place(out, &OBJECTS, &kind);
        }
        SystemType::List(list) => {
            out.byte(5);
            match list {
                ListType::Packed(packed) => {
                    out.byte(LIST_PACKED);
                    push_packed_type(out, packed);
                }
                ListType::Enum(labels) => {
                    out.byte(LIST_ENUM);
                    out.u32(labels.oid());
                }
                ListType::Row(row) => {
                    out.byte(LIST_ROW);
                    push_row_type(out, row);
                }
                ListType::Limited(limit) => {
                    out.byte(LIST_LIMITED);
                    out.u32(limit.number());
                }
                other => push_place(out, &LISTS, &other),
            }
        }
        SystemType::Row(row) => {
            out.byte(6);
            push_row_type(out, row);
        }
    }
}

/// Without the relation that has such rows, which has another number in every process.
fn push_row_type(out: &mut Writer, row: RowType) {
    out.place(row.fields().len());
    row.fields().iter().for_each(|field| push_type(out, *field));
}

pub(super) fn push_value(out: &mut Writer, value: &Value) {
    let mut number = |tag: u8, bytes: &[u8]| {
        out.byte(tag);
        out.fixed(bytes);
    };
    match value {
        Value::Null => number(0, &[]),
        Value::Boolean(value) => number(1, &[u8::from(*value)]),
        Value::SmallInt(value) => number(2, &value.to_le_bytes()),
        Value::Integer(value) => number(3, &value.to_le_bytes()),
        Value::BigInt(value) => number(4, &value.to_le_bytes()),
        Value::Real(value) => number(5, &value.to_le_bytes()),
        Value::Double(value) => number(6, &value.to_le_bytes()),
        Value::Numeric(value) => {
            number(7, &[value.scale]);
            out.fixed(&value.unscaled.to_le_bytes());
        }
        Value::Number(text) => {
            number(8, &[]);
            out.text(text);
        }
        Value::Text(text) => {
            number(9, &[]);
            out.text(text);
        }
        Value::Date(value) => number(12, &value.to_le_bytes()),
        Value::Timestamp(value) => number(13, &value.to_le_bytes()),
        Value::TimestampTz(value) => number(14, &value.to_le_bytes()),
        Value::Time(value) => number(15, &value.to_le_bytes()),
        Value::Interval(value) => number(16, &value.to_bits().to_le_bytes()),
        Value::Bytea(bytes) => {
            number(17, &[]);
            out.counted(bytes);
        }
        Value::Uuid(bytes) => number(18, bytes),
        Value::Packed(packed) => {
            let packed: PackedRef<'_> = packed.borrow();
            number(21, &[]);
            push_packed_type(out, packed.packed_type());
            out.counted(&packed.to_wire());
        }
        Value::Enum(value) => {
            number(22, &value.enum_type.oid().to_le_bytes());
            out.i64(value.position);
        }
        Value::Array(array) => {
            number(24, &[]);
            out.counted(&array.borrow().to_stored());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bytes::whole;
    use super::*;
    use ankerdb_value::parse_text;

    /// Types that another process knows, by the numbers of this one's.
    fn stored(labels: EnumType) -> StoredTypes {
        StoredTypes { labels: [(labels.oid(), labels)].into(), domains: HashMap::new() }
    }

    #[test]
    fn every_type_is_read_as_it_was_written() {
        let (labels, _life) = EnumType::create("mood", ["sad", "ok"]).unwrap();
        let types = stored(labels);
        let mut all = vec![
            DataType::Boolean,
            DataType::SmallInt,
            DataType::Integer,
            DataType::BigInt,
            DataType::Real,
            DataType::DoublePrecision,
            DataType::Numeric { precision: 38, scale: 0 },
            DataType::Numeric { precision: 5, scale: 5 },
            DataType::Number,
            DataType::Text,
            DataType::Varchar(7),
            DataType::ANY_VARCHAR,
            DataType::Char(3),
            DataType::Date,
            DataType::TIMESTAMP,
            DataType::Timestamp(Precision::digits(0)),
            DataType::TimestampTz(Precision::digits(6)),
            DataType::Time(Precision::digits(2)),
            DataType::INTERVAL,
            DataType::Interval(IntervalLimit::of_modifier(470_286_338)),
            DataType::Bytea,
            DataType::Uuid,
            DataType::Json,
            DataType::Jsonb,
            DataType::Packed(PackedType::Bit(BitLength::new(5))),
            DataType::Packed(PackedType::Varbit(BitLength::new(9))),
            DataType::Packed(PackedType::BITS),
            DataType::Enum(labels),
            DataType::System(SystemType::List(ListType::Enum(labels))),
        ];
        all.extend(SystemType::ALL.map(DataType::System));
        all.extend(ListType::ARRAYS.map(|list| DataType::System(SystemType::List(list))));
        all.extend(ListType::ARRAYS.map(ListType::item_type));
        let limited = [DataType::Varchar(3), DataType::Numeric { precision: 6, scale: 2 }];
        all.extend(limited.map(|item| DataType::System(SystemType::List(ListType::declared(item).unwrap()))));
        let row = RowType::of(all.iter().copied()).unwrap();
        let nested = RowType::of([DataType::System(SystemType::Row(row)), DataType::Text]).unwrap();
        all.push(DataType::System(SystemType::Row(nested)));
        all.push(DataType::System(SystemType::List(ListType::Row(row))));
        for data_type in all {
            let mut out = Writer::default();
            push_type(&mut out, data_type);
            let bytes = out.finish().unwrap();
            assert_eq!(whole(&bytes, |reader| types.data_type(reader)), Ok(data_type));
            let cut = whole(&bytes[..bytes.len() - 1], |reader| types.data_type(reader));
            assert_eq!(cut.unwrap_err().state(), ankerdb_base::SqlState::DataCorrupted, "{data_type:?}");
        }
    }

    #[test]
    fn rows_of_a_relation_are_rows() {
        let row = RowType::of([DataType::Text]).unwrap();
        let mut out = Writer::default();
        push_type(&mut out, DataType::System(SystemType::Row(row.of_relation(16_400).unwrap())));
        let read = whole(&out.finish().unwrap(), |reader| StoredTypes::default().data_type(reader));
        assert_eq!(read, Ok(DataType::System(SystemType::Row(row))));
    }

    #[test]
    fn every_value_is_read_as_it_was_written() {
        let (labels, _life) = EnumType::create("mood", ["sad", "ok"]).unwrap();
        let types = stored(labels);
        let list = |item| DataType::System(SystemType::List(ListType::of(item).unwrap()));
        let texts = [
            (DataType::Boolean, "t"),
            (DataType::SmallInt, "-3"),
            (DataType::Integer, "2147483647"),
            (DataType::BigInt, "-9223372036854775808"),
            (DataType::Real, "1.5"),
            (DataType::DoublePrecision, "-Infinity"),
            (DataType::Numeric { precision: 38, scale: 2 }, "-999999999999999999999999999999999999.99"),
            (DataType::Number, "1e100"),
            (DataType::Number, "NaN"),
            (DataType::Text, "ä'\u{1f409}"),
            (DataType::Date, "2020-02-29"),
            (DataType::TIMESTAMP, "infinity"),
            (DataType::TIMESTAMPTZ, "2020-02-29 12:00:00.000001+01"),
            (DataType::TIME, "24:00"),
            (DataType::INTERVAL, "-1 year 2 days 3.5 seconds"),
            (DataType::Bytea, "\\x00ff"),
            (DataType::Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            (DataType::Packed(PackedType::Inet), "::1/64"),
            (DataType::Packed(PackedType::Cidr), "10.0.0.0/8"),
            (DataType::Packed(PackedType::TimeTz), "12:00:00-03:30"),
            (DataType::Packed(PackedType::Range(RangeType::Timestamp)), "[2020-01-01,)"),
            (DataType::Packed(PackedType::Range(RangeType::Integer)), "empty"),
            (DataType::Packed(PackedType::BITS), "1010101"),
            (DataType::Enum(labels), "ok"),
            (list(DataType::Text), "[2:3]={a,NULL}"),
            (list(DataType::Enum(labels)), "{{ok,sad},{NULL,ok}}"),
        ];
        let values = texts.iter().map(|(data_type, text)| parse_text(*data_type, text).unwrap());
        for value in values.chain([Value::Null, Value::Double(f64::MIN_POSITIVE)]) {
            let mut out = Writer::default();
            push_value(&mut out, &value);
            let bytes = out.finish().unwrap();
            assert_eq!(whole(&bytes, |reader| types.value(reader)), Ok(value));
        }
    }

    #[test]
    fn arrays_of_labels_follow_their_type_to_another_number() {
        let (here, _life) = EnumType::create("here", ["sad", "ok"]).unwrap();
        let (there, _life) =
            EnumType::restore("there", here.oid(), &[(0, 1, "sad"), (1 << 40, 2, "ok")]).unwrap();
        let list = DataType::System(SystemType::List(ListType::Enum(here)));
        let Value::Array(array) = parse_text(list, "{ok,NULL,sad}").unwrap() else { panic!("an array") };
        let mut bytes = array.borrow().to_stored();
        stored(there).restore_array(&mut bytes).unwrap();
        let read = Value::Array(ArrayRef::from_bytes(&bytes).to_array());
        let list = DataType::System(SystemType::List(ListType::Enum(there)));
        assert_eq!(read, parse_text(list, "{ok,NULL,sad}").unwrap());
        let error = StoredTypes::default().restore_array(&mut array.borrow().to_stored()).unwrap_err();
        assert_eq!(error.state(), ankerdb_base::SqlState::DataCorrupted);
    }

    #[test]
    fn a_type_of_rows_in_rows_without_end_is_damaged() {
        let mut out = Writer::default();
        for _ in 0..100_000 {
            // A row of one field.
            out.fixed(&[23, 6, 1, 0, 0, 0]);
        }
        let bytes = out.finish().unwrap();
        let read = whole(&bytes, |reader| StoredTypes::default().data_type(reader));
        assert!(read.unwrap_err().message().contains("too deeply"));
    }
}
