//! Random values of every type, for property tests.

use crate::datetime::{FIRST_DAY, LAST_DAY, MICROSECONDS_PER_DAY};
use crate::{
    Bits, DataType, Decimal, Interval, Network, Number, PackedType, Precision, Range, RangeBound, RangeType,
    TimeTz, Value,
};
use proptest::prelude::*;

/// Any type, with modifiers that random values can reach.
pub(crate) fn data_type() -> BoxedStrategy<DataType> {
    prop_oneof![
        Just(DataType::Boolean),
        Just(DataType::SmallInt),
        Just(DataType::Integer),
        Just(DataType::BigInt),
        Just(DataType::Real),
        Just(DataType::DoublePrecision),
        (1u8..=38).prop_flat_map(|precision| {
            (0..=precision).prop_map(move |scale| DataType::Numeric { precision, scale })
        }),
        Just(DataType::Number),
        Just(DataType::Text),
        Just(DataType::Varchar(8)),
        Just(DataType::Char(8)),
        Just(DataType::Date),
        Just(DataType::TIMESTAMP),
        (0u32..=6).prop_map(|digits| DataType::Timestamp(Precision::digits(digits))),
        Just(DataType::TIMESTAMPTZ),
        Just(DataType::TIME),
        Just(DataType::INTERVAL),
        Just(DataType::Bytea),
        Just(DataType::Uuid),
        proptest::sample::select(PackedType::ALL.to_vec()).prop_map(DataType::Packed),
    ]
    .boxed()
}

/// A value of the type as a column would store it, never NULL. Small values are as likely as large ones, so that
/// equal and neighbouring ones occur.
pub(crate) fn value(data_type: DataType) -> BoxedStrategy<Value> {
    match data_type {
        DataType::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
        DataType::SmallInt => prop_oneof![-2i16..3, any::<i16>()].prop_map(Value::SmallInt).boxed(),
        DataType::Integer => prop_oneof![-2i32..3, any::<i32>()].prop_map(Value::Integer).boxed(),
        DataType::BigInt => prop_oneof![-2i64..3, any::<i64>()].prop_map(Value::BigInt).boxed(),
        DataType::Real => any::<u32>().prop_map(|bits| Value::Real(f32::from_bits(bits))).boxed(),
        DataType::DoublePrecision => double().prop_map(Value::Double).boxed(),
        DataType::Numeric { precision, scale } => decimal(precision, scale).prop_map(Value::Numeric).boxed(),
        DataType::Number => number().prop_map(|text| Value::Number(text.into())).boxed(),
        DataType::Text => "[a\u{1}é ]{0,6}".prop_map(Value::text).boxed(),
        DataType::Varchar(_) => "[ab ]{0,8}".prop_map(Value::text).boxed(),
        DataType::Char(_) => "([ab ]{0,7}[ab])?".prop_map(Value::text).boxed(),
        DataType::Date => {
            prop_oneof![-2i32..3, (FIRST_DAY as i32)..=LAST_DAY as i32].prop_map(Value::Date).boxed()
        }
        DataType::Timestamp(precision) => {
            moment().prop_map(move |moment| Value::Timestamp(precision.round_moment(moment))).boxed()
        }
        DataType::Time(_) => (0..=MICROSECONDS_PER_DAY).prop_map(Value::Time).boxed(),
        DataType::Interval(_) => interval().prop_map(Value::Interval).boxed(),
        DataType::TimestampTz(_) => moment().prop_map(Value::TimestampTz).boxed(),
        DataType::Bytea => proptest::collection::vec(prop_oneof![0u8..3, any::<u8>()], 0..6)
            .prop_map(|bytes| Value::Bytea(bytes.into()))
            .boxed(),
        DataType::Uuid => any::<[u8; 16]>().prop_map(Value::Uuid).boxed(),
        DataType::Json | DataType::Jsonb => document().prop_map(Value::text).boxed(),
        DataType::Packed(packed) => {
            let stored = move |network: Network| match packed {
                PackedType::Inet => Value::Packed(network.packed(packed)),
                PackedType::Cidr => Value::Packed(network.network().packed(packed)),
                PackedType::Range(kind) => Value::Packed(range(kind, network).packed()),
                PackedType::TimeTz => {
                    let time = i64::from(network.address[0]) * 300_000_000;
                    let west = (i32::from(network.address[1]) - 128) * 400;
                    Value::Packed(TimeTz { time, west }.packed())
                }
                PackedType::Bit(_) | PackedType::Varbit(_) => Value::Packed(bits(network).packed()),
            };
            network().prop_map(stored).boxed()
        }
        DataType::Enum(_) | DataType::System(_) => {
            unreachable!("no column is of a type of the system catalog")
        }
    }
}

/// Bits of an address; equal and neighbouring ones occur.
pub(crate) fn bits(network: Network) -> Bits {
    Bits::of_bytes(network.address.to_vec(), usize::from(network.bits))
}

/// A range made of the bytes of an address; equal and neighbouring ones occur.
pub(crate) fn range(kind: RangeType, network: Network) -> Range {
    let [low, high, ends, ..] = network.address;
    let bound = |value: u8, endless: u8, inclusive: u8| RangeBound {
        value: (ends & endless == 0).then(|| i64::from(value) - 100),
        is_inclusive: ends & inclusive == 0,
    };
    let (lower, upper) = (bound(low.min(high), 1, 2), bound(high.max(low), 4, 8));
    Range::new(kind, lower, upper).expect("the bounds are in order")
}

/// An address; equal and neighbouring ones occur.
pub(crate) fn network() -> BoxedStrategy<Network> {
    let octet = || prop_oneof![Just(0u8), Just(10), Just(255), any::<u8>()];
    let address = proptest::array::uniform16(octet());
    let any = (any::<bool>(), prop_oneof![Just(0u8), Just(8), Just(24), 0u8..=128], address);
    any.prop_map(|(is_v6, bits, mut address)| {
        if !is_v6 {
            address[4..].fill(0);
        }
        Network { is_v6, bits: bits.min(if is_v6 { 128 } else { 32 }), address }
    })
    .boxed()
}

/// The canonical text of a numeric of any length.
pub(crate) fn number() -> BoxedStrategy<String> {
    let canonical = |text: String| Number::parse(&text).expect("a number").to_string();
    prop_oneof![
        proptest::sample::select(vec!["NaN", "Infinity", "-Infinity", "0", "0.00"]).prop_map(str::to_owned),
        "-?[0-9]{1,3}(\\.[0-9]{1,3})?".prop_map(canonical),
        "-?[0-9]{1,60}(\\.[0-9]{1,60})?".prop_map(canonical),
        "-?[1-9]e-?[0-9]{1,2}".prop_map(canonical),
    ]
    .boxed()
}

/// The canonical text of a document.
pub(crate) fn document() -> BoxedStrategy<String> {
    let scalars =
        ["null", "true", "false", "0", "-1", "1.0", "1.00", "10", "\"\"", "\"a\"", "\"é\\n\"", "[]", "{}"];
    let leaf = proptest::sample::select(scalars.to_vec()).prop_map(str::to_owned);
    let nested = leaf.prop_recursive(3, 20, 4, |inner| {
        let member = ("[ab]{0,2}", inner.clone()).prop_map(|(key, value)| format!("\"{key}\":{value}"));
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    });
    nested.prop_map(|text| crate::json::to_jsonb(&text).expect("it is a document")).boxed()
}

fn moment() -> impl Strategy<Value = i64> {
    prop_oneof![-2i64..3, FIRST_DAY * MICROSECONDS_PER_DAY..=i64::MAX]
}

fn double() -> impl Strategy<Value = f64> {
    prop_oneof![any::<u64>().prop_map(f64::from_bits), (-9i32..9).prop_map(|value| f64::from(value) / 8.0)]
}

fn decimal(precision: u8, scale: u8) -> impl Strategy<Value = Decimal> {
    let limit = 10i128.pow(u32::from(precision));
    prop_oneof![-2i128..3, 1 - limit..limit].prop_map(move |unscaled| Decimal::new(unscaled % limit, scale))
}

/// A decimal of at most 18 digits, with any scale that leaves models room in 128 bits.
pub(crate) fn small_decimal() -> impl Strategy<Value = Decimal> {
    (prop_oneof![-20i64..20, -999_999_999i64..999_999_999], 0u8..9)
        .prop_map(|(unscaled, scale)| Decimal::new(i128::from(unscaled), scale))
}

/// Any decimal of up to 38 digits.
pub(crate) fn any_decimal() -> impl Strategy<Value = Decimal> {
    (1u8..=38, 0u8..=38).prop_flat_map(|(precision, scale)| decimal(precision, scale))
}

fn interval() -> BoxedStrategy<Interval> {
    // Equal lengths in different parts occur, too.
    let day = MICROSECONDS_PER_DAY;
    let small = (-1i32..2, -30i32..31, prop_oneof![Just(0), Just(day), Just(-day), -day..day]);
    let any = (any::<i32>(), any::<i32>(), any::<i64>());
    prop_oneof![small, any].prop_map(|(months, days, time)| Interval::new(months, days, time)).boxed()
}
