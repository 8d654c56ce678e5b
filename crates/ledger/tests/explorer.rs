//! The explorer of a node, over HTTP and in headless Chromium. A Chromium that is missing is skipped, visibly; with
//! ANKERDB_STRICT=1 the test fails instead.

mod products;
mod started;

use ankerdb_ledger::message::ProposedStatement;
use ankerdb_ledger::node::people::LedgerClient;
use ankerdb_ledger::value::LedgerValue;
use ankerdb_ledger::verify::visit_blocks;
use serde_json::Value;
use started::{LIMIT, ORGANIZATIONS, StartedNetwork, TABLE, submit};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SCRIPT: &str = "<script>document.title = 'taken over'</script>";
const IMAGE: &str = "<img src=x onerror=\"document.title = 'taken over'\">\u{202e}";

/// Connections that an explorer serves at once.
const CONNECTIONS: usize = 32;

/// A network with explorers of the first two organizations, accounts, and a transaction with hostile texts: 5 blocks.
fn start(name: &str) -> Option<StartedNetwork> {
    let mut network = StartedNetwork::found(name, 2)?;
    for (at, name) in ORGANIZATIONS.into_iter().enumerate() {
        let path = network.path(name).join("ledger.toml");
        let text = std::fs::read_to_string(&path).expect("a configuration");
        let explorer = if at < 2 { "explorer = \"127.0.0.1:0\"\n" } else { "" };
        let settings = format!("{explorer}audit_seconds = 1\ncheckpoint_blocks = 2\nrecovery = \"none\"\n");
        std::fs::write(&path, settings + &text).expect("it is written");
    }
    network.start_all();
    let bank = network.client("bank");
    submit(&bank, 1, TABLE);
    submit(&bank, 2, "INSERT INTO account (id, balance) VALUES (1, 100), (2, 100)");
    submit(&bank, 3, "CREATE SHARED TABLE note (id bigint PRIMARY KEY, body text)");
    assert!(submit_hostile(&bank, 4));
    assert!(!submit(&bank, 5, "UPDATE account SET balance = -1 WHERE id = 1").has_succeeded);
    network.wait_for_equal_heights();
    Some(network)
}

/// A statement with hostile text in it, and one that brings it along.
fn submit_hostile(client: &LedgerClient, number: u64) -> bool {
    let values = vec![LedgerValue::Text(IMAGE.into())];
    let statements = vec![
        ProposedStatement {
            sql: format!("INSERT INTO note (id, body) VALUES (1, '{}')", SCRIPT.replace('\'', "''")),
            values: Vec::new(),
        },
        ProposedStatement { sql: "INSERT INTO note (id, body) VALUES (2, $1)".into(), values },
    ];
    client.submit(number, &client.sign(number, statements), None, LIMIT).expect("an outcome").has_succeeded
}

/// The address of an organization's explorer.
fn explorer(network: &StartedNetwork, at: usize) -> SocketAddr {
    let said = network.status(at).explorer;
    let address = said.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/'));
    address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("no address: \"{said}\""))
}

/// Sends bytes, and returns all that comes back.
fn talk(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    // It may answer, and close, before it has read all.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Status, head and body of an answer.
fn request(address: SocketAddr, method: &str, path: &str, host: &str) -> (u16, String, String) {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let answer = talk(address, request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{method} {path}: {answer}"));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    (status, head.to_ascii_lowercase(), body.to_owned())
}

fn get(address: SocketAddr, path: &str) -> Value {
    let (status, head, body) = request(address, "GET", path, "localhost:80");
    assert!(status == 200 && head.contains("content-type: application/json"), "{path}: {head}\n{body}");
    serde_json::from_str(&body).expect("JSON")
}

#[test]
fn blocks_votes_transactions_and_state_are_answered_as_the_file_has_them() {
    let Some(network) = start("explorer") else { return };
    assert_eq!(network.status(2).explorer, "", "there is none unless it is wanted");
    for (at, name) in ORGANIZATIONS.into_iter().enumerate().take(2) {
        let address = explorer(&network, at);
        let blocks = get(address, "/api/blocks");
        assert_eq!((&blocks["height"], blocks["blocks"].as_array().map(Vec::len)), (&5.into(), Some(5)));
        let path = network.path(name).join(format!("{name}.ledger"));
        let mut height = 0;
        visit_blocks(&path, 0, &mut |(block, votes)| {
            height += 1;
            let shown = get(address, &format!("/api/block/{height}"));
            assert_eq!(shown["hash"], block.header.hash().to_string());
            assert_eq!(shown["state"], block.header.state.to_string());
            assert_eq!(shown["votes"].as_array().map(Vec::len), Some(votes.len()));
            assert!(
                shown["votes"]
                    .as_array()
                    .is_some_and(|votes| votes.iter().all(|vote| vote["hash"] == shown["hash"]))
            );
            let listed = &blocks["blocks"][5 - height as usize];
            assert_eq!((&listed["height"], &listed["hash"]), (&height.into(), &shown["hash"]));
            Ok(())
        })
        .expect("blocks");
        assert_eq!(height, 5);
        let older = get(address, "/api/blocks?below=3");
        assert_eq!(
            (&older["blocks"][0]["height"], older["blocks"].as_array().map(Vec::len)),
            (&2.into(), Some(2))
        );
        let one = get(address, "/api/transaction/4/0");
        assert_eq!(
            (&one["client"], &one["number"], &one["has_succeeded"]),
            (&"bank".into(), &"4".into(), &true.into())
        );
        assert!(one["statements"][0]["text"].as_str().is_some_and(|text| text.contains("<script>")));
        assert_eq!(one["statements"][1]["values"][0]["text"], IMAGE);
        assert_eq!(get(address, "/api/transaction/5/0")["has_succeeded"], false);
        network
            .wait_for(at, "audited", |status| status.audit.as_ref().is_some_and(|audit| audit.height == 5));
        let status = get(address, "/api/status");
        let names: Vec<&str> = status["members"]
            .as_array()
            .expect("members")
            .iter()
            .filter_map(|member| member["name"].as_str())
            .collect();
        assert_eq!(
            (names, &status["height"], &status["checkpoints"][0]),
            (ORGANIZATIONS.to_vec(), &5.into(), &4.into())
        );
        assert_eq!((&status["audit"]["rows"], &status["audit"]["height"]), (&4.into(), &5.into()));
    }
    network.end_and_compare_files();
}

#[test]
fn what_is_no_question_is_refused_and_slow_clients_and_many_do_not_stop_it() {
    let Some(network) = start("explorer-refuses") else { return };
    let address = explorer(&network, 0);
    for path in [
        "/x",
        "/api",
        "/api/",
        "/api/block/6",
        "/api/block/0",
        "/api/block/x",
        "/api/block/18446744073709551615",
        "/api/transaction/4/1",
        "/api/transaction/4",
        "/api/blocks?above=1",
        "/../ledger.toml",
        "//ledger.toml",
        "/key",
    ] {
        let (status, head, _) = request(address, "GET", path, "127.0.0.1");
        assert!(
            status == 404 && head.contains("content-security-policy: default-src 'self'"),
            "{path}: {head}"
        );
    }
    for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"] {
        let (status, head, _) = request(address, method, "/api/status", "127.0.0.1");
        assert!(status == 405 && head.contains("allow: get"), "{method}: {head}");
    }
    for (host, expected) in
        [("evil.example", 421), ("evil.example:80", 421), ("", 421), ("[::1]:80", 200), ("localhost", 200)]
    {
        assert_eq!(request(address, "GET", "/api/status", host).0, expected, "\"{host}\"");
    }
    for path in ["/", "/explorer.js", "/explorer.css"] {
        let (status, head, body) = request(address, "GET", path, "127.0.0.1");
        assert!(
            status == 200 && head.contains("content-security-policy: default-src 'self'"),
            "{path}: {head}"
        );
        assert!(
            !body.contains("http:") && !body.contains("https:") && !body.contains("innerHTML"),
            "{path}: {body}"
        );
    }
    let long = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    let answer = talk(address, long.as_bytes());
    assert!(!answer.contains(" 200 "), "{answer}");
    assert!(!talk(address, b"\0\0\0 nothing of HTTP\r\n\r\n").contains(" 200 "));
    // As many clients as there are places say half of a request, and nothing more.
    let asked = Instant::now();
    let slow: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = TcpStream::connect(address).expect("a connection");
            stream.write_all(b"GET / HTTP/1.1\r\nHost").expect("half a request");
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(get(address, "/api/status")["height"], 5);
    let took = asked.elapsed();
    assert!(took > Duration::from_secs(2) && took < Duration::from_secs(20), "{took:?}");
    drop(slow);
    // The organization does not wait for any of them.
    assert!(submit(&network.client("bank"), 6, "UPDATE account SET balance = 7 WHERE id = 1").has_succeeded);
    network.wait_for_equal_heights();
    assert_eq!(get(address, "/api/block/6")["count"], 1);
    network.end_and_compare_files();
}

/// The page as Chromium has it after its scripts have run; nothing if it is not here.
fn page(network: &StartedNetwork, address: SocketAddr, path: &str) -> Option<String> {
    let folder = network.folder.path.join("chromium");
    let output = Command::new("timeout")
        .args([
            "--kill-after=5",
            "60",
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args(["--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.display()))
        .arg(format!("http://{address}/{path}"))
        .env("HOME", &network.folder.path)
        .output()
        .expect("timeout runs");
    if output.status.code() == Some(127) {
        let missing = "Chromium is missing; on Debian: apt-get install chromium";
        assert!(std::env::var_os("ANKERDB_STRICT").is_none_or(|strict| strict != "1"), "{missing}");
        let _ = writeln!(std::io::stderr(), "SKIPPED: {missing}");
        return None;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("UTF-8"))
}

#[test]
fn pages_in_a_browser_show_it_all_and_hostile_texts_as_text() {
    let Some(network) = start("explorer-pages") else { return };
    let address = explorer(&network, 0);
    let Some(blocks) = page(&network, address, "") else { return };
    assert!(blocks.contains("<h2>5 blocks</h2>") && blocks.contains("href=\"#/block/5\""), "{blocks}");
    let newest = |height: u64| blocks.find(&format!("#/block/{height}\"")).expect("a block");
    assert!(newest(5) < newest(4) && newest(2) < newest(1), "{blocks}");
    let show = |path: &str| page(&network, address, path).expect("Chromium is here");
    let block = show("#/block/4");
    for text in ["<h2>Block 4</h2>", "<h2>1 transactions, 1 succeeded</h2>", "this block", "bank 4"] {
        assert!(block.contains(text), "{text}: {block}");
    }
    // Two votes make it count; whose they are depends on who was first.
    let has_voted = |name: &&str| block.contains(&format!("<td>{name}</td>"));
    assert!(ORGANIZATIONS.into_iter().filter(has_voted).count() >= 2, "{block}");
    let one = show("#/transaction/4/0");
    for (page, texts) in [
        (&block, &["&lt;script&gt;"][..]),
        (&one, &["&lt;script&gt;", "&lt;img src=x onerror=", "<td>$1</td>"]),
    ] {
        assert!(texts.iter().all(|text| page.contains(text)), "{texts:?}: {page}");
        assert!(!page.contains("<img") && !page.contains("<script>"), "{page}");
        assert!(page.contains("<title>postgresql - ledger explorer</title>"), "{page}");
    }
    let failed = show("#/transaction/5/0");
    assert!(failed.contains("<span class=\"bad\">failed</span>"), "{failed}");
    let members = show("#/members");
    for text in ["<td>ankerdb</td>", "consents to block 5", "Any-2", "works with"] {
        assert!(members.contains(text), "{text}: {members}");
    }
    let checkpoints = show("#/checkpoints");
    assert!(checkpoints.contains("after block 4") && checkpoints.contains("after block 2"), "{checkpoints}");
    let sql = "SET session_replication_role = replica; UPDATE note SET body = '<img src=x>' WHERE id = 1; DELETE FROM ledger_digest";
    let mut database =
        ankerdb_ledger::member::connection::PostgresConnection::open(&network.servers[0].address)
            .expect("a connection");
    ankerdb_ledger::member::connection::SqlConnection::run(&mut database, sql).expect("tampering");
    network.wait_for(0, "found", |status| !status.audit_findings.is_empty());
    let audit = show("#/audit");
    for text in
        ["of block", "NOT certified: note", "note (1) is (1, &lt;img src=x&gt;)", "recovery is \"none\""]
    {
        assert!(audit.contains(text), "{text}: {audit}");
    }
    assert!(!audit.contains("<img"), "{audit}");
    let missing = show("#/block/77");
    assert!(missing.contains("the ledger has nothing of this name"), "{missing}");
    network.end_and_compare_files();
}

#[test]
fn the_demonstration_says_where_its_explorers_are_and_they_stay_until_it_is_interrupted() {
    let Some(ankerdb) = products::ankerdb_command() else { return };
    let folder = products::TestFolder::new("demo-explorer");
    let mut demo = Command::new("setpriv")
        .args([
            "--pdeathsig",
            "KILL",
            env!("CARGO_BIN_EXE_ankerdb-ledger"),
            "demo",
            "--explorer",
            "--users",
            "50",
        ])
        .args(["--block-size", "40", "--blocks", "2", "--ankerdb"])
        .arg(ankerdb)
        .arg("--folder")
        .arg(&folder.path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut addresses: Vec<SocketAddr> = Vec::new();
    let mut lines = BufReader::new(demo.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    for line in lines.by_ref() {
        let named = line.split_once("explorer at http://").and_then(|(_, rest)| rest.strip_suffix('/'));
        addresses.extend(named.and_then(|address| address.parse::<SocketAddr>().ok()));
        if line.contains("until this command is interrupted") {
            break;
        }
    }
    assert_eq!(addresses.len(), 3);
    let heads: Vec<Value> = addresses.iter().map(|address| get(*address, "/api/status")).collect();
    for (status, name) in heads.iter().zip(ORGANIZATIONS) {
        assert_eq!((&status["name"], &status["head"]), (&name.into(), &heads[0]["head"]));
    }
    assert!(
        heads[0]["repairs"][0].as_str().is_some_and(|line| line.starts_with("outvoted on block ")),
        "{}",
        heads[0]
    );
    let newest = &get(addresses[2], "/api/blocks")["blocks"][0];
    assert_eq!((&newest["height"], &newest["hash"]), (&heads[2]["height"], &heads[2]["head"]));
    assert!(
        Command::new("kill").args(["-INT", &demo.id().to_string()]).status().expect("kill runs").success()
    );
    assert!(lines.any(|line| line.contains("the databases end")));
    assert_eq!(demo.wait().expect("it ends").code(), Some(0));
}
