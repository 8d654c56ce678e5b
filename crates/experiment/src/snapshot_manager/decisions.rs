//! What the manager decided, and what came of it, in sentences.

use super::phase::StalenessOutcome;
use super::{ALLOWANCES, Allowance, PhaseNumber, RoundOutcomes, middle};
use ankerdb_engine::{Configuration, SnapshotDecisions};
use std::fmt::Write;

/// Two lines for each allowance but the first, with which the others are compared: decisions of all rounds, and savings.
pub(super) fn notes(engine: Configuration, outcomes: &[RoundOutcomes]) -> Vec<String> {
    let mut lines = Vec::new();
    let Some((fresh, others)) = outcomes.split_first() else { return lines };
    for (allowance, rounds) in ALLOWANCES[1..].iter().zip(others).filter(|(_, rounds)| !rounds.is_empty()) {
        let name = format!("{}, {}", engine.name(), allowance.name);
        lines.push(format!("{name}: {}", decided(allowance, rounds)));
        if let Some(saved) = saved(fresh, rounds) {
            lines.push(format!("{name}, against a snapshot for each query: {saved}"));
        }
    }
    lines
}

/// The decisions of all rounds together.
fn decided(allowance: &Allowance, rounds: &[StalenessOutcome]) -> String {
    let sum = |count: fn(&SnapshotDecisions) -> u64| -> u64 {
        rounds.iter().map(|outcome| count(&outcome.decisions)).sum()
    };
    let queries: u64 = rounds.iter().map(|outcome| outcome.queries).sum();
    let mut text = format!(
        "of {queries} queries {} shared a snapshot that was there and {} took one to share; {} had one of their own to \
         compare, {} because sharing had been found not to pay; for {} snapshots columns were made ready, which was given up \
         for a while {} times",
        sum(|decisions| decisions.shared),
        sum(|decisions| decisions.taken),
        sum(|decisions| decisions.probes),
        sum(|decisions| decisions.unshared),
        sum(|decisions| decisions.made_ahead),
        sum(|decisions| decisions.ahead_paused),
    );
    let full = sum(|decisions| decisions.history_full);
    let bound = match allowance.history_limit {
        Some(limit) => format!("the bound of {} MiB", limit >> 20),
        None => "the engine's default bound".to_owned(),
    };
    let _ = write!(text, "; {full} snapshots were let go of for their history, at {bound}");
    let compared = [0, 1].map(|which| {
        let number: PhaseNumber = match which {
            0 => |outcome| outcome.copying_compared_ms[0],
            _ => |outcome| outcome.copying_compared_ms[1],
        };
        middle(rounds, number)
    });
    if let [Some(alone), Some(shared)] = compared {
        let _ = write!(
            text,
            "; by the manager's averages a query copies {alone:.3} ms alone and {shared:.3} ms sharing"
        );
    }
    text
}

/// What sharing saved: medians over the rounds, in relation to those of fresh snapshots.
fn saved(fresh: &[StalenessOutcome], rounds: &[StalenessOutcome]) -> Option<String> {
    let both = |number: PhaseNumber| Some((middle(fresh, number)?, middle(rounds, number)?));
    let ratio = |number: PhaseNumber| both(number).map(|(fresh, late)| late / fresh.max(1e-9));
    let queries = ratio(|outcome| Some(outcome.queries_per_second))?;
    let transactions = ratio(|outcome| Some(outcome.transactions_per_second))?;
    let (fresh_columns, columns) = both(|outcome| Some(outcome.copied_columns))?;
    let (fresh_ms, ms) = both(|outcome| Some(outcome.copying_ms + outcome.ahead_ms))?;
    Some(format!(
        "{queries:.2}x the queries, {transactions:.2}x the transactions; {columns:.2} instead of {fresh_columns:.2} columns \
         copied for a query, in {ms:.3} instead of {fresh_ms:.3} ms"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(rate: f64, shared: u64) -> StalenessOutcome {
        StalenessOutcome {
            queries: 10,
            queries_per_second: rate,
            transactions_per_second: 1000.0,
            copied_columns: 100.0 / rate,
            decisions: SnapshotDecisions { shared, taken: 10 - shared, ..SnapshotDecisions::default() },
            ..StalenessOutcome::default()
        }
    }

    #[test]
    fn decisions_are_summed_up_over_rounds_and_savings_are_medians() {
        let mut outcomes = vec![RoundOutcomes::new(); ALLOWANCES.len()];
        outcomes[0] = vec![outcome(10.0, 0), outcome(20.0, 0), outcome(1000.0, 0)];
        outcomes[5] = vec![outcome(40.0, 8), outcome(30.0, 7), outcome(50.0, 9)];
        let lines = notes(Configuration::AnkerDb, &outcomes);
        assert_eq!(lines.len(), 2, "{lines:?}");
        let begin = "ankerdb, 1 s, 1 MiB: of 30 queries 24 shared a snapshot that was there and 6 took one to share; ";
        assert!(lines[0].starts_with(begin) && lines[0].ends_with("at the bound of 1 MiB"), "{}", lines[0]);
        let end = "2.00x the queries, 1.00x the transactions; 2.50 instead of 5.00 columns copied for a query, in 0.000 \
                   instead of 0.000 ms";
        assert!(lines[1].ends_with(end), "{}", lines[1]);
    }

    #[test]
    fn nothing_is_compared_with_a_phase_that_did_not_run() {
        let mut outcomes = vec![RoundOutcomes::new(); ALLOWANCES.len()];
        outcomes[1] = vec![outcome(40.0, 8)];
        let lines = notes(Configuration::AnkerDb, &outcomes);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].ends_with("at the engine's default bound"), "{}", lines[0]);
    }
}
