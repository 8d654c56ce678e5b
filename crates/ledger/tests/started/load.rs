//! Clients that keep a network busy, and what must be true of all they were told.

use super::{ORGANIZATIONS, StartedNetwork, submit};
use ankerdb_ledger::chain::LedgerChain;
use ankerdb_ledger::member::address::open_member;
use ankerdb_ledger::node::config::NodeFolder;
use ankerdb_ledger::node::people::{LedgerClient, SubmittedTransaction};
use ankerdb_ledger::organization::scan_states;
use ankerdb_ledger::verify::visit_blocks;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// A client that adds to its account until it is told to stop. What was acknowledged comes back.
pub(crate) fn add_until(client: &LedgerClient, account: u64, stop: &AtomicBool) -> Vec<SubmittedTransaction> {
    let mut done = Vec::new();
    let sql = format!("UPDATE account SET balance = balance + 1 WHERE id = {account}");
    while !stop.load(Ordering::Relaxed) {
        let number = 10 + done.len() as u64;
        done.push(submit(client, number, &sql));
    }
    done
}

/// Every acknowledged transaction is in every file, where it was said to be; and the tables are what the last block certifies.
pub(crate) fn assert_nothing_is_lost(network: &StartedNetwork, acknowledged: &[SubmittedTransaction]) {
    for (at, name) in ORGANIZATIONS.into_iter().enumerate() {
        let path = network.path(name).join(format!("{name}.ledger"));
        let mut outcomes: BTreeMap<u64, Vec<bool>> = BTreeMap::new();
        visit_blocks(&path, 0, &mut |(block, _)| {
            let bits = &block.header.outcomes;
            outcomes.insert(block.header.height, (0..bits.count()).map(|at| bits.get(at)).collect());
            Ok(())
        })
        .expect("blocks");
        for done in acknowledged {
            let outcome = outcomes.get(&done.height).and_then(|bits| bits.get(done.index as usize));
            assert_eq!(outcome, Some(&done.has_succeeded), "{name} has lost {done:?}");
        }
        let found = network.verified(at);
        let chain: &LedgerChain = found.chain().expect("a chain");
        let folder = NodeFolder::open(&network.path(name)).expect("a folder");
        let mut member = open_member(&folder.config.database.expect("a database")).expect("a member");
        assert_eq!(member.height().expect("a height"), chain.height, "{name}");
        let states = scan_states(member.as_mut(), chain).expect("tables");
        assert_eq!(Some(states.hash()), chain.state, "{name}");
    }
}
