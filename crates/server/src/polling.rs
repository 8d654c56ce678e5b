//! Asking a socket for a moment whether the next message is there, before sleeping until it comes.
//!
//! A program that does one thing after the other sends its next message as soon as it has the answer. To sleep for these microseconds
//! costs more than they last: the core goes idle, and is woken by the other. So a thread stays awake for [`MOMENT`], as long as that
//! takes no core from others ([`Workers::are_few_serving`](crate::workers::Workers::are_few_serving)), and as long as it pays: after
//! each time that nothing came, it sleeps at once for twice as many messages as before.

use std::time::{Duration, Instant};

/// How long a thread stays awake: what a client takes that had to be woken itself.
const MOMENT: Duration = Duration::from_micros(50);
/// Once nothing came for several times, so many messages are waited for asleep before it is tried again: it costs a client that
/// thinks for longer less than a microsecond for each message.
const ASLEEP_MAX: u32 = 63;

/// Whether it pays to stay awake, for one connection.
#[derive(Debug, Default)]
pub(crate) struct Polling {
    /// So many messages are waited for asleep, from now on.
    asleep: u32,
    /// So many were, after the last time that nothing came.
    last: u32,
}

impl Polling {
    /// Calls `ask` until it is answered, for a moment at most. `None` if it was not, or if it is time to sleep at once.
    pub(crate) fn poll<T>(&mut self, ask: impl FnMut() -> Option<T>) -> Option<T> {
        if !self.is_awake() {
            return None;
        }
        let begun = Instant::now();
        self.ask_while(|| begun.elapsed() < MOMENT, ask)
    }

    /// Asks once, and again for as long as it may.
    fn ask_while<T>(&mut self, may_ask: impl Fn() -> bool, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
        let answer = loop {
            let answer = ask();
            if answer.is_some() || !may_ask() {
                break answer;
            }
            std::hint::spin_loop();
        };
        self.learn(answer.is_some());
        answer
    }

    fn is_awake(&mut self) -> bool {
        let is_awake = self.asleep == 0;
        self.asleep = self.asleep.saturating_sub(1);
        is_awake
    }

    fn learn(&mut self, has_paid: bool) {
        self.last = if has_paid { 0 } else { (2 * self.last + 1).min(ASLEEP_MAX) };
        self.asleep = self.last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_pay_is_tried_less_and_less_often() {
        let mut polling = Polling::default();
        let mut asked = [false; 400];
        for asked in &mut asked {
            assert_eq!(
                polling.poll(|| -> Option<()> {
                    *asked = true;
                    None
                }),
                None
            );
        }
        let tried: Vec<usize> = (0..asked.len()).filter(|&message| asked[message]).collect();
        assert_eq!(tried, [0, 2, 6, 14, 30, 62, 126, 190, 254, 318, 382]);
    }

    #[test]
    fn what_pays_is_done_each_time() {
        let mut polling = Polling::default();
        assert_eq!(polling.poll(|| None::<u8>), None);
        assert_eq!(polling.poll(|| Some(1)), None, "one message is waited for asleep");
        for message in 2..100 {
            let mut times = 0;
            assert!(polling.is_awake());
            // Without a clock: a thread that loses the processor in between has no moment left.
            let answer = polling.ask_while(
                || true,
                || {
                    times += 1;
                    (times > 2).then_some(message)
                },
            );
            assert_eq!((answer, times), (Some(message), 3));
        }
    }
}
