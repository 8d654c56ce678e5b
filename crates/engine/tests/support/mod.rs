//! What the engine's tests share: one small table, and a client that runs one statement after the other.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod bank;

use ankerdb_engine::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells background threads to stop when the test's own part ends, by a panic too.
#[derive(Default)]
pub(crate) struct Running(AtomicBool);

impl Running {
    pub(crate) fn goes_on(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn until_drop(&self) -> impl Drop {
        struct Stop<'a>(&'a Running);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.0.store(true, Ordering::Relaxed);
            }
        }
        Stop(self)
    }
}

/// Memory of this process that is in use; on Linux only.
pub(crate) fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: usize = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

/// What the tests go through: the configurations that the machine can run, or those of them that `ANKERDB_CONFIGURATIONS` names. On a
/// kernel that checks itself all of them would take hours, and only some call the kernel.
pub(crate) fn configurations() -> impl Iterator<Item = Configuration> {
    let named = std::env::var("ANKERDB_CONFIGURATIONS").ok();
    let named = named.map(|names| {
        let parse =
            |name| Configuration::parse(name).expect("ANKERDB_CONFIGURATIONS holds names of configurations");
        names.split_whitespace().map(parse).collect::<Vec<_>>()
    });
    let available = Configuration::available();
    if let Some(missing) = named.iter().flatten().find(|name| !available.contains(name)) {
        panic!("{} ought to be available", missing.name());
    }
    available
        .into_iter()
        .filter(move |configuration| named.as_ref().is_none_or(|named| named.contains(configuration)))
}

/// Runs a test in an empty database of ours, and in one of each hybrid configuration that the tests go through.
pub(crate) fn in_each(test: impl Fn(Database)) {
    let is_hybrid = |configuration: &Configuration| configuration.technique().is_some();
    let hybrids = configurations().filter(is_hybrid);
    for configuration in std::iter::once(Configuration::AnkerDb).chain(hybrids) {
        eprintln!("in {}", configuration.name());
        test(Database::open(configuration).expect("it is available"));
    }
}

/// Those in which every query sees one state: all but read uncommitted.
pub(crate) fn consistent() -> impl Iterator<Item = Configuration> {
    configurations().filter(|configuration| *configuration != Configuration::SeeRu)
}

/// Column positions of [`items`].
pub(crate) const ID: usize = 0;
pub(crate) const A: usize = 1;
pub(crate) const B: usize = 2;
pub(crate) const KIND: usize = 3;
/// Positions of its indexes.
pub(crate) const BY_ID: IndexPosition = IndexPosition(0);
pub(crate) const BY_KIND: IndexPosition = IndexPosition(1);

pub(crate) const LEVELS: [Isolation; 4] = [
    Isolation::ReadUncommitted,
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Serializable,
];

/// `(id integer primary key, a bigint, b bigint, kind integer)` with an index on kind.
pub(crate) fn items(database: &Database, name: &str) -> Arc<Table> {
    database.create_table(items_definition(name)).unwrap()
}

/// The table `items` with hash indexes.
pub(crate) fn hashed_items(database: &Database, name: &str) -> Arc<Table> {
    let table = items_definition(name).hashed(&format!("{name}_pkey")).hashed(&format!("{name}_by_kind"));
    database.create_table(table).unwrap()
}

/// Their definition.
pub(crate) fn items_definition(name: &str) -> TableDefinition {
    TableDefinition::new(name)
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("a", DataType::BigInt))
        .column(ColumnDefinition::new("b", DataType::BigInt))
        .column(ColumnDefinition::new("kind", DataType::Integer))
        .primary_key(&["id"])
        .index(format!("{name}_by_kind"), &["kind"], false)
}

pub(crate) fn item(id: i32, a: i64, b: i64, kind: i32) -> Vec<Value> {
    vec![Value::Integer(id), Value::BigInt(a), Value::BigInt(b), Value::Integer(kind)]
}

/// The encoded key of integers.
pub(crate) fn key(table: &Table, index: IndexPosition, values: &[i32]) -> Vec<u8> {
    let values: Vec<Value> = values.iter().map(|value| Value::Integer(*value)).collect();
    let mut key = Vec::new();
    table.index(index).encode(&values, &mut key).unwrap();
    key
}

/// The keys from `low` to `high`, both included.
pub(crate) fn range(table: &Table, index: IndexPosition, low: i32, high: i32) -> KeyRange {
    KeyRange {
        lower: std::ops::Bound::Included(key(table, index, &[low])),
        upper: std::ops::Bound::Included(key(table, index, &[high])),
    }
}

/// Commits these rows.
pub(crate) fn fill(database: &Database, table: &Arc<Table>, rows: impl IntoIterator<Item = Vec<Value>>) {
    let rows: Vec<_> = rows.into_iter().collect();
    let inserted = database.session().try_run(Isolation::Serializable, |transaction| {
        rows.into_iter().try_for_each(|row| transaction.insert(table, row).map(drop))
    });
    inserted.unwrap();
}

pub(crate) fn find(
    transaction: &mut Transaction,
    table: &Arc<Table>,
    id: i32,
    columns: &[usize],
) -> Result<Option<RowId>> {
    let key = key(table, BY_ID, &[id]);
    transaction.find(table, BY_ID, &key, ColumnSet::of(columns))
}

/// Whether the kind lies in the range, as a predicate.
pub(crate) fn kinds(low: i32, high: i32) -> RowFilter {
    Arc::new(move |column| matches!(column(KIND), Value::Integer(kind) if (low..=high).contains(&kind)))
}

/// A client that sends one statement after the other in one transaction. Statements behave as those of PostgreSQL:
/// each begins anew at READ COMMITTED, and writes lock the row first. A statement whose row has changed runs again.
pub(crate) struct Client {
    pub table: Arc<Table>,
    pub transaction: Transaction,
    _session: Session,
}

impl Client {
    pub(crate) fn begin(database: &Database, table: &Arc<Table>, isolation: Isolation) -> Client {
        let mut session = database.session();
        let transaction = session.begin(isolation);
        Client { table: table.clone(), transaction, _session: session }
    }

    pub(crate) fn interrupted_by(mut self, interrupt: &Interrupt) -> Client {
        self.transaction.set_interrupt(interrupt.clone());
        self
    }

    /// The row with this id.
    pub(crate) fn find(&mut self, id: i32, columns: &[usize]) -> Result<Option<RowId>> {
        self.transaction.begin_statement();
        find(&mut self.transaction, &self.table, id, columns)
    }

    /// Column a of the row with this id.
    pub(crate) fn read(&mut self, id: i32) -> Result<Option<i64>> {
        let row = self.find(id, &[A])?;
        Ok(row.map(|row| self.transaction.bigint(&self.table, row, A)))
    }

    /// Finds and locks a row, as often as it takes to get it unchanged.
    pub(crate) fn lock(&mut self, id: i32, wait: LockWait) -> Result<Option<RowId>> {
        loop {
            let Some(row) = self.find(id, &[])? else { return Ok(None) };
            match self.transaction.lock(&self.table, row, wait)? {
                Locked::Unchanged => return Ok(Some(row)),
                Locked::Changed => self.transaction.restart_statement()?,
                Locked::Busy => return Ok(None),
            }
        }
    }

    /// Sets columns of the row with this id; false if there is none.
    pub(crate) fn update(&mut self, id: i32, changes: Vec<(usize, Value)>) -> Result<bool> {
        let Some(row) = self.lock(id, LockWait::Wait)? else { return Ok(false) };
        self.transaction.update(&self.table, row, changes)?;
        Ok(true)
    }

    /// Sets column a.
    pub(crate) fn write(&mut self, id: i32, a: i64) -> Result<bool> {
        self.update(id, vec![(A, Value::BigInt(a))])
    }

    pub(crate) fn insert(&mut self, row: Vec<Value>) -> Result<()> {
        self.transaction.begin_statement();
        self.transaction.insert(&self.table, row).map(drop)
    }

    pub(crate) fn delete(&mut self, id: i32) -> Result<bool> {
        let Some(row) = self.lock(id, LockWait::Wait)? else { return Ok(false) };
        self.transaction.delete(&self.table, row)?;
        Ok(true)
    }

    /// The ids of the rows with kinds in the range, by the index.
    pub(crate) fn ids_by_range(&mut self, low: i32, high: i32) -> Result<Vec<i32>> {
        self.transaction.begin_statement();
        let table = self.table.clone();
        let mut ids = Vec::new();
        let range = range(&table, BY_KIND, low, high);
        let columns = ColumnSet::of(&[ID]);
        self.transaction.scan_index(
            &table,
            BY_KIND,
            &range,
            Direction::Forward,
            columns,
            &mut |t, row| {
                ids.push(t.integer(&table, row, ID));
                Ok(ControlFlow::Continue(()))
            },
        )?;
        Ok(ids)
    }

    /// The ids of the rows with kinds in the range, by a scan of the table under a filter.
    pub(crate) fn ids_by_filter(&mut self, low: i32, high: i32) -> Result<Vec<i32>> {
        self.transaction.begin_statement();
        let table = self.table.clone();
        let mut ids = Vec::new();
        let columns = ColumnSet::of(&[ID, KIND]);
        self.transaction.scan_table(&table, columns, Some(kinds(low, high)), &mut |t, row| {
            ids.push(t.integer(&table, row, ID));
            Ok(ControlFlow::Continue(()))
        })?;
        ids.sort_unstable();
        Ok(ids)
    }

    /// The ids of the rows with kinds in the range, as an analytical query finds them: over blocks of a view of this
    /// transaction.
    pub(crate) fn ids_by_view(&mut self, low: i32, high: i32) -> Result<Vec<i32>> {
        self.transaction.begin_statement();
        let columns = ColumnSet::of(&[ID, KIND]);
        self.transaction.note_table_read(&self.table, columns, Some(kinds(low, high)))?;
        let rows = view_rows(&self.transaction.read_view(), &self.table, &[ID, KIND]);
        let mut ids: Vec<i32> = (rows.into_iter())
            .filter_map(|row| match row[..] {
                [Value::Integer(id), Value::Integer(kind)] => (low..=high).contains(&kind).then_some(id),
                _ => panic!("{row:?} is not what was asked for"),
            })
            .collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// How many rows there are, as `count(*)` finds out: no column is looked at.
    pub(crate) fn count(&mut self) -> Result<usize> {
        self.visit_all(usize::MAX)
    }

    /// Whether there are rows, as `EXISTS` finds out.
    pub(crate) fn has_rows(&mut self) -> Result<bool> {
        Ok(self.visit_all(1)? > 0)
    }

    /// Visits rows without a look at any column, and counts them.
    fn visit_all(&mut self, limit: usize) -> Result<usize> {
        self.transaction.begin_statement();
        count(&mut self.transaction, &self.table, limit)
    }

    /// The number of rows, by an analytical query.
    pub(crate) fn count_by_view(&mut self) -> Result<usize> {
        self.transaction.begin_statement();
        self.transaction.note_table_read(&self.table, ColumnSet::EMPTY, None)?;
        Ok(view_rows(&self.transaction.read_view(), &self.table, &[ID]).len())
    }

    /// How many rows have kinds in the range.
    pub(crate) fn count_range(&mut self, low: i32, high: i32) -> Result<usize> {
        self.transaction.begin_statement();
        Ok(rows_of_kinds(&mut self.transaction, &self.table, low, high)?.len())
    }

    /// Deletes the rows with kinds in the range; returns how many.
    pub(crate) fn delete_range(&mut self, low: i32, high: i32) -> Result<usize> {
        self.transaction.begin_statement();
        let rows = rows_of_kinds(&mut self.transaction, &self.table, low, high)?;
        self.delete_rows(rows)
    }

    /// Deletes all rows but one, found without a look at any column but the id.
    pub(crate) fn delete_all_but(&mut self, id: i32) -> Result<usize> {
        self.transaction.begin_statement();
        let (table, mut rows) = (self.table.clone(), Vec::new());
        self.transaction.scan_table(&table, ColumnSet::of(&[ID]), None, &mut |t, row| {
            rows.extend((t.integer(&table, row, ID) != id).then_some(row));
            Ok(ControlFlow::Continue(()))
        })?;
        self.delete_rows(rows)
    }

    fn delete_rows(&mut self, rows: Vec<RowId>) -> Result<usize> {
        let count = rows.len();
        rows.into_iter().try_for_each(|row| {
            let locked = self.transaction.lock(&self.table, row, LockWait::Wait)?;
            assert_eq!(locked, Locked::Unchanged, "there is no other writer meanwhile");
            self.transaction.delete(&self.table, row)
        })?;
        Ok(count)
    }

    pub(crate) fn commit(mut self) -> Result<Timestamp> {
        self.transaction.commit()
    }

    pub(crate) fn rollback(mut self) {
        self.transaction.rollback();
    }
}

/// Visits rows without a look at any column; returns how many.
pub(crate) fn count(transaction: &mut Transaction, table: &Arc<Table>, limit: usize) -> Result<usize> {
    let mut rows = 0;
    transaction.scan_table(table, ColumnSet::EMPTY, None, &mut |_, _| {
        rows += 1;
        Ok(if rows < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(rows)
}

/// The rows with kinds in the range, found without a look at any other column.
pub(crate) fn rows_of_kinds(
    transaction: &mut Transaction,
    table: &Arc<Table>,
    low: i32,
    high: i32,
) -> Result<Vec<RowId>> {
    let (range, mut rows) = (range(table, BY_KIND, low, high), Vec::new());
    let forward = Direction::Forward;
    transaction.scan_index(table, BY_KIND, &range, forward, ColumnSet::EMPTY, &mut |_, row| {
        rows.push(row);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}

/// The rows that a view shows, decoded from its blocks.
pub(crate) fn view_rows(view: &ReadView, table: &Table, columns: &[usize]) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for part in 0..view.parts(table) {
        let image = view.read(table, part, columns).unwrap();
        rows.extend(image_rows(&image, table, columns));
    }
    rows
}

/// Those whose first column is wanted.
pub(crate) fn view_rows_if(
    view: &ReadView,
    table: &Table,
    columns: &[usize],
    is_wanted: impl Fn(&Value) -> bool,
) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for part in 0..view.parts(table) {
        let image = view.read(table, part, columns).unwrap();
        rows.extend(image_rows_if(&image, table, columns, &is_wanted));
    }
    rows
}

/// The rows of one block.
pub(crate) fn image_rows(image: &BlockImage, table: &Table, columns: &[usize]) -> Vec<Vec<Value>> {
    image_rows_if(image, table, columns, &|_| true)
}

fn image_rows_if(
    image: &BlockImage,
    table: &Table,
    columns: &[usize],
    is_wanted: &dyn Fn(&Value) -> bool,
) -> Vec<Vec<Value>> {
    let exists =
        |row: usize| image.selection.as_ref().is_none_or(|bits| bits[row / 64] >> (row % 64) & 1 == 1);
    if let Some(bits) = &image.selection {
        let beyond = (image.rows..bits.len() * 64).filter(|&row| exists(row)).count();
        assert_eq!(beyond, 0, "bits beyond the last row are set");
    }
    (0..image.rows)
        .filter(|&row| exists(row))
        .filter(|&row| is_wanted(&image_cell(&image.columns[0], row, table.data_type(columns[0]))))
        .map(|row| {
            let cells = image.columns.iter().zip(columns);
            cells.map(|(cells, &column)| image_cell(cells, row, table.data_type(column))).collect()
        })
        .collect()
}

/// Bytes of an image. The only place where tests read raw memory.
pub(crate) fn image_bytes(bytes: &Bytes) -> &[u8] {
    // SAFETY: an image's bytes are readable and unchanging for as long as it lives.
    unsafe { std::slice::from_raw_parts(bytes.pointer, bytes.length) }
}

/// One cell, decoded by Arrow's rules and not by the engine's own code.
pub(crate) fn image_cell(column: &ColumnImage, row: usize, data_type: DataType) -> Value {
    let bit = |bytes: &[u8]| bytes[row / 8] >> (row % 8) & 1 == 1;
    if column.validity.as_ref().is_some_and(|validity| !bit(image_bytes(validity))) {
        return Value::Null;
    }
    let values = image_bytes(&column.values);
    let half = || i16::from_le_bytes(values[row * 2..][..2].try_into().unwrap());
    let quad = || i32::from_le_bytes(values[row * 4..][..4].try_into().unwrap());
    let word = || i64::from_le_bytes(values[row * 8..][..8].try_into().unwrap());
    let wide: &dyn Fn() -> [u8; 16] = &|| values[row * 16..][..16].try_into().unwrap();
    match data_type {
        DataType::Boolean => Value::Boolean(bit(values)),
        DataType::SmallInt => Value::SmallInt(half()),
        DataType::Integer => Value::Integer(quad()),
        DataType::Date => Value::Date(quad()),
        DataType::Real => Value::Real(f32::from_bits(quad() as u32)),
        DataType::BigInt => Value::BigInt(word()),
        DataType::Timestamp(_) => Value::Timestamp(word()),
        DataType::TimestampTz(_) => Value::TimestampTz(word()),
        DataType::DoublePrecision => Value::Double(f64::from_bits(word() as u64)),
        DataType::Numeric { precision: 0..=9, scale } => Value::Numeric(Decimal::new(quad() as i128, scale)),
        DataType::Numeric { precision: 10..=18, scale } => {
            Value::Numeric(Decimal::new(word() as i128, scale))
        }
        DataType::Numeric { scale, .. } => Value::Numeric(Decimal::new(i128::from_le_bytes(wide()), scale)),
        DataType::Uuid => Value::Uuid(wide()),
        DataType::Time(_) => Value::Time(word()),
        DataType::Interval(_) => {
            let part = |start: usize| i32::from_le_bytes(wide()[start..start + 4].try_into().unwrap());
            let microseconds = i64::from_le_bytes(wide()[8..].try_into().unwrap());
            Value::Interval(Interval::new(part(0), part(4), microseconds))
        }
        DataType::Packed(packed) => {
            Value::Packed(PackedRef::new(packed, view_bytes(column, &wide())).to_packed())
        }
        DataType::Enum(labels) => Value::Enum(labels.at(word())),
        DataType::System(_) => unreachable!("no column is of a type of the system catalog"),
        DataType::Bytea => Value::Bytea(view_bytes(column, &wide()).into()),
        DataType::Number => Value::Number(std::str::from_utf8(view_bytes(column, &wide())).unwrap().into()),
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Json | DataType::Jsonb => {
            Value::text(std::str::from_utf8(view_bytes(column, &wide())).unwrap())
        }
    }
}

fn view_bytes<'a>(column: &'a ColumnImage, view: &'a [u8; 16]) -> &'a [u8] {
    let part = |start: usize| u32::from_le_bytes(view[start..start + 4].try_into().unwrap()) as usize;
    let length = part(0);
    if length <= 12 {
        return &view[4..4 + length];
    }
    let bytes = &image_bytes(&column.heaps[part(8)])[part(12)..][..length];
    assert_eq!(bytes[..4], view[4..8], "a view starts with the string's first bytes");
    bytes
}
