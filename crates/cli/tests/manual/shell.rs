//! Commands in the manual name commands, flags and scripts that exist.

use crate::chapter::{blocks, chapters, root};
use crate::support::{run, text};

/// Words of a command line.
type Words = Vec<String>;

/// The command lines of a block, comments left out, continued lines put together, pipes and lists taken apart.
fn commands(block: &str) -> Vec<Words> {
    let joined = block.replace("\\\n", " ");
    let plain = joined.lines().map(|line| line.split(" #").next().unwrap_or_default());
    let single = plain.flat_map(|line| line.split(['|', ';', '&']));
    let words =
        single.map(|line| line.split_whitespace().map(|word| word.trim_matches(['"', '\'']).to_owned()));
    words
        .map(Iterator::collect)
        .filter(|words: &Words| !words.is_empty() && !words[0].starts_with('#'))
        .collect()
}

/// Whether the text has the flag as a word of its own.
fn has_flag(help: &str, flag: &str) -> bool {
    help.split(|c: char| !(c.is_alphanumeric() || c == '-')).any(|word| word == flag)
}

/// What `ankerdb` says to `--help` behind these subcommands; none if there are no such.
fn help(subcommands: &[&str]) -> Option<String> {
    let output = run(&[subcommands, &["--help"]].concat());
    output.status.success().then(|| text(&output.stdout))
}

/// A command line of `ankerdb`, without its first word.
fn check_ankerdb(words: &[&str]) -> Result<(), String> {
    let depth = if matches!(words.first(), Some(&"bench" | &"ledger")) { 2 } else { 1 };
    let (subcommands, rest) = words.split_at(depth.min(words.len()));
    let help = help(subcommands).ok_or_else(|| format!("there is no command {}", subcommands.join(" ")))?;
    check_flags(rest, &help)
}

fn check_flags(words: &[&str], help: &str) -> Result<(), String> {
    let flags = words.iter().filter(|word| word.starts_with("--"));
    let missing = flags.map(|word| word.split('=').next().unwrap_or(word)).find(|flag| !has_flag(help, flag));
    missing.map_or(Ok(()), |flag| Err(format!("there is no flag {flag}")))
}

/// A command line of `./run`, without its first word: either one of the script's own or one of `ankerdb`.
fn check_run(words: &[&str]) -> Result<(), String> {
    let script = std::fs::read_to_string(root().join("run")).expect("the script");
    let usage: String = script.lines().take_while(|line| line.starts_with('#')).collect();
    let own = script.lines().filter_map(|line| line.trim_start().split_once(')')).map(|(name, _)| name);
    match words.split_first() {
        Some((name, rest)) if own.clone().any(|known| known == *name) => check_flags(rest, &usage),
        _ => check_ankerdb(words),
    }
}

/// Whether a command line can be meant: only those of this project are looked at.
fn check(words: &[String]) -> Result<(), String> {
    let words: Vec<&str> = words.iter().map(String::as_str).skip_while(|word| word.contains('=')).collect();
    let Some((&program, rest)) = words.split_first() else { return Ok(()) };
    let exists = |path: &str| {
        if root().join(path).exists() { Ok(()) } else { Err(format!("{path} does not exist")) }
    };
    match program {
        "./run" => check_run(rest),
        "ankerdb" => check_ankerdb(rest),
        "cargo" => match rest.iter().position(|word| *word == "--example" || *word == "--bench") {
            Some(at) => {
                let folder = if rest[at] == "--bench" { "benches" } else { "examples" };
                exists(&format!("crates/ankerdb/{folder}/{}.rs", rest.get(at + 1).unwrap_or(&"")))
            }
            None => Ok(()),
        },
        path if path.starts_with("tools/") => exists(path),
        _ => Ok(()),
    }
}

#[test]
fn commands_name_what_exists() {
    let mut checked = 0;
    let mut failures = Vec::new();
    for (name, text) in chapters() {
        for block in blocks(&name, &text).iter().filter(|block| block.kind == "sh") {
            for words in commands(&block.text) {
                checked += 1;
                if let Err(told) = check(&words) {
                    failures.push(format!("{}: {}: {told}", block.place(0), words.join(" ")));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(checked > 20, "only {checked} commands found: the manual has changed its ways");
}

/// The control.
#[test]
fn commands_that_do_not_exist_are_found() {
    let check = |line: &str| commands(line).iter().map(|words| check(words)).collect::<Result<Vec<_>, _>>();
    for right in [
        "./run serve --listen 127.0.0.1:0 \\\n  --memory-limit 4GB  # a comment --nothing",
        "ankerdb bench tpcc --threads 1",
        "./run test --quick",
        "ANKERDB=1 ./run doc && tools/compare-postgresql.sh x",
        "cargo run --release -p ankerdb --example bank",
        "psql --nothing",
    ] {
        assert!(check(right).is_ok(), "{right}");
    }
    for wrong in [
        "./run serve --listens 127.0.0.1:0",
        "ankerdb bench tpcb",
        "./run test --slow",
        "./run nothing",
        "true | ankerdb experiment list --memory",
        "tools/compare-nothing.sh",
        "cargo run --example nothing",
    ] {
        assert!(check(wrong).is_err(), "{wrong}");
    }
}
