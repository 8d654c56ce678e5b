//! Figure 4.14: throughput of a ledger over the number of transactions in a block, under both policies.
//!
//! One network serves all sizes: only the ordering server is started again with another one.

use crate::finding::{Findings, Panel};
use crate::harness::Harness;
use crate::ledger::load::{LoadFigures, fire_all};
use crate::ledger::processes::{LedgerProcesses, NetworkPlan};
use crate::ledger::{DISTRIBUTIONS, POLICIES, batch_size, or_note, series};
use crate::setup::members::LedgerMembers;
use ankerdb_engine::Result;
use ankerdb_ledger::smallbank::SmallbankPicks;

/// Transactions in a block in the paper, and when shortened.
const SIZES: &[usize] = &[256, 512, 1_024, 2_048, 4_096];
const QUICK_SIZES: &[usize] = &[256, 1_024, 4_096];

fn sizes(harness: &Harness<'_>) -> &'static [usize] {
    if harness.setup.full { SIZES } else { QUICK_SIZES }
}

/// Runs it.
///
/// # Errors
/// Those of the machine; a network that fails is left out, with a note.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let setup = &harness.setup;
    harness.expect(setup.members.len() * POLICIES.len() * sizes(harness).len());
    let mut rate = Panel::lines("Throughput, Zipf", "transactions in a block", "successful transactions/s");
    let mut latency =
        Panel::lines("From firing to the outcome, Zipf", "transactions in a block", "ms, median");
    let mut notes = vec![format!("{} clients", setup.oltp)];
    for members in &setup.members {
        for policy in POLICIES {
            if harness.is_stopped() {
                break;
            }
            let label = format!("{}, {}", members.name(), policy.0);
            let Some(found) = or_note(measure(harness, *members, policy), &label, &mut notes) else {
                continue;
            };
            if let [(smallest, first), .., (largest, last)] = found[..] {
                let gain = last.per_second / first.per_second.max(1e-9);
                notes.push(format!(
                    "{label}: blocks of {largest} are {gain:.2}x as fast as those of {smallest}"
                ));
            }
            rate.series.push(series(&label, &found, |figures| figures.per_second));
            latency.series.push(series(&label, &found, |figures| figures.latency_ms));
        }
    }
    Ok(Findings { panels: vec![rate, latency], notes })
}

/// Figures by the size of blocks.
fn measure(
    harness: &Harness<'_>,
    members: LedgerMembers,
    (policy, quorum): (&str, usize),
) -> Result<Vec<(usize, LoadFigures)>> {
    let (setup, sizes) = (&harness.setup, sizes(harness));
    let plan =
        NetworkPlan { quorum, block_size: sizes[0], clients: setup.oltp, ..NetworkPlan::of_members(members) };
    let mut network = LedgerProcesses::start(harness, &plan)?;
    let picks = SmallbankPicks::new(setup.users, DISTRIBUTIONS[0].1, setup.seed);
    let mut found = Vec::new();
    for &size in sizes {
        if harness.is_stopped() {
            break;
        }
        network.set_block_size(size)?;
        let label = format!("{}, {policy}, blocks of {size}", members.name());
        let clients = network.clients(setup.oltp, &picks, batch_size(size));
        found.push((size, harness.measure(&label, || fire_all(harness, clients))?));
        network.wait_for_equal_heights(harness)?;
    }
    Ok(found)
}
