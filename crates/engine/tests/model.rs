//! Tables, version chains, pruning, indexes and views against a plain model: a map of rows per commit.
//!
//! A random sequence of transactions (inserts, updates, deletes, key updates, loads of whole blocks, aborts) runs on one table of all kinds of
//! cells. In between, readers (transactions and snapshots) are opened and closed, and sweeps run. Every reader must
//! see exactly the state of its moment, by each way to read. There is no pruner thread here, so that a failing
//! sequence fails again.

mod support;

use ankerdb_engine::*;
use ankerdb_table::{Placement, Storage};
use ankerdb_transaction::{TransactionManager, Versioning};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use support::{image_cell, image_rows, view_rows};

/// Position of the indexed column that may be NULL.
const K: usize = 1;
const COLUMNS: [usize; 6] = [0, 1, 2, 3, 4, 5];
const IDS: i32 = 20;

type State = BTreeMap<i32, Vec<Value>>;

fn definition() -> TableDefinition {
    TableDefinition::new("t")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("k", DataType::BigInt).nullable())
        .column(ColumnDefinition::new("t", DataType::Text).nullable())
        .column(ColumnDefinition::new("b", DataType::Boolean).nullable())
        .column(ColumnDefinition::new("n", DataType::Numeric { precision: 30, scale: 2 }).nullable())
        .column(ColumnDefinition::new("s", DataType::SmallInt))
        .primary_key(&["id"])
        .index("by_k", &["k"], false)
}

/// A value of a column, from a random number. One of five is NULL where that is allowed.
fn value(column: usize, seed: u32) -> Value {
    let number = seed as i64 / 5;
    match column {
        0 => Value::Integer((number % IDS as i64) as i32),
        5 => Value::SmallInt(number as i16),
        _ if seed.is_multiple_of(5) => Value::Null,
        1 => Value::BigInt(number % 7 - 3),
        2 => match number % 4 {
            0 => Value::text(""),
            1 => Value::text(format!("{:012}", number % 1_000_000)),
            2 => Value::text(format!("{:013}", number % 1_000_000)),
            _ => Value::text(format!("{number} {}", "ä".repeat(number as usize % 500))),
        },
        3 => Value::Boolean(number % 2 == 0),
        _ => Value::Numeric(Decimal::new(number as i128 * -1_000_000_000_000_000_000_000, 2)),
    }
}

#[derive(Clone, Debug)]
enum Change {
    Insert(i32, u32),
    /// Some columns but the key; bits choose them.
    Update(i32, u8, u32),
    /// The new id may be the old one.
    Rekey(i32, i32),
    Delete(i32),
}

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Change>),
    Abort(Vec<Change>),
    /// Rows in a block of their own; one that is there already ends the commit.
    Load(Vec<(i32, u32)>),
    OpenSnapshot,
    OpenTransaction,
    /// Closes a reader.
    Close(usize),
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = || 0..IDS;
    let change = prop_oneof![
        3 => (id(), any::<u32>()).prop_map(|(id, seed)| Change::Insert(id, seed)),
        4 => (id(), any::<u8>(), any::<u32>()).prop_map(|(id, bits, seed)| Change::Update(id, bits, seed)),
        1 => (id(), id()).prop_map(|(id, to)| Change::Rekey(id, to)),
        2 => id().prop_map(Change::Delete),
    ];
    let changes = || prop::collection::vec(change.clone(), 1..8);
    let step = prop_oneof![
        8 => changes().prop_map(Step::Commit),
        2 => changes().prop_map(Step::Abort),
        2 => prop::collection::vec((id(), any::<u32>()), 1..6).prop_map(Step::Load),
        1 => Just(Step::OpenSnapshot),
        1 => Just(Step::OpenTransaction),
        2 => any::<usize>().prop_map(Step::Close),
        2 => Just(Step::Sweep),
    ];
    prop::collection::vec(step, 1..60)
}

enum Reader {
    Snapshot(Snapshot, State),
    Transaction(Box<Transaction>, State),
}

/// In place, and by each technique that takes snapshots of columns in this process; and the number of rows from which on
/// commits install ahead of their timestamp.
fn ways() -> Vec<(Option<Technique>, usize)> {
    let is_one = |technique: &Technique| *technique != Technique::Fork && technique.check().is_ok();
    let techniques = std::iter::once(None).chain(Technique::ALL.into_iter().filter(is_one).map(Some));
    techniques.flat_map(|technique| [(technique, usize::MAX), (technique, 1)]).collect()
}

struct Stage {
    manager: Arc<TransactionManager>,
    table: Arc<Table>,
    state: State,
    readers: Vec<Reader>,
}

impl Stage {
    fn new(definition: TableDefinition, (technique, ahead_from): (Option<Technique>, usize)) -> Stage {
        let strategy = match technique {
            None => SnapshotStrategy::InPlace,
            Some(_) => SnapshotStrategy::Columns,
        };
        let manager = TransactionManager::new(Versioning { strategy, ahead_from, ..Versioning::default() });
        let table = match technique {
            None => Storage::create(manager.new_table(), definition),
            Some(technique) => {
                // A segment for each block, so that columns lie in several.
                let placement = Placement { blocks_per_segment: 1, ..Placement::of(technique) };
                let table = Storage::create_in_regions(manager.new_table(), definition, placement);
                table.expect("it is available")
            }
        };
        Stage { manager, table: Arc::new(table), state: State::new(), readers: Vec::new() }
    }

    fn begin(&self, interactive: bool) -> Transaction {
        let mut transaction = Transaction::new(self.manager.clone(), self.manager.acquire_worker());
        transaction.begin(Isolation::Serializable, interactive);
        transaction
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Commit(changes) => {
                let (mut transaction, mut state) = (self.begin(false), self.state.clone());
                changes.iter().for_each(|change| self.apply(&mut transaction, &mut state, change));
                // Own writes are seen before they are committed, by each way to read.
                check_transaction(&mut transaction, &self.table, &state);
                transaction.commit().unwrap();
                self.state = state;
            }
            Step::Abort(changes) => {
                let (mut transaction, mut state) = (self.begin(true), self.state.clone());
                changes.iter().for_each(|change| self.apply(&mut transaction, &mut state, change));
                check_transaction(&mut transaction, &self.table, &state);
                transaction.rollback();
            }
            Step::Load(rows) => self.load(rows),
            Step::OpenSnapshot => {
                self.readers.push(Reader::Snapshot(self.manager.snapshot(), self.state.clone()));
            }
            Step::OpenTransaction => {
                let transaction = Box::new(self.begin(true));
                self.readers.push(Reader::Transaction(transaction, self.state.clone()));
            }
            Step::Close(number) => {
                if !self.readers.is_empty() {
                    self.readers.swap_remove(number % self.readers.len());
                }
            }
            Step::Sweep => {
                Storage::of(&self.table).sweep(self.manager.horizon(), &crossbeam_epoch::pin());
            }
        }
    }

    /// Loads rows, where they can be loaded: all of them, or none if a key is taken.
    fn load(&mut self, rows: &[(i32, u32)]) {
        let mut transaction = self.begin(false);
        if !transaction.can_load(&self.table) {
            return;
        }
        let (mut state, mut refused) = (self.state.clone(), None);
        for (place, &(id, seed)) in rows.iter().enumerate() {
            let row = new_row(id, seed);
            transaction.load(&self.table, |column| ValueRef::from(&row[column])).unwrap();
            if state.insert(id, row).is_some() {
                refused = refused.or(Some(place));
            }
        }
        match (transaction.commit(), refused) {
            (Ok(_), None) => self.state = state,
            (Err(error), Some(_)) => {
                assert_eq!(error.state(), SqlState::UniqueViolation);
                let told = transaction.refused_row().expect("it is one of the load's");
                let is_taken = self.state.contains_key(&rows[told].0);
                assert!(
                    is_taken || rows[..told].iter().any(|(id, _)| *id == rows[told].0),
                    "{told}: {rows:?}"
                );
            }
            (outcome, refused) => panic!("{outcome:?}, but {refused:?}"),
        }
    }

    /// Applies a change where it applies.
    fn apply(&self, transaction: &mut Transaction, state: &mut State, change: &Change) {
        match *change {
            Change::Insert(id, seed) if !state.contains_key(&id) => {
                let row = new_row(id, seed);
                transaction.insert(&self.table, row.clone()).unwrap();
                state.insert(id, row);
            }
            Change::Update(id, bits, seed) if state.contains_key(&id) => {
                let chosen = COLUMNS[1..].iter().filter(|&&column| bits >> column & 1 == 1);
                let changes: Vec<_> =
                    chosen.map(|&column| (column, value(column, seed.rotate_left(column as u32)))).collect();
                let row = state.get_mut(&id).unwrap();
                changes.iter().for_each(|(column, value)| row[*column] = value.clone());
                let found = find(transaction, &self.table, id).expect("the model has it");
                transaction.update(&self.table, found, changes).unwrap();
            }
            Change::Rekey(id, to) if state.contains_key(&id) && (id == to || !state.contains_key(&to)) => {
                let mut row = state.remove(&id).unwrap();
                row[0] = Value::Integer(to);
                state.insert(to, row);
                let found = find(transaction, &self.table, id).expect("the model has it");
                transaction.update(&self.table, found, vec![(0, Value::Integer(to))]).unwrap();
            }
            Change::Delete(id) if state.contains_key(&id) => {
                state.remove(&id);
                let found = find(transaction, &self.table, id).expect("the model has it");
                transaction.delete(&self.table, found).unwrap();
            }
            _ => {}
        }
    }

    fn check_readers(&mut self) {
        for reader in &mut self.readers {
            match reader {
                Reader::Snapshot(snapshot, state) => check_view(&snapshot.read_view(), &self.table, state),
                Reader::Transaction(transaction, state) => check_transaction(transaction, &self.table, state),
            }
        }
    }
}

fn new_row(id: i32, seed: u32) -> Vec<Value> {
    let values = COLUMNS.iter().map(|&column| value(column, seed.wrapping_mul(2 * column as u32 + 1)));
    let mut row: Vec<Value> = values.collect();
    row[0] = Value::Integer(id);
    row
}

fn find(transaction: &mut Transaction, table: &Arc<Table>, id: i32) -> Option<RowId> {
    let key = support::key(table, IndexPosition(0), &[id]);
    transaction.find(table, IndexPosition(0), &key, ColumnSet::ALL).unwrap()
}

fn row(transaction: &Transaction, table: &Arc<Table>, row: RowId) -> Vec<Value> {
    COLUMNS.iter().map(|&column| transaction.value(table, row, column)).collect()
}

fn check_view(view: &ReadView, table: &Table, state: &State) {
    let by_id = |row: &Vec<Value>| row[0].as_integer();
    let mut rows = view_rows(view, table, &COLUMNS);
    rows.sort_by_key(by_id);
    assert!(rows.iter().eq(state.values()), "view: {rows:?}\nmodel: {state:?}");
    check_bounds(view, table);
}

/// What a view shows of a block is within the bounds that scans leave out blocks by.
fn check_bounds(view: &ReadView, table: &Table) {
    for part in 0..view.parts(table) {
        let rows = image_rows(&view.read(table, part, &COLUMNS).unwrap(), table, &COLUMNS);
        for column in COLUMNS {
            let Some(bounds) = view.bounds(table, part, column) else { continue };
            let is_within = |value: &Value| value.as_integer().is_none_or(|number| bounds.contains(&number));
            assert!(rows.iter().all(|row| is_within(&row[column])), "column {column}, {bounds:?}: {rows:?}");
        }
    }
}

fn check_transaction(transaction: &mut Transaction, table: &Arc<Table>, state: &State) {
    for id in 0..IDS {
        let found = find(transaction, table, id).map(|found| row(transaction, table, found));
        assert_eq!(found.as_ref(), state.get(&id));
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let mut by_id = scan(transaction, table, 0, &KeyRange::all(), direction);
        let mut by_k = scan(transaction, table, 1, &KeyRange::all(), direction);
        if direction == Direction::Backward {
            by_id.reverse();
            by_k.reverse();
        }
        assert!(by_id.iter().eq(state.values()), "by id: {by_id:?}\nmodel: {state:?}");
        // NULL comes last; rows of one key in any order.
        let order = |row: &Vec<Value>| row[K].as_integer().map_or((1, 0), |k| (0, k));
        assert!(by_k.is_sorted_by_key(order), "by k: {by_k:?}");
        by_k.sort_by_key(|row| row[0].as_integer());
        assert_eq!(by_k, by_id);
        let mut key = Vec::new();
        table.index(IndexPosition(1)).encode(&[Value::BigInt(1)], &mut key).unwrap();
        let ones = scan(transaction, table, 1, &KeyRange::prefix(&key), direction).len();
        assert_eq!(ones, state.values().filter(|row| row[K] == Value::BigInt(1)).count());
    }
    let mut scanned = Vec::new();
    let all = transaction.scan_table(table, ColumnSet::ALL, None, &mut |transaction, found| {
        scanned.push(row(transaction, table, found));
        Ok(ControlFlow::Continue(()))
    });
    all.unwrap();
    scanned.sort_by_key(|row| row[0].as_integer());
    assert!(scanned.iter().eq(state.values()), "scan: {scanned:?}\nmodel: {state:?}");
    check_view(&transaction.read_view(), table, state);
}

fn scan(
    transaction: &mut Transaction,
    table: &Arc<Table>,
    index: usize,
    range: &KeyRange,
    direction: Direction,
) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let scanned = transaction.scan_index(
        table,
        IndexPosition(index),
        range,
        direction,
        ColumnSet::ALL,
        &mut |transaction, found| {
            rows.push(row(transaction, table, found));
            Ok(ControlFlow::Continue(()))
        },
    );
    scanned.unwrap();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_reader_sees_its_state(steps in steps(), hashed in any::<bool>(), way in any::<usize>()) {
        let definition = definition();
        let definition = match hashed {
            true => definition.hashed("t_pkey").hashed("by_k"),
            false => definition,
        };
        let mut stage = Stage::new(definition, ways()[way % ways().len()]);
        for step in &steps {
            stage.step(step);
            stage.check_readers();
        }
        // When all readers have gone nothing is left but the newest state.
        stage.readers.clear();
        let pin = crossbeam_epoch::pin();
        Storage::of(&stage.table).sweep(stage.manager.horizon(), &pin);
        prop_assert_eq!(stage.table.version_bytes(&pin), 0);
        prop_assert_eq!(stage.table.row_count(), stage.state.len());
        for (_, index) in stage.table.maintained_indexes() {
            prop_assert_eq!(index.entry_count(), stage.state.len());
        }
        let mut last = stage.begin(true);
        check_transaction(&mut last, &stage.table, &stage.state);
    }
}

/// Several blocks, full and not, some changed and some not, under readers from before and after.
#[test]
fn blocks_in_all_states_at_once() {
    ways().into_iter().for_each(blocks_in_all_states);
}

fn blocks_in_all_states(way: (Option<Technique>, usize)) {
    const ROWS: i32 = 20_000;
    let mut stage = Stage::new(definition(), way);
    let make = |id: i32, seed: u32| {
        let mut row: Vec<Value> =
            COLUMNS.iter().map(|&column| value(column, seed ^ (id as u32 * (column as u32 + 7)))).collect();
        row[0] = Value::Integer(id);
        row
    };
    let mut load = stage.begin(false);
    for id in 0..ROWS {
        load.insert(&stage.table, make(id, 1)).unwrap();
        stage.state.insert(id, make(id, 1));
    }
    load.commit().unwrap();
    assert_eq!(stage.table.block_count(), 3);
    let views = |stage: &Stage| {
        let snapshots = stage.readers.iter().filter_map(|reader| match reader {
            Reader::Snapshot(snapshot, state) => Some((snapshot.read_view(), state.clone())),
            Reader::Transaction(..) => None,
        });
        snapshots.collect::<Vec<_>>()
    };
    // The second block is never touched.
    let touched: Vec<i32> = (0..8_000).step_by(3).chain(17_000..ROWS).collect();
    for turn in 0..4 {
        stage.step(&Step::OpenSnapshot);
        // Some are read before the writes, and so borrow, others only afterwards.
        if turn % 2 == 0 {
            let (view, state) = views(&stage).pop().unwrap();
            check_view(&view, &stage.table, &state);
        }
        let mut writer = stage.begin(false);
        for &id in &touched {
            let found = find(&mut writer, &stage.table, id);
            match (id % 5 == turn, found) {
                (true, Some(found)) => {
                    writer.delete(&stage.table, found).unwrap();
                    stage.state.remove(&id);
                }
                (_, Some(found)) => {
                    let new = make(id, turn as u32 + 2);
                    let changes = vec![(1, new[1].clone()), (2, new[2].clone()), (4, new[4].clone())];
                    let row = stage.state.get_mut(&id).unwrap();
                    changes.iter().for_each(|(column, value)| row[*column] = value.clone());
                    writer.update(&stage.table, found, changes).unwrap();
                }
                (_, None) => {
                    writer.insert(&stage.table, make(id, 9)).unwrap();
                    stage.state.insert(id, make(id, 9));
                }
            }
        }
        writer.commit().unwrap();
        stage.step(&Step::Sweep);
        for (view, state) in views(&stage) {
            check_view(&view, &stage.table, &state);
        }
    }
    check_untouched_block(&views(&stage)[0].0, &stage.table, way.0.is_none());
    while !stage.readers.is_empty() {
        stage.step(&Step::Close(1));
        stage.step(&Step::Sweep);
        for (view, state) in views(&stage) {
            check_view(&view, &stage.table, &state);
        }
    }
    assert_eq!(stage.table.version_bytes(&crossbeam_epoch::pin()), 0);
}

/// The second block of the table above, of which nothing has changed.
fn check_untouched_block(view: &ReadView, table: &Table, is_lent: bool) {
    let lent = view.read(table, 1, &COLUMNS).unwrap();
    assert!(lent.columns.iter().all(|column| column.lent == is_lent), "the second block was not changed");
    assert_eq!(image_cell(&lent.columns[0], 0, DataType::Integer), Value::Integer(8_192));
    assert_eq!(image_rows(&lent, table, &COLUMNS).len(), ROWS_PER_BLOCK);
}
