//! A bell that wakes a thread which waits for a socket.

use crate::checked;
use std::fs::File;
use std::io::{Read, Result, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};

/// Rung by any thread; heard by the one that waits for a socket and for it. Costs a descriptor.
pub struct Bell(File);

/// Why a wait has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    /// The socket has data, or its end.
    Readable,
    /// The bell was rung since it was last [silenced](Bell::silence).
    Rung,
}

impl Bell {
    /// # Errors
    /// If the system has no descriptor left.
    pub fn new() -> Result<Bell> {
        // SAFETY: The call touches no memory of ours.
        let descriptor = checked(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: The descriptor is open, and nobody else has it.
        Ok(Bell(unsafe { File::from_raw_fd(descriptor) }))
    }

    /// Wakes the thread that waits, or the next that does.
    pub fn ring(&self) {
        // Fails only where it was rung so often that its counter is full: it is heard all the same.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    /// Forgets that it was rung.
    pub fn silence(&self) {
        // Fails if it was not rung.
        let _ = (&self.0).read(&mut [0; 8]);
    }

    /// Waits until the socket has data or the bell is rung; a socket with data comes first.
    ///
    /// # Errors
    /// Those of the system.
    pub fn wait_beside(&self, stream: &impl AsFd) -> Result<Woken> {
        let watched = |descriptor| libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        let mut both = [watched(stream.as_fd().as_raw_fd()), watched(self.0.as_raw_fd())];
        loop {
            // SAFETY: The array is ours for as long as the call takes, and as long as it is told; both descriptors are open.
            match checked(unsafe { libc::poll(both.as_mut_ptr(), both.len() as libc::nfds_t, -1) }) {
                Ok(_) if both[0].revents != 0 => return Ok(Woken::Readable),
                Ok(_) if both[1].revents != 0 => return Ok(Woken::Rung),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn a_wait_ends_with_the_bell_and_with_data() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let bell = Bell::new().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| bell.wait_beside(&stream).unwrap());
            std::thread::sleep(Duration::from_millis(20));
            bell.ring();
            assert_eq!(waiting.join().unwrap(), Woken::Rung);
        });
        bell.silence();
        client.write_all(b"x").unwrap();
        assert_eq!(bell.wait_beside(&stream).unwrap(), Woken::Readable);
        bell.ring();
        assert_eq!(bell.wait_beside(&stream).unwrap(), Woken::Readable);
    }
}
