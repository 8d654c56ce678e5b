//! A database's folder, of which any file may have any bytes.
//!
//! An input is a byte of bits (1: files are given right checksums; 2: what is damaged may be cut off; 4: the folder is checked first), then files: a
//! byte for the name, four for the length, little endian, and the bytes, as many as there are.
//!
//! What must be true: a folder that could be opened can be opened again after the end, however it was made; one that `Database::check`
//! finds no fault with can be opened.

use crate::{sealed, sql};
use ankerdb_engine::{CheckProgress, Configuration, Database, Durability, Options, Result};
use ankerdb_log::LogOptions;
use ankerdb_log::simulated::SimulatedDisk;
use ankerdb_sql::{KeptTexts, SqlEngine, SqlOptions};
use std::path::Path;
use std::sync::Arc;

const SEALED: u8 = 1;
const CUT: u8 = 2;
const CHECKED: u8 = 4;
/// The folder on the simulated disk.
const FOLDER: &str = "data";
/// As small as segments may be.
const SEGMENT_BYTES: u64 = 4 << 10;
/// Names of files, by their number: those with a number of their own in it come eight times.
const FIXED: [&str; 4] = ["identity", "checkpoint", "backup.lock", "restoring"];

/// What a file is called.
fn name(number: u8) -> String {
    let of_many = u64::from(number % 8) + 1;
    match number {
        0..8 => format!("{of_many:016}.log"),
        8..16 => format!("{of_many:016}.blocks"),
        fixed => FIXED[usize::from(fixed) % FIXED.len()].to_owned(),
    }
}

/// The number of a file of this name.
fn number(name: &str) -> Option<u8> {
    (0..16 + FIXED.len() as u8).find(|number| self::name(*number) == name)
}

struct File {
    name: String,
    bytes: Vec<u8>,
}

fn files(mut rest: &[u8]) -> Vec<File> {
    let mut files = Vec::new();
    while let Some((&[number, a, b, c, d], behind)) = rest.split_first_chunk::<5>() {
        let length = (u32::from_le_bytes([a, b, c, d]) as usize).min(behind.len());
        files.push(File { name: name(number), bytes: behind[..length].to_vec() });
        rest = &behind[length..];
    }
    files
}

fn seal(file: &mut File) {
    match &*file.name {
        "identity" => sealed::identity(&mut file.bytes),
        "checkpoint" => sealed::checkpoint(&mut file.bytes),
        log if log.ends_with(".log") => sealed::segment(&mut file.bytes),
        blocks if blocks.ends_with(".blocks") => sealed::images(&mut file.bytes),
        _ => {}
    }
}

fn options() -> Options {
    Options { memory_limit: Some(1 << 30), ..Configuration::default().into() }
}

/// Opens the folder on a disk, to be written by nobody who minds.
fn open(disk: &SimulatedDisk, may_cut: bool) -> Result<Database> {
    let log = LogOptions {
        segment_bytes: SEGMENT_BYTES,
        recover_to_last_valid: may_cut,
        on_failure: Some(Arc::new(|_| {})),
        ..LogOptions::default()
    };
    let durability = Durability { disk: Arc::new(disk.clone()), log, ..Durability::in_folder(FOLDER) };
    Database::open_in(options(), &durability, &KeptTexts::new())
}

/// Whether a check of these files finds nothing.
fn is_faultless(files: &[File]) -> bool {
    let folder = std::env::temp_dir().join(format!("ankerdb-fuzz-folder-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the files");
    for file in files {
        std::fs::write(folder.join(&file.name), &file.bytes).expect("room for the files");
    }
    let progress: CheckProgress = Arc::new(|_, _, _| {});
    let report = Database::check(&folder, options(), &KeptTexts::new(), &progress);
    std::fs::remove_dir_all(&folder).expect("the files are ours");
    report.is_ok_and(|report| report.fault_count == 0)
}

/// Opens a folder with these files, and opens it once more.
pub fn run(bytes: &[u8]) {
    let Some((&bits, rest)) = bytes.split_first() else { return };
    let mut files = files(rest);
    if bits & SEALED != 0 {
        files.iter_mut().for_each(seal);
    }
    let disk = SimulatedDisk::new();
    for file in &files {
        disk.write_file(&Path::new(FOLDER).join(&file.name), &file.bytes);
    }
    let is_faultless = bits & CHECKED != 0 && is_faultless(&files);
    let opened = open(&disk, bits & CUT != 0);
    assert!(!is_faultless || opened.is_ok(), "no fault was found, but {}", opened.err().expect("one"));
    let Ok(database) = opened else { return };
    let _ = database.close();
    drop(database);
    let again = open(&disk.after_kill(), false);
    assert!(again.is_ok(), "it was opened, and now {}", again.err().expect("an error"));
}

/// The files of a database with a bit of everything, as an input.
fn input(disk: &SimulatedDisk, bits: u8) -> Vec<u8> {
    let mut input = vec![bits];
    for path in disk.paths() {
        let name = path.file_name().and_then(|name| name.to_str()).expect("names of ours");
        let Some(number) = number(name) else { continue };
        let bytes = disk.read_file(&path).expect("the file");
        input.push(number);
        input.extend((bytes.len() as u32).to_le_bytes());
        input.extend(bytes);
    }
    input
}

/// Folders before and after a checkpoint, and one of a server that was killed behind it, each with and without right checksums.
pub fn seeds() -> Vec<Vec<u8>> {
    let disk = SimulatedDisk::new();
    let database = open(&disk, false).expect("an empty disk");
    let engine =
        SqlEngine::new(database.clone(), SqlOptions { olap_threads: 1, memory_limit_bytes: 64 << 20 })
            .expect("threads");
    let mut session = engine.session();
    sql::run_all(
        &mut session,
        "CREATE TYPE mood AS ENUM ('sad', 'happy');
         CREATE DOMAIN positive AS int CHECK (value > 0);
         CREATE TABLE t (id int PRIMARY KEY, b boolean, s smallint, l bigint, u uuid, x text, y bytea, m mood, p positive DEFAULT 7);
         CREATE TABLE child (id serial, parent int REFERENCES t, g int GENERATED ALWAYS AS (parent + 1) STORED, CHECK (parent < 9));
         CREATE VIEW w AS SELECT id FROM t;
         INSERT INTO t VALUES (1, true, 2, 3, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', repeat('long ', 9), 'ab', 'happy');
         INSERT INTO t SELECT g, NULL, g, g, NULL, g::text, NULL, 'sad' FROM generate_series(2, 5) g;
         INSERT INTO child (parent) VALUES (1), (2)",
    );
    let before = disk.after_kill();
    database.checkpoint(&|| Ok(())).expect("a checkpoint");
    let after = disk.after_kill();
    sql::run_all(
        &mut session,
        "UPDATE t SET x = 'short' WHERE id < 3; DELETE FROM child; DROP VIEW w; ALTER TABLE t ADD z int",
    );
    let behind = disk.after_kill();
    let disks = [&before, &after, &behind];
    disks.iter().flat_map(|disk| [0, SEALED, SEALED | CUT | CHECKED].map(|bits| input(disk, bits))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_an_input_are_those_that_were_put_into_it_and_have_the_checksums_that_the_house_gives_them() {
        let mut parts = 0;
        for seed in seeds() {
            let read = files(&seed[1..]);
            assert!(read.iter().any(|file| file.name == "identity") && read.len() > 1);
            for mut file in read {
                let bytes = file.bytes.clone();
                file.bytes[12] ^= 1;
                // Of the first chunk or image, too, where there is one.
                let behind = bytes.get(64..).unwrap_or_default();
                if behind.starts_with(b"CHNK") || behind.starts_with(b"IMAG") {
                    file.bytes[64 + 4] ^= 1;
                    parts += 1;
                }
                seal(&mut file);
                assert!(file.bytes == bytes, "{} is sealed as it was", file.name);
            }
        }
        assert!(parts > 0, "there are chunks and images");
    }

    #[test]
    fn a_folder_of_ours_is_without_faults_and_one_that_is_damaged_is_not() {
        let seed = seeds().pop().expect("a seed");
        let mut of_seed = files(&seed[1..]);
        assert!(is_faultless(&of_seed));
        let log = of_seed.iter_mut().find(|file| file.name.ends_with(".log")).expect("a segment");
        log.bytes[70] ^= 1;
        assert!(!is_faultless(&of_seed));
    }
}
