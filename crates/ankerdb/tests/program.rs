//! The program that the front door was designed for.
#![cfg(feature = "sql")]

use ankerdb::{Database, Error};

#[test]
fn the_program_of_the_readme_runs() -> Result<(), Error> {
    let db = Database::in_memory()?;
    db.execute("CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)", ())?;
    let balance = db.transaction(|tx| {
        let account = tx.table("account")?;
        account.insert((1, 100_i64))?;
        account.update(1, [("balance", 75_i64)])?;
        account.get(1)?.map(|row| row.get::<i64>("balance")).transpose()
    })?;
    assert_eq!(balance, Some(75));
    let mut ids = Vec::new();
    for row in db.query("SELECT id FROM account WHERE balance > $1", [50_i64])? {
        let id: i32 = row?.get(0)?;
        ids.push(id);
    }
    assert_eq!(ids, [1]);
    let batches = db.query_arrow("SELECT sum(balance) FROM account", ())?.collect_all()?;
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
    let snapshot = db.snapshot();
    db.execute("DELETE FROM account", ())?;
    assert_eq!(snapshot.query("SELECT id FROM account", ())?.count(), 1);
    assert_eq!(db.query("SELECT id FROM account", ())?.count(), 0);
    Ok(())
}
