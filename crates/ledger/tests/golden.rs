//! What is signed and hashed, byte for byte, as tests/golden/bytes.txt has it, and the file of a checkpoint, as
//! tests/golden/checkpoint.txt has it: a change of any of it is another format. LEDGER_GOLDEN=write makes these anew.

mod products;
mod trade;

use ankerdb_ledger::agreement::{Agreement, ChainedTransaction};
use ankerdb_ledger::block::{BlockHeader, SuccessBits};
use ankerdb_ledger::chain::LedgerChain;
use ankerdb_ledger::change::{RowChange, TableStates, digest_hash};
use ankerdb_ledger::checkpoint::{read_checkpoint, write_checkpoint};
use ankerdb_ledger::definition::SharedTable;
use ankerdb_ledger::error::LedgerResult;
use ankerdb_ledger::hash::{LedgerHash, hex};
use ankerdb_ledger::member::{RowSource, RowVisitor};
use ankerdb_ledger::merkle;
use ankerdb_ledger::message::{OrderedBlock, Proposal, ProposedStatement, Vote};
use ankerdb_ledger::signature::{MessageKind, signed_bytes};
use ankerdb_ledger::succession::{Dismissal, DismissalReason, Succession, TwoOrders};
use ankerdb_ledger::value::{Content, LedgerValue, encode_row, row_hash};
use products::TestFolder;
use std::collections::BTreeMap;
use std::path::Path;
use trade::{genesis, genesis_with_successors, keys};

type GoldenBytes = Vec<(&'static str, Vec<u8>)>;

fn hash(byte: u8) -> LedgerHash {
    LedgerHash([byte; 32])
}

fn text(text: &str) -> Content {
    Some(text.as_bytes().to_vec())
}

/// Values, rows, digests, states.
fn hashed() -> GoldenBytes {
    let row = [
        text("1"),
        text("-32768"),
        text("-0.50"),
        text(""),
        None,
        Some(vec![0, 255]),
        text("2026-01-31"),
        text("2026-01-31 23:59:59.000001"),
    ];
    let change = |table: &str, key: &str, serial, old, new| {
        let key = encode_row(&[text(key)]);
        RowChange { table: table.into(), key, serial, old, new }
    };
    let changes = [
        change("a", "1", 0, None, Some(row_hash(&row))),
        change("a", "1", 1, Some(row_hash(&row)), Some(hash(2))),
        change("b", "2", 0, Some(hash(2)), None),
    ];
    let sql = "CREATE SHARED TABLE trades (id bigint PRIMARY KEY, product varchar(20) NOT NULL, price numeric(12, 2) CHECK (price >= 0))";
    let table = SharedTable::parse(sql).expect("a definition");
    let mut states = TableStates::default();
    states.define(table.clone());
    let empty = states.hash();
    states.apply(&[change("trades", "1", 0, None, Some(row_hash(&row)))]);
    let leaves = [merkle::leaf(b"a", true), merkle::leaf(b"b", false), merkle::leaf(b"", true)];
    vec![
        ("row", encode_row(&row)),
        ("row hash", row_hash(&row).0.into()),
        ("digest of three changes", digest_hash(&changes).0.into()),
        ("definition", table.hash().0.into()),
        ("fingerprint of one row", states.sums["trades"].fingerprint().hash().0.into()),
        ("state of an empty table", empty.0.into()),
        ("state of one row", states.hash().0.into()),
        ("root of three leaves", merkle::root(&leaves).0.into()),
    ]
}

/// The founding document and messages.
fn signed() -> GoldenBytes {
    let genesis = genesis();
    let network = genesis.network();
    let values = vec![
        LedgerValue::Null,
        LedgerValue::Boolean(true),
        LedgerValue::Integer(-2),
        LedgerValue::Decimal("-0.50".into()),
        LedgerValue::Text("ä'".into()),
        LedgerValue::Bytes(vec![0, 255]),
    ];
    let sql = "UPDATE t SET a = $1, b = $2, c = $3, d = $4, e = $5, f = $6".into();
    let proposal = Proposal { network, number: 5, statements: vec![ProposedStatement { sql, values }] };
    let proposals = vec![proposal.sign(&keys(9)), vec![1, 2]];
    let order = OrderedBlock { network, height: 4, proposals };
    let header = BlockHeader {
        network,
        height: 4,
        previous: hash(1),
        order: order.hash(),
        outcomes: SuccessBits::new(&[true, false, true, true, false, false, false, false, true]),
        root: hash(3),
        digest: hash(4),
        state: hash(5),
    };
    let vote = Vote { member: 1, round: 2, header: header.clone() };
    vec![
        ("founding document", genesis.encode()),
        ("network", network.0.into()),
        ("signed bytes of a proposal", signed_bytes(MessageKind::Proposal, &proposal.encode())),
        ("proposal", proposal.sign(&keys(9))),
        ("order", order.sign(&keys(8))),
        ("hash of an order", order.hash().0.into()),
        ("block header", header.encode()),
        ("LedgerBlockHash", header.hash().0.into()),
        ("vote", vote.sign(&keys(2))),
    ]
}

/// Definitions with a policy, agreements, chained transactions.
fn agreed() -> GoldenBytes {
    let network = genesis().network();
    let sql = "CREATE SHARED TABLE trades (id bigint PRIMARY KEY) WITH (agreement = 'any 1 of ada,bob')";
    let table = SharedTable::parse(sql).expect("a definition");
    let statements = vec![ProposedStatement { sql: "DELETE FROM trades".into(), values: Vec::new() }];
    let proposal = Proposal { network, number: 6, statements }.sign(&keys(9));
    let name = Agreement::name_of(&proposal);
    let yes = Agreement { network, proposal: name, member: 0, until: 1000, refusal: None };
    let no = Agreement { member: 1, refusal: Some("constraint \"stock\"".into()), ..yes.clone() };
    let agreements = vec![yes.sign(&keys(1)), no.sign(&keys(2))];
    let chained = ChainedTransaction { network, proposal, agreements };
    vec![
        ("definition with a policy", table.hash().0.into()),
        ("name of a proposal in agreements", name.0.into()),
        ("signed bytes of an agreement", signed_bytes(MessageKind::Agreement, &yes.encode())),
        ("agreement", yes.sign(&keys(1))),
        ("refusal", no.sign(&keys(2))),
        ("chained transaction", chained.sign(&keys(3))),
    ]
}

/// What replaces an ordering service.
fn succeeded() -> GoldenBytes {
    let genesis = genesis_with_successors();
    let network = genesis.network();
    let order = |entry: u8| OrderedBlock { network, height: 4, proposals: vec![vec![entry]] }.sign(&keys(8));
    let (service, first, reason) = (0, 5, DismissalReason::TwoOrders);
    let lied = Dismissal { network, member: 0, service, first, reason };
    let silent = Dismissal { member: 1, first: 7, reason: DismissalReason::Silence, ..lied.clone() };
    let dismissals = vec![lied.sign(&keys(1)), silent.sign(&keys(2))];
    let proof = Some(TwoOrders { one: order(1), other: order(2) });
    let succession = Succession { network, height: 7, service: 1, dismissals, proof };
    let without = Succession { proof: None, ..succession.clone() };
    vec![
        ("founding document with two successors", genesis.encode()),
        ("its network", network.0.into()),
        ("signed bytes of a dismissal", signed_bytes(MessageKind::Dismissal, &lied.encode())),
        ("dismissal for two orders", lied.sign(&keys(1))),
        ("dismissal for silence", silent.sign(&keys(2))),
        ("signed bytes of a succession", signed_bytes(MessageKind::Succession, &without.encode())),
        ("succession", succession.sign(&keys(3))),
        ("hash of a succession", succession.hash().0.into()),
    ]
}

/// Compares lines with those of a golden file, and returns these.
fn assert_golden(name: &str, lines: &str) -> String {
    let golden = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("LEDGER_GOLDEN").is_some_and(|wish| wish == "write") {
        std::fs::write(&golden, lines).expect("a file");
    }
    let expected = std::fs::read_to_string(&golden).expect("the golden file");
    for (own, golden) in lines.lines().zip(expected.lines()) {
        assert_eq!(own, golden);
    }
    assert_eq!(lines.len(), expected.len());
    expected
}

#[test]
fn signed_and_hashed_bytes_are_those_of_the_golden_file() {
    let values = [hashed(), signed(), agreed(), succeeded()].concat();
    let lines: String = values.iter().map(|(name, bytes)| format!("{name}\n{}\n\n", hex(bytes))).collect();
    assert_golden("bytes.txt", &lines);
}

/// Rows of tables, as a database has them.
struct Tables(BTreeMap<&'static str, Vec<Vec<Content>>>);

impl RowSource for Tables {
    fn read(&mut self, table: &SharedTable, keys: &[Vec<u8>]) -> LedgerResult<Vec<Vec<Content>>> {
        let rows = self.0[&table.name[..]].iter();
        Ok(rows.filter(|row| keys.contains(&table.key_bytes(row))).cloned().collect())
    }

    fn visit_rows(&mut self, table: &SharedTable, show: &mut RowVisitor<'_>) -> LedgerResult<()> {
        self.0[&table.name[..]].iter().cloned().try_for_each(show)
    }
}

/// Two tables, one of them empty, after block 7.
fn checkpointed() -> (LedgerChain, Tables) {
    let notes = "CREATE SHARED TABLE notes (id bigint PRIMARY KEY, words text)";
    let trades =
        "CREATE SHARED TABLE trades (id bigint PRIMARY KEY, price numeric(12, 2) NOT NULL, proof bytea)";
    let rows = vec![
        vec![text("-1"), text("0.50"), Some(vec![0, 255])],
        vec![text("2"), text("-12345678.90"), None],
        vec![text("3"), text("7.00"), text("")],
    ];
    let mut states = TableStates::default();
    for definition in [notes, trades] {
        states.define(SharedTable::parse(definition).expect("a definition"));
    }
    let table = states.tables["trades"].clone();
    let sums = states.sums.get_mut("trades").expect("it is defined");
    rows.iter().for_each(|row| sums.add(&table.key_bytes(row), &row_hash(row)));
    let mut chain = LedgerChain::new(genesis());
    (chain.height, chain.head, chain.state) = (7, hash(7), Some(states.hash()));
    chain.tables = states.tables;
    (chain, Tables(BTreeMap::from([("notes", Vec::new()), ("trades", rows)])))
}

/// The file as its header and its records, one a line.
fn lines_of_checkpoint(file: &[u8]) -> String {
    let mut lines = format!("header\n{}\n\n", hex(&file[..120]));
    let mut at = 120;
    while at < file.len() {
        let length = u32::from_be_bytes(file[at + 4..at + 8].try_into().expect("four bytes")) as usize;
        let (header, payload) = file[at..at + 16 + length].split_at(16);
        lines.push_str(&format!("record of kind {}\n{}\n{}\n\n", file[at], hex(header), hex(payload)));
        at += 16 + length;
    }
    lines
}

#[test]
fn the_file_of_a_checkpoint_is_that_of_the_golden_file_which_is_read_as_its_rows() {
    let (folder, (chain, mut tables)) = (TestFolder::new("golden-checkpoint"), checkpointed());
    let path = folder.path.join("000000000007.checkpoint");
    let size = write_checkpoint(&path, &chain, &mut tables, &mut || Ok(())).expect("a checkpoint");
    let file = std::fs::read(&path).expect("a file");
    assert_eq!((size.rows, size.bytes), (3, file.len() as u64));
    let golden = assert_golden("checkpoint.txt", &lines_of_checkpoint(&file));
    // What is read is not what was just written, but what the golden file says.
    let golden: String =
        golden.lines().filter(|line| line.bytes().all(|byte| byte.is_ascii_hexdigit())).collect();
    let byte = |at: usize| u8::from_str_radix(&golden[at..at + 2], 16).expect("hexadecimal");
    let golden: Vec<u8> = (0..golden.len()).step_by(2).map(byte).collect();
    std::fs::write(&path, golden).expect("a file");
    let mut shown: BTreeMap<String, Vec<Vec<Content>>> = BTreeMap::new();
    let (rows, states) = read_checkpoint(&path, &chain, &mut |table, rows| {
        shown.entry(table.name.clone()).or_default().extend(rows);
        Ok(())
    })
    .expect("the golden checkpoint");
    assert_eq!((rows, Some(states.hash())), (3, chain.state));
    assert_eq!(shown, BTreeMap::from([("trades".to_owned(), tables.0["trades"].clone())]));
}
