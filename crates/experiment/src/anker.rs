//! The experiments of AnKer (SIGMOD 2018) §6.

pub mod fig4;
pub mod fig6;
pub mod fig7;
pub mod fig8;
pub mod tab1;
pub mod tab2;

use crate::setup::PaperSetup;
use ankerdb_workload::tpcc::input::Access;
use std::time::Duration;

/// §6.2 and §6.3: 40 warehouses, 6 + 2 threads, three minutes, a query each 500 ms after five seconds.
pub const PAPER: PaperSetup = PaperSetup {
    oltp: 6,
    olap: 2,
    seconds: 180,
    quick_seconds: 6,
    lead: Duration::from_secs(5),
    interval: Duration::from_millis(500),
    threads_vary: false,
};
/// §4.3 and §5.3: one thread, nothing but snapshots and writes.
pub const ALONE: PaperSetup = PaperSetup {
    oltp: 1,
    olap: 1,
    seconds: 10,
    quick_seconds: 1,
    lead: Duration::ZERO,
    interval: Duration::ZERO,
    threads_vary: false,
};
/// Warehouses in the paper.
pub const WAREHOUSES: &[u32] = &[40];
/// Warehouses when shortened.
pub const QUICK_WAREHOUSES: &[u32] = &[4];

/// The two access patterns, as the figures' parts.
pub const PATTERNS: [(&str, Access); 2] = [("(a) uniform", Access::Uniform), ("(b) skewed", Access::Skewed)];

/// Deviations of all of these experiments.
pub const QUERY_THREADS: &str = "a query is executed by all OLAP threads together (a plan with that many partitions); in \
                                 the paper each thread answers one query at a time";
/// See above.
pub const GROWTH: &str = "every configuration starts with freshly loaded tables, and tables grow with the orders that \
                          are entered: a faster configuration has more to scan at the end (see the notes)";
/// Deviations wherever latencies are shown.
pub const MEDIANS: &str =
    "latencies are medians where the paper has averages: one query that waits for a core would decide";
/// Deviations wherever configurations with snapshots are compared.
pub const CREATION: &str = "creation of ours is a timestamp: what a query reads is lent or copied when the query first reads it, \
                            while hee-* takes its columns' snapshots before and the latency of its queries does not contain that; \
                            so what is alike is creation and first read together";
/// See above.
pub const SHARING: &str = "hee-* takes a column again only if a commit has changed it since its last snapshot, and shares that one \
                           otherwise; in the paper every snapshot takes the columns that it needs";
/// See above.
pub const FORK: &str = "hee-fork runs a query on one thread of a child, whatever the number of OLAP threads, and leaves the memory of \
                        columns that the query does not name out of the child; in the paper a child has the whole process";
