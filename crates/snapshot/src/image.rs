//! What analytics get to see of a block: columns in Arrow's physical layout, unchanging.

use ankerdb_base::{ColumnPosition, ROWS_PER_BLOCK};
use ankerdb_sync::lending::Lent;
use ankerdb_table::{Area, Cell, CellLayout, Chunk, ColumnArray, inline_view, outline_view};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Immutable memory with its owner.
#[derive(Clone)]
pub struct Bytes {
    /// Where it starts; 64-byte aligned.
    pub pointer: *const u8,
    /// How many bytes may be read.
    pub length: usize,
    /// Keeps the memory alive and unchanged.
    pub owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: nothing that a reader of this column may look at is written while the owner lives (lent arrays are not
// written, copies belong to their owner, heaps only grow), and the owner may be shared.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

/// One column of a block. The memory stays as it is while this lives.
///
/// Boolean: bits; smallint: i16; integer and date: i32; bigint and timestamps: i64; numeric: the narrowest of i32,
/// i64, i128 that holds its precision (up to 9, 18, 38 digits); uuid: 16 bytes; text and bytea: 16-byte views.
#[derive(Clone)]
pub struct ColumnImage {
    /// The cells.
    pub values: Bytes,
    /// Validity bits (1 = not NULL); `None` if the column forbids NULL.
    pub validity: Option<Bytes>,
    /// The buffers that views point into.
    pub heaps: Vec<Bytes>,
    /// Whether `values` is the live array, lent, and not a copy.
    pub lent: bool,
}

/// The columns of one block as a view shows them.
pub struct BlockImage {
    /// Length of every column, rows that do not exist included.
    pub rows: usize,
    /// Which rows exist; `None` if all do. Bit i of word i / 64, least significant first.
    pub selection: Option<Box<[u64]>>,
    /// The columns, in the order asked for.
    pub columns: Vec<ColumnImage>,
}

impl BlockImage {
    /// Whether a row exists.
    pub fn exists(&self, row: usize) -> bool {
        let is_selected = |bits: &[u64]| bits.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1);
        row < self.rows && self.selection.as_deref().is_none_or(is_selected)
    }

    /// The string at a place of a column whose cells are views; `None` if it is NULL, or if there is no row.
    ///
    /// # Panics
    /// If the cells of the column are no views.
    pub fn string(&self, column: ColumnPosition, row: usize) -> Option<&[u8]> {
        let image = &self.columns[column.0];
        let is_valid = |bits: &[u8]| bits[row / 8] >> (row % 8) & 1 == 1;
        if !self.exists(row) || !image.validity_bytes().is_none_or(is_valid) {
            return None;
        }
        let cell: &[u8; 16] = image.value_bytes()[row * 16..].first_chunk().expect("views have 16 bytes");
        let part =
            |at: usize| u32::from_le_bytes([cell[at], cell[at + 1], cell[at + 2], cell[at + 3]]) as usize;
        let length = part(0);
        if length <= 12 {
            return Some(&cell[4..4 + length]);
        }
        let (heap, offset) = (&image.heaps[part(8)], part(12));
        assert!(offset + length <= heap.length, "strings lie in their heaps");
        // SAFETY: in bounds; the cell is one of a row that exists, so that its string was written as a whole before, and strings
        // never change.
        Some(unsafe { std::slice::from_raw_parts(heap.pointer.add(offset), length) })
    }
}

impl ColumnImage {
    /// The cells, with whatever lies at places without a row.
    pub fn value_bytes(&self) -> &[u8] {
        // SAFETY: readable and unchanging for as long as the owner lives, which this image keeps.
        unsafe { std::slice::from_raw_parts(self.values.pointer, self.values.length) }
    }

    /// The validity bits, if the column may hold NULL.
    pub fn validity_bytes(&self) -> Option<&[u8]> {
        // SAFETY: as above.
        self.validity.as_ref().map(|bits| unsafe { std::slice::from_raw_parts(bits.pointer, bits.length) })
    }

    /// Memory of this image that is its own, not the table's.
    pub fn copied_bytes(&self) -> usize {
        if self.lent { 0 } else { self.values.length + self.validity.as_ref().map_or(0, |bits| bits.length) }
    }

    /// The cells of a column whose type is stored as words (bigint, double precision, timestamps).
    pub fn words(&self) -> &[u64] {
        // SAFETY: readable, 64-byte aligned and unchanging for as long as the owner lives, which this image keeps; any
        // bits are a word.
        unsafe { std::slice::from_raw_parts(self.values.pointer.cast(), self.values.length / 8) }
    }

    /// Live arrays of one block, lent together and given back together.
    pub fn of_lent(arrays: Vec<Lent<ColumnArray>>) -> Vec<ColumnImage> {
        let owner = Arc::new(arrays);
        let image = |array: &Lent<ColumnArray>| {
            let bytes =
                |area: &Area| Bytes { pointer: area.pointer(), length: area.bytes(), owner: owner.clone() };
            ColumnImage {
                values: bytes(array.values()),
                validity: array.validity().map(bytes),
                heaps: array.chunks().map(chunk_bytes).collect(),
                lent: true,
            }
        };
        owner.iter().map(image).collect()
    }
}

fn chunk_bytes(chunk: &Arc<Chunk>) -> Bytes {
    Bytes { pointer: chunk.pointer(), length: chunk.bytes(), owner: chunk.clone() }
}

/// A column copied for readers, while it is being put together.
pub(crate) struct ColumnCopy {
    layout: CellLayout,
    values: Area,
    validity: Option<Area>,
    chunks: Vec<Arc<Chunk>>,
    /// Strings that are in no heap of the table.
    strings: Vec<u8>,
}

impl ColumnCopy {
    /// The first `rows` cells of a live array. Cells being written meanwhile come out mixed up: the caller
    /// replaces them.
    pub(crate) fn of(array: &ColumnArray, rows: usize) -> ColumnCopy {
        let layout = array.layout();
        let values = array.values().copy_prefix(layout.bytes(rows));
        let validity = array.validity().map(|bits| bits.copy_prefix(CellLayout::Bit.bytes(rows)));
        // Chunks after views: whatever a completed view points to is among them.
        let chunks = array.chunks().cloned().collect();
        ColumnCopy { layout, values, validity, chunks, strings: Vec::new() }
    }

    /// Room for `rows` cells, none set.
    pub(crate) fn empty(layout: CellLayout, nullable: bool, rows: usize) -> ColumnCopy {
        ColumnCopy {
            layout,
            values: Area::zeroed(layout.bytes(rows)),
            validity: nullable.then(|| Area::zeroed(CellLayout::Bit.bytes(rows))),
            chunks: Vec::new(),
            strings: Vec::new(),
        }
    }

    /// Memory that was copied by other means, in which cells are to be corrected. No cell in it is half written.
    pub(crate) fn over(array: &ColumnArray, values: Area, validity: Option<Area>) -> ColumnCopy {
        let chunks = array.chunks().cloned().collect();
        ColumnCopy { layout: array.layout(), values, validity, chunks, strings: Vec::new() }
    }

    /// Replaces a cell unless it is as it should be, so that memory is written to only where it must be.
    pub(crate) fn put_back(&mut self, row: usize, cell: Cell<'_>) {
        if !self.holds(row, cell) {
            let buffers = self.buffers();
            self.set(row, cell, buffers);
        }
    }

    fn holds(&self, row: usize, cell: Cell<'_>) -> bool {
        let bit = |area: &Area| area.word(row / 64).load(Relaxed) >> (row % 64) & 1;
        let is_null = self.validity.as_ref().is_some_and(|validity| bit(validity) == 0);
        if is_null || cell == Cell::Null {
            return is_null && cell == Cell::Null;
        }
        match (self.layout, cell) {
            (CellLayout::Bit, Cell::Word(value)) => bit(&self.values) == u64::from(value != 0),
            (CellLayout::Half, Cell::Word(value)) => self.values.half(row).load(Relaxed) == value as u16,
            (CellLayout::Quad, Cell::Word(value)) => self.values.quad(row).load(Relaxed) == value as u32,
            (CellLayout::Word, Cell::Word(value)) => self.values.word(row).load(Relaxed) == value,
            (CellLayout::Wide, Cell::Wide(value)) => self.wide(row) == value,
            (CellLayout::View, Cell::Bytes(bytes)) if bytes.len() <= 12 => {
                self.wide(row) == inline_view(bytes)
            }
            (CellLayout::View, Cell::Bytes(bytes)) => {
                let view = self.wide(row);
                let (buffer, offset) = ((view >> 64) as u32 as usize, (view >> 96) as u32 as usize);
                view as u64 == outline_view(bytes, 0, 0) as u64
                    && self.chunks.get(buffer).is_some_and(|chunk| chunk.holds(offset, bytes))
            }
            _ => false,
        }
    }

    fn wide(&self, row: usize) -> u128 {
        let word = |index: usize| self.values.word(index).load(Relaxed) as u128;
        word(row * 2) | word(row * 2 + 1) << 64
    }

    /// The buffers behind a corrected column: the table's chunks, then own strings.
    pub(crate) fn into_heaps(self) -> Box<[Bytes]> {
        let mut heaps: Vec<Bytes> = self.chunks.iter().map(chunk_bytes).collect();
        heaps.extend(own_strings(&self.strings));
        heaps.into()
    }

    /// A copy of a finished image to change.
    pub(crate) fn of_image(image: &ColumnImage, layout: CellLayout, rows: usize) -> (ColumnCopy, Vec<Bytes>) {
        let copy_bits = |bytes: &Bytes, length: usize| {
            let area = Area::zeroed(length);
            // SAFETY: an image's bytes are readable and unchanging for `length` bytes; the area is ours.
            unsafe { std::ptr::copy_nonoverlapping(bytes.pointer, area.pointer(), length.min(bytes.length)) };
            area
        };
        let copy = ColumnCopy {
            layout,
            values: copy_bits(&image.values, layout.bytes(rows)),
            validity: image.validity.as_ref().map(|bits| copy_bits(bits, CellLayout::Bit.bytes(rows))),
            chunks: Vec::new(),
            strings: Vec::new(),
        };
        (copy, image.heaps.clone())
    }

    /// Replaces a cell. `buffers` is the number of heap buffers that come before this copy's own strings.
    pub(crate) fn set(&mut self, row: usize, cell: Cell<'_>, buffers: usize) {
        let (word, bit) = (row / 64, 1u64 << (row % 64));
        let put = |area: &Area, on: bool| {
            let old = area.word(word).load(Relaxed);
            area.word(word).store(if on { old | bit } else { old & !bit }, Relaxed);
        };
        if let Some(validity) = &self.validity {
            put(validity, cell != Cell::Null);
        }
        match (self.layout, cell) {
            (CellLayout::Bit, Cell::Word(value)) => put(&self.values, value != 0),
            (CellLayout::Half, Cell::Word(value)) => self.values.half(row).store(value as u16, Relaxed),
            (CellLayout::Quad, Cell::Word(value)) => self.values.quad(row).store(value as u32, Relaxed),
            (CellLayout::Word, Cell::Word(value)) => self.values.word(row).store(value, Relaxed),
            (CellLayout::Wide, Cell::Wide(value)) => self.set_wide(row, value),
            (CellLayout::View, Cell::Bytes(bytes)) => {
                let view = self.view_of(bytes, buffers);
                self.set_wide(row, view);
            }
            (CellLayout::View | CellLayout::Wide, Cell::Null) => self.set_wide(row, 0),
            (_, Cell::Null) => {}
            (layout, cell) => unreachable!("{cell:?} in a column of layout {layout:?}"),
        }
    }

    fn view_of(&mut self, bytes: &[u8], buffers: usize) -> u128 {
        if bytes.len() <= 12 {
            return inline_view(bytes);
        }
        let offset = self.strings.len() as u32;
        self.strings.extend_from_slice(bytes);
        outline_view(bytes, buffers as u32, offset)
    }

    fn set_wide(&self, row: usize, value: u128) {
        self.values.word(row * 2).store(value as u64, Relaxed);
        self.values.word(row * 2 + 1).store((value >> 64) as u64, Relaxed);
    }

    /// How the cells lie in memory.
    pub(crate) fn layout(&self) -> CellLayout {
        self.layout
    }

    /// Whether the column may hold NULL.
    pub(crate) fn is_nullable(&self) -> bool {
        self.validity.is_some()
    }

    /// The number of heap buffers of the table behind this copy.
    pub(crate) fn buffers(&self) -> usize {
        self.chunks.len()
    }

    /// The finished image; `heaps` come first, then the table's chunks, then the copy's own strings.
    pub(crate) fn finish(self, mut heaps: Vec<Bytes>) -> ColumnImage {
        heaps.extend(self.chunks.iter().map(chunk_bytes));
        heaps.extend(own_strings(&self.strings));
        ColumnImage {
            values: owned_bytes(self.values),
            validity: self.validity.map(owned_bytes),
            heaps,
            lent: false,
        }
    }
}

fn own_strings(strings: &[u8]) -> Option<Bytes> {
    if strings.is_empty() {
        return None;
    }
    let area = Area::zeroed(strings.len());
    // SAFETY: the area is ours and at least as long.
    unsafe { std::ptr::copy_nonoverlapping(strings.as_ptr(), area.pointer(), strings.len()) };
    Some(owned_bytes(area))
}

fn owned_bytes(area: Area) -> Bytes {
    Bytes { pointer: area.pointer(), length: area.bytes(), owner: Arc::new(area) }
}

/// Whether all of the first `rows` bits are set.
pub(crate) fn all_ones(bits: &[u64], rows: usize) -> bool {
    debug_assert!(rows <= ROWS_PER_BLOCK);
    let (whole, rest) = (rows / 64, rows % 64);
    bits[..whole].iter().all(|word| *word == u64::MAX)
        && (rest == 0 || bits[whole] & ((1 << rest) - 1) == (1 << rest) - 1)
}
