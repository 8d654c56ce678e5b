//! Freeing what was retired, at once.

use ankerdb_memory::account;
use crossbeam_epoch::Guard;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Collections that free nothing before [`collect_retired`] gives way: memory is free two epochs after it was retired.
const VAIN_COLLECTIONS: u32 = 8;
/// How long it gives way to threads that are pinned, and for how long at a time.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(1);
/// Collections of one call of [`free_retired`]: some milliseconds if there is much, and less than one if others keep all of it.
const COLLECTIONS_PER_PASS: u32 = 256;

/// Goes on with another pin in the middle of something long, so that memory retired meanwhile can be freed; and frees about as
/// much as the caller retires in a thousand rows. Otherwise other sessions would free all of it in the middle of small commits.
pub(crate) fn let_go(pin: &mut Guard) {
    pin.repin();
    // Each frees 512 objects at most.
    pin.flush();
    pin.flush();
}

/// Frees what has been retired up to now, as far as a bounded number of collections gets. To be called by the thread that
/// retires most, in the background.
pub(crate) fn free_retired() {
    let is_freed = Retired::now();
    for _ in 0..COLLECTIONS_PER_PASS {
        if is_freed.check() {
            break;
        }
        crossbeam_epoch::pin().flush();
    }
}

/// Frees what was retired and is no longer looked at, as far as it can be found. Left to itself the collector frees a few
/// objects now and then.
///
/// On a busy machine a thread may have lost its processor while it was pinned, and nothing is freed until it has got it
/// back. So the caller, who is about to refuse memory for want of it, gives way for that long; unless it is pinned itself.
pub(crate) fn collect_retired() {
    let (is_freed, begun) = (Retired::now(), Instant::now());
    let patience = if crossbeam_epoch::is_pinned() { Duration::ZERO } else { PATIENCE };
    let mut vain = 0;
    while !is_freed.check() {
        let before = account::balance();
        crossbeam_epoch::pin().flush();
        vain = if account::balance() < before { 0 } else { vain + 1 };
        if vain < VAIN_COLLECTIONS {
            continue;
        }
        if begun.elapsed() >= patience {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    account::settle();
}

/// Tells when all that had been retired before it is free.
struct Retired(Arc<AtomicBool>);

impl Retired {
    fn now() -> Retired {
        let is_freed = Arc::new(AtomicBool::new(false));
        let last = is_freed.clone();
        crossbeam_epoch::pin().defer(move || last.store(true, Ordering::Relaxed));
        Retired(is_freed)
    }

    fn check(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// As a thread that loses its processor between two instructions.
    #[test]
    fn what_a_pin_of_another_thread_keeps_for_a_moment_is_waited_for() {
        let (pinned, is_pinned) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let _pin = crossbeam_epoch::pin();
                pinned.send(()).expect("somebody waits");
                std::thread::sleep(Duration::from_millis(20));
            });
            is_pinned.recv().expect("it tells");
            let retired = Retired::now();
            collect_retired();
            assert!(retired.check(), "nobody is pinned any more");
        });
    }

    /// A caller that is pinned would wait for itself.
    #[test]
    fn a_caller_that_is_pinned_does_not_wait() {
        let _pin = crossbeam_epoch::pin();
        let (retired, begun) = (Retired::now(), Instant::now());
        collect_retired();
        assert!(!retired.check() && begun.elapsed() < PATIENCE);
    }
}
