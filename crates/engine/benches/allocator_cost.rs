//! What it costs a transaction that its memory is counted, and that there is an emergency pool behind the allocator.
//! `cargo bench -p ankerdb-engine --bench allocator_cost --no-run` tells the program; then
//! `valgrind --tool=callgrind PROGRAM plain 20000`, with `counted` and `backed` in the place of `plain`. The difference of two numbers of transactions leaves the beginning out.

use ankerdb_engine::*;
use ankerdb_memory::account::Counted;
use ankerdb_memory::emergency_pool::Backed;
use ankerdb_table::Storage;
use ankerdb_transaction::{TransactionManager, Versioning};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const PLAIN: u8 = 0;
const COUNTED: u8 = 1;
const BACKED: u8 = 2;
/// Rows of the table.
const ROWS: i32 = 10_000;

/// One of three allocators; the choice costs all of them the same.
struct Chosen(AtomicU8);

#[global_allocator]
static ALLOCATOR: Chosen = Chosen(AtomicU8::new(PLAIN));

// SAFETY: each call is handed on as it is; pieces are counted or not, but come from the same allocator.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Chosen {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises; so below.
        unsafe {
            match self.0.load(Ordering::Relaxed) {
                COUNTED => Counted(System).alloc(layout),
                BACKED => Counted(Backed(System)).alloc(layout),
                _ => System.alloc(layout),
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            match self.0.load(Ordering::Relaxed) {
                COUNTED => Counted(System).realloc(pointer, layout, size),
                BACKED => Counted(Backed(System)).realloc(pointer, layout, size),
                _ => System.realloc(pointer, layout, size),
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe {
            match self.0.load(Ordering::Relaxed) {
                COUNTED => Counted(System).dealloc(pointer, layout),
                BACKED => Counted(Backed(System)).dealloc(pointer, layout),
                _ => System.dealloc(pointer, layout),
            }
        }
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let kind = match arguments.first().map(String::as_str) {
        Some("counted") => COUNTED,
        Some("backed") => BACKED,
        _ => PLAIN,
    };
    ALLOCATOR.0.store(kind, Ordering::Relaxed);
    let transactions = arguments.get(1).and_then(|count| count.parse().ok()).unwrap_or(20_000);
    // Without a database there is no pruner, so that each run takes the same steps.
    let stock = TableDefinition::new("stock")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("quantity", DataType::Integer))
        .primary_key(&["id"]);
    let manager = TransactionManager::new(Versioning::default());
    let stock = Arc::new(Storage::create(manager.new_table(), stock));
    let mut transaction = Transaction::new(manager.clone(), manager.acquire_worker());
    transaction.begin(Isolation::RepeatableRead, false);
    for id in 0..ROWS {
        transaction.insert(&stock, vec![Value::Integer(id), Value::Integer(0)])?;
    }
    transaction.commit()?;
    let mut key = Vec::new();
    for number in 0..transactions {
        transaction.begin(Isolation::Serializable, false);
        for step in 0..10 {
            key.clear();
            ankerdb_value::push_integer(&mut key, (number * 7919 + step * 101) % ROWS);
            let row = transaction
                .find(&stock, IndexPosition(0), &key, ColumnSet::of(&[1]))?
                .expect("all rows exist");
            let quantity = transaction.integer(&stock, row, 1);
            transaction.update(&stock, row, vec![(1, Value::Integer(quantity + 1))])?;
        }
        transaction.commit()?;
    }
    println!("{transactions} transactions, {} bytes in the account", ankerdb_memory::account::used());
    Ok(())
}
