//! Panels as tables for a terminal.

use crate::finding::{Panel, PanelKind, number};
use std::fmt::Write;

/// Lines of a table over numbers; of more only every so many are shown (the CSV has them all).
const LINES_MAX: usize = 40;

/// A panel as a table: of bars, a row for each series; of lines, a row for each place.
pub fn table(panel: &Panel) -> String {
    let mut text = format!("{}   [{}]\n", panel.title, panel.y);
    let places = panel.places();
    let value = |series: &crate::finding::Series, place: f64| series.at(place).map_or("-".to_owned(), number);
    let mut rows: Vec<Vec<String>> = Vec::new();
    match panel.kind {
        PanelKind::Bars(_) => {
            let names = places.iter().map(|place| panel.place_name(*place));
            rows.push(std::iter::once(panel.x.clone()).chain(names).collect());
            for series in &panel.series {
                let values = places.iter().map(|place| value(series, *place));
                rows.push(std::iter::once(series.label()).chain(values).collect());
            }
        }
        PanelKind::Lines => {
            let labels = panel.series.iter().map(|series| series.label());
            rows.push(std::iter::once(panel.x.clone()).chain(labels).collect());
            let step = places.len().div_ceil(LINES_MAX).max(1);
            for place in places.iter().step_by(step) {
                let values = panel.series.iter().map(|series| value(series, *place));
                rows.push(std::iter::once(panel.place_name(*place)).chain(values).collect());
            }
        }
    }
    write_rows(&mut text, &rows);
    text
}

fn write_rows(text: &mut String, rows: &[Vec<String>]) {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = format!("  {:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(line, "  {cell:>width$}");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Series;

    #[test]
    fn bars_are_rows_and_lines_are_columns() {
        let mut bars = Panel::bars("Latency", "query", "ms", &["Q1", "Q2"]);
        bars.add("see-fs", &[Some(12.5), None]);
        bars.series.push(Series::paper("SEE_FS", vec![(0.0, 1500.0)]));
        let text = table(&bars);
        assert!(text.contains("  query             Q1  Q2\n  see-fs          12.5   -\n"), "{text}");
        assert!(text.contains("  SEE_FS (paper)  1500   -\n"), "{text}");
        let mut lines = Panel::lines("Throughput", "s", "txn/s");
        lines.series.push(Series::measured("a", (0..100).map(|x| (f64::from(x), 7.0)).collect()));
        assert_eq!(table(&lines).lines().count(), 2 + 34, "every third of 100");
    }
}
