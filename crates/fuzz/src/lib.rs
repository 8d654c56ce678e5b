//! Fuzz targets: functions that are given any bytes, and all that reads such bytes in AnKerDB behind them.
//!
//! | file | what is read |
//! | --- | --- |
//! | [`messages`] | messages of the protocol, by a server over a socket |
//! | [`sql`] | text of statements, by parser and planner |
//! | [`folder`] | a database's folder: identity, log, checkpoint, images, by recovery and by the check of a folder |
//! | `sealed` | (gives files the checksums that they ought to have, so that changes get past these) |
//! | [`mutation`] | (changes bytes at random, for the tests that run each time) |
//!
//! A target must return, whatever it is given; what else must be true is said at each. A panic on any thread is a finding, also one that
//! the house would answer with an error.
//!
//! `./run fuzz-targets` has libFuzzer make the inputs, guided by what they reach; the tests go through the first inputs of each target
//! and a few thousand changes of them. An input that has found something is kept below `found/`, and run with the tests.

#![forbid(unsafe_code)]

pub mod folder;
pub mod messages;
pub mod mutation;
mod sealed;
pub mod sql;

/// What can be given any bytes.
pub struct Target {
    /// As its folder of inputs is called.
    pub name: &'static str,
    /// Reads the bytes, and panics if what must be true is not.
    pub run: fn(&[u8]),
    /// The inputs to begin with: what such bytes look like when all is well.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 3] = [
    Target { name: "messages", run: messages::run, seeds: messages::seeds },
    Target { name: "sql", run: sql::run, seeds: sql::seeds },
    Target { name: "folder", run: folder::run, seeds: folder::seeds },
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
