//! Figure 4.13: what cryptography and parallel execution do to a ledger's throughput.
//!
//! Nothing in the product switches signatures off, nor should it. So the organizations execute, vote on, file and commit blocks
//! in this process, and after each block whatever of it was signed is verified once more, by as many threads: that is the time
//! which verification had in it, since nothing of a block is executed before all of it is verified. Without it the block would
//! have taken as much less. Blocks over one and over several connections take turns, so that what else the machine does meets
//! both.
//!
//! ```text
//! block, 1 connection   | verify | execute | vote | file | commit |   | verify |
//! block, 4 connections  | verify | execute | vote | file | commit |   | verify |   ...
//!                       <----------- with cryptography ----------->   <-------->  less that: without
//! ```

use crate::finding::{Findings, Panel};
use crate::harness::Harness;
use crate::ledger::{DISTRIBUTIONS, block_size, or_note};
use crate::setup::members::{LedgerMembers, ledger_error};
use ankerdb_engine::{Error, Result, SqlState};
use ankerdb_ledger::demo::{DemoNetwork, DemoSettings};
use ankerdb_ledger::error::LedgerResult;
use ankerdb_ledger::message::OrderedBlock;
use ankerdb_ledger::node::config::CONNECTIONS_DEFAULT;
use ankerdb_ledger::recovery::RecoveryClass;
use ankerdb_ledger::signature::{MessageKind, verify};
use ankerdb_ledger::signers::SignerTables;
use ankerdb_ledger::smallbank::SmallbankPicks;
use ankerdb_measure::latency::median;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Rounds before those that are measured.
const WARM_ROUNDS: usize = 1;
/// Rounds that are measured, at least.
const ROUNDS_MIN: usize = 3;
/// Proposals that are worth a thread of their own, as the ledger has it.
const PROPOSALS_PER_THREAD: usize = 64;
/// Connections of the two ways to execute.
const WAYS: [(&str, usize); 2] = [("serial", 1), ("parallel", CONNECTIONS_DEFAULT as usize)];

/// What blocks have cost, in seconds.
#[derive(Default)]
struct BlockTimes {
    whole: Vec<f64>,
    verification: Vec<f64>,
    succeeded: Vec<f64>,
}

impl BlockTimes {
    /// Successful transactions per second with cryptography and without.
    fn rates(&mut self) -> Option<(f64, f64)> {
        let (whole, succeeded) = (median(&mut self.whole)?, median(&mut self.succeeded)?);
        let verification = median(&mut self.verification)?.min(whole * 0.999);
        Some((succeeded / whole, succeeded / (whole - verification)))
    }
}

/// A network in this process, whose ledger files go with it.
struct MeasuredNetwork {
    demo: DemoNetwork,
    signers: SignerTables,
    folder: PathBuf,
}

impl Drop for MeasuredNetwork {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs it.
///
/// # Errors
/// Those of the machine; a network that fails is left out, with a note.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let names = WAYS.map(|(way, _)| way);
    let mut panel = Panel::bars("Throughput, Zipf", "execution", "successful transactions/s", &names);
    harness.expect(harness.setup.members.len());
    let size = block_size(&harness.setup);
    let mut notes = vec![format!("blocks of {size} transactions, parallel: {} connections", WAYS[1].1)];
    for &members in &harness.setup.members {
        if harness.is_stopped() {
            break;
        }
        let Some(times) = or_note(measure(harness, members), members.name(), &mut notes) else { continue };
        let rates = times.map(|mut times| times.rates());
        let name = members.name();
        panel.add(&format!("{name}, with cryptography"), &rates.map(|rates| Some(rates?.0)));
        panel.add(&format!("{name}, without"), &rates.map(|rates| Some(rates?.1)));
        let [Some(serial), Some(parallel)] = rates else { continue };
        let cost = |(with, without): (f64, f64)| (1.0 - with / without) * 100.0;
        notes.push(format!(
            "{name}: cryptography takes {:.1}% of the throughput of serial execution and {:.1}% of that of parallel execution; \
             parallel execution is {:.2}x as fast, with cryptography",
            cost(serial),
            cost(parallel),
            parallel.0 / serial.0
        ));
    }
    Ok(Findings { panels: vec![panel], notes })
}

fn measure(harness: &Harness<'_>, members: LedgerMembers) -> Result<[BlockTimes; 2]> {
    let [one, several] = WAYS.map(|(way, connections)| {
        let network = MeasuredNetwork::start(harness, members, way, connections)?;
        if harness.is_stopped() {
            return Err(Error::new(SqlState::QueryCanceled, "loading was stopped"));
        }
        Ok(network)
    });
    let mut networks = [one?, several?];
    harness.measure(members.name(), || {
        let (begun, mut times) = (Instant::now(), [BlockTimes::default(), BlockTimes::default()]);
        for round in 0.. {
            let is_over = begun.elapsed() >= harness.setup.time && round >= WARM_ROUNDS + ROUNDS_MIN;
            if is_over || (harness.is_stopped() && round > WARM_ROUNDS) {
                break;
            }
            for (network, times) in networks.iter_mut().zip(&mut times) {
                network.round(harness, (round >= WARM_ROUNDS).then_some(times)).map_err(ledger_error)?;
            }
            harness.progress(begun.elapsed().as_secs_f64() / harness.setup.time.as_secs_f64());
        }
        Ok(times)
    })
}

impl MeasuredNetwork {
    fn start(
        harness: &Harness<'_>,
        members: LedgerMembers,
        way: &str,
        connections: usize,
    ) -> Result<MeasuredNetwork> {
        let folder = std::env::temp_dir().join(format!(
            "ankerdb-cryptography-{}-{}-{way}",
            std::process::id(),
            members.name()
        ));
        let (users, exponent) = (harness.setup.users, DISTRIBUTIONS[0].1);
        let settings = DemoSettings {
            folder: folder.clone(),
            ankerdb: None,
            quorum: 3,
            users,
            block_size: block_size(&harness.setup),
            blocks: 0,
            zipf: exponent,
            corrupt: String::new(),
            recovery: RecoveryClass::None,
            checkpoint_blocks: 0,
            connections,
        };
        let started = DemoNetwork::start(&members.products()?, &settings).and_then(|mut demo| {
            demo.client.pick_by(SmallbankPicks::new(users, exponent, harness.setup.seed));
            demo.load().map(|_| demo)
        });
        let demo = started.inspect_err(|_| drop(std::fs::remove_dir_all(&folder))).map_err(ledger_error)?;
        Ok(MeasuredNetwork { demo, signers: SignerTables::default(), folder })
    }

    /// Commits a block, and then verifies it once more.
    fn round(&mut self, harness: &Harness<'_>, times: Option<&mut BlockTimes>) -> LedgerResult<()> {
        let proposals = self.demo.client.batch(block_size(&harness.setup));
        let order = self.demo.network.order(proposals);
        let orders = vec![order; self.demo.network.organizations.len()];
        let begun = Instant::now();
        let report = self.demo.network.commit_orders(&orders)?;
        let whole = begun.elapsed();
        let verification = self.verify_again(&orders)?;
        if let Some(times) = times {
            times.whole.push(whole.as_secs_f64());
            times.verification.push(verification.as_secs_f64());
            times.succeeded.push(report.succeeded as f64);
        }
        Ok(())
    }

    /// How long it takes all organizations to verify what they have had signed before them: the order, its proposals, and the
    /// votes of all.
    fn verify_again(&self, orders: &[Vec<u8>]) -> LedgerResult<Duration> {
        let organizations = &self.demo.network.organizations;
        let votes: Vec<&[u8]> = organizations.iter().filter_map(|own| own.last_vote()).collect();
        let decoded = OrderedBlock::decode(&orders[0])?;
        let proposals: Vec<&[u8]> = decoded.proposals.iter().map(Vec::as_slice).collect();
        let signers = proposals.iter().filter_map(|proposal| verify(MessageKind::Proposal, proposal).ok());
        self.signers.expect(signers.map(|verified| verified.signer));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(proposals.len() / PROPOSALS_PER_THREAD).max(1);
        let tables = &self.signers;
        let verify_chunk = &|chunk: &[&[u8]]| {
            let verified = tables.verify_all(MessageKind::Proposal, chunk);
            verified.into_iter().try_for_each(|verified| verified.map(drop))
        };
        let verify_one = |order: &[u8]| -> LedgerResult<()> {
            verify(MessageKind::Order, order)?;
            std::thread::scope(|scope| {
                let chunks = proposals.chunks(proposals.len().div_ceil(threads).max(1));
                let started: Vec<_> = chunks.map(|chunk| scope.spawn(move || verify_chunk(chunk))).collect();
                started.into_iter().try_for_each(|thread| thread.join().expect("verification does not panic"))
            })?;
            votes.iter().try_for_each(|vote| verify(MessageKind::Vote, vote).map(drop))
        };
        let verify_one = &verify_one;
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let started: Vec<_> = orders.iter().map(|order| scope.spawn(move || verify_one(order))).collect();
            started.into_iter().try_for_each(|thread| thread.join().expect("verification does not panic"))
        })?;
        Ok(begun.elapsed())
    }
}
