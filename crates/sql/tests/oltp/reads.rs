//! SELECT: which path, which rows, in which order.

use crate::client::{Client, engine};
use ankerdb_engine::Value;

fn orders() -> Client {
    let mut client = Client::new();
    client.setup(&[
        "create table orders (w smallint, d int, id bigint, customer text, total numeric(8,2), \
         primary key (w, d, id))",
        "create index by_customer on orders (customer, total)",
        "insert into orders values (1, 1, 1, 'ann', 10.50), (1, 1, 2, 'bob', 20), (1, 1, 3, 'ann', 7.25), \
         (1, 2, 1, null, null), (2, 1, 1, 'cid', 99.99), (2, 1, 2, 'ann', null)",
    ]);
    client
}

#[test]
fn keys_and_prefixes_are_read_through_the_index() {
    let mut client = orders();
    assert_eq!(
        client.run("explain select * from orders where id = 2 and d = 1 and w = 1"),
        "Index Scan using orders_pkey on orders|  Index Cond: ((w = 1) AND (d = 1) AND (id = 2))"
    );
    assert_eq!(
        client.run("explain select * from orders where w = 1 and d = 1 and id between 2 and 3"),
        "Index Scan using orders_pkey on orders|  Index Cond: ((w = 1) AND (d = 1) AND (id >= 2) AND (id <= 3))"
    );
    client.check(&[
        ("select customer, total from orders where w = 1 and d = 1 and id = 3", "ann,7.25"),
        ("select id from orders where w = 1 and d = 1", "1|2|3"),
        ("select id from orders where w = 1 and d = 1 and id > 1", "2|3"),
        ("select id from orders where w = 1 and d = 1 and id >= 2 and id < 3", "2"),
        ("select id from orders where w = 1 and d = 1 order by id desc limit 2", "3|2"),
        ("select id from orders where w = 1 and d = 1 order by id limit 1 offset 1", "2"),
        ("select id from orders where w = 1 and d = 1 and id in (3, 1, 3, 9)", "1|3"),
        ("select w, d, id from orders where w = 1 and d > 1", "1,2,1"),
        ("select id from orders where w = 1 and d = 1 and id = null", ""),
        ("select id from orders where w = 1 and d = 1 and id between 3 and 2", ""),
    ]);
    assert_eq!(
        client.run("explain select id from orders where w = 1 and d = 1 order by id desc"),
        "Index Scan Backward using orders_pkey on orders|  Index Cond: ((w = 1) AND (d = 1))"
    );
}

#[test]
fn plans_are_shown_as_postgresql_shows_them() {
    let mut client = orders();
    client.check(&[
        (
            "explain select id from orders where w = 1 and d in (1, 2) and lower(customer) like 'a%' order by total desc, id limit 1 for update",
            "Limit|  ->  LockRows|        ->  Sort|              Sort Key: total DESC, id|              \
             ->  Index Scan using orders_pkey on orders|                    Index Cond: ((w = 1) AND (d IN (1, 2)))|                    \
             Filter: (lower(customer) LIKE 'a%'::text)",
        ),
        (
            "explain update orders set total = 0 where total is null or not (w = -1 or customer <> 'it''s')",
            "Update on orders|  ->  Seq Scan on orders|        \
             Filter: ((total IS NULL) OR (NOT ((w = '-1'::smallint) OR (customer <> 'it''s'::text))))",
        ),
        (
            "explain delete from orders where w = 1 and d = 1 and id = 2",
            "Delete on orders|  ->  Index Scan using orders_pkey on orders|        Index Cond: ((w = 1) AND (d = 1) AND (id = 2))",
        ),
        (
            "explain insert into orders (w, d, id) values (9, 9, 9) on conflict do nothing",
            "Insert on orders|  Conflict Resolution: NOTHING|  ->  Result",
        ),
        ("explain insert into orders (w, d, id) values (8, 8, 8), (9, 9, 9)", "Insert on orders|  ->  Values Scan on \"*VALUES*\""),
        ("explain begin", "Utility statements have no plan structure"),
    ]);
}

#[test]
fn nulls_and_numerics_in_keys() {
    let mut client = orders();
    client.check(&[
        ("select id from orders where customer = 'ann' and total > 7.2 order by total", "3|1"),
        ("select id from orders where customer = 'ann' and total >= 7.254", "1"),
        ("select id from orders where customer = 'ann' and total = 10.5", "1"),
        ("select id from orders where customer = 'ann' and total = 10.504", ""),
        ("select id from orders where customer = 'ann' order by total", "3|1|2"),
        ("select id from orders where customer = 'ann' order by total desc", "2|1|3"),
        ("select id from orders where customer = 'ann' order by total desc nulls last", "1|3|2"),
        ("select w from orders where customer = 'ann' and total is null", "2"),
    ]);
}

#[test]
fn parameters_of_other_types_find_the_row() {
    let mut client = orders();
    let sql = "select customer from orders where w = $1 and d = $2::bigint and id = $3";
    let prepared = client.prepare(sql).unwrap();
    let types: Vec<String> = prepared.parameters().iter().map(ToString::to_string).collect();
    assert_eq!(types, ["smallint", "bigint", "bigint"]);
    let key = [Value::SmallInt(1), Value::BigInt(1), Value::BigInt(2)];
    assert_eq!(client.outcome(&prepared, &key).unwrap(), "bob");
    let none = [Value::SmallInt(1), Value::BigInt(5_000_000_000), Value::BigInt(2)];
    assert_eq!(client.outcome(&prepared, &none).unwrap(), "");
}

#[test]
fn everything_else_is_analytical() {
    let mut client = orders();
    for sql in [
        "select * from orders",
        "select count(*) from orders where w = 1 and d = 1",
        "select a.id from orders a join orders b on a.id = b.id where a.w = 1",
        "select distinct customer from orders where w = 1",
        "select id from orders where customer > 'a'",
        "values (1), (2)",
    ] {
        let plan = client.plan(sql);
        assert!(!plan.starts_with("Index") && !plan.starts_with("Result"), "{sql}: {plan}");
    }
    client.check(&[
        ("select count(*), sum(total) from orders where w = 1", "4,37.75"),
        ("select customer, count(*) from orders group by customer order by 1", "ann,3|bob,1|cid,1|-,1"),
        ("select id from orders order by w desc, d, id desc limit 2", "2|1"),
    ]);
}

#[test]
fn constants_need_no_table() {
    let mut client = Client::new();
    assert_eq!(client.plan("select 1"), "Result");
    client.check(&[
        ("select 1", "1"),
        ("select 1 + 1, 'a' || 'b', 7 / 2, 7 % 4, -7 / 2", "2,ab,3,3,-3"),
        ("select 1.5 * 2, 10.0 / 4 > 2.4, 2::numeric(5,2)", "3.0,t,2.00"),
        ("select null is null, null = null, 1 is distinct from null", "t,-,t"),
        ("select true and null, false and null, true or null, not null", "-,f,t,-"),
        ("select 1 in (1, null), 2 in (1, null), 2 not in (1, 3)", "t,-,t"),
        ("select case when 1 > 2 then 'x' when 2 > 1 then 'y' end, case 3 when 3 then 1 else 0 end", "y,1"),
        ("select coalesce(null, 2), nullif(1, 1), greatest(1, 3, null), least(2, 1)", "2,-,3,1"),
        ("select lower('AbC'), upper('x'), length('häh'), substring('hello' from 2 for 3)", "abc,X,3,ell"),
        ("select 'abc' like 'a%', 'abc' not like '_b_', 'ABC' ilike 'abc'", "t,f,t"),
        ("select abs(-3), round(2.567, 2), round(2.5), ceil(1.2), floor(-1.2)", "3,2.57,3,2,-2"),
        ("select trim('  a '), ltrim('xxa', 'x'), replace('aba', 'a', 'c'), strpos('abc', 'c')", "a,a,cbc,3"),
        ("select '2024-02-29'::date + 1, date '2024-03-01' - date '2024-02-01'", "2024-03-01,29"),
        ("select '12'::int + 1, cast('t' as boolean), 3::text || 'x'", "13,t,3x"),
        ("select -2147483648, -9223372036854775808", "-2147483648,-9223372036854775808"),
        ("select current_schema(), current_database()", "public,ankerdb"),
        ("select 1 where false", ""),
        ("select 1 limit 0", ""),
    ]);
}

#[test]
fn wrong_expressions_say_what_is_wrong() {
    let mut client = orders();
    client.check(&[
        ("select 1 / 0", "!22012"),
        ("select 2147483647 + 1", "!22003"),
        ("select 'x'::int", "!22P02"),
        ("select 1 + 'x'", "!22P02"),
        ("select 1 = 'x'::text", "!42883"),
        ("select nothing from orders where w = 1", "!42703"),
        ("select o.id from orders where w = 1", "!42P01"),
        ("select id from orders where w = 1 and customer", "!42804"),
        ("select id from nowhere where id = 1", "!42P01"),
        ("select id from orders where w = 1 order by 5", "!42P10"),
        ("select id from orders where w = 1 limit -1", "!2201W"),
        ("select case when true then 1 else 'x'::text end", "!42804"),
        ("select upper(1)", "!42883"),
    ]);
    let error = client.prepare("select customer + 1 from orders where w = 1").err().unwrap();
    assert_eq!(error.message(), "operator does not exist: text + integer");
}

#[test]
fn result_columns_have_postgres_names_and_types() {
    let mut client = orders();
    let sql = "select w, o.total as sum, id + 1, upper(customer), '1'::int, case when true then 1 end, *
               from orders o where w = 1";
    let prepared = client.prepare(sql).unwrap();
    let output = prepared.output().unwrap();
    let names: Vec<&str> = output.iter().map(|column| column.name.as_str()).collect();
    let expected = ["w", "sum", "?column?", "upper", "int4", "case", "w", "d", "id", "customer", "total"];
    assert_eq!(names, expected);
    assert_eq!(output[2].data_type.to_string(), "bigint");
}

#[test]
fn deep_expressions_end_in_an_error_not_in_a_crash() {
    let mut client = orders();
    let chain = |length: usize| format!("1{}", " + 1".repeat(length));
    assert_eq!(client.run(&format!("select {}", chain(200))), "201");
    assert_eq!(client.run(&format!("select {}", chain(2000))), "!54000");
    assert_eq!(client.run(&format!("select {}", chain(100_000))), "!54000");
    let choices = (0..160).map(|id| format!("id = {id}")).collect::<Vec<_>>().join(" or ");
    assert_eq!(client.run(&format!("select id from orders where w = 1 and d = 1 and ({choices})")), "1|2|3");
    assert_eq!(client.run(&format!("select count(*) from orders where {choices}")), "6");
    let negations = format!("select {} true", "not ".repeat(90));
    assert_eq!(client.run(&negations), "t");
    let deep = format!("select 1 from orders a, orders b where {} > 0", chain(450));
    let answer = client.run(&deep);
    assert!(answer.starts_with('!') || answer.starts_with('1'), "{answer}");
}

#[test]
fn both_paths_say_the_same_version() {
    let mut client = orders();
    let short = client.run("select version()");
    assert!(short.starts_with("PostgreSQL 15.0 (AnKerDB "), "{short}");
    assert_eq!(client.run("select version() from orders group by customer limit 1"), short);
    assert!(short.ends_with(&client.run("show server_version")), "{short}");
}

/// Queries from Rust go through the parser of all others, which refuses what would take all of the stack or for ever.
#[test]
fn queries_from_rust_are_parsed_within_the_same_limits() {
    let engine = engine();
    let state = |sql: &str| engine.plan(sql).err().map(|error| error.state().code());
    assert_eq!(state("select 1 as one"), None);
    let calls = format!("select {}1{}", "abs(".repeat(40), ")".repeat(40));
    assert_eq!(state(&calls), Some("54000"));
    let sums = format!("select 1{}", " + 1".repeat(100_000));
    assert_eq!(state(&sums), Some("54000"));
    assert_eq!(state("select 1; select 2"), Some("42601"));
    assert_eq!(state("delete from nothing"), Some("42601"));
}
