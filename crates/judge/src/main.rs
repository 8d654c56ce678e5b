//! The judge's command.
//!
//! ```text
//! ankerdb-judge fuzz  --ankerdb PATH [--postgres DIR] [--slt DIR] [--known FILE] [--seed S] [--minutes N | --cases N]
//!                     [--most N]                        ends after N unexplained differences, else after 30
//!                     [--data-dir DIR]                  AnKerDB keeps its data in folders in DIR, each of which is read again
//! ankerdb-judge control [--plant lost-row|lost-error|wrong-type] [--seed S] [--cases N]    PostgreSQL against itself
//! ankerdb-judge suite --ankerdb PATH FOLDER ... [--setup FILE] [--details FILE]
//!                     public suites: what PostgreSQL answers, AnKerDB must; FILE is run before each file
//! ankerdb-judge crash --ankerdb PATH [--rounds N] [--seed S] [--folder DIR] [--plant loss|stale-backup|torn-backup]
//!                     kills a server that keeps its data, and its backups, and looks whether all that it acknowledged is there
//! ankerdb-judge properties --ankerdb PATH [--rows N] [--seed S] [--minutes N | --cases N] [--plant lost-row]
//!                     queries over tables of N rows, without PostgreSQL: their answers must fit together
//! ankerdb-judge fill FILE ...                           writes PostgreSQL's answers into .slt files
//! ```
//! Exit codes: 0 no unexplained difference, 1 some, 2 the judge could not do its work, 3 PostgreSQL is missing.

#![forbid(unsafe_code)]

use ankerdb_judge::case::{Judge, Plant};
use ankerdb_judge::known::KnownDifferences;
use ankerdb_judge::properties::PropertyReport;
use ankerdb_judge::server::{Keeping, Server, find_postgres};
use ankerdb_judge::{crash, fill, fuzz, properties, script, suite};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Unknown differences after which fuzzing stops.
const UNKNOWN_MAX: usize = 30;

/// Rounds of the kill test if none are given.
const CRASH_ROUNDS: u64 = 20;

/// Rows of the largest table, if no number is given: more than make queries compile.
const PROPERTY_ROWS: usize = 80_000;

/// Cases if neither a time nor a number is given.
const CASES: u64 = 60;

fn main() -> ExitCode {
    match judge() {
        Ok(code) => code,
        Err(told) => {
            eprintln!("ankerdb-judge: {told}");
            ExitCode::from(2)
        }
    }
}

/// Options by name, and the words without one.
struct Arguments {
    options: HashMap<String, String>,
    words: Vec<String>,
}

impl Arguments {
    fn read() -> Result<Arguments, String> {
        let (mut options, mut words) = (HashMap::new(), Vec::new());
        let mut given = std::env::args().skip(1);
        while let Some(word) = given.next() {
            match word.strip_prefix("--") {
                Some(name) => {
                    let value = given.next().ok_or_else(|| format!("--{name} needs a value"))?;
                    options.insert(name.to_owned(), value);
                }
                None => words.push(word),
            }
        }
        let known = [
            "ankerdb", "postgres", "slt", "known", "seed", "minutes", "cases", "plant", "most", "details",
            "setup", "rounds", "folder", "data-dir", "rows",
        ];
        match options.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(format!("unknown option --{name}")),
            None => Ok(Arguments { options, words }),
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.options.get(name).map(PathBuf::from)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        let parse =
            |text: &String| text.parse::<T>().map_err(|_| format!("--{name} must be a number, not {text}"));
        self.options.get(name).map(parse).transpose()
    }
}

/// The kill test, which needs no PostgreSQL.
fn crashed(arguments: &Arguments) -> Result<ExitCode, String> {
    let told = |error: io::Error| error.to_string();
    let seed = arguments.number("seed")?.unwrap_or_else(|| fastrand::u64(..1 << 32));
    let own = std::env::temp_dir().join(format!("ankerdb-crash-{}", std::process::id()));
    let plant = arguments.options.get("plant").map(|name| {
        let wanted = "loss, stale-backup or torn-backup";
        crash::Plant::named(name).ok_or_else(|| format!("--plant {name}: it is {wanted}"))
    });
    let plan = crash::Plan {
        binary: arguments.path("ankerdb").ok_or("--ankerdb PATH is needed")?,
        folder: arguments.path("folder").unwrap_or(own),
        rounds: arguments.number("rounds")?.unwrap_or(CRASH_ROUNDS),
        seed,
        plant: plant.transpose()?,
    };
    crash::empty_folder(&plan.folder).map_err(told)?;
    let report = crash::run(&plan).map_err(told)?;
    println!(
        "crash: seed {seed}, {} kills, {} of a recovery, {} commits acknowledged, {} checkpoints, \
         {} backups restored, {} of them incremental, {} backups killed, {} violations",
        report.kills + report.kills_in_recovery,
        report.kills_in_recovery,
        report.commits,
        report.checkpoints,
        report.backups,
        report.incremental_backups,
        report.killed_backups,
        report.violations.len()
    );
    report.violations.iter().for_each(|violation| println!("  {violation}"));
    if report.violations.is_empty() {
        std::fs::remove_dir_all(&plan.folder).map_err(told)?;
        return Ok(ExitCode::SUCCESS);
    }
    println!("  the folder is {}", plan.folder.display());
    Ok(ExitCode::FAILURE)
}

/// Answers over large tables, which need no PostgreSQL.
fn properties(arguments: &Arguments) -> Result<ExitCode, String> {
    let failed = |error: io::Error| error.to_string();
    let loses_row = match arguments.options.get("plant").map(String::as_str) {
        None => false,
        Some("lost-row") => true,
        Some(name) => return Err(format!("--plant {name}: it is lost-row")),
    };
    let seed: u64 = arguments.number("seed")?.unwrap_or(1);
    let rows = arguments.number("rows")?.unwrap_or(PROPERTY_ROWS);
    let limit = Limit::of(arguments)?;
    let most: usize = arguments.number("most")?.unwrap_or(UNKNOWN_MAX);
    let mut server = ankerdb(arguments)?;
    let mut report = PropertyReport { loses_row, ..PropertyReport::default() };
    while report.violations.len() < most && limit.has_room(report.cases) {
        let seed = seed.wrapping_add(report.cases);
        properties::run(&mut server, seed, rows, &mut report).map_err(failed)?;
    }
    let told = |counts: Vec<String>| counts.join(", ");
    let held = told(report.held.iter().map(|(name, count)| format!("{name} {count}")).collect());
    let refused = told(report.refused.iter().map(|(code, count)| format!("{code} {count}")).collect());
    println!(
        "properties: {} cases of {rows} rows from seed {seed} in {} s; held: {held}; failed: {refused}; {} violations",
        report.cases,
        limit.begin.elapsed().as_secs(),
        report.violations.len()
    );
    Ok(if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How long random cases are made.
struct Limit {
    begin: Instant,
    cases: u64,
    end: Option<Instant>,
}

impl Limit {
    fn of(arguments: &Arguments) -> Result<Limit, String> {
        let begin = Instant::now();
        let minutes: Option<f64> = arguments.number("minutes")?;
        let cases = arguments.number("cases")?.unwrap_or(if minutes.is_some() { u64::MAX } else { CASES });
        let end = minutes.map(|minutes| begin + Duration::from_secs_f64(minutes * 60.0));
        Ok(Limit { begin, cases, end })
    }

    fn has_room(&self, cases: u64) -> bool {
        cases < self.cases && self.end.is_none_or(|end| Instant::now() < end)
    }
}

fn judge() -> Result<ExitCode, String> {
    let arguments = Arguments::read()?;
    if arguments.words.first().is_some_and(|word| word == "crash") {
        return crashed(&arguments);
    }
    if arguments.words.first().is_some_and(|word| word == "properties") {
        return properties(&arguments);
    }
    let Some(binaries) = find_postgres(arguments.path("postgres").as_deref()) else {
        eprintln!("ankerdb-judge: PostgreSQL 15 is not installed (on Debian: apt-get install postgresql-15)");
        return Ok(ExitCode::from(3));
    };
    let postgres = || Server::postgres(&binaries).map_err(|error| error.to_string());
    match arguments.words.first().map(String::as_str) {
        Some("fill") => {
            let mut postgres = postgres()?;
            for file in &arguments.words[1..] {
                let count =
                    fill::fill(&mut postgres, Path::new(file)).map_err(|error| format!("{file}: {error}"))?;
                println!("{file}: {count} records filled");
            }
            Ok(ExitCode::SUCCESS)
        }
        Some("control") => {
            let name = arguments.options.get("plant");
            let plant =
                name.map_or(Some(Plant::Nothing), |name| Plant::named(name)).ok_or("unknown --plant")?;
            let judge = Judge::new(postgres()?, postgres()?, plant).map_err(|error| error.to_string())?;
            fuzzed(judge, &arguments, &KnownDifferences::default())
        }
        Some("suite") => {
            let ankerdb = ankerdb(&arguments)?;
            let judge =
                Judge::new(postgres()?, ankerdb, Plant::Nothing).map_err(|error| error.to_string())?;
            suites(judge, &arguments)
        }
        Some("fuzz") => {
            let ankerdb = ankerdb(&arguments)?;
            let judge =
                Judge::new(postgres()?, ankerdb, Plant::Nothing).map_err(|error| error.to_string())?;
            let known = match arguments.path("known") {
                None => KnownDifferences::default(),
                Some(path) => {
                    let text = std::fs::read_to_string(&path)
                        .map_err(|error| format!("{}: {error}", path.display()))?;
                    KnownDifferences::parse(&text).map_err(|told| format!("{}: {told}", path.display()))?
                }
            };
            fuzzed(judge, &arguments, &known)
        }
        _ => Err("what shall be done? fuzz, properties, control, suite, crash or fill".into()),
    }
}

/// The command to be judged, running.
fn ankerdb(arguments: &Arguments) -> Result<Server, String> {
    let binary = arguments.path("ankerdb").ok_or("--ankerdb PATH is missing, the command to be judged")?;
    let keeping = arguments.path("data-dir").map_or(Keeping::InMemory, Keeping::In);
    Server::ankerdb(&binary, keeping).map_err(|error| format!("{}: {error}", binary.display()))
}

/// Folders of public suites.
fn suites(mut judge: Judge, arguments: &Arguments) -> Result<ExitCode, String> {
    let mut report = suite::SuiteReport::default();
    let setup = arguments.path("setup");
    for folder in &arguments.words[1..] {
        for file in suite::files(Path::new(folder)).map_err(|error| format!("{folder}: {error}"))? {
            let ran = suite::run(&mut judge, setup.as_deref(), &file, &mut report);
            ran.map_err(|error| format!("{}: {error}", file.display()))?;
        }
    }
    let mut groups: Vec<_> = report.wrong.iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
    for (name, group) in groups {
        println!("{:6} x {name}", group.count);
    }
    if let Some(path) = arguments.path("details") {
        let told = std::fs::write(&path, report.details.join("\n"));
        told.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let share = |count: u64| 100.0 * count as f64 / report.records.max(1) as f64;
    println!("{} files, {} records that PostgreSQL answers as they say", report.files, report.records);
    println!("  right: {} ({:.2} %)", report.right, share(report.right));
    let (answered, right) = report.answered;
    println!(
        "  right of the {answered} that PostgreSQL does not refuse: {right} ({:.2} %)",
        100.0 * right as f64 / answered.max(1) as f64
    );
    println!("  rows in another order, where ORDER BY may leave it open: {}", report.other_order);
    println!("  same in all that a client sees: {} ({:.2} %)", report.same, share(report.same));
    Ok(if report.right == report.records { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The list's examples, the files, and the random cases.
fn fuzzed(mut judge: Judge, arguments: &Arguments, known: &KnownDifferences) -> Result<ExitCode, String> {
    let failed = |error: io::Error| format!("PostgreSQL does not answer: {error}");
    let limit = Limit::of(arguments)?;
    let stale = known.stale(&mut judge).map_err(failed)?;
    for entry in &stale {
        println!("STALE: [{}] is in the list of differences, but its example shows none now\n", entry.name);
    }
    let mut unknown = stale.len();
    if let Some(folder) = arguments.path("slt") {
        let mut report = script::ScriptReport::default();
        for file in script::files(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
            script::run(&mut judge, known, &file, &mut report).map_err(failed)?;
        }
        println!("{} files, {} records: {} differences", report.files, report.records, report.unknown.len());
        tell_known(&report.known);
        unknown += report.unknown.len();
        for entry in known.without_example().filter(|entry| !report.known.contains_key(&entry.name)) {
            println!("STALE: [{}] has no example, and no record names it\n", entry.name);
            unknown += 1;
        }
    }
    judge.reset().map_err(failed)?;
    let seed: u64 = arguments.number("seed")?.unwrap_or(1);
    let most: usize = arguments.number("most")?.unwrap_or(UNKNOWN_MAX);
    let mut report = fuzz::FuzzReport::default();
    while report.unknown.len() < most && limit.has_room(report.cases) {
        fuzz::run(&mut judge, known, seed.wrapping_add(report.cases), &mut report).map_err(failed)?;
    }
    println!(
        "{} cases from seed {seed}, {} statements in {} s: {} differences",
        report.cases,
        judge.asked,
        limit.begin.elapsed().as_secs(),
        report.unknown.len()
    );
    let refused: Vec<String> = judge.refused.iter().map(|(code, count)| format!("{code} {count}")).collect();
    println!("PostgreSQL refused {} of them: {}", judge.refused.values().sum::<u64>(), refused.join(", "));
    println!(
        "of the queries looked at, {} took the OLTP path and {} the OLAP path",
        report.paths.0, report.paths.1
    );
    tell_known(&report.known);
    unknown += report.unknown.len();
    Ok(if unknown == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell_known(known: &std::collections::BTreeMap<String, u64>) {
    for (name, count) in known {
        println!("  known: {count:6} x {name}");
    }
}
