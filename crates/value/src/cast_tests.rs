//! Tests of casts and assignments.

use super::*;

fn numeric(text: &str) -> Value {
    Value::Numeric(Decimal::parse(text).unwrap())
}

fn refusal(result: Result<Value>) -> String {
    format!("{:?}", result.unwrap_err())
}

#[test]
fn numbers_round_by_the_rule_of_their_type() {
    assert_eq!(cast(numeric("2.5"), DataType::Integer), Ok(Value::Integer(3)));
    assert_eq!(cast(numeric("-2.5"), DataType::SmallInt), Ok(Value::SmallInt(-3)));
    assert_eq!(cast(Value::Double(2.5), DataType::Integer), Ok(Value::Integer(2)));
    assert_eq!(cast(Value::Real(-2.5), DataType::BigInt), Ok(Value::BigInt(-2)));
    assert_eq!(cast(Value::Real(3.5), DataType::BigInt), Ok(Value::BigInt(4)));
    let money = DataType::Numeric { precision: 6, scale: 2 };
    assert_eq!(cast(Value::Double(1.005), money), Ok(numeric("1.01")));
    assert_eq!(cast(Value::Integer(7), money), Ok(numeric("7.00")));
    assert_eq!(cast(numeric("0.1"), DataType::Real), Ok(Value::Real(0.1)));
    assert_eq!(
        cast(Value::BigInt(i64::MAX), DataType::DoublePrecision),
        Ok(Value::Double(9_223_372_036_854_775_808.0))
    );
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    assert_eq!(refusal(assign(Value::BigInt(1 << 40), DataType::Integer)), "22003 integer out of range");
    assert_eq!(refusal(assign(Value::Integer(40_000), DataType::SmallInt)), "22003 smallint out of range");
    assert_eq!(refusal(cast(Value::Double(9.3e18), DataType::BigInt)), "22003 bigint out of range");
    assert_eq!(refusal(cast(Value::Double(f64::NAN), DataType::Integer)), "22003 integer out of range");
    assert_eq!(refusal(cast(Value::Double(1e39), DataType::Real)), "22003 value out of range: overflow");
    assert_eq!(refusal(cast(Value::Double(1e-60), DataType::Real)), "22003 value out of range: underflow");
    let numeric_type = DataType::Numeric { precision: 3, scale: 0 };
    assert_eq!(assign(Value::Integer(1000), numeric_type).unwrap_err().message(), "numeric field overflow");
    assert_eq!(refusal(cast(Value::Double(f64::NAN), numeric_type)), "0A000 cannot convert NaN to numeric");
}

#[test]
fn items_have_the_limits_of_their_array() {
    let list = |item| DataType::System(SystemType::List(ListType::declared(item).unwrap()));
    let shown = |value: Value| {
        let mut text = String::new();
        format_text(&value, DataType::Text, &mut text);
        text
    };
    let short = list(DataType::Varchar(3));
    assert_eq!(cast(Value::text("{abcde,NULL,b}"), short).map(shown), Ok("{abc,NULL,b}".into()));
    assert_eq!(
        refusal(assign(Value::text("{abcde}"), short)),
        "22001 value too long for type character varying(3)"
    );
    let money = list(DataType::Numeric { precision: 5, scale: 2 });
    for convert in [cast, assign] {
        assert_eq!(convert(Value::text("{1.005,2}"), money).map(shown), Ok("{1.01,2.00}".into()));
        let refused = convert(Value::text("{1000}"), money).unwrap_err();
        assert_eq!(refused.message(), "numeric field overflow");
    }
    let Ok(Value::Array(array)) = cast(Value::text("[0:1]={a,b}"), short) else { panic!("not an array") };
    assert_eq!(
        (array.borrow().list_type(), shown(Value::Array(array))),
        (ListType::Varchar, "[0:1]={a,b}".into())
    );
    let whole = cast(Value::text("{1,2}"), list(DataType::Integer)).unwrap();
    assert_eq!(cast(whole, list(DataType::Number)).map(shown), Ok("{1,2}".into()));
}

#[test]
fn only_casts_cut_text() {
    for (data_type, name) in [(DataType::Varchar(3), "character varying"), (DataType::Char(3), "character")] {
        assert_eq!(cast(Value::text("abcde"), data_type), Ok(Value::text("abc")));
        assert_eq!(assign(Value::text("abc   "), data_type), Ok(Value::text("abc")));
        let message = format!("22001 value too long for type {name}(3)");
        assert_eq!(refusal(assign(Value::text("abcd"), data_type)), message);
        assert_eq!(refusal(assign(Value::Integer(1234), data_type)), message);
    }
    assert_eq!(cast(Value::Integer(1234), DataType::Varchar(3)), Ok(Value::text("123")));
    assert_eq!(assign(Value::text("ab "), DataType::Varchar(3)), Ok(Value::text("ab ")));
    assert_eq!(assign(Value::text("ab "), DataType::Char(3)), Ok(Value::text("ab")));
}

#[test]
fn text_converts_through_text_forms() {
    assert_eq!(cast(Value::text(" 12 "), DataType::Integer), Ok(Value::Integer(12)));
    assert_eq!(cast(Value::text("yes"), DataType::Boolean), Ok(Value::Boolean(true)));
    assert_eq!(cast(Value::Boolean(true), DataType::Text), Ok(Value::text("true")));
    assert_eq!(cast(Value::Date(0), DataType::Text), Ok(Value::text("1970-01-01")));
    assert_eq!(cast(Value::Null, DataType::Char(3)), Ok(Value::Null));
}

#[test]
fn booleans_mix_with_integer_only_by_cast() {
    assert_eq!(cast(Value::Boolean(true), DataType::Integer), Ok(Value::Integer(1)));
    assert_eq!(cast(Value::Integer(-7), DataType::Boolean), Ok(Value::Boolean(true)));
    assert_eq!(
        refusal(cast(Value::BigInt(1), DataType::Boolean)),
        "42846 cannot cast type bigint to boolean"
    );
    assert_eq!(
        refusal(assign(Value::Integer(1), DataType::Boolean)),
        "42804 column is of type boolean but expression is of type integer"
    );
}

#[test]
fn dates_and_timestamps_meet_at_midnight_utc() {
    let day = MICROSECONDS_PER_DAY;
    assert_eq!(cast(Value::Date(-1), DataType::TIMESTAMP), Ok(Value::Timestamp(-day)));
    assert_eq!(cast(Value::Timestamp(-1), DataType::Date), Ok(Value::Date(-1)));
    assert_eq!(cast(Value::Timestamp(5), DataType::TIMESTAMPTZ), Ok(Value::TimestampTz(5)));
    assert_eq!(cast(Value::TimestampTz(i64::MIN + 1), DataType::Date), Ok(Value::Date(-106_751_992)));
    assert_eq!(cast(Value::Date(i32::MIN), DataType::TIMESTAMP), Ok(Value::Timestamp(i64::MIN)));
    assert_eq!(cast(Value::Timestamp(i64::MAX), DataType::Date), Ok(Value::Date(i32::MAX)));
    assert_eq!(
        refusal(cast(Value::Date(i32::MAX - 1), DataType::TIMESTAMPTZ)),
        "22008 date out of range for timestamp"
    );
    assert_eq!(refusal(cast(Value::Date(1), DataType::Integer)), "42846 cannot cast type date to integer");
}
