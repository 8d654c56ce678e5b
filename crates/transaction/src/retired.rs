//! Freeing what was retired, at once.

use ankerdb_memory::account;

/// Collections that free nothing before [`collect_retired`] gives up: memory is free two epochs after it was retired.
const VAIN_COLLECTIONS: u32 = 8;
/// Collections of one call, of some hundred objects each: some dozen milliseconds.
const COLLECTIONS_MAX: u32 = 4096;

/// Frees what was retired and nobody looks at any more, as much of it as can be found. Left to itself the collector frees a
/// few objects now and then.
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
