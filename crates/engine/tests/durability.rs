//! A database whose disk loses power at any operation, again and again: what was acknowledged is there, whole, and indexes are as their tables.
//! A control leaves the syncs out, and must lose something.

mod support;

use ankerdb_engine::*;
use ankerdb_log::simulated::{Fault, SimulatedDisk, SyncKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::*;

/// Accounts that money moves between; behind them is one for each writer, which counts its transfers.
const ACCOUNTS: i32 = 40;
const WRITERS: usize = 3;
/// The one of them that does not wait for the disk: a kill may take the last of its transfers, and never a part of one.
const WITHOUT_WAIT: usize = WRITERS - 1;
/// Rows of a batch: more than a commit installs after its timestamp, and more bytes than a record has.
const BATCH: i32 = 700;
const SEEDS: u64 = 40;
/// Losses of power for each seed.
const ROUNDS: u64 = 8;
const TABLES: [&str; 4] = ["account", "batch", "journal", "note"];

/// Of a writer: commits acknowledged, and sent.
#[derive(Clone, Copy, Default, Debug)]
struct Counted {
    acknowledged: i64,
    sent: i64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Known {
    transfers: [Counted; WRITERS],
    batches: Counted,
    tables: Counted,
    checkpoints: i64,
}

fn durability(disk: &SimulatedDisk, has_failed: &Arc<AtomicBool>) -> Durability {
    let mut durability = Durability::in_folder("data");
    durability.disk = Arc::new(disk.clone());
    durability.log.segment_bytes = 64 << 10;
    let has_failed = has_failed.clone();
    durability.log.on_failure = Some(Arc::new(move |_| has_failed.store(true, Ordering::Relaxed)));
    durability
}

fn open(disk: &SimulatedDisk, has_failed: &Arc<AtomicBool>) -> Result<Database> {
    Database::open_in(Configuration::AnkerDb, &durability(disk, has_failed), &NoTexts)
}

/// Makes the tables that are not there yet, each by itself.
fn set_up(database: &Database) -> Result<()> {
    let note = || {
        TableDefinition::new("note")
            .column(ColumnDefinition::new("id", DataType::Integer))
            .column(ColumnDefinition::new("batch", DataType::Integer))
            .column(ColumnDefinition::new("text", DataType::Text).nullable())
            .primary_key(&["id"])
            .index("note_by_batch", &["batch"], false)
    };
    for name in TABLES {
        if database.catalog().table(name).is_err() {
            database.create_table(if name == "note" { note() } else { items_definition(name) })?;
        }
    }
    let (account, journal) = (database.catalog().table("account")?, database.catalog().table("journal")?);
    let mut session = database.session();
    session.try_run(Isolation::Serializable, |transaction| {
        if find(transaction, &account, 0, &[A])?.is_some() {
            return Ok(());
        }
        let rows = (0..ACCOUNTS).map(|id| item(id, 100, 0, id % 7));
        let counters = || (0..WRITERS as i32).map(|writer| item(1_000 + writer, 0, 0, -1));
        counters().try_for_each(|row| transaction.insert(&journal, row).map(drop))?;
        rows.chain(counters()).try_for_each(|row| transaction.insert(&account, row).map(drop))
    })
}

/// Moves money and counts that in two tables, until the power is gone.
fn transfer(database: &Database, writer: usize, counted: &mut Counted, seed: u64) {
    let (account, mut session) = (database.catalog().table("account").unwrap(), database.session());
    let journal = database.catalog().table("journal").unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut done, mut asked, own) = (Ok(()), None, 1_000 + writer as i32);
    while done.is_ok() {
        let (from, to) = (random.i32(0..ACCOUNTS), random.i32(0..ACCOUNTS));
        counted.sent += 1;
        done = session.run(Isolation::Serializable, |transaction| {
            transaction.set_waits_for_log(writer != WITHOUT_WAIT);
            let row = find(transaction, &journal, own, &[A])?.expect("it is there");
            transaction.update(&journal, row, vec![(A, Value::BigInt(counted.sent))])?;
            for (id, amount) in [(from, -1), (to, 1), (own, 1)] {
                let row = find(transaction, &account, id, &[A])?.expect("it is there");
                let value = transaction.bigint(&account, row, A);
                transaction.update(&account, row, vec![(A, Value::BigInt(value + amount))])?;
            }
            Ok(())
        });
        if done.is_ok() && writer != WITHOUT_WAIT {
            counted.acknowledged = counted.sent;
        }
        // One that does not wait is told later.
        let (visible, sent) = *asked.get_or_insert_with(|| (database.visible(), counted.sent));
        if done.is_ok() && writer == WITHOUT_WAIT && database.is_durable(visible) {
            counted.acknowledged = sent;
            asked = None;
        }
    }
}

/// Adds a batch of notes and deletes the one before, until the power is gone.
fn batch(database: &Database, counted: &mut Counted) {
    let (note, mut session) = (database.catalog().table("note").unwrap(), database.session());
    loop {
        let number = counted.acknowledged as i32 + 1;
        counted.sent = counted.acknowledged + 1;
        let done = session.run(Isolation::Serializable, |transaction| {
            let mut former = Vec::new();
            transaction.scan_table(&note, ColumnSet::EMPTY, None, &mut |_, row| {
                former.push(row);
                Ok(std::ops::ControlFlow::Continue(()))
            })?;
            former.into_iter().try_for_each(|row| transaction.delete(&note, row))?;
            (0..BATCH).try_for_each(|id| {
                let text =
                    Value::text(format!("note {id} of batch {number}, which does not fit into its view"));
                let row = vec![Value::Integer(id), Value::Integer(number), text];
                transaction.insert(&note, row).map(drop)
            })
        });
        match done {
            Ok(()) => counted.acknowledged = counted.sent,
            Err(_) => return,
        }
    }
}

/// Makes a table and drops it, until the power is gone.
fn define(database: &Database, counted: &mut Counted) {
    loop {
        counted.sent = counted.acknowledged + 1;
        let done = match counted.acknowledged % 2 {
            0 => database.create_table(items_definition("short")).map(drop),
            _ => database.drop_table("short"),
        };
        match done {
            Ok(()) => counted.acknowledged = counted.sent,
            Err(_) => return,
        }
    }
}

/// Makes checkpoints until the power is gone. Without commits they may go on to find nothing to do.
fn checkpoint(database: &Database, made: &mut i64, has_failed: &AtomicBool) {
    while !has_failed.load(Ordering::Relaxed)
        && let Ok(report) = database.checkpoint(&|| Ok(()))
    {
        *made += i64::from(report.is_some());
        std::thread::yield_now();
    }
}

/// Works until the power is gone.
fn work(database: &Database, known: &mut Known, seed: u64, has_failed: &AtomicBool) {
    let Known { transfers, batches, tables, checkpoints } = known;
    std::thread::scope(|scope| {
        for (writer, counted) in transfers.iter_mut().enumerate() {
            scope.spawn(move || transfer(database, writer, counted, seed + writer as u64));
        }
        scope.spawn(move || batch(database, batches));
        scope.spawn(move || define(database, tables));
        scope.spawn(move || checkpoint(database, checkpoints, has_failed));
    });
}

/// What is wrong; what is there is what is known from now on.
fn check(database: &Database, known: &mut Known) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut expect = |what: &str, counted: &mut Counted, found: i64| {
        if !(counted.acknowledged..=counted.sent).contains(&found) {
            wrong.push(format!("{what}: {found} are there of {counted:?}"));
        }
        *counted = Counted { acknowledged: found, sent: found };
    };
    let view = database.snapshot().read_view();
    let Ok(account) = database.catalog().table("account") else { return wrong };
    let integer = |value: &Value| value.as_integer().expect("an integer");
    let rows = view_rows(&view, &account, &[ID, A]);
    let mut sum = 0;
    for row in &rows {
        match integer(&row[0]) {
            counter @ 1_000.. => {
                let writer = counter as usize - 1_000;
                expect("transfers", &mut known.transfers[writer], integer(&row[1]));
            }
            _ => sum += integer(&row[1]),
        }
    }
    if let Ok(note) = database.catalog().table("note") {
        let notes = view_rows(&view, &note, &[0, 1]);
        let number = notes.first().map_or(0, |row| integer(&row[1]));
        expect("batches", &mut known.batches, number);
        if notes.iter().any(|row| integer(&row[1]) != number) || (number > 0 && notes.len() != BATCH as usize)
        {
            wrong.push(format!("{} notes, not all of batch {number}", notes.len()));
        }
        indexes_are_as_the_table(&note, &mut wrong);
    }
    let is_there = i64::from(database.catalog().table("short").is_ok());
    let tables = known.tables;
    match (tables.acknowledged..=tables.sent).find(|made| made % 2 == is_there) {
        Some(made) => known.tables = Counted { acknowledged: made, sent: made },
        None => wrong.push(format!("short is there: {is_there}, after {tables:?}")),
    }
    // Both are written by each transfer.
    let journal = database.catalog().table("journal").map(|journal| view_rows(&view, &journal, &[ID, A]));
    let counters: Vec<&Vec<Value>> = rows.iter().filter(|row| integer(&row[0]) >= 1_000).collect();
    if let Ok(journal) = journal
        && journal.iter().collect::<Vec<_>>() != counters
    {
        wrong.push(format!("the journal says {journal:?}, the accounts {counters:?}"));
    }
    // The accounts were made in one transaction.
    if !rows.is_empty() && sum != i64::from(ACCOUNTS) * 100 {
        wrong.push(format!("the sum is {sum}"));
    }
    indexes_are_as_the_table(&account, &mut wrong);
    wrong
}

fn indexes_are_as_the_table(table: &Table, wrong: &mut Vec<String>) {
    for (_, index) in table.maintained_indexes() {
        if index.entry_count() != table.row_count() {
            let name = &index.definition().name;
            wrong.push(format!("{name} has {} entries for {} rows", index.entry_count(), table.row_count()));
        }
    }
}

/// Loses power again and again; returns what was wrong, and what was committed.
fn lose_power(seed: u64, rounds: u64, ignored: Option<SyncKind>) -> (Vec<String>, Known) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut disk, mut known) = (SimulatedDisk::new(), Known::default());
    for round in 0..rounds {
        if let Some(kind) = ignored {
            disk.ignore_syncs(kind);
        }
        // Sometimes in the middle of the recovery.
        let soon = if random.bool() { 1..30 } else { 30..400 };
        let moment = disk.operations() + random.u64(soon);
        disk.plan(moment, Fault::PowerLoss);
        let has_failed = Arc::new(AtomicBool::new(false));
        match open(&disk, &has_failed) {
            Ok(database) => {
                let wrong = check(&database, &mut known);
                if !wrong.is_empty() {
                    let told = wrong.into_iter().map(|told| format!("seed {seed}, round {round}: {told}"));
                    return (told.collect(), known);
                }
                if set_up(&database).is_ok() {
                    work(&database, &mut known, seed + round, &has_failed);
                }
            }
            // There is no power.
            Err(_) if disk.operations() >= moment => {}
            Err(error) => return (vec![format!("seed {seed}, round {round}: {error:?}")], known),
        }
        disk = disk.after_power_loss(random.u64(..));
    }
    let last = open(&disk, &Arc::default()).map(|database| check(&database, &mut known));
    (last.unwrap_or_else(|error| vec![format!("seed {seed}: {error:?}")]), known)
}

#[test]
fn nothing_acknowledged_is_lost_with_the_power() {
    let (mut transfers, mut batches, mut tables, mut checkpoints) = (0, 0, 0, 0);
    for seed in 0..SEEDS {
        let (wrong, known) = lose_power(seed, ROUNDS, None);
        assert_eq!(wrong, Vec::<String>::new());
        transfers += known.transfers.iter().map(|counted| counted.acknowledged).sum::<i64>();
        batches += known.batches.acknowledged;
        tables += known.tables.acknowledged;
        checkpoints += known.checkpoints;
    }
    eprintln!(
        "{transfers} transfers, {batches} batches, {tables} changes of definitions, {checkpoints} checkpoints"
    );
    assert!(transfers > 100 && batches > 10 && tables > 10 && checkpoints > 100, "hardly anything was tried");
}

#[test]
fn without_syncs_something_is_lost() {
    let lost = (0..SEEDS).any(|seed| !lose_power(seed, ROUNDS, Some(SyncKind::File)).0.is_empty());
    assert!(lost, "the test above finds nothing");
}
