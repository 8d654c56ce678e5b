//! `snapshot-manager`: what queries save that may show data of a while ago, and so read snapshots together (Sharma,
//! dissertation 2020, §5.1; docs/design/snapshot-manager.md).
//!
//! Dashboards ask AnKer's eight queries without a pause while transactions change TPC-C's tables. In each phase all
//! dashboards allow the same staleness: none, where every query takes a snapshot; or some, where the engine's snapshot
//! manager decides which queries share one.
//!
//! ```text
//! round 1    none   10 ms   100 ms   1 s   10 s   1 s with a bound     each on freshly loaded tables
//! round 2    the other way round                                       what is shown are medians over the rounds
//! ```
//!
//! The last allowance has a bound on the history that a shared snapshot may keep, so low that it is reached again and again.
//!
//! Configurations whose queries share nothing when they share a snapshot are left out: single engines read versions, and
//! `hee-fork` copies the process for every query.

mod dashboard;
mod decisions;
mod phase;

use crate::anker::WAREHOUSES;
use crate::finding::{Findings, Panel};
use crate::harness::{Harness, unless_stopped};
use crate::setup::{Data, PaperSetup, invalid};
use ankerdb_engine::{Configuration, Result};
use ankerdb_measure::latency::median;
use ankerdb_measure::rounds::variant_of;
use phase::StalenessOutcome;
use std::time::Duration;

/// As many dashboards as writers.
pub const SETUP: PaperSetup = PaperSetup {
    oltp: 4,
    olap: 4,
    seconds: 60,
    quick_seconds: 6,
    lead: Duration::ZERO,
    interval: Duration::ZERO,
    threads_vary: false,
};
/// AnKer's data.
pub const DATA: Data = Data::TpcC { paper: WAREHOUSES, quick: &[2] };

/// How it differs from what the dissertation has in mind, and what its numbers mean.
pub const DEVIATIONS: &[&str] = &[
    "nothing is learned by a model: the manager decides from the time that queries copy with and without sharing, from \
     what the queries of the last two snapshots copied, and from the history that is kept",
    "queries that allow no staleness have their copies counted and timed as those that share do",
    "there are as many dashboards as OLAP threads, and a query of any of them is executed by all these threads together",
    "every phase begins with freshly loaded tables, which grow with the orders that are entered: more transactions leave \
     more to scan",
    "columns are parts of blocks in ankerdb, and whole columns in hee-*, which takes one again only if a commit has \
     changed it; history of hee-* is versions only, since snapshots of a technique may share pages",
    "the age of what a query shows is the time from the request that took its snapshot to its own",
];

/// The staleness that queries are allowed in a phase.
struct Allowance {
    name: &'static str,
    staleness: Duration,
    /// Bytes of history that a shared snapshot may keep, if not the engine's default.
    history_limit: Option<usize>,
}

impl Allowance {
    const fn of(name: &'static str, millis: u64) -> Allowance {
        Allowance { name, staleness: Duration::from_millis(millis), history_limit: None }
    }
}

static ALLOWANCES: [Allowance; 6] = [
    Allowance::of("none", 0),
    Allowance::of("10 ms", 10),
    Allowance::of("100 ms", 100),
    Allowance::of("1 s", 1_000),
    Allowance::of("10 s", 10_000),
    Allowance { history_limit: Some(1 << 20), ..Allowance::of("1 s, 1 MiB", 1_000) },
];
/// Rounds over all of them, at most.
const ROUNDS_MAX: u64 = 3;

/// The outcomes of an allowance, one for each round.
type RoundOutcomes = Vec<StalenessOutcome>;

/// A number of a phase, if it has it.
type PhaseNumber = fn(&StalenessOutcome) -> Option<f64>;

/// A panel, with a series for each of its numbers and each configuration.
struct PanelPlan {
    title: &'static str,
    unit: &'static str,
    /// The end of the series' name, and its number.
    numbers: &'static [(&'static str, PhaseNumber)],
}

static PANELS: [PanelPlan; 9] = [
    PanelPlan {
        title: "Queries answered",
        unit: "queries/s",
        numbers: &[("", |outcome| Some(outcome.queries_per_second))],
    },
    PanelPlan {
        title: "Transactions beside them",
        unit: "transactions/s",
        numbers: &[("", |outcome| Some(outcome.transactions_per_second))],
    },
    PanelPlan {
        title: "Latency of queries",
        unit: "ms",
        numbers: &[(", median", |outcome| outcome.latency_ms[0]), (", 99%", |outcome| outcome.latency_ms[1])],
    },
    PanelPlan {
        title: "Columns copied for a query",
        unit: "columns",
        numbers: &[("", |outcome| Some(outcome.copied_columns))],
    },
    PanelPlan {
        title: "Columns lent for a query",
        unit: "columns",
        numbers: &[("", |outcome| outcome.lent_columns)],
    },
    PanelPlan {
        title: "Copying for a query",
        unit: "ms",
        numbers: &[
            (", by queries", |outcome| Some(outcome.copying_ms)),
            (", made ready", |outcome| Some(outcome.ahead_ms)),
        ],
    },
    PanelPlan {
        title: "Queries that shared a snapshot which was there",
        unit: "%",
        numbers: &[("", |outcome| Some(outcome.shared_percent))],
    },
    PanelPlan {
        title: "Age of what a query shows",
        unit: "ms",
        numbers: &[
            (", mean", |outcome| Some(outcome.mean_age_ms)),
            (", largest", |outcome| Some(outcome.largest_age_ms)),
        ],
    },
    PanelPlan {
        title: "History kept, at most",
        unit: "MiB",
        numbers: &[
            (", for a shared snapshot", |outcome| outcome.shared_history_mib),
            (", row versions of all tables", |outcome| Some(outcome.versions_mib)),
        ],
    },
];

/// Runs it.
///
/// # Errors
/// 22023 if no configuration is asked for in which queries share anything; the database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let setup = &harness.setup;
    let (engines, others): (Vec<_>, Vec<_>) =
        setup.engines.iter().copied().partition(|engine| has_shared_copies(*engine));
    if engines.is_empty() {
        let message =
            "no engine is left to measure: queries share copies in ankerdb and in hee-*, but for hee-fork";
        return Err(invalid(message.into()));
    }
    let rounds = setup.time.as_secs().clamp(1, ROUNDS_MAX) as usize;
    harness.expect(engines.len() * ALLOWANCES.len() * rounds);
    let names = ALLOWANCES.each_ref().map(|allowance| allowance.name);
    let panel = |plan: &PanelPlan| Panel::bars(plan.title, "allowed staleness", plan.unit, &names);
    let mut findings = Findings { panels: PANELS.iter().map(panel).collect(), notes: Vec::new() };
    for engine in engines {
        if harness.is_stopped() {
            break;
        }
        let outcomes = contest(harness, engine, rounds)?;
        for (panel, plan) in findings.panels.iter_mut().zip(&PANELS) {
            add(panel, plan, engine, &outcomes);
        }
        findings.notes.extend(decisions::notes(engine, &outcomes));
    }
    findings.notes.extend(others.iter().map(|engine| left_out(*engine)));
    let length = setup.time / rounds as u32;
    if let Some(longer) = ALLOWANCES.iter().find(|allowance| allowance.staleness >= length) {
        findings.notes.push(format!(
            "a phase takes {:.1} s: from a staleness of {} on, one snapshot may serve all of it",
            length.as_secs_f64(),
            longer.name
        ));
    }
    Ok(findings)
}

/// Whether a query that shares a snapshot shares what was copied for another one.
fn has_shared_copies(engine: Configuration) -> bool {
    engine != Configuration::HeeFork && (engine == Configuration::AnkerDb || engine.technique().is_some())
}

fn left_out(engine: Configuration) -> String {
    let reason = match engine {
        Configuration::HeeFork => "every query runs in a copy of the process that is made for it",
        _ => "its queries read versions or the newest values, and copy nothing that they could share",
    };
    format!("left out: {}: {reason}", engine.name())
}

/// All rounds of a configuration: the outcomes by allowance. Stopped by the user, those until then.
fn contest(
    harness: &Harness<'_>,
    engine: Configuration,
    rounds: usize,
) -> Result<[RoundOutcomes; ALLOWANCES.len()]> {
    let mut outcomes = ALLOWANCES.each_ref().map(|_| RoundOutcomes::new());
    let time = harness.setup.time / rounds as u32;
    for turn in 0..rounds * ALLOWANCES.len() {
        let at = variant_of(turn, ALLOWANCES.len());
        let label =
            format!("{}, {}, round {}", engine.name(), ALLOWANCES[at].name, turn / ALLOWANCES.len() + 1);
        match unless_stopped(phase::run(harness, engine, &ALLOWANCES[at], (time, &label)))? {
            Some(outcome) if outcome.queries > 0 => outcomes[at].push(outcome),
            _ => {}
        }
        if harness.is_stopped() {
            break;
        }
    }
    Ok(outcomes)
}

/// Adds the medians over the rounds, unless the configuration has none of these numbers.
fn add(panel: &mut Panel, plan: &PanelPlan, engine: Configuration, outcomes: &[RoundOutcomes]) {
    for (ending, number) in plan.numbers {
        let values: Vec<Option<f64>> = outcomes.iter().map(|rounds| middle(rounds, *number)).collect();
        if values.iter().any(Option::is_some) {
            panel.add(&format!("{}{ending}", engine.name()), &values);
        }
    }
}

/// The median over rounds, of those that have the number.
fn middle(rounds: &[StalenessOutcome], number: PhaseNumber) -> Option<f64> {
    median(&mut rounds.iter().filter_map(number).collect::<Vec<_>>())
}
