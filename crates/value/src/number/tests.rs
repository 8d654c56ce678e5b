//! Numbers of any length beside what PostgreSQL 15 gives, and at their limits.

use super::*;

const ANSWERS: &str = include_str!("postgresql.txt");
const SUMS: &str = include_str!("postgresql_sums.txt");

fn number(text: &str) -> Number {
    Number::parse(text).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The order, told in three ways.
fn order(left: &Number, right: &Number) -> i32 {
    let (left_text, right_text) = (left.to_string(), right.to_string());
    let key = |text: &str| {
        let mut key = Vec::new();
        push_number_key(text, &mut key);
        key
    };
    let order = left.compare(right);
    assert_eq!(order, compare_numbers(&left_text, &right_text), "{left} {right}");
    assert_eq!(order, key(&left_text).cmp(&key(&right_text)), "{left} {right}");
    order as i32
}

fn binary(value: &Number) -> String {
    let mut bytes = Vec::new();
    number_to_binary(&value.to_string(), &mut bytes);
    assert_eq!(number_from_binary(&bytes).unwrap(), value.to_string());
    hex(&bytes)
}

fn double(value: f64) -> String {
    let mut text = String::new();
    crate::format_text(&crate::Value::Double(value), crate::DataType::DoublePrecision, &mut text);
    text
}

fn of_one(operation: &str, value: &Number, second: &str) -> Result<String> {
    let digits = || second.parse::<i32>().unwrap();
    let scale = |scale: Option<i32>| scale.map_or("NULL".to_owned(), |scale| scale.to_string());
    Ok(match operation {
        "sqrt" => value.sqrt()?.to_string(),
        "exp" => value.exp()?.to_string(),
        "ln" => value.ln()?.to_string(),
        "neg" => value.negated().to_string(),
        "abs" => value.abs().to_string(),
        "sign" => value.sign().to_string(),
        "ceil" => value.ceil()?.to_string(),
        "floor" => value.floor()?.to_string(),
        "scale" => scale(value.scale()),
        "min_scale" => scale(value.min_scale()),
        "trim_scale" => value.trim_scale().to_string(),
        "round" => value.round(digits())?.to_string(),
        "trunc" => value.trunc(digits())?.to_string(),
        "text" => value.to_string(),
        "int8" => value.to_i64("bigint")?.to_string(),
        "float8" => double(value.to_f64()),
        "fit" => {
            let (precision, scale) = second.split_once(',').unwrap();
            value.fit(precision.parse().unwrap(), scale.parse().unwrap())?.to_string()
        }
        "send" => binary(value),
        other => panic!("{other} is no operation"),
    })
}

fn of_two(operation: &str, left: &Number, right: &Number) -> Option<Result<Number>> {
    let mut free = || Ok(());
    Some(match operation {
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" => left.checked_div(right),
        "%" => left.checked_rem(right),
        "div" => left.div_trunc(right),
        "gcd" => left.gcd(right, &mut free),
        "lcm" => left.lcm(right, &mut free),
        "power" => left.power(right),
        "log" => right.log(left),
        _ => return None,
    })
}

fn answer(operation: &str, left: &str, right: &str) -> Result<String> {
    let value = Number::parse(left)?;
    if operation == "cmp" {
        return Ok(order(&value, &Number::parse(right)?).to_string());
    }
    if matches!(operation, "+" | "-" | "*" | "/" | "%" | "div" | "gcd" | "lcm" | "power" | "log") {
        let result = of_two(operation, &value, &Number::parse(right)?);
        return result.expect("it is one of two operands").map(|result| result.to_string());
    }
    of_one(operation, &value, right)
}

#[test]
fn results_and_errors_are_postgresqls() {
    for line in ANSWERS.lines().skip(1) {
        let [operation, left, right, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let given = answer(operation, left, right)
            .unwrap_or_else(|error| format!("ERROR {} {}", error.state().code(), error.message()));
        assert_eq!(given, expected, "{operation} {left} {right}");
    }
}

fn told(sum: &NumberSum) -> [String; 6] {
    let text = |number: Result<Option<Number>>| {
        number.unwrap().map_or("\\N".to_owned(), |number| number.to_string())
    };
    let spread = |is_sample, is_deviation| text(sum.spread(Spread { is_sample, is_deviation }));
    [
        text(sum.sum()),
        text(sum.average()),
        spread(false, false),
        spread(true, false),
        spread(false, true),
        spread(true, true),
    ]
}

#[test]
fn sums_are_postgresqls_however_they_were_made() {
    for line in SUMS.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let numbers: Vec<Number> = fields[1].split(' ').map(number).collect();
        let mut sum = NumberSum::new(true);
        numbers.iter().for_each(|number| sum.add(number));
        assert_eq!(told(&sum), fields[2..], "{line}");

        // In two parts, one of which has gone through bytes.
        let (left, right) = numbers.split_at(numbers.len() / 2);
        let mut parts = [left, right].map(|part| {
            let mut sum = NumberSum::new(true);
            part.iter().for_each(|number| sum.add(number));
            sum
        });
        let read = NumberSum::from_bytes(&parts[1].to_bytes()).unwrap();
        parts[0].merge(&read);
        assert_eq!(told(&parts[0]), fields[2..], "{line}");

        // What comes and goes leaves nothing, if its scale is known to be no longer there.
        let passing = number("12345.678");
        let mut moved = NumberSum::new(true);
        numbers.iter().for_each(|number| moved.add(number));
        moved.add(&passing);
        if moved.remove(&passing) {
            assert_eq!(told(&moved), fields[2..], "{line}");
        }
    }
    assert!(NumberSum::from_bytes(&[1, 2, 3]).is_none());
}

#[test]
fn a_scale_that_left_is_told() {
    let mut sum = NumberSum::new(false);
    sum.add(&number("1.5"));
    sum.add(&number("1.25"));
    assert!(!sum.remove(&number("1.25")));
    let mut sum = NumberSum::new(false);
    ["1.25", "2.50", "3"].iter().for_each(|text| sum.add(&number(text)));
    assert!(sum.remove(&number("1.25")));
    assert_eq!(sum.sum().unwrap().unwrap().to_string(), "5.50");
    for text in ["NaN", "Infinity", "-Infinity"] {
        sum.add(&number(text));
    }
    assert!(sum.sum().unwrap().unwrap().is_nan());
    assert!(sum.remove(&number("NaN")) && sum.remove(&number("-Infinity")));
    assert_eq!(sum.sum().unwrap().unwrap().to_string(), "Infinity");
}

/// The largest number, and the one with most digits.
fn limits() -> (Number, Number) {
    let whole = "9".repeat(WHOLE_MAX as usize);
    (number(&whole), number(&format!("{whole}.{}", "9".repeat(FRACTION_MAX as usize))))
}

#[test]
fn too_many_digits_are_refused() {
    let (whole, all) = limits();
    let state = |result: Result<Number>| result.unwrap_err().state();
    let too_large = SqlState::NumericValueOutOfRange;
    assert_eq!(state(whole.checked_add(&number("1"))), too_large);
    assert_eq!(state(all.checked_mul(&number("10"))), too_large);
    assert_eq!(state(all.round(0)), too_large);
    assert_eq!(state(all.checked_div(&number("0.1"))), too_large);
    assert_eq!(state(number("10").power(&number("131072"))), too_large);
    assert_eq!(state(number("2").power(&number("1e9"))), too_large);
    assert_eq!(state(number("1.5").power(&number("1e20"))), too_large);
    assert_eq!(state(Number::factorial(32_178)), too_large);
    assert_eq!(all.trunc(0).unwrap(), whole);
    assert_eq!(Number::factorial(32_177).unwrap().whole_digits(), 131_068);
    assert_eq!(number("10").power(&number("131071")).unwrap().whole_digits(), 131_072);
    assert_eq!(number("0.5").power(&number("1e9")).unwrap().to_string(), "0.0000000000000000");
}

#[test]
fn digits_after_the_point_are_rounded_where_there_are_too_many() {
    let tiny = number("1e-16383");
    assert_eq!(tiny.checked_mul(&tiny).unwrap().to_string(), Number::finite(0, 16_383).to_string());
    assert_eq!(tiny.checked_mul(&number("0.5")).unwrap(), tiny);
}

#[test]
fn numbers_of_declared_digits_come_and_go() {
    for text in ["0", "0.00", "-12.50", "99999999999999999999999999999999999999"] {
        assert_eq!(number(text).to_decimal().unwrap().to_string(), text);
        assert_eq!(Number::from_decimal(Decimal::parse(text).unwrap()).to_string(), text);
    }
    // Zeros at the end give way.
    let long = format!("1.{}", "0".repeat(60));
    assert_eq!(number(&long).to_decimal().unwrap().to_string(), "1");
    assert!(number("1e38").to_decimal().is_none());
    assert!(number("1e-39").to_decimal().is_none());
    assert!(Number::NAN.to_decimal().is_none());
    assert_eq!(Number::from_f64(0.1 + 0.2).to_string(), "0.3");
    assert_eq!(Number::from_f64(-1e300).whole_digits(), 301);
    assert_eq!(Number::from_f32(0.1).to_string(), "0.1");
    assert!(Number::from_f64(f64::NAN).is_nan());
    assert!(!Number::from_f64(f64::INFINITY).is_finite());
}

#[test]
fn nan_has_no_place_in_declared_digits() {
    assert_eq!(Number::NAN.fit(5, 2).unwrap_err().state(), SqlState::FeatureNotSupported);
}

#[test]
fn malformed_bytes_are_refused() {
    let state = |words: &[u16]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        number_from_binary(&bytes).map_err(|error| error.state())
    };
    let malformed = Err(SqlState::InvalidBinaryRepresentation);
    assert_eq!(state(&[1, 0, 0, 2, 15]), Ok("15.00".to_owned()));
    // What the scale hides is cut off.
    assert_eq!(state(&[2, 0, 0x4000, 1, 1, 2999]), Ok("-1.2".to_owned()));
    assert_eq!(state(&[1, 0, 0]), malformed);
    assert_eq!(state(&[1, 0, 0, 0]), malformed);
    assert_eq!(state(&[1, 0, 0, 0, 1, 1]), malformed);
    assert_eq!(state(&[1, 0, 1, 0, 1]), malformed);
    assert_eq!(state(&[1, 0, 0, 16_384, 1]), malformed);
    assert_eq!(state(&[1, 0, 0, 0, 10_000]), malformed);
    assert_eq!(number_from_binary(&[0; 9]).map_err(|error| error.state()), malformed);
    assert_eq!(state(&[1, 0x7fff, 0, 0, 1]).unwrap().len(), 131_069);
}

#[test]
fn a_divisor_of_many_digits_can_be_given_up() {
    let (whole, _) = limits();
    let mut steps = 0;
    let mut give_up = || {
        steps += 1;
        if steps < 10 { Ok(()) } else { Err(Error::new(SqlState::QueryCanceled, "enough")) }
    };
    let given_up = number("3").power(&number("200000")).unwrap().gcd(&whole, &mut give_up);
    assert_eq!(given_up.unwrap_err().state(), SqlState::QueryCanceled);
}
