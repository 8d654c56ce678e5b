//! What an array's items are limited to: `varchar(3)[]`, `numeric(6,2)[]`.
//!
//! Like the limits of single values it counts where values are cast or stored. The values of such an array are those of the type
//! without it.

use crate::{
    BitLength, DataType, IntervalLimit, ListType, MAX_NUMERIC_PRECISION, PackedType, Precision, SystemType,
};

/// The type of an array's items, with the length, the digits or the fields that it declares.
///
/// The kind in the upper four bits, what it declares in the others. (As bytes, so that types are as small as they are without.)
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ItemLimit([u8; 4]);

/// Bits of what is declared; the most it can be is the length of a string of bits, 83,886,080.
const DETAIL_BITS: u32 = 28;
const DETAIL: u32 = (1 << DETAIL_BITS) - 1;
const VARCHAR: u32 = 1;
const NUMERIC: u32 = 2;
const TIMESTAMP: u32 = 3;
const TIMESTAMPTZ: u32 = 4;
const TIME: u32 = 5;
const INTERVAL: u32 = 6;
const BIT: u32 = 7;
const VARBIT: u32 = 8;
/// Digits of an interval's seconds that are not declared.
const NO_DIGITS: u32 = 15;

impl ItemLimit {
    /// The limit that a type declares for items; `None` where it declares none, and for `char(n)`, whose values do not tell
    /// how many blanks are behind them.
    pub fn of(item: DataType) -> Option<ItemLimit> {
        let digits = |precision: Precision| precision.declared().map(u32::from);
        let (kind, detail) = match item {
            DataType::ANY_VARCHAR => return None,
            DataType::Varchar(length) => (VARCHAR, length),
            DataType::Numeric { precision, scale } => (NUMERIC, u32::from(precision) << 8 | u32::from(scale)),
            DataType::Timestamp(precision) => (TIMESTAMP, digits(precision)?),
            DataType::TimestampTz(precision) => (TIMESTAMPTZ, digits(precision)?),
            DataType::Time(precision) => (TIME, digits(precision)?),
            DataType::Interval(IntervalLimit::NONE) => return None,
            DataType::Interval(limit) => {
                let packed = limit.modifier() as u32;
                let digits = packed & 0xffff;
                (INTERVAL, (packed >> 16) << 4 | digits.min(NO_DIGITS))
            }
            DataType::Packed(PackedType::Bit(length)) => (BIT, length.declared()?),
            DataType::Packed(PackedType::Varbit(length)) => (VARBIT, length.declared()?),
            _ => return None,
        };
        (detail <= DETAIL).then_some(ItemLimit((kind << DETAIL_BITS | detail).to_le_bytes()))
    }

    /// The type of the items, with its limit.
    pub fn item_type(self) -> DataType {
        let detail = self.number() & DETAIL;
        match self.kind() {
            VARCHAR => DataType::Varchar(detail),
            NUMERIC => DataType::Numeric { precision: (detail >> 8) as u8, scale: detail as u8 },
            TIMESTAMP => DataType::Timestamp(Precision::digits(detail)),
            TIMESTAMPTZ => DataType::TimestampTz(Precision::digits(detail)),
            TIME => DataType::Time(Precision::digits(detail)),
            INTERVAL => {
                let digits = if detail & 15 == NO_DIGITS { 0xffff } else { detail & 15 };
                DataType::Interval(IntervalLimit::of_modifier(((detail >> 4) << 16 | digits) as i32))
            }
            BIT => DataType::Packed(PackedType::Bit(BitLength::new(detail))),
            _ => DataType::Packed(PackedType::Varbit(BitLength::new(detail))),
        }
    }

    fn kind(self) -> u32 {
        self.number() >> DETAIL_BITS
    }

    /// The array type without the limit.
    fn unlimited(self) -> ListType {
        match self.kind() {
            VARCHAR => ListType::Varchar,
            NUMERIC => ListType::Numeric,
            TIMESTAMP => ListType::Timestamp,
            TIMESTAMPTZ => ListType::TimestampTz,
            TIME => ListType::Time,
            INTERVAL => ListType::Interval,
            BIT => ListType::Packed(PackedType::Bit(BitLength::ANY)),
            _ => ListType::Packed(PackedType::BITS),
        }
    }

    /// As a number, by which [`by_number`](Self::by_number) finds it again, in other processes too.
    pub fn number(self) -> u32 {
        u32::from_le_bytes(self.0)
    }

    /// The limit with this number; `None` if there is none.
    pub fn by_number(number: u32) -> Option<ItemLimit> {
        let limit = ItemLimit(number.to_le_bytes());
        if !(VARCHAR..=VARBIT).contains(&limit.kind()) {
            return None;
        }
        if let DataType::Numeric { precision, scale } = limit.item_type()
            && !((1..=MAX_NUMERIC_PRECISION).contains(&precision) && scale <= precision)
        {
            return None;
        }
        (ItemLimit::of(limit.item_type()) == Some(limit)).then_some(limit)
    }
}

impl ListType {
    /// The array type with items of a type, with the limit that the type declares. `None` where there is none here, which is
    /// so for `char(n)`.
    pub fn declared(item: DataType) -> Option<ListType> {
        match item {
            DataType::Char(_) => None,
            _ => match ItemLimit::of(item) {
                Some(limit) => Some(ListType::Limited(limit)),
                None => ListType::of(item),
            },
        }
    }

    /// The array type that its values are of by themselves: they do not know the limit that was declared.
    pub fn unlimited(self) -> ListType {
        match self {
            ListType::Limited(limit) => limit.unlimited(),
            other => other,
        }
    }
}

impl DataType {
    /// The type, of arrays without a limit of their items.
    pub fn without_item_limit(self) -> DataType {
        match self {
            DataType::System(SystemType::List(list)) => DataType::System(SystemType::List(list.unlimited())),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IntervalFields;

    #[test]
    fn limits_lead_back_to_their_types() {
        for item in [
            DataType::Varchar(1),
            DataType::Varchar(10_485_760),
            DataType::Numeric { precision: 38, scale: 38 },
            DataType::Numeric { precision: 1, scale: 0 },
            DataType::Timestamp(Precision::digits(0)),
            DataType::TimestampTz(Precision::digits(3)),
            DataType::Time(Precision::digits(6)),
            DataType::Interval(IntervalLimit {
                fields: IntervalFields::All,
                precision: Precision::digits(2),
            }),
            DataType::Interval(IntervalLimit {
                fields: IntervalFields::DayToHour,
                precision: Precision::NONE,
            }),
            DataType::Interval(IntervalLimit {
                fields: IntervalFields::MinuteToSecond,
                precision: Precision::digits(6),
            }),
            DataType::Packed(PackedType::Bit(BitLength::new(83_886_080))),
            DataType::Packed(PackedType::Varbit(BitLength::new(1))),
        ] {
            let limit = ItemLimit::of(item).unwrap();
            assert_eq!(limit.item_type(), item);
            assert_eq!(ItemLimit::by_number(limit.number()), Some(limit));
            let list = ListType::declared(item).unwrap();
            assert_eq!(list, ListType::Limited(limit));
            assert_eq!(list.item_type(), item);
            assert_eq!(list.unlimited(), ListType::of(item).unwrap());
        }
    }

    #[test]
    fn other_types_have_none() {
        for list in ListType::ARRAYS {
            assert_eq!(list.unlimited(), list);
        }
        for item in [DataType::ANY_VARCHAR, DataType::TIME, DataType::INTERVAL, DataType::Text] {
            assert_eq!(ItemLimit::of(item), None);
        }
        assert_eq!(ListType::declared(DataType::Number), Some(ListType::Numeric));
        assert_eq!(ListType::declared(DataType::Char(3)), None);
    }

    #[test]
    fn damaged_numbers_are_no_limits() {
        for number in [0, 1, 9 << 28, 15 << 28, 2 << 28, 2 << 28 | 39 << 8, 2 << 28 | 3 << 8 | 4, 3 << 28 | 7]
        {
            assert_eq!(ItemLimit::by_number(number), None, "{number:x}");
        }
    }
}
