//! What the analysis says of statements, and that it says nothing where it does not know.

use super::*;

fn table() -> SharedTable {
    let sql = "create shared table t (id bigint, part varchar(3), n numeric(8, 2), region smallint, b boolean, d date, \
               ts timestamp, y bytea, primary key (part, id))";
    SharedTable::parse(sql).expect("a definition")
}

fn rows(sql: &str, reach: LockReach) -> RowSet {
    rows_with(sql, &[], reach)
}

fn rows_with(sql: &str, values: &[LedgerValue], reach: LockReach) -> RowSet {
    let table = table();
    let tables = BTreeMap::from([(table.name.clone(), table.clone())]);
    let statement =
        PortableStatement::parse(sql, values, &tables).unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows_of(&statement, &table, reach)
}

fn text(text: &str) -> KeyValue {
    KeyValue::Text(text.to_owned())
}

fn number(digits: &str) -> KeyValue {
    KeyValue::Number(Decimal::parse(digits).expect("a number"))
}

/// `part = 'x' and id between 1 and 5` as text, for comparison.
fn shown(rows: &RowSet) -> String {
    let table = table();
    let value = |value: &KeyValue| match value {
        KeyValue::Number(number) => {
            let sign = if number.is_negative { "-" } else { "" };
            let point = if number.fraction.is_empty() { "" } else { "." };
            format!("{sign}{:0>1}{point}{}", number.whole, number.fraction)
        }
        KeyValue::Text(text) => text.clone(),
        other => format!("{other:?}"),
    };
    let bound = |bound: &Option<KeyValue>| bound.as_ref().map(value).unwrap_or_default();
    let interval = |(column, interval): (&usize, &Interval)| {
        format!("{} [{},{}]", table.columns[*column].name, bound(&interval.low), bound(&interval.high))
    };
    match rows {
        RowSet::All => "all".to_owned(),
        RowSet::Keys(keys) => {
            let key = |key: &Vec<KeyValue>| key.iter().map(value).collect::<Vec<_>>().join(",");
            format!("keys {}", keys.iter().map(key).collect::<Vec<_>>().join(" "))
        }
        RowSet::Boxes(boxes) => {
            let one = |rows: &RowBox| rows.0.iter().map(interval).collect::<Vec<_>>().join(" ");
            format!("boxes {}", boxes.iter().map(one).collect::<Vec<_>>().join(" | "))
        }
    }
}

#[test]
fn conditions_become_keys_and_boxes() {
    for (condition, expected) in [
        ("id = 5 and part = 'x'", "keys x,5"),
        ("'x' = part and 5.0 = id", "keys x,5"),
        ("id = 5", "boxes id [5,5]"),
        ("id > 5 and id <= 9", "boxes id [5,9]"),
        ("5 < id and 9 >= id", "boxes id [5,9]"),
        ("id between -3 and 4 and part = 'x'", "boxes id [-3,4] part [x,x]"),
        ("part = 'x' and id in (1, 2)", "keys x,1 x,2"),
        ("part in ('x', 'y') and id in (1, 2)", "keys x,1 x,2 y,1 y,2"),
        ("(part, id) in (('x', 1), ('y', 2))", "keys x,1 y,2"),
        ("part = 'x' and (id = 1 or id = 2)", "keys x,1 x,2"),
        ("id = 1 or region = 2", "boxes id [1,1] | region [2,2]"),
        ("part = 'x' and id = 5 and not (region = 7) and n <> 3", "keys x,5"),
        ("id = 5 and region not in (1, 2) and n not between 1 and 2", "boxes id [5,5]"),
        ("id = 5 and d is not null and n = region", "boxes id [5,5]"),
        ("id = 5 and id = 6", "keys "),
        ("id = 5 and id = null", "boxes id [5,5]"),
        ("n >= 1.50 and n < 2", "boxes n [1.5,2]"),
        ("d = '2024-02-29' and b = true", "boxes b [Boolean(true),Boolean(true)] d [2024-02-29,2024-02-29]"),
        ("ts > '2024-02-29 01:02:03.5'", "boxes ts [2024-02-29 01:02:03.500000,]"),
    ] {
        let sql = format!("delete from t where {condition}");
        assert_eq!(shown(&rows(&sql, LockReach::Matching)), expected, "{condition}");
    }
    let values = [LedgerValue::Integer(-5), LedgerValue::Text("x".into()), LedgerValue::Bytes(vec![1])];
    let found =
        rows_with("delete from t where id = $1 and part = $2 and y = $3", &values, LockReach::Scanned);
    assert_eq!(found, RowSet::Keys(vec![vec![text("x"), number("-5")]]));
}

#[test]
fn what_could_fail_for_other_rows_or_differ_between_databases_is_about_all_rows() {
    for condition in [
        "id + 1 = 5",
        "id = 5 and part = 'x' and n * region > 3",
        "5 + id > 3 and part = 'x'",
        "(id) = 5",
        "case when id = 5 then true else false end",
        "coalesce(id, 0) = 5",
        "b",
        "id = '5'",
        "part = 5",
        "id = 5.5",
        "d = '2024-2-9'",
        "d = '2023-02-29'",
        "d = '2024-02-09 00:00:00'",
        "ts = '2024-02-09'",
        "ts = '2024-02-09 24:00:00'",
        "b = 1",
        "part = d",
        "1 = 1",
        "id = - region",
        "part = 'x' and id = 5 and region = b",
    ] {
        let sql = format!("delete from t where {condition}");
        assert_eq!(rows(&sql, LockReach::Matching), RowSet::All, "{condition}");
    }
    assert_eq!(rows("delete from t", LockReach::Matching), RowSet::All);
}

#[test]
fn an_assigned_column_says_nothing_of_a_row_and_the_key_still_does() {
    let found = |sql| shown(&rows(sql, LockReach::Matching));
    assert_eq!(found("update t set region = 8 where region = 7"), "all");
    assert_eq!(
        found("update t set n = coalesce(n, 1), region = 8 where region = 7 and b = true"),
        "boxes b [Boolean(true),Boolean(true)]"
    );
    assert_eq!(found("update t set n = region * 2 where region = 7"), "boxes region [7,7]");
    assert_eq!(found("update t set region = 8 where part = 'x' and id = 1 and region = 7"), "keys x,1");
}

#[test]
fn an_insert_has_the_keys_of_its_rows_if_they_are_kept_as_they_are() {
    let found = |sql| shown(&rows(sql, LockReach::Scanned));
    assert_eq!(
        found("insert into t (id, n, part) values (1, 2 * (3 + 4), 'x'), (-2, coalesce(1, 2), 'y')"),
        "keys x,1 y,-2"
    );
    for sql in [
        "insert into t (id, part) values (1 + 1, 'x')",
        "insert into t (id, part) values (1.5, 'x')",
        "insert into t (id, part) values ('1', 'x')",
        // PostgreSQL cuts the blanks: the key is 'x  '.
        "insert into t (id, part) values (1, 'x   ')",
        "insert into t (id, part) values (1, null)",
        "insert into t (id) values (1)",
    ] {
        assert_eq!(found(sql), "all", "{sql}");
    }
}

#[test]
fn where_scanned_rows_are_locked_only_one_whole_key_is_narrow() {
    for (condition, expected) in [
        ("id = 5 and part = 'x'", "keys x,5"),
        ("id = 5 and part = 'x' and region = 7", "keys x,5"),
        ("id = 5", "all"),
        ("part = 'x' and id in (1, 2)", "all"),
        ("part = 'x' and id between 1 and 2", "all"),
        ("id = 5 and id = 6", "all"),
    ] {
        assert_eq!(
            shown(&rows(&format!("delete from t where {condition}"), LockReach::Scanned)),
            expected,
            "{condition}"
        );
    }
}

#[test]
fn decimals_are_ordered_as_numbers() {
    let ordered = [
        "-12",
        "-9.5",
        "-9.25",
        "-0.5",
        "0",
        "0.05",
        "0.5",
        "0.51",
        "2",
        "10",
        "10.5",
        "9999999999999999999999",
    ];
    for (at, one) in ordered.iter().enumerate() {
        for (place, other) in ordered.iter().enumerate() {
            assert_eq!(number(one).cmp(&number(other)), at.cmp(&place), "{one} {other}");
        }
    }
    assert_eq!(number("-0.0"), number("000"));
    assert_eq!(number("007.50"), number("7.5"));
    assert_eq!(Decimal::parse("1e5"), None);
}

#[test]
fn too_many_boxes_are_widened() {
    let list: Vec<String> = (0..2_000).map(|id| id.to_string()).collect();
    let sql = format!("delete from t where id in ({})", list.join(", "));
    assert_eq!(shown(&rows(&sql, LockReach::Matching)), "boxes id [0,1999]");
    let sql = format!(
        "delete from t where part = 'x' and id in ({}) and region in (1, 2)",
        list[..1_000].join(", ")
    );
    // Two thousand pairs are too many; the thousand keys are enough.
    let RowSet::Keys(keys) = rows(&sql, LockReach::Matching) else { panic!("keys") };
    assert_eq!(keys.len(), 1_000);
}
