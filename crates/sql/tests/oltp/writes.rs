//! INSERT, UPDATE, DELETE.

use crate::client::Client;

fn items() -> Client {
    let mut client = Client::new();
    client.setup(&[
        "create table item (id int primary key, name varchar(5) not null, price numeric(6,2), code char(3) unique)",
        "insert into item (id, name, price, code) values (1, 'one', 1.5, 'A'), (2, 'two', 2, 'B'), (3, 'tri', null, null)",
    ]);
    client
}

#[test]
fn inserts_check_types_keys_and_nulls() {
    let mut client = items();
    client.check(&[
        ("insert into item values (4, 'four', 4.005)", "INSERT 0 1"),
        ("select price, code from item where id = 4", "4.01,-"),
        ("insert into item values (1, 'x')", "!23505"),
        ("insert into item values (5, 'x', 1, 'A')", "!23505"),
        ("insert into item values (5, null)", "!23502"),
        ("insert into item (name) values ('x')", "!23502"),
        ("insert into item values (5, 'toolong')", "!22001"),
        ("insert into item values (5, 'x', 12345.6)", "!22003"),
        ("insert into item values ('x', 'x')", "!22P02"),
        ("insert into item values (true, 'x')", "!42804"),
        ("insert into item (id, id) values (5, 5)", "!42701"),
        ("insert into item (id, nothing) values (5, 5)", "!42703"),
        ("insert into item (id, name) values (5)", "!42601"),
        ("insert into item values (5, 'x', 1, 'C', 5)", "!42601"),
        ("insert into item values (5, 'x'), (6, 'y', 1)", "!42601"),
        ("insert into item values (7, 'x', default, 'q') returning id + 1, code, price", "8,q  ,-"),
        ("insert into item select id + 10, name from item where id <= 2 and id >= 1", "INSERT 0 2"),
        ("insert into item select max(id) + 1, 'max' from item", "INSERT 0 1"),
        ("select count(*), max(id) from item", "8,13"),
    ]);
}

#[test]
fn a_failed_insert_of_many_rows_leaves_none() {
    let mut client = items();
    client.check(&[
        ("insert into item values (8, 'a'), (9, 'b'), (1, 'c')", "!23505"),
        ("insert into item values (8, 'a'), (8, 'b')", "!23505"),
        ("select id from item where id in (8, 9)", ""),
    ]);
}

#[test]
fn updates_change_what_the_condition_selects() {
    let mut client = items();
    client.check(&[
        ("update item set price = price + 1, name = 'new' where id = 1", "UPDATE 1"),
        ("select name, price from item where id = 1", "new,2.50"),
        ("update item set price = 0 where price is null returning id, price", "3,0.00"),
        ("update item set id = id + 100 where id = 2", "UPDATE 1"),
        ("select id from item where id = 2", ""),
        ("select name from item where id = 102", "two"),
        ("update item set id = 1 where id = 3", "!23505"),
        ("update item set name = null where id = 1", "!23502"),
        ("update item set nothing = 1", "!42703"),
        ("update item set price = 1, price = 2", "!42601"),
        ("update item set (price, name) = (9, 'tup') where id = 1", "UPDATE 1"),
        ("update item set price = 1 / 0 where id = 1", "!22012"),
        ("update item set price = 5", "UPDATE 3"),
        ("select sum(price) from item", "15.00"),
        ("update item set price = 6 where id = 77", "UPDATE 0"),
        ("update item set price = 7 where code = 'A '", "UPDATE 1"),
    ]);
}

#[test]
fn a_key_that_moves_up_is_changed_once() {
    let mut client = Client::new();
    client.setup(&["create table t (id int primary key)", "insert into t values (1), (2), (3)"]);
    client.check(&[
        ("update t set id = id + 10 where id >= 1", "UPDATE 3"),
        ("select id from t where id between 0 and 99", "11|12|13"),
    ]);
}

#[test]
fn deletes_and_truncation() {
    let mut client = items();
    client.check(&[
        ("delete from item where id = 1 returning name", "one"),
        ("delete from item where name like 't%'", "DELETE 2"),
        ("select count(*) from item", "0"),
        ("insert into item values (1, 'again')", "INSERT 0 1"),
        ("truncate item", "TRUNCATE TABLE"),
        ("select count(*) from item", "0"),
    ]);
}

#[test]
fn conflicts_are_skipped_or_merged() {
    let mut client = items();
    client.check(&[
        ("insert into item values (1, 'x'), (9, 'nine') on conflict do nothing", "INSERT 0 1"),
        ("insert into item values (1, 'x') on conflict (id) do nothing returning id", ""),
        (
            "insert into item values (1, 'x', 5), (10, 'ten', 5) on conflict (id) do update \
             set price = item.price + excluded.price returning id, name, price",
            "1,one,6.50|10,ten,5.00",
        ),
        ("insert into item values (1, 'x') on conflict (id) do update set name = 'y' where item.price > 100", "INSERT 0 0"),
        ("insert into item values (20, 'x', 1, 'A') on conflict (code) do update set name = 'code'", "INSERT 0 1"),
        ("select name from item where id = 1", "code"),
        ("insert into item values (30, 'x'), (30, 'y') on conflict (id) do update set name = 'z'", "!21000"),
        ("insert into item values (1, 'x') on conflict (name) do nothing", "!42P10"),
    ]);
}

#[test]
fn subqueries_run_before_the_statement() {
    let mut client = items();
    client.check(&[
        ("update item set price = (select max(id) from item) where id = 1", "UPDATE 1"),
        ("select price from item where id = 1", "3.00"),
        ("delete from item where id in (select id from item where price > 2)", "DELETE 1"),
        ("update item set price = 1 where exists (select 1 from item where id = 77)", "UPDATE 0"),
        ("update item set price = (select id from item)", "!21000"),
        ("insert into item values ((select max(id) + 1 from item), 'sub')", "INSERT 0 1"),
        ("select name from item where id = 4", "sub"),
    ]);
}

#[test]
fn concurrent_merges_never_see_a_duplicate() {
    let engine = crate::client::engine();
    let mut first = Client(engine.session());
    first.setup(&["create table counter (id int primary key, n int not null)"]);
    let workers = (0..4).map(|_| {
        let mut client = Client(engine.session());
        std::thread::spawn(move || {
            let sql = "insert into counter values ($1, 1) on conflict (id) do update set n = counter.n + 1";
            let merge = client.prepare(sql).unwrap();
            for id in 0..200 {
                let answer = client.outcome(&merge, &[ankerdb_engine::Value::Integer(id % 10)]);
                assert_eq!(answer.unwrap(), "INSERT 0 1");
            }
        })
    });
    workers.collect::<Vec<_>>().into_iter().for_each(|worker| worker.join().unwrap());
    first.check(&[("select count(*), sum(n) from counter", "10,800")]);
}
