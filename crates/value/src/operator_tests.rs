//! Tests of operators: results, types and errors.

use super::*;

fn numeric(text: &str) -> Value {
    Value::Numeric(Decimal::parse(text).unwrap())
}

fn refusal(result: Result<Value>) -> String {
    let error = result.unwrap_err();
    format!("{} {}", error.state().code(), error.message())
}

#[test]
fn numbers_meet_in_the_wider_type() {
    let one = Value::SmallInt(1);
    assert_eq!(add(&one, &one), Ok(Value::SmallInt(2)));
    assert_eq!(add(&one, &Value::Integer(2)), Ok(Value::Integer(3)));
    assert_eq!(add(&Value::BigInt(2), &Value::Integer(2)), Ok(Value::BigInt(4)));
    assert_eq!(multiply(&Value::Integer(2), &numeric("1.50")), Ok(numeric("3.00")));
    assert_eq!(add(&Value::Real(1.5), &Value::Real(1.0)), Ok(Value::Real(2.5)));
    assert_eq!(add(&Value::Real(1.5), &one), Ok(Value::Double(2.5)));
    assert_eq!(subtract(&numeric("0.5"), &Value::Double(0.25)), Ok(Value::Double(0.25)));
    assert_eq!(add(&Value::Null, &one), Ok(Value::Null));
    assert_eq!(divide(&one, &Value::Null), Ok(Value::Null));
}

#[test]
fn integers_truncate_and_never_wrap() {
    assert_eq!(divide(&Value::Integer(-7), &Value::Integer(2)), Ok(Value::Integer(-3)));
    assert_eq!(modulo(&Value::Integer(-7), &Value::Integer(2)), Ok(Value::Integer(-1)));
    assert_eq!(modulo(&Value::BigInt(i64::MIN), &Value::Integer(-1)), Ok(Value::BigInt(0)));
    let (max, min) = (Value::Integer(i32::MAX), Value::Integer(i32::MIN));
    assert_eq!(refusal(add(&max, &Value::SmallInt(1))), "22003 integer out of range");
    assert_eq!(refusal(divide(&min, &Value::Integer(-1))), "22003 integer out of range");
    assert_eq!(refusal(negate(&min)), "22003 integer out of range");
    assert_eq!(
        refusal(multiply(&Value::SmallInt(300), &Value::SmallInt(300))),
        "22003 smallint out of range"
    );
    assert_eq!(refusal(subtract(&Value::BigInt(i64::MIN), &max)), "22003 bigint out of range");
}

#[test]
fn division_by_zero_is_refused_in_every_type() {
    for zero in [Value::SmallInt(0), Value::Integer(0), Value::BigInt(0), numeric("0.0"), Value::Double(-0.0)]
    {
        assert_eq!(refusal(divide(&Value::Integer(1), &zero)), "22012 division by zero");
    }
    assert_eq!(refusal(modulo(&numeric("1"), &Value::SmallInt(0))), "22012 division by zero");
}

#[test]
fn floating_point_leaves_its_range_only_through_its_operands() {
    let huge = Value::Double(1e308);
    assert_eq!(refusal(multiply(&huge, &Value::Integer(10))), "22003 value out of range: overflow");
    assert_eq!(
        refusal(multiply(&Value::Double(1e-300), &Value::Double(1e-300))),
        "22003 value out of range: underflow"
    );
    assert_eq!(refusal(add(&Value::Real(3e38), &Value::Real(3e38))), "22003 value out of range: overflow");
    assert_eq!(subtract(&huge, &huge), Ok(Value::Double(0.0)));
    let infinity = Value::Double(f64::INFINITY);
    assert_eq!(add(&infinity, &huge), Ok(infinity.clone()));
    assert_eq!(divide(&huge, &infinity), Ok(Value::Double(0.0)));
    assert_eq!(
        refusal(modulo(&huge, &huge)),
        "42883 operator does not exist: double precision % double precision"
    );
}

#[test]
fn dates_count_days() {
    let date = Value::Date(100);
    assert_eq!(add(&date, &Value::Integer(5)), Ok(Value::Date(105)));
    assert_eq!(add(&Value::SmallInt(5), &date), Ok(Value::Date(105)));
    assert_eq!(subtract(&date, &Value::Integer(101)), Ok(Value::Date(-1)));
    assert_eq!(subtract(&date, &Value::Date(58)), Ok(Value::Integer(42)));
    assert_eq!(add(&date, &Value::Null), Ok(Value::Null));
    assert_eq!(refusal(add(&Value::Date(LAST_DAY as i32), &Value::Integer(1))), "22008 date out of range");
    assert_eq!(refusal(add(&date, &date)), "42883 operator does not exist: date + date");
    assert_eq!(refusal(add(&date, &Value::BigInt(1))), "42883 operator does not exist: date + bigint");
}

#[test]
fn comparable_types_compare_across_types() {
    let order = |left: Value, right: Value| compare(&left, &right).unwrap().unwrap();
    assert_eq!(order(Value::SmallInt(2), Value::BigInt(2)), Ordering::Equal);
    assert_eq!(order(numeric("1.50"), numeric("1.5")), Ordering::Equal);
    assert_eq!(order(numeric("1.5"), Value::Integer(2)), Ordering::Less);
    assert_eq!(order(Value::Double(f64::NAN), Value::Double(f64::INFINITY)), Ordering::Greater);
    assert_eq!(order(Value::Real(f32::NAN), Value::Double(f64::NAN)), Ordering::Equal);
    assert_eq!(order(Value::Double(-0.0), Value::Integer(0)), Ordering::Equal);
    assert_eq!(order(Value::text("Z"), Value::text("a")), Ordering::Less);
    assert_eq!(order(Value::Date(1), Value::Timestamp(86_400_000_000)), Ordering::Equal);
    // A day later than all timestamps is before the infinity.
    assert_eq!(order(Value::Date(i32::MAX - 1), Value::TimestampTz(i64::MAX - 1)), Ordering::Greater);
    assert_eq!(order(Value::Date(i32::MAX - 1), Value::TimestampTz(i64::MAX)), Ordering::Less);
    assert_eq!(order(Value::Date(i32::MAX), Value::TimestampTz(i64::MAX)), Ordering::Equal);
    assert_eq!(compare(&Value::Null, &Value::Integer(1)), Ok(None));
    let error = compare(&Value::Integer(1), &Value::text("1")).unwrap_err();
    assert_eq!(error.message(), "operator does not exist: integer = text");
}

#[test]
fn text_joins_with_everything() {
    assert_eq!(concat(&Value::text("a"), &Value::text("b")), Ok(Value::text("ab")));
    assert_eq!(concat(&Value::text("a"), &Value::Boolean(true)), Ok(Value::text("atrue")));
    assert_eq!(concat(&Value::Integer(1), &Value::text("b")), Ok(Value::text("1b")));
    assert_eq!(concat(&Value::text("a"), &Value::Null), Ok(Value::Null));
    assert_eq!(concat(&Value::Bytea([1].into()), &Value::Bytea([2].into())), Ok(Value::Bytea([1, 2].into())));
    assert_eq!(
        refusal(concat(&Value::Integer(1), &Value::Integer(2))),
        "42883 operator does not exist: integer || integer"
    );
}
