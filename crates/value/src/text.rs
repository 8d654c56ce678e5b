//! PostgreSQL's text forms.
use crate::{DataType, Value};
use ankerdb_base::Result;

/// Reads a literal of the type.
pub fn parse_text(_data_type: DataType, _text: &str) -> Result<Value> {
    unimplemented!()
}

/// Appends the value as PostgreSQL writes it (`char(n)` padded with blanks). NULL appends nothing.
pub fn format_text(_value: &Value, _data_type: DataType, _out: &mut String) {
    unimplemented!()
}

/// The type with this SQL name (`int4`, `integer`, `varchar`, `numeric` ...) and these modifiers.
pub fn type_by_name(_name: &str, _modifiers: &[u32]) -> Result<DataType> {
    unimplemented!()
}
