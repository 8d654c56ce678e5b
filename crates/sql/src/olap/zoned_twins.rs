//! Constants of times that DataFusion takes for one.
//!
//! Its constants are equal if their numbers are: the zone is not compared. Ours has three kinds of values in that one type: times with a
//! zone, times without, and the labels of each enumeration (`labels`). So `max('2024-05-01 00:00+00'::timestamptz)` and
//! `max('2024-05-01 00:00'::timestamp)` of one query were computed once, and both were the first. Constants that differ by nothing but
//! their zone are told apart here: metadata of a constant is compared, and says the zone.

use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::scalar::ScalarValue;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The key of the metadata.
const ZONE: &str = "zone";

/// The first rule of each pass.
#[derive(Debug)]
pub(super) struct ZonedTwins;

impl OptimizerRule for ZonedTwins {
    fn name(&self) -> &str {
        "zoned_twins"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let twins = twins(&plan)?;
        if twins.is_empty() {
            return Ok(Transformed::no(plan));
        }
        // What is above a node has its schema, of which the metadata is a part.
        plan.transform_up_with_subqueries(|node| {
            let names = NamePreserver::new(&node);
            let told = node.map_expressions(|expression| {
                let name = names.save(&expression);
                let told = expression.transform_up(|part| Ok(told(part, &twins)))?;
                Ok(told.update_data(|expression| name.restore(expression)))
            })?;
            told.map_data(LogicalPlan::recompute_schema)
        })
    }
}

/// The zone of a time or a label.
fn zone(value: &ScalarValue) -> Option<&Option<Arc<str>>> {
    match value {
        ScalarValue::TimestampMicrosecond(_, zone) | ScalarValue::TimestampNanosecond(_, zone) => Some(zone),
        _ => None,
    }
}

/// The constants that are there with several zones.
fn twins(plan: &LogicalPlan) -> Result<HashSet<ScalarValue>> {
    let mut first: HashMap<ScalarValue, Option<Arc<str>>> = HashMap::new();
    let mut twins = HashSet::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Expr::Literal(value, None) = part
                    && let Some(zone) = zone(value)
                    && first.entry(value.clone()).or_insert_with(|| zone.clone()) != zone
                {
                    twins.insert(value.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(twins)
}

/// The constant with its zone in its metadata, if it has one and a twin.
fn told(part: Expr, twins: &HashSet<ScalarValue>) -> Transformed<Expr> {
    if let Expr::Literal(value, None) = &part
        && twins.contains(value)
        && let Some(Some(zone)) = zone(value)
    {
        let metadata = BTreeMap::from([(ZONE.to_owned(), zone.to_string())]);
        return Transformed::yes(Expr::Literal(value.clone(), Some(FieldMetadata::new(metadata))));
    }
    Transformed::no(part)
}
