//! Agreement (section 4.6.1 of the dissertation) in networks of real processes: what organizations agree to by their own data, what
//! a policy asks for, and what comes of a transaction whose agreements somebody has left out or forged.

mod products;
mod started;

use ankerdb_ledger::agreement::{Agreement, ChainedTransaction};
use ankerdb_ledger::constraint::OrganizationConstraint;
use ankerdb_ledger::definition::SharedTable;
use ankerdb_ledger::error::LedgerError;
use ankerdb_ledger::member::address::open_member;
use ankerdb_ledger::member::connection::{MariaDbConnection, PostgresConnection, SqlConnection};
use ankerdb_ledger::member::reader::ReadingSession;
use ankerdb_ledger::node::people::{LedgerClient, SubmittedTransaction};
use ankerdb_ledger::node::wire::{
    AgreementMessage, Nothing, ORDERING as ORDERING_SERVICE, ORGANIZATION, OutcomeMessage, ProposalMessage,
    StatusMessage,
};
use ankerdb_ledger::value::LedgerValue;
use started::liar::Liar;
use started::{LIMIT, ORGANIZATIONS, StartedNetwork, command, said, statement, submit};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TRADES: &str = "CREATE SHARED TABLE trades (tid bigint PRIMARY KEY, product varchar(20) NOT NULL, \
                      amount bigint NOT NULL, totalprice numeric(12, 2) NOT NULL)";

/// A network with these lines in the configurations of its organizations; nothing is started.
fn found(name: &str, constraints: [&str; 3]) -> Option<StartedNetwork> {
    let network = StartedNetwork::found(name, 2)?;
    for (name, lines) in ORGANIZATIONS.into_iter().zip(constraints) {
        let path = network.path(name).join("ledger.toml");
        let text = std::fs::read_to_string(&path).expect("a configuration");
        assert!(text.contains("# [[constraint]]"), "{text}");
        let (first, tables) = lines
            .split_once("[[")
            .map_or((lines, String::new()), |(first, rest)| (first, format!("[[{rest}")));
        // Settings stand above the first table.
        let text = text.replacen("\nfounding", &format!("\n{first}\nfounding"), 1) + &tables;
        std::fs::write(&path, text).expect("a configuration");
    }
    Some(network)
}

fn connect(network: &StartedNetwork, at: usize) -> Box<dyn SqlConnection> {
    let server = &network.servers[at];
    match server.name() {
        "MariaDB" => Box::new(MariaDbConnection::open(&server.address).expect("a connection")),
        _ => Box::new(PostgresConnection::open(&server.address).expect("a connection")),
    }
}

/// Executes a statement in the database of an organization, past the ledger.
fn locally(network: &StartedNetwork, at: usize, sql: &str) {
    connect(network, at).run(sql).map(drop).unwrap_or_else(|failure| panic!("{sql}: {}", failure.message));
}

/// Submits a transaction to an organization once, and says what it answers.
fn offer(
    network: &StartedNetwork,
    client: &LedgerClient,
    number: u64,
    at: &str,
    sql: &str,
) -> OutcomeMessage {
    let bank = Liar::new(network, "bank");
    let proposal = client.sign(number, statement(sql));
    let message = ProposalMessage { proposal, wait_ms: 10_000, seen_height: 0 };
    bank.call(at, ORGANIZATION, "Submit", message).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Submits a transaction that is not agreed to, and says why.
fn refused(client: &LedgerClient, number: u64, sql: &str) -> String {
    match client.submit(number, &client.sign(number, statement(sql)), None, LIMIT) {
        Err(LedgerError::Refused(reason)) => reason,
        other => panic!("{sql}: {other:?}"),
    }
}

fn insert(tid: u64, product: &str, amount: u64, price: &str) -> String {
    format!(
        "INSERT INTO trades (tid, product, amount, totalprice) VALUES ({tid}, '{product}', {amount}, {price})"
    )
}

const SELLER: &str = r#"
[[constraint]]
name = "enough in stock"
table = "trades"
on = ["insert"]
check = "new.amount <= (SELECT amount FROM stocks WHERE stocks.product = new.product)"
"#;

const BUYER: &str = r#"
[[constraint]]
name = "enough money"
table = "trades"
on = ["insert"]
check = "(SELECT sum(totalprice) FROM new_rows) <= (SELECT money FROM fund)"
"#;

/// Conditions of all kinds of statements, with local data of its own.
const CARRIER: &str = r#"
[[constraint]]
name = "the bank's, and not too heavy"
table = "trades"
check = """proposal.client = 'bank' and proposal.verb <> 'delete' and coalesce(new.amount, old.amount) <=
           (SELECT max(c.tons) FROM capacity AS c)"""

[[constraint]]
name = "prices do not fall"
table = "trades"
on = ["update"]
check = "new.totalprice >= old.totalprice"
"#;

/// What an organization's people, others and strangers see of the agreements.
fn assert_agreements_are_seen(network: &StartedNetwork) {
    let height = network.wait_for_equal_heights();
    let own = network.status(0);
    assert_eq!(own.policies, ["trades: all"]);
    assert_eq!(own.constraints, ["\"enough in stock\" on trades"]);
    assert!(own.objections.iter().any(|line| line.contains("transaction 3 of \"bank\"")), "{own:#?}");
    let others: StatusMessage =
        Liar::new(network, "bank").call("postgresql", ORGANIZATION, "Status", Nothing {}).expect("a status");
    assert!(others.constraints.is_empty() && others.objections.is_empty(), "{others:#?}");
    let ledger = network.path("ankerdb").join("ankerdb.ledger");
    let ledger = ledger.to_str().expect("a name in UTF-8");
    let shown = said(&command(&["export", ledger]));
    assert!(shown.lines().all(|line| line.ends_with("\tagreed: postgresql, mariadb, ankerdb")), "{shown}");
    let shown = said(&command(&["verify", ledger]));
    assert!(shown.contains("transactions on table \"trades\" had the agreement of all"), "{shown}");
    let proof = network.path("bank").join("proof");
    let proof = proof.to_str().expect("a name in UTF-8");
    assert!(command(&["prove", ledger, &format!("{height}.0"), "--output", proof]).status.success());
    let shown = said(&command(&["check", proof]));
    assert!(shown.contains("agreed to by postgresql, mariadb, ankerdb"), "{shown}");
}

#[test]
fn organizations_agree_by_their_own_data_and_a_refusal_names_the_constraint() {
    let Some(mut network) = found("agreement", [SELLER, BUYER, CARRIER]) else { return };
    locally(&network, 0, "CREATE TABLE stocks (product text PRIMARY KEY, amount bigint)");
    locally(&network, 0, "INSERT INTO stocks VALUES ('Gearbox', 5), ('Nut', 1000)");
    locally(&network, 1, "CREATE TABLE fund (money decimal(12, 2))");
    locally(&network, 1, "INSERT INTO fund VALUES (60000)");
    locally(&network, 2, "CREATE TABLE capacity (truck int PRIMARY KEY, tons bigint)");
    locally(&network, 2, "INSERT INTO capacity VALUES (1, 20), (2, 40)");
    network.start_all();
    let client = network.client("bank");
    assert!(submit(&client, 1, &format!("{TRADES} WITH (agreement = 'all')")).has_succeeded);
    assert!(submit(&client, 2, &insert(42, "Gearbox", 5, "60000")).has_succeeded);

    // The seller has five gearboxes, and no wheels; the buyer 60,000; the carrier 40 tons.
    let reason = refused(&client, 3, &insert(43, "Gearbox", 6, "1"));
    let expected = "\"postgresql\" does not agree: constraint \"enough in stock\" does not hold (statement 1, row tid = 43)";
    assert!(reason.contains(expected), "{reason}");
    assert!(refused(&client, 4, &insert(43, "Wheel", 1, "1")).contains("\"enough in stock\""));
    let two = format!("{}, (44, 'Gearbox', 1, 40000)", insert(43, "Gearbox", 1, "40000.50"));
    let reason = refused(&client, 5, &two);
    assert!(
        reason.contains("\"mariadb\" does not agree: constraint \"enough money\" does not hold"),
        "{reason}"
    );
    let reason = refused(&client, 6, &insert(43, "Nut", 41, "1"));
    assert!(reason.contains("\"ankerdb\" does not agree: constraint \"the bank's"), "{reason}");
    let reason = refused(&client, 7, "DELETE FROM trades WHERE tid = 42");
    assert!(
        reason.contains("the bank's, and not too heavy\" does not hold (statement 1, row tid = 42)"),
        "{reason}"
    );
    let update = |price: &str| format!("UPDATE trades SET totalprice = totalprice {price} WHERE amount = 5");
    assert!(refused(&client, 8, &update("- 1")).contains("\"prices do not fall\""));
    assert!(submit(&client, 9, &update("+ 1")).has_succeeded);
    // An update that finds nothing cannot be judged.
    let nothing = "UPDATE trades SET totalprice = 9 WHERE tid = 77";
    assert!(refused(&client, 10, nothing).contains("does not hold (statement 1)"));
    // Another client, and values beside the text.
    let shop = network.client("shop");
    assert!(refused(&shop, 1, &insert(43, "Nut", 1, "1")).contains("the bank's"));
    let mut valued =
        statement("INSERT INTO trades (totalprice, amount, product, tid) VALUES ($1, $2, $3, $4)");
    valued[0].values = vec![
        LedgerValue::Decimal("12.50".into()),
        LedgerValue::Integer(2),
        LedgerValue::Text("Gear'box\\".into()),
        LedgerValue::Integer(43),
    ];
    let unknown = client.submit(11, &client.sign(11, valued.clone()), None, LIMIT);
    assert!(unknown.expect_err("no such product").to_string().contains("\"enough in stock\""));
    locally(&network, 0, "INSERT INTO stocks VALUES ('Gear''box\\', 2)");
    let known = client.submit(12, &client.sign(12, valued), None, LIMIT).expect("an outcome");
    assert!(known.has_succeeded, "{known:?}");
    // Two statements that may be about one row are not judged one by one.
    let both = [statement(&update("+ 1")), statement(&update("- 1"))].concat();
    let reason = client.submit(13, &client.sign(13, both), None, LIMIT).expect_err("refused").to_string();
    assert!(reason.contains("several of them may be about one row of \"trades\""), "{reason}");
    // What the local data say now is what counts.
    locally(&network, 0, "UPDATE stocks SET amount = 6 WHERE product = 'Gearbox'");
    assert!(submit(&client, 14, &insert(44, "Gearbox", 6, "1")).has_succeeded);

    assert_agreements_are_seen(&network);
    network.end_and_compare_files();
}

#[test]
fn a_policy_asks_for_named_organizations_or_some_or_all_and_says_who_is_missing() {
    let never = "[[constraint]]\nname = \"never\"\ntable = \"two\"\ncheck = \"1 = 0\"\n";
    let some = "[[constraint]]\nname = \"not 7\"\ntable = \"two\"\ncheck = \"new.id <> 7\"\n";
    let Some(mut network) = found("agreement-policies", [never, some, ""]) else { return };
    network.start_all();
    let client = network.client("bank");
    for (number, (table, policy)) in
        [("every", "all"), ("two", "any 2"), ("named", "mariadb"), ("either", "any 1 of postgresql, ankerdb")]
            .into_iter()
            .enumerate()
    {
        let sql =
            format!("CREATE SHARED TABLE {table} (id bigint PRIMARY KEY) WITH (agreement = '{policy}')");
        assert!(submit(&client, number as u64 + 1, &sql).has_succeeded);
    }
    assert!(submit(&client, 5, "CREATE SHARED TABLE free (id bigint PRIMARY KEY)").has_succeeded);
    let insert = |table: &str, id: u64| format!("INSERT INTO {table} (id) VALUES ({id})");
    // One of three never agrees to what is in "two"; a second one does not to one of it.
    assert!(submit(&client, 6, &insert("two", 1)).has_succeeded);
    let reason = refused(&client, 7, &insert("two", 7));
    assert!(reason.contains("needs the agreement of any 2"), "{reason}");
    assert!(reason.contains("\"postgresql\" does not agree: constraint \"never\" does not hold"), "{reason}");
    assert!(reason.contains("\"mariadb\" does not agree: constraint \"not 7\" does not hold"), "{reason}");

    // One is down: only a policy that needs it waits for it.
    network.kill(2);
    for (number, table) in [(8, "named"), (9, "either"), (10, "free")] {
        assert!(submit(&client, number, &insert(table, 1)).has_succeeded, "{table}");
    }
    let proposal = client.sign(11, statement(&insert("every", 1)));
    let started = Instant::now();
    let reason =
        client.submit(11, &proposal, None, Duration::from_secs(12)).expect_err("missing").to_string();
    assert!(
        reason.contains("table \"every\" needs the agreement of all: \"ankerdb\" cannot be asked"),
        "{reason}"
    );
    assert!(reason.contains("start what is missing, or send it again later"), "{reason}");
    assert!(started.elapsed() < Duration::from_secs(30));
    let both = [statement(&insert("free", 2)), statement(&insert("two", 2))].concat();
    let reason =
        client.submit(12, &client.sign(12, both), None, Duration::from_secs(5)).expect_err("missing");
    assert!(reason.to_string().contains("table \"two\" needs"), "{reason}");
    network.start_process(2);
    let done = client.submit(11, &proposal, None, LIMIT).expect("an outcome");
    assert!(done.has_succeeded, "{done:?}");
    network.wait_for_equal_heights();
    network.end_and_compare_files();
}

/// Hands an entry to the ordering server past all agreement, as an organization that lies, and waits until it is certified.
fn order(network: &StartedNetwork, liar: &Liar, entry: Vec<u8>) -> u64 {
    let height = network.wait_for_equal_heights();
    let message = ProposalMessage { proposal: entry, wait_ms: 0, seen_height: 0 };
    liar.call::<_, Nothing>("ordering", ORDERING_SERVICE, "Chain", message).expect("it is taken");
    network.wait_for(1, "a block further", |status| status.height > height);
    network.wait_for_equal_heights()
}

/// Three transactions have had no effect in any organization, each of which says why.
fn assert_three_are_without_effect(network: &StartedNetwork) {
    for (at, name) in ORGANIZATIONS.into_iter().enumerate() {
        let status = network.status(at);
        assert_eq!(status.height, 4);
        let refused = status.refused.join("\n");
        assert!(
            refused.contains("needs the agreement of mariadb, ankerdb, and this has none"),
            "{name}: {refused}"
        );
        assert!(refused.contains("and this has that of ankerdb"), "{name}: {refused}");
        let ledger = network.path(name).join(format!("{name}.ledger"));
        let shown = said(&command(&["export", ledger.to_str().expect("UTF-8")]));
        let failed = shown.lines().filter(|line| line.contains("\tfailed\t")).count();
        assert_eq!(failed, 3, "{name}: {shown}");
    }
}

#[test]
fn an_entry_organization_that_leaves_out_or_forges_agreements_gets_a_transaction_without_effect_everywhere() {
    let refuses = "[[constraint]]\nname = \"never 5\"\ntable = \"trades\"\ncheck = \"new.tid <> 5\"\n";
    let Some(mut network) = found("agreement-liar", ["", refuses, ""]) else { return };
    network.start_all();
    let client = network.client("bank");
    submit(&client, 1, &format!("{TRADES} WITH (agreement = 'mariadb, ankerdb')"));
    // An organization that is behind does not know the table yet, and would refuse.
    network.wait_for_equal_heights();
    let liar = Liar::new(&network, "postgresql");
    let chain = |proposal: &[u8], agreements: Vec<Vec<u8>>| {
        let (network, proposal) = (client.network(), proposal.to_vec());
        ChainedTransaction { network, proposal, agreements }.sign(&liar.keys)
    };
    let ask = |proposal: &[u8], party: &str| -> AgreementMessage {
        let message = ProposalMessage { proposal: proposal.to_vec(), wait_ms: 0, seen_height: 0 };
        liar.call(party, ORGANIZATION, "Agree", message).expect("an agreement")
    };
    let forged = |proposal: &[u8], member: u32, keys: &ankerdb_ledger::signature::KeyPair| {
        let (network, proposal) = (client.network(), Agreement::name_of(proposal));
        Agreement { network, proposal, member, until: 1000, refusal: None }.sign(keys)
    };
    let wanted = client.sign(2, statement(&insert(1, "Nut", 1, "1")));
    let other = client.sign(2, statement(&insert(2, "Nut", 1, "1")));
    let unwanted = client.sign(3, statement(&insert(5, "Nut", 1, "1")));
    let mariadb = |proposal: &[u8]| ask(proposal, "mariadb").agreement;
    let ankerdb = |proposal: &[u8]| ask(proposal, "ankerdb").agreement;
    let shop = Liar::new(&network, "shop");
    let lies = [
        // All left out, one left out, and a refusal in the place of an agreement.
        wanted.clone(),
        chain(&wanted, vec![ankerdb(&wanted)]),
        chain(&unwanted, vec![ankerdb(&unwanted), mariadb(&unwanted)]),
    ];
    for entry in lies {
        order(&network, &liar, entry);
    }
    // Forged ones do not even get past an ordering server that is honest.
    for (agreement, reason) in [
        (mariadb(&other), "is to another transaction"),
        (forged(&wanted, 1, &liar.keys), "in the name of \"mariadb\" is signed by"),
        (forged(&wanted, 1, &shop.keys), "in the name of \"mariadb\" is signed by"),
        (forged(&wanted, 7, &shop.keys), "which there is not"),
    ] {
        let proposal = chain(&wanted, vec![ankerdb(&wanted), agreement]);
        let message = ProposalMessage { proposal, wait_ms: 0, seen_height: 0 };
        let answer = liar.call::<_, Nothing>("ordering", ORDERING_SERVICE, "Chain", message);
        let said = answer.expect_err(reason).to_string();
        assert!(said.contains(reason), "{said}");
    }
    // A client may ask for no agreement.
    let message = ProposalMessage { proposal: wanted.clone(), wait_ms: 0, seen_height: 0 };
    let answer = shop.call::<_, AgreementMessage>("mariadb", ORGANIZATION, "Agree", message);
    assert!(answer.expect_err("a client").to_string().contains("may not call this"));

    assert_three_are_without_effect(&network);
    // Nobody is harmed: the client's transaction comes to its end by an honest organization, once.
    let done = offer(&network, &client, 2, "ankerdb", &insert(1, "Nut", 1, "1"));
    assert!(done.has_succeeded && done.height == 5, "{done:?}");
    // One that is behind would ask the others, to whom it is a repetition.
    network.wait_for_equal_heights();
    let again = offer(&network, &client, 2, "mariadb", &insert(1, "Nut", 1, "1"));
    assert_eq!((again.height, again.has_succeeded), (5, true));
    order(&network, &liar, chain(&wanted, vec![ankerdb(&wanted), mariadb(&wanted)]));
    let again: SubmittedTransaction = submit(&client, 2, &insert(1, "Nut", 1, "1"));
    assert_eq!((again.height, again.has_succeeded), (5, true));
    for at in 0..3 {
        let rows = connect(&network, at).run("SELECT tid FROM trades").expect("rows");
        assert_eq!(rows[0], [[Some(b"1".to_vec())]]);
    }
    network.end_and_compare_files();
}

#[test]
fn constraints_only_read_have_a_time_limit_and_wrong_ones_are_found_at_the_start() {
    let slow = "constraint_ms = 300\n[[constraint]]\nname = \"slow\"\ntable = \"trades\"\non = [\"insert\"]\n\
                check = \"(SELECT count(*) FROM generate_series(1, 100000) AS a, generate_series(1, 100000) AS b) > 0\"\n\
                [[constraint]]\nname = \"writes\"\ntable = \"trades\"\non = [\"update\"]\ncheck = \"nextval('counted') > 0\"\n\
                [[constraint]]\nname = \"fails\"\ntable = \"trades\"\non = [\"delete\"]\ncheck = \"old.amount / (old.tid - 1) > 0\"\n";
    let Some(mut network) = found("agreement-limits", [slow, "", ""]) else { return };
    locally(&network, 0, "CREATE SEQUENCE counted");
    network.start_all();
    let client = network.client("bank");
    // It fits no table of this name that has no such columns.
    let narrow = "CREATE SHARED TABLE trades (tid bigint PRIMARY KEY) WITH (agreement = 'postgresql')";
    let reason = refused(&client, 1, narrow);
    assert!(reason.contains("constraint \"fails\" does not fit the table"), "{reason}");
    submit(&client, 2, &format!("{TRADES} WITH (agreement = 'any 1 of mariadb, ankerdb')"));
    submit(&client, 3, &insert(1, "Nut", 1, "1"));
    let proposals = [
        (4, insert(2, "Nut", 1, "1"), "slow", "statement timeout"),
        (5, "UPDATE trades SET amount = 2 WHERE tid = 1".to_owned(), "writes", "read-only"),
        (6, "DELETE FROM trades WHERE tid = 1".to_owned(), "fails", "division by zero"),
    ];
    let liar = Liar::new(&network, "mariadb");
    for (number, sql, name, detail) in proposals {
        let proposal = client.sign(number, statement(&sql));
        let message = ProposalMessage { proposal: proposal.clone(), wait_ms: 0, seen_height: 0 };
        let started = Instant::now();
        let answer: AgreementMessage =
            liar.call("postgresql", ORGANIZATION, "Agree", message).expect("an agreement");
        assert!(started.elapsed() < Duration::from_secs(5), "{name}");
        let (genesis, network_hash) = (&liar.directory.genesis, &liar.directory.network);
        let said = Agreement::verify(&answer.agreement, &proposal, genesis, network_hash).expect("signed");
        let reason = said.refusal.expect("a refusal");
        let expected =
            format!("constraint \"{name}\" could not be evaluated; its organization's status says why");
        assert_eq!(reason, expected);
        let own = network.status(0).objections.join("\n");
        assert!(own.contains(detail), "{own}");
    }
    // What its database does not take stops an organization when it is started, and is named.
    network.terminate(0);
    let path = network.path("postgresql").join("ledger.toml");
    let text = std::fs::read_to_string(&path).expect("a configuration");
    std::fs::write(&path, text.replace("nextval('counted') > 0", "new.weight > 0")).expect("a configuration");
    let mut process = Command::new(env!("CARGO_BIN_EXE_ankerdb-ledger"));
    process.arg("start").arg(network.path("postgresql")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = process.spawn().expect("it starts");
    let deadline = Instant::now() + LIMIT;
    while process.try_wait().expect("its state").is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Where it goes on it is ended, and has succeeded in what it must not.
    let _ = process.kill();
    let output = process.wait_with_output().expect("its output");
    let shown = said(&output);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("constraint \"writes\" on trades is not what the database takes: "), "{shown}");
    assert!(shown.contains("weight"), "{shown}");
}

#[test]
fn sessions_of_constraints_cannot_write_end_in_time_and_find_what_is_wrong_in_every_database() {
    let table = SharedTable::parse(TRADES).expect("a definition");
    for server in products::servers() {
        let (name, address) = (server.name().to_lowercase(), &server.address);
        let place = format!("{name}://{}@127.0.0.1:{}/{}", address.user, address.port, address.database);
        let mut member = open_member(&place).expect("a member");
        member.create_table(&table).expect("a table");
        let mut session = ReadingSession::open(&place, 300).expect("a session");
        let said = session.read("DELETE FROM trades").expect_err("it cannot write").message;
        let expected = if name == "mariadb" { "READ ONLY transaction" } else { "read-only transaction" };
        assert!(said.contains(expected), "{name}: {said}");
        let numbers = if name == "mariadb" { "seq_1_to_100000" } else { "generate_series(1, 100000)" };
        let started = Instant::now();
        let slow = format!("SELECT count(*) FROM {numbers} AS a, {numbers} AS b");
        let said = session.read(&slow).expect_err("it takes too long");
        assert!(
            !said.has_lost_connection() && started.elapsed() < Duration::from_secs(5),
            "{name}: {said:?}"
        );
        for (check, reason) in [
            ("new.amount <= 5 AND old.tid = 1 AND proposal.client = 'a' AND proposal.place = 1", None),
            (
                "proposal.parameters = '' OR proposal.verb = 'insert' AND (SELECT count(*) FROM old_rows) = 0",
                None,
            ),
            ("new.weight <= 5", Some("weight")),
            ("new.amount <= (SELECT amount FROM stocks)", Some("stocks")),
            ("new.amount <=", Some("")),
        ] {
            let constraint = OrganizationConstraint {
                name: "c".into(),
                table: "trades".into(),
                verbs: Vec::new(),
                check: check.into(),
            };
            match (constraint.try_on(&table, &mut session), reason) {
                (Ok(()), None) => {}
                (Err(failure), Some(reason)) if failure.message.contains(reason) => {}
                (found, _) => panic!("{name}: {check}: {found:?}"),
            }
        }
    }
}
