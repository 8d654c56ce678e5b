//! Sets of integers that are asked for many values at once.
//!
//! A join that knows its keys tells a scan, which looks each of its rows up: whole blocks of them, most of which are in no set. So a set
//! is one bit for each integer between the least and the greatest, and 64 values make a word of bits before one is looked at:
//! ```text
//!   value - least, at most the place behind all     7 91 3 128 ...   several in an instruction
//!   bit of the place                                1  0 0   0 ...   a load for each, and no branch
//! ```
//! What lies outside the set is looked up in the place behind it, which has no bit.

use crate::bitmaps::{WORD_ROWS, is_wide};
use crate::selected::SelectedRows;
use std::ops::RangeInclusive;

/// Bits of a word of the set. Places are numbers of 32 bits.
const WORD_BITS: usize = u32::BITS as usize;
/// Words of a set that are looked at for bounds: as many as there are for half a million of integers in a row.
const WORDS_LOOKED_AT: usize = 16_384;

/// A set of integers, as one bit for each from the least to the greatest.
#[derive(Debug)]
pub struct KeyBits {
    least: i64,
    /// One word for 32 integers, and one behind them without a bit.
    words: Vec<u32>,
}

/// An integer that can be looked up: `i32` or `i64`. No other crate has more of them, since [`KeyBits::list`] reads at the places that they
/// tell.
pub trait Key: sealed::Sealed + Copy + Into<i64> + TryFrom<i64> {
    /// How far it lies from the least one, or `behind` if that is less or it is not from there: nothing wraps around to a place before
    /// `behind`, as numbers of this type go as far.
    #[doc(hidden)]
    fn place(self, least: Self, behind: u32) -> u32;
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for i32 {}

    impl Sealed for i64 {}
}

impl Key for i32 {
    #[inline(always)]
    fn place(self, least: i32, behind: u32) -> u32 {
        (self.wrapping_sub(least) as u32).min(behind)
    }
}

impl Key for i64 {
    #[inline(always)]
    fn place(self, least: i64, behind: u32) -> u32 {
        (self.wrapping_sub(least) as u64).min(behind.into()) as u32
    }
}

impl KeyBits {
    /// Bits of the largest set.
    pub const BITS_MAX: u64 = 1 << 31;

    /// The bytes of the set of some integers; `None` where they lie further apart than [`KeyBits::BITS_MAX`].
    pub fn bytes_of(keys: &[i64]) -> Option<usize> {
        Some(words_of(keys)?.1 * size_of::<u32>())
    }

    /// The set of some integers, in any order; `None` where they lie further apart than [`KeyBits::BITS_MAX`]. Costs a touch of memory
    /// for each.
    pub fn of(keys: &[i64]) -> Option<KeyBits> {
        let (least, count) = words_of(keys)?;
        let mut words = vec![0; count];
        for &key in keys {
            let place = key.abs_diff(least) as usize;
            words[place / WORD_BITS] |= 1 << (place % WORD_BITS);
        }
        Some(KeyBits { least, words })
    }

    /// The place behind all, in the last word.
    fn behind(&self) -> u32 {
        ((self.words.len() - 1) * WORD_BITS) as u32
    }

    #[inline(always)]
    fn holds(&self, key: impl Key) -> bool {
        let place = key.into().place(self.least, self.behind()) as usize;
        self.words[place / WORD_BITS] >> (place % WORD_BITS) & 1 != 0
    }

    /// The least integer, if all up to the place behind are of this type.
    fn least_of<K: Key>(&self) -> Option<K> {
        let behind = self.least.saturating_add(self.behind().into());
        K::try_from(behind).ok().and_then(|_| K::try_from(self.least).ok())
    }

    /// Whether an integer of the set may lie within bounds. Wide bounds are looked through in part.
    pub fn may_hold(&self, bounds: RangeInclusive<i64>) -> bool {
        let places = i128::from(self.behind());
        let place = |number: i64| i128::from(number) - i128::from(self.least);
        let (first, last) = (place(*bounds.start()).max(0), place(*bounds.end()).min(places - 1));
        if first > last {
            return false;
        }
        let (first, last) = (first as usize, last as usize);
        let words = first / WORD_BITS..=last / WORD_BITS;
        words.clone().count() > WORDS_LOOKED_AT
            || words.into_iter().any(|at| {
                let from = if at == first / WORD_BITS { !0 << (first % WORD_BITS) } else { !0 };
                let to = if at == last / WORD_BITS { !0 >> (WORD_BITS - 1 - last % WORD_BITS) } else { !0 };
                self.words[at] & from & to != 0
            })
    }

    /// The places of the values that are in the set, in order. Costs about a nanosecond for each value, in the caches.
    pub fn list<K: Key>(&self, values: &[K]) -> Vec<u32> {
        let Some(least) = self.least_of::<K>() else {
            let mut all = (0..values.len() as u32).collect();
            self.retain(values, &mut all);
            return all;
        };
        let mut selected = SelectedRows::default();
        selected.begin(values.len());
        #[cfg(target_arch = "x86_64")]
        if is_wide() {
            // SAFETY: the processor has these instructions.
            unsafe { self.list_wide(least, values, &mut selected) };
            return selected.into_rows();
        }
        self.list_any(least, values, &mut selected);
        selected.into_rows()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    fn list_wide<K: Key>(&self, least: K, values: &[K], selected: &mut SelectedRows) {
        self.list_any(least, values, selected);
    }

    /// Inlined, so that it is made of the instructions that its caller may use.
    #[inline(always)]
    fn list_any<K: Key>(&self, least: K, values: &[K], selected: &mut SelectedRows) {
        let behind = self.behind();
        let mut places = [behind; WORD_ROWS];
        for (at, values) in values.chunks(WORD_ROWS).enumerate() {
            for (place, value) in places.iter_mut().zip(values) {
                *place = value.place(least, behind);
            }
            let places = &places[..values.len()];
            let mut rows = 0;
            for (row, &place) in places.iter().enumerate() {
                // SAFETY: no place of a key is greater than the one behind all, which lies in the last word.
                let word = unsafe { *self.words.get_unchecked(place as usize / WORD_BITS) };
                rows |= u64::from(word >> (place % u32::BITS) & 1) << row;
            }
            selected.push_bits(at * WORD_ROWS, rows);
        }
    }

    /// Keeps of a list of places of values those of values that are in the set. Costs a few nanoseconds for each.
    pub fn retain(&self, values: &[impl Key], places: &mut Vec<u32>) {
        let mut kept = 0;
        for at in 0..places.len() {
            let place = places[at];
            places[kept] = place;
            // Without a branch that goes either way.
            kept += usize::from(self.holds(values[place as usize]));
        }
        places.truncate(kept);
    }
}

/// The least integer, and how many words their set has.
fn words_of(keys: &[i64]) -> Option<(i64, usize)> {
    let (Some(&least), Some(&greatest)) = (keys.iter().min(), keys.iter().max()) else { return Some((0, 1)) };
    let places = greatest.abs_diff(least);
    (places < KeyBits::BITS_MAX).then(|| (least, places as usize / WORD_BITS + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets with few and many integers, at both ends of the numbers, too, and values in and beside them.
    fn sets() -> Vec<(Vec<i64>, Vec<i64>)> {
        let mut random = fastrand::Rng::with_seed(5);
        let mut sets = vec![
            (vec![], vec![0, -1, i64::MIN, i64::MAX]),
            (vec![i64::MAX, i64::MAX - 1], vec![i64::MIN, i64::MAX, 0, i64::MAX - 2]),
            (vec![i64::MIN, i64::MIN + 100], vec![i64::MIN, i64::MAX, i64::MIN + 99, i64::MIN + 101]),
        ];
        for (least, width) in [(-3, 40), (0, 32), (-700, 5000), (i64::from(i32::MIN), 64), (1 << 40, 100_000)]
        {
            for count in [1, 30, 3000] {
                let keys = (0..count).map(|_| least + random.i64(0..width)).collect();
                let values = (0..random.usize(0..1000)).map(|_| least + random.i64(-50..width + 100));
                sets.push((keys, values.chain([i64::MIN, i64::MAX]).collect()));
            }
        }
        sets
    }

    #[test]
    fn a_set_has_its_keys_and_no_others() {
        for (keys, values) in sets() {
            let set = KeyBits::of(&keys).expect("a set");
            let all = 0..values.len() as u32;
            let expected: Vec<u32> = all.clone().filter(|&at| keys.contains(&values[at as usize])).collect();
            assert_eq!(set.list(&values), expected, "{keys:?}");
            let mut plain = SelectedRows::default();
            plain.begin(values.len());
            set.list_any(set.least, &values, &mut plain);
            assert_eq!(plain.into_rows(), expected, "{keys:?}");
            let mut places: Vec<u32> = all.filter(|at| at % 3 != 0).collect();
            set.retain(&values, &mut places);
            let some: Vec<u32> = expected.into_iter().filter(|at| at % 3 != 0).collect();
            assert_eq!(places, some, "{keys:?}");
        }
    }

    #[test]
    fn narrow_values_are_looked_up_in_any_set() {
        let values = [-3, 4, 5, i32::MIN, i32::MAX];
        for (keys, expected) in [
            (vec![4, -3, 4], vec![0, 1]),
            (vec![i64::from(i32::MIN), -1], vec![3]),
            (vec![i64::from(i32::MAX)], vec![4]),
            // These are what some of them would be without their upper halves.
            (vec![(1 << 32) + 4, (1 << 32) + 5], vec![]),
            (vec![(-1 << 32) - 3], vec![]),
        ] {
            assert_eq!(KeyBits::of(&keys).expect("a set").list(&values), expected, "{keys:?}");
        }
    }

    #[test]
    fn bounds_may_hold_a_key_where_one_lies_within_them() {
        let keys = [-700, -3, 0, 61, 62, 200, 1000];
        let set = KeyBits::of(&keys).expect("a set");
        for start in (-900..1200).step_by(7) {
            for width in [-1, 0, 1, 2, 31, 33, 61, 63, 64, 65, 127, 300, 5000] {
                let bounds = start..=start + width;
                let has_one = keys.iter().any(|key| bounds.contains(key));
                assert_eq!(set.may_hold(bounds.clone()), has_one, "{bounds:?}");
            }
        }
        assert!(set.may_hold(i64::MIN..=i64::MAX) && set.may_hold(i64::MIN..=-700));
        assert!(!set.may_hold(i64::MIN..=-701) && !set.may_hold(1001..=i64::MAX));
        let ends = KeyBits::of(&[i64::MAX]).expect("a set");
        assert!(ends.may_hold(0..=i64::MAX) && !ends.may_hold(i64::MIN..=i64::MAX - 1));
        assert!(!KeyBits::of(&[]).expect("a set").may_hold(i64::MIN..=i64::MAX));
        // More than is looked at.
        let far = KeyBits::of(&[0, 10_000_000]).expect("a set");
        assert!(far.may_hold(1..=9_999_999) && !far.may_hold(1..=100_000));
    }

    #[test]
    fn keys_that_lie_too_far_apart_make_no_set() {
        assert!(KeyBits::of(&[i64::MIN, i64::MAX]).is_none());
        assert!(KeyBits::bytes_of(&[7, 7 + KeyBits::BITS_MAX as i64]).is_none());
        assert_eq!(KeyBits::bytes_of(&[7, 7 + KeyBits::BITS_MAX as i64 - 1]), Some((1 << 28) + 4));
    }
}
