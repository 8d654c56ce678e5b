//! An index of a relation, and what queries on snapshots have of it.

use crate::area::{Area, MemoryKind};
use crate::mechanism::IndexTreatment;
use crate::store::TupleId;
use crate::tree::{Entry, EntryTree, TreeView};
use ankerdb_base::Result;
use parking_lot::RwLock;
use std::ops::ControlFlow;
use std::sync::Arc;

/// An index of the newest state.
pub(crate) struct Index {
    tree: EntryTree,
    kind: MemoryKind,
    treatment: IndexTreatment,
    latch: Arc<RwLock<()>>,
    /// Entries of tuples that were deleted, which a snapshot may still look for: they go with it.
    late: Vec<Entry>,
    copy: Option<Area>,
    /// The copy before, whose memory the next one gets when nobody reads it any more.
    spare: Option<Area>,
}

/// An index as queries see it.
#[derive(Clone)]
pub(crate) enum IndexView {
    /// There is none.
    Abandoned,
    /// Nobody writes it.
    Still(TreeView),
    /// Transactions write it, too.
    Latched(Arc<RwLock<()>>, TreeView),
}

impl IndexView {
    /// Shows tuples of keys from one on; false if there is no index. They may not be in the snapshot.
    pub(crate) fn scan(&self, from: u64, see: impl FnMut(u64, TupleId) -> ControlFlow<()>) -> bool {
        match self {
            IndexView::Abandoned => return false,
            IndexView::Still(tree) => tree.scan(from, see),
            IndexView::Latched(latch, tree) => {
                let _shared = latch.read();
                tree.scan(from, see);
            }
        }
        true
    }
}

impl Index {
    pub(crate) fn new(kind: MemoryKind, treatment: IndexTreatment, capacity: usize) -> Result<Index> {
        let tree = EntryTree::new(kind, capacity)?;
        if matches!(treatment, IndexTreatment::Abandon | IndexTreatment::Copy) {
            tree.exclude_from_fork()?;
        }
        Ok(Index { tree, kind, treatment, latch: Arc::default(), late: Vec::new(), copy: None, spare: None })
    }

    pub(crate) fn insert(&mut self, entry: Entry) -> Result<bool> {
        match self.treatment {
            IndexTreatment::Share => {
                let _exclusive = self.latch.write();
                self.tree.insert(entry)
            }
            _ => self.tree.insert(entry),
        }
    }

    /// Takes away the entry of an insertion that is taken back.
    pub(crate) fn remove_now(&mut self, entry: Entry) {
        match self.treatment {
            IndexTreatment::Share => {
                let _exclusive = self.latch.write();
                self.tree.remove(entry);
            }
            _ => _ = self.tree.remove(entry),
        }
    }

    /// Takes away the entry of a tuple that was deleted.
    pub(crate) fn remove(&mut self, entry: Entry) {
        match self.treatment {
            IndexTreatment::Share => self.late.push(entry),
            _ => _ = self.tree.remove(entry),
        }
    }

    /// For the transaction that runs: nobody else writes.
    pub(crate) fn scan(&self, from: u64, see: impl FnMut(u64, TupleId) -> ControlFlow<()>) {
        self.tree.view().scan(from, see);
    }

    /// Nobody reads an index that is shared meanwhile.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        for entry in std::mem::take(&mut self.late) {
            self.tree.remove(entry);
        }
        if self.treatment == IndexTreatment::Copy {
            let area = match self.spare.take() {
                Some(area) if area.is_ours_alone() => area,
                _ => self.tree.area_like(self.kind)?,
            };
            self.tree.view().copy_to(&area);
            self.spare = self.copy.replace(area);
        }
        Ok(())
    }

    /// For queries in threads, or in a child that is forked now, which has an image that nobody writes and needs no latch.
    pub(crate) fn view(&self, is_for_child: bool) -> IndexView {
        match self.treatment {
            IndexTreatment::Abandon => IndexView::Abandoned,
            IndexTreatment::Copy => {
                let copy = self.copy.clone();
                copy.map_or(IndexView::Abandoned, |area| IndexView::Still(TreeView::over(area)))
            }
            IndexTreatment::Fork | IndexTreatment::Share if is_for_child => {
                IndexView::Still(self.tree.view().clone())
            }
            // Transactions write it without latches.
            IndexTreatment::Fork => IndexView::Abandoned,
            IndexTreatment::Share => IndexView::Latched(self.latch.clone(), self.tree.view().clone()),
        }
    }

    pub(crate) fn used_words(&self) -> usize {
        let copies = usize::from(self.copy.is_some()) + usize::from(self.spare.is_some());
        (1 + copies) * self.tree.view().used_words()
    }
}
