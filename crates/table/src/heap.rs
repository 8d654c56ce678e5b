//! Append-only memory for the byte strings of one column of one block.
//!
//! A string longer than twelve bytes lies in a *chunk*; its view in the column says which and where. Bytes once
//! written never change, so a chunk may be read through any view, as long as the chunk lives. Strings of
//! overwritten cells stay as garbage until the column is rebuilt (`ColumnArray::duplicate`).

use crate::area::Area;
use ankerdb_base::{Error, Result, SqlState};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const FIRST_CHUNK_BYTES: usize = 16 << 10;
/// Chunks double in size up to 64 MiB,
const DOUBLINGS: usize = 12;
/// and from here on once in so many chunks, up to 2 GiB: 250 GiB in all, for the strings of 8,192 rows.
const SLOW_DOUBLING: usize = 32;
const SLOW_DOUBLINGS: usize = 5;
const MAX_CHUNKS: usize = 256;
/// Of what is expected chunks are made up to this size.
const EXPECTED_CHUNK_BYTES_MAX: usize = 1 << 20;

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

    /// Whether these bytes lie at an offset. Reads byte by byte, so that concurrent writes at the offset do no more
    /// than make the answer wrong.
    pub fn holds(&self, offset: usize, bytes: &[u8]) -> bool {
        let is_inside = offset + bytes.len() <= self.bytes();
        is_inside
            && (bytes.iter().enumerate())
                .all(|(i, byte)| self.0.byte(offset + i).load(Ordering::Relaxed) == *byte)
    }
}

/// The chunks of one column's strings.
pub(crate) struct Heap {
    chunks: Box<[OnceLock<Arc<Chunk>>]>,
    /// Chunk in use << 32 | bytes used of it.
    cursor: AtomicU64,
    grow: Mutex<()>,
    /// How many bytes of strings are likely to come.
    expected_bytes: AtomicUsize,
}

impl Default for Heap {
    fn default() -> Heap {
        Heap::new()
    }
}

impl Heap {
    /// An empty heap; allocates its first chunk when it is needed.
    pub(crate) fn new() -> Heap {
        Heap::expecting(0)
    }

    /// An empty heap, into which about so many bytes will come: its chunks are as large together, as nearly as powers of two
    /// are. Without that as much as half of the last one may never be used.
    pub(crate) fn expecting(bytes: usize) -> Heap {
        let chunks = (0..MAX_CHUNKS).map(|_| OnceLock::new()).collect();
        let heap = Heap {
            chunks,
            cursor: AtomicU64::new(0),
            grow: Mutex::new(()),
            expected_bytes: AtomicUsize::new(0),
        };
        heap.expect(bytes);
        heap
    }

    /// About so many bytes will come, those that are there included: as for [`expecting`](Self::expecting), of chunks that are still to
    /// be made.
    pub(crate) fn expect(&self, bytes: usize) {
        // A little more, so that a few longer strings need no further chunk.
        self.expected_bytes.store(bytes + bytes / 64, Ordering::Relaxed);
    }

    /// To append many strings, of so many bytes together. What it reserves and does not fill is garbage.
    pub(crate) fn filling(&self, bytes: usize) -> Filling<'_> {
        Filling { heap: self, left: bytes, piece: (0, 0), piece_bytes: 0 }
    }

    /// The chunks so far, in the order of their numbers.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &Arc<Chunk>> {
        self.chunks.iter().map_while(OnceLock::get)
    }

    /// Bytes handed out, garbage included.
    pub(crate) fn used_bytes(&self) -> usize {
        let cursor = self.cursor.load(Ordering::Relaxed);
        let full: usize = self.chunks().take((cursor >> 32) as usize).map(|chunk| chunk.bytes()).sum();
        full + (cursor & u32::MAX as u64) as usize
    }

    /// Copies the bytes into the heap; returns chunk number and offset. 53200 if there is no memory, 54000 if the heap has
    /// as many chunks as it may have; nothing has changed then.
    pub(crate) fn append(&self, bytes: &[u8]) -> Result<(u32, u32)> {
        let (number, offset) = self.reserve(bytes.len())?;
        // SAFETY: these bytes are reserved for us alone, and no view points at them until the caller publishes one.
        unsafe { self.put(number, offset, bytes) };
        Ok((number, offset))
    }

    /// Copies bytes to a place.
    ///
    /// # Safety
    /// The bytes there are reserved for the caller alone, and no view points at them.
    #[inline]
    unsafe fn put(&self, number: u32, offset: u32, bytes: &[u8]) {
        let chunk = self.chunks[number as usize].get().expect("room is reserved in chunks that exist");
        // SAFETY: what is reserved lies inside the chunk.
        unsafe {
            let target = chunk.0.pointer().add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
    }

    /// Room for so many bytes.
    fn reserve(&self, bytes: usize) -> Result<(u32, u32)> {
        loop {
            let cursor = self.cursor.load(Ordering::Acquire);
            let (number, offset) = ((cursor >> 32) as usize, (cursor & u32::MAX as u64) as usize);
            let chunk = self.chunks[number].get();
            if chunk.is_none_or(|chunk| offset + bytes > chunk.bytes()) {
                self.grow(cursor, bytes)?;
                continue;
            }
            let next = cursor + bytes as u64;
            if self.cursor.compare_exchange_weak(cursor, next, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            return Ok((number as u32, offset as u32));
        }
    }

    /// Makes room for `needed` bytes, unless another thread has moved the cursor meanwhile.
    fn grow(&self, cursor: u64, needed: usize) -> Result<()> {
        let _growing = self.grow.lock();
        if self.cursor.load(Ordering::Acquire) != cursor {
            return Ok(());
        }
        let current = (cursor >> 32) as usize;
        let number = if self.chunks[current].get().is_some() { current + 1 } else { current };
        if number == MAX_CHUNKS {
            return Err(heap_is_full());
        }
        let chunk = Arc::new(Chunk(Area::try_zeroed(self.next_bytes().max(needed))?));
        assert!(self.chunks[number].set(chunk).is_ok(), "chunks are added under the mutex only");
        // Others may still reserve bytes at the end of the current chunk; they only add to the lower half.
        let mut seen = cursor;
        while let Err(now) =
            self.cursor.compare_exchange(seen, (number as u64) << 32, Ordering::AcqRel, Ordering::Acquire)
        {
            seen = now;
        }
        Ok(())
    }

    /// How large the next chunk is that no single string needs larger.
    fn next_bytes(&self) -> usize {
        let expected_bytes = self.expected_bytes.load(Ordering::Relaxed);
        let (mut total, mut unexpected) = (0, 0);
        for chunk in self.chunks() {
            unexpected += usize::from(total >= expected_bytes);
            total += chunk.bytes();
        }
        match expected_bytes.checked_sub(total) {
            None | Some(0) => regular_bytes(unexpected),
            Some(left) => {
                let left = left.next_multiple_of(FIRST_CHUNK_BYTES);
                (1 << left.ilog2()).min(EXPECTED_CHUNK_BYTES_MAX)
            }
        }
    }

    /// Where a place would be: not to be read from, only to ask for the memory. Takes any place.
    #[inline]
    pub(crate) fn address(&self, chunk: u32, offset: u32) -> Option<*const u8> {
        let chunk = self.chunks.get(chunk as usize)?.get()?;
        Some(chunk.pointer().wrapping_add(offset as usize))
    }

    /// The bytes at a place that `append` returned.
    ///
    /// # Safety
    /// The place must come from a view that was published by a completed write to this heap.
    pub(crate) unsafe fn bytes(&self, chunk: u32, offset: u32, length: u32) -> &[u8] {
        let chunk = self.chunks[chunk as usize].get().expect("a view points into an existing chunk");
        assert!(offset as usize + length as usize <= chunk.bytes(), "a view points into its chunk");
        // SAFETY: in bounds by the assertion; written before the view was published and never again.
        unsafe { std::slice::from_raw_parts(chunk.pointer().add(offset as usize), length as usize) }
    }
}

/// Strings on their way into a heap, for which room is reserved a piece at a time.
pub(crate) struct Filling<'h> {
    heap: &'h Heap,
    /// Bytes that are still to come.
    left: usize,
    /// Where the rest of the piece is that was reserved last.
    piece: (u32, u32),
    piece_bytes: usize,
}

impl Filling<'_> {
    /// Copies the bytes into the heap, like [`Heap::append`].
    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(u32, u32)> {
        if self.piece_bytes < bytes.len() {
            self.piece_bytes = self.left.min(FIRST_CHUNK_BYTES).max(bytes.len());
            self.piece = self.heap.reserve(self.piece_bytes)?;
        }
        let (number, offset) = self.piece;
        // SAFETY: the piece was reserved for this alone, and has room for the bytes; those before them have their own.
        unsafe { self.heap.put(number, offset, bytes) };
        self.piece.1 += bytes.len() as u32;
        self.piece_bytes -= bytes.len();
        self.left = self.left.saturating_sub(bytes.len());
        Ok((number, offset))
    }
}

/// How large a chunk of a heap is, of those that nothing was expected for. Memory that is never touched costs nothing.
fn regular_bytes(number: usize) -> usize {
    FIRST_CHUNK_BYTES << (number.min(DOUBLINGS) + (number / SLOW_DOUBLING).min(SLOW_DOUBLINGS))
}

#[cold]
fn heap_is_full() -> Error {
    let message = "too many long strings in one column of neighbouring rows";
    let hint = "Delete or update fewer of them at a time, or distribute them over more rows.";
    Error::new(SqlState::ProgramLimitExceeded, message).with_hint(hint)
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
                    let places: Vec<_> =
                        strings.iter().map(|bytes| heap.append(bytes).expect("there is memory")).collect();
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
    fn chunks_are_as_large_together_as_what_is_expected() {
        let filled = |expected: usize, bytes: usize| {
            let heap = Heap::expecting(expected);
            for _ in 0..bytes / 27 {
                heap.append(&[7; 27]).expect("there is memory");
            }
            heap.chunks().map(|chunk| chunk.bytes()).collect::<Vec<_>>()
        };
        const KIB: usize = 1 << 10;
        assert_eq!(filled(220 * KIB, 220 * KIB), [128, 64, 32].map(|size| size * KIB));
        assert_eq!(filled(220 * KIB, 230 * KIB), [128, 64, 32, 16].map(|size| size * KIB));
        assert_eq!(filled(0, 220 * KIB), [16, 32, 64, 128].map(|size| size * KIB));
        assert_eq!(filled(2500 * KIB, 2500 * KIB), [1024, 1024, 256, 128, 64, 32].map(|size| size * KIB));
        assert_eq!(filled(1, 20 * KIB), [16, 16].map(|size| size * KIB));
    }

    #[test]
    fn many_strings_lie_apart_and_in_little_more_than_their_bytes() {
        let heap = Heap::new();
        let before = heap.append(b"a string before them").expect("there is memory");
        let strings: Vec<Vec<u8>> = (0..8_192usize).map(|i| vec![i as u8; 13 + i % 60]).collect();
        let bytes: usize = strings.iter().map(Vec::len).sum();
        heap.expect(heap.used_bytes() + bytes);
        // One more than was announced, which is longer than a piece.
        let more = vec![7; 3 * FIRST_CHUNK_BYTES];
        let mut filling = heap.filling(bytes);
        let mut place = |bytes: &Vec<u8>| filling.append(bytes).expect("there is memory");
        let places: Vec<_> = strings.iter().map(&mut place).collect();
        let chunk_bytes: usize = heap.chunks().map(|chunk| chunk.bytes()).sum();
        assert!(chunk_bytes < bytes + bytes / 16 + 2 * FIRST_CHUNK_BYTES, "{chunk_bytes} for {bytes}");
        let last = place(&more);
        for (bytes, (chunk, offset)) in strings.iter().zip(places).chain([(&more, last)]) {
            // SAFETY: the place is our own append's.
            assert_eq!(unsafe { heap.bytes(chunk, offset, bytes.len() as u32) }, &bytes[..]);
        }
        // SAFETY: as above.
        assert_eq!(unsafe { heap.bytes(before.0, before.1, 20) }, b"a string before them");
    }

    #[test]
    fn a_string_larger_than_a_chunk_gets_its_own() {
        let heap = Heap::new();
        heap.append(b"small").expect("there is memory");
        let large = vec![7u8; 1 << 20];
        let (chunk, offset) = heap.append(&large).expect("there is memory");
        // SAFETY: the place is our own append's.
        assert_eq!(unsafe { heap.bytes(chunk, offset, large.len() as u32) }, &large[..]);
    }

    /// Each of 300 strings needs a chunk of its own, as long as chunks are of 64 MiB.
    #[test]
    fn hundreds_of_strings_longer_than_half_a_chunk_fit() {
        let heap = Heap::new();
        for _ in 0..300 {
            let reserved = heap.reserve(33 << 20).expect("memory that is not touched costs nothing");
            assert!((reserved.0 as usize) < MAX_CHUNKS);
        }
        assert!(heap.used_bytes() >= 300 * (33 << 20));
    }

    /// Only addresses are used up. A sanitizer's allocator gives out less of them.
    #[cfg(not(ankerdb_sanitize))]
    #[test]
    fn a_full_heap_is_an_error_and_goes_on_with_what_fits() {
        let heap = Heap::new();
        let error = loop {
            if let Err(error) = heap.reserve((3 << 30) - 32) {
                break error;
            }
        };
        assert_eq!(error.state(), SqlState::ProgramLimitExceeded);
        heap.reserve(32).expect("there is room at the end of the last chunk");
    }
}
