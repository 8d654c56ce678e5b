//! The demo's plot: throughput and latency of transactions over time, and below them the latency of every analytical query.
//! In all three panels the time in which queries ran is coloured, so that their cost for transactions would show.

use super::DemoOutcome;
use super::live::{LiveSample, QueryPoint};
use ankerdb_engine::Result;
use ankerdb_experiment::render::font::FAMILY;
use ankerdb_experiment::render::picture::{Drawing, Drawn, write as write_drawing};
use ankerdb_workload::htap::queries::QUERIES;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::path::Path;

type Chart<'a, B, Y> = ChartContext<'a, B, Cartesian2d<plotters::coord::types::RangedCoordf64, Y>>;

/// One colour for each query, which people with red-green colour blindness can tell apart, too.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(140, 120, 0),
    RGBColor(60, 60, 60),
];
/// Behind the time in which queries ran.
const BESIDE: RGBColor = RGBColor(222, 235, 247);

// Sizes in pixels; letters are large because pictures are mostly looked at smaller than they are.
const WIDTH: u32 = 1280;
const TITLE_HEIGHT: u32 = 84;
const PANEL_HEIGHT: u32 = 270;
const QUERIES_HEIGHT: u32 = 420;
const TITLE: u32 = 32;
const LETTERS: u32 = 21;
const LEFT: u32 = 110;
/// Right of the panels, for what their colours mean.
const LEGEND_WIDTH: u32 = 270;

/// Writes the plot: as PNG if the path ends so, otherwise as SVG.
pub(super) fn write(path: &Path, outcome: &DemoOutcome) -> Result<()> {
    write_drawing(path, &Plot { samples: outcome.live.samples(), queries: outcome.live.queries() })
}

struct Plot {
    samples: Vec<LiveSample>,
    queries: Vec<QueryPoint>,
}

impl Drawing for Plot {
    fn size(&self) -> (u32, u32) {
        (WIDTH, TITLE_HEIGHT + 2 * PANEL_HEIGHT + QUERIES_HEIGHT)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn
    where
        B::ErrorType: 'static,
    {
        area.fill(&WHITE)?;
        let (title, rest) = area.split_vertically(TITLE_HEIGHT);
        title.draw_text("Transactions and analytics on the same data", &letters(TITLE, &BLACK), (20, 12))?;
        title.draw(&Rectangle::new([(20, 54), (44, 72)], BESIDE.filled()))?;
        let about = "analytical queries run beside the transactions, each on a fresh snapshot of everything committed";
        title.draw_text(about, &letters(LETTERS, &BLACK.mix(0.75)), (54, 53))?;
        let (throughput, rest) = rest.split_vertically(PANEL_HEIGHT);
        let (latency, queries) = rest.split_vertically(PANEL_HEIGHT);
        self.draw_throughput(&throughput)?;
        self.draw_latency(&latency)?;
        self.draw_queries(&queries)?;
        area.present()?;
        Ok(())
    }
}

fn letters<'a>(size: u32, colour: &impl Color) -> TextStyle<'a> {
    (FAMILY, size).into_font().color(colour)
}

impl Plot {
    fn seconds(&self) -> f64 {
        self.samples.last().map_or(1.0, |sample| sample.seconds.max(1.0))
    }

    /// From the sample before to each one beside queries.
    fn spans_beside_queries(&self) -> Vec<(f64, f64)> {
        let begins = std::iter::once(0.0).chain(self.samples.iter().map(|sample| sample.seconds));
        let spans = begins.zip(&self.samples).filter(|(_, sample)| sample.is_beside_queries);
        spans.map(|(begin, sample)| (begin, sample.seconds)).collect()
    }

    fn draw_throughput<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let (area, legend) = area.split_horizontally(WIDTH - LEGEND_WIDTH);
        let top = self.samples.iter().map(|sample| sample.per_second).fold(1.0, f64::max) * 1.15;
        let mut chart = chart(&area, "Transactions per second", self.seconds(), 0.0..top)?;
        self.draw_beside(&mut chart, (0.0, top))?;
        mesh(&mut chart, None, &|value| thousands(*value))?;
        let points = self.samples.iter().map(|sample| (sample.seconds, sample.per_second));
        chart.draw_series(LineSeries::new(points, COLOURS[0].stroke_width(3)))?;
        draw_legend(&legend, &[("TPC-C transactions,", Some(COLOURS[0])), ("serializable", None)])
    }

    fn draw_latency<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let (area, legend) = area.split_horizontally(WIDTH - LEGEND_WIDTH);
        let both = self.samples.iter().flat_map(|sample| [sample.p50_us, sample.p99_us]);
        let (low, high) = bounds(both);
        let mut chart = chart(&area, "Latency of a transaction", self.seconds(), (low..high).log_scale())?;
        self.draw_beside(&mut chart, (low, high))?;
        mesh(&mut chart, None, &|value| microseconds(*value))?;
        let p99: fn(&LiveSample) -> f64 = |sample| sample.p99_us;
        for (value, colour) in [(p99, COLOURS[3]), (|sample| sample.p50_us, COLOURS[0])] {
            let points = self.samples.iter().map(|sample| (sample.seconds, value(sample).max(low)));
            chart.draw_series(LineSeries::new(points, colour.stroke_width(3)))?;
        }
        let names = [("99 of 100 are faster", Some(COLOURS[3])), ("half are faster", Some(COLOURS[0]))];
        draw_legend(&legend, &names)
    }

    fn draw_queries<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let (area, legend) = area.split_horizontally(WIDTH - LEGEND_WIDTH);
        let (low, high) = bounds(self.queries.iter().map(|point| point.latency_ms * 1e3));
        let mut chart = chart(&area, "Latency of a query", self.seconds(), (low..high).log_scale())?;
        self.draw_beside(&mut chart, (low, high))?;
        mesh(&mut chart, Some("seconds"), &|value| microseconds(*value))?;
        for (number, colour) in COLOURS.into_iter().enumerate() {
            let points = self.queries.iter().filter(|point| point.query == number);
            let place = |point: &QueryPoint| (point.seconds, point.latency_ms * 1e3);
            chart.draw_series(points.map(|point| Circle::new(place(point), 3, colour.filled())))?;
        }
        let names: Vec<(String, Option<RGBColor>)> = (QUERIES.iter().zip(COLOURS))
            .map(|(query, colour)| (format!("{} {}", query.name, query.about), Some(colour)))
            .collect();
        let names: Vec<(&str, Option<RGBColor>)> =
            names.iter().map(|(name, colour)| (name.as_str(), *colour)).collect();
        draw_legend(&legend, &names)
    }

    fn draw_beside<B, Y>(&self, chart: &mut Chart<'_, B, Y>, (low, high): (f64, f64)) -> Drawn
    where
        B: DrawingBackend<ErrorType: 'static>,
        Y: Ranged<ValueType = f64>,
    {
        let spans = self.spans_beside_queries().into_iter();
        chart.draw_series(
            spans.map(|(begin, end)| Rectangle::new([(begin, low), (end, high)], BESIDE.filled())),
        )?;
        Ok(())
    }
}

/// The smallest and the largest value, with some room, for a logarithmic scale.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let measured = values.filter(|value| *value > 0.0);
    let (low, high) =
        measured.fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    if high > 0.0 { (low / 1.5, high * 1.5) } else { (1.0, 1000.0) }
}

fn chart<'a, B, Y>(
    area: &DrawingArea<B, Shift>,
    caption: &str,
    seconds: f64,
    values: Y,
) -> std::result::Result<Chart<'a, B, Y::CoordDescType>, Box<dyn std::error::Error>>
where
    B: DrawingBackend<ErrorType: 'static> + 'a,
    Y: AsRangedCoord<Value = f64>,
{
    let chart = ChartBuilder::on(area)
        .margin(10)
        .caption(caption, letters(LETTERS + 3, &BLACK))
        .x_label_area_size(LETTERS * 2 + 8)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(0.0..seconds, values)?;
    Ok(chart)
}

fn mesh<B, Y>(chart: &mut Chart<'_, B, Y>, below: Option<&str>, shown: &dyn Fn(&f64) -> String) -> Drawn
where
    B: DrawingBackend<ErrorType: 'static>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let style = letters(LETTERS, &BLACK);
    let mut mesh = chart.configure_mesh();
    mesh.max_light_lines(0).y_labels(5).label_style(style.clone()).axis_desc_style(style);
    mesh.x_label_formatter(&|seconds| format!("{seconds:.0}")).y_label_formatter(shown);
    if let Some(below) = below {
        mesh.x_desc(below);
    }
    mesh.draw()?;
    Ok(())
}

/// What the colours mean, one below the other.
fn draw_legend<B: DrawingBackend>(area: &DrawingArea<B, Shift>, names: &[(&str, Option<RGBColor>)]) -> Drawn
where
    B::ErrorType: 'static,
{
    for (line, (name, colour)) in names.iter().enumerate() {
        let y = 46 + line as i32 * (LETTERS as i32 + 14);
        if let Some(colour) = colour {
            area.draw(&Circle::new((12, y + 9), 7, colour.filled()))?;
        }
        area.draw_text(name, &letters(LETTERS, &BLACK), (28, y))?;
    }
    Ok(())
}

/// "70k" for 70,000.
fn thousands(value: f64) -> String {
    if value >= 1e4 { format!("{:.0}k", value / 1e3) } else { format!("{value:.0}") }
}

/// With the unit in which it is short.
fn microseconds(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.0} s", value / 1e6),
        value if value >= 1e3 => format!("{:.0} ms", value / 1e3),
        value => format!("{value:.0} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: f64, is_beside_queries: bool) -> LiveSample {
        LiveSample { seconds, per_second: 70_000.0, p50_us: 9.0, p99_us: 80.0, is_beside_queries }
    }

    #[test]
    fn a_plot_without_any_data_is_still_a_plot() {
        let path = std::env::temp_dir().join(format!("ankerdb-plot-{}.svg", std::process::id()));
        write_drawing(&path, &Plot { samples: Vec::new(), queries: Vec::new() }).expect("drawing works");
        let queries = vec![QueryPoint { seconds: 0.2, query: 3, latency_ms: 12.0 }];
        let samples = vec![sample(0.5, false), sample(1.0, true)];
        write_drawing(&path, &Plot { samples, queries }).expect("drawing works");
        let text = std::fs::read_to_string(&path).expect("the file is there");
        std::fs::remove_file(&path).expect("the file is ours");
        for part in ["Transactions per second", "Q8", "80k", "ms\n", "#DEEBF7"] {
            assert!(text.contains(part), "{part} is missing");
        }
        assert!(text.ends_with("</svg>\n"));
    }

    #[test]
    fn only_the_time_beside_queries_is_coloured() {
        let samples = vec![sample(0.5, false), sample(1.0, true), sample(1.5, true), sample(2.0, false)];
        let plot = Plot { samples, queries: Vec::new() };
        assert_eq!(plot.spans_beside_queries(), [(0.5, 1.0), (1.0, 1.5)]);
    }
}
