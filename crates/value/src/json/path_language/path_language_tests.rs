//! Paths against what PostgreSQL 15 gives for them, and hostile ones.

use super::*;
use crate::json::to_jsonb;
use std::cell::RefCell;

/// Patterns without operators, for what is asked of a caller here.
#[derive(Default)]
struct PlainPatterns {
    asked: RefCell<Vec<(String, String)>>,
    checks_left: Cell<Option<usize>>,
}

impl PathFunctions for PlainPatterns {
    fn matches(&self, pattern: &str, flags: &str, text: &str) -> Result<bool> {
        self.asked.borrow_mut().push((pattern.to_owned(), flags.to_owned()));
        match flags.contains('i') {
            true => Ok(text.to_lowercase().contains(&pattern.to_lowercase())),
            false => Ok(text.contains(pattern)),
        }
    }

    fn check(&self) -> Result<()> {
        match self.checks_left.get() {
            Some(0) => Err(Error::new(SqlState::QueryCanceled, "canceled")),
            left => {
                self.checks_left.set(left.map(|left| left - 1));
                Ok(())
            }
        }
    }
}

/// A result in the table's form.
fn shown(result: Result<String>) -> String {
    result.unwrap_or_else(|error| {
        let detail = error.detail().map(|detail| format!(" / {detail}")).unwrap_or_default();
        format!("! {} {}{detail}", error.state().code(), error.message())
    })
}

fn truth(value: Option<bool>) -> String {
    match value {
        Some(true) => "t",
        Some(false) => "f",
        None => "<null>",
    }
    .to_owned()
}

/// A field of the table without its escapes.
fn field(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            (_, Some('n')) => out.push('\n'),
            (_, Some('t')) => out.push('\t'),
            (_, Some(escaped)) => out.push(escaped),
            (c, None) => out.push(c),
        }
    }
    out
}

fn answered(kind: &str, document: &str, path: &str, vars: &str) -> Result<String> {
    let path = JsonPath::parse(path)?;
    let document = to_jsonb(document)?;
    let vars = to_jsonb(if vars.is_empty() { "{}" } else { vars })?;
    let (kind, silent) = kind.strip_suffix('?').map_or((kind, false), |kind| (kind, true));
    let (vars, functions) = (Some(vars.as_str()), PlainPatterns::default());
    match kind {
        "show" => Ok(path.to_string()),
        "query" => path.query(&document, vars, silent, &functions).map(|items| items.join(" ; ")),
        "first" => {
            path.first(&document, vars, silent, &functions).map(|item| item.unwrap_or("<null>".to_owned()))
        }
        "exists" => path.exists(&document, vars, silent, &functions).map(truth),
        "match" => path.matches(&document, vars, silent, &functions).map(truth),
        other => Err(Error::internal(format!("the table asks for {other}"))),
    }
}

/// The table's lines: what is asked (`?`: silent), document, path and variables, and what PostgreSQL 15 answers.
#[test]
fn paths_give_what_postgresql_gives() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("postgresql.txt").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [kind, document, path, vars, expected] = fields[..] else { panic!("five fields: {line}") };
        let (document, path) = (field(document), field(path));
        let document = if kind == "show" { "null" } else { &document };
        let given = shown(answered(kind, document, &path, &field(vars)));
        count += 1;
        if given != expected {
            wrong.push(format!("{kind} {document} {path}\n  is    {given}\n  wants {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 600);
}

/// What each of the paths gives when it is read and shown.
fn state(path: &str) -> Option<SqlState> {
    JsonPath::parse(path).map(|path| path.to_string()).err().map(|error| error.state())
}

#[test]
fn expressions_are_nested_up_to_a_limit() {
    let nested = |open: &str, middle: &str, close: &str, depth: usize| {
        format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
    };
    for (open, middle, close) in [
        ("(", "1", ")"),
        ("-", "$", ""),
        ("- (", "$", ")"),
        ("!(", "1 == 1", ")"),
        ("exists($ ? (", "1 == 1", "))"),
        ("(", "1 == 1", ") is unknown"),
        ("$ ? (1 == ", "$", ")"),
        ("$[", "0", "]"),
        ("$[0 to ", "0", "]"),
        ("", "1", " + 1"),
        ("1 - (", "1", ")"),
        ("(1 == 1 && ", "1 == 1", ")"),
        ("(", "1 == 1", ").a == 1"),
    ] {
        for depth in [100_000, parser::DEPTH_MAX + 1] {
            let found = state(&nested(open, middle, close, depth));
            assert_eq!(found, Some(SqlState::StatementTooComplex), "{open} {close} {depth}");
        }
        // What is accepted can be followed and shown on the stack of a thread.
        let accepted = (1..=parser::DEPTH_MAX).rev().find_map(|depth| {
            JsonPath::parse(&nested(open, middle, close, depth)).ok().map(|path| (depth, path))
        });
        let (depth, path) = accepted.unwrap();
        assert!(depth >= parser::DEPTH_MAX / 2 - 1, "{open} {close} {depth}");
        path.query("[1]", None, true, &PlainPatterns::default()).unwrap();
        let text = path.to_string();
        assert_eq!(JsonPath::parse(&text).map(|path| path.to_string()).unwrap_or(text.clone()), text);
    }
}

#[test]
fn long_paths_and_deep_documents_need_no_stack() {
    let functions = PlainPatterns::default();
    let count = 14_000;
    let document = format!("{}1{}", "{\"a\": ".repeat(count), "}".repeat(count));
    let path = JsonPath::parse(&format!("strict ${}", ".a".repeat(count))).unwrap();
    assert_eq!(path.query(&document, None, false, &functions).unwrap(), ["1"]);
    assert_eq!(path.to_string().len(), "strict $".len() + count * ".\"a\"".len());
    let leaves = JsonPath::parse("$.**{last}").unwrap();
    assert_eq!(leaves.query(&document, None, false, &functions).unwrap(), ["1"]);
    let nested = format!("{}1{}", "[".repeat(count), "]".repeat(count));
    let unwrapped = JsonPath::parse(&format!("${}", "[*]".repeat(count))).unwrap();
    assert_eq!(unwrapped.query(&nested, None, false, &functions).unwrap(), ["1"]);
    for (operator, expected) in [(" && ", "true"), (" || ", "true")] {
        let path = JsonPath::parse(&vec!["1 == 1"; 50_000].join(operator)).unwrap();
        assert_eq!(path.query("1", None, false, &functions).unwrap(), [expected]);
        assert_eq!(path.to_string().matches('(').count(), 49_999);
    }
}

#[test]
fn hostile_texts_are_refused() {
    use SqlState::{InvalidTextRepresentation, NumericValueOutOfRange, SyntaxError, UntranslatableCharacter};
    for (path, expected) in [
        ("", InvalidTextRepresentation),
        (" \t\r\n\u{c}", InvalidTextRepresentation),
        ("\u{b}", SyntaxError),
        ("\u{a0}$", SyntaxError),
        ("$.a\\", SyntaxError),
        ("\"\\\n\"", SyntaxError),
        ("\"\\u{0}\"", UntranslatableCharacter),
        ("\"\\ud800\\", InvalidTextRepresentation),
        ("\"\\u{dfff}\"", InvalidTextRepresentation),
        ("\"\\u{ffffff}\"", SyntaxError),
        ("1e99999999999999999999", NumericValueOutOfRange),
        ("1e-16384", NumericValueOutOfRange),
        ("$.**{2147483648}", NumericValueOutOfRange),
        ("$.**{1 to 99999999999999999999999}", NumericValueOutOfRange),
        ("1.5ä", SyntaxError),
        ("$[", SyntaxError),
        ("/*", SyntaxError),
        ("/*/", SyntaxError),
        ("$ ? (@ like_regex \"a\" flag \"\u{1f600}\")", SyntaxError),
    ] {
        assert_eq!(state(path), Some(expected), "{path:?}");
    }
    // Each prefix and each text without one of its characters is a path or is not; nothing else happens.
    let path = "strict $.\"a\\u{41}\\x42\".**{1 to last}[1e0, last - $x to -2.5] ? (!(@.b like_regex \"c\" flag \"i\"))";
    assert_eq!(state(path), None);
    for at in 0..path.len() {
        let _ = (state(&path[..at]), state(&path[at..]), state(&[&path[..at], &path[at + 1..]].concat()));
    }
}

#[test]
fn what_is_asked_of_callers_is_asked() {
    let functions = PlainPatterns::default();
    let path = JsonPath::parse("$[*] ? (@ like_regex \"a\" flag \"mi\" || @ like_regex \"c\")").unwrap();
    assert_eq!(path.patterns().collect::<Vec<_>>(), [("a", "im"), ("c", "")]);
    let found = path.query("[\"xAx\", 1, \"b\\\"c\", \"d\"]", None, false, &functions).unwrap();
    assert_eq!(found, ["\"xAx\"", "\"b\\\"c\""]);
    let asked: Vec<String> = functions.asked.take().into_iter().map(|(pattern, _)| pattern).collect();
    assert_eq!(asked, ["a", "a", "c", "a", "c"]);
    // Interrupts end each sort of loop, and silence does not keep them back.
    let document = format!("[{}1]", "1, ".repeat(999));
    for path in ["$[*]", "$.**", "$[0 to 900]", "$[*] + 1", "-$", "$ == 2", "$.abs()", "$ ? (@ == 2)"] {
        let path = JsonPath::parse(path).unwrap();
        functions.checks_left.set(Some(500));
        let ended = path.query(&document, None, true, &functions);
        assert_eq!(ended.unwrap_err().state(), SqlState::QueryCanceled, "{path}");
        functions.checks_left.set(None);
        assert!(path.query(&document, None, true, &functions).is_ok());
    }
}

#[test]
fn absent_variables_are_null() {
    let functions = PlainPatterns::default();
    let path = JsonPath::parse("$x").unwrap();
    assert_eq!(path.query("1", None, false, &functions).unwrap(), ["null"]);
    let error = path.exists("1", Some("[]"), true, &functions).unwrap_err();
    assert_eq!(error.state(), SqlState::InvalidParameterValue);
}

#[test]
fn templates_are_not_supported_even_silently() {
    let path = JsonPath::parse("$.datetime(\"YYYY\")").unwrap();
    assert_eq!(path.to_string(), "$.datetime(\"YYYY\")");
    let error = path.query("\"2024\"", None, true, &PlainPatterns::default()).unwrap_err();
    assert_eq!(error.state(), SqlState::FeatureNotSupported);
}
