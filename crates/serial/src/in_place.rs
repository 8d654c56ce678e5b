//! VM-Fork (DaMoN 2011, §3.1): tuples are changed in place, and a child process has them as they were.

use crate::area::{Area, MemoryKind, TupleBits, fill, ones};
use crate::mechanism::Mechanism;
use crate::store::{Shape, Slots, Store, TupleId, View};
use ankerdb_base::Result;
use std::sync::atomic::AtomicU64;

/// Tuples in place.
pub struct InPlace {
    view: InPlaceView,
    slots: Slots,
}

/// Tuples in place, to be read in a child process, or while no transaction runs.
#[derive(Clone)]
pub struct InPlaceView {
    words: usize,
    end: usize,
    tuples: Area,
    live: TupleBits,
}

impl InPlaceView {
    fn at(&self, tuple: TupleId) -> &[AtomicU64] {
        &self.tuples.words()[tuple * self.words..][..self.words]
    }
}

impl View for InPlaceView {
    fn find(&self, tuple: TupleId) -> Option<&[AtomicU64]> {
        (tuple < self.end && self.live.get(tuple)).then(|| self.at(tuple))
    }

    fn scan(&self, mut see: impl FnMut(&[AtomicU64]) -> bool) {
        let mut goes_on = true;
        for n in 0..self.end.div_ceil(64) {
            ones(n, self.live.word(n), |tuple| goes_on = goes_on && see(self.at(tuple)));
            if !goes_on {
                return;
            }
        }
    }

    fn count(&self) -> usize {
        self.live.count(self.end)
    }
}

impl Store for InPlace {
    type View = InPlaceView;
    const MECHANISM: Mechanism = Mechanism::VmFork;

    fn new(shape: Shape, kind: MemoryKind) -> Result<InPlace> {
        let tuples = Area::new(kind.pages, kind.shares_tuples, shape.words * shape.capacity)?;
        let live = TupleBits::new(kind, shape.capacity)?;
        let view = InPlaceView { words: shape.words, end: 0, tuples, live };
        Ok(InPlace { view, slots: Slots::new(shape.capacity) })
    }

    fn insert(&mut self, tuple: &[u64]) -> Result<TupleId> {
        let number = self.slots.take()?;
        self.view.end = self.slots.end();
        fill(self.view.at(number), tuple);
        self.view.live.set(number, true);
        Ok(number)
    }

    fn find(&self, tuple: TupleId) -> Option<&[AtomicU64]> {
        self.view.find(tuple)
    }

    fn change(&mut self, tuple: TupleId) -> Result<Option<&[AtomicU64]>> {
        Ok(self.view.find(tuple))
    }

    fn delete(&mut self, tuple: TupleId) -> Result<bool> {
        let is_there = self.view.find(tuple).is_some();
        if is_there {
            self.view.live.set(tuple, false);
            self.slots.delete(tuple);
        }
        Ok(is_there)
    }

    fn undelete(&mut self, tuple: TupleId) {
        self.slots.undelete(tuple);
        self.view.live.set(tuple, true);
    }

    fn refresh(&mut self) -> Result<()> {
        self.slots.refresh();
        Ok(())
    }

    fn view(&self) -> InPlaceView {
        self.view.clone()
    }

    fn used_words(&self) -> usize {
        self.slots.end() * self.view.words
    }
}
