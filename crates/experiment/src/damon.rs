//! Mühle, Kemper, Neumann: How to Efficiently Snapshot Transactional Data: Hardware or Software Controlled? (DaMoN 2011).

pub mod fig11;
mod hybrid;
mod memory;
mod ours;
pub mod tab1;
pub mod tab2;
pub mod tab3;
mod tuples;

use crate::harness::Harness;
use crate::setup::{Data, PaperSetup};
use ankerdb_engine::{Database, Result};
use ankerdb_serial::{IndexTreatment, MemoryKind, Store};
use ankerdb_workload::ch;
use ankerdb_workload::serial::load::SerialOptions;
use ankerdb_workload::tpcc::load::{LoadOptions, load};
use std::time::Duration;

/// One thread of transactions, and queries one after the other.
pub const ALONE: PaperSetup = PaperSetup {
    oltp: 1,
    olap: 1,
    seconds: 10,
    quick_seconds: 2,
    lead: Duration::ZERO,
    interval: Duration::ZERO,
    threads_vary: false,
};
/// Of experiments that count something else.
pub const COUNTED_SECONDS: u64 = 1;
/// Five warehouses in §5.1; for §5.3 the paper does not say.
pub const DATA: Data = Data::TpcC { paper: &[5], quick: &[2] };

/// What the paper's pages are here.
pub const PAGES: &str =
    "pages of 2 MiB are those that the system gives to anonymous memory when it is asked to (MADV_HUGEPAGE)";
/// What the transactions are.
pub const MIX: &str =
    "TPC-C's full mix with the paper's warranties and returns, on one thread, each at its client's warehouse";
/// What threads of queries are.
pub const CHILDREN: &str = "where queries run in child processes, each thread of the paper is a process, so that a refresh forks as often";

/// Transactions between two refreshes, in the paper and when shortened.
fn refresh_every(harness: &Harness<'_>) -> u64 {
    if harness.setup.full { 200_000 } else { 50_000 }
}

/// Ours with TPC-C's and CH-benCHmark's tables.
///
/// # Errors
/// 57014 if the user stops it.
fn load_engine(harness: &Harness<'_>) -> Result<(Database, ankerdb_workload::tpcc::schema::TpccTables)> {
    let (database, seed) = (Database::new(), harness.setup.seed);
    let tables = load(&database, &LoadOptions::new(warehouses(harness), seed), &harness.loading())?;
    ch::load::load(&database, seed)?;
    Ok((database, tables))
}

fn warehouses(harness: &Harness<'_>) -> i32 {
    harness.setup.warehouses.last().map_or(1, |warehouses| *warehouses as i32)
}

/// What a mechanism is loaded with, for so many transactions.
fn options<S: Store>(kind: MemoryKind, treatment: IndexTreatment, transactions: u64) -> SerialOptions {
    let shares_tuples = treatment == IndexTreatment::Fork && !S::MECHANISM.forks();
    // Of TPC-C's transactions 45% are New-Orders; payments, which leave history, are fewer.
    SerialOptions {
        kind: MemoryKind { shares_tuples, ..kind },
        treatment,
        extra_orders: transactions as usize,
    }
}
