//! PostgreSQL's rules on types: names in SQL, the common type of two operands, implicit conversions.

use super::bind::is_bare_numeric;
use crate::name::not_supported;
use ankerdb_engine::{
    BitLength, DataType, Decimal, EnumType, Error, ListType, PackedType, Result, SqlState, SystemType, Value,
};
use ankerdb_value::{MAX_NUMERIC_PRECISION, Number, cast, compare, type_by_name};
use datafusion::sql::sqlparser::ast;

/// `bit` of any length: what constants, functions and operators give.
pub(crate) const ANY_BIT: DataType = DataType::Packed(PackedType::Bit(BitLength::ANY));

/// The type that a parsed type name stands for. 42704 if there is none.
pub(crate) fn data_type(parsed: &ast::DataType) -> Result<DataType> {
    if let ast::DataType::Array(definition) = parsed {
        return array_type(parsed, definition);
    }
    if let Some(version) = crate::domains::domain(parsed) {
        return Ok(version.base);
    }
    let text = parsed.to_string().to_lowercase();
    if matches!(text.as_str(), "\"char\"" | "pg_catalog.\"char\"") {
        return Ok(DataType::System(SystemType::Char));
    }
    // Without a length it has any, where the word without quotes has one bit.
    if matches!(text.as_str(), "\"bit\"" | "pg_catalog.\"bit\"" | "pg_catalog.bit") {
        return Ok(ANY_BIT);
    }
    let text = text.replace('"', "");
    let (name, modifiers) = match (text.find('('), text.find(')')) {
        (Some(open), Some(close)) if open < close => {
            let written = || text[open + 1..close].split(',').map(str::trim);
            let modifiers = written().map(str::parse::<u32>);
            let modifiers = modifiers.collect::<Result<Vec<_>, _>>().map_err(|_| {
                match written().all(|modifier| modifier.parse::<i32>().is_ok()) {
                    true => not_supported(&format!("the type {text}")),
                    false => {
                        let message = format!("invalid type modifier in {text}");
                        Error::new(SqlState::InvalidParameterValue, message)
                    }
                }
            })?;
            (format!("{}{}", text[..open].trim(), &text[close + 1..]), modifiers)
        }
        _ => (text.clone(), Vec::new()),
    };
    if name.contains('<') {
        return Err(Error::new(SqlState::FeatureNotSupported, format!("type {text} is not supported")));
    }
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
    if let Some(system) = SystemType::by_name(name).filter(|_| modifiers.is_empty()) {
        return Ok(DataType::System(system));
    }
    type_by_name(name, &modifiers)
}

/// `integer[]`; how many pairs of brackets there are, and what they say, does not matter.
fn array_type(whole: &ast::DataType, definition: &ast::ArrayElemTypeDef) -> Result<DataType> {
    let refused = || Error::new(SqlState::FeatureNotSupported, format!("type {whole} is not supported"));
    let items = match definition {
        ast::ArrayElemTypeDef::SquareBracket(items, _) => items,
        _ => return Err(refused()),
    };
    if crate::domains::domain(items).is_some() {
        return Err(Error::new(SqlState::FeatureNotSupported, "an array of a domain is not supported"));
    }
    let list = match (&**items, data_type(items)?) {
        (_, array @ DataType::System(SystemType::List(list))) if !list.is_vector() => return Ok(array),
        (items, DataType::Numeric { .. }) if is_bare_numeric(items) => Some(ListType::Numeric),
        (_, item) => ListType::declared(item),
    };
    list.map(|list| DataType::System(SystemType::List(list))).ok_or_else(refused)
}

/// Types whose values share a representation and convert by keeping it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    Boolean,
    SmallInt,
    Integer,
    BigInt,
    Numeric,
    /// Numerics of any length.
    Number,
    Real,
    DoublePrecision,
    Text,
    Char,
    Date,
    Timestamp,
    TimestampTz,
    Time,
    Interval,
    Bytea,
    Uuid,
    Json,
    Jsonb,
    Packed(PackedType),
    Enum(EnumType),
    List(ListType),
}

/// The type's family.
pub(crate) fn family(data_type: DataType) -> Family {
    match data_type {
        DataType::Boolean => Family::Boolean,
        DataType::SmallInt => Family::SmallInt,
        DataType::Integer => Family::Integer,
        DataType::BigInt => Family::BigInt,
        DataType::Numeric { .. } => Family::Numeric,
        DataType::Number => Family::Number,
        DataType::Real => Family::Real,
        DataType::DoublePrecision => Family::DoublePrecision,
        DataType::Text | DataType::Varchar(_) => Family::Text,
        DataType::Char(_) => Family::Char,
        DataType::Date => Family::Date,
        DataType::Timestamp(_) => Family::Timestamp,
        DataType::TimestampTz(_) => Family::TimestampTz,
        DataType::Time(_) => Family::Time,
        DataType::Interval(_) => Family::Interval,
        DataType::Bytea => Family::Bytea,
        DataType::Uuid => Family::Uuid,
        DataType::Json => Family::Json,
        DataType::Jsonb => Family::Jsonb,
        DataType::Packed(packed) => Family::Packed(packed.of_value()),
        DataType::Enum(labels) => Family::Enum(labels),
        DataType::System(system) if system.is_number() => Family::BigInt,
        DataType::System(SystemType::List(list)) => Family::List(list.unlimited()),
        DataType::System(_) => Family::Text,
    }
}

/// The most digits, so many of them fractional.
pub(crate) fn numeric(scale: u8) -> DataType {
    DataType::Numeric { precision: MAX_NUMERIC_PRECISION, scale: scale.min(MAX_NUMERIC_PRECISION) }
}

/// Fractional digits of a numeric or integer type.
pub(crate) fn scale_of(data_type: DataType) -> u8 {
    match data_type {
        DataType::Numeric { scale, .. } => scale,
        _ => 0,
    }
}

/// The type that two operands are brought to before they are compared or merged; `None` if they do not fit.
pub(crate) fn common_type(left: DataType, right: DataType) -> Option<DataType> {
    use Family::*;
    if let (DataType::Varchar(_), DataType::Varchar(_)) = (left, right)
        && left != right
    {
        return Some(DataType::ANY_VARCHAR);
    }
    if left == right {
        return Some(left);
    }
    Some(match (family(left), family(right)) {
        (Numeric, Numeric | SmallInt | Integer | BigInt) | (SmallInt | Integer | BigInt, Numeric) => {
            numeric(scale_of(left).max(scale_of(right)))
        }
        (Number, SmallInt | Integer | BigInt | Numeric) | (SmallInt | Integer | BigInt | Numeric, Number) => {
            DataType::Number
        }
        (SmallInt, Integer) | (Integer, SmallInt) => DataType::Integer,
        (BigInt, SmallInt | Integer | BigInt) | (SmallInt | Integer, BigInt) => DataType::BigInt,
        (Real | DoublePrecision | Numeric | Number | SmallInt | Integer | BigInt, Real | DoublePrecision)
        | (Real | DoublePrecision, Numeric | Number | SmallInt | Integer | BigInt) => {
            DataType::DoublePrecision
        }
        (Char, Char) => DataType::ANY_CHAR,
        // The operators on texts take a varchar only where nothing else fits, and so give way to those on chars.
        (Char, Text) if matches!(right, DataType::Varchar(_)) => DataType::ANY_CHAR,
        (Text, Char) if matches!(left, DataType::Varchar(_)) => DataType::ANY_CHAR,
        // PostgreSQL compares `char` with `text` as text, blanks cut off: the stored form.
        (Text | Char, Text | Char) => DataType::Text,
        (Family::Packed(left), Family::Packed(right)) if left.is_network() && right.is_network() => {
            DataType::Packed(PackedType::Inet)
        }
        (Timestamp, Timestamp) | (TimestampTz, TimestampTz) | (Time, Time) | (Interval, Interval) => {
            left.of_any_precision()
        }
        (List(left), List(right)) if left == right => DataType::System(SystemType::List(left)),
        (Family::Packed(PackedType::BITS), Family::Packed(PackedType::BITS)) => {
            // Each serves as the other, so the first one stays.
            left.of_any_precision()
        }
        (Time, Family::Packed(PackedType::TimeTz)) | (Family::Packed(PackedType::TimeTz), Time) => {
            DataType::Packed(PackedType::TimeTz)
        }
        (Date, Timestamp) | (Timestamp, Date) => DataType::TIMESTAMP,
        (Date | Timestamp, TimestampTz) | (TimestampTz, Date | Timestamp) => DataType::TIMESTAMPTZ,
        _ => return None,
    })
}

/// The type of alternatives, as in CASE, COALESCE and UNION; `None` if they do not fit. A real beside another exact number stays
/// one, where operators have doubles.
pub(crate) fn alternative_type(left: DataType, right: DataType) -> Option<DataType> {
    match (left, right) {
        (DataType::Real, DataType::Real) => Some(DataType::Real),
        (DataType::Real, other) | (other, DataType::Real) if other.is_exact() => Some(DataType::Real),
        // What stands for an object serves as its number.
        (DataType::System(SystemType::Oid), DataType::System(SystemType::Object(_))) => Some(left),
        // A text serves as a name, and a name as a text only, where that came first.
        (DataType::Varchar(_) | DataType::Char(_), DataType::System(SystemType::Name)) => Some(right),
        (DataType::System(SystemType::Name), DataType::Text | DataType::Varchar(_) | DataType::Char(_)) => {
            Some(left)
        }
        // Each serves as the other, so the first one stays.
        (DataType::Varchar(_), DataType::Text | DataType::Char(_)) => Some(DataType::ANY_VARCHAR),
        (DataType::Char(_), DataType::Text | DataType::Varchar(_)) => Some(DataType::ANY_CHAR),
        (DataType::System(SystemType::List(left)), DataType::System(SystemType::List(right)))
            if left.unlimited() != right.unlimited() && !left.is_vector() && !right.is_vector() =>
        {
            let (left, right) = (left.unlimited(), right.unlimited());
            let list = match alternative_type(left.item_type(), right.item_type())? {
                // Texts of all kinds: each serves as the other, so the first one stays.
                same if same == left.item_type() => left,
                other => ListType::of(other)?,
            };
            Some(DataType::System(SystemType::List(list)))
        }
        _ => common_type(left, right),
    }
}

/// The category of a type, as PostgreSQL's `pg_type.typcategory` has it: alternatives of two categories cannot be matched, those of one
/// may lack a conversion.
pub(crate) fn category(data_type: DataType) -> char {
    match data_type {
        DataType::System(SystemType::Char) => return 'Z',
        DataType::System(SystemType::JsonPath) => return 'U',
        DataType::System(SystemType::Row(_)) => return 'P',
        _ => {}
    }
    match family(data_type) {
        Family::Boolean => 'B',
        Family::SmallInt | Family::Integer | Family::BigInt => 'N',
        Family::Numeric | Family::Number | Family::Real | Family::DoublePrecision => 'N',
        Family::Text | Family::Char => 'S',
        Family::Date | Family::Timestamp | Family::TimestampTz | Family::Time => 'D',
        Family::Interval => 'T',
        Family::Bytea | Family::Uuid | Family::Json | Family::Jsonb => 'U',
        Family::Packed(PackedType::TimeTz) => 'D',
        Family::Packed(PackedType::Inet | PackedType::Cidr) => 'I',
        Family::Packed(PackedType::Range(_)) => 'R',
        Family::Packed(PackedType::Bit(_) | PackedType::Varbit(_)) => 'V',
        Family::Enum(_) => 'E',
        Family::List(_) => 'A',
    }
}

/// Whether values of `from` serve as values of `to` without a conversion.
pub(crate) fn same_representation(from: DataType, to: DataType) -> bool {
    match (family(from), family(to)) {
        (Family::Char, Family::Text) => true,
        (from, to) => from == to,
    }
}

/// Whether a value of `from` may be stored in a column of `to` without an explicit cast.
pub(crate) fn assignable(from: DataType, to: DataType) -> bool {
    let dates = |family| matches!(family, Family::Date | Family::Timestamp | Family::TimestampTz);
    let (source, target) = (family(from), family(to));
    if let (Family::List(from), Family::List(to)) = (source, target) {
        return from == to || assignable(from.item_type(), to.item_type());
    }
    source == target
        || (from.is_numeric() && to.is_numeric())
        || to.is_text()
        || (dates(source) && dates(target))
        || matches!(
            (source, target),
            (Family::Timestamp | Family::TimestampTz | Family::Interval, Family::Time)
        )
        || (source, target) == (Family::Time, Family::Interval)
        || matches!(
            (source, target),
            (Family::Time | Family::TimestampTz, Family::Packed(PackedType::TimeTz))
        )
        || (source, target) == (Family::Packed(PackedType::TimeTz), Family::Time)
        || is_number_of_object(to) && matches!(source, Family::SmallInt | Family::Integer)
        || is_number_of_object(from) && target == Family::Integer
        || (from.is_document() && to.is_document())
        || matches!((source, target), (Family::Packed(from), Family::Packed(to)) if from.is_network() && to.is_network())
}

/// Whether values are numbers that are rounded.
pub(crate) fn is_float(data_type: DataType) -> bool {
    matches!(data_type, DataType::Real | DataType::DoublePrecision)
}

/// Whether values are numbers of objects.
fn is_number_of_object(data_type: DataType) -> bool {
    matches!(data_type, DataType::System(system) if system.is_number())
}

/// The value as exactly the same value of another type, if there is one.
pub(crate) fn convert_exactly(value: Value, to: DataType) -> Option<Value> {
    let representation = |value: &Value| match value {
        Value::SmallInt(_) => Some(Family::SmallInt),
        Value::Integer(_) => Some(Family::Integer),
        Value::BigInt(_) => Some(Family::BigInt),
        _ => None,
    };
    if representation(&value) == Some(family(to))
        || matches!((&value, to), (Value::Text(_), DataType::Text | DataType::Varchar(_)))
    {
        return Some(value);
    }
    let converted =
        cast(value.clone(), if matches!(to, DataType::Char(_)) { DataType::ANY_CHAR } else { to }).ok()?;
    match to {
        DataType::Char(_) | DataType::Varchar(_) => Some(converted),
        _ => (compare(&converted, &value).ok()? == Some(std::cmp::Ordering::Equal)).then_some(converted),
    }
}

/// The whole numbers of a type that are below a number which is none of them.
pub(crate) enum Below {
    /// All up to this one.
    At(Value),
    /// All of them; this is the greatest.
    All(Value),
    None,
}

/// Those below the number; `None` if the type has other values, or the value is no number.
pub(crate) fn below(value: &Value, whole: DataType) -> Option<Below> {
    let (least, greatest) = match whole {
        DataType::SmallInt => (i16::MIN.into(), i16::MAX.into()),
        DataType::Integer => (i32::MIN.into(), i32::MAX.into()),
        DataType::BigInt => (i64::MIN, i64::MAX),
        _ => return None,
    };
    let exactly = |number: i64| convert_exactly(Value::BigInt(number), whole);
    let Value::Number(number) = cast(value.clone(), DataType::Number).ok()? else { return None };
    let number = Number::read(&number);
    // NaN is greater than all numbers.
    let floor = if number.is_finite() { number.floor().ok()? } else { number };
    Some(match floor {
        high if high.compare(&Number::from_i128(greatest.into())).is_gt() => Below::All(exactly(greatest)?),
        low if low.compare(&Number::from_i128(least.into())).is_lt() => Below::None,
        within => Below::At(exactly(within.to_i64("bigint").ok()?)?),
    })
}

/// The type and value of a number as it is written: the smallest of integer, bigint and numeric that holds it. What 38 digits do not
/// hold is a numeric of any length.
pub(crate) fn number(text: &str) -> Result<(Value, DataType)> {
    if let Ok(value) = text.parse::<i32>() {
        return Ok((Value::Integer(value), DataType::Integer));
    }
    if let Ok(value) = text.parse::<i64>() {
        return Ok((Value::BigInt(value), DataType::BigInt));
    }
    match decimal(text) {
        Some(decimal) => Ok((Value::Numeric(decimal), numeric(decimal.scale))),
        None => Ok((Value::number(&Number::parse(&text.replace('_', ""))?), DataType::Number)),
    }
}

/// A numeric as a constant: of its own digits where 38 hold them, since that is quicker.
pub(crate) fn exact_constant(number: &Number) -> (Value, DataType) {
    match number.to_decimal().filter(|decimal| number.scale() == Some(i32::from(decimal.scale))) {
        Some(decimal) => (Value::Numeric(decimal), numeric(decimal.scale)),
        None => (Value::number(number), DataType::Number),
    }
}

/// Whether two exact numbers are compared as they are: one has any length, and each converts to the other's type only by itself.
pub(crate) fn meet_as_numbers(left: DataType, right: DataType) -> bool {
    (left == DataType::Number || right == DataType::Number) && left.is_exact() && right.is_exact()
}

fn decimal(text: &str) -> Option<Decimal> {
    let text = text.replace('_', "");
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text.as_str(), 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut unscaled: i128 = 0;
    for digit in whole.chars().chain(fraction.chars()) {
        unscaled = unscaled.checked_mul(10)?.checked_add(i128::from(digit.to_digit(10)?))?;
    }
    let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    if scale < 0 {
        unscaled = unscaled.checked_mul(10i128.checked_pow(scale.unsigned_abs())?)?;
    }
    let limit = 10i128.pow(u32::from(MAX_NUMERIC_PRECISION));
    let scale = u8::try_from(scale.max(0)).ok()?;
    (unscaled < limit && scale <= MAX_NUMERIC_PRECISION).then(|| Decimal::new(unscaled, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_the_smallest_type() {
        assert_eq!(number("2147483647").unwrap(), (Value::Integer(i32::MAX), DataType::Integer));
        assert_eq!(number("2147483648").unwrap().1, DataType::BigInt);
        assert_eq!(number("1.50").unwrap(), (Value::Numeric(Decimal::new(150, 2)), numeric(2)));
        assert_eq!(number("1.5e3").unwrap().0, Value::Numeric(Decimal::new(1500, 0)));
        assert_eq!(number("15e-1").unwrap().0, Value::Numeric(Decimal::new(15, 1)));
        assert_eq!(number("1e99").unwrap().1, DataType::Number);
        assert_eq!(number("1e999999").unwrap_err().state(), SqlState::NumericValueOutOfRange);
    }

    #[test]
    fn common_types_follow_postgres() {
        let numeric_12_2 = DataType::Numeric { precision: 12, scale: 2 };
        assert_eq!(common_type(DataType::SmallInt, DataType::BigInt), Some(DataType::BigInt));
        assert_eq!(common_type(DataType::Integer, numeric_12_2), Some(numeric(2)));
        assert_eq!(common_type(numeric_12_2, DataType::Real), Some(DataType::DoublePrecision));
        assert_eq!(common_type(DataType::Integer, DataType::Text), None);
        assert_eq!(common_type(DataType::Varchar(3), DataType::Char(3)), Some(DataType::ANY_CHAR));
    }
}
