//! Functions and operators that there are not.
//!
//! PostgreSQL says which arguments it was called with, and these have their types only when the plan is typed. So a call of an unknown
//! function goes through DataFusion's planner as one of a function that takes anything, and is refused behind it.

use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// In front of the symbol of an operator that there is not.
pub(super) const OPERATOR: &str = "operator ";

pub(super) fn named(name: &str) -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Unknown { name: name.to_owned(), signature }))
}

/// Whether there is no such function.
pub(super) fn is_one(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<Unknown>().is_some()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Unknown {
    name: String,
    signature: Signature,
}

impl ScalarUDFImpl for Unknown {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[ArrowType]) -> Result<Vec<ArrowType>> {
        Ok(arguments.to_vec())
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        // Which goes everywhere, into conditions too.
        Ok(ArrowType::Null)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{} does not exist", self.name)
    }
}
