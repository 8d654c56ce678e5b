//! Checks of the project's rules: floors, headers, file sizes, `unsafe`, style of comments, and that documents name
//! what exists.
//!
//! Cargo.toml files are read as lines, which is enough for the way they are written here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The SQL floor's crate and everything above it may know these; everything below may not. A trailing `*` stands for any ending.
const ONLY_FROM_SQL_UP: [&str; 7] =
    ["datafusion*", "arrow*", "parquet*", "tokio*", "futures*", "async-*", "pgwire*"];

/// The longest source file.
const LINES_MAX: usize = 900;

/// Crates that may contain `unsafe`; all others forbid it. (`sql` allows it in the one file that describes blocks to Arrow,
/// `cli` in the one with the allocator that counts.)
const UNSAFE: [&str; 11] = [
    "memory",
    "socket",
    "region",
    "sync",
    "index",
    "compiler",
    "table",
    "snapshot",
    "transaction",
    "sql",
    "cli",
];

fn root() -> PathBuf {
    // Read when the test runs: clones share build results, and the clone that built this test may be gone.
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    Path::new(&here).join("../..").canonicalize().expect("the workspace's root")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Files below a folder, by ending.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Folders of `crates/`.
fn crates() -> BTreeSet<String> {
    let folders = fs::read_dir(root().join("crates")).expect("crates/");
    folders.flatten().map(|entry| entry.file_name().into_string().expect("UTF-8")).collect()
}

/// Crate and floor, as the fenced block ```` ```floors ```` of ARCHITECTURE.md draws them: number, then crates.
fn drawn_floors() -> BTreeMap<String, usize> {
    let text = read(root().join("ARCHITECTURE.md"));
    let block = text.split("```floors\n").nth(1).expect("a block of floors in ARCHITECTURE.md");
    let block = block.split("```").next().expect("split gives one piece at least");
    let mut floors = BTreeMap::new();
    for line in block.lines() {
        let picture = line.split("--").next().expect("split gives one piece at least");
        let mut words = picture.split_whitespace();
        let Some(number) = words.next() else { continue };
        let number = number.parse().unwrap_or_else(|_| panic!("no floor number: {line}"));
        for name in words {
            assert!(floors.insert(name.to_owned(), number).is_none(), "{name} is drawn twice");
        }
    }
    floors
}

/// Dependencies of a crate: all of `[dependencies]`, `[build-dependencies]` and target-dependent ones; of `[dev-dependencies]`, too,
/// if asked.
fn dependencies(name: &str, dev: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut listed = false;
    for line in read(root().join("crates").join(name).join("Cargo.toml")).lines() {
        let line = line.trim();
        if line.starts_with('[') {
            listed = line.contains("dependencies") && (dev || !line.contains("dev-dependencies"));
            assert!(!line.contains("dependencies."), "{name}: write dependencies as lines: {line}");
        } else if listed && !line.is_empty() && !line.starts_with('#') {
            found
                .push(line.split(['.', '=', ' ']).next().expect("split gives one piece at least").to_owned());
        }
    }
    found
}

/// The folder of a crate of ours.
fn folder_of(package: &str) -> Option<&str> {
    if package == "ankerdb" { Some(package) } else { package.strip_prefix("ankerdb-") }
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

#[test]
fn the_floor_picture_shows_every_crate_once() {
    let drawn: BTreeSet<String> = drawn_floors().into_keys().collect();
    assert_eq!(drawn, crates(), "left: drawn in ARCHITECTURE.md, right: folders of crates/");
}

#[test]
fn crates_use_lower_floors_only() {
    let floors = drawn_floors();
    for name in crates() {
        for dependency in dependencies(&name, true) {
            let Some(dependency) = folder_of(&dependency) else { continue };
            let (own, below) = (floors[&name], floors[dependency]);
            assert!(below < own, "{name} (floor {own}) must not use {dependency} (floor {below})");
        }
    }
}

/// Whether the crate is packaged for programs that depend on `ankerdb`.
fn is_published(name: &str) -> bool {
    !read(root().join("crates").join(name).join("Cargo.toml")).lines().any(|line| line == "publish = false")
}

#[test]
fn published_crates_need_published_ones_only() {
    assert!(is_published("ankerdb"));
    for name in crates().iter().filter(|name| is_published(name)) {
        let needed = dependencies(name, true);
        let lost =
            needed.iter().filter_map(|package| folder_of(package)).find(|folder| !is_published(folder));
        assert!(lost.is_none(), "{name} is published and needs {lost:?}, which is not");
    }
}

#[test]
fn below_sql_there_is_no_query_engine_and_no_async_runtime() {
    let floors = drawn_floors();
    for name in crates().iter().filter(|name| floors[*name] < floors["sql"]) {
        for dependency in dependencies(name, true) {
            let known = ONLY_FROM_SQL_UP.iter().find(|pattern| matches(pattern, &dependency));
            assert!(known.is_none(), "{name} is below sql and must not use {dependency}");
        }
    }
}

#[test]
fn crates_that_need_no_unsafe_forbid_it() {
    for name in crates() {
        let main = if name == "cli" { "src/main.rs" } else { "src/lib.rs" };
        let text = read(root().join("crates").join(&name).join(main));
        let forbids = text.contains("#![forbid(unsafe_code)]");
        assert_eq!(forbids, !UNSAFE.contains(&name.as_str()), "{name}: forbids unsafe_code");
    }
    let map = read(root().join("ARCHITECTURE.md"));
    let paragraph = map.split("`unsafe` code lives in").nth(1).and_then(|rest| rest.split("\n\n").next());
    let named: Vec<&str> =
        paragraph.unwrap_or_default().split(|letter: char| !letter.is_alphanumeric()).collect();
    for name in UNSAFE {
        assert!(named.contains(&name), "ARCHITECTURE.md does not say that {name} has unsafe code");
    }
}

#[test]
fn every_module_opens_with_its_idea() {
    for path in files(&root().join("crates"), "rs") {
        let text = read(&path);
        assert!(text.starts_with("//! "), "{}: begins without a `//!` header", path.display());
    }
}

#[test]
fn files_are_short() {
    for path in files(&root().join("crates"), "rs") {
        let lines = read(&path).lines().count();
        assert!(lines <= LINES_MAX, "{}: {lines} lines, at most {LINES_MAX}", path.display());
    }
}

/// The documents that people read, and the sources: none names a folder of the machine it was written on.
#[test]
fn no_machine_paths() {
    let root = root();
    let mut paths = files(&root.join("crates"), "rs");
    paths.extend(files(&root.join("crates"), "toml"));
    paths.extend(documents());
    for path in paths {
        for (number, line) in read(&path).lines().enumerate() {
            let machine = ["work", "root", "home"].iter().any(|folder| {
                let folder = format!("/{folder}/");
                line.match_indices(&folder).any(|(at, _)| {
                    !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '.' || c == '}')
                })
            });
            assert!(!machine, "{}:{}: a path of one machine: {line}", path.display(), number + 1);
        }
    }
}

fn documents() -> Vec<PathBuf> {
    let root = root();
    let top = fs::read_dir(&root).expect("the root").flatten().map(|entry| entry.path());
    let top = top.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    top.chain(files(&root.join("docs"), "md")).collect()
}

/// `crates/...`, `docs/...` and `./...` in backquotes or links, in all documents.
#[test]
fn paths_named_in_documents_exist() {
    let mut checked = 0;
    for document in documents() {
        for word in read(&document).split(['`', '(', ')', '"', ' ', '\n', ',']) {
            let word = word.trim_end_matches(['.', ':', ';']);
            if word.starts_with("crates/") || word.starts_with("docs/") {
                assert!(
                    root().join(word).exists(),
                    "{} names {word}, which does not exist",
                    document.display()
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 30, "only {checked} paths found: the documents have changed their ways");
}

/// Where ARCHITECTURE.md says `` `Type` in `crates/...` `` the file must define the last word of the name.
#[test]
fn items_named_with_a_path_are_there() {
    let text = read(root().join("ARCHITECTURE.md")).split_whitespace().collect::<Vec<_>>().join(" ");
    let pieces: Vec<&str> = text.split('`').collect();
    let mut checked = 0;
    for window in pieces.windows(3) {
        let [name, " in ", path] = window else { continue };
        let source = read(root().join(path));
        let item = name.rsplit("::").next().expect("split gives one piece at least");
        let defined = ["struct", "enum", "trait", "fn"].iter().any(|keyword| {
            let definition = format!("{keyword} {item}");
            source.match_indices(&definition).any(|(at, _)| {
                !source[at + definition.len()..]
                    .starts_with(|next: char| next.is_alphanumeric() || next == '_')
            })
        });
        assert!(defined, "ARCHITECTURE.md says {name} in {path}, which does not define it");
        checked += 1;
    }
    assert!(checked > 30, "only {checked} items found: ARCHITECTURE.md has changed its ways");
}

/// The README's program is the one that the front door's documentation compiles and runs.
#[test]
fn the_example_of_the_readme_runs() {
    let readme = read(root().join("README.md"));
    let shown = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let source = read(root().join("crates/ankerdb/src/lib.rs"));
    let header = source.lines().filter_map(|line| line.strip_prefix("//!"));
    let header: Vec<&str> = header.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let mut run = String::new();
    for line in header.into_iter().skip_while(|line| *line != "```").skip(1).take_while(|line| *line != "```")
    {
        if !line.starts_with("# ") {
            run.push_str(line);
            run.push('\n');
        }
    }
    assert_eq!(shown, Some(&run[..]), "left: README.md, right: crates/ankerdb/src/lib.rs");
}
