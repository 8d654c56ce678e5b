//! HotCold (DaMoN 2011, §3.4): what is changed moves to a section of its own, so that a child process and this one cease to share
//! few pages.
//!
//! A tuple of the snapshot is not changed where it is, in the cold section: its flag says that it is not there any more, and it is
//! changed in the hot section, to which a table of its own leads. What was inserted since at the end is changed in
//! place. Neither flags nor that table lie in the pages of the tuples.

use crate::area::{Area, MemoryKind, TupleBits, copy, fill, ones};
use crate::mechanism::Mechanism;
use crate::store::{Shape, Slots, Store, TupleId, View};
use ankerdb_base::Result;
use std::sync::atomic::AtomicU64;

/// Tuples in two sections.
pub struct HotCold {
    view: HotColdView,
    slots: Slots,
    hot_slots: Slots,
    /// Tuples before this number are in the snapshot.
    limit: usize,
}

/// Both sections, to be read in a child process, or while no transaction runs.
#[derive(Clone)]
pub struct HotColdView {
    words: usize,
    end: usize,
    cold: Area,
    /// Tuples that live in the cold section.
    cold_live: TupleBits,
    hot_end: usize,
    hot: Area,
    hot_live: TupleBits,
    /// By tuple: its place in the hot section plus one, or 0.
    places: Area,
}

impl HotColdView {
    fn in_cold(&self, tuple: TupleId) -> &[AtomicU64] {
        &self.cold.words()[tuple * self.words..][..self.words]
    }

    fn in_hot(&self, place: usize) -> &[AtomicU64] {
        &self.hot.words()[place * self.words..][..self.words]
    }

    /// Where a tuple lives in the hot section.
    fn hot_place(&self, tuple: TupleId) -> Option<usize> {
        let place = (self.places.load(tuple) as usize).checked_sub(1)?;
        self.hot_live.get(place).then_some(place)
    }
}

impl View for HotColdView {
    fn find(&self, tuple: TupleId) -> Option<&[AtomicU64]> {
        match tuple < self.end {
            false => None,
            true if self.cold_live.get(tuple) => Some(self.in_cold(tuple)),
            true => self.hot_place(tuple).map(|place| self.in_hot(place)),
        }
    }

    fn scan(&self, mut see: impl FnMut(&[AtomicU64]) -> bool) {
        let mut goes_on = true;
        for n in 0..self.end.div_ceil(64) {
            ones(n, self.cold_live.word(n), |tuple| goes_on = goes_on && see(self.in_cold(tuple)));
            if !goes_on {
                return;
            }
        }
        for n in 0..self.hot_end.div_ceil(64) {
            ones(n, self.hot_live.word(n), |place| goes_on = goes_on && see(self.in_hot(place)));
            if !goes_on {
                return;
            }
        }
    }

    fn count(&self) -> usize {
        self.cold_live.count(self.end) + self.hot_live.count(self.hot_end)
    }
}

impl Store for HotCold {
    type View = HotColdView;
    const MECHANISM: Mechanism = Mechanism::HotCold;

    fn new(shape: Shape, kind: MemoryKind) -> Result<HotCold> {
        let area = |words: usize| Area::new(kind.pages, kind.shares_tuples, words * shape.capacity);
        let bits = || TupleBits::new(kind, shape.capacity);
        let view = HotColdView {
            words: shape.words,
            end: 0,
            cold: area(shape.words)?,
            cold_live: bits()?,
            hot_end: 0,
            hot: area(shape.words)?,
            hot_live: bits()?,
            places: area(1)?,
        };
        let slots = || Slots::new(shape.capacity);
        Ok(HotCold { view, slots: slots(), hot_slots: slots(), limit: 0 })
    }

    fn insert(&mut self, tuple: &[u64]) -> Result<TupleId> {
        let number = self.slots.take()?;
        self.view.end = self.slots.end();
        fill(self.view.in_cold(number), tuple);
        self.view.cold_live.set(number, true);
        Ok(number)
    }

    fn find(&self, tuple: TupleId) -> Option<&[AtomicU64]> {
        self.view.find(tuple)
    }

    fn change(&mut self, tuple: TupleId) -> Result<Option<&[AtomicU64]>> {
        let is_cold = tuple < self.limit && self.view.cold_live.get(tuple);
        if !is_cold {
            return Ok(self.view.find(tuple));
        }
        let place = self.hot_slots.take()?;
        self.view.hot_end = self.hot_slots.end();
        copy(self.view.in_cold(tuple), self.view.in_hot(place));
        self.view.places.store(tuple, place as u64 + 1);
        self.view.hot_live.set(place, true);
        self.view.cold_live.set(tuple, false);
        Ok(Some(self.view.in_hot(place)))
    }

    fn delete(&mut self, tuple: TupleId) -> Result<bool> {
        if !self.slots.has(tuple) {
            return Ok(false);
        }
        if self.view.cold_live.get(tuple) {
            self.view.cold_live.set(tuple, false);
        } else if let Some(place) = self.view.hot_place(tuple) {
            self.view.hot_live.set(place, false);
        } else {
            return Ok(false);
        }
        self.slots.delete(tuple);
        Ok(true)
    }

    fn undelete(&mut self, tuple: TupleId) {
        self.slots.undelete(tuple);
        match self.view.places.load(tuple) {
            0 => self.view.cold_live.set(tuple, true),
            place => self.view.hot_live.set(place as usize - 1, true),
        }
    }

    fn refresh(&mut self) -> Result<()> {
        // Their places in the hot section are free, too. Numbers that are free have none.
        for tuple in self.slots.deleted() {
            if let Some(place) = (self.view.places.load(*tuple) as usize).checked_sub(1) {
                self.view.places.store(*tuple, 0);
                self.hot_slots.give_back(place);
            }
        }
        self.slots.refresh();
        self.limit = self.slots.end();
        Ok(())
    }

    /// Moves all hot tuples back to where they came from, and gives the hot section back.
    fn reorganize(&mut self) {
        let view = &self.view;
        for tuple in 0..view.end {
            let Some(place) = (view.places.load(tuple) as usize).checked_sub(1) else { continue };
            if view.hot_live.get(place) {
                copy(view.in_hot(place), view.in_cold(tuple));
                view.hot_live.set(place, false);
                view.cold_live.set(tuple, true);
            }
            view.places.store(tuple, 0);
        }
        self.hot_slots.clear();
        self.view.hot_end = 0;
    }

    fn view(&self) -> HotColdView {
        self.view.clone()
    }

    fn used_words(&self) -> usize {
        self.slots.end() * (self.view.words + 1) + self.hot_slots.end() * self.view.words
    }
}
