//! From phases to ratios.
//!
//! A sample is noisy if one of the phases that it compares is, or if they are not comparable: a control in which the CPU
//! that stands in for queries got more or less than the queries did. The median is taken over the others, if they are
//! enough ([`figure`](super::figure)).

use super::bench::{Measurements, Round};
use super::figure::{Figure, Sample};
use super::olap::OlapResult;
use super::oltp::OltpResult;
use super::phase::Measured;
use super::phases::{Control, Hybrid};
use super::queries::QUERIES;
use crate::tpcc::input::TpccTransaction;
use ankerdb_measure::latency::median;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// By how much the CPU share beside the control's transactions may differ from that beside the hybrid phase's, in relation.
const CPU_DIFFERENCE_MAX: f64 = 0.2;

/// The benchmark's main ratios, each with the rounds that it is of.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Ratios {
    /// With one snapshot for each query.
    #[serde(flatten)]
    pub beside: Beside,
    /// With 1,000 snapshots per second besides.
    pub at_1000_snapshots_per_second: Beside,
    /// Throughput at SERIALIZABLE, relative to READ UNCOMMITTED, both alone.
    pub serializable_to_read_uncommitted: Figure,
    /// Latency on the idle database, relative to DataFusion's own in-memory tables, by query.
    pub olap_to_memory_tables: BTreeMap<&'static str, Figure>,
}

/// The costs of the two streams for each other.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Beside {
    /// Throughput beside analytics, relative to throughput beside threads that burn as much CPU.
    pub oltp_kept: Figure,
    /// 99th percentile of New-Order's latency, relative to that beside such threads.
    pub new_order_p99: Figure,
    /// Latency beside transactions, relative to the idle database, by query.
    pub olap_slowdown: BTreeMap<&'static str, Figure>,
    /// Its geometric mean over the queries.
    pub olap_slowdown_mean: Figure,
    /// Cores that computed beside the transactions, and in their place in the control.
    pub beside_cores: CoresBeside,
}

/// Cores in use beside the OLTP threads: medians over the rounds that `oltp_kept` is of.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct CoresBeside {
    /// For queries.
    pub queries: Figure,
    /// For the load that stands in for them.
    pub control: Figure,
}

impl Beside {
    fn of(rounds: &[Round], hybrid: fn(&Round) -> &Measured<Hybrid>) -> Beside {
        let to_control = |ratio: fn(&OltpResult, &OltpResult) -> f64| {
            Figure::of(rounds.iter().map(|round| Sample {
                value: ratio(&hybrid(round).value.oltp, &round.control.value.oltp),
                noisy: !are_comparable(hybrid(round), &round.control),
            }))
        };
        let cores = |cores: &dyn Fn(&Round) -> f64| {
            Figure::of(rounds.iter().map(|round| Sample {
                value: cores(round),
                noisy: !are_comparable(hybrid(round), &round.control),
            }))
        };
        let slowdowns =
            |query| Figure::of(rounds.iter().filter_map(|round| slowdown(round, hybrid(round), query)));
        let slowdowns: Vec<Figure> = (0..QUERIES.len()).map(slowdowns).collect();
        Beside {
            oltp_kept: to_control(|beside, control| beside.per_second() / control.per_second()),
            new_order_p99: to_control(|beside, control| new_order_p99(beside) / new_order_p99(control)),
            olap_slowdown_mean: geometric_mean(&slowdowns),
            olap_slowdown: QUERIES.iter().map(|query| query.name).zip(slowdowns).collect(),
            beside_cores: CoresBeside {
                queries: cores(&|round| cores_of(hybrid(round).value.beside, &hybrid(round).value.oltp)),
                control: cores(&|round| cores_of(round.control.value.beside, &round.control.value.oltp)),
            },
        }
    }
}

fn new_order_p99(result: &OltpResult) -> f64 {
    result.kinds[TpccTransaction::NewOrder as usize].latency.quantile_ns(0.99) as f64
}

/// Cores in use for this CPU time beside a stream.
pub(super) fn cores_of(cpu: Duration, oltp: &OltpResult) -> f64 {
    cpu.as_secs_f64() / oltp.elapsed.as_secs_f64()
}

/// Whether neither phase is noisy, and about as much was computed beside the transactions of both.
fn are_comparable(hybrid: &Measured<Hybrid>, control: &Measured<Control>) -> bool {
    let queries = cores_of(hybrid.value.beside, &hybrid.value.oltp);
    let instead = cores_of(control.value.beside, &control.value.oltp);
    !hybrid.noisy && !control.noisy && are_alike(queries, instead)
}

fn are_alike(queries: f64, instead: f64) -> bool {
    (queries - instead).abs() <= CPU_DIFFERENCE_MAX * queries.max(instead)
}

/// Of all queries, with the fewest rounds that any of them has; none if one of them has no figure.
fn geometric_mean(figures: &[Figure]) -> Figure {
    let logarithms: Option<f64> = figures.iter().map(|figure| figure.value.map(f64::ln)).sum();
    let count = figures.iter().map(|figure| figure.count).min_by_key(|count| count.clean);
    Figure {
        value: logarithms.map(|sum| (sum / figures.len() as f64).exp()),
        count: count.unwrap_or_default(),
    }
}

impl Ratios {
    pub(super) fn of(measurements: &Measurements) -> Ratios {
        let rounds = &measurements.rounds;
        let by_query = |ratio: &dyn Fn(&Round, usize) -> Option<Sample>| {
            let settled = |query| Figure::of(rounds.iter().filter_map(|round| ratio(round, query)));
            QUERIES.iter().enumerate().map(|(number, query)| (query.name, settled(number))).collect()
        };
        Ratios {
            beside: Beside::of(rounds, |round| &round.hybrid),
            at_1000_snapshots_per_second: Beside::of(rounds, |round| &round.frequent),
            serializable_to_read_uncommitted: Figure::of(measurements.pairs.iter().map(|pair| Sample {
                value: pair.serializable.value.per_second() / pair.read_uncommitted.value.per_second(),
                noisy: pair.serializable.noisy || pair.read_uncommitted.noisy,
            })),
            olap_to_memory_tables: by_query(&to_memory_tables),
        }
    }
}

fn to_memory_tables(round: &Round, query: usize) -> Option<Sample> {
    let pair = &round.memory_tables.value[query];
    let value = median(&mut pair.own.clone())? / median(&mut pair.memory.clone())?;
    Some(Sample { value, noisy: round.memory_tables.noisy })
}

fn slowdown(round: &Round, hybrid: &Measured<Hybrid>, query: usize) -> Option<Sample> {
    let before = IdlePoint::of(&round.idle_before.value, query)?;
    let after = IdlePoint::of(&round.idle_after.value, query)?;
    let runs = hybrid.value.olap.runs.iter().filter(|run| run.query == query);
    let mut ratios: Vec<f64> = runs
        .map(|run| run.latency.as_secs_f64() * 1e3 / expected_ms(before, after, run.table_rows))
        .collect();
    let noisy = hybrid.noisy || round.idle_before.noisy || round.idle_after.noisy;
    Some(Sample { value: median(&mut ratios)?, noisy })
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
    use crate::htap::figure::Count;

    #[test]
    fn a_control_that_computed_more_or_less_than_the_queries_is_not_comparable() {
        let phase = |beside_ms, noisy| {
            let oltp = OltpResult { elapsed: Duration::from_secs(1), ..OltpResult::default() };
            (oltp, Duration::from_millis(beside_ms), noisy)
        };
        let comparable = |queries, control| {
            let (oltp, beside, noisy) = phase(queries, false);
            let hybrid = Measured { value: Hybrid { oltp, beside, ..Hybrid::default() }, noisy };
            let (oltp, beside, noisy) = control;
            are_comparable(&hybrid, &Measured { value: Control { oltp, beside }, noisy })
        };
        assert!(comparable(900, phase(850, false)) && comparable(850, phase(900, false)));
        // Threads without rests take a core each, whatever the queries take.
        assert!(!comparable(600, phase(1000, false)) && !comparable(1000, phase(600, false)));
        assert!(!comparable(900, phase(900, true)), "a noisy phase");
    }

    #[test]
    fn a_mean_has_the_rounds_of_its_weakest_query() {
        let figure = |value, clean| Figure { value, count: Count { clean, of: 3 } };
        let mean = geometric_mean(&[figure(Some(2.0), 3), figure(Some(8.0), 2)]);
        assert!((mean.value.expect("all have one") - 4.0).abs() < 1e-9);
        assert_eq!(mean.count.clean, 2);
        assert_eq!(geometric_mean(&[figure(Some(2.0), 3), figure(None, 1)]), figure(None, 1));
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
