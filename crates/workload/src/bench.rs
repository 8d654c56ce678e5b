//! Transactions at full speed: the common part of `bench tpcc` and its like.
//!
//! A [`Workload`](client::Workload) makes [`Client`](client::Client)s; a [`stream`] runs each in a thread of its own, in
//! a closed loop. A transaction that fails to serialize runs again with the same input until it commits; its latency is
//! the time from its first start to its completion. The loop itself allocates nothing and reads the clock once for
//! each transaction.
//!
//! A run consists of [`rounds`], each of which measures all **variants** (numbers of threads, isolation levels, ...) on the
//! same data, every other round in the opposite order. So what a ratio compares was measured seconds apart: cores are shared
//! with neighbours, and tables grow. A phase in which the hypervisor stole more than 3% of the CPU time, or other processes
//! used more than 5%, is noisy; medians, ratios and latencies are taken from the other phases, and not reported if these are
//! not more than half. After the last round the workload's own conditions are checked, and a violation fails the run.

pub mod client;
pub mod compare;
pub mod config;
pub mod fill;
pub mod long_reader;
mod own_folder;
pub mod profile;
pub mod recovery;
pub mod report;
pub mod rounds;
pub mod smallbank;
pub mod stream;
pub mod tpcc;
pub mod ycsb;
