//! One cache line of a bucket: how entries are laid out in it.
//!
//! ```text
//! word  0      1      2 3 4    5 6 7
//!       latch  link   entry 0  entry 1        entry: two key words, row
//!
//! link  63       56 55       48 47                    6 5      0
//!       kind of 1 | kind of 0 | address of next line    | depth
//! ```
//!
//! A *kind* says what an entry's key words are: 0, no entry; 1 to 17, a key of 0 to 16 bytes, padded with zeros; 127, a
//! longer key: its hash, and the address of a *tail* (see `entry`) that has all of its bytes and belongs to the one
//! entry that holds the address. Its highest bit says that the row is the number of a list of rows (`posting`).
//!
//! A bucket's first line, its *head*, lies in an array. Further ones are allocated when needed (*overflow*). The head's
//! latch and depth are those of the bucket; in other lines they are not used. The line next to the head may have one
//! entry; all others of a bucket with overflow are full. So there is one place where an entry is added and one
//! from which a hole is filled, and entries are in the head as long as there is room.
//!
//! Everything here is an atomic word. Readers load under the head's latch (`latch`) and validate before they believe
//! what they have loaded and before they follow an address. All zeros is an empty line of no bucket.

use super::key::{HashEntry, HashKey, KeyKind};
use crate::latch::{Latch, NodeVersion, Restart};
use crossbeam_epoch::Guard;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Entries in a line.
pub(crate) const ENTRIES: usize = 2;
const ENTRY_WORDS: usize = 3;

const DEPTH_BITS: u64 = 0x3f;
const NEXT_BITS: u64 = 0x0000_ffff_ffff_ffc0;
const KIND_SHIFT: u32 = 48;

/// Bytes of a line.
pub(crate) const LINE_BYTES: usize = 64;

/// A line of a bucket. An overflow line is alive for threads that found its address in a validated bucket under an
/// epoch guard that is still pinned.
#[repr(C, align(64))]
pub(crate) struct Line {
    pub(crate) latch: Latch,
    link: AtomicU64,
    entries: [[AtomicU64; ENTRY_WORDS]; ENTRIES],
}

const _: () = assert!(size_of::<Line>() == LINE_BYTES);

/// The link word of a line.
#[derive(Clone, Copy)]
pub(crate) struct Link(u64);

impl Link {
    /// How many bits of a hash the bucket goes by; 0 for one that is not born.
    #[inline]
    pub(crate) fn depth(self) -> u32 {
        (self.0 & DEPTH_BITS) as u32
    }

    #[inline]
    pub(crate) fn kind(self, entry: usize) -> KeyKind {
        (self.0 >> (KIND_SHIFT as usize + 8 * entry)) as u8
    }

    #[inline]
    fn next_address(self) -> u64 {
        self.0 & NEXT_BITS
    }

    #[inline]
    pub(crate) fn has_next(self) -> bool {
        self.next_address() != 0
    }

    fn with_depth(self, depth: u32) -> Link {
        Link(self.0 & !DEPTH_BITS | u64::from(depth))
    }

    fn with_kind(self, entry: usize, kind: KeyKind) -> Link {
        let shift = KIND_SHIFT as usize + 8 * entry;
        Link(self.0 & !(0xff << shift) | u64::from(kind) << shift)
    }

    fn with_next(self, address: u64) -> Link {
        Link(self.0 & !NEXT_BITS | address)
    }
}

impl Line {
    /// Loads the link; to be validated.
    #[inline]
    pub(crate) fn link(&self) -> Link {
        Link(self.link.load(Relaxed))
    }

    fn set_link(&self, link: Link) {
        self.link.store(link.0, Relaxed);
    }

    /// Makes the line the head of a bucket of this depth. Needs the lock, or a line that no other thread knows.
    pub(crate) fn set_depth(&self, depth: u32) {
        self.set_link(self.link().with_depth(depth));
    }

    /// The next line of the bucket, if there is one.
    ///
    /// # Safety
    /// The link was loaded from a line of a bucket that was validated (or is locked) since, while the guard was pinned.
    #[inline]
    pub(crate) unsafe fn next(link: Link, _guard: &Guard) -> Option<&Line> {
        // SAFETY: by the contract, the line is alive as long as the guard is pinned; all of it is atomic.
        link.has_next()
            .then(|| unsafe { &*std::ptr::with_exposed_provenance::<Line>(link.next_address() as usize) })
    }

    /// Loads the row of an entry; to be validated.
    #[inline]
    pub(crate) fn row(&self, entry: usize) -> u64 {
        self.entries[entry][2].load(Relaxed)
    }

    /// Loads an entry whose kind is not 0; to be validated.
    #[inline]
    pub(crate) fn entry(&self, entry: usize, kind: KeyKind) -> HashEntry {
        let word = |nth: usize| self.entries[entry][nth].load(Relaxed);
        HashEntry { words: [word(0), word(1)], kind, row: word(2) }
    }

    /// Whether an entry has the key, whatever its row; to be validated. `head` is the bucket's.
    #[inline]
    pub(crate) fn key_equals(
        &self,
        entry: usize,
        link: Link,
        key: &HashKey,
        (head, version): (&Line, NodeVersion),
        guard: &Guard,
    ) -> Result<bool, Restart> {
        let word = |nth: usize| self.entries[entry][nth].load(Relaxed);
        if !key.is_of_kind(link.kind(entry)) || word(0) != key.words[0] {
            return Ok(false);
        }
        if !key.is_long() {
            return Ok(word(1) == key.words[1]);
        }
        let found = self.entry(entry, link.kind(entry));
        head.latch.validate(version)?;
        // SAFETY: the entry is one of a validated bucket, and the guard has been pinned meanwhile.
        Ok(unsafe { found.tail(guard) } == key.bytes)
    }

    fn set_entry(&self, place: usize, entry: &HashEntry) {
        let [first, second, row] = &self.entries[place];
        first.store(entry.words[0], Relaxed);
        second.store(entry.words[1], Relaxed);
        row.store(entry.row, Relaxed);
        self.set_link(self.link().with_kind(place, entry.kind));
    }

    /// Puts an entry into this line, if there is room. Needs the lock.
    fn put(&self, entry: &HashEntry) -> bool {
        let link = self.link();
        let free = (0..ENTRIES).find(|&place| link.kind(place) == 0);
        free.inspect(|&place| self.set_entry(place, entry)).is_some()
    }

    /// Takes some entry out of this line. Needs the lock.
    fn take_any(&self) -> Option<HashEntry> {
        let link = self.link();
        let place = (0..ENTRIES).find(|&place| link.kind(place) != 0)?;
        let entry = self.entry(place, link.kind(place));
        self.set_link(link.with_kind(place, 0));
        Some(entry)
    }

    fn is_empty(&self) -> bool {
        let link = self.link();
        (0..ENTRIES).all(|place| link.kind(place) == 0)
    }

    /// Adds an entry to the bucket of which this is the head. Needs the lock. Returns whether a line was allocated.
    pub(crate) fn add(&self, entry: &HashEntry, guard: &Guard) -> bool {
        let link = self.link();
        // SAFETY: the bucket is locked.
        let next = unsafe { Line::next(link, guard) };
        let has_room = match next {
            // With overflow, the head is full.
            Some(next) => next.put(entry),
            None => self.put(entry),
        };
        if has_room {
            return false;
        }
        let line = Line::allocate();
        // SAFETY: no other code knows the line yet; it was allocated just now.
        let new = unsafe { &*line };
        new.set_entry(0, entry);
        new.set_link(new.link().with_next(link.next_address()));
        let address = line.expose_provenance() as u64;
        assert!(address & !NEXT_BITS == 0, "addresses have 48 bits and lines are aligned");
        self.set_link(link.with_next(address));
        true
    }

    /// Some entry with this key in the bucket of which this is the head: where it is. Needs the lock.
    pub(crate) fn find_any<'b>(&'b self, key: &HashKey, guard: &'b Guard) -> Option<(&'b Line, usize)> {
        let mut line = self;
        loop {
            let link = line.link();
            let has_key = |place: usize| {
                let kind = link.kind(place);
                // SAFETY: the bucket is locked.
                kind != 0 && unsafe { line.entry(place, kind).has_key(key, guard) }
            };
            if let Some(place) = (0..ENTRIES).find(|&place| has_key(place)) {
                return Some((line, place));
            }
            // SAFETY: the bucket is locked.
            line = unsafe { Line::next(link, guard) }?;
        }
    }

    /// Removes an entry of the bucket of which this is the head; `line` is where it is. Needs the lock. Returns the
    /// entry, whose tail now belongs to the caller, and whether a line was given up.
    pub(crate) fn remove(&self, line: &Line, place: usize, guard: &Guard) -> (HashEntry, bool) {
        let link = line.link();
        let removed = line.entry(place, link.kind(place));
        line.set_link(link.with_kind(place, 0));
        let is_filler_line = std::ptr::from_ref(line).addr() as u64 == self.link().next_address();
        if is_filler_line && !line.is_empty() {
            return (removed, false);
        }
        let (filler, gave_up) = self.take_overflow(guard);
        if let Some(filler) = filler {
            let is_filled = line.put(&filler);
            debug_assert!(is_filled, "the hole is in a line that stays");
        }
        (removed, gave_up)
    }

    /// Takes an entry out of the first overflow line, and gives the line up if it is empty then. Needs the lock.
    pub(crate) fn take_overflow(&self, guard: &Guard) -> (Option<HashEntry>, bool) {
        let link = self.link();
        // SAFETY: the bucket is locked.
        let Some(next) = (unsafe { Line::next(link, guard) }) else { return (None, false) };
        let taken = next.take_any();
        if !next.is_empty() {
            return (taken, false);
        }
        self.set_link(self.link().with_next(next.link().next_address()));
        let address = link.next_address() as usize;
        // SAFETY: the line is not part of the bucket any more, so that guards pinned from now on cannot find it. The
        // closure owns all that it needs: it may run on another thread and after the index is gone.
        unsafe {
            guard.defer_unchecked(move || Line::free(std::ptr::with_exposed_provenance_mut(address)));
        }
        (taken, true)
    }

    fn allocate() -> *mut Line {
        let layout = Layout::new::<Line>();
        // SAFETY: the layout is not empty; all zeros is an empty line.
        let line = unsafe { alloc_zeroed(layout) }.cast::<Line>();
        if line.is_null() {
            handle_alloc_error(layout);
        }
        line
    }

    /// Frees an overflow line, but not the tails of its entries.
    ///
    /// # Safety
    /// It is not part of a bucket, and all guards under which it could be found are gone.
    unsafe fn free(line: *mut Line) {
        // SAFETY: by the contract, no other code knows the line; it was allocated with this layout.
        unsafe { dealloc(line.cast(), Layout::new::<Line>()) };
    }

    /// Frees the tails of all entries of a bucket, and its overflow lines.
    ///
    /// # Safety
    /// The index is exclusively owned; the bucket is not used again.
    pub(crate) unsafe fn free_bucket(&self) {
        let (mut line, mut address) = (self, 0);
        loop {
            let link = line.link();
            for place in (0..ENTRIES).filter(|&place| link.kind(place) != 0) {
                // SAFETY: by the contract, no other code knows the entry.
                unsafe { line.entry(place, link.kind(place)).free_tail() };
            }
            let next = link.next_address() as usize;
            if address != 0 {
                // SAFETY: by the contract, no other code knows the line.
                unsafe { Line::free(std::ptr::with_exposed_provenance_mut(address)) };
            }
            if next == 0 {
                return;
            }
            address = next;
            // SAFETY: the line belongs to the bucket and was not freed yet.
            line = unsafe { &*std::ptr::with_exposed_provenance::<Line>(next) };
        }
    }
}
