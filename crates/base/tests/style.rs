//! Habits of comments and documents that docs/STYLE.md rules out: a comment that begins with "The same" or "As [`...`]" and leaves
//! the reader to find what is meant, and sentences whose subject is a bare "who". And two habits of code: a walk of its own through the
//! syntax of SQL, some 1,800 functions each, and tests that know the folder in which they were built.

use std::fs;
use std::path::{Path, PathBuf};

/// Beginnings of comments that say nothing by themselves.
const EMPTY_BEGINNINGS: [&str; 5] = ["The same", "As [", "As above", "As below", "Likewise"];

/// Beginnings of sentences without a subject. (A question may begin so.)
const HEADLESS_BEGINNINGS: [&str; 4] = ["Who ", "Whoever ", "who ", "whoever "];

fn root() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    Path::new(&here).join("../..").canonicalize().expect("the workspace's root")
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
    found
}

/// The paragraphs of a source's comments, each with the number of its first line.
fn comments(source: &str) -> Vec<(usize, String)> {
    let text_of = |line: &str| {
        let line = line.trim_start();
        let text = ["///", "//!", "//"].iter().find_map(|mark| line.strip_prefix(mark))?;
        Some(text.trim().to_owned())
    };
    paragraphs(source.lines().map(text_of))
}

/// The paragraphs of a document.
fn document(source: &str) -> Vec<(usize, String)> {
    paragraphs(source.lines().map(|line| Some(line.trim().to_owned())))
}

/// Runs of lines with text, joined; a list item or a table's row begins another one.
fn paragraphs(lines: impl Iterator<Item = Option<String>>) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (number, line) in lines.enumerate() {
        let Some(line) = line.filter(|line| !line.is_empty()) else {
            is_open = false;
            continue;
        };
        let is_item = line.starts_with("- ") || line.starts_with('|') || line.starts_with('#');
        match found.last_mut() {
            Some((_, text)) if is_open && !is_item => {
                text.push(' ');
                text.push_str(&line);
            }
            _ => found.push((number + 1, line)),
        }
        is_open = true;
    }
    found
}

/// The sentences of a paragraph, and the parts behind its colons and semicolons.
fn sentences(paragraph: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, _) in paragraph.match_indices(' ') {
        if paragraph[..at].ends_with(['.', ':', ';', '!', '?', '|']) {
            found.push(&paragraph[start..at]);
            start = at + 1;
        }
    }
    found.push(&paragraph[start..]);
    found
}

fn is_headless(paragraph: &str) -> bool {
    let begins = |sentence: &str| HEADLESS_BEGINNINGS.iter().any(|beginning| sentence.starts_with(beginning));
    sentences(paragraph).iter().any(|sentence| begins(sentence) && !sentence.ends_with('?'))
}

fn is_empty(comment: &str) -> bool {
    EMPTY_BEGINNINGS.iter().any(|beginning| comment.starts_with(beginning))
}

/// What is wrong with a file, by line.
fn faults(path: &Path) -> Vec<String> {
    let source = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let is_source = path.extension().is_some_and(|extension| extension == "rs");
    let texts = if is_source { comments(&source) } else { document(&source) };
    let is_fault = |text: &str| is_headless(text) || (is_source && is_empty(text));
    let faults = texts.into_iter().filter(|(_, text)| is_fault(text));
    faults.map(|(line, text)| format!("{}:{line}: {text}", path.display())).collect()
}

#[test]
fn comments_and_documents_say_what_they_mean() {
    let root = root();
    let mut paths = files(&root.join("crates"), "rs");
    let top = fs::read_dir(&root).expect("the root").flatten().map(|entry| entry.path());
    paths.extend(top.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    paths.extend(files(&root.join("docs"), "md"));
    paths.extend(files(&root.join("kernel"), "md"));
    // This file shows what it forbids, and so does the page about style.
    paths.retain(|path| !path.ends_with("crates/base/tests/style.rs") && !path.ends_with("docs/STYLE.md"));
    assert!(paths.len() > 300, "only {} files found", paths.len());
    let faults: Vec<String> = paths.iter().flat_map(|path| faults(path)).collect();
    assert!(faults.is_empty(), "see docs/STYLE.md:\n{}", faults.join("\n"));
}

/// The control: what the test above looks for is found, and what is like it is not.
#[test]
fn bad_habits_are_found() {
    for bad in ["Frees it. Who begins later sees that.", "One at a time: whoever\ncomes first has it."] {
        let source = bad.replace('\n', "\n/// ");
        assert!(comments(&format!("/// {source}")).iter().any(|(_, text)| is_headless(text)), "{bad}");
    }
    for good in ["Who says that an answer is right?", "A reader who begins later.", "Those who wait."] {
        assert!(!is_headless(good), "{good}");
    }
    for (comment, expected) in
        [("The same for rows.", true), ("As [`get`].", true), ("As PostgreSQL does.", false)]
    {
        assert_eq!(is_empty(comment), expected, "{comment}");
    }
}

/// Whether the source lets the parser's library write a walk for a visitor's type, instead of `crate::visit`.
fn has_own_walk(source: &str) -> bool {
    let source = source.split_whitespace().collect::<Vec<_>>().join(" ");
    let imports = source.split("sqlparser::ast::").skip(1).filter_map(|import| import.split(';').next());
    let words: Vec<&str> = imports.flat_map(|import| import.split([' ', ',', '{', '}'])).collect();
    let knows_walks = words.iter().any(|word| ["Visit", "VisitMut"].contains(word));
    words.iter().any(|word| word.starts_with("visit_"))
        || source.contains("ast::visit_")
        || (knows_walks && source.contains(".visit(&mut "))
}

#[test]
fn walks_through_statements_are_written_once() {
    let sources = files(&root().join("crates/sql/src"), "rs");
    let read = |path: &PathBuf| fs::read_to_string(path).expect("a source");
    let walking = sources.iter().filter(|path| has_own_walk(&read(path)));
    let walking: Vec<&PathBuf> = walking.filter(|path| !path.ends_with("sql/src/visit.rs")).collect();
    assert!(walking.is_empty(), "use crate::visit: {walking:?}");
    assert!(sources.iter().any(|path| path.ends_with("sql/src/visit.rs") && has_own_walk(&read(path))));
    let other = "use datafusion::sql::sqlparser::ast::{\n    Expr, visit_expressions,\n};";
    assert!(has_own_walk(other) && has_own_walk("let _ = ast::visit_relations(query, see);"));
}

/// Builds are shared by checkouts in several folders, one of which may be gone.
#[test]
fn tests_ask_where_they_run() {
    let name = "CARGO_MANIFEST_DIR";
    let built = format!("env!(\"{name}\")");
    let all = files(&root().join("crates"), "rs");
    let tests: Vec<_> =
        all.iter().filter(|path| path.components().any(|part| part.as_os_str() == "tests")).collect();
    assert!(tests.len() > 100, "{}", tests.len());
    let knowing: Vec<_> = tests
        .into_iter()
        .filter(|path| fs::read_to_string(path).is_ok_and(|text| text.contains(&built)))
        .collect();
    assert!(knowing.is_empty(), "std::env::var(\"{name}\") is the folder of now: {knowing:?}");
}
