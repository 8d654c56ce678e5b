//! `ankerdb ledger`: the demonstration, and what a stranger does with a ledger file.

use crate::agreement::OrderEntry;
use crate::chain::LedgerChain;
use crate::demo::{DemoSettings, run_demo};
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::member::address::open_member;
use crate::message::{Proposal, ProposedStatement};
use crate::node::config::{BatchConfig, CONNECTIONS_DEFAULT, PartyRole};
use crate::node::init::{
    FoundedOrganization, Founding, NetworkTerms, PUBLIC_FILE, join, make_identity, ordering_name,
    successor_name,
};
use crate::node::people::{self, LedgerClient};
use crate::node::wire::{AuditStatus, FindingsMessage, StatusMessage};
use crate::organization::scan_states;
use crate::proof::{TransactionName, check, prove};
use crate::recovery::RecoveryClass;
use crate::signers::SignerTables;
use crate::succession::BlockOrder;
use crate::verify::{verify_file, visit_blocks};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// The exit code of a command that needs what is not installed.
const SKIPPED: u8 = 3;

/// What is done with a ledger.
#[derive(Debug, clap::Subcommand)]
pub enum LedgerCommand {
    /// Three organizations over PostgreSQL, MariaDB and AnKerDB on this machine: Smallbank, a corrupted database, its repair,
    /// proofs
    Demo(DemoArguments),
    /// Found a network: a folder for each party with its keys, certificates, configuration and the founding document
    Init(InitArguments),
    /// Make the keys of one party in a new folder, and a file with what others may know of it, `public.toml`
    Identity(IdentityArguments),
    /// Take part in a network with an identity: from the same public files all parties make the same founding document
    Join(JoinArguments),
    /// Run the process of a folder in the foreground: an organization's node, or the ordering server
    Start {
        /// The folder, as `init` has made it
        folder: PathBuf,
    },
    /// Sign a transaction as a client, hand it to an organization, and wait until it is certified
    Submit(SubmitArguments),
    /// What the running node of an organization says: blocks, members, who consents, what was found
    Status {
        /// The organization's folder
        folder: PathBuf,
    },
    /// Have the running node of an organization compare its tables with the ledger
    Audit {
        /// The organization's folder
        folder: PathBuf,
    },
    /// Have the running node of an organization compare its tables with the ledger, and repair them: take over rows that
    /// differ, or execute blocks again
    Repair {
        /// The organization's folder
        folder: PathBuf,
        /// The recovery class; by default that of the organization's configuration
        #[arg(long, value_parser = RecoveryClass::WORDS)]
        method: Option<String>,
    },
    /// Verify a ledger file: the chain, all signatures and quorums, without a database
    Verify {
        /// The ledger file
        file: PathBuf,
        /// The network that it has to be of, as 64 hexadecimal digits
        #[arg(long)]
        network: Option<String>,
        /// A member's database whose tables have to be what the last block certifies: postgresql://USER@HOST:PORT/DATABASE,
        /// or mariadb or ankerdb in place of postgresql
        #[arg(long)]
        database: Option<String>,
    },
    /// Write all transactions of a ledger file, one a line
    Export {
        /// The ledger file
        file: PathBuf,
    },
    /// Write the proof that a transaction is in the ledger
    Prove {
        /// The ledger file
        file: PathBuf,
        /// The transaction, as BLOCK.TRANSACTION
        transaction: String,
        /// The file that the proof goes to
        #[arg(long)]
        output: PathBuf,
    },
    /// Check a proof, without the ledger file
    Check {
        /// The proof
        proof: PathBuf,
        /// The network that it has to be of, as 64 hexadecimal digits
        #[arg(long)]
        network: Option<String>,
    },
}

/// What all parties of a network agree about.
#[derive(Debug, clap::Args)]
pub struct TermsArguments {
    /// The network's name
    #[arg(long, default_value = "network")]
    name: String,
    /// How many organizations have to agree; by default more than half
    #[arg(long)]
    quorum: Option<usize>,
    /// Transactions in a block, at most
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    block_size: u32,
    /// How long a transaction waits for others, in milliseconds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    block_wait_ms: u64,
}

/// The identity of a party.
#[derive(Debug, clap::Args)]
pub struct IdentityArguments {
    /// The party's new folder
    folder: PathBuf,
    /// Its name: small letters, digits and hyphens
    #[arg(long)]
    name: String,
    /// What it is
    #[arg(long, default_value = "organization", value_parser = ["organization", "ordering", "client"])]
    role: String,
    /// Where others find it, as HOST:PORT; clients have none
    #[arg(long)]
    address: Option<String>,
    /// A key that is there already: ordering servers of one group have the same one
    #[arg(long)]
    key: Option<PathBuf>,
    /// Which ordering service an ordering server is one of, from 1: the second takes over if the first is dismissed, and so on
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    service: Option<u32>,
}

/// A network that a party takes part in.
#[derive(Debug, clap::Args)]
pub struct JoinArguments {
    /// The party's folder, as `identity` has made it
    folder: PathBuf,
    /// The public files of all parties; the own one may be among them
    #[arg(required = true)]
    parties: Vec<PathBuf>,
    /// An organization's database
    #[arg(long)]
    database: Option<String>,
    #[command(flatten)]
    terms: TermsArguments,
}

/// A network that is founded.
#[derive(Debug, clap::Args)]
pub struct InitArguments {
    /// Where the folders of the parties go
    folder: PathBuf,
    #[command(flatten)]
    terms: TermsArguments,
    /// An organization, as NAME@HOST:PORT=DATABASE; the database as postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or mariadb
    /// or ankerdb in place of postgresql
    #[arg(long = "organization", required = true)]
    organizations: Vec<String>,
    /// Where an ordering server listens, as HOST:PORT; several are a group that goes on while more than half of them do
    #[arg(long = "ordering", required = true)]
    orderings: Vec<String>,
    /// An ordering service that takes over if the one before is dismissed for lying or for silence: where its servers listen, as
    /// HOST:PORT, or HOST:PORT,HOST:PORT,... of a group; may be given again for a next one
    #[arg(long = "successor")]
    successors: Vec<String>,
    /// A client's name
    #[arg(long = "client", required = true)]
    clients: Vec<String>,
}

impl TermsArguments {
    fn terms(&self) -> NetworkTerms {
        let batch = BatchConfig { transactions_max: self.block_size as usize, wait_ms: self.block_wait_ms };
        NetworkTerms { name: self.name.clone(), quorum: self.quorum, batch }
    }
}

/// A transaction that is submitted.
#[derive(Debug, clap::Args)]
pub struct SubmitArguments {
    /// The client's folder
    folder: PathBuf,
    /// The statements, all or nothing
    #[arg(required = true)]
    statements: Vec<String>,
    /// The organization to hand it to; by default one after the other
    #[arg(long)]
    at: Option<String>,
    /// A number that was used before, to send that transaction again
    #[arg(long)]
    number: Option<u64>,
    /// How long to wait, in seconds
    #[arg(long, default_value_t = 60)]
    wait: u64,
}

/// Settings of the demonstration.
#[derive(Debug, clap::Args)]
pub struct DemoArguments {
    /// Folder for the ledger files; by default one in the folder for temporary files
    #[arg(long)]
    folder: Option<PathBuf>,
    /// The command of the AnKerDB organization; by default this one
    #[arg(long)]
    ankerdb: Option<PathBuf>,
    /// How many of the three have to agree
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=3))]
    quorum: u8,
    /// Users of the bank
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    users: u64,
    /// Transactions in a block
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    block_size: u32,
    /// Blocks before the corruption
    #[arg(long, default_value_t = 6)]
    blocks: usize,
    /// Exponent of Zipf's law by which users are picked; 0 picks them evenly
    #[arg(long, default_value_t = 1.1)]
    zipf: f64,
    /// Whose database is corrupted
    #[arg(long, default_value = "postgresql", value_parser = ["postgresql", "mariadb", "ankerdb"])]
    corrupt: String,
    /// How it comes back: from the state of another member, by executing all blocks again or those after a checkpoint, either
    /// without what is overwritten and over several connections, or not
    #[arg(long, default_value = "state", value_parser = RecoveryClass::WORDS)]
    recovery: String,
    /// After how many blocks each organization makes a checkpoint; 0 makes none
    #[arg(long, default_value_t = 4)]
    checkpoint_blocks: u64,
    /// Serves an explorer of each organization, and stays until it is interrupted
    #[arg(long)]
    explorer: bool,
    /// Over how many connections each organization executes a block
    #[arg(long, default_value_t = CONNECTIONS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=64))]
    connections: u32,
}

impl DemoArguments {
    fn settings(self) -> DemoSettings {
        let unnamed = || std::env::temp_dir().join(format!("ledger-demo-{}", std::process::id()));
        DemoSettings {
            folder: self.folder.unwrap_or_else(unnamed),
            ankerdb: self.ankerdb,
            quorum: usize::from(self.quorum),
            users: self.users,
            block_size: self.block_size as usize,
            blocks: self.blocks,
            zipf: self.zipf,
            corrupt: self.corrupt,
            recovery: RecoveryClass::parse(&self.recovery).unwrap_or(RecoveryClass::FromState),
            checkpoint_blocks: self.checkpoint_blocks,
            connections: self.connections as usize,
        }
    }
}

impl LedgerCommand {
    /// Runs the command and says on standard error why it has failed.
    pub fn run(self) -> ExitCode {
        let is_demo = matches!(self, LedgerCommand::Demo(_));
        match self.try_run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(LedgerError::Missing(missing)) if is_demo => {
                eprintln!("SKIPPED: {missing}");
                ExitCode::from(SKIPPED)
            }
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn try_run(self) -> LedgerResult<()> {
        match self {
            LedgerCommand::Demo(arguments) => {
                let is_explored = arguments.explorer;
                run_demo(&arguments.settings(), is_explored)
            }
            LedgerCommand::Init(arguments) => init(&arguments),
            LedgerCommand::Identity(arguments) => identity(&arguments),
            LedgerCommand::Join(arguments) => join_network(&arguments),
            LedgerCommand::Start { folder } => people::start(&folder),
            LedgerCommand::Submit(arguments) => submit(arguments),
            LedgerCommand::Status { folder } => people::status(&folder).map(|status| print_status(&status)),
            LedgerCommand::Audit { folder } => print_findings(&people::audit(&folder)?),
            LedgerCommand::Repair { folder, method } => {
                let class = method.as_deref().and_then(RecoveryClass::parse);
                print_findings(&people::repair(&folder, class)?)
            }
            LedgerCommand::Verify { file, network, database } => {
                verify(&file, network.as_deref())?;
                database.map_or(Ok(()), |database| verify_database(&file, &database))
            }
            LedgerCommand::Export { file } => export(&file),
            LedgerCommand::Prove { file, transaction, output } => {
                let proof = prove(&file, transaction.parse::<TransactionName>()?)?;
                std::fs::write(&output, &proof).map_err(|error| LedgerError::file(&output, error))?;
                println!("{}: {} bytes prove transaction {transaction}", output.display(), proof.len());
                Ok(())
            }
            LedgerCommand::Check { proof, network } => check_proof(&proof, network.as_deref()),
        }
    }
}

/// The organization of a word, NAME@HOST:PORT=DATABASE.
fn founded(word: &str) -> LedgerResult<FoundedOrganization> {
    let parts = word.split_once('=').and_then(|(party, database)| Some((party.split_once('@')?, database)));
    let Some(((name, address), database)) = parts else {
        let form = "NAME@HOST:PORT=DATABASE is expected";
        return Err(LedgerError::Refused(format!("--organization {word}: {form}")));
    };
    Ok(FoundedOrganization { name: name.into(), address: address.into(), database: database.into() })
}

/// The addresses of an ordering service's servers.
fn servers_of(word: &str) -> Vec<String> {
    word.split(',').map(str::to_owned).collect()
}

fn init(arguments: &InitArguments) -> LedgerResult<()> {
    let organizations =
        arguments.organizations.iter().map(|word| founded(word)).collect::<LedgerResult<Vec<_>>>()?;
    let founding = Founding {
        terms: arguments.terms.terms(),
        organizations,
        orderings: arguments.orderings.clone(),
        successors: arguments.successors.iter().map(|word| servers_of(word)).collect(),
        clients: arguments.clients.clone(),
    };
    let network = founding.write(&arguments.folder)?;
    println!("network {network}, in {}:", arguments.folder.display());
    let count = founding.orderings.len();
    let names = founding.organizations.iter().map(|organization| organization.name.clone());
    let successors = (1..).zip(&founding.successors).flat_map(|(service, servers)| {
        (0..servers.len()).map(move |at| successor_name(service, at, servers.len()))
    });
    for name in names.chain((0..count).map(|at| ordering_name(at, count))).chain(successors) {
        println!("  start it by: start {}", arguments.folder.join(name).display());
    }
    for client in &founding.clients {
        println!("  submit by:   submit {} \"STATEMENT\"", arguments.folder.join(client).display());
    }
    Ok(())
}

fn identity(arguments: &IdentityArguments) -> LedgerResult<()> {
    let role = match arguments.role.as_str() {
        "ordering" => PartyRole::Ordering,
        "client" => PartyRole::Client,
        _ => PartyRole::Organization,
    };
    let IdentityArguments { folder, name, address, key, service, .. } = arguments;
    make_identity(folder, name, role, address.as_deref(), key.as_deref(), *service)?;
    println!("{}: hand it to all other parties", folder.join(PUBLIC_FILE).display());
    Ok(())
}

fn join_network(arguments: &JoinArguments) -> LedgerResult<()> {
    let JoinArguments { folder, parties, database, terms } = arguments;
    let network = join(folder, &terms.terms(), database.as_deref(), parties)?;
    println!("network {network} (compare it with that of the other parties)");
    Ok(())
}

fn submit(arguments: SubmitArguments) -> LedgerResult<()> {
    let client = LedgerClient::open(&arguments.folder)?;
    let statement = |sql: String| ProposedStatement { sql, values: Vec::new() };
    let statements: Vec<ProposedStatement> = arguments.statements.into_iter().map(statement).collect();
    let (at, wait) = (arguments.at.as_deref(), Duration::from_secs(arguments.wait));
    let send = |number| client.submit(number, &client.sign(number, statements), at, wait);
    let done = match arguments.number {
        Some(number) => send(number),
        None => client.with_next_number(send),
    }?;
    let outcome = if done.has_succeeded { "succeeded" } else { "FAILED" };
    let reason = if done.reason.is_empty() { String::new() } else { format!(": {}", done.reason) };
    println!("transaction {}.{} (number {}) {outcome}{reason}", done.height, done.index, done.number);
    if done.has_succeeded {
        return Ok(());
    }
    Err(LedgerError::Refused("it is in the ledger as one that has done nothing".into()))
}

fn print_findings(found: &FindingsMessage) -> LedgerResult<()> {
    found.lines.iter().for_each(|line| println!("{line}"));
    if found.is_certified {
        return Ok(());
    }
    Err(LedgerError::Untrusted(
        "the tables are not what the ledger certifies; \"repair\" makes them that".into(),
    ))
}

fn print_status(status: &StatusMessage) {
    println!("organization \"{}\" of network {}", status.name, status.network);
    println!("{} blocks, head {}", status.height, status.head);
    println!("it {}", status.state);
    for member in &status.members {
        let reached = if member.is_reached { "" } else { ", NOT REACHED" };
        let vote = match (member.voted_height, member.consents) {
            (height, Some(true)) => format!("consents to block {height}"),
            (height, Some(false)) => format!("DISSENTS from block {height}"),
            (_, None) => "no vote known".to_owned(),
        };
        println!("  {:<16} {} blocks, {vote}{reached}", member.name, member.height);
    }
    if !status.checkpoints.is_empty() {
        let blocks: Vec<String> = status.checkpoints.iter().map(u64::to_string).collect();
        println!("checkpoints of blocks {}", blocks.join(", "));
    }
    if !status.checkpoint_failure.is_empty() {
        println!("NO CHECKPOINT: {}", status.checkpoint_failure);
    }
    print_audit(status);
    if !status.explorer.is_empty() {
        println!("explorer: {}", status.explorer);
    }
    let lists = [
        ("ordering", &status.ordering),
        ("suspect table", &status.suspects),
        ("EVIDENCE", &status.evidence),
        ("repair", &status.repairs),
        ("refused message", &status.refused),
        ("agreement policy of", &status.policies),
        ("constraint", &status.constraints),
        ("not agreed to", &status.objections),
    ];
    for (title, lines) in lists {
        lines.iter().for_each(|line| println!("{title}: {line}"));
    }
    if !status.not_ordered.is_empty() {
        println!("NOT ORDERED: {}", status.not_ordered);
    }
    if !status.stuck.is_empty() {
        println!("NO PROGRESS: {}", status.stuck);
    }
}

/// The last audit beside the blocks.
fn print_audit(status: &StatusMessage) {
    if let Some(AuditStatus { height, ended_at, took_ms, rows, differing }) = &status.audit {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ago = now.as_secs().saturating_sub(*ended_at);
        let found = match differing.is_empty() {
            true => "all tables were what it certifies".to_owned(),
            false => format!("what it does NOT certify in {}", differing.join(", ")),
        };
        println!("audit of block {height}, {ago} s ago: {rows} rows read in {took_ms} ms, {found}");
    }
    if !status.audit_failure.is_empty() {
        println!("NO AUDIT: {}", status.audit_failure);
    }
    status.audit_findings.iter().for_each(|line| println!("found by an audit: {line}"));
}

/// Compares the network of a file with the one that the user trusts.
fn expect_network(found: LedgerHash, expected: Option<&str>) -> LedgerResult<()> {
    let Some(expected) = expected else {
        println!("network {found} (compare it with the one that you know, or give it by --network)");
        return Ok(());
    };
    let Some(expected) = LedgerHash::parse(expected) else {
        return Err(LedgerError::Refused(format!(
            "--network {expected}: 64 hexadecimal digits are expected"
        )));
    };
    if expected == found {
        return Ok(());
    }
    Err(LedgerError::Untrusted(format!("it is of network {found}, not of {expected}")))
}

fn verify(file: &Path, network: Option<&str>) -> LedgerResult<()> {
    let started = std::time::Instant::now();
    let (found, end) = verify_file(file)?;
    let took = started.elapsed().as_secs_f64();
    let chain = found.chain()?;
    expect_network(chain.network, network)?;
    let members: Vec<&str> = chain.genesis.members.iter().map(|member| member.name.as_str()).collect();
    println!(
        "network \"{}\" of {}, policy {}",
        chain.genesis.name,
        members.join(", "),
        chain.genesis.policy()
    );
    if let Some(member) = found.member {
        println!("kept by {}", chain.genesis.members[member as usize].name);
    }
    println!(
        "{} blocks, {} transactions, {} of them succeeded; {} votes",
        chain.height, found.transactions, found.succeeded, found.votes
    );
    for table in chain.tables.values() {
        if let Some(policy) = &table.agreement {
            println!("transactions on table \"{}\" had the agreement of {policy}", table.name);
        }
    }
    for ((height, reason), service) in chain.successions.iter().zip(2..) {
        println!("block {height}: ordering service {service} takes over; {reason}");
    }
    for block in &found.superseded {
        println!(
            "block {}: its keeper had voted for {}, and was outvoted or found no quorum",
            block.header.height,
            block.header.hash().short()
        );
    }
    if let Some(prepared) = &found.prepared {
        println!("block {} has no quorum yet", prepared.block.header.height);
    }
    if end.torn_bytes > 0 {
        println!("the last {} bytes are a torn end, which its keeper will cut", end.torn_bytes);
    }
    println!("head {}", chain.head);
    println!("verified in {took:.2} s, {:.0} transactions/s", found.transactions as f64 / took);
    Ok(())
}

/// Reads the tables of a database and compares them with the state that the last block certifies.
fn verify_database(file: &Path, database: &str) -> LedgerResult<()> {
    let (found, _) = verify_file(file)?;
    let chain = found.chain()?;
    let mut member = open_member(database)?;
    let height = member.height()?;
    if height != chain.height {
        let reason = format!("the database has {height} blocks and the file {}", chain.height);
        return Err(LedgerError::database(member.system(), reason));
    }
    let states = scan_states(member.as_mut(), chain)?;
    if chain.state.is_some_and(|state| state != states.hash()) {
        let reason = format!("the tables of {} are NOT what block {height} certifies", member.system());
        return Err(LedgerError::Untrusted(reason));
    }
    let names: Vec<&str> = chain.tables.keys().map(String::as_str).collect();
    println!("the tables of {} ({}) are what block {height} certifies", member.system(), names.join(", "));
    Ok(())
}

fn export(file: &Path) -> LedgerResult<()> {
    let (found, _) = verify_file(file)?;
    let chain = found.chain()?;
    visit_blocks(file, 0, &mut |(block, _)| {
        let entries = BlockOrder::decode_entries(&block.order, &chain.genesis)?;
        for (index, message) in entries.iter().enumerate() {
            let outcome = if block.header.outcomes.get(index) { "ok" } else { "failed" };
            let entry = OrderEntry::of(message, &chain.genesis);
            let read = entry.and_then(|entry| {
                let proposal = Proposal::verify(entry.proposal(), &chain.genesis, &chain.network)?;
                Ok((proposal, show_agreements(&entry, chain, block.header.height)))
            });
            match read {
                Ok(((key, proposal), agreements)) => {
                    let client = &chain.genesis.client(&key)?.name;
                    println!(
                        "{}.{index}\t{outcome}\t{client} {}\t{}{agreements}",
                        block.header.height,
                        proposal.number,
                        show(&proposal)
                    );
                }
                Err(error) => println!("{}.{index}\t{outcome}\t{error}", block.header.height),
            }
        }
        Ok(())
    })
}

/// The organizations that have agreed to an entry, behind a tab; nothing if there are none.
fn show_agreements(entry: &OrderEntry<'_>, chain: &LedgerChain, height: u64) -> String {
    match entry.agreed(&chain.genesis, &chain.network, height, &SignerTables::default()) {
        Ok(members) if members.is_empty() => String::new(),
        Ok(members) => {
            let names = members.iter().map(|member| chain.genesis.members[*member as usize].name.as_str());
            format!("\tagreed: {}", names.collect::<Vec<_>>().join(", "))
        }
        Err(error) => format!("\t{error}"),
    }
}

/// The statements of a proposal with their values.
fn show(proposal: &Proposal) -> String {
    let statement = |statement: &ProposedStatement| {
        if statement.values.is_empty() {
            statement.sql.clone()
        } else {
            format!("{} {:?}", statement.sql, statement.values)
        }
    };
    proposal.statements.iter().map(statement).collect::<Vec<_>>().join("; ")
}

fn check_proof(path: &Path, network: Option<&str>) -> LedgerResult<()> {
    let bytes = std::fs::read(path).map_err(|error| LedgerError::file(path, error))?;
    let proved = check(&bytes)?;
    expect_network(proved.genesis.network(), network)?;
    let outcome = if proved.has_succeeded { "succeeded" } else { "failed" };
    let (height, index, genesis) = (proved.header.height, proved.index, &proved.genesis);
    println!("proved: transaction {height}.{index} of network \"{}\" {outcome}", genesis.name);
    println!(
        "{} of {} members have voted for its block, {}",
        proved.votes,
        genesis.members.len(),
        proved.header.hash()
    );
    match (&proved.client, &proved.proposal) {
        (Some(client), Some(proposal)) => {
            println!("signed by {client} as its number {}: {}", proposal.number, show(proposal))
        }
        _ => println!("it is not signed by a client, and was executed by nobody"),
    }
    if !proved.agreed.is_empty() {
        println!("agreed to by {}", proved.agreed.join(", "));
    }
    Ok(())
}
