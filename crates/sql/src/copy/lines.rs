//! Cutting a stream of bytes into lines, or CSV records, wherever the pieces were cut.

use super::options::{CopyFormat, CopyOptions};
use ankerdb_engine::{Error, Result, SqlState};
use memchr::{memchr, memchr2};

/// The longest line: what PostgreSQL can hold in memory for one.
const LINE_BYTES_MAX: usize = 1 << 30;

/// Collects data and gives out whole lines. A newline inside of CSV quotes, or behind a backslash in text, is data.
pub(super) struct LineSplitter {
    format: CopyFormat,
    quote: u8,
    escape: u8,
    buffer: Vec<u8>,
    /// First byte of the line that is being looked for.
    start: usize,
    /// First byte not looked at yet.
    scanned: usize,
    /// CSV: whether `scanned` is inside of quotes.
    quoted: bool,
    /// Whether the byte before `scanned` takes its meaning from the one at `scanned`.
    escaped: bool,
}

impl LineSplitter {
    pub(super) fn new(options: &CopyOptions) -> LineSplitter {
        LineSplitter {
            format: options.format,
            quote: options.quote,
            escape: options.escape,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            quoted: false,
            escaped: false,
        }
    }

    /// Adds data. 54000 if a line does not end.
    pub(super) fn push(&mut self, data: &[u8]) -> Result<()> {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        if self.buffer.len() + data.len() > LINE_BYTES_MAX {
            return Err(Error::new(
                SqlState::ProgramLimitExceeded,
                "a line of COPY data is longer than 1 GiB",
            ));
        }
        self.buffer.extend_from_slice(data);
        Ok(())
    }

    /// The next whole line, without its end.
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        let end = match self.format {
            CopyFormat::Text | CopyFormat::Binary | CopyFormat::Parquet => self.text_end(),
            CopyFormat::Csv => self.csv_end(),
        }?;
        let line = &self.buffer[self.start..end];
        self.start = end + 1;
        Some(without_return(line))
    }

    /// What is left once all data has come: a last line without an end. `true` if it ends inside of quotes.
    pub(super) fn rest(&mut self) -> (&[u8], bool) {
        let line = &self.buffer[self.start..];
        self.start = self.buffer.len();
        self.scanned = self.start;
        (without_return(line), self.quoted)
    }

    fn text_end(&mut self) -> Option<usize> {
        let mut at = self.scanned + usize::from(self.escaped && self.scanned < self.buffer.len());
        if self.escaped && at == self.scanned {
            return None;
        }
        loop {
            let found = memchr2(b'\n', b'\\', &self.buffer[at..]).map(|found| at + found);
            match found.map(|found| (found, self.buffer[found])) {
                Some((end, b'\n')) => {
                    (self.scanned, self.escaped) = (end + 1, false);
                    return Some(end);
                }
                // The next byte is data, whatever it is.
                Some((backslash, _)) if backslash + 1 < self.buffer.len() => at = backslash + 2,
                found => {
                    (self.scanned, self.escaped) = (self.buffer.len(), found.is_some());
                    return None;
                }
            }
        }
    }

    /// Where quote and escape are the same character, a doubled quote ends and begins quotes, which gives the right
    /// result.
    fn csv_end(&mut self) -> Option<usize> {
        let own_escape = self.escape != self.quote;
        let (mut quoted, mut at) = (self.quoted, self.scanned);
        if self.escaped && at < self.buffer.len() {
            (self.escaped, at) = (false, at + 1);
        }
        loop {
            let rest = &self.buffer[at.min(self.buffer.len())..];
            let found = match (quoted, own_escape) {
                (false, _) => memchr2(b'\n', self.quote, rest),
                (true, true) => memchr2(self.escape, self.quote, rest),
                (true, false) => memchr(self.quote, rest),
            };
            let Some(found) = found.map(|found| at + found) else {
                (self.scanned, self.quoted) = (self.buffer.len(), quoted);
                self.escaped |= at > self.buffer.len();
                return None;
            };
            at = found + 1;
            match self.buffer[found] {
                b'\n' if !quoted => {
                    (self.scanned, self.quoted) = (at, false);
                    return Some(found);
                }
                byte if quoted && own_escape && byte == self.escape => at += 1,
                _ => quoted = !quoted,
            }
        }
    }
}

/// Lines may end in carriage return and newline.
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(options: &CopyOptions, data: &[u8], piece: usize) -> (Vec<String>, String, bool) {
        let mut splitter = LineSplitter::new(options);
        let mut lines = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        for piece in data.chunks(piece) {
            splitter.push(piece).unwrap();
            while let Some(line) = splitter.next() {
                lines.push(text(line));
            }
        }
        let (rest, quoted) = splitter.rest();
        (lines, text(rest), quoted)
    }

    #[test]
    fn pieces_may_be_cut_anywhere() {
        let text = CopyOptions::new(CopyFormat::Text);
        let csv = CopyOptions::new(CopyFormat::Csv);
        let backslash = CopyOptions { escape: b'\\', ..CopyOptions::new(CopyFormat::Csv) };
        for piece in 1..20 {
            let (lines, rest, _) = split(&text, b"a\tb\r\nc\\\nd\\\\\n\nlast", piece);
            assert_eq!((lines, rest.as_str()), (vec!["a\tb".into(), "c\\\nd\\\\".into(), "".into()], "last"));
            let (lines, rest, quoted) = split(&csv, b"1,\"a\n\"\"b\"\n2,x\n3,\"open", piece);
            assert_eq!(lines, ["1,\"a\n\"\"b\"", "2,x"]);
            assert_eq!((rest.as_str(), quoted), ("3,\"open", true));
            let (lines, _, quoted) = split(&backslash, b"\"a\\\"\n\"\nb\\\n", piece);
            assert_eq!((lines, quoted), (vec!["\"a\\\"\n\"".to_owned(), "b\\".to_owned()], false));
        }
    }
}
