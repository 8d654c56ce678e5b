//! Images of a table written, read back into another one, damaged in all places; files of earlier versions.

use ankerdb_base::{BlockNumber, DatabaseId, Result, RowId, SqlState, TableId, Timestamp};
use ankerdb_checkpoint::*;
use ankerdb_log::simulated::{Fault, SimulatedDisk};
use ankerdb_log::{Disk, LogStart, SystemDisk};
use ankerdb_snapshot::{Snapshot, SnapshotCounters, SnapshotOrigin, SnapshotStrategy};
use ankerdb_sync::memory_limit::MemoryLimit;
use ankerdb_sync::readers::ActiveReaders;
use ankerdb_table::*;
use ankerdb_value::{DataType, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const AT: Timestamp = Timestamp(1_000);
const DATABASE: [u8; 16] = *b"sixteen bytes ok";

/// One column of each layout, some of which may hold NULL.
fn types() -> Vec<(DataType, bool)> {
    vec![
        (DataType::BigInt, false),
        (DataType::Boolean, true),
        (DataType::SmallInt, false),
        (DataType::Integer, true),
        (DataType::Uuid, true),
        (DataType::Text, true),
        (DataType::Bytea, false),
    ]
}

fn table(database: DatabaseId) -> Table {
    let definition = types().into_iter().enumerate().fold(
        TableDefinition::new("t"),
        |definition, (number, (data_type, nullable))| {
            let column = ColumnDefinition::new(format!("c{number}"), data_type);
            definition.column(if nullable { column.nullable() } else { column })
        },
    );
    Storage::create(TableId::new(database, 7), definition)
}

/// What a row has, by a number.
fn values(number: usize) -> Vec<Value> {
    let or_null = |value: Value| if number.is_multiple_of(3) { Value::Null } else { value };
    let long = format!("{number}: text that is longer than its view, é");
    vec![
        Value::BigInt(number as i64 - 5),
        or_null(Value::Boolean(number.is_multiple_of(2))),
        Value::SmallInt(-(number as i16)),
        or_null(Value::Integer(number as i32 * -7)),
        or_null(Value::Uuid([number as u8; 16])),
        or_null(Value::text(if number.is_multiple_of(2) { long } else { "short".into() })),
        Value::Bytea(vec![number as u8; number % 40].into()),
    ]
}

fn insert(storage: &Storage, row: RowId, number: usize) {
    let (values, types) = (values(number), types());
    let cells: Vec<Cell<'_>> = values
        .iter()
        .zip(&types)
        .map(|(value, (data_type, _))| Cell::of(value, *data_type).unwrap())
        .collect();
    let change = RestoredChange::Insert(&cells);
    storage.restore(row, Timestamp(number as u64 + 1), change, &crossbeam_epoch::pin()).unwrap();
}

/// Two blocks: a few rows with holes, and one far behind in the second.
fn filled(database: DatabaseId) -> Table {
    let table = table(database);
    let storage = Storage::of(&table);
    (0..200)
        .filter(|number| number % 7 != 0)
        .for_each(|number| insert(storage, RowId::new(BlockNumber(0), number), number));
    insert(storage, RowId::new(BlockNumber(1), 70), 201);
    let gone = RestoredChange::Delete;
    storage.restore(RowId::new(BlockNumber(0), 199), Timestamp(300), gone, &crossbeam_epoch::pin()).unwrap();
    table
}

fn rows(table: &Table) -> Vec<(RowId, Vec<Value>)> {
    let (storage, pin) = (Storage::of(table), crossbeam_epoch::pin());
    let blocks = storage.block_numbers();
    let all = blocks.flat_map(|number| {
        storage
            .block(number)
            .exists()
            .rows()
            .map(move |offset| RowId::new(number, offset))
            .collect::<Vec<_>>()
    });
    let row = |id: RowId| {
        let cells = (0..types().len()).map(|column| storage.value(id, column, ReadAt::Newest, &pin).unwrap());
        (id, cells.collect())
    };
    all.map(row).collect()
}

fn place(disk: Arc<dyn Disk>, folder: &str) -> FolderOfImages {
    FolderOfImages { disk, folder: PathBuf::from(folder), database: DATABASE }
}

/// The first checkpoint of the table.
fn write(place: &FolderOfImages, table: &Table) -> Result<Manifest> {
    write_next(place, table, &Manifest::default())
}

fn write_next(place: &FolderOfImages, table: &Table, before: &Manifest) -> Result<Manifest> {
    let readers = ActiveReaders::new();
    let slot = readers.register();
    slot.enter(|| AT);
    let origin = SnapshotOrigin { database: table.id().database(), memory_limit: MemoryLimit::NONE };
    let counters: Arc<SnapshotCounters> = Arc::default();
    let snapshot = Snapshot::new(origin, AT, Arc::new(slot), SnapshotStrategy::InPlace, counters);
    let columns: Vec<usize> = (0..types().len()).collect();
    let layouts: Vec<CellLayout> = columns.iter().map(|column| table.layout(*column)).collect();
    let mut manifest = before.next();
    let mut writer = Writer::new(place.clone(), place.next_file(before)?);
    for block in 0..2 {
        let image = snapshot.read_block(table, BlockNumber(block), &columns)?;
        let name = BlockName { table: 7, block: block as u32 };
        manifest.images.insert(name, writer.write(name, AT, &image, &layouts)?);
    }
    let lengths = writer.finish()?;
    manifest.start = LogStart { segment: 3, chunks: 17, incarnation: 2, timestamp: Timestamp(900) };
    (manifest.last_timestamp, manifest.chunks) = (AT, 20);
    manifest.catalog = b"a catalog".to_vec();
    manifest.name_files(before, lengths);
    manifest.switch(&*place.disk, &place.folder, DATABASE).map_err(|failure| failure.error)?;
    Ok(manifest)
}

struct Into<'a>(&'a Table);

impl ImageLoader for Into<'_> {
    fn wants(&self, table: u32) -> bool {
        table == self.0.id().number()
    }

    fn block(&self, _: u32, image: &ImageOfBlock<'_>) -> Result<()> {
        Storage::of(self.0).restore_block(image, None, &crossbeam_epoch::pin())
    }
}

/// What a folder's checkpoint has.
fn read(place: &FolderOfImages) -> Result<(Manifest, Table)> {
    let manifest = place.open()?.expect("there is a checkpoint");
    let table = table(DatabaseId::new());
    Storage::of(&table).add_blocks_to_restore(2)?;
    read_images(place, &manifest, 2, &Into(&table))?;
    Ok((manifest, table))
}

#[test]
fn rows_come_back_at_their_places() {
    let place = place(Arc::new(SimulatedDisk::new()), "data");
    place.disk.create_folder(&place.folder).unwrap();
    assert_eq!(place.open().unwrap(), None);
    let original = filled(DatabaseId::new());
    let written = write(&place, &original).unwrap();
    let (manifest, table) = read(&place).unwrap();
    assert_eq!(manifest, written);
    assert_eq!(rows(&table), rows(&original));
    assert!(rows(&table).len() > 150, "rows were compared");
    let storage = Storage::of(&table);
    assert_eq!(
        storage.block(BlockNumber(0)).last_change(),
        AT,
        "it has not changed since its image was made"
    );
    let bounds = |table: &Table| Storage::of(table).block(BlockNumber(0)).zone(0).and_then(Zone::bounds);
    assert_eq!(bounds(&table), Some((-4, 193)));
    storage.end_restoring(AT, &crossbeam_epoch::pin());
    assert_eq!(storage.free_slots(), 199 + 71 - rows(&table).len(), "those before the last rows");
}

#[test]
fn damage_anywhere_is_told_or_harmless() {
    let folder = Path::new("data");
    let disk = SimulatedDisk::new();
    let place = place(Arc::new(disk.clone()), "data");
    disk.create_folder(folder).unwrap();
    let original = filled(DatabaseId::new());
    let manifest = write(&place, &original).unwrap();
    let mut told = 0;
    for name in ["checkpoint", "0000000000000001.blocks"] {
        let file = disk.open(&folder.join(name)).unwrap();
        let length = file.length().unwrap();
        // All bytes of headers, and every seventh of what is long.
        for offset in (0..length).filter(|offset| *offset < 200 || offset % 7 == 0) {
            let mut byte = [0];
            file.read_at(&mut byte, offset).unwrap();
            file.write_at(&[byte[0] ^ 0x41], offset).unwrap();
            match read(&place) {
                Ok((read, table)) => {
                    assert_eq!(read, manifest, "{name} at {offset}");
                    assert_eq!(rows(&table), rows(&original), "{name} at {offset}");
                }
                Err(error) => {
                    let state = error.state();
                    let is_newer = state == SqlState::FeatureNotSupported && (8..12).contains(&offset);
                    assert!(state == SqlState::DataCorrupted || is_newer, "{name} at {offset}: {error:?}");
                    assert!(error.message().contains(name), "{name} at {offset}: {error:?}");
                    told += 1;
                }
            }
            file.write_at(&byte, offset).unwrap();
        }
    }
    assert!(told > 1_000, "{told} were told");
    assert!(read(&place).is_ok());
}

#[test]
fn what_is_not_whole_or_not_ours_is_refused() {
    let folder = Path::new("data");
    let disk = SimulatedDisk::new();
    let own = place(Arc::new(disk.clone()), "data");
    disk.create_folder(folder).unwrap();
    write(&own, &filled(DatabaseId::new())).unwrap();
    let other = FolderOfImages { database: [1; 16], ..own.clone() };
    let error = other.open().unwrap_err();
    assert_eq!(error.state(), SqlState::DataCorrupted);
    assert!(error.message().contains("another database"), "{error:?}");
    let blocks = folder.join("0000000000000001.blocks");
    disk.remove(&blocks).unwrap();
    let error = read(&own).err().expect("a file is missing");
    assert!(error.message().contains("0000000000000001.blocks"), "{error:?}");
    disk.create(&blocks).unwrap();
    let error = read(&own).err().expect("a file is empty");
    assert_eq!(error.state(), SqlState::DataCorrupted);
}

#[test]
fn what_no_checkpoint_names_is_removed() {
    let folder = Path::new("data");
    let disk = SimulatedDisk::new();
    let own = place(Arc::new(disk.clone()), "data");
    disk.create_folder(folder).unwrap();
    let manifest = write(&own, &filled(DatabaseId::new())).unwrap();
    for name in ["0000000000000009.blocks", "checkpoint.tmp", "0000000000000004.log", "a.blocks"] {
        disk.create(&folder.join(name)).unwrap();
    }
    assert_eq!(own.open().unwrap(), Some(manifest));
    let mut names = disk.list(folder).unwrap();
    names.sort();
    assert_eq!(names, ["0000000000000001.blocks", "0000000000000004.log", "a.blocks", "checkpoint"]);
}

#[test]
fn files_that_are_mostly_unused_are_written_anew() {
    let at = |file, bytes| ImagePlace { file, offset: 64, bytes, timestamp: AT };
    let name = |block| BlockName { table: 1, block };
    let mut manifest = Manifest::default();
    manifest.files.extend([(1, 6_000), (2, 6_000)]);
    manifest.images.extend([(name(0), at(1, 1_000)), (name(1), at(2, 1_001))]);
    assert_eq!(manifest.files_to_rewrite().into_iter().collect::<Vec<_>>(), [1]);
    let mut next = manifest.next();
    next.images.extend([(name(0), at(3, 1_000)), (name(1), at(2, 1_001))]);
    next.name_files(&manifest, [(3, 1_064)]);
    assert_eq!(next.files.into_iter().collect::<Vec<_>>(), [(2, 6_000), (3, 1_064)]);
}

/// Of two checkpoints, the second one made while the power goes at some operation, one is there as a whole.
#[test]
fn the_power_may_go_at_any_operation() {
    let (first, second) = (filled(DatabaseId::new()), filled(DatabaseId::new()));
    let storage = Storage::of(&second);
    (300..320).for_each(|number| insert(storage, RowId::new(BlockNumber(1), number), number));
    let folder = Path::new("data");
    let (mut firsts, mut seconds) = (0, 0);
    for moment in 1.. {
        let mut is_over = true;
        for seed in 0..20 {
            let disk = SimulatedDisk::new();
            let own = place(Arc::new(disk.clone()), "data");
            disk.create_folder(folder).unwrap();
            let former = write(&own, &first).unwrap();
            disk.plan(disk.operations() + moment, Fault::PowerLoss);
            is_over &= write_next(&own, &second, &former).is_ok();
            let own = place(Arc::new(disk.after_power_loss(seed)), "data");
            let (_, table) = read(&own).unwrap_or_else(|error| panic!("operation {moment}: {error:?}"));
            let found = rows(&table);
            assert!(found == rows(&first) || found == rows(&second), "operation {moment}");
            *(if found == rows(&first) { &mut firsts } else { &mut seconds }) += 1;
        }
        if is_over {
            break;
        }
    }
    assert!(firsts > 20 && seconds > 20, "{firsts} and {seconds}");
}

/// A disk that is full, or broken for a moment, leaves the first checkpoint or the second one, and the next one can be made.
#[test]
fn any_operation_may_fail() {
    let (first, second) = (filled(DatabaseId::new()), filled(DatabaseId::new()));
    insert(Storage::of(&second), RowId::new(BlockNumber(1), 300), 300);
    let folder = Path::new("data");
    let mut failures = 0;
    for kind in [std::io::ErrorKind::StorageFull, std::io::ErrorKind::Other] {
        for moment in 1.. {
            let disk = SimulatedDisk::new();
            let own = place(Arc::new(disk.clone()), "data");
            disk.create_folder(folder).unwrap();
            let former = write(&own, &first).unwrap();
            disk.plan(disk.operations() + moment, Fault::Error(kind));
            let Err(error) = write_next(&own, &second, &former) else { break };
            let (manifest, table) = read(&own).unwrap();
            let found = rows(&table);
            assert!(found == rows(&first) || found == rows(&second), "operation {moment}");
            write_next(&own, &second, &manifest).unwrap();
            assert_eq!(rows(&read(&own).unwrap().1), rows(&second));
            let states = [SqlState::DiskFull, SqlState::IoError];
            assert!(states.contains(&error.state()), "operation {moment}: {error:?}");
            failures += 1;
        }
    }
    assert!(failures > 10, "{failures}");
}

/// The folder that format version 1 has made of [`filled`].
#[test]
fn version_1_is_read() {
    let golden = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests"))
        .join("tests/golden/version-1");
    if std::env::var_os("ANKERDB_WRITE_GOLDEN").is_some() {
        let place = place(Arc::new(SystemDisk), golden.to_str().unwrap());
        place.disk.create_folder(&golden).unwrap();
        write(&place, &filled(DatabaseId::new())).unwrap();
    }
    let disk = SimulatedDisk::new();
    let folder = Path::new("data");
    disk.create_folder(folder).unwrap();
    for name in ["checkpoint", "0000000000000001.blocks"] {
        let bytes = std::fs::read(golden.join(name)).unwrap();
        disk.create(&folder.join(name)).unwrap().write_at(&bytes, 0).unwrap();
    }
    let place = place(Arc::new(disk.clone()), "data");
    let (manifest, table) = read(&place).unwrap();
    assert_eq!(manifest.catalog, b"a catalog");
    assert_eq!(rows(&table), rows(&filled(DatabaseId::new())));
}
