//! Files with secrets that options name.

use crate::invalid;
use ankerdb_engine::{Error, Result};
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What is in a file that its owner alone may read.
pub(super) fn read(option: &str, path: &Path) -> Result<Vec<u8>> {
    let mut file = File::open(path).map_err(|error| wrong(option, path, &error))?;
    let about = file.metadata().map_err(|error| wrong(option, path, &error))?;
    if about.permissions().mode() & 0o077 != 0 {
        return Err(wrong(option, path, &"others may read it; chmod 600"));
    }
    let mut contents = Vec::new();
    file.read_to_end(&mut contents).map_err(|error| wrong(option, path, &error))?;
    Ok(contents)
}

/// A file that an option names is not what it has to be.
pub(super) fn wrong(option: &str, path: &Path, why: &dyn Display) -> Error {
    invalid(format!("{option} \"{}\": {why}", path.display()))
}
