//! An ordered index in one area of memory: a B+-tree of pairs of a key and the number of a tuple.
//!
//! All that it is lies in the area, so that an image of the memory is an image of the index, and a copy of it a copy. One thread
//! writes. Leaves do not know their neighbours: a scan goes down again for each of them.
//!
//! ```text
//! node 0    root, nodes in use, first free node, entries
//! leaf      count, (key, tuple) ...
//! inner     count, child, (key, tuple, child) ...       a child has the entries from its pair on
//! ```

use crate::area::{Area, MemoryKind, copy};
use crate::store::TupleId;
use ankerdb_base::{Error, Result, SqlState};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Words of a node: 1 KiB.
const NODE: usize = 128;
/// Entries of a leaf.
const LEAF_MAX: usize = (NODE - 1) / 2;
/// Pairs of an inner node.
const INNER_MAX: usize = (NODE - 2) / 3;
/// Set in the first word of inner nodes.
const INNER: u64 = 1 << 32;
/// The most nodes that an insertion makes: one on each floor, and a new root.
const SPLITS_MAX: usize = 16;
/// Words of node 0.
const ROOT: usize = 0;
const NODES: usize = 1;
const FREE: usize = 2;
const ENTRIES: usize = 3;

/// A key and a tuple.
pub(crate) type Entry = (u64, u64);

/// An index that is written.
pub(crate) struct EntryTree {
    view: TreeView,
    nodes_max: usize,
}

/// An index that is read.
#[derive(Clone)]
pub(crate) struct TreeView {
    area: Area,
}

/// The memory of an index, asked for once for many words.
#[derive(Clone, Copy)]
struct Nodes<'a>(&'a [AtomicU64]);

impl<'a> Nodes<'a> {
    fn word(self, node: usize, at: usize) -> &'a AtomicU64 {
        &self.0[node * NODE + at]
    }

    fn get(self, node: usize, at: usize) -> u64 {
        self.word(node, at).load(Relaxed)
    }

    fn set(self, node: usize, at: usize, value: u64) {
        self.word(node, at).store(value, Relaxed);
    }

    fn is_inner(self, node: usize) -> bool {
        self.get(node, 0) & INNER != 0
    }

    fn count(self, node: usize) -> usize {
        (self.get(node, 0) & (INNER - 1)) as usize
    }

    fn set_count(self, node: usize, count: usize) {
        self.set(node, 0, self.get(node, 0) & INNER | count as u64);
    }

    fn entry(self, leaf: usize, at: usize) -> Entry {
        (self.get(leaf, 1 + 2 * at), self.get(leaf, 2 + 2 * at))
    }

    fn set_entry(self, leaf: usize, at: usize, entry: Entry) {
        self.set(leaf, 1 + 2 * at, entry.0);
        self.set(leaf, 2 + 2 * at, entry.1);
    }

    /// The pair before child `at + 1` of an inner node.
    fn pair(self, inner: usize, at: usize) -> Entry {
        (self.get(inner, 2 + 3 * at), self.get(inner, 3 + 3 * at))
    }

    fn child(self, inner: usize, at: usize) -> usize {
        self.get(inner, 1 + 3 * at) as usize
    }

    /// How many of the first `count` are below, or equal if `or_equal`.
    fn rank(count: usize, entry: Entry, or_equal: bool, get: impl Fn(usize) -> Entry) -> usize {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low.midpoint(high);
            let found = get(middle);
            if found < entry || (or_equal && found == entry) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The child of an inner node that has the entry, if any has.
    fn child_of(self, inner: usize, entry: Entry) -> usize {
        Nodes::rank(self.count(inner), entry, true, |at| self.pair(inner, at))
    }

    fn place_in(self, leaf: usize, entry: Entry) -> usize {
        Nodes::rank(self.count(leaf), entry, false, |at| self.entry(leaf, at))
    }

    /// Whether it was new, and what was split off to the right.
    fn insert_below(self, node: usize, entry: Entry) -> (bool, Option<(Entry, usize)>) {
        if !self.is_inner(node) {
            return self.insert_in_leaf(node, entry);
        }
        let at = self.child_of(node, entry);
        let (is_new, split) = self.insert_below(self.child(node, at), entry);
        let Some((pair, right)) = split else { return (is_new, None) };
        if self.count(node) < INNER_MAX {
            self.put_pair(node, at, pair, right);
            return (is_new, None);
        }
        // The middle pair goes up, those behind it to the right.
        let middle = INNER_MAX / 2;
        let (up, new) = (self.pair(node, middle), self.new_node(true));
        self.set(new, 1, self.child(node, middle + 1) as u64);
        for from in middle + 1..INNER_MAX {
            self.put_pair(new, from - middle - 1, self.pair(node, from), self.child(node, from + 1));
        }
        self.set_count(node, middle);
        match at <= middle {
            true => self.put_pair(node, at, pair, right),
            false => self.put_pair(new, at - middle - 1, pair, right),
        }
        (is_new, Some((up, new)))
    }

    fn insert_in_leaf(self, leaf: usize, entry: Entry) -> (bool, Option<(Entry, usize)>) {
        let (count, at) = (self.count(leaf), self.place_in(leaf, entry));
        if at < count && self.entry(leaf, at) == entry {
            return (false, None);
        }
        if count < LEAF_MAX {
            self.put_entry(leaf, at, entry);
            return (true, None);
        }
        // Ascending keys leave full leaves behind.
        let middle = if at == count { count } else { count / 2 };
        let new = self.new_node(false);
        for from in middle..count {
            self.set_entry(new, from - middle, self.entry(leaf, from));
        }
        self.set_count(new, count - middle);
        self.set_count(leaf, middle);
        match at >= middle {
            true => self.put_entry(new, at - middle, entry),
            false => self.put_entry(leaf, at, entry),
        }
        (true, Some((self.entry(new, 0), new)))
    }

    fn put_entry(self, leaf: usize, at: usize, entry: Entry) {
        let count = self.count(leaf);
        for to in (at..count).rev() {
            self.set_entry(leaf, to + 1, self.entry(leaf, to));
        }
        self.set_entry(leaf, at, entry);
        self.set_count(leaf, count + 1);
    }

    fn put_pair(self, inner: usize, at: usize, pair: Entry, right: usize) {
        let count = self.count(inner);
        for to in (at..count).rev() {
            for part in 2..5 {
                self.set(inner, 3 * (to + 1) + part, self.get(inner, 3 * to + part));
            }
        }
        self.set(inner, 3 * at + 2, pair.0);
        self.set(inner, 3 * at + 3, pair.1);
        self.set(inner, 3 * at + 4, right as u64);
        self.set_count(inner, count + 1);
    }

    /// Whether it was there, and whether the node is empty now.
    fn remove_below(self, node: usize, entry: Entry) -> (bool, bool) {
        if !self.is_inner(node) {
            let (count, at) = (self.count(node), self.place_in(node, entry));
            if at == count || self.entry(node, at) != entry {
                return (false, false);
            }
            for from in at + 1..count {
                self.set_entry(node, from - 1, self.entry(node, from));
            }
            self.set_count(node, count - 1);
            return (true, count == 1);
        }
        let at = self.child_of(node, entry);
        let child = self.child(node, at);
        let (was_there, is_empty) = self.remove_below(child, entry);
        let count = self.count(node);
        if !is_empty {
            return (was_there, false);
        }
        self.free_node(child);
        if count == 0 {
            return (was_there, true);
        }
        if at == 0 {
            self.set(node, 1, self.child(node, 1) as u64);
        }
        for from in at.max(1)..count {
            for part in 2..5 {
                self.set(node, 3 * (from - 1) + part, self.get(node, 3 * from + part));
            }
        }
        self.set_count(node, count - 1);
        (was_there, false)
    }

    fn new_node(self, is_inner: bool) -> usize {
        let node = match self.get(0, FREE) {
            0 => self.word(0, NODES).fetch_add(1, Relaxed) as usize,
            free => {
                self.set(0, FREE, self.get(free as usize, 1));
                free as usize
            }
        };
        self.set(node, 0, if is_inner { INNER } else { 0 });
        node
    }

    fn free_node(self, node: usize) {
        self.set(node, 1, self.get(0, FREE));
        self.set(0, FREE, node as u64);
    }
}

impl TreeView {
    fn nodes(&self) -> Nodes<'_> {
        Nodes(self.area.words())
    }

    /// Shows the tuples of keys from one on, in ascending order, until it is told to stop.
    pub(crate) fn scan(&self, from: u64, mut see: impl FnMut(u64, TupleId) -> ControlFlow<()>) {
        let (nodes, mut from) = (self.nodes(), (from, 0));
        loop {
            let (mut node, mut next) = (nodes.get(0, ROOT) as usize, None);
            while nodes.is_inner(node) {
                let at = nodes.child_of(node, from);
                if at < nodes.count(node) {
                    next = Some(nodes.pair(node, at));
                }
                node = nodes.child(node, at);
            }
            for at in nodes.place_in(node, from)..nodes.count(node) {
                let (key, tuple) = nodes.entry(node, at);
                if see(key, tuple as TupleId).is_break() {
                    return;
                }
            }
            match next {
                Some(next) => from = next,
                None => return,
            }
        }
    }

    /// A copy of its own.
    pub(crate) fn copy_to(&self, area: &Area) {
        let words = self.nodes().get(0, NODES) as usize * NODE;
        copy(&self.area.words()[..words], &area.words()[..words]);
    }

    pub(crate) fn over(area: Area) -> TreeView {
        TreeView { area }
    }

    pub(crate) fn used_words(&self) -> usize {
        self.nodes().get(0, NODES) as usize * NODE
    }
}

impl EntryTree {
    /// An empty index with room for so many entries.
    pub(crate) fn new(kind: MemoryKind, capacity: usize) -> Result<EntryTree> {
        // Leaves are half full at least when they are split, but may become emptier.
        let nodes_max = 2 + SPLITS_MAX + capacity.div_ceil(LEAF_MAX / 4);
        let view = TreeView { area: Area::new(kind.pages, false, nodes_max * NODE)? };
        view.nodes().set(0, ROOT, 1);
        view.nodes().set(0, NODES, 2);
        Ok(EntryTree { view, nodes_max })
    }

    /// An area as large as this one's.
    pub(crate) fn area_like(&self, kind: MemoryKind) -> Result<Area> {
        Area::new(kind.pages, false, self.nodes_max * NODE)
    }

    pub(crate) fn view(&self) -> &TreeView {
        &self.view
    }

    pub(crate) fn exclude_from_fork(&self) -> Result<()> {
        self.view.area.exclude_from_fork()
    }

    /// Adds an entry; false if it is there.
    ///
    /// # Errors
    /// 54000 if there is no room.
    pub(crate) fn insert(&mut self, entry: Entry) -> Result<bool> {
        let nodes = self.view.nodes();
        let root = nodes.get(0, ROOT) as usize;
        if !self.has_room() {
            return Err(Error::new(SqlState::ProgramLimitExceeded, "an index is full"));
        }
        let (is_new, split) = nodes.insert_below(root, entry);
        if let Some((pair, right)) = split {
            let top = nodes.new_node(true);
            nodes.set(top, 1, root as u64);
            nodes.put_pair(top, 0, pair, right);
            nodes.set(0, ROOT, top as u64);
        }
        if is_new {
            nodes.word(0, ENTRIES).fetch_add(1, Relaxed);
        }
        Ok(is_new)
    }

    fn has_room(&self) -> bool {
        let nodes = self.view.nodes();
        let mut room = self.nodes_max - nodes.get(0, NODES) as usize;
        let mut free = nodes.get(0, FREE);
        while room < SPLITS_MAX && free != 0 {
            room += 1;
            free = nodes.get(free as usize, 1);
        }
        room >= SPLITS_MAX
    }

    /// Takes an entry away; whether it was there. Empty nodes go.
    pub(crate) fn remove(&mut self, entry: Entry) -> bool {
        let nodes = self.view.nodes();
        let root = nodes.get(0, ROOT) as usize;
        let (was_there, is_empty) = nodes.remove_below(root, entry);
        if is_empty && nodes.is_inner(root) {
            nodes.free_node(root);
            let leaf = nodes.new_node(false);
            nodes.set(0, ROOT, leaf as u64);
        }
        while nodes.is_inner(nodes.get(0, ROOT) as usize) {
            let root = nodes.get(0, ROOT) as usize;
            if nodes.count(root) > 0 {
                break;
            }
            nodes.set(0, ROOT, nodes.child(root, 0) as u64);
            nodes.free_node(root);
        }
        if was_there {
            nodes.word(0, ENTRIES).fetch_sub(1, Relaxed);
        }
        was_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn entries(view: &TreeView, from: u64) -> Vec<(u64, usize)> {
        let mut all = Vec::new();
        view.scan(from, |key, tuple| {
            all.push((key, tuple));
            ControlFlow::Continue(())
        });
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Beside a set of the standard library; few keys, so that removals find something and nodes become empty.
        #[test]
        fn a_tree_is_a_set(seed in 0u64.., keys in 50u64..3000, steps in 100usize..6000) {
            let mut random = Lcg(seed);
            let mut tree = EntryTree::new(MemoryKind::default(), 20_000).expect("memory");
            let mut set = BTreeSet::new();
            // Long runs of insertions and of removals in turns: the tree grows and shrinks.
            for step in 0..steps {
                let entry = (random.next() % keys, random.next() % 3);
                if (step / 700 + usize::from(random.next().is_multiple_of(8))) % 2 == 0 {
                    prop_assert_eq!(tree.insert(entry).expect("room"), set.insert(entry));
                } else {
                    let entry = set.range(entry..).next().copied().unwrap_or(entry);
                    prop_assert_eq!(tree.remove(entry), set.remove(&entry));
                }
            }
            let from = random.next() % keys;
            let expected: Vec<(u64, usize)> =
                set.range((from, 0)..).map(|entry| (entry.0, entry.1 as usize)).collect();
            prop_assert_eq!(entries(tree.view(), from), expected);
            for entry in set {
                prop_assert!(tree.remove(entry));
            }
            prop_assert_eq!(entries(tree.view(), 0), vec![]);
        }
    }

    struct Lcg(u64);

    impl Lcg {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.0 >> 33
        }
    }

    #[test]
    fn ascending_keys_fill_leaves_and_a_queue_gives_its_nodes_back() {
        let mut tree = EntryTree::new(MemoryKind::default(), 20_000).expect("memory");
        for key in 0..10_000 {
            tree.insert((key, key)).expect("room");
        }
        let full = 10_000usize.div_ceil(LEAF_MAX);
        let nodes = tree.view().used_words() / NODE;
        assert!((full..full + full / 8).contains(&nodes), "{nodes} nodes for {full} full leaves");
        for key in 10_000..200_000 {
            tree.insert((key, key)).expect("room");
            assert!(tree.remove((key - 10_000, key - 10_000)));
        }
        assert!(tree.view().used_words() / NODE <= nodes + 4, "{} nodes", tree.view().used_words() / NODE);
    }

    #[test]
    fn a_copy_does_not_change_with_its_source() {
        let mut tree = EntryTree::new(MemoryKind::default(), 1_000).expect("memory");
        (0..500).for_each(|key| assert!(tree.insert((key, 0)).expect("room")));
        let area = tree.area_like(MemoryKind::default()).expect("memory");
        tree.view().copy_to(&area);
        (0..500).for_each(|key| assert!(tree.remove((key, 0))));
        assert_eq!(entries(&TreeView::over(area), 0).len(), 500);
        assert_eq!(entries(tree.view(), 0).len(), 0);
    }
}
