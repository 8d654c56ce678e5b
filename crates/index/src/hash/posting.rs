//! Posting lists: the rows of keys that have too many of them for a bucket.
//!
//! The entries of a bucket are looked through one by one, which is quick as long as they are few. A key with very many
//! rows would make its bucket long, and each insertion and removal of it, and each lookup of its neighbours, as slow as
//! the bucket is long. So when a key has [`ROWS_IN_BUCKET`] entries and gets another one, its rows move to a *posting
//! list*, and in the bucket there is one entry for all of them, which is marked and has the list's number where others
//! have their row:
//!
//! ```text
//! bucket   key a, row 3   key b, LIST 1   key c, row 9
//!                                  │
//! tree     1,0  1,2  1,4  1,7 ... 1,200000  2,1  2,5 ...       (number of the list, row), in order
//! ```
//!
//! All lists of an index lie in one tree (`tree`), one behind the other, so that insertion, removal and the beginning of
//! a visit cost the logarithm of all rows in lists, and a row takes 32 bytes in a leaf: in leaves that are half full 64,
//! whatever the length of the key.
//!
//! A list begins with the rows that were in the bucket and ends when it is empty: then its entry leaves the bucket.
//! Until then its rows do not go back to the bucket. Numbers are not used twice, so a thread that has read the number
//! of a list that has ended finds it empty. The header of the hash index says when a list may be changed.

use crate::Direction;
use crate::counter::Counter;
use crate::tree::Tree;
use std::ops::{Bound, ControlFlow};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Entries of one key in a bucket, at most: 16 lines, which are looked through in about the time of two descents.
pub(crate) const ROWS_IN_BUCKET: usize = 32;

/// The posting lists of one index.
pub(crate) struct PostingLists {
    /// Made with the first list.
    tree: OnceLock<Box<Tree>>,
    next: AtomicU64,
    /// Lists that have not ended.
    lists: Counter,
}

impl PostingLists {
    pub(crate) fn new() -> PostingLists {
        PostingLists { tree: OnceLock::new(), next: AtomicU64::new(0), lists: Counter::new() }
    }

    /// Begins a list with these rows; returns its number.
    pub(crate) fn begin(&self, rows: &[u64]) -> u64 {
        let tree = self.tree.get_or_init(|| Box::new(Tree::new()));
        let list = self.next.fetch_add(1, Relaxed);
        self.lists.add(1);
        rows.iter().for_each(|&row| assert!(tree.insert(&list.to_be_bytes(), row)));
        list
    }

    /// Adds a row; false if it is in the list already.
    pub(crate) fn insert(&self, list: u64, row: u64) -> bool {
        self.tree().insert(&list.to_be_bytes(), row)
    }

    /// Removes a row; `None` if it is not in the list, else whether the list is empty now, which ends it.
    pub(crate) fn remove(&self, list: u64, row: u64) -> Option<bool> {
        if !self.tree().remove(&list.to_be_bytes(), row) {
            return None;
        }
        let is_empty = !self.tree().has_key(&list.to_be_bytes());
        if is_empty {
            self.lists.add(-1);
        }
        Some(is_empty)
    }

    /// Visits the rows of a list in ascending order, until `visit` breaks.
    pub(crate) fn visit(&self, list: u64, mut visit: impl FnMut(u64) -> ControlFlow<()>) {
        let key = list.to_be_bytes();
        let all = Bound::Included(&key[..]);
        self.tree().scan(all, all, Direction::Forward, |_, row| visit(row));
    }

    /// Rows in all lists; approximate while others insert and remove.
    pub(crate) fn row_count(&self) -> usize {
        self.tree.get().map_or(0, |tree| tree.len())
    }

    /// Lists that have not ended; approximate while others begin and end.
    pub(crate) fn list_count(&self) -> usize {
        self.lists.value()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.tree.get().map_or(0, |tree| size_of::<Tree>() + tree.memory_bytes())
    }

    /// The tree, which is there before the first number of a list is.
    fn tree(&self) -> &Tree {
        self.tree.get().expect("a list was begun")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(lists: &PostingLists, list: u64) -> Vec<u64> {
        let mut rows = Vec::new();
        lists.visit(list, |row| {
            rows.push(row);
            ControlFlow::Continue(())
        });
        rows
    }

    #[test]
    fn lists_lie_beside_each_other_and_end_when_they_are_empty() {
        let lists = PostingLists::new();
        assert_eq!((lists.row_count(), lists.memory_bytes()), (0, 0));
        let (one, other) = (lists.begin(&[5, 2]), lists.begin(&[2, u64::MAX, 0]));
        assert!(lists.insert(one, 3) && !lists.insert(one, 5));
        assert_eq!((rows(&lists, one), rows(&lists, other)), (vec![2, 3, 5], vec![0, 2, u64::MAX]));
        assert_eq!((lists.row_count(), lists.list_count()), (6, 2));
        let removed = [2, 4, 5, 3, 3].map(|row| lists.remove(one, row));
        assert_eq!(removed, [Some(false), None, Some(false), Some(true), None]);
        assert_eq!((rows(&lists, one), lists.row_count(), lists.list_count()), (vec![], 3, 1));
        assert_ne!(lists.begin(&[1]), one);
        assert_eq!(rows(&lists, one), []);
    }
}
