//! COPY: data in both directions while a statement is under way.

use crate::beside::written_beside;
use crate::binary_copy::{self, RowReader};
use crate::connection::Connection;
use crate::frontend::{Frame, Message};
use crate::guard::guard;
use crate::wire::{Failure, LOOK_AROUND, Served};
use ankerdb_base::{Error, SqlState};
use ankerdb_sql::{CopyIn, CopyOut, Lines, SourceFile, TargetFile};
use bytes::{BufMut, BytesMut};
use pgwire::messages::copy::{CopyDone, CopyInResponse, CopyOutResponse};

/// Formats, for the whole and for each column.
const TEXT: i16 = 0;
const BINARY: i16 = 1;
/// Type and length of a message of data.
const DATA_HEADER_BYTES: usize = 5;
/// Bytes that are read from a file, or written to one, at a time.
const FILE_BYTES: usize = 256 * 1024;

impl Connection {
    /// Takes data from the client until it says that it is done. Returns the command tag.
    ///
    /// After an error the rest of the data is skipped by the message loop, where COPY messages mean nothing.
    pub(crate) fn copy_in(&mut self, mut copy: CopyIn) -> Served<String> {
        let taken = match copy.take_file() {
            Some(file) => self.take_file(&mut copy, file),
            None if copy.has_data() => Ok(()),
            None => self.ask_for_data(&mut copy),
        };
        match taken {
            Ok(()) => {
                let tag = self.run(|session| copy.finish(session));
                self.send_notices()?;
                tag
            }
            Err(failure) => {
                self.send_notices()?;
                self.run(|session| {
                    copy.fail(session);
                    Ok(())
                })?;
                Err(failure)
            }
        }
    }

    /// Takes data from a file of the server's.
    fn take_file(&mut self, copy: &mut CopyIn, mut file: SourceFile) -> Served {
        let mut rows = copy.is_binary().then(|| RowReader::new(copy.types()));
        let mut buffer = vec![0; FILE_BYTES];
        loop {
            let read = guard(|| file.read(&mut buffer))?;
            if read == 0 {
                return Ok(rows.map_or(Ok(()), RowReader::finish)?);
            }
            let data = &buffer[..read];
            match &mut rows {
                Some(rows) => self.take_rows(copy, rows, data)?,
                None => self.run(|session| copy.push(session, data))?,
            }
            self.send_notices()?;
        }
    }

    fn ask_for_data(&mut self, copy: &mut CopyIn) -> Served {
        let columns = copy.column_count();
        let format = if copy.is_bytes() { BINARY } else { TEXT };
        self.wire.send(&CopyInResponse::new(format as i8, columns as i16, vec![format; columns]))?;
        self.wire.flush()?;
        self.wire.set_patience(Some(LOOK_AROUND))?;
        let taken = self.take_frames(copy);
        self.wire.set_patience(None)?;
        taken
    }

    fn take_frames(&mut self, copy: &mut CopyIn) -> Served {
        let cancel = self.session.cancel_handle();
        let mut frame = Frame::default();
        let mut rows = copy.is_binary().then(|| RowReader::new(copy.types()));
        loop {
            // The statement is under way: it may be canceled or run out of time while the client is silent.
            let waiting = cancel.awaits_client();
            self.wire.read_frame(&mut frame, &mut || Ok(cancel.check()?))?;
            drop(waiting);
            cancel.check()?;
            match frame.decode()? {
                Message::CopyData(data) => match &mut rows {
                    Some(rows) => self.take_rows(copy, rows, data)?,
                    None => {
                        self.run(|session| copy.push(session, data))?;
                        self.send_notices()?;
                        self.wire.flush_if_full()?;
                    }
                },
                Message::CopyDone => return Ok(rows.map_or(Ok(()), RowReader::finish)?),
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

    /// Stores the rows that have come as a whole.
    fn take_rows(&mut self, copy: &mut CopyIn, rows: &mut RowReader, data: &[u8]) -> Served {
        rows.push(data)?;
        while let Some(row) = rows.next()? {
            self.run(|session| copy.push_row(session, row))?;
        }
        Ok(())
    }

    /// Sends a table or result to the client, each row as a message of its own; the header comes with the first one, as
    /// PostgreSQL sends it.
    fn copy_out_rows(&mut self, mut copy: CopyOut) -> Served<String> {
        let types = copy.types();
        self.wire.send(&CopyOutResponse::new(BINARY as i8, types.len() as i16, vec![BINARY; types.len()]))?;
        let mut data = BytesMut::new();
        binary_copy::put_header(&mut data);
        while let Some(rows) = guard(|| copy.next_rows())? {
            for row in 0..rows.len() {
                binary_copy::put_row(&rows, row, &types, &mut data)?;
                self.send_data(&data)?;
                data.clear();
            }
        }
        binary_copy::put_end(&mut data);
        self.send_data(&data)?;
        self.wire.send(&CopyDone::new())?;
        Ok(copy.tag())
    }

    /// Sends a file to the client, in pieces that say nothing about what is in them.
    fn copy_out_file(&mut self, mut copy: CopyOut) -> Served<String> {
        let columns = copy.column_count();
        self.wire.send(&CopyOutResponse::new(BINARY as i8, columns as i16, vec![BINARY; columns]))?;
        while let Some(bytes) = guard(|| copy.next_piece())? {
            for piece in bytes.chunks(FILE_BYTES) {
                copy.check()?;
                self.send_data(piece)?;
            }
        }
        self.wire.send(&CopyDone::new())?;
        Ok(copy.tag())
    }

    fn send_data(&mut self, data: &[u8]) -> Served {
        let mut header = [0; DATA_HEADER_BYTES];
        put_data_header(&mut header, data.len())?;
        self.wire.output.put_slice(&header);
        self.wire.output.put_slice(data);
        self.wire.flush_if_full()
    }

    /// Sends a table or result to the client, each line as a message of its own: there are clients that take
    /// messages for lines. Returns the command tag.
    pub(crate) fn copy_out(&mut self, mut copy: CopyOut) -> Served<String> {
        if let Some(file) = copy.take_file() {
            return fill_file(&mut copy, file);
        }
        if copy.is_file() {
            return self.copy_out_file(copy);
        }
        if copy.is_binary() {
            return self.copy_out_rows(copy);
        }
        let columns = copy.column_count();
        self.wire.send(&CopyOutResponse::new(TEXT as i8, columns as i16, vec![TEXT; columns]))?;
        let mut writer = self.wire.writer()?;
        let write = |lines: Lines| writer.write_all(&lines.framed(put_data_header)?);
        written_beside("copy-out", write, |write| {
            while let Some(lines) = guard(|| copy.next_lines(DATA_HEADER_BYTES))? {
                write(lines)?;
            }
            Ok(())
        })?;
        self.wire.send(&CopyDone::new())?;
        Ok(copy.tag())
    }
}

/// Writes all rows to a file of the server's. Returns the command tag.
fn fill_file(copy: &mut CopyOut, mut file: TargetFile) -> Served<String> {
    if copy.is_file() || copy.is_binary() {
        guard(|| fill_with_bytes(copy, &mut file))?;
    } else {
        let write = |lines: Lines| Ok(file.write(&lines.framed(|_, _| Ok(()))?)?);
        written_beside("copy-out", write, |write| {
            while let Some(lines) = guard(|| copy.next_lines(0))? {
                write(lines)?;
            }
            Ok(())
        })?;
    }
    guard(|| file.finish())?;
    Ok(copy.tag())
}

fn fill_with_bytes(copy: &mut CopyOut, file: &mut TargetFile) -> Result<(), Error> {
    if copy.is_file() {
        while let Some(bytes) = copy.next_piece()? {
            for piece in bytes.chunks(FILE_BYTES) {
                copy.check()?;
                file.write(piece)?;
            }
        }
        return Ok(());
    }
    let types = copy.types();
    let mut data = BytesMut::new();
    binary_copy::put_header(&mut data);
    while let Some(rows) = copy.next_rows()? {
        for row in 0..rows.len() {
            binary_copy::put_row(&rows, row, &types, &mut data)?;
            if data.len() >= FILE_BYTES {
                file.write(&data)?;
                data.clear();
            }
        }
    }
    binary_copy::put_end(&mut data);
    file.write(&data)
}

/// Fills what stands before so many bytes of data.
fn put_data_header(mut header: &mut [u8], length: usize) -> Result<(), Error> {
    let length = i32::try_from(length + 4)
        .map_err(|_| Error::new(SqlState::ProgramLimitExceeded, "a line is larger than 2 GiB"))?;
    header.put_u8(b'd');
    header.put_i32(length);
    Ok(())
}
