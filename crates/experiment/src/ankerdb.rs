//! The experiments of AnKerDB (arXiv 2017) §5.

pub mod fig11;
pub mod fig7;
pub mod fig8;

use crate::batch::{Batch, BatchResult, run};
use crate::harness::Harness;
use crate::setup::{Data, PaperSetup};
use crate::tpch::TpcH;
use crate::tpch::queries::KINDS;
use ankerdb_engine::Result;
use std::time::Duration;

/// §5.2 and §5.3: 8 threads, one of which answers queries where their latency is measured.
pub const PAPER: PaperSetup = PaperSetup {
    oltp: 7,
    olap: 1,
    seconds: 15,
    quick_seconds: 3,
    lead: Duration::from_secs(1),
    interval: Duration::ZERO,
    threads_vary: false,
};
/// The paper's LINEITEM, ORDERS and PART take about 1.5 GB (dissertation §2.5.5): scale factor 1 or little more.
pub const DATA: Data = Data::TpcH { paper: 1.0, quick: 0.05 };

/// What holds for all of these experiments.
pub const PAPER_DATA: &str = "the paper's scale factor, counts of transactions and parameters are lost in our copy: scale \
                              factor 1 stands for its 1.5 GB of tables, the batch is 100,000 transactions for each second of \
                              --seconds, updates add 1 to 5 percent or days";
/// See above.
pub const SNAPSHOTS: &str = "every query of ours reads a snapshot of its own; the paper's takes one every so many commits \
                             and shares it";
/// See above.
pub const BASELINES: &str = "see-fs and see-si are the paper's homogeneous processing (serializable, snapshot isolation); \
                             see-ru is not in the paper";

/// Transactions of a batch for each second that the user gives it.
const TRANSACTIONS_PER_SECOND: u64 = 100_000;
/// Transactions after which a query follows in the mixed batch.
const QUERY_AFTER: u64 = 10_000;

/// Answers a batch with this many threads, with queries or without.
fn batch(harness: &Harness<'_>, world: &TpcH, threads: usize, mixed: bool) -> Result<BatchResult> {
    let batch = Batch {
        threads: (0..threads as u64).map(|number| (world.transact(number), world.ask(number))).collect(),
        transactions: TRANSACTIONS_PER_SECOND * harness.setup.time.as_secs(),
        query_after: if mixed { QUERY_AFTER } else { 0 },
        query_count: KINDS.len(),
    };
    run(harness, batch)
}
