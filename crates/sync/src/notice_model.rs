//! loom models of [`crate::notice`].
//!
//! Two threads add to a set of a word while a third looks for what is there, and takes some of it out. In the end there is nothing, or it is
//! found.

use std::sync::Arc;

use loom::sync::atomic::AtomicU64;
use loom::thread;

use crate::notice::Notice;
use crate::primitive::{Ordering, ProofStep, check, check_without};

#[derive(Default)]
struct Set {
    bits: AtomicU64,
    notice: Notice,
}

impl Set {
    fn add(&self, bit: u64) {
        if self.bits.fetch_or(bit, Ordering::Relaxed) == 0 {
            self.notice.post();
        }
    }

    fn look(&self) -> bool {
        self.notice.look(|| self.bits.load(Ordering::Relaxed) != 0)
    }
}

fn adding_and_looking() {
    let set = Arc::new(Set::default());
    let adding = [1, 2].map(|bit| {
        let set = Arc::clone(&set);
        thread::spawn(move || set.add(bit))
    });
    if set.look() {
        set.bits.fetch_and(!1, Ordering::Relaxed);
    }
    adding.into_iter().for_each(|thread| thread.join().unwrap());
    let is_empty = set.bits.load(Ordering::Relaxed) == 0;
    assert!(is_empty || set.look(), "nobody would ever look for what is there");
}

#[test]
fn what_is_there_is_found_or_there_is_nothing() {
    check(3, adding_and_looking);
}

#[test]
#[should_panic]
fn a_notice_that_goes_after_the_look_is_lost() {
    check_without(ProofStep::NoticeGoesFirst, adding_and_looking);
}

#[test]
#[should_panic]
fn a_look_that_does_not_see_what_the_notice_says_loses_it() {
    check_without(ProofStep::NoticeAcquires, adding_and_looking);
}
