//! What queries see: all relations as they were at a refresh.

use crate::index::IndexView;
use crate::store::{Store, View};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;

/// The position of a relation in its database.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RelationId(pub usize);

/// All relations as they were at a refresh.
pub struct SerialSnapshot<S: Store> {
    relations: Vec<(S::View, Vec<IndexView>)>,
}

impl<S: Store> SerialSnapshot<S> {
    pub(crate) fn new(relations: Vec<(S::View, Vec<IndexView>)>) -> SerialSnapshot<S> {
        SerialSnapshot { relations }
    }

    /// The tuples of a relation.
    pub fn relation(&self, relation: RelationId) -> &S::View {
        &self.relations[relation.0].0
    }

    /// Whether queries have indexes.
    pub fn has_indexes(&self) -> bool {
        let mut indexes = self.relations.iter().flat_map(|(_, indexes)| indexes);
        indexes.all(|index| !matches!(index, IndexView::Abandoned))
    }

    /// The tuple with a key, by the index at a position; `None` if the snapshot has none, or no indexes.
    pub fn find(&self, relation: RelationId, index: usize, key: u64) -> Option<&[AtomicU64]> {
        let (view, indexes) = &self.relations[relation.0];
        let mut found = None;
        indexes[index].scan(key, |at, tuple| {
            found = if at == key { view.find(tuple) } else { None };
            if at == key && found.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        found
    }

    /// Shows tuples by their keys in the index at a position, from one on, ascending, until it is told to stop; none without
    /// indexes. Where transactions share an index, they wait for this.
    pub fn scan_index(
        &self,
        relation: RelationId,
        index: usize,
        from: u64,
        mut see: impl FnMut(u64, &[AtomicU64]) -> ControlFlow<()>,
    ) {
        let (view, indexes) = &self.relations[relation.0];
        indexes[index].scan(from, |key, tuple| match view.find(tuple) {
            Some(words) => see(key, words),
            None => ControlFlow::Continue(()),
        });
    }
}
