//! The manual's tables against the code: what one has and the other lacks.

use crate::chapter::{blocks, chapter, front_page, quoted, root, table_rows};
use crate::client::Client;
use crate::support::server::Server;
use crate::support::{run, text};
use ankerdb_engine::{BitLength, DataType, Database, ObjectKind, PackedType, RangeType, SystemType};
use ankerdb_sql::{SqlEngine, SqlOptions};
use std::collections::{BTreeMap, BTreeSet};

/// Names in backquotes in the first cells of the tables below a heading.
fn names(text: &str, heading: &str) -> BTreeSet<String> {
    let rows = table_rows(text, heading);
    assert!(!rows.is_empty(), "no table below {heading}");
    rows.iter().flat_map(|row| quoted(&row[0])).map(str::to_owned).collect()
}

/// Fails unless both have the same names.
fn assert_same(what: &str, manual: &BTreeSet<String>, code: &BTreeSet<String>) {
    let lacking: Vec<_> = code.difference(manual).collect();
    let stale: Vec<_> = manual.difference(code).collect();
    assert!(lacking.is_empty(), "{what} that the manual lacks: {lacking:?}");
    assert!(stale.is_empty(), "{what} of the manual that do not exist: {stale:?}");
}

#[test]
fn every_flag_of_the_server_is_in_the_manual() {
    let help = text(&run(&["serve", "--help"]).stdout);
    let flags =
        help.lines().filter_map(|line| line.trim_start().trim_start_matches("-h, ").strip_prefix("--"));
    let flags =
        flags.filter_map(|flag| flag.split([' ', '=']).next()).map(|flag| format!("--{flag}")).collect();
    assert_same("flags", &names(&chapter("settings.md"), "The server's flags"), &flags);
}

#[test]
fn every_setting_is_in_the_manual_with_its_default() {
    let server = Server::start(&["--in-memory", "--memory-limit", "4GB"]);
    let mut client = Client::connect(&server);
    client.ask("SHOW ALL");
    let answer = client.answer();
    let shown = answer.iter().skip(1).map(|line| line.split(" | ").map(str::trim).collect::<Vec<_>>());
    let code: BTreeMap<String, String> =
        shown.map(|cells| (cells[0].to_owned(), cells[1].to_owned())).collect();
    let text = chapter("settings.md");
    assert_same("settings", &names(&text, "Session settings"), &code.keys().cloned().collect());
    for row in table_rows(&text, "Session settings") {
        for name in quoted(&row[0]).into_iter().filter(|_| !row[1].is_empty()) {
            assert_eq!(quoted(&row[1]), [code[name].as_str()], "the default of {name}");
        }
    }
}

/// A value of each type; a new one does not compile here until it is thought of.
fn in_manual(data_type: DataType) -> &'static str {
    match data_type {
        DataType::Boolean => "boolean",
        DataType::SmallInt => "smallint",
        DataType::Integer => "integer",
        DataType::BigInt => "bigint",
        DataType::Real => "real",
        DataType::DoublePrecision => "double precision",
        DataType::Numeric { .. } => "numeric(p, s)",
        DataType::Number => "numeric",
        DataType::Text => "text",
        DataType::Varchar(_) => "varchar(n)",
        DataType::Char(_) => "char(n)",
        DataType::Date => "date",
        DataType::Timestamp(_) => "timestamp",
        DataType::TimestampTz(_) => "timestamptz",
        DataType::Time(_) => "time",
        DataType::Interval(_) => "interval",
        DataType::Bytea => "bytea",
        DataType::Uuid => "uuid",
        DataType::Json => "json",
        DataType::Jsonb => "jsonb",
        DataType::Packed(PackedType::Bit(_)) => "bit(n)",
        DataType::Packed(PackedType::Varbit(_)) => "varbit(n)",
        DataType::Packed(packed) => packed.catalog_name(),
        // Users give them names.
        DataType::Enum(labels) => labels.name(),
        DataType::System(system) => system.name(),
    }
}

/// As many as there are, so that the list above has each.
const TYPES: [DataType; 38] = [
    DataType::Boolean,
    DataType::SmallInt,
    DataType::Integer,
    DataType::BigInt,
    DataType::Real,
    DataType::DoublePrecision,
    DataType::Numeric { precision: 10, scale: 2 },
    DataType::Number,
    DataType::Text,
    DataType::Varchar(5),
    DataType::Char(5),
    DataType::Date,
    DataType::TIMESTAMP,
    DataType::TIMESTAMPTZ,
    DataType::TIME,
    DataType::INTERVAL,
    DataType::Bytea,
    DataType::Uuid,
    DataType::Json,
    DataType::Jsonb,
    DataType::Packed(PackedType::Inet),
    DataType::Packed(PackedType::Cidr),
    DataType::Packed(PackedType::TimeTz),
    DataType::Packed(PackedType::Range(RangeType::Integer)),
    DataType::Packed(PackedType::Range(RangeType::BigInt)),
    DataType::Packed(PackedType::Range(RangeType::Date)),
    DataType::Packed(PackedType::Range(RangeType::Timestamp)),
    DataType::Packed(PackedType::Range(RangeType::TimestampTz)),
    DataType::Packed(PackedType::Bit(BitLength::ANY)),
    DataType::Packed(PackedType::BITS),
    DataType::System(SystemType::Oid),
    DataType::System(SystemType::Name),
    DataType::System(SystemType::Char),
    DataType::System(SystemType::Object(ObjectKind::Class)),
    DataType::System(SystemType::Object(ObjectKind::Type)),
    DataType::System(SystemType::Object(ObjectKind::Function)),
    DataType::System(SystemType::Object(ObjectKind::Namespace)),
    DataType::System(SystemType::Object(ObjectKind::Role)),
];

#[test]
fn every_type_is_in_the_manual_with_names_that_work() {
    let text = chapter("sql.md");
    let code = TYPES.iter().map(|data_type| in_manual(*data_type).to_owned()).collect();
    assert_same("types", &names(&text, "Types"), &code);
    let server = Server::start(&["--in-memory"]);
    let mut client = Client::connect(&server);
    for row in table_rows(&text, "Types") {
        for name in quoted(&row[0]).into_iter().chain(quoted(&row[1])) {
            let name = name.replace("(p, s)", "(9, 2)").replace("(n)", "(9)");
            client.ask(&format!("SELECT CAST(NULL AS {name})"));
            assert_eq!(client.answer().last().map(String::as_str), Some("NULL"), "{name}");
        }
    }
}

#[test]
fn every_function_is_in_the_manual() {
    let options = SqlOptions { olap_threads: 1, memory_limit_bytes: 256 << 20 };
    let engine = SqlEngine::new(Database::new(), options).expect("an engine");
    assert_same("functions", &names(&chapter("functions.md"), "Functions"), &engine.function_names());
}

/// The codes in the source: the enumeration has no list of its variants.
#[test]
fn every_error_code_is_in_the_manual() {
    let path = root().join("crates/base/src/error.rs");
    let source = std::fs::read_to_string(path).expect("the source");
    let codes = source.lines().filter_map(|line| line.trim().strip_suffix("\",")?.split_once(" = \""));
    let codes: BTreeSet<String> = codes.map(|(_, code)| code.to_owned()).collect();
    assert!(codes.len() > 50, "only {} codes: the source has changed its ways", codes.len());
    assert_same("error codes", &names(&chapter("errors.md"), "Error codes"), &codes);
}

/// The README's program is the quick start of the crate's documentation, which runs as a test.
#[test]
fn the_program_of_the_readme_is_one_that_is_tested() {
    let source = std::fs::read_to_string(root().join("crates/ankerdb/src/lib.rs")).expect("the source");
    let documentation = source.lines().filter_map(|line| line.strip_prefix("//!"));
    let documentation = documentation.map(|line| line.strip_prefix(' ').unwrap_or(line));
    let shown = documentation.filter(|line| !line.starts_with("# ") || line.starts_with("# Quick start"));
    let tested = blocks("lib.rs", &shown.collect::<Vec<_>>().join("\n"));
    let readme = blocks("README.md", &front_page());
    let program = readme.iter().find(|block| block.kind == "rust").expect("a program");
    assert_eq!(program.text, tested[0].text);
}
