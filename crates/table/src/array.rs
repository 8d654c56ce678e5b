//! One column of one row block: values, validity, string heap.
//!
//! Cells are read and written through relaxed atomics by any number of threads. A single load of a cell may mix
//! an old and a new write; the row's header tells (see `header`), and the caller throws such a cell away.

use crate::area::Area;
use crate::cell::{Cell, CellLayout, INLINE_BYTES};
use crate::heap::{Chunk, Heap};
use ankerdb_base::{ROWS_PER_BLOCK, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Heaps smaller than this are not worth rebuilding.
const REBUILD_BYTES_MIN: usize = 64 << 10;

/// The memory of one column of one block: room for [`ROWS_PER_BLOCK`] cells.
pub struct ColumnArray {
    layout: CellLayout,
    values: Area,
    /// One bit a row, 1 = not NULL; only for columns that may hold NULL.
    validity: Option<Area>,
    heap: Option<Arc<Heap>>,
    /// Bytes of `heap` that no cell points to any more.
    garbage_bytes: AtomicUsize,
}

/// A cell as loaded, before the row's header has confirmed it. A view must not be resolved before that.
#[derive(Clone, Copy)]
pub enum RawCell {
    /// NULL
    Null,
    /// Up to 64 bits, sign-extended.
    Word(u64),
    /// 128 bits.
    Wide(u128),
    /// A view.
    View(u128),
}

impl ColumnArray {
    /// An array of zero (or NULL) cells.
    ///
    /// # Errors
    /// 53200 if there is no memory.
    pub fn new(layout: CellLayout, nullable: bool) -> Result<ColumnArray> {
        ColumnArray::expecting(layout, nullable, 0)
    }

    /// An array of zero (or NULL) cells, into which about so many bytes of long strings will come.
    ///
    /// # Errors
    /// 53200 if there is no memory.
    pub(crate) fn expecting(layout: CellLayout, nullable: bool, string_bytes: usize) -> Result<ColumnArray> {
        let validity = nullable.then(|| Area::try_zeroed(CellLayout::Bit.bytes(ROWS_PER_BLOCK)));
        Ok(ColumnArray {
            layout,
            values: Area::try_zeroed(layout.bytes(ROWS_PER_BLOCK))?,
            validity: validity.transpose()?,
            heap: (layout == CellLayout::View).then(|| Arc::new(Heap::expecting(string_bytes))),
            garbage_bytes: AtomicUsize::new(0),
        })
    }

    /// An array of zero (or NULL) cells in a segment's memory, which is zeroed.
    pub(crate) fn placed(layout: CellLayout, values: Area, validity: Option<Area>) -> ColumnArray {
        let heap = (layout == CellLayout::View).then(|| Arc::new(Heap::new()));
        ColumnArray { layout, values, validity, heap, garbage_bytes: AtomicUsize::new(0) }
    }

    /// How the cells lie in memory.
    pub fn layout(&self) -> CellLayout {
        self.layout
    }

    /// The cells' memory.
    pub fn values(&self) -> &Area {
        &self.values
    }

    /// The validity bits' memory, if the column may hold NULL.
    pub fn validity(&self) -> Option<&Area> {
        self.validity.as_ref()
    }

    /// The chunks that views point into, in the order of their numbers.
    pub fn chunks(&self) -> impl Iterator<Item = &Arc<Chunk>> {
        self.heap.iter().flat_map(|heap| heap.chunks())
    }

    /// Where a cell lies: not to be read from, only to ask for the memory.
    #[inline]
    pub(crate) fn cell_address(&self, row: usize) -> *const u8 {
        self.values.pointer().wrapping_add(self.layout.bytes(row)).cast_const()
    }

    /// The address of the bytes behind a long string's view, which it loads: only to ask for the memory, as
    /// [`cell_address`](Self::cell_address).
    #[inline]
    pub(crate) fn bytes_address(&self, row: usize) -> Option<*const u8> {
        let heap = self.heap.as_ref()?;
        let view = self.load_wide(row);
        // The view may be half of an old and half of a new one: that is harmless, as nothing is read from the
        // address.
        let is_long = view as u32 as usize > INLINE_BYTES;
        is_long.then(|| heap.address((view >> 64) as u32, (view >> 96) as u32)).flatten()
    }

    /// Loads a cell; see [`RawCell`].
    #[inline]
    pub fn load(&self, row: usize) -> RawCell {
        if let Some(validity) = &self.validity
            && validity.word(row / 64).load(Relaxed) >> (row % 64) & 1 == 0
        {
            return RawCell::Null;
        }
        match self.layout {
            CellLayout::Bit => RawCell::Word(self.values.word(row / 64).load(Relaxed) >> (row % 64) & 1),
            CellLayout::Half => RawCell::Word(self.values.half(row).load(Relaxed) as i16 as i64 as u64),
            CellLayout::Quad => RawCell::Word(self.values.quad(row).load(Relaxed) as i32 as i64 as u64),
            CellLayout::Word => RawCell::Word(self.values.word(row).load(Relaxed)),
            CellLayout::Wide => RawCell::Wide(self.load_wide(row)),
            CellLayout::View => RawCell::View(self.load_wide(row)),
        }
    }

    fn load_wide(&self, row: usize) -> u128 {
        let low = self.values.word(row * 2).load(Relaxed) as u128;
        low | (self.values.word(row * 2 + 1).load(Relaxed) as u128) << 64
    }

    fn store_wide(&self, row: usize, wide: u128) {
        self.values.word(row * 2).store(wide as u64, Relaxed);
        self.values.word(row * 2 + 1).store((wide >> 64) as u64, Relaxed);
    }

    /// Turns a loaded cell into its content.
    ///
    /// # Safety
    /// The load must have been confirmed: no write to the cell was under way (see `header`). `raw` must come from
    /// this array.
    #[inline]
    pub unsafe fn resolve<'a>(&'a self, raw: &'a RawCell) -> Cell<'a> {
        match raw {
            RawCell::Null => Cell::Null,
            RawCell::Word(word) => Cell::Word(*word),
            RawCell::Wide(wide) => Cell::Wide(*wide),
            RawCell::View(view) => {
                let length = *view as u32;
                if length as usize <= INLINE_BYTES {
                    let start = std::ptr::from_ref(view).cast::<u8>();
                    // SAFETY: `view` is 16 bytes in memory, little-endian: length first, then up to 12 bytes.
                    return Cell::Bytes(unsafe { std::slice::from_raw_parts(start.add(4), length as usize) });
                }
                let heap = self.heap.as_ref().expect("only view columns hold views");
                // SAFETY: the load is confirmed, so the view was published by a completed write.
                Cell::Bytes(unsafe { heap.bytes((*view >> 64) as u32, (*view >> 96) as u32, length) })
            }
        }
    }

    /// Bytes of long strings, those included that no cell points to any more.
    pub(crate) fn string_bytes(&self) -> usize {
        self.heap.as_ref().map_or(0, |heap| heap.used_bytes())
    }

    /// Puts a string that is too long for its view into the heap, to be [stored](Self::store) later; returns its view.
    /// Errors as of [`Heap::append`].
    pub(crate) fn place(&self, bytes: &[u8]) -> Result<u128> {
        let heap = self.heap.as_ref().expect("only view columns hold views");
        let (chunk, offset) = heap.append(bytes)?;
        Ok(outline_view(bytes, chunk, offset))
    }

    /// Notes that a placed string will not be stored.
    pub(crate) fn forget(&self, bytes: usize) {
        self.garbage_bytes.fetch_add(bytes, Relaxed);
    }

    /// The view of a row's string, if that is a long one. The caller owns the row.
    pub(crate) fn long_view(&self, row: usize) -> Option<u128> {
        let view = (self.layout == CellLayout::View).then(|| self.load_wide(row))?;
        (view as u32 as usize > INLINE_BYTES).then_some(view)
    }

    /// Notes that an overwritten string is in use again.
    pub(crate) fn remember(&self, bytes: usize) {
        self.garbage_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Writes a cell; a long string's bytes lie in the heap already, where `view` says. The caller holds the row and is
    /// registered as a writer of the block.
    #[inline]
    pub(crate) fn store(&self, row: usize, cell: Cell<'_>, view: Option<u128>) {
        if let Some(validity) = &self.validity {
            let bit = 1u64 << (row % 64);
            let word = validity.word(row / 64);
            // Neighbouring rows share the word and may be written by other threads.
            match cell {
                Cell::Null => word.fetch_and(!bit, Relaxed),
                _ => word.fetch_or(bit, Relaxed),
            };
        }
        match (self.layout, cell) {
            (CellLayout::View, cell) => self.store_view(row, cell, view),
            (_, Cell::Null) => {}
            (CellLayout::Bit, Cell::Word(value)) => {
                let bit = 1u64 << (row % 64);
                let word = self.values.word(row / 64);
                if value != 0 {
                    word.fetch_or(bit, Relaxed)
                } else {
                    word.fetch_and(!bit, Relaxed)
                };
            }
            (CellLayout::Half, Cell::Word(value)) => self.values.half(row).store(value as u16, Relaxed),
            (CellLayout::Quad, Cell::Word(value)) => self.values.quad(row).store(value as u32, Relaxed),
            (CellLayout::Word, Cell::Word(value)) => self.values.word(row).store(value, Relaxed),
            (CellLayout::Wide, Cell::Wide(value)) => self.store_wide(row, value),
            (layout, cell) => unreachable!("{cell:?} in a column of layout {layout:?}"),
        }
    }

    /// Overwrites the first values with bytes that were copied from an array of this layout, which is not one of views.
    pub(crate) fn restore_values(&self, bytes: &[u8]) {
        restore_words(&self.values, bytes);
    }

    /// Overwrites the first validity bits, if the column may hold NULL.
    pub(crate) fn restore_validity(&self, bits: &[u8]) {
        if let Some(validity) = &self.validity {
            restore_words(validity, bits);
        }
    }

    /// Overwrites cells of a column of strings that has never had any, but for its validity bits.
    ///
    /// # Errors
    /// Those of [`place`](Self::place).
    pub(crate) fn restore_strings<'a>(
        &self,
        strings: impl Iterator<Item = (usize, &'a [u8])> + Clone,
    ) -> Result<()> {
        let heap = self.heap.as_ref().expect("only view columns hold views");
        let lengths = strings.clone().map(|(_, bytes)| bytes.len());
        let long_bytes = lengths.filter(|length| *length > INLINE_BYTES).sum();
        heap.expect(heap.used_bytes() + long_bytes);
        let mut filling = heap.filling(long_bytes);
        for (row, bytes) in strings {
            let view = if bytes.len() <= INLINE_BYTES {
                inline_view(bytes)
            } else {
                let (chunk, offset) = filling.append(bytes)?;
                outline_view(bytes, chunk, offset)
            };
            self.store_wide(row, view);
        }
        Ok(())
    }

    /// Writes a cell as [`store`](Self::store) does, to an array that no other code can reach, where no instruction has to
    /// be atomic.
    #[inline]
    pub(crate) fn fill(&mut self, row: usize, cell: Cell<'_>, view: Option<u128>) {
        if let Some(validity) = &self.validity {
            put_bit(validity, row, cell != Cell::Null);
        }
        match (self.layout, cell) {
            (CellLayout::View, cell) => self.store_view(row, cell, view),
            (_, Cell::Null) => {}
            (CellLayout::Bit, Cell::Word(value)) => put_bit(&self.values, row, value != 0),
            (CellLayout::Half, Cell::Word(value)) => self.values.half(row).store(value as u16, Relaxed),
            (CellLayout::Quad, Cell::Word(value)) => self.values.quad(row).store(value as u32, Relaxed),
            (CellLayout::Word, Cell::Word(value)) => self.values.word(row).store(value, Relaxed),
            (CellLayout::Wide, Cell::Wide(value)) => self.store_wide(row, value),
            (layout, cell) => unreachable!("{cell:?} in a column of layout {layout:?}"),
        }
    }

    fn store_view(&self, row: usize, cell: Cell<'_>, view: Option<u128>) {
        let old_length = self.load_wide(row) as u32 as usize;
        if old_length > INLINE_BYTES {
            self.garbage_bytes.fetch_add(old_length, Relaxed);
        }
        let view = match cell {
            Cell::Bytes(bytes) if bytes.len() <= INLINE_BYTES => inline_view(bytes),
            Cell::Bytes(_) => view.expect("long strings are placed before they are stored"),
            _ => 0,
        };
        self.store_wide(row, view);
    }

    /// Whether so much of the heap is garbage that a copy with a new heap pays.
    pub fn wants_rebuild(&self) -> bool {
        let garbage = self.garbage_bytes.load(Relaxed);
        garbage > REBUILD_BYTES_MIN && self.heap.as_ref().is_some_and(|heap| garbage > heap.used_bytes() / 2)
    }

    /// A copy to write on while this array is lent. The copy shares the heap, whose bytes never change, unless it
    /// is mostly garbage and may be left: no string may be in it that was placed and is still to be stored. No write may
    /// be under way on this array.
    pub(crate) fn duplicate(&self, may_leave_heap: bool) -> ColumnArray {
        let mut copy = ColumnArray {
            layout: self.layout,
            values: self.values.copy_prefix(self.values.bytes()),
            validity: self.validity.as_ref().map(|validity| validity.copy_prefix(validity.bytes())),
            heap: self.heap.clone(),
            garbage_bytes: AtomicUsize::new(self.garbage_bytes.load(Relaxed)),
        };
        if may_leave_heap
            && self.wants_rebuild()
            && let Ok(heap) = self.compact(&copy)
        {
            copy.heap = Some(Arc::new(heap));
            copy.garbage_bytes = AtomicUsize::new(0);
        }
        copy
    }

    /// A heap of the strings that cells point to, and their new views in `copy`. Where there is no memory for one, all
    /// views in `copy` are as they were.
    fn compact(&self, copy: &ColumnArray) -> Result<Heap> {
        let heap = Heap::new();
        let mut views = Vec::new();
        for row in 0..ROWS_PER_BLOCK {
            let raw = RawCell::View(self.load_wide(row));
            // SAFETY: no write is under way on this array, so every view in it is published.
            if let Cell::Bytes(bytes) = unsafe { self.resolve(&raw) }
                && bytes.len() > INLINE_BYTES
            {
                let (chunk, offset) = heap.append(bytes)?;
                views.push((row, outline_view(bytes, chunk, offset)));
            }
        }
        views.into_iter().for_each(|(row, view)| copy.store_wide(row, view));
        Ok(heap)
    }

    /// Bytes of memory behind this array.
    pub fn memory_bytes(&self) -> usize {
        let chunks: usize = self.chunks().map(|chunk| chunk.bytes()).sum();
        self.values.bytes() + self.validity.as_ref().map_or(0, Area::bytes) + chunks
    }
}

/// Overwrites the first words; a part of a word is filled up with zeros.
fn restore_words(area: &Area, bytes: &[u8]) {
    let words = area.words(bytes.len().div_ceil(8));
    let (whole, rest) = bytes.as_chunks();
    for (word, bytes) in words.iter().zip(whole) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
    if !rest.is_empty() {
        let mut filled = [0; 8];
        filled[..rest.len()].copy_from_slice(rest);
        words[whole.len()].store(u64::from_le_bytes(filled), Relaxed);
    }
}

/// Sets or clears a bit of an area that no other code can reach.
#[inline]
fn put_bit(area: &Area, row: usize, on: bool) {
    let (word, bit) = (area.word(row / 64), 1u64 << (row % 64));
    let bits = word.load(Relaxed);
    word.store(if on { bits | bit } else { bits & !bit }, Relaxed);
}

/// The view of at most twelve bytes.
pub fn inline_view(bytes: &[u8]) -> u128 {
    assert!(bytes.len() <= INLINE_BYTES);
    let mut view = [0u8; 16];
    view[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    view[4..4 + bytes.len()].copy_from_slice(bytes);
    u128::from_le_bytes(view)
}

/// The view of more than twelve bytes that lie at `offset` of buffer number `buffer`.
pub fn outline_view(bytes: &[u8], buffer: u32, offset: u32) -> u128 {
    assert!(bytes.len() > INLINE_BYTES);
    let prefix = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    bytes.len() as u128 | (prefix as u128) << 32 | (buffer as u128) << 64 | (offset as u128) << 96
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(array: &ColumnArray, row: usize) -> crate::cell::OwnedCell {
        let raw = array.load(row);
        // SAFETY: single-threaded test, no write is under way.
        unsafe { array.resolve(&raw) }.to_owned()
    }

    fn write(array: &ColumnArray, row: usize, cell: Cell<'_>) {
        let view = cell.long_bytes().map(|bytes| array.place(bytes).expect("there is memory"));
        array.store(row, cell, view);
    }

    #[test]
    fn cells_of_every_layout_come_back() {
        let cells = [
            (CellLayout::Bit, Cell::Word(1)),
            (CellLayout::Half, Cell::Word(-5i64 as u64)),
            (CellLayout::Quad, Cell::Word(-70_000i64 as u64)),
            (CellLayout::Word, Cell::Word(u64::MAX / 3)),
            (CellLayout::Wide, Cell::Wide(u128::MAX / 3)),
            (CellLayout::View, Cell::Bytes(b"twelve bytes")),
            (CellLayout::View, Cell::Bytes(b"thirteen bytes and more")),
        ];
        for (layout, cell) in cells {
            let array = ColumnArray::new(layout, true).expect("there is memory");
            assert_eq!(read(&array, 77).borrow(), Cell::Null);
            write(&array, 77, cell);
            assert_eq!(read(&array, 77).borrow(), cell);
            assert_eq!(read(&array, 76).borrow(), Cell::Null);
            assert_eq!(read(&array.duplicate(true), 77).borrow(), cell);
            write(&array, 77, Cell::Null);
            assert_eq!(read(&array, 77).borrow(), Cell::Null);
        }
    }

    #[test]
    fn a_heap_of_garbage_is_rebuilt() {
        let array = ColumnArray::new(CellLayout::View, false).expect("there is memory");
        for round in 0..2000u32 {
            write(&array, 5, Cell::Bytes(format!("round {round} {}", "x".repeat(100)).as_bytes()));
        }
        assert!(array.wants_rebuild());
        assert!(array.duplicate(false).wants_rebuild(), "strings may be placed in it");
        let rebuilt = array.duplicate(true);
        assert_eq!(read(&rebuilt, 5), read(&array, 5));
        assert!(!rebuilt.wants_rebuild() && rebuilt.memory_bytes() < array.memory_bytes());
    }
}
