//! Workloads, with which the database is demonstrated and measured.
//!
//! - [`tpcc`]: TPC-C's tables, loader, the five transactions, and the consistency conditions that must always hold.
//! - [`mod@bench`]: transactional workloads at full speed: TPC-C, YCSB and Smallbank, and their common part.
//! - [`ch`]: CH-benCHmark: all of TPC-C's transactions beside TPC-H's 22 queries over its tables.
//! - [`serial`]: TPC-C's transactions and two queries over the store whose snapshots software controls.
//! - [`zipf`]: skewed choices.
//! - [`watch`]: what benchmarks tell their observer.
//! - [`htap`]: the eight analytical queries of AnKer (Figure 5), the two streams side by side, and the benchmark
//!   that compares them.
//!
//! Transactions are in-process procedures over the engine, never SQL; analytics are SQL text over snapshots.
//! Nothing here is needed by the database itself.
#![forbid(unsafe_code)]

pub mod bench;
pub mod ch;
pub mod htap;
pub mod serial;
pub mod tpcc;
pub mod watch;
pub mod zipf;

/// The commit this was built from, "-dirty" appended if the tree had changes; "unknown" outside of a repository.
pub fn commit() -> &'static str {
    option_env!("ANKERDB_COMMIT").unwrap_or("unknown")
}
