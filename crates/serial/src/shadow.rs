//! Shadow copies of pages with epochs (Caldera, CIDR 2017, §4).
//!
//! ```text
//! root (a list of directories, copied by each snapshot)      e3
//! directories (pages of page numbers)                    e1      e3
//! leaves (pages of tuples, and a bit for each)         e1 e1   e1  e3
//! ```
//!
//! Each page has the epoch in which it was made. A snapshot takes over the root and begins the next epoch; the first change of a
//! page in an epoch makes a copy of it, and of the directory that leads to it. What was replaced is free when no snapshot of
//! an epoch lives in which it was part of the state.

use crate::area::{Area, MemoryKind, copy, fill, ones};
use crate::mechanism::Mechanism;
use crate::store::{Shape, Slots, Store, TupleId, View};
use ankerdb_base::{Error, Result, SqlState};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Pages reserved for each page of tuples: the newest, and those that snapshots still have. Costs addresses only.
const COPIES: usize = 6;

/// Tuples in pages.
pub struct ShadowCopies {
    layout: Layout,
    arena: Area,
    /// By page: the epoch in which it was made.
    made: Vec<u64>,
    free: Vec<usize>,
    /// Pages that were replaced, as far as they are not free.
    retired: Vec<Retired>,
    pages_max: usize,
    root: Vec<usize>,
    leaves: usize,
    epoch: u64,
    /// Epochs that snapshots hold.
    living: Arc<Mutex<Vec<u64>>>,
    view: ShadowView,
    slots: Slots,
}

/// A page that was part of the state from one epoch until before another.
struct Retired {
    page: usize,
    made: u64,
    replaced: u64,
}

/// The pages of one epoch. Its clones hold them, too.
#[derive(Clone)]
pub struct ShadowView {
    layout: Layout,
    arena: Area,
    root: Arc<[usize]>,
    end: usize,
    _held: Arc<HeldEpoch>,
}

/// An epoch whose pages are not given back.
struct HeldEpoch {
    epoch: u64,
    living: Arc<Mutex<Vec<u64>>>,
}

impl Drop for HeldEpoch {
    fn drop(&mut self) {
        let mut living = self.living.lock();
        if let Some(at) = living.iter().position(|epoch| *epoch == self.epoch) {
            living.swap_remove(at);
        }
    }
}

/// Where things are in pages.
#[derive(Clone, Copy)]
struct Layout {
    words: usize,
    page_words: usize,
    /// Tuples of a page.
    tuples: usize,
    /// Words of bits at the start of a page.
    header: usize,
}

impl Layout {
    fn new(words: usize, page_words: usize) -> Result<Layout> {
        let mut tuples = page_words / words.max(1);
        while tuples > 0 && tuples.div_ceil(64) + tuples * words > page_words {
            tuples -= 1;
        }
        if tuples == 0 {
            let message = format!("a tuple of {words} words does not fit a page of {page_words}");
            return Err(Error::new(SqlState::ProgramLimitExceeded, message));
        }
        Ok(Layout { words, page_words, tuples, header: tuples.div_ceil(64) })
    }

    /// The leaf with this number.
    fn leaf(self, arena: &Area, root: &[usize], leaf: usize) -> usize {
        let directory = root[leaf / self.page_words];
        arena.load(directory * self.page_words + leaf % self.page_words) as usize
    }

    fn page(self, arena: &Area, page: usize) -> &[AtomicU64] {
        &arena.words()[page * self.page_words..][..self.page_words]
    }

    fn tuple(self, page: &[AtomicU64], place: usize) -> &[AtomicU64] {
        &page[self.header + place * self.words..][..self.words]
    }

    fn is_live(page: &[AtomicU64], place: usize) -> bool {
        page[place / 64].load(Relaxed) >> (place % 64) & 1 != 0
    }
}

impl View for ShadowView {
    fn find(&self, tuple: TupleId) -> Option<&[AtomicU64]> {
        if tuple >= self.end {
            return None;
        }
        let (leaf, place) = (tuple / self.layout.tuples, tuple % self.layout.tuples);
        let page = self.layout.page(&self.arena, self.layout.leaf(&self.arena, &self.root, leaf));
        Layout::is_live(page, place).then(|| self.layout.tuple(page, place))
    }

    fn scan(&self, mut see: impl FnMut(&[AtomicU64]) -> bool) {
        let mut goes_on = true;
        for leaf in 0..self.end.div_ceil(self.layout.tuples) {
            let page = self.layout.page(&self.arena, self.layout.leaf(&self.arena, &self.root, leaf));
            for n in 0..self.layout.header {
                let live = page[n].load(Relaxed);
                ones(n, live, |place| goes_on = goes_on && see(self.layout.tuple(page, place)));
            }
            if !goes_on {
                return;
            }
        }
    }

    fn count(&self) -> usize {
        let leaves = 0..self.end.div_ceil(self.layout.tuples);
        let pages =
            leaves.map(|leaf| self.layout.page(&self.arena, self.layout.leaf(&self.arena, &self.root, leaf)));
        let live = pages.flat_map(|page| &page[..self.layout.header]);
        live.map(|word| word.load(Relaxed).count_ones() as usize).sum()
    }
}

impl ShadowCopies {
    fn new_page(&mut self) -> Result<usize> {
        if let Some(page) = self.free.pop() {
            self.made[page] = self.epoch;
            return Ok(page);
        }
        if self.made.len() == self.pages_max {
            self.reclaim();
            let page = self.free.pop().ok_or_else(|| {
                let message = "snapshots hold too many pages that were replaced since";
                Error::new(SqlState::OutOfMemory, message)
            })?;
            self.made[page] = self.epoch;
            return Ok(page);
        }
        self.made.push(self.epoch);
        Ok(self.made.len() - 1)
    }

    /// The page itself if it was made in this epoch, or else its copy that takes its place.
    fn own(&mut self, page: usize) -> Result<usize> {
        let made = self.made[page];
        if made == self.epoch {
            return Ok(page);
        }
        let new = self.new_page()?;
        copy(self.layout.page(&self.arena, page), self.layout.page(&self.arena, new));
        self.retired.push(Retired { page, made, replaced: self.epoch });
        Ok(new)
    }

    /// A leaf that may be written, with all that leads to it; the one after the last is made.
    fn own_leaf(&mut self, leaf: usize) -> Result<usize> {
        let (number, at) = (leaf / self.layout.page_words, leaf % self.layout.page_words);
        let directory = match self.root.get(number) {
            Some(page) => self.own(*page)?,
            None => self.new_page()?,
        };
        match self.root.get_mut(number) {
            Some(page) => *page = directory,
            None => self.root.push(directory),
        }
        let entry = directory * self.layout.page_words + at;
        let page = match leaf < self.leaves {
            true => self.own(self.arena.load(entry) as usize)?,
            false => {
                let page = self.new_page()?;
                let header = &self.layout.page(&self.arena, page)[..self.layout.header];
                header.iter().for_each(|word| word.store(0, Relaxed));
                self.leaves += 1;
                page
            }
        };
        self.arena.store(entry, page as u64);
        Ok(page)
    }

    fn split(&self, tuple: TupleId) -> (usize, usize) {
        (tuple / self.layout.tuples, tuple % self.layout.tuples)
    }

    fn set_live(&self, page: usize, place: usize, is_live: bool) {
        let word = &self.layout.page(&self.arena, page)[place / 64];
        let (bits, mask) = (word.load(Relaxed), 1 << (place % 64));
        word.store(if is_live { bits | mask } else { bits & !mask }, Relaxed);
    }

    /// A new snapshot, and a new epoch.
    fn next_epoch(&mut self) -> ShadowView {
        self.living.lock().push(self.epoch);
        let held = HeldEpoch { epoch: self.epoch, living: self.living.clone() };
        self.epoch += 1;
        let (layout, arena) = (self.layout, self.arena.clone());
        // An insertion that found no page has left a number without a leaf.
        let end = self.slots.end().min(self.leaves * layout.tuples);
        ShadowView { layout, arena, root: self.root.as_slice().into(), end, _held: Arc::new(held) }
    }

    /// Gives pages back that no living snapshot has.
    fn reclaim(&mut self) {
        let living = self.living.lock();
        let is_held = |page: &Retired| living.iter().any(|epoch| (page.made..page.replaced).contains(epoch));
        let free = &mut self.free;
        self.retired.retain(|page| {
            let is_held = is_held(page);
            if !is_held {
                free.push(page.page);
            }
            is_held
        });
    }
}

impl Store for ShadowCopies {
    type View = ShadowView;
    const MECHANISM: Mechanism = Mechanism::ShadowCopies;

    fn new(shape: Shape, kind: MemoryKind) -> Result<ShadowCopies> {
        let layout = Layout::new(shape.words, kind.shadow_bytes / 8)?;
        let leaves = shape.capacity.div_ceil(layout.tuples);
        let pages_max = COPIES * (leaves + leaves.div_ceil(layout.page_words) + 1);
        let arena = Area::new(kind.pages, kind.shares_tuples, pages_max * layout.page_words)?;
        let living = Arc::new(Mutex::new(vec![0]));
        let held = Arc::new(HeldEpoch { epoch: 0, living: living.clone() });
        let view = ShadowView { layout, arena: arena.clone(), root: [].into(), end: 0, _held: held };
        Ok(ShadowCopies {
            layout,
            arena,
            made: Vec::new(),
            free: Vec::new(),
            retired: Vec::new(),
            pages_max,
            root: Vec::new(),
            leaves: 0,
            epoch: 1,
            living,
            view,
            slots: Slots::new(shape.capacity),
        })
    }

    fn insert(&mut self, tuple: &[u64]) -> Result<TupleId> {
        let number = self.slots.take()?;
        let (leaf, place) = self.split(number);
        let page = self.own_leaf(leaf).inspect_err(|_| self.slots.give_back(number))?;
        fill(self.layout.tuple(self.layout.page(&self.arena, page), place), tuple);
        self.set_live(page, place, true);
        Ok(number)
    }

    fn find(&self, tuple: TupleId) -> Option<&[AtomicU64]> {
        let (leaf, place) = self.split(tuple);
        if leaf >= self.leaves {
            return None;
        }
        let page = self.layout.page(&self.arena, self.layout.leaf(&self.arena, &self.root, leaf));
        Layout::is_live(page, place).then(|| self.layout.tuple(page, place))
    }

    fn change(&mut self, tuple: TupleId) -> Result<Option<&[AtomicU64]>> {
        if self.find(tuple).is_none() {
            return Ok(None);
        }
        let (leaf, place) = self.split(tuple);
        let page = self.own_leaf(leaf)?;
        Ok(Some(self.layout.tuple(self.layout.page(&self.arena, page), place)))
    }

    fn delete(&mut self, tuple: TupleId) -> Result<bool> {
        if self.find(tuple).is_none() {
            return Ok(false);
        }
        let (leaf, place) = self.split(tuple);
        let page = self.own_leaf(leaf)?;
        self.set_live(page, place, false);
        self.slots.delete(tuple);
        Ok(true)
    }

    fn undelete(&mut self, tuple: TupleId) {
        self.slots.undelete(tuple);
        let (leaf, place) = self.split(tuple);
        // The page is of this epoch, as the deletion was.
        self.set_live(self.layout.leaf(&self.arena, &self.root, leaf), place, true);
    }

    fn refresh(&mut self) -> Result<()> {
        self.slots.refresh();
        self.view = self.next_epoch();
        self.reclaim();
        Ok(())
    }

    fn view(&self) -> ShadowView {
        self.view.clone()
    }

    fn used_words(&self) -> usize {
        (self.made.len() - self.free.len()) * self.layout.page_words
    }
}
