//! Techniques that ought to be there: other tests leave out what a machine lacks, so this one says what it must not lack.
//!
//! `ANKERDB_TECHNIQUES` names them, with spaces between. Without it, only those count that need nothing of the system.
//! `./run test` sets it where a missing technique would be a fault, and the emulated machine always.

use ankerdb_region::Technique;

#[test]
fn techniques_that_ought_to_be_there_are() {
    let named = std::env::var("ANKERDB_TECHNIQUES");
    let expected = named.as_deref().unwrap_or("physical fork");
    let missing: Vec<String> = (expected.split_whitespace())
        .map(|name| Technique::parse(name).expect("ANKERDB_TECHNIQUES holds names of techniques"))
        .filter_map(|technique| Some(format!("{}: {}", technique.name(), technique.check().err()?)))
        .collect();
    assert!(missing.is_empty(), "these ought to be there: {missing:#?}");
}
