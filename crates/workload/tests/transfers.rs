//! Money moves between accounts while snapshots add it up: the sum never changes.

use ankerdb_engine::{
    ColumnDefinition, ColumnSet, DataType, Database, Error, IndexPosition, Isolation, ReadView, Result,
    Table, TableDefinition, Transaction, Value,
};
use ankerdb_sql::{SqlEngine, SqlOptions};
use ankerdb_value::push_integer;
use ankerdb_workload::htap::olap::single_bigint;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Two full row blocks and a part of a third.
const ACCOUNTS: i32 = 20_000;
const OPENING_BALANCE: i64 = 100;
const TOTAL: i64 = ACCOUNTS as i64 * OPENING_BALANCE;
const BALANCE: usize = 1;

fn bank() -> (Database, Arc<Table>) {
    let database = Database::new();
    let definition = TableDefinition::new("account")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("balance", DataType::BigInt))
        .primary_key(&["id"]);
    let table = database.create_table(definition).expect("the table is new");
    let mut session = database.session();
    for first in (0..ACCOUNTS).step_by(1000) {
        let insert = |transaction: &mut Transaction| {
            for id in first..first + 1000 {
                transaction.insert(&table, vec![Value::Integer(id), Value::BigInt(OPENING_BALANCE)])?;
            }
            Ok(())
        };
        session.run(Isolation::RepeatableRead, insert).expect("inserting works");
    }
    (database, table)
}

fn transfer(
    transaction: &mut Transaction,
    table: &Arc<Table>,
    from: i32,
    to: i32,
    amount: i64,
) -> Result<()> {
    for (id, change) in [(from, -amount), (to, amount)] {
        let mut key = Vec::new();
        push_integer(&mut key, id);
        let row = transaction.find(table, IndexPosition(0), &key, ColumnSet::of(&[BALANCE]))?;
        let row = row.ok_or_else(|| Error::internal("no such account"))?;
        let balance = transaction.bigint(table, row, BALANCE) + change;
        transaction.update(table, row, vec![(BALANCE, Value::BigInt(balance))])?;
    }
    Ok(())
}

/// Moves money around, mostly among a few hot accounts, until told to stop.
fn move_money(
    database: &Database,
    table: &Arc<Table>,
    seed: u64,
    stop: &AtomicBool,
    transfers: &AtomicUsize,
) {
    let (mut session, mut random) = (database.session(), fastrand::Rng::with_seed(seed));
    while !stop.load(Ordering::Relaxed) {
        let hot = if random.bool() { 50 } else { ACCOUNTS };
        let (from, to) = (random.i32(0..hot), random.i32(0..ACCOUNTS));
        if from != to {
            let amount = random.i64(1..=10);
            let moved = session.run(Isolation::Serializable, |it| transfer(it, table, from, to, amount));
            moved.expect("transfers work");
            transfers.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Runs transfers in two threads until `observe` has been called often enough and enough money has moved.
fn while_money_moves(database: &Database, table: &Arc<Table>, mut observe: impl FnMut()) {
    let (stop, transfers) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (stop, transfers) = (&stop, &transfers);
            scope.spawn(move || move_money(database, table, seed, stop, transfers));
        }
        // Stops the threads even if an observation fails.
        let stopped = StopOnDrop(&stop);
        let mut observations = 0;
        while observations < 200 || transfers.load(Ordering::Relaxed) < 5_000 {
            observe();
            observations += 1;
        }
        drop(stopped);
    });
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn sum_in_transaction(database: &Database, table: &Arc<Table>) -> i64 {
    let mut session = database.session();
    let mut transaction = session.begin(Isolation::RepeatableRead);
    let mut sum = 0;
    transaction
        .scan_table(table, ColumnSet::of(&[BALANCE]), None, &mut |transaction, row| {
            sum += transaction.bigint(table, row, BALANCE);
            Ok(ControlFlow::Continue(()))
        })
        .expect("scanning works");
    sum
}

#[test]
fn transactions_at_snapshot_isolation_see_a_constant_sum() {
    let (database, table) = bank();
    while_money_moves(&database, &table, || assert_eq!(sum_in_transaction(&database, &table), TOTAL));
}

#[test]
fn sql_over_snapshots_sees_a_constant_sum_and_the_same_one_again() {
    let (database, table) = bank();
    let engine =
        SqlEngine::new(database.clone(), SqlOptions { olap_threads: 2, memory_limit_bytes: 256 << 20 });
    let engine = engine.expect("an engine starts");
    let query = |sql| engine.plan(sql).expect("the query is fine");
    let sum = query("select cast(sum(balance) as bigint) from account");
    // Differs from state to state, unlike the sum.
    let state = query("select cast(sum(balance * id) as bigint) from account");
    let run = |query: &ankerdb_sql::AnalyticalQuery, view: &ReadView| {
        single_bigint(&query.run(view).expect("the query runs")).expect("it gives one number")
    };
    let mut session = database.session();
    let held = session.snapshot();
    let opening = run(&state, &held.read_view());
    let mut states = std::collections::BTreeSet::new();
    while_money_moves(&database, &table, || {
        let view = session.snapshot().read_view();
        let first = run(&state, &view);
        assert_eq!(run(&sum, &view), TOTAL);
        assert_eq!(run(&state, &view), first, "a snapshot does not change");
        states.insert(first);
    });
    assert!(states.len() > 10, "only {} states were seen", states.len());
    assert_eq!(run(&state, &held.read_view()), opening, "an old snapshot does not change either");
}
