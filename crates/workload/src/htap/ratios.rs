//! From phases to ratios.
//!
//! A sample is void if one of the phases it compares is. The median is taken over the others, or over all if there
//! are no others.

use super::bench::{Measurements, Round};
use super::latency::median;
use super::olap::OlapResult;
use super::oltp::OltpResult;
use super::phases::{Hybrid, Measured};
use super::queries::QUERIES;
use crate::tpcc::input::Kind;
use serde::Serialize;
use std::collections::BTreeMap;

/// The ratios that the benchmark is about; `None` where a run was stopped before.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ratios {
    /// With one snapshot for each query.
    #[serde(flatten)]
    pub beside: Beside,
    /// With 1,000 snapshots per second besides.
    pub at_1000_snapshots_per_second: Beside,
    /// Throughput at SERIALIZABLE, relative to READ UNCOMMITTED, both alone.
    pub serializable_to_read_uncommitted: Option<f64>,
    /// Latency on the idle database, relative to DataFusion's own in-memory tables, by query.
    pub olap_to_memory_tables: BTreeMap<&'static str, Option<f64>>,
}

/// What the two streams cost each other.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Beside {
    /// Throughput beside analytics, relative to throughput beside threads that burn CPU.
    pub oltp_kept: Option<f64>,
    /// 99th percentile of New-Order's latency, relative to the same.
    pub new_order_p99: Option<f64>,
    /// Latency beside transactions, relative to the idle database, by query.
    pub olap_slowdown: BTreeMap<&'static str, Option<f64>>,
    /// Its geometric mean over the queries.
    pub olap_slowdown_mean: Option<f64>,
}

impl Beside {
    fn of(rounds: &[Round], hybrid: fn(&Round) -> &Measured<Hybrid>) -> Beside {
        let to_control = |ratio: fn(&OltpResult, &OltpResult) -> f64| {
            settle(rounds.iter().map(|round| Sample {
                value: ratio(&hybrid(round).value.oltp, &round.control.value),
                void: hybrid(round).void || round.control.void,
            }))
        };
        let slowdowns =
            |query| settle(rounds.iter().filter_map(|round| slowdown(round, hybrid(round), query)));
        let slowdowns: Vec<Option<f64>> = (0..QUERIES.len()).map(slowdowns).collect();
        Beside {
            oltp_kept: to_control(|beside, control| beside.per_second() / control.per_second()),
            new_order_p99: to_control(|beside, control| new_order_p99(beside) / new_order_p99(control)),
            olap_slowdown_mean: geometric_mean(&slowdowns),
            olap_slowdown: QUERIES.iter().map(|query| query.name).zip(slowdowns).collect(),
        }
    }
}

fn new_order_p99(result: &OltpResult) -> f64 {
    result.kinds[Kind::NewOrder as usize].latency.quantile_ns(0.99) as f64
}

fn geometric_mean(values: &[Option<f64>]) -> Option<f64> {
    let logarithms: Option<f64> = values.iter().map(|value| value.map(f64::ln)).sum();
    logarithms.map(|sum| (sum / values.len() as f64).exp())
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    value: f64,
    void: bool,
}

fn settle(samples: impl Iterator<Item = Sample>) -> Option<f64> {
    let samples: Vec<Sample> = samples.filter(|sample| sample.value.is_finite()).collect();
    let mut calm: Vec<f64> =
        samples.iter().filter(|sample| !sample.void).map(|sample| sample.value).collect();
    if calm.is_empty() {
        calm = samples.iter().map(|sample| sample.value).collect();
    }
    median(&mut calm)
}

impl Ratios {
    pub(super) fn of(measurements: &Measurements) -> Ratios {
        let rounds = &measurements.rounds;
        let by_query = |ratio: &dyn Fn(&Round, usize) -> Option<Sample>| {
            let settled = |query| settle(rounds.iter().filter_map(|round| ratio(round, query)));
            QUERIES.iter().enumerate().map(|(number, query)| (query.name, settled(number))).collect()
        };
        Ratios {
            beside: Beside::of(rounds, |round| &round.hybrid),
            at_1000_snapshots_per_second: Beside::of(rounds, |round| &round.frequent),
            serializable_to_read_uncommitted: settle(measurements.pairs.iter().map(|pair| Sample {
                value: pair.serializable.value.per_second() / pair.read_uncommitted.value.per_second(),
                void: pair.serializable.void || pair.read_uncommitted.void,
            })),
            olap_to_memory_tables: by_query(&to_memory_tables),
        }
    }
}

fn to_memory_tables(round: &Round, query: usize) -> Option<Sample> {
    let pair = &round.memory_tables.value[query];
    let value = median(&mut pair.own.clone())? / median(&mut pair.memory.clone())?;
    Some(Sample { value, void: round.memory_tables.void })
}

fn slowdown(round: &Round, hybrid: &Measured<Hybrid>, query: usize) -> Option<Sample> {
    let before = IdlePoint::of(&round.idle_before.value, query)?;
    let after = IdlePoint::of(&round.idle_after.value, query)?;
    let runs = hybrid.value.olap.runs.iter().filter(|run| run.query == query);
    let mut ratios: Vec<f64> = runs
        .map(|run| run.latency.as_secs_f64() * 1e3 / expected_ms(before, after, run.table_rows))
        .collect();
    let void = hybrid.void || round.idle_before.void || round.idle_after.void;
    Some(Sample { value: median(&mut ratios)?, void })
}

/// The median latency of a query on the idle database, and the rows of its table then.
#[derive(Clone, Copy, Debug)]
struct IdlePoint {
    rows: f64,
    latency_ms: f64,
}

impl IdlePoint {
    fn of(result: &OlapResult, query: usize) -> Option<IdlePoint> {
        let rows = result.runs.iter().find(|run| run.query == query)?.table_rows as f64;
        Some(IdlePoint { rows, latency_ms: median(&mut result.latencies_ms(query))? })
    }
}

/// The latency to expect on the idle database at this many rows; the mean of both points if the table did not grow.
fn expected_ms(before: IdlePoint, after: IdlePoint, rows: usize) -> f64 {
    let growth = after.rows - before.rows;
    let position = if growth > 0.0 { ((rows as f64 - before.rows) / growth).clamp(0.0, 1.0) } else { 0.5 };
    before.latency_ms + (after.latency_ms - before.latency_ms) * position
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_disturbed_phases_count_only_without_others() {
        let sample = |value, void| Sample { value, void };
        let samples = [sample(0.9, false), sample(0.2, true), sample(0.8, false)];
        assert!((settle(samples.into_iter()).expect("there are samples") - 0.85).abs() < 1e-9);
        assert_eq!(settle([sample(0.2, true)].into_iter()), Some(0.2));
        assert_eq!(settle([sample(f64::NAN, false)].into_iter()), None);
    }

    #[test]
    fn idle_latency_is_interpolated_by_rows() {
        let point = |rows, latency_ms| IdlePoint { rows, latency_ms };
        let (before, after) = (point(1000.0, 10.0), point(3000.0, 20.0));
        assert_eq!(expected_ms(before, after, 1000), 10.0);
        assert_eq!(expected_ms(before, after, 2000), 15.0);
        assert_eq!(expected_ms(before, after, 9000), 20.0);
        assert_eq!(expected_ms(point(5.0, 10.0), point(5.0, 20.0), 5), 15.0);
    }
}
