//! What happened to a row, as far as a transaction that has read it is concerned.

use ankerdb_base::ColumnSet;

/// What one commit did to a row, or all commits since a timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowChange {
    /// Nothing: it exists with the same cells, or still does not exist.
    Nothing,
    /// Cells of these columns were overwritten.
    Updated(ColumnSet),
    /// It was inserted or deleted. That concerns all who have read the row, or a range or table that it is in,
    /// whatever columns they looked at: counting rows looks at none.
    CameOrWent,
}

impl RowChange {
    /// From whether the row existed before and after, and the columns that were overwritten meanwhile.
    pub(crate) fn between(existed: bool, exists: bool, changed: ColumnSet) -> RowChange {
        match (existed, exists) {
            (true, true) => RowChange::Updated(changed),
            (false, false) => RowChange::Nothing,
            _ => RowChange::CameOrWent,
        }
    }

    /// Whether this concerns a transaction that has looked at these columns of the row.
    #[inline]
    pub fn concerns(self, columns: ColumnSet) -> bool {
        match self {
            RowChange::Nothing => false,
            RowChange::Updated(changed) => changed.intersects(columns),
            RowChange::CameOrWent => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_comes_or_goes_concerns_readers_of_no_column() {
        let of_b = RowChange::Updated(ColumnSet::of(&[1]));
        assert!(RowChange::CameOrWent.concerns(ColumnSet::EMPTY));
        assert!(of_b.concerns(ColumnSet::of(&[1, 2])) && !of_b.concerns(ColumnSet::of(&[2])));
        assert!(!of_b.concerns(ColumnSet::EMPTY) && !RowChange::Nothing.concerns(ColumnSet::ALL));
    }
}
