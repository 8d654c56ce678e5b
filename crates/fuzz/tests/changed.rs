//! Each target with its first inputs, with changes of them, and with what was found before.

use ankerdb_fuzz::mutation::mutated;
use ankerdb_fuzz::{TARGETS, Target};
use fastrand::Rng;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Changed inputs of a target.
const CHANGED: usize = 1_500;
/// First inputs that are run as they are, of those that there are.
const SEEDS: usize = 500;

/// Inputs that have found something.
fn found(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests"))
        .join("found")
        .join(target.name);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| std::fs::read(entry.path()).expect("a file")).collect()
}

/// Counts panics of all threads, those that the house catches among them.
fn counted_panics() -> &'static AtomicUsize {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        shown(info);
    }));
    &PANICS
}

#[test]
fn no_target_panics() {
    let panics = counted_panics();
    for target in &TARGETS {
        let seeds = (target.seeds)();
        let mut random = Rng::with_seed(7);
        let mut inputs = found(target);
        inputs.extend(
            (0..SEEDS.min(seeds.len()))
                .map(|number| seeds[number * seeds.len() / SEEDS.min(seeds.len())].clone()),
        );
        inputs.extend((0..CHANGED).map(|_| {
            let [one, other] = [(); 2].map(|()| &seeds[random.usize(0..seeds.len())]);
            mutated(one, other, &mut random)
        }));
        for input in inputs {
            (target.run)(&input);
            let panicked = panics.load(Ordering::Relaxed);
            assert_eq!(panicked, 0, "{} panics at {:?}", target.name, String::from_utf8_lossy(&input));
        }
    }
}
