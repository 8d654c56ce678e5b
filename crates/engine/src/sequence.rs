//! Sequences: numbers that are handed out once, in order.
//!
//! As in PostgreSQL they are no part of transactions: a number that was handed out is gone, whatever becomes of the
//! transaction that has it, so a transaction never waits for another one to get a number.
//!
//! Where there is a log, a sequence tells it ahead how far it may have counted, and waits until that is on disk; then it hands out numbers
//! up to there without a word. It goes further ahead, by twice as many numbers, each time that they were used up within a second: one that
//! counts a million rows waits some twenty times.

use crate::schema::RelationName;
use ankerdb_base::{Error, Result, SchemaId, SqlState};
use ankerdb_transaction::TransactionManager;
use ankerdb_value::DataType;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a sequence counts.
#[derive(Clone, PartialEq, Debug)]
pub struct SequenceDefinition {
    /// The schema that it is in.
    pub schema: SchemaId,
    /// Its name, unique among tables, indexes, sequences and views of the schema.
    pub name: String,
    /// `SmallInt`, `Integer` or `BigInt`: what `minimum` and `maximum` lie within.
    pub data_type: DataType,
    /// The first number.
    pub start: i64,
    /// The distance between two numbers; below zero counts down.
    pub increment: i64,
    /// The smallest number.
    pub minimum: i64,
    /// The largest number.
    pub maximum: i64,
    /// Whether it begins again at its end.
    pub cycle: bool,
    /// The table and the column, by position, that it counts for, and with which it goes.
    pub owner: Option<(RelationName, usize)>,
}

impl SequenceDefinition {
    /// 1, 2, 3, ... as far as the type goes.
    pub fn new(name: impl Into<String>, data_type: DataType) -> SequenceDefinition {
        let maximum = largest(data_type);
        let name = name.into();
        SequenceDefinition {
            schema: SchemaId::PUBLIC,
            name,
            data_type,
            start: 1,
            increment: 1,
            minimum: 1,
            maximum,
            cycle: false,
            owner: None,
        }
    }

    /// # Errors
    /// `InvalidParameterValue` if it cannot count like that.
    pub fn validate(&self) -> Result<()> {
        let wrong = |message: String| Err(Error::new(SqlState::InvalidParameterValue, message));
        let largest = largest(self.data_type);
        if self.increment == 0 {
            return wrong("INCREMENT must not be zero".into());
        }
        if self.maximum > largest || self.maximum < -largest - 1 {
            return wrong(format!(
                "MAXVALUE ({}) is out of range for sequence data type {}",
                self.maximum, self.data_type
            ));
        }
        if self.minimum > largest || self.minimum < -largest - 1 {
            return wrong(format!(
                "MINVALUE ({}) is out of range for sequence data type {}",
                self.minimum, self.data_type
            ));
        }
        if self.minimum >= self.maximum {
            return wrong(format!(
                "MINVALUE ({}) must be less than MAXVALUE ({})",
                self.minimum, self.maximum
            ));
        }
        if self.start < self.minimum {
            return wrong(format!(
                "START value ({}) cannot be less than MINVALUE ({})",
                self.start, self.minimum
            ));
        }
        if self.start > self.maximum {
            return wrong(format!(
                "START value ({}) cannot be greater than MAXVALUE ({})",
                self.start, self.maximum
            ));
        }
        Ok(())
    }
}

fn largest(data_type: DataType) -> i64 {
    match data_type {
        DataType::SmallInt => i16::MAX.into(),
        DataType::Integer => i32::MAX.into(),
        _ => i64::MAX,
    }
}

/// How far a sequence has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceCount {
    /// How often it was changed: of two counts of one sequence the one with more changes is the newer.
    pub changes: u64,
    /// The last number.
    pub last: i64,
    /// Whether that has been handed out.
    pub is_used: bool,
}

impl SequenceCount {
    /// Before the first number.
    pub(crate) fn starting_at(last: i64) -> SequenceCount {
        SequenceCount { changes: 0, last, is_used: false }
    }

    /// For the log: the sequence's number, and its count.
    pub(crate) fn to_bytes(self, number: u64) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.changes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.last.to_le_bytes());
        bytes[24] = u8::from(self.is_used);
        bytes
    }

    /// The number of a sequence and its count from the log.
    ///
    /// # Errors
    /// `DataCorrupted`.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Result<(u64, SequenceCount)> {
        let damaged = || Error::new(SqlState::DataCorrupted, "the log has a sequence that is none");
        let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| damaged())?;
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let count = SequenceCount { changes: word(8), last: word(16) as i64, is_used: bytes[24] != 0 };
        Ok((word(0), count))
    }
}

/// Bytes of a count in the log.
pub(crate) const BYTES: usize = 25;
/// The kind of such a record.
pub(crate) const SEQUENCE: u8 = 3;
/// Numbers that a sequence asks the log for, at least and at most.
const WINDOW: std::ops::RangeInclusive<u32> = 32..=1 << 16;
/// Numbers that were used up within this time were few.
const SOON: Duration = Duration::from_secs(1);

/// How far a sequence has counted, and how far it may without asking.
struct Counting {
    count: SequenceCount,
    /// Numbers that the log knows of ahead.
    left: u64,
    /// What the log has been told last.
    told: SequenceCount,
    /// How many numbers it asked for last, and when.
    window: u32,
    asked: Option<Instant>,
}

impl Counting {
    fn of(count: SequenceCount) -> Counting {
        Counting { count, left: 0, told: count, window: *WINDOW.start(), asked: None }
    }

    fn set(&mut self, last: i64, is_used: bool) {
        self.count = SequenceCount { changes: self.count.changes + 1, last, is_used };
    }

    /// How many numbers to ask for now.
    fn widen(&mut self) -> u32 {
        let now = Instant::now();
        let is_soon = self.asked.is_some_and(|asked| now.duration_since(asked) < SOON);
        self.window = if is_soon { (self.window * 2).min(*WINDOW.end()) } else { *WINDOW.start() };
        self.asked = Some(now);
        self.window
    }
}

/// A sequence: its definition, and how far it has counted.
pub struct Sequence {
    definition: SequenceDefinition,
    /// The identity of what counts, unique in the database.
    number: u64,
    /// Shared with the same sequence under another definition.
    counting: Arc<Mutex<Counting>>,
    /// Whose log is told; `None` if it goes with its session.
    log: Option<Arc<TransactionManager>>,
}

impl Sequence {
    /// A sequence that has counted already.
    pub(crate) fn with_count(number: u64, definition: SequenceDefinition, count: SequenceCount) -> Sequence {
        Sequence { definition, number, counting: Arc::new(Mutex::new(Counting::of(count))), log: None }
    }

    /// This sequence, which tells the log of these transactions, if they have one.
    pub(crate) fn logged_by(self, transactions: &Arc<TransactionManager>) -> Sequence {
        Sequence { log: Some(transactions.clone()), ..self }
    }

    /// This sequence under another definition: both hand out numbers of one series.
    pub(crate) fn redefined(&self, definition: SequenceDefinition) -> Sequence {
        let (number, counting, log) = (self.number, self.counting.clone(), self.log.clone());
        Sequence { definition, number, counting, log }
    }

    /// The identity of what counts, unique in the database: it stays when the sequence gets another definition, and is another one when
    /// that makes it begin again.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How far it has counted.
    pub fn count(&self) -> SequenceCount {
        self.counting.lock().count
    }

    /// How far the log says that it may have counted: as far as it has, or further.
    pub(crate) fn told(&self) -> SequenceCount {
        let counting = self.counting.lock();
        if counting.told.changes > counting.count.changes { counting.told } else { counting.count }
    }

    /// Its name with its schema.
    pub fn full_name(&self) -> RelationName {
        RelationName::new(self.definition.schema, self.name())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// How it counts.
    pub fn definition(&self) -> &SequenceDefinition {
        &self.definition
    }

    /// The next number, which no other caller gets until the sequence begins again. Some tens of nanoseconds, and a line
    /// that all who count share.
    ///
    /// # Errors
    /// `SequenceGeneratorLimitExceeded` at the end of one that does not begin again; those of the log.
    pub fn next(&self) -> Result<i64> {
        let SequenceDefinition { increment, minimum, maximum, cycle, .. } = self.definition;
        let mut counting = self.counting.lock();
        let SequenceCount { last, is_used, .. } = counting.count;
        let next = if is_used { last.checked_add(increment) } else { Some(last) };
        let next = match next.filter(|next| (minimum..=maximum).contains(next)) {
            Some(next) => next,
            None if cycle && increment > 0 => minimum,
            None if cycle => maximum,
            None => {
                let (end, limit) = if increment > 0 { ("maximum", maximum) } else { ("minimum", minimum) };
                let message =
                    format!("nextval: reached {end} value of sequence \"{}\" ({limit})", self.name());
                return Err(Error::new(SqlState::SequenceGeneratorLimitExceeded, message));
            }
        };
        if counting.left == 0 {
            self.ask(&mut counting, next)?;
        }
        counting.left -= 1;
        counting.set(next, true);
        Ok(next)
    }

    /// Tells the log that numbers from this one on are going to be handed out.
    #[cold]
    fn ask(&self, counting: &mut Counting, next: i64) -> Result<()> {
        let Some(log) = self.log.as_ref().filter(|log| log.is_logged()) else {
            counting.left = u64::MAX;
            return Ok(());
        };
        let SequenceDefinition { increment, minimum, maximum, .. } = self.definition;
        let window = counting.widen();
        let further = i128::from(increment) * i128::from(window - 1);
        let reached = (i128::from(next) + further).clamp(minimum.into(), maximum.into()) as i64;
        let changes = counting.count.changes + u64::from(window);
        self.tell(log, counting, SequenceCount { changes, last: reached, is_used: true })?;
        counting.left = window.into();
        Ok(())
    }

    fn tell(&self, log: &TransactionManager, counting: &mut Counting, count: SequenceCount) -> Result<()> {
        log.log_alone(SEQUENCE, &count.to_bytes(self.number))?;
        counting.told = count;
        Ok(())
    }

    /// Counts from somewhere else on, which is the newest that the log is told.
    fn jump(&self, last: i64, is_used: bool) -> Result<()> {
        let mut counting = self.counting.lock();
        let changes = counting.count.changes.max(counting.told.changes) + 1;
        let count = SequenceCount { changes, last, is_used };
        if let Some(log) = self.log.as_ref().filter(|log| log.is_logged()) {
            self.tell(log, &mut counting, count)?;
        }
        (counting.count, counting.left) = (count, 0);
        Ok(())
    }

    /// Goes on behind `last`, or, if that has not been handed out (`is_used`), at it.
    ///
    /// # Errors
    /// `NumericValueOutOfRange` for a number that it does not reach; those of the log.
    pub fn set(&self, last: i64, is_used: bool) -> Result<()> {
        let SequenceDefinition { minimum, maximum, .. } = self.definition;
        if !(minimum..=maximum).contains(&last) {
            let message = format!(
                "setval: value {last} is out of bounds for sequence \"{}\" ({minimum}..{maximum})",
                self.name()
            );
            return Err(Error::new(SqlState::NumericValueOutOfRange, message));
        }
        self.jump(last, is_used)
    }

    /// Begins again.
    ///
    /// # Errors
    /// Those of the log.
    pub fn restart(&self) -> Result<()> {
        self.jump(self.definition.start, false)
    }

    /// The last number, and whether it has been handed out.
    pub fn last(&self) -> (i64, bool) {
        let SequenceCount { last, is_used, .. } = self.count();
        (last, is_used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(change: impl FnOnce(&mut SequenceDefinition)) -> Sequence {
        let mut definition = SequenceDefinition::new("s", DataType::SmallInt);
        change(&mut definition);
        definition.validate().unwrap();
        {
            let start = SequenceCount::starting_at(definition.start);
            Sequence::with_count(1, definition, start)
        }
    }

    #[test]
    fn each_change_is_counted_also_under_another_definition() {
        let numbers = sequence(|_| ());
        let other = numbers.redefined(numbers.definition().clone());
        numbers.next().unwrap();
        other.next().unwrap();
        numbers.set(7, false).unwrap();
        assert!(numbers.set(0, false).is_err());
        assert_eq!(other.count(), SequenceCount { changes: 3, last: 7, is_used: false });
        other.restart().unwrap();
        assert_eq!((numbers.count().changes, other.number()), (4, numbers.number()));
    }

    #[test]
    fn numbers_come_in_order_up_to_the_end() {
        let numbers = sequence(|definition| definition.maximum = 3);
        assert_eq!([numbers.next(), numbers.next(), numbers.next()], [Ok(1), Ok(2), Ok(3)]);
        assert_eq!(numbers.next().unwrap_err().state(), SqlState::SequenceGeneratorLimitExceeded);
        numbers.set(2, true).unwrap();
        assert_eq!((numbers.next(), numbers.last()), (Ok(3), (3, true)));
        numbers.set(2, false).unwrap();
        assert_eq!(numbers.next(), Ok(2));
        assert_eq!(numbers.set(4, true).unwrap_err().state(), SqlState::NumericValueOutOfRange);
        numbers.restart().unwrap();
        assert_eq!(numbers.next(), Ok(1));
    }

    #[test]
    fn they_may_count_down_and_begin_again() {
        let numbers = sequence(|definition| {
            (definition.minimum, definition.maximum, definition.start, definition.increment) = (-3, 5, 5, -4);
            definition.cycle = true;
        });
        assert_eq!(
            [numbers.next(), numbers.next(), numbers.next(), numbers.next()],
            [Ok(5), Ok(1), Ok(-3), Ok(5)]
        );
        let numbers = sequence(|definition| (definition.increment, definition.start) = (i64::MAX, 32_767));
        assert_eq!((numbers.next(), numbers.next().is_err()), (Ok(32_767), true));
    }
}
