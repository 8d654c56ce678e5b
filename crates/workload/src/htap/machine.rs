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

/// The counters of `/proc/stat`, in clock ticks over all cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    total: u64,
    steal: u64,
}

impl CpuTimes {
    /// The counters now; zeros where there is no `/proc/stat`.
    pub fn now() -> CpuTimes {
        CpuTimes::parse(&read_to_string("/proc/stat").unwrap_or_default())
    }

    /// Fields of the `cpu` line: user nice system idle iowait irq softirq steal guest guest_nice; the last two are
    /// part of the first two.
    fn parse(text: &str) -> CpuTimes {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|tick| tick.parse().ok()).collect();
        CpuTimes { total: ticks.iter().sum(), steal: ticks.get(7).copied().unwrap_or(0) }
    }

    /// The share of all CPU time since `earlier` that the hypervisor gave to others.
    pub fn steal_since(self, earlier: CpuTimes) -> f64 {
        let total = self.total.saturating_sub(earlier.total);
        if total == 0 { 0.0 } else { self.steal.saturating_sub(earlier.steal) as f64 / total as f64 }
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
    fn steal_is_the_eighth_field() {
        let before = CpuTimes::parse("cpu  10 0 10 70 0 0 0 10 5 5\ncpu0 1 1 1 1 1 1 1 1\n");
        let after = CpuTimes::parse("cpu  60 0 10 100 0 0 0 30 9 9\n");
        assert_eq!(before, CpuTimes { total: 100, steal: 10 });
        assert_eq!(after.steal_since(before), 0.2);
        assert_eq!(before.steal_since(before), 0.0);
    }

    #[test]
    fn fields_are_found_by_name() {
        assert_eq!(field("processor : 0\nmodel name\t: Fast CPU\n", "model name"), Some("Fast CPU"));
        assert_eq!(kilobytes("MemTotal:  12 kB\nMemAvailable: 5 kB\n", "MemAvailable:"), 5 * 1024);
    }
}
