//! Room for what a transaction writes: requested before it is needed, where its absence can still be reported.
//!
//! A write set grows by doubling its buffers. Only then is memory requested, from the database's limit and from the system;
//! all other writes find room and check only three lengths. Up to [`UNASKED`] a set grows without checking the limit: what
//! small transactions may take is decided when they commit.

use crate::manager::TransactionManager;
use crate::transaction::Transaction;
use crate::write_set::{Needs, Purpose, ROWS_KEPT, WriteKind, WriteSet};
use ankerdb_base::{Error, Result};
use ankerdb_memory::account;
use ankerdb_sync::memory_limit::{Claim, MemoryLimit, check_system};
use ankerdb_sync::number_map::NumberMap;
use ankerdb_table::{Cell, Storage, Table};
use std::sync::Arc;

/// About what an index needs for the entry of a short key.
const ENTRY_BYTES: usize = 48;
/// About what a commit needs for each row written: its record, its progress, and the version of what was there before.
const WRITTEN_BYTES: usize = 160;

/// Bytes of a write set up to which the limit is not asked.
const UNASKED: usize = account::CHUNK;

impl Transaction {
    /// Makes room for one more write with these cells.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline]
    pub(crate) fn make_room<'a>(
        &mut self,
        purpose: Purpose,
        cells: impl Iterator<Item = Cell<'a>>,
    ) -> Result<()> {
        check_system()?;
        if self.writes.set_purpose(purpose) {
            self.interrupt.set_frees(purpose == Purpose::Frees);
        }
        let mut needs = Needs { cells: 0, bytes: 0 };
        for cell in cells {
            needs.cells += 1;
            if let Cell::Bytes(bytes) = cell {
                needs.bytes += bytes.len();
            }
        }
        if self.writes.has_room(needs) { Ok(()) } else { self.grow(needs) }
    }

    /// Whether so many bytes more may be taken. If not, frees what was retired and tries again.
    pub(crate) fn admit(&self, claim: Claim, more: usize) -> Result<()> {
        let limit = self.manager.memory_limit();
        limit.check(claim, more).or_else(|_| {
            self.manager.reclaim();
            limit.check(claim, more)
        })
    }

    /// The tables written to, if memory is short.
    pub(crate) fn tables_to_relieve(&self) -> Vec<Arc<Table>> {
        match self.manager.memory_limit().check(Claim::Write, 0) {
            Ok(()) => Vec::new(),
            Err(_) => self.writes.tables().map(|number| self.tables[number].clone()).collect(),
        }
    }

    #[cold]
    fn grow(&mut self, needs: Needs) -> Result<()> {
        let limit = self.manager.memory_limit();
        let (held, more) = (self.writes.memory_bytes(), self.writes.growth(needs));
        if held + more > UNASKED {
            self.admit(self.writes.claim(limit, held + more, Claim::Rest), more)?;
        }
        self.writes.try_grow(needs).map_err(|()| Error::out_of_memory(more))
    }

    /// Bytes that committing takes beyond the write set, if that is much; else 0. A large commit requests all of it
    /// at once: blocks that it needs stay with the table even if it ends half way.
    pub(crate) fn commit_bytes(&self) -> usize {
        let loaded = self.load.as_ref().map_or(0, |load| {
            load.rows() * self.tables[load.table].maintained_indexes().count() * ENTRY_BYTES
        });
        if self.writes.writes.len() <= ROWS_KEPT {
            return loaded;
        }
        let mut inserts = NumberMap::<usize, usize>::default();
        let inserted = self.writes.writes.iter().filter(|write| write.kind == WriteKind::Insert);
        inserted.for_each(|write| *inserts.entry(write.table).or_default() += 1);
        let blocks = inserts.iter().map(|(&table, &rows)| {
            let (storage, table) = (self.tables.storage(table), &self.tables[table]);
            let entries = rows * table.maintained_indexes().count() * ENTRY_BYTES;
            rows.saturating_sub(storage.free_slots()) * storage.row_bytes() + entries
        });
        let written: usize = self.writes.writes.len() * WRITTEN_BYTES;
        blocks.sum::<usize>() + self.writes.string_bytes() + written + loaded
    }

    /// The claim for a commit's memory.
    pub(crate) fn commit_claim(&self, small: Claim) -> Claim {
        let (limit, bytes) = (self.manager.memory_limit(), self.writes.memory_bytes());
        match &self.load {
            Some(load) => limit.claim_of(bytes + load.memory_bytes(), small),
            None => self.writes.claim(limit, bytes, small),
        }
    }
}

impl TransactionManager {
    /// Frees what can be freed of tables that were written to while memory is short, instead of leaving it to the
    /// background, which may not keep up.
    pub(crate) fn relieve(&self, tables: &[Arc<Table>]) {
        if tables.is_empty() {
            return;
        }
        let horizon = self.horizon();
        for table in tables {
            Storage::of(table).sweep(horizon, &crossbeam_epoch::pin());
        }
        self.reclaim();
    }
}

impl WriteSet {
    /// The numbers of the tables written to.
    fn tables(&self) -> impl Iterator<Item = usize> {
        let mut numbers: Vec<usize> = self.writes.iter().map(|write| write.table).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter()
    }

    fn claim(&self, limit: MemoryLimit, bytes: usize, small: Claim) -> Claim {
        if self.only_frees() { Claim::Rest } else { limit.claim_of(bytes, small) }
    }
}
