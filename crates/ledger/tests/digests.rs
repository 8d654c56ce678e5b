//! Equal digests: rows of every type are written through all three databases, and what their triggers, or their member, report
//! is the same byte for byte, and what this crate computes itself.

mod products;

use ankerdb_ledger::change::{RowChange, digest_hash, in_digest_order};
use ankerdb_ledger::definition::SharedTable;
use ankerdb_ledger::member::Member;
use ankerdb_ledger::statement::PortableStatement;
use ankerdb_ledger::value::{LedgerValue, row_hash};
use products::servers;
use std::collections::BTreeMap;

const TABLE: &str = "CREATE SHARED TABLE everything (id bigint, part varchar(20), b boolean, s smallint, i integer, n numeric(20, 4), \
     v varchar(50), t text, y bytea, d date, ts timestamp, PRIMARY KEY (part, id))";

/// Rows; more with LEDGER_ROWS.
const ROWS: usize = 2_000;

struct Rows(fastrand::Rng);

impl Rows {
    fn text(&mut self) -> String {
        let letters =
            ['a', 'Z', ' ', '\'', '\\', '"', 'ä', 'ß', '中', '😀', '\n', '%', ';', '-', '$', '\u{1}'];
        (0..self.0.usize(0..8)).map(|_| letters[self.0.usize(0..letters.len())]).collect()
    }

    fn or_null(&mut self, value: LedgerValue) -> LedgerValue {
        if self.0.u8(0..8) == 0 { LedgerValue::Null } else { value }
    }

    fn date(&mut self) -> String {
        format!("{:04}-{:02}-{:02}", self.0.u32(1000..=9999), self.0.u32(1..=12), self.0.u32(1..=28))
    }

    fn timestamp(&mut self) -> String {
        let fraction = ["", ".5", ".123456", ".000001", ".100000"][self.0.usize(0..5)];
        let (hour, minute, second) = (self.0.u32(0..24), self.0.u32(0..60), self.0.u32(0..60));
        format!("{} {hour:02}:{minute:02}:{second:02}{fraction}", self.date())
    }

    fn row(&mut self, id: i64) -> Vec<LedgerValue> {
        let small = [i64::from(i16::MIN), -1, 0, 1, i64::from(i16::MAX)];
        let wide = [i64::from(i32::MIN), -7, 0, 12345, i64::from(i32::MAX)];
        let sign = if self.0.bool() { "-" } else { "" };
        let numbers = [
            format!("{sign}{}.{:04}", self.0.u64(0..10_000_000_000_000_000), self.0.u32(0..10_000)),
            format!("{sign}{}", self.0.u64(0..100)),
            format!("{sign}0.{}", self.0.u32(1..10)),
        ];
        let texts = [self.text(), self.text(), self.text()];
        let bytes = (0..self.0.usize(0..6)).map(|_| self.0.u8(..)).collect();
        let (boolean, date, timestamp) = (self.0.bool(), self.date(), self.timestamp());
        let values = [
            LedgerValue::Boolean(boolean),
            LedgerValue::Integer(small[self.0.usize(0..5)]),
            LedgerValue::Integer(wide[self.0.usize(0..5)]),
            LedgerValue::Decimal(numbers[self.0.usize(0..3)].clone()),
            LedgerValue::Text(texts[0].clone()),
            LedgerValue::Text(texts[1].clone()),
            LedgerValue::Bytes(bytes),
            LedgerValue::Text(date),
            LedgerValue::Text(timestamp),
        ];
        let key = [LedgerValue::Integer(id), LedgerValue::Text(texts[2].clone())];
        let rest: Vec<LedgerValue> = values.into_iter().map(|value| self.or_null(value)).collect();
        key.into_iter().chain(rest).collect()
    }
}

fn tables() -> BTreeMap<String, SharedTable> {
    let table = SharedTable::parse(TABLE).expect("a definition");
    BTreeMap::from([(table.name.clone(), table)])
}

/// Transactions that insert, change and delete rows.
fn transactions(rows: usize) -> Vec<Vec<PortableStatement>> {
    let tables = tables();
    let mut source = Rows(fastrand::Rng::with_seed(11));
    let mut made = Vec::new();
    let mut add = |sql: &str, values: &[LedgerValue]| {
        let statement =
            PortableStatement::parse(sql, values, &tables).unwrap_or_else(|error| panic!("{sql}: {error}"));
        made.push(vec![statement]);
    };
    for first in (0..rows as i64).step_by(100) {
        let list = |from: usize| (from..from + 11).map(|at| format!("${at}")).collect::<Vec<_>>().join(", ");
        let places: Vec<String> = (0..100).map(|row| format!("({})", list(row * 11 + 1))).collect();
        let values: Vec<LedgerValue> = (first..first + 100).flat_map(|id| source.row(id)).collect();
        add(
            &format!(
                "INSERT INTO everything (id, part, b, s, i, n, v, t, y, d, ts) VALUES {}",
                places.join(", ")
            ),
            &values,
        );
    }
    let half = [LedgerValue::Integer(rows as i64 / 2)];
    add(
        "UPDATE everything SET n = n - 0.5, t = v, v = 'x' WHERE id < $1 AND n BETWEEN -1000000 AND 1000000",
        &half,
    );
    add("UPDATE everything SET i = id, b = NOT b WHERE id >= $1 AND s >= 0", &half);
    add(
        "UPDATE everything SET y = $1, v = $2 WHERE d > '5000-01-01'",
        &[LedgerValue::Bytes(vec![0, 39, 92]), LedgerValue::Null],
    );
    add("DELETE FROM everything WHERE ts < '3000-01-01 00:00:00' OR (t IS NULL AND coalesce(s, 1) = 1)", &[]);
    // Fails in all: the key is there. Its changes must not stay.
    let mut broken = made[0].clone();
    broken.insert(
        0,
        PortableStatement::parse("DELETE FROM everything WHERE id = 99", &[], &tables).expect("portable"),
    );
    made.push(broken);
    made
}

/// What a member reports of the block, and which transactions succeeded.
fn run(member: &mut dyn Member, made: &[Vec<PortableStatement>]) -> (Vec<RowChange>, Vec<bool>) {
    let tables = tables();
    member.create_table(&tables["everything"]).expect("a table");
    member.begin().expect("a block");
    let outcome = |statements: &Vec<PortableStatement>| {
        let failure = member.execute(statements, &tables).expect("a database");
        if let Some(reason) = &failure {
            println!("{}: {reason}", member.system());
        }
        failure.is_none()
    };
    let outcomes: Vec<bool> = made.iter().map(outcome).collect();
    let changes = in_digest_order(member.take_changes().expect("changes"));
    member.commit(1).expect("a commit");
    (changes, outcomes)
}

#[test]
fn all_databases_report_equal_digests_of_rows_of_every_type() {
    let servers = servers();
    let rows = std::env::var("LEDGER_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(ROWS);
    let made = transactions(rows);
    let table = tables().remove("everything").expect("the table");
    let mut reports = Vec::new();
    for server in &servers {
        let mut member = server.member().expect("a member");
        let started = std::time::Instant::now();
        let (changes, outcomes) = run(member.as_mut(), &made);
        println!("{}: {} changes, {:.2} s", member.system(), changes.len(), started.elapsed().as_secs_f64());
        assert_eq!(
            outcomes.iter().filter(|has_succeeded| !**has_succeeded).count(),
            1,
            "{}",
            member.system()
        );
        // Digests of the rows that are there are those of their contents, read by another way.
        let mut scanned = member.scan(&table).expect("rows");
        scanned.sort();
        let keys: Vec<Vec<u8>> = scanned.iter().map(|(key, _)| key.clone()).collect();
        let mut read: Vec<_> = member
            .read(&table, &keys)
            .expect("rows")
            .into_iter()
            .map(|row| (table.key_bytes(&row), row_hash(&row)))
            .collect();
        read.sort();
        assert!(scanned.len() > rows / 4 && scanned == read, "{}: {} rows", member.system(), scanned.len());
        reports.push((member.system().to_owned(), changes, outcomes, scanned));
    }
    for report in reports.get(1..).unwrap_or_default() {
        let (first, other) = (&reports[0], report);
        let differing = first.1.iter().zip(&other.1).find(|(one, other)| one != other);
        let shown = differing.map(|(one, other)| (one.show(Some(&table)), other.show(Some(&table))));
        assert_eq!(shown, None, "{} and {}", first.0, other.0);
        assert_eq!(digest_hash(&first.1), digest_hash(&other.1), "{} and {}", first.0, other.0);
        assert!(first.2 == other.2 && first.3 == other.3, "{} and {}", first.0, other.0);
    }
}
