//! Savepoints against a plain model: a stack of maps, one for each savepoint that is open.
//!
//! A random sequence of writes, savepoints, rollbacks to them and releases runs in one transaction, over rows that were
//! committed before and rows of its own. After each step every way to look must show what the model has: by primary key, by
//! unique key, by ranges of an index that were asked for before and after, by a scan of the table, and by a view for
//! analytics. In the end the transaction commits, and a new one must see the same.

mod support;

use ankerdb_engine::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use support::view_rows;

const ID: usize = 0;
const CODE: usize = 1;
const KIND: usize = 2;
const NOTE: usize = 3;
const BY_ID: IndexPosition = IndexPosition(0);
const IDS: i32 = 12;

/// code, kind, note
type Row = (i32, i32, String);
type State = BTreeMap<i32, Row>;

fn create(database: &Database) -> Arc<Table> {
    let definition = TableDefinition::new("t")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("code", DataType::Integer))
        .column(ColumnDefinition::new("kind", DataType::Integer))
        .column(ColumnDefinition::new("note", DataType::Text))
        .primary_key(&["id"])
        .index("by_code", &["code"], true)
        .index("by_kind", &["kind"], false);
    database.create_table(definition).unwrap()
}

fn values(id: i32, (code, kind, note): &Row) -> Vec<Value> {
    vec![Value::Integer(id), Value::Integer(*code), Value::Integer(*kind), Value::text(note.as_str())]
}

#[derive(Clone, Debug)]
enum Step {
    Insert(i32, i32, i32, u16),
    Recode(i32, i32),
    Rekind(i32, i32),
    Note(i32, u16),
    /// Another id.
    Move(i32, i32),
    /// Ids, or codes, of the rows whose bits are set go round by so many, in one statement.
    Turn(usize, u16, i32),
    Delete(i32),
    Set,
    /// To one of the savepoints that are open.
    RollBack(usize),
    Release(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = || 0..IDS;
    let step = prop_oneof![
        4 => (id(), 0..20i32, 0..4i32, any::<u16>()).prop_map(|(id, code, kind, note)| Step::Insert(id, code, kind, note)),
        2 => (id(), 0..20i32).prop_map(|(id, code)| Step::Recode(id, code)),
        2 => (id(), 0..4i32).prop_map(|(id, kind)| Step::Rekind(id, kind)),
        2 => (id(), any::<u16>()).prop_map(|(id, note)| Step::Note(id, note)),
        1 => (id(), id()).prop_map(|(id, to)| Step::Move(id, to)),
        2 => (prop_oneof![Just(ID), Just(CODE)], any::<u16>(), 1..IDS).prop_map(|(column, rows, by)| Step::Turn(column, rows, by)),
        2 => id().prop_map(Step::Delete),
        3 => Just(Step::Set),
        2 => any::<usize>().prop_map(Step::RollBack),
        1 => any::<usize>().prop_map(Step::Release),
    ];
    prop::collection::vec(step, 1..80)
}

fn note(seed: u16) -> String {
    format!("{seed} {}", "x".repeat(usize::from(seed % 40)))
}

struct Stage {
    table: Arc<Table>,
    transaction: Transaction,
    state: State,
    open: Vec<(Savepoint, State)>,
    _session: Session,
}

impl Stage {
    fn key(&self, index: IndexPosition, value: i32) -> Vec<u8> {
        let mut key = Vec::new();
        self.table.index(index).encode(&[Value::Integer(value)], &mut key).unwrap();
        key
    }

    fn find(&mut self, index: IndexPosition, value: i32) -> Option<RowId> {
        let key = self.key(index, value);
        self.transaction.find(&self.table, index, &key, ColumnSet::ALL).unwrap()
    }

    /// Writes one column of rows in one statement, which fails if two rows have one id or one code then.
    fn update(&mut self, column: usize, changes: &[(i32, Value)]) {
        let mut rows: Vec<(i32, Row)> = self.state.iter().map(|(id, row)| (*id, row.clone())).collect();
        for (id, row) in &mut rows {
            match (column, changes.iter().find(|(changed, _)| changed == id).map(|(_, value)| value.clone()))
            {
                (ID, Some(Value::Integer(to))) => *id = to,
                (CODE, Some(Value::Integer(code))) => row.0 = code,
                (KIND, Some(Value::Integer(kind))) => row.1 = kind,
                (NOTE, Some(Value::Text(note))) => row.2 = note.to_string(),
                (_, change) => assert!(change.is_none(), "{change:?}"),
            }
        }
        let count = rows.len();
        let codes: BTreeSet<i32> = rows.iter().map(|(_, row)| row.0).collect();
        let state: State = rows.into_iter().collect();
        let is_refused = state.len() < count || codes.len() < count;
        let savepoint = is_refused.then(|| self.transaction.set_savepoint().unwrap());
        let found: Vec<_> = changes.iter().map(|(id, _)| self.find(BY_ID, *id)).collect();
        for (row, (_, value)) in found.into_iter().zip(changes) {
            let Some(row) = row else { continue };
            self.transaction.lock(&self.table, row, LockWait::Wait).unwrap();
            self.transaction.update(&self.table, row, vec![(column, value.clone())]).unwrap();
        }
        let checked = self.transaction.check_constraints();
        match savepoint {
            Some(savepoint) => {
                assert_eq!(checked.unwrap_err().state(), SqlState::UniqueViolation);
                self.transaction.rollback_to(savepoint);
                self.transaction.release_savepoint(savepoint);
            }
            None => {
                checked.unwrap();
                self.state = state;
            }
        }
    }

    fn step(&mut self, step: &Step) {
        self.transaction.begin_statement();
        match *step {
            Step::Insert(id, code, kind, seed) => {
                let row = (code, kind, note(seed));
                let is_taken = self.state.iter().any(|(other, row)| *other == id || row.0 == code);
                let inserted = self.transaction.insert(&self.table, values(id, &row)).map(drop);
                assert_eq!(
                    inserted.map_err(|error| error.state()).err(),
                    is_taken.then_some(SqlState::UniqueViolation)
                );
                if !is_taken {
                    self.state.insert(id, row);
                }
            }
            Step::Recode(id, code) => self.update(CODE, &[(id, Value::Integer(code))]),
            Step::Rekind(id, kind) => self.update(KIND, &[(id, Value::Integer(kind))]),
            Step::Note(id, seed) => self.update(NOTE, &[(id, Value::text(note(seed)))]),
            Step::Move(id, to) => self.update(ID, &[(id, Value::Integer(to))]),
            Step::Turn(column, bits, by) => {
                let turned = |(id, row): (&i32, &Row)| {
                    let (now, count) = if column == ID { (*id, IDS) } else { (row.0, 20) };
                    (bits >> id & 1 == 1).then(|| (*id, Value::Integer((now + by) % count)))
                };
                let changes: Vec<(i32, Value)> = self.state.iter().filter_map(turned).collect();
                self.update(column, &changes);
            }
            Step::Delete(id) => {
                if let Some(row) = self.find(BY_ID, id) {
                    self.transaction.lock(&self.table, row, LockWait::Wait).unwrap();
                    self.transaction.delete(&self.table, row).unwrap();
                    self.state.remove(&id);
                }
            }
            Step::Set => {
                let savepoint = self.transaction.set_savepoint().unwrap();
                self.open.push((savepoint, self.state.clone()));
            }
            Step::RollBack(which) if !self.open.is_empty() => {
                self.open.truncate(which % self.open.len() + 1);
                let (savepoint, state) = self.open.last().unwrap();
                self.transaction.rollback_to(*savepoint);
                self.state = state.clone();
            }
            Step::Release(which) if !self.open.is_empty() => {
                let which = which % self.open.len();
                self.transaction.release_savepoint(self.open[which].0);
                self.open.truncate(which);
            }
            Step::RollBack(_) | Step::Release(_) => {}
        }
    }

    /// The row as this transaction reads it.
    fn read(&self, row: RowId) -> (i32, Row) {
        let integer = |column| self.transaction.integer(&self.table, row, column);
        let note = self.transaction.text(&self.table, row, NOTE).to_string();
        (integer(ID), (integer(CODE), integer(KIND), note))
    }

    fn check(&mut self) {
        self.transaction.begin_statement();
        for id in 0..IDS {
            let found = self.find(BY_ID, id).map(|row| self.read(row));
            assert_eq!(found, self.state.get(&id).map(|row| (id, row.clone())), "id {id}");
        }
        for code in 0..20 {
            let found = self.find(IndexPosition(CODE), code).map(|row| self.read(row));
            let known = self.state.iter().find(|(_, row)| row.0 == code);
            assert_eq!(found, known.map(|(id, row)| (*id, row.clone())), "code {code}");
        }
        let known: Vec<i32> = self.state.keys().copied().collect();
        assert_eq!(self.all_ids(), known);
        for kinds in [(0, 3), (1, 2), (2, 2)] {
            let mut known: Vec<i32> = (self.state.iter())
                .filter(|(_, row)| (kinds.0..=kinds.1).contains(&row.1))
                .map(|(id, _)| *id)
                .collect();
            known.sort_unstable();
            assert_eq!(self.ids_of_kinds(kinds), known, "kinds {kinds:?}");
        }
        let mut view = view_rows(&self.transaction.read_view(), &self.table, &[ID, CODE, KIND, NOTE]);
        let known: Vec<Vec<Value>> = self.state.iter().map(|(id, row)| values(*id, row)).collect();
        view.sort_by_key(|row| format!("{:?}", row[0]));
        let mut known = known;
        known.sort_by_key(|row| format!("{:?}", row[0]));
        assert_eq!(view, known);
    }

    fn all_ids(&mut self) -> Vec<i32> {
        let (table, mut ids) = (self.table.clone(), Vec::new());
        let scanned = self.transaction.scan_table(&table, ColumnSet::ALL, None, &mut |transaction, row| {
            ids.push(transaction.integer(&table, row, ID));
            Ok(ControlFlow::Continue(()))
        });
        scanned.unwrap();
        ids.sort_unstable();
        ids
    }

    fn ids_of_kinds(&mut self, (low, high): (i32, i32)) -> Vec<i32> {
        let range = KeyRange {
            lower: Bound::Included(self.key(IndexPosition(KIND), low)),
            upper: Bound::Included(self.key(IndexPosition(KIND), high)),
        };
        let (table, mut ids) = (self.table.clone(), Vec::new());
        let scanned = self.transaction.scan_index(
            &table,
            IndexPosition(KIND),
            &range,
            Direction::Forward,
            ColumnSet::ALL,
            &mut |transaction, row| {
                ids.push(transaction.integer(&table, row, ID));
                Ok(ControlFlow::Continue(()))
            },
        );
        scanned.unwrap();
        ids.sort_unstable();
        ids
    }
}

fn run(steps: &[Step], looks: bool) {
    let database = Database::new();
    let table = create(&database);
    let committed: State = (0..IDS / 2).map(|id| (id, (id, id % 4, format!("old {id}")))).collect();
    support::fill(&database, &table, committed.iter().map(|(id, row)| values(*id, row)));
    let mut session = database.session();
    let transaction = session.begin(Isolation::Serializable);
    let mut stage = Stage { table, transaction, state: committed, open: Vec::new(), _session: session };
    for step in steps {
        stage.step(step);
        if looks {
            stage.check();
        }
    }
    stage.check();
    stage.transaction.commit().unwrap();
    let mut session = database.session();
    stage.transaction = session.begin(Isolation::Serializable);
    stage.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn savepoints_take_back_what_came_after_them(steps in steps()) {
        // With and without looks in between, which collect the transaction's own keys.
        run(&steps, true);
        run(&steps, false);
    }
}

#[test]
fn a_savepoint_for_each_of_many_statements_costs_the_same_each_time() {
    let database = Database::new();
    let table = create(&database);
    let mut session = database.session();
    let mut transaction = session.begin(Isolation::Serializable);
    let row = |id: i32| values(id, &(id, id % 4, String::new()));
    for id in 0..60_000 {
        let savepoint = transaction.set_savepoint().unwrap();
        transaction.insert(&table, row(id)).unwrap();
        if id % 3 == 0 {
            // The key is there already.
            assert_eq!(transaction.insert(&table, row(id)).unwrap_err().state(), SqlState::UniqueViolation);
            transaction.rollback_to(savepoint);
            transaction.insert(&table, row(id)).unwrap();
        }
        transaction.release_savepoint(savepoint);
    }
    assert_eq!(transaction.write_count(), 60_000);
    transaction.commit().unwrap();
    assert_eq!(table.row_count(), 60_000);
}

#[test]
fn nothing_of_a_transaction_that_was_taken_back_stays_for_the_next_one() {
    let database = Database::new();
    let table = create(&database);
    let mut session = database.session();
    let find = |transaction: &mut Transaction, table: &Arc<Table>, id: i32| {
        let mut key = Vec::new();
        table.index(BY_ID).encode(&[Value::Integer(id)], &mut key)?;
        transaction.find(table, BY_ID, &key, ColumnSet::ALL)
    };
    let done = session.try_run(Isolation::Serializable, |transaction| {
        let savepoint = transaction.set_savepoint()?;
        transaction.insert(&table, values(1, &(1, 1, String::new())))?;
        assert!(find(transaction, &table, 1)?.is_some());
        transaction.rollback_to(savepoint);
        assert!(find(transaction, &table, 1)?.is_none() && !transaction.has_writes());
        Ok(())
    });
    done.unwrap();
    let definition = TableDefinition::new("other")
        .column(ColumnDefinition::new("a", DataType::Integer))
        .column(ColumnDefinition::new("id", DataType::Integer));
    let other = database.create_table(definition.primary_key(&["id"])).unwrap();
    // Its first table has the number that the other one had in the transaction before, and its key lies in another column.
    let done = session.try_run(Isolation::Serializable, |transaction| {
        let row = transaction.insert(&other, vec![Value::Integer(1), Value::Integer(2)])?;
        assert_eq!(find(transaction, &other, 2)?, Some(row));
        transaction.update(&other, row, vec![(1, Value::Integer(3))])?;
        assert_eq!((find(transaction, &other, 2)?, find(transaction, &other, 3)?), (None, Some(row)));
        Ok(())
    });
    done.unwrap();
    assert_eq!((table.row_count(), other.row_count()), (0, 1));
}
