//! The one way in which messages, blocks and definitions become bytes: numbers are big endian and of fixed length, everything
//! of variable length has its length in four bytes before it. Two equal things have equal bytes, and no bytes mean two things.

use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;

/// The longest byte string that is read, so that a wrong length asks for no absurd memory.
const BYTES_MAX: usize = 256 << 20;

/// Appends values.
#[derive(Debug, Default)]
pub struct CanonicalWriter(Vec<u8>);

impl CanonicalWriter {
    /// Appends one byte.
    pub fn byte(&mut self, value: u8) -> &mut CanonicalWriter {
        self.0.push(value);
        self
    }

    /// Appends four bytes.
    pub fn u32(&mut self, value: u32) -> &mut CanonicalWriter {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut CanonicalWriter {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// Appends how many things follow.
    pub fn count(&mut self, count: usize) -> &mut CanonicalWriter {
        self.u32(u32::try_from(count).expect("fewer than four billion things fit into memory"))
    }

    /// Appends a length and as many bytes.
    pub fn bytes(&mut self, value: &[u8]) -> &mut CanonicalWriter {
        self.count(value.len());
        self.0.extend_from_slice(value);
        self
    }

    /// Appends a hash, a key or a signature: bytes whose number is known.
    pub fn fixed(&mut self, value: &[u8]) -> &mut CanonicalWriter {
        self.0.extend_from_slice(value);
        self
    }

    /// What was appended.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// Reads what a [`CanonicalWriter`] has written.
#[derive(Debug)]
pub struct CanonicalReader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> CanonicalReader<'a> {
    /// Reads `bytes`, which should be a `what`.
    pub fn new(bytes: &'a [u8], what: &'static str) -> CanonicalReader<'a> {
        CanonicalReader { rest: bytes, what }
    }

    fn short(&self) -> LedgerError {
        LedgerError::Malformed(format!("{}: it ends too early", self.what))
    }

    fn take(&mut self, length: usize) -> LedgerResult<&'a [u8]> {
        if length > self.rest.len() {
            return Err(self.short());
        }
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(taken)
    }

    /// Bytes of a known number.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if there are fewer.
    pub fn array<const N: usize>(&mut self) -> LedgerResult<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("take gives as many bytes as were asked for"))
    }

    /// One byte.
    ///
    /// # Errors
    /// Those of [`CanonicalReader::array`].
    pub fn byte(&mut self) -> LedgerResult<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Four bytes.
    ///
    /// # Errors
    /// Those of [`CanonicalReader::array`].
    pub fn u32(&mut self) -> LedgerResult<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// Those of [`CanonicalReader::array`].
    pub fn u64(&mut self) -> LedgerResult<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// Whether bytes are left.
    pub fn has_more(&self) -> bool {
        !self.rest.is_empty()
    }

    /// A number of things, each of which has one byte at least.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if so many cannot follow.
    pub fn count(&mut self) -> LedgerResult<usize> {
        let count = self.u32()? as usize;
        if count > self.rest.len() { Err(self.short()) } else { Ok(count) }
    }

    /// A length and as many bytes.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if there are fewer.
    pub fn bytes(&mut self) -> LedgerResult<&'a [u8]> {
        let length = self.u32()? as usize;
        if length > BYTES_MAX { Err(self.short()) } else { self.take(length) }
    }

    /// A text.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if it ends too early or is not UTF-8.
    pub fn text(&mut self) -> LedgerResult<String> {
        let what = self.what;
        let text = std::str::from_utf8(self.bytes()?);
        text.map(str::to_owned).map_err(|_| LedgerError::Malformed(format!("{what}: a text is not UTF-8")))
    }

    /// A hash.
    ///
    /// # Errors
    /// Those of [`CanonicalReader::array`].
    pub fn hash(&mut self) -> LedgerResult<LedgerHash> {
        Ok(LedgerHash(self.array()?))
    }

    /// Nothing may follow.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if something does.
    pub fn end(self) -> LedgerResult<()> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(LedgerError::Malformed(format!("{}: {} bytes too many", self.what, self.rest.len())))
        }
    }
}
