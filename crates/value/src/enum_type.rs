//! Types whose values are a list of labels: what `CREATE TYPE ... AS ENUM` makes.
//!
//! A value is a *position*, 64 bits whose order is the order of the labels. Positions are 2^40 apart at first; a label that is added
//! between two others takes the middle, so no value that is stored ever changes, and cells, keys of indexes and Arrow's arrays
//! compare as numbers do.
//!
//! ```text
//! EnumType    number, oid        what columns, values and plans have: the same as long as the type lives
//!    └─ EnumState  name, labels  as it is now; ALTER TYPE makes another one, which is put in place when it commits
//! ```
//! Besides its number a living type has a *slot*, one of a few thousand, which is small enough to be told by a type of the query engine's.
//! When nobody knows the type any more ([`EnumLife`]), another one may get the slot, but not before all others had their turn.
//!
//! Types and states are numbered in tables of the process that only grow and are read without a lock, also in a forked copy. They
//! stay when a type is dropped, since a value or a result may still have it; so their memory is limited.

use crate::numbered::{Numbered, charge};
use ankerdb_base::{Error, Result, SqlState};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// How far apart the positions of labels are that are made together: room for 40 labels between the same two, each beside the last.
const STEP: i64 = 1 << 40;
/// The longest label, in bytes, as in PostgreSQL.
const LABEL_BYTES_MAX: usize = 63;
/// The first number that clients know a type by. Numbers of tables and other objects are counted from far below.
const FIRST_OID: u32 = 1 << 30;
/// Oids of a type: its own, and that of arrays of it.
const OIDS_OF_TYPE: u32 = 2;

/// A type whose values are labels, by its number: types of columns stay as small as they are without.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EnumType(u32);

struct Identity {
    oid: u32,
    slot: u32,
    /// Which state is the current one.
    state: AtomicU32,
}

/// A type's name and labels, as they are, or were, at some time.
#[derive(Debug)]
pub struct EnumState {
    number: u32,
    name: Box<str>,
    list_name: Box<str>,
    /// In their order.
    labels: Box<[Label]>,
    /// Places in `labels`, by their texts.
    by_text: Box<[u32]>,
}

/// A label.
#[derive(Clone, Debug)]
pub struct Label {
    /// What stands for it in values.
    pub position: i64,
    /// Its number in the system catalog.
    pub oid: u32,
    /// As it is written.
    pub text: &'static str,
}

/// Where a label is added.
#[derive(Clone, Copy, Debug)]
pub enum EnumPlace<'a> {
    /// Behind all others.
    Last,
    /// Before this one.
    Before(&'a str),
    /// Behind this one.
    After(&'a str),
}

/// Slots that types can have: as many types can live at a time.
pub const ENUM_SLOTS: usize = 9040;

/// The type that has, or had last, each slot: its number and one more; 0 if there was none.
static SLOTS: [AtomicU32; ENUM_SLOTS] = [const { AtomicU32::new(0) }; ENUM_SLOTS];
/// Which slots have types that live.
static LIVING: [AtomicBool; ENUM_SLOTS] = [const { AtomicBool::new(false) }; ENUM_SLOTS];
/// Where the next free slot is looked for.
static NEXT_SLOT: AtomicUsize = AtomicUsize::new(0);

/// Takes a slot that no living type has, the one that was free for longest.
///
/// # Errors
/// `ProgramLimitExceeded` if there is none.
fn take_slot() -> Result<u32> {
    for _ in 0..ENUM_SLOTS {
        let slot = NEXT_SLOT.fetch_add(1, Ordering::Relaxed) % ENUM_SLOTS;
        if !LIVING[slot].swap(true, Ordering::AcqRel) {
            return Ok(slot as u32);
        }
    }
    let message = format!("there cannot be more than {ENUM_SLOTS} enum types at a time");
    Err(Error::new(SqlState::ProgramLimitExceeded, message))
}

/// Says that a type lives. When the last of these is dropped that a type has, others may get its slot.
#[derive(Debug)]
pub struct EnumLife(EnumType);

impl Drop for EnumLife {
    fn drop(&mut self) {
        LIVING[self.0.slot() as usize].store(false, Ordering::Release);
    }
}

static TYPES: Numbered<Identity> = Numbered::new();
static STATES: Numbered<EnumState> = Numbered::new();
static OIDS: AtomicU32 = AtomicU32::new(FIRST_OID);

fn label(text: &str, position: i64) -> Result<Label> {
    if text.len() > LABEL_BYTES_MAX {
        let message = format!("invalid enum label \"{text}\"");
        let detail = format!("Labels must be {LABEL_BYTES_MAX} bytes or less.");
        return Err(Error::new(SqlState::InvalidName, message).with_detail(detail));
    }
    charge(text.len())?;
    let oid = OIDS.fetch_add(1, Ordering::Relaxed);
    Ok(Label { position, oid, text: Box::leak(text.into()) })
}

impl EnumState {
    fn add(name: &str, labels: Vec<Label>) -> Result<&'static EnumState> {
        charge(
            size_of::<EnumState>() + 2 * name.len() + labels.len() * (size_of::<Label>() + size_of::<u32>()),
        )?;
        let mut by_text: Vec<u32> = (0..labels.len() as u32).collect();
        by_text.sort_unstable_by_key(|&at| labels[at as usize].text);
        Ok(STATES.add(|number| EnumState {
            number,
            name: name.into(),
            list_name: format!("{name}[]").into(),
            labels: labels.into(),
            by_text: by_text.into(),
        }))
    }

    /// The type's name, without its schema.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The labels, in their order.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// The label that is written so. Some comparisons of texts.
    pub fn label(&self, text: &str) -> Option<&Label> {
        let found = self.by_text.binary_search_by_key(&text, |&at| self.labels[at as usize].text);
        Some(&self.labels[self.by_text[found.ok()?] as usize])
    }

    fn at(&self, position: i64) -> Option<&Label> {
        let found = self.labels.binary_search_by_key(&position, |label| label.position);
        Some(&self.labels[found.ok()?])
    }

    /// These labels under another name of the type.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn renamed(&self, name: &str) -> Result<&'static EnumState> {
        EnumState::add(name, self.labels.to_vec())
    }

    /// With one label more.
    ///
    /// # Errors
    /// `InvalidName` for a label that is too long, `DuplicateObject` for one that there is, `InvalidParameterValue` for a neighbor that
    /// there is not, `ProgramLimitExceeded` if there is no position left between two neighbors, `OutOfMemory`.
    pub fn with_label(&self, text: &str, place: EnumPlace<'_>) -> Result<&'static EnumState> {
        let mut added = label(text, 0)?;
        if self.label(text).is_some() {
            let message = format!("enum label \"{text}\" already exists");
            return Err(Error::new(SqlState::DuplicateObject, message));
        }
        let neighbor = |text: &str| {
            let found = self.labels.iter().position(|label| label.text == text);
            found.ok_or_else(|| no_label(text))
        };
        let at = match place {
            EnumPlace::Last => self.labels.len(),
            EnumPlace::Before(text) => neighbor(text)?,
            EnumPlace::After(text) => neighbor(text)? + 1,
        };
        let before = at.checked_sub(1).map(|before| self.labels[before].position);
        let after = self.labels.get(at).map(|label| label.position);
        added.position = between(before, after)?;
        let mut labels = self.labels.to_vec();
        labels.insert(at, added);
        EnumState::add(&self.name, labels)
    }

    /// With another text for a label.
    ///
    /// # Errors
    /// `InvalidName` for a label that is too long, `DuplicateObject` for one that there is, `InvalidParameterValue` for a label that there is
    /// not, `OutOfMemory`.
    pub fn with_renamed(&self, old: &str, new: &str) -> Result<&'static EnumState> {
        let text = label(new, 0)?.text;
        let at = self.labels.iter().position(|label| label.text == old).ok_or_else(|| no_label(old))?;
        if self.label(new).is_some() {
            let message = format!("enum label \"{new}\" already exists");
            return Err(Error::new(SqlState::DuplicateObject, message));
        }
        let mut labels = self.labels.to_vec();
        labels[at].text = text;
        EnumState::add(&self.name, labels)
    }
}

fn no_label(text: &str) -> Error {
    Error::new(SqlState::InvalidParameterValue, format!("\"{text}\" is not an existing enum label"))
}

/// A position between two, or a step beyond one.
fn between(before: Option<i64>, after: Option<i64>) -> Result<i64> {
    let found = match (before, after) {
        (None, None) => Some(0),
        (Some(before), None) => before.checked_add(STEP),
        (None, Some(after)) => after.checked_sub(STEP),
        (Some(before), Some(after)) => Some(before + (after - before) / 2).filter(|middle| *middle > before),
    };
    found.ok_or_else(|| {
        let message = "too many labels were added between two labels of an enum";
        let hint = "Create another type with these labels, and change columns to it.";
        Error::new(SqlState::ProgramLimitExceeded, message).with_hint(hint)
    })
}

impl EnumType {
    /// A type with labels in this order, and what says that it lives.
    ///
    /// # Errors
    /// `InvalidName` for a label that is too long, `UniqueViolation` for one that comes twice, `ProgramLimitExceeded` for too many types,
    /// `OutOfMemory`.
    pub fn create<'a>(name: &str, texts: impl IntoIterator<Item = &'a str>) -> Result<(EnumType, EnumLife)> {
        let labels = texts.into_iter().zip(0..).map(|(text, at)| label(text, at * STEP));
        let state = EnumState::add(name, labels.collect::<Result<Vec<_>>>()?)?;
        let oid = OIDS.fetch_add(OIDS_OF_TYPE, Ordering::Relaxed);
        let texts = |pair: &[u32]| [pair[0], pair[1]].map(|at| state.labels[at as usize].text);
        if let Some([text, _]) = state.by_text.windows(2).map(texts).find(|[one, other]| one == other) {
            let message = "duplicate key value violates unique constraint \"pg_enum_typid_label_index\"";
            let detail = format!("Key (enumtypid, enumlabel)=({oid}, {text}) already exists.");
            return Err(Error::new(SqlState::UniqueViolation, message).with_detail(detail));
        }
        EnumType::of_state(oid, state)
    }

    /// A type that another process has made, with the numbers that clients know it and its labels by, which stay its own: types that are
    /// made from now on get others.
    ///
    /// # Errors
    /// `DataCorrupted` for labels out of order or of the same text, `ProgramLimitExceeded` for too many types, `OutOfMemory`.
    pub fn restore(name: &str, oid: u32, labels: &[(i64, u32, &str)]) -> Result<(EnumType, EnumLife)> {
        let damaged =
            || Error::new(SqlState::DataCorrupted, format!("the labels of type \"{name}\" are damaged"));
        let mut texts: Vec<&str> = labels.iter().map(|label| label.2).collect();
        texts.sort_unstable();
        // What is made of labels stays for good, so they are looked at before.
        if texts.iter().any(|text| text.len() > LABEL_BYTES_MAX)
            || texts.windows(2).any(|pair| pair[0] == pair[1])
            || labels.windows(2).any(|pair| pair[0].0 >= pair[1].0)
        {
            return Err(damaged());
        }
        charge(texts.iter().map(|text| text.len()).sum())?;
        EnumType::leave_oids(
            labels.iter().map(|(_, oid, _)| *oid).chain([oid.saturating_add(OIDS_OF_TYPE - 1)]),
        );
        let restored = labels.iter().map(|&(position, oid, text)| {
            let text: &'static str = Box::leak(text.into());
            Label { position, oid, text }
        });
        let state = EnumState::add(name, restored.collect())?;
        EnumType::of_state(oid, state)
    }

    /// Types and labels that are made from now on get none of these numbers, nor any below.
    pub fn leave_oids(taken: impl IntoIterator<Item = u32>) {
        if let Some(last) = taken.into_iter().max() {
            OIDS.fetch_max(last.saturating_add(1), Ordering::Relaxed);
        }
    }

    fn of_state(oid: u32, state: &'static EnumState) -> Result<(EnumType, EnumLife)> {
        charge(size_of::<Identity>())?;
        let slot = take_slot()?;
        let identity = Identity { oid, slot, state: AtomicU32::new(state.number) };
        let mut made = EnumType(0);
        TYPES.add(|number| {
            made = EnumType(number);
            identity
        });
        SLOTS[slot as usize].store(made.number() + 1, Ordering::Release);
        Ok((made, EnumLife(made)))
    }

    /// The type with this number.
    pub fn by_number(number: u32) -> Option<EnumType> {
        TYPES.get(number).map(|_| EnumType(number))
    }

    /// The type that clients know by this number, or whose arrays they know by it: one of those of all databases of the process, where they
    /// were restored with the same numbers. Costs a look at all types.
    pub fn by_oid(oid: u32) -> Option<EnumType> {
        let mut types = (0..TYPES.count()).filter_map(EnumType::by_number);
        types.find(|known| oid == known.oid() || oid == known.list_oid())
    }

    /// The type that has this slot.
    pub fn by_slot(slot: u32) -> Option<EnumType> {
        EnumType::by_number(SLOTS.get(slot as usize)?.load(Ordering::Acquire).checked_sub(1)?)
    }

    fn identity(self) -> &'static Identity {
        TYPES.get(self.0).expect("a type that was made")
    }

    /// Its slot.
    pub fn slot(self) -> u32 {
        self.identity().slot
    }

    /// Its number, by which this process knows it.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Its number in the system catalog, for clients, and in what is stored on disk.
    pub fn oid(self) -> u32 {
        self.identity().oid
    }

    /// The number of arrays of it.
    pub fn list_oid(self) -> u32 {
        self.identity().oid + 1
    }

    /// Name and labels as they are now.
    pub fn state(self) -> &'static EnumState {
        STATES.get(self.identity().state.load(Ordering::Acquire)).expect("a type has a state")
    }

    /// Lets everybody see another name or other labels. They have at least the positions of those before.
    pub fn set_state(self, state: &'static EnumState) {
        self.identity().state.store(state.number, Ordering::Release);
    }

    /// The name, without its schema.
    pub fn name(self) -> &'static str {
        &self.state().name
    }

    /// The name of arrays of it.
    pub fn list_name(self) -> &'static str {
        &self.state().list_name
    }

    /// The value that is written so.
    ///
    /// # Errors
    /// `InvalidTextRepresentation` if there is no such label.
    pub fn value(self, text: &str) -> Result<EnumValue> {
        match self.state().label(text) {
            Some(label) => Ok(EnumValue { enum_type: self, position: label.position }),
            None => {
                let message = format!("invalid input value for enum {}: \"{text}\"", self.name());
                Err(Error::new(SqlState::InvalidTextRepresentation, message))
            }
        }
    }

    /// The value with this position.
    pub fn at(self, position: i64) -> EnumValue {
        EnumValue { enum_type: self, position }
    }
}

impl fmt::Debug for EnumType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "enum {} {}", self.0, self.name())
    }
}

/// A value of such a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnumValue {
    /// Its type.
    pub enum_type: EnumType,
    /// The position of its label.
    pub position: i64,
}

impl EnumValue {
    /// The label, as it is written now.
    pub fn label(self) -> &'static str {
        self.enum_type.state().at(self.position).map_or("", |label| label.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(state: &EnumState) -> Vec<&'static str> {
        state.labels().iter().map(|label| label.text).collect()
    }

    #[test]
    fn values_order_as_labels_do_also_when_labels_come_between() {
        let (mood, _life) = EnumType::create("mood", ["sad", "happy"]).unwrap();
        let (sad, happy) = (mood.value("sad").unwrap(), mood.value("happy").unwrap());
        mood.set_state(mood.state().with_label("ok", EnumPlace::Before("happy")).unwrap());
        mood.set_state(mood.state().with_label("first", EnumPlace::Before("sad")).unwrap());
        mood.set_state(mood.state().with_label("fine", EnumPlace::After("ok")).unwrap());
        mood.set_state(mood.state().with_label("last", EnumPlace::Last).unwrap());
        assert_eq!(texts(mood.state()), ["first", "sad", "ok", "fine", "happy", "last"]);
        assert!(mood.state().labels().is_sorted_by_key(|label| label.position));
        assert_eq!((sad.label(), happy.label()), ("sad", "happy"));
        for text in texts(mood.state()) {
            assert_eq!(mood.value(text).unwrap().label(), text);
        }
    }

    #[test]
    fn forty_labels_come_between_the_same_two() {
        let (many, _life) = EnumType::create("many", ["a", "z"]).unwrap();
        let mut state = many.state();
        for number in 0..40 {
            state = state.with_label(&number.to_string(), EnumPlace::Before("z")).unwrap();
        }
        let error = state.with_label("x", EnumPlace::Before("z")).unwrap_err();
        assert_eq!(error.state(), SqlState::ProgramLimitExceeded);
        assert!(state.labels().windows(2).all(|pair| pair[0].position < pair[1].position));
    }

    #[test]
    fn labels_are_renamed_and_types_too() {
        let (old, _life) = EnumType::create("old", ["a", "b"]).unwrap();
        let a = old.value("a").unwrap();
        old.set_state(old.state().with_renamed("a", "c").unwrap());
        old.set_state(old.state().renamed("new").unwrap());
        assert_eq!((a.label(), old.name(), old.list_name()), ("c", "new", "new[]"));
        assert_eq!(old.value("a").unwrap_err().message(), "invalid input value for enum new: \"a\"");
        let state = |result: Result<&'static EnumState>| result.unwrap_err().state();
        assert_eq!(state(old.state().with_renamed("a", "d")), SqlState::InvalidParameterValue);
        assert_eq!(state(old.state().with_renamed("c", "b")), SqlState::DuplicateObject);
        assert_eq!(state(old.state().with_label("b", EnumPlace::Last)), SqlState::DuplicateObject);
        assert_eq!(
            state(old.state().with_label("d", EnumPlace::After("a"))),
            SqlState::InvalidParameterValue
        );
        assert_eq!(state(old.state().with_label(&"x".repeat(64), EnumPlace::Last)), SqlState::InvalidName);
    }

    #[test]
    fn types_are_found_by_their_numbers() {
        let (one, _life) = EnumType::create("one", ["a"]).unwrap();
        let (other, _life) = EnumType::create("one", ["a"]).unwrap();
        assert_ne!(one, other);
        assert_eq!(EnumType::by_number(one.number()), Some(one));
        assert_eq!(EnumType::by_oid(other.oid()), Some(other));
        assert_eq!(EnumType::by_number(u32::MAX), None);
        assert_eq!(
            EnumType::create("two", ["b", "a", "b"]).map(drop).unwrap_err().state(),
            SqlState::UniqueViolation
        );
    }

    #[test]
    fn a_type_is_restored_with_its_numbers_and_positions() {
        let far = FIRST_OID + 10_000_000;
        let labels = [(-5, far + 7, "z"), (0, far, "a"), (1 << 40, far + 1, "m")];
        let (restored, _life) = EnumType::restore("kept", far + 2, &labels).unwrap();
        assert_eq!((restored.oid(), restored.list_oid(), restored.name()), (far + 2, far + 3, "kept"));
        assert_eq!(texts(restored.state()), ["z", "a", "m"]);
        assert_eq!(restored.value("m").unwrap().position, 1 << 40);
        let (next, _life) = EnumType::create("next", ["a"]).unwrap();
        assert!(
            next.oid() > far + 7 && next.state().labels()[0].oid > far + 7,
            "numbers are not given twice"
        );
        for damaged in [[(0, 1, "a"), (0, 2, "b")], [(0, 1, "a"), (1, 2, "a")], [(1, 1, "a"), (0, 2, "b")]] {
            let error = EnumType::restore("bad", 5, &damaged).map(drop).unwrap_err();
            assert_eq!(error.state(), SqlState::DataCorrupted);
        }
    }

    #[test]
    fn a_slot_is_taken_again_only_when_its_type_is_gone_and_others_had_their_turn() {
        let (stays, _life) = EnumType::create("stays", ["a"]).unwrap();
        let (gone, life) = EnumType::create("gone", ["a"]).unwrap();
        drop(life);
        assert_eq!(EnumType::by_slot(gone.slot()), Some(gone));
        for _ in 0..2 * ENUM_SLOTS {
            let (other, _life) = EnumType::create("other", ["a"]).unwrap();
            assert_ne!(other.slot(), stays.slot());
            assert_eq!(EnumType::by_slot(other.slot()), Some(other));
        }
        assert_eq!(EnumType::by_slot(stays.slot()), Some(stays));
        assert_ne!(EnumType::by_slot(gone.slot()), Some(gone));
    }
}
