//! Documents against what PostgreSQL 15 gives for them.

use super::*;
use ankerdb_base::SqlState;
use std::cmp::Ordering;

fn steps(path: &[&str]) -> Vec<String> {
    path.iter().map(|step| (*step).to_owned()).collect()
}

#[test]
fn canonical_texts_are_postgresqls() {
    for (given, canonical) in [
        (" { \"bb\":[1, 2.50 ,{}],\"a\" :null,\"bb\":[ ] } ", r#"{"a": null, "bb": []}"#),
        (r#""\u00e4\u001f\/\ud83d\ude00\n""#, r#""ä\u001f/😀\n""#),
        ("1.50e1", "15.0"),
        ("-1E+3", "-1000"),
        ("-0.00", "0.00"),
        ("1e-3", "0.001"),
        ("123e-2", "1.23"),
        ("0e5", "0"),
        ("100", "100"),
        (r#"{"b":1,"aa":2,"a":3,"ä":4}"#, r#"{"a": 3, "b": 1, "aa": 2, "ä": 4}"#),
        (r#"{"\u0061":1,"a":2}"#, r#"{"a": 2}"#),
        ("[[],[[]],{}]", "[[], [[]], {}]"),
    ] {
        assert_eq!(to_jsonb(given).unwrap(), canonical);
        assert_eq!(to_jsonb(canonical).unwrap(), canonical);
    }
}

#[test]
fn malformed_texts_are_refused_with_postgresqls_words() {
    for (text, detail, context) in [
        ("", "The input string ended unexpectedly.", "JSON data, line 1: "),
        ("[1,2 x]", "Token \"x\" is invalid.", "JSON data, line 1: [1,2 x..."),
        ("[1,\n 2 3]", "Expected \",\" or \"]\", but found \"3\".", "JSON data, line 2:  2 3..."),
        ("{1:2}", "Expected string or \"}\", but found \"1\".", "JSON data, line 1: {1..."),
        ("{\"a\" 2}", "Expected \":\", but found \"2\".", "JSON data, line 1: {\"a\" 2..."),
        ("{\"a\":2,}", "Expected string, but found \"}\".", "JSON data, line 1: {\"a\":2,}"),
        ("[,]", "Expected array element or \"]\", but found \",\".", "JSON data, line 1: [,..."),
        ("1 true", "Expected end of input, but found \"true\".", "JSON data, line 1: 1 true"),
        ("012", "Token \"012\" is invalid.", "JSON data, line 1: 012"),
        ("\"a\nb\"", "Character with value 0x0a must be escaped.", "JSON data, line 1: \"a"),
        (r#""\x""#, "Escape sequence \"\\x\" is invalid.", "JSON data, line 1: \"\\x..."),
        (
            r#""\u12""#,
            "\"\\u\" must be followed by four hexadecimal digits.",
            "JSON data, line 1: \"\\u12...",
        ),
        ("\"a", "Token \"\"a\" is invalid.", "JSON data, line 1: \"a"),
    ] {
        let error = check(text).unwrap_err();
        assert_eq!((error.detail(), error.context()), (Some(detail), Some(context)), "{text}");
        assert!(to_jsonb(text).is_err());
    }
}

#[test]
fn strings_of_a_jsonb_are_texts() {
    for text in [r#""\u0000""#, r#""\ud83d""#, r#""\ude00""#, r#""\ud83d\ud83d""#, r#""\ud83dx""#] {
        check(text).unwrap();
        to_jsonb(text).unwrap_err();
        unescaped(text).unwrap_err();
    }
}

#[test]
fn documents_order_as_postgresql_orders_them() {
    let ordered = [
        "[]",
        "null",
        "\"\"",
        "\"a\"",
        "\"aa\"",
        "\"b\"",
        "-100",
        "-2.5",
        "-2",
        "-0.1",
        "0",
        "0.001",
        "0.1",
        "2",
        "2.5",
        "10",
        "100",
        "false",
        "true",
        "[null]",
        "[\"a\"]",
        "[1]",
        "[2]",
        "[[]]",
        "[{}]",
        "[0, 0]",
        "{}",
        "{\"a\": 1}",
        "{\"a\": 2}",
        "{\"b\": 0}",
        "{\"a\": 0, \"b\": 0}",
    ];
    for (position, one) in ordered.iter().enumerate() {
        for (other_position, other) in ordered.iter().enumerate() {
            let keys = (comparison_key(one).unwrap(), comparison_key(other).unwrap());
            assert_eq!(keys.0.cmp(&keys.1), position.cmp(&other_position), "{one} and {other}");
        }
    }
    let keys = (comparison_key("[1.0, 10]").unwrap(), comparison_key("[1.00, 10.0]").unwrap());
    assert_eq!(keys.0.cmp(&keys.1), Ordering::Equal);
}

#[test]
fn parts_are_found() {
    let json = " {\"a\" : [1, {\"b\":\"x\\ny\"} ,3], \"a]\":true , \"c\":null,\"c\":2} ";
    check(json).unwrap();
    assert_eq!(field(json, "a").unwrap(), Some("[1, {\"b\":\"x\\ny\"} ,3]"));
    assert_eq!(field(json, "a]").unwrap(), Some("true"));
    assert_eq!(field(json, "c").unwrap(), Some("2"));
    assert_eq!(field(json, "d").unwrap(), None);
    assert_eq!(path(json, &steps(&["a", "-2", "b"])).unwrap(), Some("\"x\\ny\""));
    assert_eq!(path(json, &steps(&["a", "x"])).unwrap(), None);
    assert_eq!(element("[1,2]", 2), None);
    assert_eq!(element("[1,2]", -3), None);
    assert_eq!(scalar_text("\"x\\ny\"").unwrap().unwrap(), "x\ny");
    assert_eq!(elements("[]").unwrap().count(), 0);
    assert_eq!(members("{ }").unwrap().count(), 0);
}

#[test]
fn documents_contain_others() {
    let contains = |left: &str, right: &str| contains(left, right, &|| Ok(())).unwrap();
    assert!(contains(r#"{"a": 1, "b": [1, 2, {"c": 1}]}"#, r#"{"b": [{}, 2.0]}"#));
    assert!(contains("[1, 2]", "2"));
    assert!(!contains("[[1]]", "[1]"));
    assert!(!contains("2", "[2]"));
    assert!(!contains(r#"{"a": 1}"#, r#"{"a": 1, "b": 1}"#));
    assert!(contains("[1]", "[]"));
}

#[test]
fn documents_are_changed_at_paths() {
    let json = r#"{"a": [1, 2], "b": {"c": 1}}"#;
    let set = |path: &[&str], creates| set(json, &steps(path), "9", creates).unwrap();
    assert_eq!(set(&["a", "0"], true), r#"{"a": [9, 2], "b": {"c": 1}}"#);
    assert_eq!(set(&["a", "7"], true), r#"{"a": [1, 2, 9], "b": {"c": 1}}"#);
    assert_eq!(set(&["a", "-7"], true), r#"{"a": [9, 1, 2], "b": {"c": 1}}"#);
    assert_eq!(set(&["a", "7"], false), json);
    assert_eq!(set(&["b", "a"], true), r#"{"a": [1, 2], "b": {"a": 9, "c": 1}}"#);
    assert_eq!(set(&["x", "a"], true), json);
    assert_eq!(set(&["b", "c", "d"], true), json);
    let inserted = |path: &[&str], place| inserted(json, &steps(path), "9", place);
    assert_eq!(inserted(&["a", "0"], InsertPosition::After).unwrap(), r#"{"a": [1, 9, 2], "b": {"c": 1}}"#);
    assert_eq!(inserted(&["a", "-1"], InsertPosition::Before).unwrap(), r#"{"a": [1, 9, 2], "b": {"c": 1}}"#);
    assert!(inserted(&["b", "c"], InsertPosition::Before).is_err());
    assert_eq!(without_path(json, &steps(&["b", "c"])).unwrap(), r#"{"a": [1, 2], "b": {}}"#);
    assert_eq!(without_path(json, &steps(&["a", "-1"])).unwrap(), r#"{"a": [1], "b": {"c": 1}}"#);
    assert_eq!(without_keys(json, &steps(&["a", "x"])).unwrap(), r#"{"b": {"c": 1}}"#);
    assert_eq!(without_index("[1, 2, 3]", -2).unwrap(), "[1, 3]");
}

#[test]
fn documents_are_put_together() {
    let concatenated = |left: &str, right: &str| concatenated(left, right).unwrap();
    assert_eq!(concatenated(r#"{"a": 1, "cc": 2}"#, r#"{"b": 3, "cc": 4}"#), r#"{"a": 1, "b": 3, "cc": 4}"#);
    assert_eq!(concatenated("[1]", "[2, 3]"), "[1, 2, 3]");
    assert_eq!(concatenated("1", "{}"), "[1, {}]");
    let json = r#"{"a":null, "b":[null, {"c" : null}],"d":1}"#;
    assert_eq!(without_nulls(json, false).unwrap(), r#"{"b":[null,{}],"d":1}"#);
    assert_eq!(without_nulls(&to_jsonb(json).unwrap(), true).unwrap(), r#"{"b": [null, {}], "d": 1}"#);
    let lines = "{\n    \"a\": [\n        1,\n        \"x, y\"\n    ],\n    \"b\": {\n    }\n}";
    assert_eq!(pretty(r#"{"a": [1, "x, y"], "b": {}}"#).unwrap(), lines);
}

#[test]
fn deep_documents_are_read_without_recursion() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let most = to_jsonb(&deep(DEPTH_MAX)).unwrap();
    assert_eq!(most, deep(DEPTH_MAX));
    comparison_key(&most).unwrap();
    without_nulls(&most, true).unwrap();
    assert!(check(&deep(DEPTH_MAX + 1)).unwrap_err().message().starts_with("stack depth"));
    assert!(contains(&most, &most, &|| Ok(())).unwrap_err().message().starts_with("stack depth"));
}

proptest::proptest! {
    #[test]
    fn canonical_documents_stay_as_they_are_and_contain_themselves(
        one in crate::strategy::document(),
        other in crate::strategy::document(),
    ) {
        assert_eq!(to_jsonb(&one).unwrap(), one);
        assert_eq!(crate::parse_text(crate::DataType::Json, &one).unwrap(), crate::Value::text(one.as_str()));
        assert!(contains(&one, &one, &|| Ok(())).unwrap());
        assert_eq!(to_jsonb(&pretty(&one).unwrap()).unwrap(), one);
        let keys = (comparison_key(&one).unwrap(), comparison_key(&other).unwrap());
        let same_numbers = |text: &str| text.replace("1.00", "1.0");
        assert_eq!(keys.0 == keys.1, same_numbers(&one) == same_numbers(&other), "{one} and {other}");
        let joined = concatenated(&one, &other).unwrap();
        assert_eq!(to_jsonb(&joined).unwrap(), joined);
    }
}

#[test]
fn a_path_is_made_where_it_is_not_there() {
    let assigned = |jsonb: &str, path: &[&str], value: &str| assigned(jsonb, &steps(path), value);
    assert_eq!(assigned("{}", &["a", "2", "b"], "7").unwrap(), r#"{"a": [null, null, {"b": 7}]}"#);
    assert_eq!(assigned("[1, 2]", &["-1"], "7").unwrap(), "[1, 7]");
    assert_eq!(assigned(r#"{"a": [1]}"#, &["a", "3"], "7").unwrap(), r#"{"a": [1, null, null, 7]}"#);
    let state = |jsonb: &str, step: &str| assigned(jsonb, &[step], "7").unwrap_err().state();
    assert_eq!(state("5", "a"), SqlState::InvalidParameterValue);
    assert_eq!(state("[1]", "-2"), SqlState::InvalidParameterValue);
    assert_eq!(state("[1]", "a"), SqlState::InvalidTextRepresentation);
    assert_eq!(state("[1]", "2147483647"), SqlState::ProgramLimitExceeded);
}
