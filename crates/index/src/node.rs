//! Nodes: fixed pieces of memory full of words that may change while they are read.
//!
//! A node is a header and an array of slots. A leaf's slot holds an entry: key words, rest, row (see
//! `entry`). An inner node's slot holds the same as a *separator*, and the address of a child:
//!
//! ```text
//! leaf   | key words (1 to 3) | rest | row |          inner  | key words (3) | rest | row | child |
//! ```
//!
//! Slots are in ascending order. Child *i* holds the entries from separator *i* (inclusive) to separator
//! *i + 1* (exclusive). Separator 0 is never looked at: child 0 begins where the node begins, and the last
//! child ends where the node ends. How many key words a leaf's slots have (its *width*) is fixed when it is
//! allocated; a leaf of narrower keys holds more of them.
//!
//! Everything that changes is an atomic word. Readers load words under the latch's protocol (`latch`) and must
//! validate before they believe them and before they follow an address; whatever they load, the
//! count is at most the capacity, so no load is out of bounds. Methods that change a node demand its lock.

use crate::entry::{KEY_WORDS, Probe, Side, Slot, free_tail, tail_bytes};
use crate::latch::{Latch, Locked, NodeVersion, Restart};
use crossbeam_epoch::Guard;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::cmp::Ordering;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};

/// Size of every node.
pub(crate) const NODE_BYTES: usize = 2048;
const HEADER_BYTES: usize = 16;
const NODE_WORDS: usize = (NODE_BYTES - HEADER_BYTES) / 8;

/// Words of a slot besides the key: rest and row.
const ENTRY_WORDS: usize = 2;

/// One node of the tree. Alive for whoever found its address in a validated node (or in the root pointer) under
/// an epoch guard that is still pinned.
#[repr(C, align(64))]
pub(crate) struct Node {
    latch: Latch,
    count: AtomicU16,
    /// Where the last insertion went, to recognize ascending runs.
    last: AtomicU16,
    // The rest of the header never changes.
    capacity: u16,
    /// Key words per slot.
    width: u8,
    /// Distance to the leaves; 0 for a leaf.
    level: u8,
    words: [AtomicU64; NODE_WORDS],
}

const _: () = assert!(size_of::<Node>() == NODE_BYTES);

/// A child as a word of an inner node's slot.
pub(crate) type Child = u64;

impl Node {
    /// A new leaf for keys of `width` words.
    pub(crate) fn new_leaf(width: usize) -> Box<Node> {
        Node::allocate(0, width, width + ENTRY_WORDS)
    }

    /// A new inner node, `level` above the leaves.
    pub(crate) fn new_inner(level: usize) -> Box<Node> {
        Node::allocate(level, KEY_WORDS, KEY_WORDS + ENTRY_WORDS + 1)
    }

    fn allocate(level: usize, width: usize, slot_words: usize) -> Box<Node> {
        let layout = Layout::new::<Node>();
        // SAFETY: the layout is not empty. All zeros is a valid node: integers and a free latch.
        let mut node = unsafe {
            let address = alloc_zeroed(layout).cast::<Node>();
            if address.is_null() {
                handle_alloc_error(layout);
            }
            Box::from_raw(address)
        };
        node.capacity = (NODE_WORDS / slot_words) as u16;
        node.width = width as u8;
        node.level = level as u8;
        node
    }

    /// Gives the node to the tree; from here on, its address is the node.
    pub(crate) fn into_child(self: Box<Node>) -> Child {
        Box::into_raw(self).expose_provenance() as u64
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
        // SAFETY: by the contract, nobody else knows the node; it was allocated as a box.
        let node = unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<Node>(child as usize)) };
        // SAFETY: the slots below the count own their tails, and nobody else knows them.
        (0..node.count()).for_each(|index| unsafe { free_tail(node.rest(index)) });
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
        self.count.load(Relaxed) == self.capacity
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

    #[inline]
    fn slot_words(&self) -> usize {
        self.width() + ENTRY_WORDS + usize::from(!self.is_leaf())
    }

    #[inline]
    fn word(&self, index: usize) -> u64 {
        self.words[index].load(Relaxed)
    }

    #[inline]
    fn set_word(&self, index: usize, word: u64) {
        self.words[index].store(word, Relaxed);
    }

    fn rest(&self, index: usize) -> u64 {
        self.word(index * self.slot_words() + self.width())
    }

    /// Loads a slot; to be validated.
    #[inline]
    pub(crate) fn slot(&self, index: usize) -> Slot {
        let (first, width) = (index * self.slot_words(), self.width());
        let mut words = [0; KEY_WORDS];
        for (word, to) in words.iter_mut().enumerate().take(width) {
            *to = self.word(first + word);
        }
        Slot { words, rest: self.word(first + width), row: self.word(first + width + 1) }
    }

    /// Loads a child's address; to be validated before it is followed.
    #[inline]
    pub(crate) fn child(&self, index: usize) -> Child {
        debug_assert!(!self.is_leaf());
        self.word((index + 1) * self.slot_words() - 1)
    }

    /// The number of slots before the cut, of those from `from` to `count`, plus `from`; to be validated.
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
        let (mut low, mut high) = (from, count);
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

    /// Orders a slot relative to the probe; to be validated.
    #[inline]
    pub(crate) fn compare(
        &self,
        index: usize,
        probe: &Probe,
        version: NodeVersion,
        guard: &Guard,
    ) -> Result<Ordering, Restart> {
        let (first, width) = (index * self.slot_words(), self.width());
        for (word, &wanted) in probe.words.iter().enumerate().take(width) {
            let found = self.word(first + word);
            if found != wanted {
                return Ok(found.cmp(&wanted));
            }
        }
        let (rest, row) = (self.word(first + width), self.word(first + width + 1));
        probe.compare_rest(rest, row, || {
            self.validate(version)?;
            // SAFETY: the rest word is one of a validated node, and the guard has been pinned meanwhile.
            Ok(unsafe { tail_bytes(rest, guard) })
        })
    }

    fn set_slot(&self, index: usize, slot: &Slot) {
        let (first, width) = (index * self.slot_words(), self.width());
        for (word, &value) in slot.words.iter().enumerate().take(width) {
            self.set_word(first + word, value);
        }
        self.set_word(first + width, slot.rest);
        self.set_word(first + width + 1, slot.row);
    }

    /// Inserts a slot, which becomes the owner of its tail, and, in an inner node, a child. Needs the lock (or
    /// a node that nobody else knows), room, and a key that fits the width.
    pub(crate) fn insert_at(&self, index: usize, slot: &Slot, child: Option<Child>) {
        let (count, stride) = (self.count(), self.slot_words());
        debug_assert!(index <= count && !self.is_full() && child.is_some() != self.is_leaf());
        for word in (index * stride..count * stride).rev() {
            self.set_word(word + stride, self.word(word));
        }
        self.set_slot(index, slot);
        if let Some(child) = child {
            self.set_word((index + 1) * stride - 1, child);
        }
        self.last.store(index as u16, Relaxed);
        self.count.store(count as u16 + 1, Relaxed);
    }

    /// Removes a slot; the caller becomes the owner of its tail. Needs the lock.
    pub(crate) fn remove_at(&self, index: usize) -> Slot {
        let (count, stride) = (self.count(), self.slot_words());
        debug_assert!(index < count);
        let slot = self.slot(index);
        for word in index * stride..(count - 1) * stride {
            self.set_word(word, self.word(word + stride));
        }
        // The next insertion of a run that follows a removal goes nowhere in particular.
        self.last.store(u16::MAX, Relaxed);
        self.count.store(count as u16 - 1, Relaxed);
        slot
    }

    /// Points a slot of an inner node to another child. Needs the lock.
    pub(crate) fn set_child(&self, index: usize, child: Child) {
        self.set_word((index + 1) * self.slot_words() - 1, child);
    }

    /// Moves the slots from `from` on, with their tails, to an empty node of the same kind that nobody else
    /// knows. Needs the lock.
    pub(crate) fn move_upper(&self, from: usize, to: &Node) {
        let (count, stride) = (self.count(), self.slot_words());
        debug_assert!(stride == to.slot_words() && to.count() == 0 && (1..count).contains(&from));
        for word in from * stride..count * stride {
            to.set_word(word - from * stride, self.word(word));
        }
        to.count.store((count - from) as u16, Relaxed);
        to.last.store((count - from - 1) as u16, Relaxed);
        self.count.store(from as u16, Relaxed);
        self.last.store(u16::MAX, Relaxed);
    }

    /// Moves all slots to an empty, wider leaf that nobody else knows. Needs the lock.
    pub(crate) fn move_all(&self, to: &Node) {
        debug_assert!(self.is_leaf() && to.count() == 0 && self.count() < to.capacity());
        for index in 0..self.count() {
            to.insert_at(index, &self.slot(index), None);
        }
        self.count.store(0, Relaxed);
    }
}
