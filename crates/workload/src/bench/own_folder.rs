//! A folder in which a benchmark keeps a database, and which goes with it.

use super::config::invalid;
use ankerdb_engine::Result;
use std::path::{Path, PathBuf};

/// 22023 unless the folder to put it into is there: one that is made for a mistyped name would stay.
pub(super) fn check_parent(option: &str, parent: &Path) -> Result<()> {
    match parent.is_dir() {
        true => Ok(()),
        false => Err(invalid(format!("{option} \"{}\" is no folder", parent.display()))),
    }
}

/// See the module.
pub(super) struct OwnFolder(PathBuf);

impl OwnFolder {
    /// Not made yet: the database does that. Named after the process, so that nothing is there.
    pub(super) fn new(parent: &Path, name: &str) -> OwnFolder {
        OwnFolder(parent.join(format!("ankerdb-bench-{name}-{}", std::process::id())))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        // What cannot be removed has a name that says whose it was.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
