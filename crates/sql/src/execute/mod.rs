//! Runs OLTP plans in a transaction.
//!
//! Every statement that writes first finds all its rows and computes their new values, then locks them where the
//! transaction is an interactive one, and only then writes: the statement never meets its own writes, and when a
//! lock shows that a row has changed, the search begins again with nothing to undo.

pub(crate) mod define;
mod joined;
mod scan;
mod select;
mod sort;
mod write;

pub(crate) use joined::joined;
pub(crate) use select::select;
pub(crate) use write::{delete, insert, update};

use crate::expression::{Context, Sequences};
use ankerdb_engine::{Interrupt, Isolation, Result, Transaction, Value};

/// The context in which a statement runs.
pub(crate) struct Environment<'a> {
    pub parameters: &'a [Value],
    /// First column of the rows of each subquery.
    pub subqueries: &'a [Vec<Value>],
    /// When the transaction began: microseconds since 1970-01-01 UTC.
    pub now: i64,
    /// Whether rows are locked before they are written: in transactions that last longer than one statement.
    pub locking: bool,
    /// Ends the statement early.
    pub interrupt: &'a Interrupt,
    /// The sequences that `nextval` uses.
    pub sequences: &'a dyn Sequences,
}

impl<'a> Environment<'a> {
    /// The context of an expression over one row.
    pub(crate) fn context(&'a self, column: &'a dyn Fn(usize) -> Value) -> Context<'a> {
        let Environment { parameters, subqueries, now, interrupt, sequences, .. } = *self;
        Context { column, parameters, subqueries, now, interrupt, sequences }
    }

    /// The context of an expression that reads no column.
    pub(crate) fn constant(&'a self) -> Context<'a> {
        self.context(&|_| Value::Null)
    }
}

/// The outcome of a statement.
pub(crate) struct Done {
    /// Rows written, or found by SELECT.
    pub count: usize,
    /// The result's rows, for SELECT and RETURNING.
    pub rows: Vec<Vec<Value>>,
}

/// Runs the body again from a new statement view while it reports (by `None`) that a locked row has changed. At
/// SERIALIZABLE what the statement has read before, in subqueries, stays read and must still hold.
fn until_stable<T>(
    transaction: &mut Transaction,
    mut body: impl FnMut(&mut Transaction) -> Result<Option<T>>,
) -> Result<T> {
    if transaction.isolation() == Isolation::Serializable {
        transaction.begin_statement();
    }
    loop {
        if let Some(done) = body(transaction)? {
            return Ok(done);
        }
        transaction.restart_statement()?;
    }
}
