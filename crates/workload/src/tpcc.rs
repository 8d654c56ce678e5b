//! TPC-C (specification revision 5.11): all nine tables, the whole initial population, the five transactions, and
//! the consistency conditions.
//!
//! The [`mix`] is the specification's or that of the AnKer papers, which have three of the five transactions.
//! Clients run transactions in a closed loop, one after the other: there are no terminals, no keying and think times,
//! and Delivery is not queued. So throughput is comparable with other in-process evaluations, and is no tpmC.

pub mod check;
pub mod input;
pub mod key;
pub mod label;
pub mod load;
pub mod mix;
pub mod random;
pub mod schema;
pub mod transactions;
