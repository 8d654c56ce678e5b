//! Takes the text types out of a plan's fields when everything is typed.
//!
//! A field's text type is needed for binding, and for the columns of the result. DataFusion compares fields as a whole in
//! some places while it optimizes and plans, and not all of its rewritten expressions keep the text type.

use super::super::computed;
use super::super::scan::TableHandle;
use super::super::single;
use super::super::step::StepHandle;
use super::super::system::{self, SystemTable};
use super::recursive::work_table;
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::collections::HashMap;
use std::sync::Arc;

/// The plan without text types.
pub(in crate::olap) fn without_text_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !tells(&plan)? {
        return Ok(plan);
    }
    let shed = plan.transform_up_with_subqueries(|node| {
        let node = match node {
            LogicalPlan::TableScan(mut scan) => {
                let provider = source_as_provider(&scan.source)?;
                if let Some(handle) = provider.downcast_ref::<TableHandle>() {
                    scan.source = provider_as_source(Arc::new(handle.without_text_types()));
                }
                if let Some(handle) = provider.downcast_ref::<StepHandle>() {
                    scan.source = provider_as_source(Arc::new(handle.without_text_types()));
                }
                if let Some(system) = provider.downcast_ref::<SystemTable>() {
                    scan.source = provider_as_source(Arc::new(system.without_text_types()));
                }
                if let Some(name) = work_table(&scan) {
                    let fields = scan.source.schema().fields().iter().map(shed_field).collect::<Vec<_>>();
                    let shed = CteWorkTable::new(&name, Arc::new(Schema::new(fields)));
                    scan.source = provider_as_source(Arc::new(shed));
                }
                scan.projected_schema = shed_schema(&scan.projected_schema)?;
                return Ok(Transformed::yes(LogicalPlan::TableScan(scan)));
            }
            LogicalPlan::Union(mut union) => {
                union.schema = shed_schema(&union.schema)?;
                LogicalPlan::Union(union)
            }
            other => other,
        };
        let node = node.map_expressions(|expression| expression.transform_up(shed_expression))?.data;
        Ok(Transformed::yes(node.recompute_schema()?))
    })?;
    Ok(shed.data)
}

/// Whether any field tells something.
fn tells(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= node.schema().fields().iter().any(|field| !field.metadata().is_empty());
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn shed_schema(schema: &DFSchemaRef) -> Result<DFSchemaRef> {
    let fields = schema.iter().map(|(qualifier, field)| (qualifier.cloned(), shed_field(field))).collect();
    let shed = DFSchema::new_with_metadata(fields, HashMap::new())?;
    Ok(Arc::new(shed.with_functional_dependencies(schema.functional_dependencies().clone())?))
}

fn shed_field(field: &Arc<Field>) -> Arc<Field> {
    match field.metadata().is_empty() {
        true => field.clone(),
        false => Arc::new(field.as_ref().clone().with_metadata(HashMap::new())),
    }
}

fn shed_expression(part: Expr) -> Result<Transformed<Expr>> {
    Ok(match part {
        Expr::Literal(value, Some(_)) => Transformed::yes(Expr::Literal(value, None)),
        Expr::OuterReferenceColumn(field, column) if !field.metadata().is_empty() => {
            Transformed::yes(Expr::OuterReferenceColumn(shed_field(&field), column))
        }
        Expr::Cast(Cast { expr, field }) if !field.metadata().is_empty() => {
            Transformed::yes(Expr::Cast(Cast::new_from_field(expr, shed_field(&field))))
        }
        Expr::ScalarFunction(call) => {
            let shed = computed::without_text_type(&call).or_else(|| single::without_text_type(&call));
            let shed = shed.or_else(|| system::without_text_type(&call));
            match shed {
                Some(shed) => Transformed::yes(Expr::ScalarFunction(shed)),
                None => Transformed::no(Expr::ScalarFunction(call)),
            }
        }
        other => Transformed::no(other),
    })
}
