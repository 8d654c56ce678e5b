//! The numbers of the rows of a batch that a pipeline keeps.

/// Places for the numbers of kept rows, in the order of the rows.
#[derive(Clone, Default, Debug)]
pub(crate) struct SelectedRows {
    pub(crate) places: Vec<u32>,
    /// How many of them are used.
    pub(crate) count: usize,
}

impl SelectedRows {
    /// None of so many rows.
    pub(crate) fn begin(&mut self, rows: usize) {
        self.count = 0;
        if self.places.len() < rows {
            self.places.resize(rows, 0);
        }
    }

    /// One row more.
    pub(crate) fn push(&mut self, row: usize) {
        self.places[self.count] = row as u32;
        self.count += 1;
    }

    /// The rows that have a bit, of those from `first` on.
    #[inline(always)]
    pub(crate) fn push_bits(&mut self, first: usize, word: u64) {
        let end = self.count + word.count_ones() as usize;
        let mut left = word;
        for place in &mut self.places[self.count..end] {
            *place = first as u32 + left.trailing_zeros();
            left &= left - 1;
        }
        self.count = end;
    }

    pub(crate) fn rows(&self) -> &[u32] {
        &self.places[..self.count]
    }

    pub(crate) fn into_rows(mut self) -> Vec<u32> {
        self.places.truncate(self.count);
        self.places
    }
}
