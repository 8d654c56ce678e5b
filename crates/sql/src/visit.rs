//! Walks through statements.
//!
//! A visitor's type is a parameter of the walk: for each one the compiler would write the walk through all of SQL's grammar, some
//! 1,800 functions, once more. Here it is written twice, for trees that are looked at and for those that are changed, and calls the
//! visitors through a table of functions.

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor,
    VisitorMut,
};
use std::ops::ControlFlow;

/// What is done at the parts of a tree.
pub(crate) trait Work {
    fn relation(&mut self, _relation: &ObjectName) {}
    /// Before what is in it.
    fn query(&mut self, _query: &mut Query) {}
    fn end_of_query(&mut self) {}
    fn expression(&mut self, _expression: &mut Expr) {}
}

/// Visits all parts of the tree.
pub(crate) fn visit(tree: &mut impl VisitMut, work: &mut dyn Work) {
    let ControlFlow::Continue(()) = walk_mut(tree, &mut Working(work));
}

struct Working<'a>(&'a mut dyn Work);

impl VisitorMut for Working<'_> {
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

/// A visitor, and with what it ended the walk.
struct Guide<'a, V, B> {
    visitor: &'a mut V,
    end: Option<B>,
}

impl<V, B> Guide<'_, V, B> {
    fn keep(&mut self, flow: ControlFlow<B>) -> ControlFlow<()> {
        flow.map_break(|end| self.end = Some(end))
    }
}

macro_rules! shared {
    ($part:ty) => {
        &$part
    };
}

macro_rules! exclusive {
    ($part:ty) => {
        &mut $part
    };
}

/// The walk for all visitors of a kind.
macro_rules! walk {
    ($(#[$doc:meta])* $walk:ident: $visitor:ident, $tree:ident, $reference:ident, $parts:ident, $any:ident;
     $($hook:ident($part:ident))*) => {
        trait $parts {
            $(fn $hook(&mut self, part: $reference!($part)) -> ControlFlow<()>;)*
        }

        impl<V: $visitor> $parts for Guide<'_, V, V::Break> {
            $(fn $hook(&mut self, part: $reference!($part)) -> ControlFlow<()> {
                let flow = self.visitor.$hook(part);
                self.keep(flow)
            })*
        }

        struct $any<'a>(&'a mut dyn $parts);

        impl $visitor for $any<'_> {
            type Break = ();

            $(fn $hook(&mut self, part: $reference!($part)) -> ControlFlow<()> {
                self.0.$hook(part)
            })*
        }

        $(#[$doc])*
        pub(crate) fn $walk<V: $visitor>(
            tree: $reference!(impl $tree),
            visitor: &mut V,
        ) -> ControlFlow<V::Break> {
            let mut guide = Guide { visitor, end: None };
            let flow = tree.visit(&mut $any(&mut guide));
            flow.map_break(|()| guide.end.expect("who ends a walk says with what"))
        }
    };
    ($(#[$doc:meta])* $walk:ident: $visitor:ident, $tree:ident, $reference:ident, $parts:ident, $any:ident) => {
        walk! {
            $(#[$doc])* $walk: $visitor, $tree, $reference, $parts, $any;
            pre_visit_query(Query) post_visit_query(Query)
            pre_visit_select(Select) post_visit_select(Select)
            pre_visit_relation(ObjectName) post_visit_relation(ObjectName)
            pre_visit_table_factor(TableFactor) post_visit_table_factor(TableFactor)
            pre_visit_expr(Expr) post_visit_expr(Expr)
            pre_visit_statement(Statement) post_visit_statement(Statement)
            pre_visit_value(ValueWithSpan) post_visit_value(ValueWithSpan)
        }
    };
}

walk! {
    /// Shows the visitor all parts of the tree, until it ends the walk.
    walk: Visitor, Visit, shared, Parts, AnyVisitor
}

walk! {
    /// Gives the visitor all parts of the tree to change, until it ends the walk.
    walk_mut: VisitorMut, VisitMut, exclusive, PartsMut, AnyVisitorMut
}

/// Shows all expressions, each before those in it, until one ends the walk.
pub(crate) fn visit_expressions<B>(
    tree: &impl Visit,
    see: impl FnMut(&Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    struct Expressions<F>(F);
    impl<B, F: FnMut(&Expr) -> ControlFlow<B>> Visitor for Expressions<F> {
        type Break = B;
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
            self.0(expr)
        }
    }
    walk(tree, &mut Expressions(see))
}

/// Gives all expressions to change, each after those in it, until one ends the walk.
pub(crate) fn visit_expressions_mut<B>(
    tree: &mut impl VisitMut,
    change: impl FnMut(&mut Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    struct Expressions<F>(F);
    impl<B, F: FnMut(&mut Expr) -> ControlFlow<B>> VisitorMut for Expressions<F> {
        type Break = B;
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
            self.0(expr)
        }
    }
    walk_mut(tree, &mut Expressions(change))
}

/// Shows the names of all relations, until one ends the walk.
pub(crate) fn visit_relations<B>(
    tree: &impl Visit,
    see: impl FnMut(&ObjectName) -> ControlFlow<B>,
) -> ControlFlow<B> {
    struct Relations<F>(F);
    impl<B, F: FnMut(&ObjectName) -> ControlFlow<B>> Visitor for Relations<F> {
        type Break = B;
        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<B> {
            self.0(relation)
        }
    }
    walk(tree, &mut Relations(see))
}
