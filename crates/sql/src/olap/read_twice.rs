//! Common table expressions that give other rows each time.
//!
//! Such a query is computed wherever its name stands. Where its rows are different each time, that is not what WITH means: the
//! names must stand for the same rows. So one that is read more than once is refused.

use crate::expression::library::{Volatility, named};
use crate::name::{folded, not_supported};
use crate::visit::{Work, visit};
use ankerdb_engine::Result;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query, Statement};

/// # Errors
/// `FeatureNotSupported`.
pub(super) fn check(query: &mut Statement) -> Result<()> {
    let mut volatile = Volatile::default();
    visit(query, &mut volatile);
    for name in volatile.0 {
        let mut reads = Reads { name: &name, count: 0 };
        visit(query, &mut reads);
        if reads.count > 1 {
            let what = format!("WITH query \"{name}\" that gives other rows each time, read more than once");
            return Err(not_supported(&what));
        }
    }
    Ok(())
}

/// Names of common table expressions that call a volatile function.
#[derive(Default)]
struct Volatile(Vec<String>);

impl Work for Volatile {
    fn query(&mut self, query: &mut Query) {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let mut calls = Calls(false);
            visit(&mut cte.query, &mut calls);
            if calls.0 {
                self.0.push(folded(&cte.alias.name));
            }
        }
    }
}

/// Whether a volatile function is called.
struct Calls(bool);

impl Work for Calls {
    fn expression(&mut self, expression: &mut Expr) {
        let Expr::Function(call) = expression else { return };
        let name = call.name.0.last().and_then(|part| part.as_ident()).map(folded);
        let is_volatile = |name: &String| named(name).any(|entry| entry.volatility == Volatility::Volatile);
        let counts = |name: &String| matches!(name.as_str(), "nextval" | "setval");
        self.0 |= name.as_ref().is_some_and(|name| is_volatile(name) || counts(name));
    }
}

/// How often a name is read.
struct Reads<'n> {
    name: &'n str,
    count: usize,
}

impl Work for Reads<'_> {
    fn relation(&mut self, relation: &ObjectName) {
        let is_it = matches!(relation.0.as_slice(), [part] if part.as_ident().map(folded).as_deref() == Some(self.name));
        self.count += usize::from(is_it);
    }
}
