//! How an entry is laid out in words, and how it is compared.
//!
//! A key's first 24 bytes are three big-endian words, padded with zeros, so that comparing words compares
//! bytes. A fourth word, the *rest*, tells keys apart whose words are equal: it is the key's length, or,
//! for a longer key, the address of its *tail*: the bytes from the 25th on, in an immutable allocation that
//! belongs to the one slot that holds the address. The fifth word is the row.
//!
//! Equal words leave three cases: of two keys of at most 24 bytes the shorter is a prefix of the other and
//! sorts first; a key of at most 24 bytes is a prefix of any longer one; two longer keys compare by tails.
//!
//! **A tail is alive** for threads that found its address in a slot of a validated node under an epoch guard
//! that is still pinned: a removed entry's tail is freed only after all guards of that time are gone.

use crossbeam_epoch::Guard;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cmp::Ordering;

/// Key words of a slot, at most.
pub(crate) const KEY_WORDS: usize = 3;
/// Bytes of a key that are compared without following an address.
pub(crate) const INLINE_BYTES: usize = KEY_WORDS * 8;

/// Marks a rest word as a length; addresses of tails are even.
const LENGTH: u64 = 1;
/// Offset of the bytes in a tail's allocation, behind their number.
const TAIL_HEADER: usize = size_of::<usize>();

/// An entry to look for. Borrows the key.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'k> {
    /// The key's words, and one more so that any eight bytes of them lie in two neighbours.
    padded: [u64; KEY_WORDS + 1],
    /// Length of the key; `usize::MAX` for the end.
    length: usize,
    tail: &'k [u8],
    row: u64,
}

/// On which side of a probe a cut between entries lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Side {
    /// The probe's own entry comes after the cut.
    #[default]
    Before,
    /// The probe's own entry comes before the cut.
    After,
}

impl<'k> Probe<'k> {
    #[inline]
    pub(crate) fn new(key: &'k [u8], row: u64) -> Probe<'k> {
        let (length, inline) = (key.len(), key.len().min(INLINE_BYTES));
        Probe { padded: pad(words_of(key)), length, tail: &key[inline..], row }
    }

    /// A probe of this key with another row.
    #[inline]
    pub(crate) fn with_row(self, row: u64) -> Probe<'k> {
        Probe { row, ..self }
    }

    #[inline]
    pub(crate) fn row(&self) -> u64 {
        self.row
    }

    /// After every entry.
    pub(crate) fn end() -> Probe<'static> {
        Probe { padded: pad([u64::MAX; KEY_WORDS]), length: usize::MAX, tail: &[], row: u64::MAX }
    }

    /// The words of the key.
    #[inline]
    pub(crate) fn words(&self) -> &[u64; KEY_WORDS] {
        self.padded.first_chunk().expect("the padding is behind the words")
    }

    /// The head of the key behind a prefix, as `node::head_of`.
    #[inline]
    pub(crate) fn head(&self, prefix_bytes: u8) -> u64 {
        let (word, bits) = (usize::from(prefix_bytes / 8) % KEY_WORDS, u32::from(prefix_bytes % 8) * 8);
        (self.padded[word] << bits | self.padded[word + 1] >> 1 >> (63 - bits)) & !0xff
    }

    /// Key words that a slot needs to hold this key.
    #[inline]
    pub(crate) fn width(&self) -> usize {
        self.length.div_ceil(8).clamp(1, KEY_WORDS)
    }

    /// Bytes that the key occupies out of line.
    pub(crate) fn tail_bytes(&self) -> usize {
        if self.tail.is_empty() { 0 } else { TAIL_HEADER + self.tail.len() }
    }

    /// A slot that owns a copy of the tail, if there is one.
    pub(crate) fn to_slot(self) -> NodeSlot {
        let rest =
            if self.tail.is_empty() { (self.length as u64) << 1 | LENGTH } else { new_tail(self.tail) };
        NodeSlot { words: *self.words(), rest, row: self.row }
    }

    /// Orders a key whose words equal this probe's. `tail` gives the bytes of its tail, if it has one.
    #[inline]
    pub(crate) fn compare_rest<'g, E>(
        &self,
        rest: u64,
        tail: impl FnOnce() -> Result<&'g [u8], E>,
    ) -> Result<Ordering, E> {
        Ok(if rest & LENGTH != 0 {
            ((rest >> 1) as usize).cmp(&self.length)
        } else if self.length <= INLINE_BYTES {
            Ordering::Greater
        } else if self.length == usize::MAX {
            Ordering::Less
        } else {
            tail()?.cmp(self.tail)
        })
    }

    /// Whether a slot with these words and this rest has the probe's key, whatever its row.
    #[inline]
    pub(crate) fn key_equals(&self, slot: &NodeSlot, guard: &Guard) -> bool {
        slot.words == *self.words()
            && if slot.rest & LENGTH != 0 {
                (slot.rest >> 1) as usize == self.length
            } else {
                self.length > INLINE_BYTES && slot.tail(guard) == self.tail
            }
    }
}

/// The words of one entry. A plain copy: does not own the tail, unless said so.
///
/// Invariant: it was loaded from a validated (or locked) node under a guard, and its methods are called with
/// that guard (or the tree is exclusively owned).
#[derive(Clone, Copy)]
pub(crate) struct NodeSlot {
    pub(crate) words: [u64; KEY_WORDS],
    pub(crate) rest: u64,
    pub(crate) row: u64,
}

impl NodeSlot {
    /// The bytes that are in the words.
    #[inline]
    pub(crate) fn inline(&self) -> ([u8; INLINE_BYTES], usize) {
        let length = if self.has_tail() { INLINE_BYTES } else { (self.rest >> 1) as usize };
        (to_bytes(&self.words), length)
    }

    #[inline]
    pub(crate) fn has_tail(&self) -> bool {
        self.rest & LENGTH == 0
    }

    /// The bytes behind the inline ones; empty if there are none.
    pub(crate) fn tail<'g>(&self, guard: &'g Guard) -> &'g [u8] {
        if !self.has_tail() {
            return &[];
        }
        // SAFETY: the slot's invariant: the tail is alive as long as the guard is pinned.
        unsafe { tail_bytes(self.rest, guard) }
    }

    /// The whole key.
    pub(crate) fn key(&self, guard: &Guard) -> Vec<u8> {
        let (bytes, length) = self.inline();
        [&bytes[..length], self.tail(guard)].concat()
    }

    /// This entry as a probe.
    pub(crate) fn probe<'g>(&self, guard: &'g Guard) -> Probe<'g> {
        let tail = self.tail(guard);
        let (_, inline) = self.inline();
        Probe { padded: pad(self.words), length: inline + tail.len(), tail, row: self.row }
    }

    /// Orders this entry relative to the probe.
    pub(crate) fn compare(&self, probe: &Probe, guard: &Guard) -> Ordering {
        let tail = || Ok::<_, std::convert::Infallible>(self.tail(guard));
        let Ok(by_rest) = probe.compare_rest(self.rest, tail);
        self.words.cmp(probe.words()).then(by_rest).then(self.row.cmp(&probe.row))
    }
}

/// The words of a key's first bytes, by a few loads that may overlap and no loop over bytes.
#[inline]
pub(crate) fn words_of(key: &[u8]) -> [u64; KEY_WORDS] {
    let eight_at = |at: usize| u64::from_be_bytes(key[at..at + 8].try_into().expect("eight bytes"));
    // The last bytes of a key whose number is no multiple of eight: its last eight, less those of the word before.
    let last = |bytes: usize| if bytes == 0 { 0 } else { eight_at(key.len() - 8) << (64 - 8 * bytes) };
    match key.len() {
        0..8 => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            [u64::from_be_bytes(bytes), 0, 0]
        }
        length @ 8..16 => [eight_at(0), last(length - 8), 0],
        length @ 16..24 => [eight_at(0), eight_at(8), last(length - 16)],
        _ => [eight_at(0), eight_at(8), eight_at(16)],
    }
}

#[inline]
fn pad([first, second, third]: [u64; KEY_WORDS]) -> [u64; KEY_WORDS + 1] {
    [first, second, third, 0]
}

fn to_bytes(words: &[u64; KEY_WORDS]) -> [u8; INLINE_BYTES] {
    let mut bytes = [0; INLINE_BYTES];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

fn tail_layout(length: usize) -> Layout {
    Layout::from_size_align(TAIL_HEADER + length, align_of::<usize>()).expect("keys are short")
}

/// Allocates a tail and returns its address as a rest word.
pub(crate) fn new_tail(bytes: &[u8]) -> u64 {
    let layout = tail_layout(bytes.len());
    // SAFETY: the layout is not empty; the length and the bytes fit into it, one behind the other, and the
    // address is aligned for the length.
    unsafe {
        let address = alloc(layout);
        if address.is_null() {
            handle_alloc_error(layout);
        }
        address.cast::<usize>().write(bytes.len());
        address.add(TAIL_HEADER).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        address.expose_provenance() as u64
    }
}

/// The bytes of a tail.
///
/// # Safety
/// `rest` is the address of a tail that is alive as long as the guard is pinned.
#[inline]
pub(crate) unsafe fn tail_bytes(rest: u64, _guard: &Guard) -> &[u8] {
    let address = std::ptr::with_exposed_provenance::<u8>(rest as usize);
    // SAFETY: by the contract, the tail is alive; it is immutable and laid out as `new_tail` did.
    unsafe { std::slice::from_raw_parts(address.add(TAIL_HEADER), address.cast::<usize>().read()) }
}

/// Frees the tail of a rest word, if it has one.
///
/// # Safety
/// The slot that owned the tail is gone, and so are all guards under which it could be found.
pub(crate) unsafe fn free_tail(rest: u64) {
    if rest & LENGTH != 0 {
        return;
    }
    let address = std::ptr::with_exposed_provenance_mut::<u8>(rest as usize);
    // SAFETY: by the contract, no other code knows the tail; the layout is the one it was allocated with.
    unsafe {
        dealloc(address, tail_layout(address.cast::<usize>().read()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_order_entries_as_bytes_do() {
        let guard = &crossbeam_epoch::pin();
        let mut keys: Vec<Vec<u8>> =
            vec![vec![], vec![0], vec![0, 0], vec![255; 24], vec![255; 25], vec![255; 60]];
        for length in [7, 8, 9, 23, 24, 25, 26, 40] {
            keys.extend([vec![0; length], vec![b'a'; length]]);
            keys.push([vec![b'a'; length - 1], vec![b'b']].concat());
            keys.push([vec![b'a'; length], vec![0]].concat());
        }
        for (one, row) in keys.iter().flat_map(|key| [(key, 1), (key, 2)]) {
            let slot = Probe::new(one, row).to_slot();
            assert_eq!(&slot.key(guard), one);
            assert_eq!(slot.compare(&Probe::end(), guard), Ordering::Less);
            for other in &keys {
                let probe = Probe::new(other, 1);
                assert_eq!(slot.compare(&probe, guard), (one, row).cmp(&(other, 1)), "{one:?} and {other:?}");
                assert_eq!(probe.key_equals(&slot, guard), one == other);
            }
            // SAFETY: no other thread has seen the slot.
            unsafe { free_tail(slot.rest) };
        }
    }
}
