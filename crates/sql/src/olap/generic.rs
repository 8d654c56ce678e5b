//! Generic plans: operators for any values of a statement's parameters, over tables so small that planning takes longer than reading
//! (`docs/design/reused-plans.md`).
//!
//! Usually parameters are filled in before a plan is optimized, which then knows how many rows a filter keeps. A generic plan reads them from
//! [`ParameterCells`] when it runs. It is as good only where a value decides nothing but which rows pass: so each parameter has to be an operand
//! beside a column (`amount > $1 * 2`). Of `$1 IS NULL OR a.id = b.id` the value may leave nothing, or a join. A projection below a filter
//! that computes once what stands twice in it would hide what is beside a parameter, so plans are optimized without ([`rules`]).

use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as Planned;
use datafusion::logical_expr::expr::{Between, InList, Like, Placeholder, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::optimizer::OptimizerRule;
use parking_lot::RwLock;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::distinct;
use super::parameter::position;

/// Tables of more rows, all together, are worth a plan for the values.
pub(super) const ROWS_MAX: usize = 1 << 16;

/// The parameters' values of the run that a plan belongs to now.
#[derive(Debug)]
pub(super) struct ParameterCells {
    types: Box<[ArrowType]>,
    values: RwLock<Arc<[ScalarValue]>>,
}

impl ParameterCells {
    pub(super) fn new(values: Vec<ScalarValue>) -> ParameterCells {
        let types = values.iter().map(ScalarValue::data_type).collect();
        ParameterCells { types, values: RwLock::new(values.into()) }
    }

    /// Whether a plan that reads these cells can run with the values.
    pub(super) fn can_hold(&self, values: &[ScalarValue]) -> bool {
        self.types.len() == values.len()
            && self.types.iter().zip(values).all(|(told, value)| *told == value.data_type())
    }

    /// For the next run, once no other goes on.
    pub(super) fn set(&self, values: Vec<ScalarValue>) {
        *self.values.write() = values.into();
    }
}

/// The rules by which generic plans are optimized.
pub(super) fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let hides =
        |rule: &Arc<dyn OptimizerRule + Send + Sync>| rule.name() == "common_sub_expression_eliminate";
    distinct::rules().into_iter().filter(|rule| !hides(rule)).collect()
}

fn is_generic(plan: &LogicalPlan) -> Planned<bool> {
    let mut is_generic = true;
    plan.apply_with_subqueries(|node| {
        let is_plain = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Projection(_));
        node.apply_expressions(|expression| {
            is_generic &= !has_parameter(expression)? || is_plain && is_beside_columns(expression)?;
            Ok(if is_generic { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })
    })?;
    Ok(is_generic)
}

/// Whether each parameter is an operand, or in one, of an operator or function that has another with a column.
fn is_beside_columns(expression: &Expr) -> Planned<bool> {
    let operands: Vec<&Expr> = match expression {
        Expr::Placeholder(_) => return Ok(false),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if !matches!(op, Operator::And | Operator::Or) => {
            vec![left, right]
        }
        Expr::Between(Between { expr, low, high, .. }) => vec![expr, low, high],
        Expr::Like(Like { expr, pattern, .. }) => vec![expr, pattern],
        Expr::InList(InList { expr, list, .. }) => std::iter::once(expr.as_ref()).chain(list).collect(),
        Expr::ScalarFunction(call) => call.args.iter().collect(),
        _ => Vec::new(),
    };
    let has_column = operands.iter().any(|operand| operand.any_column_refs());
    let mut is_beside = true;
    expression.apply_children(|part| {
        is_beside &= has_column && !part.any_column_refs() || is_beside_columns(part)?;
        Ok(if is_beside { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_beside)
}

fn has_parameter(expression: &Expr) -> Planned<bool> {
    expression.exists(|part| Ok(matches!(part, Expr::Placeholder(_))))
}

/// The optimized plan with calls in place of parameters. `None` if their values may decide more than which rows pass, or one was planned
/// with another type than its value has.
pub(super) fn reading(plan: &LogicalPlan, cells: &Arc<ParameterCells>) -> Planned<Option<LogicalPlan>> {
    if !is_generic(plan)? {
        return Ok(None);
    }
    let mut is_told_alike = true;
    let read = plan.clone().transform_up_with_subqueries(|node| {
        node.map_expressions(|expression| {
            expression.transform_up(|part| match part {
                Expr::Placeholder(Placeholder { id, field }) => {
                    let position = position(&id)?;
                    let told = field.as_ref().map(|field| field.data_type());
                    is_told_alike &= told.is_some() && told == cells.types.get(position);
                    Ok(Transformed::yes(Parameter::call(position, cells)))
                }
                other => Ok(Transformed::no(other)),
            })
        })
    })?;
    Ok(is_told_alike.then_some(read.data))
}

/// Gives a parameter's value.
#[derive(Debug)]
struct Parameter {
    position: usize,
    cells: Arc<ParameterCells>,
    signature: Signature,
}

impl Parameter {
    fn call(position: usize, cells: &Arc<ParameterCells>) -> Expr {
        // So that no rule computes it while planning. The plan is optimized already.
        let signature = Signature::nullary(Volatility::Volatile);
        let function = ScalarUDF::new_from_impl(Parameter { position, cells: cells.clone(), signature });
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), Vec::new()))
    }
}

impl PartialEq for Parameter {
    fn eq(&self, other: &Parameter) -> bool {
        self.position == other.position && Arc::ptr_eq(&self.cells, &other.cells)
    }
}

impl Eq for Parameter {}

impl Hash for Parameter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.position.hash(state);
    }
}

impl ScalarUDFImpl for Parameter {
    fn name(&self) -> &str {
        "parameter"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[ArrowType]) -> Planned<ArrowType> {
        Ok(self.cells.types[self.position].clone())
    }

    fn invoke_with_args(&self, _arguments: ScalarFunctionArgs) -> Planned<ColumnarValue> {
        let values = self.cells.values.read().clone();
        Ok(ColumnarValue::Scalar(values[self.position].clone()))
    }
}
