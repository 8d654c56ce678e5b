//! Rows as lines of text or CSV.

use super::options::{CopyFormat, CopyOptions};
use super::{csv, text};
use crate::{Batch, OutputColumn};
use ankerdb_engine::{DataType, Interrupt, Result, ValueRef};
use ankerdb_value::format_text;
use datafusion::sql::sqlparser::ast::Ident;
use std::ops::Range;

/// Lines of about so many bytes come at a time.
const PIECE_BYTES: usize = 256 * 1024;

/// How the values of a column are written.
struct Field {
    data_type: DataType,
    /// Whether they are quoted whatever they are.
    force_quote: bool,
    /// Whether nothing in them is ever quoted or escaped.
    is_plain: bool,
}

/// What makes lines of a result's rows.
pub(super) struct Formatter {
    options: CopyOptions,
    fields: Vec<Field>,
}

/// Some whole lines (in CSV: records), each behind room for what a protocol puts before it.
pub struct Lines {
    text: String,
    room: usize,
    /// Where each line ends.
    ends: Vec<usize>,
}

impl Lines {
    pub(super) fn new(room: usize) -> Lines {
        Lines { text: String::with_capacity(PIECE_BYTES + PIECE_BYTES / 8), room, ends: Vec::new() }
    }

    /// The lines as they are sent: `head` fills the room before each, of which it is told the length.
    ///
    /// # Errors
    /// Those of `head`.
    pub fn framed(self, mut head: impl FnMut(&mut [u8], usize) -> Result<()>) -> Result<Vec<u8>> {
        let Lines { text, room, ends } = self;
        let mut bytes = text.into_bytes();
        let mut start = 0;
        for end in ends {
            head(&mut bytes[start..start + room], end - start - room)?;
            start = end;
        }
        Ok(bytes)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Their length, with the room before each.
    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }

    fn begin_line(&mut self) {
        self.text.extend(std::iter::repeat_n('\0', self.room));
    }

    fn end_line(&mut self) {
        self.text.push('\n');
        self.ends.push(self.text.len());
    }

    fn is_full(&self) -> bool {
        self.text.len() >= PIECE_BYTES
    }
}

impl Formatter {
    /// # Errors
    /// 42703 for a column to quote that is not there.
    pub(super) fn new(columns: &[OutputColumn], options: CopyOptions) -> Result<Formatter> {
        let forced = forced(columns, &options.force_quote)?;
        let field = |(column, force_quote): (&OutputColumn, bool)| Field {
            data_type: column.data_type,
            force_quote: force_quote || options.force_quote_all,
            is_plain: !force_quote && !options.force_quote_all && is_plain(column.data_type, &options),
        };
        let fields = columns.iter().zip(forced).map(field).collect();
        Ok(Formatter { options, fields })
    }

    pub(super) fn options(&self) -> &CopyOptions {
        &self.options
    }

    pub(super) fn push_header(&self, columns: &[OutputColumn], lines: &mut Lines) {
        lines.begin_line();
        for (at, column) in columns.iter().enumerate() {
            self.push_delimiter(at, &mut lines.text);
            self.push_field(&column.name, false, &mut lines.text);
        }
        lines.end_line();
    }

    /// Writes rows until the lines are full, or all are written. Returns the first that is not.
    ///
    /// # Errors
    /// `QueryCanceled`.
    pub(super) fn push_rows(
        &self,
        batch: &Batch,
        rows: Range<usize>,
        lines: &mut Lines,
        interrupt: &Interrupt,
    ) -> Result<usize> {
        let mut scratch = String::new();
        for row in rows.clone() {
            if lines.is_full() {
                return Ok(row);
            }
            interrupt.check()?;
            self.push_row(batch, row, lines, &mut scratch);
        }
        Ok(rows.end)
    }

    /// Cells are asked for one by one: through iterators, moving them took most of the time.
    fn push_row(&self, batch: &Batch, row: usize, lines: &mut Lines, scratch: &mut String) {
        lines.begin_line();
        for (at, field) in self.fields.iter().enumerate() {
            self.push_delimiter(at, &mut lines.text);
            let value = batch.cell(row, at);
            match &value {
                ValueRef::Null => lines.text.push_str(&self.options.null),
                ValueRef::Text(text) if !matches!(field.data_type, DataType::Char(_)) => {
                    self.push_field(text, field.force_quote, &mut lines.text);
                }
                _ if field.is_plain => format_text(value, field.data_type, &mut lines.text),
                _ => {
                    scratch.clear();
                    format_text(value, field.data_type, scratch);
                    self.push_field(scratch, field.force_quote, &mut lines.text);
                }
            }
        }
        lines.end_line();
    }

    fn push_field(&self, value: &str, force_quote: bool, out: &mut String) {
        match self.options.format {
            CopyFormat::Text | CopyFormat::Binary | CopyFormat::Parquet => {
                text::escape(value, self.options.delimiter, out)
            }
            CopyFormat::Csv => csv::push_field(value, force_quote, &self.options, out),
        }
    }

    fn push_delimiter(&self, at: usize, out: &mut String) {
        if at > 0 {
            out.push(char::from(self.options.delimiter));
        }
    }
}

/// Whether the texts of a type's values never have to be quoted or escaped: they are letters, digits and signs, none of which
/// the usual delimiters are.
fn is_plain(data_type: DataType, options: &CopyOptions) -> bool {
    let is_usual = matches!(options.delimiter, b'\t' | b',' | b';' | b'|');
    let is_unquoted = options.format != CopyFormat::Csv
        || (options.null.is_empty() && matches!(options.quote, b'"' | b'\''));
    let has_signs_only = matches!(
        data_type,
        DataType::Boolean
            | DataType::SmallInt
            | DataType::Integer
            | DataType::BigInt
            | DataType::Numeric { .. }
            | DataType::Real
            | DataType::DoublePrecision
            | DataType::Date
            | DataType::Timestamp(_)
            | DataType::TimestampTz(_)
            | DataType::Time(_)
            | DataType::Uuid
    );
    is_usual && is_unquoted && has_signs_only
}

fn forced(columns: &[OutputColumn], names: &[Ident]) -> Result<Vec<bool>> {
    let mut forced = vec![false; columns.len()];
    for name in names {
        let name = crate::name::folded(name);
        match columns.iter().position(|column| column.name == name) {
            Some(at) => forced[at] = true,
            None => return Err(crate::name::undefined_column(&name)),
        }
    }
    Ok(forced)
}
