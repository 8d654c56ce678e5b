//! The `ankerdb` command.
fn main() {}
