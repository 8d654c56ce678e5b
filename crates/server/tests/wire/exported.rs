//! Snapshots that a transaction exports and others import.

use crate::client::Client;
use crate::server::TestServer;

const SUM: &str = "SELECT sum(b), count(*) FROM t";

fn server() -> TestServer {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 10), (2, 20)");
    server
}

fn exported(exporter: &mut Client, level: &str) -> String {
    exporter.run(&format!("BEGIN ISOLATION LEVEL {level}"));
    let rows = exporter.run("SELECT pg_export_snapshot()").text();
    format!("SET TRANSACTION SNAPSHOT '{}'", rows[0][0])
}

#[test]
fn importers_read_what_the_exporter_reads() {
    let server = server();
    for level in ["REPEATABLE READ", "SERIALIZABLE", "READ COMMITTED"] {
        let mut clients = [(); 3].map(|()| Client::connect(&server));
        let [exporter, importer, writer] = &mut clients;
        let before = writer.run(SUM).text();
        let import = exported(exporter, level);
        writer.run(
            "UPDATE t SET b = b + 1; INSERT INTO t SELECT max(a) + 1, 5 FROM t; DELETE FROM t WHERE a = 2",
        );
        let after = writer.run(SUM).text();
        assert_ne!(after, before);
        importer.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
        importer.run(&import);
        // By a query over the table, by a key, and once more behind another commit.
        assert_eq!(importer.run(SUM).text(), before, "{level}");
        let own = if level == "READ COMMITTED" { &after } else { &before };
        assert_eq!(&exporter.run(SUM).text(), own, "{level}");
        writer.run("INSERT INTO t SELECT max(a) + 1, 5 FROM t");
        assert_eq!(importer.run(SUM).text(), before, "{level}");
        // A transaction that has imported it keeps it.
        exporter.run("COMMIT");
        writer.run("UPDATE t SET b = b + 1");
        assert_eq!(importer.run(SUM).text(), before, "{level}");
        let mut late = Client::connect(&server);
        late.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
        assert_eq!(late.query(&import).code(), "22023", "{level}");
        importer.run("COMMIT");
        assert_ne!(importer.run(SUM).text(), before);
        writer.run("INSERT INTO t VALUES (2, 20)");
    }
}

#[test]
fn importers_write_as_of_the_snapshot() {
    let server = server();
    let mut clients = [(); 3].map(|()| Client::connect(&server));
    let [exporter, importer, writer] = &mut clients;
    let import = exported(exporter, "REPEATABLE READ");
    writer.run("UPDATE t SET b = 11 WHERE a = 1");
    importer.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    importer.run(&import);
    importer.run("UPDATE t SET b = b + 1 WHERE a = 2");
    assert_eq!(importer.query("UPDATE t SET b = b + 1 WHERE a = 1").code(), "40001");
    importer.run("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ");
    importer.run(&import);
    importer.run("UPDATE t SET b = b + 1 WHERE a = 2");
    importer.run("COMMIT");
    assert_eq!(writer.run("SELECT b FROM t ORDER BY a").text(), [["11"], ["21"]]);
}

#[test]
fn a_serializable_importer_only_reads() {
    let server = server();
    let mut clients = [(); 2].map(|()| Client::connect(&server));
    let [exporter, importer] = &mut clients;
    let import = exported(exporter, "SERIALIZABLE");
    importer.run("BEGIN ISOLATION LEVEL SERIALIZABLE");
    assert_eq!(importer.query(&import).code(), "0A000");
    importer.run("ROLLBACK; BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY");
    importer.run(&import);
    assert_eq!(importer.run("SHOW transaction_isolation").text(), [["serializable"]]);
    assert_eq!(importer.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").code(), "25001");
    importer.run("ROLLBACK; BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY");
    importer.run(&import);
    assert_eq!(importer.query("SET TRANSACTION READ WRITE").code(), "25001");
    importer.run("ROLLBACK; BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY");
    importer.run(&import);
    assert_eq!(importer.query("UPDATE t SET b = 1").code(), "25006");
}

/// A failed transaction exports no more, and a client that vanishes neither.
#[test]
fn exports_end_with_their_transaction() {
    let server = server();
    let mut clients = [(); 2].map(|()| Client::connect(&server));
    let [exporter, importer] = &mut clients;
    let mut is_known = |import: &str| {
        importer.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
        let code = importer.query(import).code().to_owned();
        importer.run("ROLLBACK");
        code != "22023"
    };
    let import = exported(exporter, "REPEATABLE READ");
    assert!(is_known(&import));
    exporter.run("SAVEPOINT a");
    assert_eq!(exporter.query("SELECT 1/0").code(), "22012");
    exporter.run("ROLLBACK TO a");
    assert!(is_known(&import));
    exporter.run("ROLLBACK");
    assert!(!is_known(&import));
    let import = exported(exporter, "REPEATABLE READ");
    assert_eq!(exporter.query("SELECT 1/0").code(), "22012");
    assert!(!is_known(&import));
    exporter.run("ROLLBACK");
    let import = {
        let mut vanishing = Client::connect(&server);
        exported(&mut vanishing, "REPEATABLE READ")
    };
    let gone = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        !is_known(&import)
    });
    assert!(gone);
}
