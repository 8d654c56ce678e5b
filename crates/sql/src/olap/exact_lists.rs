//! Lists of constants that leave nothing, where their operand may be NULL.
//!
//! DataFusion intersects lists: it takes `x IN (1, 2) AND x IN (3, 4)` for false, and `x NOT IN (1, 2) OR x NOT IN (3, 4)` for true. Both are NULL
//! for an x that is NULL, which shows in a select list and below NOT. So before its rules see them, those lists become what they are:
//! ```text
//! x IN (1, 2) AND x IN (3, 4)            x IS NULL AND NULL
//! x IN (1, 2) AND x NOT IN (1, 2, 3)     x IS NULL AND NULL
//! x NOT IN (1, 2) OR x NOT IN (3, 4)     x IS NOT NULL OR NULL
//! ```
//! What is NULL and what is false are one to the terms of a filter, which stay.
//!
//! Parameters are no constants yet when a plan is first optimized: two of them may have one value. So where a plan has several lists, those of
//! parameters become comparisons.

use crate::forms::balanced;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{BinaryExpr, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, disjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, lit};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::scalar::ScalarValue;
use std::collections::HashSet;

/// The plan, in which no lists are intersected before parameters have values.
pub(super) fn apart(plan: LogicalPlan) -> Result<LogicalPlan> {
    let (mut lists, mut has_parameters) = (0, false);
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Expr::InList(list) = part {
                    lists += 1;
                    has_parameters |= is_of_parameters(list);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    if lists < 2 || !has_parameters {
        return Ok(plan);
    }
    let compared = plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expression| {
            let name = names.save(&expression);
            let compared = expression.transform_up(|part| match part {
                Expr::InList(list) if is_of_parameters(&list) => Ok(Transformed::yes(compared(list))),
                other => Ok(Transformed::no(other)),
            })?;
            Ok(compared.update_data(|expression| name.restore(expression)))
        })
    })?;
    Ok(compared.data)
}

fn is_of_parameters(list: &InList) -> bool {
    list.list.iter().any(|item| matches!(item, Expr::Placeholder(_)))
}

fn compared(InList { expr, list, negated }: InList) -> Expr {
    let equal = list.into_iter().map(|item| expr.as_ref().clone().eq(item)).collect();
    let any = balanced(equal, |left, right| left.or(right)).unwrap_or_else(|| lit(false));
    if negated { Expr::Not(Box::new(any)) } else { any }
}

#[derive(Debug)]
pub(super) struct ExactLists;

impl OptimizerRule for ExactLists {
    fn name(&self) -> &str {
        "exact_lists"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut lists = 0;
        plan.apply_expressions(|expression| {
            expression.apply(|part| {
                lists += usize::from(matches!(part, Expr::InList(_)) || equality(part).is_some());
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        if lists < 2 {
            return Ok(Transformed::no(plan));
        }
        let schema = merge_schema(&plan.inputs());
        match plan {
            LogicalPlan::Filter(mut filter) => {
                let terms = split_conjunction_owned(filter.predicate.clone()).into_iter();
                let terms = terms.map(|term| exact(term, &schema)).collect::<Result<Vec<_>>>()?;
                if !terms.iter().any(|term| term.transformed) {
                    return Ok(Transformed::no(LogicalPlan::Filter(filter)));
                }
                let terms = terms.into_iter().map(|term| term.data);
                filter.predicate = conjunction(terms).unwrap_or_else(|| lit(true));
                Ok(Transformed::yes(LogicalPlan::Filter(filter)))
            }
            other => {
                let names = NamePreserver::new(&other);
                other.map_expressions(|expression| {
                    let name = names.save(&expression);
                    Ok(exact(expression, &schema)?.update_data(|expression| name.restore(expression)))
                })
            }
        }
    }
}

/// The expression whose lists leave something.
fn exact(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expression.transform_down(|part| {
        let Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) = &part else {
            return Ok(Transformed::no(part));
        };
        let (op, terms) = (*op, terms(&part, *op));
        let lists: Vec<Option<List>> = terms.iter().map(|term| List::of(term)).collect();
        let Some(operand) =
            lists.iter().flatten().map(|list| list.operand).find(|operand| {
                operand.nullable(schema).unwrap_or(true) && leaves_nothing(&lists, operand, op)
            })
        else {
            return Ok(Transformed::no(part));
        };
        let is_of_it = |list: &Option<List>| list.as_ref().is_some_and(|list| list.operand == operand);
        let rest =
            terms.iter().zip(&lists).filter(|(_, list)| !is_of_it(list)).map(|(term, _)| (*term).clone());
        let unknown = lit(ScalarValue::Boolean(None));
        let whole = match op {
            Operator::And => conjunction(rest.chain([operand.clone().is_null().and(unknown)])),
            _ => disjunction(rest.chain([operand.clone().is_not_null().or(unknown)])),
        };
        Ok(whole.map_or(Transformed::no(part), Transformed::yes))
    })
}

/// The operands of a chain of one operator.
fn terms(whole: &Expr, op: Operator) -> Vec<&Expr> {
    let (mut open, mut terms) = (vec![whole], Vec::new());
    while let Some(part) = open.pop() {
        match part {
            Expr::BinaryExpr(pair) if pair.op == op => open.extend([pair.right.as_ref(), pair.left.as_ref()]),
            term => terms.push(term),
        }
    }
    terms
}

/// Whether the lists of this operand, of those that a chain has, come to a constant.
fn leaves_nothing(lists: &[Option<List>], operand: &Expr, op: Operator) -> bool {
    let of_it = || lists.iter().flatten().filter(|list| list.operand == operand);
    // What is in one list and in no other, or what is in all that are negated.
    let mut among = of_it().filter(|list| list.negated != (op == Operator::And));
    let Some(first) = among.next() else { return false };
    let mut left: HashSet<&Expr> = first.items.iter().copied().collect();
    among.for_each(|list| left.retain(|item| list.items.contains(item)));
    if op == Operator::And {
        of_it().filter(|list| list.negated).for_each(|list| left.retain(|item| !list.items.contains(item)));
    }
    left.is_empty()
}

/// `operand IN (items)`, as an expression is or as it will be read.
struct List<'a> {
    operand: &'a Expr,
    items: Vec<&'a Expr>,
    negated: bool,
}

impl<'a> List<'a> {
    fn of(term: &'a Expr) -> Option<List<'a>> {
        match term {
            Expr::InList(InList { expr, list, negated }) => {
                Some(List { operand: expr, items: list.iter().collect(), negated: *negated })
            }
            Expr::Not(term) => List::of(term).map(|list| List { negated: !list.negated, ..list }),
            Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
                let mut parts = terms(term, Operator::Or).into_iter().map(|part| {
                    equality(part)
                        .map(|(operand, item)| List { operand, items: vec![item], negated: false })
                        .or_else(|| List::of(part))
                        .filter(|list| !list.negated)
                });
                let mut whole = parts.next()??;
                for part in parts {
                    let part = part.filter(|part| part.operand == whole.operand)?;
                    whole.items.extend(part.items);
                }
                Some(whole)
            }
            _ => None,
        }
    }
}

/// A column and a constant that is compared with it.
fn equality(term: &Expr) -> Option<(&Expr, &Expr)> {
    match term {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            match (left.as_ref(), right.as_ref()) {
                (column @ Expr::Column(_), item @ Expr::Literal(..))
                | (item @ Expr::Literal(..), column @ Expr::Column(_)) => Some((column, item)),
                _ => None,
            }
        }
        _ => None,
    }
}
