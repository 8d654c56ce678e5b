//! The sequences that expressions count by, and the session that they are computed for.

use super::SessionFunction;
use crate::name::not_supported;
use ankerdb_engine::{Interrupt, Result, Value};

/// What `nextval` and its like ask. Sequences are named as in SQL texts: folded unless quoted, with or without schema.
pub(crate) trait Sequences: Send + Sync {
    /// The next number of a sequence.
    fn next(&self, name: &str) -> Result<i64>;
    /// The number that this session has got last of a sequence.
    fn current(&self, name: &str) -> Result<i64>;
    /// The number that this session has got last of any.
    fn last(&self) -> Result<i64>;
    /// Calls a function of the session with arguments of its types, none of them NULL.
    fn call(&self, function: SessionFunction, arguments: &[Value], interrupt: &Interrupt) -> Result<Value>;
    /// Sets the last number of a sequence, and whether it has been used; returns it.
    fn set(&self, name: &str, value: i64, is_used: bool) -> Result<i64>;
}

/// Where expressions are computed without a session: for batches, and in filters that others look at, too.
pub(crate) struct NoSequences;

impl Sequences for NoSequences {
    fn next(&self, _: &str) -> Result<i64> {
        Err(not_supported("a number of a sequence here"))
    }

    fn current(&self, name: &str) -> Result<i64> {
        self.next(name)
    }

    fn last(&self) -> Result<i64> {
        self.next("")
    }

    fn set(&self, name: &str, _: i64, _: bool) -> Result<i64> {
        self.next(name)
    }

    fn call(&self, function: SessionFunction, _: &[Value], _: &Interrupt) -> Result<Value> {
        Err(not_supported(&format!("the function {} here", function.sql_name())))
    }
}
