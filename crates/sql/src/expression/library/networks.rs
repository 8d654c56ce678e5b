//! Functions and operators of addresses: `inet` and `cidr`.

use super::entry::{Entry, entry, integer, invalid, wrong_argument};
use ankerdb_engine::DataType::{BigInt, Boolean, Integer, Text};
use ankerdb_engine::{DataType, Error, Interrupt, Network, PackedType, Result, SqlState, Value};
use ankerdb_value::{push_abbreviated, push_host};

const INET: DataType = DataType::Packed(PackedType::Inet);
const CIDR: DataType = DataType::Packed(PackedType::Cidr);

pub(super) const ENTRIES: &[Entry] = &[
    entry("operator <<", &[INET, INET], Boolean, |values, _| pair(values, is_within)),
    entry("operator <<=", &[INET, INET], Boolean, |values, _| pair(values, is_within_or_equal)),
    entry("operator >>", &[INET, INET], Boolean, |values, _| pair(values, has_within)),
    entry("operator >>=", &[INET, INET], Boolean, |values, _| pair(values, Network::contains)),
    entry("operator &&", &[INET, INET], Boolean, |values, _| pair(values, Network::overlaps)),
    entry("network_sub", &[INET, INET], Boolean, |values, _| pair(values, is_within)),
    entry("network_subeq", &[INET, INET], Boolean, |values, _| pair(values, is_within_or_equal)),
    entry("network_sup", &[INET, INET], Boolean, |values, _| pair(values, has_within)),
    entry("network_supeq", &[INET, INET], Boolean, |values, _| pair(values, Network::contains)),
    entry("network_overlap", &[INET, INET], Boolean, |values, _| pair(values, Network::overlaps)),
    entry("inet_same_family", &[INET, INET], Boolean, |values, _| {
        pair(values, |left, right| left.is_v6 == right.is_v6)
    }),
    entry("operator ~", &[INET], INET, |values, _| {
        let network = address(values, 0)?;
        inet(network.with_number(!network.number()))
    }),
    entry("operator &", &[INET, INET], INET, |values, _| combined(values, "AND", |left, right| left & right)),
    entry("operator |", &[INET, INET], INET, |values, _| combined(values, "OR", |left, right| left | right)),
    entry("operator +", &[INET, BigInt], INET, |values, _| moved(values, 0, integer(values, 1)?.into())),
    entry("operator +", &[BigInt, INET], INET, |values, _| moved(values, 1, integer(values, 0)?.into())),
    entry("operator -", &[INET, BigInt], INET, |values, _| {
        moved(values, 0, -i128::from(integer(values, 1)?))
    }),
    entry("operator -", &[INET, INET], BigInt, distance),
    entry("abbrev", &[INET], Text, |values, _| Ok(shown(address(values, 0)?))),
    entry("abbrev", &[CIDR], Text, |values, _| text(address(values, 0)?, push_abbreviated)),
    entry("broadcast", &[INET], INET, |values, _| {
        let network = address(values, 0)?;
        inet(network.with_number(network.number() | network.host_mask()))
    }),
    entry("family", &[INET], Integer, |values, _| {
        Ok(Value::Integer(if address(values, 0)?.is_v6 { 6 } else { 4 }))
    }),
    entry("host", &[INET], Text, |values, _| text(address(values, 0)?, push_host)),
    entry("hostmask", &[INET], INET, |values, _| {
        let network = address(values, 0)?;
        inet(whole(network).with_number(network.host_mask()))
    }),
    entry("inet_merge", &[INET, INET], CIDR, merged),
    entry("masklen", &[INET], Integer, |values, _| Ok(Value::Integer(address(values, 0)?.bits.into()))),
    entry("netmask", &[INET], INET, |values, _| {
        let network = address(values, 0)?;
        inet(whole(network).with_number(network.mask()))
    }),
    entry("network", &[INET], CIDR, |values, _| cidr(address(values, 0)?)),
    entry("set_masklen", &[INET, Integer], INET, |values, _| inet(with_mask(values)?)),
    entry("set_masklen", &[CIDR, Integer], CIDR, |values, _| cidr(with_mask(values)?)),
];

fn address(values: &[Value], position: usize) -> Result<Network> {
    match values.get(position) {
        Some(Value::Packed(packed)) if packed.packed_type().is_network() => Ok(packed.borrow().network()),
        _ => Err(wrong_argument()),
    }
}

fn inet(network: Network) -> Result<Value> {
    Ok(Value::Packed(network.packed(PackedType::Inet)))
}

/// The network of an address.
fn cidr(network: Network) -> Result<Value> {
    Ok(Value::Packed(network.network().packed(PackedType::Cidr)))
}

fn text(network: Network, push: fn(Network, &mut String)) -> Result<Value> {
    let mut text = String::new();
    push(network, &mut text);
    Ok(Value::text(text))
}

/// What shows an `inet`.
fn shown(network: Network) -> Value {
    let mut text = String::new();
    network.packed(PackedType::Inet).borrow().push_text(&mut text);
    Value::text(text)
}

fn pair(values: &[Value], holds: fn(Network, Network) -> bool) -> Result<Value> {
    Ok(Value::Boolean(holds(address(values, 0)?, address(values, 1)?)))
}

/// Whether the network is one of several in the other.
fn is_within(inner: Network, outer: Network) -> bool {
    outer.bits < inner.bits && outer.contains(inner)
}

fn is_within_or_equal(inner: Network, outer: Network) -> bool {
    outer.contains(inner)
}

fn has_within(outer: Network, inner: Network) -> bool {
    is_within(inner, outer)
}

/// The address with a mask that covers it.
fn whole(network: Network) -> Network {
    Network { bits: network.bits_max(), ..network }
}

/// # Errors
/// 22023 for addresses of two families.
fn combined(values: &[Value], what: &str, of: fn(u128, u128) -> u128) -> Result<Value> {
    let (left, right) = (address(values, 0)?, address(values, 1)?);
    if left.is_v6 != right.is_v6 {
        return Err(invalid(format!("cannot {what} inet values of different sizes")));
    }
    let widest = Network { bits: left.bits.max(right.bits), ..left };
    inet(widest.with_number(of(left.number(), right.number())))
}

/// The address so many further.
///
/// # Errors
/// 22003 beyond the addresses of the family.
fn moved(values: &[Value], position: usize, by: i128) -> Result<Value> {
    let network = address(values, position)?;
    let number = network.number().checked_add_signed(by);
    let number = number.filter(|number| *number <= whole(network).mask());
    number.map_or_else(|| Err(out_of_range()), |number| inet(network.with_number(number)))
}

/// # Errors
/// 22023 for addresses of two families, 22003 for more than a bigint counts.
fn distance(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (left, right) = (address(values, 0)?, address(values, 1)?);
    if left.is_v6 != right.is_v6 {
        return Err(invalid("cannot subtract inet values of different sizes"));
    }
    let size = i128::try_from(left.number().abs_diff(right.number())).map_err(|_| out_of_range())?;
    let distance = if left.number() < right.number() { -size } else { size };
    i64::try_from(distance).map(Value::BigInt).map_err(|_| out_of_range())
}

fn out_of_range() -> Error {
    Error::new(SqlState::NumericValueOutOfRange, "result is out of range")
}

/// The smallest network that has both.
fn merged(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (left, right) = (address(values, 0)?, address(values, 1)?);
    if left.is_v6 != right.is_v6 {
        return Err(invalid("cannot merge addresses from different families"));
    }
    let bits = left.common_bits(right).min(left.bits).min(right.bits);
    cidr(Network { bits, ..left })
}

/// # Errors
/// 22023 for a mask that is too long.
fn with_mask(values: &[Value]) -> Result<Network> {
    let network = address(values, 0)?;
    let bits = match integer(values, 1)? {
        -1 => Some(network.bits_max()),
        wanted => u8::try_from(wanted).ok().filter(|bits| *bits <= network.bits_max()),
    };
    match bits {
        Some(bits) => Ok(Network { bits, ..network }),
        None => Err(invalid(format!("invalid mask length: {}", integer(values, 1)?))),
    }
}
