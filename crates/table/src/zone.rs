//! Bounds of a column's values in one block, for the planner, and for scans that leave out blocks.
//!
//! Bounds widen before every write and never narrow, so they hold for every version of the block (`docs/design/skipped-blocks.md`). Only types whose
//! bits order as signed 64-bit integers have them.

use crate::cell::Cell;
use ankerdb_value::DataType;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Smallest and largest value written to a column of a block.
pub struct Zone {
    min: AtomicI64,
    max: AtomicI64,
}

impl Default for Zone {
    fn default() -> Zone {
        Zone { min: AtomicI64::new(i64::MAX), max: AtomicI64::new(i64::MIN) }
    }
}

impl Zone {
    /// Whether columns of this type have bounds.
    pub fn covers(data_type: DataType) -> bool {
        match data_type {
            DataType::SmallInt | DataType::Integer | DataType::BigInt => true,
            DataType::Date | DataType::Timestamp(_) | DataType::TimestampTz(_) | DataType::Time(_) => true,
            DataType::Enum(_) => true,
            DataType::System(system) => system.is_number(),
            DataType::Numeric { precision, .. } => precision <= 18,
            _ => false,
        }
    }

    /// Takes a cell that is about to be written into account.
    #[inline]
    pub fn widen(&self, cell: Cell<'_>) {
        let Cell::Word(word) = cell else { return };
        let value = word as i64;
        if value < self.min.load(Relaxed) {
            self.min.fetch_min(value, Relaxed);
        }
        if value > self.max.load(Relaxed) {
            self.max.fetch_max(value, Relaxed);
        }
    }

    /// The bounds, if anything was written.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        let (min, max) = (self.min.load(Relaxed), self.max.load(Relaxed));
        (min <= max).then_some((min, max))
    }
}
