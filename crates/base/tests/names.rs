//! One name, one type: a name that several crates or files give to types of their own makes readers ask which is meant.
//! Names of types that others can reach (`pub`, `pub(crate)`, `pub(super)`) are counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// How many types may have one name: a type and its counterpart on another floor.
const USUAL: usize = 2;

fn crates() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    Path::new(&here).parent().expect("a folder of crates").to_owned()
}

/// Sources below a folder, without those that only tests have.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// The name of the type that a line declares for others.
fn declared(line: &str) -> Option<&str> {
    // What is deeper belongs to a trait, an implementation, or a module of tests.
    let rest = line.strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(inside) => inside.split_once(')')?.1,
        None => rest,
    };
    let rest = rest.strip_prefix(' ')?;
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (kind, rest) = rest.split_once(' ')?;
    if !matches!(kind, "struct" | "enum" | "union" | "type" | "trait") {
        return None;
    }
    rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
}

/// Where types of each name are declared.
fn declarations() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let root = crates();
    for folder in fs::read_dir(&root).expect("crates").flatten() {
        let mut files = Vec::new();
        sources(&folder.path().join("src"), &mut files);
        for path in files {
            let source = fs::read_to_string(&path).expect("sources are text");
            let place = path.strip_prefix(&root).expect("below").display().to_string();
            for name in source.lines().filter_map(declared) {
                found.entry(name.to_owned()).or_default().insert(place.clone());
            }
        }
    }
    found
}

#[test]
fn names_of_types_are_told_apart() {
    let found = declarations();
    assert!(found.len() > 500, "the search has lost its way: {} names", found.len());
    let faults: Vec<String> = found
        .iter()
        .filter(|(_, places)| places.len() > USUAL)
        .map(|(name, places)| format!("{name}: {} types, {USUAL} allowed: {places:?}", places.len()))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn declarations_are_found() {
    assert_eq!(declared("pub struct Rows(pub Vec<u8>);"), Some("Rows"));
    assert_eq!(declared("pub(crate) enum Kind {"), Some("Kind"));
    assert_eq!(declared("pub unsafe trait Shared<T> {"), Some("Shared"));
    assert_eq!(declared("pub fn struct_of() {"), None);
    assert_eq!(declared("    pub struct Inner;"), None);
    assert_eq!(declared("struct Private;"), None);
}
