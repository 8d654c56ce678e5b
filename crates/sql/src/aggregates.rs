//! The aggregate functions, for those who read a statement before it is bound.

use crate::name::folded;
use datafusion::sql::sqlparser::ast::{Function, ObjectName};

/// Their names. Those that only WITHIN GROUP makes aggregates are not among them.
const AGGREGATES: [&str; 40] = [
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "every",
    "json_agg",
    "json_object_agg",
    "jsonb_agg",
    "jsonb_object_agg",
    "max",
    "min",
    "mode",
    "percentile_cont",
    "percentile_disc",
    "range_agg",
    "range_intersect_agg",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
];

/// Whether it is an aggregate's name.
pub(crate) fn is_aggregate(name: &ObjectName) -> bool {
    let name = name.0.last().and_then(|part| part.as_ident()).map(folded);
    name.is_some_and(|name| AGGREGATES.contains(&name.as_str()))
}

/// Whether it is a call of an aggregate over the rows of its query.
pub(crate) fn aggregates(call: &Function) -> bool {
    call.over.is_none()
        && (call.filter.is_some() || !call.within_group.is_empty() || is_aggregate(&call.name))
}
