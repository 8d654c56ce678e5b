//! The canonical text of a path, as PostgreSQL's `jsonpath_out` writes it.
//!
//! Parentheses are where PostgreSQL puts them, which leaves some out that a reader would need: `($.a * 2).b + 1` is shown as
//! `($."a" * 2."b" + 1)` there, and here.

use super::super::push_string;
use super::JsonPath;
use super::syntax::{LAST_LEVEL, LikeRegex, NodeId, NodeKind, Subscript};
use std::fmt::{self, Formatter, Write};

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.is_lax {
            f.write_str("strict ")?;
        }
        chain(self, self.head, true, f)
    }
}

/// A node and all that follows it. `is_bracketed`: whether operators get parentheses.
fn chain(path: &JsonPath, head: NodeId, is_bracketed: bool, f: &mut Formatter<'_>) -> fmt::Result {
    let mut at = Some(head);
    while let Some(node) = at {
        one(path, node, node != head, is_bracketed || node != head, f)?;
        at = path.nodes[node].next;
    }
    Ok(())
}

fn one(
    path: &JsonPath,
    at: NodeId,
    is_accessor: bool,
    is_bracketed: bool,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    let node = &path.nodes[at];
    let point = if is_accessor { "." } else { "" };
    match &node.kind {
        NodeKind::Root => f.write_char('$'),
        NodeKind::Current => f.write_char('@'),
        NodeKind::Last => f.write_str("last"),
        NodeKind::Literal(text) if node.kind.is_number() && node.next.is_some() => write!(f, "({text})"),
        NodeKind::Literal(text) => f.write_str(text),
        NodeKind::Variable(name) => write!(f, "${name}"),
        NodeKind::Key(key) => write!(f, "{point}{key}"),
        NodeKind::AnyKey => write!(f, "{point}*"),
        NodeKind::AnyArray => f.write_str("[*]"),
        NodeKind::Subscripts(all) => subscripts(path, all, f),
        NodeKind::Descendants { first, last } => {
            f.write_str(point)?;
            descendants(*first, *last, f)
        }
        NodeKind::Filter(predicate) => around(path, "?(", *predicate, ")", f),
        NodeKind::Method(method) => write!(f, ".{}()", method.name()),
        NodeKind::Datetime(template) => write!(f, ".datetime({})", template.as_deref().unwrap_or_default()),
        NodeKind::Not(operand) => around(path, "!(", *operand, ")", f),
        NodeKind::IsUnknown(operand) => around(path, "(", *operand, ") is unknown", f),
        NodeKind::Exists(operand) => around(path, "exists (", *operand, ")", f),
        _ => {
            if is_bracketed {
                f.write_char('(')?;
            }
            operator(path, &node.kind, f)?;
            if is_bracketed { f.write_char(')') } else { Ok(()) }
        }
    }
}

fn around(path: &JsonPath, open: &str, operand: NodeId, close: &str, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str(open)?;
    chain(path, operand, false, f)?;
    f.write_str(close)
}

/// An operator with its operands.
fn operator(path: &JsonPath, kind: &NodeKind, f: &mut Formatter<'_>) -> fmt::Result {
    let operand = |operand: NodeId, f: &mut Formatter<'_>| {
        chain(path, operand, path.nodes[operand].kind.priority() <= kind.priority(), f)
    };
    let (symbol, left, right) = match kind {
        NodeKind::Or(..) | NodeKind::And(..) => return run(path, kind, f),
        NodeKind::Compare(comparison, left, right) => (comparison.symbol(), *left, *right),
        NodeKind::Arithmetic(arithmetic, left, right) => (arithmetic.symbol(), *left, *right),
        NodeKind::StartsWith(left, right) => ("starts with", *left, *right),
        NodeKind::LikeRegex(regex) => return like_regex(path, kind, regex, f),
        NodeKind::Sign { is_minus, operand: signed } => {
            f.write_char(if *is_minus { '-' } else { '+' })?;
            return operand(*signed, f);
        }
        // Everything else is no operator.
        _ => return Ok(()),
    };
    operand(left, f)?;
    write!(f, " {symbol} ")?;
    operand(right, f)
}

/// `a && b && c` or `a || b || c`, which have their left operand in parentheses. One recursion, however many there are.
fn run(path: &JsonPath, kind: &NodeKind, f: &mut Formatter<'_>) -> fmt::Result {
    let symbol = if matches!(kind, NodeKind::And(..)) { "&&" } else { "||" };
    let (first, rights) = path.run_of(kind);
    for _ in 1..rights.len() {
        f.write_char('(')?;
    }
    let operand = |operand: NodeId, f: &mut Formatter<'_>| {
        chain(path, operand, path.nodes[operand].kind.priority() <= kind.priority(), f)
    };
    operand(first, f)?;
    for (position, right) in rights.iter().rev().enumerate() {
        write!(f, " {symbol} ")?;
        operand(*right, f)?;
        if position + 1 < rights.len() {
            f.write_char(')')?;
        }
    }
    Ok(())
}

fn like_regex(path: &JsonPath, kind: &NodeKind, regex: &LikeRegex, f: &mut Formatter<'_>) -> fmt::Result {
    let is_bracketed = path.nodes[regex.operand].kind.priority() <= kind.priority();
    chain(path, regex.operand, is_bracketed, f)?;
    let mut pattern = String::new();
    push_string(&regex.pattern, &mut pattern);
    write!(f, " like_regex {pattern}")?;
    if regex.flags.is_empty() { Ok(()) } else { write!(f, " flag \"{}\"", regex.flags) }
}

fn subscripts(path: &JsonPath, all: &[Subscript], f: &mut Formatter<'_>) -> fmt::Result {
    for (position, subscript) in all.iter().enumerate() {
        f.write_char(if position == 0 { '[' } else { ',' })?;
        chain(path, subscript.from, false, f)?;
        if let Some(to) = subscript.to {
            f.write_str(" to ")?;
            chain(path, to, false, f)?;
        }
    }
    f.write_char(']')
}

fn descendants(first: u32, last: u32, f: &mut Formatter<'_>) -> fmt::Result {
    let level = |level: u32| if level == LAST_LEVEL { "last".to_owned() } else { level.to_string() };
    match (first, last) {
        (0, LAST_LEVEL) => f.write_str("**"),
        (first, last) if first == last => write!(f, "**{{{}}}", level(first)),
        (first, last) => write!(f, "**{{{} to {}}}", level(first), level(last)),
    }
}
