//! Loading progress on standard error: a bar on a terminal, a line every tenth elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicU64, Ordering};

/// Shows rows loaded of rows expected. Can be told from any thread.
pub struct LoadProgress {
    bar: Option<ProgressBar>,
    tenths: AtomicU64,
}

impl LoadProgress {
    /// Nothing is shown yet.
    pub fn new() -> LoadProgress {
        let terminal = stderr().is_terminal() && !crate::demo::terminal_is_dumb();
        LoadProgress { bar: terminal.then(bar), tenths: AtomicU64::new(0) }
    }

    /// Shows the state; `done == total` ends it.
    pub fn show(&self, done: u64, total: u64) {
        match &self.bar {
            Some(bar) => {
                bar.set_length(total);
                bar.set_position(done);
                if done >= total {
                    bar.finish();
                }
            }
            None => {
                let tenths = done * 10 / total.max(1);
                if self.tenths.fetch_max(tenths, Ordering::Relaxed) < tenths {
                    eprintln!("loading: {}% of {total} rows", tenths * 10);
                }
            }
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    let template = "loading {wide_bar} {human_pos} of {human_len} rows, {eta} left";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
