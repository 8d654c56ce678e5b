//! No circles inside a crate: the files of one crate use each other in one direction.
//!
//! Sources are read as text. A file uses another one if it names it in a path that starts with `crate::`, the longest prefix
//! that is a file counts; what only tests use does not count, nor does the crate's root. A file and the files in the folder of
//! its name may use each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Graph = BTreeMap<String, BTreeSet<String>>;

fn crates() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    Path::new(&here).join("..").canonicalize().expect("the folder of crates")
}

/// The files of a crate by module path (`a::b`), without those that only tests have.
fn modules(folder: &Path, prefix: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources").flatten() {
        let (path, name) = (entry.path(), entry.file_name().into_string().expect("UTF-8"));
        if path.is_dir() {
            modules(&path, &format!("{prefix}{name}::"), found);
        } else if let Some(stem) = name.strip_suffix(".rs") {
            let module = if stem == "mod" {
                prefix.trim_end_matches("::").to_owned()
            } else {
                format!("{prefix}{stem}")
            };
            found.insert(module, fs::read_to_string(&path).expect("a source file"));
        }
    }
}

/// Names of modules that `mod` declares behind a `cfg` of tests or of the model checker.
fn test_modules(source: &str) -> Vec<String> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_test = |line: &str| line.starts_with("#[cfg(") && (line.contains("test") || line.contains("loom"));
    let declared = |line: &str| {
        let name = line.trim_start_matches("pub(crate) ").strip_prefix("mod ")?.strip_suffix(';')?;
        Some(name.to_owned())
    };
    (0..lines.len().saturating_sub(1))
        .filter(|&at| is_test(lines[at]))
        .filter_map(|at| {
            lines[at + 1..].iter().find(|line| !line.starts_with("#[")).and_then(|line| declared(line))
        })
        .collect()
}

/// The source without comments, and without what follows a `cfg` of tests up to the end of the item.
fn used_text(source: &str) -> String {
    let mut text = String::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let line = line.split("//").next().unwrap_or_default();
        if !line.trim().starts_with("#[cfg(all(test") && !line.trim().starts_with("#[cfg(test") {
            text.push_str(line);
            text.push('\n');
            continue;
        }
        let mut depth = 0;
        for line in lines.by_ref() {
            depth += line.matches('{').count() as i32 - line.matches('}').count() as i32;
            let ends = line.trim_end().ends_with([';', ',', '}']);
            if depth <= 0 && ends {
                break;
            }
        }
    }
    text
}

/// The first names of all paths behind `crate::`, each as a list of segments; braces are taken apart.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        if text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_' || before == '$') {
            continue;
        }
        let rest = &text[at + "crate::".len()..];
        let plain = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
        let segments: Vec<String> =
            rest[..plain].split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if rest[plain..].starts_with('{') {
            let inside = rest[plain + 1..].split('}').next().unwrap_or_default();
            for name in
                inside.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|name| !name.is_empty())
            {
                found.push(segments.iter().cloned().chain([name.to_owned()]).collect());
            }
        } else {
            found.push(segments);
        }
    }
    found
}

fn graph(name: &str) -> Graph {
    let mut sources = BTreeMap::new();
    modules(&crates().join(name).join("src"), "", &mut sources);
    let hidden: BTreeSet<String> = (sources.iter())
        .flat_map(|(module, source)| {
            let prefix =
                if module == "lib" || module == "main" { String::new() } else { format!("{module}::") };
            test_modules(source).into_iter().map(move |name| format!("{prefix}{name}"))
        })
        .collect();
    let is_hidden = |module: &String| {
        hidden.iter().any(|test| module == test || module.starts_with(&format!("{test}::")))
    };
    sources.retain(|module, _| module != "lib" && module != "main" && !is_hidden(module));
    let related = |one: &str, other: &str| {
        one == other || one.starts_with(&format!("{other}::")) || other.starts_with(&format!("{one}::"))
    };
    let mut graph = Graph::new();
    for (module, source) in &sources {
        let used = paths(&used_text(source)).into_iter().filter_map(|path| {
            (1..=path.len())
                .rev()
                .map(|length| path[..length].join("::"))
                .find(|name| sources.contains_key(name))
        });
        graph.insert(module.clone(), used.filter(|used| !related(module, used)).collect());
    }
    graph
}

/// Modules that can be reached from one.
fn reach(graph: &Graph, from: &str) -> BTreeSet<String> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = open.pop() {
        for next in graph.get(&module).into_iter().flatten() {
            if reached.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    reached
}

/// Groups of files that all reach each other.
fn circles(graph: &Graph) -> BTreeSet<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<String>> =
        graph.keys().map(|module| (module, reach(graph, module))).collect();
    let in_circle = |module: &&String| reached[module].contains(*module);
    let circle = |module: &String| {
        let mates = reached[module].iter().filter(|other| reached[other].contains(module));
        mates.cloned().collect::<Vec<_>>()
    };
    graph.keys().filter(in_circle).map(circle).collect()
}

fn names() -> Vec<String> {
    let folders = fs::read_dir(crates()).expect("the folder of crates").flatten();
    folders.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect()
}

#[test]
fn files_of_a_crate_use_each_other_in_one_direction() {
    for name in names() {
        let found = circles(&graph(&name));
        assert!(found.is_empty(), "{name}: these files go in a circle: {found:#?}");
    }
}

/// The control: a circle over three files, one of them in a folder, is found, and what only tests use is not taken for one.
#[test]
fn a_circle_is_found() {
    let source =
        "use crate::b::C;\n#[cfg(test)]\nmod tests {\n    use crate::d::E;\n}\nfn f() { crate::x::y(); }\n";
    let used = paths(&used_text(source));
    assert_eq!(used, [vec!["b".to_owned(), "C".to_owned()], vec!["x".to_owned(), "y".to_owned()]]);
    let edge = |from: &str, to: &[&str]| (from.to_owned(), to.iter().map(|name| name.to_string()).collect());
    let graph =
        Graph::from([edge("a", &["b"]), edge("b", &["c::d"]), edge("c::d", &["a"]), edge("e", &["a"])]);
    let found = circles(&graph);
    assert_eq!(found, BTreeSet::from([vec!["a".to_owned(), "b".to_owned(), "c::d".to_owned()]]));
}
