//! The live display: the whole terminal where there is one, a line every second elsewhere.

use super::live::{Live, LiveSample, QueryLine};
use ankerdb_engine::{Error, Result};
use ankerdb_workload::htap::queries::QUERIES;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, SparklineBar, Table};
use ratatui::{DefaultTerminal, Frame};
use std::time::{Duration, Instant};

/// Pause between lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Of samples without queries, and with them.
const ALONE: Color = Color::Green;
const BESIDE: Color = Color::Cyan;

/// See the module. Restores the terminal when dropped.
pub(super) enum Display {
    Screen(Box<DefaultTerminal>),
    Lines { next: Instant },
}

impl Display {
    /// Takes over the terminal, if there is one that can be.
    pub(super) fn open(full_screen: bool) -> Display {
        match full_screen.then(ratatui::try_init) {
            Some(Ok(terminal)) => Display::Screen(Box::new(terminal)),
            _ => Display::Lines { next: Instant::now() + LINE_EVERY },
        }
    }

    /// Waits; true if the user asks to quit (q, escape or ctrl-c).
    pub(super) fn wait(&mut self, time: Duration) -> Result<bool> {
        let end = Instant::now() + time;
        let Display::Screen(_) = self else {
            std::thread::sleep(time);
            return Ok(false);
        };
        while let Some(rest) = end.checked_duration_since(Instant::now()) {
            if event::poll(rest).map_err(broken)? && is_quit(&event::read().map_err(broken)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Shows the current state.
    pub(super) fn draw(&mut self, live: &Live) -> Result<()> {
        match self {
            Display::Screen(terminal) => terminal.draw(|frame| draw(frame, live)).map(drop).map_err(broken),
            Display::Lines { next } => {
                if Instant::now() >= *next {
                    *next += LINE_EVERY;
                    println!("{}", line(live));
                }
                Ok(())
            }
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Display::Screen(_) = self {
            ratatui::restore();
        }
    }
}

fn broken(error: std::io::Error) -> Error {
    Error::internal(format!("cannot use the terminal: {error}"))
}

fn is_quit(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press && (control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}

fn line(live: &Live) -> String {
    let queries = live.queries();
    let last = queries.last().map_or_else(String::new, |point| {
        format!(", last {} in {:.1} ms", QUERIES[point.query].name, point.latency_ms)
    });
    let samples = live.samples();
    let (per_second, p99) = samples.last().map_or((0.0, 0.0), |sample| (sample.per_second, sample.p99_us));
    let beside = if live.queries_run() { last } else { ", none now".to_owned() };
    format!(
        "{:>3} s left: {per_second:>8.0} transactions/s, p99 {p99:>6.0} us, {} queries on fresh snapshots{beside}",
        live.seconds_left(),
        queries.len()
    )
}

fn draw(frame: &mut Frame<'_>, live: &Live) {
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(4),
        Constraint::Length(11),
        Constraint::Length(2),
    ]);
    let [title, oltp, olap, notes] = rows.areas(frame.area());
    let header = format!(
        " AnKerDB  transactions and analytics on the same data   {} s left, q quits",
        live.seconds_left()
    );
    frame.render_widget(Paragraph::new(header).bold().reversed(), title);
    draw_oltp(frame, oltp, live);
    draw_olap(frame, olap, live);
    let (completed, snapshots) = live.totals();
    let text = format!(
        " {completed} {} transactions committed, {snapshots} snapshots taken\n \
         every query reads a fresh snapshot that shows all commits acknowledged before it began",
        live.level()
    );
    frame.render_widget(Paragraph::new(text).dim(), notes);
}

fn draw_oltp(frame: &mut Frame<'_>, area: Rect, live: &Live) {
    let samples = live.samples();
    let width = usize::from(area.width.saturating_sub(2)).max(1);
    let recent = &samples[samples.len().saturating_sub(width)..];
    let bars = recent.iter().map(|sample| {
        let colour = if sample.is_beside_queries { BESIDE } else { ALONE };
        SparklineBar::from(sample.per_second as u64).style(Style::new().fg(colour))
    });
    let newest = samples.last();
    let number = |of: fn(&LiveSample) -> f64| newest.map_or(0.0, of);
    let title = Line::from(vec![
        Span::from(format!(
            " Transactions: {:.0}/s, p50 {:.0} us, p99 {:.0} us  ",
            number(|sample| sample.per_second),
            number(|sample| sample.p50_us),
            number(|sample| sample.p99_us)
        )),
        Span::styled("\u{2588} alone ", ALONE),
        Span::styled("\u{2588} beside queries ", BESIDE),
    ]);
    let sparkline = Sparkline::default().data(bars);
    frame.render_widget(sparkline.block(Block::bordered().title(title)), area);
}

fn draw_olap(frame: &mut Frame<'_>, area: Rect, live: &Live) {
    let lines = live.query_lines();
    let total: usize = lines.iter().map(|line| line.runs).sum();
    let rows = lines.iter().enumerate().map(|(number, line)| query_row(number, line));
    let widths = [
        Constraint::Length(4),
        Constraint::Length(7),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Min(20),
    ];
    let header = Row::new(["", "runs", "last ms", "p50 ms", "alone ms", "query"]).bold();
    let now = if live.queries_run() { "running" } else { "resting, so that transactions are alone" };
    let title = format!(" Queries: {total}, {now} ");
    let table = Table::new(rows, widths).header(header).block(Block::bordered().title(title));
    frame.render_widget(table, area);
}

fn query_row(number: usize, line: &QueryLine) -> Row<'static> {
    let milliseconds =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    Row::new([
        Cell::from(line.name).fg(Color::Cyan),
        Cell::from(line.runs.to_string()),
        Cell::from(milliseconds(line.last_ms)),
        Cell::from(milliseconds(line.median_ms)),
        Cell::from(milliseconds(Some(line.idle_ms))),
        Cell::from(QUERIES[number].sql).dim(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_engine::Isolation;
    use ankerdb_measure::histogram::Histogram;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    /// So many, of 10 us each.
    fn transactions(count: u64) -> Histogram {
        let mut histogram = Histogram::default();
        (0..count).for_each(|_| histogram.record(Duration::from_micros(10)));
        histogram
    }

    #[test]
    fn everything_fits_a_small_terminal() {
        let live = Live::new(vec![1.5; QUERIES.len()], 20, Isolation::Serializable);
        live.sample(transactions(1000));
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a test backend works");
        terminal.draw(|frame| draw(frame, &live)).expect("drawing works");
        let text: String = terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect();
        for part in [
            "Transactions: ",
            "p99 10 us",
            "beside queries",
            "Queries: 0, resting",
            "Q8",
            "1.50",
            "1000 serializable",
        ] {
            assert!(text.contains(part), "{part} is missing");
        }
        for size in [(20, 5), (1, 1)] {
            let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("a test backend works");
            terminal.draw(|frame| draw(frame, &live)).expect("drawing works");
        }
    }
}
