//! Sockets over TCP and within the machine as one type, and what the system can do with them and the standard library does not
//! offer: reading and sending without waiting, waking a thread that accepts, or that waits for a socket, and telling of data or of closed ends
//! among many sockets.
//!
//! The functions are small and safe to call. The unsafe code is in the system calls, each of which says why it is
//! sound.
//!
//! (Crates that offer all of this share features with libraries of the query engine, which would be compiled once more for
//! the tests; these are eight calls.)

mod bell;
mod closed;
mod poller;
mod readable;
mod stream;

pub use bell::{Bell, Woken};
pub use closed::ClosedWatch;
pub use readable::ReadableWatch;
pub use stream::{Listener, Stream};

use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd};

/// Reads what has arrived, without waiting for more. 0 at the end of the stream.
///
/// # Errors
/// `WouldBlock` if nothing has arrived; else those of the socket.
pub fn receive_now(stream: &impl AsFd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: The buffer is ours for as long as the call takes, and as long as it is told; the descriptor is open.
    let read = unsafe {
        libc::recv(stream.as_fd().as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT)
    };
    usize::try_from(read).map_err(|_| Error::last_os_error())
}

/// Sends what there is room for, without waiting for more. How much that was.
///
/// # Errors
/// `WouldBlock` if there is no room; else those of the socket.
pub fn send_now(stream: &impl AsFd, bytes: &[u8]) -> Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: The bytes are ours for as long as the call takes, and as many as it is told; the descriptor is open.
    let sent = unsafe { libc::send(stream.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(sent).map_err(|_| Error::last_os_error())
}

/// What the system says went wrong, if it says -1.
fn checked(returned: libc::c_int) -> Result<libc::c_int> {
    if returned == -1 { Err(Error::last_os_error()) } else { Ok(returned) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_has_arrived_is_read_and_nothing_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4];
        assert_eq!(receive_now(&stream, &mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        client.write_all(b"abc").unwrap();
        stream.peek(&mut buffer).unwrap();
        assert_eq!((receive_now(&stream, &mut buffer).unwrap(), &buffer[..3]), (3, &b"abc"[..]));
        drop(client);
        stream.peek(&mut buffer).unwrap();
        assert_eq!(receive_now(&stream, &mut buffer).unwrap(), 0);
    }

    #[test]
    fn what_there_is_room_for_is_sent_and_nothing_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        assert_eq!(send_now(&stream, b"abc").unwrap(), 3);
        let mut read = [0; 3];
        client.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"abc");
        let many = vec![0; 1 << 20];
        let refused = (0..1000).find_map(|_| send_now(&stream, &many).err());
        assert_eq!(refused.unwrap().kind(), ErrorKind::WouldBlock, "the client does not read");
    }
}
