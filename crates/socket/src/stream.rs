//! A connection, over TCP or within the machine, and what accepts it.

use crate::checked;
use std::io::{IoSlice, Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// One end of a connection, as blocking as the standard library's.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// To a program on this machine, through a file.
    Unix(UnixStream),
}

impl Stream {
    /// Address and port of the other end; `None` within the machine, and where it is gone.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    /// Address and port of this end; `None` within the machine.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(stream) => stream.local_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    /// Sends what is written at once, without waiting for more. Within the machine that is so anyway.
    ///
    /// # Errors
    /// Those of the system.
    pub fn send_at_once(&self) -> Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nodelay(true),
            Stream::Unix(_) => Ok(()),
        }
    }

    /// How long a read waits; `None`: until something arrives.
    ///
    /// # Errors
    /// `InvalidInput` for no time at all; else those of the system.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(limit),
            Stream::Unix(stream) => stream.set_read_timeout(limit),
        }
    }

    /// How long a write waits for room before it fails with `WouldBlock`; `None`: until there is some.
    ///
    /// # Errors
    /// `InvalidInput` for no time at all; else those of the system.
    pub fn set_write_timeout(&self, limit: Option<Duration>) -> Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_write_timeout(limit),
            Stream::Unix(stream) => stream.set_write_timeout(limit),
        }
    }

    /// Ends one or both directions: a thread that waits there is woken.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn shutdown(&self, how: Shutdown) -> Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(how),
            Stream::Unix(stream) => stream.shutdown(how),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Stream::Tcp(stream) => (&*stream).read(buffer),
            Stream::Unix(stream) => (&*stream).read(buffer),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Stream::Tcp(stream) => (&*stream).write(bytes),
            Stream::Unix(stream) => (&*stream).write(bytes),
        }
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize> {
        match self {
            Stream::Tcp(stream) => (&*stream).write_vectored(pieces),
            Stream::Unix(stream) => (&*stream).write_vectored(pieces),
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Accepts connections of one kind.
#[derive(Debug)]
pub enum Listener {
    /// At an address and a port.
    Tcp(TcpListener),
    /// At a file.
    Unix(UnixListener),
}

impl Listener {
    /// Waits for the next connection.
    ///
    /// # Errors
    /// Those of the system, and once accepting was [stopped](Self::stop).
    pub fn accept(&self) -> Result<Stream> {
        match self {
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        }
    }

    /// Ends accepting: a thread that waits for a connection is woken with an error, and later calls fail as well.
    ///
    /// # Errors
    /// If it has ended already.
    pub fn stop(&self) -> Result<()> {
        let descriptor = match self {
            Listener::Tcp(listener) => listener.as_raw_fd(),
            Listener::Unix(listener) => listener.as_raw_fd(),
        };
        // SAFETY: The descriptor is open; the call touches no memory of ours.
        checked(unsafe { libc::shutdown(descriptor, libc::SHUT_RDWR) }).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn listeners(name: &str) -> [(Listener, Option<PathBuf>); 2] {
        let path = std::env::temp_dir().join(format!("ankerdb-{name}-{}", std::process::id()));
        let unix = Listener::Unix(UnixListener::bind(&path).unwrap());
        [(Listener::Tcp(TcpListener::bind("127.0.0.1:0").unwrap()), None), (unix, Some(path))]
    }

    #[test]
    fn both_kinds_connect_read_write_and_end() {
        for (listener, path) in listeners("both") {
            let client = match (&listener, &path) {
                (Listener::Tcp(tcp), _) => {
                    Stream::Tcp(TcpStream::connect(tcp.local_addr().unwrap()).unwrap())
                }
                (Listener::Unix(_), path) => {
                    Stream::Unix(UnixStream::connect(path.as_ref().unwrap()).unwrap())
                }
            };
            let server = listener.accept().unwrap();
            server.send_at_once().unwrap();
            assert_eq!(server.peer_address(), client.local_address());
            assert_eq!(server.peer_address().is_some(), path.is_none());
            (&client).write_all(b"abc").unwrap();
            let mut read = [0; 3];
            (&server).read_exact(&mut read).unwrap();
            assert_eq!(&read, b"abc");
            server.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            assert!((&server).read(&mut read).is_err(), "nothing has come");
            server.set_read_timeout(None).unwrap();
            std::thread::scope(|scope| {
                let reading = scope.spawn(|| (&server).read(&mut [0]).unwrap());
                std::thread::sleep(Duration::from_millis(20));
                server.shutdown(Shutdown::Read).unwrap();
                assert_eq!(reading.join().unwrap(), 0);
            });
            let why = [IoSlice::new(b"w"), IoSlice::new(b"hy")];
            assert_eq!((&server).write_vectored(&why).unwrap(), 3);
            (&client).read_exact(&mut read).unwrap();
            assert_eq!(&read, b"why", "the other direction goes on");
            path.map(std::fs::remove_file).transpose().unwrap();
        }
    }

    #[test]
    fn who_accepts_is_woken() {
        for (listener, path) in listeners("woken") {
            std::thread::scope(|scope| {
                let accepting = scope.spawn(|| listener.accept().map(drop));
                std::thread::sleep(Duration::from_millis(20));
                listener.stop().unwrap();
                assert!(accepting.join().unwrap().is_err());
            });
            assert!(listener.accept().is_err());
            path.map(std::fs::remove_file).transpose().unwrap();
        }
    }
}
