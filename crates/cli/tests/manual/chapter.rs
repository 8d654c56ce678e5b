//! A chapter of the manual, taken apart: fenced blocks and tables.
//!
//! ````text
//! ```sql                       statements, each ended by `;` at a line's end, run one after the other in the chapter's session
//! SELECT owner, balance FROM account ORDER BY id;
//! -- owner | balance           what is expected follows as comments: a line of names, and a line for each row, where the
//! -- Ann   |      75           blanks around `|` do not matter
//! SELECT 1 WHERE false;
//! -- ?column?
//! -- (0 rows)                  no row
//! UPDATE account SET balance = 0 WHERE id = 1;
//! -- UPDATE 1                  a command tag
//! SELECT 1 / 0;
//! -- ERROR 22012: division by zero
//! ```                          without a comment a statement has to succeed; `...` stands for the rest of a line, or of the rows
//!
//! ```sessions                  connections beside each other, each in a column; time goes down, and left before right
//! Ann              │ Bob
//! UPDATE t SET ...;│
//!                  │ UPDATE t SET ...;
//!                  │ -- waits          no answer yet; it comes where the next comment stands
//! COMMIT;          │
//!                  │ -- UPDATE 1
//! ```
//! ````

use std::path::{Path, PathBuf};

/// A fenced block.
pub(crate) struct Block {
    /// The chapter's file.
    pub chapter: String,
    /// The line of its fence.
    pub line: usize,
    /// The word behind the fence, without attributes.
    pub kind: String,
    pub text: String,
}

impl Block {
    /// Where a line of the block's text stands, counted from 0.
    pub(crate) fn place(&self, line: usize) -> String {
        format!("{}:{}", self.chapter, self.line + 1 + line)
    }
}

/// The folder with the manual's sources.
pub(crate) fn folder() -> PathBuf {
    root().join("docs/manual/src")
}

/// The project's folder, asked when the test runs: clones share build results, and the clone that built this may be gone.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    Path::new(&here).join("../..")
}

/// All chapters, and the project's front page: names of files and their texts.
pub(crate) fn chapters() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder()).expect("the manual's folder");
    let mut found: Vec<(String, String)> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| {
            let name = path.file_name().expect("a file").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("a text"))
        })
        .collect();
    found.push(("README.md".to_owned(), front_page()));
    found.sort();
    assert!(found.len() > 8, "only {} chapters", found.len());
    found
}

/// The project's README.
pub(crate) fn front_page() -> String {
    std::fs::read_to_string(root().join("README.md")).expect("the README")
}

/// The text of one chapter.
pub(crate) fn chapter(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The fenced blocks of a chapter.
pub(crate) fn blocks(name: &str, text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else { continue };
        let inside: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").collect();
        let kind = info.split([',', ' ']).next().unwrap_or_default().to_owned();
        found.push(Block { chapter: name.to_owned(), line: number + 1, kind, text: inside.join("\n") });
    }
    found
}

/// Rows of the tables below a heading, up to the next heading of its level or a higher one: their cells. The lines of names
/// above the rows are left out.
pub(crate) fn table_rows(text: &str, heading: &str) -> Vec<Vec<String>> {
    let level = |line: &str| line.chars().take_while(|&c| c == '#').count();
    let mut lines = text.lines().skip_while(|line| line.trim_start_matches('#').trim() != heading);
    let own = level(lines.next().unwrap_or_else(|| panic!("no heading {heading}")));
    let below: Vec<&str> = lines.take_while(|line| !(1..=own).contains(&level(line))).collect();
    let is_ruler = |line: &str| line.starts_with("| ---");
    let is_row = |at: &usize| {
        let next = below.get(at + 1).copied().unwrap_or_default();
        below[*at].starts_with('|') && !is_ruler(below[*at]) && !is_ruler(next)
    };
    let cells = |line: &str| {
        let line = line.trim().trim_start_matches('|').trim_end_matches('|').replace("\\|", "/");
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    (0..below.len()).filter(is_row).map(|at| cells(below[at])).collect()
}

/// What stands between backquotes.
pub(crate) fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}
