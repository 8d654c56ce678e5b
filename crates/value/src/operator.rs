//! Arithmetic and comparison by PostgreSQL's rules.
use crate::Value;
use ankerdb_base::Result;
use std::cmp::Ordering;

/// `left + right`
pub fn add(_left: &Value, _right: &Value) -> Result<Value> {
    unimplemented!()
}
/// `left - right`
pub fn subtract(_left: &Value, _right: &Value) -> Result<Value> {
    unimplemented!()
}
/// `left * right`
pub fn multiply(_left: &Value, _right: &Value) -> Result<Value> {
    unimplemented!()
}
/// `left / right`
pub fn divide(_left: &Value, _right: &Value) -> Result<Value> {
    unimplemented!()
}
/// `left % right`
pub fn modulo(_left: &Value, _right: &Value) -> Result<Value> {
    unimplemented!()
}
/// `-value`
pub fn negate(_value: &Value) -> Result<Value> {
    unimplemented!()
}
/// How two values of comparable types order; `None` if either is NULL.
pub fn compare(_left: &Value, _right: &Value) -> Result<Option<Ordering>> {
    unimplemented!()
}
