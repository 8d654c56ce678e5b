//! Generic plans: operators for any values of a statement's parameters (`docs/design/reused-plans.md`).
//!
//! A statement is optimized with its parameters in it, and planned with calls ([`Parameter`]) in their places, which say what the first values are: so
//! the planner knows how many rows pass a filter. No call is ever evaluated: each run gets a copy of the operators with its own values as constants
//! ([`with_values`]), and all that is done to operators for one run, such as compiling them, sees constants.
//!
//! Such a plan is as good as one for the values only where these decide nothing but which rows pass: so each parameter has to be an operand
//! beside a column (`amount > $1 * 2`). Of `$1 IS NULL OR a.id = b.id` the value may leave nothing, or a join. How many rows pass is looked at
//! again for the values of each run (`guessed_bounds`).

use datafusion::arrow::datatypes::{DataType as ArrowType, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result as Planned;
use datafusion::logical_expr::expr::{Between, InList, Like, Placeholder, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::physical_expr::expressions::{InListExpr, Literal, in_list};
use datafusion::physical_expr::simplifier::PhysicalExprSimplifier;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::native_like;
use super::parameter::position;

/// As many comparisons by OR become a list; fewer are as fast as they are.
const LISTED_MIN: usize = 4;

/// What a generic plan knows of its parameters.
#[derive(Debug)]
pub(super) struct GenericParameters {
    types: Box<[ArrowType]>,
    /// The values that the plan is made for.
    values: Box<[ScalarValue]>,
}

impl GenericParameters {
    /// The values in the types that the plan has for them. `None` if one has another.
    pub(super) fn fitted(&self, values: &[ScalarValue]) -> Option<Vec<ScalarValue>> {
        fitted(&self.types, values)
    }
}

#[cfg(test)]
impl GenericParameters {
    pub(super) fn first_values(&self) -> &[ScalarValue] {
        &self.values
    }
}

/// Whether values of parameters decide nothing but which rows pass, and what is computed of them.
pub(super) fn is_generic(plan: &LogicalPlan) -> Planned<bool> {
    let mut is_generic = true;
    plan.apply_with_subqueries(|node| {
        let is_plain = match node {
            LogicalPlan::Filter(_) | LogicalPlan::Projection(_) => true,
            LogicalPlan::Aggregate(aggregate) => {
                !aggregate.group_expr.iter().any(|group| has_parameter(group).unwrap_or(true))
            }
            LogicalPlan::Join(join) => !join.on.is_empty(),
            _ => false,
        };
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

/// The optimized plan with calls in place of parameters, which have these values first. `None` if values may decide more than which rows pass, or one was
/// planned with another type than its value has.
pub(super) fn reading(
    plan: LogicalPlan,
    values: &[ScalarValue],
) -> Planned<Option<(LogicalPlan, Arc<GenericParameters>)>> {
    if !is_generic(&plan)? {
        return Ok(None);
    }
    let Some(types) = types(&plan, values)? else { return Ok(None) };
    let Some(values) = fitted(&types, values) else { return Ok(None) };
    let parameters = Arc::new(GenericParameters { types, values: values.into() });
    let read = native_like::of_parameters(with_lists(plan)?)?.transform_up_with_subqueries(|node| {
        node.map_expressions(|expression| {
            expression.transform_up(|part| match part {
                Expr::Placeholder(Placeholder { id, .. }) => {
                    Ok(Transformed::yes(Parameter::call(position(&id)?, &parameters)))
                }
                other => Ok(Transformed::no(other)),
            })
        })
    })?;
    Ok(Some((read.data, parameters)))
}

/// The optimized plan with `x IN ($1, $2, ...)` in place of `x = $1 OR x = $2 OR ...`: lists of parameters have become such comparisons while it was
/// optimized (`exact_lists`).
fn with_lists(plan: LogicalPlan) -> Planned<LogicalPlan> {
    let listed = plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expression| {
            let name = names.save(&expression);
            let listed = expression.transform_down(|part| match equal_to_one_of(&part) {
                Some(list) => Ok(Transformed::yes(Expr::InList(list))),
                None => Ok(Transformed::no(part)),
            })?;
            Ok(listed.update_data(|expression| name.restore(expression)))
        })
    })?;
    Ok(listed.data)
}

/// The list, if an expression compares one operand with several that have no columns.
fn equal_to_one_of(expression: &Expr) -> Option<InList> {
    let (mut operand, mut list, mut open) = (None, Vec::new(), vec![expression]);
    while let Some(part) = open.pop() {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = part else { return None };
        match op {
            Operator::Or => open.extend([left.as_ref(), right.as_ref()]),
            Operator::Eq if !right.any_column_refs() && *operand.get_or_insert(left) == left => {
                list.push(right.as_ref().clone());
            }
            _ => return None,
        }
    }
    let operand = operand.filter(|_| list.len() >= LISTED_MIN)?;
    Some(InList { expr: operand.clone(), list, negated: false })
}

/// The types that a plan has for its parameters; those of the values where it does not use one. `None` if it has two for one.
fn types(plan: &LogicalPlan, values: &[ScalarValue]) -> Planned<Option<Box<[ArrowType]>>> {
    let mut types: Box<[ArrowType]> = values.iter().map(ScalarValue::data_type).collect();
    let mut told = vec![false; types.len()];
    let mut is_one = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Expr::Placeholder(Placeholder { id, field }) = part {
                    let position = position(id)?;
                    match (field, types.get_mut(position)) {
                        (Some(field), Some(known)) => {
                            is_one &= !told[position] || known == field.data_type();
                            (told[position], *known) = (true, field.data_type().clone());
                        }
                        _ => is_one = false,
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(is_one.then_some(types))
}

/// The values in these types: a numeric has as many digits as it needs, which may be fewer than a type has, but not behind the point.
fn fitted(types: &[ArrowType], values: &[ScalarValue]) -> Option<Vec<ScalarValue>> {
    let fitted = |(told, value): (&ArrowType, &ScalarValue)| match (told, value) {
        (ArrowType::Decimal128(precision, scale), ScalarValue::Decimal128(digits, known, own))
            if own == scale && known <= precision =>
        {
            Some(ScalarValue::Decimal128(*digits, *precision, *scale))
        }
        _ => (*told == value.data_type()).then(|| value.clone()),
    };
    (types.len() == values.len()).then(|| types.iter().zip(values).map(fitted).collect()).flatten()
}

/// The expression with values in place of its parameters, and computed as far as these tell. `None` if it has none.
pub(super) fn with_values(
    expression: &Arc<dyn PhysicalExpr>,
    values: &[ScalarValue],
    schema: &Schema,
) -> Planned<Option<Arc<dyn PhysicalExpr>>> {
    filled(expression, schema, |parameter| values[parameter.position].clone())
}

/// The expression with the values that its plan is made for in place of its parameters. `None` if it has none.
pub(super) fn with_first_values(
    expression: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> Planned<Option<Arc<dyn PhysicalExpr>>> {
    filled(expression, schema, |parameter| parameter.parameters.values[parameter.position].clone())
}

fn filled(
    expression: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    value: impl Fn(&Parameter) -> ScalarValue,
) -> Planned<Option<Arc<dyn PhysicalExpr>>> {
    if !reads_parameter(expression) {
        return Ok(None);
    }
    let filled = expression.clone().transform_up(|part| {
        if let Some(parameter) = parameter(&part) {
            return Ok(Transformed::yes(Arc::new(Literal::new(value(parameter))) as _));
        }
        // A list of constants is looked up as a set, which is made with the list.
        match part.downcast_ref::<InListExpr>() {
            Some(list) if list.list().iter().all(|item| item.is::<Literal>()) => {
                let set = in_list(list.expr().clone(), list.list().to_vec(), &list.negated(), schema)?;
                Ok(Transformed::yes(set))
            }
            _ => Ok(Transformed::no(part)),
        }
    })?;
    PhysicalExprSimplifier::new(schema).simplify(filled.data).map(Some)
}

/// Whether the expression has a parameter in it.
pub(super) fn reads_parameter(expression: &Arc<dyn PhysicalExpr>) -> bool {
    expression.exists(|part| Ok(parameter(part).is_some())).is_ok_and(|reads| reads)
}

fn parameter(expression: &Arc<dyn PhysicalExpr>) -> Option<&Parameter> {
    expression.downcast_ref::<ScalarFunctionExpr>()?.fun().inner().downcast_ref::<Parameter>()
}

/// Stands for a parameter until a run has a value for it.
#[derive(Debug)]
struct Parameter {
    position: usize,
    /// As a parameter is written: what is computed of it keeps its name.
    name: String,
    parameters: Arc<GenericParameters>,
    signature: Signature,
}

impl Parameter {
    fn call(position: usize, parameters: &Arc<GenericParameters>) -> Expr {
        // It is what it is during a run. The plan is optimized already, so no rule computes it.
        let signature = Signature::nullary(Volatility::Stable);
        let (name, parameters) = (format!("${}", position + 1), parameters.clone());
        let function = ScalarUDF::new_from_impl(Parameter { position, name, parameters, signature });
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), Vec::new()))
    }
}

impl PartialEq for Parameter {
    fn eq(&self, other: &Parameter) -> bool {
        self.position == other.position && Arc::ptr_eq(&self.parameters, &other.parameters)
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
        &self.name
    }

    fn schema_name(&self, _arguments: &[Expr]) -> Planned<String> {
        Ok(self.name.clone())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[ArrowType]) -> Planned<ArrowType> {
        Ok(self.parameters.types[self.position].clone())
    }

    fn invoke_with_args(&self, _arguments: ScalarFunctionArgs) -> Planned<ColumnarValue> {
        internal_err!("parameter {} has no value yet", self.name)
    }
}
