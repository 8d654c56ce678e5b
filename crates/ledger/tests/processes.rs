//! Networks of real processes over real databases: what clients and people see, and what is refused.

mod products;
mod started;

use ankerdb_ledger::member::connection::{PostgresConnection, SqlConnection as _};
use ankerdb_ledger::node::config::NodeFolder;
use products::TestFolder;
use started::{LIMIT, ORGANIZATIONS, StartedNetwork, TABLE, command, said, statement, submit};
use std::path::Path;
use std::time::Duration;

fn text(path: &Path) -> &str {
    path.to_str().expect("a name in UTF-8")
}

#[test]
fn three_organizations_and_an_ordering_server_as_processes_do_what_a_client_submits() {
    let Some(network) = StartedNetwork::start("processes", 2) else { return };
    let bank = network.path("bank");
    let run = |sql: &str| command(&["submit", text(&bank), sql]);
    let output = run(TABLE);
    assert!(
        output.status.success() && said(&output).contains("transaction 1.0 (number 1) succeeded"),
        "{}",
        said(&output)
    );
    let output = run("INSERT INTO account (id, balance) VALUES (1, 100), (2, 100)");
    assert!(output.status.success() && said(&output).contains("(number 2) succeeded"), "{}", said(&output));
    // One that fails is in the ledger, and says why.
    let output = run("UPDATE account SET balance = balance - 500 WHERE id = 1");
    assert!(!output.status.success() && said(&output).contains("FAILED: "), "{}", said(&output));
    // One that cannot be executed by all is refused before it is ordered.
    let output = run("UPDATE account SET balance = random() WHERE id = 1");
    assert!(!output.status.success() && said(&output).contains("has refused: "), "{}", said(&output));
    // To send one again has no second effect, whichever organization is asked.
    for at in ["postgresql", "mariadb", "ankerdb"] {
        let again = ["submit", text(&bank), "INSERT INTO account (id, balance) VALUES (1, 100), (2, 100)"];
        let output = command(&[&again[..], &["--number", "2", "--at", at]].concat());
        assert!(
            output.status.success() && said(&output).contains("(number 2) succeeded"),
            "{}",
            said(&output)
        );
    }
    let height = network.wait_for_equal_heights();
    assert_eq!(height, 3);
    for (at, name) in ORGANIZATIONS.into_iter().enumerate() {
        let all_consent = |status: &ankerdb_ledger::node::wire::StatusMessage| {
            status.members.iter().all(|member| member.consents == Some(true) && member.is_reached)
        };
        network.wait_for(at, "of one mind", all_consent);
        let output = command(&["status", text(&network.path(name))]);
        assert!(
            said(&output).contains("3 blocks") && said(&output).contains("consents to block 3"),
            "{}",
            said(&output)
        );
        let output = command(&["audit", text(&network.path(name))]);
        assert!(
            output.status.success() && said(&output).contains("are what block 3 certifies"),
            "{}",
            said(&output)
        );
    }
    network.end_and_compare_files();
}

#[test]
fn what_is_changed_behind_the_ledgers_back_is_found_by_an_audit_or_the_vote_and_repaired_from_another_process()
 {
    let Some(network) = StartedNetwork::start("processes-tampered", 2) else { return };
    let client = network.client("bank");
    submit(&client, 1, TABLE);
    submit(&client, 2, "INSERT INTO account (id, balance) VALUES (1, 100), (2, 100), (3, 100)");
    network.wait_for_equal_heights();
    let tamper = |at: usize, sql: &str| {
        use ankerdb_ledger::member::connection::{MariaDbConnection, PostgresConnection, SqlConnection};
        let server = &network.servers[at];
        let mut connection: Box<dyn SqlConnection> = match server.name() {
            "MariaDB" => Box::new(MariaDbConnection::open(&server.address).expect("a connection")),
            _ => Box::new(PostgresConnection::open(&server.address).expect("a connection")),
        };
        connection.run(sql).map(drop).expect("it is changed");
    };
    for (at, name) in ORGANIZATIONS.into_iter().enumerate() {
        let folder = network.path(name);
        tamper(at, "UPDATE account SET balance = 1000000 WHERE id = 2");
        if name != "ankerdb" {
            tamper(at, "DELETE FROM ledger_digest");
        }
        let output = command(&["audit", text(&folder)]);
        assert!(
            !output.status.success() && said(&output).contains("NOT what block 2 certifies"),
            "{}",
            said(&output)
        );
        let output = command(&["repair", text(&folder)]);
        assert!(
            output.status.success() && said(&output).contains("account (2) was (2, 1000000), is (2, 100)"),
            "{}",
            said(&output)
        );
        let output = command(&["audit", text(&folder)]);
        assert!(output.status.success(), "{}", said(&output));
    }
    // A vote finds the row that it is about.
    for (at, name) in ORGANIZATIONS.into_iter().enumerate() {
        tamper(at, "UPDATE account SET balance = 5 WHERE id = 3");
        let number = 3 + at as u64;
        let done = submit(&client, number, "UPDATE account SET balance = balance + 1 WHERE id = 3");
        assert!(done.has_succeeded);
        network.wait_for_equal_heights();
        network.wait_for(at, "repaired", |status| {
            status.repairs.iter().any(|line| line.contains("account (3) was (3, "))
        });
        let output = command(&["audit", text(&network.path(name))]);
        assert!(output.status.success(), "{}", said(&output));
    }
    network.end_and_compare_files();
}

#[test]
fn under_all_3_one_that_differs_stops_all_until_it_is_repaired_and_votes_in_the_next_round() {
    let Some(network) = StartedNetwork::start("processes-all3", 3) else { return };
    let client = network.client("bank");
    submit(&client, 1, TABLE);
    submit(&client, 2, "INSERT INTO account (id, balance) VALUES (1, 100)");
    network.wait_for_equal_heights();
    let server = &network.servers[0];
    let mut connection =
        ankerdb_ledger::member::connection::PostgresConnection::open(&server.address).expect("a connection");
    use ankerdb_ledger::member::connection::SqlConnection as _;
    connection.run("UPDATE account SET balance = 7 WHERE id = 1").map(drop).expect("it is changed");
    let done = submit(&client, 3, "UPDATE account SET balance = balance + 1 WHERE id = 1");
    assert!(done.has_succeeded);
    network.wait_for_equal_heights();
    let status = network.wait_for(0, "repaired", |status| !status.repairs.is_empty());
    assert!(status.repairs[0].contains("account (1) was (1, 7), is (1, 100)"), "{status:#?}");
    network.end_and_compare_files();
}

#[test]
fn parties_that_make_their_keys_apart_found_the_same_network_and_it_works() {
    let Some(mut network) = StartedNetwork::found_with_successor("processes-apart", 2, 1) else { return };
    // Addresses and databases are those of a network that was made at once; the keys are new.
    let apart = TestFolder::new("processes-apart-keys");
    let parties: Vec<_> = {
        let folder = NodeFolder::open(&network.path("bank")).expect("a folder");
        folder
            .config
            .party
            .iter()
            .map(|party| (party.name.clone(), party.role, party.address.clone(), party.service))
            .collect()
    };
    let run = |arguments: &[String]| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = command(&arguments);
        (output.status.success(), said(&output))
    };
    let folder_of = |name: &str| text(&apart.path.join(name)).to_owned();
    for (name, role, address, service) in &parties {
        let role = format!("--role={}", format!("{role:?}").to_lowercase());
        let mut arguments = vec!["identity".into(), folder_of(name), format!("--name={name}"), role];
        arguments.extend(address.as_ref().map(|address| format!("--address={address}")));
        arguments.extend(service.map(|service| format!("--service={service}")));
        let (is_done, shown) = run(&arguments);
        assert!(is_done, "{shown}");
        assert!(!run(&arguments).0, "it is overwritten");
    }
    let mut networks = Vec::new();
    for (turn, (name, ..)) in parties.iter().enumerate() {
        let mut publics: Vec<String> =
            parties.iter().map(|(name, ..)| format!("{}/public.toml", folder_of(name))).collect();
        publics.rotate_left(turn);
        let mut arguments = vec!["join".into(), folder_of(name)];
        arguments.extend(publics);
        let database = NodeFolder::open(&network.path(name)).expect("a folder").config.database;
        arguments.extend(database.map(|database| format!("--database={database}")));
        let (is_done, shown) = run(&arguments);
        assert!(is_done, "{shown}");
        networks.push(shown);
    }
    assert!(networks.iter().all(|network| *network == networks[0]), "{networks:#?}");
    network.folder = apart;
    network.start_all();
    let client = network.client("bank");
    assert!(submit(&client, 1, TABLE).has_succeeded);
    network.wait_for_equal_heights();
    network.end_and_compare_files();
}

#[test]
fn commands_say_in_one_line_what_is_wrong() {
    let Some(mut network) = StartedNetwork::found("processes-wrong", 2) else { return };
    let folder = network.path("postgresql");
    let failing = |arguments: &[&str], part: &str| {
        let output = command(arguments);
        let shown = said(&output);
        assert!(!output.status.success() && shown.contains(part), "{arguments:?}: {shown}");
    };
    failing(&["status", text(&folder)], "\"postgresql\": ");
    failing(&["start", text(&network.path("bank"))], "a client has no process");
    failing(&["start", "nowhere"], "nowhere/ledger.toml");
    failing(&["submit", text(&folder), "SELECT 1"], "is no client");
    let own = text(&network.folder.path).to_owned();
    let organization = "--organization=postgresql@127.0.0.1:1=postgresql://a@b/c";
    failing(
        &["init", &own, organization, "--ordering=127.0.0.1:2", "--client=bank"],
        "nothing is overwritten",
    );
    failing(&["init", "/tmp/x", "--organization=a", "--ordering=b", "--client=c"], "NAME@HOST:PORT=DATABASE");
    for secret in ["key", "certificate.key", "ledger.toml"] {
        use std::os::unix::fs::MetadataExt as _;
        let mode = std::fs::metadata(folder.join(secret)).expect("a file").mode();
        assert_eq!(mode & 0o777, 0o600, "{secret}");
    }
    // A key that others may read is not used.
    use std::os::unix::fs::PermissionsExt as _;
    let key = network.path("ordering").join("key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("it is changed");
    failing(&["start", text(&network.path("ordering"))], "chmod 600");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("it is changed");
    // Without anybody who orders, a client is told so in time.
    network.start_process(0);
    let client = network.client("bank");
    let proposal = client.sign(1, statement(TABLE));
    let error = client.submit(1, &proposal, Some("postgresql"), std::time::Duration::from_secs(2));
    let error = error.expect_err("nobody orders").to_string();
    assert!(error.contains("not known to be certified") && error.contains("--number 1"), "{error}");
    for at in 1..network.parties.len() {
        network.start_process(at);
    }
    let done = client.submit(1, &proposal, None, LIMIT).expect("it is certified");
    assert_eq!((done.height, done.has_succeeded), (1, true));
    network.end_and_compare_files();
}

/// Each of so many clients adds to an account of its own, all at once.
fn submit_by_all(network: &StartedNetwork, clients: &[String], number: u64) {
    std::thread::scope(|scope| {
        for (at, name) in clients.iter().enumerate() {
            scope.spawn(move || {
                let sql = format!("UPDATE account SET balance = balance + 1 WHERE id = {at}");
                assert!(submit(&network.client(name), number, &sql).has_succeeded, "{name}");
            });
        }
    });
}

#[test]
fn a_node_executes_a_block_over_several_connections_and_says_when_it_had_to_take_one() {
    let clients: Vec<String> = (0..64).map(|at| format!("client{at}")).collect();
    let more = ["--block-wait-ms=1500"];
    let Some(mut network) = StartedNetwork::found_for("spread", 2, 1, &clients, &more) else { return };
    network.start_all();
    let first = network.client(&clients[0]);
    submit(&first, 1, TABLE);
    let rows: Vec<String> = (0..clients.len()).map(|at| format!("({at}, 100)")).collect();
    submit(&first, 2, &format!("INSERT INTO account (id, balance) VALUES {}", rows.join(", ")));
    let mut database = PostgresConnection::open(&network.servers[0].address).expect("a connection");
    let mut sessions = || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
        let rows = database.run(sql).expect("a number");
        String::from_utf8(rows[0][0][0].clone().expect("a number")).expect("digits").parse::<usize>()
    };
    // The main connection, one that says what the product locks, and this one.
    assert!(sessions().expect("a number") <= 3);
    submit_by_all(&network, &clients, 3);
    assert!(sessions().expect("a number") >= 4, "no block was spread");
    network.wait_for_equal_heights();
    assert!(!network.status(0).state.contains("on one connection"));
    // Somebody else holds a row for longer than a part waits.
    database.run("BEGIN; SELECT balance FROM account WHERE id = 7 FOR UPDATE").expect("a lock");
    let ending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(4));
        database.run("ROLLBACK").map(drop)
    });
    submit_by_all(&network, &clients, 4);
    ending.join().expect("a thread").expect("a rollback");
    network.wait_for(0, "saying so", |status| status.state.contains("was executed on one connection"));
    network.wait_for_equal_heights();
    for name in ORGANIZATIONS {
        let output = command(&["audit", text(&network.path(name))]);
        assert!(output.status.success() && said(&output).contains("certifies"), "{}", said(&output));
    }
    network.end_and_compare_files();
}

#[test]
fn transactions_that_are_submitted_together_stay_in_their_order_over_several_blocks_and_are_done_once() {
    // Blocks of 64 transactions.
    let (clients, small) = (["bank".to_owned()], ["--block-size=64"]);
    let Some(mut network) = StartedNetwork::found_for("processes-together", 2, 1, &clients, &small) else {
        return;
    };
    network.start_all();
    let client = network.client("bank");
    submit(&client, 1, TABLE);
    submit(&client, 2, "INSERT INTO account (id, balance) VALUES (1, 0)");
    // Each has an effect only behind the one before it.
    const COUNT: u64 = 300;
    let step = |at: u64| format!("UPDATE account SET balance = balance + 1 WHERE id = 1 AND balance = {at}");
    let proposals: Vec<Vec<u8>> = (0..COUNT).map(|at| client.sign(3 + at, statement(&step(at)))).collect();
    let done = client.submit_all(3, &proposals, Some("mariadb"), LIMIT).expect("all are certified");
    assert_eq!(done.len() as u64, COUNT);
    let places: Vec<(u64, u32)> = done.iter().map(|done| (done.height, done.index)).collect();
    assert!(places.is_sorted() && places[0].0 < places[299].0, "{places:?}");
    assert!(done.iter().all(|done| done.has_succeeded), "{done:?}");
    // Again, from another organization: outcomes of the first time.
    let again = client.submit_all(3, &proposals, Some("ankerdb"), LIMIT).expect("they are known");
    let outcomes = |done: &[ankerdb_ledger::node::people::SubmittedTransaction]| {
        done.iter().map(|done| (done.number, done.height, done.index)).collect::<Vec<_>>()
    };
    assert_eq!(outcomes(&again), outcomes(&done));
    network.wait_for_equal_heights();
    for (server, name) in network.servers.iter().zip(ORGANIZATIONS) {
        let rows = started::connect(server).run("SELECT balance FROM account").expect("a row");
        assert_eq!(rows[0][0][0].as_deref(), Some(COUNT.to_string().as_bytes()), "{name}");
    }
    // One that is refused keeps all of its message out.
    let number = 3 + COUNT;
    let bad = ["UPDATE account SET balance = 7 WHERE id = 1", "UPDATE account SET balance = random()"];
    let bad: Vec<Vec<u8>> =
        (number..).zip(bad).map(|(number, sql)| client.sign(number, statement(sql))).collect();
    let refused = client.submit_all(number, &bad, None, LIMIT).expect_err("it is not portable");
    assert!(refused.to_string().contains("has refused"), "{refused}");
    let height = network.wait_for_equal_heights();
    let done = submit(&client, number, "UPDATE account SET balance = balance - 1 WHERE id = 1");
    assert!(done.has_succeeded && done.height == height + 1, "{done:?}");
    network.end_and_compare_files();
}
