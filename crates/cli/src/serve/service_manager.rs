//! What the service manager is told (`sd_notify(3)`): a datagram of assignments to the socket that `NOTIFY_SOCKET` names.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The service manager that has started this process, if one did that wants to be told.
pub(super) struct ServiceManager(Option<(UnixDatagram, SocketAddr)>);

impl ServiceManager {
    /// The one that the environment names.
    pub(super) fn of_environment() -> ServiceManager {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return ServiceManager(None);
        };
        let found = address(&name).and_then(|address| Ok((UnixDatagram::unbound()?, address)));
        if let Err(error) = &found {
            eprintln!("ankerdb: the service manager cannot be told: {}: {error}", name.to_string_lossy());
        }
        ServiceManager(found.ok())
    }

    /// Tells it, if it is there. One that does not listen is no reason to end, and a full socket none to wait.
    pub(super) fn tell(&self, assignments: &str) {
        if let Some((socket, address)) = &self.0 {
            let _ = socket
                .set_nonblocking(true)
                .and_then(|()| socket.send_to_addr(assignments.as_bytes(), address));
        }
    }
}

/// A path, or a name of the abstract kind behind `@`.
fn address(name: &OsStr) -> std::io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => Err(std::io::Error::other("neither a path nor an abstract name")),
    }
}
