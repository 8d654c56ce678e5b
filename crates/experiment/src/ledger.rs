//! What the experiments of the dissertation's chapter 4 share: their setup in the paper, and throughput of a network of real
//! processes and of a raw database under clients that fire Smallbank's transactions (docs/design/ledger-experiments.md).

pub mod load;
pub mod processes;
pub mod raw;

use crate::finding::Series;
use crate::harness::Harness;
use crate::setup::members::LedgerMembers;
use crate::setup::{Data, PaperSetup, Setup};
use ankerdb_engine::{Result, SqlState};
use ankerdb_ledger::server::Product;
use ankerdb_ledger::smallbank::SmallbankPicks;
use load::{LoadFigures, fire_all};
use processes::{LedgerProcesses, NetworkPlan};
use raw::RawDatabase;
use std::time::Duration;

/// §4.8.1 and §4.8.2. How long a run takes the paper does not say.
pub const PAPER: PaperSetup = PaperSetup {
    oltp: 24,
    olap: 0,
    seconds: 60,
    quick_seconds: 4,
    lead: Duration::from_secs(5),
    interval: Duration::ZERO,
    threads_vary: true,
};
/// §4.8.1.
pub const DATA: Data = Data::Smallbank { paper: 100_000, quick: 10_000 };

/// Clients in the paper.
pub const CLIENTS: [usize; 4] = [3, 6, 12, 24];
/// Clients when shortened.
const QUICK_CLIENTS: [usize; 2] = [3, 24];
/// Transactions in a block in the paper, and when shortened.
const BLOCK: usize = 4_096;
const QUICK_BLOCK: usize = 1_024;
/// Each client has the transactions of a block divided by this on the way.
const BATCHES_PER_BLOCK: usize = 4;

/// The two policies, with how many of three organizations have to agree.
pub const POLICIES: [(&str, usize); 2] = [("Any-2", 2), ("All-3", 3)];
/// The two distributions, with the exponent of Zipf's law.
pub const DISTRIBUTIONS: [(&str, f64); 2] = [("Zipf", 1.1), ("uniform", 0.0)];

/// What differs in all of these experiments.
pub const MACHINE: &str = "databases, nodes, ordering server and clients share the cores of one machine; the paper has two machines \
                           for each organization, one for the ordering service and one for the clients";
/// See above.
pub const PRODUCTS: &str = "PostgreSQL 15, MariaDB 10.11 in place of MySQL 8, AnKerDB: private servers as durable as they are when \
                            installed, with their default sizes of buffers; the paper gives buffers 2 GB";
/// See above.
pub const FIRING: &str = "a client has a quarter of a block of transactions on the way at a time, and fires the next when all of them are \
                          certified; the paper's fires 4096 at a rate that it does not say, for a time that it does not say";
/// See above.
pub const AGREEMENT: &str = "tables have no agreement policy; in the paper all three organizations agree to every transaction before it \
                             is ordered";
/// See above.
pub const BASELINES: &str = "Fabric and Fabric++ are not measured; raw databases are fired at by a connection for each client, with a message \
                             for each transaction, and repeat those that lose to others; the paper uses OLTP-Bench";

/// The numbers of clients of an experiment, ascending.
pub fn client_counts(setup: &Setup) -> Vec<usize> {
    let usual: &[usize] = if setup.full { &CLIENTS } else { &QUICK_CLIENTS };
    let mut counts: Vec<usize> = usual.iter().copied().filter(|count| *count < setup.oltp).collect();
    counts.push(setup.oltp);
    counts
}

/// Transactions of a block where that does not vary.
pub fn block_size(setup: &Setup) -> usize {
    if setup.full { BLOCK } else { QUICK_BLOCK }
}

/// Transactions that a client has on the way at a time.
pub fn batch_size(block_size: usize) -> usize {
    (block_size / BATCHES_PER_BLOCK).max(1)
}

/// The products below the organizations of an experiment, each once.
///
/// # Errors
/// What is missing, and how to get it.
pub fn products(setup: &Setup) -> Result<Vec<Product>> {
    let mut found: Vec<Product> = Vec::new();
    for members in &setup.members {
        for product in members.products()? {
            if !found.contains(&product) {
                found.push(product);
            }
        }
    }
    Ok(found)
}

/// Figures over numbers of clients, for each distribution.
pub type FiguresByClients = Vec<Vec<(usize, LoadFigures)>>;

/// Measures a network of processes under each distribution and number of clients.
///
/// # Errors
/// 57014 if the user stops it while it is loaded; the ledger's.
pub fn measure_network(
    harness: &Harness<'_>,
    members: LedgerMembers,
    (policy, quorum): (&str, usize),
    distributions: &[(&str, f64)],
) -> Result<FiguresByClients> {
    let counts = client_counts(&harness.setup);
    let block_size = block_size(&harness.setup);
    let plan =
        NetworkPlan { quorum, block_size, clients: harness.setup.oltp, ..NetworkPlan::of_members(members) };
    let mut network = LedgerProcesses::start(harness, &plan)?;
    let mut found = Vec::new();
    for (distribution, exponent) in distributions {
        let picks = SmallbankPicks::new(harness.setup.users, *exponent, harness.setup.seed);
        let mut figures = Vec::new();
        for count in &counts {
            if harness.is_stopped() {
                break;
            }
            let label = format!("{}, {policy}, {distribution}, {count} clients", members.name());
            let clients = network.clients(*count, &picks, batch_size(block_size));
            figures.push((*count, harness.measure(&label, || fire_all(harness, clients))?));
            network.wait_for_equal_heights(harness)?;
        }
        found.push(figures);
    }
    Ok(found)
}

/// Measures a raw database under each distribution and number of clients.
///
/// # Errors
/// 57014 if the user stops it while it is loaded; the database's.
pub fn measure_raw(
    harness: &Harness<'_>,
    product: &Product,
    distributions: &[(&str, f64)],
) -> Result<FiguresByClients> {
    let database = RawDatabase::start(harness, product)?;
    let mut found = Vec::new();
    for (distribution, exponent) in distributions {
        let picks = SmallbankPicks::new(harness.setup.users, *exponent, harness.setup.seed);
        let mut figures = Vec::new();
        for count in client_counts(&harness.setup) {
            if harness.is_stopped() {
                break;
            }
            let label = format!("raw {}, {distribution}, {count} clients", product.name());
            let mut clients = database.clients(count, &picks)?;
            figures.push((count, harness.measure(&label, || fire_all(harness, &mut clients))?));
        }
        found.push(figures);
    }
    Ok(found)
}

/// The outcome of a measurement, or nothing and a note of why there is none: one setup that fails must not lose the others.
/// Nothing and no note if the user has stopped it.
pub fn or_note<T>(outcome: Result<T>, label: &str, notes: &mut Vec<String>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(error) => {
            if error.state() != SqlState::QueryCanceled {
                notes.push(format!("{label}: left out, it ended with: {}", error.message()));
            }
            None
        }
    }
}

/// A series of one of the figures over the numbers of clients.
pub fn series(name: &str, figures: &[(usize, LoadFigures)], figure: fn(&LoadFigures) -> f64) -> Series {
    let points = figures.iter().map(|(count, figures)| (*count as f64, figure(figures)));
    Series::measured(name, points.collect())
}

/// The raw database that a network is compared with: that of most of its organizations, and PostgreSQL, as in the paper, where
/// all are different.
pub fn compared_product(members: LedgerMembers) -> &'static str {
    match members {
        LedgerMembers::Paper | LedgerMembers::PostgreSql | LedgerMembers::Mixed => "PostgreSQL",
        LedgerMembers::MariaDb => "MariaDB",
        LedgerMembers::AnKerDb => "AnKerDB",
    }
}
