//! The costs of a transaction besides time: instructions, cache misses, allocations.
//!
//! Instructions and cache misses are counted by the processor, in user mode, over the client threads of a phase. Many
//! virtual machines have no such counters; then the result says so. The provider of the allocator counts allocations,
//! see [`Probes`].

use serde::Serialize;

/// Counters that the program provides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Probes {
    /// Allocations of the calling thread so far.
    pub allocations: Option<fn() -> u64>,
}

/// The processor's counts; `None` where it has no counters.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Instructions retired.
    pub instructions: Option<u64>,
    /// Misses of the last cache.
    pub cache_misses: Option<u64>,
    /// Why something is missing.
    pub unavailable: Option<String>,
}

impl Counts {
    /// Adds another phase's.
    pub fn add(&mut self, other: &Counts) {
        let add = |left: &mut Option<u64>, right: Option<u64>| {
            if let Some(right) = right {
                *left.get_or_insert(0) += right;
            }
        };
        add(&mut self.instructions, other.instructions);
        add(&mut self.cache_misses, other.cache_misses);
        if self.unavailable.is_none() {
            self.unavailable.clone_from(&other.unavailable);
        }
    }
}

/// The part of a result, for each completed transaction.
#[derive(Clone, Debug, Serialize)]
pub struct ProfileReport {
    /// In user mode.
    pub instructions: Option<f64>,
    /// Of the last cache, in user mode.
    pub cache_misses: Option<f64>,
    /// Calls of the allocator.
    pub allocations: Option<f64>,
    /// Why something is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

impl ProfileReport {
    /// Counts of so many completed transactions.
    pub fn of(counts: &Counts, allocations: Option<u64>, completed: u64) -> ProfileReport {
        let each = |count: Option<u64>| count.map(|count| count as f64 / completed.max(1) as f64);
        ProfileReport {
            instructions: each(counts.instructions),
            cache_misses: each(counts.cache_misses),
            allocations: each(allocations),
            unavailable: counts.unavailable.clone(),
        }
    }

    /// One line for people.
    pub fn text(&self) -> String {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let mut text = format!(
            "for each transaction: {} instructions, {} cache misses, {} allocations",
            number(self.instructions, 0),
            number(self.cache_misses, 1),
            number(self.allocations, 2)
        );
        if let Some(reason) = &self.unavailable {
            text.push_str(&format!(" (processor counters are not available here: {reason})"));
        }
        text
    }
}

#[cfg(target_os = "linux")]
mod processor {
    use super::Counts;
    use perf_event::events::{Event, Hardware};
    use perf_event::{Builder, Counter};
    use std::io;

    /// Counters of the calling thread and of the threads that it starts from now on.
    pub struct Counters {
        instructions: io::Result<Counter>,
        cache_misses: io::Result<Counter>,
    }

    fn open(event: impl Event + Clone) -> io::Result<Counter> {
        let mut builder = Builder::new(event);
        builder.inherit(true).exclude_kernel(true).exclude_hv(true);
        builder.build()
    }

    /// The meaning of an error of the system call.
    fn reason(error: &io::Error) -> String {
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("not permitted, see /proc/sys/kernel/perf_event_paranoid: {error}")
            }
            _ => format!("the machine has none: {error}"),
        }
    }

    impl Counters {
        /// Opens what the machine has; nothing is counted yet.
        pub fn open() -> Counters {
            Counters {
                instructions: open(Hardware::INSTRUCTIONS),
                cache_misses: open(Hardware::CACHE_MISSES),
            }
        }

        fn opened(&mut self) -> impl Iterator<Item = &mut Counter> {
            [&mut self.instructions, &mut self.cache_misses].into_iter().flatten()
        }

        /// Counts from now on.
        pub fn start(&mut self) {
            // A counter that does not start reads 0, which is shown.
            self.opened().for_each(|counter| drop(counter.enable()));
        }

        /// Counts no more.
        pub fn stop(&mut self) {
            self.opened().for_each(|counter| drop(counter.disable()));
        }

        /// The counts, when all threads have ended.
        pub fn read(self) -> Counts {
            let mut unavailable = None;
            let mut read = |counter: io::Result<Counter>| match counter.and_then(|mut counter| counter.read())
            {
                Ok(count) => Some(count),
                Err(error) => {
                    unavailable = Some(reason(&error));
                    None
                }
            };
            let (instructions, cache_misses) = (read(self.instructions), read(self.cache_misses));
            Counts { instructions, cache_misses, unavailable }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod processor {
    use super::Counts;

    /// There are none on this system.
    pub struct Counters;

    impl Counters {
        /// Nothing to open.
        pub fn open() -> Counters {
            Counters
        }

        /// Nothing to start.
        pub fn start(&mut self) {}

        /// Nothing to stop.
        pub fn stop(&mut self) {}

        /// Says why there is nothing.
        pub fn read(self) -> Counts {
            Counts { unavailable: Some("only Linux is supported".to_owned()), ..Counts::default() }
        }
    }
}

pub use processor::Counters;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_count_or_it_is_said_why_not() {
        let mut counters = Counters::open();
        counters.start();
        let sum =
            std::thread::spawn(|| (0..1_000_000u64).fold(0, |sum, value| std::hint::black_box(sum + value)));
        assert!(sum.join().expect("adding does not panic") > 0);
        counters.stop();
        let counts = counters.read();
        match counts.instructions {
            Some(instructions) => assert!(instructions > 1_000_000, "{instructions}"),
            None => assert!(counts.unavailable.is_some_and(|reason| !reason.is_empty())),
        }
    }

    #[test]
    fn counts_are_shown_for_each_transaction() {
        let mut counts = Counts { instructions: Some(100), ..Counts::default() };
        counts.add(&Counts {
            instructions: Some(200),
            unavailable: Some("none".into()),
            ..Counts::default()
        });
        let report = ProfileReport::of(&counts, Some(30), 10);
        assert_eq!(
            (report.instructions, report.cache_misses, report.allocations),
            (Some(30.0), None, Some(3.0))
        );
        assert!(
            report.text().contains("30 instructions, - cache misses, 3.00 allocations"),
            "{}",
            report.text()
        );
        assert!(report.text().contains("not available here: none"), "{}", report.text());
    }
}
