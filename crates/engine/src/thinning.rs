//! Thinning: what keeps a reader that stays open for long from keeping everything.
//!
//! Rows become clean, and their versions go, when nobody reads at a timestamp before their newest change. An old reader
//! holds that up for all rows changed since it began. Writers prune exactly, knowing all timestamps in use, but only the
//! rows that they write to; a row that is inserted and updated once, both while the reader is open, would keep its first
//! state, which nobody can see.
//!
//! ```text
//! reader  ●─────────────────────────────────────────────────────────────────►
//! passes      |w0           |w1           |w2           |w3
//! row            insert  update
//!                        ╰─ newest change in (w0, w1]: pruned once, by the pass at w2
//! ```
//!
//! So while there is a reader older than an interval, a pass per interval prunes the rows whose newest change came in
//! the interval before the last one. Rows changed later are perhaps going to be changed again, and rows changed before
//! were pruned by earlier passes: each row is pruned once after it has come to rest. When the oldest reader is another
//! one than before, everything it kept may go, and the pass goes over all rows that have changed since it began.

use crate::shared::Shared;
use ankerdb_base::Timestamp;
use std::time::{Duration, Instant};

/// Time between two passes.
const INTERVAL: Duration = Duration::from_secs(1);

/// What the last passes have seen.
pub(crate) struct Thinning {
    last: Instant,
    /// The watermark of the last pass.
    watermark: Timestamp,
    /// Up to where the last pass has pruned.
    pruned: Timestamp,
    /// The oldest reader at the last pass.
    oldest: Timestamp,
    in_use: Vec<Timestamp>,
}

impl Thinning {
    /// No pass yet.
    pub fn new() -> Thinning {
        Thinning {
            last: Instant::now(),
            watermark: Timestamp::ZERO,
            pruned: Timestamp::ZERO,
            oldest: Timestamp::ZERO,
            in_use: Vec::new(),
        }
    }

    /// Makes a pass if it is time for one and a reader is open since before the last one.
    pub fn pass(&mut self, shared: &Shared) {
        if self.last.elapsed() < INTERVAL {
            return;
        }
        let watermark = shared.manager.watermark();
        shared.manager.readers().in_use(watermark, &mut self.in_use);
        let oldest = self.in_use[0];
        if oldest < self.watermark {
            let after = if oldest == self.oldest { self.pruned.max(oldest) } else { oldest };
            for table in shared.tables() {
                table.thin(after, self.watermark, &self.in_use);
            }
            self.pruned = self.watermark;
        }
        self.oldest = oldest;
        self.watermark = watermark;
        self.last = Instant::now();
    }
}
