//! Subqueries that DataFusion has no place for where they stand, as columns that a projection below computes.
//!
//! | where | what |
//! | --- | --- |
//! | operand of IN or of a comparison with ANY and ALL | `(a IN (q1)) IN (q2)`: the operand, as no subquery can be joined by a value that has one |
//! | condition of an outer join | `l LEFT JOIN r ON (l.a IN (q)) IS NULL`: a subquery over columns of one side, on that side |
//!
//! What has more columns than before has a projection of those before around it.

use super::correlation::{as_subquery, has_subquery, visit_outer};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, Subquery};
use std::collections::HashSet;
use std::sync::Arc;

/// In front of the names of what is computed below; no client can write it.
const LIFTED: &str = "\0lifted ";

/// What is computed below a node, by the names that it gets.
#[derive(Default)]
struct Lifted(Vec<Expr>);

impl Lifted {
    /// The column that stands for an expression, of which there may be `before` others.
    fn column(&mut self, expression: Expr, before: usize) -> Expr {
        let name = format!("{LIFTED}{}", before + self.0.len());
        self.0.push(expression.alias(&name));
        Expr::Column(Column::from_name(name))
    }

    /// The input with what is computed.
    fn over(self, input: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
        if self.0.is_empty() {
            return Ok(input);
        }
        let columns: Vec<Expr> = columns(input.schema()).into_iter().chain(self.0).collect();
        LogicalPlanBuilder::from(input.as_ref().clone()).project(columns)?.build().map(Arc::new)
    }
}

fn columns(schema: &DFSchemaRef) -> Vec<Expr> {
    schema.iter().map(|field| Expr::Column(Column::from(field))).collect()
}

/// A node over one input with the operands below that have subqueries; `settle` is called with the projection that computes them, and with
/// the node that is left.
pub(super) fn operands(
    node: LogicalPlan,
    settle: &dyn Fn(LogicalPlan) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    let [input] = node.inputs()[..] else { return settle(node) };
    let (input, schema) = (Arc::new(input.clone()), node.schema().clone());
    let mut lifted = Lifted::default();
    let names = NamePreserver::new(&node);
    let rewritten = node.map_expressions(|expression| {
        let name = names.save(&expression);
        let rewritten = expression.transform_down(|part| {
            let operand = match &part {
                Expr::InSubquery(InSubquery { expr, .. })
                | Expr::SetComparison(SetComparison { expr, .. })
                    if has_subquery(expr)? && !expr.contains_outer() =>
                {
                    expr.as_ref().clone()
                }
                _ => return Ok(Transformed::no(part)),
            };
            let operand = Box::new(lifted.column(operand, 0));
            Ok(Transformed::yes(match part {
                Expr::InSubquery(whole) => Expr::InSubquery(InSubquery { expr: operand, ..whole }),
                Expr::SetComparison(whole) => Expr::SetComparison(SetComparison { expr: operand, ..whole }),
                other => other,
            }))
        })?;
        Ok(rewritten.update_data(|expression| name.restore(expression)))
    })?;
    if lifted.0.is_empty() {
        return settle(rewritten.data);
    }
    // An operand may have operands of its own.
    let input = operands(lifted.over(input)?.as_ref().clone(), settle)?;
    let expressions = rewritten.data.expressions();
    let whole = settle(rewritten.data.with_new_exprs(expressions, vec![input])?)?;
    if whole.schema().fields().len() == schema.fields().len() {
        return Ok(whole);
    }
    LogicalPlanBuilder::from(whole).project(columns(&schema))?.build()
}

/// An outer join with the subqueries of its condition on the side that they are about; `settle` is called with each side that computes
/// some, and with the join that is left.
pub(super) fn sides(join: Join, settle: &dyn Fn(LogicalPlan) -> Result<LogicalPlan>) -> Result<LogicalPlan> {
    let Some(condition) = join.filter.clone() else { return Ok(LogicalPlan::Join(join)) };
    if !has_subquery(&condition)? {
        return Ok(LogicalPlan::Join(join));
    }
    let (mut left, mut right) = (Lifted::default(), Lifted::default());
    let condition = condition.transform_down(|part| {
        let Some(subquery) = as_subquery(&part) else { return Ok(Transformed::no(part)) };
        let named = named(&part, subquery)?;
        let is_of = |side: &DFSchema| named.iter().all(|column| side.has_column(column));
        let lifted = match (named.is_empty(), is_of(join.left.schema()), is_of(join.right.schema())) {
            (false, true, _) => left.column(part, right.0.len()),
            (false, _, true) => right.column(part, left.0.len()),
            _ => return Ok(Transformed::new(part, false, TreeNodeRecursion::Jump)),
        };
        Ok(Transformed::new(lifted, true, TreeNodeRecursion::Jump))
    })?;
    if !condition.transformed {
        return settle(LogicalPlan::Join(join));
    }
    let side = |lifted: Lifted, input: Arc<LogicalPlan>| match lifted.0.is_empty() {
        true => Ok(input),
        false => operands(lifted.over(input)?.as_ref().clone(), settle).map(Arc::new),
    };
    let schema = join.schema.clone();
    let (left, right) = (side(left, join.left)?, side(right, join.right)?);
    let joined = Join::try_new(
        left,
        right,
        join.on,
        Some(condition.data),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let joined = settle(LogicalPlan::Join(joined))?;
    LogicalPlanBuilder::from(joined).project(columns(&schema))?.build()
}

/// The columns around a subquery that its operand and its own conditions name.
fn named(whole: &Expr, subquery: &Subquery) -> Result<HashSet<Column>> {
    let mut named: HashSet<Column> = whole.column_refs().into_iter().cloned().collect();
    visit_outer(&subquery.subquery, &mut |column| {
        named.insert(column.clone());
    })?;
    Ok(named)
}
