//! What a transaction of TPC-C costs in instructions and simulated cache misses, where the processor's counters are
//! not available: runs one kind on one thread, in a function that callgrind can be told to watch.
//!
//! ```sh
//! cargo bench --workspace --bench tpcc_cost --no-run     # tells the PROGRAM
//! valgrind --tool=callgrind --cache-sim=yes --toggle-collect='tpcc_cost::measured' PROGRAM new_order 1000 1
//! ```
//!
//! Arguments: kind, transactions, warehouses. Divide the counts by the number of transactions.

use ankerdb_engine::{Database, Isolation};
use ankerdb_workload::tpcc::input::{Access, Input, Inputs, TpccTransaction};
use ankerdb_workload::tpcc::load::{LoadOptions, load};
use ankerdb_workload::tpcc::mix::Mix;
use ankerdb_workload::tpcc::transactions::Terminal;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The part to watch.
#[inline(never)]
fn measured(client: &mut Terminal, input: &Input, now: i64) {
    client.run_once(input, now).expect("there is no other session to conflict with");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |position: usize| arguments.get(position).and_then(|number| number.parse().ok());
    let kind =
        arguments.get(1).and_then(|name| TpccTransaction::ALL.into_iter().find(|kind| kind.name() == name));
    let (Some(kind), Some(count), Some(warehouses)) = (kind, number(2), number(3)) else {
        let kinds: Vec<&str> = TpccTransaction::ALL.iter().map(|kind| kind.name()).collect();
        eprintln!("usage: tpcc_cost {} TRANSACTIONS WAREHOUSES", kinds.join("|"));
        std::process::exit(2);
    };
    let database = Database::new();
    let options = LoadOptions::new(warehouses, 1);
    let tables = load(&database, &options, &|_, _| ControlFlow::Continue(())).expect("the data fits");
    let mut client = Terminal::new(&database, Arc::new(tables), Isolation::Serializable);
    let mut inputs = Inputs::of_mix(1, 0, warehouses, Access::Home, Mix::Full);
    let mut of_kind = std::iter::repeat_with(|| inputs.next_input()).filter(|input| input.kind() == kind);
    for turn in 0..count {
        measured(&mut client, &of_kind.next().expect("inputs never end"), options.now + i64::from(turn));
    }
    println!("{count} transactions of kind {}", kind.name());
}
