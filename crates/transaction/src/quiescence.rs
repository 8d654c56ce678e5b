//! Quiescence: a holder stops all commits, and sees the data between two of them.
//!
//! A copy of the process (a query by `fork`) takes memory as it is, and looks at no version. So no commit may be between
//! drawing its timestamp and being visible when the copy is made.
//!
//! ```text
//! Commit                                           Holder
//! C1  committing += 1             (SeqCst)         H1  holders += 1                 (SeqCst)
//! C2  holders = 0: go on          (SeqCst)         H2  wait for committing = 0 of each worker   (SeqCst)
//! C3  else committing -= 1, sleep, again           H3  ... nobody commits ...
//!     ... locks, installs, becomes visible ...     H4  holders -= 1, wake those who sleep
//! C4  committing -= 1             (Release)
//! ```
//!
//! C1, C4 and H2 are those of [`under_way`](ankerdb_sync::under_way); H2 is a read-modify-write there.
//!
//! Of C1 and H1 one is the first in the order of all SeqCst operations. If it is C1, H2 waits for this commit; if it is
//! H1, C2 finds the holder. A worker that is made after H1 is made behind the mutex that H2 takes to list them, or the
//! one that its maker takes after H2: either it is on the list or it finds the holder. Holders do not wait for each
//! other, and a commit that sleeps holds nothing: no row, no key, no timestamp.
//!
//! Only databases that fork can quiesce ([`Versioning::can_quiesce`](crate::Versioning)); in all others a commit pays one
//! predicted branch for it.

use crate::worker::Worker;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Default)]
pub(crate) struct Quiescence {
    holders: AtomicUsize,
    sleep: Mutex<()>,
    opened: Condvar,
}

impl Quiescence {
    /// C1 to C3. The caller ends its commit with [`Worker::end_commit`].
    pub(crate) fn begin_commit(&self, worker: &Worker) {
        loop {
            worker.begin_commit();
            if self.holders.load(Ordering::SeqCst) == 0 {
                return;
            }
            worker.end_commit();
            self.sleep_until_open();
        }
    }

    fn sleep_until_open(&self) {
        let mut sleep = self.sleep.lock();
        while self.holders.load(Ordering::SeqCst) > 0 {
            self.opened.wait(&mut sleep);
        }
    }

    /// H1.
    pub(crate) fn close(&self) {
        self.holders.fetch_add(1, Ordering::SeqCst);
    }

    /// H4.
    pub(crate) fn open(&self) {
        // Under the mutex, so that no thread that has just seen a holder misses the call.
        let sleep = self.sleep.lock();
        self.holders.fetch_sub(1, Ordering::SeqCst);
        drop(sleep);
        self.opened.notify_all();
    }
}
