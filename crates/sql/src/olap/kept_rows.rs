//! Rows that an aggregate keeps until its result is asked for, of one group or of many, and gives on in an order.
//!
//! All groups share their columns, so a group costs nothing beside its rows: these are sorted by their groups by counting, each group's
//! by its keys, which are converted for all groups together (`arrow::row`). What two rows hold equal keeps the order in which it came.
//! Costs n log n comparisons of bytes for the n rows of the largest group, and as much memory as the rows and their keys.

use super::error::external;
use crate::rows::RunEnd;
use ankerdb_engine::Error;
use datafusion::arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, ListArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{SortOptions, concat, filter, take};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::error::Result;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Rows that are sorted, merged or handed on between two looks at the interrupt.
const STEP: usize = 1 << 16;

/// What the rows are.
#[derive(Clone, Debug)]
pub(super) struct RowShape {
    /// The types of the aggregate's own arguments.
    pub(super) own: Vec<DataType>,
    /// The types of the keys behind them, and how each sorts.
    pub(super) keys: Vec<(DataType, SortOptions)>,
    /// Whether of equal arguments of a group the first is kept alone.
    pub(super) is_distinct: bool,
    /// Whether rows of equal keys stay in the order in which they came.
    pub(super) is_stable: bool,
}

/// The rows of all groups.
#[derive(Debug)]
pub(super) struct KeptRows {
    shape: RowShape,
    /// By column, own arguments and keys: what came, piece by piece.
    columns: Vec<Vec<ArrayRef>>,
    /// The group of each row.
    groups: Vec<u32>,
    count: usize,
    bytes: usize,
    /// Memory that several pieces look into is counted once.
    counted: HashSet<usize>,
    end: Option<RunEnd>,
}

/// Rows of groups, and in which order they come.
pub(super) struct Ordered {
    /// As they came, those of all groups: own arguments and keys.
    pub(super) columns: Vec<ArrayRef>,
    /// Their places in the columns, in order.
    pub(super) places: Vec<u32>,
    /// Where each group begins among the places, and behind them the end of the last.
    pub(super) bounds: Vec<u32>,
}

impl KeptRows {
    pub(super) fn new(shape: RowShape, end: Option<RunEnd>) -> KeptRows {
        let columns = vec![Vec::new(); shape.own.len() + shape.keys.len()];
        KeptRows { shape, columns, groups: Vec::new(), count: 0, bytes: 0, counted: HashSet::new(), end }
    }

    /// How many groups there are.
    pub(super) fn group_count(&self) -> usize {
        self.count
    }

    /// The types of the aggregate's own arguments.
    pub(super) fn own_types(&self) -> impl Iterator<Item = &DataType> {
        self.shape.own.iter()
    }

    /// Says how many groups there are from now on.
    pub(super) fn count_groups(&mut self, count: usize) -> Result<()> {
        u32::try_from(count).map_err(|_| too_many("groups"))?;
        self.count = self.count.max(count);
        Ok(())
    }

    /// Keeps rows, each of the group that is named for it.
    pub(super) fn keep(&mut self, columns: &[ArrayRef], groups: impl Iterator<Item = usize>) -> Result<()> {
        self.groups.extend(groups.map(|group| group as u32));
        u32::try_from(self.groups.len()).map_err(|_| too_many("rows"))?;
        if columns[0].is_empty() {
            return Ok(());
        }
        for (pieces, column) in self.columns.iter_mut().zip(columns) {
            self.bytes += memory(&column.to_data(), &mut self.counted)?;
            pieces.push(column.clone());
        }
        Ok(())
    }

    /// Keeps the rows of lists that [`lists`](Self::lists) made, each list of the group that is named for it.
    pub(super) fn keep_lists(&mut self, lists: &[ArrayRef], groups: &[usize]) -> Result<()> {
        let rows = groups_of_items(lists[0].as_list(), groups);
        let columns: Vec<ArrayRef> =
            lists.iter().map(|lists| items(lists.as_list())).collect::<Result<_>>()?;
        self.keep(&columns, rows)
    }

    /// The rows as lists, one for each of the first groups, and one list for each column; they are gone then.
    pub(super) fn lists(&mut self, groups: usize) -> Result<Vec<ArrayRef>> {
        let columns = self.whole()?;
        let (places, bounds) = self.by_group()?;
        let places = UInt32Array::from(places[..bounds[groups] as usize].to_vec());
        let offsets: Vec<i32> = bounds[..=groups]
            .iter()
            .map(|bound| i32::try_from(*bound).map_err(|_| too_many("rows")))
            .collect::<Result<_>>()?;
        let offsets = OffsetBuffer::new(offsets.into());
        let list = |column: &ArrayRef| -> Result<ArrayRef> {
            let field = Arc::new(Field::new_list_field(column.data_type().clone(), true));
            Ok(Arc::new(ListArray::try_new(field, offsets.clone(), take(column, &places, None)?, None)?))
        };
        let lists = columns.iter().map(list).collect::<Result<_>>()?;
        self.forget(&columns, groups)?;
        Ok(lists)
    }

    /// Hands on the rows of the first groups, ordered, group by group: their own arguments, at most [`STEP`] at a time,
    /// and the group of each. They are gone then.
    pub(super) fn hand_on(
        &mut self,
        groups: usize,
        mut to: impl FnMut(&[ArrayRef], &[usize]) -> Result<()>,
    ) -> Result<()> {
        let columns = self.whole()?;
        let (mut places, mut bounds) = self.by_group()?;
        self.sort(&columns, &mut places, &mut bounds, groups)?;
        let (own, _) = columns.split_at(self.shape.own.len());
        let sorted = &places[..bounds[groups] as usize];
        let mut group = 0;
        for (step, places) in sorted.chunks(STEP).enumerate() {
            self.check()?;
            let taken = UInt32Array::from(places.to_vec());
            let taken: Vec<ArrayRef> =
                own.iter().map(|column| take(column, &taken, None)).collect::<std::result::Result<_, _>>()?;
            let of_row = |at: usize| {
                while bounds[group + 1] as usize <= at {
                    group += 1;
                }
                group
            };
            let rows = step * STEP..step * STEP + places.len();
            to(&taken, &rows.map(of_row).collect::<Vec<_>>())?;
        }
        self.forget(&columns, groups)
    }

    /// The rows of the first groups, ordered, which are gone then.
    pub(super) fn ordered(&mut self, groups: usize) -> Result<Ordered> {
        let columns = self.whole()?;
        let (mut places, mut bounds) = self.by_group()?;
        self.sort(&columns, &mut places, &mut bounds, groups)?;
        self.forget(&columns, groups)?;
        Ok(Ordered { columns, places, bounds })
    }

    /// The bytes that the rows take.
    pub(super) fn size(&self) -> usize {
        size_of::<KeptRows>() + self.bytes + self.groups.capacity() * size_of::<u32>()
    }

    fn check(&self) -> Result<()> {
        self.end.as_ref().map_or(Ok(()), |end| end.interrupt().check().map_err(external))
    }

    /// Each column in one piece.
    fn whole(&mut self) -> Result<Vec<ArrayRef>> {
        let types = self.shape.own.iter().chain(self.shape.keys.iter().map(|(known, _)| known));
        let whole = |(pieces, known): (&mut Vec<ArrayRef>, &DataType)| {
            let pieces = std::mem::take(pieces);
            Ok(match pieces.as_slice() {
                [] => datafusion::arrow::array::new_empty_array(known),
                [one] => one.clone(),
                several => concat(&several.iter().map(|piece| piece.as_ref()).collect::<Vec<_>>())?,
            })
        };
        self.columns.iter_mut().zip(types).map(whole).collect()
    }

    /// The places of the rows by their groups, and where each group begins among them.
    fn by_group(&self) -> Result<(Vec<u32>, Vec<u32>)> {
        let mut bounds = vec![0_u32; self.count + 1];
        self.groups.iter().for_each(|group| bounds[*group as usize + 1] += 1);
        for group in 0..self.count {
            bounds[group + 1] += bounds[group];
        }
        let mut next = bounds.clone();
        let mut places = vec![0; self.groups.len()];
        for (rows, groups) in self.groups.chunks(STEP).enumerate() {
            self.check()?;
            for (place, group) in groups.iter().enumerate() {
                let at = &mut next[*group as usize];
                places[*at as usize] = (rows * STEP + place) as u32;
                *at += 1;
            }
        }
        Ok((places, bounds))
    }

    /// Sorts the places of the first groups, and leaves out what is equal to one before.
    fn sort(
        &self,
        columns: &[ArrayRef],
        places: &mut [u32],
        bounds: &mut [u32],
        groups: usize,
    ) -> Result<()> {
        let (own, keys) = columns.split_at(self.shape.own.len());
        let options = self.shape.keys.iter();
        let fields =
            options.map(|(known, options)| SortField::new_with_options(known.clone(), *options)).collect();
        let rows = converted(fields, keys)?;
        match keys {
            [key] if !self.shape.is_distinct && key.null_count() == 0 => {
                match key.data_type().primitive_width() {
                    Some(..=8) => return self.sort_packed::<u64>(&rows, places, bounds, groups),
                    Some(..=16) => return self.sort_packed::<u128>(&rows, places, bounds, groups),
                    _ => {}
                }
            }
            _ => {}
        }
        self.sort_rows(own, &rows, places, bounds, groups)
    }

    /// Sorts places by keys of one width without NULLs, which lie beside them meanwhile.
    fn sort_packed<K: Packed>(
        &self,
        keys: &Rows,
        places: &mut [u32],
        bounds: &[u32],
        groups: usize,
    ) -> Result<()> {
        let (mut since_check, mut packed, mut scratch) = (0, Vec::new(), Vec::new());
        for group in bounds[..=groups].windows(2) {
            let places = &mut places[group[0] as usize..group[1] as usize];
            since_check += places.len();
            if since_check >= STEP {
                since_check = 0;
                self.check()?;
            }
            packed.clear();
            // The first byte says that the key is not NULL.
            packed.extend(places.iter().map(|place| (K::of(&keys.row(*place as usize).data()[1..]), *place)));
            match self.shape.is_stable {
                true => self.sort_group(&mut packed, &mut scratch, Ord::cmp)?,
                false => self.sort_group(&mut packed, &mut scratch, |one, other| one.0.cmp(&other.0))?,
            }
            places.iter_mut().zip(&packed).for_each(|(place, (_, sorted))| *place = *sorted);
        }
        Ok(())
    }

    /// Sorts places by keys of any kind.
    fn sort_rows(
        &self,
        own: &[ArrayRef],
        keys: &Rows,
        places: &mut [u32],
        bounds: &mut [u32],
        groups: usize,
    ) -> Result<()> {
        let own = match self.shape.is_distinct {
            true => Some(converted(self.shape.own.iter().cloned().map(SortField::new).collect(), own)?),
            false => None,
        };
        let (mut since_check, mut left) = (0, 0);
        let mut scratch = Vec::new();
        for group in 0..groups {
            let rows = bounds[group] as usize..bounds[group + 1] as usize;
            since_check += rows.len();
            if since_check >= STEP {
                since_check = 0;
                self.check()?;
            }
            let compare = |one: &u32, other: &u32| {
                let (first, second) = (*one as usize, *other as usize);
                let by_key = keys.row(first).cmp(&keys.row(second));
                let by_own = |own: &Rows| own.row(first).cmp(&own.row(second));
                by_key.then_with(|| own.as_ref().map_or(Ordering::Equal, by_own)).then(one.cmp(other))
            };
            self.sort_group(&mut places[rows.clone()], &mut scratch, compare)?;
            let Some(own) = &own else { continue };
            // Bounds move to the front as rows are left out.
            bounds[group] = left as u32;
            left =
                keep_first(places, rows, left, |one, other| own.row(one as usize) == own.row(other as usize));
        }
        if own.is_some() {
            bounds[groups] = left as u32;
        }
        Ok(())
    }

    /// Sorts runs of [`STEP`] rows and merges them, so that the largest group does not keep the run from ending.
    fn sort_group<T: Copy>(
        &self,
        places: &mut [T],
        scratch: &mut Vec<T>,
        compare: impl Fn(&T, &T) -> Ordering,
    ) -> Result<()> {
        for run in places.chunks_mut(STEP) {
            if run.len() == STEP {
                self.check()?;
            }
            run.sort_unstable_by(&compare);
        }
        let mut length = STEP;
        while length < places.len() {
            for pair in places.chunks_mut(2 * length).filter(|pair| pair.len() > length) {
                scratch.clear();
                scratch.extend_from_slice(&pair[..length]);
                let (mut left, mut right) = (0, length);
                // What is left of the right run is in its place already.
                while left < length {
                    let at = left + right - length;
                    if at.is_multiple_of(STEP) {
                        self.check()?;
                    }
                    if right < pair.len() && compare(&pair[right], &scratch[left]) == Ordering::Less {
                        pair[at] = pair[right];
                        right += 1;
                    } else {
                        pair[at] = scratch[left];
                        left += 1;
                    }
                }
            }
            length *= 2;
        }
        Ok(())
    }

    /// Keeps the rows of later groups alone, which are counted from 0 again.
    fn forget(&mut self, columns: &[ArrayRef], groups: usize) -> Result<()> {
        let old = std::mem::take(&mut self.groups);
        (self.bytes, self.counted) = (0, HashSet::new());
        self.count -= groups;
        if self.count == 0 {
            return Ok(());
        }
        let stay: BooleanArray = old.iter().map(|group| Some(*group as usize >= groups)).collect();
        let columns: Vec<ArrayRef> =
            columns.iter().map(|column| filter(column, &stay)).collect::<std::result::Result<_, _>>()?;
        self.keep(&columns, old.into_iter().filter_map(|group| (group as usize).checked_sub(groups)))
    }
}

/// The bytes of a key as a number that orders as they do.
trait Packed: Copy + Ord {
    /// Of bytes that are no more than a number has.
    fn of(bytes: &[u8]) -> Self;
}

impl Packed for u64 {
    fn of(bytes: &[u8]) -> u64 {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        u64::from_be_bytes(all)
    }
}

impl Packed for u128 {
    fn of(bytes: &[u8]) -> u128 {
        let mut all = [0; 16];
        all[..bytes.len()].copy_from_slice(bytes);
        u128::from_be_bytes(all)
    }
}

/// Keeps of the rows, which are sorted, those that no one before equals, from a place on; returns the place behind them.
fn keep_first(
    places: &mut [u32],
    rows: Range<usize>,
    from: usize,
    is_equal: impl Fn(u32, u32) -> bool,
) -> usize {
    let mut left = from;
    for at in rows {
        if left == from || !is_equal(places[left - 1], places[at]) {
            places[left] = places[at];
            left += 1;
        }
    }
    left
}

fn converted(fields: Vec<SortField>, columns: &[ArrayRef]) -> Result<Rows> {
    Ok(RowConverter::new(fields)?.convert_columns(columns)?)
}

/// The group of each item of lists that belong to these groups.
pub(super) fn groups_of_items(lists: &ListArray, groups: &[usize]) -> impl Iterator<Item = usize> {
    let length = |at: usize| if lists.is_valid(at) { lists.value_length(at) as usize } else { 0 };
    groups.iter().enumerate().flat_map(move |(at, group)| std::iter::repeat_n(*group, length(at)))
}

/// The items of all lists that are there, in one array.
pub(super) fn items(lists: &ListArray) -> Result<ArrayRef> {
    let offsets = lists.value_offsets();
    let (from, to) = (offsets[0] as usize, offsets[lists.len()] as usize);
    if lists.null_count() == 0 {
        return Ok(lists.values().slice(from, to - from));
    }
    let valid = (0..lists.len()).filter(|at| lists.is_valid(*at));
    let places = valid.flat_map(|at| offsets[at] as u64..offsets[at + 1] as u64);
    Ok(take(lists.values(), &UInt64Array::from_iter_values(places), None)?)
}

/// Rows as lists of one row each; those that the filter leaves out are NULL.
pub(super) fn single_lists(columns: &[ArrayRef], rows: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
    let absent = rows.map(|rows| NullBuffer::from_iter(rows.iter().map(|stays| stays == Some(true))));
    let list = |column: &ArrayRef| -> Result<ArrayRef> {
        let field = Arc::new(Field::new_list_field(column.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(1, column.len()));
        Ok(Arc::new(ListArray::try_new(field, offsets, column.clone(), absent.clone())?))
    };
    columns.iter().map(list).collect()
}

/// The bytes of an array, but for memory that was counted with another.
fn memory(array: &ArrayData, counted: &mut HashSet<usize>) -> Result<usize> {
    let mut bytes = array.get_slice_memory_size()?;
    if matches!(array.data_type(), DataType::Utf8View | DataType::BinaryView) {
        let texts = array.buffers().iter().skip(1);
        bytes += texts
            .filter(|text| counted.insert(text.as_ptr() as usize))
            .map(|text| text.capacity())
            .sum::<usize>();
    }
    Ok(bytes)
}

fn too_many(what: &str) -> datafusion::error::DataFusionError {
    external(Error::internal(format!("an aggregate of more than 2^32 {what}")))
}
