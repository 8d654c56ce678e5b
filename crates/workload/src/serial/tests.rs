//! Every mechanism beside the engine: the outcome of each transaction, all rows at the end, and the answers of both queries.

use super::client::SerialClient;
use super::layout::Layout;
use super::load::{SerialOptions, load_by, read};
use super::queries::{q1, q5, q5_by_hash_tables, q5_by_indexes};
use super::relations::{Handle, SerialTables};
use super::transactions::SerialTerminal;
use crate::ch::answer::{ChRow, difference};
use crate::ch::load::load as load_added;
use crate::ch::queries::CH_QUERIES;
use crate::ch::reference::evaluate;
use crate::ch::reference::rows::SnapshotRows;
use crate::ch::schema::ChTables;
use crate::ch::warranty::{WarrantyInputs, run_once};
use crate::tpcc::input::{Access, Input, Inputs, NewOrderInput, OrderLineInput, UNUSED_ITEM};
use crate::tpcc::key::KeyBuffer;
use crate::tpcc::load::{LoadOptions, load as load_engine};
use crate::tpcc::mix::Mix;
use crate::tpcc::schema::TpccTables;
use crate::tpcc::transactions::{Outcome, Terminal};
use ankerdb_engine::{Database as Engine, Error, Isolation, Result, Snapshot as EngineSnapshot, SqlState};
use ankerdb_serial::{
    HotCold, InPlace, IndexTreatment, MemoryKind, QuiescePolicy, SerialDatabase, SerialSnapshot,
    ShadowCopies, Store, TupleShadowing, TwinTuples, View,
};
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

const SEED: u64 = 5;
/// 14 July 2017
const LOADED: i64 = 1_500_000_000_000_000;
/// Transactions before the snapshot, and after it.
const HALF: usize = 1500;
/// The queries that are asked, by their positions.
const QUERIES: [usize; 2] = [0, 4];

/// The date of a transaction: a day after loading.
fn date(transaction: usize) -> i64 {
    LOADED + 86_400_000_000 + transaction as i64
}

/// What an execution has to lead to: as the engine has it.
struct Expected {
    source: Engine,
    /// Rows as they were loaded.
    loaded: EngineSnapshot,
    outcomes: Vec<String>,
    middle: Answers,
    end: Answers,
    /// Loaded, and in the end.
    sums: [Vec<TableSum>; 2],
}

type Answers = [Vec<ChRow>; 2];

/// A table's name, rows, and a sum over their words that does not depend on their order.
type TableSum = (&'static str, u64, u64);

static EXPECTED: LazyLock<Expected> = LazyLock::new(|| {
    let engine = Engine::new();
    let options = LoadOptions { now: LOADED, ..LoadOptions::new(1, SEED) };
    let tables = load_engine(&engine, &options, &|_, _| ControlFlow::Continue(())).expect("it loads");
    let (tables, added) = (Arc::new(tables), load_added(&engine, SEED).expect("it loads"));
    let (loaded, sums) = (engine.snapshot(), engine_sums(&engine));
    let mut client = EngineClient::new(&engine, tables.clone());
    let mut outcomes: Vec<String> = (0..HALF).map(|number| client.run_next(date(number))).collect();
    let middle = engine_answers(&engine, &tables, &added);
    outcomes.extend((HALF..2 * HALF).map(|number| client.run_next(date(number))));
    let end = engine_answers(&engine, &tables, &added);
    // All that can happen does.
    for kind in
        ["NewOrder(", "NewOrderRolledBack", "Payment(", "OrderStatus(", "Delivery(", "StockLevel(", "None"]
    {
        assert!(
            outcomes.iter().any(|outcome| outcome.trim_start_matches("Some(").starts_with(kind)),
            "{kind}"
        );
    }
    assert!(middle.iter().zip(&end).all(|(middle, end)| difference(middle, end, &[]).is_some()));
    let sums = [sums, engine_sums(&engine)];
    Expected { source: engine, loaded, outcomes, middle, end, sums }
});

/// A client of the engine, which runs what [`SerialClient`] runs.
struct EngineClient {
    inputs: Inputs,
    warranties: WarrantyInputs,
    terminal: Terminal,
    tables: Arc<TpccTables>,
    key: KeyBuffer,
}

impl EngineClient {
    fn new(engine: &Engine, tables: Arc<TpccTables>) -> EngineClient {
        EngineClient {
            inputs: Inputs::of_mix(SEED, 0, 1, Access::Home, Mix::Full),
            warranties: WarrantyInputs::new(SEED, 0, 1, Access::Home),
            terminal: Terminal::new(engine, tables.clone(), Isolation::Serializable),
            tables,
            key: KeyBuffer::default(),
        }
    }

    fn run_next(&mut self, now: i64) -> String {
        if let Some(input) = self.warranties.next_input() {
            let session = self.terminal.session();
            let isolation = Isolation::Serializable;
            run_once(session, isolation, &self.tables, &mut self.key, (&input, now)).expect("it commits");
            return described(None);
        }
        let input = self.inputs.next_input();
        let outcome = self.terminal.run_once(&input, now).expect("nothing is in the way");
        if let (Input::Delivery(input), Outcome::Delivery(output)) = (&input, &outcome) {
            self.warranties.note_delivered(input.warehouse, output);
        }
        described(Some(outcome))
    }
}

fn described(outcome: Option<Outcome>) -> String {
    format!("{outcome:?}")
}

fn engine_answers(engine: &Engine, tables: &TpccTables, added: &ChTables) -> Answers {
    let snapshot = engine.snapshot();
    let mut session = engine.session();
    QUERIES.map(|query| {
        let mut rows =
            SnapshotRows::at(&mut session, &snapshot, tables, added).expect("it is of this database");
        evaluate(query, &mut rows).expect("it can be evaluated")
    })
}

/// Adds a tuple to the sum of its table.
fn add(sum: &mut TableSum, words: impl Iterator<Item = u64>) {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    sum.1 += 1;
    sum.2 = sum.2.wrapping_add(words.fold(0, mix));
}

fn engine_sums(engine: &Engine) -> Vec<TableSum> {
    use super::relations::*;
    vec![
        engine_sum::<WarehouseRelation>(engine),
        engine_sum::<DistrictRelation>(engine),
        engine_sum::<CustomerRelation>(engine),
        engine_sum::<HistoryRelation>(engine),
        engine_sum::<NewOrderRelation>(engine),
        engine_sum::<OrdersRelation>(engine),
        engine_sum::<OrderLineRelation>(engine),
        engine_sum::<StockRelation>(engine),
        engine_sum::<ItemRelation>(engine),
        engine_sum::<SupplierRelation>(engine),
    ]
}

fn engine_sum<H: Handle>(engine: &Engine) -> TableSum {
    let table = engine.catalog().table(H::NAME).expect("it was loaded");
    let layout = Layout::of(table.definition()).expect("all columns have fields");
    let mut session = engine.session();
    let mut transaction = session.begin(Isolation::RepeatableRead);
    let mut sum = (H::NAME, 0, 0);
    let mut tuple = vec![0; layout.words()];
    read(&mut transaction, &table, &layout, &mut tuple, &mut |tuple| {
        add(&mut sum, tuple.iter().copied());
        Ok(())
    })
    .expect("it can be read");
    sum
}

fn sums_of<S: Store>(snapshot: &SerialSnapshot<S>, tables: &SerialTables) -> Vec<TableSum> {
    let relations = [
        ("warehouse", tables.warehouse.relation),
        ("district", tables.district.relation),
        ("customer", tables.customer.relation),
        ("history", tables.history.relation),
        ("new_order", tables.new_order.relation),
        ("orders", tables.orders.relation),
        ("order_line", tables.order_line.relation),
        ("stock", tables.stock.relation),
        ("item", tables.item.relation),
        ("supplier", tables.supplier.relation),
    ];
    let sum = |(name, relation)| {
        let mut sum = (name, 0, 0);
        snapshot.relation(relation).scan(|tuple: &[AtomicU64]| {
            add(&mut sum, tuple.iter().map(|word| word.load(Relaxed)));
            true
        });
        assert_eq!(snapshot.relation(relation).count(), sum.1 as usize);
        sum
    };
    relations.map(sum).to_vec()
}

/// What is wrong with the answers on a snapshot; nothing, one hopes.
fn wrong_answers<S: Store>(
    snapshot: &SerialSnapshot<S>,
    tables: &SerialTables,
    expected: &Answers,
) -> Result<String> {
    let rows = |rows: Vec<super::queries::Q5Row>| rows.iter().map(|row| row.to_row()).collect::<Vec<_>>();
    let lines: Vec<ChRow> = q1(snapshot, tables, &|| Ok(()))?.iter().map(|row| row.to_row()).collect();
    let mut revenues =
        vec![q5(snapshot, tables, &|| Ok(()))?, q5_by_hash_tables(snapshot, tables, &|| Ok(()))?];
    if snapshot.has_indexes() {
        revenues.push(q5_by_indexes(snapshot, tables, &|| Ok(()))?);
    }
    let mut wrong: Vec<String> = difference(&lines, &expected[0], CH_QUERIES[0].order).into_iter().collect();
    for revenues in revenues {
        wrong.extend(difference(&rows(revenues), &expected[1], CH_QUERIES[4].order));
    }
    Ok(wrong.join("; "))
}

/// One mechanism at work.
struct Execution<S: Store> {
    database: SerialDatabase<S>,
    tables: SerialTables,
    client: SerialClient,
    transactions: usize,
}

impl<S: Store> Execution<S> {
    fn loaded(treatment: IndexTreatment) -> Execution<S> {
        let options = SerialOptions { kind: MemoryKind::default(), treatment, extra_orders: 2 * HALF };
        let Expected { source, loaded, .. } = &*EXPECTED;
        let transaction = source.session().begin_at(loaded).expect("it is of this database");
        let (database, tables) = load_by::<S>(transaction, source, &options).expect("it loads");
        let client = SerialClient::new(tables, SEED, 0, 1, Access::Home);
        Execution { database, tables, client, transactions: 0 }
    }

    fn run(&mut self, transactions: usize) {
        for _ in 0..transactions {
            let number = self.transactions;
            let outcome = self.client.run_next(&mut self.database, date(number)).expect("it commits");
            assert_eq!(described(outcome), EXPECTED.outcomes[number], "transaction {number}");
            self.transactions += 1;
        }
    }

    fn refresh(&mut self) {
        self.database.reorganize();
        self.database.refresh(QuiescePolicy::Wait).expect("there is memory");
    }

    fn check_now(&mut self, answers: &Answers, sums: Option<&[TableSum]>) {
        self.refresh();
        let tables = self.tables;
        let check = |snapshot: &SerialSnapshot<S>| {
            let wrong = wrong_answers(snapshot, &tables, answers).expect("they can be answered");
            assert_eq!(wrong, "", "{}", S::MECHANISM.name());
            if let Some(sums) = sums {
                assert_eq!(sums_of(snapshot, &tables), sums, "{}", S::MECHANISM.name());
            }
        };
        match S::MECHANISM.forks() {
            true => {
                let work = |snapshot: &SerialSnapshot<S>, _: &mut _| {
                    check(snapshot);
                    Ok(())
                };
                self.database.fork(0, work).expect("it forks").wait(&|| false).expect("nothing is wrong");
            }
            false => check(self.database.readers().enter().expect("it is open").snapshot()),
        }
    }

    /// Runs the other half beside a query on the present state, which sees nothing of it.
    fn run_beside_query(&mut self) {
        self.refresh();
        let (tables, answers) = (self.tables, &EXPECTED.middle);
        if S::MECHANISM.forks() {
            let late = self.database.fork(1 << 16, |snapshot, output| {
                // The parent goes on meanwhile.
                std::thread::sleep(Duration::from_millis(300));
                let wrong = wrong_answers(snapshot, &tables, answers)?;
                output.write_all(wrong.as_bytes()).map_err(|error| Error::internal(error.to_string()))
            });
            self.run(HALF);
            let wrong = late.expect("it forks").wait(&|| false).expect("it ends well");
            assert_eq!(String::from_utf8_lossy(wrong.as_ref()), "");
        } else {
            let reading = self.database.readers().enter().expect("it is open");
            let is_right =
                || wrong_answers(reading.snapshot(), &tables, answers).expect("it can be answered");
            assert_eq!(is_right(), "");
            self.run(HALF);
            assert_eq!(is_right(), "");
            // A check that says no ends a query.
            let no = || Err(Error::new(SqlState::QueryCanceled, "no"));
            assert!(q1(reading.snapshot(), &tables, &no).is_err());
            assert!(q5(reading.snapshot(), &tables, &no).is_err());
            assert!(q5_by_hash_tables(reading.snapshot(), &tables, &no).is_err());
        }
    }
}

fn check<S: Store>(treatment: IndexTreatment) {
    let mut execution = Execution::<S>::loaded(treatment);
    execution.run(HALF);
    execution.check_now(&EXPECTED.middle, None);
    execution.run_beside_query();
    execution.check_now(&EXPECTED.end, Some(&EXPECTED.sums[1]));
}

#[test]
fn vm_fork_does_what_the_engine_does() {
    check::<InPlace>(IndexTreatment::Fork);
}

#[test]
fn tuple_shadowing_does_what_the_engine_does() {
    check::<TupleShadowing>(IndexTreatment::Share);
}

#[test]
fn twin_tuples_do_what_the_engine_does() {
    check::<TwinTuples>(IndexTreatment::Copy);
}

#[test]
fn hot_and_cold_tuples_do_what_the_engine_does() {
    check::<HotCold>(IndexTreatment::Abandon);
}

#[test]
fn shadow_copies_do_what_the_engine_does() {
    check::<ShadowCopies>(IndexTreatment::Copy);
}

/// The last line's item is unused, so that all before it was done.
#[test]
fn an_order_with_an_unused_item_leaves_nothing_behind() {
    let mut execution = Execution::<TupleShadowing>::loaded(IndexTreatment::Share);
    let mut terminal = SerialTerminal::new(execution.tables);
    let items = [1, 2, 1, UNUSED_ITEM];
    let line = |item| OrderLineInput { item, supply_warehouse: 1, quantity: 10 };
    let input = NewOrderInput {
        warehouse: 1,
        district: 3,
        customer: 7,
        lines: items.map(line).into_iter().collect(),
    };
    for _ in 0..3 {
        let outcome = terminal.run_once(&mut execution.database, &Input::NewOrder(input.clone()), 1);
        assert!(matches!(outcome, Ok(Outcome::NewOrderRolledBack)), "{outcome:?}");
    }
    execution.refresh();
    let readers = execution.database.readers();
    let reading = readers.enter().expect("it is open");
    assert_eq!(sums_of(reading.snapshot(), &execution.tables), EXPECTED.sums[0]);
}
