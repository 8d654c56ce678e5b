//! The options of `bench ch`, which are refused before anything is loaded if they cannot work.

use super::queries::CH_QUERIES;
use crate::bench::config::{MemoryNeed, SECONDS_MAX, at_least_one, at_most, invalid};
use crate::htap::config::{
    BYTES_PER_WAREHOUSE, check_writable, isolation_name, warnings_of_any, warnings_of_phases,
};
use crate::tpcc::input::Access;
use ankerdb_engine::{Isolation, Result};
use ankerdb_measure::machine::{Machine, available_memory_bytes};
use serde::Serialize;
use std::path::PathBuf;

/// Memory that the program takes besides the data, queries included.
const BASE_BYTES: u64 = 768 << 20;
/// The memory that one OLTP thread adds in a second: new orders with their lines and index entries.
const GROWTH_BYTES_PER_THREAD_SECOND: u64 = 32 << 20;
/// More warehouses would have supplier numbers whose products do not fit an integer.
const WAREHOUSES_MAX: u64 = 20_000;

/// Queries whose answers are evaluated a second time if not all are.
pub(super) const SAMPLE: usize = 6;

/// One run of `bench ch`.
#[derive(Clone, Debug)]
pub struct ChConfig {
    /// TPC-C warehouses.
    pub warehouses: u32,
    /// Threads that run transactions.
    pub oltp_threads: usize,
    /// Threads that run queries: together on one query after the other, or on one each where a snapshot is kept.
    pub olap_threads: usize,
    /// Queries share a snapshot that is refreshed after so many transactions; each has its own if `None`.
    pub refresh_every: Option<u64>,
    /// Whether all queries are compared with their independent evaluation; else some of them are.
    pub check_all: bool,
    /// Seconds of measuring, all phases of all rounds together; loading and the comparison not included.
    pub seconds: u64,
    /// Rounds; more than two, so that a median means something.
    pub rounds: u32,
    /// Isolation level of the transactions: SERIALIZABLE or REPEATABLE READ.
    pub isolation: Isolation,
    /// The access pattern of transactions.
    pub access: Access,
    /// Same seed, same data and inputs.
    pub seed: u64,
    /// The file for the result.
    pub json: Option<PathBuf>,
}

/// The options as results show them.
#[derive(Clone, Debug, Serialize)]
pub struct ChOptions {
    warehouses: u32,
    oltp_threads: usize,
    olap_threads: usize,
    refresh_every: Option<u64>,
    check_all: bool,
    seconds: u64,
    rounds: u32,
    isolation: &'static str,
    access: &'static str,
    seed: u64,
}

impl ChConfig {
    /// Refuses options that cannot work; returns warnings about those that work badly.
    ///
    /// # Errors
    /// 22023, saying what would be accepted.
    pub fn check(&self, machine: &Machine) -> Result<Vec<String>> {
        at_least_one("--warehouses", u64::from(self.warehouses))?;
        at_most("--warehouses", u64::from(self.warehouses), WAREHOUSES_MAX)?;
        for (option, threads) in
            [("--oltp-threads", self.oltp_threads), ("--olap-threads", self.olap_threads)]
        {
            at_least_one(option, threads as u64)?;
            at_most(option, threads as u64, 512)?;
        }
        at_least_one("--seconds", self.seconds)?;
        at_most("--seconds", self.seconds, SECONDS_MAX)?;
        at_least_one("--rounds", u64::from(self.rounds))?;
        at_most("--rounds", u64::from(self.rounds), 1000)?;
        at_least_one("--refresh-every", self.refresh_every.unwrap_or(1))?;
        if !matches!(self.isolation, Isolation::RepeatableRead | Isolation::Serializable) {
            let message =
                "--isolation must be serializable or repeatable-read: others do not keep what is checked";
            return Err(invalid(message.to_owned()));
        }
        // Transactions go on beside the comparison, for a second and a quarter of one for each query and warehouse, at most and roughly.
        let queries = if self.check_all { CH_QUERIES.len() } else { SAMPLE } as u64;
        let growth_each_second = self.oltp_threads.min(machine.cores) as u64 * GROWTH_BYTES_PER_THREAD_SECOND;
        let growth = (self.seconds + queries).saturating_mul(growth_each_second);
        let need = MemoryNeed {
            option: "--warehouses",
            count: u64::from(self.warehouses),
            bytes_each: BYTES_PER_WAREHOUSE + queries * growth_each_second / 4,
            bytes_besides: BASE_BYTES.saturating_add(growth),
        };
        available_memory_bytes().map_or(Ok(()), |available| need.check(available))?;
        self.json.as_deref().map_or(Ok(()), check_writable)?;
        Ok(self.warnings(machine))
    }

    fn warnings(&self, machine: &Machine) -> Vec<String> {
        let mut warnings =
            warnings_of_phases(self.oltp_threads + self.olap_threads, machine.cores, self.seconds);
        if self.access == Access::Home && self.oltp_threads > self.warehouses as usize {
            let (threads, warehouses) = (self.oltp_threads, self.warehouses);
            warnings.push(format!("{threads} threads share {warehouses} home warehouses: they contend"));
        }
        warnings.extend(warnings_of_any(self.rounds));
        warnings
    }

    /// The part that goes into the result.
    pub fn report(&self) -> ChOptions {
        ChOptions {
            warehouses: self.warehouses,
            oltp_threads: self.oltp_threads,
            olap_threads: self.olap_threads,
            refresh_every: self.refresh_every,
            check_all: self.check_all,
            seconds: self.seconds,
            rounds: self.rounds,
            isolation: isolation_name(self.isolation),
            access: self.access.name(),
            seed: self.seed,
        }
    }

    /// One line about the run.
    pub fn title(&self) -> String {
        let snapshots = match self.refresh_every {
            None => "a snapshot for each query".to_owned(),
            Some(transactions) => format!("a snapshot for all, refreshed every {transactions} transactions"),
        };
        format!(
            "{} warehouses, {} OLTP + {} OLAP threads, {snapshots}, {} s, {}, {} access",
            self.warehouses,
            self.oltp_threads,
            self.olap_threads,
            self.seconds,
            isolation_name(self.isolation),
            self.access.name()
        )
    }
}
