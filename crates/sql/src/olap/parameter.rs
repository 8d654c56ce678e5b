//! Parameters: `$1`, `$2`, ... of prepared statements.
//!
//! A parameter's type is what the client declares, else what the expression around it tells, else text. Values
//! go in as literals of their own types before the plan is optimized, so that they take part in coercion,
//! constant folding and pruning as if they had been written in the query.

use super::arrow::computed_type;
use super::error::from_datafusion;
use super::planner::parameter_type;
use super::value::scalar;
use crate::visit::visit_expressions;
use ankerdb_engine::{DataType, Error, SqlState, Value};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::ParamValues;
use datafusion::common::ScalarValue;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{self, Query};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The most parameters a statement can have, as the protocol counts them in 16 bits.
const MAX_PARAMETERS: usize = 65535;

/// Declared types as the planner wants them.
pub(crate) fn fields(declared: &[Option<DataType>]) -> Vec<Option<FieldRef>> {
    let field = |declared: &Option<DataType>| declared.map(|declared| field_of(computed_type(declared)));
    declared.iter().map(field).collect()
}

fn field_of(data_type: ArrowType) -> FieldRef {
    Arc::new(Field::new("", data_type, true))
}

/// The plan with all its parameters typed, and the types.
pub(crate) fn infer(
    plan: LogicalPlan,
    declared: &[Option<DataType>],
) -> Result<(LogicalPlan, Vec<DataType>)> {
    let mut told: BTreeMap<usize, ArrowType> = BTreeMap::new();
    let mut highest = declared.len();
    plan.apply_with_subqueries(|node| {
        let limit = matches!(node, LogicalPlan::Limit(_));
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                note(part, limit, &mut told, &mut highest)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    if highest == 0 {
        return Ok((plan, Vec::new()));
    }
    let types: Vec<DataType> = (0..highest)
        .map(|position| match declared.get(position).copied().flatten() {
            Some(declared) => declared,
            None => told.get(&position).map_or(DataType::Text, parameter_type),
        })
        .collect();
    Ok((with_types(plan, &types)?, types))
}

/// Notes what this expression tells about parameters' types; the first one wins.
fn note(part: &Expr, limit: bool, told: &mut BTreeMap<usize, ArrowType>, highest: &mut usize) -> Result<()> {
    match part {
        Expr::Placeholder(Placeholder { id, field }) => {
            let position = position(id)?;
            *highest = (*highest).max(position + 1);
            match field {
                Some(field) if *field.data_type() != ArrowType::Null => {
                    told.entry(position).or_insert_with(|| field.data_type().clone());
                }
                _ if limit => {
                    told.entry(position).or_insert(ArrowType::Int64);
                }
                _ => {}
            }
        }
        Expr::Cast(cast) => {
            if let Expr::Placeholder(Placeholder { id, field: None }) = cast.expr.as_ref() {
                told.entry(position(id)?).or_insert_with(|| cast.field.data_type().clone());
            }
        }
        _ => {}
    }
    Ok(())
}

/// The positions of the parameters in a query.
pub(crate) fn used(query: &Query) -> BTreeSet<usize> {
    let mut used = BTreeSet::new();
    let _ = visit_expressions::<()>(query, |expression| {
        if let ast::Expr::Value(value) = expression
            && let ast::Value::Placeholder(id) = &value.value
        {
            used.extend(position(id).ok());
        }
        ControlFlow::Continue(())
    });
    used
}

/// The position in the list of parameters of `$n`, from 0.
pub(crate) fn position(id: &str) -> Result<usize> {
    let number = id.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
    match number {
        Some(number) if (1..=MAX_PARAMETERS).contains(&number) => Ok(number - 1),
        _ => {
            let message = format!("there is no parameter {id}");
            Err(super::error::external(Error::new(SqlState::UndefinedParameter, message)))
        }
    }
}

/// Every placeholder with its type, so that the plan can be checked before there are values.
fn with_types(plan: LogicalPlan, types: &[DataType]) -> Result<LogicalPlan> {
    let typed = plan.transform_up_with_subqueries(|node| {
        let node = node.map_expressions(|expression| {
            expression.transform_up(|part| match part {
                Expr::Placeholder(Placeholder { id, field }) => {
                    let told = types[position(&id)?];
                    let field = match field {
                        Some(known) if *known.data_type() != ArrowType::Null => known,
                        _ => field_of(computed_type(told)),
                    };
                    Ok(Transformed::yes(Expr::Placeholder(Placeholder { id, field: Some(field) })))
                }
                other => Ok(Transformed::no(other)),
            })
        })?;
        node.transform_data(|node| node.recompute_schema().map(Transformed::yes))
    })?;
    Ok(typed.data)
}

/// The plan with values in place of its parameters.
pub(crate) fn fill(
    plan: LogicalPlan,
    values: &[Value],
    types: &[DataType],
) -> ankerdb_engine::Result<LogicalPlan> {
    if types.is_empty() {
        return Ok(plan);
    }
    let literals = scalars(values, types)?.into_iter().map(ScalarAndMetadata::from).collect();
    plan.replace_params_with_values(&ParamValues::List(literals)).map_err(from_datafusion)
}

/// Parameters' values as constants of their types.
pub(crate) fn scalars(values: &[Value], types: &[DataType]) -> ankerdb_engine::Result<Vec<ScalarValue>> {
    if values.len() < types.len() {
        let message =
            format!("bind message supplies {} parameters, but {} are needed", values.len(), types.len());
        return Err(Error::new(SqlState::ProtocolViolation, message));
    }
    let value_of = |(value, &data_type): (&Value, &DataType)| match data_type {
        // What meets a numeric of any length was planned for one.
        DataType::Number => scalar(&ankerdb_value::cast(value.clone(), data_type)?, Some(data_type)),
        _ => scalar(value, Some(data_type)),
    };
    values.iter().zip(types).map(value_of).collect()
}
