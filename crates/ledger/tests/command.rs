//! The command as a process: the demonstration end to end, then what a stranger does with the files that it has left; and
//! what is left when it is killed.

mod products;

use ankerdb_ledger::server::Product;
use ankerdb_ledger::verify::verify_file;
use products::{TestFolder, products};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn ledger(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ankerdb-ledger")).args(arguments).output().expect("the command runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// The command of the AnKerDB organization, if all three products are here.
fn ankerdb() -> Option<PathBuf> {
    let found = products();
    let command = found.iter().find_map(|product| match product {
        Product::AnkerDb(command) => Some(command.clone()),
        _ => None,
    });
    command.filter(|_| found.len() == 3)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a name in UTF-8")
}

#[test]
fn the_demonstration_ends_well_and_a_stranger_verifies_what_it_left() {
    let Some(ankerdb) = ankerdb() else { return };
    let folder = TestFolder::new("demo");
    let out = &folder.path;
    let small = ["--users", "100", "--block-size", "60", "--blocks", "2", "--corrupt", "mariadb"];
    let output =
        ledger(&[&["demo", "--ankerdb", text(&ankerdb), "--folder", text(out)], &small[..]].concat());
    let shown = said(&output);
    assert!(output.status.success(), "{shown}");
    for part in [
        "mariadb was OUTVOTED",
        "FOUND by the vote",
        "DIFFERS in savings",
        "RECOVERED",
        "one bit flipped is refused",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let network = shown
        .split("network ")
        .nth(1)
        .and_then(|rest| rest.get(..64))
        .expect("the network is named")
        .to_owned();
    let file = out.join("postgresql.ledger");
    let output = ledger(&["verify", text(&file), "--network", &network]);
    assert!(output.status.success() && said(&output).contains("kept by postgresql"), "{}", said(&output));
    let output = ledger(&["verify", text(&file), "--network", &"0".repeat(64)]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let output = ledger(&["export", text(&file)]);
    assert!(
        said(&output).lines().any(|line| line.starts_with("1.0\tok\tbank 1\tCREATE SHARED TABLE savings"))
    );
    let proof = out.join("2.0.proof");
    let output = ledger(&["prove", text(&file), "2.0", "--output", text(&proof)]);
    assert!(output.status.success(), "{}", said(&output));
    // The proof is enough.
    std::fs::remove_file(&file).expect("a file");
    let output = ledger(&["check", text(&proof), "--network", &network]);
    let shown = said(&output);
    assert!(output.status.success() && shown.contains("CREATE SHARED TABLE checking"), "{shown}");
    let mut forged = std::fs::read(&proof).expect("a file");
    let at = forged.windows(8).position(|part| part == b"checking").expect("the name");
    forged[at] = b'C';
    std::fs::write(&proof, forged).expect("a file");
    assert_eq!(ledger(&["check", text(&proof)]).status.code(), Some(1));
}

#[test]
fn what_cannot_be_done_is_said_in_one_line() {
    let output = ledger(&["demo", "--ankerdb", "nowhere"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        said(&output).contains("SKIPPED: ") && said(&output).contains("nowhere is no file"),
        "{}",
        said(&output)
    );
    for arguments in [
        &["verify", "nowhere.ledger"][..],
        &["verify", env!("CARGO_MANIFEST_PATH")],
        &["prove", "nowhere.ledger", "first", "--output", "x"],
        &["check", env!("CARGO_MANIFEST_PATH")],
    ] {
        let output = ledger(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let shown = said(&output);
        assert!(shown.starts_with("error: ") && shown.lines().count() == 1, "{arguments:?}: {shown}");
    }
}

/// Waits until no database runs any more whose folder is one of this process.
fn assert_databases_end(process: u32) {
    let own = format!("ankerdb-ledger-{process}-");
    let names_it = |entry: &std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&own)
    };
    let runs = || std::fs::read_dir("/proc").into_iter().flatten().flatten().any(|entry| names_it(&entry));
    let deadline = Instant::now() + Duration::from_secs(20);
    while runs() {
        assert!(Instant::now() < deadline, "a database of process {process} goes on without it");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The folders of private databases whose process was killed before it could remove them.
fn remove_folders_of(process: u32) {
    let own = format!("ankerdb-ledger-{process}-");
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&own) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[test]
fn files_of_a_network_that_is_killed_verify_and_differ_by_one_block_at_most() {
    let Some(ankerdb) = ankerdb() else { return };
    let mut random = fastrand::Rng::with_seed(5);
    for round in 0..3 {
        let folder = TestFolder::new(&format!("killed-{round}"));
        let mut demo = Command::new(env!("CARGO_BIN_EXE_ankerdb-ledger"))
            .args(["demo", "--ankerdb", text(&ankerdb), "--folder", text(&folder.path)])
            .args(["--users", "50", "--block-size", "20", "--blocks", "100000"])
            .stdout(Stdio::null())
            .spawn()
            .expect("the command runs");
        let file = |name: &str| folder.path.join(format!("{name}.ledger"));
        let deadline = Instant::now() + Duration::from_secs(60);
        let length = || std::fs::metadata(file("ankerdb")).map_or(0, |data| data.len());
        while length() < 100_000 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_micros(random.u64(0..30_000)));
        demo.kill().expect("it runs");
        demo.wait().expect("it ends");
        assert_databases_end(demo.id());
        remove_folders_of(demo.id());
        let found =
            ["postgresql", "mariadb", "ankerdb"].map(|name| verify_file(&file(name)).expect("it verifies").0);
        let heights = found.each_ref().map(|found| found.chain().expect("a chain").height);
        let (least, most) = (heights.iter().min().expect("three"), heights.iter().max().expect("three"));
        assert!(*least > 10 && most - least <= 1, "{heights:?}");
    }
}
