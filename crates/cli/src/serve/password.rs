//! The file with the server's password.

use super::secret;
use ankerdb_engine::Result;
use ankerdb_server::Password;
use std::net::SocketAddr;
use std::path::Path;

/// The password that the file's first line is, or is a verifier of.
pub(super) fn read(path: &Path) -> Result<Password> {
    let text = secret::read("--password-file", path)?;
    let text = String::from_utf8(text).map_err(|error| secret::wrong("--password-file", path, &error))?;
    let password = Password::new(text.lines().next().unwrap_or_default());
    password.map_err(|error| secret::wrong("--password-file", path, &error.message()))
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
