//! The results of experiments: panels of numbers, however they are shown later.
//!
//! A figure or table of a paper is one or several [`Panel`]s, each a family of series over the same axis. The renderers
//! in `render` make text, CSV and pictures of them, and know nothing of experiments.

/// The result of one experiment.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The parts of the figure or table.
    pub panels: Vec<Panel>,
    /// Remarks that the numbers do not show.
    pub notes: Vec<String>,
}

/// One diagram or table.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Above it.
    pub title: String,
    /// The horizontal axis, with its unit.
    pub x: String,
    /// The vertical axis, with its unit.
    pub y: String,
    /// How it is drawn.
    pub kind: PanelKind,
    /// Its rows or lines.
    pub series: Vec<Series>,
}

/// How a panel is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum PanelKind {
    /// Groups of bars, one group a name; x is a position in the names.
    Bars(Vec<String>),
    /// Lines over numbers.
    Lines,
}

/// Whose numbers they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Measured in this run.
    Measured,
    /// Printed in the paper.
    Paper,
}

/// Numbers that belong together.
#[derive(Clone, Debug)]
pub struct Series {
    /// A configuration, for example.
    pub name: String,
    /// Whose numbers they are.
    pub source: Source,
    /// (x, y), x ascending.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series that was measured.
    pub fn measured(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), source: Source::Measured, points }
    }

    /// A series as the paper prints it.
    pub fn paper(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), source: Source::Paper, points }
    }

    /// The value at a place.
    pub fn at(&self, x: f64) -> Option<f64> {
        self.points.iter().find(|point| point.0 == x).map(|point| point.1)
    }

    /// The name with where it comes from.
    pub fn label(&self) -> String {
        match self.source {
            Source::Measured => self.name.clone(),
            Source::Paper => format!("{} (paper)", self.name),
        }
    }
}

impl Panel {
    /// A panel of bars without series yet.
    pub fn bars(title: &str, x: &str, y: &str, names: &[&str]) -> Panel {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Panel {
            title: title.into(),
            x: x.into(),
            y: y.into(),
            kind: PanelKind::Bars(names),
            series: Vec::new(),
        }
    }

    /// A panel of lines without series yet.
    pub fn lines(title: &str, x: &str, y: &str) -> Panel {
        Panel { title: title.into(), x: x.into(), y: y.into(), kind: PanelKind::Lines, series: Vec::new() }
    }

    /// Adds measured values by position in the names, leaving out what was not measured.
    pub fn add(&mut self, name: &str, values: &[Option<f64>]) {
        let points = values.iter().enumerate().filter_map(|(place, value)| Some((place as f64, (*value)?)));
        self.series.push(Series::measured(name, points.collect()));
    }

    /// Every place on the horizontal axis that any series has, ascending.
    pub fn places(&self) -> Vec<f64> {
        let mut places: Vec<f64> = match &self.kind {
            PanelKind::Bars(names) => (0..names.len()).map(|place| place as f64).collect(),
            PanelKind::Lines => {
                self.series.iter().flat_map(|series| &series.points).map(|point| point.0).collect()
            }
        };
        places.sort_by(f64::total_cmp);
        places.dedup();
        places
    }

    /// The label of a place on the horizontal axis.
    pub fn place_name(&self, place: f64) -> String {
        match &self.kind {
            PanelKind::Bars(names) => names.get(place as usize).cloned().unwrap_or_default(),
            PanelKind::Lines => number(place),
        }
    }
}

/// A number with about four digits, as people like to read it.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size == 0.0 || size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 1.0 => 3,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (51289.4, "51289"),
            (123.456, "123.5"),
            (12.3, "12.3"),
            (1.0, "1"),
            (0.01234, "0.0123"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn bars_have_places_also_where_nothing_was_measured() {
        let mut panel = Panel::bars("t", "x", "y", &["a", "b"]);
        panel.add("s", &[None, Some(2.0)]);
        assert_eq!((panel.places(), panel.series[0].at(1.0)), (vec![0.0, 1.0], Some(2.0)));
        assert_eq!(panel.place_name(1.0), "b");
    }
}
