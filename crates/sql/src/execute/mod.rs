//! Runs OLTP plans in a transaction.
//!
//! Every statement that writes first finds all its rows and computes their new values, then locks them where the
//! transaction is an interactive one, and only then writes: the statement never meets its own writes, and when a
//! lock shows that a row has changed, the search begins again with nothing to undo.

mod alter;
mod comment;
mod create_as;
pub(crate) mod define;
pub(crate) mod defining;
mod dependent;
mod index;
mod joined;
mod like;
mod lookup;
mod materialized;
mod scan;
pub(crate) mod schema;
mod select;
mod sequence;
mod sort;
mod user_type;
mod view;
mod view_columns;
mod write;

pub(crate) use joined::joined;
pub(crate) use lookup::lookup;
pub(crate) use select::select;
pub(crate) use write::{delete, insert, update};

use crate::explain::Meter;
use crate::expression::{Context, Sequences};
use ankerdb_engine::{
    Error, Interrupt, Isolation, ReadView, Result, RowId, Table, TableId, Transaction, Value,
};
use std::cell::{OnceCell, RefCell};
use std::collections::HashSet;

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
    /// What the steps of one statement share.
    pub shared: Option<&'a SharedView>,
    /// What EXPLAIN ANALYZE notes.
    pub meter: Option<&'a Meter>,
}

/// What the steps of one statement behind WITH share: each reads as if it were the first, and a row is written once.
#[derive(Default)]
pub(crate) struct SharedView {
    view: OnceCell<ReadView>,
    written: RefCell<HashSet<(TableId, RowId)>>,
}

impl SharedView {
    /// What the statement's queries read: none before its first write, when it is what the transaction reads.
    pub(crate) fn view(&self) -> Option<&ReadView> {
        self.view.get()
    }

    /// The transaction is about to write: what is visible now is what the steps behind this one see.
    fn settle(&self, transaction: &Transaction) {
        self.view.get_or_init(|| transaction.read_view());
    }

    /// Whether no step has written the row before; then one has from now on.
    fn is_first(&self, table: &Table, row: RowId) -> bool {
        self.written.borrow_mut().insert((table.id(), row))
    }
}

impl<'a> Environment<'a> {
    /// The context of an expression over one row.
    pub(crate) fn context(&'a self, column: &'a dyn Fn(usize) -> Value) -> Context<'a> {
        let Environment { parameters, subqueries, now, interrupt, sequences, .. } = *self;
        Context { column, parameters, subqueries, now, interrupt, sequences }
    }

    /// To be called when a statement has found and locked its rows, before it writes.
    fn before_writes(&self, transaction: &Transaction) {
        if let Some(shared) = self.shared {
            shared.settle(transaction);
        }
    }

    /// Whether the row is to be written: a step of a statement leaves those alone that another has written.
    fn may_write(&self, table: &Table, row: RowId) -> bool {
        self.shared.is_none_or(|shared| shared.is_first(table, row))
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
///
/// # Errors
/// `SerializationFailure` if an earlier step of the statement has written: it would have to be taken back.
fn until_stable<T>(
    transaction: &mut Transaction,
    environment: &Environment,
    mut body: impl FnMut(&mut Transaction) -> Result<Option<T>>,
) -> Result<T> {
    let has_written = environment.shared.is_some_and(|shared| shared.view().is_some());
    if transaction.isolation() == Isolation::Serializable && !has_written {
        transaction.begin_statement();
    }
    loop {
        if let Some(done) = body(transaction)? {
            return Ok(done);
        }
        if has_written {
            return Err(Error::serialization("could not serialize access due to concurrent update"));
        }
        transaction.restart_statement()?;
    }
}
