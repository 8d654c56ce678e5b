//! Conditions that stay above what puts rows together.
//!
//! DataFusion pushes a condition below an aggregate, a window or DISTINCT if all of its columns are those of the groups, and so one that
//! has no columns (`HAVING random() > 1`, `WHERE $1 > 2` over a query that counts): then an aggregate without groups, or a set of
//! groups that has none, gives a row of nothing, which the condition would have rejected. One that gives something else each time must
//! see each row of the result once, not each of those below. Such conditions are kept while DataFusion's rule pushes the others.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Distinct, Expr, Filter, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// DataFusion's rules, of which the one that pushes conditions leaves such.
pub(super) fn around(rules: Vec<Rule>) -> Vec<Rule> {
    let ours = |rule: Rule| match rule.name() {
        "push_down_filter" => Arc::new(KeptAbove { stock: rule }) as Rule,
        _ => rule,
    };
    rules.into_iter().map(ours).collect()
}

#[derive(Debug)]
struct KeptAbove {
    stock: Rule,
}

impl OptimizerRule for KeptAbove {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.stock.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return self.stock.rewrite(plan, config) };
        let stays: fn(&Expr) -> bool = match filter.input.as_ref() {
            LogicalPlan::Aggregate(_) => |term| term.is_volatile() || term.column_refs().is_empty(),
            LogicalPlan::Window(_) | LogicalPlan::Distinct(Distinct::All(_)) => Expr::is_volatile,
            _ => return self.stock.rewrite(plan, config),
        };
        let terms = split_conjunction_owned(filter.predicate.clone());
        let (above, rest): (Vec<Expr>, Vec<Expr>) = terms.into_iter().partition(stays);
        let Some(above) = conjunction(above) else { return self.stock.rewrite(plan, config) };
        let Some(rest) = conjunction(rest) else { return Ok(Transformed::no(plan)) };
        let pushed = Filter::try_new(rest, filter.input.clone())?;
        let pushed = self.stock.rewrite(LogicalPlan::Filter(pushed), config)?;
        if !pushed.transformed {
            return Ok(Transformed::no(plan));
        }
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(above, Arc::new(pushed.data))?)))
    }
}
