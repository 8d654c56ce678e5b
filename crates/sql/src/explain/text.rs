//! EXPLAIN as lines of text: a node is a line; what is known of it stands below it, and then the nodes that it reads from, behind an
//! arrow.
//!
//! ```text
//! Limit (actual time=0.031..0.040 rows=2 loops=1)
//!   ->  Index Scan Backward using account_pkey on account (actual time=0.012..0.020 rows=2 loops=1)
//!         Index Cond: (id < 10)
//!         Filter: (balance > 0)
//! ```

use super::{Actual, Explained, Fact, PlanNode, milliseconds};

/// How far the node below a node stands, and what is known of it.
const BELOW: usize = 6;

pub(super) fn lines(explained: &Explained) -> Vec<String> {
    let mut lines = Vec::new();
    for node in explained.nodes {
        push(node, "", 0, explained, &mut lines);
    }
    if !explained.settings.is_empty() {
        let settings: Vec<String> =
            explained.settings.iter().map(|(name, value)| format!("{name} = '{value}'")).collect();
        lines.push(format!("Settings: {}", settings.join(", ")));
    }
    if explained.options.summary {
        lines.push(format!("Planning Time: {} ms", milliseconds(explained.planning_time)));
        let execution = explained.execution_time;
        lines.extend(execution.map(|time| format!("Execution Time: {} ms", milliseconds(time))));
    }
    lines
}

fn push(node: &PlanNode, arrow: &str, indent: usize, explained: &Explained, lines: &mut Vec<String>) {
    let head = format!("{:indent$}{arrow}{}{}", "", node.headline, figures(node, explained));
    lines.push(head);
    let indent = if arrow.is_empty() { 0 } else { indent + BELOW };
    for (name, fact) in &node.facts {
        let value = match fact {
            Fact::Text(text) => text.clone(),
            Fact::Number(number) => number.to_string(),
            Fact::List(items) => items.join(", "),
        };
        lines.push(format!("{:indent$}  {name}: {value}", ""));
    }
    if let Some(removed) = node.actual.and_then(|actual| actual.removed).filter(|removed| *removed > 0) {
        lines.push(format!("{:indent$}  Rows Removed by Filter: {removed}", ""));
    }
    for below in &node.below {
        push(below, "  ->  ", indent, explained, lines);
    }
}

fn figures(node: &PlanNode, explained: &Explained) -> String {
    let Some(Actual { rows, times, .. }) = node.actual else { return String::new() };
    match times.filter(|_| explained.options.timing) {
        Some((first, last)) => {
            let (first, last) = (milliseconds(first), milliseconds(last));
            format!(" (actual time={first}..{last} rows={rows} loops=1)")
        }
        None => format!(" (actual rows={rows} loops=1)"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ExplainOptions;
    use super::*;
    use std::time::Duration;

    #[test]
    fn nodes_stand_below_each_other() {
        let scan = PlanNode::new("Seq Scan", "Seq Scan on t").fact("Filter", "(a > 1)");
        let actual = Actual { rows: 3, times: None, removed: Some(2) };
        let sort = PlanNode::new("Sort", "Sort").fact("Sort Key", "a").over(scan.measured(Some(actual)));
        let nodes = [PlanNode::new("Limit", "Limit").over(sort)];
        let explained = Explained {
            options: &ExplainOptions::default(),
            nodes: &nodes,
            planning_time: Duration::ZERO,
            execution_time: None,
            settings: vec![("work_mem", "8MB".to_owned())],
        };
        assert_eq!(
            lines(&explained),
            [
                "Limit",
                "  ->  Sort",
                "        Sort Key: a",
                "        ->  Seq Scan on t (actual rows=3 loops=1)",
                "              Filter: (a > 1)",
                "              Rows Removed by Filter: 2",
                "Settings: work_mem = '8MB'",
            ]
        );
    }
}
