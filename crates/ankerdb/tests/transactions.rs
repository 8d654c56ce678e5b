//! Transactions: runs again, errors, panics, threads, snapshots, interactive ones, loads, interrupts.

mod support;

use ankerdb::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use support::{accounts, filled, state, total};

#[test]
fn handles_can_be_shared() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    fn moved<T: Send>() {}
    shared::<Database>();
    shared::<Snapshot>();
    shared::<Table>();
    shared::<Column<i64>>();
    shared::<InterruptHandle>();
    moved::<Transaction<'static>>();
    moved::<SnapshotTable<'static>>();
    moved::<Appender<'static>>();
    fn error<T: std::error::Error + Send + Sync + 'static>() {}
    error::<Error>();
    assert_eq!(size_of::<Error>(), size_of::<usize>());
}

/// A conflict on purpose: the first try reads, another transaction commits to what it has read, and it runs again.
#[test]
fn a_conflict_runs_the_closure_again() -> Result<()> {
    let db = filled(2, 100);
    let mut tries = 0;
    db.transaction(|tx| {
        tries += 1;
        let account = tx.table("account")?;
        let balance: i64 = account.get(0)?.expect("there").get("balance")?;
        if tries == 1 {
            db.transaction(|tx| tx.table("account")?.update(0, [("balance", 1000)]).map(drop))?;
        }
        account.update(1, [("balance", balance)]).map(drop)
    })?;
    assert_eq!((tries, total(&db)), (2, 2000));
    Ok(())
}

/// Only cells that were read count: a change of another column of the same row is no conflict.
#[test]
fn what_was_not_read_may_change() -> Result<()> {
    let db = filled(2, 100);
    let mut tries = 0;
    db.transaction(|tx| {
        tries += 1;
        let account = tx.table("account")?;
        let balance: i64 = account.get(0)?.expect("there").get("balance")?;
        db.transaction(|tx| tx.table("account")?.update(0, [("owner", "Bob")]).map(drop))?;
        account.update(1, [("balance", balance + 1)]).map(drop)
    })?;
    assert_eq!((tries, total(&db)), (1, 201));
    // A scan of named columns does not conflict either; a scan of all columns does.
    for (columns, expected) in [(&["balance"][..], 1), (&["owner"], 2)] {
        let mut tries = 0;
        db.transaction(|tx| {
            tries += 1;
            let account = tx.table("account")?;
            account.scan().columns(columns).count()?;
            if tries == 1 {
                db.transaction(|tx| tx.table("account")?.update(0, [("owner", "Carl")]).map(drop))?;
            }
            account.update(1, [("balance", 0)]).map(drop)
        })?;
        assert_eq!(tries, expected, "{columns:?}");
    }
    Ok(())
}

/// A transaction that swallows the error of a conflict does not commit.
#[test]
fn a_swallowed_conflict_still_runs_again() -> Result<()> {
    let db = filled(2, 100);
    let tx = db.begin()?;
    tx.table("account")?.update(0, [("balance", 0)])?;
    let waiting = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let held = scope.spawn(|| {
            let other = db.begin_with(Isolation::RepeatableRead)?;
            let account = other.table("account")?;
            account.get(0)?;
            waiting.store(1, Ordering::SeqCst);
            // Waits for the lock, and finds the row changed: 40001. The program ignores it.
            let swallowed = account.update(0, [("balance", 1)]);
            assert_eq!(state(swallowed), SqlState::SerializationFailure);
            assert_eq!(state(account.get(1)), SqlState::SerializationFailure, "nothing more is taken");
            other.commit()
        });
        while waiting.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        tx.commit()?;
        assert_eq!(state(held.join().expect("no panic")), SqlState::SerializationFailure);
        Ok(())
    })
}

#[test]
fn an_error_of_the_closure_rolls_back() -> Result<()> {
    #[derive(Debug)]
    enum Refusal {
        No,
        Database(Error),
    }
    impl From<Error> for Refusal {
        fn from(error: Error) -> Refusal {
            Refusal::Database(error)
        }
    }
    let db = filled(2, 100);
    let refused = db.try_transaction(Isolation::Serializable, |tx| {
        tx.table("account")?.update(0, [("balance", 0)])?;
        Err::<(), _>(Refusal::No)
    });
    assert!(matches!(refused, Err(Refusal::No)));
    let failed = db.try_transaction(Isolation::Serializable, |tx| {
        tx.table("account")?.update(0, [("balance", 0)])?;
        tx.table("nothing")?;
        Ok::<_, Refusal>(())
    });
    assert!(matches!(failed, Err(Refusal::Database(error)) if error.sqlstate() == SqlState::UndefinedTable));
    assert_eq!(total(&db), 200);
    // The key is checked at the commit, and nothing of the transaction remains.
    let taken = db.transaction(|tx| {
        let account = tx.table("account")?;
        account.update(1, [("balance", 0)])?;
        account.insert((0, "again", 1))
    });
    let error = taken.unwrap_err();
    assert_eq!((error.sqlstate(), error.kind()), (SqlState::UniqueViolation, ErrorKind::Constraint));
    assert_eq!(error.detail(), Some("Key (id)=(0) already exists."));
    assert_eq!(total(&db), 200);
    Ok(())
}

#[test]
fn a_panic_rolls_back_and_leaves_the_database_usable() -> Result<()> {
    let db = filled(2, 100);
    for _ in 0..40 {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            db.transaction(|tx| {
                tx.table("account")?.update(0, [("balance", 0)])?;
                if tx.isolation() == Isolation::Serializable { panic!("on purpose") } else { Ok(()) }
            })
        }));
        assert!(caught.is_err());
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let tx = db.begin().expect("begins");
            tx.table("account").expect("there").update(0, [("balance", 0)]).expect("locked");
            panic!("on purpose")
        }));
        assert!(caught.is_err());
    }
    assert_eq!(total(&db), 200);
    db.transaction(|tx| tx.table("account")?.update(0, [("balance", 1)]).map(drop))
}

#[test]
fn many_threads_move_money_and_none_is_lost() -> Result<()> {
    const ACCOUNTS: i32 = 20;
    let db = filled(ACCOUNTS, 1000);
    let account = db.table("account")?;
    let balance = account.column::<i64>("balance")?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let movers: Vec<_> = (0..8)
            .map(|number| {
                let (db, account) = (&db, &account);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(number);
                    for _ in 0..500 {
                        let (from, to) = (random.i32(0..ACCOUNTS), random.i32(0..ACCOUNTS));
                        let amount = random.i64(1..50);
                        db.transaction(|tx| {
                            let account = tx.table(account)?;
                            let (Some(from), Some(to)) = (account.get(from)?, account.get(to)?) else {
                                panic!("all accounts are there")
                            };
                            from.update([(balance, from.get(balance)? - amount)])?;
                            to.update([(balance, to.get(balance)? + amount)])
                        })
                        .expect("conflicts are run again");
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !done.load(Ordering::Relaxed) || reads == 0 {
                assert_eq!(total(&db), i64::from(ACCOUNTS) * 1000, "a snapshot shows no half of a transfer");
                reads += 1;
            }
        });
        movers.into_iter().for_each(|mover| mover.join().expect("no panic"));
        done.store(true, Ordering::Relaxed);
        reader.join().expect("no panic");
    });
    assert_eq!(total(&db), i64::from(ACCOUNTS) * 1000);
    Ok(())
}

/// Threads count words: a thread that finds no row inserts it, and another may have done so a moment before.
#[test]
fn threads_that_upsert_the_same_keys_lose_nothing() -> Result<()> {
    const THREADS: i64 = 8;
    const KEYS: i32 = 300;
    let db = accounts();
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        let counters: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    (0..KEYS).try_for_each(|id| {
                        db.transaction(|tx| {
                            let account = tx.table("account")?;
                            let counted = account.get(id)?.map_or(Ok(0), |row| row.get::<i64>("balance"))?;
                            account.upsert(named! { id: id, balance: counted + 1 }).map(drop)
                        })
                    })
                })
            })
            .collect();
        counters.into_iter().try_for_each(|counter| counter.join().expect("no panic"))
    })?;
    assert_eq!(total(&db), THREADS * i64::from(KEYS));
    Ok(())
}

#[test]
fn interactive_transactions_lock_what_they_write() -> Result<()> {
    let db = Database::with(Options::new().lock_timeout(Duration::from_millis(50)))?;
    db.create_table(
        TableDefinition::new("account")
            .column(ColumnDefinition::new("id", DataType::Integer))
            .column(ColumnDefinition::new("balance", DataType::BigInt))
            .primary_key(&["id"]),
    )?;
    db.transaction(|tx| tx.table("account")?.insert((1, 100)))?;
    let first = db.begin()?;
    assert_eq!(first.isolation(), Isolation::Serializable);
    first.table("account")?.update(1, [("balance", 1)])?;
    let second = db.begin()?;
    let refused = second.table("account")?.update(1, [("balance", 2)]);
    assert_eq!(refused.as_ref().unwrap_err().kind(), ErrorKind::Canceled);
    assert_eq!(state(refused), SqlState::LockNotAvailable);
    assert_eq!(state(second.table("account")?.insert((1, 0))), SqlState::UniqueViolation, "at once");
    second.table("account")?.insert((2, 5))?;
    first.commit()?;
    second.rollback();
    let read = db.transaction(|tx| {
        let account = tx.table("account")?;
        Ok((account.get(1)?.expect("there").get::<i64>("balance")?, account.contains(2)?))
    })?;
    assert_eq!(read, (1, false));
    Ok(())
}

/// A call that a constraint refuses is as if it had not been made, also where the row was written before it was tested.
#[test]
fn a_transaction_goes_on_without_the_update_that_would_have_taken_a_key() -> Result<()> {
    let db = filled(3, 100);
    let tx = db.begin()?;
    let account = tx.table("account")?;
    account.update(0, [("balance", 7)])?;
    assert_eq!(state(account.update(0, [("id", 2)])), SqlState::UniqueViolation);
    account.update(0, [("id", 9)])?;
    account.update(1, [("id", 0)])?;
    assert_eq!(state(account.update(2, [("id", 0)])), SqlState::UniqueViolation);
    assert_eq!((account.scan().count()?, account.contains(1)?), (3, false));
    tx.commit()?;
    let found = db.transaction(|tx| {
        let account = tx.table("account")?;
        let nine = account.get(9)?.expect("it is there").get::<i64>("balance")?;
        Ok((nine, account.contains(0)?, account.contains(1)?, account.contains(2)?))
    })?;
    assert_eq!(found, (7, true, false, true));
    Ok(())
}

/// An update that waited looks at the row again, at SERIALIZABLE if nothing read before has changed.
#[test]
fn an_update_that_waited_sees_the_newest_row() -> Result<()> {
    for isolation in [Isolation::Serializable, Isolation::ReadCommitted] {
        let db = filled(2, 100);
        let first = db.begin()?;
        first.table("account")?.update(0, [("balance", 1)])?;
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let tx = db.begin_with(isolation)?;
                barrier.wait();
                let updated = tx.table("account")?.update(0, [("owner", "waited")]);
                updated.and_then(|found| tx.commit().map(|()| found))
            });
            barrier.wait();
            std::thread::sleep(Duration::from_millis(50));
            first.commit()?;
            let second = second.join().expect("no panic");
            assert_eq!(second.ok(), Some(true), "{isolation:?}");
            Ok::<_, Error>(())
        })?;
        let row = db.transaction(|tx| {
            let row = tx.table("account")?.get(0)?.expect("there");
            Ok((row.get::<String>("owner")?, row.get::<i64>("balance")?))
        })?;
        assert_eq!(row, ("waited".to_owned(), 1));
    }
    Ok(())
}

#[test]
fn isolation_levels_see_what_they_should() -> Result<()> {
    let db = filled(1, 100);
    let read = |tx: &Transaction| tx.table("account")?.get(0)?.expect("there").get::<i64>("balance");
    for (isolation, expected) in [(Isolation::ReadCommitted, 7), (Isolation::RepeatableRead, 100)] {
        db.transaction(|tx| tx.table("account")?.update(0, [("balance", 100)]).map(drop))?;
        let tx = db.begin_with(isolation)?;
        assert_eq!(read(&tx)?, 100);
        db.transaction(|tx| tx.table("account")?.update(0, [("balance", 7)]).map(drop))?;
        assert_eq!(read(&tx)?, expected, "{isolation:?}");
    }
    // Write skew: both read both and write one each. RepeatableRead lets it happen, Serializable runs one of them again.
    for (isolation, expected_tries) in [(Isolation::RepeatableRead, 1), (Isolation::Serializable, 2)] {
        let db = filled(2, 100);
        let mut tries = 0;
        db.transaction_with(isolation, |tx| {
            tries += 1;
            let account = tx.table("account")?;
            let sum: i64 = account.get(0)?.expect("").get::<i64>("balance")?
                + account.get(1)?.expect("").get::<i64>("balance")?;
            if tries == 1 {
                db.transaction(|tx| tx.table("account")?.update(1, [("balance", 100 - sum)]).map(drop))?;
            }
            account.update(0, [("balance", 100 - sum)]).map(drop)
        })?;
        assert_eq!(tries, expected_tries, "{isolation:?}");
    }
    Ok(())
}

#[test]
fn snapshots_keep_their_moment() -> Result<()> {
    let db = filled(100, 1);
    let snapshot = db.snapshot();
    db.transaction(|tx| {
        let account = tx.table("account")?;
        (0..50).try_for_each(|id| account.delete(id).map(drop))?;
        account.update(60, [("balance", 1000)])?;
        account.insert((500, "late", 1))
    })?;
    let table = snapshot.table("account")?;
    let balance = table.column::<i64>("balance")?;
    assert_eq!(table.get(3)?.expect("as it was").get(balance)?, 1);
    assert_eq!(table.get(60)?.expect("as it was").get(balance)?, 1);
    assert!(table.get(500)?.is_none());
    assert_eq!(table.scan().count()?, 100);
    assert_eq!(table.range(98..).count()?, 2);
    assert_eq!(table.index("account_owner")?.get("owner 3").count()?, 10);
    let reader = snapshot.reader()?;
    let account = reader.table("account")?;
    assert_eq!(state(account.insert((501, "x", 1))), SqlState::ReadOnlySqlTransaction);
    assert_eq!(state(account.update(60, [("balance", 1)])), SqlState::ReadOnlySqlTransaction);
    assert_eq!(state(account.delete(60)), SqlState::ReadOnlySqlTransaction);
    assert_eq!(account.scan().count()?, 100, "and goes on");
    drop(snapshot.clone());
    // The readers keep it, and the database, after the snapshot and the last handle.
    let again = db.snapshot();
    drop(db);
    assert_eq!(again.table("account")?.scan().count()?, 51);
    Ok(())
}

#[test]
fn a_dropped_table_is_kept_by_those_who_read_it() -> Result<()> {
    let db = filled(10, 1);
    let snapshot = db.snapshot();
    let reader = snapshot.table("account")?;
    let handle = db.table("account")?;
    db.drop_table("account")?;
    assert_eq!(reader.scan().count()?, 10);
    assert_eq!(state(db.transaction(|tx| tx.table("account").map(drop))), SqlState::UndefinedTable);
    drop(reader);
    drop(snapshot);
    assert_eq!(handle.name(), "account");
    Ok(())
}

#[test]
fn a_million_rows_are_appended() -> Result<()> {
    const ROWS: u64 = 1_000_000;
    let db = accounts();
    let mut appender = db.appender("account")?;
    for id in 0..ROWS {
        appender.append_row((id, None::<&str>, 1_i64))?;
    }
    assert_eq!(appender.committed(), ROWS / 65_536 * 65_536);
    assert_eq!(appender.finish()?, ROWS);
    assert_eq!(total(&db), ROWS as i64);
    // Without `finish` the rest is gone.
    let mut appender = db.appender("account")?;
    appender.append_row((ROWS, "late", 1))?;
    drop(appender);
    assert!(!db.transaction(|tx| tx.table("account")?.contains(ROWS))?);
    Ok(())
}

#[test]
fn a_load_says_which_row_is_wrong() -> Result<()> {
    let db = filled(1, 1);
    let mut appender = db.appender("account")?.rows_per_transaction(10);
    appender.append_row((1, "a", 1))?;
    let error = appender.append_row((2, "b", "many")).unwrap_err();
    assert_eq!(error.sqlstate(), SqlState::InvalidTextRepresentation);
    assert_eq!(
        error.to_string(),
        "row 2: column \"balance\": invalid input syntax for type bigint: \"many\""
    );
    assert!(
        std::error::Error::source(&error).expect("the cause").to_string().starts_with("column \"balance\"")
    );
    let error = appender.append_row(named! { id: 2 }).unwrap_err();
    assert_eq!(error.sqlstate(), SqlState::NotNullViolation);
    appender.append_row((2, "b", 1))?;
    appender.flush()?;
    assert_eq!(appender.committed(), 2);
    // A key that is taken is found when the rows are committed.
    appender.append_row((3, "c", 1))?;
    appender.append_row((0, "taken", 1))?;
    let error = appender.flush().unwrap_err();
    assert_eq!(error.sqlstate(), SqlState::UniqueViolation);
    assert!(error.to_string().starts_with("rows 3 to 4: duplicate key"), "{error}");
    assert_eq!(state(appender.append_row((9, "d", 1))), SqlState::InFailedSqlTransaction);
    assert_eq!(state(appender.finish()), SqlState::InFailedSqlTransaction);
    assert_eq!(db.transaction(|tx| tx.table("account")?.scan().count())?, 3);
    assert_eq!(state(db.appender("nothing")), SqlState::UndefinedTable);
    Ok(())
}

#[test]
fn an_interrupt_ends_what_runs_and_nothing_later() -> Result<()> {
    let db = filled(50_000, 1);
    let handle = db.interrupt_handle();
    let started = AtomicBool::new(false);
    let begun = Instant::now();
    let ended = std::thread::scope(|scope| {
        let endless = scope.spawn(|| {
            db.transaction(|tx| {
                let account = tx.table("account")?;
                loop {
                    account.scan().count()?;
                    started.store(true, Ordering::SeqCst);
                }
                #[expect(unreachable_code, reason = "tells the type")]
                Ok(())
            })
        });
        while !started.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        handle.interrupt();
        endless.join().expect("no panic")
    });
    assert_eq!(state(ended), SqlState::QueryCanceled);
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(total(&db), 50_000);
    drop(db);
    handle.interrupt();
    Ok(())
}

/// One for each level, and each way to wait: a transaction that waits for a lock ends, too.
#[test]
fn an_interrupt_ends_a_wait_for_a_lock() -> Result<()> {
    let db = filled(1, 1);
    let holder = db.begin()?;
    holder.table("account")?.update(0, [("balance", 5)])?;
    let handle = db.interrupt_handle();
    let waited = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let tx = db.begin()?;
            tx.table("account")?.update(0, [("balance", 6)]).map(drop)
        });
        std::thread::sleep(Duration::from_millis(100));
        handle.interrupt();
        waiting.join().expect("no panic")
    });
    assert_eq!(state(waited), SqlState::QueryCanceled);
    Ok(())
}

/// A conversion of the program's that uses the transaction in which its cell is read gets an error.
#[test]
fn a_conversion_cannot_use_the_transaction() -> Result<()> {
    let db = filled(1, 1);
    db.transaction(|tx| {
        let account = tx.table("account")?;
        let row = account.get(0)?.expect("there");
        let inside = row.with("owner", |_| account.get(0).map(drop))?;
        assert_eq!(state(inside), SqlState::FeatureNotSupported);
        account.get(0).map(drop)
    })
}

#[test]
fn a_part_fails_alone() -> Result<()> {
    let db = filled(3, 100);
    db.transaction(|tx| {
        let account = tx.table("account")?;
        account.update(0, [("balance", 1)])?;
        let failed = tx.savepoint(|tx| {
            account.update(0, [("balance", 7)])?;
            account.insert((3, "new", 7))?;
            tx.savepoint(|_| account.delete(1).map(drop))?;
            assert!(account.get(1)?.is_none());
            account.insert((4, "new", "not a number")).map(drop)
        });
        assert_eq!(state(failed), SqlState::InvalidTextRepresentation);
        assert_eq!(account.get(0)?.expect("there").get::<i64>("balance")?, 1);
        assert!(account.get(1)?.is_some() && account.get(3)?.is_none());
        tx.savepoint(|_| account.update(2, [("balance", 2)]).map(drop))
    })?;
    assert_eq!(total(&db), 103);
    Ok(())
}

/// What a failed part has read must still hold: its result may be what the rest depends on.
#[test]
fn a_conflict_in_a_part_is_one_of_the_transaction() -> Result<()> {
    let db = filled(2, 100);
    let mut tries = 0;
    db.transaction(|tx| {
        tries += 1;
        let account = tx.table("account")?;
        let part: Result<()> = tx.savepoint(|_| {
            account.get(0)?.expect("there").get::<i64>("balance")?;
            Err(Error::conversion("given up"))
        });
        assert!(part.is_err());
        if tries == 1 {
            db.transaction(|tx| tx.table("account")?.update(0, [("balance", 1000)]).map(drop))?;
        }
        account.update(1, [("balance", 50)]).map(drop)
    })?;
    assert_eq!((tries, total(&db)), (2, 1050));
    Ok(())
}
