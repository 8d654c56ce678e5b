//! Scalar functions of our own that drivers and tools ask a PostgreSQL server for when they connect. (Arithmetic is in
//! `checked.rs`, what the OLTP path computes in `computed.rs`.)

use crate::version::VERSION;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Functions without arguments that give the same text in every query.
const CONSTANTS: &[(&str, &str)] = &[
    ("version", VERSION),
    ("current_database", "ankerdb"),
    ("current_catalog", "ankerdb"),
    ("current_user", "ankerdb"),
    ("session_user", "ankerdb"),
];

/// Functions of DataFusion's that PostgreSQL does not have. Queries cannot call them: a name means what it means in PostgreSQL,
/// or nothing.
const FOREIGN: &[&str] = &[
    "any_match",
    "any_value",
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "array_add",
    "array_any_match",
    "array_any_value",
    "array_avg",
    "array_compact",
    "array_concat",
    "array_contains",
    "array_distance",
    "array_distinct",
    "array_element",
    "array_empty",
    "array_except",
    "array_extract",
    "array_filter",
    "array_first",
    "array_has",
    "array_has_all",
    "array_has_any",
    "array_indexof",
    "array_intersect",
    "array_join",
    "array_max",
    "array_min",
    "array_normalize",
    "array_pop_back",
    "array_pop_front",
    "array_product",
    "array_push_back",
    "array_push_front",
    "array_remove_all",
    "array_remove_n",
    "array_repeat",
    "array_replace_all",
    "array_replace_n",
    "array_resize",
    "array_reverse",
    "array_scale",
    "array_slice",
    "array_sort",
    "array_subtract",
    "array_sum",
    "array_transform",
    "array_union",
    "arrays_overlap",
    "arrays_zip",
    "arrow_cast",
    "arrow_field",
    "arrow_metadata",
    "arrow_try_cast",
    "arrow_typeof",
    "cast_to_type",
    "contains",
    "cosine_distance",
    "covar",
    "datepart",
    "datetrunc",
    "date_format",
    "digest",
    "dot_product",
    "element_at",
    "empty",
    "ends_with",
    "file_row_index",
    "find_in_set",
    "flatten",
    "from_unixtime",
    "get_field",
    "ifnull",
    "inner_product",
    "input_file_name",
    "instr",
    "isnan",
    "iszero",
    "levenshtein",
    "log2",
    "make_array",
    "make_list",
    "make_time",
    "map",
    "map_entries",
    "map_extract",
    "map_keys",
    "map_values",
    "mean",
    "median",
    "named_struct",
    "nanvl",
    "nvl",
    "nvl2",
    "quantile_cont",
    "rand",
    "range",
    "signum",
    "string_to_list",
    "struct",
    "substr_index",
    "substring_index",
    "to_local_time",
    "to_time",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_nanos",
    "to_timestamp_seconds",
    "to_unixtime",
    "today",
    "try_cast_to_type",
    "union_extract",
    "union_tag",
    "uuid",
    "var",
    "var_population",
    "var_sample",
    "with_metadata",
];

/// Whether queries can call a function of this name, if DataFusion has one.
pub(super) fn is_postgres(name: &str) -> bool {
    !FOREIGN.contains(&name) && !name.starts_with("list_")
}

/// All functions to be registered.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let constants = CONSTANTS.iter().map(|&(name, text)| {
        let signature = Signature::exact(Vec::new(), Volatility::Immutable);
        ScalarUDF::new_from_impl(Constant { name, text, signature })
    });
    constants.map(Arc::new).collect()
}

/// A fixed text.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Constant {
    name: &'static str,
    text: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Constant {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(self.text.to_owned()))))
    }
}
