//! A loaded TPC-C database to look into.

use ankerdb_engine::{ColumnSet, Database, Isolation, Result, RowId, Table, Transaction, Value};
use ankerdb_workload::tpcc::input::Input;
use ankerdb_workload::tpcc::load::{LoadOptions, load};
use ankerdb_workload::tpcc::schema::{PRIMARY, TpccTables};
use ankerdb_workload::tpcc::transactions::{Outcome, Terminal};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

pub(crate) struct World {
    pub database: Database,
    pub tables: Arc<TpccTables>,
}

pub(crate) fn loaded(threads: usize) -> World {
    let database = Database::new();
    let options = LoadOptions { warehouses: 1, seed: 42, threads, now: 1_500_000_000_000_000 };
    let tables = load(&database, &options, &|_, _| ControlFlow::Continue(())).expect("loading works");
    World { database, tables: Arc::new(tables) }
}

/// One database for tests that each stay in a district of their own.
pub(crate) fn shared() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| loaded(2))
}

impl World {
    pub(crate) fn read<T>(&self, body: impl FnOnce(&mut Transaction) -> T) -> T {
        let mut session = self.database.session();
        let mut transaction = session.begin(Isolation::RepeatableRead);
        let value = body(&mut transaction);
        transaction.rollback();
        value
    }

    pub(crate) fn write(&self, body: impl FnMut(&mut Transaction) -> Result<()>) {
        self.database.session().run(Isolation::Serializable, body).expect("the write works");
    }

    pub(crate) fn scan(&self, table: &Arc<Table>, mut visit: impl FnMut(&Transaction, RowId)) {
        self.read(|transaction| {
            let mut visit = |transaction: &mut Transaction, row| {
                visit(transaction, row);
                Ok(ControlFlow::Continue(()))
            };
            transaction.scan_table(table, ColumnSet::ALL, None, &mut visit).expect("scans work");
        });
    }

    pub(crate) fn count(&self, table: &Arc<Table>) -> usize {
        let mut rows = 0;
        self.scan(table, |_, _| rows += 1);
        rows
    }

    /// A hash of all rows that does not depend on their order.
    pub(crate) fn digest(&self, table: &Arc<Table>) -> u64 {
        let mut sum = 0u64;
        self.scan(table, |transaction, row| {
            let mut hasher = DefaultHasher::new();
            for column in 0..table.columns().len() {
                format!("{:?}", transaction.value(table, row, column)).hash(&mut hasher);
            }
            sum = sum.wrapping_add(hasher.finish());
        });
        sum
    }

    pub(crate) fn find(&self, table: &Arc<Table>, key: &[u8]) -> Option<RowId> {
        self.read(|transaction| transaction.find(table, PRIMARY, key, ColumnSet::ALL).expect("finding works"))
    }

    pub(crate) fn value(&self, table: &Arc<Table>, key: &[u8], column: usize) -> Value {
        self.read(|transaction| {
            let row = transaction.find(table, PRIMARY, key, ColumnSet::ALL).expect("finding works");
            transaction.value(table, row.expect("the row exists"), column)
        })
    }

    pub(crate) fn client(&self) -> Terminal {
        Terminal::new(&self.database, self.tables.clone(), Isolation::Serializable)
    }

    /// Runs a transaction; other tests share the warehouse row, so it may have to be run again.
    pub(crate) fn run(&self, input: &Input) -> Outcome {
        let mut client = self.client();
        loop {
            match client.run_once(input, 7) {
                Err(error) if error.is_retryable() => continue,
                outcome => return outcome.expect("the transaction works"),
            }
        }
    }

    pub(crate) fn all_tables(&self) -> [&Arc<Table>; 9] {
        let tables = &self.tables;
        [
            &tables.warehouse,
            &tables.district,
            &tables.customer,
            &tables.history,
            &tables.new_order,
            &tables.orders,
            &tables.order_line,
            &tables.item,
            &tables.stock,
        ]
    }
}
