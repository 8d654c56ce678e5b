//! Figure 4.12: the blocks of each organization over time, while the database of one is corrupted behind the ledger's back, and
//! later another one is lost.
//!
//! ```text
//! |-- undisturbed --|-- O1's hottest account is another one --|-- O3's node is killed --|
//! ```
//! Clients fire all the time, at whatever organization answers. An observer asks every organization for its height.

use crate::finding::{Findings, Panel, Series};
use crate::harness::Harness;
use crate::ledger::load::FiringClient as _;
use crate::ledger::processes::{BatchingClient, LedgerProcesses, NetworkPlan};
use crate::ledger::{DISTRIBUTIONS, batch_size, or_note};
use crate::setup::members::LedgerMembers;
use ankerdb_engine::Result;
use ankerdb_ledger::node::wire::StatusMessage;
use ankerdb_ledger::smallbank::SmallbankPicks;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Blocks between two checkpoints, as in the paper.
const CHECKPOINT_BLOCKS: u64 = 5;
/// Transactions in a block in the paper, and when shortened: several blocks a second are wanted.
const BLOCK: usize = 4_096;
const QUICK_BLOCK: usize = 256;
/// How often heights are asked for.
const LOOK: Duration = Duration::from_millis(100);
/// How long a client waits for outcomes before it goes on.
const PATIENCE: Duration = Duration::from_secs(10);
/// The organization whose database is corrupted, and the one that is lost.
const CORRUPTED: usize = 0;
const LOST: usize = 2;
/// A corruption may lose to the ledger's own transactions, and is tried again.
const CORRUPTIONS_MAX: usize = 50;
const CORRUPTION: &str = "UPDATE checking SET balance = balance + 1000000 WHERE customer = 0";

/// What is seen of the organizations over time.
struct Progress {
    begun: Instant,
    /// Seconds and height of each organization at every look; nothing where it did not answer.
    heights: Vec<Vec<(f64, f64)>>,
    /// Seconds and lines that the corrupted one has said of its repairs.
    repairs: Vec<(f64, String)>,
}

/// Runs it.
///
/// # Errors
/// Those of the machine; a network that fails is left out, with a note.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let setup = &harness.setup;
    harness.expect(setup.members.len());
    let (mut panels, mut notes) = (Vec::new(), Vec::new());
    for &members in &setup.members {
        if harness.is_stopped() {
            break;
        }
        let label = members.name();
        let Some((panel, found)) = or_note(measure(harness, members), label, &mut notes) else { continue };
        panels.push(panel);
        notes.extend(found.into_iter().map(|note| format!("{label}: {note}")));
    }
    Ok(Findings { panels, notes })
}

fn measure(harness: &Harness<'_>, members: LedgerMembers) -> Result<(Panel, Vec<String>)> {
    let setup = &harness.setup;
    let block_size = if setup.full { BLOCK } else { QUICK_BLOCK };
    let settings = format!("recovery = \"partial-replay\"\ncheckpoint_blocks = {CHECKPOINT_BLOCKS}\n");
    let plan = NetworkPlan {
        quorum: 2,
        block_size,
        clients: setup.oltp,
        settings,
        ..NetworkPlan::of_members(members)
    };
    let mut network = LedgerProcesses::start(harness, &plan)?;
    let picks = SmallbankPicks::new(setup.users, DISTRIBUTIONS[0].1, setup.seed);
    network.clients(setup.oltp, &picks, batch_size(block_size));
    let mut clients = network.take_clients();
    clients.iter_mut().for_each(|client| client.fire_at_all(PATIENCE));
    harness
        .measure(members.name(), || {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for client in &mut clients {
                    scope.spawn(|| fire_until(client, &stop));
                }
                let seen = disturb(harness, &mut network);
                stop.store(true, Ordering::Relaxed);
                seen
            })
        })
        .map(|(seen, times)| shown(&network, members, &seen, times))
}

/// Fires until it is stopped. Transactions whose outcome is not known in time are left to the ledger.
fn fire_until(client: &mut BatchingClient, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let _ = client.fire();
    }
}

/// When the corruption and the loss were, and when all was over, in seconds.
type DisturbanceTimes = [f64; 3];

/// Watches three phases of equal length, and disturbs the network between them.
fn disturb(harness: &Harness<'_>, network: &mut LedgerProcesses) -> Result<(Progress, DisturbanceTimes)> {
    let count = network.names.len();
    let mut progress =
        Progress { begun: Instant::now(), heights: vec![Vec::new(); count], repairs: Vec::new() };
    progress.watch(harness, network, 0);
    let corrupted = progress.seconds();
    let mut tried = network.tamper(CORRUPTED, CORRUPTION);
    for _ in 1..CORRUPTIONS_MAX {
        if tried.is_ok() {
            break;
        }
        tried = network.tamper(CORRUPTED, CORRUPTION);
    }
    tried?;
    progress.watch(harness, network, 1);
    let lost = progress.seconds();
    network.kill_node(LOST)?;
    progress.watch(harness, network, 2);
    let end = progress.seconds();
    Ok((progress, [corrupted, lost, end]))
}

impl Progress {
    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Asks for heights during one of the phases.
    fn watch(&mut self, harness: &Harness<'_>, network: &LedgerProcesses, phase: u32) {
        let (begun, time) = (Instant::now(), harness.setup.time);
        while begun.elapsed() < time && !harness.is_stopped() {
            let seconds = self.seconds();
            for at in 0..self.heights.len() {
                if let Some(status) = network.status(at) {
                    self.note(seconds, at, &status);
                }
            }
            let done = f64::from(phase) + begun.elapsed().as_secs_f64() / time.as_secs_f64();
            harness.progress(done / 3.0);
            std::thread::sleep(LOOK);
        }
    }

    fn note(&mut self, seconds: f64, at: usize, status: &StatusMessage) {
        self.heights[at].push((seconds, status.height as f64));
        if at == CORRUPTED {
            for line in &status.repairs {
                if !self.repairs.iter().any(|(_, known)| known == line) {
                    self.repairs.push((seconds, line.clone()));
                }
            }
        }
    }

    /// The longest time without another block of an organization between two moments.
    fn longest_pause(&self, at: usize, from: f64, to: f64) -> f64 {
        let new = self.heights[at].windows(2).filter(|pair| pair[0].1 < pair[1].1).map(|pair| pair[1].0);
        let inside = new.filter(|at| *at > from && *at < to);
        let moments: Vec<f64> = [from].into_iter().chain(inside).chain([to]).collect();
        moments.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max)
    }
}

fn shown(
    network: &LedgerProcesses,
    members: LedgerMembers,
    seen: &Progress,
    [corrupted, lost, end]: DisturbanceTimes,
) -> (Panel, Vec<String>) {
    let title = format!("{}: blocks of each organization over time", members.name());
    let mut panel = Panel::lines(&title, "seconds", "last block");
    for (name, heights) in network.names.iter().zip(&seen.heights) {
        panel.series.push(Series::measured(name.as_str(), heights.clone()));
    }
    let names = &network.names;
    let mut notes = vec![format!(
        "{} is corrupted after {corrupted:.1} s, {} is lost after {lost:.1} s, end after {end:.1} s",
        names[CORRUPTED], names[LOST]
    )];
    let said = seen.repairs.iter().map(|(seconds, line)| {
        format!("{:.1} s after the corruption {} says: {line}", seconds - corrupted, names[CORRUPTED])
    });
    notes.extend(said);
    for (at, name) in names.iter().enumerate() {
        let mut pauses = format!(
            "{name}: longest time without a block: {:.1} s before, {:.1} s after the corruption",
            seen.longest_pause(at, 0.0, corrupted),
            seen.longest_pause(at, corrupted, lost)
        );
        if at != LOST {
            pauses.push_str(&format!(", {:.1} s after the loss", seen.longest_pause(at, lost, end)));
        }
        notes.push(pauses);
    }
    (panel, notes)
}
