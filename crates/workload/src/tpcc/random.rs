//! Random values of the specification (clause 4.3.2), from a seed: the same seed gives the same values.

use fastrand::Rng;
use std::fmt;
use std::ops::Deref;

/// The parts of last names, by digit (clause 4.3.2.3).
pub(crate) const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
const LETTERS_AND_DIGITS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const ORIGINAL: &str = "ORIGINAL";

/// The constants C of NURand (clause 2.1.6), chosen once for a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NuRandConstants {
    last_name_load: u32,
    last_name_run: u32,
    customer: u32,
    item: u32,
}

impl NuRandConstants {
    /// Chooses the constants. Those of last names differ between loading and running by 65 to 119, but not by
    /// 96 or 112 (clause 2.1.6.1).
    pub fn choose(seed: u64) -> NuRandConstants {
        let mut rng = Rng::with_seed(seed ^ 0x6e75_5261_6e64);
        let last_name_load = rng.u32(0..=255);
        let last_name_run = loop {
            let candidate = rng.u32(0..=255);
            let delta = candidate.abs_diff(last_name_load);
            if (65..=119).contains(&delta) && delta != 96 && delta != 112 {
                break candidate;
            }
        };
        NuRandConstants {
            last_name_load,
            last_name_run,
            customer: rng.u32(0..=1023),
            item: rng.u32(0..=8191),
        }
    }
}

/// A source of random values, owned by one thread or one piece of the population.
pub struct Random {
    rng: Rng,
    constants: NuRandConstants,
}

impl Random {
    /// `stream` tells apart the sources of one run: the values of each depend on (seed, stream) alone.
    pub fn new(seed: u64, stream: u64) -> Random {
        // An odd multiplier spreads neighbouring streams over the whole range of seeds.
        let mixed = seed ^ stream.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Random { rng: Rng::with_seed(mixed), constants: NuRandConstants::choose(seed) }
    }

    /// A number in `low..=high`, all equally likely.
    pub fn uniform(&mut self, low: i32, high: i32) -> i32 {
        self.rng.i32(low..=high)
    }

    /// A small number in `low..=high`, all equally likely.
    pub fn small(&mut self, low: i16, high: i16) -> i16 {
        self.rng.i16(low..=high)
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.rng.u32(0..100) < percent
    }

    /// NURand (clause 2.1.6).
    fn non_uniform(&mut self, a: u32, c: u32, low: u32, high: u32) -> u32 {
        let mixed = self.rng.u32(0..=a) | self.rng.u32(low..=high);
        (mixed + c) % (high - low + 1) + low
    }

    /// A customer number: NURand(1023, 1, 3000).
    pub fn customer(&mut self) -> i32 {
        self.non_uniform(1023, self.constants.customer, 1, 3000) as i32
    }

    /// An item number: NURand(8191, 1, 100000).
    pub fn item(&mut self) -> i32 {
        self.non_uniform(8191, self.constants.item, 1, 100_000) as i32
    }

    /// A last name as the running transactions ask for it: NURand(255, 0, 999).
    pub fn last_name(&mut self) -> LastName {
        last_name(self.non_uniform(255, self.constants.last_name_run, 0, 999))
    }

    /// A last name as the loader gives it to customers beyond the first thousand of a district.
    pub fn last_name_for_load(&mut self) -> LastName {
        last_name(self.non_uniform(255, self.constants.last_name_load, 0, 999))
    }

    /// A random a-string: letters and digits, `low..=high` of them (clause 4.3.2.2).
    pub fn text(&mut self, low: usize, high: usize) -> String {
        let length = self.rng.usize(low..=high);
        (0..length).map(|_| LETTERS_AND_DIGITS[self.rng.usize(0..62)] as char).collect()
    }

    /// A random n-string: exactly `length` digits.
    pub fn digits(&mut self, length: usize) -> String {
        (0..length).map(|_| self.rng.digit(10)).collect()
    }

    /// Two capital letters.
    pub fn state(&mut self) -> String {
        (0..2).map(|_| self.rng.uppercase()).collect()
    }

    /// Four random digits and `11111` (clause 4.3.2.7).
    pub fn zip(&mut self) -> String {
        self.digits(4) + "11111"
    }

    /// An a-string of 26 to 50, holding `ORIGINAL` somewhere in 10% of the cases (clause 4.3.3.1).
    pub fn data(&mut self) -> String {
        let mut text = self.text(26, 50);
        if self.percent(10) {
            let start = self.rng.usize(0..=text.len() - ORIGINAL.len());
            text.replace_range(start..start + ORIGINAL.len(), ORIGINAL);
        }
        text
    }

    /// Puts items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        self.rng.shuffle(items);
    }

    /// A random order of `1..=count`.
    pub fn permutation(&mut self, count: i32) -> Vec<i32> {
        let mut numbers: Vec<i32> = (1..=count).collect();
        self.rng.shuffle(&mut numbers);
        numbers
    }
}

/// A last name: at most fifteen letters, without memory of its own, because every other transaction asks for one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LastName {
    length: u8,
    letters: [u8; LAST_NAME_MAX],
}

/// Three times the longest syllable.
const LAST_NAME_MAX: usize = 15;

impl From<&str> for LastName {
    /// Letters beyond the fifteenth are left out; no customer has so long a name.
    fn from(name: &str) -> LastName {
        let mut last = LastName { length: 0, letters: [0; LAST_NAME_MAX] };
        last.push(name);
        last
    }
}

impl LastName {
    fn push(&mut self, text: &str) {
        for byte in text.bytes().filter(u8::is_ascii) {
            if let Some(place) = self.letters.get_mut(self.length as usize) {
                *place = byte;
                self.length += 1;
            }
        }
    }
}

impl Deref for LastName {
    type Target = str;
    fn deref(&self) -> &str {
        std::str::from_utf8(&self.letters[..self.length as usize]).expect("only ASCII is pushed")
    }
}

impl fmt::Debug for LastName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for LastName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// The last name of a number from 0 to 999: one syllable for each digit (clause 4.3.2.3).
pub fn last_name(number: u32) -> LastName {
    let mut name = LastName::from("");
    for digit in [number / 100 % 10, number / 10 % 10, number % 10] {
        name.push(SYLLABLES[digit as usize]);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_syllables_of_the_digits() {
        assert_eq!(&*last_name(371), "PRICALLYOUGHT");
        assert_eq!(&*last_name(40), "BARPRESBAR");
        assert_eq!(last_name(777), LastName::from("CALLYCALLYCALLY"));
    }

    #[test]
    fn same_seed_and_stream_give_the_same_values() {
        let values = |seed, stream| {
            let mut random = Random::new(seed, stream);
            (0..50).map(|_| (random.item(), random.data(), random.last_name())).collect::<Vec<_>>()
        };
        assert_eq!(values(1, 2), values(1, 2));
        assert_ne!(values(1, 2), values(1, 3));
        assert_ne!(values(1, 2), values(2, 2));
    }

    #[test]
    fn constants_for_last_names_keep_their_distance() {
        for seed in 0..1000 {
            let constants = NuRandConstants::choose(seed);
            let delta = constants.last_name_load.abs_diff(constants.last_name_run);
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "seed {seed}: {delta}");
        }
    }

    #[test]
    fn values_stay_in_their_ranges_and_original_is_in_a_tenth() {
        let mut random = Random::new(7, 0);
        let mut originals = 0;
        for _ in 0..20_000 {
            assert!((1..=3000).contains(&random.customer()));
            assert!((1..=100_000).contains(&random.item()));
            let data = random.data();
            assert!((26..=50).contains(&data.len()));
            originals += usize::from(data.contains(ORIGINAL));
        }
        assert!((1800..2200).contains(&originals), "{originals} of 20000");
    }
}
