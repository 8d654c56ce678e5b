//! Pipelines of analytical queries as machine code, after Neumann, "Efficiently Compiling Efficient Query Plans for Modern
//! Hardware" (VLDB 2011): all that happens to a row between two points at which rows are kept is one loop, and a row's values
//! stay in registers from its columns to its aggregates.
//!
//! ```text
//!  a query's plan ──(crate sql)──► Pipeline ──┬──► Compiled ──► PipelineRunner ──► PipelineGroups
//!                                 typed, as  │                  rows that the code
//!                                 text in    └──► Interpreter ◄─ leaves to it
//!                                 tests
//! ```
//! Conditions that only compare columns and constants are decided by bitmaps, many rows at once, before the code runs.
//!
//! The interpreter defines what a pipeline means. Compiled code takes the usual course, and leaves each row in which something
//! unusual happens (a new group, an overflow, a division by zero) to the interpreter before it has changed anything. So errors
//! and rare cases are written once.
//!
//! `docs/design/compiler.md` says why it is made this way.
//!
//! Not here: Arrow, plans, threads, joins and sorting.
#![warn(missing_docs)]

mod backend;
mod batch;
mod bitmaps;
mod build;
mod emit;
mod frame;
mod groups;
mod interpret;
mod ir;
mod key_bits;
mod lanes;
mod runner;
mod selected;

#[cfg(test)]
mod tests;

pub use backend::{Compiled, NoCode};
pub use batch::{CodeMeaning, ColumnSlice, CompressedSlice, Datum, PipelineBatch};
pub use bitmaps::BitmapCondition;
pub use build::{IllTyped, PipelineBuilder};
pub use groups::PipelineGroups;
pub use ir::{
    BITS_MAX, ComparedBy, Fault, InputColumn, Instruction, Pipeline, PipelineAggregate, PipelineParts,
    ValueKind, ValueNumber,
};
pub use key_bits::{Key, KeyBits};
pub use runner::PipelineRunner;
