//! What compiled code is called with, word for word as it reads it.

use crate::batch::ColumnSlice;
use std::mem::offset_of;

/// One column, as compiled code sees it.
#[repr(C)]
pub(crate) struct FrameColumn {
    pub(crate) values: *const u8,
    pub(crate) values_bytes: usize,
    pub(crate) first_bit: usize,
    /// Null where the mask that the code was compiled for says so.
    pub(crate) validity: *const u8,
    pub(crate) validity_bytes: usize,
    pub(crate) validity_first: usize,
}

impl FrameColumn {
    pub(crate) fn of(slice: &ColumnSlice<'_>) -> FrameColumn {
        let (bits, first) = slice.validity.unwrap_or((&[], 0));
        FrameColumn {
            values: slice.values.as_ptr(),
            values_bytes: slice.values.len(),
            first_bit: slice.first_bit,
            validity: bits.as_ptr(),
            validity_bytes: bits.len(),
            validity_first: first,
        }
    }
}

/// One call.
#[repr(C)]
pub(crate) struct PipelineFrame {
    pub(crate) columns: *const FrameColumn,
    pub(crate) parameters: *const [u64; 2],
    /// The first row, or place of the list of rows; at the end the one that the code has stopped at.
    pub(crate) row: usize,
    /// Behind the last one.
    pub(crate) end: usize,
    /// The list.
    pub(crate) listed: *const u32,
    pub(crate) listed_bytes: usize,
    /// Entries, and zeros behind them.
    pub(crate) entries: *mut u64,
    /// Bytes of those that there are; at the end with those that the code has made.
    pub(crate) entries_bytes: usize,
    /// As far as it may make more.
    pub(crate) entries_limit: usize,
    /// How many there are.
    pub(crate) groups: u64,
    pub(crate) directory: *mut u32,
    /// Places of the directory less one.
    pub(crate) mask: usize,
    /// Numbers of rows that are kept, with a place for each row.
    pub(crate) selected: *mut u32,
    pub(crate) selected_bytes: usize,
    /// How many there are; at the end with those that the code has added.
    pub(crate) selected_rows: usize,
}

/// All rows are done.
pub(crate) const DONE: u64 = 0;
/// The row that it has stopped at is the interpreter's: it has a new group for which there is no room, fails, or does not fit the lanes.
pub(crate) const LEFT: u64 = 1;
/// A check of bounds has failed at the row, which is a defect of the compiler.
pub(crate) const OUT_OF_BOUNDS: u64 = 2;

pub(crate) const COLUMN_BYTES: i32 = size_of::<FrameColumn>() as i32;

/// Offsets of the fields.
pub(crate) mod at {
    use super::{FrameColumn, PipelineFrame, offset_of};

    pub(crate) const COLUMNS: i32 = offset_of!(PipelineFrame, columns) as i32;
    pub(crate) const PARAMETERS: i32 = offset_of!(PipelineFrame, parameters) as i32;
    pub(crate) const ROW: i32 = offset_of!(PipelineFrame, row) as i32;
    pub(crate) const LISTED: i32 = offset_of!(PipelineFrame, listed) as i32;
    pub(crate) const LISTED_BYTES: i32 = offset_of!(PipelineFrame, listed_bytes) as i32;
    pub(crate) const END: i32 = offset_of!(PipelineFrame, end) as i32;
    pub(crate) const ENTRIES: i32 = offset_of!(PipelineFrame, entries) as i32;
    pub(crate) const ENTRIES_BYTES: i32 = offset_of!(PipelineFrame, entries_bytes) as i32;
    pub(crate) const ENTRIES_LIMIT: i32 = offset_of!(PipelineFrame, entries_limit) as i32;
    pub(crate) const GROUPS: i32 = offset_of!(PipelineFrame, groups) as i32;
    pub(crate) const DIRECTORY: i32 = offset_of!(PipelineFrame, directory) as i32;
    pub(crate) const MASK: i32 = offset_of!(PipelineFrame, mask) as i32;
    pub(crate) const SELECTED: i32 = offset_of!(PipelineFrame, selected) as i32;
    pub(crate) const SELECTED_BYTES: i32 = offset_of!(PipelineFrame, selected_bytes) as i32;
    pub(crate) const SELECTED_ROWS: i32 = offset_of!(PipelineFrame, selected_rows) as i32;
    pub(crate) const VALUES: i32 = offset_of!(FrameColumn, values) as i32;
    pub(crate) const VALUES_BYTES: i32 = offset_of!(FrameColumn, values_bytes) as i32;
    pub(crate) const FIRST_BIT: i32 = offset_of!(FrameColumn, first_bit) as i32;
    pub(crate) const VALIDITY: i32 = offset_of!(FrameColumn, validity) as i32;
    pub(crate) const VALIDITY_BYTES: i32 = offset_of!(FrameColumn, validity_bytes) as i32;
    pub(crate) const VALIDITY_FIRST: i32 = offset_of!(FrameColumn, validity_first) as i32;
}
