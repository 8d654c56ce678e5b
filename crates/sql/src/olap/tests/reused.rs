//! Plans that run again, beside plans made for each run.

use super::super::reused::Run;
use super::super::{After, OlapPlan};
use super::{Fixture, never_canceled, numeric};
use crate::compiler_mode::CompilerMode;
use ankerdb_engine::{
    ColumnDefinition, ColumnSet, DataType, Error, IndexPosition, Isolation, ReadView, SqlState,
    TableDefinition, Value,
};
use datafusion::common::ScalarValue;
use std::sync::Arc;

const LINES: i32 = 30_000;

/// Queries of all operators that a plan may have which is kept.
const KEPT: [&str; 20] = [
    "SELECT count(*), sum(amount), min(id), max(id) FROM line",
    "SELECT max(amount) FROM line",
    "SELECT district, count(*), avg(amount) FROM line WHERE amount > 3 GROUP BY district ORDER BY district",
    "SELECT id, amount FROM line ORDER BY amount DESC NULLS LAST, id LIMIT 7",
    "SELECT id FROM line ORDER BY id OFFSET 5 LIMIT 3",
    "SELECT DISTINCT district FROM line ORDER BY district",
    "SELECT d.name, sum(l.amount) FROM line l JOIN district d ON d.id = l.district GROUP BY d.name ORDER BY 1",
    "SELECT d.name, count(l.id) FROM district d LEFT JOIN line l ON d.id = l.district GROUP BY d.name ORDER BY 1",
    "SELECT count(*) FROM line l FULL JOIN district d ON d.id = l.district",
    "SELECT name FROM district d WHERE EXISTS (SELECT 1 FROM line l WHERE l.district = d.id AND l.amount > 5) ORDER BY 1",
    "SELECT name FROM district d WHERE NOT EXISTS (SELECT 1 FROM line l WHERE l.district = d.id) ORDER BY 1",
    "SELECT count(*) FROM line WHERE district NOT IN (SELECT id FROM district WHERE name < 'district 5')",
    "SELECT count(*) FROM district a, district b",
    "SELECT count(*) FROM district a JOIN district b ON a.id < b.id",
    "SELECT district FROM line WHERE id < 5 UNION ALL SELECT id FROM district ORDER BY 1",
    "SELECT id, row_number() OVER (ORDER BY id), sum(id) OVER () FROM district ORDER BY id",
    "SELECT id, sum(id) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM district ORDER BY id",
    "WITH t AS (SELECT district, sum(amount) AS total FROM line GROUP BY district) \
     SELECT a.district, b.total FROM t a JOIN t b ON a.district = b.district ORDER BY 1",
    "SELECT count(*) FROM line WHERE amount > (SELECT avg(amount) FROM line)",
    "SELECT id, (SELECT max(amount) FROM line) FROM district WHERE id < (SELECT max(district) FROM line) ORDER BY 1",
];

/// Queries that are planned for each run.
const NOT_KEPT: [&str; 2] = [
    "SELECT count(*) FROM line WHERE now() > timestamptz '2020-01-01'",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i) FROM n, district",
];

impl Fixture {
    fn with_lines_and_districts() -> Fixture {
        let fixture = Fixture::with_lines(LINES);
        let district = fixture.create(
            TableDefinition::new("district")
                .column(ColumnDefinition::new("id", DataType::SmallInt))
                .column(ColumnDefinition::new("name", DataType::Text))
                .primary_key(&["id"]),
        );
        let row = |id: i16| vec![Value::SmallInt(id), Value::text(format!("district {id}"))];
        fixture.insert(&district, (0..8).map(row).collect());
        fixture
    }

    /// Changes a little everywhere: the smallest and largest amount, districts that come and go, more lines of a district.
    fn change(&self, round: i16) {
        let table = |name| self.database.catalog().table(name).expect("a table");
        let (line, district) = (table("line"), table("district"));
        let mut session = self.database.session();
        let changed = session.run(Isolation::Serializable, |transaction| {
            let id = LINES + i32::from(round);
            let amount = numeric(900_000 + i128::from(round), 2);
            let info = Value::text("a late one");
            transaction.insert(&line, vec![Value::Integer(id), Value::SmallInt(round % 12), amount, info])?;
            let id = Value::SmallInt(20 + round);
            transaction.insert(&district, vec![id, Value::text(format!("district {round} again"))])?;
            let mut key = Vec::new();
            district.index(IndexPosition(0)).encode(&[Value::SmallInt(round)], &mut key)?;
            let old = transaction.find(&district, IndexPosition(0), &key, ColumnSet::ALL)?;
            old.map_or(Ok(()), |old| transaction.delete(&district, old).map(drop))
        });
        changed.expect("no conflict");
    }

    fn run_in(&self, mode: CompilerMode, plan: &Arc<OlapPlan>, view: ReadView) -> Vec<String> {
        self.run_with(mode, plan, &[], view)
    }

    fn run_with(
        &self,
        mode: CompilerMode,
        plan: &Arc<OlapPlan>,
        parameters: &[Value],
        view: ReadView,
    ) -> Vec<String> {
        let after = After { compiler: mode, ..After::default() };
        let mut result = self.olap.run_after(plan, parameters, view, after, never_canceled());
        let mut rows = Vec::new();
        while let Some(batch) = result.next_batch().expect("a batch") {
            rows.extend(batch.into_iter().map(|row| format!("{row:?}")));
        }
        rows
    }

    /// Runs plans again and again while rows change, beside plans that are made for each run.
    fn runs_alike(&self, queries: &[&str], mode: CompilerMode) -> Vec<Arc<OlapPlan>> {
        let plan = |sql: &&str| self.plan(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let plans: Vec<Arc<OlapPlan>> = queries.iter().map(plan).collect();
        for round in 0..6 {
            for (sql, kept) in queries.iter().zip(&plans) {
                let (again, new) =
                    (self.run_in(mode, kept, self.view()), self.run_in(mode, &plan(sql), self.view()));
                assert_eq!(again, new, "{sql} in round {round}, {mode:?}");
            }
            self.change(round);
        }
        plans
    }
}

#[test]
fn a_plan_that_runs_again_reads_what_is_committed_by_then() {
    for mode in [CompilerMode::On, CompilerMode::Off, CompilerMode::Always] {
        let fixture = Fixture::with_lines_and_districts();
        for (sql, plan) in KEPT.iter().zip(fixture.runs_alike(&KEPT, mode)) {
            assert!(plan.reused.is_kept(), "{sql}, {mode:?}");
        }
        let fixture = Fixture::with_lines_and_districts();
        for (sql, plan) in NOT_KEPT.iter().zip(fixture.runs_alike(&NOT_KEPT, mode)) {
            assert!(!plan.reused.is_kept(), "{sql}, {mode:?}");
        }
    }
}

#[test]
fn a_plan_is_kept_when_it_runs_for_the_second_time() {
    let fixture = Fixture::with_lines_and_districts();
    let plan = fixture.plan(KEPT[0], &[]).expect("a plan");
    for is_kept in [false, true] {
        fixture.run_in(CompilerMode::On, &plan, fixture.view());
        assert_eq!(plan.reused.is_kept(), is_kept);
    }
}

#[test]
fn a_plan_does_not_outlive_the_data_that_it_was_made_for() {
    let fixture = Fixture::with_lines_and_districts();
    let district = fixture.database.catalog().table("district").expect("a table");
    let plan =
        fixture.plan("SELECT count(*) FROM district a JOIN district b ON a.id = b.id", &[]).expect("a plan");
    fixture.run_in(CompilerMode::Always, &plan, fixture.view());
    let is_fit = || {
        plan.reused
            .operators(&Run { view: &fixture.view(), values: &[], is_eager: true })
            .expect("a plan")
            .is_some()
    };
    assert!(is_fit());
    // One block becomes three.
    let row = |id: i16| vec![Value::SmallInt(id), Value::text("another")];
    fixture.insert(&district, (100..30_000).map(row).collect());
    assert!(!is_fit());
    let rows = fixture.run_in(CompilerMode::Always, &plan, fixture.view());
    assert_eq!(rows, [format!("{:?}", [Value::BigInt(29_908)])]);
    assert!(is_fit());
}

#[test]
fn two_runs_of_a_plan_at_the_same_time_have_nothing_in_common() {
    let fixture = Fixture::with_lines_and_districts();
    let sql = "SELECT l.id, d.name FROM line l JOIN district d ON d.id = l.district";
    let plan = fixture.plan(sql, &[]).expect("a plan");
    for _ in 0..2 {
        assert_eq!(fixture.run_in(CompilerMode::On, &plan, fixture.view()).len(), LINES as usize / 10 * 8);
    }
    let mut earlier = fixture.olap.run(&plan, &[], fixture.view(), never_canceled());
    let mut rows = earlier.next_batch().expect("a batch").expect("rows").len();
    // District 0 goes, and nobody but the later run knows.
    fixture.change(0);
    assert_eq!(fixture.run_in(CompilerMode::On, &plan, fixture.view()).len(), LINES as usize / 10 * 7);
    while let Some(batch) = earlier.next_batch().expect("a batch") {
        rows += batch.len();
    }
    assert_eq!(rows, LINES as usize / 10 * 8);
}

#[test]
fn a_run_with_values_of_subqueries_shares_them_with_no_other() {
    let fixture = Fixture::with_lines_and_districts();
    let sql = "SELECT id, (SELECT max(amount) FROM line) FROM line";
    let plan = fixture.plan(sql, &[]).expect("a plan");
    let run = || fixture.olap.run(&plan, &[], fixture.view(), never_canceled());
    let largest = |rows: Vec<Vec<Value>>| rows[0][1].clone();
    for _ in 0..2 {
        fixture.run_in(CompilerMode::On, &plan, fixture.view());
    }
    let mut earlier = run();
    let first = largest(earlier.next_batch().expect("a batch").expect("rows").into_rows());
    fixture.change(0);
    let mut later = run();
    let second = largest(later.next_batch().expect("a batch").expect("rows").into_rows());
    assert_eq!([&first, &second], [&numeric(i128::from(LINES) - 1, 2), &numeric(900_000, 2)]);
    while let Some(batch) = earlier.next_batch().expect("a batch") {
        assert!(batch.into_rows().iter().all(|row| row[1] == first));
    }
}

#[test]
fn a_plan_with_values_of_subqueries_is_lent_to_one_run_at_a_time() {
    let fixture = Fixture::with_lines_and_districts();
    let plan = fixture.plan("SELECT id, (SELECT max(amount) FROM line) FROM district", &[]).expect("a plan");
    for _ in 0..2 {
        assert_eq!(fixture.run_in(CompilerMode::On, &plan, fixture.view()).len(), 8);
    }
    let lend = || {
        plan.reused.operators(&Run { view: &fixture.view(), values: &[], is_eager: false }).expect("a plan")
    };
    let held = lend();
    assert!(held.is_some());
    assert!(lend().is_none());
    assert_eq!(fixture.run_in(CompilerMode::On, &plan, fixture.view()).len(), 8);
    drop(held);
    assert!(lend().is_some());
}

/// Queries of a parameter that is an operand beside columns.
const GENERIC: [(&str, DataType); 20] = [
    ("SELECT count(*), sum(amount) FROM line WHERE id < $1", DataType::Integer),
    ("SELECT count(*) FROM line WHERE amount > $1", DataType::Integer),
    ("SELECT count(*) FROM line WHERE amount * 2 > $1 + 1", DataType::Integer),
    ("SELECT count(*) FROM line WHERE id + $1 > 5", DataType::SmallInt),
    ("SELECT count(*) FROM line WHERE district IN ($1, 3)", DataType::SmallInt),
    (
        "SELECT d.name, count(*) FROM line l JOIN district d ON d.id = l.district \
         WHERE l.district <> $1 AND l.id + $1 > 5 GROUP BY d.name ORDER BY 1",
        DataType::SmallInt,
    ),
    (
        "SELECT count(*) FROM district WHERE id < $1 AND id < (SELECT max(district) FROM line WHERE id > $1)",
        DataType::SmallInt,
    ),
    ("SELECT count(*) FROM line WHERE id BETWEEN $1 AND $1 + 10", DataType::Integer),
    ("SELECT count(*) FROM line WHERE NOT (district = $1 OR id = $1)", DataType::Integer),
    ("SELECT count(*) FROM line WHERE id IN ($1, 70, 71, 72, 73, 74)", DataType::Integer),
    ("SELECT count(*) FROM line WHERE info LIKE $1", DataType::Text),
    ("SELECT count(*) FROM line WHERE info NOT ILIKE '%About ' || $1", DataType::Text),
    ("SELECT id, amount + $1, info LIKE '%5' FROM line WHERE id < 20 ORDER BY id", DataType::Integer),
    ("SELECT count(*) FROM line WHERE amount < $1", DataType::Number),
    ("SELECT count(*) FROM line WHERE amount >= $1", DataType::Numeric { precision: 38, scale: 2 }),
    ("SELECT sum(CASE WHEN district = $1 THEN amount ELSE 0 END), count(*) FROM line", DataType::SmallInt),
    (
        "SELECT district, count(*) FILTER (WHERE id < $1) FROM line GROUP BY district ORDER BY 1",
        DataType::Integer,
    ),
    (
        "SELECT count(*) FROM line l JOIN district d ON d.id = l.district AND l.id + d.id > $1 * 2",
        DataType::Integer,
    ),
    (
        "SELECT count(*) FROM district d WHERE NOT EXISTS \
         (SELECT 1 FROM line l WHERE d.id = l.district AND l.id + d.id > $1 * 2)",
        DataType::Integer,
    ),
    (
        "SELECT count(*) FROM line WHERE id IN ($1, 1, 5, 9, 12) AND district NOT IN ($1, 0, 1, 2, 3, 4)",
        DataType::Integer,
    ),
];

/// Queries of a parameter that may decide more than which rows pass.
const NOT_GENERIC: [(&str, DataType); 6] = [
    ("SELECT count(*) FROM line WHERE $1 IS NULL OR id = $1", DataType::Integer),
    ("SELECT count(*) FROM line l, district d WHERE $1 = 0 OR l.district = d.id", DataType::Integer),
    ("SELECT id FROM line ORDER BY id LIMIT $1", DataType::BigInt),
    ("SELECT $1, count(*) FROM line", DataType::Integer),
    ("SELECT count(DISTINCT id + $1) FROM line", DataType::Integer),
    ("SELECT count(*) FROM line WHERE CASE WHEN $1 = 1 THEN id = 1 ELSE district = 2 END", DataType::Integer),
];

#[test]
fn a_generic_plan_gives_what_a_plan_for_the_values_gives() {
    for mode in [CompilerMode::On, CompilerMode::Off, CompilerMode::Always] {
        let fixture = Fixture::with_lines_and_districts();
        let plan = |(sql, parameter): (&str, DataType)| {
            fixture.plan(sql, &[Some(parameter)]).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
        };
        let (plans, others) = (GENERIC.map(plan), NOT_GENERIC.map(plan));
        for (round, given) in [Some(3), Some(5), None, Some(1), Some(7), Some(0)].into_iter().enumerate() {
            for (query, again) in GENERIC.iter().chain(&NOT_GENERIC).zip(plans.iter().chain(&others)) {
                let parameters = [given.map_or(Value::Null, |given| of_type(query.1, given))];
                let run = |plan| fixture.run_with(mode, plan, &parameters, fixture.view());
                assert_eq!(run(again), run(&plan(*query)), "{query:?} with {given:?} in round {round}");
            }
            let kept =
                |plans: &[Arc<OlapPlan>]| plans.iter().map(|plan| plan.reused.is_kept()).collect::<Vec<_>>();
            let is_kept = round > 0 || mode == CompilerMode::Always;
            assert_eq!(kept(&plans), vec![is_kept; plans.len()], "round {round}, {mode:?}");
            assert_eq!(kept(&others), vec![false; others.len()], "round {round}");
            fixture.change(round as i16);
        }
    }
}

fn of_type(data_type: DataType, value: i16) -> Value {
    match data_type {
        DataType::SmallInt => Value::SmallInt(value),
        DataType::Integer => Value::Integer(value.into()),
        DataType::Number => Value::Number(format!("{value}.125").into()),
        DataType::Numeric { .. } => numeric(i128::from(value) * 100 + 25, 2),
        DataType::Text => Value::text(format!("%{value}")),
        _ => Value::BigInt(value.into()),
    }
}

#[test]
fn a_generic_plan_is_used_for_values_that_as_many_rows_pass_with() {
    let fixture = Fixture::with_lines_and_districts();
    let plan = fixture.plan("SELECT count(*) FROM line WHERE id < $1", &[]).expect("a plan");
    let planned_for = |value: i32| {
        let rows = fixture.run_with(CompilerMode::On, &plan, &[Value::Integer(value)], fixture.view());
        assert_eq!(rows, [format!("{:?}", [Value::BigInt(value.into())])]);
        plan.reused.first_values()
    };
    let of = |values: &[i32]| -> Vec<_> {
        values.iter().map(|&value| vec![ScalarValue::Int32(Some(value))]).collect()
    };
    let (least, few, more, half) = (LINES / 300, LINES / 10, LINES / 6, LINES / 2);
    assert_eq!(planned_for(few), of(&[]), "it is the first run");
    assert_eq!(planned_for(few), of(&[few]));
    assert_eq!(planned_for(more), of(&[few]));
    assert_eq!(planned_for(half), of(&[few, half]));
    assert_eq!(planned_for(LINES - 1), of(&[few, half]));
    assert_eq!(planned_for(few), of(&[few, half]));
    assert_eq!(planned_for(least), of(&[half, least]));
    assert_eq!(planned_for(more), of(&[least, more]));
}

#[test]
fn a_pattern_that_is_not_plain_is_refused_by_a_plan_that_runs_again() {
    let fixture = Fixture::with_lines_and_districts();
    let plan = fixture.plan("SELECT count(*) FROM line WHERE info LIKE $1", &[]).expect("a plan");
    let run = |pattern: &str| {
        let parameters = [Value::text(pattern)];
        let mut result = fixture.olap.run(&plan, &parameters, fixture.view(), never_canceled());
        let mut rows = Vec::new();
        while let Some(batch) = result.next_batch()? {
            rows.extend(batch.into_iter().map(|row| format!("{row:?}")));
        }
        Ok(rows)
    };
    let all = [format!("{:?}", [Value::BigInt(LINES.into())])];
    for _ in 0..3 {
        assert_eq!(run("%about%").map_err(|error: Error| error.state()), Ok(all.to_vec()));
        let refused = run("%about\\").expect_err("nothing follows the escape character");
        assert_eq!(refused.state(), SqlState::InvalidEscapeSequence);
    }
    assert!(plan.reused.is_kept());
}

#[test]
fn runs_of_a_generic_plan_do_not_see_the_values_of_each_other() {
    let fixture = Fixture::with_lines_and_districts();
    let plan = fixture.plan("SELECT id FROM line WHERE id >= $1", &[]).expect("a plan");
    let run = |from: i32| fixture.olap.run(&plan, &[Value::Integer(from)], fixture.view(), never_canceled());
    let count = |mut result: crate::ResultRows| {
        let mut rows = 0;
        while let Some(batch) = result.next_batch().expect("a batch") {
            rows += batch.len() as i32;
        }
        rows
    };
    assert_eq!([count(run(0)), count(run(1))], [LINES, LINES - 1]);
    let many: Vec<_> = (0..20).map(|from| (from, run(from))).collect();
    for (from, result) in many {
        assert_eq!(count(result), LINES - from);
    }
    assert!(plan.reused.is_kept());
}
