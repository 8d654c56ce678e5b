//! Order-preserving keys.
use crate::{DataType, Value};
use ankerdb_base::Result;

/// Appends the key columns; `columns` gives each one's type and whether it may be NULL.
pub fn encode_key(_values: &[Value], _columns: &[(DataType, bool)], _out: &mut Vec<u8>) -> Result<()> {
    unimplemented!()
}
/// Appends one key column.
pub fn push_value(_out: &mut Vec<u8>, _value: &Value, _data_type: DataType, _nullable: bool) -> Result<()> {
    unimplemented!()
}
/// Appends a `smallint NOT NULL`.
pub fn push_smallint(_out: &mut Vec<u8>, _value: i16) {
    unimplemented!()
}
/// Appends an `integer NOT NULL`.
pub fn push_integer(_out: &mut Vec<u8>, _value: i32) {
    unimplemented!()
}
/// Appends a `bigint NOT NULL`.
pub fn push_bigint(_out: &mut Vec<u8>, _value: i64) {
    unimplemented!()
}
/// Appends a text `NOT NULL`.
pub fn push_text(_out: &mut Vec<u8>, _value: &str) {
    unimplemented!()
}
