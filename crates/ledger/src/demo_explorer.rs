//! Explorers of a demonstration's organizations. They have no nodes there, so what a node knows of itself and the others is put
//! together after each block.

use crate::error::{LedgerError, LedgerResult};
use crate::network::{BlockReport, LedgerNetwork};
use crate::node::explorer::{Explorer, ExplorerSource, listen_for_explorer};
use crate::node::wire::{MemberStatus, StatusMessage};
use crate::organization::Organization;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Runtime;

/// Where explorers listen: at ports that the system picks.
const ADDRESS: &str = "127.0.0.1:0";

/// The explorers, which end when they are dropped.
pub(crate) struct DemoExplorers {
    runtime: Runtime,
    statuses: Vec<Arc<Mutex<StatusMessage>>>,
    /// Where they are read, by the places of their organizations.
    pub(crate) addresses: Vec<SocketAddr>,
}

impl DemoExplorers {
    /// Starts one for each organization.
    ///
    /// # Errors
    /// [`LedgerError::Process`] if it cannot listen, [`LedgerError::File`].
    pub(crate) fn start(network: &mut LedgerNetwork) -> LedgerResult<DemoExplorers> {
        let built = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = built.map_err(|error| LedgerError::Missing(format!("no threads: {error}")))?;
        let mut explorers = DemoExplorers { runtime, statuses: Vec::new(), addresses: Vec::new() };
        for organization in &network.organizations {
            let (listener, bound) =
                explorers.runtime.block_on(listen_for_explorer(ADDRESS, organization.name()))?;
            let status = Arc::new(Mutex::new(StatusMessage::default()));
            let shown = status.clone();
            let look = Box::new(move || shown.lock().unwrap_or_else(PoisonError::into_inner).clone());
            let genesis = organization.chain().genesis.clone();
            let source = ExplorerSource::open(genesis, organization.path(), look)?;
            explorers.runtime.spawn(Explorer::new(source, ADDRESS).serve(listener));
            explorers.statuses.push(status);
            explorers.addresses.push(bound);
        }
        explorers.note(network, None);
        Ok(explorers)
    }

    /// Notes what the organizations are after a block.
    pub(crate) fn note(&self, network: &mut LedgerNetwork, report: Option<&BlockReport>) {
        let member = |organization: &Organization| {
            let height = organization.chain().height;
            let consents =
                report.map(|report| report.consenting.iter().any(|name| name == organization.name()));
            let voted_height = report.map_or(0, |report| report.height);
            MemberStatus {
                name: organization.name().to_owned(),
                height,
                is_reached: true,
                voted_height,
                consents,
            }
        };
        let members: Vec<MemberStatus> = network.organizations.iter().map(member).collect();
        for (organization, status) in network.organizations.iter_mut().zip(&self.statuses) {
            let checkpoints = organization.checkpoints().map(|own| own.heights()).unwrap_or_default();
            let chain = organization.chain();
            let mut status = status.lock().unwrap_or_else(PoisonError::into_inner);
            status.name = organization.name().to_owned();
            status.network = chain.network.to_string();
            (status.height, status.head) = (chain.height, chain.head.to_string());
            status.state = format!("works with {}", organization.system());
            status.members = members.clone();
            status.checkpoints = checkpoints;
            for outvoted in report.iter().flat_map(|report| &report.outvoted) {
                if outvoted.name == status.name {
                    let differences = outvoted.differences.join("; ");
                    let height = report.map_or(0, |report| report.height);
                    status.repairs.push(format!("outvoted on block {height}: {differences}"));
                }
            }
        }
    }

    /// Waits until somebody interrupts the process.
    pub(crate) fn wait(&self) {
        use tokio::signal::unix::{SignalKind, signal};
        self.runtime.block_on(async {
            let (Ok(mut interrupt), Ok(mut terminate)) =
                (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
            else {
                return;
            };
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
    }
}
