//! The server's certificate and key as files: what is refused, and how they are renewed.

mod support;

use rcgen::{CertificateParams, KeyPair};
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use support::server::Server;
use support::{ankerdb, signal, text};

/// Longer than the server takes for anything here.
const SOON: Duration = Duration::from_secs(20);

/// A folder with a certificate and its key, gone with it.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Files {
        let folder = std::env::temp_dir().join(format!("ankerdb-tls-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder of the test's own");
        let files = Files(folder);
        files.renew(2100);
        files
    }

    /// Writes a new certificate, for localhost and signed by itself, that is valid up to a year, and its key.
    fn renew(&self, year: i32) {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        parameters.not_after = rcgen::date_time_ymd(year, 2, 3);
        let certificate = parameters.self_signed(&key).expect("a certificate");
        self.write("certificate", &certificate.pem());
        self.write("key", &key.serialize_pem());
    }

    fn write(&self, name: &str, contents: &str) {
        std::fs::write(self.0.join(name), contents).expect("the folder is there");
        std::fs::set_permissions(self.0.join(name), Permissions::from_mode(0o600))
            .expect("it is the test's own");
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("the path is text").to_owned()
    }

    fn command(&self, more: &[&str]) -> Command {
        let (certificate, key) = (self.path("certificate"), self.path("key"));
        let files = ["--tls-certificate", &certificate, "--tls-key", &key];
        let first = ["serve", "--olap-threads", "1", "--in-memory", "--listen", "127.0.0.1:0"];
        ankerdb(&[&first[..], &files, more].concat())
    }

    /// A server, and the lines that it says on standard error.
    fn serve(&self, more: &[&str]) -> (Server, Receiver<String>) {
        let (mut server, _) = Server::spawn(self.command(more));
        let errors = server.process.stderr.take().expect("stderr is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(errors).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        (server, lines)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What psql says that trusts the certificate in a file; `None` if there is no psql.
fn ask(server: &Server, options: &str) -> Option<Result<String, String>> {
    let target = format!(
        "host=localhost hostaddr=127.0.0.1 port={} user=me dbname=ankerdb {options}",
        server.address.port()
    );
    let mut psql = Command::new("psql");
    psql.env("HOME", "/nonexistent").args(["-X", "-w", "-At", "-c", "SELECT 41 + 1", &target]);
    match psql.output() {
        Ok(output) if output.status.success() => Some(Ok(text(&output.stdout))),
        Ok(output) => Some(Err(text(&output.stderr))),
        Err(error) => {
            // Past the capture of output.
            let _ = writeln!(std::io::stderr(), "SKIPPED: psql cannot be run here ({error})");
            None
        }
    }
}

#[test]
fn files_that_will_not_do_are_named() {
    let files = Files::new("refused");
    let refused = |why: &str| {
        let output = files.command(&[]).output().expect("the command starts");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(why), "{told}");
    };
    let (certificate, key) = (files.path("certificate"), files.path("key"));
    let good = std::fs::read_to_string(&key).expect("it was written");
    files.write("key", "x");
    refused(&format!("--tls-key \"{key}\": there is no private key in it"));
    files.write("key", &KeyPair::generate().expect("a key").serialize_pem());
    refused(&format!(
        "--tls-key \"{key}\": the private key does not belong to the first certificate in \"{certificate}\""
    ));
    files.write("key", &good);
    std::fs::set_permissions(&key, Permissions::from_mode(0o640)).expect("it is the test's own");
    refused(&format!("--tls-key \"{key}\": others may read it; chmod 600"));
    std::fs::remove_file(&key).expect("it is there");
    refused(&format!("--tls-key \"{key}\": No such file"));
    files.write("certificate", "x");
    refused(&format!("--tls-certificate \"{certificate}\": there is no certificate in it"));
    std::fs::remove_file(&certificate).expect("it is there");
    refused(&format!("--tls-certificate \"{certificate}\": No such file"));
    for options in [&["--tls-certificate", "x"][..], &["--tls-key", "x"], &["--tls-required"]] {
        let output = support::run(&[&["serve", "--in-memory"], options].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("required arguments were not provided"));
    }
}

#[test]
fn an_expired_certificate_is_warned_of_and_used() {
    let files = Files::new("expired");
    files.renew(2020);
    let (server, lines) = files.serve(&[]);
    let told = lines.recv_timeout(SOON).expect("a warning");
    assert!(told.contains("has expired on 2020-02-03") && told.contains("--tls-certificate"), "{told}");
    if let Some(answer) = ask(&server, "sslmode=require") {
        assert_eq!(answer, Ok("42\n".to_owned()));
    }
}

#[test]
fn files_are_read_again_on_sighup() {
    let files = Files::new("renewed");
    let (server, lines) = files.serve(&["--tls-required"]);
    std::fs::copy(files.path("certificate"), files.path("first")).expect("it is there");
    let trusting =
        |name: &str| ask(&server, &format!("sslmode=verify-full sslrootcert={}", files.path(name)));
    let Some(answer) = trusting("first") else { return };
    assert_eq!(answer, Ok("42\n".to_owned()));
    let refused = ask(&server, "sslmode=disable").and_then(Result::err);
    assert!(refused.is_some_and(|told| told.contains("no encryption")));
    files.renew(2101);
    assert_eq!(trusting("first"), Some(Ok("42\n".to_owned())), "nothing changes unasked");
    signal(&server.process, "-HUP");
    assert_eq!(lines.recv_timeout(SOON).expect("a line"), "ankerdb: the certificate was read again");
    assert_eq!(trusting("certificate"), Some(Ok("42\n".to_owned())));
    assert!(trusting("first").is_some_and(|answer| answer.is_err()));
    std::fs::copy(files.path("certificate"), files.path("second")).expect("it is there");
    files.write("certificate", "x");
    signal(&server.process, "-HUP");
    let told = lines.recv_timeout(SOON).expect("a line");
    assert!(told.starts_with("ankerdb: the certificate stays as it was: --tls-certificate"), "{told}");
    assert_eq!(trusting("second"), Some(Ok("42\n".to_owned())));
    signal(&server.process, "-TERM");
}
