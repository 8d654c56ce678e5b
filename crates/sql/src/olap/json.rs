//! `json_build_object`, which tools describe columns by.

use super::error::external;
use super::value::with_type;
use crate::columns::Cells;
use ankerdb_engine::{DataType as SqlType, Error, SqlState, SystemType, ValueRef};
use ankerdb_value::format_text;
use datafusion::arrow::array::StringViewArray;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::fmt::Write;
use std::sync::Arc;

/// All functions to be registered.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![BuildObject::function(true)]
}

/// This call with a field that does not tell its type; `None` if the field does not anyway.
pub(super) fn without_text_type(call: &ScalarFunction) -> Option<ScalarFunction> {
    let known = call.func.inner().downcast_ref::<BuildObject>()?;
    known.is_told.then(|| ScalarFunction::new_udf(BuildObject::function(false), call.args.clone()))
}

/// Names and values, by turns.
#[derive(Debug, PartialEq, Eq, Hash)]
struct BuildObject {
    /// Whether the field of the result tells its type.
    is_told: bool,
    signature: Signature,
}

impl BuildObject {
    fn function(is_told: bool) -> Arc<ScalarUDF> {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(BuildObject { is_told, signature }))
    }
}

impl ScalarUDFImpl for BuildObject {
    fn name(&self) -> &str {
        "json_build_object"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(self.name(), DataType::Utf8View, true);
        Ok(Arc::new(if self.is_told { with_type(field, SqlType::System(SystemType::Json)) } else { field }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let cells = args
            .args
            .iter()
            .map(|argument| Cells::new(&argument.to_array(args.number_rows)?).map_err(external));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        let object = |row| object(&cells.iter().map(|column| column.value(row)).collect::<Vec<_>>());
        let objects = (0..args.number_rows).map(object).collect::<ankerdb_engine::Result<Vec<_>>>();
        Ok(ColumnarValue::Array(Arc::new(StringViewArray::from_iter_values(objects.map_err(external)?))))
    }
}

fn object(values: &[ValueRef<'_>]) -> ankerdb_engine::Result<String> {
    if values.len() % 2 == 1 {
        let message = "argument list must have even number of elements";
        return Err(Error::new(SqlState::InvalidParameterValue, message)
            .with_hint("The arguments of json_build_object() must consist of alternating keys and values."));
    }
    let mut out = String::from("{");
    for (position, pair) in values.chunks_exact(2).enumerate() {
        if pair[0].is_null() {
            let message = format!("argument {} cannot be null", position * 2 + 1);
            return Err(Error::new(SqlState::InvalidParameterValue, message));
        }
        if position > 0 {
            out.push_str(", ");
        }
        let mut name = String::new();
        format_text(pair[0], SqlType::Text, &mut name);
        push_string(&name, &mut out);
        out.push_str(" : ");
        push_value(pair[1], &mut out);
    }
    out.push('}');
    Ok(out)
}

fn push_value(value: ValueRef<'_>, out: &mut String) {
    match value {
        ValueRef::Null => out.push_str("null"),
        ValueRef::Boolean(value) => out.push_str(if value { "true" } else { "false" }),
        ValueRef::SmallInt(_) | ValueRef::Integer(_) | ValueRef::BigInt(_) | ValueRef::Numeric(_) => {
            format_text(value, SqlType::Text, out)
        }
        other => {
            let mut text = String::new();
            format_text(other, SqlType::Text, &mut text);
            let is_number = matches!(other, ValueRef::Real(_) | ValueRef::Double(_))
                && text.parse::<f64>().is_ok_and(f64::is_finite);
            if is_number { out.push_str(&text) } else { push_string(&text, out) }
        }
    }
}

fn push_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => write!(out, "\\u{:04x}", u32::from(c)).expect("a string accepts everything"),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_written_as_postgresql_writes_them() {
        let values = [
            ValueRef::Text("a\"b"),
            ValueRef::Integer(1),
            ValueRef::Text("c"),
            ValueRef::Null,
            ValueRef::Text("d"),
            ValueRef::Text("x\ny"),
            ValueRef::Text("e"),
            ValueRef::Boolean(true),
        ];
        assert_eq!(object(&values).unwrap(), r#"{"a\"b" : 1, "c" : null, "d" : "x\ny", "e" : true}"#);
        assert!(object(&values[..3]).is_err());
        assert!(object(&[ValueRef::Null, ValueRef::Null]).is_err());
    }
}
