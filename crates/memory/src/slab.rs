//! Slabs of one class, and which of their pieces are free.
//!
//! Everything is under the class's mutex, but for the zeroing of a piece that was used before. Pieces of a slab that
//! were never handed out are zero as the system gave them.

use crate::{Caller, SLAB_BYTES, map, unmap};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// Empty slabs of a class that are kept for later requests. Copies for snapshots come and go with every query, and a
/// slab that is mapped anew costs the zeroing of a huge page.
const EMPTY_KEPT: usize = 4;

/// The slabs of one class.
pub(crate) struct Class(Mutex<Slabs>);

struct Slabs {
    /// By address.
    all: BTreeMap<usize, Slab>,
    /// Addresses of slabs with room, the one to be filled next last.
    with_room: Vec<usize>,
    /// How many of them have no used piece.
    empty: usize,
}

struct Slab {
    start: NonNull<u8>,
    /// Pieces that were handed out and came back.
    free: Vec<u16>,
    /// Pieces handed out at least once: the first ones.
    fresh_from: u16,
    used: u16,
}

// SAFETY: a slab is memory that belongs only to the owners of its pieces.
unsafe impl Send for Slab {}

impl Class {
    pub(crate) const fn new() -> Class {
        Class(Mutex::new(Slabs { all: BTreeMap::new(), with_room: Vec::new(), empty: 0 }))
    }

    /// Slabs that are mapped.
    pub(crate) fn slabs(&self) -> usize {
        self.0.lock().all.len()
    }

    /// A piece with any content; `None` if the system has no memory left.
    pub(crate) fn allocate(&self, piece_bytes: usize) -> Option<NonNull<u8>> {
        self.0.lock().take(piece_bytes, Caller::CannotCope).map(|(pointer, _)| pointer)
    }

    /// A zeroed piece; `None` if the system has no memory left, or the caller can handle a refusal and may not have
    /// another slab.
    pub(crate) fn allocate_zeroed(&self, piece_bytes: usize, caller: Caller) -> Option<NonNull<u8>> {
        let (pointer, was_used) = self.0.lock().take(piece_bytes, caller)?;
        if was_used {
            // SAFETY: the piece is ours until we hand it out.
            unsafe { pointer.as_ptr().write_bytes(0, piece_bytes) };
        }
        Some(pointer)
    }

    /// Takes a piece back.
    ///
    /// # Safety
    /// It is a piece of this class that was handed out, and it is no longer used.
    pub(crate) unsafe fn free(&self, pointer: NonNull<u8>, piece_bytes: usize) {
        self.0.lock().give_back(pointer, piece_bytes);
    }
}

impl Slabs {
    /// A piece, and whether it was used before.
    fn take(&mut self, piece_bytes: usize, caller: Caller) -> Option<(NonNull<u8>, bool)> {
        let address = match self.with_room.last() {
            Some(address) => *address,
            None => self.grow(caller)?,
        };
        let slab = self.all.get_mut(&address).expect("a slab with room is a slab");
        let (piece, was_used) = match slab.free.pop() {
            Some(piece) => (piece, true),
            None => {
                slab.fresh_from += 1;
                (slab.fresh_from - 1, false)
            }
        };
        if slab.used == 0 {
            self.empty -= 1;
        }
        slab.used += 1;
        if slab.is_full(piece_bytes) {
            self.with_room.pop();
        }
        // SAFETY: pieces are numbered below the number that fits into the slab.
        Some((unsafe { slab.start.add(usize::from(piece) * piece_bytes) }, was_used))
    }

    fn grow(&mut self, caller: Caller) -> Option<usize> {
        let start = map(SLAB_BYTES, caller)?;
        let address = start.addr().get();
        self.all.insert(address, Slab { start, free: Vec::new(), fresh_from: 0, used: 0 });
        self.with_room.push(address);
        self.empty += 1;
        Some(address)
    }

    fn give_back(&mut self, pointer: NonNull<u8>, piece_bytes: usize) {
        let address = pointer.addr().get() & !(SLAB_BYTES - 1);
        let slab = self.all.get_mut(&address).expect("a piece lies in a slab of its class");
        if slab.is_full(piece_bytes) {
            self.with_room.push(address);
        }
        slab.free.push(((pointer.addr().get() - address) / piece_bytes) as u16);
        slab.used -= 1;
        if slab.used > 0 {
            return;
        }
        self.empty += 1;
        if self.empty > EMPTY_KEPT {
            self.empty -= 1;
            self.with_room.retain(|with_room| *with_room != address);
            let slab = self.all.remove(&address).expect("found above");
            // SAFETY: no piece of it is in use, and it is forgotten here.
            unsafe { unmap(slab.start, SLAB_BYTES) };
        }
    }
}

impl Slab {
    fn is_full(&self, piece_bytes: usize) -> bool {
        self.free.is_empty() && usize::from(self.fresh_from) == SLAB_BYTES / piece_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_empty_slabs_are_kept_and_pieces_are_used_again() {
        let class = Class::new();
        let piece = 512 << 10;
        let pieces: Vec<_> = (0..25).map(|_| class.allocate_zeroed(piece, Caller::Copes).unwrap()).collect();
        assert_eq!(class.slabs(), 7);
        let mut addresses: Vec<usize> = pieces.iter().map(|piece| piece.addr().get()).collect();
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] >= piece));
        for pointer in &pieces[..24] {
            // SAFETY: handed out above, no longer used.
            unsafe { class.free(*pointer, piece) };
        }
        assert_eq!(class.slabs(), 1 + EMPTY_KEPT, "the other empty slabs are gone");
        // SAFETY: as above.
        unsafe { class.free(pieces[24], piece) };
        assert_eq!(class.slabs(), EMPTY_KEPT);
        let again: Vec<_> = (0..EMPTY_KEPT * 4).map(|_| class.allocate(piece).unwrap()).collect();
        assert_eq!(class.slabs(), EMPTY_KEPT, "no slab is mapped while there are empty ones");
        assert!(again.iter().all(|pointer| addresses.contains(&pointer.addr().get())));
    }
}
