//! Freeing what was retired, at once.

use ankerdb_memory::account;
use crossbeam_epoch::Guard;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Collections that free nothing before [`collect_retired`] gives up: memory is free two epochs after it was retired.
const VAIN_COLLECTIONS: u32 = 8;
/// Collections of one call, of some hundred objects each: some dozen milliseconds.
const COLLECTIONS_MAX: u32 = 4096;
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
    let is_freed = Arc::new(AtomicBool::new(false));
    let last = is_freed.clone();
    crossbeam_epoch::pin().defer(move || last.store(true, Ordering::Relaxed));
    for _ in 0..COLLECTIONS_PER_PASS {
        if is_freed.load(Ordering::Relaxed) {
            break;
        }
        crossbeam_epoch::pin().flush();
    }
}

/// Frees what was retired and is no longer looked at, as far as it can be found. Left to itself the collector frees a few
/// objects now and then.
pub(crate) fn collect_retired() {
    let mut vain = 0;
    for _ in 0..COLLECTIONS_MAX {
        let before = account::balance();
        crossbeam_epoch::pin().flush();
        vain = if account::balance() < before { 0 } else { vain + 1 };
        if vain == VAIN_COLLECTIONS {
            break;
        }
    }
    account::settle();
}
