//! Large transactions that end in the middle of their work: by a panic, by an interrupt, because an appender or a transaction is
//! dropped. Nothing of them remains, nobody else is kept waiting, and the connection goes on to its next user.
//!
//! `crates/ankerdb/benches/endings.rs` measures the same ways with a million rows.

mod support;

use ankerdb::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{filled, state, total};

/// Rows that are there before, and as many that a transaction is about to write: more than a large commit needs.
const ROWS: i32 = 20_000;

/// What a transaction writes of a row before it ends: half of the rows new, half of them changed or deleted.
fn write(tx: &Transaction, id: i32) -> Result<()> {
    let account = tx.table("account")?;
    account.insert((ROWS + id, "new", 7))?;
    match id % 3 {
        0 => account.delete(id).map(drop),
        _ => account.update(id, [("balance", 5)]).map(drop),
    }
}

/// Everything is as before and can be written to: by a transaction that waits for nobody.
fn check_untouched(db: &Database) -> Result<()> {
    assert_eq!(total(db), i64::from(ROWS) * 100);
    assert_eq!(db.snapshot().table("account")?.scan().count()?, ROWS as usize);
    let begun = Instant::now();
    let other = db.begin()?;
    (0..ROWS).step_by(1000).try_for_each(|id| write(&other, id))?;
    other.rollback();
    db.transaction(|tx| (0..ROWS).try_for_each(|id| write(tx, id)))?;
    assert!(begun.elapsed() < Duration::from_secs(60), "somebody was waited for");
    let kept = (0..ROWS).filter(|id| id % 3 != 0).count();
    assert_eq!(total(db), kept as i64 * 5 + i64::from(ROWS) * 7);
    Ok(())
}

#[test]
fn a_panic_in_the_middle_of_a_procedure() -> Result<()> {
    let db = filled(ROWS, 100);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        db.transaction(|tx| {
            (0..ROWS / 2).try_for_each(|id| write(tx, id))?;
            if tx.table("account")?.contains(ROWS - 1)? { panic!("on purpose") } else { Ok(()) }
        })
    }));
    assert!(caught.is_err());
    check_untouched(&db)
}

/// The procedure is in the middle of its rows when another thread interrupts it, and ends at its next one.
#[test]
fn an_interrupt_in_the_middle_of_a_procedure() -> Result<()> {
    let db = filled(ROWS, 100);
    let (handle, written) = (db.interrupt_handle(), AtomicUsize::new(0));
    let ended = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            db.transaction(|tx| {
                for id in 0..ROWS {
                    write(tx, id)?;
                    // From the middle on it goes on only when the interrupt has been raised.
                    if written.fetch_add(1, Ordering::SeqCst) == ROWS as usize / 2 {
                        handle.interrupt();
                    }
                }
                Ok(())
            })
        });
        writer.join().expect("no panic")
    });
    assert_eq!(state(ended), SqlState::QueryCanceled);
    let written = written.into_inner();
    assert!(written <= ROWS as usize / 2 + 2, "it went on for {written} rows");
    check_untouched(&db)
}

/// Each call looks for an interrupt, also one that neither searches nor waits.
#[test]
fn an_interrupt_between_inserts() -> Result<()> {
    let db = filled(ROWS, 100);
    let (handle, mut written) = (db.interrupt_handle(), 0);
    let ended = db.transaction(|tx| {
        let account = tx.table("account")?;
        (ROWS..2 * ROWS).try_for_each(|id| {
            account.insert((id, "new", 7))?;
            written += 1;
            if written == ROWS / 2 {
                handle.interrupt();
            }
            Ok(())
        })
    });
    assert_eq!((state(ended), written), (SqlState::QueryCanceled, ROWS / 2));
    let mut appender = db.appender("account")?.rows_per_transaction(usize::MAX);
    appender.append_row((ROWS, "new", 7))?;
    handle.interrupt();
    assert_eq!(state(appender.append_row((ROWS + 1, "new", 7))), SqlState::QueryCanceled);
    drop(appender);
    check_untouched(&db)
}

/// What it has committed stays, and of the transaction that it was filling nothing does.
#[test]
fn an_appender_that_is_cut_off_in_the_middle() -> Result<()> {
    const PIECE: i32 = 1_000;
    for cut_off in [
        |appender: Appender| drop(appender),
        |appender: Appender| {
            let caught = catch_unwind(AssertUnwindSafe(move || {
                let _appender = appender;
                panic!("on purpose")
            }));
            assert!(caught.is_err());
        },
    ] {
        let db = filled(ROWS, 100);
        let mut appender = db.appender("account")?.rows_per_transaction(PIECE as usize);
        for id in 0..PIECE * 2 + PIECE / 2 {
            appender.append_row((ROWS + id, "new", 7))?;
        }
        assert_eq!(appender.committed(), PIECE as u64 * 2);
        cut_off(appender);
        assert_eq!(total(&db), i64::from(ROWS) * 100 + i64::from(PIECE) * 2 * 7);
        // A whole load that is cut off leaves nothing; and the next one begins where it likes.
        let mut whole = db.appender("account")?.rows_per_transaction(usize::MAX);
        (PIECE * 2..ROWS).try_for_each(|id| whole.append_row((ROWS + id, "new", 7)))?;
        assert_eq!(whole.committed(), 0);
        cut_off(whole);
        let mut again = db.appender("account")?;
        (PIECE * 2..ROWS).try_for_each(|id| again.append_row((ROWS + id, "new", 7)))?;
        assert_eq!(again.finish()?, (ROWS - PIECE * 2) as u64);
        assert_eq!(total(&db), i64::from(ROWS) * 107);
    }
    Ok(())
}

#[test]
fn a_transaction_that_is_dropped_with_all_of_its_writes() -> Result<()> {
    let db = filled(ROWS, 100);
    let tx = db.begin()?;
    (0..ROWS).try_for_each(|id| write(&tx, id))?;
    // One that waits for a row of its goes on when it has ended.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let other = db.begin()?;
            other.table("account")?.update(1, [("balance", 5)])?;
            other.rollback();
            Ok::<_, Error>(())
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished(), "the row is locked");
        drop(tx);
        waiting.join().expect("no panic")
    })?;
    check_untouched(&db)
}
