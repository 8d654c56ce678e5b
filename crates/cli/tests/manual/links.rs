//! Chapters are in the table of contents, and links lead to something.

use crate::chapter::{chapter, chapters};
use std::collections::BTreeSet;

/// Targets of links to chapters: `file.md` or `file.md#heading`; `#heading` leads to the same one.
fn links(name: &str, text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let own = targets.filter(|target| !target.contains("://"));
    own.map(|target| if target.starts_with('#') { format!("{name}{target}") } else { target.to_owned() })
        .collect()
}

/// The names under which mdBook makes headings reachable.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings =
        text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    headings.map(|heading| heading.chars().filter_map(kept).collect()).collect()
}

/// What is wrong with the links of a chapter.
fn broken(name: &str, text: &str, chapters: &[(String, String)]) -> Vec<String> {
    let leads = |target: &String| {
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let found = chapters.iter().find(|(name, _)| name == file);
        found.is_some_and(|(_, text)| anchor.is_empty() || anchors(text).contains(anchor))
    };
    let lost = links(name, text).into_iter().filter(|target| !leads(target));
    lost.map(|target| format!("{name}: {target}")).collect()
}

#[test]
fn links_lead_to_chapters_and_headings() {
    let chapters: Vec<_> = chapters().into_iter().filter(|(name, _)| name != "README.md").collect();
    let lost: Vec<String> = chapters.iter().flat_map(|(name, text)| broken(name, text, &chapters)).collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
    let listed: BTreeSet<String> = links("SUMMARY.md", &chapter("SUMMARY.md")).into_iter().collect();
    let written = chapters.iter().map(|(name, _)| name.clone()).filter(|name| name != "SUMMARY.md");
    assert_eq!(listed, written.collect(), "left: in SUMMARY.md, right: files");
}

/// The control.
#[test]
fn broken_links_are_found() {
    let chapters = [("a.md".to_owned(), "# One `and` two\n".to_owned())];
    assert!(broken("b.md", "[x](a.md) [y](a.md#one-and-two) [z](https://a.org/b.md)", &chapters).is_empty());
    assert_eq!(broken("b.md", "[x](c.md) [y](a.md#two)", &chapters), ["b.md: c.md", "b.md: a.md#two"]);
}
