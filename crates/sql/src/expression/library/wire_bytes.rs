//! Values as the protocol sends them in its binary form: `float8send` and its like.

use super::entry::{Entry, entry, wrong_argument};
use ankerdb_engine::DataType::{BigInt, Bytea, DoublePrecision, Integer, Real, SmallInt, Text};
use ankerdb_engine::{Interrupt, Result, Value};

pub(super) const ENTRIES: &[Entry] = &[
    entry("float4send", &[Real], Bytea, sent),
    entry("float8send", &[DoublePrecision], Bytea, sent),
    entry("int2send", &[SmallInt], Bytea, sent),
    entry("int4send", &[Integer], Bytea, sent),
    entry("int8send", &[BigInt], Bytea, sent),
    entry("textsend", &[Text], Bytea, sent),
];

fn sent(values: &[Value], _: &Interrupt) -> Result<Value> {
    let bytes = match values {
        [Value::Real(value)] => value.to_be_bytes().to_vec(),
        [Value::Double(value)] => value.to_be_bytes().to_vec(),
        [Value::SmallInt(value)] => value.to_be_bytes().to_vec(),
        [Value::Integer(value)] => value.to_be_bytes().to_vec(),
        [Value::BigInt(value)] => value.to_be_bytes().to_vec(),
        [Value::Text(text)] => text.as_bytes().to_vec(),
        _ => return Err(wrong_argument()),
    };
    Ok(Value::Bytea(bytes.into()))
}
