//! Functions and operators of strings of bits: `bit` and `bit varying`.

use super::entry::{Entry, entry, integer, invalid, wrong_argument};
use crate::expression::text::length;
use crate::expression::types::ANY_BIT as BIT;
use ankerdb_engine::DataType::{BigInt, Integer};
use ankerdb_engine::{Bits, DataType, Error, Interrupt, PackedType, Result, SqlState, Value};

const VARBIT: DataType = DataType::Packed(PackedType::BITS);
/// Places that are looked at before a cancel is.
const PLACES_BETWEEN_CHECKS: usize = 1 << 12;

pub(super) const ENTRIES: &[Entry] = &[
    entry("operator &", &[BIT, BIT], BIT, |values, _| Combination::And.of_values(values)),
    entry("operator |", &[BIT, BIT], BIT, |values, _| Combination::Or.of_values(values)),
    entry("operator #", &[BIT, BIT], BIT, |values, _| Combination::ExclusiveOr.of_values(values)),
    entry("operator ~", &[BIT], BIT, |values, _| bit(&bits(values, 0)?.map(|byte| !byte))),
    entry("operator <<", &[BIT, Integer], BIT, |values, _| {
        bit(&bits(values, 0)?.shifted(-integer(values, 1)?))
    }),
    entry("operator >>", &[BIT, Integer], BIT, |values, _| {
        bit(&bits(values, 0)?.shifted(integer(values, 1)?))
    }),
    entry("operator ||", &[VARBIT, VARBIT], VARBIT, |values, _| {
        bit(&bits(values, 0)?.concat(&bits(values, 1)?)?)
    }),
    entry("length", &[BIT], Integer, bit_length),
    entry("bit_length", &[BIT], Integer, bit_length),
    entry("octet_length", &[BIT], Integer, |values, _| {
        length(bits(values, 0)?.length().div_ceil(8)).map(Value::Integer)
    }),
    entry("bit_count", &[BIT], BigInt, |values, _| {
        let ones: u64 = bits(values, 0)?.bytes().iter().map(|byte| u64::from(byte.count_ones())).sum();
        Ok(Value::BigInt(ones as i64))
    }),
    entry("get_bit", &[BIT, Integer], Integer, |values, _| {
        let bits = bits(values, 0)?;
        Ok(Value::Integer(i32::from(bits.get(index(values, &bits)?))))
    }),
    entry("set_bit", &[BIT, Integer, Integer], BIT, set_bit),
    entry("substring", &[BIT, Integer], BIT, substring),
    entry("substring", &[BIT, Integer, Integer], BIT, substring),
    entry("overlay", &[BIT, BIT, Integer], BIT, overlay),
    entry("overlay", &[BIT, BIT, Integer, Integer], BIT, overlay),
    entry("position", &[BIT, BIT], Integer, position),
];

/// How two strings of as many bits make one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Combination {
    And,
    Or,
    ExclusiveOr,
}

impl Combination {
    fn word(self) -> &'static str {
        match self {
            Combination::And => "AND",
            Combination::Or => "OR",
            Combination::ExclusiveOr => "XOR",
        }
    }

    /// The two combined.
    ///
    /// # Errors
    /// 22026 for strings of different lengths.
    pub(crate) fn of(self, left: &Bits, right: &Bits) -> Result<Bits> {
        if left.length() != right.length() {
            let message = format!("cannot {} bit strings of different sizes", self.word());
            return Err(Error::new(SqlState::StringDataLengthMismatch, message));
        }
        Ok(left.zip(right, |left, right| match self {
            Combination::And => left & right,
            Combination::Or => left | right,
            Combination::ExclusiveOr => left ^ right,
        }))
    }

    fn of_values(self, values: &[Value]) -> Result<Value> {
        bit(&self.of(&bits(values, 0)?, &bits(values, 1)?)?)
    }
}

fn bits(values: &[Value], position: usize) -> Result<Bits> {
    match values.get(position) {
        Some(Value::Packed(packed)) if packed.is_of(PackedType::BITS) => Ok(packed.borrow().bits()),
        _ => Err(wrong_argument()),
    }
}

fn bit(bits: &Bits) -> Result<Value> {
    Ok(Value::Packed(bits.packed()))
}

fn bit_length(values: &[Value], _: &Interrupt) -> Result<Value> {
    match values.first() {
        Some(Value::Packed(packed)) => length(packed.borrow().bit_length()).map(Value::Integer),
        _ => Err(wrong_argument()),
    }
}

/// The position of a bit, from 0.
///
/// # Errors
/// 2202E if there is none.
fn index(values: &[Value], bits: &Bits) -> Result<usize> {
    let position = integer(values, 1)?;
    usize::try_from(position).ok().filter(|position| *position < bits.length()).ok_or_else(|| {
        let last = bits.length() as i64 - 1;
        let message = format!("bit index {position} out of valid range (0..{last})");
        Error::new(SqlState::ArraySubscriptError, message)
    })
}

fn set_bit(values: &[Value], _: &Interrupt) -> Result<Value> {
    let mut changed = bits(values, 0)?;
    let position = index(values, &changed)?;
    match integer(values, 2)? {
        one @ (0 | 1) => changed.set(position, one == 1),
        _ => return Err(invalid("new bit must be 0 or 1")),
    }
    bit(&changed)
}

fn negative_length() -> Error {
    Error::new(SqlState::SubstringError, "negative substring length not allowed")
}

/// The bits from a position on, counted from 1; at most so many, if that is given.
fn part(bits: &Bits, start: i64, count: Option<i64>) -> Result<Bits> {
    let end = match count {
        Some(..0) => return Err(negative_length()),
        Some(count) => start.saturating_add(count),
        None => i64::MAX,
    };
    let place = |position: i64| usize::try_from(position - 1).unwrap_or(0).min(bits.length());
    let (start, end) = (place(start), place(end.max(1)));
    Ok(bits.part(start, end.saturating_sub(start)))
}

fn substring(values: &[Value], _: &Interrupt) -> Result<Value> {
    let count = if values.len() > 2 { Some(integer(values, 2)?) } else { None };
    bit(&part(&bits(values, 0)?, integer(values, 1)?, count)?)
}

fn overlay(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (whole, other, start) = (bits(values, 0)?, bits(values, 1)?, integer(values, 2)?);
    let count = if values.len() > 3 { integer(values, 3)? } else { other.length() as i64 };
    if start <= 0 {
        return Err(negative_length());
    }
    let Ok(behind) = i32::try_from(start + count) else {
        return Err(Error::new(SqlState::NumericValueOutOfRange, "integer out of range"));
    };
    let before = part(&whole, 1, Some(start - 1))?;
    bit(&before.concat(&other)?.concat(&part(&whole, behind.into(), None)?)?)
}

/// Where a string has the other one, from 1; 0 if nowhere.
fn position(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    let (whole, wanted) = (bits(values, 0)?, bits(values, 1)?);
    if whole.length() == 0 || wanted.length() > whole.length() {
        return Ok(Value::Integer(0));
    }
    let is_here = |start: usize| -> Result<bool> {
        for at in 0..wanted.length() {
            if at % PLACES_BETWEEN_CHECKS == PLACES_BETWEEN_CHECKS - 1 {
                interrupt.check()?;
            }
            if whole.get(start + at) != wanted.get(at) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    for start in 0..=whole.length() - wanted.length() {
        if start % PLACES_BETWEEN_CHECKS == 0 {
            interrupt.check()?;
        }
        if is_here(start)? {
            return length(start + 1).map(Value::Integer);
        }
    }
    Ok(Value::Integer(0))
}
