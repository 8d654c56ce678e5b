//! The memory limit. In a process of its own, since all of a process counts.

use ankerdb::*;

#[test]
fn a_memory_limit_refuses_more_than_there_is() -> Result<()> {
    let tiny = Database::with(Options::new().memory_limit(1));
    assert_eq!(tiny.unwrap_err().sqlstate(), SqlState::InvalidParameterValue);
    let db = Database::with(Options::new().memory_limit(64 << 20))?;
    db.create_table(TableDefinition::new("t").column(ColumnDefinition::new("v", DataType::Text)))?;
    let text = "x".repeat(1 << 20);
    let mut appender = db.appender("t")?.rows_per_transaction(8);
    let refused = (0..10_000).find_map(|_| appender.append_row(&text).err());
    let error = refused.expect("10 GB do not fit 64 MB");
    assert_eq!((error.sqlstate(), error.kind()), (SqlState::OutOfMemory, ErrorKind::Resources));
    Ok(())
}
