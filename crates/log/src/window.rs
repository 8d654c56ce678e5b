//! Reading a file from front to back in large pieces.

use crate::disk::{DiskFile, read_full};
use std::io;

const WINDOW_BYTES: usize = 256 << 10;

/// A file, and the piece of it that was read last.
pub(crate) struct Window<'a> {
    file: &'a dyn DiskFile,
    /// Nothing is read beyond it.
    limit: u64,
    bytes: Vec<u8>,
    offset: u64,
}

impl Window<'_> {
    pub(crate) fn new(file: &dyn DiskFile, limit: u64) -> Window<'_> {
        Window { file, limit, bytes: Vec::new(), offset: 0 }
    }

    /// The bytes at a place; fewer than asked for if the file ends there. At most a window's length can be asked for.
    pub(crate) fn get(&mut self, offset: u64, length: usize) -> io::Result<&[u8]> {
        assert!(length <= WINDOW_BYTES);
        let end = (offset + length as u64).min(self.limit);
        if offset < self.offset || end > self.offset + self.bytes.len() as u64 {
            let wanted = self.limit.saturating_sub(offset).min(WINDOW_BYTES as u64) as usize;
            self.bytes.try_reserve_exact(wanted.saturating_sub(self.bytes.len()))?;
            self.bytes.resize(wanted, 0);
            let filled = read_full(self.file, &mut self.bytes, offset)?;
            self.bytes.truncate(filled);
            self.offset = offset;
        }
        let start = (offset - self.offset).min(self.bytes.len() as u64) as usize;
        let length = length.min(self.bytes.len() - start);
        Ok(&self.bytes[start..start + length])
    }

    /// Copies bytes of any length; fewer if the file ends there.
    pub(crate) fn copy(&mut self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let length = length.min(self.limit.saturating_sub(offset) as usize);
        let mut copy = Vec::new();
        copy.try_reserve_exact(length)?;
        if length <= WINDOW_BYTES {
            copy.extend_from_slice(self.get(offset, length)?);
        } else {
            copy.resize(length, 0);
            let filled = read_full(self.file, &mut copy, offset)?;
            copy.truncate(filled);
        }
        Ok(copy)
    }

    /// Calls `visit` with all pieces from a place on that are not zero all through, until it says that it has found what it looks
    /// for. Pieces begin at multiples of 8 from there.
    pub(crate) fn scan(&mut self, from: u64, visit: &mut dyn FnMut(u64, &[u8]) -> bool) -> io::Result<()> {
        const PIECE: usize = 4096;
        static ZEROS: [u8; PIECE] = [0; PIECE];
        let mut offset = from;
        loop {
            let piece = self.get(offset, PIECE)?;
            if piece.is_empty() || (*piece != ZEROS[..piece.len()] && visit(offset, piece)) {
                return Ok(());
            }
            offset += piece.len() as u64;
        }
    }
}
