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

/// Functions of the library that have PostgreSQL's names and mean something else: their formats are those of `strftime`, so that
/// statements written for PostgreSQL would get wrong texts and times without an error.
const MISNAMED: &[&str] = &["to_char", "to_date", "to_timestamp"];

/// Whether a function of the library can be called here.
pub(crate) fn is_kept(name: &str) -> bool {
    !MISNAMED.contains(&name)
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
