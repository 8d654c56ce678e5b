//! Results on their way to the client.

use crate::binary;
use crate::guard::guard;
use crate::types::wire_type;
use crate::wire::{Served, Wire};
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_sql::{Batch, OutputColumn, ResultRows};
use ankerdb_value::{DataType, ValueRef, format_text};
use bytes::{BufMut, BytesMut};
use pgwire::messages::data::{FieldDescription, RowDescription};

/// How one column's values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireFormat {
    Text,
    Binary,
}

impl WireFormat {
    pub(crate) fn from_code(code: i16) -> Result<WireFormat> {
        match code {
            0 => Ok(WireFormat::Text),
            1 => Ok(WireFormat::Binary),
            other => {
                Err(Error::new(SqlState::InvalidParameterValue, format!("unsupported format code: {other}")))
            }
        }
    }

    pub(crate) fn code(self) -> i16 {
        self as i16
    }
}

/// The formats of all columns: none named means text, one is for all, otherwise one for each.
pub(crate) fn expand_formats(codes: &[i16], columns: usize) -> Option<Result<Vec<WireFormat>>> {
    match codes {
        [] => Some(Ok(vec![WireFormat::Text; columns])),
        [code] => Some(WireFormat::from_code(*code).map(|format| vec![format; columns])),
        codes if codes.len() == columns => {
            Some(codes.iter().map(|&code| WireFormat::from_code(code)).collect())
        }
        _ => None,
    }
}

/// Announces the columns of a result.
pub(crate) fn send_description(wire: &mut Wire, columns: &[OutputColumn], formats: &[WireFormat]) -> Served {
    let fields = columns.iter().zip(formats).map(|(column, format)| {
        let described = wire_type(column.data_type);
        let (oid, size, modifier) = (described.oid, described.size, described.modifier);
        let (table, number) = column.source.map_or((0, 0), |source| (source.table, source.column));
        FieldDescription::new(column.name.clone(), table as i32, number, oid, size, modifier, format.code())
    });
    wire.send(&RowDescription::new(fields.collect()))
}

/// A result that is being sent: rows fetched but not sent yet, and the source of the others.
pub(crate) struct RunningRows {
    rows: ResultRows,
    types: Vec<DataType>,
    formats: Vec<WireFormat>,
    fetched: Batch,
    /// The first row of `fetched` that was not sent.
    next: usize,
    scratch: String,
}

/// How sending rows ended.
pub(crate) enum SendProgress {
    /// All rows were sent; the command tag.
    Complete(String),
    /// The limit was reached.
    Suspended,
}

impl RunningRows {
    pub(crate) fn new(rows: ResultRows, formats: Vec<WireFormat>) -> RunningRows {
        let types = rows.columns().iter().map(|column| column.data_type).collect();
        RunningRows { rows, types, formats, fetched: Batch::default(), next: 0, scratch: String::new() }
    }

    /// Sends up to `limit` rows, waiting for the query and for the client. Ends early if the client is gone.
    ///
    /// As in PostgreSQL, a result that ends exactly at the limit counts as suspended.
    pub(crate) fn send(&mut self, wire: &mut Wire, limit: usize) -> Served<SendProgress> {
        let mut sent = 0;
        while sent < limit {
            if self.next == self.fetched.len() {
                match guard(|| self.rows.next_batch())? {
                    Some(batch) => (self.fetched, self.next) = (batch, 0),
                    None => return Ok(SendProgress::Complete(self.rows.tag(sent))),
                }
                continue;
            }
            self.push(self.next, &mut wire.output)?;
            self.next += 1;
            sent += 1;
            wire.flush_if_full()?;
        }
        Ok(SendProgress::Suspended)
    }

    /// Appends a DataRow, straight from where the cells lie. Written here and not by pgwire because its message wants a
    /// buffer of its own for every row.
    fn push(&mut self, row: usize, out: &mut BytesMut) -> Result<()> {
        let start = out.len();
        out.put_u8(b'D');
        out.put_u32(0);
        out.put_u16(self.types.len() as u16);
        let pushed = self.fetched.cells(row).enumerate().try_for_each(|(column, value)| {
            push_value(value, self.types[column], self.formats[column], &mut self.scratch, out)
        });
        if pushed.is_err() {
            out.truncate(start);
            return pushed;
        }
        patch_length(out, start + 1)
    }
}

/// Writes the length of what follows `at`, the length itself included.
fn patch_length(out: &mut BytesMut, at: usize) -> Result<()> {
    let length = i32::try_from(out.len() - at)
        .map_err(|_| Error::new(SqlState::ProgramLimitExceeded, "a result row is larger than 2 GiB"))?;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn push_value(
    value: ValueRef<'_>,
    data_type: DataType,
    format: WireFormat,
    scratch: &mut String,
    out: &mut BytesMut,
) -> Result<()> {
    if value.is_null() {
        out.put_i32(-1);
        return Ok(());
    }
    let start = out.len();
    out.put_u32(0);
    match format {
        WireFormat::Binary => binary::encode(value, data_type, out)?,
        WireFormat::Text => {
            scratch.clear();
            format_text(value, data_type, scratch);
            out.put_slice(scratch.as_bytes());
        }
    }
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_expand_by_the_protocol_rules() {
        use WireFormat::{Binary, Text};
        assert_eq!(expand_formats(&[], 2).unwrap().unwrap(), [Text, Text]);
        assert_eq!(expand_formats(&[1], 2).unwrap().unwrap(), [Binary, Binary]);
        assert_eq!(expand_formats(&[1, 0], 2).unwrap().unwrap(), [Binary, Text]);
        assert!(expand_formats(&[1, 0], 3).is_none());
        assert_eq!(expand_formats(&[7], 1).unwrap().unwrap_err().state(), SqlState::InvalidParameterValue);
    }

    #[test]
    fn values_carry_their_length() {
        let (mut out, mut scratch) = (BytesMut::new(), String::new());
        push_value(ValueRef::Null, DataType::Text, WireFormat::Text, &mut scratch, &mut out).unwrap();
        push_value(ValueRef::Integer(5), DataType::Integer, WireFormat::Binary, &mut scratch, &mut out)
            .unwrap();
        assert_eq!(&out[..], b"\xff\xff\xff\xff\0\0\0\x04\0\0\0\x05");
    }
}
