//! What the tests of the front door share.
#![allow(dead_code, reason = "each test uses a part")]

use ankerdb::{ColumnDefinition, DataType, Database, Error, SqlState, TableDefinition};

/// `account (id int PRIMARY KEY, owner text, balance bigint NOT NULL)`, with an index of owners.
pub(crate) fn accounts() -> Database {
    let db = Database::in_memory().expect("a database");
    let definition = TableDefinition::new("account")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("owner", DataType::Text).nullable())
        .column(ColumnDefinition::new("balance", DataType::BigInt))
        .primary_key(&["id"])
        .index("account_owner", &["owner"], false);
    db.create_table(definition).expect("a table");
    db
}

/// A database with so many accounts, whose owners are "owner 0" to "owner 9".
pub(crate) fn filled(count: i32, balance: i64) -> Database {
    let db = accounts();
    db.transaction(|tx| {
        let account = tx.table("account")?;
        (0..count).try_for_each(|id| account.insert((id, format!("owner {}", id % 10), balance)))
    })
    .expect("rows");
    db
}

/// The sum of all balances.
pub(crate) fn total(db: &Database) -> i64 {
    let snapshot = db.snapshot();
    let account = snapshot.table("account").expect("the table");
    let balance = account.column::<i64>("balance").expect("the column");
    account.scan().into_iter().map(|row| row.and_then(|row| row.get(balance)).expect("a balance")).sum()
}

/// The SQLSTATE of what must fail.
pub(crate) fn state<T>(outcome: Result<T, Error>) -> SqlState {
    match outcome {
        Ok(_) => panic!("this should have failed"),
        Err(error) => error.sqlstate(),
    }
}
