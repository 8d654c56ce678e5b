//! Tables in transactions: rows by key, ranges, indexes, handles, and everything that a caller can get wrong.

mod support;

use ankerdb::*;
use support::{accounts, filled, state};

const NONE: [i32; 0] = [];

fn ids(scan: Scan<'_, '_>) -> Result<Vec<i32>> {
    scan.into_iter().map(|row| row?.get(0)).collect()
}

#[test]
fn rows_are_inserted_found_changed_and_deleted() -> Result<()> {
    let db = accounts();
    db.transaction(|tx| {
        let account = tx.table("account")?;
        account.insert((1, "Ann", 100))?;
        account.insert(named! { balance: 50, id: 2 })?;
        account.insert([Value::Integer(3), Value::Null, Value::BigInt(7)])?;
        assert!(account.update(1, [("balance", 75)])?);
        assert!(!account.update(9, [("balance", 75)])?);
        assert!(account.contains(2)? && !account.contains(9)?);
        assert!(account.delete(3)? && !account.delete(3)?);
        Ok(())
    })?;
    db.transaction(|tx| {
        let account = tx.table("account")?;
        let ann = account.get(1)?.expect("committed");
        assert_eq!((ann.get::<i64>("balance")?, ann.get::<String>(1)?), (75, "Ann".to_owned()));
        assert!(ann.with("owner", |owner| owner == ValueRef::Text("Ann"))?);
        assert_eq!(account.get(2)?.expect("committed").get::<Option<String>>("owner")?, None);
        assert!(account.get(3)?.is_none());
        ann.update(named! { owner: "Anna", balance: 1 })?;
        assert_eq!(ann.get::<String>("owner")?, "Anna", "a row shows what was written to it");
        ann.delete()?;
        assert_eq!(state(ann.get::<i64>("balance")), SqlState::NoData);
        assert_eq!(state(ann.update([("balance", 1)])), SqlState::NoData);
        assert_eq!(state(ann.delete()), SqlState::NoData);
        Ok(())
    })
}

/// A row that was inserted and deleted in one transaction has no place at all any more.
#[test]
fn a_new_row_that_was_deleted_is_not_read() -> Result<()> {
    let db = accounts();
    for interactive in [false, true] {
        let check = |tx: &Transaction| {
            let account = tx.table("account")?;
            account.insert((1, "Ann", 100))?;
            let row = account.get(1)?.expect("inserted");
            row.delete()?;
            assert_eq!(state(row.get::<i64>("balance")), SqlState::NoData);
            assert_eq!(state(row.update([("balance", 1)])), SqlState::NoData);
            assert!(account.get(1)?.is_none());
            account.insert((1, "Bob", 5))?;
            assert_eq!(account.get(1)?.expect("again").get::<i64>("balance")?, 5);
            account.delete(1).map(drop)
        };
        if interactive {
            let tx = db.begin()?;
            check(&tx)?;
            tx.commit()?;
        } else {
            db.transaction(check)?;
        }
    }
    Ok(())
}

#[test]
fn upsert_inserts_or_changes_what_is_named() -> Result<()> {
    let db = accounts();
    db.transaction(|tx| {
        let account = tx.table("account")?;
        assert!(!account.upsert((1, "Ann", 100))?);
        assert!(account.upsert((1, "Anna", 5))?);
        assert!(account.upsert(named! { balance: 6, id: 1 })?);
        let row = account.get(1)?.expect("there");
        assert_eq!((row.get::<String>("owner")?, row.get::<i64>("balance")?), ("Anna".into(), 6));
        assert!(account.upsert(named! { id: 1 })?, "nothing to change");
        Ok(())
    })?;
    assert_eq!(db.transaction(|tx| tx.table("account")?.scan().count())?, 1);
    Ok(())
}

#[test]
fn scans_give_ranges_in_order_with_own_rows_between() -> Result<()> {
    let db = filled(100, 1);
    db.transaction(|tx| {
        let account = tx.table("account")?;
        account.insert((1000, "owner 3", 0))?;
        account.delete(4)?;
        assert_eq!(ids(account.range(2..=5))?, [2, 3, 5]);
        assert_eq!(ids(account.range(2..5))?, [2, 3]);
        assert_eq!(ids(account.range(98..))?, [98, 99, 1000]);
        assert_eq!(ids(account.range(..3).descending())?, [2, 1, 0]);
        assert_eq!(ids(account.range::<i32>(..).descending().limit(2))?, [1000, 99]);
        assert_eq!(ids(account.range((std::ops::Bound::Excluded(97), std::ops::Bound::Excluded(99))))?, [98]);
        let (low, high) = (2, 5);
        assert_eq!(ids(account.range(high..low))?, NONE, "nothing lies between");
        assert_eq!(ids(account.range(7..7))?, NONE);
        assert_eq!(ids(account.range(7..=7))?, [7]);
        assert_eq!(ids(account.range(Some(7)..=None))?, NONE, "nothing equals NULL");
        assert_eq!(account.scan().count()?, 100);
        assert_eq!(account.scan().limit(0).count()?, 0);
        let owners = account.index("account_owner")?;
        assert_eq!(ids(owners.get("owner 3").limit(3))?, [3, 13, 23]);
        assert_eq!(owners.get("owner 3").count()?, 11);
        assert_eq!(owners.get(None::<&str>).count()?, 0);
        assert_eq!(owners.range("owner 8"..).count()?, 20);
        assert_eq!(owners.scan().count()?, 100);
        assert_eq!(owners.range(.."owner").count()?, 0);
        // A loop's changes to the table do not change what it visits.
        for row in account.range(0..10) {
            let row = row?;
            let id: i32 = row.get("id")?;
            row.update([("id", id + 5000)])?;
        }
        assert_eq!(account.range(5000..).count()?, 9);
        Ok(())
    })
}

#[test]
fn parts_of_a_key_stand_for_all_keys_that_begin_so() -> Result<()> {
    let db = Database::in_memory()?;
    let definition = TableDefinition::new("line")
        .column(ColumnDefinition::new("invoice", DataType::Integer))
        .column(ColumnDefinition::new("number", DataType::SmallInt))
        .column(ColumnDefinition::new("item", DataType::Varchar(20)))
        .primary_key(&["invoice", "number"]);
    db.create_table(definition)?;
    db.transaction(|tx| {
        let line = tx.table("line")?;
        for invoice in [-1, 1, 2, 3, i32::MAX] {
            for number in [1, 2, 3] {
                line.insert((invoice, number, format!("item {number}")))?;
            }
        }
        let keys = |scan: Scan| {
            let pair = |row: TableRow| Ok((row.get("invoice")?, row.get("number")?));
            scan.into_iter().map(|row| pair(row?)).collect::<Result<Vec<(i32, i16)>>>()
        };
        assert_eq!(keys(line.range(1..=1))?, [(1, 1), (1, 2), (1, 3)]);
        assert_eq!(keys(line.range((1, 3)..(3, 1)))?, [(1, 3), (2, 1), (2, 2), (2, 3)]);
        let after_one = (std::ops::Bound::Excluded(1), std::ops::Bound::Included(2));
        assert_eq!(keys(line.range(after_one))?, [(2, 1), (2, 2), (2, 3)]);
        let behind_all = (std::ops::Bound::Excluded(i32::MAX), std::ops::Bound::Unbounded);
        assert_eq!(keys(line.range(behind_all))?, []);
        assert_eq!(line.get((2, 3))?.expect("there").get::<String>("item")?, "item 3");
        assert_eq!(state(line.get(2)), SqlState::SyntaxError);
        assert_eq!(state(line.get((2, 3, 4))), SqlState::SyntaxError);
        assert_eq!(state(line.range((1, 2, 3)..).count()), SqlState::SyntaxError);
        Ok(())
    })
}

#[test]
fn hash_indexes_answer_whole_keys_only() -> Result<()> {
    let db = Database::in_memory()?;
    let definition = TableDefinition::new("user")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("town", DataType::Text))
        .primary_key(&["id"])
        .index("user_town", &["town"], false)
        .hashed("user_pkey")
        .hashed("user_town");
    db.create_table(definition)?;
    db.transaction(|tx| {
        let user = tx.table("user")?;
        (0..10).try_for_each(|id| user.insert((id, if id < 4 { "Saarbrücken" } else { "Mainz" })))?;
        assert_eq!(user.index("user_town")?.get("Mainz").count()?, 6);
        assert!(user.contains(7)?);
        assert_eq!(state(user.range(1..5).count()), SqlState::FeatureNotSupported);
        assert_eq!(state(user.index("user_town")?.scan().count()), SqlState::FeatureNotSupported);
        assert_eq!(state(user.index("user_town")?.get(()).count()), SqlState::FeatureNotSupported);
        Ok(())
    })
}

#[test]
fn what_does_not_exist_is_an_error() -> Result<()> {
    let db = filled(3, 1);
    let other =
        db.create_table(TableDefinition::new("log").column(ColumnDefinition::new("id", DataType::Integer)))?;
    db.transaction(|tx| {
        assert_eq!(state(tx.table("nothing")), SqlState::UndefinedTable);
        let account = tx.table("account")?;
        assert_eq!(state(account.index("nothing")), SqlState::UndefinedObject);
        assert_eq!(state(account.column::<i64>("nothing")), SqlState::UndefinedColumn);
        assert_eq!(state(account.update(1, [("nothing", 1)])), SqlState::UndefinedColumn);
        assert_eq!(state(account.insert(named! { id: 5, nothing: 1 })), SqlState::UndefinedColumn);
        assert_eq!(state(account.scan().columns(&["nothing"]).count()), SqlState::UndefinedColumn);
        let row = account.get(1)?.expect("there");
        assert_eq!(state(row.get::<i64>("nothing")), SqlState::UndefinedColumn);
        assert_eq!(state(row.get::<i64>(3)), SqlState::UndefinedColumn);
        let foreign = other.column::<i32>("id")?;
        assert_eq!(state(row.get(foreign)), SqlState::UndefinedColumn);
        assert_eq!(state(account.update(1, [(foreign, 1)])), SqlState::UndefinedColumn);
        assert_eq!(state(tx.table("log")?.get(1)), SqlState::UndefinedObject, "no primary key");
        assert_eq!(state(account.insert((5, "x"))), SqlState::SyntaxError);
        assert_eq!(state(account.insert((5, "x", 1, 2))), SqlState::SyntaxError);
        assert_eq!(state(account.insert(())), SqlState::NotNullViolation);
        assert_eq!(state(account.update(1, 75)), SqlState::SyntaxError, "of which column?");
        assert_eq!(state(account.get([("id", 1)])), SqlState::SyntaxError);
        // None of these errors has ended the transaction.
        account.insert((5, "five", 5))
    })?;
    assert_eq!(state(db.table("nothing")), SqlState::UndefinedTable);
    assert_eq!(state(db.drop_table("nothing")), SqlState::UndefinedTable);
    assert_eq!(db.transaction(|tx| tx.table("account")?.scan().count())?, 4);
    assert_eq!(db.tables().iter().map(Table::name).collect::<Vec<_>>(), ["account", "log"]);
    Ok(())
}

/// Every type there is, with its extremes and NULL, through the front door and back.
#[test]
fn values_of_all_types_come_back() -> Result<()> {
    let numeric = DataType::Numeric { precision: 38, scale: 5 };
    let cases: Vec<(DataType, Vec<Value>)> = vec![
        (DataType::Boolean, vec![Value::Boolean(true), Value::Boolean(false)]),
        (DataType::SmallInt, vec![Value::SmallInt(i16::MIN), Value::SmallInt(i16::MAX)]),
        (DataType::Integer, vec![Value::Integer(i32::MIN), Value::Integer(i32::MAX)]),
        (DataType::BigInt, vec![Value::BigInt(i64::MIN), Value::BigInt(i64::MAX)]),
        (DataType::Real, vec![Value::Real(f32::MIN), Value::Real(f32::INFINITY), Value::Real(-0.0)]),
        (DataType::DoublePrecision, vec![Value::Double(f64::MAX), Value::Double(f64::NEG_INFINITY)]),
        (
            numeric,
            vec![Value::Numeric(Decimal::new(10_i128.pow(38) - 1, 5)), Value::Numeric(Decimal::new(-1, 5))],
        ),
        (
            DataType::Number,
            ["NaN", "-Infinity", "-0.50", &"9".repeat(5000)].map(|text| Value::Number(text.into())).to_vec(),
        ),
        (DataType::Text, vec![Value::text(""), Value::text("é".repeat(5000))]),
        (DataType::Varchar(3), vec![Value::text("äöü")]),
        (DataType::Char(4), vec![Value::text("ab")]),
        (DataType::Date, vec![Value::Date(-719_162), Value::Date(2_932_896)]),
        (DataType::TIMESTAMP, vec![Value::Timestamp(-1), Value::Timestamp(253_402_300_799_999_999)]),
        (DataType::TIMESTAMPTZ, vec![Value::TimestampTz(0)]),
        (DataType::Bytea, vec![Value::Bytea([0, 255, 0].into()), Value::Bytea([].into())]),
        (DataType::TIME, vec![Value::Time(0), Value::Time(86_400_000_000)]),
        (
            DataType::INTERVAL,
            vec![Value::Interval(Interval::new(1, -1, i64::MIN)), Value::Interval(Interval::new(0, 0, 1))],
        ),
        (DataType::Uuid, vec![Value::Uuid([7; 16])]),
    ];
    let db = Database::in_memory()?;
    for (number, (data_type, values)) in cases.into_iter().enumerate() {
        let name = format!("t{number}");
        let definition = TableDefinition::new(&*name)
            .column(ColumnDefinition::new("id", DataType::Integer))
            .column(ColumnDefinition::new("v", data_type).nullable())
            .primary_key(&["id"]);
        let table = db.create_table(definition)?;
        let v = table.column::<Value>("v")?;
        db.transaction(|tx| {
            let table = tx.table(&table)?;
            for (id, value) in values.iter().chain([&Value::Null]).enumerate() {
                table.insert((id, value))?;
                assert_eq!(table.get(id)?.expect("inserted").get(v)?, *value, "{data_type}");
            }
            Ok(())
        })?;
        let snapshot = db.snapshot();
        let read = snapshot
            .table(&table)?
            .range::<i32>(..)
            .into_iter()
            .map(|row| row?.get(v))
            .collect::<Result<Vec<_>>>();
        assert_eq!(read?, values.iter().cloned().chain([Value::Null]).collect::<Vec<_>>(), "{data_type}");
    }
    Ok(())
}

fn one_column(data_type: DataType) -> Result<Database> {
    let db = Database::in_memory()?;
    db.create_table(
        TableDefinition::new("t").column(ColumnDefinition::new("v", data_type)).primary_key(&["v"]),
    )?;
    Ok(db)
}

fn stored(data_type: DataType, value: impl ToValue) -> Result<Value> {
    one_column(data_type)?.transaction(|tx| {
        let t = tx.table("t")?;
        t.insert(&value)?;
        let row = t.scan().into_iter().next().expect("one row")?;
        row.get(0)
    })
}

#[test]
fn values_are_brought_to_the_columns_type_where_nothing_is_lost() -> Result<()> {
    assert_eq!(stored(DataType::SmallInt, 5_i64)?, Value::SmallInt(5));
    assert_eq!(stored(DataType::BigInt, 5_u16)?, Value::BigInt(5));
    assert_eq!(stored(DataType::Integer, 5_usize)?, Value::Integer(5));
    assert_eq!(stored(DataType::DoublePrecision, 5_i32)?, Value::Double(5.0));
    assert_eq!(stored(DataType::DoublePrecision, 0.5_f32)?, Value::Double(0.5));
    let numeric = DataType::Numeric { precision: 6, scale: 2 };
    assert_eq!(stored(numeric, 5)?, Value::Numeric(Decimal::new(500, 2)));
    assert_eq!(stored(numeric, Decimal::new(12345, 3))?, Value::Numeric(Decimal::new(1235, 2)));
    assert_eq!(stored(numeric, 1.5)?, Value::Numeric(Decimal::new(150, 2)));
    assert_eq!(stored(numeric, "1.5")?, Value::Numeric(Decimal::new(150, 2)));
    let number = |text: &str| Value::Number(text.into());
    assert_eq!(stored(DataType::Number, 5)?, number("5"));
    assert_eq!(stored(DataType::Number, Decimal::new(12340, 3))?, number("12.340"));
    assert_eq!(stored(DataType::Number, 1.5)?, number("1.5"));
    assert_eq!(stored(DataType::Number, " 1e50 ")?, number(&format!("1{}", "0".repeat(50))));
    assert_eq!(stored(DataType::Integer, " 42 ")?, Value::Integer(42));
    assert_eq!(stored(DataType::Date, "1970-01-02")?, Value::Date(1));
    assert_eq!(stored(DataType::TIMESTAMP, Value::Date(1))?, Value::Timestamp(86_400_000_000));
    assert_eq!(stored(DataType::Varchar(2), "ab  ")?, Value::text("ab"), "blanks may go");
    assert_eq!(stored(DataType::Char(5), "ab ")?, Value::text("ab"));
    assert_eq!(stored(DataType::Bytea, &b"ab"[..])?, Value::Bytea((*b"ab").into()));
    assert_eq!(stored(DataType::Text, std::borrow::Cow::from("x"))?, Value::text("x"));
    assert_eq!(stored(DataType::Text, Box::<str>::from("x"))?, Value::text("x"));
    Ok(())
}

#[test]
fn values_that_would_lose_something_are_refused() {
    use SqlState::*;
    let numeric = DataType::Numeric { precision: 4, scale: 2 };
    assert_eq!(state(stored(DataType::Integer, 1_i64 << 31)), NumericValueOutOfRange);
    assert_eq!(state(stored(DataType::SmallInt, 40_000)), NumericValueOutOfRange);
    assert_eq!(state(stored(DataType::BigInt, u64::MAX)), NumericValueOutOfRange);
    assert_eq!(state(stored(numeric, 100)), NumericValueOutOfRange);
    assert_eq!(state(stored(DataType::Integer, 1.5)), DatatypeMismatch);
    assert_eq!(state(stored(DataType::Integer, Decimal::new(15, 1))), DatatypeMismatch);
    assert_eq!(state(stored(DataType::Text, 1)), DatatypeMismatch);
    assert_eq!(state(stored(DataType::Number, true)), DatatypeMismatch);
    assert_eq!(state(stored(DataType::Number, "1,5")), InvalidTextRepresentation);
    assert_eq!(state(stored(DataType::Boolean, 1)), DatatypeMismatch);
    assert_eq!(state(stored(DataType::Bytea, "ab")), DatatypeMismatch);
    assert_eq!(state(stored(DataType::Text, &b"ab"[..])), DatatypeMismatch);
    assert_eq!(state(stored(DataType::Date, Value::Timestamp(1))), DatatypeMismatch);
    assert_eq!(state(stored(DataType::Uuid, 1)), DatatypeMismatch);
    assert_eq!(state(stored(DataType::Varchar(2), "abc")), StringDataRightTruncation);
    assert_eq!(state(stored(DataType::Integer, "x")), InvalidTextRepresentation);
    assert_eq!(state(stored(DataType::Date, "1970-13-01")), DatetimeFieldOverflow);
    assert_eq!(state(stored(DataType::Integer, None::<i32>)), NotNullViolation);
    assert_eq!(state(stored(DataType::Real, f64::MAX)), NumericValueOutOfRange);
    let error = stored(DataType::Integer, 1_i64 << 31).unwrap_err();
    assert_eq!(error.to_string(), "column \"v\": integer out of range");
    assert_eq!(error.kind(), ErrorKind::Value);
    assert!(std::error::Error::source(&error).is_some());
}

/// A key goes the same way as a value.
#[test]
fn keys_are_checked_as_values_are() -> Result<()> {
    let db = filled(3, 1);
    db.transaction(|tx| {
        let account = tx.table("account")?;
        assert!(
            account.get(2_i64)?.is_some()
                && account.get("2")?.is_some()
                && account.get(Value::SmallInt(2))?.is_some()
        );
        assert_eq!(state(account.get(1_i64 << 40)), SqlState::NumericValueOutOfRange);
        assert_eq!(state(account.get(1.0)), SqlState::DatatypeMismatch);
        assert!(account.get(None::<i32>)?.is_none(), "nothing equals NULL");
        assert!(!account.delete(None::<i32>)?);
        Ok(())
    })
}

#[test]
fn cells_are_read_as_what_they_are_or_not_at_all() -> Result<()> {
    let db = accounts();
    db.transaction(|tx| {
        let account = tx.table("account")?;
        account.insert((1, None::<&str>, i64::MAX))?;
        let row = account.get(1)?.expect("inserted");
        assert_eq!(state(row.get::<String>("owner")), SqlState::NullValueNotAllowed);
        assert_eq!(state(row.get::<i64>("owner")), SqlState::NullValueNotAllowed);
        assert_eq!(row.get::<Option<i64>>("owner")?, None, "NULL is of every type");
        assert_eq!(state(row.get::<i32>("balance")), SqlState::NumericValueOutOfRange);
        assert_eq!(state(row.get::<u8>("balance")), SqlState::NumericValueOutOfRange);
        assert_eq!(state(row.get::<bool>("balance")), SqlState::DatatypeMismatch);
        assert_eq!(state(row.get::<String>("balance")), SqlState::DatatypeMismatch);
        assert_eq!(state(row.get::<f64>("balance")), SqlState::DatatypeMismatch, "a double has 53 bits");
        assert_eq!(row.get::<u64>("balance")?, i64::MAX as u64);
        assert_eq!(row.get::<Decimal>("balance")?, Decimal::from(i64::MAX));
        let error = row.get::<i32>("balance").unwrap_err();
        assert_eq!(error.to_string(), format!("column \"balance\": {} does not fit i32", i64::MAX));
        Ok(())
    })?;
    let account = db.table("account")?;
    assert_eq!(state(account.column::<bool>("balance")), SqlState::DatatypeMismatch);
    assert_eq!(state(account.column::<String>("owner")), SqlState::DatatypeMismatch, "it may be NULL");
    assert!(account.column::<Option<String>>("owner").is_ok() && account.column::<Value>("owner").is_ok());
    Ok(())
}

/// Two databases whose tables have the same name and number: handles of one are errors in the other, and harm neither.
#[test]
fn handles_of_another_database_are_errors() -> Result<()> {
    let (db, other) = (filled(3, 100), Database::in_memory()?);
    let definition = TableDefinition::new("account")
        .column(ColumnDefinition::new("balance", DataType::BigInt))
        .primary_key(&["balance"]);
    let table = other.create_table(definition)?;
    let balance = db.table("account")?.column::<i64>("balance")?;

    let refused = |outcome: Error| {
        assert_eq!((outcome.sqlstate(), outcome.kind()), (SqlState::UndefinedTable, ErrorKind::Statement));
        assert_eq!(outcome.message(), "relation \"account\" belongs to another database");
    };
    db.transaction(|tx| {
        refused(tx.table(&table).unwrap_err());
        tx.table("account")?.insert((3, "Ann", 100))
    })?;
    let tx = db.begin()?;
    refused(tx.table(&table).unwrap_err());
    drop(tx);
    refused(db.snapshot().table(&table).map(drop).unwrap_err());
    refused(db.snapshot().reader()?.table(&table).map(drop).unwrap_err());
    other.transaction(|tx| {
        let account = tx.table(&table)?;
        account.insert(5)?;
        let row = account.get(5)?.expect("inserted");
        // The third column of the first table of one database; that of the other one has a single column.
        assert_eq!(state(row.get(balance)), SqlState::UndefinedColumn);
        assert_eq!(state(row.update([(balance, 1)])), SqlState::UndefinedColumn);
        assert_eq!(state(account.update(5, [(balance, 1)])), SqlState::UndefinedColumn);
        Ok(())
    })?;
    assert_eq!(ids(db.snapshot().table("account")?.scan())?, [0, 1, 2, 3]);
    Ok(())
}

/// More columns than lie on the stack, and more than a set of columns tells apart.
#[test]
fn wide_rows() -> Result<()> {
    let db = Database::in_memory()?;
    let mut definition = TableDefinition::new("wide");
    for column in 0..100 {
        definition = definition.column(ColumnDefinition::new(format!("c{column}"), DataType::Integer));
    }
    let wide = db.create_table(definition.primary_key(&["c99", "c0"]))?;
    db.transaction(|tx| {
        let wide = tx.table(&wide)?;
        wide.insert((0..100).collect::<Vec<i32>>())?;
        let names: Vec<String> = (1..99).map(|column| format!("c{column}")).collect();
        let changes: Vec<(&str, i32)> = names.iter().map(|name| (name.as_str(), -1)).collect();
        assert!(wide.update((99, 0), changes)?);
        assert!(wide.upsert(
            (0..100).map(|column| column * i32::from(!(1..99).contains(&column))).collect::<Vec<_>>()
        )?);
        let row = wide.get((99, 0))?.expect("there");
        assert_eq!((row.get::<i32>("c98")?, row.get::<i32>("c99")?, row.get::<i32>(0)?), (0, 99, 0));
        Ok(())
    })
}
