//! PostgreSQL's own client over TLS: what its `sslmode` and `channel_binding` ask for.

use crate::certificates::{self, Authority};
use crate::server::TestServer;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};

const SECRET: &str = "s3cret \u{e9}";

/// A file with what clients trust; removed when dropped.
struct Root(PathBuf);

impl Root {
    fn of(authority: &Authority, name: &str) -> Root {
        let path = std::env::temp_dir().join(format!("ankerdb-root-{name}-{}", std::process::id()));
        std::fs::write(&path, &authority.root).unwrap();
        Root(path)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs a statement by psql, as a client of `localhost`; `None` if there is no psql.
fn psql(server: &TestServer, options: &str, sql: &str) -> Option<Output> {
    let target = format!(
        "host=localhost hostaddr=127.0.0.1 port={} user=anyone dbname=ankerdb {options}",
        server.address.port()
    );
    let mut psql = Command::new("psql");
    // Not what this machine's user may have set.
    psql.env("PGPASSWORD", SECRET).env("HOME", "/nonexistent").env_remove("PGSSLMODE");
    match psql.args(["-X", "-w", "-At", "-c", sql, &target]).output() {
        Ok(output) => Some(output),
        Err(error) => {
            // Past the capture of output.
            let _ = writeln!(std::io::stderr(), "SKIPPED: psql cannot be run here ({error})");
            None
        }
    }
}

/// Whether the session that these options ask for is encrypted, or why there is none.
fn encrypted(server: &TestServer, options: &str) -> Option<Result<bool, String>> {
    let output = psql(server, options, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")?;
    Some(match &output.stdout[..] {
        b"t\n" => Ok(true),
        b"f\n" => Ok(false),
        _ => Err(String::from_utf8(output.stderr).unwrap()),
    })
}

#[track_caller]
fn refused(told: Result<bool, String>, why: &str) {
    let told = told.unwrap_err();
    assert!(told.contains(why), "{told}");
}

#[test]
fn each_mode_gets_what_it_asks_for() {
    let server = TestServer::start();
    let authority = certificates::shared();
    let (root, other) =
        (Root::of(authority, "modes"), Root::of(&Authority::signing_for("localhost"), "other"));
    let Some(told) = encrypted(&server, "sslmode=disable") else { return };
    assert_eq!(told, Ok(false));
    let encrypted = |options: &str| encrypted(&server, options).unwrap();
    assert_eq!(encrypted("sslmode=allow"), Ok(false));
    assert_eq!(encrypted("sslmode=prefer"), Ok(true));
    assert_eq!(encrypted("sslmode=require"), Ok(true));
    let verified =
        |mode: &str, root: &Root| encrypted(&format!("sslmode={mode} sslrootcert={}", root.0.display()));
    assert_eq!(verified("verify-ca", &root), Ok(true));
    assert_eq!(verified("verify-full", &root), Ok(true));
    refused(verified("verify-ca", &other), "SSL error");
    for (version, shown) in
        [("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"), ("TLSv1.3", "TLS_AES_256_GCM_SHA384")]
    {
        let options =
            format!("sslmode=require ssl_min_protocol_version={version} ssl_max_protocol_version={version}");
        let output = psql(&server, &options, "\\conninfo").unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(told.contains(&format!("protocol: {version}, cipher: {shown}")), "{told}");
        let sql = "SELECT version, cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        let output = psql(&server, &options, sql).unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{version}|{shown}\n"));
    }
    refused(
        encrypted("sslmode=require ssl_min_protocol_version=TLSv1 ssl_max_protocol_version=TLSv1.1"),
        "SSL error",
    );
}

#[test]
fn a_certificate_of_another_host_is_noticed() {
    let authority = Authority::signing_for("elsewhere.example");
    let root = Root::of(&authority, "host");
    let server = TestServer::encrypting(authority.tls(false));
    let verified =
        |mode: &str| encrypted(&server, &format!("sslmode={mode} sslrootcert={}", root.0.display()));
    let Some(told) = verified("verify-ca") else { return };
    assert_eq!(told, Ok(true));
    refused(verified("verify-full").unwrap(), "does not match host name");
}

#[test]
fn without_a_certificate_encryption_is_declined() {
    let server = TestServer::without_tls();
    let Some(told) = encrypted(&server, "sslmode=prefer") else { return };
    assert_eq!(told, Ok(false));
    refused(encrypted(&server, "sslmode=require").unwrap(), "server does not support SSL");
}

#[test]
fn where_tls_is_required_modes_that_know_it_use_it() {
    let server = TestServer::requiring_tls(certificates::shared());
    let Some(told) = encrypted(&server, "sslmode=disable") else { return };
    refused(told, "database \"ankerdb\", no encryption");
    for mode in ["allow", "prefer", "require"] {
        assert_eq!(encrypted(&server, &format!("sslmode={mode}")).unwrap(), Ok(true), "{mode}");
    }
}

#[test]
fn the_password_is_bound_to_the_certificate() {
    let server = TestServer::asking_for(SECRET, 500);
    let Some(told) = encrypted(&server, "sslmode=require channel_binding=require") else { return };
    assert_eq!(told, Ok(true));
    for binding in ["prefer", "disable"] {
        let options = format!("sslmode=require channel_binding={binding}");
        assert_eq!(encrypted(&server, &options).unwrap(), Ok(true), "{binding}");
        let options = format!("sslmode=disable channel_binding={binding}");
        assert_eq!(encrypted(&server, &options).unwrap(), Ok(false), "{binding}");
    }
    let told = encrypted(&server, "sslmode=disable channel_binding=require").unwrap();
    refused(told, "channel binding required, but SSL not in use");
    let output = psql(&server, "sslmode=require channel_binding=require password=wrong", "SELECT 1").unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("password authentication failed for user"), "{told}");
}
