//! Blocks over several connections: equal to one connection's work, in all products; what happens if a part waits, if the
//! analysis is off, and if something is killed between the commits of parts.

mod products;
mod smallbank;

use ankerdb_ledger::access::LockReach;
use ankerdb_ledger::change::{RowChange, in_digest_order};
use ankerdb_ledger::definition::SharedTable;
use ankerdb_ledger::demo::DemoNetwork;
use ankerdb_ledger::error::{LedgerError, LedgerResult};
use ankerdb_ledger::hash::LedgerHash;
use ankerdb_ledger::member::address::part_opener;
use ankerdb_ledger::member::connection::{MariaDbConnection, PostgresConnection, SqlConnection};
use ankerdb_ledger::member::parallel::ParallelMember;
use ankerdb_ledger::member::{BlockExecution, Member, PartConnection};
use ankerdb_ledger::schedule::{BlockDivision, PlacedTransaction, divide_block};
use ankerdb_ledger::server::PrivateServer;
use ankerdb_ledger::statement::PortableStatement;
use products::{TestFolder, products, servers};
use smallbank::{SMALLBANK, Smallbank, assert_equal_members};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const DEFINITIONS: [&str; 2] = [
    "CREATE SHARED TABLE item (id bigint, part varchar(8), region integer NOT NULL, amount bigint NOT NULL CHECK (amount >= 0), \
     note text, PRIMARY KEY (part, id))",
    "CREATE SHARED TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0))",
];

/// Random blocks for each product; more with LEDGER_BLOCKS.
fn blocks() -> u64 {
    std::env::var("LEDGER_BLOCKS").ok().and_then(|blocks| blocks.parse().ok()).unwrap_or(20)
}

fn tables() -> BTreeMap<String, SharedTable> {
    let parse = |sql: &str| SharedTable::parse(sql).expect("a definition");
    DEFINITIONS.map(parse).into_iter().map(|table| (table.name.clone(), table)).collect()
}

fn statement(sql: &str) -> PortableStatement {
    PortableStatement::parse(sql, &[], &tables()).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Keys of a table, of which few are used at a time so that transactions meet.
const KEYS: i64 = 300;

struct RandomBlocks {
    random: fastrand::Rng,
    /// One of so many statements is about an interval.
    intervals: u32,
}

impl RandomBlocks {
    fn key(&mut self) -> String {
        let part = ["a", "b"][self.random.usize(0..2)];
        format!("part = '{part}' AND id = {}", self.random.i64(0..KEYS))
    }

    /// A condition that names an interval, a list, or something that cannot be analysed.
    fn interval(&mut self) -> String {
        let (low, region, amount) =
            (self.random.i64(0..KEYS), self.random.u32(0..40), self.random.i64(0..200));
        match self.random.u8(0..9) {
            0 => format!("id BETWEEN {low} AND {}", low + 3),
            1 => format!("part = 'a' AND id > {low} AND id <= {}", low + 5),
            2 => format!("id IN ({low}, {}, {}) AND part = 'b'", low + 1, low + 7),
            3 => format!("region = {region}"),
            4 => format!("region = {region} AND amount > {amount}"),
            5 => format!("(part, id) IN (('a', {low}), ('b', {}))", low + 2),
            6 => format!("part = 'b' AND (id = {low} OR id = {})", low + 9),
            7 => format!("id >= {} AND NOT (region = {region})", KEYS - 2),
            _ => format!("amount > {} AND region IN ({region}, {})", amount * 2, region + 1),
        }
    }

    fn statement(&mut self) -> PortableStatement {
        let (id, amount, region) =
            (self.random.i64(0..KEYS), self.random.i64(0..300), self.random.u32(0..40));
        if self.random.u8(0..3) == 0 {
            let change = if self.random.bool() { "+" } else { "-" };
            let sql = match self.random.u8(0..8) {
                0 => format!("INSERT INTO account (id, balance) VALUES ({id}, {amount})"),
                1 => format!("DELETE FROM account WHERE id = {id}"),
                _ => format!("UPDATE account SET balance = balance {change} {amount} WHERE id = {id}"),
            };
            return statement(&sql);
        }
        let is_interval = self.random.u32(0..self.intervals) == 0;
        let condition = if is_interval { self.interval() } else { self.key() };
        let part = ["a", "b"][self.random.usize(0..2)];
        statement(&match self.random.u8(0..7) {
            0 => format!(
                "INSERT INTO item (id, part, region, amount) VALUES ({id}, '{part}', {region}, {amount}), \
                 ({}, '{part}', {region}, {amount})",
                id + 1
            ),
            1 => format!("DELETE FROM item WHERE {condition}"),
            2 => format!("UPDATE item SET region = region + 1, note = 'moved' WHERE {condition}"),
            3 => format!("UPDATE item SET region = {region} WHERE {condition}"),
            4 => format!("UPDATE item SET amount = amount - {amount} WHERE {condition}"),
            _ => format!("UPDATE item SET amount = amount + {amount} WHERE {condition}"),
        })
    }

    fn block(&mut self, size: usize) -> Vec<Vec<PortableStatement>> {
        let count = |random: &mut fastrand::Rng| [1, 1, 1, 2, 3][random.usize(0..5)];
        (0..size)
            .map(|_| {
                let count = count(&mut self.random);
                (0..count).map(|_| self.statement()).collect()
            })
            .collect()
    }
}

fn load() -> Vec<Vec<PortableStatement>> {
    let item = |id: i64| format!("({id}, 'a', {}, 100), ({id}, 'b', {}, 50)", id % 40, (id + 7) % 40);
    let items: Vec<String> = (0..KEYS).filter(|id| id % 3 != 0).map(item).collect();
    let accounts: Vec<String> = (0..KEYS).filter(|id| id % 4 != 0).map(|id| format!("({id}, 500)")).collect();
    vec![
        vec![statement(&format!("INSERT INTO item (id, part, region, amount) VALUES {}", items.join(", ")))],
        vec![statement(&format!("INSERT INTO account (id, balance) VALUES {}", accounts.join(", ")))],
    ]
}

fn placed(block: &[Vec<PortableStatement>]) -> Vec<PlacedTransaction<'_>> {
    block.iter().enumerate().map(|(place, statements)| PlacedTransaction { place, statements }).collect()
}

/// Executes and commits a block. What it has changed, in the digest's order, and how it was executed.
fn run(
    member: &mut dyn Member,
    block: &[Vec<PortableStatement>],
    height: u64,
    is_spread: bool,
) -> (Vec<RowChange>, BlockExecution) {
    member.begin().expect("a block");
    let execution = member.execute_block(&placed(block), &tables(), is_spread).expect("a database");
    let changes = in_digest_order(member.take_changes().expect("digests"));
    member.commit(height).expect("a commit");
    (changes, execution)
}

type TableRows = Vec<(Vec<u8>, LedgerHash)>;

fn rows(member: &mut dyn Member) -> Vec<TableRows> {
    let scan = |table: &SharedTable| {
        let mut rows = member.scan(table).expect("rows");
        rows.sort();
        rows
    };
    tables().values().map(scan).collect()
}

/// Two databases of one product: one that executes on one connection, one that does on several.
struct Pair {
    serial: Box<dyn Member>,
    parallel: ParallelMember,
    height: u64,
    // Last, so that connections end first.
    servers: [PrivateServer; 2],
}

impl Pair {
    fn start(product: &ankerdb_ledger::server::Product, divide: BlockDivision) -> Pair {
        let servers = [(); 2].map(|()| PrivateServer::start(product).expect("a server"));
        let serial = servers[0].member().expect("a member");
        let main = servers[1].member().expect("a member");
        let opener = part_opener(&servers[1].name().to_lowercase(), &servers[1].address);
        let parallel = ParallelMember::with_division(main, opener, 4, divide);
        Pair { serial, parallel, height: 0, servers }
    }

    /// Empty tables, filled.
    fn fill(&mut self) {
        for table in tables().values() {
            self.serial.create_table(table).expect("a table");
            self.parallel.create_table(table).expect("a table");
        }
        assert!(self.is_equal(&load()).0);
    }

    /// Executes a block on both, and says whether outcomes, digests and rows are equal.
    fn is_equal(&mut self, block: &[Vec<PortableStatement>]) -> (bool, BlockExecution) {
        self.height += 1;
        let (serial_changes, serial) = run(self.serial.as_mut(), block, self.height, false);
        let (changes, parallel) = run(&mut self.parallel, block, self.height, true);
        // The names of places of failures; databases word the reasons by the connection.
        let is_equal = serial.failures.keys().eq(parallel.failures.keys())
            && serial_changes == changes
            && rows(self.serial.as_mut()) == rows(&mut self.parallel);
        (is_equal, parallel)
    }
}

#[test]
fn random_blocks_over_several_connections_are_equal_to_the_same_over_one() {
    for product in products() {
        let mut pair = Pair::start(&product, divide_block);
        let name = pair.servers[0].name();
        pair.fill();
        let mut random = RandomBlocks { random: fastrand::Rng::with_seed(7), intervals: 40 };
        let (mut spread, mut failed, mut transactions) = (0, 0, 0);
        for at in 0..blocks() {
            // Every third one is of statements on intervals mostly.
            random.intervals = if at % 3 == 2 { 4 } else { 60 };
            let size = random.random.usize(32..200);
            let block = random.block(size);
            let (is_equal, execution) = pair.is_equal(&block);
            assert!(is_equal, "{name}, block {at}");
            assert_eq!(execution.serial_because, None, "{name}, block {at}");
            spread += u64::from(execution.connections > 1);
            failed += execution.failures.len();
            transactions += block.len();
        }
        println!("{name}: {spread} of {} blocks spread, {failed} of {transactions} failed", blocks());
        assert!(spread * 3 >= blocks(), "{name}: only {spread} blocks were spread");
        assert!(failed * 20 > transactions, "{name}: only {failed} have failed");
    }
}

/// One transaction after the other to the next connection, whatever it is about.
fn without_analysis(
    transactions: &[PlacedTransaction<'_>],
    _tables: &BTreeMap<String, SharedTable>,
    _reach: LockReach,
    connections: usize,
) -> Vec<Vec<usize>> {
    (0..connections).map(|part| (part..transactions.len()).step_by(connections).collect()).collect()
}

#[test]
fn without_the_analysis_blocks_wait_or_have_other_effects() {
    for product in products() {
        let mut pair = Pair::start(&product, without_analysis);
        let name = pair.servers[0].name();
        let mut random = RandomBlocks { random: fastrand::Rng::with_seed(8), intervals: 2 };
        let (mut waited, mut differed) = (0, 0);
        for _ in 0..24 {
            pair.fill();
            let (is_equal, execution) = pair.is_equal(&random.block(12));
            waited += u64::from(execution.serial_because.is_some());
            // What has fallen back has the effects of one connection.
            assert!(is_equal || execution.serial_because.is_none(), "{name}: {execution:?}");
            differed += u64::from(!is_equal);
        }
        println!("{name}: {waited} of 24 blocks waited, {differed} had other effects");
        assert!(waited > 0, "{name}");
        // A database that locks what it scans finds the rest by waiting.
        assert!(differed > 0 || name == "MariaDB", "{name}");
    }
}

#[test]
fn a_part_that_waits_for_somebody_else_ends_all_parts_and_one_connection_executes_the_block() {
    for server in servers() {
        let name = server.name();
        let opener = part_opener(&name.to_lowercase(), &server.address);
        let mut member = ParallelMember::new(server.member().expect("a member"), opener, 3);
        tables().values().for_each(|table| member.create_table(table).expect("a table"));
        run(&mut member, &load(), 1, true);
        let update = |id: i64| vec![statement(&format!("UPDATE account SET balance = 7 WHERE id = {id}"))];
        let block: Vec<_> = (1..KEYS).filter(|id| id % 4 != 0).map(update).collect();
        let mut other: Box<dyn SqlConnection> = match name {
            "MariaDB" => Box::new(MariaDbConnection::open(&server.address).expect("a connection")),
            _ => Box::new(PostgresConnection::open(&server.address).expect("a connection")),
        };
        other.run("BEGIN; SELECT balance FROM account WHERE id = 41 FOR UPDATE").expect("a lock");
        let ending = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(2_500));
            other.run("ROLLBACK").map(drop)
        });
        let (changes, execution) = run(&mut member, &block, 2, true);
        ending.join().expect("a thread").expect("a rollback");
        println!("{name}: {execution:?}");
        assert_eq!((execution.connections, changes.len()), (1, block.len()), "{name}");
        assert!(execution.serial_because.is_some() && execution.failures.is_empty(), "{name}");
        // The next block is spread again.
        let (changes, execution) = run(&mut member, &block, 3, true);
        assert_eq!((execution.connections, changes.len()), (3, 0), "{name}: {execution:?}");
    }
}

#[test]
fn what_somebody_else_changes_during_a_spread_block_is_a_change_of_the_next_block_once() {
    // AnKerDB has no triggers: there an audit finds it.
    for server in servers().iter().filter(|server| server.name() != "AnKerDB") {
        let name = server.name();
        let other: Box<dyn SqlConnection> = match name {
            "MariaDB" => Box::new(MariaDbConnection::open(&server.address).expect("a connection")),
            _ => Box::new(PostgresConnection::open(&server.address).expect("a connection")),
        };
        let sql = Arc::new(Mutex::new((other, String::new())));
        let hooked = sql.clone();
        // Whatever is to be done, once, when a part begins to read its digests.
        let before_digests = Arc::new(move || {
            let (other, sql) = &mut *hooked.lock().expect("no panic");
            let sql = std::mem::take(sql);
            if !sql.is_empty() {
                other.run(&sql).expect("a change");
            }
        });
        let opener = part_opener(&name.to_lowercase(), &server.address);
        let open = move || -> LedgerResult<Box<dyn PartConnection>> {
            let before_digests = before_digests.clone();
            Ok(Box::new(HookedPart { part: opener()?, before_digests, stop: None }))
        };
        let mut member = ParallelMember::new(server.member().expect("a member"), Box::new(open), 3);
        tables().values().for_each(|table| member.create_table(table).expect("a table"));
        run(&mut member, &load(), 1, true);
        let update = |id: i64| vec![statement(&format!("UPDATE account SET balance = 7 WHERE id = {id}"))];
        let block: Vec<_> = (101..KEYS).filter(|id| id % 4 != 0).map(update).collect();
        sql.lock().expect("no panic").1 = "UPDATE account SET balance = 8 WHERE id = 41".to_owned();
        let (changes, execution) = run(&mut member, &block, 2, true);
        assert_eq!(execution.serial_because, None, "{name}");
        assert!(sql.lock().expect("no panic").1.is_empty(), "{name}: nothing has changed meanwhile");
        assert_eq!((execution.connections, changes.len()), (3, block.len()), "{name}");
        let (changes, execution) = run(&mut member, &block, 3, true);
        assert_eq!((execution.connections, changes.len()), (3, 1), "{name}: {changes:?}");
        let (changes, _) = run(&mut member, &block, 4, true);
        assert_eq!(changes.len(), 0, "{name}: {changes:?}");
    }
}

#[test]
fn a_statement_that_scans_a_table_waits_for_no_row_that_another_part_has_changed() {
    for product in products() {
        let mut pair = Pair::start(&product, divide_block);
        let name = pair.servers[0].name();
        pair.fill();
        // The key begins with the part, so an interval of identifiers is no range of the key: databases look at all rows.
        let update = |id: i64| {
            vec![statement(&format!("UPDATE item SET amount = amount + 1 WHERE part = 'a' AND id = {id}"))]
        };
        let scan =
            |id: i64| vec![statement(&format!("DELETE FROM item WHERE id BETWEEN {id} AND {}", id + 1))];
        let block: Vec<_> = (100..KEYS).map(update).chain((0..8).map(|at| scan(at * 4 + 1))).collect();
        let (is_equal, execution) = pair.is_equal(&block);
        println!("{name}: {execution:?}");
        assert!(is_equal, "{name}");
        assert_eq!(execution.serial_because, None, "{name}");
        assert_eq!(execution.connections > 1, name != "MariaDB", "{name}: which locks what it scans");
    }
}

/// What stops a part's commit: it waits until so many parts have committed, kills a process or not, and fails.
struct Stop {
    after: usize,
    kills: Option<u32>,
    committed: AtomicUsize,
}

/// A part to which something happens.
struct HookedPart {
    part: Box<dyn PartConnection>,
    before_digests: Arc<dyn Fn() + Send + Sync>,
    stop: Option<Arc<Stop>>,
}

impl PartConnection for HookedPart {
    fn lock_reach(&self) -> LockReach {
        self.part.lock_reach()
    }
    fn begin_part(&mut self) -> LedgerResult<()> {
        self.part.begin_part()
    }
    fn execute(
        &mut self,
        statements: &[PortableStatement],
        tables: &BTreeMap<String, SharedTable>,
    ) -> LedgerResult<Option<String>> {
        self.part.execute(statements, tables)
    }
    fn take_part_changes(&mut self) -> LedgerResult<Vec<RowChange>> {
        (self.before_digests)();
        self.part.take_part_changes()
    }
    fn commit_part(&mut self, height: u64, part: usize, places: &[usize]) -> LedgerResult<()> {
        let Some(stop) = &self.stop else { return self.part.commit_part(height, part, places) };
        if part < stop.after {
            self.part.commit_part(height, part, places)?;
            stop.committed.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while stop.committed.load(Ordering::SeqCst) < stop.after && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        if let Some(process) = stop.kills {
            let _ = Command::new("kill").args(["-KILL", &process.to_string()]).status();
        }
        Err(LedgerError::Database { member: "a part".into(), message: "stopped".into() })
    }
    fn rollback_part(&mut self) -> LedgerResult<()> {
        self.part.rollback_part()
    }
}

const USERS: u64 = 400;
const BLOCK: usize = 120;

/// Stops an organization between the commits of a block's parts, its database too or not, and opens it again.
fn stop_between_commits(demo: &mut DemoNetwork, at: usize, after: usize, is_database: bool) {
    let name = demo.servers[at].name();
    let address = demo.servers[at].address.clone();
    let kills = is_database.then(|| demo.servers[at].process_number());
    let stop = Arc::new(Stop { after, kills, committed: AtomicUsize::new(0) });
    demo.reopen_with(at, |member| {
        let (opener, stop) = (part_opener(&name.to_lowercase(), &address), stop.clone());
        let open = move || -> LedgerResult<Box<dyn PartConnection>> {
            Ok(Box::new(HookedPart {
                part: opener()?,
                before_digests: Arc::new(|| {}),
                stop: Some(stop.clone()),
            }))
        };
        Box::new(ParallelMember::new(member, Box::new(open), 3))
    })
    .expect("an organization");
    let batch = demo.client.batch(BLOCK);
    let report = demo.network.commit_block(batch).expect("a quorum");
    assert!(report.lost[0].1.to_string().contains("stopped"), "{name}: {report:?}");
    let connections: Vec<usize> = demo
        .network
        .organizations
        .iter()
        .filter_map(|organization| Some(organization.last_executed()?.connections))
        .collect();
    assert_eq!(connections, [3, 3], "the others have spread it; the stopped one has no last block");
    if is_database {
        demo.servers[at].kill_and_restart().expect("a server");
    }
    let mut member = demo.servers[at].member().expect("a member");
    let finished = member.finished(report.height).expect("parts");
    assert_eq!(member.height().expect("a height"), report.height - 1, "{name}");
    assert_eq!(finished.is_empty(), after == 0, "{name}, {after}: {finished:?}");
    assert!(after == 3 || finished.len() < BLOCK, "{name}, {after}");
    demo.reopen(at).expect("an organization");
    assert_eq!(demo.network.organizations[at].suspects, Vec::<String>::new(), "{name}, after {after}");
    assert_eq!(member.finished(report.height + 1).expect("parts").len(), 0);
    assert_eq!(member.finished(report.height).expect("parts").len(), 0, "{name}");
    assert_equal_members(demo);
    // And it goes on.
    let batch = demo.client.batch(BLOCK);
    let report = demo.network.commit_block(batch).expect("a quorum");
    assert_eq!((report.consenting.len(), report.serial), (3, Vec::new()), "{name}");
}

#[test]
fn an_organization_that_stops_between_the_commits_of_parts_has_the_whole_block_when_it_starts() {
    let folder = TestFolder::new("parts-stopped");
    let Some(mut demo) = Smallbank { users: USERS, ..SMALLBANK }.start(&folder) else { return };
    for at in 0..3 {
        for after in 0..3 {
            stop_between_commits(&mut demo, at, after, false);
        }
    }
}

#[test]
fn a_database_that_is_killed_between_the_commits_of_parts_has_the_whole_block_when_it_comes_back() {
    let folder = TestFolder::new("parts-killed");
    let Some(mut demo) = Smallbank { users: USERS, ..SMALLBANK }.start(&folder) else { return };
    for at in 0..3 {
        for after in 1..3 {
            stop_between_commits(&mut demo, at, after, true);
        }
    }
}

#[test]
fn a_file_that_has_not_the_block_of_which_a_database_has_a_part_is_not_taken_for_its_own() {
    let folder = TestFolder::new("parts-ahead");
    let Some(mut demo) = Smallbank { users: USERS, ..SMALLBANK }.start(&folder) else { return };
    let organization = &demo.network.organizations[0];
    let height = organization.chain().height;
    let mut other = PostgresConnection::open(&demo.servers[0].address).expect("a connection");
    other.run(&format!("INSERT INTO ledger_part VALUES (0, {}, '01')", height + 1)).expect("a part");
    let said = demo.reopen(0).expect_err("a part of a block that nobody has").to_string();
    assert!(said.contains("a part of the next one"), "{said}");
}
