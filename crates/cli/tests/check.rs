//! `ankerdb check`, `backup` and `restore`, as a user meets them: a folder that a server has left, one that a server is at work in, one that is
//! damaged; a copy of a server at work, and one that starts from it.

mod support;

use std::fs;
use std::path::PathBuf;
use support::server::{Client, Server};
use support::{run, text};

/// A folder of the test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn path(&self) -> &str {
        self.0.to_str().expect("the path is text")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn check(folder: &Folder) -> (Option<i32>, String, String) {
    let output = run(&["check", folder.path()]);
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_folder_is_whole_in_use_or_damaged() {
    let folder = Folder(std::env::temp_dir().join(format!("ankerdb-checked-{}", std::process::id())));
    let server = Server::start(&["--data-dir", folder.path()]);
    let mut client = Client::connect(&server);
    let statements = [
        "CREATE DOMAIN amount AS integer CHECK (VALUE > 0)",
        "CREATE TABLE p (id integer PRIMARY KEY, name text NOT NULL UNIQUE, upper text GENERATED ALWAYS AS (upper(name)) STORED)",
        "CREATE TABLE c (id serial PRIMARY KEY, p integer REFERENCES p, v amount, CHECK (v < 1000))",
        "CREATE INDEX ON c (lower(v::text)) WHERE v > 5",
        "INSERT INTO p SELECT i, 'name ' || i FROM generate_series(1, 500) AS i",
        "INSERT INTO c (p, v) SELECT i, i FROM generate_series(1, 500) AS i",
        "CHECKPOINT",
        "DELETE FROM c WHERE p % 3 = 0",
        "UPDATE p SET name = name || '!' WHERE id % 5 = 0",
    ];
    for sql in statements {
        assert_eq!(client.query(sql), "", "{sql}");
    }
    let (code, _, told) = check(&folder);
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains("the database is in use by process ") && told.contains("Stop that server"),
        "{told}"
    );
    drop(server);
    let (code, told, errors) = check(&folder);
    assert_eq!(code, Some(0), "{told}{errors}");
    assert!(
        told.starts_with(&format!("no faults in \"{}\": 2 tables, 834 rows, 4 indexes; ", folder.path())),
        "{told}"
    );
    let entries = fs::read_dir(&folder.0).expect("the folder is there").flatten().map(|entry| entry.path());
    let image = entries.filter(|path| path.extension().is_some_and(|ending| ending == "blocks")).min();
    let image = image.expect("a checkpoint was made");
    let mut bytes = fs::read(&image).expect("readable");
    bytes[300] ^= 4;
    fs::write(&image, bytes).expect("written");
    let (code, told, _) = check(&folder);
    assert_eq!(code, Some(1), "{told}");
    let place = format!("fault: the checkpoint is damaged: \"{}\" at offset 64: ", image.display());
    assert!(told.starts_with(&place) && told.contains("Restore the folder"), "{told}");
    assert!(told.contains("\n1 fault in "), "{told}");
    let (code, _, told) = check(&Folder(folder.0.join("none")));
    assert_eq!(code, Some(2), "{told}");
}

#[test]
fn a_server_goes_on_from_the_backup_of_another_one_that_is_at_work() {
    let folder = Folder(std::env::temp_dir().join(format!("ankerdb-backed-up-{}", std::process::id())));
    fs::create_dir(&folder.0).expect("room for a folder");
    let path = |name: &str| folder.0.join(name).to_str().expect("a text").to_owned();
    let (data, file, copy) = (path("data"), path("bank.backup"), path("copy"));
    let server = Server::start(&["--data-dir", &data]);
    let mut client = Client::connect(&server);
    for sql in [
        "CREATE TABLE t (id serial PRIMARY KEY, v text CHECK (v <> 'no'))",
        "INSERT INTO t (v) SELECT 'row ' || i FROM generate_series(1, 20000) AS i",
        "CHECKPOINT",
        "UPDATE t SET v = 'changed' WHERE id <= 100",
    ] {
        assert_eq!(client.query(sql), "", "{sql}");
    }
    let output = run(&["backup", &data, &file, "--rate", "0"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("checkpoint 1 with 3 images"), "{}", text(&output.stdout));
    let again = run(&["backup", &data, &file]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("is there already"), "{}", text(&again.stderr));
    assert_eq!(client.query("DELETE FROM t WHERE id > 10"), "");
    let output = run(&["restore", &file, &copy]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = run(&["check", &copy]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    let other = Server::start(&["--data-dir", &copy]);
    let mut restored = Client::connect(&other);
    assert_eq!(restored.query("SELECT count(*) FROM t"), "20000");
    assert_eq!(restored.query("SELECT count(*) FROM t WHERE v = 'changed'"), "100");
    assert_eq!(restored.query("INSERT INTO t (v) VALUES ('new') RETURNING id > 20000"), "t");
    assert_eq!(client.query("SELECT count(*) FROM t"), "10");
    let full = run(&["restore", &file, &copy]);
    assert_eq!(full.status.code(), Some(1));
    assert!(text(&full.stderr).contains("is not empty"), "{}", text(&full.stderr));
}
