//! Running the command and ending it.
#![allow(dead_code, reason = "not every test file needs all of it")]

pub(crate) mod server;

use std::process::{Child, Command, Output, Stdio};

/// The command with these arguments, ready to start; nothing to read, its output is collected.
pub(crate) fn ankerdb(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ankerdb"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    ankerdb(arguments).output().expect("the command starts")
}

/// Output as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Sends a signal to a process that this test has started.
pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill exists");
    assert!(sent.success());
}
