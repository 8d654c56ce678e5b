//! Tables of as many rows as an analytical query is made for, filled by the server.

use crate::schema::{SchemaColumn, SchemaTable};
use crate::types::TYPES;
use crate::types::Type::{self, *};
use fastrand::Rng;

/// Rows of the table that subqueries read, for each row around them.
const FEW_ROWS: usize = 12;
/// How a number is made of a row's: it is multiplied by one of these.
const FACTORS: [u32; 4] = [1, 1, 7919, 104_729];

/// Two large tables, of which the first refers to the second, and a small one.
pub(super) struct PropertyTables {
    /// In this order. The second column of the first one, `ref`, is an `id` of the second, if that has it.
    pub(super) tables: Vec<SchemaTable>,
    /// What makes and fills them, and changes some rows.
    pub(super) statements: Vec<String>,
}

impl PropertyTables {
    /// Of which the first has so many rows.
    pub(super) fn random(rng: &mut Rng, rows: usize) -> PropertyTables {
        let mut made = PropertyTables { tables: Vec::new(), statements: Vec::new() };
        for (number, rows) in [rows, rows / 4, FEW_ROWS].into_iter().enumerate() {
            made.table(rng, number, rows.max(1));
        }
        made
    }

    fn table(&mut self, rng: &mut Rng, number: usize, rows: usize) {
        let name = format!("t{number}");
        let mut columns = vec![column("id", Int)];
        let mut values = vec!["i".to_owned()];
        if number == 0 {
            columns.push(column("ref", Int));
            // Some rows have no partner, and neighbours have neighbours.
            values.push(format!("(i / 3 + i % 2 * 5) % {}", (rows / 4).max(1) + 50));
        }
        for position in 0..rng.usize(4..=7) {
            let kind = *rng.choice(&TYPES).unwrap_or(&Int);
            let required = rng.u8(..3) == 0;
            let value = value(kind, &number_of_row(rng, rows));
            values.push(match required {
                true => value,
                false => format!("CASE WHEN i % {} = 0 THEN NULL ELSE {value} END", rng.u8(3..40)),
            });
            let name = format!("c{position}");
            columns.push(SchemaColumn { name, kind, required, unique: false });
        }
        let declared = columns.iter().skip(1).map(|column| {
            let required = if column.required { " NOT NULL" } else { "" };
            format!(", {} {}{required}", column.name, column.kind.declared())
        });
        let declared: String = declared.collect();
        self.statements.push(format!("CREATE TABLE {name} (id integer PRIMARY KEY{declared})"));
        let values = values.join(", ");
        self.statements
            .push(format!("INSERT INTO {name} SELECT {values} FROM generate_series(1, {rows}) AS g(i)"));
        if rng.bool() {
            let changed = &columns[rng.usize(1..columns.len())];
            let other = format!("(SELECT min(o.{0}) FROM {name} AS o)", changed.name);
            let other = if changed.kind == Bool { "true".to_owned() } else { other };
            let (part, rest) = (rng.u32(50..5000), rng.u32(..50));
            if changed.kind.is_number() || changed.kind == Bool || changed.kind == Date {
                let change =
                    format!("UPDATE {name} SET {} = {other} WHERE id % {part} = {rest}", changed.name);
                self.statements.push(change);
            }
        }
        if rng.bool() {
            let (part, rest) = (rng.u32(50..5000), rng.u32(..50));
            self.statements.push(format!("DELETE FROM {name} WHERE id % {part} = {rest}"));
        }
        self.tables.push(SchemaTable { name, columns });
    }
}

fn column(name: &str, kind: Type) -> SchemaColumn {
    SchemaColumn { name: name.to_owned(), kind, required: true, unique: name == "id" }
}

/// A number that is made of the row's, `i`: few or many, in order or not.
fn number_of_row(rng: &mut Rng, rows: usize) -> String {
    let factor = *rng.choice(&FACTORS).unwrap_or(&1);
    let many = *rng.choice(&[2, 7, 100, 1000, 70_000, rows as u32 + 1]).unwrap_or(&7);
    match rng.u8(..3) {
        0 => format!("(i / {})::bigint", rng.u32(1..200)),
        _ => format!("(i::bigint * {factor} % {many})"),
    }
}

/// A value of that type for a number. Values that are equal are written alike.
fn value(kind: Type, number: &str) -> String {
    match kind {
        Bool => format!("({number} % 2 = 0)"),
        SmallInt => format!("({number} % 30000 - 5)::smallint"),
        Int => format!("({number} - 50)::integer"),
        BigInt => format!("({number} * 1000003 - 7)"),
        Real => format!("({number}::real / 4)"),
        Double => format!("({number}::double precision / 4)"),
        Numeric => format!("({number}::numeric(12,2) / 100)"),
        Text => {
            format!("(CASE WHEN {number} % 3 = 0 THEN 'a text of some length, ' ELSE 'a' END || {number})")
        }
        Varchar => format!("substr('v' || {number}, 1, 8)"),
        Char => format!("substr('c' || {number}, 1, 4)"),
        Date => format!("(date '2020-01-01' + ({number} % 3000)::integer)"),
        Timestamp => {
            format!("(timestamp '2020-01-01 00:00' + ({number} % 100000)::integer * interval '1 minute')")
        }
        TimestampTz => {
            format!(
                "(timestamptz '2020-01-01 00:00+00' + ({number} % 100000)::integer * interval '1 minute')"
            )
        }
        Time => format!("(time '00:00' + ({number} % 1440)::integer * interval '1 minute')"),
        Interval => format!("(({number} % 100)::integer * interval '1 hour')"),
        Bytea => format!("('\\x' || lpad(({number} % 10000)::text, 4, '0'))::bytea"),
        Uuid => format!("('00000000-0000-0000-0000-' || lpad({number}::text, 12, '0'))::uuid"),
    }
}
