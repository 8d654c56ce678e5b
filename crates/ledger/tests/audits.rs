//! Audits in the background: what was changed past the ledger, its triggers off, is found without a vote and without people,
//! and repaired; blocks go on meanwhile. Each test starts its own PostgreSQL, MariaDB and AnKerDB.

mod products;
mod smallbank;
mod started;

use ankerdb_ledger::audit::{AuditReport, AuditSettings};
use ankerdb_ledger::demo::DemoNetwork;
use ankerdb_ledger::node::wire::StatusMessage;
use ankerdb_ledger::server::PrivateServer;
use products::TestFolder;
use smallbank::{SMALLBANK, assert_equal_members};
use started::{ORGANIZATIONS, StartedNetwork, TABLE, ask, configure, connect, statement, submit};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Executes statements past the ledger.
fn tamper(server: &PrivateServer, statements: &[&str]) {
    let mut connection = connect(server);
    for sql in statements {
        connection.run(sql).unwrap_or_else(|failure| panic!("{}: {sql}: {failure:?}", server.name()));
    }
}

/// Changes a row without the ledger's triggers, where there are some.
fn change_a_row(server: &PrivateServer) {
    let change = "UPDATE account SET balance = 1000000 WHERE id = 2";
    match server.name() {
        "PostgreSQL" => {
            tamper(server, &["SET session_replication_role = replica", change, "DELETE FROM ledger_digest"])
        }
        "MariaDB" => tamper(server, &[change, "DELETE FROM ledger_digest"]),
        _ => tamper(server, &[change]),
    }
}

/// Removes all rows, of which no trigger says anything.
fn truncate(server: &PrivateServer) {
    match server.name() {
        "PostgreSQL" => tamper(
            server,
            &[
                "ALTER TABLE account DISABLE TRIGGER ledger_no_truncate",
                "TRUNCATE account",
                "ALTER TABLE account ENABLE ALWAYS TRIGGER ledger_no_truncate",
            ],
        ),
        _ => tamper(server, &["TRUNCATE TABLE account"]),
    }
}

/// A network with twelve accounts, whose organizations pause for a second between audits and make no checkpoints.
fn start(name: &str, recoveries: [&str; 3]) -> Option<StartedNetwork> {
    let mut network = StartedNetwork::found(name, 2)?;
    for (name, recovery) in ORGANIZATIONS.into_iter().zip(recoveries) {
        let settings = format!("recovery = \"{recovery}\"\ncheckpoint_blocks = 0\naudit_seconds = 1");
        configure(&network, name, &settings);
    }
    network.start_all();
    let bank = network.client("bank");
    submit(&bank, 1, TABLE);
    let accounts: Vec<String> = (0..12).map(|id| format!("({id}, 100)")).collect();
    submit(&bank, 2, &format!("INSERT INTO account (id, balance) VALUES {}", accounts.join(", ")));
    network.wait_for_equal_heights();
    Some(network)
}

fn has_repair(status: &StatusMessage, text: &str) -> bool {
    status.repairs.iter().any(|line| line.contains(text))
}

/// Whether the last audit has read all twelve accounts after this block, and they were what it certifies.
fn is_certified(status: &StatusMessage, height: u64) -> bool {
    let audit = status.audit.as_ref();
    audit.is_some_and(|audit| (audit.height, audit.rows) == (height, 12) && audit.differing.is_empty())
}

#[test]
fn rows_that_no_vote_is_about_are_found_in_the_background_and_repaired_in_every_product() {
    let Some(network) = start("background", ["state", "state", "state"]) else { return };
    let bank = network.client("bank");
    for (number, (at, name)) in (3..).zip(ORGANIZATIONS.into_iter().enumerate()) {
        let height = network.status(at).height;
        network.wait_for(at, "audited", |status| is_certified(status, height));
        change_a_row(&network.servers[at]);
        let changed = format!(
            "1 differ and were written, 0 blocks taken over; account (2) was (2, 1000000), is (2, {})",
            100 + at
        );
        network.wait_for(at, "repaired", |status| has_repair(status, &changed));
        truncate(&network.servers[at]);
        let status = network.wait_for(at, "repaired", |status| has_repair(status, "12 differ"));
        let found = format!("the audit of block {height} has found what it does not certify in account");
        assert!(status.audit_findings.contains(&found), "{:?}", status.audit_findings);
        assert!(network.log(at).contains(&found), "{}", network.log(at));
        network.wait_for(at, "certified again", |status| is_certified(status, height));
        let (_, text) = ask(&network, &["status"], name);
        let line = format!("audit of block {height}, ");
        assert!(text.contains(&line) && text.contains("12 rows read in "), "{text}");
        assert!(text.contains(&format!("found by an audit: {found}")), "{text}");
        assert!(!text.contains("suspect table") && !text.contains("NO AUDIT"), "{text}");
        // It works as the others do, and none of them has found anything.
        assert!(submit(&bank, number, "UPDATE account SET balance = balance + 1 WHERE id = 2").has_succeeded);
        network.wait_for_equal_heights();
        for other in 0..3 {
            let status = network.status(other);
            assert_eq!(status.repairs.is_empty(), other > at, "{other}: {:?}", status.repairs);
            assert!(!has_repair(&status, "outvoted"), "{other}: {:?}", status.repairs);
        }
    }
    network.end_and_compare_files();
}

#[test]
fn an_audit_s_findings_are_repaired_by_replays_and_not_at_all_as_the_configuration_says() {
    let recoveries = ["full-replay", "none", "optimized-partial-replay"];
    let Some(network) = start("background-classes", recoveries) else { return };
    let bank = network.client("bank");
    let named = ": 1 rows; account (2) is (2, 1000000), certified is (2, 100)";
    for at in [0, 2] {
        change_a_row(&network.servers[at]);
        let repaired = format!("repaired by {}: 2 blocks executed again", recoveries[at]);
        let status = network.wait_for(at, "repaired", |status| has_repair(status, &repaired));
        assert!(status.audit_findings[0].ends_with(named), "{:?}", status.audit_findings);
        network.wait_for(at, "certified again", |status| is_certified(status, 2));
    }
    change_a_row(&network.servers[1]);
    let advice = format!("{named}; recovery is \"none\": \"repair --method\" repairs it");
    let is_found = |status: &StatusMessage| status.audit_findings.iter().any(|line| line.ends_with(&advice));
    network.wait_for(1, "found", is_found);
    // Nothing is repaired; it goes on with blocks that are not about the row, and finds it after them, too.
    assert!(submit(&bank, 3, "UPDATE account SET balance = 7 WHERE id = 3").has_succeeded);
    network.wait_for_equal_heights();
    let is_audited = |status: &StatusMessage| status.audit.as_ref().is_some_and(|audit| audit.height == 3);
    let status = network.wait_for(1, "audited again", is_audited);
    assert_eq!((status.suspects, status.repairs), (vec!["account".to_owned()], Vec::<String>::new()));
    assert_eq!(status.audit_findings.len(), 1, "it is told once: {:?}", status.audit_findings);
    let (_, text) = ask(&network, &["status"], "mariadb");
    assert!(
        text.contains("12 rows read in ") && text.contains("what it does NOT certify in account"),
        "{text}"
    );
    let (is_repaired, text) = ask(&network, &["repair", "--method", "state"], "mariadb");
    assert!(is_repaired && text.contains("account (2) was (2, 1000000), is (2, 100)"), "{text}");
    let status = network.wait_for(1, "certified again", |status| is_certified(status, 3));
    assert_eq!(status.suspects, Vec::<String>::new());
    network.end_and_compare_files();
}

/// What holds a table in each product, so that an audit waits for it, and lets it go.
fn table_lock(product: &str) -> [&'static str; 2] {
    match product {
        "MariaDB" => ["LOCK TABLES account WRITE", "UNLOCK TABLES"],
        _ => ["BEGIN; LOCK TABLE account IN ACCESS EXCLUSIVE MODE", "ROLLBACK"],
    }
}

#[test]
fn a_node_ends_while_an_audit_waits_for_its_database_and_says_so_when_that_was_killed() {
    let Some(mut network) = start("background-stop", ["state", "state", "state"]) else { return };
    for (at, name) in ORGANIZATIONS.into_iter().enumerate() {
        let height = network.status(at).height;
        network.wait_for(at, "audited", |status| is_certified(status, height));
        let [hold, release] = table_lock(network.servers[at].name());
        let mut holder = connect(&network.servers[at]);
        holder.run(hold).expect("a lock");
        // The next audit waits for the lock: the last one is older than two of them take.
        let first = network.status(at).audit;
        std::thread::sleep(Duration::from_secs(3));
        let before = network.status(at).audit;
        std::thread::sleep(Duration::from_secs(3));
        assert_eq!(network.status(at).audit, before, "{name} did not wait, since {first:?}");
        let asked = Instant::now();
        assert_eq!(network.terminate(at), Some(0), "{}", network.log(at));
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
        holder.run(release).expect("the lock is gone");
        network.start_process(at);
        network.wait_for(at, "audited", |status| is_certified(status, height));
    }
    let at = 0;
    let [hold, _] = table_lock(network.servers[at].name());
    let mut holder = connect(&network.servers[at]);
    holder.run(hold).expect("a lock");
    std::thread::sleep(Duration::from_secs(2));
    network.servers[at].kill_and_restart().expect("a database that comes back");
    let deadline = Instant::now() + LIMIT;
    while !network.log(at).contains("no audit: ") {
        assert!(Instant::now() < deadline, "nothing is told: {}", network.log(at));
        std::thread::sleep(Duration::from_millis(50));
    }
    let is_well = |status: &StatusMessage| is_certified(status, 2) && status.audit_failure.is_empty();
    network.wait_for(at, "audited again", is_well);
    network.end_and_compare_files();
}

#[test]
fn blocks_go_on_while_a_member_compares_its_rows_for_another_one_that_is_repaired() {
    let Some(network) = start("background-donor", ["state", "state", "state"]) else { return };
    let bank = network.client("bank");
    submit(&bank, 3, "CREATE SHARED TABLE note (id bigint PRIMARY KEY)");
    network.wait_for_equal_heights();
    for (number, (at, name)) in (4..).step_by(2).zip(ORGANIZATIONS.into_iter().enumerate()) {
        // The first of the others is the donor, and its database lets nobody read for a while.
        let donor = usize::from(at == 0);
        let is_known = |status: &StatusMessage| status.members[donor].height == status.height;
        network.wait_for(at, "told of the donor's blocks", is_known);
        let [hold, release] = table_lock(network.servers[donor].name());
        let mut holder = connect(&network.servers[donor]);
        holder.run(hold).expect("a lock");
        change_a_row(&network.servers[at]);
        network.wait_for(at, "being repaired", |status| status.state.starts_with("repairs tables"));
        let height = network.status(donor).height;
        // The database waits for a lock for ten seconds, so none is asked that is behind.
        for number in [number, number + 1] {
            let insert = statement(&format!("INSERT INTO note (id) VALUES ({number})"));
            let done = bank.submit(number, &bank.sign(number, insert), Some(ORGANIZATIONS[donor]), LIMIT);
            assert!(done.is_ok_and(|done| done.has_succeeded));
        }
        let status = network.status(at);
        assert!(status.height == height && status.repairs.is_empty(), "{name} was repaired: {status:?}");
        holder.run(release).expect("the lock is gone");
        network.wait_for(at, "repaired", |status| has_repair(status, "1 differ and were written"));
        assert_eq!(network.wait_for_equal_heights(), height + 2);
    }
    network.end_and_compare_files();
}

/// What a command about an organization says, in a thread of its own.
fn ask_meanwhile(network: &StartedNetwork, word: &str, name: &str) -> JoinHandle<(bool, String)> {
    let folder = network.path(name);
    let word = word.to_owned();
    std::thread::spawn(move || {
        let output = started::command(&[&word, folder.to_str().expect("UTF-8")]);
        (output.status.success(), started::said(&output))
    })
}

/// A network with two tables, of which one is locked and the other one written.
fn start_with_note(name: &str, recovery: &str, audit_seconds: u32) -> Option<StartedNetwork> {
    let mut network = StartedNetwork::found(name, 2)?;
    for name in ORGANIZATIONS {
        let settings =
            format!("recovery = \"{recovery}\"\ncheckpoint_blocks = 0\naudit_seconds = {audit_seconds}");
        configure(&network, name, &settings);
    }
    network.start_all();
    let bank = network.client("bank");
    submit(&bank, 1, TABLE);
    submit(&bank, 2, "INSERT INTO account (id, balance) VALUES (1, 100)");
    submit(&bank, 3, "CREATE SHARED TABLE note (id bigint PRIMARY KEY)");
    network.wait_for_equal_heights();
    Some(network)
}

#[test]
fn blocks_go_on_while_an_audit_that_people_have_asked_for_reads() {
    let Some(network) = start_with_note("asked-audit", "state", 0) else { return };
    let bank = network.client("bank");
    let mut numbers = 4..;
    for (at, name) in ORGANIZATIONS.into_iter().enumerate() {
        let [hold, release] = table_lock(network.servers[at].name());
        // A repair reads the tables between two blocks: what holds up its reading holds up blocks, so this is seen here.
        for (word, goes_on) in [("audit", true), ("repair", false)] {
            let height = network.status(at).height;
            let mut holder = connect(&network.servers[at]);
            holder.run(hold).expect("a lock");
            let asked = ask_meanwhile(&network, word, name);
            // More than the engine needs to see that it is asked.
            std::thread::sleep(Duration::from_secs(1));
            let number = numbers.next().expect("numbers");
            let insert = statement(&format!("INSERT INTO note (id) VALUES ({number})"));
            let proposal = bank.sign(number, insert);
            let done = bank.submit(number, &proposal, Some(name), Duration::from_secs(3));
            assert_eq!(done.is_ok_and(|done| done.has_succeeded), goes_on, "{name} {word}");
            assert!(!asked.is_finished(), "{name}: {word} has not waited for the lock");
            assert_eq!(network.status(at).height, height + u64::from(goes_on), "{name} {word}");
            holder.run(release).expect("the lock is gone");
            let (is_certified, text) = asked.join().expect("it is answered");
            if word == "audit" {
                let line = format!("are what block {height} certifies");
                assert!(is_certified && text.contains(&line), "{name}: {text}");
            }
            assert_eq!(network.wait_for_equal_heights(), height + 1);
        }
    }
    network.end_and_compare_files();
}

#[test]
fn people_are_not_answered_by_an_audit_that_began_before_they_asked_and_theirs_repairs_nothing() {
    let Some(network) = start_with_note("asked-later", "none", 1) else { return };
    for (at, name) in ORGANIZATIONS.into_iter().enumerate() {
        let [hold, release] = table_lock(network.servers[at].name());
        let mut holder = connect(&network.servers[at]);
        holder.run(hold).expect("a lock");
        // An audit by itself has begun, and waits for the lock.
        std::thread::sleep(Duration::from_secs(3));
        tamper(&network.servers[at], &["INSERT INTO note (id) VALUES (999)"]);
        let asked = ask_meanwhile(&network, "audit", name);
        std::thread::sleep(Duration::from_secs(1));
        holder.run(release).expect("the lock is gone");
        let (is_certified, text) = asked.join().expect("it is answered");
        assert!(!is_certified && text.contains("were NOT what block 3 certifies: note"), "{name}: {text}");
        let status = network.status(at);
        assert!(status.repairs.is_empty(), "{name}: {status:?}");
    }
}

/// Has an organization audit its tables once, beginning now.
fn begin_audit(demo: &mut DemoNetwork, at: usize) {
    let open_snapshot = demo.servers[at].snapshot_opener();
    let organization = &mut demo.network.organizations[at];
    organization.keep_audits(AuditSettings { pause: Some(Duration::ZERO), open_snapshot });
    assert!(organization.audit_in_background(false).is_none());
    assert!(organization.audits().is_some_and(|audits| audits.is_running()));
}

fn end_audit(demo: &mut DemoNetwork, at: usize) -> AuditReport {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(ended) = demo.network.organizations[at].audit_in_background(false) {
            return ended.expect("an audit");
        }
        assert!(Instant::now() < deadline, "the audit does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn blocks_go_on_while_an_audit_reads_and_it_compares_with_the_block_that_it_began_after() {
    let folder = TestFolder::new("audit-meanwhile");
    let Some(mut demo) = SMALLBANK.start(&folder) else { return };
    let define = demo.client.propose(&[(TABLE, &[])]);
    demo.network.commit_block(vec![define]).expect("a quorum");
    for at in 0..3 {
        let [hold, release] = table_lock(demo.servers[at].name());
        for is_tampered in [false, true] {
            if is_tampered {
                demo.tamper(at, "UPDATE savings SET balance = balance + 7 WHERE customer = 8", false)
                    .expect("tampering");
            }
            let mut holder = connect(&demo.servers[at]);
            holder.run(hold).expect("a lock");
            let height = demo.network.height();
            begin_audit(&mut demo, at);
            // The tables behind account, checking and savings, change before it reads them.
            for _ in 0..2 {
                let update = "UPDATE savings SET balance = balance + 1 WHERE customer < 7";
                let proposal = demo.client.propose(&[(update, &[])]);
                let report = demo.network.commit_block(vec![proposal]).expect("a quorum");
                assert_eq!(report.consenting.len(), 3, "{report:?}");
            }
            // A row that differs is repaired by a vote before the audit is at its end.
            holder.run(release).expect("the lock is gone");
            let report = end_audit(&mut demo, at);
            let differing = if is_tampered { vec!["savings".to_owned()] } else { Vec::new() };
            assert_eq!((report.height, report.rows, report.differing), (height, 100, differing));
        }
        // Which row it is another member says, and cannot lie about it.
        let (own, donor) = two(&mut demo, at);
        let rows = own.differing_rows(donor).expect("a comparison").rows;
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((row.table.as_str(), row.key.as_str()), ("savings", "(8)"));
        // A block changes the row between finding and repair: the vote finds it, and what the next audit reads is certified.
        let update = "UPDATE savings SET balance = balance + 1 WHERE customer = 8";
        let proposal = demo.client.propose(&[(update, &[])]);
        begin_audit(&mut demo, at);
        let report = demo.network.commit_block(vec![proposal]).expect("a quorum");
        assert_eq!(report.outvoted.len(), 1, "{report:?}");
        let audits = demo.network.organizations[at].audits();
        assert!(audits.is_some_and(|audits| !audits.is_running()), "a repair gives up an audit before it");
        begin_audit(&mut demo, at);
        assert_eq!(end_audit(&mut demo, at).differing, Vec::<String>::new());
        assert_equal_members(&mut demo);
    }
}

/// An organization, and the next one as its donor.
fn two(
    demo: &mut DemoNetwork,
    at: usize,
) -> (&mut ankerdb_ledger::organization::Organization, &mut ankerdb_ledger::organization::Organization) {
    let other = (at + 1) % 3;
    let found = demo.network.organizations.get_disjoint_mut([at, other]).expect("two of them");
    let [own, donor] = found;
    (own, donor)
}
