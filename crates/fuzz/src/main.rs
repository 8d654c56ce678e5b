//! libFuzzer over one target: `ANKERDB_FUZZ_TARGET=NAME ankerdb-fuzz [options of libFuzzer] FOLDER ...`. With `ANKERDB_FUZZ_SEEDS=FOLDER` the
//! target's first inputs are written there before.

#![no_main]

use ankerdb_fuzz::{TARGETS, Target, target};
use libfuzzer_sys::fuzz_target;
use std::path::Path;
use std::sync::OnceLock;

/// The target that the environment names.
fn named() -> &'static Target {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("ANKERDB_FUZZ_TARGET").unwrap_or_default();
        target(&name).unwrap_or_else(|| {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!("ankerdb-fuzz: ANKERDB_FUZZ_TARGET has to be one of {}", names.join(", "));
            std::process::exit(2)
        })
    })
}

fn write_seeds(folder: &Path) {
    for (number, seed) in (named().seeds)().into_iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number}")), seed).expect("a folder to write to");
    }
}

fuzz_target!(
    init: {
        named();
        if let Ok(folder) = std::env::var("ANKERDB_FUZZ_SEEDS") {
            write_seeds(Path::new(&folder));
        }
    },
    |bytes: &[u8]| (named().run)(bytes)
);
