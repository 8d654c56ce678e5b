//! COPY: data in both directions while a statement is under way.

use crate::connection::{Connection, guarded};
use crate::frontend::Message;
use crate::wire::{Failure, Served};
use ankerdb_base::{Error, SqlState};
use ankerdb_sql::{CopyIn, CopyOut};
use bytes::BufMut;
use pgwire::messages::copy::{CopyDone, CopyInResponse, CopyOutResponse};

/// Text format, for the whole and for each column.
const TEXT: i16 = 0;

impl Connection {
    /// Takes data from the client until it says that it is done. Returns the command tag.
    ///
    /// After an error the rest of the data is skipped by the message loop, where COPY messages mean nothing.
    pub(crate) async fn copy_in(&mut self, mut copy: CopyIn) -> Served<String> {
        let columns = copy.column_count();
        self.wire.send(&CopyInResponse::new(TEXT as i8, columns as i16, vec![TEXT; columns]))?;
        self.wire.flush().await?;
        match self.take_data(&mut copy).await {
            Ok(()) => self.blocking(|session| copy.finish(session)),
            Err(failure) => {
                self.blocking(|session| {
                    copy.fail(session);
                    Ok(())
                })?;
                Err(failure)
            }
        }
    }

    async fn take_data(&mut self, copy: &mut CopyIn) -> Served {
        let cancel = self.session.cancel_handle();
        loop {
            // A statement under way: it may be canceled and run out of time while the client is silent.
            let frame = tokio::select! {
                biased;
                frame = self.wire.read_frame() => frame?,
                error = cancel.raised() => return Err(error.into()),
            };
            // A client that sends faster than its lines are stored must not keep the thread from the others.
            tokio::task::coop::consume_budget().await;
            match frame.decode()? {
                Message::CopyData(data) => self.by_length(data.len(), |session| copy.push(session, data))?,
                Message::CopyDone => return Ok(()),
                Message::CopyFail { reason } => {
                    let message = format!("COPY from stdin failed: {reason}");
                    return Err(Error::new(SqlState::QueryCanceled, message).into());
                }
                // Clients that send their Sync before they know that this is a COPY.
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
    pub(crate) async fn copy_out(&mut self, mut copy: CopyOut) -> Served<String> {
        let columns = copy.column_count();
        self.wire.send(&CopyOutResponse::new(TEXT as i8, columns as i16, vec![TEXT; columns]))?;
        while let Some(lines) = self.wire.while_connected(guarded(copy.next())).await?? {
            for line in lines.iter() {
                let length = i32::try_from(line.len() + 4)
                    .map_err(|_| Error::new(SqlState::ProgramLimitExceeded, "a line is larger than 2 GiB"))?;
                self.wire.output.put_u8(b'd');
                self.wire.output.put_i32(length);
                self.wire.output.put_slice(line);
                self.wire.flush_if_full().await?;
            }
        }
        self.wire.send(&CopyDone::new())?;
        Ok(copy.tag())
    }
}
