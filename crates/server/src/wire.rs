//! One connection's socket with its buffers.
//!
//! Output collects in memory and leaves at the points where PostgreSQL flushes (ready for query, Flush, COPY), or
//! once [`FLUSH_BYTES`] have collected. A client that does not read stops its own connection there: that is all
//! the flow control there is, and all that is needed.

use crate::frontend::Frame;
use ankerdb_base::{Error, SqlState};
use bytes::{Buf, BytesMut};
use pgwire::messages::Message;
use pgwire::messages::response::{ErrorResponse, ReadyForQuery, TransactionStatus};
use std::io::ErrorKind;
use std::sync::Arc;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Output past this size is written before more is produced.
const FLUSH_BYTES: usize = 64 * 1024;
/// Free room in the input buffer for one read.
const READ_BYTES: usize = 16 * 1024;
/// Input buffers that grew past this for one large message are given back.
const KEPT_BYTES: usize = 1024 * 1024;

/// Why a message was not served.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The statement failed. The client is told and the connection goes on.
    Statement(Error),
    /// The client is told, and the connection ends.
    Fatal(Error),
    /// The client is gone or said goodbye.
    Gone,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error.state() {
            SqlState::AdminShutdown => Failure::Fatal(error),
            SqlState::ConnectionFailure => Failure::Gone,
            _ => Failure::Statement(error),
        }
    }
}

/// Result of serving a message.
pub(crate) type Served<T = ()> = Result<T, Failure>;

/// The socket, what has been read but not taken, what was said but not sent.
pub(crate) struct Wire {
    stream: Arc<TcpStream>,
    input: BytesMut,
    /// Messages to the client, encoded.
    pub output: BytesMut,
    shutdown: watch::Receiver<bool>,
}

impl Wire {
    pub fn new(stream: Arc<TcpStream>, shutdown: watch::Receiver<bool>) -> Wire {
        Wire { stream, input: BytesMut::new(), output: BytesMut::new(), shutdown }
    }

    /// The next message. Its length was checked, its body was not decoded.
    pub async fn read_frame(&mut self) -> Served<Frame> {
        loop {
            if let Some(frame) = Frame::take(&mut self.input).map_err(Failure::Fatal)? {
                return Ok(frame);
            }
            if self.input.is_empty() && self.input.capacity() > KEPT_BYTES {
                self.input = BytesMut::new();
            }
            self.fill().await?;
        }
    }

    /// Takes exactly this many bytes: for the startup packet, which has no type byte.
    pub async fn read_exact(&mut self, length: usize) -> Served<BytesMut> {
        while self.input.len() < length {
            self.fill().await?;
        }
        Ok(self.input.split_to(length))
    }

    /// The type of the next message if any of it has arrived already. Does not wait.
    pub fn peek_kind(&mut self) -> Option<u8> {
        if self.input.is_empty() {
            // An error here comes up again at the next read.
            let _ = self.try_read();
        }
        self.input.first().copied()
    }

    /// Reads what has arrived, at least one byte.
    async fn fill(&mut self) -> Served {
        loop {
            match self.try_read() {
                Ok(0) => return Err(Failure::Gone),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable().await?,
                Err(_) => return Err(Failure::Gone),
            }
        }
    }

    /// Reads what has arrived. When that was less than there is room for, the socket is empty: it is noted as not
    /// readable, so that the next wait asks the poller at once and not, in vain, the socket first.
    fn try_read(&mut self) -> std::io::Result<usize> {
        self.input.reserve(READ_BYTES);
        let room = self.input.capacity() - self.input.len();
        let mut outcome = Err(ErrorKind::WouldBlock.into());
        // What arrives after the read makes the socket readable again: what is taken back is the readiness that was
        // seen before it.
        let _ = self.stream.try_io(Interest::READABLE, || {
            outcome = self.stream.try_read_buf(&mut self.input);
            match outcome {
                Ok(read) if read > 0 && read < room => Err(ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            }
        });
        outcome
    }

    async fn readable(&mut self) -> Served {
        tokio::select! {
            ready = self.stream.readable() => ready.map_err(|_| Failure::Gone),
            // An error means that the server is gone altogether.
            _ = self.shutdown.wait_for(|&ending| ending) => Err(Failure::Fatal(Error::new(
                SqlState::AdminShutdown,
                "terminating connection due to administrator command",
            ))),
        }
    }

    /// Waits for `work`, but not longer than the client stays.
    pub async fn while_connected<T>(&self, work: impl Future<Output = T>) -> Served<T> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            _ = closed(&self.stream) => Err(Failure::Gone),
        }
    }

    /// Adds a message to the output.
    pub fn send(&mut self, message: &impl Message) -> Served {
        let encoded = message.encode(&mut self.output);
        encoded.map_err(|error| Failure::Fatal(Error::internal(format!("cannot encode a message: {error}"))))
    }

    pub fn send_error(&mut self, severity: &str, error: &Error) -> Served {
        self.send(&error_response(severity, error))
    }

    pub fn send_ready(&mut self, status: ankerdb_sql::TransactionStatus) -> Served {
        let status = match status {
            ankerdb_sql::TransactionStatus::Idle => TransactionStatus::Idle,
            ankerdb_sql::TransactionStatus::InTransaction => TransactionStatus::Transaction,
            ankerdb_sql::TransactionStatus::Failed => TransactionStatus::Error,
        };
        self.send(&ReadyForQuery::new(status))
    }

    /// Writes the output if much has collected, and lets the other connections of this thread have their turn.
    pub async fn flush_if_full(&mut self) -> Served {
        if self.output.len() >= FLUSH_BYTES {
            self.flush().await?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Writes all output.
    pub async fn flush(&mut self) -> Served {
        while !self.output.is_empty() {
            match self.stream.try_write(&self.output) {
                Ok(written) => self.output.advance(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.stream.writable().await.map_err(|_| Failure::Gone)?
                }
                Err(_) => return Err(Failure::Gone),
            }
        }
        if self.output.capacity() > KEPT_BYTES {
            self.output = BytesMut::new();
        }
        Ok(())
    }
}

/// Waits until the other side has closed its end.
///
/// The socket is not registered for urgent data, so of all that `PRIORITY` stands for only "read side closed"
/// can come; unlike `READABLE` it stays quiet while data waits to be read.
pub(crate) async fn closed(stream: &TcpStream) {
    // An error means that the runtime is shutting down: as good as closed.
    let _ = stream.ready(Interest::PRIORITY).await;
}

fn error_response(severity: &str, error: &Error) -> ErrorResponse {
    let mut fields = vec![
        (b'S', severity.to_owned()),
        (b'V', severity.to_owned()),
        (b'C', error.state().code().to_owned()),
        (b'M', error.message().to_owned()),
    ];
    fields.extend(error.detail().map(|detail| (b'D', detail.to_owned())));
    fields.extend(error.hint().map(|hint| (b'H', hint.to_owned())));
    ErrorResponse::new(fields)
}
