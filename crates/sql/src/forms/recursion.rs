//! Where a query of WITH RECURSIVE may read its own rows: once, in the second term of its UNION, and neither in a subquery nor where an
//! outer join may lack them.

use crate::aggregates::aggregates;
use crate::name::{folded, quoted};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    Expr, JoinOperator, ObjectName, Query, Select, SetExpr, SetOperator, TableFactor, TableWithJoins, Visitor,
};
use std::ops::ControlFlow;

/// # Errors
/// 42P19 for a recursion in another place, and for aggregates beside it; 42601 for a MERGE behind WITH RECURSIVE.
pub(super) fn check(query: &Query) -> Result<()> {
    let Some(with) = query.with.as_ref().filter(|with| with.recursive) else { return Ok(()) };
    if matches!(query.body.as_ref(), SetExpr::Merge(_)) {
        let message = "WITH RECURSIVE is not supported for MERGE statement";
        return Err(Error::new(SqlState::SyntaxError, message));
    }
    for cte in &with.cte_tables {
        let name = folded(&cte.alias.name);
        // What is changed is a table.
        if !matches!(*cte.query.body, SetExpr::Select(_) | SetExpr::SetOperation { .. } | SetExpr::Query(_)) {
            continue;
        }
        if reads(&*cte.query, &name) > 0 {
            check_terms(&cte.query, &name)?;
        }
    }
    Ok(())
}

fn invalid(message: String) -> Error {
    Error::new(SqlState::InvalidRecursion, message)
}

fn misplaced(name: &str, place: &str) -> Error {
    invalid(format!("recursive reference to query {} must not appear {place}", quoted(name)))
}

fn check_terms(query: &Query, name: &str) -> Result<()> {
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = query.body.as_ref() else {
        let form = "non-recursive-term UNION [ALL] recursive-term";
        return Err(invalid(format!("recursive query {} does not have the form {form}", quoted(name))));
    };
    if let Some(with) = &query.with
        && with.cte_tables.iter().any(|cte| reads(&*cte.query, name) > 0)
    {
        return Err(misplaced(name, "within a subquery"));
    }
    if reads(&**left, name) > 0 {
        return Err(misplaced(name, "within its non-recursive term"));
    }
    check_body(right, name)?;
    match reads(&**right, name) {
        0 | 1 => Ok(()),
        _ => Err(misplaced(name, "more than once")),
    }
}

fn check_body(body: &SetExpr, name: &str) -> Result<()> {
    match body {
        SetExpr::Select(select) => check_select(select, name),
        SetExpr::SetOperation { op, left, right, .. } => {
            let refused = match op {
                SetOperator::Intersect => {
                    (reads(&**left, name) + reads(&**right, name) > 0).then_some("INTERSECT")
                }
                SetOperator::Except => (reads(&**right, name) > 0).then_some("EXCEPT"),
                _ => None,
            };
            match refused {
                Some(operation) => Err(misplaced(name, &format!("within {operation}"))),
                None => check_body(left, name).and_then(|()| check_body(right, name)),
            }
        }
        SetExpr::Query(query) => check_body(&query.body, name),
        _ => Ok(()),
    }
}

fn check_select(select: &Select, name: &str) -> Result<()> {
    select.from.iter().try_for_each(|item| check_joins(item, name))?;
    let of_from = select.from.iter().map(|item| reads(item, name)).sum::<usize>();
    let all = reads(select, name);
    if all > of_from {
        return Err(misplaced(name, "within a subquery"));
    }
    if all > 0 && select.projection.iter().any(aggregates_here) {
        let message = "aggregate functions are not allowed in a recursive query's recursive term";
        return Err(invalid(message.to_owned()));
    }
    Ok(())
}

fn check_joins(item: &TableWithJoins, name: &str) -> Result<()> {
    use JoinOperator::{FullOuter, Left, LeftOuter, Right, RightOuter};
    let mut before = reads(&item.relation, name);
    check_factor(&item.relation, name)?;
    for join in &item.joins {
        check_factor(&join.relation, name)?;
        let own = reads(&join.relation, name);
        let may_lack = match join.join_operator {
            Left(_) | LeftOuter(_) => own > 0,
            Right(_) | RightOuter(_) => before > 0,
            FullOuter(_) => own + before > 0,
            _ => false,
        };
        if may_lack {
            return Err(misplaced(name, "within an outer join"));
        }
        before += own;
    }
    Ok(())
}

fn check_factor(factor: &TableFactor, name: &str) -> Result<()> {
    match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => check_joins(table_with_joins, name),
        TableFactor::Derived { subquery, .. } => check_body(&subquery.body, name),
        _ => Ok(()),
    }
}

/// How often a relation is read that is called so, where no inner WITH gives the name to something else.
fn reads(tree: &impl datafusion::sql::sqlparser::ast::Visit, name: &str) -> usize {
    let mut reads = Reads { name, count: 0, hidden: Vec::new() };
    let _ = crate::visit::walk(tree, &mut reads);
    reads.count
}

struct Reads<'a> {
    name: &'a str,
    count: usize,
    /// For each query around whether its WITH has the name.
    hidden: Vec<bool>,
}

impl Visitor for Reads<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let own = query.with.iter().flat_map(|with| &with.cte_tables);
        self.hidden.push(own.into_iter().any(|cte| folded(&cte.alias.name) == self.name));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.hidden.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let is_it = matches!(relation.0.as_slice(), [part] if part.as_ident().map(folded).as_deref() == Some(self.name));
        self.count += usize::from(is_it && !self.hidden.contains(&true));
        ControlFlow::Continue(())
    }
}

/// Whether there is an aggregate over the rows of the query itself.
fn aggregates_here(tree: &impl datafusion::sql::sqlparser::ast::Visit) -> bool {
    struct Aggregated(usize);
    impl Visitor for Aggregated {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.0 -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
            match expression {
                Expr::Function(call) if self.0 == 0 && aggregates(call) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    crate::visit::walk(tree, &mut Aggregated(0)).is_break()
}
