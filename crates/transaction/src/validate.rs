//! Validation: does anything that committed during the transaction's life touch what it has read?
//!
//! Usually the records of those commits are still in the ring, and validation costs as much as really ran
//! concurrently. A transaction that outlived the ring is validated against the tables: a row whose header is newer
//! than the transaction's timestamp has changed, and its versions, which the transaction itself keeps
//! readable, tell which columns.

use crate::read_set::{RangeRead, TableRead, row_matches};
use crate::transaction::Transaction;
use ankerdb_base::{Error, Result, RowId, Timestamp};
use ankerdb_sync::commit_order::Visited;
use crossbeam_epoch::Guard;
use std::ops::ControlFlow;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validated {
    Valid,
    Conflict,
}

/// 40001: what was read has changed meanwhile.
pub(crate) fn dependencies() -> Error {
    Error::serialization("could not serialize access due to read/write dependencies among transactions")
}

impl Transaction {
    /// Step 4 of a commit at `commit`.
    pub(crate) fn validate(&self, commit: Timestamp, pin: &Guard) -> Result<Validated> {
        self.validate_up_to(Timestamp(commit.0 - 1), pin)
    }

    /// Whether no commit after the transaction's timestamp and up to `last`, which must be drawn, touches what was read.
    pub(crate) fn validate_up_to(&self, last: Timestamp, pin: &Guard) -> Result<Validated> {
        let order = &self.manager.order;
        // SAFETY: `pin` was taken before the call, and records are dropped through the epoch (`commit_writes`).
        let visited = unsafe {
            order.visit_between(self.start, last.next(), |_, record| {
                let wait = || order.wait_until_visible(last);
                self.reads.conflicts_with(record, (self.start, last), pin, wait)
            })
        };
        // Commits that found an index dropped have recorded no keys for it.
        let has_lost_index =
            self.reads.ranges.iter().any(|read| self.tables[read.number].index(read.index).is_dropped());
        Ok(match visited {
            _ if has_lost_index => Validated::Conflict,
            Visited::Clear => Validated::Valid,
            Visited::Stopped(_) => Validated::Conflict,
            Visited::TooOld => self.validate_against_tables(last, pin),
        })
    }

    /// Validates after the ring has forgotten. Costs as much as reading everything again. Commits after `last`
    /// count too where no filter looks closer, needlessly.
    fn validate_against_tables(&self, last: Timestamp, pin: &Guard) -> Validated {
        self.manager.order.wait_until_visible(last);
        let row_conflict = self.reads.rows.iter().any(|read| {
            let table = self.tables.find(read.table).expect("a table that was read was touched");
            let block = self.tables[table].block(read.row.block());
            block.changed_since(read.row.offset(), self.start, pin).concerns(read.columns)
        });
        let conflict = row_conflict
            || self.reads.ranges.iter().any(|read| self.range_changed(read, pin))
            || self.reads.tables.iter().any(|read| self.table_changed(read, last, pin));
        if conflict { Validated::Conflict } else { Validated::Valid }
    }

    /// Whether a key came into the range or left it.
    fn range_changed(&self, read: &RangeRead, pin: &Guard) -> bool {
        let table = &self.tables[read.number];
        let index = table.index(read.index);
        let (lower, upper) = self.reads.bounds(read);
        let mut changed = false;
        index.tree().scan(lower, upper, ankerdb_index::Direction::Forward, |_, row| {
            let row = RowId(row);
            let block = table.block(row.block());
            let header = block.header(row.offset());
            changed = header.timestamp() > self.start
                && block.changed_since(row.offset(), self.start, pin).concerns(index.key_columns());
            if changed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        changed
    }

    /// Whether a row that satisfies the filter, before or at `last`, has changed in the columns looked at.
    fn table_changed(&self, read: &TableRead, last: Timestamp, pin: &Guard) -> bool {
        (0..read.table.block_count()).any(|number| {
            let block = read.table.block(number);
            block.last_change() > self.start
                && (0..block.fill()).any(|offset| {
                    let row = RowId::new(number, offset);
                    block.header(offset).timestamp() > self.start
                        && block.changed_since(offset, self.start, pin).concerns(read.columns)
                        && read
                            .filter
                            .as_ref()
                            .is_none_or(|filter| row_matches(read, filter, row, (self.start, last), pin))
                })
        })
    }
}
