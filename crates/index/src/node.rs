//! Nodes: fixed pieces of memory full of words that may change while they are read.
//!
//! A node is a header and some arrays of equal length. A leaf's slot holds an entry: key words, rest, row (see
//! `entry`). An inner node's slot holds the same as a *separator*, and there is a child for each:
//!
//! ```text
//! header | guides | (inner node only: addresses of children) | slots
//! guide  | head: seven bytes of the key | place: one byte |
//! slot   | key words (a leaf has 1 to 3, an inner node 3) | rest | row |
//! ```
//!
//! *Guides* are in ascending order of their entries; slots and children lie anywhere, and the *place* in a guide says
//! where. Guides behind the count name the free places. An insertion or removal therefore moves guides, one word per
//! entry, and no slots. An *index* counts guides: the index of a slot is its position in key order.
//!
//! Child *i* holds the entries from separator *i* (inclusive) to separator
//! *i + 1* (exclusive). Separator 0 is never looked at: child 0 begins where the node begins, and the last
//! child ends where the node ends. How many key words a leaf's slots have (its *width*) is fixed when it is
//! allocated; a leaf of narrower keys holds more of them.
//!
//! A guide's *head* is the seven bytes of its key that follow the *prefix* that all keys of the node share. A search
//! looks at the header, some guides, and then usually at one slot (or child). Prefix and heads are over the
//! (zero-padded) key words; keys that agree there have equal heads and are told apart by their slots. The prefix is as
//! long as it was possible when it was last computed: it is computed again when a key arrives that does not share
//! it, and after a split.
//!
//! A leaf may be *marked* dead: from some stamp on, readers can ignore all of its entries. Insertion into the leaf
//! takes the mark away, removal does not. The meaning of stamps is left to the users of the tree.
//!
//! Everything that changes is an atomic word. Readers load words under the latch's protocol (`latch`) and must
//! validate before they believe them and before they follow an address; whatever they load, the
//! count is at most the capacity and a place is below it, so no load is out of bounds. Methods that change a node demand
//! its lock.

use crate::entry::{INLINE_BYTES, KEY_WORDS, NodeSlot, Probe, Side, free_tail, tail_bytes};
use crate::latch::{Latch, Locked, NodeVersion, Restart};
use ankerdb_memory::{allocate_zeroed, free};
use crossbeam_epoch::Guard;
use std::cell::UnsafeCell;
use std::cmp::Ordering;
use std::ops::Deref;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};

/// Size of every node.
pub(crate) const NODE_BYTES: usize = 4096;
const HEADER_BYTES: usize = 56;
const BODY_BYTES: usize = NODE_BYTES - HEADER_BYTES;

/// Words of a slot besides the key: rest and row.
const ENTRY_WORDS: usize = 2;
const GUIDE_BYTES: usize = 8;
/// The longest prefix: a head fits behind it.
const PREFIX_BYTES_MAX: usize = INLINE_BYTES - 7;
/// The part of a guide that is its place; the rest is its head.
const PLACE: u64 = 0xff;

/// One node of the tree. Alive for threads that found its address in a validated node (or in the root pointer)
/// under an epoch guard that is still pinned.
#[repr(C, align(64))]
pub(crate) struct Node {
    latch: Latch,
    /// The stamp from which on readers can ignore the entries of the leaf; 0 if there is none.
    dead_from: AtomicU64,
    count: AtomicU16,
    /// Where the last insertion went, to recognize ascending runs.
    last: AtomicU16,
    /// Length of the prefix.
    prefix_bytes: AtomicU8,
    // These never change.
    capacity: u8,
    /// Key words per slot.
    width: u8,
    /// Distance to the leaves; 0 for a leaf.
    level: u8,
    /// The prefix, padded with zeros.
    prefix: [AtomicU64; KEY_WORDS],
    /// Where the children, or in a leaf the slots, begin in the body.
    children_offset: u16,
    slots_offset: u16,
    /// The guides, and from `children_offset` on children and slots, all as `AtomicU64`s.
    body: UnsafeCell<[u64; BODY_BYTES / 8]>,
}

const _: () = assert!(size_of::<Node>() == NODE_BYTES && std::mem::offset_of!(Node, body) == HEADER_BYTES);

// SAFETY: what changes is atomic; the body is only looked at through atomics.
unsafe impl Sync for Node {}

/// A rank as far as heads say.
enum Ranked {
    /// The rank.
    Exactly(usize),
    /// From this index on there are slots with the head that was looked for, which a look at them must tell apart.
    AmongEquals(usize),
}

/// A node that is not in a tree (yet, or any more). Frees it, but not the tails in its slots.
pub(crate) struct NewNode(NonNull<Node>);

impl NewNode {
    /// Gives the node to the tree; from here on, its address is the node.
    pub(crate) fn into_child(self) -> Child {
        let node = self.0.as_ptr();
        std::mem::forget(self);
        node.expose_provenance() as u64
    }
}

impl Deref for NewNode {
    type Target = Node;

    fn deref(&self) -> &Node {
        // SAFETY: owned, and initialized by zeros.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for NewNode {
    fn drop(&mut self) {
        // SAFETY: allocated with this size in `allocate`, and owned; a node has nothing to drop but its memory.
        unsafe { free(self.0.cast(), NODE_BYTES) };
    }
}

/// A child as a word of an inner node's slot.
pub(crate) type Child = u64;

impl Node {
    /// A new leaf for keys of `width` words.
    pub(crate) fn new_leaf(width: usize) -> NewNode {
        Node::allocate(0, width)
    }

    /// A new inner node, `level` above the leaves.
    pub(crate) fn new_inner(level: usize) -> NewNode {
        Node::allocate(level, KEY_WORDS)
    }

    fn allocate(level: usize, width: usize) -> NewNode {
        // All zeros is a valid node: integers and a free latch.
        let mut new = NewNode(allocate_zeroed(NODE_BYTES).cast());
        // SAFETY: allocated for a node, aligned to 64 bytes, and ours alone.
        let node = unsafe { new.0.as_mut() };
        let child_bytes = if level > 0 { size_of::<Child>() } else { 0 };
        let slot_bytes = (width + ENTRY_WORDS) * 8;
        let capacity = BODY_BYTES / (GUIDE_BYTES + child_bytes + slot_bytes);
        debug_assert!(capacity <= PLACE as usize);
        let children_offset = capacity * GUIDE_BYTES;
        node.capacity = capacity as u8;
        node.children_offset = children_offset as u16;
        node.slots_offset = (children_offset + capacity * child_bytes) as u16;
        node.width = width as u8;
        node.level = level as u8;
        (0..capacity).for_each(|place| node.set_guide(place, place as u64));
        new
    }

    /// The node of an address.
    ///
    /// # Safety
    /// The node is alive as long as the guard is pinned.
    #[inline]
    pub(crate) unsafe fn from_child(child: Child, _guard: &Guard) -> &Node {
        // SAFETY: by the contract; what changes in a node is atomic, so that it may be shared.
        unsafe { &*std::ptr::with_exposed_provenance::<Node>(child as usize) }
    }

    /// The address of this node.
    pub(crate) fn as_child(&self) -> Child {
        std::ptr::from_ref(self).addr() as u64
    }

    /// Frees a node, and the tails in its slots, but not its children.
    ///
    /// # Safety
    /// The node is not part of a tree (any more), and all guards under which it could be found are gone.
    pub(crate) unsafe fn free(child: Child) {
        let address = std::ptr::with_exposed_provenance_mut::<Node>(child as usize);
        // By the contract, no other code knows the node; this is what `into_child` has let go of.
        let node = NewNode(NonNull::new(address).expect("a node has an address"));
        // SAFETY: the slots below the count own their tails, and no other code knows them.
        (0..node.count()).for_each(|index| unsafe { free_tail(node.rest(index)) });
    }

    /// Asks for the header and the guides, which a search needs together.
    #[inline]
    pub(crate) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        for line in [0, 64, 128, 192, 256, 320, 384, 448] {
            // SAFETY: a hint; it loads nothing.
            unsafe {
                std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                    std::ptr::from_ref(self).cast::<i8>().wrapping_add(line),
                );
            }
        }
    }

    #[inline]
    pub(crate) fn is_leaf(&self) -> bool {
        self.level == 0
    }

    pub(crate) fn level(&self) -> usize {
        usize::from(self.level)
    }

    pub(crate) fn width(&self) -> usize {
        usize::from(self.width)
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        usize::from(self.count.load(Relaxed))
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.count() == self.capacity()
    }

    pub(crate) fn capacity(&self) -> usize {
        usize::from(self.capacity)
    }

    pub(crate) fn last(&self) -> usize {
        usize::from(self.last.load(Relaxed))
    }

    #[inline]
    pub(crate) fn read(&self) -> Result<NodeVersion, Restart> {
        self.latch.read()
    }

    #[inline]
    pub(crate) fn validate(&self, version: NodeVersion) -> Result<(), Restart> {
        self.latch.validate(version)
    }

    #[inline]
    pub(crate) fn lock(&self, version: NodeVersion) -> Result<Locked<'_>, Restart> {
        self.latch.lock(version)
    }

    /// Whether the leaf is marked for readers at a stamp; to be validated.
    #[inline]
    pub(crate) fn is_dead(&self, since: u64) -> bool {
        (1..=since).contains(&self.dead_from.load(Relaxed))
    }

    /// Marks a leaf, or takes the mark away (0). Needs the lock.
    pub(crate) fn set_dead(&self, from: u64) {
        self.dead_from.store(from, Relaxed);
    }

    #[inline]
    fn slot_words(&self) -> usize {
        self.width() + ENTRY_WORDS
    }

    /// A word of the body, counted from `offset` bytes into it.
    #[inline]
    fn atomic_word(&self, offset: u16, index: usize) -> &AtomicU64 {
        let offset = usize::from(offset) + index * 8;
        debug_assert!(offset < BODY_BYTES);
        // SAFETY: indexes and places are below the capacity, whatever a reader has loaded (header), so that this is
        // within the body, which is used as `AtomicU64`s only, and aligned for them.
        unsafe { &*self.body.get().cast::<AtomicU64>().byte_add(offset) }
    }

    #[inline]
    fn word(&self, index: usize) -> u64 {
        self.atomic_word(self.slots_offset, index).load(Relaxed)
    }

    #[inline]
    fn set_word(&self, index: usize, word: u64) {
        self.atomic_word(self.slots_offset, index).store(word, Relaxed);
    }

    #[inline]
    fn guide(&self, index: usize) -> u64 {
        debug_assert!(index < self.capacity());
        self.atomic_word(0, index).load(Relaxed)
    }

    #[inline]
    fn set_guide(&self, index: usize, guide: u64) {
        debug_assert!(index < self.capacity());
        self.atomic_word(0, index).store(guide, Relaxed);
    }

    /// Where the slot (and child) of an index is.
    #[inline]
    fn place(&self, index: usize) -> usize {
        (self.guide(index) & PLACE) as usize
    }

    /// The first word of the slot of an index.
    #[inline]
    fn first_word(&self, index: usize) -> usize {
        self.place(index) * self.slot_words()
    }

    fn rest(&self, index: usize) -> u64 {
        self.word(self.first_word(index) + self.width())
    }

    /// Loads a slot; to be validated.
    #[inline]
    pub(crate) fn slot(&self, index: usize) -> NodeSlot {
        self.slot_of_width(index, self.width())
    }

    /// Loads a slot of a node of this width; to be validated.
    #[inline(always)]
    pub(crate) fn slot_of_width(&self, index: usize, width: usize) -> NodeSlot {
        debug_assert!(width == self.width());
        let first = self.place(index) * (width + ENTRY_WORDS);
        let word = |nth: usize| if nth < width { self.word(first + nth) } else { 0 };
        NodeSlot {
            words: [word(0), word(1), word(2)],
            rest: self.word(first + width),
            row: self.word(first + width + 1),
        }
    }

    /// Loads a child's address; to be validated before it is followed.
    #[inline]
    pub(crate) fn child(&self, index: usize) -> Child {
        debug_assert!(!self.is_leaf());
        self.atomic_word(self.children_offset, self.place(index)).load(Relaxed)
    }

    /// The number of slots before the cut, of those from `from` to `count`, plus `from`; to be validated.
    /// In an inner node, `from` is at least 1.
    #[inline]
    pub(crate) fn rank(
        &self,
        from: usize,
        count: usize,
        probe: &Probe,
        side: Side,
        version: NodeVersion,
        guard: &Guard,
    ) -> Result<usize, Restart> {
        match self.rank_by_head(from, count, probe) {
            Ranked::Exactly(rank) => Ok(rank),
            Ranked::AmongEquals(low) => self.rank_among_equals(low, count, probe, side, version, guard),
        }
    }

    /// The rank, as far as prefix and heads say.
    #[inline]
    fn rank_by_head(&self, from: usize, count: usize, probe: &Probe) -> Ranked {
        let prefix_bytes = self.prefix_bytes.load(Relaxed);
        if !self.has_prefix(probe.words(), prefix_bytes) {
            let is_before = self.compare_prefix(probe.words(), prefix_bytes).is_lt();
            return Ranked::Exactly(if is_before { count.max(from) } else { from });
        }
        let head = probe.head(prefix_bytes);
        let low = self.partition(from, count, head);
        if low >= count || self.guide(low) & !PLACE != head {
            return Ranked::Exactly(low);
        }
        Ranked::AmongEquals(low)
    }

    /// The indexes of a leaf's slots with the probe's key, whatever their rows; to be validated. If there are none, an
    /// empty range at the place of the key.
    #[inline]
    pub(crate) fn run(
        &self,
        count: usize,
        probe: &Probe,
        version: NodeVersion,
        guard: &Guard,
    ) -> Result<Range<usize>, Restart> {
        let low = match self.rank_by_head(0, count, probe) {
            Ranked::Exactly(rank) => return Ok(rank..rank),
            Ranked::AmongEquals(low) => low,
        };
        let is_alone = low + 1 >= count || (self.guide(low) ^ self.guide(low + 1)) & !PLACE != 0;
        if is_alone {
            return Ok(match self.compare_key(low, probe, version, guard)?.0 {
                Ordering::Less => low + 1..low + 1,
                Ordering::Equal => low..low + 1,
                Ordering::Greater => low..low,
            });
        }
        let (first, last) = (probe.with_row(0), probe.with_row(u64::MAX));
        let start = self.rank_among_equals(low, count, &first, Side::Before, version, guard)?;
        let end = self.rank_among_equals(start, count, &last, Side::After, version, guard)?;
        Ok(start..end)
    }

    /// The first index in the range from which on no guide is less than this one. Without branches on what the
    /// comparisons say, as they would be mispredicted every other time.
    #[inline]
    fn partition(&self, from: usize, count: usize, guide: u64) -> usize {
        let (mut low, mut length) = (from, count.saturating_sub(from));
        while length > 1 {
            let half = length / 2;
            let is_before = self.guide(low + half - 1) < guide;
            low = std::hint::select_unpredictable(is_before, low + half, low);
            length -= half;
        }
        low + usize::from(length == 1 && self.guide(low) < guide)
    }

    /// The rank from `low` on, where slots with the probe's head begin, if there are any.
    #[inline(never)]
    fn rank_among_equals(
        &self,
        mut low: usize,
        count: usize,
        probe: &Probe,
        side: Side,
        version: NodeVersion,
        guard: &Guard,
    ) -> Result<usize, Restart> {
        let head = probe.head(self.prefix_bytes.load(Relaxed));
        let mut high = low;
        if high < count && self.guide(high) & !PLACE == head {
            high += 1;
        }
        if high < count && self.guide(high) & !PLACE == head {
            high = self.partition(high, count, head | PLACE);
        }
        while low < high {
            let middle = (low + high) / 2;
            let before = match self.compare(middle, probe, version, guard)? {
                Ordering::Less => true,
                Ordering::Equal => side == Side::After,
                Ordering::Greater => false,
            };
            if before { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    /// Whether a key shares the prefix.
    #[inline]
    fn has_prefix(&self, words: &[u64; KEY_WORDS], prefix_bytes: u8) -> bool {
        let masks = &PREFIX_MASKS[usize::from(prefix_bytes)];
        let differs = |word: usize| self.prefix[word].load(Relaxed) ^ (words[word] & masks[word]);
        differs(0) | differs(1) | differs(2) == 0
    }

    /// Orders the keys of this node relative to a key, as far as their prefix says.
    #[cold]
    fn compare_prefix(&self, words: &[u64; KEY_WORDS], prefix_bytes: u8) -> Ordering {
        let masks = &PREFIX_MASKS[usize::from(prefix_bytes)];
        let prefix = self.prefix.each_ref().map(|word| word.load(Relaxed));
        prefix.cmp(&std::array::from_fn(|word| words[word] & masks[word]))
    }

    /// Loads the row at `index`; to be validated.
    #[inline]
    pub(crate) fn row(&self, index: usize) -> u64 {
        self.word(self.first_word(index) + self.width() + 1)
    }

    /// Computes prefix and heads again. Needs the lock.
    fn refresh_heads(&self) {
        let (first, count) = (usize::from(!self.is_leaf()), self.count());
        let (lowest, highest) = if first < count {
            (self.slot(first).words, self.slot(count - 1).words)
        } else {
            ([0; KEY_WORDS], [0; KEY_WORDS])
        };
        // The slots are sorted: what the first and the last one share, all share.
        let prefix_bytes = common_bytes(&lowest, &highest);
        self.prefix_bytes.store(prefix_bytes, Relaxed);
        for (word, prefix) in self.prefix.iter().enumerate() {
            prefix.store(lowest[word] & PREFIX_MASKS[usize::from(prefix_bytes)][word], Relaxed);
        }
        for index in first..count {
            let head = head_of(&self.slot(index).words, prefix_bytes);
            self.set_guide(index, head | self.place(index) as u64);
        }
    }

    /// Orders a slot relative to the probe; to be validated.
    #[inline]
    pub(crate) fn compare(
        &self,
        index: usize,
        probe: &Probe,
        version: NodeVersion,
        guard: &Guard,
    ) -> Result<Ordering, Restart> {
        let (by_key, row_word) = self.compare_key(index, probe, version, guard)?;
        Ok(by_key.then_with(|| self.word(row_word).cmp(&probe.row())))
    }

    /// Orders a slot's key relative to the probe's; to be validated. Also returns the word in which the row is.
    #[inline]
    fn compare_key(
        &self,
        index: usize,
        probe: &Probe,
        version: NodeVersion,
        guard: &Guard,
    ) -> Result<(Ordering, usize), Restart> {
        let (first, width) = (self.first_word(index), self.width());
        let row_word = first + width + 1;
        for (word, &wanted) in probe.words().iter().enumerate() {
            if word == width {
                break;
            }
            let found = self.word(first + word);
            if found != wanted {
                return Ok((found.cmp(&wanted), row_word));
            }
        }
        let rest = self.word(first + width);
        let by_key = probe.compare_rest(rest, || {
            self.validate(version)?;
            // SAFETY: the rest word is one of a validated node, and the guard has been pinned meanwhile.
            Ok(unsafe { tail_bytes(rest, guard) })
        })?;
        Ok((by_key, row_word))
    }

    fn set_slot(&self, place: usize, slot: &NodeSlot) {
        let (first, width) = (place * self.slot_words(), self.width());
        for (word, &value) in slot.words.iter().enumerate().take(width) {
            self.set_word(first + word, value);
        }
        self.set_word(first + width, slot.rest);
        self.set_word(first + width + 1, slot.row);
    }

    /// Inserts a slot, which becomes the owner of its tail, and, in an inner node, a child. Needs the lock (or
    /// a node that no other thread knows), room, and a key that fits the width.
    pub(crate) fn insert_at(&self, index: usize, slot: &NodeSlot, child: Option<Child>) {
        let count = self.count();
        assert!(index <= count && !self.is_full());
        debug_assert!(child.is_some() != self.is_leaf());
        self.set_dead(0);
        let place = self.place(count);
        self.set_slot(place, slot);
        if let Some(child) = child {
            self.atomic_word(self.children_offset, place).store(child, Relaxed);
        }
        (index..count).rev().for_each(|other| self.set_guide(other + 1, self.guide(other)));
        let prefix_bytes = self.prefix_bytes.load(Relaxed);
        self.set_guide(index, head_of(&slot.words, prefix_bytes) | place as u64);
        self.last.store(index as u16, Relaxed);
        self.count.store(count as u16 + 1, Relaxed);
        if count < 2 || !self.has_prefix(&slot.words, prefix_bytes) {
            self.refresh_heads();
        }
    }

    /// Removes a slot; the caller becomes the owner of its tail. Needs the lock.
    pub(crate) fn remove_at(&self, index: usize) -> NodeSlot {
        let count = self.count();
        assert!(index < count);
        let slot = self.slot(index);
        let free = self.guide(index);
        (index..count - 1).for_each(|other| self.set_guide(other, self.guide(other + 1)));
        self.set_guide(count - 1, free);
        // After a removal the next insertion is not taken for part of a run.
        self.last.store(u16::MAX, Relaxed);
        self.count.store(count as u16 - 1, Relaxed);
        slot
    }

    /// Points a slot of an inner node to another child. Needs the lock.
    pub(crate) fn set_child(&self, index: usize, child: Child) {
        self.atomic_word(self.children_offset, self.place(index)).store(child, Relaxed);
    }

    /// Moves the slots from `from` on, with their tails, to an empty node of the same kind that nobody else
    /// knows. Needs the lock.
    pub(crate) fn move_upper(&self, from: usize, to: &Node) {
        let (count, stride) = (self.count(), self.slot_words());
        debug_assert!(
            stride == to.slot_words()
                && self.level == to.level
                && to.count() == 0
                && (1..count).contains(&from)
        );
        for index in from..count {
            let (source, target) = (self.first_word(index), to.first_word(index - from));
            (0..stride).for_each(|word| to.set_word(target + word, self.word(source + word)));
            if !self.is_leaf() {
                to.set_child(index - from, self.child(index));
            }
        }
        to.count.store((count - from) as u16, Relaxed);
        to.last.store((count - from - 1) as u16, Relaxed);
        self.count.store(from as u16, Relaxed);
        self.last.store(u16::MAX, Relaxed);
        self.refresh_heads();
        to.refresh_heads();
    }

    /// Moves all slots to an empty, wider leaf that no other thread knows. Needs the lock.
    pub(crate) fn move_all(&self, to: &Node) {
        debug_assert!(self.is_leaf() && to.count() == 0 && self.count() < to.capacity());
        for index in 0..self.count() {
            to.insert_at(index, &self.slot(index), None);
        }
        self.count.store(0, Relaxed);
    }
}

/// The bits of the key words that belong to a prefix, by its length.
static PREFIX_MASKS: [[u64; KEY_WORDS]; PREFIX_BYTES_MAX + 1] = prefix_masks();

const fn prefix_masks() -> [[u64; KEY_WORDS]; PREFIX_BYTES_MAX + 1] {
    let mut masks = [[0; KEY_WORDS]; PREFIX_BYTES_MAX + 1];
    let mut byte = 0;
    // Byte by byte: a longer prefix has the bytes of all shorter ones.
    while byte < PREFIX_BYTES_MAX {
        masks[byte + 1] = masks[byte];
        masks[byte + 1][byte / 8] |= 0xff << (56 - byte % 8 * 8);
        byte += 1;
    }
    masks
}

/// The seven bytes behind the prefix, as the upper bytes of a guide.
#[inline]
pub(crate) fn head_of(words: &[u64; KEY_WORDS], prefix_bytes: u8) -> u64 {
    let (word, bits) = (usize::from(prefix_bytes / 8), u32::from(prefix_bytes % 8) * 8);
    let behind = |word: usize| words.get(word).copied().unwrap_or(0);
    // In two shifts, as one by 64 bits is none.
    (behind(word) << bits | behind(word + 1) >> 1 >> (63 - bits)) & !PLACE
}

/// How many leading bytes both keys share, as far as a prefix goes.
fn common_bytes(one: &[u64; KEY_WORDS], other: &[u64; KEY_WORDS]) -> u8 {
    let differs = one.iter().zip(other).position(|(one, other)| one != other);
    let bytes = differs
        .map_or(INLINE_BYTES, |word| word * 8 + (one[word] ^ other[word]).leading_zeros() as usize / 8);
    bytes.min(PREFIX_BYTES_MAX) as u8
}
