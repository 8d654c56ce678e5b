//! SQL through the front door: parameters, rows, batches, statements in transactions and snapshots, many threads, and the
//! ways in which it can go wrong.
#![cfg(feature = "sql")]

mod support;

use ankerdb::arrow::array::AsArray;
use ankerdb::arrow::datatypes::{DataType as ArrowType, Int32Type, Int64Type};
use ankerdb::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{filled, state};

fn numbers(count: i32) -> Database {
    let db = Database::in_memory().expect("a database");
    db.execute("CREATE TABLE t (i int PRIMARY KEY, n int, d numeric(12,2))", ()).expect("a table");
    let fill = format!("INSERT INTO t SELECT i, i % 7, i / 4.0 FROM generate_series(1, {count}) AS s(i)");
    db.execute(&fill, ()).expect("rows");
    db
}

#[test]
fn parameters_come_in_every_form() -> Result<()> {
    let db = numbers(100);
    let sql = "SELECT count(*) FROM t WHERE i >= $1 AND i <= $2";
    let count = |values: Result<Row>| values?.get::<i64>(0);
    assert_eq!(count(db.query_one(sql, (10, 19)))?, 10);
    assert_eq!(count(db.query_one(sql, [10, 19]))?, 10);
    assert_eq!(count(db.query_one(sql, &[10_i64, 19][..]))?, 10);
    assert_eq!(count(db.query_one(sql, vec![Value::Integer(10), Value::BigInt(19)]))?, 10);
    assert_eq!(count(db.query_one(sql, &[&10 as &dyn ToValue, &"19"][..]))?, 10);
    let sql = "SELECT count(*) FROM t WHERE i >= $low AND i <= $high AND $low > 0";
    assert_eq!(count(db.query_one(sql, named! { high: 19, low: 10 }))?, 10);
    assert_eq!(count(db.query_one(sql, [("low", 10), ("high", 19)]))?, 10);
    assert_eq!(count(db.query_one(sql, (10, 19)))?, 10, "in the order in which the names come");
    assert_eq!(count(db.query_one("SELECT count(*) FROM t", ()))?, 100);
    assert_eq!(count(db.query_one("SELECT count(*) FROM t WHERE n = $1", None::<i32>))?, 0);
    // On both paths; a numeric parameter keeps its digits.
    for sql in ["SELECT i FROM t WHERE i = 5 AND d > $1", "SELECT max(i) FROM t WHERE d > $1 AND i = 5"] {
        assert_eq!(
            db.query_optional(sql, Decimal::new(1245, 3))?.expect("5 / 4 = 1.25").get::<Option<i32>>(0)?,
            Some(5)
        );
        assert_eq!(
            db.query_one(&sql.replace("SELECT i ", "SELECT max(i) "), Decimal::new(1255, 3))?
                .get::<Option<i32>>(0)?,
            None
        );
    }
    Ok(())
}

#[test]
fn wrong_parameters_are_errors() -> Result<()> {
    use SqlState::*;
    let db = numbers(10);
    let sql = "SELECT n FROM t WHERE i = $1";
    assert_eq!(state(db.query(sql, ())), ProtocolViolation);
    assert_eq!(state(db.query(sql, (1, 2))), ProtocolViolation);
    assert_eq!(state(db.query(sql, 1_i64 << 40)), NumericValueOutOfRange);
    assert_eq!(state(db.query(sql, 1.5)), DatatypeMismatch);
    assert_eq!(state(db.query(sql, true)), DatatypeMismatch);
    assert_eq!(state(db.query(sql, "five")), InvalidTextRepresentation);
    assert_eq!(state(db.query(sql, named! { i: 1 })), UndefinedParameter);
    assert_eq!(state(db.query("SELECT n FROM t WHERE i = $i", named! { j: 1 })), UndefinedParameter);
    assert_eq!(
        state(db.query("SELECT n FROM t WHERE i = $i OR n = $n", [("i", 1), ("i", 1)])),
        ProtocolViolation
    );
    assert_eq!(state(db.query("SELECT n FROM t WHERE i = $i OR n = $1", 1)), SyntaxError);
    let column = db.table("t")?.column::<i32>("i")?;
    assert_eq!(state(db.query("SELECT n FROM t WHERE i = $i", [(column, 1)])), UndefinedParameter);
    let error = db.execute("INSERT INTO t VALUES ($1, $2, $3)", (11, 1_i64 << 31, 0)).unwrap_err();
    assert_eq!(error.to_string(), "parameter $2: integer out of range");
    assert_eq!(state(db.execute("INSERT INTO t VALUES ($1, 1, 1)", None::<i32>)), NotNullViolation);
    assert_eq!(state(db.execute("INSERT INTO t VALUES ($1, 1, 1)", 5)), UniqueViolation);
    Ok(())
}

#[test]
fn wrong_statements_are_errors() -> Result<()> {
    use SqlState::*;
    let db = numbers(10);
    assert_eq!(state(db.execute("SELEC 1", ())), SyntaxError);
    assert_eq!(state(db.execute("", ())), SyntaxError);
    assert_eq!(state(db.execute("SELECT 1; SELECT 2", ())), SyntaxError);
    assert_eq!(state(db.query("SELECT * FROM nothing", ())), UndefinedTable);
    assert_eq!(state(db.query("UPDATE t SET n = 1 WHERE i = 1", ())), SyntaxError, "it gives no rows");
    assert_eq!(state(db.query_one("SELECT i FROM t WHERE i > 100", ())), NoData);
    assert_eq!(state(db.query_one("SELECT i FROM t WHERE n >= 0", ())), CardinalityViolation);
    assert_eq!(state(db.query_optional("SELECT i FROM t", ())), CardinalityViolation);
    assert!(db.query_optional("SELECT i FROM t WHERE i > 100", ())?.is_none());
    assert_eq!(state(db.execute("COPY t FROM STDIN", ())), FeatureNotSupported);
    for session in ["BEGIN", "COMMIT", "ROLLBACK", "SET statement_timeout = 5", "RESET ALL", "DISCARD ALL"] {
        assert_eq!(state(db.execute(session, ())), ActiveSqlTransaction, "{session}");
    }
    assert_eq!(db.query_one("SHOW statement_timeout", ())?.get::<String>(0)?, "0");
    let error =
        db.execute_batch("CREATE TABLE a (i int); INSERT INTO a VALUES ('x'); DROP TABLE a").unwrap_err();
    assert_eq!(error.to_string(), "statement 2: invalid input syntax for type integer: \"x\"");
    db.execute("DROP TABLE a", ()).map(drop)
}

#[test]
fn rows_tell_names_types_and_cells() -> Result<()> {
    let db = Database::in_memory()?;
    let sql = "SELECT 1::smallint AS s, 2 AS i, 3::bigint AS b, 1.5::real AS r, 2.5::float8 AS d, 1.25 AS n, 'x'::text AS t, \
         true AS o, NULL::int AS u, '1970-01-02'::date AS day, '\\x00ff'::bytea AS y, 7 AS i";
    let row = db.query_one(sql, ())?;
    assert_eq!(row.get::<i16>("s")?, 1);
    assert_eq!(row.get::<i64>("i")?, 2, "the first of this name");
    assert_eq!(row.get::<usize>("b")?, 3);
    assert_eq!((row.get::<f32>("r")?, row.get::<f64>("r")?, row.get::<f64>("d")?), (1.5, 1.5, 2.5));
    assert_eq!(row.get::<Decimal>("n")?.to_string(), "1.25");
    assert_eq!(row.get_ref("t")?, ValueRef::Text("x"));
    assert_eq!((row.get::<bool>("o")?, row.get::<Option<i32>>("u")?), (true, None));
    assert_eq!(row.get::<Value>("day")?, Value::Date(1));
    assert_eq!(row.get::<Vec<u8>>("y")?, [0, 255]);
    assert_eq!(row.get::<i32>(11)?, 7);
    assert_eq!(state(row.get::<i32>("u")), SqlState::NullValueNotAllowed);
    assert_eq!(state(row.get::<i32>("t")), SqlState::DatatypeMismatch);
    assert_eq!(state(row.get::<i32>("none")), SqlState::UndefinedColumn);
    assert_eq!(state(row.get::<i32>(12)), SqlState::UndefinedColumn);
    assert_eq!(state(row.get_ref(usize::MAX)), SqlState::UndefinedColumn);
    assert_eq!(row.columns()[8].data_type, DataType::Integer);
    assert!(format!("{row:?}").starts_with("{\"s\": SmallInt(1)"));
    Ok(())
}

#[test]
fn statements_are_prepared_once_and_planned_again_when_they_must() -> Result<()> {
    let db = numbers(10);
    let select = db.prepare("SELECT n, d FROM t WHERE i = $i")?;
    assert_eq!((select.parameters().len(), &*select.parameters()[0].name), (1, "i"));
    assert_eq!(select.parameters()[0].data_type, DataType::Integer);
    let names: Vec<&str> = select.columns().iter().map(|column| &*column.name).collect();
    assert_eq!(names, ["n", "d"]);
    assert_eq!(db.prepare("INSERT INTO t VALUES ($1, 1, 1)")?.parameters()[0].name, "$1");
    assert!(db.prepare("DELETE FROM t")?.columns().is_empty());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 1..=10 {
                    assert_eq!(
                        db.query_one(&select, i).expect("there").get::<i32>(0).expect("a number"),
                        i % 7
                    );
                }
            });
        }
    });
    db.execute("CREATE INDEX t_n ON t (n)", ())?;
    assert_eq!(db.query_one(&select, 3)?.get::<i32>("n")?, 3);
    db.execute_batch("DROP TABLE t; CREATE TABLE t (i int PRIMARY KEY, n text, d int)")?;
    assert_eq!(state(db.query_one(&select, 3)), SqlState::FeatureNotSupported, "it would give other columns");
    db.execute("DROP TABLE t", ())?;
    assert_eq!(state(db.query_one(&select, 3)), SqlState::UndefinedTable);
    let other = numbers(1);
    assert_eq!(state(other.query(&select, 1)), SqlState::InvalidSqlStatementName);
    Ok(())
}

#[test]
fn batches_come_from_both_paths() -> Result<()> {
    let db = numbers(100_000);
    let mut rows = 0;
    let mut sum = 0_i64;
    for batch in db.query_arrow("SELECT i, n AS seven FROM t", ())? {
        let batch = batch?;
        assert_eq!(batch.schema().field(1).name(), "seven");
        rows += batch.num_rows();
        sum +=
            batch.column(0).as_primitive::<Int32Type>().values().iter().map(|i| i64::from(*i)).sum::<i64>();
    }
    assert_eq!((rows, sum), (100_000, 100_000 * 100_001 / 2));
    // By key: the OLTP path's values, made into arrays.
    let batches =
        db.query_arrow("SELECT n AS seven, d, NULL::text AS none FROM t WHERE i = 8", ())?.collect_all()?;
    assert_eq!((batches.len(), batches[0].num_rows()), (1, 1));
    assert_eq!(batches[0].column(0).as_primitive::<Int32Type>().value(0), 1);
    assert_eq!(batches[0].schema().field(0).name(), "seven");
    assert!(matches!(batches[0].column(1).data_type(), ArrowType::Decimal128(_, 2)));
    assert!(ankerdb::arrow::array::Array::is_null(&batches[0].column(2), 0));
    // Nothing found: the schema is there.
    for sql in ["SELECT i, d FROM t WHERE i = -1", "SELECT n AS i, d FROM t WHERE n = -1"] {
        let none = db.query_arrow(sql, ())?;
        assert_eq!(none.schema().field(0).data_type(), &ArrowType::Int32);
        assert_eq!(none.collect_all()?.iter().map(|batch| batch.num_rows()).sum::<usize>(), 0);
    }
    let counted = db.query_arrow("SELECT count(*) FROM t", ())?.collect_all()?;
    assert_eq!(counted[0].column(0).as_primitive::<Int64Type>().value(0), 100_000);
    assert_eq!(counted[0].schema().field(0).name(), "count");
    assert_eq!(state(db.query_arrow("DELETE FROM t WHERE i = 1", ())), SqlState::SyntaxError);
    Ok(())
}

/// Tables and statements in one transaction see each other's writes, on both paths.
#[test]
fn sql_and_tables_share_a_transaction() -> Result<()> {
    let db = filled(10, 100);
    let by_key = db.prepare("SELECT balance FROM account WHERE id = $1")?;
    let total = db.prepare("SELECT sum(balance)::bigint FROM account")?;
    for interactive in [false, true] {
        let work = |tx: &Transaction| {
            let account = tx.table("account")?;
            account.update(1, [("balance", 0)])?;
            account.insert((77, "new", 23))?;
            assert_eq!(tx.query_one(&by_key, 1)?.get::<i64>(0)?, 0);
            assert_eq!(tx.query_one(&total, ())?.get::<i64>(0)?, 923);
            assert_eq!(tx.execute("UPDATE account SET balance = balance + $1 WHERE id = 77", 7)?, 1);
            assert_eq!(account.get(77)?.expect("there").get::<i64>("balance")?, 30);
            assert_eq!(tx.execute("DELETE FROM account WHERE id > $1", 5)?, 5);
            assert_eq!(account.scan().count()?, 6);
            let batches = tx.query_arrow("SELECT count(*) FROM account", ())?.collect_all()?;
            assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), 6);
            let returned: Vec<i32> = tx
                .query("INSERT INTO account VALUES (90, 'x', 1), (91, 'y', 1) RETURNING id", ())?
                .map(|row| row?.get(0))
                .collect::<Result<_>>()?;
            assert_eq!(returned, [90, 91]);
            Ok(())
        };
        if interactive {
            let tx = db.begin()?;
            work(&tx)?;
            tx.rollback();
        } else {
            let refused = db.transaction(|tx| work(tx).and_then(|()| tx.table("nothing").map(drop)));
            assert_eq!(state(refused), SqlState::UndefinedTable);
        }
        assert_eq!(db.query_one(&total, ())?.get::<i64>(0)?, 1000);
    }
    Ok(())
}

#[test]
fn a_failed_statement_ends_its_transaction() -> Result<()> {
    let db = numbers(10);
    let swallowed = db.transaction(|tx| {
        tx.table("t")?.update(1, [("n", 100)])?;
        assert_eq!(
            state(tx.execute("UPDATE t SET n = 1 / (i - 5) WHERE i > 0", ())),
            SqlState::DivisionByZero
        );
        assert_eq!(state(tx.execute("SELECT 1", ())), SqlState::InFailedSqlTransaction);
        assert_eq!(state(tx.table("t")?.get(1)), SqlState::InFailedSqlTransaction);
        Ok(())
    });
    assert_eq!(state(swallowed), SqlState::DivisionByZero);
    let tx = db.begin()?;
    tx.table("t")?.update(1, [("n", 100)])?;
    // Nothing has begun to run: the transaction goes on.
    assert_eq!(state(tx.execute("SELEC 1", ())), SqlState::SyntaxError);
    assert_eq!(state(tx.query("SELECT n FROM t WHERE i = $1", "x")), SqlState::InvalidTextRepresentation);
    assert_eq!(state(tx.execute("CREATE TABLE u (i int)", ())), SqlState::ActiveSqlTransaction);
    assert_eq!(state(tx.commit()), SqlState::ActiveSqlTransaction);
    assert_eq!(db.query_one("SELECT n FROM t WHERE i = 1", ())?.get::<i32>(0)?, 1);
    Ok(())
}

/// Within a savepoint a failed statement takes its part with it, and the transaction goes on.
#[test]
fn a_statement_that_fails_within_a_savepoint_ends_its_part() -> Result<()> {
    let db = numbers(10);
    let tx = db.begin()?;
    tx.execute("UPDATE t SET n = 100 WHERE i = 1", ())?;
    let failed = tx.savepoint(|tx| {
        tx.execute("UPDATE t SET n = 200 WHERE i = 1", ())?;
        tx.execute("UPDATE t SET n = 1 / (i - 5) WHERE i > 0", ())
    });
    assert_eq!(state(failed), SqlState::DivisionByZero);
    assert_eq!(tx.query_one("SELECT n FROM t WHERE i = 1", ())?.get::<i32>(0)?, 100);
    tx.execute("UPDATE t SET n = n + 1 WHERE i = 1", ())?;
    tx.commit()?;
    assert_eq!(db.query_one("SELECT n FROM t WHERE i = 1", ())?.get::<i32>(0)?, 101);
    Ok(())
}

/// A conflict between a statement and another commit runs the closure again.
#[test]
fn statements_in_transactions_run_again() -> Result<()> {
    let db = numbers(10);
    for read in ["SELECT n FROM t WHERE i = 1", "SELECT sum(n)::int FROM t"] {
        let mut tries = 0;
        db.transaction(|tx| {
            tries += 1;
            let seen: i32 = tx.query_one(read, ())?.get(0)?;
            if tries == 1 {
                db.execute("UPDATE t SET n = n + 1 WHERE i = 1", ())?;
            }
            tx.execute("UPDATE t SET n = $1 WHERE i = 2", seen).map(drop)
        })?;
        assert_eq!(tries, 2, "{read}");
    }
    Ok(())
}

/// INSERT ... ON CONFLICT finds no row, and another transaction inserts it before the commit: that is a conflict, and no error
/// of the program's.
#[test]
fn threads_that_merge_the_same_keys_lose_nothing() -> Result<()> {
    const THREADS: i64 = 8;
    const KEYS: i32 = 300;
    let db = Database::in_memory()?;
    db.execute("CREATE TABLE t (i int PRIMARY KEY, n bigint NOT NULL)", ())?;
    let merge = db.prepare("INSERT INTO t VALUES ($1, 1) ON CONFLICT (i) DO UPDATE SET n = t.n + 1")?;
    let barrier = std::sync::Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        let mergers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    (0..KEYS).try_for_each(|i| db.transaction(|tx| tx.execute(&merge, i).map(drop)))
                })
            })
            .collect();
        mergers.into_iter().try_for_each(|merger| merger.join().expect("no panic"))
    })?;
    let sum: i64 = db.query_one("SELECT sum(n)::bigint FROM t", ())?.get(0)?;
    assert_eq!(sum, THREADS * i64::from(KEYS));
    // Once more for certain: the row comes between the look and the commit.
    for (key, by_table) in [(1000, false), (1001, true)] {
        let mut tries = 0;
        db.transaction(|tx| {
            tries += 1;
            match by_table {
                true => tx.table("t")?.upsert((key, 5)).map(drop)?,
                false => tx.execute(&merge, key).map(drop)?,
            }
            if tries == 1 {
                db.execute("INSERT INTO t VALUES ($1, 7)", key)?;
            }
            Ok(())
        })?;
        let n: i64 = db.query_one("SELECT n FROM t WHERE i = $1", key)?.get(0)?;
        assert_eq!((tries, n), (2, if by_table { 5 } else { 8 }));
    }
    Ok(())
}

/// In an interactive transaction and in a procedure that goes on after the error.
#[test]
fn a_row_that_a_foreign_key_refuses_is_not_written() -> Result<()> {
    let db = Database::in_memory()?;
    db.execute("CREATE TABLE parent (id int PRIMARY KEY)", ())?;
    db.execute("CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent)", ())?;
    db.execute("INSERT INTO parent VALUES (1), (2)", ())?;
    let calls = |tx: &Transaction, id: i32| {
        let (parent, child) = (tx.table("parent")?, tx.table("child")?);
        child.insert((id, 1))?;
        assert_eq!(state(child.insert((id + 1, 3))), SqlState::ForeignKeyViolation);
        assert_eq!(state(child.update(id, [("parent", 3)])), SqlState::ForeignKeyViolation);
        assert_eq!(state(parent.delete(1)), SqlState::ForeignKeyViolation);
        child.update(id, [("parent", 2)])
    };
    let tx = db.begin()?;
    calls(&tx, 1)?;
    tx.commit()?;
    db.transaction(|tx| calls(tx, 11))?;
    let read = |row: Result<Row>| row.and_then(|row| Ok((row.get::<i32>(0)?, row.get::<i32>(1)?)));
    let rows = db.query("SELECT id, parent FROM child ORDER BY id", ())?.map(read);
    assert_eq!(rows.collect::<Result<Vec<_>>>()?, [(1, 2), (11, 2)]);
    assert_eq!(db.query_one("SELECT count(*) FROM parent", ())?.get::<i64>(0)?, 2);
    Ok(())
}

/// Also within transactions, whose own rows they do not see.
#[test]
fn statements_as_of_a_kept_snapshot_read_it_everywhere() -> Result<()> {
    let db = numbers(10);
    db.execute("CREATE SNAPSHOT ten", ())?;
    db.execute("DELETE FROM t WHERE i > 5", ())?;
    let all = "SELECT count(*) FROM t AS OF SNAPSHOT ten";
    let one = "SELECT count(*) FROM t WHERE i = $1 AS OF SNAPSHOT ten";
    assert_eq!(db.query_one(all, ())?.get::<i64>(0)?, 10);
    assert_eq!(db.query_one(one, 7)?.get::<i64>(0)?, 1);
    let counts = db.transaction(|tx| {
        tx.execute("INSERT INTO t VALUES (11, 0, 0)", ())?;
        let count = |sql: &str| tx.query_one(sql, ())?.get::<i64>(0);
        Ok((count(all)?, count("SELECT count(*) FROM t")?, tx.query_one(one, 11)?.get::<i64>(0)?))
    })?;
    assert_eq!(counts, (10, 6, 0));
    // Not a failure to serialize, after which the transaction would be run again.
    db.execute("CREATE INDEX by_n ON t (n)", ())?;
    let by_index =
        |tx: &Transaction<'_>| tx.query("SELECT i FROM t WHERE n = 3 AS OF SNAPSHOT ten", ()).map(drop);
    assert_eq!(state(db.transaction(|tx| by_index(tx))), SqlState::ObjectNotInPrerequisiteState);
    db.execute("DROP INDEX by_n", ())?;
    let snapshot = db.snapshot();
    assert_eq!(snapshot.query_one(all, ())?.get::<i64>(0)?, 10);
    let tx = db.begin()?;
    db.execute("ALTER TABLE t ADD COLUMN late int", ())?;
    assert_eq!(state(db.query(all, ())), SqlState::ObjectNotInPrerequisiteState);
    assert_eq!(state(tx.query(all, ())), SqlState::ObjectNotInPrerequisiteState);
    drop(tx);
    assert_eq!(
        state(db.transaction(|tx| tx.execute("CREATE SNAPSHOT late", ()))),
        SqlState::ActiveSqlTransaction
    );
    db.execute("DROP SNAPSHOT ten", ())?;
    assert_eq!(state(db.query(all, ())), SqlState::UndefinedObject);
    Ok(())
}

#[test]
fn snapshots_answer_queries_of_their_moment() -> Result<()> {
    let db = numbers(50_000);
    let snapshot = db.snapshot();
    let count = db.prepare("SELECT count(*) FROM t WHERE n >= $1")?;
    db.execute("DELETE FROM t WHERE i > 10", ())?;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert_eq!(snapshot.query_one(&count, 0).unwrap().get::<i64>(0).unwrap(), 50_000);
                assert_eq!(
                    snapshot
                        .query_one("SELECT i FROM t WHERE i = $1", 40_000)
                        .unwrap()
                        .get::<i32>(0)
                        .unwrap(),
                    40_000
                );
                assert_eq!(snapshot.table("t").unwrap().scan().count().unwrap(), 50_000);
            });
        }
    });
    assert_eq!(db.query_one(&count, 0)?.get::<i64>(0)?, 10);
    assert_eq!(state(snapshot.query("DELETE FROM t", ())), SqlState::ReadOnlySqlTransaction);
    assert!(snapshot.query_optional("SELECT i FROM t WHERE i = 0", ())?.is_none());
    // The result outlives the snapshot, and the database's handles.
    let rows = snapshot.query("SELECT i FROM t", ())?;
    drop((snapshot, db, count));
    assert_eq!(rows.map(|row| row.map(drop)).collect::<Result<Vec<_>>>()?.len(), 50_000);
    Ok(())
}

/// A result that is not read to its end holds up no others, and its query ends.
#[test]
fn a_dropped_iterator_ends_its_query() -> Result<()> {
    let db = numbers(20_000);
    let begun = Instant::now();
    for _ in 0..50 {
        // Far more rows than a test can wait for.
        let mut rows = db.query("SELECT a.i FROM t a, t b WHERE a.n >= 0 AND b.n >= 0", ())?;
        assert!(rows.next().expect("a row")?.get::<i32>(0)? > 0);
        let other = db.query_one("SELECT count(*) FROM t", ())?;
        assert_eq!(other.get::<i64>(0)?, 20_000, "beside an open result");
        drop(rows);
    }
    db.execute("UPDATE t SET n = 0", ())?;
    assert!(begun.elapsed() < Duration::from_secs(60));
    Ok(())
}

#[test]
fn many_threads_use_one_database() -> Result<()> {
    let db = numbers(100);
    let (queries, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reporter = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let sum: i64 = db.query_one("SELECT sum(n)::bigint FROM t", ())?.get(0)?;
                assert_eq!(sum % 2, 1, "each transaction adds an even number");
                queries.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, Error>(())
        });
        let writers: Vec<_> = (0..16)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || {
                    for round in 0..50 {
                        db.transaction(|tx| {
                            tx.execute("UPDATE t SET n = n + 1 WHERE i = $1", thread + 1)?;
                            tx.execute("UPDATE t SET n = n + 1 WHERE i = $1", 100 - (thread + round) % 50)
                        })?;
                    }
                    Ok::<_, Error>(())
                })
            })
            .collect();
        let ended: Result<Vec<()>> =
            writers.into_iter().map(|writer| writer.join().expect("no panic")).collect();
        done.store(true, Ordering::Relaxed);
        reporter.join().expect("no panic")?;
        ended.map(drop)
    })?;
    let sum: i64 = db.query_one("SELECT sum(n)::bigint FROM t", ())?.get(0)?;
    assert_eq!(sum, (1..=100).map(|i| i % 7).sum::<i64>() + 16 * 50 * 2);
    Ok(())
}

#[test]
fn statements_end_by_interrupt_and_by_their_limit_of_time() -> Result<()> {
    const ENDLESS: &str = "SELECT count(*) FROM t a, t b, t c WHERE a.n + b.n + c.n >= 0";
    let db = Database::with(Options::new().statement_timeout(Duration::from_millis(200)))?;
    db.execute("CREATE TABLE t (n int)", ())?;
    db.execute("INSERT INTO t SELECT i FROM generate_series(1, 20000) AS s(i)", ())?;
    assert_eq!(db.query_one("SHOW statement_timeout", ())?.get::<String>(0)?, "200ms");
    let begun = Instant::now();
    let error = db.query_one(ENDLESS, ()).unwrap_err();
    assert_eq!(error.message(), "canceling statement due to statement timeout");
    let error = db.transaction(|tx| tx.query_one(ENDLESS, ()).map(drop)).unwrap_err();
    assert_eq!((error.sqlstate(), error.kind()), (SqlState::QueryCanceled, ErrorKind::Canceled));
    assert!(begun.elapsed() < Duration::from_secs(30));

    let db = numbers(20_000);
    let handle = db.interrupt_handle();
    let ended = std::thread::scope(|scope| {
        let endless = scope.spawn(|| db.query_one(ENDLESS, ()));
        std::thread::sleep(Duration::from_millis(200));
        handle.interrupt();
        endless.join().expect("no panic")
    });
    assert_eq!(ended.unwrap_err().message(), "canceling statement due to user request");
    assert_eq!(db.query_one("SELECT count(*) FROM t", ())?.get::<i64>(0)?, 20_000);
    Ok(())
}

#[test]
fn now_stays_for_a_transaction() -> Result<()> {
    let db = Database::in_memory()?;
    let tx = db.begin()?;
    let now = |tx: &Transaction| tx.query_one("SELECT now()", ())?.get::<Value>(0);
    let first = now(&tx)?;
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(now(&tx)?, first);
    tx.commit()?;
    assert_ne!(db.query_one("SELECT now()", ())?.get::<Value>(0)?, first);
    Ok(())
}

#[test]
fn arrays_are_parameters_and_results() -> Result<()> {
    let db = numbers(100);
    let mut items = ArrayBuilder::new(ListType::Integer);
    for item in [3, 5, 200] {
        items.push((&Value::Integer(item)).into()).unwrap();
    }
    let array = Value::Array(items.finish());
    let count = db.query_one("SELECT count(*) FROM t WHERE i = ANY($1)", [&array])?.get::<i64>(0)?;
    assert_eq!(count, 2);
    assert_eq!(db.execute("UPDATE t SET i = i WHERE i = ANY($1)", [&array])?, 2);
    db.execute("CREATE TABLE a (id int PRIMARY KEY, i int[])", ())?;
    db.execute("INSERT INTO a VALUES (1, $1)", [&array])?;
    assert_eq!(db.query_one("SELECT i FROM a WHERE id = 1", ())?.get::<Value>(0)?, array);
    for sql in ["SELECT i FROM a WHERE id = 1", "SELECT i FROM a"] {
        assert_eq!(db.query_one(sql, ())?.get::<String>(0)?, "{3,5,200}");
    }
    let refused = db.execute("INSERT INTO a VALUES (2, $1)", ["{1}"]).unwrap_err();
    assert_eq!(refused.sqlstate(), SqlState::DatatypeMismatch);
    Ok(())
}
