//! Panels as pictures. One drawing for both formats: SVG for documents, PNG for everything else.

use super::font;
use crate::finding::{Panel, PanelKind, Series, Source, number};
use ankerdb_engine::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

/// Colours that people with red-green colour blindness can tell apart, too.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(140, 120, 0),
    RGBColor(60, 60, 60),
];
const PANEL_WIDTH: u32 = 640;
const PANEL_HEIGHT: u32 = 380;
const TITLE_HEIGHT: u32 = 40;
const LINE_HEIGHT: u32 = 18;
const LEGEND_HEIGHT: i32 = 22;
/// From this ratio of the largest to the smallest value on, bars are drawn on a logarithmic scale.
const LOG_FROM: f64 = 50.0;

/// The result of drawing.
pub type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

/// A drawing for either format.
pub trait Drawing {
    /// Width and height in pixels.
    fn size(&self) -> (u32, u32);

    /// Draws it into an area of that size.
    ///
    /// # Errors
    /// The backend's.
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn
    where
        B::ErrorType: 'static;
}

/// Writes a drawing: as PNG if the path ends so, otherwise as SVG.
///
/// # Errors
/// The backend's, and those of the file.
pub fn write(path: &Path, drawing: &impl Drawing) -> Result<()> {
    font::prepare();
    let is_png = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png"));
    let written = if is_png {
        write_png(path, drawing)
    } else {
        drawing.draw(&SVGBackend::new(path, drawing.size()).into_drawing_area())
    };
    written.map_err(|error| Error::internal(format!("cannot write {}: {error}", path.display())))
}

fn write_png(path: &Path, drawing: &impl Drawing) -> Drawn {
    let (width, height) = drawing.size();
    let mut pixels = vec![0u8; (width * height * 3) as usize];
    drawing.draw(&BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area())?;
    let file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut encoder = png::Encoder::new(file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(())
}

/// A picture to be drawn.
pub struct Picture<'a> {
    /// Above everything.
    pub title: &'a str,
    /// Side by side, two in a row.
    pub panels: &'a [Panel],
    /// Below everything.
    pub footer: &'a [String],
}

impl Picture<'_> {
    fn columns(&self) -> u32 {
        if self.panels.len() > 1 { 2 } else { 1 }
    }

    fn rows(&self) -> u32 {
        (self.panels.len() as u32).div_ceil(self.columns()).max(1)
    }
}

impl Drawing for Picture<'_> {
    fn size(&self) -> (u32, u32) {
        let footer = LINE_HEIGHT * self.footer.len() as u32 + 8;
        (PANEL_WIDTH * self.columns(), TITLE_HEIGHT + PANEL_HEIGHT * self.rows() + footer)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn
    where
        B::ErrorType: 'static,
    {
        area.fill(&WHITE)?;
        let (top, rest) = area.split_vertically(TITLE_HEIGHT);
        let style = (font::FAMILY, 22).into_font().color(&BLACK);
        top.draw_text(self.title, &style, (16, 10))?;
        let (middle, bottom) = rest.split_vertically(PANEL_HEIGHT * self.rows());
        let style = (font::FAMILY, 13).into_font().color(&BLACK.mix(0.7));
        for (line, text) in self.footer.iter().enumerate() {
            bottom.draw_text(text, &style, (16, (LINE_HEIGHT * line as u32) as i32 + 2))?;
        }
        let places = middle.split_evenly((self.rows() as usize, self.columns() as usize));
        for (place, panel) in places.iter().zip(self.panels) {
            draw_panel(place, panel)?;
        }
        area.present()?;
        Ok(())
    }
}

/// The colour of a series. A configuration has the same one in the paper's numbers, only paler.
fn colour(panel: &Panel, number: usize) -> RGBAColor {
    let plain = |series: &Series| series.name.to_ascii_lowercase().replace('_', "-");
    let series = &panel.series[number];
    let same = panel.series.iter().position(|other| plain(other) == plain(series)).unwrap_or(number);
    let paper = series.source == Source::Paper;
    COLOURS[same % COLOURS.len()].mix(if paper { 0.4 } else { 1.0 })
}

fn draw_panel<B: DrawingBackend>(area: &DrawingArea<B, Shift>, panel: &Panel) -> Drawn
where
    B::ErrorType: 'static,
{
    let area = area.margin(6, 6, 6, 14);
    area.draw_text(&panel.title, &(font::FAMILY, 16).into_font().color(&BLACK), (10, 0))?;
    let legend_bottom = draw_legend(&area, panel)?;
    let (_, area) = area.split_vertically(legend_bottom);
    let values = panel.series.iter().flat_map(|series| &series.points).map(|point| point.1);
    let (low, high) = values
        .filter(|value| value.is_finite() && *value > 0.0)
        .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    let high = if high > 0.0 { high * 1.1 } else { 1.0 };
    let is_logarithmic = matches!(panel.kind, PanelKind::Bars(_)) && high / low > LOG_FROM;
    let places = panel.places();
    let x = match &panel.kind {
        PanelKind::Bars(names) => 0.0..names.len().max(1) as f64,
        PanelKind::Lines => {
            let (first, last) = (places.first().copied(), places.last().copied());
            let (first, last) = (first.unwrap_or(0.0), last.unwrap_or(1.0));
            first..if last > first { last } else { first + 1.0 }
        }
    };
    let mut builder = ChartBuilder::on(&area);
    builder.x_label_area_size(42).y_label_area_size(76);
    // The scales are different types: the same lines for each.
    if is_logarithmic {
        let base = low / 2.0;
        let mut chart = builder.build_cartesian_2d(x, (base..high * 1.5).log_scale())?;
        mesh(&mut chart, panel)?;
        draw_series(&mut chart, panel, base)?;
        name_places(&area, panel, |place| chart.backend_coord(&(place, base)))
    } else {
        let mut chart = builder.build_cartesian_2d(x, 0.0..high)?;
        mesh(&mut chart, panel)?;
        draw_series(&mut chart, panel, 0.0)?;
        name_places(&area, panel, |place| chart.backend_coord(&(place, 0.0)))
    }
}

/// Draws the legend, in as many lines as it needs; returns where it ends.
fn draw_legend<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    panel: &Panel,
) -> std::result::Result<i32, Box<dyn std::error::Error>>
where
    B::ErrorType: 'static,
{
    let style = (font::FAMILY, 13).into_font().color(&BLACK);
    let (left, right) = (82, area.dim_in_pixel().0 as i32);
    let (mut x, mut y) = (left, 25);
    for (number, series) in panel.series.iter().enumerate() {
        let label = series.label();
        let width = area.estimate_text_size(&label, &style)?.0 as i32 + 17;
        if x > left && x + width > right {
            (x, y) = (left, y + LEGEND_HEIGHT - 4);
        }
        area.draw(&Rectangle::new([(x, y), (x + 12, y + 12)], colour(panel, number).filled()))?;
        area.draw_text(&label, &style, (x + 17, y))?;
        x += width + 19;
    }
    Ok(y + LEGEND_HEIGHT)
}

type Chart<'a, 'b, B, Y> = ChartContext<'a, B, Cartesian2d<plotters::coord::types::RangedCoordf64, Y>>;

fn mesh<B: DrawingBackend, Y>(chart: &mut Chart<'_, '_, B, Y>, panel: &Panel) -> Drawn
where
    B::ErrorType: 'static,
    Y: plotters::coord::ranged1d::Ranged<ValueType = f64> + plotters::coord::ranged1d::ValueFormatter<f64>,
{
    let format = |value: &f64| number(*value);
    let mut mesh = chart.configure_mesh();
    mesh.max_light_lines(1).y_desc(&panel.y).y_label_formatter(&format).x_label_formatter(&format);
    mesh.label_style((font::FAMILY, 12)).axis_desc_style((font::FAMILY, 13)).x_desc(&panel.x);
    if let PanelKind::Bars(_) = panel.kind {
        mesh.disable_x_mesh().x_labels(0);
    }
    mesh.draw()?;
    Ok(())
}

fn draw_series<B: DrawingBackend, Y>(chart: &mut Chart<'_, '_, B, Y>, panel: &Panel, base: f64) -> Drawn
where
    B::ErrorType: 'static,
    Y: plotters::coord::ranged1d::Ranged<ValueType = f64>,
{
    let width = 0.8 / panel.series.len().max(1) as f64;
    for (number, series) in panel.series.iter().enumerate() {
        let colour = colour(panel, number);
        match panel.kind {
            PanelKind::Bars(_) => {
                let left = 0.1 + width * number as f64;
                let bar = |&(place, value): &(f64, f64)| {
                    let corners = [(place + left, base), (place + left + width * 0.92, value.max(base))];
                    Rectangle::new(corners, colour.filled())
                };
                chart.draw_series(series.points.iter().map(bar))?;
            }
            PanelKind::Lines => {
                chart.draw_series(LineSeries::new(series.points.iter().copied(), colour.stroke_width(2)))?;
                if has_few_points(series) {
                    let dot = |&point: &(f64, f64)| Circle::new(point, 3, colour.filled());
                    chart.draw_series(series.points.iter().map(dot))?;
                }
            }
        }
    }
    Ok(())
}

fn has_few_points(series: &Series) -> bool {
    series.points.len() <= 24
}

/// Writes the names of groups of bars below their middle.
fn name_places<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    panel: &Panel,
    position: impl Fn(f64) -> (i32, i32),
) -> Drawn
where
    B::ErrorType: 'static,
{
    let PanelKind::Bars(names) = &panel.kind else { return Ok(()) };
    let style = (font::FAMILY, 12).into_font().color(&BLACK).pos(Pos::new(HPos::Center, VPos::Top));
    let (left, top) = area.get_base_pixel();
    for (place, name) in names.iter().enumerate() {
        let (x, y) = position(place as f64 + 0.5);
        area.draw_text(name, &style, (x - left, y - top + 5))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws as PNG and reads it back: size and pixels.
    fn drawn(picture: &Picture<'_>, name: &str) -> (u32, u32, Vec<u8>) {
        let path = std::env::temp_dir().join(format!("ankerdb-{name}-{}.png", std::process::id()));
        write(&path, picture).expect("drawing works");
        let file = std::io::BufReader::new(std::fs::File::open(&path).expect("the file is there"));
        let mut reader = png::Decoder::new(file).read_info().expect("a PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
        let frame = reader.next_frame(&mut pixels).expect("it decodes");
        std::fs::remove_file(&path).expect("the file is ours");
        (frame.width, frame.height, pixels)
    }

    fn count(pixels: &[u8], wanted: RGBColor) -> usize {
        pixels.chunks_exact(3).filter(|pixel| *pixel == [wanted.0, wanted.1, wanted.2]).count()
    }

    #[test]
    fn bars_and_text_are_drawn_in_both_formats() {
        let mut panel = Panel::bars("Latency", "query", "ms", &["Q1", "Q2"]);
        panel.add("ankerdb", &[Some(100.0), Some(1.0)]);
        panel.add("see-fs", &[Some(1000.0), None]);
        let mut lines = Panel::lines("Throughput", "s", "txn/s");
        lines.series.push(Series::measured("ankerdb", vec![(0.0, 5.0), (1.0, 6.0)]));
        let panels = [panel, lines];
        let picture = Picture { title: "Figure 6", panels: &panels, footer: &["a machine".to_owned()] };
        let (width, height, pixels) = drawn(&picture, "bars");
        assert_eq!((width, height), (1280, TITLE_HEIGHT + PANEL_HEIGHT + LINE_HEIGHT + 8));
        assert!(
            count(&pixels, COLOURS[0]) > 1000 && count(&pixels, COLOURS[1]) > 1000,
            "two colours of bars"
        );
        // Text is the only thing in the title's strip.
        let title = &pixels[..(width * TITLE_HEIGHT * 3) as usize];
        assert!(title.chunks_exact(3).filter(|pixel| pixel[0] < 128).count() > 50, "the title is written");
        let path = std::env::temp_dir().join(format!("ankerdb-bars-{}.svg", std::process::id()));
        write(&path, &picture).expect("drawing works");
        let svg = std::fs::read_to_string(&path).expect("the file is there");
        std::fs::remove_file(&path).expect("the file is ours");
        for part in ["<svg", "Figure 6", "Q2", "see-fs", "a machine", "</svg>"] {
            assert!(svg.contains(part), "{part} is missing");
        }
    }

    #[test]
    fn a_long_legend_takes_several_lines() {
        let mut panel = Panel::bars("Many", "x", "y", &["a"]);
        let heights = [2, 12].map(|count| {
            panel.series.clear();
            (0..count).for_each(|number| panel.add(&format!("configuration number {number}"), &[Some(1.0)]));
            let mut pixels = vec![0u8; (PANEL_WIDTH * PANEL_HEIGHT * 3) as usize];
            font::prepare();
            let backend = BitMapBackend::with_buffer(&mut pixels, (PANEL_WIDTH, PANEL_HEIGHT));
            draw_legend(&backend.into_drawing_area(), &panel).expect("drawing works")
        });
        assert!(heights[1] >= heights[0] + 3 * 18, "{heights:?}");
    }

    #[test]
    fn a_configuration_keeps_its_colour_in_the_papers_numbers() {
        let mut panel = Panel::bars("t", "x", "y", &["a"]);
        panel.add("ankerdb", &[Some(1.0)]);
        panel.add("see-fs", &[Some(1.0)]);
        panel.series.push(Series::paper("HEE_fork", vec![(0.0, 1.0)]));
        panel.series.push(Series::paper("SEE_FS", vec![(0.0, 1.0)]));
        let rgb = |number| colour(&panel, number).rgb();
        assert_eq!(rgb(3), rgb(1));
        assert!(rgb(2) != rgb(0) && rgb(2) != rgb(1));
    }

    #[test]
    fn nothing_measured_is_still_a_picture() {
        let panels = [Panel::lines("Empty", "x", "y"), Panel::bars("Empty", "x", "y", &[])];
        let picture = Picture { title: "Nothing", panels: &panels, footer: &[] };
        assert_eq!(drawn(&picture, "empty").0, 1280);
        assert_eq!(drawn(&Picture { panels: &[], ..picture }, "none").0, 640);
    }
}
