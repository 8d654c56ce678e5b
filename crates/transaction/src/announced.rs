//! The timestamps that a transaction announces, so that what it sees is not pruned, and slots of rows that it may write to
//! are not reused.
//!
//! ```text
//! slot     the timestamp of now; views made of the transaction share it, and keep it when the transaction goes on
//! anchor   the timestamp of the first statement that found rows which may still be written to: up to the end their slots
//!          are not given to other rows
//! spare    nothing at present; kept for the next need
//! ```

use ankerdb_base::Timestamp;
use ankerdb_sync::readers::{ActiveReaders, ReaderSlot};
use std::sync::Arc;

/// See the module.
pub(crate) struct Announced {
    readers: Arc<ActiveReaders>,
    slot: Arc<ReaderSlot>,
    anchor: Option<Arc<ReaderSlot>>,
    spare: Option<Arc<ReaderSlot>>,
    /// Whether rows that were found may be written to at any later time, with no lock that keeps them.
    keeps_rows: bool,
}

impl Announced {
    /// Announces nothing yet.
    pub(crate) fn new(readers: Arc<ActiveReaders>) -> Announced {
        let slot = Arc::new(readers.register());
        Announced { readers, slot, anchor: None, spare: None, keeps_rows: false }
    }

    fn register(&self) -> Arc<ReaderSlot> {
        Arc::new(self.readers.register())
    }

    /// The slot that announces the present timestamp; holding it keeps that timestamp readable.
    pub(crate) fn slot(&self) -> &Arc<ReaderSlot> {
        &self.slot
    }

    /// Says whether rows that are found may be written to later without having been locked. Procedures do that;
    /// interactive transactions lock rows first.
    pub(crate) fn set_keeps_rows(&mut self, keeps_rows: bool) {
        self.keeps_rows = keeps_rows;
    }

    /// Whether rows that are found may be written to later.
    pub(crate) fn keeps_rows(&self) -> bool {
        self.keeps_rows
    }

    fn has_anchor(&self) -> bool {
        self.anchor.as_ref().is_some_and(|anchor| anchor.timestamp().is_some())
    }

    /// Announces the watermark from now on, and returns it. `as_anchor` is for transactions that find rows at later
    /// timestamps than that one.
    ///
    /// The statement before this one has found rows. If such a row were deleted meanwhile and its slot reused, the other
    /// row would be written; so where rows are kept, the first such statement's slot stays announced.
    #[inline]
    pub(crate) fn enter(&mut self, as_anchor: bool, watermark: impl Fn() -> Timestamp) -> Timestamp {
        if self.keeps_rows && self.slot.timestamp().is_some() && !self.has_anchor() {
            self.slot.set_anchor();
            let idle = self.anchor.take().unwrap_or_else(|| self.register());
            self.anchor = Some(std::mem::replace(&mut self.slot, idle));
        }
        if Arc::strong_count(&self.slot) > 1 {
            // A view still reads at the old timestamp: leave it that slot.
            self.slot = self.register();
        }
        if as_anchor { self.slot.enter_as_anchor(watermark) } else { self.slot.enter(watermark) }
    }

    /// From now on the transaction reads at the timestamp that another slot announces, and holds that slot.
    pub(crate) fn share(&mut self, slot: Arc<ReaderSlot>) {
        self.slot.leave();
        self.slot = slot;
    }

    /// A slot to announce another timestamp in; to be [given back](Self::give_back).
    pub(crate) fn take_spare(&mut self) -> Arc<ReaderSlot> {
        self.spare.take().unwrap_or_else(|| self.register())
    }

    /// Takes back a slot that is no longer needed.
    pub(crate) fn give_back(&mut self, slot: Arc<ReaderSlot>) {
        slot.leave();
        self.spare = Some(slot);
    }

    /// To be called before the transaction moves to a watermark that another slot announces: keeps rows in their
    /// slots if it may write to them.
    pub(crate) fn prepare_move(&self) {
        if self.keeps_rows {
            self.slot.set_anchor();
        }
    }

    /// Moves to a timestamp that another slot announces. Views that were made before keep reading at the former one.
    pub(crate) fn move_to(&mut self, slot: Arc<ReaderSlot>) {
        let former = std::mem::replace(&mut self.slot, slot);
        if self.keeps_rows && !self.has_anchor() {
            self.anchor = Some(former);
        } else if Arc::strong_count(&former) == 1 {
            self.give_back(former);
        }
    }

    /// Announces nothing any more, but for views that still read.
    pub(crate) fn leave(&mut self) {
        if Arc::strong_count(&self.slot) > 1 {
            self.slot = self.register();
        } else {
            self.slot.leave();
        }
        match &self.anchor {
            // A view still reads through it.
            Some(anchor) if Arc::strong_count(anchor) > 1 => self.anchor = None,
            Some(anchor) => anchor.leave(),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oldest timestamp that is announced after statements at these ones, the last one of which is the watermark.
    fn oldest_after(announced: &mut Announced, readers: &ActiveReaders, statements: [u64; 3]) -> u64 {
        for timestamp in statements.map(Timestamp) {
            announced.enter(false, || timestamp);
        }
        readers.oldest(Timestamp(statements[2])).0
    }

    #[test]
    fn the_first_statement_stays_announced_where_rows_are_kept() {
        let readers = ActiveReaders::new();
        let mut announced = Announced::new(readers.clone());
        assert_eq!(oldest_after(&mut announced, &readers, [5, 7, 9]), 9);
        announced.leave();
        announced.set_keeps_rows(true);
        assert_eq!(oldest_after(&mut announced, &readers, [15, 17, 19]), 15);
        announced.leave();
        assert_eq!(oldest_after(&mut announced, &readers, [25, 27, 29]), 25);
        announced.leave();
        assert_eq!(readers.oldest(Timestamp(30)), Timestamp(30));
    }

    #[test]
    fn a_view_keeps_its_timestamp_when_the_transaction_moves_or_ends() {
        let readers = ActiveReaders::new();
        let mut announced = Announced::new(readers.clone());
        announced.enter(false, || Timestamp(3));
        let view = announced.slot().clone();
        let spare = announced.take_spare();
        spare.enter(|| Timestamp(6));
        announced.move_to(spare);
        assert_eq!((view.timestamp(), readers.oldest(Timestamp(10))), (Some(Timestamp(3)), Timestamp(3)));
        announced.leave();
        assert_eq!(readers.oldest(Timestamp(10)), Timestamp(3));
        drop(view);
        assert_eq!(readers.oldest(Timestamp(10)), Timestamp(10));
    }
}
