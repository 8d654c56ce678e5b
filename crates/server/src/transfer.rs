//! COPY: data in both directions while a statement is under way.

use crate::connection::Connection;
use crate::frontend::{Frame, Message};
use crate::guard::guard;
use crate::wire::{Failure, Served};
use ankerdb_base::{Error, SqlState};
use ankerdb_sql::{CopyIn, CopyOut};
use bytes::BufMut;
use pgwire::messages::copy::{CopyDone, CopyInResponse, CopyOutResponse};
use std::time::Duration;

/// Text format, for the whole and for each column.
const TEXT: i16 = 0;
/// How often a COPY that waits for data checks its interrupt.
const LOOK_AROUND: Duration = Duration::from_millis(20);

impl Connection {
    /// Takes data from the client until it says that it is done. Returns the command tag.
    ///
    /// After an error the rest of the data is skipped by the message loop, where COPY messages mean nothing.
    pub(crate) fn copy_in(&mut self, mut copy: CopyIn) -> Served<String> {
        let columns = copy.column_count();
        self.wire.send(&CopyInResponse::new(TEXT as i8, columns as i16, vec![TEXT; columns]))?;
        self.wire.flush()?;
        match self.take_data(&mut copy) {
            Ok(()) => self.run(|session| copy.finish(session)),
            Err(failure) => {
                self.run(|session| {
                    copy.fail(session);
                    Ok(())
                })?;
                Err(failure)
            }
        }
    }

    fn take_data(&mut self, copy: &mut CopyIn) -> Served {
        self.wire.set_patience(Some(LOOK_AROUND))?;
        let taken = self.take_frames(copy);
        self.wire.set_patience(None)?;
        taken
    }

    fn take_frames(&mut self, copy: &mut CopyIn) -> Served {
        let cancel = self.session.cancel_handle();
        let mut frame = Frame::default();
        loop {
            // The statement is under way: it may be canceled or run out of time while the client is silent.
            self.wire.read_frame(&mut frame, &mut || Ok(cancel.check()?))?;
            cancel.check()?;
            match frame.decode()? {
                Message::CopyData(data) => self.run(|session| copy.push(session, data))?,
                Message::CopyDone => return Ok(()),
                Message::CopyFail { reason } => {
                    let message = format!("COPY from stdin failed: {reason}");
                    return Err(Error::new(SqlState::QueryCanceled, message).into());
                }
                // Some clients send their Sync before they know that this is a COPY.
                Message::Flush | Message::Sync => {}
                Message::Terminate => return Err(Failure::Gone),
                _ => {
                    let message = "unexpected message type during COPY from stdin";
                    return Err(Error::new(SqlState::ProtocolViolation, message).into());
                }
            }
        }
    }

    /// Sends a table or result to the client, each line as a message of its own: there are clients that take
    /// messages for lines. Returns the command tag.
    pub(crate) fn copy_out(&mut self, mut copy: CopyOut) -> Served<String> {
        let columns = copy.column_count();
        self.wire.send(&CopyOutResponse::new(TEXT as i8, columns as i16, vec![TEXT; columns]))?;
        while let Some(lines) = guard(|| copy.next_lines())? {
            for line in lines.iter() {
                let length = i32::try_from(line.len() + 4)
                    .map_err(|_| Error::new(SqlState::ProgramLimitExceeded, "a line is larger than 2 GiB"))?;
                self.wire.output.put_u8(b'd');
                self.wire.output.put_i32(length);
                self.wire.output.put_slice(line);
                self.wire.flush_if_full()?;
            }
        }
        self.wire.send(&CopyDone::new())?;
        Ok(copy.tag())
    }
}
