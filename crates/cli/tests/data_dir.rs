//! A server that keeps its data in a folder, as a user meets it: killed and stopped, a second one, a damaged file.

mod support;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use support::server::{Client, SERVE, Server};
use support::{ankerdb, run, signal, text};

/// A folder of the test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("ankerdb-{name}-{}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("the path is text")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn start(folder: &Folder) -> Server {
    Server::start(&["--data-dir", folder.path()])
}

/// What the server says that does not start.
fn refused(folder: &Folder, more: &[&str]) -> String {
    let arguments = [&["serve", "--listen", "127.0.0.1:0", "--data-dir", folder.path()], more].concat();
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr)
}

fn done(client: &mut Client, sql: &str) {
    assert_eq!(client.query(sql), "", "{sql}");
}

#[test]
fn what_was_committed_is_there_after_a_kill_and_after_a_stop() {
    let folder = Folder::new("kept");
    let server = start(&folder);
    let mut client = Client::connect(&server);
    done(&mut client, "CREATE TABLE t (id serial PRIMARY KEY, v text CHECK (v <> 'no'))");
    done(&mut client, "INSERT INTO t (v) VALUES ('killed')");
    drop(server);
    let mut server = start(&folder);
    let mut client = Client::connect(&server);
    assert_eq!(client.query("SELECT v FROM t"), "killed");
    done(&mut client, "SET synchronous_commit = off");
    for _ in 0..100 {
        done(&mut client, "INSERT INTO t (v) VALUES ('not waited for')");
    }
    signal(&server.process, "-TERM");
    assert!(server.process.wait().expect("the server ends").success());
    let server = start(&folder);
    let mut client = Client::connect(&server);
    assert_eq!(client.query("SELECT count(*), count(DISTINCT id) FROM t"), "101,101");
}

#[test]
fn kept_snapshots_are_gone_after_a_restart() {
    let folder = Folder::new("snapshots");
    let server = start(&folder);
    let mut client = Client::connect(&server);
    done(&mut client, "CREATE TABLE t (id int PRIMARY KEY)");
    done(&mut client, "INSERT INTO t VALUES (1)");
    done(&mut client, "CREATE SNAPSHOT one");
    done(&mut client, "INSERT INTO t VALUES (2)");
    done(&mut client, "CHECKPOINT");
    assert_eq!(client.query("SELECT count(*) FROM t AS OF SNAPSHOT one"), "1");
    assert_eq!(Client::connect(&server).query("SELECT id FROM t WHERE id = 2 AS OF SNAPSHOT one"), "");
    drop(server);
    let server = start(&folder);
    let mut client = Client::connect(&server);
    assert_eq!(client.query("SELECT count(*), (SELECT count(*) FROM ankerdb_snapshots) FROM t"), "2,0");
    // The name is free again.
    done(&mut client, "CREATE SNAPSHOT one");
    assert_eq!(client.query("SELECT count(*) FROM t AS OF SNAPSHOT one"), "2");
}

/// Its rows are in the log, and no image of the catalog has it.
#[test]
fn a_table_that_came_and_went_in_one_transaction_leaves_no_rows_to_others() {
    let folder = Folder::new("gone");
    let server = start(&folder);
    let mut client = Client::connect(&server);
    done(
        &mut client,
        "BEGIN; CREATE TABLE gone (id int PRIMARY KEY); INSERT INTO gone VALUES (1); DROP TABLE gone; COMMIT",
    );
    drop(server);
    let server = start(&folder);
    let mut client = Client::connect(&server);
    done(&mut client, "CREATE TABLE other (id int PRIMARY KEY)");
    done(&mut client, "INSERT INTO other VALUES (2)");
    drop(server);
    let server = start(&folder);
    assert_eq!(Client::connect(&server).query("SELECT id FROM other"), "2");
}

#[test]
fn what_is_not_told_otherwise_is_kept_where_it_was_started() {
    let folder = Folder::new("default");
    fs::create_dir(&folder.0).expect("a folder");
    let command = |more: &[&str]| {
        let mut command = ankerdb(&[SERVE, more].concat());
        command.current_dir(&folder.0);
        command
    };
    let data = folder.0.canonicalize().expect("it is there").join("ankerdb-data");
    let (server, line) = Server::spawn(command(&["--in-memory"]));
    assert!(line.ends_with("(in-memory: data is gone when it stops)\n"), "{line}");
    assert!(!data.exists());
    drop(server);
    let (server, line) = Server::spawn(command(&[]));
    assert!(line.ends_with(&format!("(data is kept in {})\n", data.display())), "{line}");
    done(&mut Client::connect(&server), "CREATE TABLE t (id int PRIMARY KEY)");
    drop(server);
    let (server, _) = Server::spawn(command(&[]));
    assert_eq!(Client::connect(&server).query("SELECT count(*) FROM t"), "0");
}

#[test]
fn how_the_data_is_kept_can_be_asked() {
    let folder = Folder::new("asked");
    let ask =
        |client: &mut Client, what: &str| client.query(&format!("SELECT {what} FROM ankerdb_durability"));
    let server = start(&folder);
    let mut client = Client::connect(&server);
    let path = folder.0.canonicalize().expect("it is there");
    assert_eq!(ask(&mut client, "data_folder"), path.to_str().expect("the path is text"));
    assert_eq!(ask(&mut client, "incarnation, recovered_records, recovered_bytes"), "1,0,0");
    done(&mut client, "CREATE TABLE t (id int PRIMARY KEY)");
    done(&mut client, "INSERT INTO t SELECT generate_series(1, 1000)");
    let all =
        "durable_timestamp = visible_timestamp, visible_timestamp > 0, log_bytes BETWEEN 4000 AND 1000000";
    assert_eq!(ask(&mut client, all), "t,t,t");
    drop(server);
    let server = start(&folder);
    let mut client = Client::connect(&server);
    let repeated = "incarnation, recovered_records >= 2, recovered_bytes BETWEEN 2000 AND 1000000";
    assert_eq!(ask(&mut client, repeated), "2,t,t");
    assert_eq!(ask(&mut client, "recovery_time > interval '0', checkpoint_number IS NULL"), "t,t");
    done(&mut client, "CHECKPOINT");
    assert_eq!(
        ask(&mut client, "checkpoint_number, checkpoint_bytes > 4000, checkpoint_error IS NULL"),
        "1,t,t"
    );
}

#[test]
fn somebody_elses_folder_is_left_as_it_is() {
    let folder = Folder::new("others");
    fs::create_dir(&folder.0).expect("a folder");
    for name in ["segment.tmp", "letter.txt"] {
        fs::write(folder.0.join(name), "not ours").expect("a file");
    }
    let told = refused(&folder, &[]);
    assert!(told.contains("neither empty nor a log's") && told.contains("letter.txt"), "{told}");
    let mut left: Vec<_> =
        fs::read_dir(&folder.0).expect("it is there").flatten().map(|file| file.file_name()).collect();
    left.sort();
    assert_eq!(left, ["letter.txt", "segment.tmp"]);
}

#[test]
fn a_second_server_is_refused() {
    let folder = Folder::new("second");
    let server = start(&folder);
    let told = refused(&folder, &[]);
    assert!(told.contains(&format!("in use by process {}", server.process.id())), "{told}");
}

#[test]
fn damage_is_told_with_its_place_and_accepted_where_that_is_asked_for() {
    let folder = Folder::new("damaged");
    let server = start(&folder);
    let mut client = Client::connect(&server);
    done(&mut client, "CREATE TABLE t (id int PRIMARY KEY)");
    for id in 0..20 {
        done(&mut client, &format!("INSERT INTO t VALUES ({id})"));
    }
    drop(server);
    let file = folder.0.join("0000000000000001.log");
    damage(&file);
    let told = refused(&folder, &[]);
    assert!(told.contains("damaged") && told.contains("0000000000000001.log"), "{told}");
    let server = Server::start(&["--data-dir", folder.path(), "--recover-to-last-valid"]);
    let left = Client::connect(&server).query("SELECT count(*) FROM t");
    assert!(left.parse::<u32>().is_ok_and(|left| left < 20), "{left}");
}

/// Changes a byte in the middle of what was written.
fn damage(file: &Path) {
    let bytes = fs::read(file).expect("a segment");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("something was written");
    let at = (end / 2..end).find(|at| bytes[*at] != 0).expect("bytes that are not zero");
    let file = fs::OpenOptions::new().write(true).open(file).expect("a segment");
    file.write_all_at(&[bytes[at] ^ 0x55], at as u64).expect("the folder is ours");
}
