//! What a result was measured on.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        assert_eq!(field("processor : 0\nmodel name\t: Fast CPU\n", "model name"), Some("Fast CPU"));
        assert_eq!(kilobytes("MemTotal:  12 kB\nMemAvailable: 5 kB\n", "MemAvailable:"), 5 * 1024);
    }
}
