//! Lets aggregates read numerics as they are stored.
//!
//! Plans are made over wide numerics (`arrow.rs` says why), and a scan widens a narrow column batch by batch.
//! Where the only readers of such a column are `sum` and `avg` of the aggregate right above the scan, this rule
//! switches the column to its stored form: no copy, and a quarter of the bytes for the aggregate to read. Results do not change: our aggregates give the same
//! result type and state for both forms.

use super::aggregate::reads_narrow;
use super::scan::ScanExec;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use std::collections::HashSet;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(crate) struct NarrowNumerics;

impl PhysicalOptimizerRule for NarrowNumerics {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let narrowed = plan.transform_up(|node| {
            let replacement = match node.downcast_ref::<AggregateExec>() {
                Some(aggregate) if aggregate.mode().input_mode() == AggregateInputMode::Raw => {
                    narrow(aggregate)?
                }
                _ => None,
            };
            Ok(match replacement {
                Some(replacement) => Transformed::yes(replacement),
                None => Transformed::no(node),
            })
        })?;
        Ok(narrowed.data)
    }

    fn name(&self) -> &str {
        "narrow_numerics"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The aggregate over a scan that gives its arguments as stored; `None` where there is nothing to gain.
fn narrow(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(scan) = aggregate.input().downcast_ref::<ScanExec>() else {
        return Ok(None);
    };
    let columns = narrowable(aggregate, scan);
    if columns.is_empty() {
        return Ok(None);
    }
    let scan = Arc::new(scan.narrowed(&columns));
    let schema = scan.schema();
    let functions = aggregate
        .aggr_expr()
        .iter()
        .map(|function| rebuild(function, &schema, &columns))
        .collect::<Result<Vec<_>>>()?;
    let rebuilt = AggregateExec::try_new(
        *aggregate.mode(),
        aggregate.group_expr().clone(),
        functions,
        aggregate.filter_expr().to_vec(),
        scan,
        schema,
    )?;
    Ok(Some(Arc::new(rebuilt.with_limit_options(aggregate.limit_options()))))
}

/// Columns of the scan that only aggregates which read both forms look at, as their whole argument.
fn narrowable(aggregate: &AggregateExec, scan: &ScanExec) -> Vec<usize> {
    let mut wanted = HashSet::new();
    let mut kept_wide = HashSet::new();
    for function in aggregate.aggr_expr() {
        let argument =
            sole_column(function).filter(|_| reads_narrow(function.fun()) && !function.is_distinct());
        match argument {
            Some(column) if scan.is_narrowable(column) => {
                wanted.insert(column);
            }
            _ => note_columns(&function.expressions(), &mut kept_wide),
        }
        function
            .order_bys()
            .iter()
            .for_each(|order| note_columns(std::slice::from_ref(&order.expr), &mut kept_wide));
    }
    note_columns(&aggregate.group_expr().input_exprs(), &mut kept_wide);
    let filters: Vec<_> = aggregate.filter_expr().iter().flatten().cloned().collect();
    note_columns(&filters, &mut kept_wide);
    wanted.difference(&kept_wide).copied().collect()
}

fn note_columns(expressions: &[Arc<dyn PhysicalExpr>], into: &mut HashSet<usize>) {
    for expression in expressions {
        into.extend(collect_columns(expression).iter().map(Column::index));
    }
}

fn sole_column(function: &AggregateFunctionExpr) -> Option<usize> {
    match function.expressions().as_slice() {
        [argument] => argument.downcast_ref::<Column>().map(Column::index),
        _ => None,
    }
}

/// This function over the scan's new schema.
fn rebuild(
    function: &Arc<AggregateFunctionExpr>,
    schema: &SchemaRef,
    columns: &[usize],
) -> Result<Arc<AggregateFunctionExpr>> {
    if !sole_column(function).is_some_and(|column| columns.contains(&column)) {
        return Ok(function.clone());
    }
    let rebuilt = AggregateExprBuilder::new(Arc::new(function.fun().clone()), function.expressions())
        .schema(schema.clone())
        .alias(function.name())
        .with_ignore_nulls(function.ignore_nulls())
        .build()?;
    Ok(Arc::new(rebuilt))
}
