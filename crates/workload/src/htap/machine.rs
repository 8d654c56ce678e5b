//! What a result was measured on, and how much of it the hypervisor took away.

use serde::Serialize;
use std::fs::read_to_string;

/// The machine, as results name it.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Cores this process may use.
    pub cores: usize,
    /// Memory of the machine, or of its control group if that is less.
    pub memory_bytes: u64,
    /// The processor's name.
    pub cpu: String,
    /// The kernel's release.
    pub kernel: String,
}

impl Machine {
    /// Looks around; what cannot be found out is "unknown" or 0.
    pub fn detect() -> Machine {
        let text = |path| read_to_string(path).unwrap_or_default();
        let total = kilobytes(&text("/proc/meminfo"), "MemTotal:");
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: group_limit().map_or(total, |limit| limit.min(total)),
            cpu: field(&text("/proc/cpuinfo"), "model name").unwrap_or("unknown").to_owned(),
            kernel: Some(text("/proc/sys/kernel/osrelease").trim().to_owned())
                .filter(|release| !release.is_empty())
                .unwrap_or_else(|| "unknown".to_owned()),
        }
    }
}

/// Bytes that new data may use now; `None` if the system does not say.
pub fn available_memory_bytes() -> Option<u64> {
    let available = kilobytes(&read_to_string("/proc/meminfo").ok()?, "MemAvailable:");
    let used = read_to_string("/sys/fs/cgroup/memory.current").ok().and_then(|text| text.trim().parse().ok());
    let group = group_limit().map(|limit| limit.saturating_sub(used.unwrap_or(0)));
    Some(group.map_or(available, |group| group.min(available)))
}

fn group_limit() -> Option<u64> {
    read_to_string("/sys/fs/cgroup/memory.max").ok()?.trim().parse().ok()
}

fn kilobytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

/// CPU time so far, in clock ticks: of all cores (`/proc/stat`) and of this process (`/proc/self/stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    total: u64,
    busy: u64,
    steal: u64,
    own: u64,
}

/// Shares of all CPU time that this process could not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disturbance {
    /// Given to other machines by the hypervisor.
    pub steal: f64,
    /// Used by other processes.
    pub others: f64,
}

impl CpuTimes {
    /// The counters now; zeros where there is no `/proc`.
    pub fn now() -> CpuTimes {
        let text = |path| read_to_string(path).unwrap_or_default();
        CpuTimes::parse(&text("/proc/stat"), &text("/proc/self/stat"))
    }

    /// Fields of the `cpu` line: user nice system idle iowait irq softirq steal guest guest_nice; the last two are
    /// part of the first two. Of the process, after the name in parentheses: user is the 12th, system the 13th.
    fn parse(all: &str, process: &str) -> CpuTimes {
        let line = all.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|tick| tick.parse().ok()).collect();
        let tick = |field: usize| ticks.get(field).copied().unwrap_or(0);
        let total = ticks.iter().sum();
        let fields = process.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        let own = fields.filter_map(|tick| tick.parse::<u64>().ok()).sum();
        CpuTimes { total, busy: total - tick(3) - tick(4) - tick(7), steal: tick(7), own }
    }

    /// What was taken away since `earlier`.
    pub fn disturbance_since(self, earlier: CpuTimes) -> Disturbance {
        let since = |count: fn(&CpuTimes) -> u64| count(&self).saturating_sub(count(&earlier)) as f64;
        let total = since(|times| times.total);
        if total == 0.0 {
            return Disturbance::default();
        }
        let others = (since(|times| times.busy) - since(|times| times.own)).max(0.0);
        Disturbance { steal: since(|times| times.steal) / total, others: others / total }
    }
}

/// The commit this was built from, "-dirty" appended if the tree had changes; "unknown" outside of a repository.
pub fn commit() -> &'static str {
    option_env!("ANKERDB_COMMIT").unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_neighbours_is_told_from_our_own() {
        let own = |user, system| format!("7 (a (b) c) S 1 1 1 0 -1 0 9 9 9 9 {user} {system} 0 0 20 0");
        let before = CpuTimes::parse("cpu  10 0 10 60 10 0 0 10 5 5\ncpu0 1 1 1 1 1 1 1 1\n", &own(5, 1));
        assert_eq!(before, CpuTimes { total: 100, busy: 20, steal: 10, own: 6 });
        let after = CpuTimes::parse("cpu  60 0 10 90 10 0 0 30 9 9\n", &own(40, 6));
        let disturbance = after.disturbance_since(before);
        assert_eq!((disturbance.steal, disturbance.others), (0.2, 0.1));
        assert_eq!(before.disturbance_since(before).steal, 0.0);
    }

    #[test]
    fn fields_are_found_by_name() {
        assert_eq!(field("processor : 0\nmodel name\t: Fast CPU\n", "model name"), Some("Fast CPU"));
        assert_eq!(kilobytes("MemTotal:  12 kB\nMemAvailable: 5 kB\n", "MemAvailable:"), 5 * 1024);
    }
}
