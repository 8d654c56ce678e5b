//! Fields of COPY's CSV format: PostgreSQL's reading of CSV, where only quotes tell an empty string from NULL.

use super::options::CopyOptions;
use super::text::first_where;
use ankerdb_engine::{Error, Result, SqlState};

/// A field without its quotes.
#[derive(Debug, PartialEq)]
pub(super) struct Field<'a> {
    pub text: &'a str,
    /// Whether any of it was quoted.
    pub quoted: bool,
}

/// Cuts the next field off the record. `record` becomes `None` behind the last field.
pub(super) fn next_field<'r: 's, 's>(
    record: &mut Option<&'r str>,
    options: &CopyOptions,
    scratch: &'s mut Vec<u8>,
) -> Option<Result<Field<'s>>> {
    let text = (*record)?;
    let special = |byte: u8| byte == options.delimiter || byte == options.quote;
    match text.bytes().position(special) {
        None => {
            *record = None;
            Some(Ok(Field { text, quoted: false }))
        }
        Some(end) if text.as_bytes()[end] == options.delimiter => {
            *record = Some(&text[end + 1..]);
            Some(Ok(Field { text: &text[..end], quoted: false }))
        }
        Some(_) => Some(quoted_field(record, text, options, scratch)),
    }
}

/// A field with quotes anywhere in it, which CSV allows.
fn quoted_field<'r, 's>(
    record: &mut Option<&'r str>,
    text: &'r str,
    options: &CopyOptions,
    scratch: &'s mut Vec<u8>,
) -> Result<Field<'s>> {
    scratch.clear();
    let mut bytes = text.bytes().enumerate().peekable();
    let mut inside = false;
    *record = None;
    while let Some((at, byte)) = bytes.next() {
        let next = bytes.peek().map(|&(_, next)| next);
        let escapes = next.is_some_and(|next| next == options.quote || next == options.escape);
        if inside && byte == options.escape && escapes {
            scratch.extend(bytes.next().map(|(_, escaped)| escaped));
        } else if byte == options.quote {
            inside = !inside;
        } else if byte == options.delimiter && !inside {
            *record = Some(&text[at + 1..]);
            break;
        } else {
            scratch.push(byte);
        }
    }
    if inside {
        return Err(Error::new(SqlState::BadCopyFileFormat, "unterminated CSV quoted field"));
    }
    // Only whole ASCII characters were left out.
    let text = std::str::from_utf8(scratch).map_err(|_| Error::internal("CSV field is not text"))?;
    Ok(Field { text, quoted: true })
}

/// Appends a value, quoted if it has to be.
pub(super) fn push_field(value: &str, force: bool, options: &CopyOptions, out: &mut String) {
    let (delimiter, quote, escape) = (options.delimiter, options.quote, options.escape);
    let special = |byte: u8| (byte == delimiter) | (byte == quote) | (byte == b'\n') | (byte == b'\r');
    // `\.` alone on a line would end the data.
    let quoted =
        force || value == options.null || value == "\\." || first_where(value.as_bytes(), special).is_some();
    if !quoted {
        return out.push_str(value);
    }
    out.push(char::from(quote));
    let mut rest = value;
    while let Some(at) = first_where(rest.as_bytes(), |byte| (byte == quote) | (byte == escape)) {
        out.push_str(&rest[..at]);
        out.push(char::from(escape));
        out.push_str(&rest[at..=at]);
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push(char::from(quote));
}

#[cfg(test)]
mod tests {
    use super::super::options::CopyFormat;
    use super::*;

    fn fields(record: &str, options: &CopyOptions) -> Result<Vec<(String, bool)>> {
        let mut rest = Some(record);
        let mut fields = Vec::new();
        while rest.is_some() {
            let mut scratch = Vec::new();
            let field = next_field(&mut rest, options, &mut scratch).unwrap()?;
            fields.push((field.text.to_owned(), field.quoted));
        }
        Ok(fields)
    }

    fn field(text: &str, quoted: bool) -> (String, bool) {
        (text.to_owned(), quoted)
    }

    #[test]
    fn quotes_hold_delimiters_newlines_and_quotes() {
        let csv = CopyOptions::new(CopyFormat::Csv);
        let record = "1,\"a,\"\"b\"\"\nc\",,\"\",x\"y,\"z";
        let expected = [field("1", false), field("a,\"b\"\nc", true), field("", false), field("", true)];
        let last = field("xy,z", true);
        assert_eq!(fields(record, &csv).unwrap(), [&expected[..], &[last]].concat());
        let open = fields(&format!("{record}\""), &csv);
        assert_eq!(open.unwrap_err().state(), SqlState::BadCopyFileFormat);
        assert_eq!(fields("", &csv).unwrap(), [field("", false)]);
        let backslash = CopyOptions { escape: b'\\', ..csv };
        assert_eq!(fields("\"a\\\"\\\\\\n\"", &backslash).unwrap(), [field("a\"\\\\n", true)]);
    }

    #[test]
    fn what_is_written_comes_back() {
        let csv = CopyOptions::new(CopyFormat::Csv);
        let odd =
            CopyOptions { delimiter: b'|', quote: b'\'', escape: b'\\', null: "-".into(), ..csv.clone() };
        for options in [csv, odd] {
            for value in ["", "-", "a", "a,b|c", "\"'\\", "line\nline\r", "\\.", "ü\"ü'ü"] {
                for force in [false, true] {
                    let mut record = String::new();
                    push_field(value, force, &options, &mut record);
                    let read = fields(&record, &options).unwrap();
                    assert_eq!(read.len(), 1);
                    assert_eq!(read[0].0, value);
                    assert!(!force || read[0].1);
                    assert!(read[0].1 || value != options.null);
                }
            }
        }
    }
}
