//! The consistency conditions of clauses 3.3.2.1 to 3.3.2.12: they must hold in every state of a serializable
//! database, whatever mix of transactions ran.
//!
//! One transaction at REPEATABLE READ scans six tables once: a consistent image, and nothing to validate. The scans add
//! everything up in an `Image`; the `conditions` compare the sums.
//!
//! Clause 3.3.2.11 as it stands holds only until the first Delivery: a district has 2,100 orders more than new orders.
//! Every Delivery takes one new order and adds one to its customer's C_DELIVERY_CNT, so what always holds, and is
//! checked, is 2,100 plus the sum of C_DELIVERY_CNT.

mod conditions;
mod image;

use super::schema::TpccTables;
use ankerdb_engine::{Database, Isolation, Result};
use std::fmt;

/// The conditions as reports name them.
pub const CONDITIONS: &str = "TPC-C consistency conditions 3.3.2.1-12";

/// Violations of one clause that are reported one by one; more of them would not help.
const TOLD_OF_CLAUSE: usize = 10;

/// A condition that does not hold, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The clause, such as `3.3.2.1`.
    pub clause: &'static str,
    /// What was found.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TPC-C consistency condition {} is violated: {}", self.clause, self.message)
    }
}

/// Checks all conditions as of now; an empty list means that they hold. Reads every order line, about a second for some
/// millions of them, and takes 32 bytes for each order.
///
/// # Errors
/// The database's.
pub fn check(database: &Database, tables: &TpccTables) -> Result<Vec<Violation>> {
    let mut session = database.session();
    let mut transaction = session.begin(Isolation::RepeatableRead);
    let image = image::DatabaseSums::read(&mut transaction, tables)?;
    transaction.rollback();
    let mut found = Violations::default();
    conditions::check(&image, &mut found);
    Ok(found.finish())
}

/// What was found so far.
#[derive(Default)]
struct Violations {
    told: Vec<Violation>,
    /// Those beyond [`TOLD_OF_CLAUSE`], by clause.
    untold: Vec<(&'static str, usize)>,
}

impl Violations {
    /// Notes that two things that should be the same are not.
    fn expect_same<T: PartialEq>(
        &mut self,
        clause: &'static str,
        left: T,
        right: T,
        describe: impl FnOnce(T, T) -> String,
    ) {
        if left == right {
            return;
        }
        let is_clause = |violation: &&Violation| violation.clause == clause;
        if self.told.iter().filter(is_clause).count() < TOLD_OF_CLAUSE {
            self.told.push(Violation { clause, message: describe(left, right) });
            return;
        }
        match self.untold.iter_mut().find(|(untold, _)| *untold == clause) {
            Some((_, count)) => *count += 1,
            None => self.untold.push((clause, 1)),
        }
    }

    fn finish(mut self) -> Vec<Violation> {
        for (clause, count) in self.untold {
            self.told.push(Violation { clause, message: format!("in {count} more places") });
        }
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_violations_of_a_clause_are_summed_up() {
        let mut found = Violations::default();
        for left in 0..25 {
            found.expect_same("3.3.2.1", left, 3, |left, right| format!("{left} is not {right}"));
        }
        let told = found.finish();
        assert_eq!(told.len(), TOLD_OF_CLAUSE + 1);
        assert_eq!(told[3].message, "4 is not 3");
        assert_eq!(told[TOLD_OF_CLAUSE].message, "in 14 more places");
    }
}
