//! Compressed copies of columns (docs/design/compressed-copies.md): a code of one, two or four bytes for each value, for conditions to read.
//!
//! A full block keeps them beside its columns. Each belongs to a state of its column, which the column's newest change names, and serves
//! every snapshot that shows this state. It is made for the second reader of a state, so that columns that change between any two readers
//! cost no more than a note.
//!
//! That a copy shows what a snapshot shows: its column was lent to the snapshot, so no commit after the snapshot had changed it. A later look at the
//! newest change that finds none after the snapshot finds therefore the last one before it, all of which were complete. Two
//! states with the same newest change are the same.

use crate::image::ColumnImage;
use ankerdb_base::{BlockNumber, ROWS_PER_BLOCK, Timestamp};
use ankerdb_table::{RowBlock, Storage, Table};
use ankerdb_value::DataType;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Numerics of so many digits are stored in 4 bytes, and in 8.
const DIGITS_QUAD: u8 = 9;
const DIGITS_WORD: u8 = 18;
/// Different texts that have codes of one byte.
const TEXTS_MAX: usize = 256;
/// What stands for all texts of more than 12 bytes: no short text is so long.
const LONG_TEXT: u128 = u128::MAX;

/// The values of a column of a full block as codes, in the order of rows.
pub struct CompressedColumn {
    codes: Box<[u8]>,
    /// Of a code.
    bytes: u8,
    meaning: Meaning,
}

enum Meaning {
    Above(i64),
    Texts(Box<[u128]>),
}

/// What the codes of a column mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodesMean<'a> {
    /// By how much a number is more than this one; the order of codes is that of numbers. Of a numeric its unscaled number.
    Above(i64),
    /// The place of a text among these, 16 bytes each as a block has them. All bits are set in the one that stands for all texts of more
    /// than 12 bytes.
    Texts(&'a [u128]),
}

impl CompressedColumn {
    /// A code for each row, in the byte order of the machine; any for a NULL, and where there is no row.
    pub fn codes(&self) -> &[u8] {
        &self.codes
    }

    /// Bytes of a code: 1, 2 or 4, and fewer than of a value.
    pub fn bytes(&self) -> u8 {
        self.bytes
    }

    /// What the codes mean.
    pub fn meaning(&self) -> CodesMean<'_> {
        match &self.meaning {
            Meaning::Above(least) => CodesMean::Above(*least),
            Meaning::Texts(texts) => CodesMean::Texts(texts),
        }
    }

    /// The column of a full block; `None` if its values are too far apart, or there are too many different ones. Two passes over it.
    fn of(image: &ColumnImage, data_type: DataType) -> Option<CompressedColumn> {
        match data_type {
            DataType::Integer | DataType::Date => of_numbers(image, i32::from_ne_bytes),
            DataType::BigInt => of_numbers(image, i64::from_ne_bytes),
            DataType::Numeric { precision: ..=DIGITS_QUAD, .. } => of_numbers(image, i32::from_ne_bytes),
            DataType::Numeric { precision: ..=DIGITS_WORD, .. } => of_numbers(image, i64::from_ne_bytes),
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) => of_texts(image),
            _ => None,
        }
    }
}

/// Whether the value of a row is not NULL.
fn validity(image: &ColumnImage) -> impl Fn(usize) -> bool {
    let bits = image.validity_bytes();
    move |row| bits.is_none_or(|bits| bits[row / 8] >> (row % 8) & 1 == 1)
}

fn of_numbers<const BYTES: usize, N: Into<i64>>(
    image: &ColumnImage,
    number: impl Fn([u8; BYTES]) -> N + Copy,
) -> Option<CompressedColumn> {
    let values = image.value_bytes().as_chunks::<BYTES>().0.get(..ROWS_PER_BLOCK)?;
    let bounds = |(least, greatest): (i64, i64), value: &[u8; BYTES]| {
        let number = number(*value).into();
        (least.min(number), greatest.max(number))
    };
    let none = (i64::MAX, i64::MIN);
    let (least, greatest) = match image.validity {
        None => values.iter().fold(none, bounds),
        Some(_) => {
            let is_valid = validity(image);
            let valid = values.iter().enumerate().filter(|(row, _)| is_valid(*row));
            valid.map(|(_, value)| value).fold(none, bounds)
        }
    };
    if least > greatest {
        return None;
    }
    let above = |value: &[u8; BYTES]| number(*value).into().wrapping_sub(least);
    let (codes, bytes) = match greatest.wrapping_sub(least) as u64 {
        0..0x100 => (codes(values, |value| [above(value) as u8]), 1),
        0x100..0x1_0000 => (codes(values, |value| (above(value) as u16).to_ne_bytes()), 2),
        0x1_0000..0x1_0000_0000 if BYTES > 4 => {
            (codes(values, |value| (above(value) as u32).to_ne_bytes()), 4)
        }
        _ => return None,
    };
    Some(CompressedColumn { codes, bytes, meaning: Meaning::Above(least) })
}

fn codes<V, const BYTES: usize>(values: &[V], code: impl Fn(&V) -> [u8; BYTES]) -> Box<[u8]> {
    let mut codes = vec![0; values.len() * BYTES];
    for (place, value) in codes.as_chunks_mut::<BYTES>().0.iter_mut().zip(values) {
        *place = code(value);
    }
    codes.into()
}

fn of_texts(image: &ColumnImage) -> Option<CompressedColumn> {
    let cells = image.value_bytes().as_chunks::<16>().0.get(..ROWS_PER_BLOCK)?;
    let is_valid = validity(image);
    let (mut places, mut texts) = (HashMap::new(), Vec::new());
    let mut codes = vec![0; cells.len()];
    for (row, code) in codes.iter_mut().enumerate().filter(|(row, _)| is_valid(*row)) {
        let cell = u128::from_le_bytes(cells[row]);
        let text = if cell as u32 > 12 { LONG_TEXT } else { cell };
        *code = match places.get(&text) {
            Some(place) => *place,
            None if texts.len() == TEXTS_MAX => return None,
            None => {
                let place = texts.len() as u8;
                places.insert(text, place);
                texts.push(text);
                place
            }
        };
    }
    Some(CompressedColumn { codes: codes.into(), bytes: 1, meaning: Meaning::Texts(texts.into()) })
}

/// What readers have left with a full block.
#[derive(Default)]
struct KeptColumns(Mutex<Vec<KeptColumn>>);

struct KeptColumn {
    column: usize,
    /// The newest change of the state that it is of.
    change: Timestamp,
    copy: KeptCopy,
}

enum KeptCopy {
    /// One reader has asked.
    Asked,
    /// There is none: it is being made, or there cannot be one.
    Without,
    Made(Arc<CompressedColumn>),
}

/// The compressed copy of a full block's column in the state that the change names, which `image` shows; `None` for the first reader,
/// while another one makes it, and where it cannot or may not be made.
pub(crate) fn kept_or_made(
    block: &RowBlock,
    (column, data_type): (usize, DataType),
    change: Timestamp,
    image: &ColumnImage,
    may_make: impl FnOnce() -> bool,
) -> Option<Arc<CompressedColumn>> {
    let kept = kept_columns(block);
    let find = |of: &&mut KeptColumn| of.column == column;
    {
        let mut columns = kept.0.lock();
        match columns.iter_mut().find(find) {
            None => {
                columns.push(KeptColumn { column, change, copy: KeptCopy::Asked });
                return None;
            }
            Some(of) if of.change != change => {
                // What is newer stays.
                if of.change < change {
                    *of = KeptColumn { column, change, copy: KeptCopy::Asked };
                }
                return None;
            }
            Some(KeptColumn { copy: KeptCopy::Made(made), .. }) => return Some(made.clone()),
            Some(KeptColumn { copy: KeptCopy::Without, .. }) => return None,
            Some(KeptColumn { copy: KeptCopy::Asked, .. }) if !may_make() => return None,
            Some(of) => of.copy = KeptCopy::Without,
        }
    }
    let made = Arc::new(CompressedColumn::of(image, data_type)?);
    let mut columns = kept.0.lock();
    if let Some(of) = columns.iter_mut().find(find).filter(|of| of.change == change) {
        of.copy = KeptCopy::Made(made.clone());
    }
    Some(made)
}

/// Lets go of the compressed copies of a table's columns, as where memory is short; readers that have one keep it. Costs a lock for each block.
pub fn drop_compressed(table: &Table) {
    let storage = Storage::of(table);
    for number in 0..storage.block_count() {
        let mut slot = storage.block(BlockNumber(number)).derived().lock();
        if slot.as_ref().is_some_and(|derived| derived.is::<KeptColumns>()) {
            *slot = None;
        }
    }
}

/// In the place where blocks that are not full have their copies.
fn kept_columns(block: &RowBlock) -> Arc<KeptColumns> {
    let mut slot = block.derived().lock();
    match slot.as_ref().and_then(|derived| derived.clone().downcast().ok()) {
        Some(kept) => kept,
        None => {
            let kept = Arc::<KeptColumns>::default();
            *slot = Some(kept.clone());
            kept
        }
    }
}
