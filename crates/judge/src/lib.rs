//! The judge runs the same statements on AnKerDB and on PostgreSQL 15; every unexplained difference is an error.
//!
//! ```text
//!   .slt files      generator (seed)
//!        \            /
//!         steps: SQL, protocol, parameters, COPY data
//!              |
//!        +-----+------------------+
//!        |                        |
//!   PostgreSQL 15             AnKerDB: as it is, by the extended protocol,
//!   (private, empty)          and wrapped so that the OLAP path answers
//!        |                        |
//!        +---- answers compared --+      columns, types, rows, tags, SQLSTATEs
//!                   |
//!            difference -> shrunk to a small reproduction -> explained in `differences.txt`?
//!                                                             yes: counted    no: printed, exit code 1
//! ```
//!
//! Both servers are processes of the judge's own and end with it. It depends on no crate of AnKerDB, so that it shares no
//! code, and no mistake, with what it judges; the 200 lines of client are its own, because drivers hide the texts of
//! values and the bytes that are compared here.
//!
//! Over large tables AnKerDB is judged by itself ([`properties`]): answers must fit together.
//!
//! Public suites (`suite`) are run besides: they show what is missing, and are counted, not passed.
//!
//! Not here: performance, concurrency (histories are checked in `crates/engine/tests/histories`), error messages (they are
//! for people; programs go by SQLSTATEs).

#![forbid(unsafe_code)]

pub mod answer;
pub mod case;
pub mod change;
pub mod crash;
pub mod expression;
pub mod fill;
pub mod fuzz;
pub mod known;
pub mod properties;
pub mod psql;
pub mod query;
pub mod schema;
pub mod script;
pub mod server;
pub mod shrink;
pub mod suite;
pub mod tree;
pub mod types;
pub mod wire;
