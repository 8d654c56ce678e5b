//! Checkpoints, and recovery by executing blocks again: every class, in all products; what is damaged or was changed is found
//! and passed over; what a stop leaves. Each test starts its own PostgreSQL, MariaDB and AnKerDB.

mod products;

use ankerdb_ledger::checkpoint::{CHECKPOINTS_KEPT, MadeCheckpoint, checkpoint_folder, find_checkpoints};
use ankerdb_ledger::demo::{DemoNetwork, DemoSettings};
use ankerdb_ledger::error::LedgerResult;
use ankerdb_ledger::recovery::{RecoveryClass, RecoveryReport};
use ankerdb_ledger::value::LedgerValue;
use ankerdb_ledger::verify::verify_file;
use products::{TestFolder, products};
use std::path::PathBuf;

const USERS: u64 = 60;
const BLOCK: usize = 60;
const BLOCKS_PER_CHECKPOINT: u64 = 2;

/// A table with every type and NULLs, beside Smallbank's.
const GOODS: &str = "CREATE SHARED TABLE goods (id integer, part varchar(8), is_sold boolean, weight numeric(12, 3), \
     note text, picture bytea, made date, sold_at timestamp, count smallint, PRIMARY KEY (part, id))";

/// A loaded Smallbank over all three products, or nothing if one is missing.
fn smallbank(folder: &TestFolder, recovery: RecoveryClass) -> Option<DemoNetwork> {
    let products = products();
    if products.len() < 3 {
        return None;
    }
    let settings = DemoSettings {
        folder: folder.path.clone(),
        ankerdb: None,
        quorum: 2,
        users: USERS,
        block_size: BLOCK,
        blocks: 0,
        zipf: 0.0,
        corrupt: String::new(),
        recovery,
        checkpoint_blocks: BLOCKS_PER_CHECKPOINT,
        connections: 3,
    };
    let mut demo = DemoNetwork::start(&products, &settings).expect("a network");
    demo.load().expect("a load");
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

/// All members have one head, their files say so, and their tables are what it certifies.
fn assert_equal_members(demo: &mut DemoNetwork) {
    let head = demo.network.organizations[0].chain().head;
    for organization in &mut demo.network.organizations {
        assert_eq!(organization.chain().head, head, "{}", organization.name());
        assert_eq!(organization.audit().expect("tables"), Vec::<String>::new(), "{}", organization.name());
        let (found, end) = verify_file(organization.path()).expect("a file that verifies");
        assert_eq!((found.chain().expect("a chain").head, end.torn_bytes), (head, 0));
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
    let Some(mut demo) = smallbank(&folder, RecoveryClass::None) else { return };
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
    let Some(mut demo) = smallbank(&folder, RecoveryClass::PartialReplay) else { return };
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
    let Some(mut demo) = smallbank(&folder, RecoveryClass::PartialReplay) else { return };
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
