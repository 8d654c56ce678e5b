//! The file with the server's password.

use crate::invalid;
use ankerdb_engine::Result;
use ankerdb_server::Password;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The password that the file's first line is, or is a verifier of.
pub(super) fn read(path: &Path) -> Result<Password> {
    let wrong = |why: &dyn Display| invalid(format!("--password-file \"{}\": {why}", path.display()));
    let mut file = File::open(path).map_err(|error| wrong(&error))?;
    let about = file.metadata().map_err(|error| wrong(&error))?;
    if about.permissions().mode() & 0o077 != 0 {
        return Err(wrong(&"others may read it; chmod 600"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| wrong(&error))?;
    Password::new(text.lines().next().unwrap_or_default()).map_err(|error| wrong(&error.message()))
}

/// What to say of a server that others reach and that asks for none.
pub(super) fn warning(listen: SocketAddr, password: Option<&Password>) -> Option<String> {
    let is_open = password.is_none() && !listen.ip().is_loopback();
    is_open
        .then(|| format!("everybody who reaches {listen} may connect; --password-file asks for a password"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_others_reach_are_warned_about_unless_they_ask() {
        let warned = |listen: &str, password: Option<&Password>| {
            warning(listen.parse().expect("an address"), password).is_some()
        };
        let password = Password::new("x").expect("a password");
        assert!(warned("0.0.0.0:5432", None) && warned("[::]:5432", None) && warned("192.0.2.1:5432", None));
        assert!(!warned("127.0.0.1:5432", None) && !warned("[::1]:5432", None));
        assert!(!warned("0.0.0.0:5432", Some(&password)));
    }
}
