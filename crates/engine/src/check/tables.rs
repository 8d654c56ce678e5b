//! Rows against entries of indexes, both ways, and rows against constraints.
//!
//! ```text
//! each row      NOT NULL │ CHECK │ the rows that it refers to
//! each entry    a row that has the key │ of a unique index no other one with that key
//! each key      a lookup finds the first row that the walk over all entries has found
//! each index    every row has an entry; as many entries as rows
//! ```
//!
//! Nothing is looked for among the rows of a key, which may be all of the table.

use super::faults::Faults;
use super::references::{Parent, Referred};
use crate::catalog::Catalog;
use crate::processors::on_all_processors;
use ankerdb_base::{BlockNumber, Error, ROWS_PER_BLOCK, Result, RowId, SqlState};
use ankerdb_table::{Cell, Entries, Index, ReadAt, Storage, Table};
use ankerdb_value::{Value, format_text};
use crossbeam_epoch::Guard;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks of which one thread looks at the rows.
const BLOCKS_AT_ONCE: usize = 16;
/// Characters of a value, or bytes of a key, that a message shows.
const SHOWN_MAX: usize = 60;
/// Entries between two looks at how far it is.
const ENTRIES_TOLD: u64 = 1 << 16;

const OF_INDEX: &str = "Indexes are made of the rows at each start: check again. If it is found again, it is a defect of this program.";
const OF_ROW: &str = "Change or delete the row; or restore the folder from a backup in which it is right.";

/// A table, and what its rows are held against.
struct Checked<'a> {
    /// As it is told.
    name: String,
    table: &'a Arc<Table>,
    parents: Vec<Parent<'a>>,
    faults: &'a Faults,
}

enum Task<'a> {
    Rows(&'a Checked<'a>, Range<usize>),
    Entries(&'a Checked<'a>, &'a Index),
}

/// Looks at all tables, on all processors. Nobody may change them meanwhile.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn check(catalog: &Catalog, faults: &Faults, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<()> {
    let tables: Vec<Checked<'_>> =
        catalog.tables().map(|table| Checked::of(catalog, table, faults)).collect();
    let (mut tasks, mut total) = (Vec::new(), 0);
    for checked in &tables {
        let blocks = checked.table.block_count();
        let rows = checked.table.row_count() as u64;
        for (_, index) in checked.table.maintained_indexes() {
            tasks.push(Task::Entries(checked, index));
            total += index.entry_count() as u64;
        }
        let starts = (0..blocks).step_by(BLOCKS_AT_ONCE);
        let ranges = starts.map(|start| start..blocks.min(start + BLOCKS_AT_ONCE));
        tasks.extend(ranges.map(|range| Task::Rows(checked, range)));
        total += rows;
    }
    let done = AtomicU64::new(0);
    let tell = |count: u64| progress(done.fetch_add(count, Ordering::Relaxed) + count, total);
    on_all_processors(&tasks, |task| match task {
        Task::Rows(checked, blocks) => checked.check_rows(blocks.clone(), &tell),
        Task::Entries(checked, index) => checked.check_entries(index, &tell),
    })
}

impl<'a> Checked<'a> {
    fn of(catalog: &Catalog, table: &'a Arc<Table>, faults: &'a Faults) -> Checked<'a> {
        let name = format!("{}.{}", catalog.schema_of(table), table.name());
        let mut parents = Vec::new();
        for key in table.definition().foreign_keys.iter().filter(|key| key.is_validated) {
            match Parent::of(catalog, table, key) {
                Ok(parent) => parents.push(parent),
                Err(error) => {
                    let message = format!("table \"{name}\": {}", error.message());
                    let hint = "Drop the constraint, and add it again.";
                    faults.tell(Error::new(SqlState::DataCorrupted, message).with_hint(hint));
                }
            }
        }
        Checked { name, table, parents, faults }
    }

    /// Looks at each row of some blocks.
    fn check_rows(&self, blocks: Range<usize>, tell: &dyn Fn(u64)) -> Result<()> {
        let storage = Storage::of(self.table);
        for number in blocks.map(BlockNumber) {
            let pin = crossbeam_epoch::pin();
            let mut count = 0;
            for offset in storage.block(number).exists().rows() {
                self.check_constraints(RowId::new(number, offset), &pin);
                count += 1;
            }
            tell(count);
        }
        Ok(())
    }

    fn check_constraints(&self, row: RowId, pin: &Guard) {
        let storage = Storage::of(self.table);
        let value = |column: usize| storage.value(row, column, ReadAt::Newest, pin).unwrap_or(Value::Null);
        for (number, column) in self.table.columns().iter().enumerate() {
            if !column.nullable && value(number).is_null() {
                self.tell(OF_ROW, row, &format!("has NULL in column \"{}\", which is NOT NULL", column.name));
            }
        }
        for (number, column) in self.table.columns().iter().enumerate() {
            let Some(zone) = storage.block(row.block()).zone(number) else { continue };
            let Ok(Cell::Word(word)) = Cell::of(&value(number), column.data_type) else { continue };
            let is_within = |(least, greatest)| (least..=greatest).contains(&(word as i64));
            if !zone.bounds().is_some_and(is_within) {
                let what = format!(
                    "has a value in column \"{}\" that is outside of its block's bounds",
                    column.name
                );
                self.tell(OF_ROW, row, &what);
            }
        }
        for check in self.table.checks().iter().filter(|check| check.is_validated) {
            let wrong = match (check.test)(&value) {
                Ok(true) => continue,
                Ok(false) => format!("violates check constraint \"{}\" ({})", check.name, cut(&check.text)),
                Err(error) => format!("makes check constraint \"{}\" fail: {error}", check.name),
            };
            let columns: Vec<usize> =
                (0..self.table.columns().len()).filter(|column| check.columns.contains(*column)).collect();
            self.tell(OF_ROW, row, &format!("{wrong}: {}", self.shown(&columns, row, pin)));
        }
        for parent in &self.parents {
            let values: Vec<Value> = parent.key.columns.iter().map(|column| value(*column)).collect();
            let name = &parent.key.name;
            let wrong = match parent.referred(self.table, &values, pin) {
                Ok(Referred::Well) => continue,
                Ok(Referred::Missing) => {
                    format!(
                        "violates foreign key \"{name}\": no row of \"{}\" has its key",
                        parent.table.name()
                    )
                }
                Ok(Referred::Mixed) => {
                    format!(
                        "violates foreign key \"{name}\": MATCH FULL does not allow NULL in some columns only"
                    )
                }
                Err(error) => format!("makes foreign key \"{name}\" fail: {error}"),
            };
            self.tell(OF_ROW, row, &format!("{wrong} {}", self.shown(&parent.key.columns, row, pin)));
        }
    }

    /// Looks at each entry of an index, and then for rows that have none. Costs the same for keys that many rows have.
    fn check_entries(&self, index: &Index, tell: &dyn Fn(u64)) -> Result<()> {
        let storage = Storage::of(self.table);
        let (mut count, mut before, mut own) = (0, (Vec::new(), RowId(0)), Vec::new());
        let mut entered = EnteredRows::of(storage)?;
        Entries::of(index).visit_all(|key, row| {
            let row = RowId(row);
            let pin = crossbeam_epoch::pin();
            own.clear();
            let is_known = row.provisional_number().is_none() && row.block().0 < storage.block_count();
            let pushed = match is_known {
                true => storage.push_key_at(index, row, ReadAt::Newest, &pin, &mut own),
                false => Ok(None),
            };
            let is_first = count == 0 || before.0 != key;
            match pushed {
                Ok(Some(is_apart)) if own == key => {
                    entered.add(row);
                    if is_first {
                        self.check_lookup(index, key, row, &pin);
                    } else if index.definition().unique && !is_apart {
                        self.tell_second(index, row, before.1, &pin);
                    }
                }
                Ok(Some(_)) => self.tell_entry(index, key, row, "has another key"),
                Ok(None) => self.tell_entry(index, key, row, "is not there"),
                Err(error) => self.tell_entry(index, key, row, &format!("has no key: {error}")),
            }
            if is_first {
                before.0.clear();
                before.0.extend_from_slice(key);
            }
            before.1 = row;
            count += 1;
            if count % ENTRIES_TOLD == 0 {
                tell(ENTRIES_TOLD);
            }
            ControlFlow::Continue(())
        });
        tell(count % ENTRIES_TOLD);
        self.check_that_all_are_entered(index, &entered);
        let rows = self.table.row_count() as u64;
        if count != rows {
            let message = format!(
                "table \"{}\": index \"{}\" has {count} entries, the table has {rows} rows",
                self.name,
                name_of(index)
            );
            self.faults.tell(Error::new(SqlState::IndexCorrupted, message).with_hint(OF_INDEX));
        }
        Ok(())
    }

    /// That a lookup finds what the walk over all entries has found: the first row of a key.
    fn check_lookup(&self, index: &Index, key: &[u8], row: RowId, pin: &Guard) {
        let mut first = None;
        Entries::of(index).get(key, |found| {
            first = Some(found);
            ControlFlow::Break(())
        });
        if first != Some(row.0) {
            self.tell_missing(index, row, pin);
        }
    }

    /// That each row has its entry.
    fn check_that_all_are_entered(&self, index: &Index, entered: &EnteredRows) {
        let (storage, mut key) = (Storage::of(self.table), Vec::new());
        for number in storage.block_numbers() {
            let pin = crossbeam_epoch::pin();
            for offset in storage.block(number).exists().rows() {
                let row = RowId::new(number, offset);
                if entered.has(row) {
                    continue;
                }
                key.clear();
                match storage.push_key_at(index, row, ReadAt::Newest, &pin, &mut key) {
                    Ok(Some(_)) => self.tell_missing(index, row, &pin),
                    Ok(None) => {}
                    Err(error) => {
                        let what = format!("has no key in index \"{}\": {error}", name_of(index));
                        self.tell(OF_ROW, row, &what);
                    }
                }
            }
        }
    }

    #[cold]
    fn tell_missing(&self, index: &Index, row: RowId, pin: &Guard) {
        let shown = self.shown(index.sources(), row, pin);
        let what = format!("has no entry in index \"{}\" under its key {shown}", name_of(index));
        self.tell(OF_INDEX, row, &what);
    }

    #[cold]
    fn tell_second(&self, index: &Index, row: RowId, other: RowId, pin: &Guard) {
        let (name, shown) = (name_of(index), self.shown(index.sources(), row, pin));
        let other = place(other);
        let what = format!("has the key {shown} of unique index \"{name}\" that the row at {other} has");
        self.tell(OF_ROW, row, &what);
    }

    #[cold]
    fn tell(&self, hint: &'static str, row: RowId, what: &str) {
        let message = format!("table \"{}\": the row at {} {what}", self.name, place(row));
        let state = if hint == OF_INDEX { SqlState::IndexCorrupted } else { SqlState::DataCorrupted };
        self.faults.tell(Error::new(state, message).with_hint(hint));
    }

    #[cold]
    fn tell_entry(&self, index: &Index, key: &[u8], row: RowId, what: &str) {
        let shown: String = key.iter().take(SHOWN_MAX / 2).map(|byte| format!("{byte:02x}")).collect();
        let more = if key.len() > SHOWN_MAX / 2 { "..." } else { "" };
        let message = format!(
            "table \"{}\": an entry of index \"{}\" under key \\x{shown}{more} leads to the row at {}, which {what}",
            self.name,
            name_of(index),
            place(row)
        );
        self.faults.tell(Error::new(SqlState::IndexCorrupted, message).with_hint(OF_INDEX));
    }

    /// Values of a row with their columns' names: `(a, b)=(1, 2)`.
    #[cold]
    fn shown(&self, columns: &[usize], row: RowId, pin: &Guard) -> String {
        let names: Vec<&str> = columns.iter().map(|column| &self.table.columns()[*column].name[..]).collect();
        let text = |column: &usize| {
            let value = Storage::of(self.table).value(row, *column, ReadAt::Newest, pin);
            let mut text = String::new();
            match value.unwrap_or(Value::Null) {
                Value::Null => text.push_str("NULL"),
                value => format_text(&value, self.table.data_type(*column), &mut text),
            }
            cut(&text)
        };
        let values: Vec<String> = columns.iter().map(text).collect();
        format!("({})=({})", names.join(", "), values.join(", "))
    }
}

/// The rows that an index has entries of, a bit for each.
struct EnteredRows(Vec<u64>);

impl EnteredRows {
    /// None yet.
    fn of(storage: &Storage) -> Result<EnteredRows> {
        let words = storage.block_count() * ROWS_PER_BLOCK / 64;
        let mut bits = Vec::new();
        bits.try_reserve_exact(words).map_err(|_| Error::out_of_memory(words * 8))?;
        bits.resize(words, 0);
        Ok(EnteredRows(bits))
    }

    fn place(row: RowId) -> (usize, u64) {
        let position = row.block().0 * ROWS_PER_BLOCK + row.offset();
        (position / 64, 1 << (position % 64))
    }

    fn add(&mut self, row: RowId) {
        let (word, bit) = EnteredRows::place(row);
        self.0[word] |= bit;
    }

    fn has(&self, row: RowId) -> bool {
        let (word, bit) = EnteredRows::place(row);
        self.0[word] & bit != 0
    }
}

fn name_of(index: &Index) -> &str {
    &index.definition().name
}

/// Where a row lies.
fn place(row: RowId) -> String {
    match row.provisional_number() {
        Some(_) => "no place".to_owned(),
        None => format!("place {} of block {}", row.offset(), row.block()),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
