//! Keys of many rows in the order of their index, to be entered one behind the other.
//!
//! Entries that come in key order find the path to their leaf in the processor's caches, and leave full leaves behind them.
//! A run is sorted by its keys' first eight bytes, which lie beside the rows; only where these are equal are the keys
//! themselves looked at. Keys that were added in order are not sorted at all.

use ankerdb_base::{Error, Result, RowId};

/// One key of a run.
#[derive(Clone, Copy)]
struct Place {
    /// The key's first bytes, as a number that orders like them.
    head: u64,
    start: u32,
    length: u32,
    row: RowId,
    has_null: bool,
}

/// Keys with their rows. Keeps its memory from one filling to the next.
#[derive(Default)]
pub struct KeyRun {
    bytes: Vec<u8>,
    places: Vec<Place>,
    is_sorted: bool,
}

/// Rows that one run takes at most: some dozen megabytes of keys.
const ROWS_MAX: usize = 1 << 20;
/// Bytes of keys that one run takes at most.
const BYTES_MAX: usize = 64 << 20;

impl KeyRun {
    /// No keys yet.
    pub fn new() -> KeyRun {
        KeyRun::default()
    }

    /// Whether it has as many keys as it should.
    pub fn is_full(&self) -> bool {
        self.places.len() >= ROWS_MAX || self.bytes.len() >= BYTES_MAX
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Forgets all keys.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// Adds the key of a row, as `push` appends it; `push` returns whether a part is NULL, or `None` if there is no key.
    ///
    /// # Errors
    /// Those of `push`, and 53200 if there is no memory.
    pub fn add(&mut self, row: RowId, push: impl FnOnce(&mut Vec<u8>) -> Result<Option<bool>>) -> Result<()> {
        let reserved = self.places.try_reserve(1).and_then(|()| self.bytes.try_reserve(128));
        reserved
            .map_err(|_| Error::out_of_memory(self.bytes.len() + self.places.len() * size_of::<Place>()))?;
        let start = self.bytes.len();
        let Some(has_null) = push(&mut self.bytes)? else {
            self.bytes.truncate(start);
            return Ok(());
        };
        let key = &self.bytes[start..];
        let (head, length) = (head_of(key), key.len() as u32);
        let place = Place { head, start: start as u32, length, row, has_null };
        let last = self.places.last();
        let goes_on = last.is_none_or(|last| {
            last.head < head
                || (last.head == head && self.key(last) <= &self.bytes[start..] && last.row <= row)
        });
        self.is_sorted = goes_on && (self.is_sorted || self.places.is_empty());
        self.places.push(place);
        Ok(())
    }

    fn key(&self, place: &Place) -> &[u8] {
        &self.bytes[place.start as usize..][..place.length as usize]
    }

    /// Sorts the keys, which [`sorted`](Self::sorted) does not do again.
    pub fn sort(&mut self) {
        if !std::mem::replace(&mut self.is_sorted, true) {
            let bytes = &self.bytes;
            let key = |place: &Place| &bytes[place.start as usize..][..place.length as usize];
            self.places.sort_unstable_by(|one, other| {
                (one.head.cmp(&other.head))
                    .then_with(|| key(one).cmp(key(other)))
                    .then_with(|| one.row.cmp(&other.row))
            });
        }
    }

    /// The keys in order, those of one key in the order of their rows, with whether a part is NULL.
    pub fn sorted(&mut self) -> impl Iterator<Item = (&[u8], RowId, bool)> {
        self.sort();
        self.places.iter().map(|place| (self.key(place), place.row, place.has_null))
    }
}

/// The first eight bytes, padded with zeros.
fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_base::BlockNumber;

    /// Keys that differ in length, in the first bytes, behind them, or in nothing but their rows.
    #[test]
    fn keys_come_in_their_bytes_order_and_then_by_row() {
        let keys: [&[u8]; 9] = [
            b"",
            b"\0",
            b"\0\0\0\0\0\0\0\0",
            b"\0\0\0\0\0\0\0\0\0",
            b"abcdefgh",
            b"abcdefghi",
            b"abcdefgh\0",
            b"b",
            b"\xff",
        ];
        let mut run = KeyRun::new();
        for turn in 0..3 {
            let mut expected = Vec::new();
            for number in 0..200usize {
                // Ascending in the first turn, mixed in the others.
                let pick = if turn == 0 { number / 23 } else { number * 7 % keys.len() };
                let row = RowId::new(BlockNumber(0), if turn == 2 { 200 - number } else { number });
                run.add(row, |out| {
                    out.extend_from_slice(keys[pick]);
                    Ok(Some(pick == 3))
                })
                .unwrap();
                expected.push((keys[pick].to_vec(), row, pick == 3));
            }
            run.add(RowId::new(BlockNumber(1), 0), |out| {
                out.push(1);
                Ok(None)
            })
            .unwrap();
            expected.sort();
            let found: Vec<_> = run.sorted().map(|(key, row, null)| (key.to_vec(), row, null)).collect();
            assert_eq!(found, expected);
            run.clear();
            assert!(run.is_empty());
        }
    }
}
