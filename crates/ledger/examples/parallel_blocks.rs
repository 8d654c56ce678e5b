//! Measures blocks of Smallbank over one and several connections, in each product that is installed, without signatures, votes
//! and files: `cargo run --release -p ankerdb-ledger --example parallel_blocks [USERS [BLOCK SIZE]]`. The rounds of all settings
//! take turns, so that what else the machine does meets all of them.

use ankerdb_ledger::chain::{CheckedTransaction, LedgerChain};
use ankerdb_ledger::definition::SharedTable;
use ankerdb_ledger::demo::find_products;
use ankerdb_ledger::error::LedgerResult;
use ankerdb_ledger::genesis::{Genesis, Identity};
use ankerdb_ledger::member::{BlockExecution, Member};
use ankerdb_ledger::schedule::PlacedTransaction;
use ankerdb_ledger::server::PrivateServer;
use ankerdb_ledger::signature::KeyPair;
use ankerdb_ledger::smallbank::{DEFINITIONS, SmallbankClient};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const CONNECTIONS: [usize; 4] = [1, 2, 4, 8];
const ROUNDS: usize = 7;

/// What a block has cost.
struct Round {
    execution: Duration,
    commit: Duration,
}

fn run(
    member: &mut dyn Member,
    chain: &LedgerChain,
    block: &[Vec<u8>],
    height: u64,
) -> LedgerResult<(Round, BlockExecution)> {
    let checked: Vec<_> =
        block.iter().map(|proposal| chain.check_alone(proposal)).collect::<LedgerResult<_>>()?;
    let statements = checked.iter().enumerate().filter_map(|(place, transaction)| match transaction {
        CheckedTransaction::Statements(statements) => Some(PlacedTransaction { place, statements }),
        CheckedTransaction::Definition(_) => None,
    });
    let transactions: Vec<PlacedTransaction<'_>> = statements.collect();
    let started = Instant::now();
    member.begin()?;
    let execution = member.execute_block(&transactions, &chain.tables, true)?;
    member.take_changes()?;
    let executed = started.elapsed();
    member.commit(height)?;
    Ok((Round { execution: executed, commit: started.elapsed() - executed }, execution))
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

fn main() -> LedgerResult<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse().ok());
    let (users, size) = (numbers.next().unwrap_or(100_000), numbers.next().unwrap_or(4_096) as usize);
    let keys = KeyPair::generate()?;
    let genesis = Genesis {
        name: "measured".to_owned(),
        members: vec![Identity { name: "one".to_owned(), key: keys.public() }],
        quorum: 1,
        ordering: keys.public(),
        successors: Vec::new(),
        clients: vec![Identity { name: "bank".to_owned(), key: keys.public() }],
    };
    let mut chain = LedgerChain::new(genesis);
    let mut client = SmallbankClient::new(keys, chain.network, users, 0.0, 1);
    let load = client.load();
    let named = std::env::var_os("LEDGER_ANKERDB").map(PathBuf::from);
    for product in find_products(named.as_deref())? {
        let server = PrivateServer::start(&product)?;
        let mut members = CONNECTIONS
            .iter()
            .map(|connections| server.parallel_member(*connections))
            .collect::<LedgerResult<Vec<_>>>()?;
        for definition in DEFINITIONS {
            let table = SharedTable::parse(definition)?;
            members[0].create_table(&table)?;
            chain.tables.insert(table.name.clone(), table);
        }
        let mut height = 1;
        run(members[0].as_mut(), &chain, &load, height)?;
        let mut rounds: Vec<Vec<Round>> = CONNECTIONS.iter().map(|_| Vec::new()).collect();
        for round in 0..=ROUNDS {
            for (at, member) in members.iter_mut().enumerate() {
                height += 1;
                let block = client.batch(size);
                let (measured, execution) = run(member.as_mut(), &chain, &block, height)?;
                assert_eq!(execution.serial_because, None);
                assert_eq!(execution.connections, CONNECTIONS[at], "the block is not divided");
                // The first one warms up.
                rounds[at].extend(Some(measured).filter(|_| round > 0));
            }
        }
        for (at, rounds) in rounds.iter().enumerate() {
            let execution = median(rounds.iter().map(|round| round.execution).collect());
            let commit = median(rounds.iter().map(|round| round.commit).collect());
            println!(
                "{:<12} {} connections: {execution:>7.1} ms execution, {commit:>6.1} ms commit, {:>6.0} transactions/s",
                server.name(),
                CONNECTIONS[at],
                size as f64 / (execution + commit) * 1e3
            );
        }
    }
    Ok(())
}
