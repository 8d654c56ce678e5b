//! Twin tuples (DaMoN 2011, §3.3; Cao et al., SIGMOD 2011, call it zigzag): two copies of each tuple, and two bits.
//!
//! Transactions write the copy `MW` and read the copy `MR`; queries read the one that is not written, `¬MW`. The first change after
//! a refresh copies `MR` over `MW` and sets `MR` to `MW`. A refresh sets `MW` to `¬MR` for all, 64 tuples at a time: what was
//! changed becomes what queries read, and what was not stays it.

use crate::area::{Area, MemoryKind, TupleBits, copy, fill, ones};
use crate::mechanism::Mechanism;
use crate::store::{Shape, Slots, Store, TupleId, View};
use ankerdb_base::Result;
use std::sync::atomic::AtomicU64;

/// Tuples with twins.
pub struct TwinTuples {
    view: TwinView,
    live: TupleBits,
    /// `MR`.
    read: TupleBits,
    slots: Slots,
}

/// The twins that are not written.
#[derive(Clone)]
pub struct TwinView {
    words: usize,
    end: usize,
    tuples: Area,
    snapshot: TupleBits,
    /// `MW`.
    write: TupleBits,
}

impl TwinView {
    fn at(&self, tuple: TupleId, twin: bool) -> &[AtomicU64] {
        &self.tuples.words()[(2 * tuple + usize::from(twin)) * self.words..][..self.words]
    }
}

impl View for TwinView {
    fn find(&self, tuple: TupleId) -> Option<&[AtomicU64]> {
        let is_there = tuple < self.end && self.snapshot.get(tuple);
        is_there.then(|| self.at(tuple, !self.write.get(tuple)))
    }

    fn scan(&self, mut see: impl FnMut(&[AtomicU64]) -> bool) {
        let mut goes_on = true;
        for n in 0..self.end.div_ceil(64) {
            let write = self.write.word(n);
            ones(n, self.snapshot.word(n), |tuple| {
                let twin = write >> (tuple % 64) & 1 == 0;
                goes_on = goes_on && see(self.at(tuple, twin));
            });
            if !goes_on {
                return;
            }
        }
    }

    fn count(&self) -> usize {
        self.snapshot.count(self.end)
    }
}

impl TwinTuples {
    fn is_live(&self, tuple: TupleId) -> bool {
        self.slots.has(tuple) && self.live.get(tuple)
    }
}

impl Store for TwinTuples {
    type View = TwinView;
    const MECHANISM: Mechanism = Mechanism::TwinTuples;

    fn new(shape: Shape, kind: MemoryKind) -> Result<TwinTuples> {
        let tuples = Area::new(kind.pages, kind.shares_tuples, 2 * shape.words * shape.capacity)?;
        let bits = || TupleBits::new(kind, shape.capacity);
        let view = TwinView { words: shape.words, end: 0, tuples, snapshot: bits()?, write: bits()? };
        Ok(TwinTuples { view, live: bits()?, read: bits()?, slots: Slots::new(shape.capacity) })
    }

    fn insert(&mut self, tuple: &[u64]) -> Result<TupleId> {
        let number = self.slots.take()?;
        let write = self.view.write.get(number);
        self.read.set(number, write);
        fill(self.view.at(number, write), tuple);
        self.live.set(number, true);
        Ok(number)
    }

    fn find(&self, tuple: TupleId) -> Option<&[AtomicU64]> {
        self.is_live(tuple).then(|| self.view.at(tuple, self.read.get(tuple)))
    }

    fn change(&mut self, tuple: TupleId) -> Result<Option<&[AtomicU64]>> {
        if !self.is_live(tuple) {
            return Ok(None);
        }
        let (read, write) = (self.read.get(tuple), self.view.write.get(tuple));
        if read != write {
            copy(self.view.at(tuple, read), self.view.at(tuple, write));
            self.read.set(tuple, write);
        }
        Ok(Some(self.view.at(tuple, write)))
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
        self.slots.refresh();
        self.view.end = self.slots.end();
        for n in 0..self.view.end.div_ceil(64) {
            self.view.write.set_word(n, !self.read.word(n));
        }
        self.view.snapshot.copy_from(&self.live, self.view.end);
        Ok(())
    }

    fn view(&self) -> TwinView {
        self.view.clone()
    }

    fn used_words(&self) -> usize {
        2 * self.slots.end() * self.view.words
    }
}
