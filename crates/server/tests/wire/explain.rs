//! EXPLAIN ANALYZE: the statement runs, and its plan shows what has happened.

use crate::cancel::{LONG_QUERY, UNDER_WAY, begin, cancel, prepare};
use crate::client::Client;
use crate::server::TestServer;

fn start() -> (TestServer, Client) {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    prepare(&mut client);
    (server, client)
}

fn plan(client: &mut Client, sql: &str) -> String {
    client.run(sql).text().concat().join("\n")
}

#[test]
fn rows_are_counted_on_both_paths() {
    let (_server, mut client) = start();
    let quiet = "EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF)";
    let found =
        plan(&mut client, &format!("{quiet} SELECT n FROM many WHERE n BETWEEN 10 AND 19 AND n % 2 = 0"));
    assert!(found.starts_with("Index Scan using many_pkey on many (actual rows=5 loops=1)"), "{found}");
    assert!(found.ends_with("\n  Rows Removed by Filter: 5"), "{found}");
    let limited = plan(&mut client, &format!("{quiet} SELECT n FROM many ORDER BY n LIMIT 3"));
    assert!(limited.starts_with("Limit (actual rows=3 loops=1)\n  ->  Index Scan"), "{limited}");
    let counted = plan(&mut client, &format!("{quiet} SELECT n % 7, count(*) FROM many GROUP BY 1"));
    assert!(counted.contains("AggregateExec") && counted.contains("(actual rows=7 loops=1)"), "{counted}");
    assert!(counted.contains("ScanExec") && counted.contains("(actual rows=4000 loops=1)"), "{counted}");
    let timed = plan(&mut client, "EXPLAIN ANALYZE SELECT sum(n) FROM many");
    assert!(timed.contains("(actual time=") && timed.contains("\nExecution Time: "), "{timed}");
    client.run("PREPARE p AS SELECT n FROM many WHERE n < $1 AND n >= 0");
    let executed = plan(&mut client, &format!("{quiet} EXECUTE p(8)"));
    assert!(executed.contains("(actual rows=8 loops=1)"), "{executed}");
    let bound = client.extended(&format!("{quiet} SELECT n FROM many WHERE n = $1"), &[Some("7")]);
    assert!(bound.ok().text().concat().concat().contains("(actual rows=1 loops=1)"));
}

#[test]
fn writes_are_done_in_the_transaction() {
    let (_server, mut client) = start();
    client.run("BEGIN");
    let changed = plan(&mut client, "EXPLAIN (ANALYZE, TIMING OFF) UPDATE t SET b = 9");
    assert!(
        changed
            .starts_with("Update on t (actual rows=0 loops=1)\n  ->  Seq Scan on t (actual rows=2 loops=1)")
    );
    let inserted = "EXPLAIN (ANALYZE, TIMING OFF) INSERT INTO t SELECT n, 1 FROM many WHERE n > 3990";
    assert!(plan(&mut client, inserted).contains("(actual rows=9 loops=1)"));
    assert_eq!(client.run("SELECT count(*), max(b) FROM t").text(), [["11", "9"]]);
    client.run("ROLLBACK");
    assert_eq!(client.run("SELECT count(*), max(b) FROM t").text(), [["2", "0"]]);
    plan(&mut client, "EXPLAIN ANALYZE DELETE FROM t WHERE a = 1");
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "1");
}

#[test]
fn a_document_is_one_value_of_json() {
    let (_server, mut client) = start();
    let reply = client.run("EXPLAIN (ANALYZE, FORMAT JSON, SETTINGS) SELECT n FROM many WHERE n = 5");
    assert_eq!((reply.columns[0].name.as_str(), reply.columns[0].oid), ("QUERY PLAN", 114));
    let json = reply.cell().replace('\'', "''");
    let read = |path: &str| format!("SELECT ('{json}'::jsonb) #>> '{{0,{path}}}'");
    let expected = [
        ("Plan,Node Type", "Index Scan"),
        ("Plan,Relation Name", "many"),
        ("Plan,Index Name", "many_pkey"),
        ("Plan,Actual Rows", "1"),
        ("Plan,Actual Loops", "1"),
    ];
    for (path, value) in expected {
        assert_eq!(client.run(&read(path)).cell(), value, "{path}");
    }
    let times = ["Plan,Actual Total Time", "Planning Time", "Execution Time"];
    for path in times {
        assert!(client.run(&read(path)).cell().parse::<f64>().unwrap() >= 0.0, "{path}");
    }
    let nested = client.run("EXPLAIN (FORMAT JSON) SELECT count(*) FROM many a JOIN many b USING (n)").cell();
    assert!(
        nested.contains("\"Plans\": [") && nested.contains("\"Parent Relationship\": \"Outer\""),
        "{nested}"
    );
    let yaml = client.run("EXPLAIN (FORMAT YAML) SELECT 1").cell();
    assert!(yaml.starts_with("- Plan:\n    Node Type: \"Result\""), "{yaml}");
}

#[test]
fn a_run_is_ended_by_its_client_and_by_time() {
    let (server, mut client) = start();
    begin(&mut client, &format!("EXPLAIN ANALYZE {LONG_QUERY}"));
    std::thread::sleep(UNDER_WAY);
    cancel(&server, client.process, client.secret);
    assert_eq!(client.reply().code(), "57014");
    client.run("SET statement_timeout = 200");
    assert_eq!(client.query(&format!("EXPLAIN (ANALYZE, FORMAT JSON) {LONG_QUERY}")).code(), "57014");
    client.run("SET statement_timeout = 0");
    assert!(plan(&mut client, "EXPLAIN ANALYZE SELECT 1").contains("Result"));
}
