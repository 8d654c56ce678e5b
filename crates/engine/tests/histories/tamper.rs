//! Histories that were tampered with: one small lie each, of the kind that a broken engine would tell. The judge must find
//! every one.

use crate::history::{Done, MAKER, Number};
use crate::judge::{Rules, Verdict, judge};
use crate::lists::{Fault, Lists, Seen, fault};
use crate::registers::Registers;
use crate::run::{Plan, history};
use ankerdb_engine::Isolation;
use std::collections::HashMap;

/// Lies of each kind, about.
const LIES: usize = 20;
/// Fewer chances to lie would mean that the history is too tame.
const CHANCES_MIN: usize = 5;

/// Where a transaction read or wrote: its place in the history, the statement's, and the read's.
type Place = (usize, usize, usize);

/// Tells lies, a fresh copy of the history each; all must be found.
fn every_lie_is_found<T: Copy>(
    what: &str,
    history: &[Done],
    level: Isolation,
    chances: Vec<T>,
    lie: impl Fn(&mut Vec<Done>, T),
    is_found: impl Fn(&Verdict) -> bool,
) {
    assert!(chances.len() >= CHANCES_MIN, "{what}: only {} chances", chances.len());
    for &chance in chances.iter().step_by(chances.len().div_ceil(LIES)) {
        let mut tampered = history.to_vec();
        lie(&mut tampered, chance);
        let verdict = judge(&tampered, Rules::of(level));
        assert!(is_found(&verdict), "{what}: {verdict:?}");
    }
}

/// The writer that replaced each version: (key, writer) to a place in the history.
fn successors(history: &[Done]) -> HashMap<(i32, Number), usize> {
    let writes =
        history.iter().enumerate().flat_map(|(i, done)| done.writes.iter().map(move |write| (i, write)));
    writes.map(|(i, write)| ((write.key, write.former), i)).collect()
}

/// What each version replaced.
fn predecessors(history: &[Done]) -> HashMap<(i32, Number), Number> {
    let writes = history.iter().flat_map(|done| done.writes.iter().map(|write| (done.number, write)));
    writes.map(|(number, write)| ((write.key, number), write.former)).collect()
}

/// All single reads of versions that replaced another.
fn reads(history: &[Done]) -> Vec<(Place, i32, Number)> {
    let mut found = Vec::new();
    for (i, done) in history.iter().enumerate() {
        for (j, statement) in done.statements.iter().enumerate() {
            let reads = statement.reads.iter().enumerate().filter(|(_, (_, seen))| *seen != MAKER);
            found.extend(reads.map(|(k, &(key, seen))| ((i, j, k), key, seen)));
        }
    }
    found
}

fn read_mut(history: &mut [Done], (i, j, k): Place) -> &mut Number {
    &mut history[i].statements[j].reads[k].1
}

fn is_cycle(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Cycle(_))
}

fn good(level: Isolation) -> Vec<Done> {
    let plan = Plan { level, readers: 2, seed: 11, transactions: 500, ..crate::PLAN };
    let (_, history) = history::<Registers>(plan);
    assert_eq!(judge(&history, Rules::of(level)), Verdict::Fine);
    history
}

/// A read of a version that had been replaced, and the replacement acknowledged, before the reader began. At
/// REPEATABLE READ, too, where the snapshot is then too old.
#[test]
fn a_stale_read_is_found() {
    for level in [Isolation::Serializable, Isolation::RepeatableRead] {
        let history = good(level);
        let (next, before) = (successors(&history), predecessors(&history));
        let chances = reads(&history).into_iter().filter_map(|(place, key, seen)| {
            let replaced_by = &history[next[&(key, before[&(key, seen)])]];
            let is_acknowledged = replaced_by.life.ended < history[place.0].life.began;
            is_acknowledged.then_some((place, before[&(key, seen)]))
        });
        let lie = |history: &mut Vec<Done>, (place, stale)| *read_mut(history, place) = stale;
        every_lie_is_found("stale read", &history, level, chances.collect(), lie, is_cycle);
    }
}

/// A reader saw one of a commit's writes, and another key as it was before that commit. In a snapshot: no consistent
/// cut.
#[test]
fn a_fractured_read_is_found() {
    for level in [Isolation::Serializable, Isolation::RepeatableRead] {
        let history = good(level);
        let before = predecessors(&history);
        let mut chances = Vec::new();
        let all = reads(&history);
        for (place, key, seen) in &all {
            let same =
                |other: &&(Place, i32, Number)| other.0.0 == place.0 && other.2 == *seen && other.1 != *key;
            if all.iter().any(|other| same(&other)) {
                chances.push((*place, before[&(*key, *seen)]));
            }
        }
        let lie = |history: &mut Vec<Done>, (place, stale)| *read_mut(history, place) = stale;
        every_lie_is_found("fractured read", &history, level, chances, lie, is_cycle);
    }
}

/// A commit is taken back after others saw it.
#[test]
fn a_lost_commit_is_found() {
    let history = good(Isolation::Serializable);
    let chances: Vec<usize> = reads(&history)
        .into_iter()
        .filter_map(|(_, _, seen)| history.iter().position(|done| done.number == seen))
        .collect();
    let lie = |history: &mut Vec<Done>, lost: usize| drop(history.remove(lost));
    let is_found = |verdict: &Verdict| matches!(verdict, Verdict::UnknownVersion(..));
    every_lie_is_found("lost commit", &history, Isolation::Serializable, chances, lie, is_found);
}

/// Two transactions replaced the same version.
#[test]
fn a_lost_update_is_found() {
    for level in [Isolation::Serializable, Isolation::RepeatableRead] {
        let history = good(level);
        let before = predecessors(&history);
        let mut chances = Vec::new();
        for (i, done) in history.iter().enumerate() {
            for (j, write) in done.writes.iter().enumerate().filter(|(_, write)| write.former > MAKER) {
                chances.push((i, j, before[&(write.key, write.former)]));
            }
        }
        let lie = |history: &mut Vec<Done>, (i, j, former)| {
            let history: &mut Vec<Done> = history;
            let (i, j): (usize, usize) = (i, j);
            history[i].writes[j].former = former;
        };
        let is_found = |verdict: &Verdict| matches!(verdict, Verdict::LostUpdate(..));
        every_lie_is_found("lost update", &history, level, chances, lie, is_found);
    }
}

/// A row that a range returned is left out; as it was, or as if it had not come into the range yet.
#[test]
fn a_phantom_is_found() {
    let history = good(Isolation::Serializable);
    let (before, next) = (predecessors(&history), successors(&history));
    let mut chances = Vec::new();
    for (i, done) in history.iter().enumerate() {
        for (j, statement) in done.statements.iter().enumerate() {
            for (k, range) in statement.ranges.iter().enumerate().filter(|(_, range)| !range.found.is_empty())
            {
                let (key, seen) = range.found[0];
                chances.push(((i, j, k), seen));
                // The state before that version, which came into the range early enough to be seen, and stayed.
                let outside = before[&(key, seen)];
                let writer = history.iter().find(|other| other.number == seen).expect("it has committed");
                let stayed =
                    next.get(&(key, seen)).is_none_or(|&next| history[next].life.began > done.life.ended);
                if outside > MAKER && writer.life.ended < done.life.began && stayed {
                    chances.push(((i, j, k), outside));
                }
            }
        }
    }
    let lie = |history: &mut Vec<Done>, ((i, j, k), version): (Place, Number)| {
        let range = &mut history[i].statements[j].ranges[k];
        let (key, _) = range.found.remove(0);
        range.not_found.push((key, version));
    };
    let is_found = |verdict: &Verdict| *verdict != Verdict::Fine;
    every_lie_is_found("phantom", &history, Isolation::Serializable, chances, lie, is_found);
}

/// A commit takes effect only after a transaction that had seen it was acknowledged.
#[test]
fn a_late_commit_is_found() {
    let history = good(Isolation::Serializable);
    let chances = reads(&history).into_iter().filter_map(|(place, _, seen)| {
        let writer = history.iter().position(|done| done.number == seen)?;
        (!history[place.0].is_reader).then_some((writer, history[place.0].life.ended))
    });
    let lie = |history: &mut Vec<Done>, (writer, ended): (usize, u64)| {
        let life = &mut history[writer].life;
        (life.began, life.ended) = (ended + 1, ended + 2);
    };
    every_lie_is_found("late commit", &history, Isolation::Serializable, chances.collect(), lie, is_cycle);
}

/// A snapshot that was taken after a commit had been acknowledged does not show it.
#[test]
fn an_old_snapshot_is_found() {
    let history = good(Isolation::RepeatableRead);
    let end = history.iter().map(|done| done.life.ended).max().expect("there is one");
    let last =
        history.iter().filter(|done| !done.writes.is_empty()).map(|done| done.life.ended).max().expect("too");
    assert!(last <= end);
    let readers =
        history.iter().enumerate().filter(|(_, done)| done.is_reader && done.life.ended + 500 < last);
    let chances: Vec<usize> = readers.map(|(i, _)| i).collect();
    let lie = |history: &mut Vec<Done>, reader: usize| {
        let done = &mut history[reader];
        (done.snapshot.began, done.snapshot.ended) = (end + 1, end + 2);
    };
    every_lie_is_found("old snapshot", &history, Isolation::RepeatableRead, chances, lie, is_cycle);
}

/// Lists from which something is missing, or that hold too much.
#[test]
fn a_list_that_was_tampered_with_is_found() {
    let plan = Plan { seed: 12, ..crate::PLAN };
    let (world, history) = history::<Lists>(plan);
    let (end, seen) = (world.in_the_end(), world.seen());
    assert_eq!(fault(&history, &end, &seen), None);
    let committed = |seen: &&Seen| history.iter().any(|done| done.number == seen.reader);
    let long = seen.iter().rfind(|seen| seen.list.len() > 20 && committed(seen)).expect("lists grow");
    let with = |change: &dyn Fn(&mut Vec<i64>)| {
        let mut tampered = long.clone();
        change(&mut tampered.list);
        fault(&history, &end, &[tampered])
    };
    let seventh = long.list[7];
    let is_no_prefix = |fault: Option<Fault>| matches!(fault, Some(Fault::NoPrefix(_)));
    assert!(is_no_prefix(with(&|list| list.retain(|&element| element != seventh))), "an element is missing");
    assert!(is_no_prefix(with(&|list| list.swap(3, 4))), "two elements in another order");
    assert!(is_no_prefix(with(&|list| list.push(8))), "an element that belongs elsewhere");
    let several = end.iter().find_map(|(&key, list)| {
        let cut = list.windows(2).position(|pair| pair[0] / 8 == pair[1] / 8)?;
        Some(Seen { reader: MAKER, key, list: list[..=cut].to_vec() })
    });
    let several = several.expect("some append twice");
    assert!(matches!(fault(&history, &end, &[several]), Some(Fault::Intermediate(_))), "half a transaction");
    let change_end = |change: &dyn Fn(&mut Vec<i64>)| {
        let mut tampered = end.clone();
        change(tampered.get_mut(&long.key).expect("it was seen"));
        fault(&history, &tampered, &[])
    };
    assert!(
        matches!(change_end(&|list| list.truncate(list.len() - 1)), Some(Fault::Lost(..))),
        "the last element is lost"
    );
    assert!(matches!(change_end(&|list| list.push(8 * 999_999)), Some(Fault::Uncommitted(..))), "of nobody");
}
