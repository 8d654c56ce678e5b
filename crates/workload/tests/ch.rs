//! CH-benCHmark at one warehouse: all 22 answers are those of an independent evaluation, wrong ones are found, and a run says so.

use ankerdb_engine::{Cell, ColumnSet, Database, Isolation, Result, Snapshot, Table, Transaction};
use ankerdb_measure::machine::Machine;
use ankerdb_sql::{SqlEngine, SqlOptions};
use ankerdb_workload::bench::client::{ClientSetup, Workload};
use ankerdb_workload::ch::answer::{ChRow, ChValue, difference};
use ankerdb_workload::ch::bench::{QueryList, run_queries};
use ankerdb_workload::ch::clients::{ChWorkload, ChWorld};
use ankerdb_workload::ch::config::ChConfig;
use ankerdb_workload::ch::decode::rows_of;
use ankerdb_workload::ch::load::load as load_added;
use ankerdb_workload::ch::queries::{CH_QUERIES, ChQuery};
use ankerdb_workload::ch::reference::evaluate;
use ankerdb_workload::ch::reference::rows::SnapshotRows;
use ankerdb_workload::ch::report::ChReport;
use ankerdb_workload::ch::schema::{ChTables, supplier};
use ankerdb_workload::htap::marker::Marker;
use ankerdb_workload::tpcc::check::check;
use ankerdb_workload::tpcc::input::Access;
use ankerdb_workload::tpcc::load::{LoadOptions, load};
use ankerdb_workload::tpcc::schema::{customer, order_line, orders};
use ankerdb_workload::watch::{Event, Watch};
use serde_json::Value;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The date of the loaded rows: 14 July 2017.
const LOADED: i64 = 1_500_000_000_000_000;
/// The number of a nation that queries name.
const GERMANY: i32 = b'G' as i32;
/// The date of what clients do: a day later.
const LATER: i64 = LOADED + 86_400_000_000;

struct Fixture {
    world: ChWorld,
    added: ChTables,
    engine: SqlEngine,
}

impl Fixture {
    fn loaded() -> Fixture {
        let database = Database::new();
        let options = LoadOptions { now: LOADED, ..LoadOptions::new(1, 5) };
        let tables = load(&database, &options, &|_, _| ControlFlow::Continue(())).expect("it loads");
        let added = load_added(&database, 5).expect("it loads");
        let marker = Arc::new(Marker::create(&database).expect("the table is new"));
        let options = SqlOptions { olap_threads: 2, memory_limit_bytes: 1 << 30 };
        let engine = SqlEngine::new(database.clone(), options).expect("an engine");
        let world =
            ChWorld { database, tables: Arc::new(tables), marker, warehouses: 1, access: Access::Home };
        Fixture { world, added, engine }
    }

    /// One client completes that many transactions.
    fn work(&self, transactions: usize, seed: u64) {
        let workload = ChWorkload::new(&self.world, 1);
        let setup = ClientSetup { number: 0, seed, isolation: Isolation::Serializable };
        let mut client = workload.client(&setup).expect("a client");
        for _ in 0..transactions {
            client.draw();
            client.run(LATER).expect("nothing is in the way");
        }
    }

    fn write(&self, mut body: impl FnMut(&mut Transaction) -> Result<()>) {
        let mut session = self.world.database.session();
        session.run(Isolation::Serializable, |transaction| body(transaction)).expect("it commits");
    }

    /// Gives a customer in ten much money, takes away the orders of some of these, and moves a supplier in three to Germany: so all
    /// queries have rows.
    fn make_rows_for_all(&self) {
        let (customers, order_rows) = (&self.world.tables.customer, &self.world.tables.orders);
        let suppliers = &self.added.supplier;
        self.write(|transaction| {
            each(transaction, suppliers, |transaction, row| {
                match transaction.integer(suppliers, row, supplier::SU_SUPPKEY) % 3 {
                    0 => transaction.update_cells(
                        suppliers,
                        row,
                        &[(supplier::SU_NATIONKEY, Cell::integer(GERMANY))],
                    ),
                    _ => Ok(()),
                }
            })?;
            each(transaction, customers, |transaction, row| {
                if transaction.integer(customers, row, customer::C_ID) % 10 == 0 {
                    let cents = i64::from(transaction.integer(customers, row, customer::C_ID)) * 100_00;
                    transaction.update_cells(
                        customers,
                        row,
                        &[(customer::C_BALANCE, Cell::bigint(cents))],
                    )?;
                }
                Ok(())
            })?;
            each(transaction, order_rows, |transaction, row| {
                match transaction.integer(order_rows, row, orders::O_C_ID) % 50 {
                    0 => transaction.delete(order_rows, row),
                    _ => Ok(()),
                }
            })
        });
    }

    /// The answer to a query on a snapshot, and what it has to be.
    fn ask(&self, query: usize, snapshot: &Snapshot) -> (Vec<ChRow>, Vec<ChRow>) {
        let plan = self.engine.plan(CH_QUERIES[query].sql).expect("it can be planned");
        let batches = plan.run(&snapshot.read_view()).expect("it runs");
        let mut session = self.world.database.session();
        let rows = SnapshotRows::at(&mut session, snapshot, &self.world.tables, &self.added);
        let expected = evaluate(query, &mut rows.expect("the snapshot is of this database"));
        (rows_of(&batches).expect("rows"), expected.expect("it can be evaluated"))
    }
}

fn each(
    transaction: &mut Transaction,
    table: &Arc<Table>,
    mut change: impl FnMut(&mut Transaction, ankerdb_engine::RowId) -> Result<()>,
) -> Result<()> {
    transaction.scan_table(table, ColumnSet::ALL, None, &mut |transaction, row| {
        change(transaction, row).map(ControlFlow::Continue)
    })
}

/// What is wrong with answers, by query.
fn differences(answers: &[(Vec<ChRow>, Vec<ChRow>)]) -> Vec<String> {
    let of = |((answer, expected), query): (&(Vec<ChRow>, Vec<ChRow>), &ChQuery)| {
        difference(answer, expected, query.order).map(|found| format!("{}: {found}", query.name))
    };
    answers.iter().zip(&CH_QUERIES).filter_map(of).collect()
}

/// Whether a change of an answer is found in all queries.
fn is_always_found(answers: &[(Vec<ChRow>, Vec<ChRow>)], change: fn(&mut Vec<ChRow>)) {
    for ((answer, expected), query) in answers.iter().zip(&CH_QUERIES) {
        let mut wrong = answer.clone();
        change(&mut wrong);
        assert!(difference(&wrong, expected, query.order).is_some(), "{}", query.name);
    }
}

#[test]
fn all_answers_are_those_of_the_independent_evaluation_and_wrong_ones_are_found() {
    let fixture = Fixture::loaded();
    let loaded = fixture.world.database.snapshot();
    fixture.work(4_000, 1);
    assert_eq!(check(&fixture.world.database, &fixture.world.tables).expect("it can be checked"), []);
    let worked = fixture.world.database.snapshot();
    fixture.make_rows_for_all();
    let changed = fixture.world.database.snapshot();
    // All of them now, so that the first two read what has been overwritten.
    let ask =
        |snapshot| -> Vec<_> { (0..CH_QUERIES.len()).map(|query| fixture.ask(query, snapshot)).collect() };
    let [loaded, worked, answers] = [&loaded, &worked, &changed].map(ask);
    assert_eq!(differences(&loaded), Vec::<String>::new(), "as loaded");
    assert_eq!(differences(&worked), Vec::<String>::new(), "after transactions");
    assert_eq!(differences(&answers), Vec::<String>::new(), "after all changes");
    let is_silent = |((answer, _), _): &(&(Vec<ChRow>, _), &ChQuery)| answer.is_empty();
    let silent = answers.iter().zip(&CH_QUERIES).filter(is_silent).map(|(_, query)| query.name);
    assert_eq!(silent.collect::<Vec<_>>(), Vec::<&str>::new(), "these have no rows, and so say nothing");

    // The control: what is planted is found.
    is_always_found(&answers, |rows| drop(rows.pop()));
    is_always_found(&answers, |rows| rows.push(rows[0].clone()));
    is_always_found(&answers, |rows| match rows[0].last_mut() {
        // Quotients have many digits.
        Some(ChValue::Exact(digits, scale)) => *digits += 10_i128.pow(scale.saturating_sub(3)),
        Some(ChValue::Ratio(ratio)) => *ratio += 0.001,
        Some(ChValue::Text(text)) => text.push('x'),
        Some(other) => *other = ChValue::whole(7),
        None => {}
    });
    // So is an answer of another moment, by every query that reads what has changed since.
    let stale = (0..CH_QUERIES.len()).filter(|&query| {
        let (answer, order) = (&answers[query].0, CH_QUERIES[query].order);
        difference(answer, &loaded[query].1, order).is_some()
    });
    let stale: Vec<&str> = stale.map(|query| CH_QUERIES[query].name).collect();
    for name in
        ["Q1", "Q3", "Q4", "Q6", "Q7", "Q10", "Q11", "Q12", "Q13", "Q14", "Q15", "Q18", "Q19", "Q21", "Q22"]
    {
        assert!(stale.contains(&name), "{name} is not among {stale:?}");
    }
}

#[test]
fn warranties_and_returns_change_older_lines_and_keep_the_conditions() {
    let fixture = Fixture::loaded();
    fixture.work(6_000, 2);
    let (tables, mut session) = (&fixture.world.tables, fixture.world.database.session());
    let mut transaction = session.begin(Isolation::RepeatableRead);
    let (mut replaced, mut returned, lines) = (0, 0, &tables.order_line);
    each(&mut transaction, lines, |transaction, row| {
        let (order, number) = (
            transaction.integer(lines, row, order_line::OL_O_ID),
            transaction.cell(lines, row, order_line::OL_DELIVERY_D, |cell| cell == Cell::bigint(LATER)),
        );
        // Orders up to 2,100 were loaded as delivered.
        replaced += u64::from(order < 2101 && number);
        returned += u64::from(order >= 2101 && transaction.decimal(lines, row, order_line::OL_AMOUNT) == 0);
        Ok(())
    })
    .expect("it can be read");
    transaction.rollback();
    // 8 of 108 are of this kind, half of them warranties; what comes back has to have been delivered before.
    assert!((150..260).contains(&replaced), "{replaced}");
    assert!(returned > 0, "nothing came back");
    assert_eq!(check(&fixture.world.database, tables).expect("it can be checked"), []);
}

fn tiny(refresh_every: Option<u64>) -> ChConfig {
    ChConfig {
        warehouses: 1,
        oltp_threads: 1,
        olap_threads: 2,
        refresh_every,
        check_all: true,
        seconds: 2,
        rounds: 1,
        isolation: Isolation::Serializable,
        access: Access::Home,
        seed: 9,
        json: None,
    }
}

fn report_of(config: &ChConfig, queries: &QueryList, stop_at: Option<&'static str>) -> ChReport {
    let stop = AtomicBool::new(false);
    let observer = |event: Event<'_>| {
        if let Event::Phase { name, .. } = event
            && Some(name) == stop_at
        {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let machine = Machine::detect();
    let warnings = config.check(&machine).expect("the configuration is fine");
    let watch = Watch { stop: &stop, observer: &observer };
    run_queries(config, &machine, warnings, &watch, queries).expect("the run works")
}

fn json(report: &ChReport) -> Value {
    serde_json::from_str(&report.json().expect("the report is JSON")).expect("the JSON can be read")
}

fn positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0)
}

#[test]
fn a_run_checks_all_queries_in_both_setups() {
    for refresh_every in [None, Some(500)] {
        let report = report_of(&tiny(refresh_every), &CH_QUERIES, None);
        assert_eq!(report.failure(), None);
        let (json, text) = (json(&report), report.text());
        assert_eq!(json["config"]["refresh_every"].as_u64(), refresh_every);
        let answers = &json["answers"];
        assert_eq!(
            (&answers["answers"], &answers["wrong"], &answers["missed"]),
            (&22.into(), &0.into(), &0.into())
        );
        assert!(positive(&answers["sums"]) && positive(&answers["markers"]), "{answers}");
        assert_eq!(json["evaluated"].as_array().map(Vec::len), Some(22));
        assert_eq!(json["violations"], Value::Array(Vec::new()));
        let queries = json["queries"].as_array().expect("a list");
        assert_eq!(queries.len(), 22);
        // Each at least once; figures are there if the phase was quiet, and only then.
        let is_told =
            |query: &Value| positive(&query["alone"]["p50_ms"]) && positive(&query["alone"]["p95_ms"]);
        let is_quiet = json["olap_phases"]["alone"]["clean"] == 1;
        assert!(queries.iter().all(|query| is_told(query) == is_quiet), "{queries:?}");
        assert_eq!(positive(&json["geometric_mean_ms"]["alone"]), is_quiet);
        let kinds = json["oltp"]["by_transaction"].as_object().expect("a map");
        assert!(kinds.len() == 6 && kinds.values().all(|kind| positive(&kind["completed"])), "{kinds:?}");
        assert!(positive(&json["snapshots"]["taken"]));
        assert!(refresh_every.is_none() || json["snapshots"]["taken"].as_u64() > Some(1), "{text}");
        for line in ["conditions 3.3.2.1-12: hold", "geometric mean", "warranty_return", "phases were noisy"]
        {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}

/// The control of the comparison: a query that asks something else than its number says.
#[test]
fn a_planted_wrong_answer_fails_the_run() {
    let mut queries = CH_QUERIES;
    queries[11].sql = "select o_ol_cnt, \
          sum(case when o_carrier_id = 1 or o_carrier_id = 3 then 1 else 0 end) as high_line_count, \
          sum(case when o_carrier_id <> 1 and o_carrier_id <> 2 then 1 else 0 end) as low_line_count \
        from orders, order_line \
        where ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id and o_entry_d <= ol_delivery_d \
        group by o_ol_cnt order by o_ol_cnt";
    let report = report_of(&tiny(None), &queries, None);
    let failure = report.failure().expect("it is found");
    assert!(failure.starts_with("1 wrong answers, among them Q12: ("), "{failure}");
    assert_eq!(json(&report)["answers"]["wrong"], 1);
}

#[test]
fn a_stopped_run_reports_what_was_measured() {
    let report = report_of(&tiny(None), &CH_QUERIES, Some("hybrid"));
    let json = json(&report);
    assert_eq!(json["interrupted"], true);
    assert_eq!(json["evaluated"], Value::Array(Vec::new()));
    assert!(report.text().contains("stopped by the user"));
}

#[test]
fn impossible_configurations_are_refused_before_loading() {
    let refusal = |config: ChConfig| config.check(&Machine::detect()).expect_err("is refused").to_string();
    assert_eq!(refusal(ChConfig { warehouses: 0, ..tiny(None) }), "--warehouses must be at least 1");
    assert_eq!(refusal(tiny(Some(0))), "--refresh-every must be at least 1");
    assert_eq!(refusal(ChConfig { olap_threads: 0, ..tiny(None) }), "--olap-threads must be at least 1");
    let weak = ChConfig { isolation: Isolation::ReadCommitted, ..tiny(None) };
    assert!(refusal(weak).contains("must be serializable or repeatable-read"));
    assert!(refusal(ChConfig { warehouses: 19_999, ..tiny(None) }).contains("at most --warehouses"));
}
