//! CPU time: of the machine, of this process with its children, of one thread.
//!
//! What other processes used is what the machine was busy with less what this process and its children used. Children
//! are the engine's own work where queries run in copies of the process: counted as others' they would discard the very
//! phases that they make. A child that was waited for is in the counters of its parent; one that still runs, or has
//! ended and was not waited for yet, is found by its parent's number, and so are children of children: a database server that
//! an experiment starts works by those.
//!
//! `/proc` counts in ticks of 10 ms; of a thread it tells nanoseconds where the kernel keeps them.

use std::fs::{File, read_dir, read_to_string};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// A tick of `/proc`, which is the same on all machines that this runs on.
const TICK: Duration = Duration::from_millis(10);
/// How often the looks at this process and at its children are repeated for a child that was waited for in between.
const LOOKS_MAX: usize = 5;
/// The engine's background thread.
const PRUNER: &str = "ankerdb-pruner";

/// A measurement during which the hypervisor gave more than this share of the CPU time to others says little.
pub const STEAL_MAX: f64 = 0.03;
/// A measurement during which other processes used more than this share says little, too.
pub const OTHERS_MAX: f64 = 0.05;

/// CPU time so far, in clock ticks: of all cores (`/proc/stat`) and of this process with its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    total: u64,
    busy: u64,
    steal: u64,
    own: u64,
}

/// Shares of all CPU time that this process could not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Noise {
    /// Given to other machines by the hypervisor.
    pub steal: f64,
    /// Used by processes that are neither this one nor its children.
    pub others: f64,
}

impl Noise {
    /// Whether it is too much for a measurement to be used.
    pub fn is_too_much(self) -> bool {
        self.steal > STEAL_MAX || self.others > OTHERS_MAX
    }

    /// When it is, for people: "over 3% of the CPU time stolen by the hypervisor, or over 5% used by other processes".
    pub fn limits() -> String {
        format!(
            "over {:.0}% of the CPU time stolen by the hypervisor, or over {:.0}% used by other processes",
            STEAL_MAX * 100.0,
            OTHERS_MAX * 100.0
        )
    }
}

impl CpuTimes {
    /// The counters now; zeros where there is no `/proc`. Costs a look at every process of the machine.
    pub fn now() -> CpuTimes {
        let own = own_ticks();
        CpuTimes::parse(&read("/proc/stat"), own)
    }

    /// Fields of the `cpu` line: user nice system idle iowait irq softirq steal guest guest_nice; the last two are
    /// part of the first two.
    fn parse(all: &str, own: u64) -> CpuTimes {
        let line = all.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|tick| tick.parse().ok()).collect();
        let tick = |field: usize| ticks.get(field).copied().unwrap_or(0);
        let total = ticks.iter().sum();
        CpuTimes { total, busy: total - tick(3) - tick(4) - tick(7), steal: tick(7), own }
    }

    /// The noise since `earlier`.
    pub fn noise_since(self, earlier: CpuTimes) -> Noise {
        let since = |count: fn(&CpuTimes) -> u64| count(&self).saturating_sub(count(&earlier)) as f64;
        let total = since(|times| times.total);
        if total == 0.0 {
            return Noise::default();
        }
        let others = (since(|times| times.busy) - since(|times| times.own)).max(0.0);
        Noise { steal: since(|times| times.steal) / total, others: others / total }
    }
}

/// What this process has computed so far.
#[derive(Clone, Copy, Debug)]
pub struct OwnTimes {
    process: Duration,
    pruner: Duration,
}

impl OwnTimes {
    /// Now.
    pub fn now() -> OwnTimes {
        OwnTimes { process: TICK * own_ticks().min(u64::from(u32::MAX)) as u32, pruner: of_threads(PRUNER) }
    }

    /// CPU time that this process and its children used since `earlier`, less `oltp`, that of the OLTP threads, and the
    /// engine's background thread: of the queries, or of what stands in for them.
    pub fn beside_since(self, earlier: OwnTimes, oltp: Duration) -> Duration {
        let all = self.process.saturating_sub(earlier.process);
        all.saturating_sub(oltp).saturating_sub(self.pruner.saturating_sub(earlier.pruner))
    }
}

/// Ticks of a process as its `stat` tells them.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct ProcessTicks {
    parent: u32,
    /// Its own.
    used: u64,
    /// Of its children that were waited for, and of theirs.
    waited_for: u64,
}

impl ProcessTicks {
    /// After the name in parentheses: the second field is the parent, user and system time are the 12th and 13th, those of
    /// children that were waited for the 14th and 15th.
    fn parse(stat: &str) -> Option<ProcessTicks> {
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
        Some(ProcessTicks {
            parent: fields.get(1)?.parse().ok()?,
            used: ticks(11)? + ticks(12)?,
            waited_for: ticks(13)? + ticks(14)?,
        })
    }

    fn of(process: &str) -> Option<ProcessTicks> {
        ProcessTicks::parse(&read(&format!("/proc/{process}/stat")))
    }

    fn sum(self) -> u64 {
        self.used + self.waited_for
    }
}

/// Ticks of this process and of all its children.
fn own_ticks() -> u64 {
    let own = || ProcessTicks::of("self").unwrap_or_default();
    let mut before = own();
    for _ in 0..LOOKS_MAX {
        let children = ticks_of_descendants(std::process::id());
        let after = own();
        // Otherwise a child was waited for in between, and is in both or in neither.
        if after.waited_for == before.waited_for {
            return after.sum() + children;
        }
        before = after;
    }
    before.sum()
}

/// Ticks of the processes that have this parent, or one that does, and so on, waiting to be waited for or at work.
fn ticks_of_descendants(ancestor: u32) -> u64 {
    let processes = read_dir("/proc").into_iter().flatten().flatten();
    let names = processes.filter_map(|process| process.file_name().into_string().ok());
    let numbers = names.filter_map(|name| name.parse::<u32>().ok());
    let mut others: Vec<(u32, ProcessTicks)> =
        numbers.filter_map(|number| Some((number, ProcessTicks::of(&number.to_string())?))).collect();
    let (mut sum, mut parents) = (0, vec![ancestor]);
    while !parents.is_empty() {
        let is_child = |(_, ticks): &(u32, ProcessTicks)| parents.contains(&ticks.parent);
        let (children, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(is_child);
        sum += children.iter().map(|(_, ticks)| ticks.sum()).sum::<u64>();
        (parents, others) = (children.into_iter().map(|(number, _)| number).collect(), rest);
    }
    sum
}

/// CPU time of this process's threads with a name.
fn of_threads(name: &str) -> Duration {
    let threads = read_dir("/proc/self/task").into_iter().flatten().flatten();
    let named = threads.filter(|thread| {
        std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    });
    named
        .filter_map(|thread| ThreadClock::open(&thread.path().to_string_lossy()))
        .map(|clock| clock.read())
        .sum()
}

fn read(path: &str) -> String {
    read_to_string(path).unwrap_or_default()
}

/// CPU time of the thread that opened it. What a thread uses is booked when it sleeps or is interrupted by the clock: of a
/// thread that computes, up to some milliseconds are missing.
pub struct ThreadClock {
    file: File,
    /// `schedstat`, which begins with nanoseconds; otherwise `stat`, which has ticks.
    has_nanoseconds: bool,
}

impl ThreadClock {
    /// Of the calling thread; `None` where there is no `/proc`.
    pub fn of_this_thread() -> Option<ThreadClock> {
        ThreadClock::open("/proc/thread-self")
    }

    fn open(thread: &str) -> Option<ThreadClock> {
        let open = |name: &str, has_nanoseconds| {
            let file = File::open(format!("{thread}/{name}")).ok()?;
            Some(ThreadClock { file, has_nanoseconds })
        };
        open("schedstat", true).or_else(|| open("stat", false))
    }

    /// So far; a system call.
    pub fn read(&self) -> Duration {
        let mut text = [0; 512];
        let length = self.file.read_at(&mut text, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&text[..length]);
        if self.has_nanoseconds {
            let nanoseconds = text.split_whitespace().next().and_then(|number| number.parse().ok());
            return Duration::from_nanos(nanoseconds.unwrap_or(0));
        }
        TICK * ProcessTicks::parse(&text).unwrap_or_default().used.min(u64::from(u32::MAX)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};
    use std::time::Instant;

    fn stat(parent: u32, ticks: [u64; 4]) -> String {
        let [user, system, waited_user, waited_system] = ticks;
        format!(
            "7 (a (b) c) S {parent} 1 1 0 -1 0 9 9 9 9 {user} {system} {waited_user} {waited_system} 20 0 1 0"
        )
    }

    #[test]
    fn a_process_is_what_it_and_its_ended_children_used() {
        let ticks = ProcessTicks::parse(&stat(3, [40, 6, 200, 100])).expect("it is whole");
        assert_eq!(ticks, ProcessTicks { parent: 3, used: 46, waited_for: 300 });
        assert_eq!(ticks.sum(), 346);
        assert_eq!(ProcessTicks::parse("7 (cut) S 1 1"), None);
    }

    #[test]
    fn time_of_neighbours_is_told_from_our_own() {
        let before = CpuTimes::parse("cpu  10 0 10 60 10 0 0 10 5 5\ncpu0 1 1 1 1 1 1 1 1\n", 6);
        assert_eq!(before, CpuTimes { total: 100, busy: 20, steal: 10, own: 6 });
        let after = CpuTimes::parse("cpu  60 0 10 90 10 0 0 30 9 9\n", 46);
        let noise = after.noise_since(before);
        assert_eq!((noise.steal, noise.others), (0.2, 0.1));
        assert_eq!(before.noise_since(before).steal, 0.0);
    }

    /// A child that computes until it is ended.
    struct Busy(Child);

    impl Drop for Busy {
        fn drop(&mut self) {
            self.0.kill().expect("it is ours");
            self.0.wait().expect("it has ended");
        }
    }

    #[test]
    fn children_count_as_our_own_while_they_run_and_when_they_have_ended() {
        let busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("there is a shell");
        let busy = Busy(busy);
        let ticks_of_child = || ProcessTicks::of(&busy.0.id().to_string()).expect("it runs").used;
        let end = Instant::now() + Duration::from_secs(60);
        while ticks_of_child() < 30 {
            assert!(Instant::now() < end, "the child computes nothing");
            std::thread::sleep(Duration::from_millis(10));
        }
        let own = || ProcessTicks::of("self").expect("there is /proc");
        let (alone, with_child) = (own(), own_ticks());
        assert!(with_child >= alone.sum() + 30, "{with_child} ticks with the child, {alone:?} without");
        drop(busy);
        assert!(own().waited_for >= alone.waited_for + 30 && own_ticks() >= with_child);
    }

    #[test]
    fn children_of_children_count_as_our_own_while_they_run() {
        // The shell that is started waits for the one that computes, which ends by itself if this test does.
        let script = "timeout 60 sh -c 'while :; do :; done' & child=$!; trap 'kill $child' TERM; wait";
        let mut shell = Command::new("sh").args(["-c", script]).spawn().expect("there is a shell");
        let (before, end) = (own_ticks(), Instant::now() + Duration::from_secs(60));
        let own = || ProcessTicks::of("self").expect("there is /proc").sum();
        let alone = own();
        let mut counted = false;
        while !counted && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
            counted = own_ticks() - before >= 30 + (own() - alone);
        }
        let sent = Command::new("kill").arg(shell.id().to_string()).status().expect("there is kill");
        assert!(sent.success() && shell.wait().is_ok());
        assert!(counted, "what the shell's child computes is not counted");
    }

    #[test]
    fn a_thread_is_told_what_it_computed_and_not_what_it_slept() {
        let clock = ThreadClock::of_this_thread().expect("there is /proc");
        let before = clock.read();
        std::thread::sleep(Duration::from_millis(200));
        let asleep = clock.read() - before;
        assert!(asleep < Duration::from_millis(100), "{asleep:?}");
        let begun = Instant::now();
        while clock.read() - before < Duration::from_millis(60) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", clock.read());
        }
    }
}
