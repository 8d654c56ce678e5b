//! Telling the log what a commit does, and waiting until it is on disk (docs/design/durability.md).
//!
//! The record is made, and room for it reserved, before the commit draws its timestamp; behind it the record is handed over. What is
//! large goes ahead in parts.

use crate::logging::Redo;
use crate::progress::CommitProgress;
use crate::redo::{COMMIT, PART};
use crate::transaction::Transaction;
use crate::write_set::{STEPS_BETWEEN_CHECKS, WriteKind};
use ankerdb_base::{Result, Timestamp};
use ankerdb_log::Appender;
use ankerdb_table::{LoadedBlock, Storage, Table};
use crossbeam_epoch::Guard;
use std::sync::Arc;

impl Transaction {
    /// Makes the commit's record: its last step that can fail, as rows have their places by now.
    pub(crate) fn prepare_redo(
        &mut self,
        progress: &CommitProgress,
        definitions: &[u8],
        pin: &mut Guard,
    ) -> Result<()> {
        if self.manager.logging().is_none() {
            return Ok(());
        }
        let mut redo = std::mem::take(&mut self.buffers.redo);
        let made = self.make_redo(&mut redo, progress, definitions, pin);
        if made.is_err() {
            redo.reserved = None;
        }
        self.buffers.redo = redo;
        made
    }

    fn make_redo(
        &self,
        redo: &mut Redo,
        progress: &CommitProgress,
        definitions: &[u8],
        pin: &mut Guard,
    ) -> Result<()> {
        (redo.large, redo.reserved) = (None, None);
        redo.writer.begin(definitions)?;
        self.send_ahead(redo)?;
        for (place, write) in self.writes.writes.iter().enumerate() {
            let table = &self.tables[write.table];
            if write.kind == WriteKind::Nothing || !table.is_logged() {
                continue;
            }
            if place % STEPS_BETWEEN_CHECKS == STEPS_BETWEEN_CHECKS - 1 {
                pin.repin();
                self.check_interrupt()?;
            }
            let row = progress.rows[place].as_ref().expect("the rows of a commit are owned").id();
            let (number, cells) = (table.id().number(), self.writes.cells(write));
            match write.kind {
                WriteKind::Insert => {
                    redo.writer.insert(number, row, table.columns().len())?;
                    for (_, cell) in cells {
                        redo.writer.cell(cell)?;
                    }
                }
                WriteKind::Update => {
                    redo.writer.update(number, row, cells.clone().count())?;
                    for (column, cell) in cells {
                        redo.writer.column(column)?;
                        redo.writer.cell(cell)?;
                    }
                }
                WriteKind::Delete | WriteKind::Nothing => redo.writer.delete(number, row)?,
            }
            self.send_ahead(redo)?;
        }
        if let Some(table) = (!progress.loaded.is_empty()).then(|| &self.tables[progress.loaded_table])
            && table.is_logged()
        {
            for loaded in &progress.loaded {
                pin.repin();
                self.check_interrupt()?;
                self.tell_loaded(redo, table, loaded, pin)?;
            }
        }
        let number = redo.number();
        if number > 0 || !redo.writer.is_empty() {
            let record = redo.writer.finish(number);
            redo.reserved = Some(self.buffer().reserve(record.len())?);
        }
        Ok(())
    }

    fn tell_loaded(&self, redo: &mut Redo, table: &Table, loaded: &LoadedBlock, pin: &Guard) -> Result<()> {
        let (storage, columns) = (Storage::of(table), table.columns().len());
        for row in loaded.rows() {
            redo.writer.insert(table.id().number(), row, columns)?;
            for column in 0..columns {
                storage.use_loaded_cell(loaded, row, column, pin, |cell| redo.writer.cell(cell))?;
            }
            self.send_ahead(redo)?;
        }
        Ok(())
    }

    /// Sends what there is of the record ahead, if it is much.
    fn send_ahead(&self, redo: &mut Redo) -> Result<()> {
        let logging = self.manager.logging().expect("there is a log");
        if redo.writer.bytes.len() < logging.part_bytes {
            return Ok(());
        }
        let number = redo.large.get_or_insert_with(|| logging.begin_large()).number;
        let send = |record: &[u8]| self.buffer().append_ahead(PART, record, &|| self.check_interrupt());
        redo.writer.send_pieces(number, logging.part_bytes, send)
    }

    fn buffer(&self) -> &Arc<Appender> {
        self.manager.logging().expect("there is a log").of_worker(self.worker.number())
    }

    /// Hands the record over, before others see the commit. Cannot fail.
    pub(crate) fn append_redo(&mut self, commit: Timestamp) {
        if let Some(reserved) = self.buffers.redo.reserved.take() {
            self.buffer().append(reserved, COMMIT, commit, &self.buffers.redo.writer.bytes);
        }
    }

    /// Takes the record back.
    pub(crate) fn forget_redo(&mut self) {
        self.buffers.redo.reserved = None;
        self.buffers.redo.large = None;
    }

    /// The commit has finished: the watermark may pass it.
    pub(crate) fn end_redo(&mut self) {
        self.buffers.redo.large = None;
    }

    /// Returns when what was committed up to here is on disk, unless the session does not wait for that.
    #[inline]
    pub(crate) fn wait_until_durable(&self, commit: Timestamp) -> Result<()> {
        match self.manager.logging() {
            Some(logging) if self.waits_for_log => logging.wait_until_durable(commit),
            _ => Ok(()),
        }
    }

    /// Whether commits wait until they are on disk, where there is a log (the default). If not, those of the last moments before a crash
    /// may be gone after it; never a part of one, and never one without those before it.
    pub fn set_waits_for_log(&mut self, waits: bool) {
        self.waits_for_log = waits;
    }
}
