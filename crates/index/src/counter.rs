//! A sum that many threads add to without sharing a cache line.

use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

const STRIPES: usize = 16;

/// Each thread adds to the stripe of its number; the value is the sum of all stripes, exact when no thread adds.
pub(crate) struct Counter {
    stripes: [CachePadded<AtomicIsize>; STRIPES],
}

impl Counter {
    pub(crate) fn new() -> Counter {
        Counter { stripes: std::array::from_fn(|_| CachePadded::new(AtomicIsize::new(0))) }
    }

    #[inline]
    pub(crate) fn add(&self, amount: isize) {
        self.stripes[thread_stripe()].fetch_add(amount, Relaxed);
    }

    pub(crate) fn value(&self) -> usize {
        let sum: isize = self.stripes.iter().map(|stripe| stripe.load(Relaxed)).sum();
        // One thread may have seen a decrement whose increment another stripe got after it was read.
        sum.max(0) as usize
    }
}

#[inline]
fn thread_stripe() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    STRIPE.with(|stripe| {
        if stripe.get() == usize::MAX {
            stripe.set(THREADS.fetch_add(1, Relaxed) % STRIPES);
        }
        stripe.get()
    })
}
