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
    ("current_schema", "public"),
    ("current_user", "ankerdb"),
    ("session_user", "ankerdb"),
];

/// All functions to be registered.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let constants = CONSTANTS.iter().map(|&(name, text)| {
        let signature = Signature::exact(Vec::new(), Volatility::Immutable);
        ScalarUDF::new_from_impl(Constant { name, text: Some(text), signature })
    });
    let pid = Constant {
        name: "pg_backend_pid",
        text: None,
        signature: Signature::exact(Vec::new(), Volatility::Immutable),
    };
    constants.chain([ScalarUDF::new_from_impl(pid)]).map(Arc::new).collect()
}

/// A fixed text, or, without one, the number of this process.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Constant {
    name: &'static str,
    text: Option<&'static str>,
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
        Ok(if self.text.is_some() { DataType::Utf8View } else { DataType::Int32 })
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(match self.text {
            Some(text) => ScalarValue::Utf8View(Some(text.to_owned())),
            None => ScalarValue::Int32(Some(std::process::id() as i32)),
        }))
    }
}
