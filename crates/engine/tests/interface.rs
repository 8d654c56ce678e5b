//! Programs get tables, transactions and snapshots, and nothing with which rows could be changed past them.
//!
//! The engine's public interface is read as text: from the names that its root exports to whatever their public methods
//! return, their public fields hold, their trait implementations give out and their closures are handed, and so on from
//! there. A type that is reached so can be had by a program, whether or not its name is exported. Those that change rows,
//! free memory that readers look at, or decide what is pruned must not be among them. Types go by their names alone,
//! whichever crate they are of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates that the engine's interface is made of.
const CRATES: [&str; 10] =
    ["base", "memory", "region", "value", "sync", "index", "table", "snapshot", "transaction", "engine"];

/// What no program may get hold of.
const INSIDE: [&str; 30] = [
    // Rows and what changes them.
    "Storage",
    "RowBlock",
    "OwnedRow",
    "KeptRow",
    "KeptRows",
    "Version",
    "VersionChain",
    "ColumnArray",
    "Columns",
    "Writing",
    "Heap",
    "Gate",
    "PendingCommit",
    "PendingCommits",
    // Entries of indexes.
    "Entries",
    "IndexLife",
    "OrderedIndex",
    "HashIndex",
    // Memory of columns.
    "Segments",
    "Segment",
    "Region",
    // Commits and pruning.
    "TransactionManager",
    "Worker",
    "CommitOrder",
    "LockTable",
    "ReaderSlot",
    "ActiveReaders",
    "Installs",
    "Installer",
    "Loader",
];

/// By name of a type: the types that can be got from one.
type Gives = BTreeMap<String, BTreeSet<String>>;

fn sources() -> Vec<String> {
    fn read(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("a folder of sources").flatten() {
            match entry.path() {
                path if path.is_dir() => read(&path, found),
                path => found.push(fs::read_to_string(path).expect("a source file")),
            }
        }
    }
    let mut found = Vec::new();
    CRATES.iter().for_each(|name| read(&crates().join(name).join("src"), &mut found));
    found
}

fn crates() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    Path::new(&here).join("..").canonicalize().expect("the folder of crates")
}

/// The source without comments and strings, and without its tests, which are at the end of a file.
fn code(source: &str) -> String {
    let source = source.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = source.lines().map(|line| line.split("//").next().unwrap_or_default());
    let text = lines.collect::<Vec<_>>().join("\n");
    text.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

/// The names in a piece of a signature that may be types.
fn types(text: &str) -> impl Iterator<Item = String> {
    let names = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    names.filter(|name| name.starts_with(|c: char| c.is_uppercase())).map(str::to_owned)
}

/// The text between a bracket at the start and the one that closes it, and what follows.
fn bracketed(text: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '{' => depth += 1,
            ')' | '}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return (&text[1..at], &text[at + 1..]);
        }
    }
    (text, "")
}

/// What a function gives to its caller: what it returns, and what it hands to closures.
fn given(signature: &str) -> BTreeSet<String> {
    let end = signature.find(['{', ';']).unwrap_or(signature.len());
    let signature = &signature[..end];
    let closures = ["Fn(", "FnMut(", "FnOnce("].into_iter().flat_map(|kind| signature.match_indices(kind));
    let handed = closures.map(|(at, kind)| bracketed(&signature[at + kind.len() - 1..]).0);
    let parameters = signature.find('(').map_or("", |at| bracketed(&signature[at..]).1);
    let returned = parameters.split("where").next().unwrap_or_default();
    handed.chain([returned]).flat_map(types).collect()
}

/// The type that an `impl` is for, from its header, and whether it is of a trait.
fn self_type(header: &str) -> Option<(String, bool)> {
    let header = header.split(" where").next().unwrap_or_default();
    let (is_trait, name) = match header.split_once(" for ") {
        Some((_, name)) => (true, name),
        None => (false, header.rsplit_once("> ").map_or(header, |(_, name)| name)),
    };
    let name = name.split('<').next().unwrap_or_default();
    types(name).last().map(|name| (name, is_trait))
}

/// Adds what the items of a file give.
fn add_items(text: &str, gives: &mut Gives) {
    for (at, _) in text.match_indices("\nimpl") {
        let rest = &text[at + "\nimpl".len()..];
        let Some(open) = rest.find('{') else { continue };
        let Some((name, is_trait)) = self_type(&rest[..open]) else { continue };
        let body = bracketed(&rest[open..]).0;
        let given = functions(body, if is_trait { "" } else { "pub " }).chain(associated(body));
        gives.entry(name).or_default().extend(given);
    }
    for kind in ["pub struct ", "pub enum ", "pub trait "] {
        for (at, _) in text.match_indices(kind) {
            let rest = &text[at + kind.len()..];
            let Some(open) = rest.find(['{', '(', ';']) else { continue };
            let Some(name) = types(&rest[..open]).next() else { continue };
            let body = bracketed(&rest[open..]).0;
            let given: BTreeSet<String> = match kind {
                _ if rest[open..].starts_with(';') => BTreeSet::new(),
                "pub struct " => fields(body).collect(),
                "pub trait " => functions(body, "").collect(),
                _ => contents(body).collect(),
            };
            gives.entry(name).or_default().extend(given);
        }
    }
    for function in text.match_indices("\npub fn ").map(|(at, _)| &text[at + "\npub fn ".len()..]) {
        let name = function.split(['(', '<']).next().unwrap_or_default();
        gives.entry(name.to_owned()).or_default().extend(given(function));
    }
    for (at, _) in text.match_indices("\npub type ") {
        let alias = text[at + "\npub type ".len()..].split(';').next().unwrap_or_default();
        let mut names = types(alias);
        let name = names.next().expect("an alias has a name");
        gives.entry(name).or_default().extend(names);
    }
}

/// What the functions in the body of an item give, if they begin so.
fn functions<'t>(body: &'t str, visible: &'t str) -> impl Iterator<Item = String> + 't {
    let starts = ["fn ", "unsafe fn ", "const fn "].map(|kind| format!("\n    {visible}{kind}"));
    let found = starts
        .into_iter()
        .flat_map(|start| body.match_indices(&start[..]).map(|(at, _)| at + start.len()).collect::<Vec<_>>());
    found.flat_map(|at| given(&body[at..]))
}

/// The types that an implementation of a trait names: `Target`, `Item`, `Output`.
fn associated(body: &str) -> impl Iterator<Item = String> {
    let found = body.match_indices("\n    type ").map(|(at, start)| &body[at + start.len()..]);
    found.flat_map(|rest| types(rest.split(';').next().unwrap_or_default()).skip(1))
}

/// The types of public fields.
fn fields(body: &str) -> impl Iterator<Item = String> {
    let found = body.match_indices("pub ").map(|(at, start)| &body[at + start.len()..]);
    found.flat_map(|rest| types(rest.split([',', '\n']).next().unwrap_or_default()))
}

/// The types in an enum's variants.
fn contents(body: &str) -> impl Iterator<Item = String> {
    let opened = body.match_indices(['(', '{']).map(|(at, _)| bracketed(&body[at..]).0);
    opened.flat_map(types)
}

fn gives(sources: &[String]) -> Gives {
    let mut gives = Gives::new();
    sources.iter().for_each(|source| add_items(&format!("\n{}", code(source)), &mut gives));
    gives
}

/// The names that the engine's root exports.
fn exported() -> BTreeSet<String> {
    let root = fs::read_to_string(crates().join("engine/src/lib.rs")).expect("the engine's root");
    let root = code(&root);
    let uses = root.split("pub use ").skip(1).map(|text| text.split(';').next().unwrap_or_default());
    let names = uses.flat_map(|text| {
        let names = text.rsplit_once("::").map_or(text, |(_, names)| names);
        names
            .split([',', '{', '}'])
            .map(|name| name.split(" as ").next().unwrap_or_default().trim().to_owned())
    });
    names.filter(|name| !name.is_empty()).collect()
}

/// All that can be reached from what is exported, each with what it was reached from.
fn reached(gives: &Gives, exported: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut reached: BTreeMap<String, String> =
        exported.iter().map(|name| (name.clone(), "the engine's root".to_owned())).collect();
    let mut open: Vec<String> = exported.iter().cloned().collect();
    while let Some(from) = open.pop() {
        for name in gives.get(&from).into_iter().flatten() {
            if !reached.contains_key(name) {
                reached.insert(name.clone(), from.clone());
                open.push(name.clone());
            }
        }
    }
    reached
}

/// Doors to the inside, each with the type that has it.
fn doors(sources: &[String], exported: &BTreeSet<String>) -> Vec<(String, String)> {
    let reached = reached(&gives(sources), exported);
    INSIDE.iter().filter_map(|inside| Some((inside.to_string(), reached.get(*inside)?.clone()))).collect()
}

#[test]
fn no_program_gets_at_what_changes_rows() {
    let sources = sources();
    let gives = gives(&sources);
    for name in INSIDE {
        assert!(gives.contains_key(name), "{name} is no type any more: the list is out of date");
    }
    let found = doors(&sources, &exported());
    assert!(found.is_empty(), "a program can get these, from these: {found:?}");
}

/// The interface is read far enough: what programs are meant to get is found, by way of types that give it.
#[test]
fn what_programs_are_meant_to_get_is_found() {
    let reached = reached(&gives(&sources()), &exported());
    for (name, from) in [("Table", "Catalog"), ("BlockImage", "ReadView"), ("Index", "Table")] {
        let gives = gives(&sources());
        assert!(gives[from].contains(name), "{from} gives {name}");
        assert!(reached.contains_key(name));
    }
    assert!(reached.contains_key("CellLayout"), "returned by a table's method, and not exported");
}

/// Controls: each way to open a door is noticed.
#[test]
fn a_door_is_found() {
    let ways = [
        "impl Table {\n    pub fn storage(&self) -> &Storage {\n        &self.storage\n    }\n}",
        "impl Table {\n    pub fn with<R>(&self, use_it: impl FnOnce(&Storage) -> R) -> R {\n        use_it(&self.storage)\n    }\n}",
        "impl std::ops::Deref for Table {\n    type Target = Storage;\n    fn deref(&self) -> &Self::Target {}\n}",
        "impl AsRef<Storage> for Arc<Table> {\n}\nimpl Table {\n    pub fn inner(&self) -> Inner {}\n}\npub struct Inner {\n    pub storage: Arc<Storage>,\n}",
        "impl<'t> From<&'t Table> for Inner<'t> {\n}\nimpl Table {\n    pub fn inner(&self) -> Option<Inner<'_>> {}\n}\npub enum Inner<'t> {\n    Some(&'t Storage),\n}",
    ];
    for way in ways {
        let mut sources = sources();
        sources.push(way.to_owned());
        let found = doors(&sources, &exported());
        assert!(found.iter().any(|(inside, _)| inside == "Storage"), "not found: {way}");
        assert!(found.iter().any(|(inside, _)| inside == "OwnedRow"), "what lies behind it, too");
    }
    let mut names = exported();
    names.insert("begin_pending".to_owned());
    assert_eq!(doors(&sources(), &names), [("PendingCommit".to_owned(), "begin_pending".to_owned())]);
}
