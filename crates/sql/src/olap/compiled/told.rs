//! What EXPLAIN says of aggregates that are not compiled.

use super::lower::lower;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};

/// Why the operator is not compiled, if it is one that others of its kind are.
pub(crate) fn why_not(operator: &dyn ExecutionPlan) -> Option<String> {
    let aggregate = operator.downcast_ref::<AggregateExec>()?;
    if aggregate.mode().input_mode() != AggregateInputMode::Raw {
        return None;
    }
    lower(aggregate).err().map(|reason| reason.0)
}
