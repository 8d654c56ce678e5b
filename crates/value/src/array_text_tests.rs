//! Array literals, as PostgreSQL reads and writes them.

use super::*;

fn written(list: ListType, text: &str) -> String {
    let mut out = String::new();
    format_array(parse_array(list, text).unwrap().borrow(), &mut out);
    out
}

fn detail(text: &str) -> String {
    let error = parse_array(ListType::Integer, text).unwrap_err();
    error.detail().unwrap_or(error.message()).to_owned()
}

#[test]
fn texts_are_read_and_written() {
    for (text, expected) in [
        ("{1,2,NULL}", "{1,2,NULL}"),
        (" { 1 , 2 , null } ", "{1,2,NULL}"),
        ("{}", "{}"),
        ("{{1,2},{3,4}}", "{{1,2},{3,4}}"),
        ("[0:1]={1,2}", "[0:1]={1,2}"),
        ("[1:1][-2:-1]={{1,2}}", "[1:1][-2:-1]={{1,2}}"),
        ("[2]={1,2}", "{1,2}"),
        ("{{{1},{2}},{{3},{4}}}", "{{{1},{2}},{{3},{4}}}"),
    ] {
        assert_eq!(written(ListType::Integer, text), expected, "{text}");
    }
}

#[test]
fn items_are_quoted_where_they_must_be() {
    let text = r#"{a b ," c ",\d,"NULL",Null,"",x\,y,"q\"\\","{"}"#;
    assert_eq!(written(ListType::Text, text), r#"{"a b"," c ",d,"NULL",NULL,"","x,y","q\"\\","{"}"#);
    assert_eq!(written(ListType::Bytea, r#"{"\\x01"}"#), r#"{"\\x01"}"#);
    assert_eq!(written(ListType::Numeric, "{1.50,2}"), "{1.50,2}");
    assert_eq!(written(ListType::Boolean, "{true,f}"), "{t,f}");
    assert_eq!(written(ListType::Text, r"{a\ }"), r#"{"a "}"#);
}

#[test]
fn malformed_texts_are_refused_with_postgresqls_details() {
    for (text, expected) in [
        ("", "Array value must start with \"{\" or dimension information."),
        ("1,2", "Array value must start with \"{\" or dimension information."),
        ("{1,2", "Unexpected end of input."),
        ("{1,,2}", "Unexpected \",\" character."),
        ("{1,2},", "Junk after closing right brace."),
        ("{1,{2}}", "Unexpected \"{\" character."),
        ("{{1},2}", "Unexpected array element."),
        ("{{1,2},{3}}", "Multidimensional arrays must have sub-arrays with matching dimensions."),
        ("{\"1\"2}", "Unexpected array element."),
        ("{1,}", "Unexpected \"}\" character."),
        ("[1:2={1,2}", "Missing \"]\" after array dimensions."),
        ("[1:2]{1,2}", "Missing \"=\" after array dimensions."),
        ("[1:3]={1,2}", "Specified array dimensions do not match array contents."),
        ("[a]={1}", "\"[\" must introduce explicitly-specified array dimensions."),
        ("[1:]={1}", "Missing array dimension value."),
        ("[2:1]={1}", "upper bound cannot be less than lower bound"),
        ("{{{{{{{1}}}}}}}", "number of array dimensions (7) exceeds the maximum allowed (6)"),
        ("{a}", "invalid input syntax for type integer: \"a\""),
    ] {
        assert_eq!(detail(text), expected, "{text}");
    }
}

#[test]
fn arrays_order_by_items_then_by_shape() {
    let ordering = |left: &str, right: &str| {
        let [left, right] = [left, right].map(|text| parse_array(ListType::Integer, text).unwrap());
        crate::compare(&Value::Array(left), &Value::Array(right)).unwrap().unwrap()
    };
    for (left, right) in [
        ("{}", "{1}"),
        ("{1}", "{1,1}"),
        ("{1,2}", "{2}"),
        ("{1}", "{NULL}"),
        ("{1,2}", "{{1,2}}"),
        ("[0:1]={1,2}", "{1,2}"),
    ] {
        assert!(ordering(left, right).is_lt() && ordering(right, left).is_gt(), "{left} {right}");
    }
    assert!(ordering("{1,NULL}", "{1,NULL}").is_eq());
}
