//! A catalog that is put together from its images says and does what the original does.

use crate::client::{Client, engine_over};
use ankerdb_engine::{
    Binder, Catalog, CatalogChange, ChangedIndexes, Database, Index, NoTexts, RecoveredCatalog, SqlState,
};
use ankerdb_sql::KeptTexts;
use std::sync::Arc;

/// What makes of everything something.
const STATEMENTS: &[&str] = &[
    "create schema \"S a\"",
    "create schema other",
    "comment on schema other is 'elsewhere'",
    "create type mood as enum ('sad', 'ok', 'happy')",
    "alter type mood add value 'fine' after 'ok'",
    "alter type mood add value 'worst' before 'sad'",
    "create type other.size as enum ('s', 'm', 'l')",
    "alter type mood rename value 'happy' to 'glad'",
    "comment on type mood is 'feelings'",
    "create domain positive as int default 1 check (value > 0)",
    "create domain small as positive check (value < 100) check (value <> 13)",
    "create domain feeling as mood not null check (value <> 'worst')",
    "create domain other.code as varchar(5) collate \"C\" default 'x' check (value::text ~ '^[a-z]*$')",
    "alter domain positive add constraint not_7 check (value <> 7) not valid",
    "create domain day as date check (value > '2000-02-01')",
    "create table parent (id int primary key, name text unique, other_id int, unique (other_id, name))",
    "create table child (
        id bigint generated always as identity (start with 5 increment by 3),
        n serial, s smallserial,
        parent int not null default 3 references parent on delete set default on update cascade,
        name text references parent (name) on delete set null deferrable initially deferred,
        amount numeric(10,2) default 1.50 check (amount >= 0), total numeric,
        doubled numeric generated always as (amount * 2) stored,
        \"Odd name\" text generated always as (lower(name) || '-' || upper(name)) stored,
        at timestamptz(3) default '2020-01-02 03:04+01', d date check (d > '2000-02-01'), i interval day to second(2),
        m mood default 'ok', ms mood[] default '{ok,sad}', p positive, sm small, f feeling default 'sad',
        c other.code, tags text[], bits bit(3), range int4range, net inet, j jsonb default '{\"a\": [1]}',
        constraint \"both or none\" check ((name is null) = (total is null)),
        constraint m_is_not_worst check (m <> 'worst' and m::text <> 'pg_catalog.enum_0'))",
    "create index on child (lower(name), (amount + 1)) where amount > 1 and m = 'ok'",
    "create unique index child_m on child (m, (doubled * 2) desc nulls last) include (d)",
    "create index child_hash on child using hash (parent)",
    "create index child_cast on child ((m = 'ok'::mood), ((sm::int)::text))",
    "alter table child add constraint self unique nulls not distinct (sm, p)",
    "alter table parent add constraint pair foreign key (other_id, name) references parent (other_id, name) match full not valid",
    "create table \"S a\".\"T b\" (a int, b other.size default 'm', primary key (a, b))",
    "alter table \"S a\".\"T b\" add column c int default 7",
    "alter table \"S a\".\"T b\" drop column c",
    "alter table \"S a\".\"T b\" add column e text default 'it''s pg_catalog.enum_0'",
    "create sequence other.counts as smallint increment by -2 minvalue -9 maxvalue 9 start 5 cycle",
    "create sequence plain",
    "select nextval('plain'), nextval('plain'), nextval('plain')",
    "alter sequence plain increment by 10",
    "create table counted (id int default nextval('plain'), k int default nextval('other.counts'))",
    "create view v as select c.id, c.m, p.name, c.p::positive as p from child c join parent p on p.id = c.parent where c.m <> 'sad'",
    "create view other.w (a, b) with (security_barrier) as select id, m::text from v",
    "create view local as select id, other_id from parent where other_id > 1 with local check option",
    "create view rows_of as select row(p.id, p.name) as r, array[row(p.id)] as l from parent p",
    "create materialized view mv as select m, count(*) as n from child group by m with no data",
    "create materialized view filled as select 1 as one, '{sad}'::mood[] as two where false",
    "create unique index on filled (one)",
    "comment on table child is 'rows'",
    "comment on column child.m is 'a mood'",
    "comment on constraint self on child is 'unique'",
    "comment on index child_m is 'an index'",
    "comment on view v is 'a view'",
    "comment on sequence plain is 'numbers'",
    "comment on domain small is 'below'",
    "alter table child rename column total to sum",
    "alter table child rename constraint self to itself",
    "alter index child_hash rename to child_by_hash",
    "alter table parent rename to elders",
    "alter schema \"S a\" rename to renamed",
    "alter type mood rename to temper",
    "alter type temper set schema other",
    "alter domain small rename to little",
    "alter table counted set schema other",
    "alter view v rename to seen",
    "alter table child alter column n type bigint",
    "alter table child alter column parent drop default",
    "alter table child drop constraint child_amount_check",
    "drop index child_cast",
    "create table gone (a int primary key)",
    "drop table gone",
    "create table gone (b text)",
    "alter domain little drop constraint small_check1",
    "create temporary table of_session (a int)",
    "begin",
    "create table made_twice (a int)",
    "drop table made_twice",
    "create table made_twice (b mood_2)",
    "rollback",
    "begin",
    "create table swapped (a int)",
    "alter table gone rename to former",
    "alter table swapped rename to gone",
    "commit",
];

/// What the catalog says.
const QUERIES: &[&str] = &[
    "select n.nspname, c.relname, c.relkind, c.relpersistence, c.relhasindex, c.reloptions, obj_description(c.oid, 'pg_class')
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname not in ('pg_catalog', 'information_schema') and c.relpersistence <> 't' order by 1, 2, 3",
    "select nspname, obj_description(oid, 'pg_namespace') from pg_namespace where nspname not like 'pg_temp%' order by 1",
    "select n.nspname, c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
        pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum)
        from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
        left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
        where n.nspname not in ('pg_catalog', 'information_schema') and c.relpersistence <> 't' order by 1, 2, 3",
    "select n.nspname, c.conname, c.contype, c.conrelid::regclass, c.confrelid::regclass, pg_get_constraintdef(c.oid), c.convalidated,
        c.condeferrable, c.condeferred, c.conkey, c.confkey, obj_description(c.oid, 'pg_constraint')
        from pg_constraint c join pg_namespace n on n.oid = c.connamespace order by 1, 2, 4, 3",
    "select schemaname, tablename, indexname, indexdef from pg_indexes where schemaname <> 'pg_catalog' order by 1, 2, 3",
    "select schemaname, viewname, definition from pg_views where schemaname not in ('pg_catalog', 'information_schema') order by 1, 2",
    "select schemaname, matviewname, ispopulated, definition from pg_matviews order by 1, 2",
    "select schemaname, sequencename, data_type, start_value, min_value, max_value, increment_by, cycle, last_value from pg_sequences order by 1, 2",
    "select t.oid, n.nspname, t.typname, t.typtype, format_type(t.typbasetype, t.typtypmod), t.typnotnull, t.typdefault, obj_description(t.oid, 'pg_type')
        from pg_type t join pg_namespace n on n.oid = t.typnamespace where t.typtype in ('e', 'd') order by 1",
    "select oid, enumtypid, enumlabel, enumsortorder from pg_enum order by 1",
    "select * from information_schema.columns where table_schema not in ('pg_catalog', 'information_schema') and table_schema not like 'pg_temp%' order by table_schema, table_name, ordinal_position",
    "select * from information_schema.domains order by 2, 3",
    "select * from information_schema.check_constraints where constraint_name not like '%not_null' order by 2, 3",
    "select * from information_schema.referential_constraints order by 2, 3",
];

/// What rows come to, good and bad.
const WORK: &[&str] = &[
    "insert into elders values (1, 'one', null), (2, 'two', null), (3, 'three', 1)",
    "insert into elders values (3, 'three', null)",
    "insert into elders values (3, 'three', null), (4, null, null)",
    "insert into elders values (5, 'five', 9)",
    "insert into child (parent, name, sum, p, sm, f, amount, d) values (1, 'one', 2, 3, 4, 'ok', 2.5, '2020-01-02')",
    "insert into child (parent, m, ms, c, sm) values (2, 'fine', '{fine,worst}', 'abc', 5)",
    "insert into child (parent, f) values (2, 'worst')",
    "insert into child (parent, f) values (2, null)",
    "insert into child (parent, m) values (2, 'worst')",
    "insert into child (parent, m) values (2, 'happy')",
    "insert into child (parent, p) values (2, 0)",
    "insert into child (parent, p) values (2, 7)",
    "insert into child (parent, sm) values (2, 100)",
    "insert into child (parent, sm) values (2, 13)",
    "insert into child (parent, c) values (2, 'A')",
    "insert into child (parent, d) values (2, '1999-01-01')",
    "insert into child (parent, name) values (2, 'one')",
    "insert into child (parent) values (9)",
    "insert into child (parent, sm, p) values (1, 5, null)",
    "insert into child (parent, doubled) values (1, 5)",
    "update child set amount = amount + 1 where parent = 1",
    "update elders set id = 20 where id = 2",
    "delete from elders where id = 1",
    "delete from elders where id = 2",
    "select id, n, s, parent, name, amount, doubled, \"Odd name\", m, ms, p, sm, f, c, d from child order by id",
    "select id from child where lower(name) = 'one' and amount + 1 > 2 and amount > 1 and m = 'ok'",
    "select * from seen order by 1",
    "select * from other.w order by 1",
    "insert into local values (50, 1)",
    "insert into local values (50, 2)",
    "select * from rows_of order by 1",
    "select * from mv",
    "refresh materialized view mv",
    "select * from mv order by 1",
    "insert into other.counted default values",
    "insert into other.counted default values",
    "select * from other.counted order by 1",
    "select nextval('plain'), nextval('other.counts')",
    "insert into renamed.\"T b\" values (1, 's'), (1, 'l')",
    "insert into renamed.\"T b\" values (1, 's')",
    "select * from renamed.\"T b\" order by 1, 2",
    "select 'ok'::other.temper < 'fine'::other.temper, (-1)::positive",
    "select 50::little, 7::positive",
    "select '1990-01-01'::day",
    "alter type other.temper add value 'new'",
    "create type next as enum ('a')",
    "create domain after as int",
    "select count(distinct oid) = count(*) from pg_type",
    "alter table child add column later int generated always as (n + 1) stored",
    "drop table elders",
    "drop schema renamed cascade",
];

/// What a statement gives, in words.
fn answer(client: &mut Client, sql: &str) -> String {
    let outcome = client.prepare(sql).and_then(|prepared| client.outcome(&prepared, &[]));
    outcome.unwrap_or_else(|error| {
        let shown = (error.message(), error.detail(), error.column(), error.constraint());
        format!("!{} {shown:?}", error.state().code())
    })
}

/// Indexes as they are now.
fn indexes(catalog: &Catalog) -> Vec<Arc<Index>> {
    let tables = catalog.tables();
    tables.flat_map(|table| catalog.indexes_of(table).cloned().collect::<Vec<_>>()).collect()
}

/// Runs statements; the changes that each has made.
fn changes(client: &mut Client, statements: &[&str]) -> Vec<Vec<u8>> {
    let database = client.0.engine().database().clone();
    let mut base = database.catalog();
    let mut before = indexes(&base);
    let (mut changes, mut failed) = (Vec::new(), Vec::new());
    for sql in statements {
        let answer = answer(client, sql);
        if answer.starts_with('!') && !sql.contains("mood_2") {
            failed.push(format!("{sql}: {answer}"));
        }
        let (new, now) = (database.catalog(), indexes(&database.catalog()));
        let without = |all: &[Arc<Index>], others: &[Arc<Index>]| -> Vec<Arc<Index>> {
            let is_other = |index: &&Arc<Index>| !others.iter().any(|other| Arc::ptr_eq(other, index));
            all.iter().filter(is_other).cloned().collect()
        };
        let (built, dropped) = (without(&now, &before), without(&before, &now));
        let indexes = ChangedIndexes { built: &built, dropped: &dropped };
        let change = CatalogChange::between(&base, &new, indexes);
        changes.push(change.encode().unwrap());
        (base, before) = (new, now);
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    changes
}

fn restored(changes: &[Vec<u8>]) -> Client {
    let mut recovered = RecoveredCatalog::new();
    changes.iter().for_each(|change| recovered.apply(change).unwrap());
    let database = Database::new();
    database.restore_catalog(recovered, &KeptTexts::new()).unwrap();
    Client(engine_over(database).session())
}

#[test]
fn a_catalog_of_everything_says_and_does_what_the_original_does() {
    let mut original = Client::new();
    let changes = changes(&mut original, STATEMENTS);
    // Sequences have counted since.
    let whole = CatalogChange::whole(&original.0.engine().database().catalog()).encode().unwrap();
    let mut by_changes = restored(&[&changes[..], std::slice::from_ref(&whole)].concat());
    let mut at_once = restored(&[whole]);
    for query in QUERIES {
        let expected = answer(&mut original, query);
        assert!(!expected.starts_with('!') && !expected.is_empty(), "{query}: {expected}");
        assert_eq!(answer(&mut by_changes, query), expected, "change by change: {query}");
        assert_eq!(answer(&mut at_once, query), expected, "at once: {query}");
    }
    // It can be written once more.
    let again = CatalogChange::whole(&by_changes.0.engine().database().catalog()).encode().unwrap();
    let mut again = restored(&[again]);
    for query in QUERIES {
        assert_eq!(answer(&mut again, query), answer(&mut original, query), "again: {query}");
    }
    let mut refused = 0;
    for sql in WORK {
        let expected = answer(&mut original, sql);
        refused += usize::from(expected.starts_with('!'));
        assert_eq!(answer(&mut by_changes, sql), expected, "change by change: {sql}");
        assert_eq!(answer(&mut again, sql), expected, "again: {sql}");
    }
    assert!(refused > 15, "{refused} were refused");
}

#[test]
fn what_one_change_after_the_other_makes_is_what_all_at_once_does() {
    let mut original = Client::new();
    let changes = changes(&mut original, STATEMENTS);
    let whole =
        |client: &Client| CatalogChange::whole(&client.0.engine().database().catalog()).encode().unwrap();
    for end in (0..=changes.len()).filter(|end| end % 9 == 0 || *end == changes.len()) {
        // Of a catalog that is made of changes, and of one that is made of that, the images are the same bytes.
        let first = restored(&changes[..end]);
        let second = restored(&[whole(&first)]);
        assert_eq!(whole(&first), whole(&second), "{end} changes");
    }
}

#[test]
fn a_table_without_texts_needs_no_sql() {
    let mut client = Client::new();
    client.setup(&["create table t (id int primary key, name text default 'x')"]);
    let whole = CatalogChange::whole(&client.0.engine().database().catalog()).encode().unwrap();
    let restore = |whole: &[u8], binder: &dyn Binder| {
        let mut recovered = RecoveredCatalog::new();
        recovered.apply(whole).unwrap();
        Database::new().restore_catalog(recovered, binder)
    };
    restore(&whole, &NoTexts).unwrap();
    for sql in
        ["create domain d as int", "create index on t (lower(name))", "alter table t add check (id > 0)"]
    {
        let mut client = Client::new();
        client.setup(&["create table t (id int primary key, name text default 'x')", sql]);
        let whole = CatalogChange::whole(&client.0.engine().database().catalog()).encode().unwrap();
        let state = restore(&whole, &NoTexts).unwrap_err().state();
        assert_eq!(state, SqlState::FeatureNotSupported, "{sql}");
        restore(&whole, &KeptTexts::new()).unwrap();
    }
}

/// What was given under other settings means what it meant then.
#[test]
fn constants_mean_what_they_meant_when_they_were_given() {
    let mut original = Client::new();
    original.setup(&["set datestyle = 'ISO, DMY'", "set timezone = 'America/New_York'"]);
    let changes = changes(
        &mut original,
        &[
            "create domain day as date check (value > '03/02/2020')",
            "create table t (id int primary key,
                d date default '13/02/2020' check (d > '01/02/2020' and d <> '02/02/2020'::date),
                n text default '01/02/2020' check (n <> '03/02/2020'),
                at timestamptz check (at >= '2020-02-01'),
                r daterange check (r <@ daterange '[01/02/2020,13/02/2020)'),
                early bool generated always as (d < date '04/02/2020') stored, x day)",
            "create index on t (id) where d > '05/02/2020'",
            "create unique index on t ((d < '06/02/2020'), n)",
        ],
    );
    original.setup(&["reset datestyle", "reset timezone"]);
    let mut restored = restored(&changes);
    let insert = |values: &str| format!("insert into t (id, d, n, at, r, x) values ({values})");
    let work = [
        "insert into t (id) values (1)".to_owned(),
        insert("2, '2020-02-01', 'a', null, null, null"),
        insert("2, '2020-02-02', 'a', null, null, null"),
        insert("2, '2020-02-03', 'a', '2020-02-01 04:59:59+00', null, null"),
        insert("2, '2020-02-03', '03/02/2020', '2020-02-01 05:00:00+00', null, null"),
        insert(
            "2, '2020-02-03', '02/03/2020', '2020-02-01 05:00:00+00', '[2020-02-01,2020-02-12]', '2020-02-04'",
        ),
        insert("3, '2020-02-04', 'a', null, '[2020-02-01,2020-02-13]', null"),
        insert("3, '2020-02-05', 'a', null, null, '2020-02-03'"),
        insert("3, '2020-02-05', 'b', null, null, null"),
        insert("4, '2020-02-07', 'b', null, null, null"),
        insert("5, '2020-02-07', 'b', null, null, null"),
        "select id, d, n, early from t order by id".to_owned(),
        "select pg_get_constraintdef(oid) from pg_constraint order by 1".to_owned(),
        "select indexdef from pg_indexes where tablename = 't' order by 1".to_owned(),
        "alter table t alter column id type bigint".to_owned(),
        insert("9, '2020-02-02', 'a', null, null, null"),
        insert("9, '2020-02-03', 'z', '2020-02-01 05:00:00+00', '[2020-02-01,2020-02-12]', '2020-02-04'"),
    ];
    let mut states = Vec::new();
    for sql in &work {
        let expected = answer(&mut original, sql);
        assert_eq!(answer(&mut restored, sql), expected, "{sql}");
        states.push(expected.get(..6).unwrap_or_default().to_owned());
    }
    let done = [
        "INSERT", "!23514", "!23514", "!23514", "!23514", "INSERT", "!23514", "!23514", "INSERT", "INSERT",
        "!23505",
    ];
    assert_eq!(&states[..done.len()], done);
    assert_eq!(states[states.len() - 2..], ["!23514", "INSERT"]);
}
