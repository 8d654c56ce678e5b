//! The first ten minutes: a table, a transaction, a query, a snapshot.
//!
//! `cargo run --release -p ankerdb --example quick_start`

use ankerdb::{Database, Result, named};

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    db.execute(
        "CREATE TABLE account (id int PRIMARY KEY, owner text NOT NULL, balance bigint NOT NULL)",
        (),
    )?;
    db.execute("INSERT INTO account VALUES (1, 'Ann', 100), (2, 'Bob', 50), (3, 'Carl', 7)", ())?;

    let before = db.snapshot();
    let moved = db.transaction(|tx| {
        let account = tx.table("account")?;
        let (Some(ann), Some(bob)) = (account.get(1)?, account.get(2)?) else { return Ok(0) };
        let amount = ann.get::<i64>("balance")? / 4;
        ann.update([("balance", ann.get::<i64>("balance")? - amount)])?;
        bob.update([("balance", bob.get::<i64>("balance")? + amount)])?;
        Ok(amount)
    })?;
    println!("moved {moved} from Ann to Bob");

    let rich = "SELECT owner, balance FROM account WHERE balance >= $low ORDER BY balance DESC";
    for row in db.query(rich, named! { low: 50 })? {
        let row = row?;
        println!("{:>6} {}", row.get::<i64>("balance")?, row.get::<String>("owner")?);
    }
    let ann = before.table("account")?;
    let then: Option<i64> = ann.get(1)?.map(|row| row.get("balance")).transpose()?;
    println!("before that Ann had {then:?}");
    Ok(())
}
