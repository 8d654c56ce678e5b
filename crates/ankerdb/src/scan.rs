//! Many rows of a table: all of them, or a range of an index in the order of its keys.
//!
//! The rows are found when the iteration begins, all at once, and read one by one after that. So a loop may change the
//! table: its changes do not affect which rows come. A [`limit`](Scan::limit) ends the search early, and then only
//! what was searched counts as read.

use crate::column::position_of;
use crate::error::{Error, Result};
use crate::open_table::{OpenTable, TableRow};
use crate::values::Values;
use ankerdb_engine::{
    ColumnSet, Direction, IndexKind, IndexPosition, KeyRange, RowId, SqlState, Transaction,
};
use std::fmt;
use std::ops::{Bound, ControlFlow, RangeBounds};

impl<'t, 'c> OpenTable<'t, 'c> {
    /// All rows, in no order.
    ///
    /// At SERIALIZABLE a change of any row that is committed meanwhile is a conflict: of the columns that
    /// [`Scan::columns`] names, or else of any.
    pub fn scan(&self) -> Scan<'t, 'c> {
        Scan::new(*self, Ok(Where::All))
    }

    /// The rows whose primary keys lie in a range, in the order of the keys: `1..=5`, `(1, 10)..(2, 0)`, `100..`. A
    /// bound may be the first parts of a key: it stands for all keys that begin so.
    ///
    /// Errors come from the iteration: those of [`get`](OpenTable::get), and `FeatureNotSupported` if the primary key
    /// has no order (`USING HASH`).
    pub fn range<K: Values>(&self, keys: impl RangeBounds<K>) -> Scan<'t, 'c> {
        let range = self.primary_key().and_then(|index| range_of(self, index, &keys));
        Scan::new(*self, range)
    }

    /// An index, by its name.
    ///
    /// # Errors
    /// `UndefinedObject`.
    pub fn index(&self, name: &str) -> Result<OpenIndex<'t, 'c>> {
        let mut indexes = self.engine().usable_indexes();
        match indexes.find(|(_, index)| index.definition().name == name) {
            Some((position, _)) => Ok(OpenIndex { table: *self, position }),
            None => Err(Error::new(SqlState::UndefinedObject, format!("index \"{name}\" does not exist"))),
        }
    }
}

/// An index of a table in a transaction: of [`OpenTable::index`].
///
/// ```
/// # use ankerdb::{ColumnDefinition, DataType, Database, TableDefinition};
/// # let db = Database::in_memory()?;
/// let definition = TableDefinition::new("account")
///     .column(ColumnDefinition::new("id", DataType::Integer))
///     .column(ColumnDefinition::new("owner", DataType::Text))
///     .primary_key(&["id"])
///     .index("account_by_owner", &["owner"], false);
/// db.create_table(definition)?;
/// let anns = db.transaction(|tx| {
///     let account = tx.table("account")?;
///     account.insert((1, "Ann"))?;
///     account.insert((2, "Bob"))?;
///     account.insert((3, "Ann"))?;
///     let anns = account.index("account_by_owner")?.get("Ann");
///     anns.into_iter().map(|row| row?.get::<i32>("id")).collect::<ankerdb::Result<Vec<_>>>()
/// })?;
/// assert_eq!(anns, [1, 3]);
/// # Ok::<(), ankerdb::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct OpenIndex<'t, 'c> {
    table: OpenTable<'t, 'c>,
    position: IndexPosition,
}

impl fmt::Debug for OpenIndex<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = self.table.engine().index(self.position);
        f.debug_tuple("OpenIndex").field(&index.definition().name).finish()
    }
}

impl<'t, 'c> OpenIndex<'t, 'c> {
    /// The rows with this key, or, of an index with an order, those whose keys begin so.
    ///
    /// Errors come from the iteration: as of [`OpenTable::range`].
    pub fn get(&self, key: impl Values) -> Scan<'t, 'c> {
        Scan::new(self.table, equal(&self.table, self.position, &key))
    }

    /// The rows whose keys lie in a range, in the order of the keys, as [`OpenTable::range`] has it.
    pub fn range<K: Values>(&self, keys: impl RangeBounds<K>) -> Scan<'t, 'c> {
        Scan::new(self.table, range_of(&self.table, self.position, &keys))
    }

    /// All rows, in the order of the keys.
    pub fn scan(&self) -> Scan<'t, 'c> {
        self.range::<()>(..)
    }
}

/// Where a scan looks.
enum Where {
    All,
    Range(IndexPosition, KeyRange),
    /// Nothing equals NULL.
    Nowhere,
}

/// Rows to be found, as [`OpenTable::scan`], [`OpenTable::range`] and [`OpenIndex`] give them. Iterate over it with
/// `for`.
///
/// ```
/// # use ankerdb::{ColumnDefinition, DataType, Database, TableDefinition};
/// # let db = Database::in_memory()?;
/// # let definition = TableDefinition::new("event").column(ColumnDefinition::new("id", DataType::Integer)).primary_key(&["id"]);
/// # db.create_table(definition)?;
/// let newest = db.transaction(|tx| {
///     let event = tx.table("event")?;
///     (0..10).try_for_each(|id| event.insert(id))?;
///     let newest = event.range::<i32>(..).descending().limit(3);
///     newest.into_iter().map(|row| row?.get(0)).collect::<ankerdb::Result<Vec<i32>>>()
/// })?;
/// assert_eq!(newest, [9, 8, 7]);
/// # Ok::<(), ankerdb::Error>(())
/// ```
#[must_use = "the rows are found when it is iterated over"]
pub struct Scan<'t, 'c> {
    table: OpenTable<'t, 'c>,
    at: Result<Where>,
    direction: Direction,
    limit: usize,
    columns: Result<Option<ColumnSet>>,
}

impl fmt::Debug for Scan<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan")
            .field("table", &self.table.name())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl<'t, 'c> Scan<'t, 'c> {
    fn new(table: OpenTable<'t, 'c>, at: Result<Where>) -> Scan<'t, 'c> {
        Scan { table, at, direction: Direction::Forward, limit: usize::MAX, columns: Ok(None) }
    }

    /// From the largest key to the smallest. Changes nothing for a scan of all rows, which has no order.
    pub fn descending(mut self) -> Scan<'t, 'c> {
        self.direction = Direction::Backward;
        self
    }

    /// At most so many rows.
    pub fn limit(mut self, rows: usize) -> Scan<'t, 'c> {
        self.limit = rows;
        self
    }

    /// Names the columns that are going to be read, so that they need not be noted row by row: fewer conflicts for a
    /// scan of all rows, and less work for a range. Others can be read all the same.
    pub fn columns(mut self, names: &[&str]) -> Scan<'t, 'c> {
        let positions = names.iter().map(|name| position_of(self.table.engine(), name));
        let positions = positions.collect::<Result<Vec<_>>>();
        self.columns = positions.map(|positions| Some(ColumnSet::of(&positions)));
        self
    }

    /// The number of rows. Reads none of their cells.
    ///
    /// # Errors
    /// Those of the iteration.
    pub fn count(mut self) -> Result<usize> {
        if matches!(self.columns, Ok(None)) {
            self.columns = Ok(Some(ColumnSet::EMPTY));
        }
        self.find().map(|(rows, _)| rows.len())
    }

    /// Finds the rows, and tells which of their columns count as read.
    fn find(self) -> Result<(Vec<RowId>, ColumnSet)> {
        let Scan { table, at, direction, limit, columns } = self;
        let (at, columns) = (at?, columns?);
        let mut rows = Vec::new();
        if limit == 0 {
            return Ok((rows, ColumnSet::EMPTY));
        }
        let mut visit = |_: &mut Transaction, row: RowId| {
            rows.push(row);
            Ok(if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        };
        let noted = match at {
            Where::Nowhere => ColumnSet::EMPTY,
            Where::All => {
                let noted = columns.unwrap_or(ColumnSet::ALL);
                table.transaction().with(|inner| {
                    inner.begin_statement();
                    inner.engine.scan_table(table.engine(), noted, None, &mut visit)
                })?;
                noted
            }
            Where::Range(index, range) => {
                let noted = columns.unwrap_or(ColumnSet::EMPTY);
                table.transaction().with(|inner| {
                    inner.begin_statement();
                    inner.engine.scan_index(table.engine(), index, &range, direction, noted, &mut visit)
                })?;
                noted
            }
        };
        Ok((rows, noted))
    }
}

impl<'t, 'c> IntoIterator for Scan<'t, 'c> {
    type Item = Result<TableRow<'t, 'c>>;
    type IntoIter = TableRows<'t, 'c>;

    fn into_iter(self) -> TableRows<'t, 'c> {
        let table = self.table;
        match self.find() {
            Ok((rows, noted)) => TableRows { table, rows: rows.into_iter(), noted, error: None },
            Err(error) => {
                TableRows { table, rows: Vec::new().into_iter(), noted: ColumnSet::EMPTY, error: Some(error) }
            }
        }
    }
}

/// The rows of a [`Scan`]. The only error comes first.
pub struct TableRows<'t, 'c> {
    table: OpenTable<'t, 'c>,
    rows: std::vec::IntoIter<RowId>,
    noted: ColumnSet,
    error: Option<Error>,
}

impl fmt::Debug for TableRows<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableRows").field("left", &self.rows.len()).finish_non_exhaustive()
    }
}

impl<'t, 'c> Iterator for TableRows<'t, 'c> {
    type Item = Result<TableRow<'t, 'c>>;

    #[inline]
    fn next(&mut self) -> Option<Result<TableRow<'t, 'c>>> {
        match self.rows.next() {
            Some(row) => Some(Ok(TableRow::new(self.table, row, self.noted))),
            None => self.error.take().map(Err),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.rows.len() + usize::from(self.error.is_some());
        (left, Some(left))
    }
}

impl std::iter::FusedIterator for TableRows<'_, '_> {}

/// The entries of an index with a key.
fn equal(table: &OpenTable, index: IndexPosition, key: &impl Values) -> Result<Where> {
    let definition = table.engine().index(index).definition();
    let is_whole = key.count() == definition.columns.len();
    if definition.kind == IndexKind::Hash && !is_whole {
        return Err(without_order(&definition.name));
    }
    check_parts(table, index, key)?;
    let Some(bytes) = table.encoded(index, key)? else { return Ok(Where::Nowhere) };
    let range = if is_whole { KeyRange::exactly(&bytes) } else { KeyRange::prefix(&bytes) };
    Ok(Where::Range(index, range))
}

/// The entries of an index between two keys. Encoded keys are no prefixes of each other, so that a bound by the first parts
/// of a key is one by a prefix of bytes.
fn range_of<K: Values>(table: &OpenTable, index: IndexPosition, keys: &impl RangeBounds<K>) -> Result<Where> {
    let definition = table.engine().index(index).definition();
    if definition.kind == IndexKind::Hash {
        return Err(without_order(&definition.name));
    }
    let encoded = |key: &K| {
        check_parts(table, index, key)?;
        table.encoded(index, key)
    };
    let lower = match keys.start_bound() {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) | Bound::Excluded(key) => {
            let Some(bytes) = encoded(key)? else { return Ok(Where::Nowhere) };
            let is_included = matches!(keys.start_bound(), Bound::Included(_));
            match (is_included, KeyRange::prefix(&bytes).upper) {
                (true, _) => Bound::Included(bytes),
                // The end of all keys that begin so.
                (false, Bound::Excluded(end)) => Bound::Included(end),
                (false, _) => return Ok(Where::Nowhere),
            }
        }
    };
    let upper = match keys.end_bound() {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) | Bound::Excluded(key) => {
            let Some(bytes) = encoded(key)? else { return Ok(Where::Nowhere) };
            match keys.end_bound() {
                Bound::Included(_) => KeyRange::prefix(&bytes).upper,
                _ => Bound::Excluded(bytes),
            }
        }
    };
    Ok(if is_empty(&lower, &upper) { Where::Nowhere } else { Where::Range(index, KeyRange { lower, upper }) })
}

/// Whether no key can lie between the bounds: the index needs them in order.
fn is_empty(lower: &Bound<Vec<u8>>, upper: &Bound<Vec<u8>>) -> bool {
    match (lower, upper) {
        (Bound::Included(lower), Bound::Excluded(upper)) => lower >= upper,
        (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
        _ => false,
    }
}

fn check_parts(table: &OpenTable, index: IndexPosition, key: &impl Values) -> Result<()> {
    let definition = table.engine().index(index).definition();
    let (given, parts) = (key.count(), definition.columns.len());
    if given <= parts {
        return Ok(());
    }
    let message =
        format!("the key of index \"{}\" has {parts} parts, but {given} were given", definition.name);
    Err(Error::new(SqlState::SyntaxError, message))
}

#[cold]
fn without_order(index: &str) -> Error {
    let message = format!("index \"{index}\" has no order: it finds whole keys only");
    Error::new(SqlState::FeatureNotSupported, message)
}
