//! Checkpoints, and recovery by executing blocks again: every class, in all products; what is damaged or was changed is found
//! and passed over; what a stop leaves. Each test starts its own PostgreSQL, MariaDB and AnKerDB.

mod products;
mod smallbank;

use ankerdb_ledger::bytes::{CanonicalReader, CanonicalWriter};
use ankerdb_ledger::change::RowChange;
use ankerdb_ledger::checkpoint::{CHECKPOINTS_KEPT, MadeCheckpoint, checkpoint_folder, find_checkpoints};
use ankerdb_ledger::definition::SharedTable;
use ankerdb_ledger::demo::DemoNetwork;
use ankerdb_ledger::error::{LedgerError, LedgerResult};
use ankerdb_ledger::fingerprint::Fingerprint;
use ankerdb_ledger::hash::LedgerHash;
use ankerdb_ledger::member::connection::{MariaDbConnection, PostgresConnection, SqlConnection};
use ankerdb_ledger::member::{Member, RowSource, RowVisitor};
use ankerdb_ledger::recovery::{RecoveryClass, RecoveryReport};
use ankerdb_ledger::smallbank::SmallbankClient;
use ankerdb_ledger::statement::PortableStatement;
use ankerdb_ledger::value::{Content, LedgerValue, decode_row, encode_row, row_hash};
use ankerdb_ledger::verify::visit_blocks;
use products::TestFolder;
use smallbank::{SMALLBANK, Smallbank, assert_equal_members};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const USERS: u64 = 60;
const BLOCK: usize = 60;
const BLOCKS_PER_CHECKPOINT: u64 = 2;

/// A table with every type and NULLs, beside Smallbank's.
const GOODS: &str = "CREATE SHARED TABLE goods (id integer, part varchar(8), is_sold boolean, weight numeric(12, 3), \
     note text, picture bytea, made date, sold_at timestamp, count smallint, PRIMARY KEY (part, id))";

/// A loaded Smallbank with rows of all types beside it, and a checkpoint every two blocks; or nothing if a product is missing.
fn smallbank_and_goods(folder: &TestFolder, recovery: RecoveryClass) -> Option<DemoNetwork> {
    let checkpoint_blocks = BLOCKS_PER_CHECKPOINT;
    let mut demo = Smallbank { users: USERS, recovery, checkpoint_blocks, ..SMALLBANK }.start(folder)?;
    let goods = demo.client.propose(&[(GOODS, &[])]);
    demo.network.commit_block(vec![goods]).expect("a quorum");
    let picture =
        [LedgerValue::Bytes(vec![0, 39, 92, 255]), LedgerValue::Text("it's \\ \u{e4}\n\"x\"".into())];
    let rows = "INSERT INTO goods (id, part, is_sold, weight, note, picture, made, sold_at, count) VALUES \
        (1, 'a', true, 12.5, $2, $1, '2026-01-31', '2026-01-31 23:59:59.000001', -3), \
        (2, 'a', false, -0.001, '', $1, '0001-01-01', '2026-01-31 00:00:00', 0), \
        (1, 'b', NULL, NULL, NULL, NULL, NULL, NULL, NULL)";
    let rows = demo.client.propose(&[(rows, &picture)]);
    demo.network.commit_block(vec![rows]).expect("a quorum");
    wait_for_checkpoints(&mut demo);
    Some(demo)
}

/// Waits for the checkpoints that are being written, and says what they have come to, by organization.
fn wait_for_checkpoints(demo: &mut DemoNetwork) -> Vec<Vec<LedgerResult<MadeCheckpoint>>> {
    let ended = |organization: &mut ankerdb_ledger::organization::Organization| {
        let checkpoints = organization.checkpoints().expect("checkpoints");
        checkpoints.wait();
        std::iter::from_fn(|| checkpoints.ended()).collect()
    };
    demo.network.organizations.iter_mut().map(ended).collect()
}

/// Commits blocks of Smallbank, waiting for the checkpoint of each.
fn run_blocks(demo: &mut DemoNetwork, count: usize) {
    for _ in 0..count {
        let batch = demo.client.batch(BLOCK);
        assert_eq!(demo.network.commit_block(batch).expect("a quorum").consenting.len(), 3);
        wait_for_checkpoints(demo);
    }
}

fn checkpoints_of(demo: &DemoNetwork, at: usize) -> Vec<(u64, PathBuf)> {
    find_checkpoints(&checkpoint_folder(demo.network.organizations[at].path()))
}

fn recover(demo: &mut DemoNetwork, at: usize, class: RecoveryClass) -> RecoveryReport {
    demo.network.recovery = class;
    let recovered = demo.network.recover(at, &[0, 1, 2]).expect("a recovery");
    recovered.unwrap_or_else(|error| panic!("{class} of {at}: {error}"))
}

/// Changes rows of several tables behind the ledger's back, so that a vote and an audit would find it.
fn corrupt(demo: &mut DemoNetwork, at: usize) {
    for sql in [
        "UPDATE savings SET balance = balance + 7 WHERE customer < 20",
        "DELETE FROM checking WHERE customer = 3",
        "INSERT INTO checking (customer, balance) VALUES (100000, 1)",
        "UPDATE goods SET note = 'other', count = 1 WHERE id = 1",
    ] {
        demo.tamper(at, sql, false).expect("tampering");
    }
    let found = demo.network.organizations[at].audit().expect("tables");
    assert_eq!(found, ["checking", "goods", "savings"]);
}

#[test]
fn each_class_brings_a_corrupted_member_to_the_state_of_the_others_in_every_product() {
    let folder = TestFolder::new("classes");
    let Some(mut demo) = smallbank_and_goods(&folder, RecoveryClass::None) else { return };
    run_blocks(&mut demo, 4);
    let (height, newest) = (demo.network.height(), 8);
    assert_eq!(height, 9);
    for at in 0..3 {
        for class in RecoveryClass::ALL.into_iter().filter(|class| *class != RecoveryClass::None) {
            corrupt(&mut demo, at);
            let report = recover(&mut demo, at, class);
            let (checkpoint, replayed) = match (class.is_replay(), class.is_partial()) {
                (false, _) => (None, 0),
                (_, false) => (None, height),
                (_, true) => (Some(newest), height - newest),
            };
            assert_eq!((report.checkpoint, report.replayed), (checkpoint, replayed), "{class}: {report:?}");
            assert_eq!(report.passed_over, Vec::<String>::new());
            assert_eq!(report.statements > 0, class.is_optimized(), "{class}: {report:?}");
            if class.is_optimized() {
                assert!(report.connections > 1, "{class}: {report:?}");
            }
            assert_equal_members(&mut demo);
        }
    }
    // What they have been given by the last one works: digests, constraints, the next checkpoint.
    run_blocks(&mut demo, 2);
    assert_equal_members(&mut demo);
    assert_eq!(checkpoints_of(&demo, 0)[0].0, 10);
}

#[test]
fn a_member_that_was_outvoted_comes_back_from_its_checkpoint_and_takes_over_the_block() {
    let folder = TestFolder::new("outvoted");
    let Some(mut demo) = smallbank_and_goods(&folder, RecoveryClass::PartialReplay) else { return };
    for (at, class) in [
        (0, RecoveryClass::PartialReplay),
        (1, RecoveryClass::OptimizedPartialReplay),
        (2, RecoveryClass::OptimizedFullReplay),
    ] {
        demo.network.recovery = class;
        demo.tamper(at, "UPDATE savings SET balance = balance + 5 WHERE customer = 8", false)
            .expect("tampering");
        let update = "UPDATE savings SET balance = balance + 1 WHERE customer = 8";
        let proposal = demo.client.propose(&[(update, &[])]);
        let report = demo.network.commit_block(vec![proposal]).expect("a quorum");
        let [outvoted] = &report.outvoted[..] else { panic!("{report:?}") };
        let recovered = outvoted.recovery.clone().expect("a recovery").expect("that succeeds");
        assert_eq!((recovered.adopted, recovered.checkpoint.is_some()), (1, class.is_partial()), "{class}");
        assert_equal_members(&mut demo);
        run_blocks(&mut demo, 1);
    }
}

#[test]
fn three_checkpoints_are_kept_and_what_a_stop_leaves_of_another_one_is_harmless() {
    let folder = TestFolder::new("kept");
    let Some(mut demo) = smallbank_and_goods(&folder, RecoveryClass::PartialReplay) else { return };
    run_blocks(&mut demo, 6);
    for at in 0..3 {
        let heights: Vec<u64> = checkpoints_of(&demo, at).into_iter().map(|(height, _)| height).collect();
        assert_eq!(heights.len(), CHECKPOINTS_KEPT);
        assert_eq!(heights, [10, 8, 6]);
        let own = checkpoint_folder(demo.network.organizations[at].path());
        let (written, whole) = (own.join("000000000012.checkpoint.new"), own.join("000000000010.checkpoint"));
        let mut begun = std::fs::read(&whole).expect("a checkpoint");
        begun.truncate(begun.len() / 2);
        std::fs::write(&written, begun).expect("half a checkpoint");
        // Without a start it is not taken for one, and with one it goes.
        corrupt(&mut demo, at);
        assert_eq!(recover(&mut demo, at, RecoveryClass::PartialReplay).checkpoint, Some(10));
        assert!(written.exists());
        demo.reopen(at).expect("an organization");
        assert!(!written.exists());
        corrupt(&mut demo, at);
        // The chain up to the checkpoint is of the file now.
        assert_eq!(recover(&mut demo, at, RecoveryClass::PartialReplay).checkpoint, Some(10));
        assert_equal_members(&mut demo);
    }
    run_blocks(&mut demo, 1);
    assert_eq!(demo.network.height(), 12);
    for at in 0..3 {
        assert_eq!(checkpoints_of(&demo, at)[0].0, 12);
    }
}

/// What holds a table in each product, so that a checkpoint waits for it, and lets it go.
fn table_lock(product: &str) -> [&'static str; 2] {
    match product {
        "MariaDB" => ["LOCK TABLES goods WRITE", "UNLOCK TABLES"],
        _ => ["BEGIN; LOCK TABLE goods IN ACCESS EXCLUSIVE MODE", "ROLLBACK"],
    }
}

#[test]
fn blocks_go_on_while_a_checkpoint_is_written_and_it_has_the_rows_of_the_block_that_it_began_after() {
    let folder = TestFolder::new("meanwhile");
    let Some(mut demo) = smallbank_and_goods(&folder, RecoveryClass::PartialReplay) else { return };
    run_blocks(&mut demo, 1);
    for at in 0..3 {
        let product = demo.servers[at].name();
        let mut holder: Box<dyn SqlConnection> = match product {
            "MariaDB" => Box::new(MariaDbConnection::open(&demo.servers[at].address).expect("a connection")),
            _ => Box::new(PostgresConnection::open(&demo.servers[at].address).expect("a connection")),
        };
        let [hold, release] = table_lock(product);
        holder.run(hold).expect("a lock");
        let height = demo.network.height() / 2 * 2 + 2;
        let definition =
            demo.client.propose(&[(&format!("CREATE SHARED TABLE after{at} (id bigint PRIMARY KEY)"), &[])]);
        while demo.network.height() < height + 1 {
            let batch = demo.client.batch(BLOCK);
            assert_eq!(demo.network.commit_block(batch).expect("a quorum").consenting.len(), 3, "{product}");
        }
        // Of goods it has no row yet, and of savings, the next table, neither; both have changed when it reads them.
        assert!(
            !checkpoints_of(&demo, at).iter().any(|(other, _)| *other == height),
            "{product} did not wait"
        );
        demo.network.commit_block(vec![definition]).expect("a quorum");
        let left_out = demo.network.organizations[at].checkpoints().expect("checkpoints").ended();
        let left_out = left_out.expect("an end").expect_err("two at once").to_string();
        assert_eq!(
            left_out,
            format!("block {} gets no checkpoint: that of block {height} is not done", height + 2)
        );
        holder.run(release).expect("the lock is gone");
        let ended = wait_for_checkpoints(&mut demo).swap_remove(at);
        let [Ok(made)] = &ended[..] else { panic!("{product}: {ended:?}") };
        assert_eq!((made.height, made.size.rows), (height, 2 * USERS + 3), "{product}");
        corrupt(&mut demo, at);
        let report = recover(&mut demo, at, RecoveryClass::PartialReplay);
        assert_eq!((report.checkpoint, report.replayed), (Some(height), 2), "{product}: {report:?}");
        assert_equal_members(&mut demo);
    }
}

/// The records of a checkpoint: kinds and payloads behind its header.
fn records(bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let (mut at, mut found) = (CHECKPOINT_HEADER, Vec::new());
    while at < bytes.len() {
        let length = u32::from_be_bytes(bytes[at + 4..at + 8].try_into().expect("four bytes")) as usize;
        found.push((bytes[at], bytes[at + 16..at + 16 + length].to_vec()));
        at += 16 + length;
    }
    found
}

const CHECKPOINT_HEADER: usize = 120;

/// Writes a checkpoint with all checksums right.
fn write_records(header: &[u8], records: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = header.to_vec();
    for (kind, payload) in records {
        let mut start = CanonicalWriter::default();
        start.byte(*kind).fixed(&[0; 3]).count(payload.len()).u32(crc32c::crc32c(payload));
        let start = start.finish();
        let sum = crc32c::crc32c_append(crc32c::crc32c(&start), &(bytes.len() as u64).to_be_bytes());
        let sum = crc32c::crc32c_append(sum, &header[12..44]);
        bytes.extend([&start[..], &sum.to_be_bytes(), payload].concat());
    }
    bytes
}

/// Gives the first customer of a checkpoint, whose checksums stay right, another balance; and the table the fingerprint that
/// it has then, or not.
fn forge(path: &Path, has_fingerprint: bool) {
    let bytes = std::fs::read(path).expect("a checkpoint");
    let mut records = records(&bytes);
    let savings = CanonicalWriter::default().bytes(b"savings").finish();
    let at =
        records.iter().position(|(kind, name)| *kind == 1 && name.starts_with(&savings)).expect("savings");
    let mut reader = CanonicalReader::new(&records[at + 1].1, "rows");
    let mut rows: Vec<Vec<Content>> = Vec::new();
    for _ in 0..reader.count().expect("a number") {
        rows.push(decode_row(reader.bytes().expect("a row"), 2).expect("two columns"));
    }
    assert_eq!((rows.len() as u64, records[at + 2].0), (USERS, 3), "all rows are in one record");
    rows[0][1] = Some(b"1".to_vec());
    let (mut writer, mut fingerprint) = (CanonicalWriter::default(), Fingerprint::default());
    writer.count(rows.len());
    for row in &rows {
        writer.bytes(&encode_row(row));
        fingerprint.add(&row_hash(row));
    }
    records[at + 1].1 = writer.finish();
    if has_fingerprint {
        records[at + 2].1 = writer.u64(USERS).fixed(&fingerprint.hash().0).finish();
    }
    std::fs::write(path, write_records(&bytes[..CHECKPOINT_HEADER], &records)).expect("it is written");
}

#[test]
fn a_checkpoint_that_is_damaged_or_was_changed_is_named_and_the_next_older_one_is_taken() {
    let folder = TestFolder::new("damaged");
    let Some(mut demo) = smallbank_and_goods(&folder, RecoveryClass::PartialReplay) else { return };
    run_blocks(&mut demo, 6);
    let height = demo.network.height();
    for at in 0..3 {
        let paths: Vec<PathBuf> = checkpoints_of(&demo, at).into_iter().map(|(_, path)| path).collect();
        // What records() and write_records() make of it is the file.
        let whole = std::fs::read(&paths[0]).expect("a checkpoint");
        assert_eq!(write_records(&whole[..CHECKPOINT_HEADER], &records(&whole)), whole);
        // One that another organization has made does as well: the ledger vouches for it.
        let other = &checkpoints_of(&demo, (at + 1) % 3)[0];
        std::fs::copy(&other.1, &paths[0]).expect("a copy");
        let mut passed_over = Vec::new();
        let expected =
            [(Some(10), None), (Some(8), Some("a record is damaged")), (Some(6), Some("fingerprint"))];
        let expected = expected.into_iter().chain([(None, Some("and block 6 certifies"))]);
        for (step, (checkpoint, reason)) in expected.enumerate() {
            match step {
                1 => {
                    let mut damaged = std::fs::read(&paths[0]).expect("a checkpoint");
                    let middle = damaged.len() / 2;
                    damaged[middle] ^= 1;
                    std::fs::write(&paths[0], damaged).expect("it is written");
                }
                2 => forge(&paths[1], false),
                3 => forge(&paths[2], true),
                _ => {}
            }
            passed_over.extend(reason);
            corrupt(&mut demo, at);
            let class = [RecoveryClass::PartialReplay, RecoveryClass::OptimizedPartialReplay][step % 2];
            let report = recover(&mut demo, at, class);
            assert_eq!((report.checkpoint, report.passed_over.len()), (checkpoint, step), "{report:?}");
            assert_eq!(report.replayed, height - checkpoint.unwrap_or_default());
            for (line, (reason, height)) in report.passed_over.iter().zip(passed_over.iter().zip([10, 8, 6]))
            {
                let name = format!("the checkpoint of block {height} did not do: ");
                assert!(line.starts_with(&name) && line.contains(reason), "{line}: {reason}");
            }
            assert_equal_members(&mut demo);
        }
        // Those of block 10 of another network, cut, or with something behind them.
        for (bytes, reason) in [
            (whole[..whole.len() - 40].to_vec(), "ends too early"),
            ([&whole[..], b"x"].concat(), "something follows"),
            ([&whole[..20], b"another", &whole[27..]].concat(), "not those of block 10"),
            (whole[..50].to_vec(), "too short"),
        ] {
            std::fs::write(&paths[0], bytes).expect("it is written");
            corrupt(&mut demo, at);
            let report = recover(&mut demo, at, RecoveryClass::OptimizedPartialReplay);
            assert!(report.passed_over[0].contains(reason), "{:?}: {reason}", report.passed_over);
        }
        std::fs::write(&paths[0], whole).expect("it is written");
        assert_equal_members(&mut demo);
    }
}

#[test]
fn no_checkpoint_is_made_of_tables_that_are_not_what_their_block_certifies() {
    let folder = TestFolder::new("uncertified");
    let Some(mut demo) = smallbank_and_goods(&folder, RecoveryClass::FromState) else { return };
    run_blocks(&mut demo, 2);
    for at in 0..3 {
        // No block touches it, so none of the votes is about it.
        demo.tamper(at, "DELETE FROM goods WHERE part = 'b'", false).expect("tampering");
        let mut ended = Vec::new();
        for _ in 0..2 {
            let batch = demo.client.batch(5);
            demo.network.commit_block(batch).expect("a quorum");
            ended.extend(wait_for_checkpoints(&mut demo).swap_remove(at));
        }
        let [Err(error)] = &ended[..] else { panic!("{ended:?}") };
        let height = demo.network.height() / 2 * 2;
        assert!(
            error.to_string().ends_with(&format!("block {height} certifies {}", state_of(&demo, height))),
            "{error}"
        );
        assert!(checkpoints_of(&demo, at)[0].0 < height);
        assert_eq!(checkpoints_of(&demo, (at + 1) % 3)[0].0, height);
        let own = checkpoint_folder(demo.network.organizations[at].path());
        assert_eq!(
            std::fs::read_dir(own).expect("a folder").count(),
            CHECKPOINTS_KEPT,
            "a part of it is left"
        );
        recover(&mut demo, at, RecoveryClass::FromState);
        assert_equal_members(&mut demo);
    }
}

/// The first digits of the state that a block certifies.
fn state_of(demo: &DemoNetwork, height: u64) -> String {
    let mut found = String::new();
    let path = demo.network.organizations[0].path();
    let blocks = visit_blocks(path, height - 1, &mut |(block, _)| {
        if block.header.height == height {
            found = block.header.state.short();
        }
        Ok(())
    });
    blocks.expect("blocks");
    found
}

/// Stops at a commit.
struct StopsAtCommit {
    member: Box<dyn Member>,
    commits_left: usize,
}

impl RowSource for StopsAtCommit {
    fn read(&mut self, table: &SharedTable, keys: &[Vec<u8>]) -> LedgerResult<Vec<Vec<Content>>> {
        self.member.read(table, keys)
    }
    fn visit_rows(&mut self, table: &SharedTable, show: &mut RowVisitor<'_>) -> LedgerResult<()> {
        self.member.visit_rows(table, show)
    }
}

impl Member for StopsAtCommit {
    fn system(&self) -> &str {
        self.member.system()
    }
    fn create_table(&mut self, table: &SharedTable) -> LedgerResult<()> {
        self.member.create_table(table)
    }
    fn begin(&mut self) -> LedgerResult<()> {
        self.member.begin()
    }
    fn execute(
        &mut self,
        statements: &[PortableStatement],
        tables: &BTreeMap<String, SharedTable>,
    ) -> LedgerResult<Option<String>> {
        self.member.execute(statements, tables)
    }
    fn finished(&mut self, height: u64) -> LedgerResult<BTreeSet<usize>> {
        self.member.finished(height)
    }
    fn take_changes(&mut self) -> LedgerResult<Vec<RowChange>> {
        self.member.take_changes()
    }
    fn commit(&mut self, height: u64) -> LedgerResult<()> {
        if self.commits_left == 0 {
            return Err(LedgerError::Database { member: self.system().into(), message: "stopped".into() });
        }
        self.commits_left -= 1;
        self.member.commit(height)
    }
    fn rollback(&mut self) -> LedgerResult<()> {
        self.member.rollback()
    }
    fn height(&mut self) -> LedgerResult<u64> {
        self.member.height()
    }
    fn scan(&mut self, table: &SharedTable) -> LedgerResult<Vec<(Vec<u8>, LedgerHash)>> {
        self.member.scan(table)
    }
    fn repair(&mut self, table: &SharedTable, keys: &[Vec<u8>], rows: &[Vec<Content>]) -> LedgerResult<()> {
        self.member.repair(table, keys, rows)
    }
}

#[test]
fn a_replay_that_stops_at_any_commit_is_made_up_when_the_organization_starts() {
    let folder = TestFolder::new("stopped-replay");
    let Some(mut demo) = smallbank_and_goods(&folder, RecoveryClass::None) else { return };
    run_blocks(&mut demo, 4);
    for at in 0..3 {
        for class in RecoveryClass::ALL.into_iter().filter(|class| class.is_replay()) {
            let mut stops = 0;
            loop {
                let stopping =
                    |member| Box::new(StopsAtCommit { member, commits_left: stops }) as Box<dyn Member>;
                demo.reopen_with(at, stopping).expect("an organization");
                corrupt(&mut demo, at);
                demo.network.recovery = class;
                let done = demo.network.recover(at, &[(at + 1) % 3]).expect("a recovery");
                match done {
                    Ok(_) => break,
                    Err(error) => assert!(error.to_string().contains("stopped"), "{class}: {error}"),
                }
                demo.reopen(at).expect("an organization");
                let suspects = &demo.network.organizations[at].suspects;
                // Before its first commit the replay has changed nothing.
                assert_eq!(suspects.is_empty(), stops > 0, "{class}, after {stops} commits: {suspects:?}");
                if stops == 0 {
                    recover(&mut demo, at, RecoveryClass::FromState);
                }
                assert_equal_members(&mut demo);
                stops += 1;
            }
            assert!(stops >= 3, "{class}: {stops}");
            assert_equal_members(&mut demo);
        }
    }
}

/// Statements on few keys, many of which overwrite what others have written.
struct Overwriting {
    random: fastrand::Rng,
    table: String,
}

impl Overwriting {
    fn statement(&mut self) -> String {
        let (random, table) = (&mut self.random, &self.table);
        let (id, other, value) = (random.u32(0..12), random.u32(0..12), random.i32(-5..100));
        let part = ["a", "b"][random.usize(0..2)];
        let key = format!("part = '{part}' AND id = {id}");
        match random.u8(0..24) {
            0..3 => format!(
                "INSERT INTO {table} (id, part, amount, price) VALUES ({id}, '{part}', {value}, {other})"
            ),
            3 => format!(
                "INSERT INTO {table} (id, part, amount) VALUES ({id}, '{part}', {value}), ({other}, '{part}', {value})"
            ),
            4..6 => format!("DELETE FROM {table} WHERE {key}"),
            6 => format!("UPDATE {table} SET seen = coalesce(seen, 0) + 1 WHERE {key} AND price < {value}"),
            7..11 => format!("UPDATE {table} SET amount = {value}, price = {other}, note = 'x' WHERE {key}"),
            11..14 => format!("UPDATE {table} SET amount = {value} WHERE {key}"),
            14 => format!("UPDATE {table} SET price = amount, note = NULL WHERE {key}"),
            15 => format!("UPDATE {table} SET amount = amount + {value} WHERE {key}"),
            16 => format!("UPDATE {table} SET amount = {value} WHERE {key} AND price > {other}"),
            17 => format!("DELETE FROM {table} WHERE {key} AND amount < {value}"),
            18 => {
                format!("UPDATE {table} SET price = {value} WHERE part = '{part}' AND id IN ({id}, {other})")
            }
            // What these have read shows as long as the row is there.
            19 => format!(
                "UPDATE {table} SET seen = coalesce(seen, 0) + 1 WHERE (part, id) IN (('a', {id}), ('b', {other})) \
                 AND amount > {value}"
            ),
            20 if other < 6 => {
                format!("UPDATE {table} SET seen = coalesce(seen, 0) + 1 WHERE amount > {value}")
            }
            21 if other < 3 => format!("DELETE FROM {table} WHERE id BETWEEN {id} AND {}", id + 2),
            _ => format!("UPDATE {table} SET amount = {value}, price = {value} + 1 WHERE {key}"),
        }
    }

    fn block(&mut self, client: &mut SmallbankClient) -> Vec<Vec<u8>> {
        let mut proposals = Vec::new();
        for _ in 0..BLOCK {
            let count = [1, 1, 1, 2, 3][self.random.usize(0..5)];
            let statements: Vec<String> = (0..count).map(|_| self.statement()).collect();
            let statements: Vec<(&str, &[LedgerValue])> =
                statements.iter().map(|sql| (sql.as_str(), &[][..])).collect();
            proposals.push(client.propose(&statements));
        }
        proposals
    }
}

/// Random histories; more with LEDGER_HISTORIES.
fn histories() -> u64 {
    std::env::var("LEDGER_HISTORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(4)
}

#[test]
fn optimized_replays_of_random_blocks_give_the_state_of_plain_ones_with_fewer_statements() {
    let folder = TestFolder::new("random");
    let Some(mut demo) = smallbank_and_goods(&folder, RecoveryClass::None) else { return };
    for history in 0..histories() {
        let definition = "(id integer, part varchar(4), amount integer CHECK (amount >= 0), price integer, note text, \
             seen integer, PRIMARY KEY (part, id))";
        // Each history has its table; those before it stay as they are.
        let table = format!("stock{history}");
        let define = demo.client.propose(&[(&format!("CREATE SHARED TABLE {table} {definition}"), &[])]);
        let mut random = Overwriting { random: fastrand::Rng::with_seed(history), table };
        demo.network.commit_block(vec![define]).expect("a quorum");
        let mut succeeded = 0;
        for _ in 0..3 {
            let block = random.block(&mut demo.client);
            let report = demo.network.commit_block(block).expect("a quorum");
            assert_eq!(report.consenting.len(), 3, "{report:?}");
            succeeded += report.succeeded;
            wait_for_checkpoints(&mut demo);
        }
        assert!(succeeded > BLOCK && succeeded < 3 * BLOCK, "{succeeded} of {}", 3 * BLOCK);
        let at = (history % 3) as usize;
        for class in [
            RecoveryClass::OptimizedFullReplay,
            RecoveryClass::FullReplay,
            RecoveryClass::OptimizedPartialReplay,
            RecoveryClass::PartialReplay,
        ] {
            corrupt(&mut demo, at);
            let report = recover(&mut demo, at, class);
            assert_eq!(report.passed_over, Vec::<String>::new(), "{class} of history {history}");
            if class == RecoveryClass::OptimizedFullReplay {
                let (dropped, statements) = (report.dropped, report.statements);
                println!("history {history}: {dropped} of {statements} statements left out");
                assert!(dropped * 10 > statements, "only {dropped} of {statements} were left out");
            }
            assert_equal_members(&mut demo);
        }
    }
}
