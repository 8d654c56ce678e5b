//! The groups of a pipeline and their aggregates: a small hash table with open addressing.
//!
//! ```text
//! directory  │ 2 │ 0 │ 0 │ 1 │      number of an entry plus 1, 0 where none is; a power of two of places, half of them empty
//!              │           └────────┐
//!              └───────┐            │
//! entries    │ entry 0 ▼ entry 1    ▼ ...   words of 64 bits:
//!            │ NULL keys │ keys ... │ aggregates ... │
//! ```
//! Entries stay in the order of their creation, the directory is made anew when it is half full. A pipeline without keys
//! has one entry and no directory. Compiled code finds entries, changes their aggregates, and makes new ones where there is room: the
//! words behind the entries are zeros. Here is made where there is none, and more room with it.
//!
//! Aggregates, all zero at first: a count is one word; a sum is two, 128 bits; an extreme is a word that is 1 once there is a
//! value, and the value's words.

use crate::batch::Datum;
use crate::ir::{BITS_MAX, Fault, Pipeline, PipelineAggregate, ValueKind};

/// Where the parts of an entry are, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct EntryLayout {
    /// Each key's kind and place.
    pub(crate) keys: Vec<(ValueKind, usize)>,
    /// Each aggregate's place.
    pub(crate) aggregates: Vec<usize>,
    pub(crate) words: usize,
}

impl EntryLayout {
    pub(crate) fn of(pipeline: &Pipeline) -> EntryLayout {
        let mut words = usize::from(!pipeline.keys.is_empty());
        let mut keys = Vec::new();
        for &key in &pipeline.keys {
            keys.push((pipeline.kind(key), words));
            words += pipeline.kind(key).words();
        }
        let mut aggregates = Vec::new();
        for aggregate in &pipeline.aggregates {
            aggregates.push(words);
            words += match aggregate {
                PipelineAggregate::Rows | PipelineAggregate::Count(_) => 1,
                PipelineAggregate::Sum(_) => 2,
                PipelineAggregate::Min(value) | PipelineAggregate::Max(value) => {
                    1 + pipeline.kind(*value).words()
                }
            };
        }
        EntryLayout { keys, aggregates, words: words.max(1) }
    }
}

/// Multiplied with to spread bits; the golden ratio's.
pub(crate) const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// A hash with one more word in it. Compiled code has the same.
fn mixed(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(SPREAD);
    product ^ product >> 32
}

/// The groups of one thread.
#[derive(Clone, Debug)]
pub struct PipelineGroups {
    pipeline: Pipeline,
    pub(crate) layout: EntryLayout,
    /// Entries, and zeros behind them.
    pub(crate) entries: Vec<u64>,
    /// Words of the entries that there are.
    used: usize,
    pub(crate) directory: Vec<u32>,
    /// The words of the key that is looked for.
    wanted: Vec<u64>,
}

/// A sum that 128 bits do not hold.
const SUM: Fault = Fault::Overflow(ValueKind::Decimal { bits: BITS_MAX });

/// Places of the first directory.
const PLACES: usize = 64;

impl PipelineGroups {
    /// No groups; of a pipeline without keys, its only one.
    pub fn new(pipeline: &Pipeline) -> PipelineGroups {
        let layout = EntryLayout::of(pipeline);
        let mut groups = PipelineGroups {
            pipeline: pipeline.clone(),
            wanted: Vec::new(),
            entries: Vec::new(),
            used: 0,
            directory: Vec::new(),
            layout,
        };
        groups.clear();
        groups
    }

    /// No groups again; the memory is kept.
    pub fn clear(&mut self) {
        self.entries[..self.used].fill(0);
        self.used = 0;
        match self.layout.keys.is_empty() {
            true => self.used = self.with_room(),
            false if self.directory.is_empty() => self.directory = vec![0; PLACES],
            false => self.directory.fill(0),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.used / self.layout.words
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.entries.capacity() * 8 + self.directory.capacity() * 4
    }

    /// Words of the entries that there are.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Words of as many entries as fit the memory and half of the directory.
    pub(crate) fn limit(&self) -> usize {
        match self.layout.keys.is_empty() {
            true => self.used,
            false => self.entries.len().min(self.directory.len() / 2 * self.layout.words),
        }
    }

    /// Compiled code has made entries up to there.
    pub(crate) fn extend_to(&mut self, used: usize) {
        assert!(self.used <= used && used <= self.limit().max(self.used), "entries without room");
        self.used = used;
    }

    /// Room for one more entry, whose end is returned.
    fn with_room(&mut self) -> usize {
        let end = self.used + self.layout.words;
        if end > self.entries.len() {
            let first = if self.layout.keys.is_empty() { end } else { PLACES / 2 * self.layout.words };
            let mut more = vec![0; first.max(self.entries.len() * 2)];
            more[..self.used].copy_from_slice(&self.entries[..self.used]);
            self.entries = more;
        }
        end
    }

    /// The place among the entries of the group with these keys, which is made if there is none.
    pub(crate) fn find(&mut self, keys: &[Option<Datum>]) -> usize {
        if self.layout.keys.is_empty() {
            return 0;
        }
        self.wanted.clear();
        self.wanted.push(0);
        for (at, (key, (kind, _))) in keys.iter().zip(&self.layout.keys).enumerate() {
            let words = key.map_or([0; 2], Datum::words);
            self.wanted[0] |= u64::from(key.is_none()) << at;
            self.wanted.extend_from_slice(&words[..kind.words()]);
        }
        let mask = self.directory.len() - 1;
        let mut place = self.wanted.iter().fold(0, |hash, &word| mixed(hash, word)) as usize & mask;
        while self.directory[place] != 0 {
            let start = (self.directory[place] as usize - 1) * self.layout.words;
            if self.entries[start..start + self.wanted.len()] == self.wanted[..] {
                return start;
            }
            place = (place + 1) & mask;
        }
        self.add(place)
    }

    fn add(&mut self, place: usize) -> usize {
        let (start, end) = (self.used, self.with_room());
        self.entries[start..start + self.wanted.len()].copy_from_slice(&self.wanted);
        self.used = end;
        self.directory[place] = u32::try_from(self.len()).expect("a group takes more than a byte");
        if self.len() * 2 > self.directory.len() {
            self.spread();
        }
        start
    }

    /// A directory of twice the size.
    fn spread(&mut self) {
        let mask = self.directory.len() * 2 - 1;
        let mut directory = vec![0u32; mask + 1];
        let key_words = self.wanted.len();
        for (number, entry) in self.entries[..self.used].chunks_exact(self.layout.words).enumerate() {
            let mut place =
                entry[..key_words].iter().fold(0, |hash, &word| mixed(hash, word)) as usize & mask;
            while directory[place] != 0 {
                place = (place + 1) & mask;
            }
            directory[place] = number as u32 + 1;
        }
        self.directory = directory;
    }

    /// Adds values to the aggregates of the group at this place; changes nothing if it fails. `value` gives the value of an
    /// aggregate's operand.
    pub(crate) fn update(
        &mut self,
        start: usize,
        value: impl Fn(PipelineAggregate) -> Option<Datum>,
    ) -> Result<(), Fault> {
        let sums = |aggregate: &PipelineAggregate| matches!(aggregate, PipelineAggregate::Sum(_));
        let places = self.pipeline.aggregates.iter().zip(&self.layout.aggregates);
        for (aggregate, place) in places.clone().filter(|(aggregate, _)| sums(aggregate)) {
            if let Some(Datum::Number(number)) = value(*aggregate) {
                self.sum(start + place).checked_add(number).ok_or(SUM)?;
            }
        }
        for (aggregate, place) in places.map(|(aggregate, place)| (*aggregate, start + place)) {
            let Some(datum) = value(aggregate) else { continue };
            match (aggregate, datum) {
                (PipelineAggregate::Rows | PipelineAggregate::Count(_), _) => self.entries[place] += 1,
                (PipelineAggregate::Sum(_), Datum::Number(number)) => {
                    let sum = self.sum(place).wrapping_add(number);
                    self.entries[place..place + 2].copy_from_slice(&Datum::Number(sum).words());
                }
                (PipelineAggregate::Min(operand) | PipelineAggregate::Max(operand), datum) => {
                    let kind = self.pipeline.kind(operand);
                    let entry = &mut self.entries[place..place + 1 + kind.words()];
                    let known = Datum::from_words(kind, &entry[1..]);
                    if entry[0] == 0 || is_beyond(aggregate, datum, known) {
                        entry[0] = 1;
                        entry[1..].copy_from_slice(&datum.words()[..kind.words()]);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn sum(&self, place: usize) -> i128 {
        (u128::from(self.entries[place]) | u128::from(self.entries[place + 1]) << 64) as i128
    }

    /// A key of a group, `None` for NULL.
    pub fn key(&self, group: usize, key: usize) -> Option<Datum> {
        let start = group * self.layout.words;
        let (kind, place) = self.layout.keys[key];
        let is_null = self.entries[start] >> key & 1 == 1;
        (!is_null)
            .then(|| Datum::from_words(kind, &self.entries[start + place..start + place + kind.words()]))
    }

    /// An aggregate of a group: a count, a sum (0 of no values), or an extreme, `None` of no values.
    pub fn aggregate(&self, group: usize, aggregate: usize) -> Option<i128> {
        let place = group * self.layout.words + self.layout.aggregates[aggregate];
        match self.pipeline.aggregates[aggregate] {
            PipelineAggregate::Rows | PipelineAggregate::Count(_) => Some(self.entries[place].into()),
            PipelineAggregate::Sum(_) => Some(self.sum(place)),
            PipelineAggregate::Min(operand) | PipelineAggregate::Max(operand) => {
                let kind = self.pipeline.kind(operand);
                let words = &self.entries[place + 1..place + 1 + kind.words()];
                match Datum::from_words(kind, words) {
                    Datum::Number(number) if self.entries[place] == 1 => Some(number),
                    _ => None,
                }
            }
        }
    }
}

/// Whether a value takes the place of the one that is known.
fn is_beyond(aggregate: PipelineAggregate, datum: Datum, known: Datum) -> bool {
    match (aggregate, datum, known) {
        (PipelineAggregate::Min(_), Datum::Number(new), Datum::Number(known)) => new < known,
        (PipelineAggregate::Max(_), Datum::Number(new), Datum::Number(known)) => new > known,
        _ => false,
    }
}
