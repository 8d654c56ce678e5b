//! Messages from clients: cutting the byte stream into messages, and reading their fields.
//!
//! A frame is one type byte, a length that counts itself, and the body. Both steps check everything: a length
//! outside of its type's limits is noticed before the body arrives, a body must be used up exactly.

use ankerdb_base::{Error, Result, SqlState};

/// The longest message of the types that carry statements or data, as in PostgreSQL.
const LARGE_BYTES_MAX: usize = 0x3fff_ffff;
/// The longest message of any other type.
const SMALL_BYTES_MAX: usize = 10_000;

/// A message from the client, its fields borrowed from the frame.
#[derive(Debug, PartialEq)]
pub(crate) enum Message<'a> {
    Query { sql: &'a str },
    Parse { name: &'a str, sql: &'a str, parameter_oids: Vec<u32> },
    Bind(Bind<'a>),
    Describe { target: DescribedObject, name: &'a str },
    Execute { portal: &'a str, max_rows: usize },
    Close { target: DescribedObject, name: &'a str },
    Flush,
    Sync,
    CopyData(&'a [u8]),
    CopyDone,
    CopyFail { reason: &'a str },
    Terminate,
}

/// Which kind of object a Describe or Close names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DescribedObject {
    Statement,
    Portal,
}

/// Parameters for a statement, and the formats wanted for its result.
#[derive(Debug, PartialEq)]
pub(crate) struct Bind<'a> {
    pub portal: &'a str,
    pub statement: &'a str,
    pub parameter_formats: Vec<i16>,
    pub parameters: Vec<Option<&'a [u8]>>,
    pub result_formats: Vec<i16>,
}

/// The type byte and the length.
pub(crate) const HEADER_BYTES: usize = 5;

/// The type of the next message and the length of its body, as soon as its header is there. An error means that the
/// stream cannot be followed any more.
pub(crate) fn header(bytes: &[u8]) -> Result<Option<(u8, usize)>> {
    let Some(&kind) = bytes.first() else { return Ok(None) };
    let limit = length_limit(kind)?;
    let Some(length) = bytes.get(1..HEADER_BYTES) else { return Ok(None) };
    let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
    match (4..=limit).contains(&length) {
        true => Ok(Some((kind, length - 4))),
        false => Err(violation("invalid message length")),
    }
}

/// One whole message, not decoded yet.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub kind: u8,
    pub body: Vec<u8>,
}

impl Frame {
    /// Decodes the body.
    pub(crate) fn decode(&self) -> Result<Message<'_>> {
        let mut body = Body { bytes: &self.body };
        let message = match self.kind {
            b'Q' => Message::Query { sql: body.text()? },
            b'P' => body.parse()?,
            b'B' => Message::Bind(body.bind()?),
            b'D' => Message::Describe { target: body.target()?, name: body.text()? },
            b'E' => Message::Execute { portal: body.text()?, max_rows: body.i32()?.max(0) as usize },
            b'C' => Message::Close { target: body.target()?, name: body.text()? },
            b'H' => Message::Flush,
            b'S' => Message::Sync,
            b'd' => Message::CopyData(body.rest()),
            b'c' => Message::CopyDone,
            b'f' => Message::CopyFail { reason: body.text()? },
            b'X' => Message::Terminate,
            kind => return Err(unknown_type(kind)),
        };
        if !body.bytes.is_empty() {
            return Err(violation("invalid message format"));
        }
        Ok(message)
    }
}

fn length_limit(kind: u8) -> Result<usize> {
    match kind {
        b'Q' | b'P' | b'B' | b'd' | b'f' => Ok(LARGE_BYTES_MAX),
        b'D' | b'E' | b'C' | b'H' | b'S' | b'c' | b'X' => Ok(SMALL_BYTES_MAX),
        kind => Err(unknown_type(kind)),
    }
}

fn unknown_type(kind: u8) -> Error {
    violation(format!("invalid frontend message type {kind}"))
}

fn violation(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(SqlState::ProtocolViolation, message)
}

/// Text as a client sends it: UTF-8 without zero bytes.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str> {
    let bad = match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.contains(&0) => return Ok(text),
        Ok(_) => &[0][..],
        Err(error) => {
            let start = error.valid_up_to();
            let length = error.error_len().unwrap_or(bytes.len() - start);
            &bytes[start..start + length]
        }
    };
    let shown: Vec<String> = bad.iter().map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    Err(Error::new(SqlState::CharacterNotInRepertoire, message))
}

/// The rest of a message's body.
struct Body<'a> {
    bytes: &'a [u8],
}

impl<'a> Body<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, tail) = self
            .bytes
            .split_at_checked(length)
            .ok_or_else(|| violation("insufficient data left in message"))?;
        self.bytes = tail;
        Ok(head)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn i16(&mut self) -> Result<i16> {
        let bytes = self.take(2)?;
        Ok(i16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn i32(&mut self) -> Result<i32> {
        let bytes = self.take(4)?;
        Ok(i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A count of elements, unsigned as PostgreSQL reads it since parameters may be 65,535.
    fn count(&mut self) -> Result<usize> {
        Ok(self.i16()? as u16 as usize)
    }

    fn text(&mut self) -> Result<&'a str> {
        let end = self
            .bytes
            .iter()
            .position(|&byte| byte == 0)
            .ok_or_else(|| violation("invalid string in message"))?;
        let text = utf8(self.take(end)?)?;
        self.take(1)?;
        Ok(text)
    }

    fn target(&mut self) -> Result<DescribedObject> {
        match self.u8()? {
            b'S' => Ok(DescribedObject::Statement),
            b'P' => Ok(DescribedObject::Portal),
            other => Err(violation(format!("invalid message subtype {other}"))),
        }
    }

    fn formats(&mut self) -> Result<Vec<i16>> {
        (0..self.count()?).map(|_| self.i16()).collect()
    }

    fn parse(&mut self) -> Result<Message<'a>> {
        let name = self.text()?;
        let sql = self.text()?;
        let parameter_oids =
            (0..self.count()?).map(|_| Ok(self.i32()? as u32)).collect::<Result<Vec<u32>>>()?;
        Ok(Message::Parse { name, sql, parameter_oids })
    }

    fn bind(&mut self) -> Result<Bind<'a>> {
        let portal = self.text()?;
        let statement = self.text()?;
        let parameter_formats = self.formats()?;
        let parameters = (0..self.count()?).map(|_| self.parameter()).collect::<Result<Vec<_>>>()?;
        let result_formats = self.formats()?;
        Ok(Bind { portal, statement, parameter_formats, parameters, result_formats })
    }

    fn parameter(&mut self) -> Result<Option<&'a [u8]>> {
        match self.i32()? {
            -1 => Ok(None),
            length if length < 0 => Err(violation("invalid message format")),
            length => self.take(length as usize).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, body: &[u8]) -> Frame {
        Frame { kind, body: body.to_vec() }
    }

    fn state(result: Result<Message<'_>>) -> &'static str {
        result.unwrap_err().state().code()
    }

    #[test]
    fn a_header_is_there_once_its_length_is() {
        let message = b"Q\0\0\0\x06a\0";
        for end in 0..HEADER_BYTES {
            assert!(header(&message[..end]).unwrap().is_none());
        }
        assert_eq!(header(message).unwrap(), Some((b'Q', 2)));
        assert_eq!(header(b"S\0\0\0\x04").unwrap(), Some((b'S', 0)));
    }

    #[test]
    fn bad_lengths_are_noticed_before_the_body_arrives() {
        for bytes in [b"Q\0\0\0\x03", b"Q\xff\xff\xff\xff", b"Q\x40\0\0\0", b"S\0\x01\0\0"] {
            assert_eq!(header(bytes).unwrap_err().state(), SqlState::ProtocolViolation);
        }
        assert!(header(b"?").is_err());
    }

    #[test]
    fn truncated_and_overlong_bodies_are_violations() {
        for (kind, body) in [
            (b'Q', &b"select"[..]),
            (b'Q', b"a\0b"),
            (b'P', b"\0select 1\0"),
            (b'P', b"\0select 1\0\0\x02\0\0\0\x17"),
            (b'B', b"\0\0\0\x01"),
            (b'B', b"\0\0\0\0\0\x01\0\0\0\x09x\0\0"),
            (b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"),
            (b'D', b"Z\0"),
            (b'E', b"\0\0\0"),
            (b'S', b"x"),
        ] {
            assert_eq!(state(frame(kind, body).decode()), "08P01", "{} {body:?}", kind as char);
        }
    }

    #[test]
    fn text_must_be_utf8_without_zero_bytes() {
        assert_eq!(state(frame(b'Q', b"select '\xff'\0").decode()), "22021");
        assert_eq!(utf8(b"a\0").unwrap_err().message(), "invalid byte sequence for encoding \"UTF8\": 0x00");
        assert_eq!(utf8("grün".as_bytes()).unwrap(), "grün");
    }

    #[test]
    fn bind_fields() {
        let body = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02xy\xff\xff\xff\xff\0\x01\0\0";
        let expected = Bind {
            portal: "p",
            statement: "s",
            parameter_formats: vec![1],
            parameters: vec![Some(b"xy"), None],
            result_formats: vec![0],
        };
        assert_eq!(frame(b'B', body).decode().unwrap(), Message::Bind(expected));
    }
}
