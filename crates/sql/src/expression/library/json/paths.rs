//! Paths of SQL/JSON: what `ankerdb_value` follows through documents, as functions and operators.
//!
//! The operators know no variables and are silent. The functions take variables and whether they are silent, which they are not
//! without being told.

use super::super::entry::{Entry, entry, text, wrong_argument};
use super::super::sets::{SetValues, given};
use crate::expression::regex::{self, Flags};
use ankerdb_engine::DataType::{self, Boolean, Jsonb};
use ankerdb_engine::{Interrupt, Result, SystemType, Value};
use ankerdb_value::json::{JsonPath, PathFunctions};
use std::cell::RefCell;
use std::rc::Rc;

/// A path, as the type of an argument.
pub(in super::super) const PATH: DataType = DataType::System(SystemType::JsonPath);

/// Paths that a thread keeps.
const KEPT_MAX: usize = 8;
/// The longest path that is kept, in bytes of its text.
const KEPT_BYTES_MAX: usize = 1 << 10;

pub(crate) const ENTRIES: &[Entry] = &[
    entry("operator @?", &[Jsonb, PATH], Boolean, exists),
    entry("operator @@", &[Jsonb, PATH], Boolean, matches),
    entry("jsonb_path_exists", &[Jsonb, PATH], Boolean, exists_with),
    entry("jsonb_path_exists", &[Jsonb, PATH, Jsonb], Boolean, exists_with),
    entry("jsonb_path_exists", &[Jsonb, PATH, Jsonb, Boolean], Boolean, exists_with),
    entry("jsonb_path_match", &[Jsonb, PATH], Boolean, matches_with),
    entry("jsonb_path_match", &[Jsonb, PATH, Jsonb], Boolean, matches_with),
    entry("jsonb_path_match", &[Jsonb, PATH, Jsonb, Boolean], Boolean, matches_with),
    entry("jsonb_path_query_array", &[Jsonb, PATH], Jsonb, array),
    entry("jsonb_path_query_array", &[Jsonb, PATH, Jsonb], Jsonb, array),
    entry("jsonb_path_query_array", &[Jsonb, PATH, Jsonb, Boolean], Jsonb, array),
    entry("jsonb_path_query_first", &[Jsonb, PATH], Jsonb, first),
    entry("jsonb_path_query_first", &[Jsonb, PATH, Jsonb], Jsonb, first),
    entry("jsonb_path_query_first", &[Jsonb, PATH, Jsonb, Boolean], Jsonb, first),
];

/// What a path is followed with.
struct PathCall<'a> {
    document: &'a str,
    /// None for operators, which differ from functions without any.
    vars: Option<&'a str>,
    silent: bool,
    interrupt: &'a Interrupt,
}

impl PathFunctions for PathCall<'_> {
    fn matches(&self, pattern: &str, flags: &str, text: &str) -> Result<bool> {
        let mut read = Flags::of_operator(flags.contains('i'));
        read.set(match (flags.contains('q'), flags.contains('s'), flags.contains('m')) {
            (true, ..) => 'q',
            (_, true, true) => 'w',
            (_, true, false) => 's',
            (_, false, true) => 'n',
            (_, false, false) => 'p',
        })?;
        regex::with(pattern, read, |regex| regex.is_match(text, self.interrupt))
    }

    fn check(&self) -> Result<()> {
        self.interrupt.check()
    }
}

/// The path, which the thread may have read before.
fn with_path<T>(written: &str, used: impl FnOnce(&JsonPath) -> Result<T>) -> Result<T> {
    thread_local! {
        /// The one read last is the last.
        static KEPT: RefCell<Vec<(Box<str>, Rc<JsonPath>)>> = const { RefCell::new(Vec::new()) };
    }
    let kept = KEPT.with_borrow(|kept| {
        kept.iter().rfind(|(known, _)| **known == *written).map(|(_, path)| Rc::clone(path))
    });
    if let Some(path) = kept {
        return used(&path);
    }
    let path = Rc::new(JsonPath::parse(written)?);
    if written.len() <= KEPT_BYTES_MAX {
        KEPT.with_borrow_mut(|kept| {
            if kept.len() == KEPT_MAX {
                kept.remove(0);
            }
            kept.push((written.into(), Rc::clone(&path)));
        });
    }
    used(&path)
}

/// A call of an operator.
fn of_operator<T>(
    values: &[Value],
    interrupt: &Interrupt,
    used: impl FnOnce(&JsonPath, &PathCall<'_>) -> Result<T>,
) -> Result<T> {
    let call = PathCall { document: text(values, 0)?, vars: None, silent: true, interrupt };
    with_path(text(values, 1)?, |path| used(path, &call))
}

/// A call of a function.
fn of_function<T>(
    values: &[Value],
    interrupt: &Interrupt,
    used: impl FnOnce(&JsonPath, &PathCall<'_>) -> Result<T>,
) -> Result<T> {
    let vars = Some(if values.len() > 2 { text(values, 2)? } else { "{}" });
    let silent = match values.get(3) {
        None => false,
        Some(Value::Boolean(silent)) => *silent,
        Some(_) => return Err(wrong_argument()),
    };
    let call = PathCall { document: text(values, 0)?, vars, silent, interrupt };
    with_path(text(values, 1)?, |path| used(path, &call))
}

fn truth(known: Option<bool>) -> Value {
    known.map_or(Value::Null, Value::Boolean)
}

fn exists(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    of_operator(values, interrupt, |path, call| path.exists(call.document, call.vars, call.silent, call))
        .map(truth)
}

fn exists_with(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    of_function(values, interrupt, |path, call| path.exists(call.document, call.vars, call.silent, call))
        .map(truth)
}

fn matches(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    of_operator(values, interrupt, |path, call| path.matches(call.document, call.vars, call.silent, call))
        .map(truth)
}

fn matches_with(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    of_function(values, interrupt, |path, call| path.matches(call.document, call.vars, call.silent, call))
        .map(truth)
}

fn found(values: &[Value], interrupt: &Interrupt) -> Result<Vec<String>> {
    of_function(values, interrupt, |path, call| path.query(call.document, call.vars, call.silent, call))
}

fn array(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    Ok(Value::text(format!("[{}]", found(values, interrupt)?.join(", "))))
}

fn first(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    let first =
        of_function(values, interrupt, |path, call| path.first(call.document, call.vars, call.silent, call))?;
    Ok(first.map_or(Value::Null, Value::text))
}

/// The items as rows.
pub(in super::super) fn items(values: &[Value], interrupt: &Interrupt) -> Result<SetValues> {
    Ok(given(found(values, interrupt)?.into_iter().map(Value::text).collect()))
}
