//! Foreign keys through the engine: they hold however transactions interleave, at every level, with an index of the child and
//! without.

mod support;

use ankerdb_engine::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{A, ID, KIND, LEVELS, find, item, items};

/// A parent, and a child that refers to it by one of its columns.
struct Tables {
    database: Database,
    parent: Arc<Table>,
    child: Arc<Table>,
    column: usize,
}

/// The columns by which a child may refer: one with an index, and one without.
const COLUMNS: [usize; 2] = [KIND, A];

fn create(column: usize, follows: ReferentialAction) -> Tables {
    let database = Database::new();
    items(&database, "p");
    let child = items(&database, "c");
    let key = NewForeignKey {
        name: "c_fkey".into(),
        columns: vec![child.columns()[column].name.clone()],
        parent: QualifiedName { schema: None, name: "p".into() },
        parent_columns: Vec::new(),
        on_delete: follows,
        on_update: follows,
        set_columns: Vec::new(),
        defaults: Vec::new(),
        is_full: false,
        timing: ConstraintTiming::Immediate,
        is_validated: true,
    };
    let mut definitions = database.definitions(&Interrupt::new());
    let mut transaction = database.session().begin(Isolation::Serializable);
    definitions.add_foreign_key(&RelationName::new(SchemaId::PUBLIC, "c"), &key, &mut transaction).unwrap();
    definitions.commit(Some(&mut transaction)).unwrap();
    let (parent, child) = (database.catalog().table("p").unwrap(), database.catalog().table("c").unwrap());
    Tables { database, parent, child, column }
}

impl Tables {
    fn row(&self, id: i32, parent: i32) -> Vec<Value> {
        let mut row = item(id, 0, 0, 0);
        row[self.column] =
            if self.column == A { Value::BigInt(parent.into()) } else { Value::Integer(parent) };
        row
    }

    fn add_child(&self, transaction: &mut Transaction, id: i32, parent: i32) -> Result<()> {
        transaction.insert(&self.child, self.row(id, parent))?;
        transaction.check_constraints()
    }

    fn delete_parent(&self, transaction: &mut Transaction, id: i32) -> Result<()> {
        let Some(row) = find(transaction, &self.parent, id, &[])? else { return Ok(()) };
        if transaction.is_interactive() {
            transaction.lock(&self.parent, row, LockWait::Wait)?;
        }
        transaction.delete(&self.parent, row)?;
        transaction.check_constraints()
    }

    /// Children whose parents are not there, as of now.
    fn orphans(&self) -> usize {
        let mut session = self.database.session();
        let mut transaction = session.begin(Isolation::RepeatableRead);
        let mut parents = Vec::new();
        let mut visit = |transaction: &mut Transaction, row: RowId| {
            parents.push(i64::from(transaction.integer(&self.parent, row, ID)));
            Ok(ControlFlow::Continue(()))
        };
        transaction.scan_table(&self.parent, ColumnSet::of(&[ID]), None, &mut visit).unwrap();
        let mut orphans = 0;
        let mut visit = |transaction: &mut Transaction, row: RowId| {
            let parent = match transaction.value(&self.child, row, self.column) {
                Value::Integer(parent) => i64::from(parent),
                Value::BigInt(parent) => parent,
                _ => return Ok(ControlFlow::Continue(())),
            };
            orphans += usize::from(!parents.contains(&parent));
            Ok(ControlFlow::Continue(()))
        };
        transaction.scan_table(&self.child, ColumnSet::ALL, None, &mut visit).unwrap();
        orphans
    }

    fn begin(&self, level: Isolation, interactive: bool) -> Transaction {
        let mut session = self.database.session();
        if interactive { session.begin(level) } else { session.begin_procedure(level) }
    }
}

fn state<T>(result: Result<T>) -> Option<SqlState> {
    result.err().map(|error| error.state())
}

fn each_case(test: impl Fn(Isolation, bool, usize)) {
    for level in LEVELS {
        for interactive in [false, true] {
            for column in COLUMNS {
                test(level, interactive, column);
            }
        }
    }
}

#[test]
fn of_a_child_and_the_end_of_its_parent_the_second_to_commit_ends() {
    each_case(|level, interactive, column| {
        for child_is_first in [false, true] {
            let tables = create(column, ReferentialAction::NoAction);
            support::fill(&tables.database, &tables.parent, [item(1, 0, 0, 0), item(2, 0, 0, 0)]);
            let mut adds = tables.begin(level, interactive);
            let mut deletes = tables.begin(level, interactive);
            tables.add_child(&mut adds, 10, 1).unwrap();
            tables.delete_parent(&mut deletes, 1).unwrap();
            let (first, second) =
                if child_is_first { (&mut adds, &mut deletes) } else { (&mut deletes, &mut adds) };
            let case = format!(
                "{level:?}, interactive {interactive}, column {column}, child first {child_is_first}"
            );
            assert_eq!(state(first.commit()), None, "{case}");
            assert_eq!(state(second.commit()), Some(SqlState::SerializationFailure), "{case}");
            assert_eq!(tables.orphans(), 0, "{case}");
        }
    });
}

#[test]
fn what_was_found_has_to_hold_at_later_statements_too() {
    for column in COLUMNS {
        let tables = create(column, ReferentialAction::NoAction);
        support::fill(&tables.database, &tables.parent, [item(1, 0, 0, 0), item(2, 0, 0, 0)]);
        let mut adds = tables.begin(Isolation::ReadCommitted, true);
        tables.add_child(&mut adds, 10, 1).unwrap();
        let mut other = tables.begin(Isolation::ReadCommitted, true);
        tables.delete_parent(&mut other, 1).unwrap();
        other.commit().unwrap();
        // Many commits later, and a statement that has nothing to do with it.
        for id in 100..200 {
            support::fill(&tables.database, &tables.parent, [item(id, 0, 0, 0)]);
        }
        adds.begin_statement();
        tables.add_child(&mut adds, 11, 150).unwrap();
        assert_eq!(state(adds.commit()), Some(SqlState::SerializationFailure));
        assert_eq!(tables.orphans(), 0);
    }
}

#[test]
fn what_does_not_concern_the_key_is_no_conflict() {
    each_case(|level, interactive, column| {
        let tables = create(column, ReferentialAction::NoAction);
        support::fill(&tables.database, &tables.parent, [item(1, 0, 0, 0), item(2, 0, 0, 0)]);
        let mut adds = tables.begin(level, interactive);
        tables.add_child(&mut adds, 10, 1).unwrap();
        let mut other = tables.begin(level, interactive);
        let row = find(&mut other, &tables.parent, 1, &[]).unwrap().unwrap();
        other.update(&tables.parent, row, vec![(A, Value::BigInt(9))]).unwrap();
        tables.add_child(&mut other, 11, 1).unwrap();
        tables.delete_parent(&mut other, 2).unwrap();
        other.commit().unwrap();
        // A statement later, with a parent that came meanwhile.
        support::fill(&tables.database, &tables.parent, [item(3, 0, 0, 0)]);
        adds.begin_statement();
        if level == Isolation::ReadCommitted {
            tables.add_child(&mut adds, 12, 3).unwrap();
        }
        assert_eq!(state(adds.commit()), None, "{level:?}, {interactive}, {column}");
        assert_eq!(tables.orphans(), 0);
    });
}

#[test]
fn a_procedure_is_tested_when_it_commits_at_the_latest() {
    for column in COLUMNS {
        let tables = create(column, ReferentialAction::NoAction);
        let mut session = tables.database.session();
        let orphan = session.try_run(Isolation::ReadCommitted, |transaction| {
            transaction.insert(&tables.child, tables.row(1, 5)).map(drop)
        });
        assert_eq!(state(orphan), Some(SqlState::ForeignKeyViolation));
        let late = session.try_run(Isolation::ReadCommitted, |transaction| {
            transaction.insert(&tables.child, tables.row(1, 5))?;
            transaction.insert(&tables.parent, item(5, 0, 0, 0)).map(drop)
        });
        assert_eq!(late, Ok(()));
        let gone = session.try_run(Isolation::ReadCommitted, |transaction| {
            let row = find(transaction, &tables.parent, 5, &[])?.expect("it is there");
            transaction.delete(&tables.parent, row)
        });
        assert_eq!(state(gone), Some(SqlState::ForeignKeyViolation));
        assert_eq!(tables.orphans(), 0);
    }
}

#[test]
fn a_chain_of_rows_costs_no_stack() {
    const LENGTH: i32 = 50_000;
    let database = Database::new();
    let table = items(&database, "t");
    let key = NewForeignKey {
        name: "t_fkey".into(),
        columns: vec![table.columns()[KIND].name.clone()],
        parent: QualifiedName { schema: None, name: "t".into() },
        parent_columns: vec!["id".into()],
        on_delete: ReferentialAction::Cascade,
        on_update: ReferentialAction::NoAction,
        set_columns: Vec::new(),
        defaults: Vec::new(),
        is_full: false,
        timing: ConstraintTiming::Immediate,
        is_validated: true,
    };
    let mut definitions = database.definitions(&Interrupt::new());
    let mut transaction = database.session().begin(Isolation::Serializable);
    definitions.add_foreign_key(&RelationName::new(SchemaId::PUBLIC, "t"), &key, &mut transaction).unwrap();
    definitions.commit(Some(&mut transaction)).unwrap();
    let table = database.catalog().table("t").unwrap();
    support::fill(&database, &table, (0..LENGTH).map(|id| item(id, 0, 0, (id - 1).max(0))));
    let deleted = database.session().try_run(Isolation::Serializable, |transaction| {
        let row = find(transaction, &table, 0, &[])?.expect("it is there");
        transaction.delete(&table, row)
    });
    assert_eq!(deleted, Ok(()));
    assert_eq!(table.row_count(), 0);
}

/// With a scan for each of the parents this would take minutes.
#[test]
fn one_scan_looks_for_all_keys_of_a_statement() {
    const ROWS: i32 = 20_000;
    let database = Database::new();
    items(&database, "p");
    let mut definitions = database.definitions(&Interrupt::new());
    let mut transaction = database.session().begin(Isolation::Serializable);
    for (child, column) in [("with", "kind"), ("without", "a")] {
        definitions.create_table(support::items_definition(child)).unwrap();
        let key = NewForeignKey {
            name: format!("{child}_fkey"),
            columns: vec![column.into()],
            parent: QualifiedName { schema: None, name: "p".into() },
            parent_columns: Vec::new(),
            on_delete: ReferentialAction::Cascade,
            on_update: ReferentialAction::NoAction,
            set_columns: Vec::new(),
            defaults: Vec::new(),
            is_full: false,
            timing: ConstraintTiming::Immediate,
            is_validated: true,
        };
        let child = RelationName::new(SchemaId::PUBLIC, child);
        definitions.add_foreign_key(&child, &key, &mut transaction).unwrap();
    }
    definitions.commit(Some(&mut transaction)).unwrap();
    let table = |name: &str| database.catalog().table(name).unwrap();
    let (parent, with, without) = (table("p"), table("with"), table("without"));
    support::fill(&database, &parent, (0..ROWS).map(|id| item(id, 0, 0, 0)));
    support::fill(&database, &with, (0..ROWS).map(|id| item(id, 0, 0, id)));
    support::fill(&database, &without, (0..ROWS).map(|id| item(id, id.into(), 0, 0)));
    let deleted = database.session().try_run(Isolation::Serializable, |transaction| {
        for id in 0..ROWS {
            let row = find(transaction, &parent, id, &[])?.expect("it is there");
            transaction.delete(&parent, row)?;
        }
        transaction.check_constraints()
    });
    assert_eq!(deleted, Ok(()));
    assert_eq!((with.row_count(), without.row_count()), (0, 0));
}

/// Threads that add children, and delete parents and children, without looking at each other.
#[test]
fn no_child_is_left_alone_under_load() {
    const PARENTS: i32 = 8;
    for (number, column) in COLUMNS.into_iter().enumerate() {
        for follows in [ReferentialAction::NoAction, ReferentialAction::Cascade] {
            let tables = create(column, follows);
            support::fill(&tables.database, &tables.parent, (0..PARENTS).map(|id| item(id, 0, 0, 0)));
            let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for thread in 0..4u64 {
                    let (tables, next, done) = (&tables, &next, &done);
                    scope.spawn(move || {
                        let mut random = 0x9E37_79B9_u64.wrapping_mul(thread + 1) + number as u64;
                        for _ in 0..400 {
                            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                            let parent = ((random >> 40) % PARENTS as u64) as i32;
                            let level = LEVELS[(random >> 50) as usize % LEVELS.len()];
                            let mut transaction = tables.begin(level, random >> 60 & 1 == 0);
                            let worked = match random >> 33 & 3 {
                                0 => tables.delete_parent(&mut transaction, parent),
                                1 => transaction
                                    .insert(&tables.parent, item(parent, 0, 0, 0))
                                    .and_then(|_| transaction.check_constraints()),
                                _ => {
                                    let id = next.fetch_add(1, Ordering::Relaxed) as i32;
                                    tables.add_child(&mut transaction, id, parent)
                                }
                            };
                            // Meanwhile others commit.
                            std::thread::sleep(Duration::from_micros(200));
                            let committed = worked.and_then(|()| transaction.commit());
                            done.fetch_add(usize::from(committed.is_ok()), Ordering::Relaxed);
                        }
                    });
                }
                for _ in 0..20 {
                    assert_eq!(tables.orphans(), 0, "column {column}, {follows:?}");
                }
            });
            assert_eq!(tables.orphans(), 0, "column {column}, {follows:?}");
            assert!(done.into_inner() > 100, "hardly anything was committed");
        }
    }
}
