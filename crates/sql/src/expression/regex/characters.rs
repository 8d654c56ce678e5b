//! Sets of characters, and the classes that a pattern tells apart.
//!
//! A pattern looks at a character only to ask in which of its sets it lies. [`Colors`] gives all characters that lie in the same
//! sets one number, their *color*: automata then have a column for each color, not for each of a million characters.

use super::{MEMBERS_MAX, too_complex};
use ankerdb_engine::Result;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The largest code point.
const LAST: u32 = char::MAX as u32;

/// Characters, as ranges of code points that are sorted and do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CharSet {
    ranges: Vec<(u32, u32)>,
}

impl CharSet {
    pub(super) fn of(character: char) -> CharSet {
        CharSet { ranges: vec![(character as u32, character as u32)] }
    }

    pub(super) fn all() -> CharSet {
        CharSet { ranges: vec![(0, LAST)] }
    }

    /// The characters for which the question is answered by yes.
    fn where_true(is_in: impl Fn(char) -> bool) -> CharSet {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for character in ('\0'..=char::MAX).filter(|&character| is_in(character)) {
            let code = character as u32;
            match ranges.last_mut() {
                Some((_, high)) if *high + 1 == code => *high = code,
                _ => ranges.push((code, code)),
            }
        }
        CharSet { ranges }
    }

    pub(super) fn add_range(&mut self, low: char, high: char) {
        self.ranges.push((low as u32, high as u32));
    }

    pub(super) fn add(&mut self, other: &CharSet) {
        self.ranges.extend_from_slice(&other.ranges);
    }

    /// Sorts the ranges, and joins those that touch.
    pub(super) fn settled(mut self) -> CharSet {
        self.ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(self.ranges.len());
        for (low, high) in self.ranges {
            match joined.last_mut() {
                Some((_, last)) if low <= last.saturating_add(1) => *last = high.max(*last),
                _ => joined.push((low, high)),
            }
        }
        CharSet { ranges: joined }
    }

    /// All other characters. The set is settled.
    pub(super) fn negated(&self) -> CharSet {
        let mut ranges = Vec::with_capacity(self.ranges.len() + 1);
        let mut next = 0;
        for &(low, high) in &self.ranges {
            if low > next {
                ranges.push((next, low - 1));
            }
            next = high + 1;
        }
        if next <= LAST {
            ranges.push((next, LAST));
        }
        CharSet { ranges }
    }

    /// With the small letters of its capital ones, and the other way round.
    pub(super) fn without_case(mut self) -> CharSet {
        let cases = &*CASES;
        for position in 0..self.ranges.len() {
            let (low, high) = self.ranges[position];
            let first = cases.partition_point(|&(letter, _)| letter < low);
            let others = cases[first..].iter().take_while(|&&(letter, _)| letter <= high);
            self.ranges.extend(others.map(|&(_, other)| (other, other)));
        }
        self.settled()
    }
}

/// Letters, each with its other cases, in the order of the letters.
static CASES: LazyLock<Vec<(u32, u32)>> = LazyLock::new(|| {
    let mut cases = Vec::new();
    for letter in '\0'..=char::MAX {
        let (mut lower, mut upper) = (letter.to_lowercase(), letter.to_uppercase());
        for others in [(lower.next(), lower.next()), (upper.next(), upper.next())] {
            if let (Some(other), None) = others
                && other != letter
            {
                cases.push((letter as u32, other as u32));
            }
        }
    }
    cases
});

macro_rules! classes {
    ($($name:literal $is_in:expr;)*) => {
        /// The class of that name; `None` if there is none.
        pub(super) fn class(name: &str) -> Option<&'static CharSet> {
            match name {
                $($name => {
                    static CLASS: LazyLock<CharSet> = LazyLock::new(|| CharSet::where_true($is_in));
                    Some(&CLASS)
                })*
                _ => None,
            }
        }
    };
}

classes! {
    "alpha" char::is_alphabetic;
    "digit" |character| character.is_ascii_digit();
    "alnum" char::is_alphanumeric;
    "upper" char::is_uppercase;
    "lower" char::is_lowercase;
    "space" char::is_whitespace;
    "blank" |character| matches!(character, ' ' | '\t');
    "punct" |character| character.is_ascii_punctuation();
    "cntrl" char::is_control;
    "xdigit" |character| character.is_ascii_hexdigit();
    "print" |character| !character.is_control();
    "graph" |character| !character.is_control() && !character.is_whitespace();
    "word" |character| character.is_alphanumeric() || character == '_';
    "ascii" |character| character.is_ascii();
}

/// What an assertion asks of the character beside a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CharacterKind {
    /// None: the text begins or ends.
    Edge,
    Newline,
    /// A letter, a digit or an underscore.
    Word,
    Other,
}

impl CharacterKind {
    pub(super) fn of(character: char) -> CharacterKind {
        match character {
            '\n' => CharacterKind::Newline,
            character if character.is_alphanumeric() || character == '_' => CharacterKind::Word,
            _ => CharacterKind::Other,
        }
    }
}

/// Which characters a pattern tells apart.
#[derive(Debug)]
pub(super) struct Colors {
    /// The colors of the first characters, which most texts consist of.
    ascii: [u32; 128],
    /// Where each range of one color begins, and its color.
    ranges: Vec<(u32, u32)>,
    /// The colors of each set, sorted.
    members: Vec<Vec<u32>>,
    /// What each color's characters are; only told apart where the sets do so.
    kinds: Vec<CharacterKind>,
}

impl Colors {
    /// The colors of sets that are settled.
    ///
    /// # Errors
    /// 2201B if the sets have too many colors together.
    pub(super) fn new(sets: &[CharSet]) -> Result<Colors> {
        let mut starts = vec![0];
        starts.extend(sets.iter().flat_map(|set| &set.ranges).flat_map(|&(low, high)| [low, high + 1]));
        starts.sort_unstable();
        starts.dedup();
        let place = |code: u32| starts.partition_point(|&start| start < code);
        let places = |set: &CharSet| {
            let ranges: Vec<_> = set.ranges.iter().map(|&(low, high)| place(low)..place(high + 1)).collect();
            ranges.into_iter().flatten()
        };
        let mut colors = vec![0u32; starts.len()];
        let mut count = 1;
        for set in sets {
            // What lies in the set gets other colors than what does not.
            let mut inside: HashMap<u32, u32> = HashMap::new();
            for position in places(set) {
                let fresh = || {
                    count += 1;
                    count - 1
                };
                colors[position] = *inside.entry(colors[position]).or_insert_with(fresh);
            }
        }
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        for color in &mut colors {
            let next = numbers.len() as u32;
            *color = *numbers.entry(*color).or_insert(next);
        }
        let mut members = Vec::with_capacity(sets.len());
        let mut total = 0;
        for set in sets {
            let mut of_set: Vec<u32> = places(set).map(|position| colors[position]).collect();
            of_set.sort_unstable();
            of_set.dedup();
            total += of_set.len();
            members.push(of_set);
            if total > MEMBERS_MAX {
                return Err(too_complex());
            }
        }
        let mut kinds = vec![CharacterKind::Other; numbers.len()];
        for (&start, &color) in starts.iter().zip(&colors) {
            kinds[color as usize] = char::from_u32(start).map_or(CharacterKind::Other, CharacterKind::of);
        }
        let ranges: Vec<(u32, u32)> = starts.into_iter().zip(colors).collect();
        let ascii = std::array::from_fn(|code| of(&ranges, code as u32));
        Ok(Colors { ascii, ranges, members, kinds })
    }

    pub(super) fn count(&self) -> usize {
        self.kinds.len()
    }

    pub(super) fn of(&self, character: char) -> u32 {
        let code = character as u32;
        match self.ascii.get(code as usize) {
            Some(color) => *color,
            None => of(&self.ranges, code),
        }
    }

    pub(super) fn kind(&self, color: u32) -> CharacterKind {
        self.kinds.get(color as usize).copied().unwrap_or(CharacterKind::Edge)
    }

    /// Whether the set has the characters of that color.
    pub(super) fn is_member(&self, set: usize, color: u32) -> bool {
        self.members[set].binary_search(&color).is_ok()
    }
}

fn of(ranges: &[(u32, u32)], code: u32) -> u32 {
    let behind = ranges.partition_point(|&(start, _)| start <= code);
    ranges[behind - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_of_the_same_sets_have_one_color() {
        let mut letters = CharSet::default();
        letters.add_range('a', 'f');
        letters.add_range('d', 'z');
        let sets = [letters.settled(), CharSet::of('e'), CharSet::of('ö').negated()];
        let colors = Colors::new(&sets).unwrap();
        assert_eq!(colors.count(), 4);
        assert_eq!(colors.of('a'), colors.of('z'));
        assert_ne!(colors.of('a'), colors.of('e'));
        assert!(colors.is_member(0, colors.of('e')) && colors.is_member(1, colors.of('e')));
        assert!(!colors.is_member(2, colors.of('ö')) && colors.is_member(2, colors.of('\u{10ffff}')));
    }

    #[test]
    fn cases_are_added_to_ranges() {
        let mut set = CharSet::default();
        set.add_range('a', 'c');
        let set = set.settled().without_case();
        assert_eq!(set.ranges, [('A' as u32, 'C' as u32), ('a' as u32, 'c' as u32)]);
        assert_eq!(CharSet::all().negated(), CharSet::default());
    }
}
