//! Prepared statements and portals of one connection.

use crate::binary;
use crate::frontend::{Bind, utf8};
use crate::rows::{RunningRows, WireFormat, expand_formats};
use crate::types::{declared_type, wire_type};
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_sql::{OutputColumn, Prepared};
use ankerdb_value::{DataType, MAX_NUMERIC_PRECISION, Value, parse_text};
use std::sync::Arc;

/// A statement that Parse made.
#[derive(Clone)]
pub(crate) struct NamedStatement {
    pub prepared: Arc<Prepared>,
}

impl NamedStatement {
    pub(crate) fn parameter_oids(&self) -> Vec<u32> {
        self.parameters().iter().map(|&data_type| wire_type(data_type).oid).collect()
    }

    fn parameters(&self) -> &[DataType] {
        self.prepared.parameters()
    }

    pub(crate) fn output(&self) -> Option<&[OutputColumn]> {
        self.prepared.output()
    }

    /// Binds parameters. Each mistake that a client can make here has its own error.
    pub(crate) fn bind(&self, bind: &Bind<'_>) -> Result<Portal> {
        let types = self.parameters();
        if bind.parameters.len() != types.len() {
            return Err(violation(format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                bind.parameters.len(),
                bind.statement,
                types.len()
            )));
        }
        let formats = expand_formats(&bind.parameter_formats, types.len()).unwrap_or_else(|| {
            Err(violation(format!(
                "bind message has {} parameter formats but {} parameters",
                bind.parameter_formats.len(),
                types.len()
            )))
        })?;
        let parameters = bind.parameters.iter().zip(types).zip(formats);
        let parameters = parameters
            .map(|((bytes, &data_type), format)| {
                bytes.map_or(Ok(Value::Null), |b| parameter(b, data_type, format))
            })
            .collect::<Result<Vec<Value>>>()?;
        Ok(Portal {
            statement: self.clone(),
            parameters,
            formats: self.result_formats(bind)?,
            state: PortalState::Bound,
        })
    }

    fn result_formats(&self, bind: &Bind<'_>) -> Result<Vec<WireFormat>> {
        let columns = self.output().map_or(0, <[OutputColumn]>::len);
        if self.output().is_none() {
            return Ok(Vec::new());
        }
        expand_formats(&bind.result_formats, columns).unwrap_or_else(|| {
            Err(violation(format!(
                "bind message has {} result formats but query has {columns} columns",
                bind.result_formats.len()
            )))
        })
    }
}

/// The types that a client declared for its parameters.
pub(crate) fn declared_types(oids: &[u32]) -> Result<Vec<Option<DataType>>> {
    oids.iter().map(|&oid| declared_type(oid)).collect()
}

fn violation(message: String) -> Error {
    Error::new(SqlState::ProtocolViolation, message)
}

fn parameter(bytes: &[u8], data_type: DataType, format: WireFormat) -> Result<Value> {
    match format {
        WireFormat::Binary => binary::decode(bytes, data_type),
        WireFormat::Text => {
            let text = utf8(bytes)?;
            parse_text(unconstrained(data_type, text), text)
        }
    }
}

/// Parameters have types without lengths and precisions: it is the column a value is stored into that rounds
/// or refuses it. A numeric therefore keeps the fractional digits it is written with.
fn unconstrained(data_type: DataType, text: &str) -> DataType {
    match data_type {
        DataType::Numeric { .. } if !text.contains(['e', 'E']) => {
            let fraction = text.trim_end().rsplit_once('.').map_or(0, |(_, fraction)| fraction.len());
            let scale = fraction.min(MAX_NUMERIC_PRECISION as usize) as u8;
            DataType::Numeric { precision: MAX_NUMERIC_PRECISION, scale }
        }
        DataType::Varchar(_) | DataType::Char(_) => DataType::Text,
        other => other.of_any_precision(),
    }
}

/// A statement with its parameters, ready to run or running.
pub(crate) struct Portal {
    pub statement: NamedStatement,
    pub parameters: Vec<Value>,
    pub formats: Vec<WireFormat>,
    pub state: PortalState,
}

impl Portal {
    /// Whether the session has its rows.
    pub(crate) fn is_cursor(&self) -> bool {
        matches!(self.state, PortalState::Cursor)
    }
}

/// How far a portal is.
pub(crate) enum PortalState {
    /// Not executed yet.
    Bound,
    /// A cursor of the session's, which has the portal's name.
    Cursor,
    /// Some rows were sent.
    Running(Box<RunningRows>),
    /// All was sent.
    Finished,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerics_keep_the_digits_they_are_written_with() {
        let column = DataType::Numeric { precision: 5, scale: 2 };
        let scale = |text| match unconstrained(column, text) {
            DataType::Numeric { scale, .. } => scale,
            other => panic!("{other}"),
        };
        assert_eq!((scale("1"), scale("-1.2345"), scale("1."), scale("1e-3")), (0, 4, 0, 2));
        assert_eq!(unconstrained(DataType::Varchar(2), "abc"), DataType::Text);
    }
}
