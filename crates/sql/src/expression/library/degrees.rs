//! Functions of angles in degrees: exact where the result is simple, such as the sine of 30 degrees.
//!
//! Each function is computed for angles for which its formula is precise and scaled so that the ends come out exactly; the
//! others follow by symmetry.

use super::entry::{Entry, double, entry};
use ankerdb_engine::DataType::DoublePrecision;
use ankerdb_engine::{Error, Interrupt, Result, SqlState, Value};
use std::hint::black_box;

pub(super) const ENTRIES: &[Entry] = &[
    entry("sind", &[DoublePrecision], DoublePrecision, |values, _| of(values, sine)),
    entry("cosd", &[DoublePrecision], DoublePrecision, |values, _| of(values, cosine)),
    entry("tand", &[DoublePrecision], DoublePrecision, |values, _| of(values, tangent)),
    entry("cotd", &[DoublePrecision], DoublePrecision, |values, _| of(values, cotangent)),
    entry("asind", &[DoublePrecision], DoublePrecision, |values, _| inverse(values, arc_sine)),
    entry("acosd", &[DoublePrecision], DoublePrecision, |values, _| inverse(values, arc_cosine)),
    entry("atand", &[DoublePrecision], DoublePrecision, arc_tangent),
    entry("atan2d", &[DoublePrecision, DoublePrecision], DoublePrecision, arc_tangent_of_quotient),
    entry("pi", &[], DoublePrecision, |_, _| Ok(Value::Double(std::f64::consts::PI))),
];

fn out_of_range() -> Error {
    Error::new(SqlState::NumericValueOutOfRange, "input is out of range")
}

/// A function of any finite angle.
fn of(values: &[Value], compute: fn(f64) -> f64) -> Result<Value> {
    let angle = double(values, 0)?;
    match angle.is_infinite() {
        true => Err(out_of_range()),
        false => Ok(Value::Double(if angle.is_nan() { angle } else { compute(angle) })),
    }
}

/// A function of a number from -1 to 1.
fn inverse(values: &[Value], compute: fn(f64) -> f64) -> Result<Value> {
    let value = double(values, 0)?;
    match value.abs() > 1.0 {
        true => Err(out_of_range()),
        false => Ok(Value::Double(if value.is_nan() { value } else { compute(value) })),
    }
}

fn radians(angle: f64) -> f64 {
    angle * (std::f64::consts::PI / 180.0)
}

/// Up to 30 degrees.
fn small_sine(angle: f64) -> f64 {
    radians(angle).sin() / radians(black_box(30.0)).sin() / 2.0
}

/// Up to 60 degrees.
fn small_cosine(angle: f64) -> f64 {
    let fall = |angle: f64| 1.0 - radians(angle).cos();
    1.0 - fall(angle) / fall(black_box(60.0)) / 2.0
}

/// Of the first quadrant.
fn first_sine(angle: f64) -> f64 {
    if angle <= 30.0 { small_sine(angle) } else { small_cosine(90.0 - angle) }
}

/// Of the first quadrant.
fn first_cosine(angle: f64) -> f64 {
    if angle <= 60.0 { small_cosine(angle) } else { small_sine(90.0 - angle) }
}

fn sine(angle: f64) -> f64 {
    let (mut angle, mut sign) = (angle % 360.0, 1.0);
    if angle < 0.0 {
        (angle, sign) = (-angle, -sign);
    }
    if angle > 180.0 {
        (angle, sign) = (360.0 - angle, -sign);
    }
    sign * first_sine(if angle > 90.0 { 180.0 - angle } else { angle })
}

fn cosine(angle: f64) -> f64 {
    let (mut angle, mut sign) = ((angle % 360.0).abs(), 1.0);
    if angle > 180.0 {
        angle = 360.0 - angle;
    }
    if angle > 90.0 {
        (angle, sign) = (180.0 - angle, -sign);
    }
    sign * first_cosine(angle)
}

/// The angle in the first quadrant with the same tangent, up to the sign.
fn reduced(angle: f64) -> (f64, f64) {
    let (mut angle, mut sign) = (angle % 360.0, 1.0);
    if angle < 0.0 {
        (angle, sign) = (-angle, -sign);
    }
    if angle > 180.0 {
        (angle, sign) = (360.0 - angle, -sign);
    }
    if angle > 90.0 {
        (angle, sign) = (180.0 - angle, -sign);
    }
    (angle, sign)
}

/// Zero has no sign.
fn unsigned_zero(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value }
}

fn tangent(angle: f64) -> f64 {
    let quotient = |angle: f64| first_sine(angle) / first_cosine(angle);
    let (angle, sign) = reduced(angle);
    unsigned_zero(sign * (quotient(angle) / quotient(black_box(45.0))))
}

fn cotangent(angle: f64) -> f64 {
    let quotient = |angle: f64| first_cosine(angle) / first_sine(angle);
    let (angle, sign) = reduced(angle);
    unsigned_zero(sign * (quotient(angle) / quotient(black_box(45.0))))
}

/// Of a number from 0 to 1.
fn first_arc_sine(value: f64) -> f64 {
    match value <= 0.5 {
        true => value.asin() / black_box(0.5f64).asin() * 30.0,
        false => 90.0 - value.acos() / black_box(0.5f64).acos() * 60.0,
    }
}

fn arc_sine(value: f64) -> f64 {
    if value >= 0.0 { first_arc_sine(value) } else { -first_arc_sine(-value) }
}

/// Of a number from 0 to 1.
fn first_arc_cosine(value: f64) -> f64 {
    match value <= 0.5 {
        true => 90.0 - value.asin() / black_box(0.5f64).asin() * 30.0,
        false => value.acos() / black_box(0.5f64).acos() * 60.0,
    }
}

fn arc_cosine(value: f64) -> f64 {
    if value >= 0.0 { first_arc_cosine(value) } else { 90.0 + first_arc_sine(-value) }
}

fn arc_tangent(values: &[Value], _: &Interrupt) -> Result<Value> {
    Ok(Value::Double(double(values, 0)?.atan() / black_box(1.0f64).atan() * 45.0))
}

fn arc_tangent_of_quotient(values: &[Value], _: &Interrupt) -> Result<Value> {
    let angle = double(values, 0)?.atan2(double(values, 1)?);
    Ok(Value::Double(angle / black_box(1.0f64).atan() * 45.0))
}
