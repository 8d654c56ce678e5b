//! What EXPLAIN says of aggregates that are not compiled.

use super::expressed;
use crate::compiler_mode::CompilerMode;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};

/// Why the operator is not compiled, if it is one that others of its kind are.
pub(crate) fn why_not(operator: &dyn ExecutionPlan, mode: CompilerMode) -> Option<String> {
    let aggregate = operator.downcast_ref::<AggregateExec>()?;
    if aggregate.mode().input_mode() != AggregateInputMode::Raw {
        return None;
    }
    expressed(aggregate, mode).err().map(|reason| reason.0)
}
