//! Conversions between types.
use crate::{DataType, Value};
use ankerdb_base::Result;

/// `CAST(value AS data_type)`.
pub fn cast(_value: Value, _data_type: DataType) -> Result<Value> {
    unimplemented!()
}

/// The conversion on the way into a column: as [`cast`], but text too long for the type is an error
/// (22001) unless only blanks would be lost.
pub fn assign(_value: Value, _data_type: DataType) -> Result<Value> {
    unimplemented!()
}
