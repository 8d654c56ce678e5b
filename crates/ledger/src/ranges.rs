//! What the rows of a table add up to, as a whole and by ranges of the hashes of their keys, so that of a table of a million rows
//! of which one differs a thousand are compared.
//!
//! ```text
//! hash of the key   0......... 1......... 2 ...                    1023......    (the first ten bits of its CRC-32C)
//! hash range        [  Σ  s  ] [  Σ  s  ] [ ...                    [  Σ  s  ]    Σ fingerprint, s secret sum
//! table               Σ0     +   Σ1     +   ...                  +   Σ1023  =    its fingerprint, which the state certifies
//! ```
//! A fingerprint is a sum, so those of the ranges add up to that of the table: rows of one range can be taken from a member that
//! is not trusted, and the table's fingerprint follows without a look at the rows of all others. Fingerprints are equal in all
//! members, and compare two of them.
//!
//! To find what an organization's *own* database has changed, each range has a secret sum besides: the sum of its rows' hashes
//! under a key that the process has drawn and shows nobody (the keyed MSet-Add-Hash of Clarke and others, 2003). It costs a
//! twentieth of a fingerprint for each row that is read, and a change that leaves it equal cannot be found without the key.
//!
//! Invariant: the fingerprint of a table is the sum of those of its ranges, whatever is added, removed or replaced.

use crate::fingerprint::{Fingerprint, StretchedRow};
use crate::hash::LedgerHash;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// How many hash ranges a table has. A million rows have a thousand in each; the sums of a table take two megabytes.
pub const HASH_RANGES: usize = 1024;

/// The hash range of a key, in its canonical encoding. All members have to divide tables alike. The hash is a checksum: keys that
/// somebody has chosen so that they are in one range make repairs slow, and hide nothing.
pub fn hash_range(key: &[u8]) -> usize {
    (crc32c::crc32c(key) >> 22) as usize
}

/// What rows add up to under the key of this process.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SecretSum(u128);

impl SecretSum {
    /// The key: other for each process, and never shown.
    fn key() -> &'static [u8; 32] {
        static KEY: OnceLock<[u8; 32]> = OnceLock::new();
        KEY.get_or_init(|| {
            let mut key = [0; 32];
            getrandom::fill(&mut key)
                .expect("the system gives random bytes: keys for TLS were drawn from them");
            key
        })
    }

    fn number(row: &LedgerHash) -> u128 {
        let hash = blake3::keyed_hash(SecretSum::key(), &row.0);
        u128::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
    }

    /// A row comes. A tenth of a microsecond.
    pub fn add(&mut self, row: &LedgerHash) {
        self.0 = self.0.wrapping_add(SecretSum::number(row));
    }

    /// A row goes.
    pub fn remove(&mut self, row: &LedgerHash) {
        self.0 = self.0.wrapping_sub(SecretSum::number(row));
    }
}

/// What the rows of a hash range add up to.
#[derive(Clone, Default)]
struct RangeSums {
    fingerprint: Fingerprint,
    secret: SecretSum,
}

/// What the rows of a table add up to. A copy shares the sums of ranges until one of the two changes them.
#[derive(Clone, Default)]
pub struct TableSums {
    fingerprint: Fingerprint,
    /// Nothing if it never had a row.
    ranges: Vec<Arc<RangeSums>>,
}

impl TableSums {
    fn range_mut(&mut self, key: &[u8]) -> &mut RangeSums {
        if self.ranges.is_empty() {
            self.ranges = vec![Arc::default(); HASH_RANGES];
        }
        Arc::make_mut(&mut self.ranges[hash_range(key)])
    }

    /// A row comes. Some two microseconds.
    pub fn add(&mut self, key: &[u8], row: &LedgerHash) {
        let stretched = StretchedRow::of(row);
        self.fingerprint.add_stretched(&stretched);
        let range = self.range_mut(key);
        range.fingerprint.add_stretched(&stretched);
        range.secret.add(row);
    }

    /// A row goes.
    pub fn remove(&mut self, key: &[u8], row: &LedgerHash) {
        let stretched = StretchedRow::of(row);
        self.fingerprint.remove_stretched(&stretched);
        let range = self.range_mut(key);
        range.fingerprint.remove_stretched(&stretched);
        range.secret.remove(row);
    }

    /// Of the whole table.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Hashes of the fingerprints of all ranges, which other members have alike. Zeros for a range without rows.
    pub fn range_hashes(&self) -> Vec<LedgerHash> {
        let empty = Fingerprint::default();
        let hash = |range: &Arc<RangeSums>| match range.fingerprint == empty {
            true => LedgerHash::default(),
            false => range.fingerprint.hash(),
        };
        let mut hashes: Vec<LedgerHash> = self.ranges.iter().map(hash).collect();
        hashes.resize(HASH_RANGES, LedgerHash::default());
        hashes
    }

    /// What the rows of a range add up to under the key of this process.
    pub fn secret_sum(&self, range: usize) -> SecretSum {
        self.ranges.get(range).map(|range| range.secret).unwrap_or_default()
    }

    /// The ranges whose rows add up to something else under the key of this process.
    pub fn differing(&self, found: &[SecretSum]) -> Vec<usize> {
        let has_other =
            |range: &usize| found.get(*range).copied().unwrap_or_default() != self.secret_sum(*range);
        (0..HASH_RANGES).filter(has_other).collect()
    }

    /// All rows of a range go.
    pub fn empty_range(&mut self, range: usize) {
        if let Some(sums) = self.ranges.get_mut(range) {
            self.fingerprint.remove_all(&sums.fingerprint);
            *sums = Arc::default();
        }
    }
}

impl PartialEq for TableSums {
    fn eq(&self, other: &TableSums) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl fmt::Debug for TableSums {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fingerprint.fmt(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u32) -> (Vec<u8>, LedgerHash) {
        let key = number.to_be_bytes().to_vec();
        (key.clone(), LedgerHash::of_row(&[&key[..], b"row"].concat()))
    }

    fn table(numbers: std::ops::Range<u32>) -> TableSums {
        let mut sums = TableSums::default();
        numbers.map(row).for_each(|(key, hash)| sums.add(&key, &hash));
        sums
    }

    fn secret_sums(numbers: impl Iterator<Item = u32>) -> Vec<SecretSum> {
        let mut sums = vec![SecretSum::default(); HASH_RANGES];
        numbers.map(row).for_each(|(key, hash)| sums[hash_range(&key)].add(&hash));
        sums
    }

    #[test]
    fn the_fingerprints_of_the_ranges_add_up_to_that_of_the_table() {
        let mut sums = table(0..3000);
        (0..700).map(row).for_each(|(key, hash)| sums.remove(&key, &hash));
        let mut rest = sums.clone();
        (0..HASH_RANGES).for_each(|range| rest.empty_range(range));
        assert_eq!(*rest.fingerprint(), Fingerprint::default());
        assert_eq!(sums, table(700..3000));
        assert_eq!(sums.range_hashes(), table(700..3000).range_hashes());
        assert_eq!(table(0..0).range_hashes(), vec![LedgerHash::default(); HASH_RANGES]);
    }

    #[test]
    fn just_the_range_of_a_row_that_has_changed_gone_or_come_differs() {
        let sums = table(0..3000);
        assert!(sums.differing(&secret_sums(0..3000)).is_empty());
        let range = |number| vec![hash_range(&row(number).0)];
        assert_eq!(sums.differing(&secret_sums((0..3000).filter(|number| *number != 77))), range(77));
        assert_eq!(sums.differing(&secret_sums(0..3001)), range(3000));
        assert_eq!(sums.differing(&secret_sums((0..3000).chain([5]))), range(5), "twice");
        let mut changed = secret_sums((0..3000).filter(|number| *number != 9));
        changed[range(9)[0]].add(&LedgerHash::of_row(b"another one"));
        assert_eq!(sums.differing(&changed), range(9));
    }

    #[test]
    fn a_range_that_is_emptied_and_filled_again_leaves_the_table_as_it_was() {
        let (sums, mut refilled) = (table(0..3000), table(0..3000));
        let range = hash_range(&row(11).0);
        refilled.empty_range(range);
        let rows: Vec<u32> = (0..3000).filter(|number| hash_range(&row(*number).0) == range).collect();
        assert_ne!(refilled, sums);
        assert!(refilled.range_hashes()[range] == LedgerHash::default() && !rows.is_empty());
        rows.into_iter().map(row).for_each(|(key, hash)| refilled.add(&key, &hash));
        assert_eq!(refilled, sums);
        assert!(refilled.secret_sum(range) == sums.secret_sum(range));
    }
}
