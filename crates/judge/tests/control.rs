//! The judge judged: PostgreSQL against itself shows no difference, and one that is planted is found and made small.

use ankerdb_judge::case::{Judge, Plant};
use ankerdb_judge::fuzz;
use ankerdb_judge::known::KnownDifferences;
use ankerdb_judge::server::{Server, find_postgres};

/// Cases within which every planted mistake must be found.
const CASES: u64 = 40;

/// Two servers of PostgreSQL; `None`, with a message, where it is not installed.
fn judge(plant: Plant) -> Option<Judge> {
    let Some(binaries) = find_postgres(None) else {
        let strict = std::env::var("ANKERDB_STRICT").is_ok_and(|value| value == "1");
        assert!(!strict, "PostgreSQL 15 is missing, and ANKERDB_STRICT=1 allows no skipping");
        println!("SKIPPED: PostgreSQL 15 is not installed (on Debian: apt-get install postgresql-15)");
        return None;
    };
    let server = || Server::postgres(&binaries).expect("PostgreSQL starts");
    Some(Judge::new(server(), server(), plant).expect("PostgreSQL answers"))
}

/// Runs cases until something is found.
fn found(plant: Plant) -> Option<fuzz::FuzzReport> {
    let mut judge = judge(plant)?;
    let mut report = fuzz::FuzzReport::default();
    for seed in 1..=CASES {
        fuzz::run(&mut judge, &KnownDifferences::default(), seed, &mut report).expect("PostgreSQL answers");
        if !report.unknown.is_empty() {
            break;
        }
    }
    Some(report)
}

#[test]
fn postgresql_does_not_differ_from_itself() {
    let Some(report) = found(Plant::Nothing) else { return };
    assert_eq!(report.unknown, Vec::<String>::new());
    assert_eq!(report.cases, CASES);
}

#[test]
fn a_lost_row_is_found_and_made_small() {
    shows_in_few_lines(Plant::LostRow, "rows differ", "max(");
}

#[test]
fn a_lost_error_is_found_and_made_small() {
    shows_in_few_lines(Plant::LostError, "22012", "SELECT");
}

#[test]
fn a_wrong_type_in_one_protocol_is_found_and_made_small() {
    shows_in_few_lines(Plant::WrongType, "types differ", "asked: extended");
}

/// The first reproduction names what it must, and has no more than three tables and one statement that fills one of them
/// before the one that differs.
#[track_caller]
fn shows_in_few_lines(plant: Plant, what: &str, part: &str) {
    let Some(report) = found(plant) else { return };
    let told = report.unknown.first().expect("the planted mistake is found");
    assert!(told.contains(what) && told.contains(part), "{told}");
    let statements = told.lines().filter(|line| line.ends_with(';')).count();
    assert!((1..=5).contains(&statements), "{told}");
}
