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

//!
//! # Burying
//! Rows that come and go while such a reader is open, as those of a queue do, would keep their slots and index entries:
//! the table would grow, and whoever looks for the first row of the queue would walk over all that were ever in it. So each
//! pass of the pruner *buries* rows that were deleted since the last one: those that nobody can see in any state
//! (`Storage::bury`). Rows that were deleted since the pass before are left to the next one, as transactions that see them
//! are nearly always over by then. What was left because of a reader that has ended since is found once in an interval, by
//! a pass over all rows deleted since the oldest reader began.
//!
//! ```text
//! reader  ●─────────────────────────────────────────────────────────────────►
//! passes      |p0           |p1           |p2
//! row            insert  delete           ╰─ deleted in (p0, p1], inserted after the reader began: buried
//! ```

use crate::shared::Shared;
use ankerdb_base::Timestamp;
use ankerdb_table::Storage;
use std::collections::BTreeSet;
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
    burials: Burials,
}

/// What the last passes over deleted rows have seen.
struct Burials {
    /// When the last pass was over all rows.
    last: Instant,
    /// The watermark of the last pass.
    watermark: Timestamp,
    /// Up to where deleted rows have been looked at.
    buried: Timestamp,
    /// Readers that may have kept some of them.
    kept_by: BTreeSet<Timestamp>,
    /// The oldest anchor that has.
    anchored: Timestamp,
    in_use: Vec<Timestamp>,
}

impl Burials {
    fn new() -> Burials {
        Burials {
            last: Instant::now(),
            watermark: Timestamp::ZERO,
            buried: Timestamp::ZERO,
            kept_by: BTreeSet::new(),
            anchored: Timestamp::MAX,
            in_use: Vec::new(),
        }
    }

    /// A pass, if a reader is open since before the last one.
    fn pass(&mut self, shared: &Shared) {
        let watermark = shared.manager.watermark();
        let anchored = shared.manager.readers().in_use_and_anchored(watermark, &mut self.in_use);
        let (oldest, up_to) = (self.in_use[0], self.watermark);
        self.watermark = watermark;
        if oldest >= up_to {
            // Sweeps do it all.
            self.forget();
            self.buried = self.buried.max(up_to);
            return;
        }
        let is_open = |reader: &Timestamp| self.in_use.binary_search(reader).is_ok();
        let has_ended = anchored > self.anchored || !self.kept_by.iter().all(is_open);
        if has_ended && self.last.elapsed() >= INTERVAL {
            self.last = Instant::now();
            self.forget();
            self.buried = oldest;
        }
        self.kept_by.extend(self.in_use.iter().filter(|reader| **reader < up_to));
        self.anchored = self.anchored.min(anchored);
        for table in shared.tables() {
            Storage::of(&table).bury(self.buried.max(oldest), up_to, &self.in_use, anchored);
        }
        self.buried = up_to;
    }

    fn forget(&mut self) {
        self.kept_by.clear();
        self.anchored = Timestamp::MAX;
    }
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
            burials: Burials::new(),
        }
    }

    /// Makes a pass if it is time for one and a reader is open since before the last one.
    pub fn pass(&mut self, shared: &Shared) {
        self.burials.pass(shared);
        if self.last.elapsed() < INTERVAL {
            return;
        }
        let watermark = shared.manager.watermark();
        shared.manager.readers().in_use(watermark, &mut self.in_use);
        let oldest = self.in_use[0];
        if oldest < self.watermark {
            let after = if oldest == self.oldest { self.pruned.max(oldest) } else { oldest };
            for table in shared.tables() {
                Storage::of(&table).thin(after, self.watermark, &self.in_use);
            }
            self.pruned = self.watermark;
        }
        self.oldest = oldest;
        self.watermark = watermark;
        self.last = Instant::now();
    }
}
