//! `format`, and texts as SQL writes them.

use super::entry::{Entry, entry, invalid, text, wrong_argument};
use super::text::{BYTES_MAX, shown, too_long};
use crate::system::{quote_ident, quote_literal};
use ankerdb_engine::DataType::Text;
use ankerdb_engine::{Error, Interrupt, Result, SqlState, Value};
use ankerdb_value::cast;
use std::iter::repeat_n;

pub(super) const ENTRIES: &[Entry] = &[
    entry("format", &[Text], Text, format).and_any(0, usize::MAX).lenient().stable(),
    entry("quote_ident", &[Text], Text, |values, _| Ok(Value::text(quote_ident(text(values, 0)?)))),
    entry("quote_literal", &[], Text, quote_nullable).and_any(1, 1).stable(),
    entry("quote_nullable", &[], Text, quote_nullable).and_any(1, 1).lenient().stable(),
];

fn quote_nullable(values: &[Value], _: &Interrupt) -> Result<Value> {
    match values {
        [Value::Null] => Ok(Value::text("NULL")),
        // As casts write them: in words, and with the mask.
        [Value::Boolean(value)] => Ok(Value::text(quote_literal(&value.to_string()))),
        [packed @ Value::Packed(_)] => match cast(packed.clone(), Text)? {
            Value::Text(text) => Ok(Value::text(quote_literal(&text))),
            _ => Err(wrong_argument()),
        },
        [value] => Ok(Value::text(quote_literal(&shown(value)?))),
        _ => Err(wrong_argument()),
    }
}

fn format(values: &[Value], interrupt: &Interrupt) -> Result<Value> {
    let [Value::Text(pattern), arguments @ ..] = values else { return Ok(Value::Null) };
    let mut writer = Writer { rest: pattern, arguments, next: 0, out: String::new() };
    while let Some(at) = writer.rest.find('%') {
        interrupt.check()?;
        writer.out.push_str(&writer.rest[..at]);
        writer.rest = &writer.rest[at + 1..];
        writer.specifier()?;
    }
    writer.out.push_str(writer.rest);
    Ok(Value::text(writer.out))
}

struct Writer<'a> {
    /// Of the pattern.
    rest: &'a str,
    arguments: &'a [Value],
    /// The argument that comes next.
    next: usize,
    out: String,
}

impl Writer<'_> {
    fn take(&mut self, character: char) -> bool {
        let stripped = self.rest.strip_prefix(character);
        self.rest = stripped.unwrap_or(self.rest);
        stripped.is_some()
    }

    /// The digits that come next, as a number.
    fn number(&mut self) -> Result<Option<usize>> {
        let end = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        if digits.is_empty() {
            return Ok(None);
        }
        let out_of_range = |_| Error::new(SqlState::NumericValueOutOfRange, "number is out of range");
        digits.parse::<i32>().map(|number| Some(number as usize)).map_err(out_of_range)
    }

    /// What stands behind a percent sign: `[position$][-][width]type`.
    fn specifier(&mut self) -> Result<()> {
        if self.take('%') {
            self.out.push('%');
            return Ok(());
        }
        let before = self.rest;
        let mut position = self.number()?;
        match position {
            Some(0) if self.rest.starts_with('$') => {
                return Err(invalid("format specifies argument 0, but arguments are numbered from 1"));
            }
            Some(_) if self.take('$') => {}
            _ => {
                position = None;
                self.rest = before;
            }
        }
        let mut is_left = false;
        while self.take('-') {
            is_left = true;
        }
        let mut width = self.width(&mut is_left)?;
        let Some(kind) = self.rest.chars().next() else {
            let hint = "For a single \"%\" use \"%%\".";
            return Err(invalid("unterminated format() type specifier").with_hint(hint));
        };
        self.rest = &self.rest[kind.len_utf8()..];
        if !matches!(kind, 's' | 'I' | 'L') {
            let message = format!("unrecognized format() type specifier \"{kind}\"");
            return Err(invalid(message).with_hint("For a single \"%\" use \"%%\"."));
        }
        let position = position.map_or(self.next, |position| position - 1);
        let argument = self.argument(position)?.clone();
        self.next = position + 1;
        let written = written(kind, &argument)?;
        width = width.saturating_sub(written.chars().count());
        if self.out.len() + written.len() + width > BYTES_MAX {
            return Err(too_long());
        }
        let blanks = |count| repeat_n(' ', count);
        self.out.extend(blanks(if is_left { 0 } else { width }));
        self.out.push_str(&written);
        self.out.extend(blanks(if is_left { width } else { 0 }));
        Ok(())
    }

    /// A number, or an asterisk for an argument that is one; a negative one fills up at the right.
    fn width(&mut self, is_left: &mut bool) -> Result<usize> {
        if !self.take('*') {
            return Ok(self.number()?.unwrap_or(0));
        }
        let position = match self.number()? {
            Some(position) if position > 0 && self.take('$') => position - 1,
            Some(0) => return Err(invalid("format specifies argument 0, but arguments are numbered from 1")),
            Some(_) => return Err(invalid("width argument position must be ended by \"$\"")),
            None => self.next,
        };
        let argument = self.argument(position)?.clone();
        self.next = position + 1;
        if argument.is_null() {
            return Ok(0);
        }
        let width: i64 = shown(&argument)?.trim().parse().map_err(|_| {
            Error::new(SqlState::InvalidTextRepresentation, "invalid input syntax for type integer")
        })?;
        *is_left |= width < 0;
        Ok(usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX))
    }

    fn argument(&self, position: usize) -> Result<&Value> {
        self.arguments.get(position).ok_or_else(|| invalid("too few arguments for format()"))
    }
}

fn written(kind: char, argument: &Value) -> Result<String> {
    Ok(match (kind, argument) {
        ('s', Value::Null) => String::new(),
        ('L', Value::Null) => "NULL".to_owned(),
        ('I', Value::Null) => {
            let message = "null values cannot be formatted as an SQL identifier";
            return Err(Error::new(SqlState::NullValueNotAllowed, message));
        }
        ('I', value) => quote_ident(&shown(value)?),
        ('L', value) => quote_literal(&shown(value)?),
        (_, value) => shown(value)?,
    })
}
