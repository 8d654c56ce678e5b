//! Interval pruning: a reader that stays open for long keeps only the versions that it can see.
//!
//! A row becomes clean, and its versions are freed, when no reader's timestamp is before its newest change. An old
//! reader delays that for all rows changed since it began. Writers prune exactly, knowing all timestamps in use, but
//! only the rows that they write to; a row that is inserted and updated once, both while the reader is open, would keep
//! its first state, which no reader can see. (SAP HANA's name for such passes is interval garbage collection.)
//!
//! ```text
//! reader  ●─────────────────────────────────────────────────────────────────►
//! passes      |w0           |w1           |w2           |w3
//! row            insert  update
//!                        ╰─ newest change in (w0, w1]: pruned once, by the pass at w2
//! ```
//!
//! While a reader is older than an interval, one pass per interval prunes the rows whose newest change came in the
//! interval before the last one. Rows changed later may well change again, and rows changed earlier were pruned by
//! earlier passes, so each row is pruned once, after it has come to rest. When the oldest reader has ended, everything
//! it kept may be freed, and the pass visits all rows changed since the next oldest reader began.

//!
//! # Burying
//! Rows that are inserted and deleted while such a reader is open, such as those of a queue, would keep their slots and
//! index entries: the table would grow, and a search for the first row of the queue would walk over every row that was ever
//! in it. So each pass of the pruner *buries* rows that were deleted before the previous pass and that no reader can see in
//! any state (`Storage::bury`). Rows deleted since then wait for the next pass, because the transactions that see them are
//! nearly always over by then. Rows that were kept by a reader that has since ended are found once per interval, by a pass
//! over all rows deleted since the oldest reader began.
//!
//! ```text
//! reader  ●─────────────────────────────────────────────────────────────────►
//! passes      |p0           |p1           |p2
//! row            insert  delete           ╰─ deleted in (p0, p1], inserted after the reader began: buried
//! ```

use crate::shared::DatabaseState;
use ankerdb_base::Timestamp;
use ankerdb_table::Storage;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Time between two passes.
const INTERVAL: Duration = Duration::from_secs(1);

/// What the last passes have seen.
pub(crate) struct IntervalPruning {
    last: Instant,
    /// The watermark of the last pass.
    watermark: Timestamp,
    /// The timestamp up to which the last pass has pruned.
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
    /// The timestamp up to which deleted rows have been looked at.
    buried: Timestamp,
    /// Readers that may have kept some of them.
    kept_by: BTreeSet<Timestamp>,
    /// The oldest anchor that may have kept some.
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

    /// Makes a pass if a reader has been open since before the last one.
    fn pass(&mut self, shared: &DatabaseState) {
        let watermark = shared.manager.watermark();
        let anchored = shared.manager.readers().in_use_and_anchored(watermark, &mut self.in_use);
        let (oldest, up_to) = (self.in_use[0], self.watermark);
        self.watermark = watermark;
        if oldest >= up_to {
            // Sweeps do all of it.
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

impl IntervalPruning {
    /// No pass yet.
    pub(crate) fn new() -> IntervalPruning {
        IntervalPruning {
            last: Instant::now(),
            watermark: Timestamp::ZERO,
            pruned: Timestamp::ZERO,
            oldest: Timestamp::ZERO,
            in_use: Vec::new(),
            burials: Burials::new(),
        }
    }

    /// Makes a pass if it is time for one and a reader is open since before the last one.
    pub(crate) fn pass(&mut self, shared: &DatabaseState) {
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
                Storage::of(&table).prune_interval(after, self.watermark, &self.in_use);
            }
            self.pruned = self.watermark;
        }
        self.oldest = oldest;
        self.watermark = watermark;
        self.last = Instant::now();
    }
}
