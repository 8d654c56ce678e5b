//! `to_char` of numbers, and `to_number`.

use super::entry::{Entry, NUMERIC, constant_text, entry, text, wrong_argument};
use super::number_picture::{Digits, NumberElement, NumberPicture, painted};
use crate::expression::Typed;
use ankerdb_engine::DataType::{BigInt, DoublePrecision, Integer, Number as AnyNumber, Real, Text};
use ankerdb_engine::{Decimal, Error, Interrupt, Result, SqlState, Value};
use ankerdb_value::Number;

pub(super) const ENTRIES: &[Entry] = &[
    entry("to_char", &[Integer, Text], Text, to_char).stable(),
    entry("to_char", &[BigInt, Text], Text, to_char).stable(),
    entry("to_char", &[NUMERIC, Text], Text, to_char).stable(),
    entry("to_char", &[AnyNumber, Text], Text, to_char).stable(),
    entry("to_char", &[Real, Text], Text, to_char).stable(),
    entry("to_char", &[DoublePrecision, Text], Text, to_char).stable(),
    entry("to_number", &[Text, Text], NUMERIC, to_number).digits(digits_of_picture).stable(),
];

fn to_char(values: &[Value], _: &Interrupt) -> Result<Value> {
    let format = text(values, 1)?;
    if format.is_empty() {
        return Ok(Value::Null);
    }
    let picture = NumberPicture::read(format)?;
    let number = values.first().ok_or_else(wrong_argument)?;
    if picture.roman {
        return Ok(Value::text(roman(&picture, number)?));
    }
    if picture.exponent {
        return Ok(Value::text(with_exponent(&picture, number)?));
    }
    let shift = picture.shifted.unwrap_or(0) as u32;
    let digits = match number {
        Value::Real(value) => float_digits(&picture, f64::from(*value) * 10f64.powi(shift as i32), 6),
        Value::Double(value) => float_digits(&picture, *value * 10f64.powi(shift as i32), 15),
        Value::Number(text) => long_digits(&picture, &Number::read(text), shift)?,
        exact => exact_digits(&picture, exact_decimal(exact)?, shift)?,
    };
    Ok(Value::text(painted(&picture, &fitted(&picture, digits))))
}

fn exact_decimal(value: &Value) -> Result<Decimal> {
    match (value, value.as_integer()) {
        (Value::Numeric(value), _) => Ok(*value),
        (_, Some(value)) => Ok(Decimal::from(value)),
        _ => Err(wrong_argument()),
    }
}

fn exact_digits(picture: &NumberPicture, value: Decimal, shift: u32) -> Result<Digits> {
    let overflow = || Error::new(SqlState::NumericValueOutOfRange, "value overflows numeric format");
    let shifted = match shift {
        0 => value,
        _ => {
            let factor = 10i128.checked_pow(shift).ok_or_else(overflow)?;
            value.checked_mul(Decimal::new(factor, 0))?
        }
    };
    // More digits than a number has are zeros.
    let scale = picture.behind.min(38) as u8;
    let rounded = match scale < shifted.scale {
        true => shifted.rescale(scale)?,
        false => shifted,
    };
    let magnitude = rounded.unscaled.unsigned_abs().to_string();
    let magnitude = format!("{magnitude:0>width$}", width = usize::from(rounded.scale) + 1);
    let (before, behind) = magnitude.split_at(magnitude.len() - usize::from(rounded.scale));
    let behind = format!("{behind:0<width$}", width = picture.behind);
    Ok(Digits { is_negative: rounded.unscaled < 0, before: before.to_owned(), behind, room: picture.behind })
}

/// The digits of a numeric of any length.
fn long_digits(picture: &NumberPicture, value: &Number, shift: u32) -> Result<Digits> {
    if !value.is_finite() {
        return Ok(float_digits(picture, value.to_f64(), 15));
    }
    let shifted = match shift {
        0 => value.clone(),
        _ => value.checked_mul(&Number::parse(&format!("1e{shift}"))?)?,
    };
    let behind = i32::try_from(picture.behind).map_err(|_| wrong_argument())?;
    let text = shifted.round(behind)?.to_string();
    let (is_negative, magnitude) = match text.strip_prefix('-') {
        Some(magnitude) => (true, magnitude),
        None => (false, text.as_str()),
    };
    let (before, behind) = magnitude.split_once('.').unwrap_or((magnitude, ""));
    let behind = format!("{behind:0<width$}", width = picture.behind);
    Ok(Digits { is_negative, before: before.to_owned(), behind, room: picture.behind })
}

/// At most so many digits of a double or real mean something.
fn float_digits(picture: &NumberPicture, value: f64, precision: usize) -> Digits {
    let magnitude = value.abs();
    let room = |whole: usize| picture.behind.min(precision.saturating_sub(whole));
    if !value.is_finite() {
        let name = if value.is_nan() { "NaN" } else { "Infinity" };
        let (before, behind) = (name.to_owned(), String::new());
        return Digits { is_negative: value < 0.0, before, behind, room: room(name.len()) };
    }
    let room = room(format!("{magnitude:.0}").len());
    let text = format!("{magnitude:.room$}");
    let (before, behind) = text.split_once('.').unwrap_or((&text, ""));
    Digits {
        is_negative: value.is_sign_negative(),
        before: before.to_owned(),
        behind: behind.to_owned(),
        room,
    }
}

/// The digits, or as many signs that say that there is no room for them.
fn fitted(picture: &NumberPicture, digits: Digits) -> Digits {
    if digits.before.len() <= picture.before {
        return digits;
    }
    let signs = |count: usize| "#".repeat(count);
    Digits { before: signs(picture.before), behind: signs(digits.room), ..digits }
}

fn roman(picture: &NumberPicture, number: &Value) -> Result<String> {
    const STEPS: [(i128, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    const WIDTH: usize = 15;
    let mut rest = match number {
        Value::Real(value) => f64::from(*value).round_ties_even() as i128,
        Value::Double(value) => value.round_ties_even() as i128,
        // What is too long, or no number, has no Roman digits.
        Value::Number(text) => Number::read(text).to_i64("integer").unwrap_or(0).into(),
        exact => exact_decimal(exact)?.to_integer(),
    };
    if !(1..=3999).contains(&rest) {
        return Ok("#".repeat(WIDTH));
    }
    let mut written = String::new();
    for (value, letters) in STEPS {
        while rest >= value {
            written.push_str(letters);
            rest -= value;
        }
    }
    if picture.places.contains(&NumberElement::Roman(false)) {
        written.make_ascii_lowercase();
    }
    Ok(if picture.fills { written } else { format!("{written:>WIDTH$}") })
}

/// `1.23e+04`
fn with_exponent(picture: &NumberPicture, number: &Value) -> Result<String> {
    let digits = picture.behind;
    let value = match number {
        Value::Real(value) => f64::from(*value),
        Value::Double(value) => *value,
        Value::Number(text) if Number::read(text).is_finite() => return exact_exponent(text, digits),
        Value::Number(text) => Number::read(text).to_f64(),
        exact => return exact_exponent(&exact_decimal(exact)?.to_string(), digits),
    };
    if !value.is_finite() {
        // As long as a number is, with its exponent.
        return Ok(format!(" {}.{}", "#".repeat(picture.before), "#".repeat(digits + "e+00".len())));
    }
    let written = format!("{value:.digits$e}");
    let (mantissa, exponent) = written.split_once('e').ok_or_else(wrong_argument)?;
    let exponent: i32 = exponent.parse().map_err(|_| wrong_argument())?;
    Ok(scientific(value.is_sign_negative(), mantissa.trim_start_matches('-'), exponent))
}

fn scientific(is_negative: bool, mantissa: &str, exponent: i32) -> String {
    let (sign, exponent_sign) = (if is_negative { '-' } else { ' ' }, if exponent < 0 { '-' } else { '+' });
    format!("{sign}{mantissa}e{exponent_sign}{:02}", exponent.unsigned_abs())
}

/// Rounded half away from zero. `number`: its digits, perhaps with a point.
fn exact_exponent(number: &str, digits: usize) -> Result<String> {
    let magnitude = number.trim_start_matches('-');
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
    let written = [whole, fraction].concat();
    let mut all = written.trim_start_matches('0').as_bytes().to_vec();
    if all.is_empty() {
        let mantissa = if digits == 0 { "0".to_owned() } else { format!("0.{}", "0".repeat(digits)) };
        return Ok(scientific(false, &mantissa, 0));
    }
    let mut exponent = all.len() as i32 - 1 - fraction.len() as i32;
    if all.len() > digits + 1 {
        let is_up = all[digits + 1] >= b'5';
        all.truncate(digits + 1);
        if is_up {
            let nines = all.iter().rev().take_while(|digit| **digit == b'9').count();
            let kept = all.len() - nines;
            all[kept..].fill(b'0');
            match all[..kept].last_mut() {
                Some(digit) => *digit += 1,
                None => {
                    all[0] = b'1';
                    exponent += 1;
                }
            }
        }
    }
    let all = String::from_utf8(all).map_err(|_| wrong_argument())?;
    let all = format!("{all:0<width$}", width = digits + 1);
    let mantissa = if digits == 0 { all } else { format!("{}.{}", &all[..1], &all[1..]) };
    Ok(scientific(number.starts_with('-'), &mantissa, exponent))
}

/// Fractional digits that the picture has room for.
fn digits_of_picture(items: &[Typed]) -> u8 {
    let picture = constant_text(items, 1).and_then(|format| NumberPicture::read(format).ok());
    picture.map_or(10, |picture| (picture.behind + picture.shifted.unwrap_or(0)).min(38) as u8)
}

fn to_number(values: &[Value], _: &Interrupt) -> Result<Value> {
    let (input, format) = (text(values, 0)?, text(values, 1)?);
    if format.is_empty() {
        return Ok(Value::Null);
    }
    let picture = NumberPicture::read(format)?;
    if picture.exponent {
        return Err(crate::name::not_supported("\"EEEE\" for input"));
    }
    if picture.roman {
        return Err(crate::name::not_supported("\"RN\" for input"));
    }
    let read = read(&picture, input);
    let number = Decimal::parse(&read).map_err(|error| match error.state() {
        SqlState::InvalidTextRepresentation => {
            let message = format!("invalid input syntax for type numeric: \"{read}\"");
            Error::new(SqlState::InvalidTextRepresentation, message)
        }
        _ => error,
    })?;
    let Some(shift) = picture.shifted else { return Ok(Value::Numeric(number)) };
    let divisor = Decimal::new(10i128.pow(shift.min(37) as u32), 0);
    number.checked_div(divisor).map(Value::Numeric)
}

/// The number in the input: a sign or a blank, and what stands at the digits' places.
fn read(picture: &NumberPicture, input: &str) -> String {
    let (mut sign, mut digits) = (' ', String::new());
    let mut rest = input.trim_start_matches(' ');
    if picture.brackets && rest.starts_with('<') {
        sign = '-';
        rest = &rest[1..];
    }
    let take_sign = |rest: &mut &str, sign: &mut char| {
        if let Some(first @ ('-' | '+')) = rest.chars().next() {
            *sign = first;
            *rest = &rest[1..];
        }
    };
    for place in &picture.places {
        match place {
            NumberElement::Slot(_) => {
                if digits.is_empty() && sign == ' ' {
                    rest = rest.trim_start_matches(' ');
                    take_sign(&mut rest, &mut sign);
                }
                match rest.chars().next() {
                    Some(digit @ '0'..='9') => {
                        digits.push(digit);
                        rest = &rest[1..];
                    }
                    // The point may come before the picture's.
                    Some('.') if picture.has_point && !digits.contains('.') => {}
                    _ => {}
                }
            }
            NumberElement::Point => {
                if rest.starts_with('.') && !digits.contains('.') {
                    digits.push('.');
                    rest = &rest[1..];
                }
            }
            NumberElement::Group => rest = rest.strip_prefix(',').unwrap_or(rest),
            NumberElement::Sign | NumberElement::Minus | NumberElement::Plus | NumberElement::PlusOrMinus => {
                take_sign(&mut rest, &mut sign)
            }
            NumberElement::Currency => {
                let symbol =
                    rest.chars().next().filter(|first| !first.is_ascii_digit() && !"+-., ".contains(*first));
                rest = symbol.map_or(rest, |symbol| &rest[symbol.len_utf8()..]);
            }
            NumberElement::Ordinal(_) => rest = rest.get(2..).unwrap_or(""),
            NumberElement::Roman(_) => {}
            NumberElement::Text(text) => {
                for _ in text.chars() {
                    let skipped = rest.chars().next().filter(|first| !"0123456789.,+-".contains(*first));
                    rest = skipped.map_or(rest, |first| &rest[first.len_utf8()..]);
                }
            }
        }
    }
    if sign == ' ' && rest.trim_start().starts_with('-') {
        sign = '-';
    }
    format!("{}{digits}", if sign == '+' { ' ' } else { sign })
}
