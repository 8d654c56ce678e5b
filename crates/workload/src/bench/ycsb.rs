//! `bench ycsb`: the Yahoo! Cloud Serving Benchmark's reads and updates by key, ten to a transaction.
//!
//! Ten operations make one transaction, as the evaluations of transactional in-memory engines have it (YCSB itself has
//! no transactions). An operation draws a key and reads the whole row, or overwrites one field. The table has by default
//! one field of 100 bytes, as in those evaluations (Silo, Cicada), so that their throughput can be compared with ours;
//! the original has ten such fields (`--fields 10`). Keys are drawn uniformly or by Zipf's law; the hot ones are spread
//! over the table. A transaction may draw a key twice.
//!
//! The condition after the run: every row is there once, every field has its length, and what is in it was written to
//! this very row and field.

use super::client::{Client, ClientSetup, Done, Workload};
use super::config::{BenchConfig, MemoryNeed, at_least_one, at_most, invalid};
use super::fill::fill;
use super::report::{About, BenchReport};
use super::rounds::Rounds;
use crate::tpcc::key::KeyBuffer;
use crate::watch::{Event, Watch};
use crate::zipf::{Scatter, Zipf};
use ankerdb_engine::{
    Cell, ColumnDefinition, ColumnSet, DataType, Database, Error, IndexPosition, Isolation, KeyBatch, Result,
    RowId, Session, Table, TableDefinition, Value,
};
use ankerdb_measure::machine::Machine;
use fastrand::Rng;
use serde_json::json;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Operations of a transaction.
pub const OPERATIONS: usize = 10;
/// Position of the only index.
const PRIMARY: IndexPosition = IndexPosition(0);
/// Position of the key; the fields follow.
const KEY: usize = 0;
/// The most fields that a table can have here.
const FIELDS_MAX: u64 = 32;
/// A field begins with the number of its row, its own number, and a letter: that many bytes. A
/// row's number has 13 hexadecimal digits, a field's two.
const STAMP: u64 = 16;

/// One run of `bench ycsb`.
#[derive(Clone, Debug)]
pub struct YcsbConfig {
    /// Threads, time, isolation level.
    pub bench: BenchConfig,
    /// Rows.
    pub rows: u64,
    /// Fields of a row.
    pub fields: u64,
    /// Bytes of a field.
    pub field_bytes: u64,
    /// How many of 100 operations read.
    pub reads_percent: u32,
    /// The distribution of keys.
    pub distribution: Distribution,
}

/// A distribution of keys.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Distribution {
    /// All keys alike.
    Uniform,
    /// By Zipf's law with this theta.
    Zipf(f64),
}

impl Distribution {
    /// Reads `uniform` or `zipf:THETA`, theta from 0 to 2.
    ///
    /// # Errors
    /// 22023, saying what there is.
    pub fn parse(text: &str) -> Result<Distribution> {
        if text == "uniform" {
            return Ok(Distribution::Uniform);
        }
        let theta = text.strip_prefix("zipf:").and_then(|theta| theta.parse().ok());
        theta.filter(|theta| (0.0..=2.0).contains(theta)).map(Distribution::Zipf).ok_or_else(|| {
            invalid(format!(
                "unknown distribution \"{text}\"; there are uniform, zipf:THETA with THETA from 0 to 2"
            ))
        })
    }

    /// The name on the command line.
    pub fn name(self) -> String {
        match self {
            Distribution::Uniform => "uniform".to_owned(),
            Distribution::Zipf(theta) => format!("zipf:{theta}"),
        }
    }

    fn theta(self) -> f64 {
        match self {
            Distribution::Uniform => 0.0,
            Distribution::Zipf(theta) => theta,
        }
    }
}

impl YcsbConfig {
    /// Refuses options that cannot work; returns warnings about those that work badly.
    ///
    /// # Errors
    /// 22023, saying what would be accepted.
    pub fn check(&self, machine: &Machine) -> Result<Vec<String>> {
        at_least_one("--rows", self.rows)?;
        at_most("--rows", self.rows, 10_000_000_000)?;
        at_least_one("--fields", self.fields)?;
        at_most("--fields", self.fields, FIELDS_MAX)?;
        at_most("--field-bytes", self.field_bytes, 10_000)?;
        if self.field_bytes < STAMP {
            return Err(invalid(format!("--field-bytes must be at least {STAMP}")));
        }
        at_most("--reads", u64::from(self.reads_percent), 100)?;
        let need = MemoryNeed {
            option: "--rows",
            count: self.rows,
            // Views and strings of the fields, as much again for what updates leave behind, key, header, index entry.
            bytes_each: self.fields * (16 + 2 * self.field_bytes) + 120,
            bytes_besides: 512 << 20,
        };
        self.bench.without_contention("ycsb")?;
        self.bench.check(machine, need)
    }

    /// One line about the run.
    pub fn title(&self) -> String {
        let YcsbConfig { rows, fields, field_bytes, reads_percent, distribution, .. } = self;
        format!(
            "{rows} rows of {fields} x {field_bytes} bytes, {OPERATIONS} operations, {reads_percent}% reads, {}, {}",
            distribution.name(),
            BenchReport::title(&self.bench)
        )
    }
}

/// Makes the bytes of a field: which row and field it belongs to, then the writer's letter over and over. Touches
/// nothing but the number of the row and field, if the rest is there from the last time.
fn stamp(field: &mut Vec<u8>, row: u64, number: u64, letter: u8, bytes: u64) {
    if field.len() as u64 != bytes || field.last() != Some(&letter) {
        field.clear();
        field.resize(bytes as usize, letter);
    }
    let word = row << 8 | number;
    for (place, byte) in field[..STAMP as usize - 1].iter_mut().enumerate() {
        let digit = (word >> (4 * (STAMP as usize - 2 - place))) & 0xf;
        *byte = b"0123456789abcdef"[digit as usize];
    }
}

fn as_text(field: &[u8]) -> &str {
    std::str::from_utf8(field).expect("digits and letters are ASCII")
}

/// The table, loaded.
pub struct YcsbWorkload {
    database: Database,
    table: Arc<Table>,
    config: YcsbConfig,
}

impl YcsbWorkload {
    /// Creates and fills the table.
    ///
    /// # Errors
    /// 57014 if the user stops; the database's.
    pub fn load(database: &Database, config: &YcsbConfig, watch: &Watch<'_>) -> Result<YcsbWorkload> {
        let mut definition = TableDefinition::new("usertable")
            .column(ColumnDefinition::new("ycsb_key", DataType::BigInt))
            .primary_key(&["ycsb_key"])
            .hashed("usertable_pkey");
        for number in 0..config.fields {
            definition = definition.column(ColumnDefinition::new(format!("field{number}"), DataType::Text));
        }
        let table = database.create_table(definition)?;
        let row = |row: u64| {
            let mut text = Vec::new();
            let fields = (0..config.fields).map(|number| {
                stamp(&mut text, row, number, b'a', config.field_bytes);
                Value::text(as_text(&text))
            });
            std::iter::once(Value::BigInt(row as i64)).chain(fields).collect()
        };
        fill(database, config.rows, &[(&table, &row)], watch)?;
        Ok(YcsbWorkload { database: database.clone(), table, config: config.clone() })
    }

    /// Checks the rows of the table.
    ///
    /// # Errors
    /// The database's.
    pub fn check(&self) -> Result<Vec<String>> {
        let (table, config) = (&self.table, &self.config);
        let mut transaction = self.database.session().begin(Isolation::RepeatableRead);
        let (mut rows, mut damaged, mut text) = (0, Vec::new(), Vec::new());
        transaction.scan_table(table, ColumnSet::ALL, None, &mut |transaction, row| {
            rows += 1;
            let key = transaction.bigint(table, row, KEY) as u64;
            for number in 0..config.fields {
                let field = transaction.text(table, row, KEY + 1 + number as usize);
                let letter = field.bytes().last().unwrap_or(b' ');
                stamp(&mut text, key, number, letter, config.field_bytes);
                if field.as_bytes() != text && damaged.len() < 10 {
                    damaged.push(format!("field {number} of row {key} holds \"{field}\""));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if rows != config.rows {
            damaged.insert(0, format!("{rows} rows instead of {}", config.rows));
        }
        Ok(damaged)
    }
}

impl Workload for YcsbWorkload {
    fn kinds(&self) -> &[&'static str] {
        &["operations_10"]
    }

    fn client(&self, setup: &ClientSetup) -> Result<Box<dyn Client>> {
        let config = &self.config;
        Ok(Box::new(YcsbClient {
            session: self.database.session(),
            table: self.table.clone(),
            isolation: setup.isolation,
            rng: Rng::with_seed(setup.seed ^ (setup.number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            zipf: Zipf::new(config.rows, config.distribution.theta()),
            scatter: Scatter::new(config.rows),
            reads_percent: config.reads_percent,
            fields: config.fields,
            field_bytes: config.field_bytes,
            letter: b'b' + (setup.number % 25) as u8,
            operations: [Operation::default(); OPERATIONS],
            key: KeyBuffer::default(),
            keys: KeyBatch::default(),
            rows: Vec::new(),
            text: Vec::new(),
        }))
    }
}

#[derive(Clone, Copy, Default)]
struct Operation {
    row: u64,
    /// The field to overwrite; `None` to read the row.
    update: Option<u64>,
}

struct YcsbClient {
    session: Session,
    table: Arc<Table>,
    isolation: Isolation,
    rng: Rng,
    zipf: Zipf,
    scatter: Scatter,
    reads_percent: u32,
    fields: u64,
    field_bytes: u64,
    letter: u8,
    operations: [Operation; OPERATIONS],
    key: KeyBuffer,
    keys: KeyBatch,
    rows: Vec<Option<RowId>>,
    text: Vec<u8>,
}

impl Client for YcsbClient {
    fn draw(&mut self) -> usize {
        for operation in &mut self.operations {
            let row = self.scatter.key(self.zipf.draw(&mut self.rng));
            let reads = self.rng.u32(0..100) < self.reads_percent;
            let update = (!reads).then(|| self.rng.u64(0..self.fields));
            *operation = Operation { row, update };
        }
        0
    }

    /// Finds all rows before it looks into the first, so that the waits for memory overlap.
    fn run(&mut self, _: i64) -> Result<Done> {
        let YcsbClient {
            session, table, operations, key, keys, rows, text, fields, field_bytes, letter, ..
        } = self;
        session.try_run(self.isolation, |transaction| {
            keys.clear();
            operations.iter().for_each(|operation| keys.push(key.bigint(operation.row as i64)));
            // A blind update conflicts with any other update of its row, so that it may as well have read it.
            transaction.find_all(table, PRIMARY, keys, ColumnSet::ALL, rows)?;
            for row in rows.iter().flatten() {
                transaction.prefetch_texts(table, *row, ColumnSet::ALL);
            }
            for (operation, row) in operations.iter().zip(rows.iter()) {
                let row = row.ok_or_else(|| Error::internal(format!("row {} is missing", operation.row)))?;
                match operation.update {
                    Some(field) => {
                        stamp(text, operation.row, field, *letter, *field_bytes);
                        let change = (KEY + 1 + field as usize, Cell::Bytes(text));
                        transaction.update_cells(table, row, &[change])?;
                    }
                    None => {
                        let row = transaction.row(table, row);
                        for field in 0..*fields as usize {
                            row.text(KEY + 1 + field, read_all);
                        }
                    }
                }
            }
            Ok(Done::Committed)
        })
    }
}

/// Looks at every byte, as a reader of the row would.
fn read_all(field: &str) {
    std::hint::black_box(field.bytes().fold(0, |sum: u64, byte| sum + u64::from(byte)));
}

/// Loads, measures and checks, like [`tpcc::run`](super::tpcc::run).
///
/// # Errors
/// Those of [`tpcc::run`](super::tpcc::run).
pub fn run(
    config: &YcsbConfig,
    machine: &Machine,
    warnings: Vec<String>,
    watch: &Watch<'_>,
) -> Result<BenchReport> {
    let workload = YcsbWorkload::load(&Database::with(config.bench.engine), config, watch)?;
    let rounds = Rounds::new(&config.bench, &workload, None, watch);
    let phases = rounds.run()?;
    watch.tell(Event::Checking);
    let about = About {
        benchmark: "ycsb",
        own: json!({
            "rows": config.rows,
            "fields": config.fields,
            "field_bytes": config.field_bytes,
            "operations": OPERATIONS,
            "reads_percent": config.reads_percent,
            "distribution": config.distribution.name(),
        }),
        machine: machine.clone(),
        warnings,
        conditions: "rows are there once and hold what was written to them",
        violations: Some(workload.check()?),
    };
    Ok(BenchReport::new(&rounds, about, &phases))
}
