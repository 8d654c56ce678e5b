//! What the techniques share with the rest of the process: signals, fork, mappings.

use crate::{PAGE, Words};
use ankerdb_region::{PageSize, Region, Technique, mappings};
use std::os::unix::process::ExitStatusExt;

/// Runs one test of this binary in a process of its own, which is expected to die.
fn dies(test: &str) -> (std::process::ExitStatus, String) {
    let binary = std::env::current_exe().expect("this binary");
    let output = std::process::Command::new(binary)
        .args([test, "--exact", "--include-ignored", "--nocapture"])
        .env("ANKERDB_REGION_DIE", "1")
        .output()
        .expect("started");
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn is_the_one_to_die() -> bool {
    std::env::var_os("ANKERDB_REGION_DIE").is_some()
}

/// A region that has served a fault, so that the handler is there.
fn handler_at_work() -> std::sync::Arc<Region> {
    let region = Region::new(Technique::Rewiring, PageSize::Small, PAGE).expect("a region");
    let snapshot = region.snapshot(PAGE).expect("a snapshot");
    region.put(0, 1);
    assert_eq!((snapshot.get(0), region.get(0)), (0, 1));
    region
}

#[test]
fn an_overflow_of_the_stack_is_still_reported() {
    #[expect(unconditional_recursion, reason = "that is what is tested")]
    fn deeper(depth: usize) -> usize {
        let here = std::hint::black_box([depth; 64]);
        deeper(depth + 1) + here[depth % 64]
    }
    if is_the_one_to_die() {
        let _region = handler_at_work();
        let _ = std::thread::spawn(|| deeper(0)).join();
        return;
    }
    let (status, stderr) = dies("process::an_overflow_of_the_stack_is_still_reported");
    assert!(!status.success(), "{status}");
    if !cfg!(ankerdb_sanitize) {
        assert!(stderr.contains("has overflowed its stack"), "{stderr}");
    }
}

#[test]
fn a_bad_access_elsewhere_still_ends_the_process() {
    if is_the_one_to_die() {
        let _region = handler_at_work();
        // SAFETY: none; the process is meant to die of it.
        unsafe { std::ptr::without_provenance_mut::<u8>(16).write_volatile(1) };
        return;
    }
    let (status, _) = dies("process::a_bad_access_elsewhere_still_ends_the_process");
    assert!(!status.success(), "{status}");
    if !cfg!(ankerdb_sanitize) {
        assert_eq!(status.signal(), Some(libc::SIGSEGV));
    }
}

#[test]
fn memory_is_excluded_from_forked_processes() {
    for technique in [Technique::Physical, Technique::Fork] {
        let region = Region::new(technique, PageSize::Small, 4 * PAGE).expect("a region");
        region.put(0, 5);
        let seen_by_child = || {
            let mut resident = 0u8;
            // SAFETY: the child makes one system call and ends.
            let child = unsafe {
                match libc::fork() {
                    0 => {
                        libc::_exit(libc::mincore(region.pointer().as_ptr().cast(), PAGE, &mut resident) + 1)
                    }
                    child => child,
                }
            };
            let mut status = 0;
            // SAFETY: our own child.
            unsafe { libc::waitpid(child, &mut status, 0) };
            libc::WEXITSTATUS(status) == 1
        };
        assert!(seen_by_child());
        region.exclude_from_fork(true).expect("excluded");
        assert!(!seen_by_child());
        region.exclude_from_fork(false).expect("included");
        assert!(seen_by_child());
        assert_eq!(region.get(0), 5);
    }
}

#[test]
fn the_mappings_of_the_process_are_reported() {
    let _region = handler_at_work();
    let mappings = mappings();
    assert!(mappings.rewired >= 1 && mappings.rewired < mappings.rewired_max);
    assert!(mappings.process > mappings.rewired / 2 && mappings.process < mappings.limit);
    assert!(mappings.rewired_max < mappings.limit);
}
