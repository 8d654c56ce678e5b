//! How many transactions a second of a ledger file are verified, without any database: Smallbank's transactions in blocks that are
//! made here, signed by clients, an ordering service and two of three members.
//!
//! `cargo run --release --example verification -- [TRANSACTIONS] [CLIENTS] [TIMES] [BLOCK]`; under `taskset -c 0` for one core.

use ankerdb_ledger::block::{BlockHeader, LedgerBlock, SuccessBits, leaves};
use ankerdb_ledger::bytes::CanonicalWriter;
use ankerdb_ledger::chain::LedgerChain;
use ankerdb_ledger::error::LedgerResult;
use ankerdb_ledger::file::{LedgerFile, RecordKind};
use ankerdb_ledger::genesis::{Genesis, Identity};
use ankerdb_ledger::hash::LedgerHash;
use ankerdb_ledger::merkle;
use ankerdb_ledger::message::{OrderedBlock, Vote};
use ankerdb_ledger::signature::KeyPair;
use ankerdb_ledger::smallbank::{DEFINITIONS, SmallbankClient};
use ankerdb_ledger::verify::verify_file;
use std::path::Path;
use std::time::Instant;

const USERS: u64 = 100_000;

fn keys(seed: u8) -> KeyPair {
    KeyPair::from_seed(&[seed; 32])
}

fn number(at: usize, default: usize) -> usize {
    std::env::args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Appends a block in which all transactions have succeeded, with two votes.
fn append(file: &mut LedgerFile, chain: &mut LedgerChain, proposals: Vec<Vec<u8>>) -> LedgerResult<()> {
    let order = OrderedBlock { network: chain.network, height: chain.height + 1, proposals };
    let outcomes = SuccessBits::new(&vec![true; order.proposals.len()]);
    let header = BlockHeader {
        network: order.network,
        height: order.height,
        previous: chain.head,
        order: order.hash(),
        root: merkle::root(&leaves(&order.proposals, &outcomes)),
        outcomes,
        digest: LedgerHash::of("measured", &[b"digest"]),
        state: LedgerHash::of("measured", &[b"state"]),
    };
    let block = LedgerBlock { header, order: order.sign(&keys(4)) };
    let vote = |member: u32| {
        let header = block.header.clone();
        Vote { member, round: 1, header }.sign(&keys(member as u8 + 1))
    };
    let record = CanonicalWriter::default().bytes(&block.encode()).bytes(&vote(0)).finish();
    file.append(RecordKind::Block, &record)?;
    let votes = CanonicalWriter::default().u32(2).bytes(&vote(0)).bytes(&vote(1)).finish();
    file.append(RecordKind::Votes, &votes)?;
    let checked = chain.check(&block.order)?;
    chain.advance(&checked, &block.header);
    Ok(())
}

fn write(path: &Path, transactions: usize, clients: usize, size: usize) -> LedgerResult<()> {
    let identity = |name: String, keys: KeyPair| Identity { name, key: keys.public() };
    let genesis = Genesis {
        name: "measured".into(),
        members: (1..4).map(|at| identity(format!("member-{at}"), keys(at))).collect(),
        quorum: 2,
        ordering: keys(4).public(),
        successors: Vec::new(),
        clients: (0..clients).map(|at| identity(format!("client-{at}"), keys(at as u8 + 10))).collect(),
    };
    let mut file = LedgerFile::create(path, &genesis)?;
    let mut chain = LedgerChain::new(genesis);
    let network = chain.network;
    let client = |at: usize| SmallbankClient::new(keys(at as u8 + 10), network, USERS, 0.0, at as u64);
    let mut clients: Vec<SmallbankClient> = (0..clients).map(client).collect();
    for definition in DEFINITIONS {
        let proposal = clients[0].propose(&[(definition, &[])]);
        append(&mut file, &mut chain, vec![proposal])?;
    }
    let count = clients.len();
    for first in (0..transactions).step_by(size) {
        let picked = first..transactions.min(first + size);
        let proposals = picked.map(|at| clients[at % count].transaction()).collect();
        append(&mut file, &mut chain, proposals)?;
    }
    Ok(())
}

fn main() -> LedgerResult<()> {
    let (transactions, clients) = (number(1, 100_000), number(2, 1).clamp(1, 200));
    let (times, size) = (number(3, 5), number(4, 4096).max(1));
    let path = std::env::temp_dir().join(format!("verification-{}.ledger", std::process::id()));
    let verified = write(&path, transactions, clients, size).and_then(|()| {
        for _ in 0..times {
            let started = Instant::now();
            let (found, _) = verify_file(&path)?;
            let seconds = started.elapsed().as_secs_f64();
            let rate = found.transactions as f64 / seconds;
            println!("{} transactions verified in {seconds:.3} s: {rate:.0} a second", found.transactions);
        }
        Ok(())
    });
    // What is left behind says nothing that the error does not say.
    let _ = std::fs::remove_file(&path);
    verified
}
