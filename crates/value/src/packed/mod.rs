//! Values whose bytes order as they do, of several types at once: what stores, compares, groups and sends them needs to know
//! the bytes only, and what reads and writes texts and computes is the type's own.
//!
//! ```text
//! ranges       range.rs     lower bound, upper bound
//! timetz       time_tz.rs   time at Greenwich, place of the clock
//! inet, cidr   network.rs   family, bits of the network, length of the mask, whole address unless the mask covers it
//! bit, varbit  bits.rs      six bits a byte
//! ```
//! docs/design/packed-types.md says why.

mod bits;
pub(crate) mod network;
mod range;
mod time_tz;

pub use bits::{BitLength, Bits};
pub use network::Network;
pub use range::{Range, RangeBound, RangeType};
pub use time_tz::TimeTz;

use ankerdb_base::Result;
use std::fmt;

/// The most bytes of an address.
const NETWORK_MAX: usize = 34;

/// A type whose values are packed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PackedType {
    /// `inet`: the address of a host, and the length of its network's mask
    Inet,
    /// `cidr`: the address of a network, without bits to the right of the mask
    Cidr,
    /// `timetz`: a time of day, and how far from Greenwich the clock is
    TimeTz,
    /// A type of ranges, such as `int4range`
    Range(RangeType),
    /// `bit(n)`: as many bits
    Bit(BitLength),
    /// `bit varying(n)`: at most as many bits
    Varbit(BitLength),
}

impl PackedType {
    /// The type of all strings of bits, whichever type their column has.
    pub const BITS: PackedType = PackedType::Varbit(BitLength::ANY);

    /// The type that values of this one are of by themselves: they do not know the length that was declared.
    pub fn of_value(self) -> PackedType {
        if self.is_bits() { PackedType::BITS } else { self }
    }

    /// The type without a length.
    pub fn of_any_length(self) -> PackedType {
        match self {
            PackedType::Bit(_) => PackedType::Bit(BitLength::ANY),
            PackedType::Varbit(_) => PackedType::BITS,
            other => other,
        }
    }

    /// Whether values are strings of bits.
    pub fn is_bits(self) -> bool {
        matches!(self, PackedType::Bit(_) | PackedType::Varbit(_))
    }

    /// The length that was declared.
    pub fn length(self) -> Option<u32> {
        match self {
            PackedType::Bit(length) | PackedType::Varbit(length) => length.declared(),
            _ => None,
        }
    }

    /// Bytes of a value where all have as many: one length for each type, by which Arrow's columns tell it. `None` for strings of bits,
    /// which have any number.
    pub fn width(self) -> Option<usize> {
        Some(match self {
            PackedType::Inet => NETWORK_MAX,
            PackedType::Cidr => NETWORK_MAX + 1,
            PackedType::TimeTz => time_tz::LENGTH,
            // Two flags for each bound, one for the whole, and the values.
            PackedType::Range(RangeType::Integer) => 13,
            PackedType::Range(RangeType::Date) => 14,
            PackedType::Range(RangeType::BigInt) => 21,
            PackedType::Range(RangeType::Timestamp) => 22,
            PackedType::Range(RangeType::TimestampTz) => 23,
            PackedType::Bit(_) | PackedType::Varbit(_) => return None,
        })
    }

    /// The type whose values have this width.
    pub fn by_width(width: usize) -> Option<PackedType> {
        PackedType::ALL.into_iter().find(|known| known.width() == Some(width))
    }

    /// All of them, of any length.
    pub const ALL: [PackedType; 10] = [
        PackedType::Inet,
        PackedType::Cidr,
        PackedType::TimeTz,
        PackedType::Range(RangeType::Integer),
        PackedType::Range(RangeType::BigInt),
        PackedType::Range(RangeType::Date),
        PackedType::Range(RangeType::Timestamp),
        PackedType::Range(RangeType::TimestampTz),
        PackedType::Bit(BitLength::ANY),
        PackedType::BITS,
    ];

    /// The name as PostgreSQL writes it, without a length.
    pub fn name(self) -> &'static str {
        match self {
            PackedType::Inet => "inet",
            PackedType::Cidr => "cidr",
            PackedType::TimeTz => "time with time zone",
            PackedType::Range(RangeType::Integer) => "int4range",
            PackedType::Range(RangeType::BigInt) => "int8range",
            PackedType::Range(RangeType::Date) => "daterange",
            PackedType::Range(RangeType::Timestamp) => "tsrange",
            PackedType::Range(RangeType::TimestampTz) => "tstzrange",
            PackedType::Bit(_) => "bit",
            PackedType::Varbit(_) => "bit varying",
        }
    }

    /// The name in `pg_type`, which is one word.
    pub fn catalog_name(self) -> &'static str {
        match self {
            PackedType::TimeTz => "timetz",
            PackedType::Varbit(_) => "varbit",
            other => other.name(),
        }
    }

    /// The name of its lists.
    pub fn list_name(self) -> &'static str {
        match self {
            PackedType::Inet => "inet[]",
            PackedType::Cidr => "cidr[]",
            PackedType::TimeTz => "time with time zone[]",
            PackedType::Range(RangeType::Integer) => "int4range[]",
            PackedType::Range(RangeType::BigInt) => "int8range[]",
            PackedType::Range(RangeType::Date) => "daterange[]",
            PackedType::Range(RangeType::Timestamp) => "tsrange[]",
            PackedType::Range(RangeType::TimestampTz) => "tstzrange[]",
            PackedType::Bit(_) => "bit[]",
            PackedType::Varbit(_) => "bit varying[]",
        }
    }

    /// PostgreSQL's numbers of the type and of its lists, and the bytes of a value; -1 if they vary.
    pub fn numbers(self) -> (u32, u32, i16) {
        match self {
            PackedType::Inet => (869, 1041, -1),
            PackedType::Cidr => (650, 651, -1),
            PackedType::TimeTz => (1266, 1270, 12),
            PackedType::Range(RangeType::Integer) => (3904, 3905, -1),
            PackedType::Range(RangeType::BigInt) => (3926, 3927, -1),
            PackedType::Range(RangeType::Date) => (3912, 3913, -1),
            PackedType::Range(RangeType::Timestamp) => (3908, 3909, -1),
            PackedType::Range(RangeType::TimestampTz) => (3910, 3911, -1),
            PackedType::Bit(_) => (1560, 1561, -1),
            PackedType::Varbit(_) => (1562, 1563, -1),
        }
    }

    /// The type that the name means, in small letters.
    pub fn by_name(name: &str) -> Option<PackedType> {
        PackedType::ALL.into_iter().find(|known| known.name() == name || known.catalog_name() == name)
    }

    /// Whether values are addresses.
    pub fn is_network(self) -> bool {
        matches!(self, PackedType::Inet | PackedType::Cidr)
    }

    /// The value that the text stands for.
    ///
    /// # Errors
    /// 22P02 for what is none, 22026 and 22001 for bits of another length.
    pub(crate) fn parse(self, text: &str) -> Result<Packed> {
        match self {
            PackedType::Inet => Ok(network::parse(text, false)?.packed(self)),
            PackedType::Cidr => Ok(network::parse(text, true)?.packed(self)),
            PackedType::TimeTz => Ok(time_tz::parse(text)?.packed()),
            PackedType::Range(range) => Ok(range::parse(range, text)?.packed()),
            PackedType::Bit(_) | PackedType::Varbit(_) => bits::parse(text)?.packed().fit_bits(self),
        }
    }

    /// The value that the bytes stand for, as drivers send them.
    ///
    /// # Errors
    /// 22P03 for what is none.
    pub fn from_wire(self, bytes: &[u8]) -> Result<Packed> {
        match self {
            PackedType::Inet | PackedType::Cidr => Ok(network::from_wire(self, bytes)?.packed(self)),
            PackedType::TimeTz => Ok(time_tz::from_wire(bytes)?.packed()),
            PackedType::Range(range) => Ok(range::from_wire(range, bytes)?.packed()),
            PackedType::Bit(_) | PackedType::Varbit(_) => bits::from_wire(bytes)?.packed().fit_bits(self),
        }
    }

    /// Whether these are the bytes of a value.
    pub fn is_stored_form(self, bytes: &[u8]) -> bool {
        match self {
            PackedType::Inet => Network::unpacked(bytes).packed(self).borrow().bytes() == bytes,
            PackedType::Cidr => Network::unpacked(bytes).network().packed(self).borrow().bytes() == bytes,
            PackedType::TimeTz => bytes.len() == time_tz::LENGTH && TimeTz::unpacked(bytes).check().is_ok(),
            PackedType::Range(range) => range::is_stored_form(range, bytes),
            PackedType::Bit(_) | PackedType::Varbit(_) => bits::is_stored_form(self, bytes),
        }
    }

    /// Some value of the type, for what only looks at types.
    pub fn sample(self) -> Packed {
        match self {
            PackedType::Inet | PackedType::Cidr => Network::default().packed(self),
            PackedType::TimeTz => TimeTz::default().packed(),
            PackedType::Range(range) => Range::empty(range).packed(),
            PackedType::Bit(_) | PackedType::Varbit(_) => Packed { packed_type: self, bytes: Box::default() },
        }
    }
}

/// The name as PostgreSQL's `format_type` writes it.
impl fmt::Display for PackedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.length().map_or(Ok(()), |length| write!(f, "({length})"))
    }
}

/// A value of a packed type. Two values of one type order as their bytes do.
#[derive(Clone)]
pub struct Packed {
    packed_type: PackedType,
    bytes: Box<[u8]>,
}

/// A value of a packed type where it lies.
#[derive(Clone, Copy)]
pub struct PackedRef<'a> {
    packed_type: PackedType,
    bytes: &'a [u8],
}

impl PartialEq for PackedRef<'_> {
    fn eq(&self, other: &PackedRef<'_>) -> bool {
        self.is_of(other.packed_type) && self.bytes == other.bytes
    }
}

impl Eq for PackedRef<'_> {}

impl PartialEq for Packed {
    fn eq(&self, other: &Packed) -> bool {
        self.borrow() == other.borrow()
    }
}

impl Eq for Packed {}

impl Packed {
    /// Its type.
    pub fn packed_type(&self) -> PackedType {
        self.packed_type
    }

    /// Whether it is a value of the type, of any length.
    pub fn is_of(&self, known: PackedType) -> bool {
        self.borrow().is_of(known)
    }

    /// The value as one that borrows its bytes.
    pub fn borrow(&self) -> PackedRef<'_> {
        PackedRef { packed_type: self.packed_type, bytes: &self.bytes }
    }

    /// The value as one of another packed type; `None` where there is no such conversion.
    pub(crate) fn cast(&self, target: PackedType) -> Option<Packed> {
        let value = self.borrow();
        match (self.packed_type, target) {
            (PackedType::Inet | PackedType::Cidr, PackedType::Inet) => Some(value.network().packed(target)),
            (PackedType::Inet | PackedType::Cidr, PackedType::Cidr) => {
                Some(value.network().network().packed(target))
            }
            (_, target) if self.is_of(target) => Some(self.clone()),
            _ => None,
        }
    }
}

impl<'a> PackedRef<'a> {
    /// The value with these bytes, which may have zeros behind them.
    pub fn new(packed_type: PackedType, bytes: &'a [u8]) -> PackedRef<'a> {
        let length = match packed_type {
            PackedType::Inet | PackedType::Cidr => network::packed_length(bytes),
            PackedType::TimeTz => time_tz::LENGTH,
            PackedType::Range(range) => Range::unpacked(range, bytes).1,
            PackedType::Bit(_) | PackedType::Varbit(_) => bytes.len(),
        };
        PackedRef { packed_type, bytes: &bytes[..length.min(bytes.len())] }
    }

    /// Its type.
    pub fn packed_type(self) -> PackedType {
        self.packed_type
    }

    /// Whether it is a value of the type, of any length.
    pub fn is_of(self, known: PackedType) -> bool {
        self.packed_type.of_value() == known.of_value()
    }

    /// Its bytes, as they are stored.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Its bytes, with zeros up to the width of its type if that has one.
    pub fn padded(self) -> Vec<u8> {
        let mut bytes = self.bytes.to_vec();
        if let Some(width) = self.packed_type.width() {
            bytes.resize(width, 0);
        }
        bytes
    }

    /// A value of its own.
    pub fn to_packed(self) -> Packed {
        Packed { packed_type: self.packed_type, bytes: self.bytes.into() }
    }

    /// Appends its text.
    pub fn push_text(self, out: &mut String) {
        match self.packed_type {
            PackedType::Inet => network::push_inet(self.network(), out),
            PackedType::Cidr => network::push_full(self.network(), out),
            PackedType::TimeTz => time_tz::push(self.time_tz(), out),
            PackedType::Range(kind) => range::push(Range::unpacked(kind, self.bytes).0, out),
            PackedType::Bit(_) | PackedType::Varbit(_) => bits::push(self.bytes, out),
        }
    }

    /// Its text.
    pub fn to_text(self) -> String {
        let mut text = String::new();
        self.push_text(&mut text);
        text
    }

    /// Appends the text that a cast gives, which is not what shows a value of every type.
    pub(crate) fn push_cast_text(self, out: &mut String) {
        match self.packed_type {
            PackedType::Inet | PackedType::Cidr => network::push_full(self.network(), out),
            _ => self.push_text(out),
        }
    }

    /// Its bytes as drivers read them.
    pub fn to_wire(self) -> Vec<u8> {
        match self.packed_type {
            PackedType::Inet | PackedType::Cidr => {
                network::to_wire(self.network(), self.packed_type == PackedType::Cidr)
            }
            PackedType::TimeTz => time_tz::to_wire(self.time_tz()),
            PackedType::Range(kind) => range::to_wire(Range::unpacked(kind, self.bytes).0),
            PackedType::Bit(_) | PackedType::Varbit(_) => bits::to_wire(self.bytes),
        }
    }

    /// The address that it is; for types of networks.
    pub fn network(self) -> Network {
        Network::unpacked(self.bytes)
    }

    /// The range that it is; `None` for other types.
    pub fn range(self) -> Option<Range> {
        match self.packed_type {
            PackedType::Range(range) => Some(Range::unpacked(range, self.bytes).0),
            _ => None,
        }
    }

    /// The time that it is; for `timetz`.
    pub fn time_tz(self) -> TimeTz {
        TimeTz::unpacked(self.bytes)
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.borrow().fmt(f)
    }
}

impl fmt::Debug for PackedRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.packed_type.name(), self.to_text())
    }
}

/// Values of one type are compared only.
impl Ord for PackedRef<'_> {
    fn cmp(&self, other: &PackedRef<'_>) -> std::cmp::Ordering {
        self.bytes.cmp(other.bytes)
    }
}

impl PartialOrd for PackedRef<'_> {
    fn partial_cmp(&self, other: &PackedRef<'_>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
