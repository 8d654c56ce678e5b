//! The demo's plot: OLTP throughput over time, and below it the latency of every analytical query.

use super::Outcome;
use super::live::{QueryPoint, Sample};
use ankerdb_engine::{Error, Result};
use ankerdb_workload::htap::queries::QUERIES;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// One colour for each query, told apart also by people who do not see red and green as different.
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

/// Writes the plot as SVG.
pub fn write(path: &Path, outcome: &Outcome) -> Result<()> {
    let (samples, queries) = (outcome.live.samples(), outcome.live.queries());
    let drawn = draw(path, &samples, &queries);
    drawn.map_err(|error| Error::internal(format!("cannot write {}: {error}", path.display())))
}

fn draw(
    path: &Path,
    samples: &[Sample],
    queries: &[QueryPoint],
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    ankerdb_experiment::render::font::prepare();
    let root = SVGBackend::new(path, (1000, 760)).into_drawing_area();
    root.fill(&WHITE)?;
    let root = root.titled("AnKerDB: transactions and analytics on the same data", ("sans-serif", 22))?;
    let (upper, lower) = root.split_vertically(320);
    let seconds = samples.last().map_or(1.0, |sample| sample.seconds.max(1.0));
    draw_throughput(&upper, seconds, samples)?;
    draw_latency(&lower, seconds, queries)?;
    root.present()?;
    Ok(())
}

fn draw_throughput(
    area: &Area<'_>,
    seconds: f64,
    samples: &[Sample],
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let top = samples.iter().map(|sample| sample.per_second).fold(1.0, f64::max) * 1.1;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(35)
        .y_label_area_size(75)
        .build_cartesian_2d(0.0..seconds, 0.0..top)?;
    let whole = |value: &f64| format!("{value:.0}");
    chart
        .configure_mesh()
        .max_light_lines(1)
        .x_desc("seconds")
        .y_desc("transactions/s")
        .y_label_formatter(&whole)
        .draw()?;
    let points = samples.iter().map(|sample| (sample.seconds, sample.per_second));
    chart.draw_series(LineSeries::new(points, COLOURS[0].stroke_width(2)))?;
    Ok(())
}

fn draw_latency(
    area: &Area<'_>,
    seconds: f64,
    queries: &[QueryPoint],
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let low = queries.iter().map(|point| point.latency_ms).fold(1.0, f64::min).max(0.001) / 1.5;
    let high = queries.iter().map(|point| point.latency_ms).fold(1.0, f64::max) * 1.5;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(35)
        .y_label_area_size(75)
        .build_cartesian_2d(0.0..seconds, (low..high).log_scale())?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .x_desc("seconds (tables grow as orders come in)")
        .y_desc("query latency, ms")
        .draw()?;
    for (number, (query, colour)) in QUERIES.iter().zip(COLOURS).enumerate() {
        let points = queries.iter().filter(|point| point.query == number);
        let circles = points.map(|point| Circle::new((point.seconds, point.latency_ms), 2, colour.filled()));
        let mark = move |(x, y)| Circle::new((x + 8, y), 4, colour.filled());
        chart.draw_series(circles)?.label(query.name).legend(mark);
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_without_any_data_is_still_a_plot() {
        let path = std::env::temp_dir().join(format!("ankerdb-plot-{}.svg", std::process::id()));
        draw(&path, &[], &[]).expect("drawing works");
        let sample = Sample { seconds: 0.5, per_second: 1000.0 };
        let point = QueryPoint { seconds: 0.2, query: 3, latency_ms: 12.0 };
        draw(&path, &[sample, sample], &[point]).expect("drawing works");
        let text = std::fs::read_to_string(&path).expect("the file is there");
        std::fs::remove_file(&path).expect("the file is ours");
        assert!(text.contains("transactions/s") && text.contains("Q8") && text.ends_with("</svg>\n"));
    }
}
