//! TPC-C's transactions and two of CH-benCHmark's queries over the [store whose snapshots software controls](ankerdb_serial): the
//! evaluation of the HyPer paper (DaMoN 2011, §5).
//!
//! Tuples, not columns: rows have a fixed layout of words, and indexes have packed keys. Everything else is as over the engine: the
//! same inputs, the same rows, the same outputs of transactions, the same answers of queries. Tests compare both, transaction by
//! transaction and row by row.
//!
//! Read the modules in this order: [`layout`], [`relations`] and [`keys`], [`mod@load`], [`transactions`] and [`client`],
//! [`queries`].
//!
//! Not here: threads, when snapshots are refreshed, and what is measured.

pub mod client;
pub mod keys;
pub mod layout;
pub mod load;
pub mod queries;
pub mod relations;
pub mod transactions;

#[cfg(test)]
mod tests;
