//! One connection's socket with its buffers.
//!
//! Output collects in memory and leaves at the points where PostgreSQL flushes (ready for query, Flush, COPY), or
//! once [`FLUSH_BYTES`] have collected. A client that does not read stops its own connection there: that is all
//! the flow control there is, and all that is needed.
//!
//! Reads and writes block the connection's thread. Other events that a thread waits for meanwhile are checked when a
//! read has run out of patience ([`Wire::set_patience`]), and every [`LOOK_AROUND`] of a write that there is no room for
//! ([`Wire::heed`]). Output whose write ends so is not lost: it stays, from the byte on that was written last, and goes with the next
//! write, so the client reads whole messages, and behind them the error.

use crate::connections::Connections;
use crate::encryption::Encryption;
use crate::frontend::{Frame, HEADER_BYTES, header};
use crate::polling::Polling;
use crate::tls::Credentials;
use ankerdb_base::{Error, SqlState};
use ankerdb_socket::{Bell, Stream, Woken, receive_now};
use ankerdb_sql::{CancelHandle, Claim, MemoryLimit, Notice};
use bytes::{Buf, BytesMut};
use pgwire::messages::Message;
use pgwire::messages::response::{ErrorResponse, NoticeResponse, ReadyForQuery, TransactionStatus};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Output past this size is written before more is produced.
const FLUSH_BYTES: usize = 64 * 1024;
/// Room for one read.
const READ_BYTES: usize = 16 * 1024;
/// A large message's memory grows by this much, as its bytes arrive.
const GROWTH_BYTES: usize = 64 * 1024;
/// How often a wait for the client looks whether the statement is to end.
pub(crate) const LOOK_AROUND: Duration = Duration::from_millis(20);
/// Buffers that grew past this for one large message are given back.
pub(crate) const KEPT_BYTES: usize = 1024 * 1024;

/// The reason why a message was not served.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The statement failed. The client is told and the connection goes on.
    Statement(Error),
    /// The client is told, and the connection ends.
    Fatal(Error),
    /// The client is gone, or has ended the session.
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

/// The socket, bytes that have been read but not taken, and messages that have not been sent.
pub(crate) struct Wire {
    stream: Arc<Stream>,
    connections: Arc<Connections>,
    /// Once the client has asked for it.
    encryption: Option<Box<Encryption>>,
    /// What has been read lies from `start` to `end`.
    input: Box<[u8]>,
    start: usize,
    end: usize,
    patience: Option<Duration>,
    /// How much memory messages may take.
    memory_limit: MemoryLimit,
    /// What a write looks at while it waits, once there is a session.
    heeded: Option<CancelHandle>,
    /// Messages to the client, encoded.
    pub output: BytesMut,
}

/// Room for what is read.
fn room() -> Box<[u8]> {
    vec![0; READ_BYTES].into_boxed_slice()
}

impl Wire {
    pub(crate) fn new(stream: Arc<Stream>, connections: Arc<Connections>) -> Wire {
        Wire {
            stream,
            connections,
            encryption: None,
            input: room(),
            start: 0,
            end: 0,
            patience: None,
            memory_limit: MemoryLimit::NONE,
            heeded: None,
            output: BytesMut::new(),
        }
    }

    /// Answers a client that wants its connection encrypted with `accepted`, and agrees with it on keys. What was read and not taken is the
    /// beginning of that.
    pub(crate) fn encrypt(
        &mut self,
        credentials: Arc<Credentials>,
        accepted: &[u8],
        until: Instant,
    ) -> Served {
        self.output.extend_from_slice(accepted);
        self.flush()?;
        let sent = &self.input[self.start..self.end];
        // A client that sends something else is told so by TLS itself.
        let agreed = Encryption::agree(credentials, &self.stream, sent, until).map_err(|_| Failure::Gone)?;
        (self.start, self.end) = (0, 0);
        self.encryption = Some(Box::new(agreed));
        Ok(())
    }

    /// What the connection is encrypted with, if it is.
    pub(crate) fn encryption(&self) -> Option<&Encryption> {
        self.encryption.as_deref()
    }

    /// The socket.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// From here on large messages are refused past this limit.
    pub(crate) fn limit_memory(&mut self, limit: MemoryLimit) {
        self.memory_limit = limit;
    }

    /// From here on a write that the client keeps waiting ends when the session is to end, and one in the middle of a statement when that
    /// is to end.
    pub(crate) fn heed(&mut self, session: CancelHandle) -> Served {
        self.stream.set_write_timeout(Some(LOOK_AROUND)).map_err(|_| Failure::Gone)?;
        self.heeded = Some(session);
        Ok(())
    }

    /// How long a read sleeps before it checks for other events; `None`: until something arrives. Costs a call to
    /// the system if the time changes.
    pub(crate) fn set_patience(&mut self, patience: Option<Duration>) -> Served {
        if self.patience != patience {
            // No time at all would mean for ever.
            let limit = patience.map(|limit| limit.max(Duration::from_micros(1)));
            self.stream.set_read_timeout(limit).map_err(|_| Failure::Gone)?;
            self.patience = patience;
        }
        Ok(())
    }

    /// The next message, in place of the last one. Its length was checked, its body was not decoded; one that there is no
    /// memory for is passed over, and fails as a statement does. `impatient` is called each time that a read has run out
    /// of patience, and decides whether to go on.
    pub(crate) fn read_frame(&mut self, frame: &mut Frame, impatient: &mut dyn FnMut() -> Served) -> Served {
        let (kind, length) = loop {
            match header(&self.input[self.start..self.end]).map_err(Failure::Fatal)? {
                Some(header) => break header,
                None => self.fill(impatient)?,
            }
        };
        self.start += HEADER_BYTES;
        frame.kind = kind;
        frame.body.clear();
        frame.body.shrink_to(KEPT_BYTES);
        let buffered = length.min(self.end - self.start);
        self.grow(&mut frame.body, buffered).map_err(Failure::Fatal)?;
        frame.body.copy_from_slice(&self.input[self.start..self.start + buffered]);
        self.start += buffered;
        self.read_rest(&mut frame.body, length, impatient)
    }

    /// Reads a body's bytes that do not fit the buffer to where they are wanted.
    fn read_rest(
        &mut self,
        body: &mut Vec<u8>,
        length: usize,
        impatient: &mut dyn FnMut() -> Served,
    ) -> Served {
        while body.len() < length {
            let done = body.len();
            if let Err(error) = self.grow(body, (length - done).min(GROWTH_BYTES)) {
                *body = Vec::new();
                self.pass_over(length - done, impatient)?;
                return Err(Failure::Statement(error));
            }
            let read = self.receive_into(&mut body[done..], impatient)?;
            body.truncate(done + read);
        }
        Ok(())
    }

    /// Reads so many bytes and forgets them.
    fn pass_over(&mut self, mut bytes: usize, impatient: &mut dyn FnMut() -> Served) -> Served {
        let mut forgotten = [0; READ_BYTES];
        while bytes > 0 {
            let some = bytes.min(READ_BYTES);
            bytes -= self.receive_into(&mut forgotten[..some], impatient)?;
        }
        Ok(())
    }

    /// Makes a body longer by zeros.
    fn grow(&self, body: &mut Vec<u8>, by: usize) -> Result<(), Error> {
        if body.capacity() - body.len() < by {
            let more = (2 * body.capacity()).max(body.len() + by) - body.capacity();
            if body.capacity() + more > KEPT_BYTES {
                self.memory_limit.check(Claim::Large, more)?;
            }
            body.try_reserve(by).map_err(|_| Error::out_of_memory(more))?;
        }
        body.resize(body.len() + by, 0);
        Ok(())
    }

    /// Takes exactly this many bytes, up to [`READ_BYTES`]: for the startup packet, which has no type byte. `impatient` is
    /// called before each read, too.
    pub(crate) fn read_exact(
        &mut self,
        length: usize,
        impatient: &mut dyn FnMut() -> Served,
    ) -> Served<Vec<u8>> {
        while self.end - self.start < length {
            impatient()?;
            self.fill(impatient)?;
        }
        let taken = self.input[self.start..self.start + length].to_vec();
        self.start += length;
        Ok(taken)
    }

    /// The first byte that is not taken yet.
    pub(crate) fn peek_first(&mut self, impatient: &mut dyn FnMut() -> Served) -> Served<u8> {
        while self.start == self.end {
            impatient()?;
            self.fill(impatient)?;
        }
        Ok(self.input[self.start])
    }

    /// Whether anything was read that was not taken.
    pub(crate) fn has_input(&self) -> bool {
        self.start < self.end || self.encryption.as_ref().is_some_and(|encryption| encryption.has_waiting())
    }

    /// Reads what arrives within a moment, if nothing is left of what was read before. How a stream has ended is for the next read to
    /// say.
    pub(crate) fn poll(&mut self, polling: &mut Polling) {
        if self.has_input() || self.input.is_empty() {
            return;
        }
        let (stream, encryption) = (&*self.stream, &mut self.encryption);
        let read = polling.poll(|| match read_now(stream, encryption, &mut self.input) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            received => Some(received.unwrap_or(0)),
        });
        (self.start, self.end) = (0, read.unwrap_or(0));
    }

    /// Reads what has arrived if nothing is left of what was read before: after the patience at the latest if it `may_wait`, at once if
    /// not. Whether something has.
    pub(crate) fn fill_once(&mut self, may_wait: bool) -> Served<bool> {
        if self.input.is_empty() {
            self.input = room();
        }
        let mut is_silent = false;
        let filled = if may_wait {
            self.fill(&mut || {
                is_silent = true;
                Err(Failure::Gone)
            })
        } else {
            (self.start, self.end) = (0, 0);
            match read_now(&self.stream, &mut self.encryption, &mut self.input) {
                Ok(0) => Err(self.end_of_stream()),
                Ok(read) => {
                    self.end = read;
                    Ok(())
                }
                Err(error) => {
                    is_silent = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                    Err(Failure::Gone)
                }
            }
        };
        // Of an encrypted connection, some bytes may have come and no whole record.
        if is_silent { Ok(false) } else { filled.map(|()| self.has_input()) }
    }

    /// Gives memory back that messages need, for a while without any.
    pub(crate) fn give_buffers_back(&mut self) {
        debug_assert!(!self.has_input() && self.output.is_empty());
        self.input = Box::default();
        (self.start, self.end) = (0, 0);
        self.output = BytesMut::new();
    }

    /// Waits until the client has sent something or the bell is rung.
    pub(crate) fn wait_beside(&self, bell: &Bell) -> Served<Woken> {
        debug_assert!(!self.has_input(), "it is not in the socket, where it would be waited for");
        bell.wait_beside(&*self.stream).map_err(|_| Failure::Gone)
    }

    /// The type of the next message if any of it has arrived already. Does not wait.
    pub(crate) fn peek_kind(&mut self) -> Option<u8> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            // An error here comes up again at the next read.
            if let Ok(read) = read_now(&self.stream, &mut self.encryption, &mut self.input) {
                self.end = read;
            }
        }
        self.input[self.start..self.end].first().copied()
    }

    /// Reads what has arrived, behind what was read but not taken; as much as [`receive_into`](Self::receive_into) does.
    fn fill(&mut self, impatient: &mut dyn FnMut() -> Served) -> Served {
        self.input.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let mut input = std::mem::take(&mut self.input);
        let read = self.receive_into(&mut input[self.end..], impatient);
        self.input = input;
        self.end += read?;
        Ok(())
    }

    /// Waits for bytes. At least one, or none if the client has sent a part of an encrypted record.
    fn receive_into(&mut self, buffer: &mut [u8], impatient: &mut dyn FnMut() -> Served) -> Served<usize> {
        loop {
            let read = match &mut self.encryption {
                None => (&*self.stream).read(buffer),
                Some(encryption) => {
                    encryption.receive(&self.stream, buffer, |room| (&*self.stream).read(room))
                }
            };
            match read {
                Ok(0) => return Err(self.end_of_stream()),
                Ok(read) => return Ok(read),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => impatient()?,
                    ErrorKind::Interrupted if self.encryption.is_some() => return Ok(0),
                    ErrorKind::Interrupted => {}
                    _ => return Err(Failure::Gone),
                },
            }
        }
    }

    /// Why nothing more will come.
    fn end_of_stream(&self) -> Failure {
        if !self.connections.is_ending() {
            return Failure::Gone;
        }
        Failure::Fatal(Error::new(
            SqlState::AdminShutdown,
            "terminating connection due to administrator command",
        ))
    }

    /// Adds a message to the output.
    pub(crate) fn send(&mut self, message: &impl Message) -> Served {
        let encoded = message.encode(&mut self.output);
        encoded.map_err(|error| Failure::Fatal(Error::internal(format!("cannot encode a message: {error}"))))
    }

    /// `schema`: the name of the error's.
    pub(crate) fn send_error(&mut self, severity: &str, error: &Error, schema: Option<String>) -> Served {
        let mut fields = fields(severity, error);
        fields.extend(schema.map(|schema| (b's', schema)));
        self.send(&ErrorResponse::new(fields))
    }

    pub(crate) fn send_notice(&mut self, notice: &Notice) -> Served {
        self.send(&NoticeResponse::new(fields(notice.severity.word(), &notice.message)))
    }

    pub(crate) fn send_ready(&mut self, status: ankerdb_sql::TransactionStatus) -> Served {
        self.send(&ReadyForQuery::new(match status {
            ankerdb_sql::TransactionStatus::Idle => TransactionStatus::Idle,
            ankerdb_sql::TransactionStatus::InTransaction => TransactionStatus::Transaction,
            ankerdb_sql::TransactionStatus::Failed => TransactionStatus::Error,
        }))
    }

    /// Writes the output if much has collected, in the middle of a statement.
    pub(crate) fn flush_if_full(&mut self) -> Served {
        if self.is_full() { self.flush_heeding(statement_end) } else { Ok(()) }
    }

    /// Whether so much output has collected that it is to be written.
    pub(crate) fn is_full(&self) -> bool {
        self.output.len() >= FLUSH_BYTES
    }

    /// What writes behind all output so far, for a thread beside this one; only one of them reads or writes meanwhile.
    pub(crate) fn writer(&mut self) -> Served<WireWriter<'_>> {
        self.flush_heeding(statement_end)?;
        Ok(WireWriter {
            stream: &self.stream,
            encryption: &mut self.encryption,
            heeded: self.heeded.as_ref(),
            output: &mut self.output,
        })
    }

    /// Writes all output, whether a statement is to end or not.
    pub(crate) fn flush(&mut self) -> Served {
        self.flush_heeding(session_end)
    }

    /// Writes all output, for the last time: without the client's help not for longer than `limit`.
    pub(crate) fn flush_last(&mut self, limit: Duration) {
        if self.stream.set_write_timeout(Some(limit)).is_ok() {
            let gone = &mut || Err(Failure::Gone);
            // The connection ends here, even if the client cannot be told.
            let _ = write_all(&self.stream, &mut self.encryption, &mut &self.output[..], gone);
        }
    }

    fn flush_heeding(&mut self, end: fn(&CancelHandle) -> Served) -> Served {
        let mut left = &self.output[..];
        let flushed = write_heeding(&self.stream, &mut self.encryption, &mut left, self.heeded.as_ref(), end);
        let left = left.len();
        if flushed.is_err() {
            self.output.advance(self.output.len() - left);
            return flushed;
        }
        self.output.clear();
        if self.output.capacity() > KEPT_BYTES {
            self.output = BytesMut::new();
        }
        Ok(())
    }
}

/// Whether the running statement is to end.
fn statement_end(session: &CancelHandle) -> Served {
    Ok(session.check()?)
}

/// Whether the session is to end.
fn session_end(session: &CancelHandle) -> Served {
    match statement_end(session) {
        Err(Failure::Statement(_)) => Ok(()),
        end => end,
    }
}

/// A client with TLS is told where its stream ends, or it would have to take it for cut off.
impl Drop for Wire {
    fn drop(&mut self) {
        if let Some(encryption) = &mut self.encryption {
            encryption.end(&self.stream);
        }
    }
}

/// Reads what has arrived, without waiting for more. 0 at the end of the stream.
fn read_now(
    stream: &Stream,
    encryption: &mut Option<Box<Encryption>>,
    buffer: &mut [u8],
) -> io::Result<usize> {
    match encryption {
        None => receive_now(stream, buffer),
        Some(encryption) => loop {
            match encryption.receive(stream, buffer, |room| receive_now(stream, room)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => return received,
            }
        },
    }
}

/// Writes all bytes, unless `end` says meanwhile that it is not to be waited for any longer; `bytes` are then those that were not
/// written.
fn write_heeding(
    stream: &Stream,
    encryption: &mut Option<Box<Encryption>>,
    bytes: &mut &[u8],
    heeded: Option<&CancelHandle>,
    end: fn(&CancelHandle) -> Served,
) -> Served {
    let mut waiting = None;
    write_all(stream, encryption, bytes, &mut || {
        let Some(session) = heeded else { return Ok(()) };
        waiting.get_or_insert_with(|| session.awaits_reader());
        end(session)
    })
}

/// Writes all bytes. `impatient` is called each time that there has been no room for a while, and decides whether to go on.
fn write_all(
    stream: &Stream,
    encryption: &mut Option<Box<Encryption>>,
    bytes: &mut &[u8],
    impatient: &mut dyn FnMut() -> Served,
) -> Served {
    loop {
        let written = match encryption {
            None => write_on(stream, bytes),
            Some(encryption) => encryption.write_all(stream, bytes),
        };
        match written.map_err(|error| error.kind()) {
            Ok(()) => return Ok(()),
            Err(ErrorKind::WouldBlock | ErrorKind::TimedOut) => impatient()?,
            Err(ErrorKind::Interrupted) => {}
            Err(_) => return Err(Failure::Gone),
        }
    }
}

/// Writes until all bytes are written or the system has something to say.
fn write_on(mut stream: &Stream, bytes: &mut &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            written => *bytes = &bytes[written..],
        }
    }
    Ok(())
}

/// Writes to a connection past its output.
pub(crate) struct WireWriter<'w> {
    stream: &'w Stream,
    encryption: &'w mut Option<Box<Encryption>>,
    heeded: Option<&'w CancelHandle>,
    /// Empty but for what an interrupted write has left.
    output: &'w mut BytesMut,
}

impl WireWriter<'_> {
    /// Writes whole messages, in the middle of a statement. Once this has failed, no more may be written.
    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> Served {
        debug_assert!(self.output.is_empty(), "it has to be written before");
        let mut left = bytes;
        let written = write_heeding(self.stream, self.encryption, &mut left, self.heeded, statement_end);
        self.output.extend_from_slice(left);
        written
    }
}

/// The fields of an error or a notice.
fn fields(severity: &str, error: &Error) -> Vec<(u8, String)> {
    let mut fields = vec![
        (b'S', severity.to_owned()),
        (b'V', severity.to_owned()),
        (b'C', error.state().code().to_owned()),
        (b'M', error.message().to_owned()),
    ];
    fields.extend(error.detail().map(|detail| (b'D', detail.to_owned())));
    fields.extend(error.hint().map(|hint| (b'H', hint.to_owned())));
    fields.extend(error.position().map(|position| (b'P', position.to_string())));
    let named =
        [(b'W', error.context()), (b't', error.table()), (b'c', error.column()), (b'n', error.constraint())];
    fields.extend(named.into_iter().filter_map(|(field, name)| Some((field, name?.to_owned()))));
    // A NUL ends a field.
    fields.iter_mut().for_each(|(_, text)| text.retain(|letter| letter != '\0'));
    fields
}
