//! How much memory this process and its children take.

/// Bytes of memory, of pages that several processes have a share in each.
pub(super) fn bytes() -> u64 {
    let own = of_process("self");
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    own + children.flat_map(|pids| pids.split_whitespace().map(of_process).collect::<Vec<_>>()).sum::<u64>()
}

/// Nothing for a process that has ended.
fn of_process(pid: &str) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find(|line| line.starts_with("Pss:"));
    let kibibytes =
        line.and_then(|line| line.split_whitespace().nth(1)).and_then(|number| number.parse::<u64>().ok());
    kibibytes.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Set in a process of this test alone: what other tests take and give back at the same time would be counted, too.
    const ALONE: &str = "ANKERDB_TEST_ALONE";

    #[test]
    fn memory_that_is_touched_is_counted() {
        if std::env::var_os(ALONE).is_none() {
            let program = std::env::current_exe().expect("this program");
            let this = ["--exact", "damon::memory::tests::memory_that_is_touched_is_counted"];
            let output = Command::new(program).args(this).env(ALONE, "1").output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let before = bytes();
        let touched = std::hint::black_box(vec![1u8; 64 << 20]);
        let grown = bytes() as i64 - before as i64;
        assert!((60 << 20..90 << 20).contains(&grown), "{grown} for {}", touched.len());
    }
}
