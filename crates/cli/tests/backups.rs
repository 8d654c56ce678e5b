//! Incremental backups and moments, as a user meets them: a mistake that is undone, files in the wrong order, backups and restores that are killed
//! while a server writes.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use support::server::{Client, Server};
use support::{ankerdb, run, signal, text};

/// A folder of the test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = Folder(std::env::temp_dir().join(format!("ankerdb-{name}-{}", std::process::id())));
        fs::create_dir(&folder.0).expect("room for a folder");
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("the path is text").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What the command prints that succeeds.
fn done(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// What the command says that fails.
fn refused(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

fn bytes(path: &str) -> u64 {
    fs::metadata(path).expect("it was written").len()
}

/// What a server says that goes on from a folder, when the folder was looked at.
fn found(folder: &str, sql: &str) -> String {
    done(&["check", folder]);
    let server = Server::start(&["--data-dir", folder]);
    Client::connect(&server).query(sql)
}

#[test]
fn a_dropped_table_comes_back_with_the_log_of_a_server_that_goes_on() {
    let folder = Folder::new("mistake");
    let path = |name: &str| folder.path(name);
    let (data, monday, tuesday) = (path("data"), path("monday"), path("tuesday"));
    let server = Server::start(&["--data-dir", &data]);
    let mut client = Client::connect(&server);
    for sql in [
        "CREATE TABLE large (id integer PRIMARY KEY, v text)",
        "INSERT INTO large SELECT i, 'row ' || i FROM generate_series(1, 50000) AS i",
        "CREATE TABLE small (id integer PRIMARY KEY)",
        "CHECKPOINT",
    ] {
        assert_eq!(client.query(sql), "", "{sql}");
    }
    let told = done(&["backup", &data, &monday, "--rate", "0"]);
    assert!(told.contains("\nit can be restored as of any moment from 20"), "{told}");
    assert_eq!(client.query("INSERT INTO small SELECT i FROM generate_series(1, 10) AS i"), "");
    assert_eq!(client.query("CHECKPOINT"), "");
    let told = done(&["backup", &data, &tuesday, "--since", &monday]);
    assert!(told.contains(&format!(" 1 of 8 images that differ from those of \"{monday}\"")), "{told}");
    assert!(bytes(&tuesday) * 20 < bytes(&monday), "{} and {}", bytes(&tuesday), bytes(&monday));
    assert_eq!(client.query("DELETE FROM small WHERE id > 7"), "");
    let moment = client.query("SELECT now()");
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(client.query("DROP TABLE small; INSERT INTO large VALUES (0, 'later')"), "");
    let copy = path("copy");
    let until = ["restore", &monday, &tuesday, &copy, "--log-of", &data, "--until", &moment];
    let told = done(&until);
    assert!(
        told.starts_with(&format!("\"{copy}\" has the database of \"{monday}\", \"{tuesday}\" as of 20")),
        "{told}"
    );
    assert_eq!(found(&copy, "SELECT count(*), (SELECT count(*) FROM large) FROM small"), "7,50000");
    let both = path("both");
    done(&["restore", &monday, &tuesday, &both]);
    assert_eq!(found(&both, "SELECT count(*) FROM small"), "10");
    assert_eq!(client.query("SELECT count(*) FROM large"), "50001");
    let none = path("none");
    let told = refused(&["restore", &tuesday, &monday, &none], 2);
    assert!(
        told.contains(&format!("\"{tuesday}\" is an incremental backup. Name the full backup first")),
        "{told}"
    );
    let told = refused(&["restore", &monday, &tuesday, &none, "--until", &moment], 2);
    assert!(told.contains("is not in what is restored. Possible is from 20"), "{told}");
    let told = refused(&["restore", &monday, &none, "--until", "noon"], 2);
    assert!(told.contains("\"noon\" is no moment. Name one like "), "{told}");
    let told = refused(&["backup", &data, &none, "--since", &path("nothing")], 1);
    assert!(told.contains("nothing"), "{told}");
    assert!(!Path::new(&none).exists());
}

/// Moves money between accounts until it is told to stop, notes how many moves were acknowledged, and makes checkpoints.
fn move_money(server: &Server, stops: &AtomicBool, acknowledged: &AtomicU64) {
    let mut client = Client::connect(server);
    let mut number = 0;
    while !stops.load(Ordering::SeqCst) {
        number += 1;
        let (from, to) = (number * 7919 % 20_000 + 1, number * 104_729 % 20_000 + 1);
        let sql = format!(
            "BEGIN; UPDATE account SET money = money - 1 WHERE id = {from}; UPDATE account SET money = money + 1 WHERE id = {to}; INSERT INTO done VALUES ({number}); COMMIT"
        );
        assert_eq!(client.query(&sql), "", "{sql}");
        acknowledged.store(number, Ordering::SeqCst);
        if number % 200 == 0 {
            assert_eq!(client.query("CHECKPOINT"), "");
        }
    }
}

/// Money moves between accounts of a server while backups, full and incremental, are killed at random moments and made again.
#[test]
fn killed_backups_and_restores_leave_nothing_that_counts() {
    let folder = Folder::new("killed");
    let path = |name: &str| folder.path(name);
    let (data, copy) = (path("data"), path("copy"));
    let server = Server::start(&["--data-dir", &data]);
    let mut client = Client::connect(&server);
    for sql in [
        "CREATE TABLE account (id integer PRIMARY KEY, money integer, filler text)",
        "INSERT INTO account SELECT i, 100, repeat('x', 300) FROM generate_series(1, 20000) AS i",
        "CREATE TABLE done (number integer PRIMARY KEY)",
        "CHECKPOINT",
    ] {
        assert_eq!(client.query(sql), "", "{sql}");
    }
    let (stops, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| move_money(&server, &stops, &acknowledged));
        let _stop = Stop(&stops);
        let (mut files, mut kills) = (Vec::<String>::new(), 0);
        for round in 0..6 {
            let file = path(&format!("{round}.backup"));
            let since = files.last().cloned();
            let mut arguments =
                vec!["backup", &data, &file, "--rate", if round == 0 { "20MB" } else { "2MB" }];
            arguments.extend(since.iter().flat_map(|since| ["--since", since]));
            for attempt in 0..4 {
                let mut killed = ankerdb(&arguments).spawn().expect("the command starts");
                std::thread::sleep(Duration::from_millis(5 + 17 * attempt + 5 * round));
                signal_if_there(&mut killed);
                kills += u32::from(!Path::new(&file).exists());
                let _ = fs::remove_file(&file);
            }
            let before = acknowledged.load(Ordering::SeqCst);
            let last = arguments.iter().position(|argument| *argument == "--rate").expect("it is there") + 1;
            arguments[last] = "0";
            done(&arguments);
            files.push(file);
            let chain: Vec<&str> = files.iter().map(String::as_str).collect();
            let restore: Vec<&str> = ["restore"].into_iter().chain(chain).chain([copy.as_str()]).collect();
            let mut killed = ankerdb(&restore).spawn().expect("the command starts");
            std::thread::sleep(Duration::from_millis(10 + 5 * round));
            signal_if_there(&mut killed);
            if Path::new(&copy).join("restoring").exists() {
                let told = refused(&["serve", "--listen", "127.0.0.1:0", "--data-dir", &copy], 1);
                assert!(told.contains("a backup is being restored in"), "{told}");
            }
            let _ = fs::remove_dir_all(&copy);
            done(&restore);
            let sums = "SELECT sum(money), (SELECT count(*) = max(number) FROM done), (SELECT max(number) FROM done) FROM account";
            let told = found(&copy, sums);
            let number: Option<u64> = told.strip_prefix("2000000,t,").and_then(|number| number.parse().ok());
            assert!(
                number.is_some_and(|number| number >= before),
                "{told}, {before} were acknowledged before"
            );
            fs::remove_dir_all(&copy).expect("it is there");
        }
        assert!(kills > 5, "{kills} backups were killed before their ends");
    });
}

/// Ends the writer, by a panic too.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Kills a process of this test's that may have ended.
fn signal_if_there(process: &mut std::process::Child) {
    if process.try_wait().expect("it is this test's").is_none() {
        signal(process, "-KILL");
    }
    process.wait().expect("it has ended");
}
