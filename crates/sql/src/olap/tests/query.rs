//! Queries and their results.

use super::*;
use ankerdb_engine::{ColumnSet, IndexPosition, Interval, ROWS_PER_BLOCK};

#[test]
fn counts_sums_and_averages_are_exact() {
    let fixture = Fixture::with_lines(20_000);
    assert_eq!(fixture.value("select count(*) from line"), Value::BigInt(20_000));
    assert_eq!(fixture.value("select sum(id) from line"), Value::BigInt(199_990_000));
    assert_eq!(fixture.value("select sum(amount) from line"), numeric(199_990_000, 2));
    assert_eq!(fixture.value("select avg(amount) from line"), numeric(999_950_000_000_000_000, 16));
    assert_eq!(fixture.value("select avg(district) from line"), numeric(45_000_000_000_000_000, 16));
    assert_eq!(fixture.value("select max(amount) from line"), numeric(19_999, 2));
    assert_eq!(fixture.value("select count(distinct district) from line"), Value::BigInt(10));
    assert_eq!(fixture.value("select sum(distinct district) from line"), Value::BigInt(45));
}

#[test]
fn groups_come_from_all_blocks() {
    let fixture = Fixture::with_lines(3 * ROWS_PER_BLOCK as i32 + 5);
    let rows = fixture
        .query("select district, count(*), sum(id), avg(amount) from line group by district order by 1");
    let rows = rows.unwrap();
    assert_eq!(rows.len(), 10);
    let total: i64 = rows.iter().map(|row| bigint(&row[1])).sum();
    assert_eq!(total, 3 * ROWS_PER_BLOCK as i64 + 5);
    let ids: i64 = rows.iter().map(|row| bigint(&row[2])).sum();
    assert_eq!(ids, (0..total).sum::<i64>());
}

fn bigint(value: &Value) -> i64 {
    match value {
        Value::BigInt(value) => *value,
        other => panic!("{other:?} is no bigint"),
    }
}

#[test]
fn narrow_and_wide_numerics_give_the_same() {
    let fixture = Fixture::with_lines(10_000);
    // The filter looks at the column, so that it is read wide.
    for function in ["sum", "avg"] {
        let narrow = fixture.value(&format!("select {function}(amount) from line"));
        let wide = fixture.value(&format!("select {function}(amount) from line where amount >= 0"));
        assert_eq!(narrow, wide);
    }
    let both = "select district, avg(amount), sum(amount) from line group by district order by 1";
    let filtered =
        "select district, avg(amount), sum(amount) from line where amount >= 0 group by 1 order by 1";
    assert_eq!(fixture.query(both).unwrap(), fixture.query(filtered).unwrap());
}

#[test]
fn nulls_count_for_nothing() {
    let fixture = Fixture::with_lines(4);
    let table = fixture.database.catalog().table("line").unwrap();
    let null = vec![Value::Integer(100), Value::SmallInt(0), Value::Null, Value::text("")];
    fixture.insert(&table, vec![null]);
    let rows = fixture.query("select count(*), count(amount), sum(amount), avg(amount) from line").unwrap();
    let average = numeric(150_000_000_000_000, 16);
    assert_eq!(rows, [[Value::BigInt(5), Value::BigInt(4), numeric(6, 2), average]]);
    assert_eq!(fixture.value("select id from line where amount is null"), Value::Integer(100));
    let grouped = "select district, avg(amount), sum(id) filter (where id < 100) from line group by district order by 1";
    let average = |unscaled: i128| numeric(unscaled * 10i128.pow(14), 16);
    let groups = fixture.query(grouped).unwrap();
    assert_eq!(groups[0], [Value::SmallInt(0), average(0), Value::BigInt(0)]);
    assert_eq!(groups[3], [Value::SmallInt(3), average(3), Value::BigInt(3)]);
    let empty = fixture.query("select sum(amount), avg(id), count(*) from line where id > 1000").unwrap();
    assert_eq!(empty, [[Value::Null, Value::Null, Value::BigInt(0)]]);
}

#[test]
fn every_type_comes_back_as_it_was_stored() {
    let fixture = Fixture::new();
    let types = [
        (DataType::Boolean, Value::Boolean(true)),
        (DataType::SmallInt, Value::SmallInt(-3)),
        (DataType::Integer, Value::Integer(40_000)),
        (DataType::BigInt, Value::BigInt(1 << 40)),
        (DataType::Real, Value::Real(0.5)),
        (DataType::DoublePrecision, Value::Double(-0.25)),
        (DataType::Numeric { precision: 6, scale: 2 }, numeric(-123_456, 2)),
        (DataType::Numeric { precision: 12, scale: 0 }, numeric(999_999_999_999, 0)),
        (DataType::Numeric { precision: 38, scale: 10 }, numeric(i128::from(i64::MAX) * 1000, 10)),
        (DataType::Text, Value::text("a text of more than twelve bytes: äöü")),
        (DataType::Varchar(10), Value::text("short")),
        (DataType::Char(4), Value::text("ab")),
        (DataType::Date, Value::Date(19_000)),
        (DataType::TIMESTAMP, Value::Timestamp(1_600_000_000_000_001)),
        (DataType::TIMESTAMPTZ, Value::TimestampTz(-1)),
        (DataType::Bytea, Value::Bytea([0, 255, 7].into())),
        (DataType::TIME, Value::Time(86_400_000_000)),
        (DataType::INTERVAL, Value::Interval(Interval::new(i32::MAX, i32::MIN, -9_223_372_036_854_775))),
        (DataType::Uuid, Value::Uuid([0xab; 16])),
    ];
    let mut definition = TableDefinition::new("everything");
    for (number, (data_type, _)) in types.iter().enumerate() {
        definition = definition.column(ColumnDefinition::new(format!("c{number}"), *data_type).nullable());
    }
    let table = fixture.create(definition);
    let stored: Vec<Value> = types.iter().map(|(_, value)| value.clone()).collect();
    fixture.insert(&table, vec![stored.clone(), vec![Value::Null; types.len()]]);

    let plan = fixture.plan("select * from everything where c0 is not null", &[]).unwrap();
    let declared: Vec<DataType> = plan.output().iter().map(|column| column.data_type).collect();
    assert_eq!(declared, types.iter().map(|(data_type, _)| *data_type).collect::<Vec<_>>());
    assert_eq!(fixture.run(&plan, &[], fixture.view()).unwrap(), [stored]);
    assert_eq!(
        fixture.value("select count(*) from everything where c1 is null and c16 is null"),
        Value::BigInt(1)
    );
}

#[test]
fn joins_subqueries_windows_and_unions_run() {
    let fixture = Fixture::with_lines(1000);
    let district = fixture.create(
        TableDefinition::new("district")
            .column(ColumnDefinition::new("d_id", DataType::SmallInt))
            .column(ColumnDefinition::new("d_name", DataType::Text))
            .primary_key(&["d_id"]),
    );
    let name = |id: i16| vec![Value::SmallInt(id), Value::text(format!("district {id}"))];
    fixture.insert(&district, (0..5).map(name).collect());
    let join =
        "select d_name, count(*) from line, district where d_id = district group by d_name order by d_name";
    let rows = fixture.query(join).unwrap();
    assert_eq!(rows.len(), 5);
    assert_eq!(rows[0], [Value::text("district 0"), Value::BigInt(100)]);
    let missing = "select count(*) from line where not exists (select 1 from district where d_id = district)";
    assert_eq!(fixture.value(missing), Value::BigInt(500));
    let above = "select count(*) from line where amount > (select avg(amount) from line)";
    assert_eq!(fixture.value(above), Value::BigInt(500));
    let window = "select max(total) from (select sum(amount) over (order by id) as total from line) t";
    assert_eq!(fixture.value(window), numeric(499_500, 2));
    let union = "select count(*) from (select id from line union all select d_id from district) u";
    assert_eq!(fixture.value(union), Value::BigInt(1005));
    let recursive =
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 5) select sum(i) from n";
    assert_eq!(fixture.value(recursive), Value::BigInt(15));
}

#[test]
fn deleted_and_changed_rows_are_as_the_view_shows_them() {
    let fixture = Fixture::with_lines(ROWS_PER_BLOCK as i32 + 10);
    let table = fixture.database.catalog().table("line").unwrap();
    let before = fixture.view();
    let mut session = fixture.database.session();
    let mut transaction = session.begin(Isolation::Serializable);
    let mut key = Vec::new();
    table.index(IndexPosition(0)).encode(&[Value::Integer(3)], &mut key).unwrap();
    let row = transaction.find(&table, IndexPosition(0), &key, ColumnSet::ALL).unwrap().unwrap();
    transaction.delete(&table, row).unwrap();
    let new = vec![Value::Integer(-1), Value::SmallInt(77), Value::Null, Value::text("new")];
    transaction.insert(&table, new).unwrap();

    let plan = fixture.plan("select count(*), sum(id), max(district) from line", &[]).unwrap();
    let (rows, ids) = (ROWS_PER_BLOCK as i64 + 10, (0..ROWS_PER_BLOCK as i64 + 10).sum::<i64>());
    let unchanged = [[Value::BigInt(rows), Value::BigInt(ids), Value::SmallInt(9)]];
    let changed = [[Value::BigInt(rows), Value::BigInt(ids - 4), Value::SmallInt(77)]];
    assert_eq!(fixture.run(&plan, &[], transaction.read_view()).unwrap(), changed, "own writes");
    assert_eq!(fixture.run(&plan, &[], fixture.view()).unwrap(), unchanged, "others' uncommitted writes");
    transaction.commit().unwrap();
    assert_eq!(fixture.run(&plan, &[], fixture.view()).unwrap(), changed, "committed writes");
    assert_eq!(fixture.run(&plan, &[], before).unwrap(), unchanged, "an older view");
}

#[test]
fn parameters_take_their_types_from_around_them() {
    let fixture = Fixture::with_lines(100);
    let plan = fixture.plan(
        "select id from line where amount >= $1 and district = $2 and info like $3 and id < $4::bigint order by id limit $5",
        &[],
    );
    let plan = plan.unwrap();
    let expected = [DataType::Number, DataType::SmallInt, DataType::Text, DataType::BigInt, DataType::BigInt];
    assert_eq!(plan.parameters(), expected);
    let parameters =
        [numeric(505, 3), Value::SmallInt(1), Value::text("info%"), Value::BigInt(90), Value::BigInt(2)];
    let rows = fixture.run(&plan, &parameters, fixture.view()).unwrap();
    assert_eq!(rows, [[Value::Integer(51)], [Value::Integer(61)]]);

    let declared = fixture.plan("select $1", &[Some(DataType::Integer)]).unwrap();
    assert_eq!(declared.parameters(), [DataType::Integer]);
    assert_eq!(fixture.run(&declared, &[Value::Integer(7)], fixture.view()).unwrap(), [[Value::Integer(7)]]);
    assert_eq!(fixture.run(&declared, &[Value::Null], fixture.view()).unwrap(), [[Value::Null]]);
    assert_eq!(fixture.plan("select $1", &[]).unwrap().parameters(), [DataType::Text]);
    assert_eq!(
        fixture.query_with("select count(*) from line where id = $1", &[Value::Null]).unwrap(),
        [[Value::BigInt(0)]]
    );
}

#[test]
fn columns_are_named_as_in_postgresql() {
    let fixture = Fixture::with_lines(1);
    let names = |sql: &str| {
        let plan = fixture.plan(sql, &[]).unwrap();
        plan.output().iter().map(|column| column.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        names(
            "select count(*), sum(id), id + 1, 'x', id as \"Id\", id::text, amount, 1::bigint from line group by id, amount"
        ),
        ["count", "sum", "?column?", "?column?", "Id", "id", "amount", "int8"]
    );
    assert_eq!(names("select *, upper(info) from line"), ["id", "district", "amount", "info", "upper"]);
    assert_eq!(names("select case when id = 1 then 2 end from line"), ["case"]);
}

#[test]
fn numbers_with_a_point_are_numeric_unless_next_to_a_double() {
    let fixture = Fixture::with_lines(101);
    assert_eq!(fixture.value("select 0.1 + 0.2"), numeric(3, 1));
    assert_eq!(fixture.value("select sum(amount * 0.5) from line"), numeric(25_250, 3));
    assert_eq!(fixture.value("select sum(amount * district) from line where id = 99"), numeric(891, 2));
    assert_eq!(fixture.value("select 1e0::double precision + 0.5"), Value::Double(1.5));
    assert_eq!(fixture.value("select 7 / 2"), Value::Integer(3));
    assert_eq!(fixture.value("select count(*) from line where amount between 0.5 and 1"), Value::BigInt(51));
    assert_eq!(fixture.value("select count(*) from line where amount in (0.5, 1, 2)"), Value::BigInt(2));
    assert_eq!(
        fixture.value("select max(case when id > 50 then amount else 0 end) from line"),
        numeric(100, 2)
    );
}

#[test]
fn large_doubles_compare_with_numerics() {
    let fixture = Fixture::new();
    let double = ColumnDefinition::new("d", DataType::DoublePrecision);
    let table = fixture.create(TableDefinition::new("t").column(double));
    fixture.insert(&table, [1e30, 0.5, -1.0].map(|value| vec![Value::Double(value)]).to_vec());
    assert_eq!(fixture.value("select count(*) from t where d > 0.25"), Value::BigInt(2));
    assert_eq!(fixture.value("select count(*) from t where d between 0.25 and 0.75"), Value::BigInt(1));
    assert_eq!(fixture.value("select count(*) from t where d in (0.5, 7.5)"), Value::BigInt(1));
    assert_eq!(fixture.value("select max(d) from t where d not between 0.25 and 0.75"), Value::Double(1e30));
}

#[test]
fn averages_multiply_and_divide() {
    let fixture = Fixture::with_lines(3001);
    assert_eq!(fixture.value("select avg(id) * avg(id) from line"), numeric(2_250_000 * 10i128.pow(20), 20));
    match fixture.value("select avg(id) / avg(id) from line") {
        Value::Numeric(decimal) => assert_eq!(decimal.unscaled, 10i128.pow(decimal.scale.into())),
        other => panic!("{other:?}"),
    }
}

#[test]
fn uuids_compare_with_text() {
    let fixture = Fixture::new();
    let table = fixture.create(TableDefinition::new("u").column(ColumnDefinition::new("u", DataType::Uuid)));
    fixture.insert(&table, vec![vec![Value::Uuid([0x11; 16])], vec![Value::Uuid([0x22; 16])]]);
    let found = "select count(*) from u where u = '11111111-1111-1111-1111-111111111111'";
    assert_eq!(fixture.value(found), Value::BigInt(1));
}

#[test]
fn the_clock_is_that_of_the_run() {
    let fixture = Fixture::new();
    let plan = fixture.plan("select now()", &[]).unwrap();
    let first = fixture.run(&plan, &[], fixture.view()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2));
    let second = fixture.run(&plan, &[], fixture.view()).unwrap();
    match (&first[0][0], &second[0][0]) {
        (Value::TimestampTz(first), Value::TimestampTz(second)) => assert!(second > first),
        other => panic!("{other:?}"),
    }
}

#[test]
fn tools_get_answers_about_the_server() {
    let fixture = Fixture::new();
    assert_eq!(fixture.value("select current_database()"), Value::text("ankerdb"));
    assert_eq!(fixture.value("select pg_catalog.current_schema()"), Value::text("public"));
    assert!(matches!(fixture.value("select version()"), Value::Text(text) if text.contains("PostgreSQL")));
}

#[test]
fn a_plan_names_the_tables_and_columns_it_reads() {
    let fixture = Fixture::with_lines(1);
    let plan = fixture.plan("select sum(amount) from line where district = 1", &[]).unwrap();
    let [(table, columns)] = plan.tables() else {
        panic!("one table expected");
    };
    assert_eq!(table.name(), "line");
    assert!(columns.contains(1) && columns.contains(2) && !columns.contains(0) && !columns.contains(3));
}

#[test]
fn the_baseline_gives_the_same_results_from_memory_of_its_own() {
    let fixture = Fixture::with_lines(10_000);
    let view = fixture.view();
    let baseline = fixture.olap.memory_baseline(&view, &["line"]).unwrap();
    let table = fixture.database.catalog().table("line").unwrap();
    fixture.insert(
        &table,
        vec![vec![Value::Integer(-1), Value::SmallInt(0), Value::Null, Value::text("later")]],
    );
    for sql in [
        "select count(*), sum(amount), max(info) from line",
        "select district, avg(amount) from line group by 1 order by 1",
    ] {
        let ours = fixture.olap.query(sql).unwrap().run(&view).unwrap();
        let theirs = baseline.plan(sql).unwrap().run(&view).unwrap();
        let rows = |batches: &[datafusion::arrow::array::RecordBatch]| {
            batches.iter().flat_map(|batch| super::rows_of(batch).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(rows(&ours), rows(&theirs));
    }
}
