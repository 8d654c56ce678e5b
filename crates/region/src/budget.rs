//! How many mappings the process may still make.
//!
//! The kernel lets a process have `vm.max_map_count` mappings (65,530 unless set otherwise), and rewiring needs one for
//! each run of neighbouring file pages, in the region and in each of its snapshots. Everything else in the process
//! needs mappings, too, and fails without them: so rewiring stops a *reserve* before the limit. Only what rewiring
//! itself maps is counted; the reserve covers the rest of the process.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Mappings of all that share a limit. One for the process; tests have their own with small limits.
pub(crate) struct Budget {
    used: AtomicUsize,
    allowed: usize,
}

/// The limit if `/proc` does not say: the kernel's default.
const LIMIT_DEFAULT: usize = 65_530;

/// Mappings of this process, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mappings {
    /// How many rewired regions and their snapshots have.
    pub rewired: usize,
    /// How many they may have: the limit less a reserve for the rest of the process.
    pub rewired_max: usize,
    /// How many the whole process has (lines of `/proc/self/maps`); 0 if that cannot be read.
    pub process: usize,
    /// The kernel's limit for the process, `vm.max_map_count`.
    pub limit: usize,
}

/// Mappings of this process now. Reads `/proc/self/maps`: some microseconds per hundred mappings.
pub fn mappings() -> Mappings {
    let process =
        std::fs::read("/proc/self/maps").map_or(0, |text| text.iter().filter(|b| **b == b'\n').count());
    let rewired = PROCESS.used.load(Relaxed);
    Mappings { rewired, rewired_max: PROCESS.allowed, process, limit: limit() }
}

/// The kernel's limit.
pub(crate) fn limit() -> usize {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    text.trim().parse().unwrap_or(LIMIT_DEFAULT)
}

static PROCESS: LazyLock<Budget> = LazyLock::new(|| {
    let limit = limit();
    Budget::new(limit.saturating_sub(1024.max(limit / 8)))
});

impl Budget {
    pub(crate) fn new(allowed: usize) -> Budget {
        Budget { used: AtomicUsize::new(0), allowed }
    }

    /// The process's. Not to be called first from a signal handler.
    pub(crate) fn process() -> &'static Budget {
        &PROCESS
    }

    /// Whether `more` mappings fit. Others may use them up meanwhile; the reserve covers that.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.used.load(Relaxed).saturating_add(more) <= self.allowed
    }

    /// Something that had `old` mappings has `new` now.
    pub(crate) fn change(&self, old: usize, new: usize) {
        if new >= old {
            self.used.fetch_add(new - old, Relaxed);
        } else {
            self.used.fetch_sub(old - new, Relaxed);
        }
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    pub(crate) fn allowed(&self) -> usize {
        self.allowed
    }
}
