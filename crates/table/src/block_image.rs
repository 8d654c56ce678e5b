//! A block as it was copied at one timestamp, and putting it back into a table.

use crate::bitmap::ones_of;
use crate::cell::CellLayout;
use crate::restore::{fits_text, misfit};
use crate::storage::Storage;
use ankerdb_base::{BlockNumber, ROWS_PER_BLOCK, Result, RowId, Timestamp};
use crossbeam_epoch::Guard;

/// A column of a block's image.
#[derive(Clone, Copy, Debug)]
pub struct ImageColumn<'a> {
    /// How its cells lay in memory.
    pub layout: CellLayout,
    /// Validity bits, 1 = not NULL, in whole words; `None` if no cell is NULL.
    pub validity: Option<&'a [u8]>,
    /// The values; of strings their lengths, 4 bytes each.
    pub values: &'a [u8],
    /// The bytes of all strings, one behind the other.
    pub strings: &'a [u8],
}

/// A block's image: the state of its rows as of one timestamp.
#[derive(Clone, Copy, Debug)]
pub struct ImageOfBlock<'a> {
    /// The number of the block.
    pub number: BlockNumber,
    /// Everything committed up to here is in it, and nothing else.
    pub timestamp: Timestamp,
    /// How many slots count.
    pub rows: usize,
    /// Bits of those that have rows, in whole words.
    pub exists: &'a [u8],
    /// One for each column.
    pub columns: &'a [ImageColumn<'a>],
}

/// Strings that are not put back as they are.
pub trait ChangeBytes {
    /// Whether any of this column may be another one.
    fn is_wanted(&self, column: usize) -> bool;

    /// The bytes of a string of this column instead of those of the image; `None` for the same ones.
    fn bytes(&self, column: usize, bytes: &[u8]) -> Option<Vec<u8>>;
}

impl Storage {
    /// Makes the table so many blocks long, for images to be put into them.
    ///
    /// # Errors
    /// 53200 without memory.
    pub fn add_blocks_to_restore(&self, count: usize) -> Result<()> {
        match count.checked_sub(1) {
            Some(last) => self.block_to_restore(RowId::new(BlockNumber(last), 0), true).map(drop),
            None => Ok(()),
        }
    }

    /// Puts the rows of an image into a block which is there and has none. Several threads may do so for several blocks.
    ///
    /// # Errors
    /// `DataCorrupted` if the image is not one of a block of this table; 53200 and 54000 without memory.
    pub fn restore_block(
        &self,
        image: &ImageOfBlock<'_>,
        change: Option<&dyn ChangeBytes>,
        pin: &Guard,
    ) -> Result<()> {
        let words = image.rows.div_ceil(64) * 8;
        let is_sound = image.rows <= ROWS_PER_BLOCK
            && image.exists.len() == words
            && image.columns.len() == self.types().len()
            && image.number.0 < self.block_count();
        if !is_sound {
            return Err(misfit("an image of another block"));
        }
        let rows = PresentRows::of(image.exists, image.rows);
        if image.exists.iter().map(|byte| byte.count_ones() as usize).sum::<usize>() != rows.0.len() {
            return Err(misfit("an image with rows behind its last slot"));
        }
        let block = self.block(image.number);
        for (column, cells) in image.columns.iter().enumerate() {
            let (data_type, nullable) = self.types()[column];
            let fixed = cells.layout.bytes(image.rows);
            let is_string = cells.layout == CellLayout::View;
            let is_sound = cells.layout == CellLayout::of(data_type)
                && cells.values.len() >= if is_string { image.rows * 4 } else { fixed }
                && cells.validity.is_none_or(|bits| nullable && bits.len() == words);
            if !is_sound {
                return Err(misfit("an image with other columns than the table has"));
            }
            block.restore_validity(column, cells.validity, &rows, pin);
            if is_string {
                let (is_text, strings) = (fits_text(data_type), strings(cells, &rows)?);
                let change = change.filter(|change| change.is_wanted(column));
                block.restore_strings(column, &strings, is_text, change, pin)?;
            } else {
                block.restore_values(column, cells, &cells.values[..fixed], &rows, pin);
            }
        }
        block.restore_rows(image.exists, &rows.0, image.timestamp);
        Ok(())
    }
}

/// The rows that exist.
pub(crate) struct PresentRows(pub(crate) Vec<usize>);

impl PresentRows {
    fn of(bits: &[u8], rows: usize) -> PresentRows {
        let words = bits.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        let places = words.enumerate().flat_map(|(word, bits)| ones_of(bits).map(move |bit| word * 64 + bit));
        PresentRows(places.take_while(|row| *row < rows).collect())
    }

    /// Words of bits that cover them.
    pub(crate) fn words(&self) -> usize {
        self.0.last().map_or(0, |last| last / 64 + 1)
    }
}

pub(crate) fn bit(bits: &[u8], row: usize) -> bool {
    bits[row / 8] >> (row % 8) & 1 == 1
}

impl ImageColumn<'_> {
    /// Whether a cell of a row that exists is not NULL.
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.validity.is_none_or(|bits| bit(bits, row))
    }
}

/// The rows whose strings are not NULL, with these, which follow one another and are all that the image has.
fn strings<'a>(column: &ImageColumn<'a>, rows: &PresentRows) -> Result<Vec<(usize, &'a [u8])>> {
    let (mut left, mut found) = (column.strings, Vec::with_capacity(rows.0.len()));
    for &row in rows.0.iter().filter(|row| column.is_valid(**row)) {
        let length = column.values[row * 4..].first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
        let (bytes, rest) =
            left.split_at_checked(length as usize).ok_or_else(|| misfit("an image without its strings"))?;
        left = rest;
        found.push((row, bytes));
    }
    if left.is_empty() { Ok(found) } else { Err(misfit("an image with more strings than rows")) }
}
