//! Ledger files and proofs without any database: blocks are made by hand, with keys of fixed seeds, as an honest or another
//! organization would make them.

mod products;
mod trade;

use ankerdb_ledger::agreement::{Agreement, ChainedTransaction};
use ankerdb_ledger::block::{BlockHeader, LedgerBlock, SuccessBits, leaves};
use ankerdb_ledger::bytes::CanonicalWriter;
use ankerdb_ledger::chain::LedgerChain;
use ankerdb_ledger::error::LedgerError;
use ankerdb_ledger::file::{LedgerFile, RecordKind, visit_records};
use ankerdb_ledger::genesis::Genesis;
use ankerdb_ledger::hash::LedgerHash;
use ankerdb_ledger::merkle;
use ankerdb_ledger::message::{OrderedBlock, Proposal, ProposedStatement, Vote};
use ankerdb_ledger::proof::{TransactionName, check, prove};
use ankerdb_ledger::signature::KeyPair;
use ankerdb_ledger::succession::{Dismissal, DismissalReason, Succession, TwoOrders};
use ankerdb_ledger::value::LedgerValue;
use ankerdb_ledger::verify::verify_file;
use products::TestFolder;
use std::path::{Path, PathBuf};
use trade::{genesis, genesis_with_successors, keys};

struct Writer {
    members: Vec<KeyPair>,
    ordering: KeyPair,
    client: KeyPair,
    chain: LedgerChain,
    file: LedgerFile,
    number: u64,
}

impl Writer {
    fn new(path: &Path) -> Writer {
        Writer::of(path, genesis())
    }

    fn of(path: &Path, genesis: Genesis) -> Writer {
        let file = LedgerFile::create(path, &genesis).expect("a file");
        let members = vec![keys(1), keys(2), keys(3)];
        Writer {
            members,
            ordering: keys(8),
            client: keys(9),
            chain: LedgerChain::new(genesis),
            file,
            number: 0,
        }
    }

    fn propose(&mut self, sql: &str, values: &[LedgerValue]) -> Vec<u8> {
        self.number += 1;
        let statements = vec![ProposedStatement { sql: sql.into(), values: values.to_vec() }];
        Proposal { network: self.chain.network, number: self.number, statements }.sign(&self.client)
    }

    fn block(&self, proposals: Vec<Vec<u8>>, bits: &[bool]) -> LedgerBlock {
        let height = self.chain.height + 1;
        let number = height - self.chain.tenure().since;
        let order = OrderedBlock { network: self.chain.network, height: number, proposals };
        let outcomes = SuccessBits::new(bits);
        let header = BlockHeader {
            network: order.network,
            height,
            previous: self.chain.head,
            order: order.hash(),
            root: merkle::root(&leaves(&order.proposals, &outcomes)),
            outcomes,
            digest: LedgerHash::of("test", &[b"digest"]),
            state: LedgerHash::of("test", &[b"state"]),
        };
        LedgerBlock { header, order: order.sign(&self.ordering) }
    }

    fn vote(&self, member: usize, header: &BlockHeader) -> Vec<u8> {
        Vote { member: member as u32, round: 1, header: header.clone() }.sign(&self.members[member])
    }

    fn append_block(&mut self, block: &LedgerBlock) {
        let vote = self.vote(0, &block.header);
        let record = CanonicalWriter::default().bytes(&block.encode()).bytes(&vote).finish();
        self.file.append(RecordKind::Block, &record).expect("a record");
    }

    fn append_votes(&mut self, votes: &[Vec<u8>]) {
        let mut writer = CanonicalWriter::default();
        writer.count(votes.len());
        for vote in votes {
            writer.bytes(vote);
        }
        self.file.append(RecordKind::Votes, &writer.finish()).expect("a record");
    }

    fn commit(&mut self, block: &LedgerBlock) {
        self.append_block(block);
        let votes = [self.vote(0, &block.header), self.vote(2, &block.header)];
        self.append_votes(&votes);
        let checked = self.chain.check(&block.order).expect("an order");
        self.chain.advance(&checked, &block.header);
    }
}

const TABLE: &str =
    "CREATE SHARED TABLE trades (id bigint PRIMARY KEY, product varchar(20), price numeric(12, 2))";

/// A file with three blocks of 1, 3 and 2 transactions; one has failed.
fn write_ledger(path: &Path) -> Writer {
    let mut writer = Writer::new(path);
    let definition = writer.propose(TABLE, &[]);
    let block = writer.block(vec![definition], &[true]);
    writer.commit(&block);
    let insert = "INSERT INTO trades (id, product, price) VALUES ($1, $2, $3)";
    for count in [3, 2] {
        let proposals = (0..count).map(|at| {
            let values = [
                LedgerValue::Integer(at),
                LedgerValue::Text("Gearbox".into()),
                LedgerValue::Decimal("60000.00".into()),
            ];
            writer.propose(insert, &values)
        });
        let proposals: Vec<Vec<u8>> = proposals.collect();
        let bits: Vec<bool> = (0..count).map(|at| count != 3 || at != 1).collect();
        let block = writer.block(proposals, &bits);
        writer.commit(&block);
    }
    writer
}

fn path_in(folder: &TestFolder, name: &str) -> PathBuf {
    folder.path.join(name)
}

#[test]
fn a_file_verifies_without_a_database_and_every_transaction_is_proved() {
    let folder = TestFolder::new("proofs");
    let path = path_in(&folder, "ada.ledger");
    let writer = write_ledger(&path);
    let (found, end) = verify_file(&path).expect("a file that verifies");
    let chain = found.chain().expect("a chain");
    assert_eq!((chain.height, chain.head, end.torn_bytes), (3, writer.chain.head, 0));
    assert_eq!((found.transactions, found.succeeded, found.votes), (6, 5, 6));
    for (height, index, has_succeeded) in
        [(1, 0, true), (2, 0, true), (2, 1, false), (2, 2, true), (3, 0, true), (3, 1, true)]
    {
        let proof = prove(&path, TransactionName { height, index }).expect("a proof");
        let proved = check(&proof).expect("a proof that is one");
        assert_eq!(
            (proved.header.height, proved.index, proved.has_succeeded, proved.votes),
            (height, index, has_succeeded, 2)
        );
        assert_eq!(
            (proved.genesis.network(), proved.client.as_deref()),
            (writer.chain.network, Some("shop"))
        );
    }
    for name in [TransactionName { height: 4, index: 0 }, TransactionName { height: 2, index: 3 }] {
        assert!(matches!(prove(&path, name), Err(LedgerError::Missing(_))));
    }
}

#[test]
fn no_byte_of_a_proof_can_be_changed() {
    let folder = TestFolder::new("proof-bytes");
    let path = path_in(&folder, "ada.ledger");
    let writer = write_ledger(&path);
    let proof = prove(&path, TransactionName { height: 2, index: 1 }).expect("a proof");
    for at in 0..proof.len() {
        let mut changed = proof.clone();
        changed[at] ^= 1;
        // A change of the founding document makes it one of another network, if it still is one.
        let is_refused =
            check(&changed).map_or(true, |proved| proved.genesis.network() != writer.chain.network);
        assert!(is_refused, "byte {at}");
    }
}

#[test]
fn a_torn_end_is_cut_and_no_whole_record_is_lost() {
    let folder = TestFolder::new("torn");
    let path = path_in(&folder, "ada.ledger");
    write_ledger(&path);
    let whole = std::fs::read(&path).expect("a file");
    let mut places = Vec::new();
    visit_records(&path, &mut |_, _, place| {
        places.push(place);
        Ok(())
    })
    .expect("records");
    let torn = path_in(&folder, "torn.ledger");
    let first_end = places[1] as usize;
    for length in (first_end..whole.len()).step_by(7).chain(whole.len() - 30..whole.len()) {
        std::fs::write(&torn, &whole[..length]).expect("a file");
        let mut found = 0;
        let (_, end) = LedgerFile::open(&torn, &mut |_, _, _| {
            found += 1;
            Ok(())
        })
        .expect("a file");
        let expected = places
            .iter()
            .skip(1)
            .chain([&(whole.len() as u64)])
            .filter(|place| **place <= length as u64)
            .count();
        assert_eq!(found, expected, "{length} bytes");
        assert_eq!(std::fs::metadata(&torn).expect("a file").len(), end.whole_bytes);
        assert!(verify_file(&torn).is_ok(), "{length} bytes");
    }
    // A last record of which a sector did not reach the disk.
    let mut holed = whole.clone();
    let length = holed.len();
    holed[length - 40..length - 10].fill(0);
    std::fs::write(&torn, &holed).expect("a file");
    let (_, end) = LedgerFile::open(&torn, &mut |_, _, _| Ok(())).expect("a file");
    assert_eq!(end.whole_bytes, *places.last().expect("records"));
    // Zeros behind the end, as some file systems leave them, are torn, too; and the file goes on.
    std::fs::write(&torn, [&whole[..], &[0; 100]].concat()).expect("a file");
    let (mut file, end) = LedgerFile::open(&torn, &mut |_, _, _| Ok(())).expect("a file");
    assert_eq!(end.torn_bytes, 100);
    assert_eq!(file.append(RecordKind::Votes, b"x").expect("a record"), whole.len() as u64);
}

#[test]
fn no_byte_of_a_file_can_be_changed_unnoticed() {
    let folder = TestFolder::new("bytes");
    let path = path_in(&folder, "ada.ledger");
    let writer = write_ledger(&path);
    let whole = std::fs::read(&path).expect("a file");
    let changed_path = path_in(&folder, "changed.ledger");
    // All bytes of the first and last records, and every fifth of the others, whose signatures take their time.
    let ends = (0..100).chain(whole.len() - 100..whole.len());
    for at in ends.chain((100..whole.len() - 100).step_by(5)) {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        std::fs::write(&changed_path, &changed).expect("a file");
        // The last record may look torn: then the file ends before it, and says so.
        let is_noticed = match verify_file(&changed_path) {
            Err(_) => true,
            Ok((found, end)) => {
                end.torn_bytes > 0 && found.chain().expect("a chain").head != writer.chain.head
            }
        };
        assert!(is_noticed, "byte {at}");
    }
}

#[test]
fn damage_before_whole_records_is_no_torn_end_and_nothing_is_cut() {
    let folder = TestFolder::new("damaged");
    let path = path_in(&folder, "ada.ledger");
    write_ledger(&path);
    let mut places = Vec::new();
    visit_records(&path, &mut |_, _, place| {
        places.push(place as usize);
        Ok(())
    })
    .expect("records");
    let whole = std::fs::read(&path).expect("a file");
    // In a record's header, in its payload, and a record that is gone.
    let mut changes = [whole.clone(), whole.clone(), whole.clone()];
    changes[0][places[1] + 9] ^= 1;
    changes[1][places[1] + 100] ^= 1;
    changes[2][places[2]..places[3]].fill(0);
    for changed in changes {
        std::fs::write(&path, &changed).expect("a file");
        let error = LedgerFile::open(&path, &mut |_, _, _| Ok(())).expect_err("it is damaged");
        assert!(error.to_string().contains("are damaged: records go on behind them"), "{error}");
        assert_eq!(std::fs::read(&path).expect("a file"), changed);
    }
}

/// A client puts the bytes of a whole record into its transaction, and the record with that is torn.
#[test]
fn a_record_inside_of_a_transaction_is_not_taken_for_one_of_the_file() {
    let folder = TestFolder::new("inside");
    let path = path_in(&folder, "ada.ledger");
    let mut writer = write_ledger(&path);
    let whole = std::fs::read(&path).expect("a file");
    let mut places = Vec::new();
    visit_records(&path, &mut |_, _, place| {
        places.push(place as usize);
        Ok(())
    })
    .expect("records");
    let record = whole[places[1]..places[2]].to_vec();
    let proposal = writer.propose("UPDATE trades SET product = $1", &[LedgerValue::Bytes(record)]);
    let block = writer.block(vec![proposal], &[true]);
    writer.append_block(&block);
    let longer = std::fs::read(&path).expect("a file");
    std::fs::write(&path, &longer[..longer.len() - 30]).expect("a file");
    let (_, end) = LedgerFile::open(&path, &mut |_, _, _| Ok(())).expect("a torn end");
    assert_eq!(end.whole_bytes, whole.len() as u64);
}

/// Blocks that somebody writes who knows the format and a member's key, with right checksums.
#[test]
fn blocks_that_are_forged_with_right_checksums_are_refused() {
    let folder = TestFolder::new("forged");
    let mut number = 0;
    let mut refused = |forge: &dyn Fn(&mut Writer), part: &str| {
        number += 1;
        let path = path_in(&folder, &format!("{number}.ledger"));
        let mut writer = write_ledger(&path);
        forge(&mut writer);
        let said = verify_file(&path).expect_err(part).to_string();
        assert!(said.contains(part), "{part}: {said}");
    };
    let insert = "INSERT INTO trades (id) VALUES (7)";
    let with = |writer: &mut Writer, change: &dyn Fn(&mut BlockHeader)| {
        let proposal = writer.propose(insert, &[]);
        let mut block = writer.block(vec![proposal], &[true]);
        change(&mut block.header);
        writer.commit(&block);
    };
    refused(&|writer| with(writer, &|header| header.previous = LedgerHash([7; 32])), "does not follow");
    refused(&|writer| with(writer, &|header| header.root = LedgerHash([7; 32])), "Merkle");
    refused(&|writer| with(writer, &|header| header.order = LedgerHash([7; 32])), "order is another");
    refused(&|writer| with(writer, &|header| header.outcomes = SuccessBits::new(&[false])), "Merkle");
    refused(&|writer| with(writer, &|header| header.outcomes = SuccessBits::default()), "outcomes");
    // One vote is no quorum; the same one twice is one.
    let votes = |writer: &mut Writer, members: &[usize]| {
        let proposal = writer.propose(insert, &[]);
        let block = writer.block(vec![proposal], &[true]);
        writer.append_block(&block);
        let votes: Vec<Vec<u8>> = members.iter().map(|member| writer.vote(*member, &block.header)).collect();
        writer.append_votes(&votes);
    };
    refused(&|writer| votes(writer, &[0]), "1 members voted for it, 2 have to");
    refused(&|writer| votes(writer, &[1, 1]), "1 members voted for it, 2 have to");
    // Executed although nobody may execute it.
    let succeeds = |writer: &mut Writer, proposal: Vec<u8>| {
        let block = writer.block(vec![proposal], &[true]);
        writer.commit(&block);
    };
    refused(
        &|writer| {
            let proposal = writer.propose("UPDATE trades SET price = random()", &[]);
            succeeds(writer, proposal);
        },
        "must not be executed",
    );
    refused(
        &|writer| {
            let proposal = writer.propose(insert, &[]);
            succeeds(writer, proposal.clone());
            succeeds(writer, proposal);
        },
        "must not be executed",
    );
    refused(
        &|writer| {
            writer.client = keys(77);
            let proposal = writer.propose(insert, &[]);
            succeeds(writer, proposal);
        },
        "must not be executed",
    );
    refused(
        &|writer| {
            let proposal = writer.propose(insert, &[]);
            let block = writer.block(vec![proposal], &[true]);
            writer.ordering = keys(77);
            let forged = writer.block(vec![], &[]);
            writer.append_block(&LedgerBlock { order: forged.order, ..block });
        },
        "not the ordering service",
    );
}

const AGREED_TABLE: &str =
    "CREATE SHARED TABLE trades (id bigint PRIMARY KEY) WITH (agreement = 'any 1 of ada, bob')";

impl Writer {
    /// A chained transaction, by an entry organization, with agreements of these members.
    fn chain(&self, proposal: Vec<u8>, members: &[u32]) -> Vec<u8> {
        let network = self.chain.network;
        let agree = |member: &u32| {
            let name = Agreement::name_of(&proposal);
            let yes = Agreement { network, proposal: name, member: *member, until: 100, refusal: None };
            yes.sign(&self.members[*member as usize])
        };
        let agreements = members.iter().map(agree).collect();
        ChainedTransaction { network, proposal, agreements }.sign(&self.members[2])
    }
}

#[test]
fn a_stranger_finds_in_the_file_that_transactions_had_the_agreements_which_their_table_needs() {
    let folder = TestFolder::new("agreed");
    let path = path_in(&folder, "ada.ledger");
    let mut writer = Writer::new(&path);
    let definition = writer.propose(AGREED_TABLE, &[]);
    let block = writer.block(vec![writer.chain(definition, &[1])], &[true]);
    writer.commit(&block);
    let insert = "INSERT INTO trades (id) VALUES (1)";
    // One without the agreement is in the file as one that has failed, and comes again with it.
    let proposal = writer.propose(insert, &[]);
    let entries = vec![proposal.clone(), writer.chain(proposal, &[1, 0])];
    let block = writer.block(entries, &[false, true]);
    writer.commit(&block);
    let (found, _) = verify_file(&path).expect("a file that verifies");
    assert_eq!((found.transactions, found.succeeded), (3, 2));
    let proved = |index| check(&prove(&path, TransactionName { height: 2, index }).expect("a proof"));
    let proved = [proved(0), proved(1)].map(|proved| proved.expect("a proof that is one"));
    assert_eq!(proved[0].agreed, [""; 0]);
    assert_eq!(proved[1].agreed, ["ada", "bob"]);
    assert_eq!(proved[1].client.as_deref(), Some("shop"));
    // A quorum that certifies the success of one without the agreement proves nothing but its lie.
    for agreed in [&[][..], &[2]] {
        let lying = path_in(&folder, &format!("lying-{}.ledger", agreed.len()));
        let mut writer = Writer::new(&lying);
        let definition = writer.propose(AGREED_TABLE, &[]);
        let block = writer.block(vec![writer.chain(definition, &[0])], &[true]);
        writer.commit(&block);
        let proposal = writer.propose(insert, &[]);
        let entry = if agreed.is_empty() { proposal } else { writer.chain(proposal, agreed) };
        let block = writer.block(vec![entry], &[true]);
        writer.commit(&block);
        let said = verify_file(&lying).expect_err("a lie").to_string();
        assert!(said.contains("a transaction has succeeded that must not be executed"), "{said}");
    }
}

impl Writer {
    /// A block by which ordering service 2 takes over, with these dismissals and two orders of number 2.
    fn succession(&self, dismissals: Vec<Vec<u8>>) -> LedgerBlock {
        let (network, height) = (self.chain.network, self.chain.height + 1);
        let order = |entry: u8| {
            OrderedBlock { network, height: 2, proposals: vec![vec![entry]] }.sign(&self.ordering)
        };
        let proof = Some(TwoOrders { one: order(1), other: order(2) });
        let succession = Succession { network, height, service: 1, dismissals, proof };
        let mut block = self.block(Vec::new(), &[]);
        block.header.order = succession.hash();
        block.order = succession.sign(&self.members[2]);
        block
    }

    fn dismissal(&self, member: u32) -> Vec<u8> {
        let (network, reason) = (self.chain.network, DismissalReason::TwoOrders);
        Dismissal { network, member, service: 0, first: 2, reason }.sign(&self.members[member as usize])
    }
}

#[test]
fn a_file_goes_on_with_the_next_ordering_service_after_a_succession_and_a_forged_one_is_refused() {
    let folder = TestFolder::new("successions");
    let begin = |name: &str| {
        let path = folder.path.join(name);
        let mut writer = Writer::of(&path, genesis_with_successors());
        let table = writer.propose(TABLE, &[]);
        let block = writer.block(vec![table], &[true]);
        writer.commit(&block);
        (writer, path)
    };
    let insert = "INSERT INTO trades (id) VALUES (1)";
    let (mut writer, path) = begin("honest");
    let block = writer.succession(vec![writer.dismissal(0), writer.dismissal(1)]);
    writer.commit(&block);
    writer.ordering = keys(18);
    let insert_entry = writer.propose(insert, &[]);
    let block = writer.block(vec![insert_entry], &[true]);
    writer.commit(&block);
    let (found, _) = verify_file(&path).expect("it verifies");
    let chain = found.chain().expect("a chain");
    assert_eq!((chain.height, chain.successions.len(), chain.tenure().since), (3, 1, 2));
    assert!(
        chain.successions[0].1.starts_with("ada, bob have dismissed ordering service 1: it has signed two")
    );
    let proof = prove(&path, TransactionName { height: 3, index: 0 }).expect("a proof");
    assert_eq!(check(&proof).expect("it proves").genesis, genesis_with_successors());

    // All members have voted for each of these, and no stranger takes them.
    let refused = |writer: &mut Writer, path: &Path, block: &LedgerBlock, reason: &str| {
        writer.append_block(block);
        let votes: Vec<Vec<u8>> = (0..3).map(|member| writer.vote(member, &block.header)).collect();
        writer.append_votes(&votes);
        let said = verify_file(path).expect_err(reason).to_string();
        assert!(said.contains(reason), "{said}, and not {reason}");
    };
    let (mut writer, path) = begin("one-liar");
    let block = writer.succession(vec![writer.dismissal(0)]);
    refused(&mut writer, &path, &block, "by 1 members, and 2 have to");
    let (mut writer, path) = begin("without-succession");
    writer.ordering = keys(18);
    let insert_entry = writer.propose(insert, &[]);
    let block = writer.block(vec![insert_entry], &[true]);
    refused(&mut writer, &path, &block, "which is not the ordering service");
    let (mut writer, path) = begin("dismissed-service");
    let block = writer.succession(vec![writer.dismissal(0), writer.dismissal(1)]);
    writer.commit(&block);
    let insert_entry = writer.propose(insert, &[]);
    let block = writer.block(vec![insert_entry], &[true]);
    refused(&mut writer, &path, &block, "which is not the ordering service");
    let (mut writer, path) = begin("other-block");
    let mut block = writer.succession(vec![writer.dismissal(0), writer.dismissal(1)]);
    block.header.order = LedgerHash::of("succession", &[b"another"]);
    refused(&mut writer, &path, &block, "its order is another one");
}
