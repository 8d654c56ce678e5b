//! Tables that get another definition between what a transaction reads of them and its commit.
#![cfg(debug_assertions)]

mod support;

use ankerdb_base::failpoint;
use ankerdb_engine::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use support::*;

/// A table that is being copied by a transaction under way.
struct Redefinition {
    database: Database,
    definitions: Definitions,
    transaction: Transaction,
    _session: Session,
    new: Arc<Table>,
}

impl Redefinition {
    /// Closes the table's gate and copies its one row.
    fn begin(database: &Database, table: &Arc<Table>) -> Redefinition {
        let mut definitions = database.definitions(&Interrupt::new());
        let mut session = database.session();
        let mut transaction = session.begin(Isolation::Serializable);
        definitions.close(table, &mut transaction).unwrap();
        let new = definitions.replace_table(table, table.definition().clone(), Some).unwrap();
        transaction.insert(&new, item(1, 0, 0, 0)).unwrap();
        Redefinition { database: database.clone(), definitions, transaction, _session: session, new }
    }

    /// Commits it, and a row that another transaction inserts into the copy.
    fn commit(mut self) -> Arc<Table> {
        self.definitions.commit(Some(&mut self.transaction)).unwrap();
        fill(&self.database, &self.new, [item(2, 0, 0, 0)]);
        self.new
    }
}

type Read = fn(&mut Client) -> Result<usize>;

const READS: [Read; 5] = [
    |client| client.count(),
    |client| client.count_by_view(),
    |client| client.ids_by_filter(0, 10).map(|ids| ids.len()),
    |client| client.count_range(0, 10),
    |client| client.read(1).map(|value| value.map_or(0, |_| 1)),
];

/// The copy, and what is inserted into it, are committed in the last moment before a reader of the table gets its timestamp,
/// when it has looked at the table's gate.
#[test]
fn a_reader_finds_the_table_redefined_however_late() {
    for read in READS {
        let database = Database::new();
        let [table, other] = ["items", "others"].map(|name| items(&database, name));
        fill(&database, &table, [item(1, 0, 0, 0)]);
        let redefinition = Redefinition::begin(&database, &table);
        let mut client = Client::begin(&database, &table, Isolation::Serializable);
        assert_eq!(read(&mut client).unwrap(), 1);
        client.transaction.insert(&other, item(1, 0, 0, 0)).unwrap();
        let last_moment = RefCell::new(Some(redefinition));
        failpoint::watch(Some(Rc::new(move |name| {
            let redefinition = if name == "timestamp" { last_moment.take() } else { None };
            redefinition.map(Redefinition::commit);
        })));
        let outcome = client.commit().map_err(|error| error.state());
        failpoint::watch(None);
        assert_eq!(outcome, Err(SqlState::SerializationFailure));
    }
}

/// A transaction that only reads and locks has no commit at which it would look at the gate.
#[test]
fn a_reader_does_not_move_past_a_redefinition() {
    for (number, read) in READS.into_iter().enumerate() {
        let database = Database::new();
        let [table, other] = ["items", "others"].map(|name| items(&database, name));
        for table in [&table, &other] {
            fill(&database, table, [item(1, 0, 0, 0)]);
        }
        let redefinition = Redefinition::begin(&database, &table);
        let mut client = Client::begin(&database, &table, Isolation::Serializable);
        assert_eq!(read(&mut client).unwrap(), 1);
        let mut writer = Client::begin(&database, &other, Isolation::Serializable);
        // By a statement before the one that is run again, or by that one itself.
        let is_earlier = number % 2 == 0;
        if is_earlier {
            client.transaction.begin_statement();
        }
        let row = find(&mut client.transaction, &other, 1, &[]).unwrap().unwrap();
        redefinition.commit();
        writer.write(1, 5).unwrap();
        writer.commit().unwrap();
        let locked = client.transaction.lock(&other, row, LockWait::Wait).unwrap();
        assert_eq!(locked, Locked::Changed);
        let moved = client.transaction.restart_statement().map_err(|error| error.state());
        assert_eq!(moved, Err(SqlState::SerializationFailure), "read {number}");
    }
}

/// What others read elsewhere has nothing to do with it.
#[test]
fn readers_of_other_tables_commit_beside_a_redefinition() {
    let database = Database::new();
    let [table, other] = ["items", "others"].map(|name| items(&database, name));
    fill(&database, &table, [item(1, 0, 0, 0)]);
    let mut client = Client::begin(&database, &other, Isolation::Serializable);
    assert_eq!(client.count().unwrap(), 0);
    client.insert(item(1, 0, 0, 0)).unwrap();
    let new = Redefinition::begin(&database, &table).commit();
    client.commit().unwrap();
    let mut session = database.session();
    assert_eq!(session.run(Isolation::Serializable, |t| count(t, &new, usize::MAX)).unwrap(), 2);
}
