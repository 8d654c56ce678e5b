//! Estimates about a table for the planner.

use ankerdb_base::failpoint;
use ankerdb_table::{Storage, Table};
use ankerdb_value::{DataType, Decimal, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Estimates, taken from the newest state: not exact for any one snapshot.
#[derive(Clone, Debug)]
pub struct TableStatistics {
    /// Rows.
    pub rows: usize,
    /// By column position.
    pub columns: Vec<ColumnStatistics>,
}

/// Estimates about one column.
#[derive(Clone, Debug, Default)]
pub struct ColumnStatistics {
    /// At most the smallest value, if known.
    pub min: Option<Value>,
    /// At least the largest value, if known.
    pub max: Option<Value>,
    /// The number of NULLs, if known.
    pub nulls: Option<usize>,
    /// Estimated number of different values, if known.
    pub distinct: Option<usize>,
}

/// How long estimates of a large table are used again.
const GOOD_FOR: Duration = Duration::from_millis(500);
/// Tables of fewer blocks are estimated anew each time.
const SMALL_BLOCKS: usize = 8;

struct Estimated {
    at: Instant,
    blocks: usize,
    statistics: Arc<TableStatistics>,
}

/// Reads the bounds of all blocks and counts their rows, a kilobyte per block, or takes the last estimates, if they are of
/// the last half second and the table has no more blocks than then. Nobody waits for that: planners that come meanwhile
/// take the last estimates, if there are any.
pub fn table_statistics(table: &Table) -> Arc<TableStatistics> {
    let blocks = table.block_count();
    if blocks < SMALL_BLOCKS {
        return Arc::new(estimate(table));
    }
    let place = Storage::of(table).derived();
    let keep = |statistics| Arc::new(Estimated { at: Instant::now(), blocks, statistics });
    {
        let mut kept = place.lock();
        if let Some(last) = kept.as_ref().and_then(|last| last.downcast_ref::<Estimated>()) {
            if last.blocks == blocks && last.at.elapsed() < GOOD_FOR {
                return last.statistics.clone();
            }
            let last = keep(last.statistics.clone());
            *kept = Some(last);
        }
    }
    let statistics = Arc::new(estimate(table));
    *place.lock() = Some(keep(statistics.clone()));
    statistics
}

/// Reads the bounds of all blocks, without a look at the last estimates.
pub(crate) fn estimate(table: &Table) -> TableStatistics {
    let rows = table.row_count();
    let columns = (0..table.columns().len()).map(|column| column_statistics(table, column, rows)).collect();
    failpoint::step("table estimated");
    TableStatistics { rows, columns }
}

fn column_statistics(table: &Table, column: usize, rows: usize) -> ColumnStatistics {
    let definition = &table.columns()[column];
    let storage = Storage::of(table);
    let bounds = storage
        .block_numbers()
        .filter_map(|number| storage.block(number).zone(column)?.bounds())
        .reduce(|(min, max), (low, high)| (min.min(low), max.max(high)));
    let unique = table
        .usable_indexes()
        .any(|(_, index)| index.definition().unique && index.definition().columns == [column]);
    let distinct = match bounds {
        _ if unique => Some(rows),
        // A column of a few thousand integers cannot have more different values than its bounds allow.
        Some((min, max)) => Some(rows.min((max as i128 - min as i128 + 1).min(usize::MAX as i128) as usize)),
        None => None,
    };
    let value = |bits: i64| bound_value(bits, definition.data_type);
    ColumnStatistics {
        min: bounds.map(|(min, _)| value(min)),
        max: bounds.map(|(_, max)| value(max)),
        nulls: (!definition.nullable).then_some(0),
        distinct,
    }
}

fn bound_value(bits: i64, data_type: DataType) -> Value {
    match data_type {
        DataType::Numeric { scale, .. } => Value::Numeric(Decimal::new(bits as i128, scale)),
        other => ankerdb_table::Cell::Word(bits as u64).to_value(other),
    }
}
