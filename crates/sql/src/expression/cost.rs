//! The order in which the conditions of a WHERE are tested: the cheapest first, as in PostgreSQL, so that a row that a cheap one rejects
//! is not computed by one that may fail.

use super::{Expression, Function};

/// An operator or a function for a row, in halves: of the items of a list a half is compared.
const OPERATOR: usize = 2;
/// More than any expression that does not look at rows.
const SUBQUERY: usize = 1 << 20;

/// Puts the conjuncts in the order of their costs; equal ones stay as they are written.
pub(crate) fn cheapest_first(conjuncts: &mut [Expression]) {
    conjuncts.sort_by_cached_key(cost);
}

/// What is counted for a row, as PostgreSQL's planner counts it: operators, casts and calls, but neither AND, OR and NOT nor tests for NULL.
fn cost(expression: &Expression) -> usize {
    let own = match expression {
        Expression::InSubquery(..) => SUBQUERY,
        Expression::Call(Function::Subquery(_) | Function::Exists(_), _) => SUBQUERY,
        Expression::InList(_, items, _) => items.len(),
        Expression::Cast(..)
        | Expression::Arithmetic(..)
        | Expression::Negate(_)
        | Expression::Compare(..)
        | Expression::Distinct(..)
        | Expression::Quantified(..)
        | Expression::Like(_)
        | Expression::Concatenate(_)
        | Expression::Call(..) => OPERATOR,
        _ => 0,
    };
    expression.operands().into_iter().map(cost).fold(own, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::{Arithmetic, Comparison};
    use ankerdb_engine::Value;

    #[test]
    fn what_is_computed_is_compared_after_what_is_there() {
        let (column, one) = (|| Expression::Column(0), || Expression::Literal(Value::Integer(1)));
        let quotient = Expression::Arithmetic(Arithmetic::Divide, Box::new((one(), column())));
        let computed = Expression::Compare(Comparison::Greater, Box::new((quotient, one())));
        let plain = Expression::Compare(Comparison::Less, Box::new((column(), one())));
        let other = Expression::Compare(Comparison::NotEqual, Box::new((column(), one())));
        let mut conjuncts = [computed.clone(), plain.clone(), other.clone()];
        cheapest_first(&mut conjuncts);
        assert_eq!(conjuncts, [plain, other, computed]);
    }
}
