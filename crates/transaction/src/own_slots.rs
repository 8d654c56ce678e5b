//! The slots that a commit has taken for its new rows, to know them when they are met in an index.

use crate::write_set::Write;
use ankerdb_base::RowId;
use ankerdb_sync::number_map::NumberSet;

/// The slots of a commit's new rows as a set: filled when it is first asked for, and from then on with what is new.
#[derive(Default)]
pub(crate) struct OwnSlots {
    known: NumberSet<(usize, u64)>,
    absorbed: usize,
}

impl OwnSlots {
    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.absorbed = 0;
    }

    /// Whether `row` is among the slots, given as positions in the write set with their rows, in a table given by
    /// number.
    pub(crate) fn contains(
        &mut self,
        slots: &[(usize, RowId)],
        writes: &[Write],
        table: usize,
        row: RowId,
    ) -> bool {
        let mut new = slots[self.absorbed..].iter().map(|&(place, slot)| (writes[place].table, slot.0));
        if self.known.try_reserve(new.len()).is_err() {
            // Slow, but simple.
            return self.known.contains(&(table, row.0)) || new.any(|slot| slot == (table, row.0));
        }
        self.known.extend(new);
        self.absorbed = slots.len();
        self.known.contains(&(table, row.0))
    }
}
