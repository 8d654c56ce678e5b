//! An index of a table: its entries, and how a row's values become their keys.
//!
//! An entry (key, row) says that some state of the row has, or had, this key. Entries are added before a commit
//! installs and removed when no reader can see the state any more, so a reader that finds a row by a key checks
//! that the row exists for it and, if keys of this index were ever updated, that it has this key.

use crate::cell::Cell;
use crate::derivation::Derivation;
use crate::entries::Entries;
use crate::schema::IndexDefinition;
use ankerdb_base::{ColumnSet, Result, Timestamp};
use ankerdb_value::{DataType, Value, push_bigint, push_integer, push_smallint, push_value};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An index of a table.
pub struct Index {
    definition: IndexDefinition,
    /// The columns that keys are made of, with their types.
    sources: Vec<usize>,
    source_types: Vec<DataType>,
    key_types: Vec<(DataType, bool)>,
    key_columns: ColumnSet,
    entries: Entries,
    life: IndexLife,
}

/// What happens to an index as a whole. Like its [`Entries`], usable only by code that can name it.
pub struct IndexLife {
    /// Whether an update has ever changed a key column, so that entries may be out of date.
    keys_move: AtomicBool,
    /// Readers below this timestamp must not use the index: it may lack their rows. MAX while it is being built.
    valid_from: AtomicU64,
    dropped: AtomicBool,
    /// Whether the transaction has committed that made it.
    is_committed: AtomicBool,
}

impl Entries {
    /// The entries of an index.
    #[inline]
    pub fn of(index: &Index) -> &Entries {
        &index.entries
    }
}

impl IndexLife {
    /// The lifecycle of an index.
    #[inline]
    pub fn of(index: &Index) -> &IndexLife {
        &index.life
    }

    /// Notes that a commit is going to change a key.
    pub fn set_keys_move(&self) {
        self.keys_move.store(true, Ordering::Release);
    }

    /// The index is complete for readers from this timestamp on.
    pub fn set_valid_from(&self, timestamp: Timestamp) {
        self.valid_from.store(timestamp.0, Ordering::Release);
    }

    /// The transaction that made the index has committed.
    pub fn set_committed(&self) {
        self.is_committed.store(true, Ordering::Release);
    }

    /// Whether the transaction that made the index has committed: until then it may go again.
    pub fn is_committed(&self) -> bool {
        self.is_committed.load(Ordering::Acquire)
    }

    /// Ends the index: from the next commit on it is not maintained any more.
    pub fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }
}

impl Index {
    /// An empty index over columns of these types (and whether they may hold NULL).
    pub(crate) fn new(
        definition: IndexDefinition,
        columns: &[(DataType, bool)],
        valid_from: Timestamp,
    ) -> Index {
        let (sources, key_types) = match &definition.derivation {
            None => {
                let types = definition.columns.iter().map(|&column| columns[column]);
                (definition.columns.clone(), types.collect())
            }
            // Rows that are left out have NULLs.
            Some(derivation) => {
                let types = derivation.types.iter().map(|&data_type| (data_type, true));
                (derivation.sources.clone(), types.collect())
            }
        };
        Index {
            key_types,
            key_columns: ColumnSet::of(&sources),
            source_types: sources.iter().map(|&column| columns[column].0).collect(),
            sources,
            entries: Entries::new(definition.kind),
            definition,
            life: IndexLife {
                keys_move: AtomicBool::new(false),
                valid_from: AtomicU64::new(valid_from.0),
                dropped: AtomicBool::new(false),
                // One that is there from the beginning goes by its table.
                is_committed: AtomicBool::new(valid_from == Timestamp::ZERO),
            },
        }
    }

    /// What it was declared as.
    pub fn definition(&self) -> &IndexDefinition {
        &self.definition
    }

    /// The columns that its keys are made of: those of the key, or those that the key is computed of.
    #[inline]
    pub fn sources(&self) -> &[usize] {
        &self.sources
    }

    /// The type of each of these columns.
    pub(crate) fn source_types(&self) -> &[DataType] {
        &self.source_types
    }

    /// The parts of its key.
    pub fn part_count(&self) -> usize {
        self.key_types.len()
    }

    /// The type of a part of its key.
    #[inline]
    pub fn part_type(&self, part: usize) -> DataType {
        self.key_types[part].0
    }

    /// How its keys are computed, unless they are some columns.
    #[inline]
    pub fn derivation(&self) -> Option<&Derivation> {
        self.definition.derivation.as_deref()
    }

    /// The columns that its keys are made of, as a set.
    pub fn key_columns(&self) -> ColumnSet {
        self.key_columns
    }

    /// How many entries there are; approximate while transactions insert and remove.
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// Bytes that the entries take, approximately.
    pub fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes()
    }

    /// Whether entries may be out of date with their rows' newest keys.
    pub fn keys_move(&self) -> bool {
        self.life.keys_move.load(Ordering::Acquire)
    }

    /// From which timestamp on readers may use it.
    pub fn valid_from(&self) -> Timestamp {
        Timestamp(self.life.valid_from.load(Ordering::Acquire))
    }

    /// Whether it was dropped. Its position in the table stays taken.
    pub fn is_dropped(&self) -> bool {
        self.life.dropped.load(Ordering::Acquire)
    }

    /// Encodes a full key, or a prefix of it: values for the first key columns, of the columns' types. Keys order
    /// bytewise as their values do, and a prefix of the columns is a prefix of the bytes.
    ///
    /// # Errors
    /// `InternalError` if a value is not of its column's type.
    pub fn encode(&self, values: &[Value], out: &mut Vec<u8>) -> Result<()> {
        debug_assert!(values.len() <= self.key_types.len());
        values
            .iter()
            .zip(&self.key_types)
            .try_for_each(|(value, &(data_type, nullable))| push_value(out, value, data_type, nullable))
    }

    /// Appends one part of a key, given by its position among the key columns: the cell of a row in that column.
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode).
    #[inline]
    pub fn push_part(&self, part: usize, cell: Cell<'_>, out: &mut Vec<u8>) -> Result<()> {
        let (data_type, nullable) = self.key_types[part];
        if !nullable && let Cell::Word(word) = cell {
            match data_type {
                DataType::SmallInt => push_smallint(out, word as i16),
                DataType::Integer | DataType::Date => push_integer(out, word as i32),
                DataType::BigInt
                | DataType::Timestamp(_)
                | DataType::TimestampTz(_)
                | DataType::Time(_)
                | DataType::Enum(_) => push_bigint(out, word as i64),
                _ => return push_value(out, &cell.to_value(data_type), data_type, nullable),
            }
            return Ok(());
        }
        push_value(out, &cell.to_value(data_type), data_type, nullable)
    }

    /// Whether a key equals no other, if a part of it is NULL.
    #[inline]
    pub fn is_apart(&self, has_null: bool) -> bool {
        has_null && !self.definition.style.nulls_are_equal
    }

    /// Encodes the key of a row whose values `value` gives by column position. Returns whether it equals no other, as a part of it
    /// is NULL.
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode), and of what computes the key.
    pub fn encode_row(&self, value: impl Fn(usize) -> Value, out: &mut Vec<u8>) -> Result<bool> {
        if let Some(derivation) = self.derivation() {
            return self.encode_derived(derivation, &value, out);
        }
        let mut has_null = false;
        for (&column, &(data_type, nullable)) in self.definition.columns.iter().zip(&self.key_types) {
            let value = value(column);
            has_null |= value.is_null();
            push_value(out, &value, data_type, nullable)?;
        }
        Ok(self.is_apart(has_null))
    }

    /// Appends the key that is computed of the values of its [`sources`](Self::sources), in their order.
    ///
    /// # Errors
    /// Those of [`encode_row`](Self::encode_row).
    pub fn encode_sources(&self, values: &[Value], out: &mut Vec<u8>) -> Result<bool> {
        let position = |column: usize| self.sources.iter().position(|source| *source == column);
        self.encode_row(|column| position(column).map_or(Value::Null, |at| values[at].clone()), out)
    }

    fn encode_derived(
        &self,
        derivation: &Derivation,
        value: &dyn Fn(usize) -> Value,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let key = derivation.function.key(value)?;
        let mut has_null = false;
        for (part, &(data_type, nullable)) in self.key_types.iter().enumerate() {
            let value = key.as_ref().map_or(&Value::Null, |key| &key[part]);
            has_null |= value.is_null();
            push_value(out, value, data_type, nullable)?;
        }
        // A row of which the index has no key is in none with others.
        Ok(key.is_none() || self.is_apart(has_null))
    }
}
