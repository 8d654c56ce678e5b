//! A hash of a set of rows that changes with each row in constant time: rows that come are added, rows that go are subtracted.
//!
//! Each row hash is stretched to 1,024 numbers of 16 bits, and the numbers of all rows are added without carry between them
//! (LtHash of Bellare and Micciancio, with the size that its later analyses call 200 bits strong). A sum of plain 256-bit
//! hashes would be broken by Wagner's generalized birthday attack; this is why it has 2,048 bytes. Beyond the dissertation,
//! whose ledger says how rows change and never what the tables are.

use crate::hash::LedgerHash;

const NUMBERS: usize = 1024;

/// What all rows of a table add up to.
#[derive(Clone, PartialEq, Eq)]
pub struct Fingerprint(Box<[u16; NUMBERS]>);

impl Default for Fingerprint {
    fn default() -> Fingerprint {
        Fingerprint(Box::new([0; NUMBERS]))
    }
}

/// A row's numbers, to be added to what has the row among others.
pub(crate) struct StretchedRow([u8; NUMBERS * 2]);

impl StretchedRow {
    /// Some two microseconds.
    pub(crate) fn of(row: &LedgerHash) -> StretchedRow {
        let mut stream = [0; NUMBERS * 2];
        let mut hasher = blake3::Hasher::new_derive_key("ankerdb-ledger/1 fingerprint of a row");
        hasher.update(&row.0);
        hasher.finalize_xof().fill(&mut stream);
        StretchedRow(stream)
    }

    fn numbers(&self) -> impl Iterator<Item = u16> {
        self.0.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair))
    }
}

impl Fingerprint {
    /// A row comes. Some two microseconds.
    pub fn add(&mut self, row: &LedgerHash) {
        self.add_stretched(&StretchedRow::of(row));
    }

    /// A row goes.
    pub fn remove(&mut self, row: &LedgerHash) {
        self.remove_stretched(&StretchedRow::of(row));
    }

    pub(crate) fn add_stretched(&mut self, row: &StretchedRow) {
        self.0.iter_mut().zip(row.numbers()).for_each(|(own, number)| *own = own.wrapping_add(number));
    }

    pub(crate) fn remove_stretched(&mut self, row: &StretchedRow) {
        self.0.iter_mut().zip(row.numbers()).for_each(|(own, number)| *own = own.wrapping_sub(number));
    }

    /// All rows of another one go.
    pub(crate) fn remove_all(&mut self, other: &Fingerprint) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(own, number)| *own = own.wrapping_sub(*number));
    }

    /// 32 bytes of it.
    pub fn hash(&self) -> LedgerHash {
        let mut bytes = [0; NUMBERS * 2];
        bytes
            .as_chunks_mut::<2>()
            .0
            .iter_mut()
            .zip(self.0.iter())
            .for_each(|(to, number)| *to = number.to_be_bytes());
        LedgerHash::of("fingerprint", &[&bytes])
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Fingerprint({:?})", self.hash())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_changes_does_not_matter_and_a_row_that_goes_leaves_nothing() {
        let rows: Vec<LedgerHash> = (0..50_u8).map(|row| LedgerHash::of_row(&[row])).collect();
        let mut forth = Fingerprint::default();
        let mut back = Fingerprint::default();
        rows.iter().for_each(|row| forth.add(row));
        rows.iter().rev().for_each(|row| back.add(row));
        assert_eq!(forth, back);
        forth.remove(&rows[7]);
        assert_ne!(forth.hash(), back.hash());
        rows.iter().filter(|row| **row != rows[7]).for_each(|row| forth.remove(row));
        assert_eq!(forth, Fingerprint::default());
    }
}
