//! Databases in folders, looked at while no server is at work there: sound ones stay as they are, each kind of damage is told.

mod support;

use ankerdb_engine::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use support::*;

/// Rows of three blocks.
const ROWS: i32 = 20_000;

/// A folder of a test's, which goes when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ankerdb-check-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("room for a folder");
        Folder(path)
    }

    /// Another folder with what this one has.
    fn copy(&self) -> Folder {
        let copy = Folder::new();
        for (name, bytes) in self.files() {
            std::fs::write(copy.0.join(name), bytes).expect("room for a copy");
        }
        copy
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(&self.0).expect("the folder is there");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let name = |path: &Path| path.file_name().expect("a file").to_string_lossy().into_owned();
        paths.map(|path| (name(&path), std::fs::read(&path).expect("readable"))).collect()
    }

    fn names(&self, ending: &str) -> Vec<String> {
        self.files().into_keys().filter(|name| name.ends_with(ending)).collect()
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.0.join(name);
        let mut bytes = std::fs::read(&path).expect("it is there");
        change(&mut bytes);
        std::fs::write(&path, bytes).expect("written");
    }

    fn durability(&self) -> Durability {
        let mut durability = Durability::in_folder(&self.0);
        durability.log.segment_bytes = 256 << 10;
        durability
    }

    fn open(&self) -> Database {
        Database::open_in(Configuration::AnkerDb, &self.durability(), &AnyText).expect("opened")
    }

    fn check_with(&self, binder: &dyn Binder) -> Result<CheckReport> {
        let before = self.files();
        let progress: CheckProgress = Arc::new(|_, done, total| assert!(done <= total, "{done} of {total}"));
        let report = Database::check(&self.0, Configuration::AnkerDb, binder, &progress);
        assert!(before == self.files(), "the folder has changed");
        report
    }

    fn check(&self) -> CheckReport {
        self.check_with(&AnyText).expect("it can be looked at")
    }

    /// The messages of all faults.
    fn faults(&self) -> Vec<String> {
        let report = self.check();
        assert_eq!(report.faults.len() as u64, report.fault_count);
        assert!(report.faults.iter().all(|fault| fault.hint().is_some()), "no advice: {:?}", report.faults);
        report.faults.iter().map(|fault| fault.message().to_owned()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Takes every condition for fulfilled.
struct AnyText;

/// Takes every condition for one that says that column `a` is not below zero.
struct NotBelowZero;

fn condition(name: &str, text: &str, test: RowTest) -> Check {
    Check { name: name.into(), text: text.into(), columns: ColumnSet::of(&[A]), is_validated: true, test }
}

macro_rules! binds_checks {
    ($binder:ty, $test:expr) => {
        impl Binder for $binder {
            fn domain(&self, domain: &Domain, below: Option<&Domain>) -> Result<u32> {
                NoTexts.domain(domain, below)
            }
            fn check(&self, _table: &TableDefinition, name: &str, text: &str) -> Result<Check> {
                Ok(condition(name, text, Arc::new($test)))
            }
            fn domain_checks(&self, table: &TableDefinition) -> Result<Vec<Check>> {
                NoTexts.domain_checks(table)
            }
            fn generation(&self, table: &TableDefinition, column: usize, text: &str) -> Result<Generation> {
                NoTexts.generation(table, column, text)
            }
            fn derivation(
                &self,
                table: &TableDefinition,
                parts: &[ColumnText],
                predicate: Option<&ColumnText>,
            ) -> Result<Derivation> {
                NoTexts.derivation(table, parts, predicate)
            }
        }
    };
}

binds_checks!(AnyText, |_| Ok(true));
binds_checks!(NotBelowZero, |value| Ok(matches!(value(A), Value::BigInt(a) if a >= 0)));

/// Two tables, a checkpoint, and commits behind it; one segment of the log is full.
fn filled() -> Folder {
    let folder = Folder::new();
    let database = folder.open();
    let table = database.create_table(items_definition("item")).expect("created");
    fill(&database, &table, (0..ROWS).map(|id| item(id, 1, 2, id % 5)));
    database.checkpoint(&|| Ok(())).expect("there is room").expect("something was committed");
    let other = database.create_table(items_definition("other")).expect("created");
    for batch in 0..40 {
        fill(&database, &other, (batch * 500..(batch + 1) * 500).map(|id| item(id, 1, 2, id % 5)));
    }
    drop(database);
    folder
}

#[test]
fn a_sound_folder_is_found_to_be_so_and_stays_as_it_is() {
    let folder = filled();
    let report = folder.check();
    assert_eq!(report.fault_count, 0, "{:?}", report.faults);
    assert_eq!((report.tables, report.rows, report.indexes), (2, 2 * ROWS as u64, 4));
    assert!(report.has_seen_tables && report.images == 3 && report.segments >= 2 && report.chunks > 40);
    assert!(report.image_bytes > 100_000 && report.log_bytes > 300_000, "{report:?}");
    // A server that starts afterwards finds all.
    assert_eq!(folder.open().catalog().table("other").expect("it is there").row_count(), ROWS as usize);
    assert_eq!(folder.faults(), Vec::<String>::new());
}

#[test]
fn a_torn_end_is_no_fault_and_is_left_for_the_next_start() {
    let folder = filled();
    let last = places(&folder).pop().expect("there are chunks");
    folder.change(&last.0, |bytes| {
        bytes[last.1 + 60] ^= 1;
        // One without records may follow, which says that the commit is visible: it was not written yet.
        let end = end_of_chunk(bytes, last.1);
        bytes[end..].fill(0);
    });
    let report = folder.check();
    assert_eq!(report.fault_count, 0, "{:?}", report.faults);
    assert!(report.torn_bytes > 1_000, "{report:?}");
    assert_eq!(report.rows, 2 * ROWS as u64 - 500);
}

/// Files and offsets of the chunks of all segments, in their order. Those without records are left out: marks of ends, and
/// what says no more than that others are visible.
fn places(folder: &Folder) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (name, bytes) in folder.files().into_iter().filter(|(name, _)| name.ends_with(".log")) {
        let mut at = 64;
        while bytes[at..].starts_with(b"CHNK") {
            if bytes[at + 40..at + 44] != [0; 4] {
                found.push((name.clone(), at));
            }
            at = end_of_chunk(&bytes, at);
        }
    }
    found
}

/// Bytes of the payload of the chunk at a place.
fn payload_bytes(segment: &[u8], at: usize) -> usize {
    u32::from_le_bytes(segment[at + 32..at + 36].try_into().expect("four")) as usize
}

fn end_of_chunk(segment: &[u8], at: usize) -> usize {
    at + (48 + payload_bytes(segment, at)).next_multiple_of(8)
}

#[test]
fn each_damaged_chunk_of_the_log_is_told_with_its_place() {
    let folder = filled();
    let chunks = places(&folder);
    assert!(chunks.iter().any(|(name, _)| *name != chunks[0].0), "several segments");
    // In a header, in records, and in the last chunk of a segment.
    let behind = chunks.iter().position(|(name, _)| *name != chunks[2].0).expect("another segment");
    let damaged = [(2, 20), (5, 100), (behind - 1, 8), (behind + 1, 70)];
    for (chunk, at) in damaged {
        let (name, offset) = &chunks[chunk];
        folder.change(name, |bytes| bytes[offset + at] ^= 0x10);
    }
    let faults = folder.faults();
    let expected = |(name, offset): &(String, usize)| {
        format!("\"{}\" at offset {offset}: ", folder.0.join(name).display())
    };
    for (chunk, _) in damaged {
        let place = expected(&chunks[chunk]);
        assert!(faults.iter().any(|fault| fault.contains(&place)), "{place}: {faults:?}");
    }
    assert_eq!(faults.len(), damaged.len(), "{faults:?}");
    assert!(!folder.check().has_seen_tables);
}

#[test]
fn each_damaged_image_is_told_with_its_place() {
    let folder = filled();
    let files = folder.names(".blocks");
    let bytes = &folder.files()[&files[0]];
    let images: Vec<usize> =
        (64..bytes.len()).step_by(64).filter(|at| bytes[*at..].starts_with(b"IMAG")).collect();
    assert_eq!(images.len(), 3);
    folder.change(&files[0], |bytes| {
        bytes[images[0] + 9] ^= 1;
        bytes[images[2] + 500] ^= 1;
    });
    let faults = folder.faults();
    let place = |image: usize| format!("\"{}\" at offset {image}: ", folder.0.join(&files[0]).display());
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults.iter().any(|fault| fault.contains(&place(images[0]))), "{faults:?}");
    assert!(faults.iter().any(|fault| fault.contains(&place(images[2]))), "{faults:?}");
}

#[test]
fn headers_of_all_files_and_files_that_are_gone_are_told() {
    let sound = filled();
    let (blocks, log) = (sound.names(".blocks"), sound.names(".log"));
    let headers = ["identity", "checkpoint", &blocks[0], &log[0], &log[1]];
    for name in headers {
        for at in [0, 13, 20] {
            let folder = sound.copy();
            folder.change(name, |bytes| bytes[at] ^= 2);
            let faults = folder.faults();
            assert!(faults.iter().any(|fault| fault.contains(name)), "{name} at {at}: {faults:?}");
        }
    }
    for name in [&blocks[0], &log[0], &log[1]] {
        let folder = sound.copy();
        std::fs::remove_file(folder.0.join(name)).expect("it is there");
        let report = folder.check();
        assert!(report.fault_count >= 1, "{name} is gone");
        assert!(report.faults[0].message().contains(name.as_str()), "{name}: {:?}", report.faults);
    }
    // A version that is not known yet is no damage.
    for name in headers {
        let folder = sound.copy();
        folder.change(name, |bytes| bytes[8] = 77);
        let refused = folder.check_with(&AnyText).expect_err("it is of a newer version");
        assert_eq!(refused.state(), SqlState::FeatureNotSupported, "{name}");
    }
}

/// In the folder of one that a checkpoint has covered, the log is empty behind it.
#[test]
fn a_log_that_ends_before_what_the_checkpoint_has_is_a_fault() {
    let folder = Folder::new();
    let database = folder.open();
    let table = database.create_table(items_definition("item")).expect("created");
    fill(&database, &table, (0..100).map(|id| item(id, 1, 2, id % 5)));
    database.close().expect("closed");
    drop((table, database));
    let (name, offset) = places(&folder).pop().expect("there are chunks");
    folder.change(&name, |bytes| bytes[offset..].fill(0));
    let faults = folder.faults();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("which the checkpoint has"), "{faults:?}");
}

#[test]
fn what_keeps_from_looking_is_told_as_such() {
    let refused = |folder: &Folder| folder.check_with(&AnyText).expect_err("it cannot be looked at");
    let empty = Folder::new();
    assert_eq!(refused(&empty).state(), SqlState::ObjectNotInPrerequisiteState);
    let progress: CheckProgress = Arc::new(|_, _, _| {});
    let missing = Database::check(&empty.0.join("none"), Configuration::AnkerDb, &AnyText, &progress);
    assert_eq!(missing.expect_err("there is none").state(), SqlState::UndefinedFile);
    let folder = filled();
    let database = folder.open();
    let error = Database::check(&folder.0, Configuration::AnkerDb, &AnyText, &progress).expect_err("in use");
    assert_eq!(error.state(), SqlState::ObjectInUse);
    assert!(error.message().contains(&format!("process {}", std::process::id())), "{error}");
    drop(database);
    assert_eq!(folder.faults(), Vec::<String>::new());
}

#[test]
fn a_row_that_violates_a_condition_is_told() {
    let folder = Folder::new();
    let database = folder.open();
    let mut definition = items_definition("item");
    definition.checks.push(condition("a_check", "a >= 0", Arc::new(|_| Ok(true))));
    let table = database.create_table(definition).expect("created");
    fill(&database, &table, (0..10).map(|id| item(id, if id == 7 { -5 } else { 1 }, 2, 0)));
    drop((table, database));
    assert_eq!(folder.faults(), Vec::<String>::new());
    let report = folder.check_with(&NotBelowZero).expect("it can be looked at");
    let faults: Vec<&str> = report.faults.iter().map(Error::message).collect();
    assert_eq!(
        faults,
        [
            "table \"public.item\": the row at place 7 of block 0 violates check constraint \"a_check\" (a >= 0): (a)=(-5)"
        ]
    );
}

/// The constraint is made without a test of the rows that are there.
#[test]
fn a_row_whose_parent_is_not_there_is_told() {
    let folder = Folder::new();
    let database = folder.open();
    let (parent, child) = (items(&database, "p"), items(&database, "c"));
    fill(&database, &parent, (0..5).map(|id| item(id, 1, 2, 0)));
    fill(&database, &child, (0..10).map(|id| item(id, 1, 2, id)));
    let key = |column: &str| NewForeignKey {
        name: format!("c_{column}_fkey"),
        columns: vec![column.into()],
        parent: QualifiedName { schema: None, name: "p".into() },
        parent_columns: Vec::new(),
        on_delete: ReferentialAction::NoAction,
        on_update: ReferentialAction::NoAction,
        set_columns: Vec::new(),
        defaults: Vec::new(),
        is_full: false,
        timing: ConstraintTiming::Immediate,
        is_validated: true,
    };
    for key in [key("kind"), key("b"), NewForeignKey { is_validated: false, ..key("id") }] {
        let mut definitions = database.definitions(&Interrupt::new());
        let mut transaction = database.session().begin(Isolation::Serializable);
        let name = RelationName::new(SchemaId::PUBLIC, "c");
        definitions.add_foreign_key(&name, &key, &mut transaction).expect("the parent has the key");
        definitions.commit(Some(&mut transaction)).expect("nobody is in the way");
    }
    drop((parent, child, database));
    let mut faults = folder.faults();
    faults.sort();
    let expected = (5..10).map(|id| {
        format!(
            "table \"public.c\": the row at place {id} of block 0 violates foreign key \"c_kind_fkey\": no row of \"p\" has its key (kind)=({id})"
        )
    });
    assert_eq!(faults, expected.collect::<Vec<_>>());
}

/// A record that no transaction would have written gives a second row the key of another one.
#[test]
fn two_rows_with_a_unique_key_are_told() {
    let folder = Folder::new();
    let database = folder.open();
    let table = items(&database, "item");
    fill(&database, &table, (0..10).map(|id| item(id, 1, 2, 0)));
    let number = table.id().number();
    drop((table, database));
    append_insertion(&folder, number, 20, [4, 1, 2, 0]);
    let mut faults = folder.faults();
    assert_eq!(faults.len(), 1, "{faults:?}");
    let fault = faults.pop().expect("one");
    assert!(
        fault.contains("has the key (id)=(4) of unique index \"item_pkey\" that the row at place 4"),
        "{fault}"
    );
}

/// Appends a commit, as docs/design/durability.md and the module that reads it say, that inserts small numbers at a place of block 0.
fn append_insertion(folder: &Folder, table: u32, place: u8, values: [u8; 4]) {
    const COMMIT: u8 = 1;
    const SMALL: u8 = 75;
    let mut payload = vec![0; 12];
    payload.extend([0, table as u8, 1, place, values.len() as u8]);
    payload.extend(values.map(|value| SMALL + 2 * value));
    let disk = Arc::new(ankerdb_log::SystemDisk);
    let mut ignore = |_: ankerdb_log::Record| Ok(());
    let log = ankerdb_log::open(disk, &folder.0, &folder.durability().log, &mut ignore).expect("opened");
    let commit = Timestamp(log.last_timestamp().0 + 1);
    log.start(move || commit);
    let appender = log.appender();
    let reserved = appender.reserve(payload.len()).expect("there is room");
    appender.append(reserved, COMMIT, commit, &payload);
    log.wait_until_durable(commit).expect("written");
    log.close().expect("closed");
}
