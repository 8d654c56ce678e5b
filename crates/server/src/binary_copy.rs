//! COPY's binary format: rows of values, each with its length, between a header and an end.
//!
//! ```text
//! PGCOPY\n\377\r\n\0 │ flags 4 │ length of extension 4, extension │ rows: fields 2, each: length 4 (-1: NULL), bytes │ -1 2
//! ```
//! Data comes in pieces that are cut anywhere; what is no whole row yet is kept.

use crate::binary;
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_sql::Batch;
use ankerdb_value::{DataType, Value, ValueRef};
use bytes::{Buf, BufMut, BytesMut};

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// Signature, flags, length of the extension.
const HEADER_BYTES: usize = SIGNATURE.len() + 8;
/// Flags in the upper half change the format; none of them is known.
const CRITICAL_FLAGS: u32 = 0xffff_0000;
/// The field count that ends the data.
const END: i16 = -1;
/// The longest row: what PostgreSQL can hold in memory for one.
const ROW_BYTES_MAX: usize = 1 << 30;

/// What stands before the first row.
pub(crate) fn put_header(out: &mut BytesMut) {
    out.put_slice(SIGNATURE);
    out.put_u64(0);
}

/// What stands behind the last row.
pub(crate) fn put_end(out: &mut BytesMut) {
    out.put_i16(END);
}

/// Writes one row of the batch.
pub(crate) fn put_row(rows: &Batch, row: usize, types: &[DataType], out: &mut BytesMut) -> Result<()> {
    out.put_i16(types.len() as i16);
    for (value, &data_type) in rows.cells(row).zip(types) {
        put_field(value, data_type, out)?;
    }
    Ok(())
}

fn put_field(value: ValueRef<'_>, data_type: DataType, out: &mut BytesMut) -> Result<()> {
    if value.is_null() {
        out.put_i32(-1);
        return Ok(());
    }
    let start = out.len();
    out.put_i32(0);
    binary::encode(value, data_type, out)?;
    let length = i32::try_from(out.len() - start - 4)
        .map_err(|_| Error::new(SqlState::ProgramLimitExceeded, "a value is larger than 2 GiB"))?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Reads rows from pieces of data.
pub(crate) struct RowReader {
    types: Vec<DataType>,
    data: BytesMut,
    has_begun: bool,
    has_ended: bool,
}

impl RowReader {
    pub(crate) fn new(types: Vec<DataType>) -> RowReader {
        RowReader { types, data: BytesMut::new(), has_begun: false, has_ended: false }
    }

    /// Adds data. 54000 if a row does not end.
    pub(crate) fn push(&mut self, data: &[u8]) -> Result<()> {
        if self.data.len() + data.len() > ROW_BYTES_MAX {
            return Err(Error::new(
                SqlState::ProgramLimitExceeded,
                "a row of COPY data is longer than 1 GiB",
            ));
        }
        self.data.extend_from_slice(data);
        Ok(())
    }

    /// The next whole row; `None` if it has not come as a whole. 22P04 for data that is none of this format.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<Value>>> {
        if !self.has_begun {
            let Some(length) = header(&self.data)? else { return Ok(None) };
            self.data.advance(length);
            self.has_begun = true;
        }
        if self.has_ended {
            return match self.data.is_empty() {
                true => Ok(None),
                false => malformed("received copy data after EOF marker"),
            };
        }
        let Some((count, mut rest)) = self.data.split_first_chunk::<2>() else { return Ok(None) };
        let count = i16::from_be_bytes(*count);
        if count == END {
            self.data.advance(2);
            self.has_ended = true;
            return self.next();
        }
        if count as usize != self.types.len() {
            return malformed(format!("row field count is {count}, expected {}", self.types.len()));
        }
        let mut values = Vec::with_capacity(self.types.len());
        for &data_type in &self.types {
            let Some((bytes, behind)) = field(rest)? else { return Ok(None) };
            values.push(bytes.map_or(Ok(Value::Null), |bytes| binary::decode(bytes, data_type))?);
            rest = behind;
        }
        let length = self.data.len() - rest.len();
        self.data.advance(length);
        Ok(Some(values))
    }

    /// 22P04 unless the data has come to its end. The marker of the end may be missing, as in PostgreSQL, but no part of a row.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            RowReader { has_begun: false, .. } => malformed("COPY file signature not recognized"),
            RowReader { data, .. } if !data.is_empty() => malformed("unexpected EOF in COPY data"),
            _ => Ok(()),
        }
    }
}

/// The length of the header if it is here as a whole.
fn header(data: &[u8]) -> Result<Option<usize>> {
    let begun = data.len().min(SIGNATURE.len());
    if data[..begun] != SIGNATURE[..begun] {
        return malformed("COPY file signature not recognized");
    }
    let Some(fixed) = data.get(SIGNATURE.len()..HEADER_BYTES) else { return Ok(None) };
    let (flags, extension) = (&fixed[..4], &fixed[4..]);
    let number = |bytes: &[u8]| bytes.iter().fold(0u32, |number, &byte| number << 8 | u32::from(byte));
    if number(flags) & CRITICAL_FLAGS != 0 {
        return malformed("unrecognized critical flags in COPY file header");
    }
    let extension = number(extension) as usize;
    if extension > ROW_BYTES_MAX {
        return malformed("invalid COPY file header (missing length)");
    }
    let length = HEADER_BYTES + extension;
    Ok((data.len() >= length).then_some(length))
}

/// The bytes of a field, `None` for NULL, and what lies behind; `None` if it has not come as a whole.
#[allow(clippy::type_complexity)]
fn field(data: &[u8]) -> Result<Option<(Option<&[u8]>, &[u8])>> {
    let Some((length, rest)) = data.split_first_chunk::<4>() else { return Ok(None) };
    match i32::from_be_bytes(*length) {
        -1 => Ok(Some((None, rest))),
        length if length < 0 => malformed("invalid field size"),
        length => Ok(rest.split_at_checked(length as usize).map(|(bytes, rest)| (Some(bytes), rest))),
    }
}

fn malformed<T>(message: impl Into<std::borrow::Cow<'static, str>>) -> Result<T> {
    Err(Error::new(SqlState::BadCopyFileFormat, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> BytesMut {
        let mut data = BytesMut::new();
        put_header(&mut data);
        for (number, text) in [(1, Some("one")), (2, None)] {
            data.put_i16(2);
            put_field(ValueRef::Integer(number), DataType::Integer, &mut data).unwrap();
            put_field(text.map_or(ValueRef::Null, ValueRef::Text), DataType::Text, &mut data).unwrap();
        }
        data
    }

    fn read(data: &[u8], piece: usize) -> Result<Vec<Vec<Value>>> {
        let mut reader = RowReader::new(vec![DataType::Integer, DataType::Text]);
        let mut rows = Vec::new();
        for piece in data.chunks(piece) {
            reader.push(piece)?;
            while let Some(row) = reader.next()? {
                rows.push(row);
            }
        }
        reader.finish().map(|()| rows)
    }

    #[test]
    fn pieces_may_be_cut_anywhere() {
        let mut data = data();
        let rows = vec![vec![Value::Integer(1), Value::text("one")], vec![Value::Integer(2), Value::Null]];
        assert_eq!(read(&data, 7).unwrap(), rows);
        put_end(&mut data);
        for piece in 1..data.len() + 1 {
            assert_eq!(read(&data, piece).unwrap(), rows, "pieces of {piece}");
        }
    }

    #[test]
    fn what_is_no_such_data_is_refused() {
        let whole = data();
        for length in
            (1..whole.len()).filter(|length| !(HEADER_BYTES..).step_by(17).take(2).any(|end| end == *length))
        {
            assert!(read(&whole[..length], 1000).is_err(), "the first {length} bytes");
        }
        let mut flags = whole.to_vec();
        flags[SIGNATURE.len()] = 1;
        let mut count = whole.to_vec();
        count[HEADER_BYTES + 1] = 3;
        let mut negative = whole.to_vec();
        negative[HEADER_BYTES + 2..HEADER_BYTES + 6].copy_from_slice(&(-2i32).to_be_bytes());
        let mut behind = whole.to_vec();
        behind.extend_from_slice(&[0xff, 0xff, 0]);
        for bad in [flags, count, negative, behind, b"1\tone\n".to_vec(), Vec::new()] {
            assert_eq!(read(&bad, 5).unwrap_err().state(), SqlState::BadCopyFileFormat);
        }
    }
}
