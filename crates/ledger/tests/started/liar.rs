//! A party that says what it should not, with the keys and the certificate of its folder.

use super::StartedNetwork;
use ankerdb_ledger::error::LedgerError;
use ankerdb_ledger::node::call::RemoteProcess;
use ankerdb_ledger::node::config::NodeFolder;
use ankerdb_ledger::node::directory::Directory;
use ankerdb_ledger::node::wire::{ORGANIZATION, VotesMessage};
use ankerdb_ledger::signature::KeyPair;
use std::time::Duration;

/// A party that says what it wants, with the certificate and the key of one of the network.
pub(crate) struct Liar {
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) directory: Directory,
    pub(crate) keys: KeyPair,
}

impl Liar {
    pub(crate) fn new(network: &StartedNetwork, party: &str) -> Liar {
        Liar::of(&NodeFolder::open(&network.path(party)).expect("a folder"))
    }

    pub(crate) fn of(folder: &NodeFolder) -> Liar {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        let directory = Directory::open(folder).expect("parties");
        Liar { runtime, directory, keys: folder.keys().expect("a key") }
    }

    pub(crate) fn call<Q, A>(
        &self,
        party: &str,
        service: &'static str,
        method: &str,
        message: Q,
    ) -> Result<A, LedgerError>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let _entered = self.runtime.enter();
        let party = self.directory.parties.iter().find(|known| known.name == party).expect("a party");
        let process = RemoteProcess::new(&self.directory, party, service).expect("a process");
        self.runtime.block_on(process.call(method, message, Duration::from_secs(20)))
    }

    pub(crate) fn votes(&self, own: Vec<u8>, known: Vec<Vec<u8>>) -> Result<VotesMessage, LedgerError> {
        self.call("mariadb", ORGANIZATION, "Votes", VotesMessage { own, known, ..VotesMessage::default() })
    }
}
