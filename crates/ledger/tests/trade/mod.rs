//! The network "trade", with keys of fixed seeds, for tests that make its messages and files by hand.

use ankerdb_ledger::genesis::{Genesis, Identity};
use ankerdb_ledger::signature::KeyPair;

pub(crate) fn keys(seed: u8) -> KeyPair {
    KeyPair::from_seed(&[seed; 32])
}

/// With two ordering services that may take over.
#[allow(dead_code, reason = "not every test program has them")]
pub(crate) fn genesis_with_successors() -> Genesis {
    Genesis { successors: vec![keys(18).public(), keys(19).public()], ..genesis() }
}

pub(crate) fn genesis() -> Genesis {
    let identity = |(name, seed): (&str, u8)| Identity { name: name.into(), key: keys(seed).public() };
    Genesis {
        name: "trade".into(),
        members: [("ada", 1), ("bob", 2), ("cyd", 3)].map(identity).into(),
        quorum: 2,
        ordering: keys(8).public(),
        successors: Vec::new(),
        clients: vec![identity(("shop", 9))],
    }
}
