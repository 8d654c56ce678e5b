//! A database that is kept in a folder.

use ankerdb::*;

/// The second handle of the same folder is refused while the first is there.
#[test]
fn what_is_committed_is_there_when_the_folder_is_opened_again() {
    let folder = std::env::temp_dir().join(format!("ankerdb-kept-{}", std::process::id()));
    let database = Database::open(&folder).expect("a new folder");
    let definition = TableDefinition::new("account")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("owner", DataType::Text))
        .primary_key(&["id"]);
    database.create_table(definition).expect("a table");
    let added = database.transaction(|tx| {
        let account = tx.table("account")?;
        (0..1_000).try_for_each(|id| account.insert((id, format!("owner number {id} of the bank"))))
    });
    added.expect("rows");
    let second = Database::open(&folder).expect_err("it is open");
    assert_eq!(second.sqlstate(), SqlState::ObjectInUse);
    drop(database);
    let database = Database::open(&folder).expect("the same folder");
    let found = database.transaction(|tx| {
        let account = tx.table("account")?;
        let owner: Option<String> = account.get(999)?.map(|row| row.get("owner")).transpose()?;
        Ok((account.scan().count()?, owner))
    });
    let owner = Some("owner number 999 of the bank".to_owned());
    assert_eq!(found.expect("rows"), (1_000, owner));
    drop(database);
    std::fs::remove_dir_all(&folder).expect("it is ours");
}
