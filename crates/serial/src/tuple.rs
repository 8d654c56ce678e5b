//! Tuple shadowing (DaMoN 2011, §3.2): a tuple of the snapshot is changed in a copy, its shadow, to which it points.
//!
//! ```text
//! number        0    1    2    3    4    5
//! in snapshot   x    x    x    .    .    .      queries read these, and look at nothing else
//! live          x    .    x    x    .    x      1 was deleted, 3 and 5 were inserted since
//! shadow        4    .    .    .    .    .      0 was changed, in 4
//! ```
//!
//! A refresh writes shadows back over what they shadow and gives their numbers back, so that no chain of versions forms.

use crate::area::{Area, MemoryKind, TupleBits, copy, fill, ones};
use crate::mechanism::Mechanism;
use crate::store::{Shape, Slots, Store, TupleId, View};
use ankerdb_base::Result;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Words before each tuple: the number of its shadow plus one, or 0.
const HEADER: usize = 1;

/// Tuples with shadows.
pub struct TupleShadowing {
    view: TupleView,
    live: TupleBits,
    slots: Slots,
    /// Tuples that have shadows.
    shadowed: Vec<TupleId>,
}

/// The tuples that were there at the last refresh, where they were then.
#[derive(Clone)]
pub struct TupleView {
    words: usize,
    end: usize,
    tuples: Area,
    snapshot: TupleBits,
}

impl TupleView {
    fn at(&self, tuple: TupleId) -> &[AtomicU64] {
        let slot = HEADER + self.words;
        &self.tuples.words()[tuple * slot + HEADER..][..self.words]
    }

    fn header(&self, tuple: TupleId) -> &AtomicU64 {
        &self.tuples.words()[tuple * (HEADER + self.words)]
    }
}

impl View for TupleView {
    fn find(&self, tuple: TupleId) -> Option<&[AtomicU64]> {
        (tuple < self.end && self.snapshot.get(tuple)).then(|| self.at(tuple))
    }

    fn scan(&self, mut see: impl FnMut(&[AtomicU64]) -> bool) {
        let mut goes_on = true;
        for n in 0..self.end.div_ceil(64) {
            ones(n, self.snapshot.word(n), |tuple| goes_on = goes_on && see(self.at(tuple)));
            if !goes_on {
                return;
            }
        }
    }

    fn count(&self) -> usize {
        self.snapshot.count(self.end)
    }
}

impl TupleShadowing {
    fn is_live(&self, tuple: TupleId) -> bool {
        self.slots.has(tuple) && self.live.get(tuple)
    }

    fn newest(&self, tuple: TupleId) -> TupleId {
        match self.view.header(tuple).load(Relaxed) {
            0 => tuple,
            shadow => shadow as usize - 1,
        }
    }
}

impl Store for TupleShadowing {
    type View = TupleView;
    const MECHANISM: Mechanism = Mechanism::TupleShadowing;

    fn new(shape: Shape, kind: MemoryKind) -> Result<TupleShadowing> {
        let tuples = Area::new(kind.pages, kind.shares_tuples, (HEADER + shape.words) * shape.capacity)?;
        let bits = || TupleBits::new(kind, shape.capacity);
        let view = TupleView { words: shape.words, end: 0, tuples, snapshot: bits()? };
        Ok(TupleShadowing { view, live: bits()?, slots: Slots::new(shape.capacity), shadowed: Vec::new() })
    }

    fn insert(&mut self, tuple: &[u64]) -> Result<TupleId> {
        let number = self.slots.take()?;
        self.view.header(number).store(0, Relaxed);
        fill(self.view.at(number), tuple);
        self.live.set(number, true);
        Ok(number)
    }

    fn find(&self, tuple: TupleId) -> Option<&[AtomicU64]> {
        self.is_live(tuple).then(|| self.view.at(self.newest(tuple)))
    }

    fn change(&mut self, tuple: TupleId) -> Result<Option<&[AtomicU64]>> {
        if !self.is_live(tuple) {
            return Ok(None);
        }
        let newest = self.newest(tuple);
        if newest != tuple || !self.view.snapshot.get(tuple) {
            return Ok(Some(self.view.at(newest)));
        }
        let shadow = self.slots.take()?;
        copy(self.view.at(tuple), self.view.at(shadow));
        self.view.header(tuple).store(shadow as u64 + 1, Relaxed);
        self.shadowed.push(tuple);
        Ok(Some(self.view.at(shadow)))
    }

    fn delete(&mut self, tuple: TupleId) -> Result<bool> {
        let is_there = self.is_live(tuple);
        if is_there {
            self.live.set(tuple, false);
            self.slots.delete(tuple);
        }
        Ok(is_there)
    }

    fn undelete(&mut self, tuple: TupleId) {
        self.slots.undelete(tuple);
        self.live.set(tuple, true);
    }

    fn refresh(&mut self) -> Result<()> {
        for tuple in self.shadowed.drain(..) {
            let header = self.view.header(tuple);
            let shadow = header.swap(0, Relaxed) as usize - 1;
            if self.live.get(tuple) {
                copy(self.view.at(shadow), self.view.at(tuple));
            }
            self.slots.give_back(shadow);
        }
        self.slots.refresh();
        self.view.end = self.slots.end();
        self.view.snapshot.copy_from(&self.live, self.view.end);
        Ok(())
    }

    fn view(&self) -> TupleView {
        self.view.clone()
    }

    fn used_words(&self) -> usize {
        self.slots.end() * (HEADER + self.view.words)
    }
}
