//! Random tables: columns of all types, keys, indexes, and values that are ordinary, extreme or NULL.

use crate::tree::{Sort, Tree};
use crate::types::Type::{self, *};
use crate::types::{TYPES, quoted};
use fastrand::Rng;

/// A column.
#[derive(Debug, Clone)]
pub struct SchemaColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Type,
    /// NOT NULL.
    pub required: bool,
    /// UNIQUE, or the only column of the primary key.
    pub unique: bool,
}

/// A table. Its first column is `id`, the primary key or a part of it.
#[derive(Debug, Clone)]
pub struct SchemaTable {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<SchemaColumn>,
}

/// The largest `id` that rows get.
pub const ID_MAX: i32 = 60;

/// Two or three tables, with the statements that create and fill them.
pub fn schema(rng: &mut Rng) -> (Vec<SchemaTable>, Vec<Tree>) {
    let mut statements = Vec::new();
    let tables: Vec<SchemaTable> =
        (0..rng.usize(2..=3)).map(|number| table(rng, number, &mut statements)).collect();
    for table in &tables {
        statements.extend(filling(rng, table));
    }
    (tables, statements)
}

fn table(rng: &mut Rng, number: usize, statements: &mut Vec<Tree>) -> SchemaTable {
    let name = format!("t{number}");
    let key = *rng.choice(&[Int, Int, Int, BigInt, SmallInt]).unwrap_or(&Int);
    let mut columns = vec![SchemaColumn { name: "id".into(), kind: key, required: true, unique: true }];
    for position in 0..rng.usize(3..=7) {
        let kind = *rng.choice(&TYPES).unwrap_or(&Int);
        let (required, unique) = (rng.u8(..6) == 0, rng.u8(..12) == 0 && kind != Bool);
        columns.push(SchemaColumn { name: format!("{}{position}", short(kind)), kind, required, unique });
    }
    let mut create =
        Tree::new(Sort::Statement).text(format!("CREATE TABLE {name} (id {} PRIMARY KEY", key.declared()));
    for column in &columns[1..] {
        let required = if column.required { " NOT NULL" } else { "" };
        let unique = if column.unique { " UNIQUE" } else { "" };
        let definition = format!("{} {}{required}{unique}", column.name, column.kind.declared());
        let definition = Tree::leaf(Sort::Word, definition);
        let default = (rng.u8(..5) == 0).then(|| stored(rng, column.kind));
        create = create.optional(
            ", ",
            match default {
                Some(value) => definition.optional(" DEFAULT ", value),
                None => definition,
            },
        );
    }
    statements.push(create.text(")"));
    if rng.bool() {
        let first = rng.usize(1..columns.len());
        let method = if rng.u8(..4) == 0 { "USING hash " } else { "" };
        let column = &columns[first].name;
        statements
            .push(Tree::statement(format!("CREATE INDEX {name}_by_{column} ON {name} {method}({column})")));
    }
    SchemaTable { name, columns }
}

fn short(kind: Type) -> &'static str {
    match kind {
        Bool => "b",
        SmallInt => "s",
        Int => "i",
        BigInt => "l",
        Real => "r",
        Double => "d",
        Numeric => "n",
        Text => "x",
        Varchar => "v",
        Char => "c",
        Date => "day",
        Timestamp => "ts",
        TimestampTz => "tz",
        Time => "tm",
        Interval => "iv",
        Bytea => "y",
        Uuid => "u",
    }
}

/// An INSERT of some rows with ids of their own; each row can be left out.
fn filling(rng: &mut Rng, table: &SchemaTable) -> Option<Tree> {
    let mut ids: Vec<i32> = (1..=ID_MAX).collect();
    rng.shuffle(&mut ids);
    let count = *rng.choice(&[0, 1, 3, 8, 15, 30]).unwrap_or(&3);
    let rows: Vec<Tree> = ids[..count].iter().map(|&id| row(rng, table, id)).collect();
    // A unique column may refuse them: then the table stays empty, on both servers.
    (count > 0)
        .then(|| Tree::new(Sort::Statement).text(format!("INSERT INTO {} VALUES ", table.name)).list(rows))
}

/// A row of VALUES.
pub fn row(rng: &mut Rng, table: &SchemaTable, id: i32) -> Tree {
    let mut row = Tree::leaf(Sort::Word, format!("({id}"));
    for column in &table.columns[1..] {
        let nullable = !column.required || rng.u8(..40) == 0;
        let value = if nullable && rng.u8(..5) == 0 {
            Tree::leaf(Sort::Value(column.kind), "NULL")
        } else if rng.u8(..12) == 0 {
            Tree::leaf(Sort::Word, "DEFAULT")
        } else if column.unique {
            distinct(column.kind, id)
        } else {
            stored(rng, column.kind)
        };
        row = row.text(", ").child(value);
    }
    row.text(")")
}

/// A value of a unique column: another for each id.
fn distinct(kind: Type, id: i32) -> Tree {
    let text = match kind {
        Date => format!("2024-01-{:02}", 1 + id % 28),
        Timestamp => format!("2024-01-01 00:{:02}:00", id % 60),
        TimestampTz => format!("2024-01-01 00:{:02}:00+00", id % 60),
        Time => format!("{:02}:{:02}:00", id / 60 % 24, id % 60),
        Interval => format!("{id} days"),
        Uuid => format!("00000000-0000-0000-0000-{id:012}"),
        Bytea => format!("\\x{id:04}"),
        _ => id.to_string(),
    };
    Tree::constant(Sort::Value(kind), quoted(&text), text)
}

/// A constant as INSERT takes it: in quotes, so that it has the column's type.
pub fn stored(rng: &mut Rng, kind: Type) -> Tree {
    let text = text_of(rng, kind);
    Tree::constant(Sort::Value(kind), quoted(&text), text)
}

/// A constant as an expression has it: with its type.
pub fn constant(rng: &mut Rng, kind: Type) -> Tree {
    let text = text_of(rng, kind);
    let sort = Sort::Value(kind);
    match kind {
        Bool => Tree::constant(sort, if text == "t" { "true" } else { "false" }, text),
        Int if !text.starts_with('-') => Tree::constant(sort, text.clone(), text),
        Numeric if text.contains('.') && !text.starts_with('-') => Tree::constant(sort, text.clone(), text),
        Text => Tree::constant(sort, quoted(&text), text),
        Date if rng.bool() => Tree::leaf(sort, format!("DATE {}", quoted(&text))),
        Timestamp if rng.bool() => Tree::leaf(sort, format!("TIMESTAMP {}", quoted(&text))),
        _ if rng.bool() => Tree::leaf(sort, format!("CAST({} AS {})", quoted(&text), kind.name())),
        _ => Tree::leaf(sort, format!("{}::{}", quoted(&text), kind.name())),
    }
}

/// The text of a value: often a small one that others have, too, sometimes an extreme one.
pub fn text_of(rng: &mut Rng, kind: Type) -> String {
    let extreme = rng.u8(..12) == 0;
    let choice = |rng: &mut Rng, texts: &[&str]| (*rng.choice(texts).unwrap_or(&"")).to_owned();
    match kind {
        Bool => choice(rng, &["t", "f"]),
        SmallInt if extreme => choice(rng, &["32767", "-32768"]),
        Int if extreme => choice(rng, &["2147483647", "-2147483648"]),
        BigInt if extreme => choice(rng, &["9223372036854775807", "-9223372036854775808"]),
        SmallInt | Int | BigInt => rng.i32(-3..12).to_string(),
        Real if extreme => choice(rng, &["3.4e38", "-1e-30", "NaN", "Infinity", "-Infinity", "0.1"]),
        Double if extreme => choice(rng, &["1e300", "-1e-300", "NaN", "Infinity", "-Infinity", "0.1"]),
        // Sums of quarters are exact in every order.
        Real | Double => (f64::from(rng.i32(-8..40)) / 4.0).to_string(),
        Numeric if extreme => choice(rng, &["9999999999.99", "-9999999999.99", "0.00", "0.01"]),
        Numeric => format!("{}.{:02}", rng.i32(-5..20), rng.u8(..100)),
        Text if extreme => choice(rng, &["", " ", "a'b", "ä€😀", "A%_\\", "Zz", "0", "  pad  "]),
        Varchar if extreme => choice(rng, &["", "äöüß€", "a b ", "ABCDEFGH"]),
        Char if extreme => choice(rng, &["", "ä", "a b", "ABCD"]),
        Text | Varchar | Char => choice(rng, &["a", "b", "ab", "abc", "B", "ba", "12", "-3"]),
        Date if extreme => {
            choice(rng, &["0001-01-01", "9999-12-31", "1970-01-01", "2000-02-29", "1582-10-10"])
        }
        Date => format!("2024-{:02}-{:02}", rng.u8(1..=12), rng.u8(1..=28)),
        Timestamp if extreme => {
            choice(rng, &["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.5"])
        }
        Timestamp => format!("2024-{:02}-{:02} {:02}:30:00", rng.u8(1..=12), rng.u8(1..=28), rng.u8(..24)),
        TimestampTz if extreme => {
            choice(rng, &["1970-01-01 00:00:00+00", "2024-06-30 23:59:59.999999+05:30"])
        }
        TimestampTz => {
            format!("2024-{:02}-{:02} {:02}:30:00+02", rng.u8(1..=12), rng.u8(1..=28), rng.u8(..24))
        }
        Time if extreme => choice(rng, &["00:00:00", "24:00:00", "23:59:59.999999"]),
        Time => format!("{:02}:30:00", rng.u8(..24)),
        // None of these equals another one that is written differently: which of them a group shows is anyone's choice.
        Interval if extreme => {
            choice(rng, &["1 mon", "-1 year -3 days", "100:00:00.000001", "178000000 years", "-00:00:01"])
        }
        Interval => {
            choice(rng, &["1 day", "02:30:00", "-3 days", "1 mon 1 day", "1 day 12:00:00", "00:00:00"])
        }
        Bytea if extreme => choice(rng, &["\\x", "\\x00ff00", "\\xdeadbeef"]),
        Bytea => choice(rng, &["\\x61", "\\x6162", "\\x62"]),
        Uuid if extreme => {
            choice(rng, &["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"])
        }
        Uuid => format!("00000000-0000-0000-0000-00000000000{}", rng.u8(..4)),
    }
}
