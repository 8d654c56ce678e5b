//! Joins in which NULLs are equal, kept apart from those in which they are not.
//!
//! A join of DataFusion's has one setting for all pairs of its condition: whether NULL equals NULL. Its optimizer moves equalities of
//! WHERE into such joins, and merges neighbours into one, without a look at that setting; then `a.x IS NOT DISTINCT FROM b.x AND
//! a.y = b.y` would find rows with NULL for y, or lose those with NULL for x. So while it optimizes, such pairs are conditions like any
//! other (`IS NOT DISTINCT FROM`), and become the join's keys in the end, where it has no others:
//! ```text
//! rules of a pass    first: keys to conditions    DataFusion's    last: conditions to keys
//! ```
//! Semi joins and anti joins of INTERSECT and EXCEPT have no other conditions, and stay.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::expr_fn::binary_expr;
use datafusion::logical_expr::utils::{
    can_hash, conjunction, find_valid_equijoin_key_pair, split_conjunction_owned,
};
use datafusion::logical_expr::{Expr, ExprSchemable, Join, LogicalPlan, Operator};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// DataFusion's rules between ours.
pub(super) fn around(rules: Vec<Rule>) -> Vec<Rule> {
    let first: Rule = Arc::new(KeysToConditions);
    let ours = |rule: Rule| match rule.name() {
        "extract_equijoin_predicate" => Arc::new(ExtractEqualities { stock: rule }) as Rule,
        _ => rule,
    };
    std::iter::once(first)
        .chain(rules.into_iter().map(ours))
        .chain([Arc::new(ConditionsToKeys) as Rule])
        .collect()
}

#[derive(Debug)]
struct KeysToConditions;

impl OptimizerRule for KeysToConditions {
    fn name(&self) -> &str {
        "null_keys_to_conditions"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        Ok(with_conditions(plan))
    }
}

/// DataFusion's rule, without the keys in which NULLs are equal.
#[derive(Debug)]
struct ExtractEqualities {
    stock: Rule,
}

impl OptimizerRule for ExtractEqualities {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.stock.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let extracted = self.stock.rewrite(plan, config)?;
        Ok(extracted.update_data(|plan| with_conditions(plan).data))
    }
}

fn with_conditions(plan: LogicalPlan) -> Transformed<LogicalPlan> {
    let is_moved_into = |join: &Join| {
        join.null_equality == NullEquality::NullEqualsNull
            && matches!(join.join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full)
    };
    match plan {
        LogicalPlan::Join(mut join) if is_moved_into(&join) => {
            let same = |(left, right)| binary_expr(left, Operator::IsNotDistinctFrom, right);
            let keys = std::mem::take(&mut join.on).into_iter().map(same);
            join.filter = conjunction(keys.chain(join.filter.take()));
            join.null_equality = NullEquality::NullEqualsNothing;
            Transformed::yes(LogicalPlan::Join(join))
        }
        other => Transformed::no(other),
    }
}

#[derive(Debug)]
struct ConditionsToKeys;

impl OptimizerRule for ConditionsToKeys {
    fn name(&self) -> &str {
        "null_conditions_to_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
        if !join.on.is_empty() || join.filter.is_none() {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let (mut keys, mut rest) = (Vec::new(), Vec::new());
        for term in join.filter.take().map(split_conjunction_owned).unwrap_or_default() {
            match key(&join, &term)? {
                Some(key) => keys.push(key),
                None => rest.push(term),
            }
        }
        join.filter = conjunction(rest);
        if keys.is_empty() {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        (join.on, join.null_equality) = (keys, NullEquality::NullEqualsNull);
        Ok(Transformed::yes(LogicalPlan::Join(join)))
    }
}

/// The sides of a condition by which NULLs are equal.
fn key(join: &Join, term: &Expr) -> Result<Option<(Expr, Expr)>> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::IsNotDistinctFrom, right }) = term else {
        return Ok(None);
    };
    let sides = (join.left.schema(), join.right.schema());
    let Some((left, right)) = find_valid_equijoin_key_pair(left, right, sides.0, sides.1)? else {
        return Ok(None);
    };
    let is_hashed = can_hash(&left.get_type(sides.0)?) && can_hash(&right.get_type(sides.1)?);
    Ok(is_hashed.then_some((left, right)))
}
