//! Connections through the socket's file, where they differ from those over TCP. All else is tested with both: the clients of
//! a test come by one and by the other in turn.

use crate::client::Client;
use crate::server::TestServer;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn the_catalog_tells_no_address() {
    let server = TestServer::start();
    let (mut over_tcp, mut through_file) = (Client::connect(&server), Client::connect(&server));
    let shown = "SELECT inet_client_addr() IS NULL, inet_client_port() IS NULL, inet_server_addr() IS NULL, \
                 inet_server_port() IS NULL, client_addr IS NULL, client_port = -1 \
                 FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    assert_eq!(over_tcp.run(shown).text(), [["f"; 6]]);
    assert_eq!(through_file.run(shown).text(), [["t"; 6]]);
    let address = "SELECT client_addr FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    assert_eq!(over_tcp.run(address).cell(), "127.0.0.1");
}

#[test]
fn everybody_on_the_machine_may_connect() {
    let server = TestServer::start();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(server.socket()), 0o777);
}

#[test]
fn psql_finds_it_by_its_folder() {
    let server = TestServer::start();
    let run = Command::new("psql")
        .args([
            "-X",
            "-A",
            "-t",
            "-U",
            "anyone",
            "-d",
            "ankerdb",
            "-c",
            "SELECT 6 * 7",
            "-c",
            "\\conninfo",
            "-h",
        ])
        .arg(&server.folder)
        .args(["-p", &server.address.port().to_string()])
        .output();
    let output = match run {
        Ok(output) => output,
        Err(error) => {
            // Past the capture of output.
            let _ = writeln!(std::io::stderr(), "SKIPPED: psql cannot be run here ({error})");
            return;
        }
    };
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.starts_with("42\n") && out.contains("via socket"), "{out}{:?}", output.stderr);
}
