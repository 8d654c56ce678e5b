//! A concurrent hash index: a multimap from byte-string keys to row numbers, for lookups of whole keys.
//!
//! Where no order is needed, a lookup should cost one cache miss. A *bucket* is one cache line (see `line`): a
//! version latch, and two entries with keys of up to 16 bytes. More entries go to overflow lines; at the sizes kept
//! here about one entry in ten does.
//!
//! # Protocol
//! - **Latches** work as those of the tree's nodes (`latch`): readers note a bucket's version, load, and validate;
//!   writers turn a version into the lock. No thread waits for a lock while holding one.
//! - **A bucket's depth** says how many low bits of a hash it goes by: bucket *b* of depth *d* has exactly the keys whose
//!   hash ends in the *d* bits of *b*. The buckets that are born divide all hashes among them, at any time.
//! - **Growth**: when there are too many entries, the level (`directory`) rises: there are twice as many bucket numbers,
//!   and the new buckets are not born. A bucket gives birth when it is *split*: it and the new one are locked, the depth
//!   of both is one more than it was, and the entries whose next bit is set move. An insertion into a bucket that is not
//!   as deep as the level splits it first, and some insertions split a few others, so that all are born long before the
//!   level rises again. Other threads are not held up.
//! - **Finding a bucket**: by as many bits as the level has. From a bucket that is not born, the search goes on to the
//!   bucket by one bit less; from one that is deeper than the level that was read, it may go on to another. A validated
//!   bucket whose depth says that it has the hash is the right one for as long as its version stays.
//! - **Overflow lines** given up, and tails of removed entries, are freed after the epoch.
//!
//! # Keys with many rows
//! A key with more than 32 rows has one entry in its bucket, which names a *posting list* in a tree (`posting`). The list
//! belongs to the bucket: a thread that begins, changes or ends it has locked the bucket, so that each of these changes
//! the bucket's version. Under that lock it descends in the tree, and may wait for others that work there; no thread that
//! holds a node of the tree waits for a bucket, so that waiting ends. Of a key's rows all are in the bucket, or all are in
//! the list:
//!
//! ```text
//! entries a1 ... a32   insert(a, 33)   lock, rows into list 7, one entry "a: list 7", unlock
//!                      ───────────────────────────────────────────────────────────────────────► list 7
//! no entry of a        remove of the last row   lock, row out of list 7, the entry out of the bucket, unlock
//!                      ◄────────────────────────────────────────────────────────────────────── list 7
//! ```
//!
//! A reader that has validated a bucket with the list's entry visits the list afterwards, with nothing locked. Rows that
//! stay are not missed: while one of them is there, the list does not end, and rows never go back from it into a bucket.
//! A list that has ended is empty for ever, as its number is not used again: a late visitor sees the state of the moment
//! at which it ended. So a lookup of each single entry is linearizable, as before; but the rows of a key with a list are
//! not those of one moment.
//!
//! # Unique insertions
//! All entries of a key are in one bucket. Their rows are copied and validated, the caller's closure is called for them with
//! nothing locked, and the version that they were read under becomes the lock: success means that the answers were about all
//! entries of the key. That holds for the rows in a list as well, as they cannot change without the version. (An entry that is
//! there already is not inserted, but the version changes all the same; `unique` says why.)
//!
//! # Visiting everything
//! Hashes, read backwards, are numbers of which a bucket of depth *d* has a contiguous range of 2 to the power of
//! *64 - d*. Going from range to range, whatever is split meanwhile, visits every entry that stays exactly once.
//!
//! Not here: shrinking.

mod directory;
mod key;
mod line;
mod posting;
mod rows;

use crate::counter::Counter;
use crate::latch::{NodeVersion, Restart};
use crate::tree::retry;
use crate::{Result, UniqueInsert, check_length};
use crossbeam_epoch::{self as epoch, Guard};
use crossbeam_utils::CachePadded;
use directory::{Directory, FIRST_LEVEL};
use key::{HashEntry, HashKey, Seeds, is_listed};
use line::{ENTRIES, LINE_BYTES, Line, Link};
use posting::{PostingLists, ROWS_IN_BUCKET};
use rows::RowList;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

type Attempt<T> = std::result::Result<T, Restart>;

/// Buckets that one insertion splits at most, on behalf of others.
const HELPED: u64 = 16;

/// A concurrent multimap from byte-string keys to row numbers without order; see the module's header.
///
/// Any number of threads may call any methods at the same time. Every insert, remove and lookup of one
/// entry is linearizable.
pub struct HashIndex {
    directory: Directory,
    seeds: Seeds,
    /// Entries in buckets: what the index grows by.
    entries: Counter,
    lists: PostingLists,
    /// Bytes of overflow lines and tails.
    bytes: Counter,
    /// The next bucket to be split by an insertion that does not need it.
    unborn: CachePadded<AtomicU64>,
}

/// A bucket that was found to have a hash, and what was loaded of it.
#[derive(Clone, Copy)]
struct Bucket<'i> {
    number: u64,
    head: &'i Line,
    version: NodeVersion,
    link: Link,
}

/// The entries of a bucket, copied.
#[derive(Default)]
struct BucketCopy {
    entries: Vec<(Vec<u8>, u64)>,
    /// Keys with posting lists, and the numbers of those.
    lists: Vec<(Vec<u8>, u64)>,
}

/// What a removal has taken out.
enum Removed {
    Nothing,
    /// A row of a list.
    FromList,
    /// This entry of a bucket: that of the row, or that of a list, which is empty now.
    Entry(HashEntry),
}

impl Bucket<'_> {
    fn validate(&self) -> Attempt<()> {
        self.head.latch.validate(self.version)
    }
}

#[inline]
fn low_bits(hash: u64, bits: u32) -> u64 {
    hash & ((1 << bits) - 1)
}

impl HashIndex {
    /// An empty index.
    pub fn new() -> HashIndex {
        HashIndex {
            directory: Directory::new(),
            seeds: Seeds::random(),
            entries: Counter::new(),
            lists: PostingLists::new(),
            bytes: Counter::new(),
            unborn: CachePadded::new(AtomicU64::new(1 << FIRST_LEVEL)),
        }
    }

    /// Inserts the entry; false if it was there already. Costs about two cache misses, and for a key with more than 32 rows
    /// a descent in a tree besides: the logarithm of the rows that such keys have.
    ///
    /// # Errors
    /// 54000 if the key is longer than [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX).
    pub fn insert(&self, key: &[u8], row: u64) -> Result<bool> {
        check_length(key)?;
        Ok(self.insert_unless(key, row, |_| None::<()>) == UniqueInsert::Inserted)
    }

    /// Inserts the entry unless another entry with the same key is a conflict.
    ///
    /// `conflicts` is called for each other row that has the key, in ascending order, until it returns `Some`; a row is
    /// no conflict to itself. It may be called for the same rows again, when others change the bucket meanwhile; what
    /// counts are the last answers. No other thread enters the key between those and the insertion, so of several that
    /// would find each other to be conflicts exactly one inserts. It runs under an epoch guard, with nothing locked.
    ///
    /// # Errors
    /// 54000 if the key is longer than [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX).
    #[inline]
    pub fn insert_unique<C>(
        &self,
        key: &[u8],
        row: u64,
        mut conflicts: impl FnMut(u64) -> Option<C>,
    ) -> Result<UniqueInsert<C>> {
        check_length(key)?;
        let mut others = |other: u64| if other == row { None } else { conflicts(other) };
        Ok(self.insert_unless(key, row, |rows| match rows.list() {
            None => rows.as_slice().iter().copied().find_map(&mut others),
            Some(list) => self.find_in_list(list, &mut others),
        }))
    }

    /// Inserts the entry unless `conflict` finds one among the key's rows.
    #[inline]
    fn insert_unless<C>(
        &self,
        key: &[u8],
        row: u64,
        mut conflict: impl FnMut(&RowList) -> Option<C>,
    ) -> UniqueInsert<C> {
        let key = HashKey::new(key, &self.seeds);
        let mut rows = RowList::new();
        let guard = &epoch::pin();
        retry(|| {
            let bucket = self.prepare(&key, &mut rows, guard)?;
            if let Some(conflict) = conflict(&rows) {
                return Ok(UniqueInsert::Conflict(conflict));
            }
            let is_new = self.enter(bucket, &key, row, &rows, guard)?;
            Ok(if is_new { UniqueInsert::Inserted } else { UniqueInsert::Present })
        })
    }

    #[cold]
    fn find_in_list<C>(&self, list: u64, find: &mut impl FnMut(u64) -> Option<C>) -> Option<C> {
        let mut found = None;
        self.lists.visit(list, |row| {
            found = find(row);
            if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        found
    }

    /// Removes the entry; false if it was not there. Costs what an insertion does.
    pub fn remove(&self, key: &[u8], row: u64) -> bool {
        let key = HashKey::new(key, &self.seeds);
        let guard = &epoch::pin();
        match retry(|| self.try_remove(&key, row, guard)) {
            Removed::Nothing => return false,
            Removed::FromList => {}
            Removed::Entry(entry) => {
                self.entries.add(-1);
                self.free_tail_later(&entry, &key, guard);
            }
        }
        true
    }

    /// Frees the tail of an entry of this key that has left its bucket, when no thread looks at it any more.
    fn free_tail_later(&self, removed: &HashEntry, key: &HashKey, guard: &Guard) {
        if !removed.is_long() {
            return;
        }
        self.bytes.add(-(key.tail_bytes() as isize));
        let removed = *removed;
        // SAFETY: the entry is gone, so that guards pinned from now on cannot find its tail.
        unsafe { guard.defer_unchecked(move || removed.free_tail()) };
    }

    /// Visits all rows with exactly this key, in ascending order, until `visit` breaks. If they are at most 32, they are
    /// the rows that had the key at one moment; of more, those that have it all the while are visited exactly once, and
    /// those that get or lose it meanwhile may or may not be. Nothing is locked or kept from reclamation while `visit`
    /// runs. Costs one cache miss where the bucket has no overflow and the key at most 16 bytes.
    #[inline]
    pub fn get(&self, key: &[u8], mut visit: impl FnMut(u64) -> ControlFlow<()>) {
        let mut rows = RowList::new();
        self.lookup(key, &mut rows);
        match rows.list() {
            None => {
                let _ = rows.as_slice().iter().try_for_each(|&row| visit(row));
            }
            Some(list) => self.lists.visit(list, visit),
        }
    }

    /// Visits all entries, those of one key one after the other, but keys in no order, until `visit` breaks. Entries
    /// that exist all the while are visited exactly once. As free in what `visit` may do as
    /// [`OrderedIndex::scan`](crate::OrderedIndex::scan).
    pub fn visit_all(&self, mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>) {
        let (mut copy, mut position) = (BucketCopy::default(), 0u64);
        loop {
            let depth = {
                let guard = &epoch::pin();
                retry(|| self.copy_bucket(position.reverse_bits(), &mut copy, guard))
            };
            copy.entries.sort_unstable();
            let mut outcome = copy.entries.drain(..).try_for_each(|(key, row)| visit(&key, row));
            for (key, list) in copy.lists.drain(..) {
                if outcome.is_continue() {
                    self.lists.visit(list, |row| {
                        outcome = visit(&key, row);
                        outcome
                    });
                }
            }
            if outcome.is_break() {
                return;
            }
            let Some(next) = position.checked_add(1 << (64 - depth)) else { return };
            position = next;
        }
    }

    /// Asks for the memory that a lookup of this key begins with. Costs a few nanoseconds; several keys' buckets
    /// arrive at the same time.
    #[inline]
    pub fn prefetch(&self, key: &[u8]) {
        let hash = HashKey::new(key, &self.seeds).hash;
        self.directory.prefetch(low_bits(hash, self.directory.level()));
    }

    /// The number of entries; approximate while others insert and remove.
    pub fn len(&self) -> usize {
        // In its bucket, a list counts as one entry.
        self.entries.value().saturating_sub(self.lists.list_count()) + self.lists.row_count()
    }

    /// Whether there are no entries; approximate while others insert and remove.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of heap memory that the index occupies, approximately. An entry takes 24 bytes in lines that are usually
    /// two thirds full, and its key, if that has more than 16 bytes. Of a key with more than 32 rows each takes 32 bytes
    /// (64 in half-full leaves), whatever the length of the key, and the key lies there once.
    pub fn memory_bytes(&self) -> usize {
        let lines = self.directory.memory_bytes() + self.bytes.value();
        size_of::<HashIndex>() + lines + self.lists.memory_bytes()
    }

    /// The bucket that has a hash, and the level that was seen first.
    #[inline]
    fn find(&self, hash: u64) -> Attempt<(Bucket<'_>, u32)> {
        let level = self.directory.level();
        Ok((self.find_from(hash, level)?, level))
    }

    /// The bucket that has a hash, starting with any level that has been seen, however old.
    #[inline]
    fn find_from(&self, hash: u64, mut level: u32) -> Attempt<Bucket<'_>> {
        loop {
            let number = low_bits(hash, level);
            let head = self.directory.head(number);
            let version = head.latch.read()?;
            let link = head.link();
            let depth = link.depth();
            if depth == level || (depth > 0 && low_bits(hash, depth) == number) {
                return Ok(Bucket { number, head, version, link });
            }
            // The directory is as deep as any bucket: what is loaded may be followed once it is validated.
            head.latch.validate(version)?;
            level = if depth == 0 { level - 1 } else { depth };
        }
    }

    /// Calls `found` with each line of a bucket that has the key, where, and whether it is a list; to be validated.
    #[inline]
    fn search<'i>(
        &'i self,
        bucket: &Bucket<'i>,
        key: &HashKey,
        guard: &'i Guard,
        mut found: impl FnMut(&'i Line, usize, bool),
    ) -> Attempt<()> {
        let (mut line, mut link) = (bucket.head, bucket.link);
        loop {
            for place in 0..ENTRIES {
                if line.key_equals(place, link, key, (bucket.head, bucket.version), guard)? {
                    found(line, place, is_listed(link.kind(place)));
                }
            }
            if !link.has_next() {
                return Ok(());
            }
            bucket.validate()?;
            // SAFETY: the link is one of a validated bucket, and the guard has been pinned meanwhile.
            let Some(next) = (unsafe { Line::next(link, guard) }) else { return Ok(()) };
            (line, link) = (next, next.link());
        }
    }

    fn lookup(&self, key: &[u8], rows: &mut RowList) {
        let key = HashKey::new(key, &self.seeds);
        let guard = &epoch::pin();
        retry(|| {
            let (bucket, _) = self.find(key.hash)?;
            self.copy_rows(&bucket, &key, rows, guard)
        });
    }

    /// Copies the rows of a key and validates them.
    #[inline]
    fn copy_rows(&self, bucket: &Bucket, key: &HashKey, rows: &mut RowList, guard: &Guard) -> Attempt<()> {
        rows.clear();
        self.search(bucket, key, guard, |line, place, is_list| match is_list {
            false => rows.push(line.row(place)),
            true => rows.set_list(line.row(place)),
        })?;
        bucket.validate()?;
        rows.sort();
        Ok(())
    }

    /// The bucket into which a key would be inserted, as deep as the level, and the key's rows.
    fn prepare<'i>(&'i self, key: &HashKey, rows: &mut RowList, guard: &Guard) -> Attempt<Bucket<'i>> {
        let mut bucket = self.find(key.hash)?;
        while bucket.0.link.depth() < bucket.1 {
            self.split(&bucket.0, guard)?;
            bucket = self.find(key.hash)?;
        }
        self.copy_rows(&bucket.0, key, rows, guard)?;
        Ok(bucket.0)
    }

    /// Inserts an entry, if nothing has changed since the key's rows were copied; false if it is one of them.
    fn enter(&self, bucket: Bucket, key: &HashKey, row: u64, rows: &RowList, guard: &Guard) -> Attempt<bool> {
        let locked = bucket.head.latch.lock(bucket.version)?;
        if let Some(list) = rows.list() {
            return Ok(self.lists.insert(list, row));
        }
        if rows.as_slice().contains(&row) {
            return Ok(false);
        }
        if rows.as_slice().len() >= ROWS_IN_BUCKET {
            let list = self.begin_list(bucket.head, key, rows.as_slice(), guard);
            return Ok(self.lists.insert(list, row));
        }
        let allocated = bucket.head.add(&key.to_entry(row), guard);
        drop(locked);
        self.entries.add(1);
        if allocated || key.is_long() {
            self.bytes.add((key.tail_bytes() + if allocated { LINE_BYTES } else { 0 }) as isize);
        }
        // Bits that say nothing about the bucket.
        match key.hash >> 61 {
            0 if bucket.link.has_next() || allocated => self.grow_past_load_factor(),
            1 => self.help(guard),
            _ => {}
        }
        Ok(true)
    }

    /// Moves the rows of a key from its bucket, which is locked, to a list.
    #[cold]
    fn begin_list(&self, head: &Line, key: &HashKey, rows: &[u64], guard: &Guard) -> u64 {
        let list = self.lists.begin(rows);
        let (mut first, mut lines) = (None, 0);
        while let Some((line, place)) = head.find_any(key, guard) {
            let (entry, gave_up) = head.remove(line, place, guard);
            lines -= isize::from(gave_up);
            match first {
                // The entry keeps its tail.
                None => first = Some(entry),
                Some(_) => self.free_tail_later(&entry, key, guard),
            }
        }
        let first = first.expect("the rows of the key were in the bucket");
        lines += isize::from(head.add(&first.with_list(list), guard));
        self.entries.add(1 - rows.len() as isize);
        self.bytes.add(lines * LINE_BYTES as isize);
        list
    }

    fn try_remove(&self, key: &HashKey, row: u64, guard: &Guard) -> Attempt<Removed> {
        let (bucket, _) = self.find(key.hash)?;
        let mut found = None;
        self.search(&bucket, key, guard, |line, place, is_list| {
            if is_list || line.row(place) == row {
                found = Some((line, place, is_list.then(|| line.row(place))));
            }
        })?;
        let Some((line, place, list)) = found else { return bucket.validate().map(|()| Removed::Nothing) };
        let _locked = bucket.head.latch.lock(bucket.version)?;
        if let Some(list) = list {
            match self.lists.remove(list, row) {
                None => return Ok(Removed::Nothing),
                Some(false) => return Ok(Removed::FromList),
                Some(true) => {}
            }
        }
        let (entry, gave_up) = bucket.head.remove(line, place, guard);
        if gave_up {
            self.bytes.add(-(LINE_BYTES as isize));
        }
        Ok(Removed::Entry(entry))
    }

    /// Copies all entries of the bucket that has a hash. Returns its depth.
    fn copy_bucket(&self, hash: u64, copy: &mut BucketCopy, guard: &Guard) -> Attempt<u32> {
        copy.entries.clear();
        copy.lists.clear();
        let (bucket, _) = self.find(hash)?;
        let (mut line, mut link) = (bucket.head, bucket.link);
        loop {
            let copied: Vec<HashEntry> = (0..ENTRIES)
                .filter(|&place| link.kind(place) != 0)
                .map(|place| line.entry(place, link.kind(place)))
                .collect();
            bucket.validate()?;
            for entry in copied {
                // SAFETY: the entries are those of a validated bucket, and the guard has been pinned meanwhile.
                let key = unsafe { entry.key(guard) };
                let to = if entry.is_listed() { &mut copy.lists } else { &mut copy.entries };
                to.push((key, entry.row));
            }
            // SAFETY: so is the link.
            let Some(next) = (unsafe { Line::next(link, guard) }) else { break };
            (line, link) = (next, next.link());
        }
        bucket.validate().map(|()| bucket.link.depth())
    }

    /// Makes a bucket one bit deeper: a bucket is born, and gets the entries whose next bit is set.
    #[cold]
    fn split(&self, bucket: &Bucket, guard: &Guard) -> Attempt<()> {
        let depth = bucket.link.depth();
        let parent = bucket.head;
        let _parent_locked = parent.latch.lock(bucket.version)?;
        let child = self.directory.head(bucket.number | 1 << depth);
        // Only the holder of the parent's lock locks a bucket that is not born.
        let _child_locked = child.latch.lock(child.latch.read()?)?;
        debug_assert!(child.link().depth() == 0);
        let mut lines = 0;
        let mut entries = Vec::new();
        loop {
            let (entry, gave_up) = parent.take_overflow(guard);
            lines -= isize::from(gave_up);
            let Some(entry) = entry else { break };
            entries.push(entry);
        }
        child.set_depth(depth + 1);
        parent.set_depth(depth + 1);
        let moves = |entry: &HashEntry| entry.hash(&self.seeds) >> depth & 1 == 1;
        for place in 0..ENTRIES {
            let kind = parent.link().kind(place);
            if kind != 0 && moves(&parent.entry(place, kind)) {
                let (entry, _) = parent.remove(parent, place, guard);
                lines += isize::from(child.add(&entry, guard));
            }
        }
        for entry in entries {
            let bucket = if moves(&entry) { child } else { parent };
            lines += isize::from(bucket.add(&entry, guard));
        }
        if lines != 0 {
            self.bytes.add(lines * LINE_BYTES as isize);
        }
        Ok(())
    }

    /// Raises the level if there are more than five entries for four buckets: then one in ten is in an overflow line.
    #[cold]
    fn grow_past_load_factor(&self) {
        let level = self.directory.level();
        if self.entries.value() > 5 << (level - 2) {
            self.directory.grow(level);
        }
    }

    /// Splits a few buckets that are not as deep as the level, if there are any left.
    #[inline]
    fn help(&self, guard: &Guard) {
        if self.unborn.load(Ordering::Relaxed) < 1 << self.directory.level() {
            self.give_birth(guard);
        }
    }

    #[cold]
    fn give_birth(&self, guard: &Guard) {
        // Levels are powers of two from `HELPED` on, so no thread gets a number beyond one.
        let claimed = self.unborn.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |first| {
            (first < 1 << self.directory.level()).then_some(first + HELPED)
        });
        let Ok(first) = claimed else { return };
        for number in first..first + HELPED {
            retry(|| {
                let mut bucket = self.find(number)?.0;
                while bucket.number != number {
                    self.split(&bucket, guard)?;
                    bucket = self.find(number)?.0;
                }
                Ok(())
            });
        }
    }
}

impl Default for HashIndex {
    fn default() -> HashIndex {
        HashIndex::new()
    }
}

impl Drop for HashIndex {
    fn drop(&mut self) {
        for number in 0..1 << self.directory.level() {
            // SAFETY: the index is exclusively owned, and buckets share no lines.
            unsafe { self.directory.head(number).free_bucket() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_saw_an_old_level_finds_the_right_bucket() {
        let index = HashIndex::new();
        for number in 0u32..1_000 {
            index.insert(&number.to_be_bytes(), 0).unwrap();
            let level = index.directory.level();
            for hash in (0..=u64::from(number)).map(|one| one.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
                let newest = index.find(hash).unwrap().0;
                assert_eq!(low_bits(hash, newest.link.depth()), newest.number);
                for old in FIRST_LEVEL..level {
                    assert_eq!(index.find_from(hash, old).unwrap().number, newest.number);
                }
            }
        }
        assert!(index.directory.level() > FIRST_LEVEL + 3);
    }

    #[test]
    fn growth_leaves_no_bucket_unborn_for_long() {
        let index = HashIndex::new();
        for number in 0u32..100_000 {
            let before = index.directory.level();
            index.insert(&number.to_be_bytes(), 0).unwrap();
            // The first levels last for a few insertions only.
            if index.directory.level() > before && before >= 9 {
                let born = (0..1 << before).filter(|&number| index.directory.head(number).link().depth() > 0);
                assert_eq!(born.count(), 1 << before, "all are born when the level rises");
            }
        }
    }
}
