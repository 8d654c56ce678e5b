//! The front door over every configuration of the engine that this machine can run.
#![cfg(feature = "sql")]

use ankerdb::arrow::array::AsArray;
use ankerdb::arrow::datatypes::Int64Type;
use ankerdb::*;

#[test]
fn every_configuration_answers_alike() -> Result<()> {
    let mut ran = 0;
    for configuration in Configuration::ALL {
        let db = match Database::with(Options::new().threads(1).configuration(configuration)) {
            Ok(db) => db,
            Err(error) => {
                println!("NOT HERE: {configuration:?}: {error}");
                continue;
            }
        };
        check(&db).unwrap_or_else(|error| panic!("{configuration:?}: {error:?}"));
        ran += 1;
    }
    assert!(ran >= 4, "ours and the three single execution engines run everywhere");
    Ok(())
}

fn check(db: &Database) -> Result<()> {
    db.execute("CREATE TABLE t (i int PRIMARY KEY, s text, n bigint NOT NULL)", ())?;
    let mut load = db.appender("t")?.rows_per_transaction(3000);
    (0..20_000).try_for_each(|i| load.append_row((i, format!("text {i}"), 1)))?;
    load.finish()?;
    db.transaction(|tx| {
        let t = tx.table("t")?;
        t.get(5)?.expect("loaded").update([("n", 5)])?;
        t.delete(6)?;
        assert_eq!(tx.query_one("SELECT n FROM t WHERE i = 5", ())?.get::<i64>(0)?, 5);
        assert_eq!(tx.query_one("SELECT count(*), sum(n)::bigint FROM t", ())?.get::<i64>(1)?, 20_003);
        t.insert((30_000, None::<&str>, 7))
    })?;
    let sum = "SELECT sum(n)::bigint AS sum FROM t";
    assert_eq!(db.query_one(sum, ())?.get::<i64>("sum")?, 20_010);
    let batches = db.query_arrow(sum, ())?.collect_all()?;
    assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), 20_010);
    assert_eq!(batches[0].schema().field(0).name(), "sum");
    let texts = db.query_arrow("SELECT s, i FROM t WHERE n >= $1", 1)?.collect_all()?;
    assert_eq!(texts.iter().map(|batch| batch.num_rows()).sum::<usize>(), 20_000);
    let snapshot = db.snapshot();
    assert_eq!(snapshot.query_one(sum, ())?.get::<i64>(0)?, 20_010);
    assert_eq!(snapshot.table("t")?.get(5)?.expect("there").get::<i64>("n")?, 5);
    assert_eq!(snapshot.table("t")?.range(10..20).count()?, 10);
    let tx = db.begin()?;
    tx.table("t")?.update(30_000, [("n", 8)])?;
    assert_eq!(tx.query_one(sum, ())?.get::<i64>(0)?, 20_011);
    tx.commit()?;
    assert_eq!(
        db.query("SELECT i, s, n FROM t", ())?.map(|row| row?.get::<i64>("n")).sum::<Result<i64>>()?,
        20_011
    );
    Ok(())
}
