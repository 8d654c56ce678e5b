//! A demonstration with three organizations over PostgreSQL, MariaDB and AnKerDB on this machine: Smallbank runs through them,
//! one database is corrupted behind the ledger's back, and that is found, repaired, and proved from the ledger file.

use crate::checkpoint::{CheckpointSettings, checkpoint_folder};
use crate::demo_explorer::DemoExplorers;
use crate::error::{LedgerError, LedgerResult};
use crate::genesis::{Genesis, Identity};
use crate::member::Member;
use crate::member::connection::{MariaDbConnection, PostgresConnection, SqlConnection};
use crate::network::{BlockReport, LedgerNetwork};
use crate::organization::Organization;
use crate::proof::{TransactionName, check, prove};
use crate::recovery::{RecoveryClass, RecoveryReport};
use crate::server::{PrivateServer, Product};
use crate::signature::KeyPair;
use crate::smallbank::{DEFINITIONS, SmallbankClient};
use crate::value::LedgerValue;
use crate::verify::verify_file;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How many blocks may pass until a corrupted hot row is found.
const BLOCKS_UNTIL_FOUND_MAX: usize = 20;

/// What a demonstration is about.
#[derive(Debug, Clone)]
pub struct DemoSettings {
    /// Where the ledger files go.
    pub folder: PathBuf,
    /// The command that the AnKerDB organization starts.
    pub ankerdb: Option<PathBuf>,
    /// How many members have to agree.
    pub quorum: usize,
    /// Users of the bank.
    pub users: u64,
    /// Transactions in a block.
    pub block_size: usize,
    /// Blocks before the corruption.
    pub blocks: usize,
    /// Exponent of Zipf's law, 0 for none.
    pub zipf: f64,
    /// Whose database is corrupted: `postgresql`, `mariadb` or `ankerdb`.
    pub corrupt: String,
    /// How that comes back.
    pub recovery: RecoveryClass,
    /// After how many blocks organizations make a checkpoint; 0 makes none.
    pub checkpoint_blocks: u64,
    /// Over how many connections each organization executes a block.
    pub connections: usize,
}

/// The databases of a demonstration or an experiment, started, and a network over them.
pub struct DemoNetwork {
    /// The databases, by the places of their organizations.
    pub servers: Vec<PrivateServer>,
    /// The organizations.
    pub network: LedgerNetwork,
    /// A client with Smallbank's transactions.
    pub client: SmallbankClient,
    /// Seeds of the members' keys, by which an organization is opened again.
    seeds: Vec<[u8; 32]>,
    connections: usize,
    checkpoint_blocks: u64,
    explorers: Option<DemoExplorers>,
}

/// All three products.
///
/// # Errors
/// [`LedgerError::Missing`] with all that is missing.
pub fn find_products(ankerdb: Option<&Path>) -> LedgerResult<Vec<Product>> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for product in [Product::find_postgres(), Product::find_mariadb(), Product::find_ankerdb(ankerdb)] {
        match product {
            Ok(product) => found.push(product),
            Err(error) => missing.push(error.to_string()),
        }
    }
    if missing.is_empty() { Ok(found) } else { Err(LedgerError::Missing(missing.join("\n"))) }
}

impl DemoNetwork {
    /// Starts private databases and founds an organization over each, with new keys and a ledger file in the folder.
    ///
    /// # Errors
    /// [`LedgerError::Missing`], [`LedgerError::Database`], [`LedgerError::File`].
    pub fn start(products: &[Product], settings: &DemoSettings) -> LedgerResult<DemoNetwork> {
        std::fs::create_dir_all(&settings.folder)
            .map_err(|error| LedgerError::file(&settings.folder, error))?;
        let servers = products.iter().map(PrivateServer::start).collect::<LedgerResult<Vec<_>>>()?;
        let keys = servers.iter().map(|_| KeyPair::generate()).collect::<LedgerResult<Vec<_>>>()?;
        let seeds = keys.iter().map(KeyPair::seed).collect();
        let (ordering, client) = (KeyPair::generate()?, KeyPair::generate()?);
        let names: Vec<String> = (0..servers.len()).map(|at| organization_name(products, at)).collect();
        let identity =
            |(name, keys): (&String, &KeyPair)| Identity { name: name.clone(), key: keys.public() };
        let genesis = Genesis {
            name: "smallbank".to_owned(),
            members: names.iter().zip(&keys).map(identity).collect(),
            quorum: settings.quorum,
            ordering: ordering.public(),
            successors: Vec::new(),
            clients: vec![Identity { name: "bank".to_owned(), key: client.public() }],
        };
        let mut organizations = Vec::new();
        for ((server, name), keys) in servers.iter().zip(&names).zip(keys) {
            let path = ledger_path(&settings.folder, name);
            let member = server.parallel_member(settings.connections)?;
            let mut organization = Organization::found(&path, &genesis, keys, member)?;
            organization.keep_checkpoints(checkpoints_of(server, &path, settings.checkpoint_blocks))?;
            organizations.push(organization);
        }
        let client = SmallbankClient::new(client, genesis.network(), settings.users, settings.zipf, 1);
        let network = LedgerNetwork::new(organizations, ordering, settings.recovery);
        let DemoSettings { connections, checkpoint_blocks, .. } = *settings;
        Ok(DemoNetwork { servers, network, client, seeds, connections, checkpoint_blocks, explorers: None })
    }

    /// Commits proposals as the next block, and tells explorers of it.
    fn commit(&mut self, proposals: Vec<Vec<u8>>) -> LedgerResult<BlockReport> {
        let report = self.network.commit_block(proposals)?;
        if let Some(explorers) = &self.explorers {
            explorers.note(&mut self.network, Some(&report));
        }
        Ok(report)
    }

    /// Makes Smallbank's tables and fills them. Returns what became of the blocks.
    ///
    /// # Errors
    /// Those of [`LedgerNetwork::commit_block`].
    pub fn load(&mut self) -> LedgerResult<Vec<BlockReport>> {
        let mut reports = Vec::new();
        for definition in DEFINITIONS {
            let proposal = self.client.propose(&[(definition, &[])]);
            reports.push(self.commit(vec![proposal])?);
        }
        let load = self.client.load();
        reports.push(self.commit(load)?);
        Ok(reports)
    }

    /// Opens an organization again, over a new connection to its database, as after a stop.
    ///
    /// # Errors
    /// Those of [`Organization::open`].
    pub fn reopen(&mut self, at: usize) -> LedgerResult<()> {
        self.reopen_with(at, |member| member)
    }

    /// Opens an organization again, over what `wrap` makes of its member.
    ///
    /// # Errors
    /// Those of [`Organization::open`].
    pub fn reopen_with(
        &mut self,
        at: usize,
        wrap: impl Fn(Box<dyn Member>) -> Box<dyn Member>,
    ) -> LedgerResult<()> {
        let old = &mut self.network.organizations[at];
        // Its connection goes later: what it has open would be waited for.
        old.abandon();
        let path = old.path().to_owned();
        let member = wrap(self.servers[at].parallel_member(self.connections)?);
        *old = Organization::open(&path, KeyPair::from_seed(&self.seeds[at]), member)?;
        old.keep_checkpoints(checkpoints_of(&self.servers[at], &path, self.checkpoint_blocks))
    }

    /// Executes a statement on a database past the ledger, as its administrator could, and removes the digests that triggers
    /// have made of it, or leaves them.
    ///
    /// # Errors
    /// [`LedgerError::Database`].
    pub fn tamper(&self, at: usize, sql: &str, leaves_traces: bool) -> LedgerResult<()> {
        let server = &self.servers[at];
        let mut connection: Box<dyn SqlConnection> = match server.name() {
            "MariaDB" => Box::new(MariaDbConnection::open(&server.address)?),
            _ => Box::new(PostgresConnection::open(&server.address)?),
        };
        let traces =
            if leaves_traces || server.name() == "AnKerDB" { "" } else { "DELETE FROM ledger_digest; " };
        let done = connection.run(&format!("BEGIN; {sql}; {traces}COMMIT"));
        done.map(drop).map_err(|failure| LedgerError::database(server.name(), failure.message))
    }
}

fn checkpoints_of(server: &PrivateServer, ledger: &Path, blocks: u64) -> CheckpointSettings {
    CheckpointSettings { folder: checkpoint_folder(ledger), blocks, open_snapshot: server.snapshot_opener() }
}

/// The name of an organization: its product's, with a number where several run that product.
fn organization_name(products: &[Product], at: usize) -> String {
    let name = products[at].name().to_lowercase();
    let is_alone = products.iter().filter(|other| other.name() == products[at].name()).count() == 1;
    if is_alone { name } else { format!("{name}-{}", at + 1) }
}

fn ledger_path(folder: &Path, organization: &str) -> PathBuf {
    folder.join(format!("{organization}.ledger"))
}

/// Prints a block.
fn print_block(report: &BlockReport, took: Duration) {
    let rate = report.transactions as f64 / took.as_secs_f64();
    println!(
        "  block {:>3}: {:>5} transactions, {:>5} succeeded, {:>6.1} ms, {:>6.0} transactions/s, consenting: {}",
        report.height,
        report.transactions,
        report.succeeded,
        took.as_secs_f64() * 1e3,
        rate,
        report.consenting.join(", ")
    );
    for (name, error) in &report.lost {
        println!("             {name} is lost: {error}");
    }
    for (name, reason) in &report.serial {
        println!("             {name} has executed it on one connection: {reason}");
    }
    for member in &report.outvoted {
        println!("             {} was OUTVOTED: {}", member.name, member.differences.join("; "));
        for row in &member.rows {
            println!("               row {row}");
        }
        match &member.recovery {
            None => println!("             {} does not recover (--recovery none)", member.name),
            Some(Err(error)) => println!("             {} could not recover: {error}", member.name),
            Some(Ok(recovered)) => print_recovery(&member.name, recovered),
        }
    }
}

fn print_recovery(name: &str, report: &RecoveryReport) {
    if let Some(text) = report.show_replay() {
        println!("             {name} RECOVERED: {text}");
        return;
    }
    println!(
        "             {name} RECOVERED from the state of a consenting member: {} rows read, {} differ and were written",
        report.rows, report.differing
    );
    for row in report.repaired.iter().take(5) {
        println!("               {} {}: was {}, is {}", row.table, row.key, row.was, row.is);
    }
    if report.differing > 5 {
        println!("               and {} more", report.differing - 5);
    }
}

fn timed<T>(work: impl FnOnce() -> LedgerResult<T>) -> LedgerResult<(T, Duration)> {
    let started = Instant::now();
    work().map(|done| (done, started.elapsed()))
}

/// Runs a demonstration and prints it. If `is_explored` there is an explorer of each organization, and it stays until it is
/// interrupted.
///
/// # Errors
/// [`LedgerError::Missing`] with what has to be installed; others if something is not as it should be.
pub fn run_demo(settings: &DemoSettings, is_explored: bool) -> LedgerResult<()> {
    let products = find_products(settings.ankerdb.as_deref())?;
    let corrupted =
        products.iter().position(|product| product.name().eq_ignore_ascii_case(&settings.corrupt));
    let Some(corrupted) = corrupted else {
        return Err(LedgerError::Refused(format!(
            "--corrupt {}: postgresql, mariadb or ankerdb",
            settings.corrupt
        )));
    };
    println!("Starting private databases of three organizations ...");
    let (mut demo, took) = timed(|| DemoNetwork::start(&products, settings))?;
    let chain = demo.network.organizations[0].chain();
    println!(
        "  took {:.1} s; network {}, policy {}",
        took.as_secs_f64(),
        chain.network,
        chain.genesis.policy()
    );
    for (organization, server) in demo.network.organizations.iter().zip(&demo.servers) {
        let (port, process) = (server.address.port, server.process_number());
        println!(
            "  {:<11} {} on 127.0.0.1:{port} (process {process})",
            organization.name(),
            organization.system()
        );
    }
    if is_explored {
        start_explorers(&mut demo)?;
    }
    println!("\nSmallbank with {} users:", settings.users);
    let (reports, took) = timed(|| demo.load())?;
    reports.iter().for_each(|report| print_block(report, took / reports.len() as u32));
    let (_, took) = timed(|| run_blocks(&mut demo, settings))?;
    let transactions = settings.blocks * settings.block_size;
    println!(
        "  {transactions} transactions in {:.2} s: {:.0} transactions/s, durable and verified by all",
        took.as_secs_f64(),
        transactions as f64 / took.as_secs_f64()
    );
    corrupt_hot_row(&mut demo, settings, corrupted)?;
    corrupt_cold_row(&mut demo, settings, corrupted)?;
    verify_files(&demo, settings)?;
    prove_and_forge(&demo, settings)?;
    if let Some(explorers) = &demo.explorers {
        println!("\nThe explorers stay until this command is interrupted.");
        explorers.wait();
    }
    println!("\nThe ledger files stay in {}; the databases end.", settings.folder.display());
    Ok(())
}

fn start_explorers(demo: &mut DemoNetwork) -> LedgerResult<()> {
    let explorers = DemoExplorers::start(&mut demo.network)?;
    println!("  what they have is shown in a browser:");
    for (organization, address) in demo.network.organizations.iter().zip(&explorers.addresses) {
        println!("  {:<11} explorer at http://{address}/", organization.name());
    }
    demo.explorers = Some(explorers);
    Ok(())
}

fn run_blocks(demo: &mut DemoNetwork, settings: &DemoSettings) -> LedgerResult<()> {
    for _ in 0..settings.blocks {
        let batch = demo.client.batch(settings.block_size);
        let (report, took) = timed(|| demo.commit(batch))?;
        print_block(&report, took);
    }
    Ok(())
}

fn corrupt_hot_row(demo: &mut DemoNetwork, settings: &DemoSettings, corrupted: usize) -> LedgerResult<()> {
    let name = demo.network.organizations[corrupted].name().to_owned();
    let sql = "UPDATE checking SET balance = balance + 100000000 WHERE customer = 0";
    println!("\nThe administrator of {name} gives customer 0 a million, and removes the traces:\n  {sql};");
    demo.tamper(corrupted, sql, false)?;
    for _ in 0..BLOCKS_UNTIL_FOUND_MAX {
        let batch = demo.client.batch(settings.block_size);
        let (report, took) = timed(|| demo.commit(batch))?;
        print_block(&report, took);
        if report.outvoted.iter().any(|member| member.name == name) {
            println!(
                "  FOUND by the vote of block {}, as it touched the row; {} consent.",
                report.height,
                report.consenting.join(" and ")
            );
            return match &report.outvoted[0].recovery {
                Some(Err(error)) => Err(error.clone()),
                _ => Ok(()),
            };
        }
    }
    Err(LedgerError::NoQuorum(format!(
        "no block touched customer 0 in {BLOCKS_UNTIL_FOUND_MAX} blocks; run with fewer --users"
    )))
}

fn corrupt_cold_row(demo: &mut DemoNetwork, settings: &DemoSettings, corrupted: usize) -> LedgerResult<()> {
    if settings.recovery == RecoveryClass::None {
        return Ok(());
    }
    let name = demo.network.organizations[corrupted].name().to_owned();
    let user = settings.users - 1;
    println!(
        "\nNow a row that nobody touches, the savings of customer {user}, is deleted from {name}. No vote is about it; an audit reads the tables:"
    );
    demo.tamper(corrupted, &format!("DELETE FROM savings WHERE customer = {user}"), false)?;
    for at in 0..demo.network.organizations.len() {
        let organization = &mut demo.network.organizations[at];
        let (differing, took) = timed(|| organization.audit())?;
        let found = if differing.is_empty() {
            "is what the ledger certifies".to_owned()
        } else {
            format!("DIFFERS in {}", differing.join(", "))
        };
        println!("  {:<11} {found} ({:.0} ms)", organization.name(), took.as_secs_f64() * 1e3);
        if differing.is_empty() == (at == corrupted) {
            return Err(LedgerError::Untrusted("the audit has not found what it should have".into()));
        }
    }
    let donors: Vec<usize> = (0..demo.network.organizations.len()).collect();
    match demo.network.recover(corrupted, &donors) {
        Some(Ok(report)) => print_recovery(&name, &report),
        Some(Err(error)) => return Err(error),
        None => {}
    }
    let proposal = demo.client.propose(&[(
        "UPDATE savings SET balance = balance + 1 WHERE customer = $1",
        &[LedgerValue::Integer(user as i64)],
    )]);
    let (report, took) = timed(|| demo.commit(vec![proposal]))?;
    print_block(&report, took);
    Ok(())
}

fn verify_files(demo: &DemoNetwork, settings: &DemoSettings) -> LedgerResult<()> {
    println!("\nEach ledger file, verified without any database:");
    let mut heads = Vec::new();
    for organization in &demo.network.organizations {
        let path = ledger_path(&settings.folder, organization.name());
        let ((found, _), took) = timed(|| verify_file(&path))?;
        let chain = found.chain()?;
        println!(
            "  {}: {} blocks, {} transactions, {} votes, {} superseded, head {} ({:.0} transactions/s)",
            path.display(),
            chain.height,
            found.transactions,
            found.votes,
            found.superseded.len(),
            chain.head.short(),
            found.transactions as f64 / took.as_secs_f64()
        );
        heads.push(chain.head);
    }
    let is_one = heads.windows(2).all(|pair| pair[0] == pair[1]);
    if !is_one && settings.recovery != RecoveryClass::None {
        return Err(LedgerError::Untrusted("the organizations have different heads".into()));
    }
    Ok(())
}

fn prove_and_forge(demo: &DemoNetwork, settings: &DemoSettings) -> LedgerResult<()> {
    let donor = usize::from(demo.network.organizations[0].name().eq_ignore_ascii_case(&settings.corrupt));
    let path = ledger_path(&settings.folder, demo.network.organizations[donor].name());
    let name = TransactionName { height: 4, index: 0 };
    let proof = prove(&path, name)?;
    let proof_path = settings.folder.join("4.0.proof");
    std::fs::write(&proof_path, &proof).map_err(|error| LedgerError::file(&proof_path, error))?;
    let proved = check(&proof)?;
    let outcome = if proved.has_succeeded { "succeeded" } else { "failed" };
    println!(
        "\nTransaction 4.0 is proved by {} bytes ({}): it {outcome}, and {} members have voted for its block.",
        proof.len(),
        proof_path.display(),
        proved.votes
    );
    let mut forged = std::fs::read(&path).map_err(|error| LedgerError::file(&path, error))?;
    let at = forged.len() / 2;
    forged[at] ^= 1;
    let forged_path = settings.folder.join("forged.ledger");
    std::fs::write(&forged_path, &forged).map_err(|error| LedgerError::file(&forged_path, error))?;
    match verify_file(&forged_path) {
        Err(error) => println!("A copy with one bit flipped is refused: {error}"),
        Ok(_) => return Err(LedgerError::Untrusted("a forged file was verified".into())),
    }
    Ok(())
}
