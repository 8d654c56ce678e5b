//! The 22 queries evaluated a second time, in plain Rust: what answers are compared with.
//!
//! Rows come from a transaction that reads what a query's snapshot shows ([`rows`]): row by row, in place or from version chains.
//! That is the path of transactions, and has nothing in common with the blocks' images, Arrow's arrays and operators of the path
//! that answered the query. What both share is the commit protocol, by which a timestamp means one state.
//!
//! Each function follows the text of its query, with hash tables where that has joins, and is meant to be read beside it. It
//! does not put rows in order.

mod dates;
mod lines;
mod orders;
pub mod rows;
mod suppliers;

use super::answer::ChRow;
use super::queries::CH_QUERIES;
use ankerdb_engine::Result;
use rows::SnapshotRows;

/// The evaluation of one query.
type Evaluation = fn(&mut SnapshotRows<'_>) -> Result<Vec<ChRow>>;

/// All of them, in the order of the queries' numbers.
const EVALUATIONS: [Evaluation; CH_QUERIES.len()] = [
    lines::q1,
    suppliers::q2,
    orders::q3,
    orders::q4,
    suppliers::q5,
    lines::q6,
    suppliers::q7,
    suppliers::q8,
    suppliers::q9,
    orders::q10,
    suppliers::q11,
    lines::q12,
    orders::q13,
    lines::q14,
    suppliers::q15,
    suppliers::q16,
    lines::q17,
    orders::q18,
    lines::q19,
    suppliers::q20,
    suppliers::q21,
    orders::q22,
];

/// The rows that a query, by its position in [`CH_QUERIES`], has to answer, in any order.
///
/// # Errors
/// The database's.
pub fn evaluate(query: usize, rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    EVALUATIONS[query](rows)
}
