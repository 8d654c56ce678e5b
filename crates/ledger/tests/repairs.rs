//! Nodes as processes that come back by executing blocks again: as their configuration says, or as people want.

mod products;
mod started;

use started::{ORGANIZATIONS, StartedNetwork, TABLE, ask, configure, connect, submit};
use std::process::Child;

/// Executes a statement past the ledger, and removes the digests that triggers make of it.
fn tamper(network: &StartedNetwork, at: usize, sql: &str) {
    let server = &network.servers[at];
    let mut connection = connect(server);
    let traces = if server.name() == "AnKerDB" { "" } else { "; DELETE FROM ledger_digest" };
    connection.run(&format!("BEGIN; {sql}{traces}; COMMIT")).map(drop).expect("it is changed");
}

const CORRUPTION: &str = "UPDATE account SET balance = 1000000 WHERE id = 2";

/// A network with twelve accounts, whose organizations have checkpoints of two blocks each.
fn start(name: &str, recoveries: [&str; 3]) -> Option<StartedNetwork> {
    let mut network = StartedNetwork::found(name, 2)?;
    for (name, recovery) in ORGANIZATIONS.into_iter().zip(recoveries) {
        configure(&network, name, &format!("recovery = \"{recovery}\"\ncheckpoint_blocks = 2"));
    }
    network.start_all();
    let bank = network.client("bank");
    submit(&bank, 1, TABLE);
    let accounts: Vec<String> = (0..12).map(|id| format!("({id}, 100)")).collect();
    submit(&bank, 2, &format!("INSERT INTO account (id, balance) VALUES {}", accounts.join(", ")));
    for number in 3..6 {
        submit(&bank, number, &format!("UPDATE account SET balance = {number} WHERE id = 1"));
    }
    network.wait_for_equal_heights();
    Some(network)
}

#[test]
fn people_repair_a_node_by_the_class_of_its_configuration_or_another_one() {
    let recoveries = ["partial-replay", "optimized-partial-replay", "none"];
    let Some(network) = start("repairs", recoveries) else { return };
    for (at, name) in ORGANIZATIONS.into_iter().enumerate() {
        network.wait_for(at, "with a checkpoint", |status| status.checkpoints.first() == Some(&4));
        let (_, text) = ask(&network, &["status"], name);
        assert!(text.contains("checkpoints of blocks 4, 2"), "{text}");
        for method in [None, Some("full-replay"), Some("optimized-partial-replay"), Some("state")] {
            tamper(&network, at, CORRUPTION);
            let (is_certified, text) = ask(&network, &["audit"], name);
            assert!(!is_certified && text.contains("NOT what block 5 certifies: account"), "{text}");
            let words = method.map_or(vec!["repair"], |method| vec!["repair", "--method", method]);
            let (is_repaired, text) = ask(&network, &words, name);
            if method.is_none() && name == "ankerdb" {
                assert!(!is_repaired && text.contains("recovery is \"none\": --method"), "{text}");
                continue;
            }
            let class = method.unwrap_or(recoveries[at]);
            let expected = match class {
                "state" => "account (2) was (2, 1000000), is (2, 100)".to_owned(),
                class if class.contains("partial") => {
                    format!(
                        "repaired by {class}: 12 rows loaded from the checkpoint of block 4, 1 blocks executed again"
                    )
                }
                class => format!("repaired by {class}: 5 blocks executed again"),
            };
            assert!(is_repaired && text.contains(&expected), "{class}: {text}");
            assert!(ask(&network, &["audit"], name).0, "{class}");
        }
    }
    let (is_repaired, text) = ask(&network, &["repair", "--method", "replay"], "postgresql");
    assert!(!is_repaired && text.contains("optimized-full-replay"), "{text}");
    network.end_and_compare_files();
}

#[test]
fn a_node_that_is_outvoted_executes_blocks_again_or_stays_behind_as_its_configuration_says() {
    let recoveries = ["partial-replay", "optimized-full-replay", "none"];
    let Some(network) = start("outvoted-node", recoveries) else { return };
    let bank = network.client("bank");
    let update = "UPDATE account SET balance = balance + 1 WHERE id = 2";
    for (at, number) in [(0, 6), (1, 7)] {
        tamper(&network, at, CORRUPTION);
        assert!(submit(&bank, number, update).has_succeeded);
        network.wait_for_equal_heights();
        let expected = format!("repaired by {}: ", recoveries[at]);
        let status = network
            .wait_for(at, "repaired", |status| status.repairs.iter().any(|line| line.starts_with(&expected)));
        assert_eq!(status.suspects, Vec::<String>::new());
        assert!(ask(&network, &["audit"], ORGANIZATIONS[at]).0);
    }
    // The others go on without the one that does not come back.
    tamper(&network, 2, CORRUPTION);
    assert!(submit(&bank, 8, update).has_succeeded);
    let is_halted =
        |status: &ankerdb_ledger::node::wire::StatusMessage| status.state.contains("recovery is \"none\"");
    network.wait_for(2, "halted", is_halted);
    assert!(submit(&bank, 9, update).has_succeeded);
    assert_eq!(network.status(2).height, 7);
    let (is_repaired, text) = ask(&network, &["repair", "--method", "optimized-full-replay"], "ankerdb");
    assert!(is_repaired && text.contains("repaired by optimized-full-replay"), "{text}");
    assert_eq!(network.wait_for_equal_heights(), 9);
    assert!(ask(&network, &["audit"], "ankerdb").0);
    network.end_and_compare_files();
}

#[test]
fn a_checkpoint_finds_what_no_vote_is_about_and_the_node_repairs_it() {
    let Some(network) = start("checkpoint-audit", ["partial-replay", "state", "full-replay"]) else { return };
    let bank = network.client("bank");
    for (at, number) in [(0, 6), (1, 8), (2, 10)] {
        tamper(&network, at, "DELETE FROM account WHERE id = 9");
        for number in [number, number + 1] {
            assert!(
                submit(&bank, number, "UPDATE account SET balance = balance + 1 WHERE id = 3").has_succeeded
            );
        }
        network.wait_for_equal_heights();
        let repaired =
            ["repaired by partial-replay", "account (9) was no row", "repaired by full-replay"][at];
        network.wait_for(at, "repaired", |status| status.repairs.iter().any(|line| line.contains(repaired)));
        let (_, text) = ask(&network, &["status"], ORGANIZATIONS[at]);
        assert!(text.contains("NO CHECKPOINT: the database's rows add up to"), "{text}");
        assert!(ask(&network, &["audit"], ORGANIZATIONS[at]).0);
    }
    network.end_and_compare_files();
}

/// The most memory that a process has had since this was asked last, in mebibytes.
fn peak_memory(process: Option<&Child>) -> u64 {
    let folder = format!("/proc/{}", process.expect("it runs").id());
    let status = std::fs::read_to_string(format!("{folder}/status")).expect("its status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    let kibibytes = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    std::fs::write(format!("{folder}/clear_refs"), "5").expect("the peak is forgotten");
    kibibytes.expect("a number") >> 10
}

#[test]
fn a_large_table_that_was_emptied_comes_back_without_all_of_it_in_the_memory_of_either_node() {
    const TRANSACTIONS: u64 = 32;
    const ROWS: u64 = 3800;
    let Some(mut network) = StartedNetwork::found("emptied", 2) else { return };
    for name in ORGANIZATIONS {
        configure(&network, name, "recovery = \"state\"\ncheckpoint_blocks = 0\naudit_seconds = 0");
    }
    network.start_all();
    let bank = network.client("bank");
    submit(&bank, 1, "CREATE SHARED TABLE note (id bigint PRIMARY KEY, words text NOT NULL)");
    // As much as goes into a transaction, in each: all rows have 116 mebibytes.
    let words = "word ".repeat(200);
    for number in 2..TRANSACTIONS + 2 {
        let row = |id: u64| format!("({}, '{words}')", number * ROWS + id);
        let rows: Vec<String> = (0..ROWS).map(row).collect();
        let done = submit(&bank, number, &format!("INSERT INTO note (id, words) VALUES {}", rows.join(", ")));
        assert!(done.has_succeeded, "{done:?}");
    }
    network.wait_for_equal_heights();
    // Blocks are in the memory of nodes that have made them.
    for at in 0..3 {
        network.kill(at);
        network.start_process(at);
    }
    network.wait_for_equal_heights();
    for (at, name) in ORGANIZATIONS.into_iter().enumerate() {
        for other in 0..3 {
            network.wait_for(other, "at work", |status| {
                status.state.starts_with("works with")
                    && status.members.iter().all(|member| member.is_reached)
            });
        }
        let empty = match name {
            "postgresql" => {
                "ALTER TABLE note DISABLE TRIGGER ledger_no_truncate; TRUNCATE note; ALTER TABLE note ENABLE ALWAYS TRIGGER ledger_no_truncate"
            }
            _ => "TRUNCATE TABLE note",
        };
        connect(&network.servers[at]).run(empty).expect("it is emptied");
        for process in &network.processes[..3] {
            peak_memory(process.as_ref());
        }
        let before: Vec<u64> = (0..3).map(|at| peak_memory(network.processes[at].as_ref())).collect();
        let (is_repaired, said) = ask(&network, &["repair"], name);
        let count = format!("{} differ and were written", TRANSACTIONS * ROWS);
        assert!(is_repaired && said.contains(&count), "{said}");
        let after = (0..3).map(|at| peak_memory(network.processes[at].as_ref()));
        let more: Vec<u64> =
            after.zip(&before).map(|(after, before)| after.saturating_sub(*before)).collect();
        println!("{name} was emptied: {more:?} mebibytes more");
        assert!(more.iter().all(|more| *more < 80), "{name}: {more:?}");
    }
    (0..3).for_each(|at| assert!(ask(&network, &["audit"], ORGANIZATIONS[at]).0));
    network.end_and_compare_files();
}
