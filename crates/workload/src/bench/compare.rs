//! The comparisons that a run can make, side by side: its variants and ratios.

use super::client::Workload;
use super::config::{BenchConfig, parse_name};
use super::rounds::{Ratio, Variant};
use crate::htap::config::isolation_name;
use ankerdb_engine::{Isolation, Result};

/// Throughput with all threads should be at least this share of that many times one thread's.
const SCALING: f64 = 0.8;
/// What serializability may cost against snapshot isolation.
const SERIALIZABLE_KEPT: f64 = 0.95;

/// A comparison within one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// All threads with one thread.
    Threads,
    /// Serializable with repeatable read, which is snapshot isolation.
    Isolation,
    /// All threads with one thread, both in one warehouse.
    Contention,
}

impl Compare {
    /// All.
    pub const ALL: [Compare; 3] = [Compare::Threads, Compare::Isolation, Compare::Contention];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Compare::Threads => "threads",
            Compare::Isolation => "isolation",
            Compare::Contention => "contention",
        }
    }

    /// Reads a name.
    ///
    /// # Errors
    /// 22023 with the names there are.
    pub fn parse(name: &str) -> Result<Compare> {
        parse_name("comparison", &Compare::ALL, Compare::name, name)
    }
}

fn threads_name(threads: usize) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

/// The variants that the comparisons need, beginning with the configuration's own, and the ratios between them.
/// `narrow` is the workload where all threads meet in one place.
pub fn variants<'a>(
    config: &BenchConfig,
    workload: &'a dyn Workload,
    narrow: Option<&'a dyn Workload>,
) -> (Vec<Variant<'a>>, Vec<Ratio>) {
    let (threads, isolation) = (config.threads, config.isolation);
    let level = isolation_name;
    let name = format!("{}, {}", threads_name(threads), level(isolation));
    let mut variants = vec![Variant { name, threads, isolation, workload }];
    let mut ratios = Vec::new();
    let mut add = |variant: Variant<'a>| {
        variants.push(variant);
        variants.len() - 1
    };
    for compare in Compare::ALL.into_iter().filter(|compare| config.compare.contains(compare)) {
        let (name, over, under, target) = match compare {
            Compare::Threads => {
                let name = format!("1 thread, {}", level(isolation));
                let one = add(Variant { name, threads: 1, isolation, workload });
                ("all threads to one thread", 0, one, SCALING * threads as f64)
            }
            Compare::Isolation => {
                let isolation = Isolation::RepeatableRead;
                let name = format!("{}, {}", threads_name(threads), level(isolation));
                let weaker = add(Variant { name, threads, isolation, workload });
                ("serializable to snapshot isolation", 0, weaker, SERIALIZABLE_KEPT)
            }
            Compare::Contention => {
                let Some(workload) = narrow else { continue };
                let name = |threads| format!("1 warehouse, {}", threads_name(threads));
                let all = add(Variant { name: name(threads), threads, isolation, workload });
                let one = add(Variant { name: name(1), threads: 1, isolation, workload });
                ("all threads to one thread in one warehouse", all, one, 1.0)
            }
        };
        ratios.push(Ratio { name, over, under, target });
    }
    (variants, ratios)
}
