//! CH-benCHmark (Cole et al., DBTest 2011): TPC-C's transactions, and TPC-H's 22 queries over the same tables.
//!
//! [`clients`] run TPC-C's full mix, with the [warranties and returns](warranty) of the HyPer paper (DaMoN 2011, 5.3). Streams of
//! [`queries`] run on snapshots ([`mod@bench`]):
//!
//! ```text
//! default           clients  ---x----x------x----x----->     each query takes a snapshot, and has all OLAP threads
//!                                |    |      |    |
//!                   stream       Q7   Q13    Q2   Q18
//!
//! --refresh-every   clients  ---x--------------x------->     a snapshot for all streams, every so many transactions
//!                               |              |
//!                   stream 1    Q7   Q13   Q2  | Q18         each stream has a thread; a query that runs keeps its snapshot
//!                   stream 2      Q5    Q21   Q1 Q9
//! ```
//!
//! | phase | OLTP | OLAP | for |
//! | --- | --- | --- | --- |
//! | `queries alone` | - | all 22 in random order, at least once | latency without transactions |
//! | `hybrid` | N clients | all 22 in random order, again and again | throughput and latency side by side, freshness |
//! | `control` | N clients | threads that burn as much CPU as the queries did | throughput on equally busy cores |
//! | `transactions alone` | N clients | - | throughput |
//! | `hybrid, evaluated` | N clients | some queries, or all, once, after all rounds | whether answers are right |
//!
//! # What is checked
//! - In `hybrid, evaluated` every answer is compared with that of plain Rust over rows that a transaction reads at the snapshot's
//!   timestamp ([`reference`]); for all 22 there is such an evaluation.
//! - Every snapshot shows the marker that was committed before it ([`htap`](crate::htap)).
//! - Every eighth query is followed by sums over all tables that transactions write, on its snapshot: they fit each other, and show
//!   what clients knew to be committed.
//! - TPC-C's consistency conditions hold in the end.
//!
//! Anything wrong fails the run.

mod analyst;
pub mod answer;
pub mod bench;
pub mod clients;
pub mod config;
pub mod decode;
pub mod load;
mod phases;
pub mod queries;
mod read_point;
pub mod reference;
pub mod report;
pub mod schema;
pub mod warranty;
