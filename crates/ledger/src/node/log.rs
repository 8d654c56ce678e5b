//! What a node and an ordering server write for people while they run: lines to standard error, which is usually a file.
//!
//! A line that cannot be written is lost, and nothing else is: that file may be on the disk that is full, and a thread that
//! panicked about its own log would stop a node that goes on by itself when there is room again.

use std::fmt;
use std::io::Write as _;

/// Writes a line.
pub(super) fn log(line: impl fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
