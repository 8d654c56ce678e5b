//! Fields of COPY's text format.

use ankerdb_engine::{Error, Result, SqlState};

/// The end of the data, on a line of its own.
pub(super) const END_OF_DATA: &str = "\\.";

/// Cuts the next field off the line, as it is written. `line` becomes `None` behind the last field.
pub(super) fn next_field<'a>(line: &mut Option<&'a str>, delimiter: u8) -> Option<&'a str> {
    let text = (*line)?;
    let mut escaped = false;
    let end = text.bytes().position(|byte| match (escaped, byte) {
        (true, _) => {
            escaped = false;
            false
        }
        (false, b'\\') => {
            escaped = true;
            false
        }
        (false, byte) => byte == delimiter,
    });
    // The delimiter is a single byte, so both sides are text.
    *line = end.map(|end| &text[end + 1..]);
    Some(&text[..end.unwrap_or(text.len())])
}

/// Replaces escapes. The field itself where it has none.
pub(super) fn unescape<'a>(field: &'a str, scratch: &'a mut Vec<u8>) -> Result<&'a str> {
    let Some(first) = field.bytes().position(|byte| byte == b'\\') else { return Ok(field) };
    scratch.clear();
    scratch.extend_from_slice(&field.as_bytes()[..first]);
    let mut rest = &field.as_bytes()[first..];
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'\\' => rest = push_escape(rest, scratch),
            byte => scratch.push(byte),
        }
    }
    // Octal and hexadecimal escapes can make any bytes.
    let text = std::str::from_utf8(scratch).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| {
        Error::new(SqlState::CharacterNotInRepertoire, "invalid byte sequence for encoding \"UTF8\"")
    })
}

/// Appends what the escape stands for; returns what follows it. `rest` begins behind the backslash.
fn push_escape<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let Some((&byte, tail)) = rest.split_first() else {
        out.push(b'\\');
        return rest;
    };
    let plain = match byte {
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'0'..=b'7' => return push_number(rest, 8, 3, out),
        b'x' if tail.first().is_some_and(u8::is_ascii_hexdigit) => return push_number(tail, 16, 2, out),
        other => other,
    };
    out.push(plain);
    tail
}

/// Appends the byte with the number of up to `digits_max` digits.
fn push_number<'a>(digits: &'a [u8], base: u32, digits_max: usize, out: &mut Vec<u8>) -> &'a [u8] {
    let is_digit = |byte: &&u8| (**byte as char).is_digit(base);
    let count = digits.iter().take(digits_max).take_while(is_digit).count();
    let number = digits[..count]
        .iter()
        .filter_map(|&byte| (byte as char).to_digit(base))
        .fold(0, |number, digit| number * base + digit);
    // As in PostgreSQL, only the low eight bits of an octal escape count.
    out.push(number as u8);
    &digits[count..]
}

/// Where the first such byte is. Looks at several at a time.
pub(super) fn first_where(bytes: &[u8], is_special: impl Fn(u8) -> bool) -> Option<usize> {
    const AT_A_TIME: usize = 16;
    let (pieces, rest) = bytes.as_chunks::<AT_A_TIME>();
    let has_special = |piece: &[u8]| piece.iter().fold(false, |found, &byte| found | is_special(byte));
    let plain = pieces.iter().take_while(|piece| !has_special(&piece[..])).count();
    let rest = if plain < pieces.len() { &bytes[plain * AT_A_TIME..] } else { rest };
    rest.iter().position(|&byte| is_special(byte)).map(|at| plain * AT_A_TIME + at)
}

/// Appends a value, escaped so that [`unescape`] gives it back. The delimiter is an ASCII character.
pub(super) fn escape(value: &str, delimiter: u8, out: &mut String) {
    let is_special = |byte: u8| matches!(byte, 0x08..=0x0d) | (byte == b'\\') | (byte == delimiter);
    let mut rest = value;
    while let Some(at) = first_where(rest.as_bytes(), is_special) {
        let letter = match rest.as_bytes()[at] {
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0b => b'v',
            byte => byte,
        };
        out.push_str(&rest[..at]);
        out.push('\\');
        out.push(char::from(letter));
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> Vec<&str> {
        let mut rest = Some(line);
        std::iter::from_fn(|| next_field(&mut rest, b'\t')).collect()
    }

    fn plain(field: &str) -> String {
        unescape(field, &mut Vec::new()).unwrap().to_owned()
    }

    #[test]
    fn fields_end_at_unescaped_delimiters() {
        assert_eq!(fields("a\tb\\\tc\t\\\\\t"), ["a", "b\\\tc", "\\\\", ""]);
        assert_eq!(fields(""), [""]);
        assert_eq!(fields("ä\tö"), ["ä", "ö"]);
    }

    #[test]
    fn escapes_of_postgresql() {
        assert_eq!(plain("a\\tb\\nc\\\\d\\ve\\rf\\bg\\fh"), "a\tb\nc\\d\u{b}e\rf\u{8}g\u{c}h");
        assert_eq!(plain("\\101\\x42\\x4a1\\7x\\8\\q\\xg"), "ABJ1\u{7}x8qxg");
        assert_eq!(plain("\\303\\244"), "ä");
        assert_eq!(plain("end\\"), "end\\");
        assert_eq!(
            unescape("\\xff", &mut Vec::new()).unwrap_err().state(),
            SqlState::CharacterNotInRepertoire
        );
        assert!(unescape("\\0", &mut Vec::new()).is_err());
    }

    #[test]
    fn what_is_escaped_comes_back() {
        let long = "0123456789abcde".repeat(3) + "\n" + &"ü".repeat(20) + "\\|\t";
        for value in ["", &long, "plain", "a\tb\nc\rd\\e", "\\N", "\\.", "tab|bar", "\u{8}\u{b}\u{c}"] {
            for delimiter in [b'\t', b'|'] {
                let mut line = String::new();
                escape(value, delimiter, &mut line);
                let mut rest = Some(line.as_str());
                let field = next_field(&mut rest, delimiter).unwrap();
                assert_eq!((plain(field).as_str(), rest), (value, None));
            }
        }
    }
}
