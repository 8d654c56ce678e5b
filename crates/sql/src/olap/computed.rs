//! Scalar operations as functions of DataFusion's: by a kernel where there is one, value by value elsewhere.

use super::arrow::computed_type;
use super::kernel;
use super::native_like;
use super::operation::{Operation, by_value};
use super::value::{is_told, with_type};
use crate::expression::{Function, NoSequences, Sequences, fold};
use crate::rows::RunEnd;
use ankerdb_engine::DataType;
use ankerdb_value::Clocks;
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The operation's call. `result`: the type of what it gives.
pub(super) fn call(operation: Operation, arguments: Vec<Expr>, result: DataType) -> Expr {
    Expr::ScalarFunction(Computed::new(operation, result, true).call(arguments))
}

/// What the call computes; `None` if it is one of another function.
pub(super) fn operation(call: &ScalarFunction) -> Option<&Operation> {
    call.func.inner().downcast_ref::<Computed>().map(|computed| &computed.operation)
}

/// This call with a field that does not tell its text type; `None` if the field does not anyway.
pub(super) fn without_text_type(call: &ScalarFunction) -> Option<ScalarFunction> {
    let computed = call.func.inner().downcast_ref::<Computed>()?;
    let is_told = computed.is_told && is_told(computed.result);
    let plain =
        Computed { zone: computed.zone, ..Computed::new(computed.operation.clone(), computed.result, false) };
    is_told.then(|| plain.call(call.args.clone()))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Computed {
    operation: Operation,
    result: DataType,
    /// Whether the field of the result tells which text type it is.
    is_told: bool,
    name: String,
    signature: Signature,
    run: Run,
    /// The time zone that it was planned for.
    zone: InZone,
}

/// The run that the call is a part of, if it may take long, which ends with that, or asks the session. Calls do not differ
/// by it.
#[derive(Default)]
struct Run {
    end: Option<RunEnd>,
    sequences: Option<Arc<dyn Sequences>>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("end", &self.end).finish_non_exhaustive()
    }
}

impl PartialEq for Run {
    fn eq(&self, _: &Run) -> bool {
        true
    }
}

impl Eq for Run {}

impl Hash for Run {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// The clocks by which a call computes. A plan has one for all of its calls, so that they do not differ by it.
#[derive(Debug, Clone, Copy)]
pub(super) struct InZone(Clocks);

impl InZone {
    pub(super) fn current() -> InZone {
        InZone(Clocks::current())
    }

    /// Does work by them.
    pub(super) fn within<T>(self, work: impl FnOnce() -> T) -> T {
        self.0.within(work)
    }
}

impl PartialEq for InZone {
    fn eq(&self, _: &InZone) -> bool {
        true
    }
}

impl Eq for InZone {}

impl Hash for InZone {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// Whether there are calls in the plan that may take long for a single row, or ask the session.
pub(super) fn asks_run(plan: &LogicalPlan) -> Result<bool> {
    has_part(plan, |part| asking_call(part).is_some())
}

/// Whether there are such calls in the plan besides those of LIKE that are none once parameters have values.
pub(super) fn asks_run_always(plan: &LogicalPlan) -> Result<bool> {
    has_part(plan, |part| asking_call(part).is_some() && !native_like::is_of_parameters(part))
}

fn has_part(plan: &LogicalPlan, is_meant: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                found |= is_meant(part);
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(found)
}

/// The plan, for one run: calls that may take long end with it, and it counts by these sequences.
pub(super) fn of_run(
    plan: LogicalPlan,
    end: &RunEnd,
    sequences: Option<Arc<dyn Sequences>>,
) -> Result<LogicalPlan> {
    let of_run = |part: Expr| {
        Ok(match asking_call(&part) {
            Some((computed, arguments)) => {
                let Computed { operation, result, is_told, zone, .. } = computed;
                let mut computed = Computed::new(operation.clone(), *result, *is_told);
                computed.zone = *zone;
                computed.run = Run { end: Some(end.clone()), sequences: sequences.clone() };
                Transformed::yes(Expr::ScalarFunction(computed.call(arguments.to_vec())))
            }
            None => Transformed::no(part),
        })
    };
    let bound = plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expression| expression.transform_up(of_run))
    })?;
    Ok(bound.data)
}

/// The call, if it is one of a sequence: of which, if that is told by a constant, and whether it draws the next number.
pub(super) fn sequence_call(expression: &Expr) -> Option<(Option<&str>, bool)> {
    let (computed, arguments) =
        asking_call(expression).filter(|(call, _)| call.operation.is_of_sequence())?;
    let name = match arguments.first() {
        Some(Expr::Literal(name, _)) => name.try_as_str().flatten(),
        _ => None,
    };
    Some((name, matches!(computed.operation, Operation::Call(Function::NextValue))))
}

/// Whether an expression asks for numbers of sequences, or the session for anything else.
pub(super) fn counts(expression: &Expr) -> Result<bool> {
    expression
        .exists(|part| Ok(asking_call(part).is_some_and(|(computed, _)| computed.operation.asks_session())))
}

/// Whether an expression calls a function of the session that is not one of sequences.
pub(super) fn calls_session(expression: &Expr) -> Result<bool> {
    expression.exists(|part| {
        let is_meant = |(computed, _): (&Computed, &[Expr])| {
            computed.operation.asks_session() && !computed.operation.is_of_sequence()
        };
        Ok(asking_call(part).is_some_and(is_meant))
    })
}

fn asking_call(expression: &Expr) -> Option<(&Computed, &[Expr])> {
    let Expr::ScalarFunction(call) = expression else { return None };
    let computed = call.func.inner().downcast_ref::<Computed>()?;
    let asks = computed.operation.may_take_long() || computed.operation.asks_session();
    asks.then_some((computed, call.args.as_slice()))
}

impl Computed {
    fn new(operation: Operation, result: DataType, is_told: bool) -> Computed {
        let volatility = if operation.is_volatile() { Volatility::Volatile } else { Volatility::Immutable };
        let (name, signature) = (operation.name(), Signature::user_defined(volatility));
        let zone = InZone::current();
        Computed { operation, result, is_told, name, signature, run: Run::default(), zone }
    }

    fn call(self, arguments: Vec<Expr>) -> ScalarFunction {
        ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(self)), arguments)
    }
}

impl ScalarUDFImpl for Computed {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[ArrowType]) -> Result<Vec<ArrowType>> {
        Ok(arguments.to_vec())
    }

    fn return_type(&self, _arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(computed_type(self.result))
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(&self.name, computed_type(self.result), true);
        Ok(Arc::new(if self.is_told { with_type(field, self.result) } else { field }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let planning = || fold::interrupt();
        let interrupt = self.run.end.as_ref().map_or_else(planning, |end| end.interrupt().clone());
        let sequences = self.run.sequences.as_deref().unwrap_or(&NoSequences);
        let (operation, arguments, rows) = (&self.operation, &args.args, args.number_rows);
        self.zone.within(|| match kernel::compute(operation, arguments, rows, self.result, &interrupt) {
            Some(array) => Ok(ColumnarValue::Array(array)),
            None => by_value(operation, arguments, rows, self.result, (&interrupt, sequences)),
        })
    }
}
