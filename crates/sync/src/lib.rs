//! The lock-free protocols of the database, each in one file.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`lending`] | may this array be changed in place, or is a reader looking at it? |
//! | [`commit_order`] | which commits came when, what did they write, and up to which one have all finished? |
//! | [`pending`] | which timestamp do the rows of a large commit get, all at once? |
//! | [`readers`] | at which timestamps are transactions and snapshots still reading? |
//! | [`under_way`] | has all work ended that may have missed a change? |
//! | [`notice`] | is it worth looking for something in this set? |
//! | [`lock_table`] | which transaction holds this row over several statements, and would waiting for it ever end? |
//! | [`row_set`] | which rows does this transaction hold, be they three or a million? |
//! | [`interrupt`] | shall the running statement end, and why? |
//! | [`memory_limit`] | may this statement take more memory? |
//! | [`patience`] | how to wait for what is usually over in a moment? |
//!
//! Every file opens with its protocol as prose and pictures, the invariants it keeps and why each memory
//! ordering is what it is. The first six of the table are model-checked: beside `x.rs` lies `x_model.rs`, in
//! which loom tries all interleavings of two or three threads, up to a bound of preemptions, with all values that their
//! loads may see; and, as controls, variants of the protocol with one step taken out, in which loom must find
//! the failure. `row_model` puts them together: whole commits of rows, with the headers and version chains of
//! `ankerdb_table` in small. All of it takes some minutes:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p ankerdb-sync --release
//! ```
//!
//! # Words that the SAFETY notes use
//! - **Pin**: a `crossbeam_epoch` guard, or anything else with its promise: what is *retired* while some
//!   thread is pinned is not dropped before that pin ends. This crate brings no epochs of its own; it hands
//!   what must outlive pins to a `retire` closure of the caller.
//! - **Retire**: to give up the last reference that newcomers could find. Threads that found it before may go on.
//! - **Raw reference**: one strong count of an `Arc`, kept as a raw pointer in an atomic.
//!
//! # Not here
//! No tables, no versions, no SQL; nothing here knows what an array holds or what a write set is.

pub mod commit_order;
pub mod interrupt;
pub mod lending;
pub mod lock_table;
pub mod memory_limit;
pub mod notice;
pub mod number_map;
pub mod patience;
pub mod pending;
pub mod readers;
pub mod row_set;
pub mod under_way;

mod primitive;

#[cfg(all(test, loom))]
mod commit_order_model;
#[cfg(all(test, loom))]
mod lending_model;
#[cfg(all(test, loom))]
mod notice_model;
#[cfg(all(test, loom))]
mod pending_model;
#[cfg(all(test, loom))]
mod readers_model;
#[cfg(all(test, loom))]
mod row_model;
#[cfg(all(test, loom))]
mod under_way_model;
