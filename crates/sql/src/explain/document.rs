//! EXPLAIN as a document: the same tree with PostgreSQL's names, in JSON and YAML.

use super::{Actual, Explained, Fact, PlanNode, milliseconds};
use std::fmt::Write;

/// A value of a document.
enum Item {
    Text(String),
    /// A number or a truth, as it is written.
    Bare(String),
    List(Vec<Item>),
    Map(Vec<(&'static str, Item)>),
}

fn text(value: impl Into<String>) -> Item {
    Item::Text(value.into())
}

fn document(explained: &Explained) -> Item {
    let queries = explained.nodes.iter().map(|node| {
        let mut query = vec![("Plan", plan(node, None, explained))];
        if !explained.settings.is_empty() {
            let settings = explained.settings.iter().map(|(name, value)| (*name, text(value.as_str())));
            query.push(("Settings", Item::Map(settings.collect())));
        }
        if explained.options.summary {
            query.push(("Planning Time", Item::Bare(milliseconds(explained.planning_time))));
        }
        if let Some(time) = explained.execution_time {
            query.push(("Triggers", Item::List(Vec::new())));
            if explained.options.summary {
                query.push(("Execution Time", Item::Bare(milliseconds(time))));
            }
        }
        Item::Map(query)
    });
    Item::List(queries.collect())
}

fn plan(node: &PlanNode, relationship: Option<&str>, explained: &Explained) -> Item {
    let mut map = vec![("Node Type", text(&*node.kind))];
    map.extend(relationship.map(|relationship| ("Parent Relationship", text(relationship))));
    map.push(("Parallel Aware", Item::Bare("false".into())));
    map.push(("Async Capable", Item::Bare("false".into())));
    map.extend(node.parts.iter().map(|(name, value)| (*name, text(value.as_str()))));
    if let Some(Actual { rows, times, .. }) = node.actual {
        if let Some((first, last)) = times.filter(|_| explained.options.timing) {
            map.push(("Actual Startup Time", Item::Bare(milliseconds(first))));
            map.push(("Actual Total Time", Item::Bare(milliseconds(last))));
        }
        map.push(("Actual Rows", Item::Bare(rows.to_string())));
        map.push(("Actual Loops", Item::Bare("1".into())));
    }
    map.extend(node.facts.iter().map(|(name, fact)| match fact {
        Fact::Text(value) => (*name, text(value.as_str())),
        Fact::Number(number) => (*name, Item::Bare(number.to_string())),
        Fact::List(items) => (*name, Item::List(items.iter().map(|item| text(item.as_str())).collect())),
    }));
    if let Some(removed) = node.actual.and_then(|actual| actual.removed) {
        map.push(("Rows Removed by Filter", Item::Bare(removed.to_string())));
    }
    if !node.below.is_empty() {
        let side = |position: usize| if position == 0 { "Outer" } else { "Inner" };
        let below = node.below.iter().enumerate();
        let below = below.map(|(position, node)| plan(node, Some(side(position)), explained));
        map.push(("Plans", Item::List(below.collect())));
    }
    Item::Map(map)
}

pub(super) fn json(explained: &Explained) -> String {
    let mut out = String::new();
    put_json(&document(explained), 0, &mut out);
    out
}

/// A text in quotes, with escapes that JSON and YAML share.
fn put_text(value: &str, out: &mut String) {
    out.push('"');
    for character in value.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                // Writing to a text does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

fn put_json(item: &Item, indent: usize, out: &mut String) {
    let inner = indent + 2;
    let line = |out: &mut String, indent: usize, is_first: bool| {
        out.push_str(if is_first { "\n" } else { ",\n" });
        out.extend(std::iter::repeat_n(' ', indent));
    };
    match item {
        Item::Text(value) => put_text(value, out),
        Item::Bare(value) => out.push_str(value),
        Item::List(items) if items.is_empty() => out.push_str("[]"),
        Item::List(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                line(out, inner, position == 0);
                put_json(item, inner, out);
            }
            line(out, indent, true);
            out.push(']');
        }
        Item::Map(entries) => {
            out.push('{');
            for (position, (name, item)) in entries.iter().enumerate() {
                line(out, inner, position == 0);
                put_text(name, out);
                out.push_str(": ");
                put_json(item, inner, out);
            }
            line(out, indent, true);
            out.push('}');
        }
    }
}

pub(super) fn yaml(explained: &Explained) -> String {
    let mut out = String::new();
    put_yaml(&document(explained), 0, &mut out);
    out.trim_start_matches('\n').to_owned()
}

/// Behind `name:` or, for the items of a list, behind `-`.
fn put_yaml(item: &Item, indent: usize, out: &mut String) {
    match item {
        Item::Text(value) => {
            out.push(' ');
            put_text(value, out);
        }
        Item::Bare(value) => {
            out.push(' ');
            out.push_str(value);
        }
        Item::List(items) if items.is_empty() => out.push_str(" []"),
        Item::List(items) => {
            for item in items {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', indent));
                out.push('-');
                put_yaml(item, indent + 2, out);
            }
        }
        Item::Map(entries) => {
            for (position, (name, item)) in entries.iter().enumerate() {
                match out.ends_with('-') && position == 0 {
                    true => out.push(' '),
                    false => {
                        out.push('\n');
                        out.extend(std::iter::repeat_n(' ', indent));
                    }
                }
                out.push_str(name);
                out.push(':');
                put_yaml(item, indent + 2, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ExplainOptions;
    use super::*;
    use std::time::Duration;

    #[test]
    fn documents_have_the_names_that_clients_look_for() {
        let options =
            ExplainOptions { analyze: true, timing: true, summary: true, ..ExplainOptions::default() };
        let times = Some((Duration::from_micros(10), Duration::from_micros(25)));
        let scan = PlanNode::new("Seq Scan", "Seq Scan on \"t\"").part("Relation Name", "\"t\"");
        let scan = scan.measured(Some(Actual { rows: 3, times, removed: Some(0) }));
        let nodes = [PlanNode::new("Sort", "Sort").over(scan)];
        let explained = Explained {
            options: &options,
            nodes: &nodes,
            planning_time: Duration::from_micros(5),
            execution_time: Some(Duration::from_micros(30)),
            settings: Vec::new(),
        };
        let json = json(&explained);
        let flat: String = json.split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = "[ { \"Plan\": { \"Node Type\": \"Sort\", \"Parallel Aware\": false, \"Async Capable\": false, \
                        \"Plans\": [ { \"Node Type\": \"Seq Scan\", \"Parent Relationship\": \"Outer\", \
                        \"Parallel Aware\": false, \"Async Capable\": false, \"Relation Name\": \"\\\"t\\\"\", \
                        \"Actual Startup Time\": 0.010, \"Actual Total Time\": 0.025, \"Actual Rows\": 3, \
                        \"Actual Loops\": 1, \"Rows Removed by Filter\": 0 } ] }, \"Planning Time\": 0.005, \
                        \"Triggers\": [], \"Execution Time\": 0.030 } ]";
        assert_eq!(flat, expected);
        let yaml = yaml(&explained);
        assert!(yaml.starts_with("- Plan:\n    Node Type: \"Sort\"\n"), "{yaml}");
        assert!(yaml.contains("\n    Plans:\n      - Node Type: \"Seq Scan\"\n"), "{yaml}");
    }
}
