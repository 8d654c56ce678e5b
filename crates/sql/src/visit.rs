//! Walks through statements.

use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query, VisitMut, VisitorMut};
use std::ops::ControlFlow;

/// What is done at the parts of a tree.
pub(crate) trait Work {
    fn relation(&mut self, _relation: &ObjectName) {}
    /// Before what is in it.
    fn query(&mut self, _query: &mut Query) {}
    fn end_of_query(&mut self) {}
    fn expression(&mut self, _expression: &mut Expr) {}
}

/// The one visitor: each type of visitor makes the compiler write the walk through all of SQL's grammar once more.
struct Visitor<'a>(&'a mut dyn Work);

impl VisitorMut for Visitor<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<Self::Break> {
        self.0.relation(relation);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.0.query(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Self::Break> {
        self.0.end_of_query();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Self::Break> {
        self.0.expression(expression);
        ControlFlow::Continue(())
    }
}

/// Visits all parts of the tree.
pub(crate) fn visit(tree: &mut impl VisitMut, work: &mut dyn Work) {
    let ControlFlow::Continue(()) = tree.visit(&mut Visitor(work));
}
