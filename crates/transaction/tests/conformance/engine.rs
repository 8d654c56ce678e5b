//! The code's world: a table and a transaction manager, without the threads of a database.

use crate::schedule::{RowState, State, World};
use crate::script::{COLUMNS, Call, Level, Outcome, ROWS};
use ankerdb_base::{BlockNumber, ColumnSet, Error, IndexPosition, RowId, Timestamp};
use ankerdb_table::{Cell, ColumnDefinition, Storage, Table, TableDefinition};
use ankerdb_transaction::{Isolation, LockWait, Locked, Transaction, TransactionManager, Versioning};
use ankerdb_value::{DataType, Value};
use std::sync::Arc;

/// The commit that has made the rows.
const MADE: u64 = 1;

pub(crate) struct Engine {
    manager: Arc<TransactionManager>,
    table: Arc<Table>,
    rows: Vec<RowId>,
}

impl Engine {
    /// Rows of zeroes, as clean as old rows are.
    pub(crate) fn new(is_large: bool) -> Engine {
        let columns = ["id", "a", "b"].map(|name| ColumnDefinition::new(name, DataType::BigInt));
        let definition = columns.into_iter().fold(TableDefinition::new("t"), TableDefinition::column);
        // The first commit is a small one, of which nothing is left.
        let ahead_from = if is_large { 1 } else { usize::MAX };
        let manager = TransactionManager::new(Versioning { ahead_from, ..Versioning::default() });
        let table = Arc::new(Storage::create(manager.new_table(), definition.primary_key(&["id"])));
        let mut transaction = Transaction::new(manager.clone(), manager.acquire_worker());
        transaction.begin(Isolation::Serializable, false);
        for id in 0..ROWS {
            let row = vec![Value::BigInt(id as i64), Value::BigInt(0), Value::BigInt(0)];
            transaction.insert(&table, row).expect("the table is empty");
        }
        assert_eq!(transaction.commit().expect("there is no other session"), Timestamp(MADE));
        // At a horizon that no later pass has.
        Storage::of(&table).sweep(Timestamp(1 << 40), &crossbeam_epoch::pin());
        let mut engine = Engine { manager, table, rows: Vec::new() };
        transaction.begin(Isolation::Serializable, false);
        engine.rows = (0..ROWS).map(|row| engine.find(&mut transaction, row, 0)).collect();
        engine
    }

    /// Finds a row by its key, to look at a column.
    fn find(&self, transaction: &mut Transaction, row: usize, column: usize) -> RowId {
        let mut key = Vec::new();
        self.table
            .index(IndexPosition(0))
            .encode(&[Value::BigInt(row as i64)], &mut key)
            .expect("a short key");
        let found = transaction.find(&self.table, IndexPosition(0), &key, ColumnSet::of(&[column + 1]));
        found.expect("the index is there").expect("no row is deleted")
    }

    fn begin(&self, transaction: &mut Transaction, level: Level) -> Outcome {
        let isolation =
            if level == Level::Snapshot { Isolation::RepeatableRead } else { Isolation::Serializable };
        transaction.begin(isolation, level == Level::Interactive);
        Outcome::At(transaction.read_timestamp().0 - MADE)
    }

    fn copy(&self, transaction: &Transaction) -> Outcome {
        // What an earlier reader has left would be handed out without a step.
        *Storage::of(&self.table).block(BlockNumber(0)).derived().lock() = None;
        let image = transaction.read_view().read(&self.table, 0, &[1, 2]).expect("there is memory");
        let row = |row: usize| [0, 1].map(|column: usize| image.columns[column].words()[row]);
        Outcome::Cells((0..ROWS).map(row).collect())
    }

    fn write(&self, transaction: &mut Transaction, level: Level, write: (usize, usize, u64)) -> Outcome {
        let (row, column, value) = write;
        let outcome = match level {
            Level::Interactive => self.lock(transaction, row),
            _ => Outcome::Done,
        };
        if !outcome.ends() && outcome != Outcome::Busy {
            let change = [(column + 1, Cell::Word(value))];
            transaction.update_cells(&self.table, self.rows[row], &change).expect("a number");
        }
        outcome
    }

    fn lock(&self, transaction: &mut Transaction, row: usize) -> Outcome {
        transaction.begin_statement();
        match transaction.lock(&self.table, self.rows[row], LockWait::Skip) {
            Ok(Locked::Unchanged) => Outcome::Done,
            Ok(Locked::Busy) => Outcome::Busy,
            Ok(Locked::Changed) => match transaction.restart_statement() {
                Ok(()) => Outcome::At(transaction.read_timestamp().0 - MADE),
                Err(error) => failed(error),
            },
            Err(error) => failed(error),
        }
    }

    fn commit(&self, transaction: &mut Transaction) -> Outcome {
        let has_writes = transaction.has_writes();
        match transaction.commit() {
            Ok(commit) if has_writes => Outcome::Committed(commit.0 - MADE),
            Ok(_) => Outcome::Done,
            Err(error) => failed(error),
        }
    }

    fn row_state(&self, row: RowId) -> RowState {
        let pin = crossbeam_epoch::pin();
        let (block, offset) = (Storage::of(&self.table).block(row.block()), row.offset());
        let header = block.header(offset);
        let word = |cell: Cell<'_>| match cell {
            Cell::Word(word) => word,
            other => panic!("{other:?} is no word"),
        };
        let columns = [1, 2];
        let versions = block.chain(offset).iter(&pin).map(|version| {
            let cells = columns.map(|column| version.cell(column).map(word));
            (version.begin().0 - MADE, cells)
        });
        let cells = columns.map(|column: usize| {
            // SAFETY: inside a pin; no thread is in the middle of anything but a step.
            let array = unsafe { block.columns().current(column) };
            let raw = array.load(offset);
            // SAFETY: as above; and a word is stored at once.
            word(unsafe { array.resolve(&raw) })
        });
        RowState {
            timestamp: if header.is_pending() { u64::MAX } else { header.timestamp().0 - MADE },
            is_locked: header.is_locked(),
            is_swept: header.is_swept(),
            is_installing: header.is_installing(),
            is_dirty: block.dirty().word(offset / 64) >> (offset % 64) & 1 == 1,
            cells,
            versions: versions.collect(),
        }
    }
}

/// The outcome that an error stands for.
fn failed(error: Error) -> Outcome {
    match error.message() {
        message if message.contains("concurrent update") => Outcome::Row,
        message if message.contains("read/write dependencies") => Outcome::Reads,
        message => panic!("an error that no call should lead to: {message}"),
    }
}

impl World for Engine {
    fn run(&self, calls: &[Call], tell: &mut dyn FnMut(Call, Outcome)) {
        let mut transaction = Transaction::new(self.manager.clone(), self.manager.acquire_worker());
        let mut running = None;
        for &call in calls {
            let outcome = match (call, running) {
                (Call::Begin(level), _) => {
                    running = Some(level);
                    self.begin(&mut transaction, level)
                }
                (Call::Sweep, _) => {
                    Storage::of(&self.table).sweep(self.manager.horizon(), &crossbeam_epoch::pin());
                    Outcome::Done
                }
                (_, None) => continue,
                (Call::Read(row, column), _) => {
                    transaction.begin_statement();
                    let found = self.find(&mut transaction, row, column);
                    Outcome::Cell(transaction.bigint(&self.table, found, column + 1) as u64)
                }
                (Call::Copy, _) => self.copy(&transaction),
                (Call::Write(row, column, value), Some(level)) => {
                    self.write(&mut transaction, level, (row, column, value))
                }
                (Call::Commit, _) => {
                    running = None;
                    self.commit(&mut transaction)
                }
                (Call::Rollback, _) => {
                    running = None;
                    transaction.rollback();
                    Outcome::Done
                }
            };
            if outcome.ends() {
                running = None;
                transaction.rollback();
            }
            tell(call, outcome);
        }
    }

    fn state(&self) -> State {
        let mut in_use = Vec::new();
        self.manager.readers().in_use(self.manager.watermark(), &mut in_use);
        let block = Storage::of(&self.table).block(BlockNumber(0));
        State {
            watermark: self.manager.watermark().0 - MADE,
            in_use: in_use.into_iter().map(|used| used.0 - MADE).collect(),
            changes: std::array::from_fn::<_, COLUMNS, _>(|column| {
                let change = block.column_change(column + 1);
                if change == Timestamp::MAX { u64::MAX } else { change.0 - MADE }
            }),
            rows: self.rows.iter().map(|&row| self.row_state(row)).collect(),
        }
    }
}
