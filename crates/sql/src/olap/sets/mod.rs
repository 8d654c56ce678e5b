//! Functions that give rows: in select lists, in FROM, WITH ORDINALITY, several in lock step. Where rows are ordered is in `order.rs`.
//!
//! ```text
//! SELECT f(a), b FROM t                     FROM t, f(t.a) WITH ORDINALITY AS s (x, n)
//!                                                 -- from.rs -->
//!                                           FROM t, LATERAL (SELECT f(t.a) AS x, number() AS n) AS s
//!         |
//!         | DataFusion's planner: f is a call like any other
//!         v
//! Projection [f(a), b]  -- calls.rs -->  Projection ["f 1", b]
//!                                          SetRows  ["f 1" = f(a)]
//! ```
//! [`SetRows`] has the columns of its input and one for each call. For each row of the input it gives as many rows as the call
//! that gives the most; the others are NULL behind their last one. A call within the arguments of another one stands in a
//! node below. The operator (`stream.rs`) makes a batch of rows when it is asked for one, so that the length of a series costs nothing
//! before its rows are read, and a LIMIT ends it.
//!
//! A derived table that depends on the tables before it is, in general, computed once for each combination of the columns that it
//! mentions ([`dependent`](super::dependent)). One that is nothing but calls needs no join: they are made for the rows of those tables
//! (`lateral.rs`).

mod calls;
mod from;
mod lateral;
mod node;
mod order;
mod plan;
mod stream;

pub(super) use calls::extracted;
pub(super) use from::{derived, written_out};
pub(super) use lateral::applied;
pub(super) use node::{SetCall, SetFunction, SetRows};
pub(super) use plan::planner;
pub(super) use stream::interruptible;

/// The function whose list is taken apart.
pub(super) const UNNEST: &str = "unnest";
/// The function of the positions of a list's items.
pub(super) const SUBSCRIPTS: &str = "generate_subscripts";
/// What numbers the rows that the calls beside it give.
pub(super) const ORDINALITY: &str = "operator ordinality";
/// In front of the name by which a call of one of these is planned; DataFusion's planner has a function `unnest` of its own.
pub(super) const PREFIX: &str = "set ";

/// The name of the function, if its calls give rows and it is not one of the library.
pub(super) fn own(name: &str) -> Option<&'static str> {
    [UNNEST, SUBSCRIPTS, ORDINALITY].into_iter().find(|known| *known == name)
}
