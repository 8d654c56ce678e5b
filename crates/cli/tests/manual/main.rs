//! The manual (`docs/manual`), as tests: its SQL runs on a server of `ankerdb serve`, its commands name flags that exist, and its
//! tables have every setting, type, function and error code that the code has, and no other.
//!
//! What the blocks of a chapter look like is said in `chapter.rs`; Rust blocks are doctests of the crate `ankerdb`.

mod chapter;
mod client;
mod links;
mod reference;
mod script;
mod shell;
#[path = "../support/mod.rs"]
mod support;
