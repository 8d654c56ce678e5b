//! Ctrl-C: the first one asks the command to end and report, the second one ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of a process ended by ctrl-c, as shells have it.
const EXIT_CODE: i32 = 130;

/// A flag that the first ctrl-c sets.
pub(crate) fn flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let watched = flag.clone();
    let watch = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        while runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            if watched.swap(true, Ordering::Relaxed) {
                std::process::exit(EXIT_CODE);
            }
        }
    };
    // Without this thread ctrl-c ends the process at once, which is acceptable, too.
    let _ = std::thread::Builder::new().name("interrupt".into()).spawn(watch);
    flag
}
