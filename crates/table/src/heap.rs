//! Append-only memory for the byte strings of one column of one block.
//!
//! A string longer than twelve bytes lies in a *chunk*; its view in the column says which and where. Bytes once
//! written never change, so a chunk may be read by whoever holds a view, as long as the chunk lives. Strings of
//! overwritten cells stay as garbage until the column is rebuilt (`ColumnArray::duplicate`).

use crate::area::Area;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const FIRST_CHUNK_BYTES: usize = 16 << 10;
const LARGEST_REGULAR_CHUNK_BYTES: usize = 64 << 20;
const MAX_CHUNKS: usize = 256;

/// One piece of a heap.
pub struct Chunk(Area);

impl Chunk {
    /// Where it starts.
    pub fn pointer(&self) -> *const u8 {
        self.0.pointer()
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Whether these bytes lie at an offset. Reads byte by byte, so that an offset where somebody writes is only wrong.
    pub fn holds(&self, offset: usize, bytes: &[u8]) -> bool {
        let is_inside = offset + bytes.len() <= self.bytes();
        is_inside
            && (bytes.iter().enumerate())
                .all(|(i, byte)| self.0.byte(offset + i).load(Ordering::Relaxed) == *byte)
    }
}

/// The chunks of one column's strings.
pub struct Heap {
    chunks: Box<[OnceLock<Arc<Chunk>>]>,
    /// Chunk in use << 32 | bytes used of it.
    cursor: AtomicU64,
    grow: Mutex<()>,
}

impl Default for Heap {
    fn default() -> Heap {
        Heap::new()
    }
}

impl Heap {
    /// An empty heap; allocates its first chunk when it is needed.
    pub fn new() -> Heap {
        let chunks = (0..MAX_CHUNKS).map(|_| OnceLock::new()).collect();
        Heap { chunks, cursor: AtomicU64::new(0), grow: Mutex::new(()) }
    }

    /// The chunks so far, in the order of their numbers.
    pub fn chunks(&self) -> impl Iterator<Item = &Arc<Chunk>> {
        self.chunks.iter().map_while(OnceLock::get)
    }

    /// Bytes handed out, garbage included.
    pub fn used_bytes(&self) -> usize {
        let cursor = self.cursor.load(Ordering::Relaxed);
        let full: usize = self.chunks().take((cursor >> 32) as usize).map(|chunk| chunk.bytes()).sum();
        full + (cursor & u32::MAX as u64) as usize
    }

    /// Copies the bytes into the heap; returns chunk number and offset.
    pub fn append(&self, bytes: &[u8]) -> (u32, u32) {
        loop {
            let cursor = self.cursor.load(Ordering::Acquire);
            let (number, offset) = ((cursor >> 32) as usize, (cursor & u32::MAX as u64) as usize);
            let chunk = self.chunks[number].get();
            let Some(chunk) = chunk.filter(|chunk| offset + bytes.len() <= chunk.bytes()) else {
                self.grow(cursor, bytes.len());
                continue;
            };
            let next = cursor + bytes.len() as u64;
            if self.cursor.compare_exchange_weak(cursor, next, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            // SAFETY: the compare-exchange reserved these bytes for us alone; they are inside the chunk by the
            // filter above; no view points at them until the caller publishes one.
            unsafe {
                let target = chunk.0.pointer().add(offset);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
            }
            return (number as u32, offset as u32);
        }
    }

    /// Makes room for `needed` bytes, unless somebody else has moved the cursor meanwhile.
    fn grow(&self, cursor: u64, needed: usize) {
        let _growing = self.grow.lock();
        if self.cursor.load(Ordering::Acquire) != cursor {
            return;
        }
        let current = (cursor >> 32) as usize;
        let number = if self.chunks[current].get().is_some() { current + 1 } else { current };
        assert!(number < MAX_CHUNKS, "a column's heap has outgrown {MAX_CHUNKS} chunks");
        let regular = (FIRST_CHUNK_BYTES << number.min(12)).min(LARGEST_REGULAR_CHUNK_BYTES);
        let chunk = Arc::new(Chunk(Area::zeroed(regular.max(needed))));
        assert!(self.chunks[number].set(chunk).is_ok(), "chunks are added under the mutex only");
        // Others may still reserve bytes at the end of the current chunk; they only add to the lower half.
        let mut seen = cursor;
        while let Err(now) =
            self.cursor.compare_exchange(seen, (number as u64) << 32, Ordering::AcqRel, Ordering::Acquire)
        {
            seen = now;
        }
    }

    /// Where a place would be: not to be read from, only to ask for the memory. Takes any place.
    #[inline]
    pub fn address(&self, chunk: u32, offset: u32) -> Option<*const u8> {
        let chunk = self.chunks.get(chunk as usize)?.get()?;
        Some(chunk.pointer().wrapping_add(offset as usize))
    }

    /// The bytes at a place that `append` returned.
    ///
    /// # Safety
    /// The place must come from a view that was published by a completed write to this heap.
    pub unsafe fn bytes(&self, chunk: u32, offset: u32, length: u32) -> &[u8] {
        let chunk = self.chunks[chunk as usize].get().expect("a view points into an existing chunk");
        assert!(offset as usize + length as usize <= chunk.bytes(), "a view points into its chunk");
        // SAFETY: in bounds by the assertion; written before the view was published and never again.
        unsafe { std::slice::from_raw_parts(chunk.pointer().add(offset as usize), length as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_append_without_overlap() {
        let heap = Heap::new();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let heap = &heap;
                scope.spawn(move || {
                    let strings: Vec<Vec<u8>> =
                        (0..2000).map(|i| vec![thread * 10 + (i % 10) as u8; 13 + i % 90]).collect();
                    let places: Vec<_> = strings.iter().map(|bytes| heap.append(bytes)).collect();
                    for (bytes, (chunk, offset)) in strings.iter().zip(places) {
                        // SAFETY: the place is our own append's.
                        assert_eq!(unsafe { heap.bytes(chunk, offset, bytes.len() as u32) }, &bytes[..]);
                    }
                });
            }
        });
        assert!(heap.chunks().count() > 1);
    }

    #[test]
    fn a_string_larger_than_a_chunk_gets_its_own() {
        let heap = Heap::new();
        heap.append(b"small");
        let large = vec![7u8; 1 << 20];
        let (chunk, offset) = heap.append(&large);
        // SAFETY: the place is our own append's.
        assert_eq!(unsafe { heap.bytes(chunk, offset, large.len() as u32) }, &large[..]);
    }
}
