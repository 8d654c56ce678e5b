//! The B+-tree: descent, insertion, removal.
//!
//! # Protocol
//! Threads synchronize by the nodes' version latches (`latch`) and an epoch guard, pinned before the root is
//! loaded and for as long as any node or tail is looked at.
//!
//! - **Descent** is lock coupling without locks: choose a child, validate the parent, read the child's
//!   version, validate the parent again. The second validation says that the child was, at its noted
//!   version, the right one. As long as the child keeps that version, it stays the right one: a node's range of
//!   keys shrinks only when the node itself is split, which changes its version. (It may grow,
//!   when an empty neighbour is taken out.)
//! - **Writers** turn the noted version of a leaf into its lock. A writer that finds something to be in the
//!   way (a full node, a leaf too narrow for its key) changes that first, holding the parent's lock as well,
//!   and then starts again. Inner nodes are split when a descent finds them full, so that a
//!   parent always has room for one more child.
//! - **The root pointer** changes only under the lock of the node that was the root. Therefore a thread that
//!   reads the pointer, the node's version, and the same pointer again has a version at which the node was
//!   the root.
//! - **A leaf that becomes empty** is taken out, with those of its ancestors that have no other
//!   child; its neighbour's range grows over its own. All of them are locked at once, become obsolete, and are
//!   freed after the epoch. Leaves that are merely underfull stay; the tree does not lose height.
//! - **Splits** cut in the middle, except behind an ascending run, wherever in the tree it is: there the left
//!   node stays (almost) full. Orders that arrive district by district leave full leaves behind.
//!
//! No thread waits for a lock while holding one, and only a preempted lock holder holds others up.

use crate::counter::Counter;
use crate::entry::{NodeSlot, Probe, Side, free_tail};
use crate::latch::{NodeVersion, Restart};
use crate::node::{Child, NODE_BYTES, Node};
use crossbeam_epoch::{self as epoch, Guard};
use crossbeam_utils::Backoff;
use std::sync::atomic::{AtomicU64, Ordering};

/// The set of entries of one index.
pub(crate) struct Tree {
    root: AtomicU64,
    entries: Counter,
    /// Bytes of nodes and tails in the tree; not of those that wait for their epoch to end.
    bytes: Counter,
}

/// A step of a descent: an inner node and which of its children was chosen.
#[derive(Clone, Copy)]
pub(crate) struct DescentStep<'g> {
    pub(crate) node: &'g Node,
    pub(crate) version: NodeVersion,
    pub(crate) count: usize,
    pub(crate) index: usize,
}

/// A separator next to the path of a descent, which bounds the leaf on one side: a node, its version, an index.
pub(crate) type Fence<'g> = Option<(&'g Node, NodeVersion, usize)>;

/// Loads and validates a fence, if there is one.
pub(crate) fn load_fence(fence: Fence) -> Result<Option<NodeSlot>, Restart> {
    fence
        .map(|(node, version, index)| {
            let slot = node.slot(index);
            node.validate(version).map(|()| slot)
        })
        .transpose()
}

/// Where an entry belongs: an index of a leaf, and the step to the leaf.
#[derive(Clone, Copy)]
pub(crate) struct LeafPlace<'g> {
    pub(crate) parent: Option<DescentStep<'g>>,
    pub(crate) leaf: &'g Node,
    pub(crate) version: NodeVersion,
    pub(crate) index: usize,
}

/// Tries until it works.
#[inline]
pub(crate) fn retry<T>(mut attempt: impl FnMut() -> Result<T, Restart>) -> T {
    match attempt() {
        Ok(result) => result,
        Err(Restart) => retry_slowly(&mut attempt),
    }
}

#[cold]
fn retry_slowly<T>(attempt: &mut dyn FnMut() -> Result<T, Restart>) -> T {
    let backoff = Backoff::new();
    loop {
        backoff.snooze();
        if let Ok(result) = attempt() {
            return result;
        }
    }
}

impl Tree {
    pub(crate) fn new() -> Tree {
        let tree = Tree {
            root: AtomicU64::new(Node::new_leaf(1).into_child()),
            entries: Counter::new(),
            bytes: Counter::new(),
        };
        tree.bytes.add(NODE_BYTES as isize);
        tree
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.value()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.value()
    }

    /// Goes to the leaf in whose range the cut lies. `step` sees every inner node on the way, before what it
    /// sees is validated.
    #[inline]
    pub(crate) fn descend<'g>(
        &self,
        probe: &Probe,
        side: Side,
        guard: &'g Guard,
        mut step: impl FnMut(DescentStep<'g>) -> Result<(), Restart>,
    ) -> Result<(&'g Node, NodeVersion), Restart> {
        let root = self.root.load(Ordering::Acquire);
        // SAFETY: a root is freed only an epoch after another one took its place.
        let mut node = unsafe { Node::from_child(root, guard) };
        let mut version = node.read()?;
        if self.root.load(Ordering::Acquire) != root {
            return Err(Restart);
        }
        while !node.is_leaf() {
            let count = node.count();
            let index = node.rank(1, count, probe, side, version, guard)? - 1;
            let child = node.child(index);
            step(DescentStep { node, version, count, index })?;
            node.validate(version)?;
            // SAFETY: the address comes from a validated node, under a guard that has been pinned meanwhile.
            let below = unsafe { Node::from_child(child, guard) };
            below.prefetch();
            let version_below = below.read()?;
            node.validate(version)?;
            (node, version) = (below, version_below);
        }
        Ok((node, version))
    }

    pub(crate) fn insert(&self, key: &[u8], row: u64) -> bool {
        self.insert_or_touch(key, row, false)
    }

    /// Inserts the entry. If it is there already, `touch` makes its leaf change its version.
    pub(crate) fn insert_or_touch(&self, key: &[u8], row: u64, touch: bool) -> bool {
        let probe = Probe::new(key, row);
        let guard = &epoch::pin();
        let inserted = retry(|| self.try_insert(&probe, touch, guard));
        if inserted {
            self.entries.add(1);
        }
        inserted
    }

    /// Notes that an entry was inserted.
    #[inline]
    pub(crate) fn count_entry(&self) {
        self.entries.add(1);
    }

    #[inline]
    fn try_insert(&self, probe: &Probe, touch: bool, guard: &Guard) -> Result<bool, Restart> {
        let mut parent = None;
        let (leaf, version) = self.descend(probe, Side::After, guard, |step| {
            if step.node.is_full() {
                return self.make_room(parent, &step, guard);
            }
            parent = Some(step);
            Ok(())
        })?;
        let count = leaf.count();
        let index = leaf.rank(0, count, probe, Side::Before, version, guard)?;
        if index < count && leaf.compare(index, probe, version, guard)?.is_eq() {
            return if touch || leaf.is_dead(u64::MAX) {
                let _locked = leaf.lock(version)?;
                leaf.set_dead(0);
                Ok(false)
            } else {
                leaf.validate(version).map(|()| false)
            };
        }
        self.insert_into(LeafPlace { parent, leaf, version, index }, probe, guard).map(|()| true)
    }

    /// Inserts an entry that is missing into the leaf, if the leaf has not changed; makes room and fails, if there
    /// is none.
    #[inline]
    pub(crate) fn insert_into(&self, place: LeafPlace, probe: &Probe, guard: &Guard) -> Result<(), Restart> {
        let LeafPlace { parent, leaf, version, index } = place;
        if leaf.width() < probe.width() {
            self.widen(parent, leaf, version, probe.width(), guard)?;
            return Err(Restart);
        }
        if leaf.is_full() {
            self.split(parent, leaf, version, leaf_cut(leaf, index), guard)?;
            return Err(Restart);
        }
        let _locked = leaf.lock(version)?;
        leaf.insert_at(index, &probe.to_slot(), None);
        if probe.tail_bytes() > 0 {
            self.bytes.add(probe.tail_bytes() as isize);
        }
        Ok(())
    }

    /// Splits a full inner node that is on the way of an insertion, and begins again.
    #[cold]
    pub(crate) fn make_room(
        &self,
        parent: Option<DescentStep>,
        step: &DescentStep,
        guard: &Guard,
    ) -> Result<(), Restart> {
        self.split(parent, step.node, step.version, inner_cut(step), guard)?;
        Err(Restart)
    }

    /// Moves the slots of a full node from `cut` on to a new right neighbour. The parent has room.
    #[cold]
    fn split(
        &self,
        parent: Option<DescentStep>,
        node: &Node,
        version: NodeVersion,
        cut: usize,
        guard: &Guard,
    ) -> Result<(), Restart> {
        let _parent_locked = parent.map(|parent| parent.node.lock(parent.version)).transpose()?;
        let _locked = node.lock(version)?;
        let right = if node.is_leaf() { Node::new_leaf(node.width()) } else { Node::new_inner(node.level()) };
        node.move_upper(cut, &right);
        let separator = self.separator(node, &right, cut, guard);
        let right = right.into_child();
        self.bytes.add(NODE_BYTES as isize);
        match parent {
            Some(parent) => parent.node.insert_at(parent.index + 1, &separator, Some(right)),
            None => self.grow(node, &separator, right),
        }
        Ok(())
    }

    /// A new root above the old one, which was just split and is locked, and its new neighbour.
    fn grow(&self, old: &Node, separator: &NodeSlot, right: Child) {
        let root = Node::new_inner(old.level() + 1);
        root.insert_at(0, &Probe::new(&[], 0).to_slot(), Some(old.as_child()));
        root.insert_at(1, separator, Some(right));
        self.bytes.add(NODE_BYTES as isize);
        self.root.store(root.into_child(), Ordering::Release);
    }

    /// The separator between two nodes: for leaves, the shortest prefix that tells them apart, which seldom
    /// has a tail; for inner nodes, the (copied) one that was between their children.
    fn separator(&self, left: &Node, right: &Node, cut: usize, guard: &Guard) -> NodeSlot {
        let first = right.slot(0);
        let (key, row) = (first.key(guard), first.row);
        let mut probe = Probe::new(&key, row);
        if left.is_leaf() {
            let last = left.slot(cut - 1).key(guard);
            let common = last.iter().zip(&key).take_while(|(one, other)| one == other).count();
            if common < key.len() {
                probe = Probe::new(&key[..common + 1], 0);
            }
        }
        self.bytes.add(probe.tail_bytes() as isize);
        probe.to_slot()
    }

    /// Replaces a leaf by one for wider keys, or splits it, if it has too many slots for that.
    #[cold]
    fn widen(
        &self,
        parent: Option<DescentStep>,
        leaf: &Node,
        version: NodeVersion,
        width: usize,
        guard: &Guard,
    ) -> Result<(), Restart> {
        let wide = Node::new_leaf(width);
        let count = leaf.count();
        if count >= wide.capacity() {
            return self.split(parent, leaf, version, count / 2, guard);
        }
        let _parent_locked = parent.map(|parent| parent.node.lock(parent.version)).transpose()?;
        let mut locked = leaf.lock(version)?;
        leaf.move_all(&wide);
        let wide = wide.into_child();
        match parent {
            Some(parent) => parent.node.set_child(parent.index, wide),
            None => self.root.store(wide, Ordering::Release),
        }
        locked.retire();
        self.bytes.add(NODE_BYTES as isize);
        self.free_later(leaf, guard);
        Ok(())
    }

    pub(crate) fn remove(&self, key: &[u8], row: u64) -> bool {
        let probe = Probe::new(key, row);
        let guard = &epoch::pin();
        let Some(emptied) = retry(|| self.try_remove(&probe, guard)) else {
            return false;
        };
        self.entries.add(-1);
        if emptied {
            retry(|| self.try_unlink(&probe, guard));
        }
        true
    }

    /// Removes the entry, if it is there, and says whether that left an empty leaf.
    fn try_remove(&self, probe: &Probe, guard: &Guard) -> Result<Option<bool>, Restart> {
        let (leaf, version) = self.descend(probe, Side::After, guard, |_| Ok(()))?;
        let count = leaf.count();
        let index = leaf.rank(0, count, probe, Side::Before, version, guard)?;
        if index == count || leaf.compare(index, probe, version, guard)?.is_ne() {
            leaf.validate(version)?;
            return Ok(None);
        }
        let locked = leaf.lock(version)?;
        let slot = leaf.remove_at(index);
        drop(locked);
        self.free_tail_later(&slot, guard);
        Ok(Some(count == 1))
    }

    /// Takes the leaf in whose range the probe lies out of the tree, if it is empty, and with it
    /// the ancestors that have no other child. The last leaf of a tree stays.
    #[cold]
    fn try_unlink(&self, probe: &Probe, guard: &Guard) -> Result<(), Restart> {
        let mut path = Vec::new();
        let (leaf, version) = self.descend(probe, Side::After, guard, |step| {
            path.push(step);
            Ok(())
        })?;
        if leaf.count() > 0 {
            return leaf.validate(version);
        }
        let Some(top) = path.iter().rposition(|step| step.count > 1) else {
            return leaf.validate(version);
        };
        let (stays, goes) = (path[top], &path[top + 1..]);
        let _stays_locked = stays.node.lock(stays.version)?;
        let nodes = goes.iter().map(|step| (step.node, step.version)).chain([(leaf, version)]);
        let mut locks = Vec::with_capacity(goes.len() + 1);
        for (node, version) in nodes.clone() {
            locks.push(node.lock(version)?);
        }
        let separator = stays.node.remove_at(stays.index);
        self.free_tail_later(&separator, guard);
        locks.iter_mut().for_each(|lock| lock.retire());
        nodes.for_each(|(node, _)| self.free_later(node, guard));
        Ok(())
    }

    /// Frees an obsolete node, whose lock is held, and its tails when no thread looks at them any more.
    fn free_later(&self, node: &Node, guard: &Guard) {
        self.bytes.add(-(NODE_BYTES as isize));
        let node = node.as_child();
        // SAFETY: the node is not in the tree any more, so that guards pinned from now on cannot find it.
        // The closure owns all that it needs: it may run on another thread and after the tree is gone.
        unsafe { guard.defer_unchecked(move || Node::free(node)) };
    }

    /// Frees the tail of a removed slot when no thread looks at it any more.
    fn free_tail_later(&self, slot: &NodeSlot, guard: &Guard) {
        if !slot.has_tail() {
            return;
        }
        self.bytes.add(-(slot.probe(guard).tail_bytes() as isize));
        let rest = slot.rest;
        // SAFETY: the slot that owned the tail is gone, so that guards pinned from now on cannot find it.
        unsafe { guard.defer_unchecked(move || free_tail(rest)) };
    }
}

/// Where to cut a full leaf into which `index` is the place of the next insertion.
fn leaf_cut(leaf: &Node, index: usize) -> usize {
    let count = leaf.capacity();
    if index == leaf.last().wrapping_add(1) {
        // An ascending run: it goes on at the end of a full left leaf, or in a new one.
        index.min(count - 1)
    } else if index == 0 && leaf.last() == 0 {
        // A descending run.
        1
    } else {
        count / 2
    }
}

/// Where to cut a full inner node on the way to one of its children.
fn inner_cut(step: &DescentStep) -> usize {
    let count = step.node.capacity();
    if step.index + 1 == count { count - 1 } else { count / 2 }
}

impl Drop for Tree {
    fn drop(&mut self) {
        fn free(child: Child, guard: &Guard) {
            // SAFETY: the tree is exclusively owned, and each node is in it once.
            unsafe {
                let node = Node::from_child(child, guard);
                if !node.is_leaf() {
                    (0..node.count()).for_each(|index| free(node.child(index), guard));
                }
                Node::free(child);
            }
        }
        // Keeps to the signature only: nothing here needs protection.
        free(*self.root.get_mut(), &epoch::pin());
    }
}
