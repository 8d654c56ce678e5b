//! psql, where it is installed.

use crate::server::TestServer;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs psql on a script; `None` if there is no psql here.
fn psql(server: &TestServer, arguments: &[&str], script: &str) -> Option<Output> {
    let child = Command::new("psql")
        .args(["-X", "-h", "127.0.0.1", "-U", "anyone", "-d", "ankerdb", "-p"])
        .arg(server.address.port().to_string())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            // Past the capture of output.
            let _ = writeln!(std::io::stderr(), "SKIPPED: psql cannot be run here ({error})");
            return None;
        }
    };
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

#[test]
fn scripts_run() {
    let server = TestServer::start();
    let script = "CREATE TABLE t (a int PRIMARY KEY, b text);
        \\copy t from pstdin csv
1,one
2,\"two, too\"
\\.
        BEGIN;
        UPDATE t SET b = 'eins' WHERE a = 1;
        SELECT * FROM t ORDER BY a;
        ROLLBACK;
        \\copy (select * from t order by a) to pstdout
        SELECT count(*), sum(a) FROM t;
        SELECT nonsense;
        SELECT a FROM t WHERE a = 2;
    ";
    let Some(output) = psql(&server, &["-A", "-t", "-q"], script) else { return };
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        out,
        "1|eins\n2|two, too\n1\tone\n2\ttwo, too\n2|3\n2\n",
        "{:?}",
        String::from_utf8(output.stderr)
    );
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("column \"nonsense\" does not exist"), "{err}");
    assert!(output.status.success());
}

#[test]
fn unknown_databases_are_refused() {
    let server = TestServer::start();
    let Some(output) = psql(&server, &["-d", "nothing", "-c", "SELECT 1"], "") else { return };
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("database \"nothing\" does not exist"), "{err}");
}
