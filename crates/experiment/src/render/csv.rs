//! Panels as CSV, one line a number: what spreadsheets and plotting libraries read without explanation.

use crate::finding::{Panel, Source};
use std::fmt::Write;

/// All panels in one table with the columns panel, series, source, x, x_label, y, x_axis, y_axis.
pub fn table(panels: &[Panel]) -> String {
    let mut text = String::from("panel,series,source,x,x_label,y,x_axis,y_axis\n");
    for panel in panels {
        for series in &panel.series {
            let source = match series.source {
                Source::Measured => "measured",
                Source::Paper => "paper",
            };
            for &(x, y) in &series.points {
                let _ = writeln!(
                    text,
                    "{},{},{source},{x},{},{y},{},{}",
                    field(&panel.title),
                    field(&series.name),
                    field(&panel.place_name(x)),
                    field(&panel.x),
                    field(&panel.y)
                );
            }
        }
    }
    text
}

/// Quoted where the format needs it (RFC 4180).
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_line_and_commas_are_quoted() {
        let mut panel = Panel::bars("Latency, uniform", "query", "ms", &["Q1", "the \"other\""]);
        panel.add("a", &[Some(1.5), Some(2.0)]);
        let lines: Vec<String> = table(&[panel]).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1], "\"Latency, uniform\",a,measured,0,Q1,1.5,query,ms");
        assert_eq!(lines[2], "\"Latency, uniform\",a,measured,1,\"the \"\"other\"\"\",2,query,ms");
    }
}
