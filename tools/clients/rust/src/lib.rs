//! One line for each check: its name, then what came out.

use std::fmt::Debug;

/// Prints what the work returned, or what `told` says of its error.
pub fn report<T: Debug, E>(name: &str, found: Result<T, E>, told: impl FnOnce(E) -> String) {
    let text = found.map_or_else(told, |value| format!("{value:?}"));
    println!("{name}\t{}", text.split_whitespace().collect::<Vec<_>>().join(" "));
}

/// An error of a server with the fields that name what it is about.
pub fn error(state: &str, message: &str, fields: &[(&str, Option<String>)]) -> String {
    let mut text = format!("error {state} {message}");
    for (name, value) in fields {
        if let Some(value) = value {
            text.push_str(&format!(" {name}={value}"));
        }
    }
    text
}
