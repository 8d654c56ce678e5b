//! SHA-256 with a purpose: what is hashed for one purpose can never be taken for what is hashed for another.

use sha2::{Digest as _, Sha256};
use std::fmt::{self, Write as _};

/// What every signed or hashed byte string of this version begins with.
pub(crate) const VERSION: &str = "ankerdb-ledger/1 ";

/// 32 bytes of SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LedgerHash(pub [u8; 32]);

impl LedgerHash {
    /// SHA-256 of bytes alone: what databases compute of rows.
    pub fn of_row(bytes: &[u8]) -> LedgerHash {
        LedgerHash(Sha256::digest(bytes).into())
    }

    /// SHA-256 of `ankerdb-ledger/1 `, the purpose, a line feed, and the parts one behind the other.
    pub fn of(purpose: &str, parts: &[&[u8]]) -> LedgerHash {
        let mut hash = Sha256::new();
        hash.update(VERSION.as_bytes());
        hash.update(purpose.as_bytes());
        hash.update(b"\n");
        for part in parts {
            hash.update(part);
        }
        LedgerHash(hash.finalize().into())
    }

    /// The first eight hexadecimal digits, for people.
    pub fn short(&self) -> String {
        hex(&self.0[..4])
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<LedgerHash> {
        Some(LedgerHash(unhex(text)?.try_into().ok()?))
    }
}

impl fmt::Display for LedgerHash {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for LedgerHash {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.short())
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Bytes of hexadecimal digits, or nothing if it is something else.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    bytes.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}
