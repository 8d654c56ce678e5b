//! How much memory there is: of the machine, or of the control group that this process is in if that is less.

use std::fs::read_to_string;
use std::path::Path;

/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// Bytes of memory that this process may use at most; `None` if the system does not say.
pub fn memory_bytes() -> Option<u64> {
    let total = total_bytes(&read_to_string("/proc/meminfo").ok()?)?;
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(group_limit(Path::new(GROUPS), &groups).map_or(total, |limit| limit.min(total)))
}

/// The line `MemTotal`.
fn total_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// The least limit of the process's control groups and those above them: `groups` are the lines of `/proc/self/cgroup`,
/// `0::/path` for the second version of groups, `4:memory:/path` for the first.
fn group_limit(mount: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (controllers, path) = (fields.nth(1)?, fields.next()?.trim_start_matches('/'));
        match controllers {
            "" => least_above(mount, path, "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                least_above(&mount.join("memory"), path, "memory.limit_in_bytes")
            }
            _ => None,
        }
    });
    limits.min()
}

/// The least number in files of this name in a folder and those above it. Inside of a container its own group is the root.
fn least_above(root: &Path, path: &str, file: &str) -> Option<u64> {
    let folder = root.join(path);
    let folders = folder.ancestors().take_while(|folder| folder.starts_with(root));
    folders.filter_map(|folder| read_to_string(folder.join(file)).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_machine_says_how_much_memory_it_has() {
        assert_eq!(total_bytes("MemTotal:       24029940 kB\nMemFree: 5 kB\n"), Some(24029940 * 1024));
        assert_eq!(total_bytes("MemFree: 5 kB\n"), None);
        #[cfg(target_os = "linux")]
        assert!(memory_bytes().expect("Linux says it") > 64 << 20);
    }

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let root = std::env::temp_dir().join(format!("ankerdb-groups-{}", std::process::id()));
        fs::create_dir_all(root.join("outer/inner")).expect("there is room");
        fs::create_dir_all(root.join("memory/old")).expect("there is room");
        let write = |path: &str, text: &str| fs::write(root.join(path), text).expect("there is room");
        write("outer/memory.max", "4096\n");
        write("outer/inner/memory.max", "max\n");
        write("memory/old/memory.limit_in_bytes", "1000\n");
        assert_eq!(group_limit(&root, "0::/outer/inner\n"), Some(4096));
        assert_eq!(group_limit(&root, "0::/elsewhere\n"), None);
        assert_eq!(group_limit(&root, "5:cpu,memory:/old\n0::/outer/inner\n"), Some(1000));
        assert_eq!(group_limit(&root, "5:cpu:/old\n"), None);
        fs::remove_dir_all(&root).expect("made above");
    }
}
