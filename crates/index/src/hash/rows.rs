//! The rows of one key in its bucket, copied.

/// Rows that need no allocation.
const FEW: usize = 8;

/// A list of rows that allocates only when it is long.
pub(crate) struct RowList {
    few: [u64; FEW],
    count: usize,
    /// All of them, if they are not few.
    many: Vec<u64>,
    /// The number of the posting list in which they are instead.
    list: Option<u64>,
}

impl RowList {
    #[inline]
    pub(crate) fn new() -> RowList {
        RowList { few: [0; FEW], count: 0, many: Vec::new(), list: None }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.count = 0;
        self.list = None;
    }

    /// The posting list of the key, if it has one: then there are no rows here.
    #[inline]
    pub(crate) fn list(&self) -> Option<u64> {
        self.list
    }

    #[cold]
    pub(crate) fn set_list(&mut self, list: u64) {
        self.list = Some(list);
    }

    #[inline]
    pub(crate) fn push(&mut self, row: u64) {
        match self.few.get_mut(self.count) {
            Some(place) => *place = row,
            None => self.push_many(row),
        }
        self.count += 1;
    }

    #[cold]
    fn push_many(&mut self, row: u64) {
        if self.count == FEW {
            self.many.clear();
            self.many.extend_from_slice(&self.few);
        }
        self.many.push(row);
    }

    #[inline]
    pub(crate) fn sort(&mut self) {
        if self.count > 1 {
            self.as_mut_slice().sort_unstable();
        }
    }

    fn as_mut_slice(&mut self) -> &mut [u64] {
        if self.count <= FEW { &mut self.few[..self.count] } else { &mut self.many }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u64] {
        if self.count <= FEW { &self.few[..self.count] } else { &self.many }
    }
}
