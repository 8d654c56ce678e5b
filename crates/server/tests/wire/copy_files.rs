//! COPY of files on the server.

use crate::client::Client;
use crate::server::TestServer;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ankerdb-copy-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("given/below")).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    fn given(&self) -> PathBuf {
        self.0.join("given")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn start(folder: &Path) -> (TestServer, Client) {
    let server = TestServer::giving(folder);
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE t (id int PRIMARY KEY, name text)");
    (server, client)
}

#[test]
fn what_goes_out_comes_in_again() {
    let folder = Folder::new("round");
    let (_server, mut client) = start(&folder.given());
    client.run("INSERT INTO t SELECT i, 'name ' || i FROM generate_series(1, 20000) AS s(i)");
    let path = |name: &str| folder.given().join(name).display().to_string();
    for (name, options) in [
        ("t.txt", ""),
        ("below/t.csv", "(FORMAT csv, HEADER)"),
        ("t.bin", "(FORMAT binary)"),
        ("t.csv.gz", "(FORMAT csv)"),
        ("t.zst", ""),
        ("t.bin.zst", "(FORMAT binary)"),
        ("plain.gz", "(COMPRESSION none)"),
        ("packed", "(COMPRESSION gzip)"),
        // Over a longer file.
        ("t.txt", "(COMPRESSION zstd)"),
    ] {
        // A new one each time: keys of deleted rows that are swept at the moment may end a COPY with 40001.
        client.run("DROP TABLE IF EXISTS u; CREATE TABLE u (id int PRIMARY KEY, name text)");
        assert_eq!(client.run(&format!("COPY t TO '{}' {options}", path(name))).tags[0], "COPY 20000");
        assert_eq!(client.run(&format!("COPY u FROM '{}' {options}", path(name))).tags[0], "COPY 20000");
        let other = "SELECT count(*) FROM t JOIN u ON t.id = u.id AND t.name = u.name";
        assert_eq!(client.run(other).cell(), "20000", "{name} {options}");
    }
    client.run("TRUNCATE u");
    assert_eq!(&fs::read(path("t.csv.gz")).unwrap()[..2], b"\x1f\x8b");
    assert_eq!(&fs::read(path("t.zst")).unwrap()[..4], b"\x28\xb5\x2f\xfd");
    assert_eq!(fs::read(path("plain.gz")).unwrap().iter().filter(|&&byte| byte == b'\n').count(), 20_000);
    // A path that is not absolute begins at the folder.
    fs::write(path("below/one.txt"), "1\tone\n").unwrap();
    client.run("BEGIN");
    assert_eq!(client.run("COPY u FROM 'below/one.txt'").tags[0], "COPY 1");
    client.run("ROLLBACK");
    assert_eq!(client.run("SELECT count(*) FROM u").cell(), "0");
    // What is cut off fails, and leaves nothing.
    let whole = fs::read(path("t.csv.gz")).unwrap();
    fs::write(path("cut.csv.gz"), &whole[..whole.len() / 2]).unwrap();
    for (name, code) in [("cut.csv.gz", "22P04"), ("t.zst", "22P04")] {
        let sql = format!("COPY u FROM '{}' (FORMAT csv, COMPRESSION gzip)", path(name));
        assert_eq!(client.query(&sql).code(), code, "{name}");
        assert_eq!(client.run("SELECT count(*) FROM u").cell(), "0");
    }
}

#[test]
fn nothing_else_of_the_server_is_touched() {
    let folder = Folder::new("outside");
    let (_server, mut client) = start(&folder.given());
    let outside = folder.0.join("secret");
    fs::write(&outside, "1\tsecret\n").unwrap();
    symlink(&outside, folder.given().join("link")).unwrap();
    symlink(&folder.0, folder.given().join("up")).unwrap();
    symlink(folder.0.join("new"), folder.given().join("hanging")).unwrap();
    let given = folder.given().display().to_string();
    let pipe = std::process::Command::new("mkfifo").arg(folder.given().join("pipe")).status();
    assert!(pipe.is_ok_and(|status| status.success()));
    for (sql, code) in [
        (format!("COPY t FROM '{}'", outside.display()), "42501"),
        (format!("COPY t FROM '{given}/../secret'"), "42501"),
        ("COPY t FROM '../secret'".to_owned(), "42501"),
        (format!("COPY t FROM '{given}/link'"), "42501"),
        (format!("COPY t FROM '{given}/up/secret'"), "42501"),
        (format!("COPY t FROM '{given}/none'"), "58P01"),
        (format!("COPY t FROM '{given}/none/file'"), "58P01"),
        (format!("COPY t FROM '{given}/below'"), "42809"),
        (format!("COPY t FROM '{given}/pipe'"), "42809"),
        (format!("COPY t TO '{}'", outside.display()), "42501"),
        (format!("COPY t TO '{given}/link'"), "42501"),
        (format!("COPY t TO '{given}/up/new'"), "42501"),
        (format!("COPY t TO '{given}/hanging'"), "58P01"),
        (format!("COPY t TO '{given}/none/file'"), "58P01"),
        (format!("COPY t TO '{given}/below'"), "42809"),
        ("COPY t TO 'relative'".to_owned(), "42602"),
        ("COPY t FROM PROGRAM 'id'".to_owned(), "0A000"),
        ("COPY t TO PROGRAM 'id'".to_owned(), "0A000"),
        (format!("COPY nothing FROM '{given}/none'"), "42P01"),
        (format!("COPY t FROM '{given}/t' (COMPRESSION lzma)"), "22023"),
    ] {
        assert_eq!(client.query(&sql).code(), code, "{sql}");
    }
    assert_eq!(fs::read(&outside).unwrap(), b"1\tsecret\n");
    assert!(!folder.0.join("new").exists());
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "0");
    // An error in a file is told by its line, as that of a client's data.
    fs::write(folder.given().join("bad"), "1\tone\nx\ttwo\n").unwrap();
    let error = client.query(&format!("COPY t FROM '{given}/bad'")).error.unwrap();
    assert_eq!((error.code.as_str(), error.context.as_str()), ("22P02", "COPY t, line 2, column id: \"x\""));
}
