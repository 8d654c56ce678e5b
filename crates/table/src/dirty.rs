//! Which rows of a block are dirty: a bit for each, and a [`Notice`] that spares sweeps a look at the bits of clean blocks.

use crate::bitmap::Bitmap;
use ankerdb_sync::notice::Notice;
use std::ops::Range;

/// A bit for each row. Bits are set here only, since a notice goes with them.
#[derive(Default)]
pub(crate) struct DirtyRows {
    bits: Bitmap,
    notice: Notice,
}

impl DirtyRows {
    pub(crate) fn bits(&self) -> &Bitmap {
        &self.bits
    }

    #[inline]
    pub(crate) fn set(&self, row: usize) {
        if self.bits.set(row) {
            self.notice.post();
        }
    }

    /// Sets all bits of a range. For one thread at a time.
    pub(crate) fn fill(&self, rows: Range<usize>) {
        self.bits.fill(rows);
        self.notice.post();
    }

    pub(crate) fn clear(&self, row: usize) {
        self.bits.clear(row);
    }

    /// Whether there is a dirty row, but for one that is becoming so. For one thread at a time. A load where there has been none since this
    /// was last asked.
    pub(crate) fn has_any(&self) -> bool {
        self.notice.look(|| !self.bits.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirty_rows_are_found_until_all_are_clean() {
        let dirty = DirtyRows::default();
        assert!(!dirty.has_any());
        for rows in [vec![70], vec![0, 63, 64], vec![5, 8191]] {
            rows.iter().for_each(|&row| dirty.set(row));
            for row in rows {
                assert!(dirty.has_any() && dirty.has_any(), "asking changes nothing");
                dirty.clear(row);
            }
            assert!(!dirty.has_any() && !dirty.has_any());
        }
        dirty.fill(100..200);
        assert!(dirty.has_any());
        (100..200).for_each(|row| dirty.clear(row));
        assert!(!dirty.has_any());
    }
}
