//! The moment that `now`, `today`, `tomorrow` and `yesterday` stand for in texts of dates and times: when the transaction began.
//!
//! A thread that works for a session knows it. On one that nobody has told, such texts are refused, rather than read by a clock that
//! the transaction does not go by.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a thread knows.
#[derive(Clone, Copy)]
enum PresentMoment {
    Nothing,
    /// The moment comes when it is asked for.
    Comes,
    At(i64),
}

/// The words.
const PRESENT_WORDS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];

thread_local! {
    static PRESENT: Cell<PresentMoment> = const { Cell::new(PresentMoment::Nothing) };
}

/// From here on the thread works for a transaction that began at this moment, in microseconds since 1970; without one, for a transaction
/// that begins when the moment is first asked for.
#[inline]
pub fn enter_present(moment: Option<i64>) {
    PRESENT.set(moment.map_or(PresentMoment::Comes, PresentMoment::At));
}

/// Puts back what a thread knew before.
struct Before(PresentMoment);

impl Drop for Before {
    fn drop(&mut self) {
        PRESENT.set(self.0);
    }
}

/// Does work for a transaction that began at this moment, on a thread that others work on, too.
pub fn within_present<T>(moment: Option<i64>, work: impl FnOnce() -> T) -> T {
    let _before = Before(PRESENT.replace(moment.map_or(PresentMoment::Nothing, PresentMoment::At)));
    work()
}

/// When the transaction of the thread's work began; `None` if nobody has said.
pub fn present() -> Option<i64> {
    match PRESENT.get() {
        PresentMoment::Nothing => None,
        PresentMoment::At(moment) => Some(moment),
        PresentMoment::Comes => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let moment = since.as_micros() as i64;
            enter_present(Some(moment));
            Some(moment)
        }
    }
}

/// Whether a text may stand for a moment that this module knows: it has one of the words, by itself.
pub fn mentions_present(text: &str) -> bool {
    let mut words = text.split(|letter: char| !letter.is_ascii_alphabetic());
    words.any(|word| PRESENT_WORDS.iter().any(|present| present.eq_ignore_ascii_case(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_from_parts_of_others() {
        for text in ["now", "Today", "tomorrow 10:00", "{yesterday,2024-01-01}", "[2024-01-01,today)"] {
            assert!(mentions_present(text), "{text}");
        }
        for text in ["", "unknown", "Snow", "todays", "2024-01-01", "nowhere"] {
            assert!(!mentions_present(text), "{text}");
        }
    }
}
