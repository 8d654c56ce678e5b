//! `pg_range`: what ranges are of.

use super::{Rows, SystemCatalog, row};

/// A range: its number, those of the type of its bounds and of its multirange, which AnKerDB has not, the operator class of its bounds,
/// and the functions that make it canonical and measure it.
struct Entry(u32, u32, u32, u32, Option<(u32, &'static str)>, (u32, &'static str));

const RANGES: [Entry; 5] = [
    Entry(3904, 23, 4451, 1978, Some((3914, "int4range_canonical")), (3922, "int4range_subdiff")),
    Entry(3908, 1114, 4533, 3128, None, (3929, "tsrange_subdiff")),
    Entry(3910, 1184, 4534, 3127, None, (3930, "tstzrange_subdiff")),
    Entry(3912, 1082, 4535, 3122, Some((3915, "daterange_canonical")), (3925, "daterange_subdiff")),
    Entry(3926, 20, 4536, 3124, Some((3928, "int8range_canonical")), (3923, "int8range_subdiff")),
];

pub(super) fn ranges(_: &SystemCatalog) -> Rows {
    let row = |Entry(oid, bounds, multirange, class, canonical, difference): &Entry| {
        row![*oid, *bounds, *multirange, 0, *class, canonical.map_or(0, |(oid, _)| oid), difference.0]
    };
    RANGES.iter().map(row).collect()
}

/// The functions by number.
pub(super) fn functions() -> impl Iterator<Item = (u32, &'static str)> {
    RANGES.iter().flat_map(|range| range.4.into_iter().chain([range.5]))
}
