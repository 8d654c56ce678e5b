//! Table 2: scans of a snapshot after 2% of the tuples were updated and 1% deleted.
//!
//! A snapshot is taken of what was loaded, then the tuples are changed. It is scanned, and so is the next one.

use super::tuples::{STRING, StringWords, Tuple, WORDS, min_integer, min_string};
use crate::finding::{Findings, Panel, Series};
use crate::harness::Harness;
use crate::mechanism::Variant;
use crate::technique::OURS;
use crate::tpcc::sql_engine;
use ankerdb_engine::{
    ColumnDefinition, ColumnSet, DataType, Database as Engine, Error, IndexPosition, Isolation, Result,
    RowId, Session, Snapshot as EngineSnapshot, SqlState, Table, TableDefinition, Transaction, Value,
};
use ankerdb_region::fork::Child;
use ankerdb_region::{PageSize, Region};
use ankerdb_serial::{
    IndexTreatment, Job, QuiescePolicy, Reading, RelationId, SerialDatabase, Shape, Store, View,
};
use ankerdb_sql::AnalyticalQuery;
use ankerdb_workload::ch::answer::ChValue;
use ankerdb_workload::ch::decode::rows_of;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Of so many tuples one is deleted, and two are updated.
const HUNDRED: u64 = 100;
/// Runs of a scan, of which the median is shown.
const RUNS: usize = 5;
/// Bytes that a child may leave.
const CHILD_BYTES: usize = 12 * size_of::<u64>();
/// What is measured.
const SCANS: [&str; 3] = ["valid tuples", "min(4b)", "min(50b)"];
/// Rows of one loading transaction of ours.
const ROWS_PER_LOAD: u64 = 1000;
/// Tuples after which progress is shown.
const PROGRESS: u64 = 1 << 16;
/// How often a child looks whether it is to scan.
const POLL: Duration = Duration::from_millis(1);

/// The table's rows in milliseconds: valid tuples, then both on small pages, then both on huge ones.
const PAPER: [(&str, [f64; 5]); 4] = [
    ("vm-fork", [72.0, 188.0, 702.0, 186.0, 701.0]),
    ("tuple-shadowing", [72.0, 216.0, 715.0, 212.0, 708.0]),
    ("twin-tuples", [74.0, 242.0, 813.0, 250.0, 796.0]),
    ("hot-cold", [146.0, 199.0, 769.0, 197.0, 767.0]),
];

/// Milliseconds of each scan: of the snapshot from before the changes, and of the one after them.
type Times = [[f64; 3]; 2];

/// What scans find, by which mechanisms are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Found {
    tuples: u64,
    integer: u32,
    string: StringWords,
}

/// Runs it.
///
/// # Errors
/// The database's; an internal one if two find something else.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let panel = |title: &str| Panel::bars(title, "scan", "ms", &SCANS);
    let mut panels = [
        panel("4 KiB pages, the snapshot from before the changes"),
        panel("4 KiB pages, the snapshot after them"),
        panel("2 MiB pages, the snapshot from before the changes"),
        panel("2 MiB pages, the snapshot after them"),
    ];
    let mechanisms = &harness.setup.mechanisms;
    harness.expect(2 * mechanisms.len() + 1);
    let mut expected: Option<[Found; 2]> = None;
    let compare = |expected: &mut Option<[Found; 2]>, name: &str, found: [Found; 2]| match expected
        .get_or_insert(found)
        == &found
    {
        true => Ok(()),
        false => Err(Error::internal(format!("{name} finds other tuples than the others"))),
    };
    for mechanism in mechanisms {
        for (place, variant) in
            [Variant::small(*mechanism), Variant::huge(*mechanism)].into_iter().enumerate()
        {
            if harness.is_stopped() {
                break;
            }
            let label = format!("{}, {} KiB pages", mechanism.name(), variant.kind.pages.bytes() >> 10);
            let (times, found) = harness.measure(&label, || mechanism.run(Measure { harness, variant }))?;
            compare(&mut expected, mechanism.name(), found)?;
            add(&mut panels[2 * place..][..2], mechanism.name(), times);
        }
    }
    if !harness.is_stopped() {
        let (times, found) = harness.measure(OURS, || ours(harness))?;
        compare(&mut expected, OURS, found)?;
        // Its memory is in pages of 2 MiB where the system has them.
        add(&mut panels[..2], OURS, times);
        add(&mut panels[2..], OURS, times);
    }
    for (name, [valid, small4, small50, huge4, huge50]) in PAPER {
        for (panel, times) in [(1, [valid, small4, small50]), (3, [valid, huge4, huge50])] {
            let points = (0..).zip(times).map(|(place, time)| (f64::from(place), time)).collect();
            panels[panel].series.push(Series::paper(name, points));
        }
    }
    Ok(Findings { panels: panels.into(), notes: Vec::new() })
}

fn add(panels: &mut [Panel], name: &str, times: Times) {
    for (panel, times) in panels.iter_mut().zip(times) {
        panel.add(name, &times.map(Some));
    }
}

/// One mechanism.
struct Measure<'a> {
    harness: &'a Harness<'a>,
    variant: Variant,
}

impl Job for Measure<'_> {
    type Output = Result<(Times, [Found; 2])>;

    fn run<S: Store>(self) -> Self::Output {
        let (harness, tuples) = (self.harness, self.harness.setup.tuples);
        let mut database = SerialDatabase::<S>::new(self.variant.kind, IndexTreatment::Abandon)?;
        // Each updated tuple may be there once more.
        let capacity = (tuples + tuples / 16) as usize;
        let relation = database.add_relation(Shape { words: WORDS, capacity }, 0)?;
        let mut random = fastrand::Rng::with_seed(harness.setup.seed);
        let loading = harness.loading();
        for number in 0..tuples {
            let tuple = Tuple::random(number as u32, &mut random);
            database.run(|transaction| transaction.insert(relation, &tuple.words(), &[]).map(drop))?;
            if number % PROGRESS == 0 && loading(number, tuples).is_break() {
                return Err(Error::new(SqlState::QueryCanceled, "loading was stopped"));
            }
        }
        let _ = loading(tuples, tuples);
        database.refresh(QuiescePolicy::Wait)?;
        let before = Held::snapshot_of(&database, relation)?;
        let changes = Changes::random(tuples, &mut random);
        for tuple in &changes.updated {
            database.run(|transaction| {
                let mut change = transaction.change(relation, tuple.number as usize)?;
                tuple.words().iter().enumerate().for_each(|(at, word)| change.set(at, *word));
                Ok(())
            })?;
        }
        for number in &changes.deleted {
            database.run(|transaction| transaction.delete(relation, *number as usize, &[]))?;
        }
        let before = before.scan(relation)?;
        database.refresh(QuiescePolicy::Wait)?;
        let after = Held::snapshot_of(&database, relation)?.scan(relation)?;
        Ok(([before.0, after.0], [before.1, after.1]))
    }
}

/// What happens to the tuples that were loaded.
struct Changes {
    updated: Vec<Tuple>,
    deleted: Vec<u64>,
}

impl Changes {
    fn random(tuples: u64, random: &mut fastrand::Rng) -> Changes {
        let mut numbers: Vec<u64> = (0..tuples).collect();
        random.shuffle(&mut numbers);
        let hundredth = (tuples / HUNDRED) as usize;
        let deleted = numbers[2 * hundredth..3 * hundredth].to_vec();
        let updated = numbers[..2 * hundredth].iter().map(|number| Tuple::random(*number as u32, random));
        Changes { updated: updated.collect(), deleted }
    }
}

/// A snapshot, kept to be scanned later.
enum Held<S: Store> {
    Here(Reading<S>),
    /// A child that waits until the word is set.
    Child(Arc<Region>, Child),
}

impl<S: Store> Held<S> {
    fn snapshot_of(database: &SerialDatabase<S>, relation: RelationId) -> Result<Held<S>> {
        if !S::MECHANISM.forks() {
            return database.readers().enter().map(Held::Here);
        }
        let word = Region::shared(PageSize::Small, size_of::<u64>())?;
        let child = database.fork(CHILD_BYTES, |snapshot, output| {
            while word.words()[0].load(Relaxed) == 0 {
                std::thread::sleep(POLL);
            }
            let (times, found) = scans_of(snapshot.relation(relation));
            let times = times.map(f64::to_bits);
            let words = times.into_iter().chain([found.tuples, found.integer.into()]).chain(found.string);
            let mut bytes = words.flat_map(u64::to_ne_bytes);
            let mut all = [0; CHILD_BYTES];
            all.iter_mut().for_each(|byte| *byte = bytes.next().unwrap_or_default());
            output.write_all(&all).map_err(|error| Error::internal(format!("a child cannot write: {error}")))
        })?;
        Ok(Held::Child(word, child))
    }

    fn scan(self, relation: RelationId) -> Result<([f64; 3], Found)> {
        let (word, child) = match self {
            Held::Here(reading) => return Ok(scans_of(reading.snapshot().relation(relation))),
            Held::Child(word, child) => (word, child),
        };
        word.words()[0].store(1, Relaxed);
        let bytes = child.wait(&|| false)?;
        let mut words = bytes.as_ref().as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        let mut next = || words.next().unwrap_or_default();
        let times = std::array::from_fn(|_| f64::from_bits(next()));
        let found = Found { tuples: next(), integer: next() as u32, string: std::array::from_fn(|_| next()) };
        Ok((times, found))
    }
}

/// Milliseconds of each scan, medians, and what they find.
fn scans_of(view: &impl View) -> ([f64; 3], Found) {
    let (mut tuples, mut integer, mut string) = (0, 0, StringWords::default());
    let times = [
        median_ms(|| tuples = view.count() as u64),
        median_ms(|| {
            integer = u32::MAX;
            view.scan(|tuple| {
                min_integer(&mut integer, tuple);
                true
            });
        }),
        median_ms(|| {
            string = [u64::MAX; WORDS - 1];
            view.scan(|tuple| {
                min_string(&mut string, tuple);
                true
            });
        }),
    ];
    (times, Found { tuples, integer, string })
}

fn median_ms(mut run: impl FnMut()) -> f64 {
    let mut times = [0.0; RUNS];
    for time in &mut times {
        let begun = Instant::now();
        run();
        *time = begun.elapsed().as_secs_f64() * 1e3;
    }
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

/// Ours: a table like the relation, three queries in SQL on one thread.
struct Ours {
    database: Engine,
    table: Arc<Table>,
    session: Session,
    queries: Vec<AnalyticalQuery>,
}

impl Ours {
    fn load(harness: &Harness<'_>, random: &mut fastrand::Rng) -> Result<Ours> {
        let (database, tuples) = (Engine::new(), harness.setup.tuples);
        let definition = TableDefinition::new("tuples")
            .column(ColumnDefinition::new("number", DataType::BigInt))
            .column(ColumnDefinition::new("integer", DataType::Integer))
            .column(ColumnDefinition::new("string", DataType::Char(STRING as u32)))
            .primary_key(&["number"])
            .hashed("tuples_pkey");
        let table = database.create_table(definition)?;
        let mut session = database.session();
        let (loading, mut number) = (harness.loading(), 0);
        while number < tuples {
            let end = tuples.min(number + ROWS_PER_LOAD);
            session.try_run(Isolation::RepeatableRead, |transaction| {
                (number..end).try_for_each(|number| {
                    let [integer, string] = values(&Tuple::random(number as u32, random));
                    transaction.insert(&table, vec![Value::BigInt(number as i64), integer, string]).map(drop)
                })
            })?;
            number = end;
            if loading(number, tuples).is_break() {
                return Err(Error::new(SqlState::QueryCanceled, "loading was stopped"));
            }
        }
        let engine = sql_engine(harness, &database, 1)?;
        let plan = |what| engine.plan(&format!("select {what} from tuples"));
        let queries =
            ["count(*)", "min(integer)", "min(string)"].into_iter().map(plan).collect::<Result<_>>()?;
        Ok(Ours { database, table, session, queries })
    }

    /// Runs something with the row of a tuple in a transaction.
    fn with_row(
        &mut self,
        number: u64,
        run: impl Fn(&mut Transaction, &Arc<Table>, RowId) -> Result<()>,
    ) -> Result<()> {
        let (table, mut key) = (&self.table, Vec::new());
        table.index(IndexPosition(0)).encode(&[Value::BigInt(number as i64)], &mut key)?;
        self.session.try_run(Isolation::Serializable, |transaction| {
            let row = transaction.find(table, IndexPosition(0), &key, ColumnSet::EMPTY)?;
            run(transaction, table, row.ok_or_else(|| Error::internal("a row is missing"))?)
        })
    }

    fn scans(&self, snapshot: &EngineSnapshot) -> Result<([f64; 3], Found)> {
        let (mut times, mut answers) = ([0.0; 3], Vec::new());
        for (query, time) in self.queries.iter().zip(&mut times) {
            let mut answer = Err(Error::internal("a query did not run"));
            *time = median_ms(|| answer = query.run(&snapshot.read_view()));
            answers.extend(rows_of(&answer?)?.into_iter().flatten());
        }
        let found = match answers.as_slice() {
            [ChValue::Exact(tuples, 0), ChValue::Exact(integer, 0), ChValue::Text(string)] => {
                let mut bytes = [0; STRING];
                bytes.iter_mut().zip(string.bytes()).for_each(|(to, byte)| *to = byte);
                let string = Tuple { number: 0, integer: 0, string: bytes }.string_words();
                Found { tuples: *tuples as u64, integer: *integer as u32, string }
            }
            other => return Err(Error::internal(format!("three scans answer {other:?}"))),
        };
        Ok((times, found))
    }
}

fn values(tuple: &Tuple) -> [Value; 2] {
    [Value::Integer(tuple.integer as i32), Value::text(tuple.text())]
}

fn ours(harness: &Harness<'_>) -> Result<(Times, [Found; 2])> {
    let mut random = fastrand::Rng::with_seed(harness.setup.seed);
    let mut ours = Ours::load(harness, &mut random)?;
    let before = ours.database.snapshot();
    let changes = Changes::random(harness.setup.tuples, &mut random);
    for tuple in &changes.updated {
        let [integer, string] = values(tuple);
        ours.with_row(tuple.number.into(), |transaction, table, row| {
            transaction.update(table, row, vec![(1, integer.clone()), (2, string.clone())])
        })?;
    }
    for number in &changes.deleted {
        ours.with_row(*number, |transaction, table, row| transaction.delete(table, row))?;
    }
    let before = ours.scans(&before)?;
    let after = ours.scans(&ours.database.snapshot())?;
    Ok(([before.0, after.0], [before.1, after.1]))
}
