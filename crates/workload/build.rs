//! Tells the benchmark which commit it is built from.

use std::path::Path;
use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn main() {
    // Sources, because they decide whether the tree has changes.
    println!("cargo::rerun-if-changed=..");
    // The log of HEAD changes with every commit and checkout.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    if let Some(commit) = git(&["rev-parse", "HEAD"]).filter(|commit| !commit.is_empty()) {
        let changed =
            git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|list| !list.is_empty());
        println!("cargo::rustc-env=ANKERDB_COMMIT={commit}{}", if changed { "-dirty" } else { "" });
    }
}
