//! Random histories: what concurrent transactions saw and wrote, checked against the promises of their level.
//!
//! Threads run random transactions on a few rows, at every level, in procedures and interactively, while others take
//! snapshots and hold them. The order of all versions of a row is known from the committed data itself, and not from the
//! engine's timestamps: in [`registers`] every version names the one that it replaced, in [`lists`] rows are lists to
//! which elements are appended. (Only where updates may be lost is the engine asked.) [`judge`] makes a graph of it in
//! which a cycle is an anomaly.
//!
//! Each level must show what it allows when it is checked against the next stricter one, and tampered histories must
//! be detected ([`tamper`]), or the judge would prove nothing.

mod graph;
mod history;
mod judge;
mod lists;
mod registers;
mod run;
#[path = "../support/mod.rs"]
mod support;
mod tamper;

use ankerdb_engine::{Configuration, Isolation};
use history::Done;
use judge::{Anomaly, Order, Rules, Verdict, judge};
use lists::{Fault, Lists, fault};
use registers::Registers;
use run::{Plan, Style, history};

const PLAN: Plan = Plan {
    configuration: Configuration::AnkerDb,
    large: false,
    level: Isolation::Serializable,
    styles: &[Style::Procedure, Style::Locking, Style::Optimistic],
    threads: 4,
    transactions: 1_500,
    readers: 0,
    seed: 0,
};

/// The plans of a level: with and without locks, with and without readers, by small and by large commits.
fn plans(level: Isolation) -> impl Iterator<Item = Plan> {
    let weak = matches!(level, Isolation::ReadCommitted | Isolation::ReadUncommitted);
    let styles: &[&[Style]] = match weak {
        true => &[PLAN.styles, &[Style::Procedure], &[Style::Locking]],
        false => &[PLAN.styles, &[Style::Procedure]],
    };
    (0..2 * styles.len()).map(move |plan| {
        let readers = if plan % 2 == 0 { 0 } else { 2 };
        let large = plan / 2 % 2 != plan % 2;
        Plan { level, large, styles: styles[plan / 2], readers, seed: plan as u64 + 1, ..PLAN }
    })
}

/// Shows the transactions of a cycle and all that wrote the same keys around them, for debugging.
fn explain(history: &[Done], verdict: &Verdict) {
    let Verdict::Cycle(steps) = verdict else { return };
    let members = || history.iter().filter(|done| steps.iter().any(|(number, _)| *number == done.number));
    members().for_each(|done| eprintln!("{done:?}"));
    let around = |done: &&Done| members().any(|member| done.life.began.abs_diff(member.life.began) < 200);
    for key in steps.iter().filter_map(|(_, why)| why.key()) {
        for done in history.iter().filter(around) {
            for write in done.writes.iter().filter(|write| write.key == key) {
                eprintln!("{} at {:?} {:?}: {write:?}", done.number, done.timestamp, done.commit);
            }
        }
    }
}

fn check(history: &[Done], plan: Plan) {
    let statements = || history.iter().flat_map(|done| &done.statements);
    let ranges: usize = statements().map(|statement| statement.ranges.len()).sum();
    let writes: usize = history.iter().map(|done| done.writes.len()).sum();
    let readers = history.iter().filter(|done| done.is_reader).count();
    let enough = history.len() > 500 && ranges > 150 && writes > 500 && (plan.readers == 0 || readers > 5);
    assert!(
        enough,
        "{plan:?}: {} commits, {ranges} ranges, {writes} writes, {readers} readers",
        history.len()
    );
    let verdict = judge(history, Rules::of(plan.level));
    explain(history, &verdict);
    assert_eq!(verdict, Verdict::Fine, "{plan:?}");
}

fn registers_keep_the_promises_of(level: Isolation) {
    plans(level).for_each(|plan| check(&history::<Registers>(plan).1, plan));
}

#[test]
fn serializable_is_strictly_serializable() {
    registers_keep_the_promises_of(Isolation::Serializable);
}

#[test]
fn repeatable_read_is_strong_snapshot_isolation() {
    registers_keep_the_promises_of(Isolation::RepeatableRead);
}

#[test]
fn statements_of_read_committed_are_consistent() {
    registers_keep_the_promises_of(Isolation::ReadCommitted);
}

#[test]
fn read_uncommitted_reads_only_what_was_committed() {
    registers_keep_the_promises_of(Isolation::ReadUncommitted);
}

/// With locks, READ COMMITTED loses no update either: the order of versions is known without timestamps.
#[test]
fn locks_lose_no_update_at_the_weak_levels() {
    for level in [Isolation::ReadCommitted, Isolation::ReadUncommitted] {
        let plan = Plan { level, styles: &[Style::Locking], seed: 7, ..PLAN };
        let (_, history) = history::<Registers>(plan);
        let verdict = judge(&history, Rules { order: Order::Links, ..Rules::of(level) });
        explain(&history, &verdict);
        assert_eq!(verdict, Verdict::Fine, "{level:?}");
    }
}

/// Lists at a level, with snapshots beside them.
fn lists_keep_the_promises_of(level: Isolation, styles: &'static [Style]) {
    for seed in 21..=22 {
        let plan = Plan { level, large: seed % 2 == 1, styles, readers: seed % 2 * 2, seed, ..PLAN };
        let (world, history) = history::<Lists>(plan);
        check(&history, plan);
        assert_eq!(fault(&history, &world.in_the_end(), &world.seen()), None, "{plan:?}");
        let verdict = judge(&history, Rules { order: Order::Links, ..Rules::of(level) });
        assert_eq!(verdict, Verdict::Fine, "{plan:?}");
    }
}

#[test]
fn lists_are_serializable() {
    lists_keep_the_promises_of(Isolation::Serializable, PLAN.styles);
}

#[test]
fn lists_lose_nothing_under_snapshot_isolation() {
    lists_keep_the_promises_of(Isolation::RepeatableRead, PLAN.styles);
}

#[test]
fn lists_lose_nothing_under_locks() {
    lists_keep_the_promises_of(Isolation::ReadCommitted, &[Style::Locking]);
    lists_keep_the_promises_of(Isolation::ReadUncommitted, &[Style::Locking]);
}

#[test]
fn control_lists_lose_elements_at_the_weak_levels() {
    for level in [Isolation::ReadCommitted, Isolation::ReadUncommitted] {
        let is_found = (1..=200).any(|seed| {
            let plan = Plan { level, styles: &[Style::Optimistic], seed, transactions: 300, ..PLAN };
            let (world, history) = history::<Lists>(plan);
            matches!(fault(&history, &world.in_the_end(), &[]), Some(Fault::Lost(..)))
        });
        assert!(is_found, "no element was ever lost at {level:?}: the check is blind");
    }
}

/// A plan for another configuration, with readers. Those that lock wait for each other's rows, and so would abort nearly
/// always where an old version ends a transaction.
fn plan_in(configuration: Configuration, seed: u64) -> Plan {
    let styles: &[Style] = &[Style::Procedure, Style::Optimistic];
    Plan { configuration, styles, readers: 2, seed, ..PLAN }
}

#[test]
fn every_configuration_keeps_its_promises() {
    for configuration in support::consistent() {
        for (seed, level) in [(41, configuration.isolation()), (42, Isolation::RepeatableRead)] {
            let plan = Plan { level, ..plan_in(configuration, seed) };
            check(&history::<Registers>(plan).1, plan);
            let (world, history) = history::<Lists>(plan);
            check(&history, plan);
            assert_eq!(fault(&history, &world.in_the_end(), &world.seen()), None, "{plan:?}");
        }
    }
}

/// The control of the test above: queries that look at no version are found out.
#[test]
fn control_read_uncommitted_queries_see_no_one_state() {
    let is_found = (1..=100).any(|seed| {
        let plan = Plan { transactions: 500, ..plan_in(Configuration::SeeRu, seed) };
        judge(&history::<Registers>(plan).1, Rules::of(plan.level)) != Verdict::Fine
    });
    assert!(is_found, "the judge is blind to what readers see");
}

/// A control must show its anomaly, in one of many rounds, when a level is checked against rules that it need not
/// keep.
fn must_find(level: Isolation, rules: Rules, what: &str, is_it: impl Fn(&Verdict) -> bool) {
    must_find_in(&[Style::Optimistic], level, rules, what, is_it);
}

fn must_find_in(
    styles: &'static [Style],
    level: Isolation,
    rules: Rules,
    what: &str,
    is_it: impl Fn(&Verdict) -> bool,
) {
    for seed in 1..=300 {
        let plan = Plan { level, styles, seed, transactions: 300, ..PLAN };
        if is_it(&judge(&history::<Registers>(plan).1, rules)) {
            return;
        }
    }
    panic!("{what} was never found at {level:?} in {styles:?}: the judge is blind");
}

#[test]
fn control_repeatable_read_shows_write_skew() {
    let rules = Rules::timeless(Isolation::Serializable, Order::Links);
    let is_skew = |verdict: &Verdict| verdict.anomaly() == Some(Anomaly::WriteSkew);
    must_find(Isolation::RepeatableRead, rules, "write skew", is_skew);
}

/// Statements of READ COMMITTED under locks run again at a newer timestamp, and nothing of what was read earlier is checked:
/// what SERIALIZABLE would be if restarting did not check.
#[test]
fn control_restarting_without_the_check_is_not_serializable() {
    let rules = Rules::timeless(Isolation::Serializable, Order::Links);
    let is_found = (1..=100).any(|seed| {
        let styles = &[Style::Locking];
        let plan = Plan { level: Isolation::ReadCommitted, styles, seed, transactions: 300, ..PLAN };
        matches!(judge(&history::<Registers>(plan).1, rules), Verdict::Cycle(_))
    });
    assert!(is_found, "the judge is blind to what restarts have read before");
}

#[test]
fn control_read_committed_shows_lost_updates() {
    let rules = Rules::timeless(Isolation::RepeatableRead, Order::Links);
    let is_lost = |verdict: &Verdict| matches!(verdict, Verdict::LostUpdate(..));
    must_find(Isolation::ReadCommitted, rules, "a lost update", is_lost);
    for level in [Isolation::ReadCommitted, Isolation::ReadUncommitted] {
        must_find_in(&[Style::Procedure], level, rules, "a lost update", is_lost);
    }
}

#[test]
fn control_read_committed_shows_non_repeatable_reads() {
    let rules = Rules::timeless(Isolation::RepeatableRead, Order::Timestamps);
    let is_fuzzy = |verdict: &Verdict| verdict.anomaly() == Some(Anomaly::NonRepeatableRead);
    must_find(Isolation::ReadCommitted, rules, "a non-repeatable read", is_fuzzy);
}

/// One statement that sees some of a commit's writes, but not all.
#[test]
fn control_read_uncommitted_shows_fractured_reads() {
    let rules = Rules::timeless(Isolation::ReadCommitted, Order::Timestamps);
    let is_fractured = |verdict: &Verdict| verdict.anomaly() == Some(Anomaly::ReadSkew);
    must_find(Isolation::ReadUncommitted, rules, "a fractured read", is_fractured);
    must_find_in(&[Style::Procedure], Isolation::ReadUncommitted, rules, "a fractured read", is_fractured);
}
