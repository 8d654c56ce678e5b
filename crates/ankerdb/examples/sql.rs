//! A small command line for SQL: statements from standard input, separated by semicolons, and their results.
//!
//! `echo "CREATE TABLE t (i int); INSERT INTO t VALUES (1), (2); SELECT sum(i) FROM t" | cargo run --release -p ankerdb --example sql`

use ankerdb::{Database, Result, Row, Value};
use std::io::{Read, Write};

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input)?;
    let db = Database::in_memory()?;
    let mut output = std::io::stdout().lock();
    for sql in input.split(';').map(str::trim).filter(|sql| !sql.is_empty()) {
        if let Err(error) = run(&db, sql, &mut output) {
            writeln!(output, "{} {error}", error.sqlstate().code())?;
            if let Some(hint) = error.hint() {
                writeln!(output, "HINT: {hint}")?;
            }
        }
    }
    Ok(())
}

/// Runs one statement and writes its rows, or how many it has written.
fn run(db: &Database, sql: &str, output: &mut impl Write) -> Result<()> {
    let statement = db.prepare(sql)?;
    if statement.columns().is_empty() {
        let count = db.execute(&statement, ())?;
        shown(writeln!(output, "{count} rows"));
        return Ok(());
    }
    let names: Vec<&str> = statement.columns().iter().map(|column| &*column.name).collect();
    shown(writeln!(output, "{}", names.join(" | ")));
    for row in db.query(&statement, ())? {
        shown(writeln!(output, "{}", cells(&row?)?.join(" | ")));
    }
    Ok(())
}

/// The cells of a row as SQL shows them.
fn cells(row: &Row) -> Result<Vec<String>> {
    let text = |position: usize| -> Result<String> {
        Ok(match row.get::<Value>(position)? {
            Value::Null => "NULL".into(),
            Value::Text(text) => text.into(),
            Value::Numeric(number) => number.to_string(),
            value => match value.as_integer() {
                Some(number) => number.to_string(),
                None => format!("{value:?}"),
            },
        })
    };
    (0..row.columns().len()).map(text).collect()
}

/// The reader of the output may stop early.
fn shown(written: std::io::Result<()>) {
    if written.is_err() {
        std::process::exit(0);
    }
}
