//! Transactions and analytics side by side: the eight queries of AnKer (Figure 5), the two streams, and the
//! benchmark `bench htap`.
//!
//! # The streams
//! The **OLTP stream** ([`oltp`]) is N threads, each a closed loop: pick one of the three TPC-C transactions at
//! random, run it until it commits, next. The **OLAP stream** ([`olap`]) is *one* closed loop whose queries use all M
//! analytical threads, one partition of the plan each. One stream rather than M, because M concurrent queries over the
//! same M threads would slow each other down by chance; with one, a query on the idle database and the same query
//! beside transactions get the same M threads, and only the transactions differ. Every query, idle or not, reads a
//! fresh snapshot; its latency includes taking that snapshot and planning. Before it the analytical threads rest: for
//! as long as a marker (below) takes to commit, or for a pause of that length.
//!
//! # The benchmark
//! [`mod@bench`] loads TPC-C and runs several rounds of short phases, because cores are shared with neighbours and
//! the tables grow: measurements that are compared are seconds apart, and odd rounds run in the opposite
//! order.
//!
//! | phase | OLTP | OLAP | for |
//! | --- | --- | --- | --- |
//! | `idle` | - | all eight in turn | latency without transactions, directly before and after the two below |
//! | `hybrid` | N threads | random queries, a snapshot each | throughput and latency side by side, freshness |
//! | `hybrid, 1000 snapshots/s` | N threads | as in `hybrid`; a thread takes and reads 1,000 snapshots a second besides | as `hybrid` |
//! | `control` | N threads | M threads only burn CPU, as much as the queries did | throughput without analytics on equally busy cores |
//! | `snapshots` | N threads | a loop that takes and reads snapshots | cost of creation, and of a first read, at full OLTP speed |
//! | `memory tables` | - | own tables and DataFusion's own, query by query | what our storage costs |
//! | `serializable`, `read uncommitted` | N threads | - | price of serializability |
//!
//! - `oltp_kept` = throughput(`hybrid`) / throughput(`control`), median over rounds; `new_order_p99` likewise.
//! - `olap_slowdown` = latency in `hybrid` / idle latency, the median over the runs of a query, then over rounds. The idle
//!   latency is interpolated between the medians of the two `idle` phases by the rows that the query's table had
//!   when the run began. This takes out the growth of the tables: New-Order adds up to millions of rows in a run.
//! - `serializable_to_read_uncommitted`: medians over pairs, after the consistency check, since READ UNCOMMITTED is
//!   allowed to lose updates.
//! - A phase in which the hypervisor stole more than 3% of the CPU time, or other processes used more than 5%, is
//!   noisy. Every figure is of the other phases, says of how many, and is not reported if these are not more than
//!   half ([`figure`]). Children do not count as other processes ([`ankerdb_measure::cpu`]).
//! - The control's threads rest as queries do ([`duty`]), and a round in which they computed a fifth more or less than the
//!   queries is left out as well. The cores that both used are printed.
//!
//! # What answers are compared with
//! Every answer, on the idle database and beside transactions, is compared with what is known without asking
//! ([`known`]): constants; orders, quantities and payments that clients knew to be committed before the query began;
//! and, every eighth time, sums that transactions keep equal, and that the answer must equal, on the same snapshot.
//! Before each query of `hybrid` an OLTP thread also commits a marker ([`marker`]), which the query's snapshot must
//! show. The 1,000 snapshots a second are read: W_YTD and D_YTD of all rows, whose sums must be the same. A wrong answer
//! fails the run where level and engine promise right ones; a missed commit always does.

pub mod acknowledged;
pub mod bench;
pub mod checks;
pub mod config;
pub mod duty;
pub mod figure;
pub mod known;
pub mod marker;
pub mod olap;
pub mod oltp;
pub mod phase;
mod phases;
pub mod queries;
mod ratios;
pub mod report;
