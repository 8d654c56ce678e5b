//! The models, and the controls that must fail.

use std::sync::Arc;

use loom::thread;

use super::{Ended, ModelDatabase, ModelTransaction, RowStep};
use crate::primitive::{AtomicU64, Ordering, ProofStep, check, check_without_up_to};

fn check_without(step: RowStep, model: impl Fn() + Sync + Send + 'static) {
    check_without_up_to(2, ProofStep::Row(step), model);
}

fn spawn<T: 'static>(
    database: &Arc<ModelDatabase>,
    run: impl FnOnce(&ModelDatabase) -> T + 'static,
) -> thread::JoinHandle<T> {
    let database = Arc::clone(database);
    thread::spawn(move || run(&database))
}

/// The only writer: the n-th commit writes n to column (n + 1) mod 2 of row 0, so that every state is known.
fn write_next(database: &ModelDatabase, commit: u64) {
    let outcome = database.begin().commit(&[(0, column_of(commit), commit)], true);
    assert_eq!(outcome, Ok(commit));
}

fn column_of(commit: u64) -> usize {
    (commit as usize + 1) % 2
}

/// Both columns as of a timestamp.
fn state(at: u64) -> [u64; 2] {
    [0, 1].map(|column| (1..=at).rev().find(|&commit| column_of(commit) == column).unwrap_or(0))
}

fn assert_reads(transaction: &mut ModelTransaction<'_>) {
    let seen = [0, 1].map(|column| transaction.read(0, column));
    assert_eq!(seen, state(transaction.start), "as of {}", transaction.start);
}

/// A reader begins while a commit is under way.
fn reader_and_committer() {
    let database = ModelDatabase::new(1);
    let committer = spawn(&database, |database| write_next(database, 1));
    let mut reader = database.begin();
    assert_reads(&mut reader);
    drop(reader);
    committer.join().unwrap();
    assert_reads(&mut database.begin());
}

/// A reader that has begun before reads while a commit changes the other column, and prunes.
fn early_reader_and_committer() {
    let database = ModelDatabase::new(1);
    write_next(&database, 1);
    let mut reader = database.begin();
    let committer = spawn(&database, |database| write_next(database, 2));
    assert_reads(&mut reader);
    committer.join().unwrap();
    assert_reads(&mut reader);
}

/// A reader that has begun before reads while two commits change both columns, and prune.
fn early_reader_and_two_commits() {
    let database = ModelDatabase::new(1);
    write_next(&database, 1);
    let mut reader = database.begin();
    let committer = spawn(&database, |database| (2..=3).for_each(|commit| write_next(database, commit)));
    assert_reads(&mut reader);
    committer.join().unwrap();
    assert_reads(&mut reader);
}

/// The chain has three versions when a fourth commit prunes the two in the middle, and moves their cells to the one
/// that a reader walks to.
fn reader_and_pruner_of_the_middle() {
    let database = ModelDatabase::new(1);
    let mut oldest = database.begin();
    let between = database.begin();
    write_next(&database, 1);
    write_next(&database, 2);
    drop(between);
    let committer = spawn(&database, |database| write_next(database, 3));
    assert_reads(&mut oldest);
    committer.join().unwrap();
    assert_reads(&mut oldest);
    assert!(database.rows[0].versions() <= 2, "one for the reader, one under the newest state");
}

/// A reader begins while commits prune by an old list of readers: whatever it may begin at must stay.
fn newcomer_and_pruner(commits: u64) {
    let database = ModelDatabase::new(1);
    let old_list = database.in_use();
    let committer = spawn(&database, move |database| {
        for commit in 1..=commits {
            let mut transaction = database.begin();
            transaction.in_use = Some(old_list.clone());
            assert_eq!(transaction.commit(&[(0, column_of(commit), commit)], true), Ok(commit));
        }
    });
    assert_reads(&mut database.begin());
    committer.join().unwrap();
}

/// A reader copies both columns, data first and headers second, while commits change them.
fn copier_and_committer(commits: u64) {
    let database = ModelDatabase::new(1);
    let committer =
        spawn(&database, move |database| (1..=commits).for_each(|commit| write_next(database, commit)));
    let reader = database.begin();
    assert_eq!(reader.copy(), [state(reader.start)], "as of {}", reader.start);
    drop(reader);
    committer.join().unwrap();
}

/// Commits to two rows of a block at once: the one that comes late need not raise what the other has raised already.
fn copier_and_two_committers() {
    let database = ModelDatabase::new(2);
    let committers = [0, 1].map(|row| {
        spawn(&database, move |database| {
            let commit = database.begin().commit(&[(row, 0, 1)], false);
            commit.expect("this row has no other writer")
        })
    });
    let reader = database.begin();
    let (start, copies) = (reader.start, reader.copy());
    drop(reader);
    let commits = committers.map(|committer| committer.join().unwrap());
    let expected = commits.map(|commit| [u64::from(commit <= start), 0]);
    assert_eq!(copies, expected, "as of {start}");
}

/// A pass of the pruner makes the row clean while a reader copies and another commit comes.
fn copier_and_sweeper() {
    let database = ModelDatabase::new(1);
    write_next(&database, 1);
    let sweeper = spawn(&database, |database| database.sweep());
    let committer = spawn(&database, |database| {
        // The sweeper may have the row for a moment.
        while database.begin().commit(&[(0, column_of(2), 2)], true).is_err() {
            thread::yield_now();
        }
    });
    let reader = database.begin();
    assert_eq!(reader.copy(), [state(reader.start)], "as of {}", reader.start);
    drop(reader);
    sweeper.join().unwrap();
    committer.join().unwrap();
}

/// A reader from before the last commit, while the pruner passes.
fn early_reader_and_sweeper() {
    let database = ModelDatabase::new(1);
    let mut reader = database.begin();
    write_next(&database, 1);
    let sweeper = spawn(&database, |database| database.sweep());
    assert_reads(&mut reader);
    assert_eq!(reader.copy(), [state(0)]);
    sweeper.join().unwrap();
    assert_reads(&mut reader);
}

/// Two transactions each read the other one's row and write their own: at most one commits.
fn write_skew() {
    let database = ModelDatabase::new(2);
    let withdraw = |database: &ModelDatabase, mine: usize| {
        let mut transaction = database.begin();
        let is_free = transaction.read(1 - mine, 0) == 0;
        if is_free { transaction.commit(&[(mine, 0, 1)], true) } else { Err(Ended::Conflict) }
    };
    let other = spawn(&database, move |database| withdraw(database, 1));
    let here = withdraw(&database, 0);
    let there = other.join().unwrap();
    assert!(here.is_err() || there.is_err(), "both have committed: {here:?}, {there:?}");
    let mut after = database.begin();
    assert_eq!([0, 1].map(|row| after.read(row, 0)), [here, there].map(|outcome| u64::from(outcome.is_ok())));
}

/// Two transactions add to the same cell: nothing is lost, at snapshot isolation too.
fn increments() {
    let database = ModelDatabase::new(1);
    let increment = |database: &ModelDatabase| {
        let mut transaction = database.begin();
        let seen = transaction.read(0, 0);
        transaction.commit(&[(0, 0, seen + 1)], false)
    };
    let other = spawn(&database, move |database| increment(database));
    let outcomes = [increment(&database), other.join().unwrap()];
    let committed = outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
    assert_eq!(database.begin().read(0, 0), committed, "an update is lost: {outcomes:?}");
}

/// One commit writes two rows; a reader sees both writes or none.
fn commit_of_two_rows() {
    let database = ModelDatabase::new(2);
    let committer = spawn(&database, |database| {
        assert_eq!(database.begin().commit(&[(0, 0, 1), (1, 0, 1)], true), Ok(1));
    });
    let mut reader = database.begin();
    let seen = [0, 1].map(|row| reader.read(row, 0));
    assert_eq!(seen, [reader.start; 2], "half of a commit");
    drop(reader);
    committer.join().unwrap();
}

/// Two commits to different rows at once, one of which is acknowledged: a reader that begins then sees it.
fn acknowledged_and_then_read() {
    let database = ModelDatabase::new(2);
    let acknowledged = Arc::new(AtomicU64::new(0));
    let other = spawn(&database, |database| database.begin().commit(&[(1, 0, 1)], true));
    let tell = acknowledged.clone();
    let committer = spawn(&database, move |database| {
        let outcome = database.begin().commit(&[(0, 0, 1)], true);
        tell.store(1, Ordering::Release);
        assert!(outcome.is_ok());
    });
    if acknowledged.load(Ordering::Acquire) == 1 {
        assert_eq!(database.begin().read(0, 0), 1, "an acknowledged commit is not seen");
    }
    assert!(other.join().unwrap().is_ok());
    committer.join().unwrap();
}

/// A transaction has read row 1 when it locks row 0, finds it changed and restarts its statement. Meanwhile others commit
/// that change, and one that has read row 0 and writes row 1. Of these two, one has seen what the other wrote.
fn restart_and_committers() {
    const MINE: u64 = 5;
    let database = ModelDatabase::new(2);
    let mut transaction = database.begin();
    assert_eq!(transaction.read(1, 0), 0);
    let others = spawn(&database, |database| {
        database.begin().commit(&[(0, 0, 1)], true).ok()?;
        let mut other = database.begin();
        let seen = other.read(0, 1);
        other.commit(&[(1, 0, 1)], true).ok().map(|_| seen)
    });
    let mut add = || {
        if transaction.lock(0)? {
            transaction.restart()?;
        }
        transaction.read(0, 1);
        Ok(())
    };
    let added: Result<(), Ended> = add();
    let here = added.and_then(|()| transaction.commit(&[(0, 1, MINE)], true));
    let seen = others.join().unwrap();
    let both = here.is_ok() && seen.is_some();
    assert!(!both || seen == Some(MINE), "neither has seen the other");
}

/// The first commit of [`state`], as a large one.
fn write_first_as_large(database: &ModelDatabase) {
    assert_eq!(database.begin().commit_large(&[(0, column_of(1), 1)], true), Ok(1));
}

/// One large commit writes two rows; a reader sees both writes or none.
fn large_commit_of_two_rows() {
    let database = ModelDatabase::new(2);
    let committer = spawn(&database, |database| {
        assert_eq!(database.begin().commit_large(&[(0, 0, 1), (1, 0, 1)], true), Ok(1));
    });
    let mut reader = database.begin();
    let seen = [0, 1].map(|row| reader.read(row, 0));
    assert_eq!(seen, [reader.start; 2], "half of a commit");
    drop(reader);
    committer.join().unwrap();
}

/// A reader that has begun before reads while a large commit changes the other column.
fn early_reader_and_large_commit() {
    let database = ModelDatabase::new(1);
    write_next(&database, 1);
    let mut reader = database.begin();
    let committer = spawn(&database, |database| {
        assert_eq!(database.begin().commit_large(&[(0, column_of(2), 2)], true), Ok(2));
    });
    assert_reads(&mut reader);
    committer.join().unwrap();
    assert_reads(&mut reader);
    assert_reads(&mut database.begin());
}

/// A reader copies both columns while a large commit changes one of them.
fn copier_and_large_commit() {
    let database = ModelDatabase::new(1);
    let committer = spawn(&database, write_first_as_large);
    let reader = database.begin();
    assert_eq!(reader.copy(), [state(reader.start)], "as of {}", reader.start);
    drop(reader);
    committer.join().unwrap();
}

/// A large commit installs, and withdraws; the second timestamp changes nothing.
fn withdraw_second(database: &ModelDatabase) {
    assert_eq!(database.begin().end_large(&[(0, 1, 7)]), Err(Ended::Conflict));
}

/// Readers from before read what a large commit has written over, and put back.
fn reader_and_withdrawn_commit() {
    let database = ModelDatabase::new(1);
    write_next(&database, 1);
    let withdrawer = spawn(&database, withdraw_second);
    let mut reader = database.begin();
    let seen = [0, 1].map(|column| reader.read(0, column));
    assert_eq!(seen, state(1), "what was withdrawn is seen");
    drop(reader);
    withdrawer.join().unwrap();
    let mut after = database.begin();
    assert_eq!([0, 1].map(|column| after.read(0, column)), state(1));
}

/// Readers from before copy columns that a large commit has written over, and put back.
fn copier_and_withdrawn_commit() {
    let database = ModelDatabase::new(1);
    write_next(&database, 1);
    let withdrawer = spawn(&database, withdraw_second);
    let reader = database.begin();
    assert_eq!(reader.copy(), [state(1)], "what was withdrawn is seen");
    drop(reader);
    withdrawer.join().unwrap();
    assert_eq!(database.begin().copy(), [state(1)]);
}

#[test]
fn loom_large_commit_of_two_rows() {
    check(2, large_commit_of_two_rows);
}

#[test]
fn loom_early_reader_and_large_commit() {
    check(2, early_reader_and_large_commit);
}

#[test]
fn loom_copier_and_large_commit() {
    check(2, copier_and_large_commit);
}

#[test]
fn loom_reader_and_withdrawn_commit() {
    check(2, reader_and_withdrawn_commit);
}

#[test]
fn loom_copier_and_withdrawn_commit() {
    check(2, copier_and_withdrawn_commit);
}

#[test]
#[should_panic = "half of a commit"]
fn control_finished_before_it_is_decided() {
    check_without(RowStep::DecidesFirst, large_commit_of_two_rows);
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_pending_rows_that_nobody_counts() {
    check_without(RowStep::AheadCounts, copier_and_large_commit);
}

#[test]
#[should_panic = "what was withdrawn is seen"]
fn control_counted_out_before_the_change_is_known() {
    check_without(RowStep::SettleRaisesFirst, copier_and_withdrawn_commit);
}

#[test]
#[should_panic = "what was withdrawn is seen"]
fn control_withdrawn_rows_that_get_their_former_header() {
    check_without(RowStep::WithdrawTakesTimestamp, reader_and_withdrawn_commit);
}

#[test]
fn loom_restart_and_committers() {
    check(2, restart_and_committers);
}

#[test]
#[should_panic = "neither has seen the other"]
fn control_restart_without_check() {
    check_without(RowStep::RestartChecks, restart_and_committers);
}

#[test]
#[should_panic = "neither has seen the other"]
fn control_restart_that_checks_before_it_takes_its_timestamp() {
    check_without(RowStep::RestartTakesFirst, restart_and_committers);
}

#[test]
fn loom_reader_and_committer() {
    check(2, reader_and_committer);
}

#[test]
fn loom_early_reader_and_committer() {
    check(3, early_reader_and_committer);
}

#[test]
fn loom_early_reader_and_two_commits() {
    check(2, early_reader_and_two_commits);
}

#[test]
fn loom_reader_and_pruner_of_the_middle() {
    check(3, reader_and_pruner_of_the_middle);
}

#[test]
fn loom_newcomer_and_pruner() {
    check(2, || newcomer_and_pruner(2));
}

#[test]
fn loom_copier_and_committer() {
    check(3, || copier_and_committer(1));
}

#[test]
fn loom_copier_and_two_commits() {
    check(2, || copier_and_committer(2));
}

#[test]
fn loom_copier_and_two_committers() {
    check(2, copier_and_two_committers);
}

#[test]
fn loom_copier_and_sweeper() {
    check(2, copier_and_sweeper);
}

#[test]
fn loom_early_reader_and_sweeper() {
    check(4, early_reader_and_sweeper);
}

#[test]
fn loom_write_skew() {
    check(2, write_skew);
}

#[test]
fn loom_increments() {
    check(2, increments);
}

#[test]
fn loom_commit_of_two_rows() {
    check(2, commit_of_two_rows);
}

#[test]
fn loom_acknowledged_and_then_read() {
    check(2, acknowledged_and_then_read);
}

#[test]
#[should_panic = "is gone"]
fn control_header_before_version() {
    check_without(RowStep::PushesFirst, early_reader_and_two_commits);
}

#[test]
#[should_panic = "Causality violation"]
fn control_version_that_is_not_released() {
    check_without(RowStep::PushReleases, early_reader_and_two_commits);
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_cells_before_header() {
    check_without(RowStep::AnnouncesFirst, early_reader_and_two_commits);
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_install_without_fence() {
    check_without(RowStep::InstallFences, early_reader_and_two_commits);
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_read_without_fence() {
    check_without(RowStep::ReadFences, early_reader_and_two_commits);
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_read_that_does_not_look_again() {
    check_without(RowStep::ReadConfirms, early_reader_and_two_commits);
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_cells_before_their_change_is_known() {
    check_without(RowStep::RaisesFirst, || copier_and_committer(1));
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_copy_without_fence() {
    check_without(RowStep::CopyFences, || copier_and_committer(1));
}

#[test]
#[should_panic = "is gone"]
fn control_pruning_that_ignores_an_announced_reader() {
    check_without(RowStep::PruneKeepsReaders, early_reader_and_two_commits);
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_pruning_that_ignores_newcomers() {
    // The third commit prunes what the first one has made. One preemption is enough: the reader's, as it begins.
    check_without_up_to(1, ProofStep::Row(RowStep::PruneKeepsNewcomers), || newcomer_and_pruner(3));
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_pruning_that_drops_cells() {
    check_without(RowStep::PruneMovesCells, reader_and_pruner_of_the_middle);
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_pruning_in_two_stores() {
    check_without(RowStep::PruneReplacesAtOnce, reader_and_pruner_of_the_middle);
}

#[test]
#[should_panic = "is gone"]
fn control_sweeping_under_a_reader() {
    check_without(RowStep::SweepAsksHorizon, early_reader_and_sweeper);
}

#[test]
#[should_panic = "is lost"]
fn control_commits_without_locks() {
    check_without(RowStep::CommitLocks, increments);
}

#[test]
#[should_panic = "is lost"]
fn control_last_committer_wins() {
    check_without(RowStep::FirstCommitterWins, increments);
}

#[test]
#[should_panic = "both have committed"]
fn control_validation_before_publication() {
    check_without(RowStep::PublishesFirst, write_skew);
}

#[test]
#[should_panic = "half of a commit"]
fn control_watermark_before_install() {
    check_without(RowStep::FinishesLast, commit_of_two_rows);
}

#[test]
#[should_panic = "an acknowledged commit is not seen"]
fn control_acknowledged_before_visible() {
    check_without(RowStep::WaitsUntilVisible, acknowledged_and_then_read);
}
