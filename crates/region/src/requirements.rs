//! What rewiring needs of the machine, beside what its detector needs.

use crate::budget;
use crate::file::MemoryFile;
use ankerdb_base::{Error, Result, SqlState};

/// With a lower limit on mappings than this, the rest of a process uses them up.
const MAPPINGS_MIN: usize = 4096;

/// 0A000 or 53200 with what is missing and how to get it.
pub(crate) fn rewiring() -> Result<()> {
    mappings(budget::limit())?;
    overcommit(&std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default())?;
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: fills a structure of ours.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    file_size(limit.rlim_cur)?;
    MemoryFile::new(crate::PageSize::Small.bytes()).map(|_| ())
}

fn mappings(limit: usize) -> Result<()> {
    if limit >= MAPPINGS_MIN {
        return Ok(());
    }
    let message =
        format!("rewiring needs {MAPPINGS_MIN} memory mappings at least, and vm.max_map_count is {limit}");
    Err(Error::new(SqlState::OutOfMemory, message)
        .with_hint("Raise it with: sysctl -w vm.max_map_count=65530."))
}

fn overcommit(mode: &str) -> Result<()> {
    if mode.trim() != "2" {
        return Ok(());
    }
    let message =
        "rewiring maps the same memory many times, and vm.overcommit_memory = 2 charges each of them in full";
    Err(Error::new(SqlState::OutOfMemory, message)
        .with_hint("Change it with: sysctl -w vm.overcommit_memory=0."))
}

fn file_size(limit: libc::rlim_t) -> Result<()> {
    if limit == libc::RLIM_INFINITY {
        return Ok(());
    }
    let message =
        format!("rewiring makes long sparse files in main memory, and files are limited to {limit} bytes");
    Err(Error::new(SqlState::OutOfMemory, message).with_hint("Raise the limit with: ulimit -f unlimited."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(mappings(65_530), Ok(()));
        assert!(
            mappings(1000)
                .is_err_and(|error| error.hint().is_some_and(|hint| hint.contains("max_map_count")))
        );
        assert_eq!(overcommit("0\n"), Ok(()));
        assert!(overcommit("2\n").is_err_and(|error| error.message().contains("overcommit_memory = 2")));
        assert_eq!(file_size(libc::RLIM_INFINITY), Ok(()));
        assert!(file_size(1 << 30).is_err());
    }
}
