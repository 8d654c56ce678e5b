//! Visits the rows that an access path and a filter select.

use super::Environment;
use crate::explain::{Actual, Stage, address};
use crate::expression::types::{Below, below, convert_exactly};
use crate::expression::{Context, Expression, evaluate, is_true};
use crate::materialized_table::check_populated;
use crate::plan::access::{Access, Among, IndexRange, IndexUse, KeyBound, KeyPart};
use ankerdb_engine::{
    ColumnSet, Direction, IndexPosition, KeyRange, Result, RowFilter, RowId, Table, Transaction, Value,
};
use std::cell::Cell;
use std::collections::HashSet;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// The rows of one table that a statement reads or writes.
pub(super) struct RowSource<'a> {
    pub table: &'a Arc<Table>,
    pub access: &'a Access,
    pub filter: Option<&'a Arc<Expression>>,
    /// Columns that the statement reads.
    pub columns: ColumnSet,
    /// Rows that may still be looked at: the visit ends when none is left.
    pub left: Option<&'a Cell<usize>>,
}

impl<'a> RowSource<'a> {
    /// All rows that the access path finds and the filter keeps.
    pub(super) fn all(
        table: &'a Arc<Table>,
        access: &'a Access,
        filter: Option<&'a Arc<Expression>>,
        columns: ColumnSet,
    ) -> RowSource<'a> {
        RowSource { table, access, filter, columns, left: None }
    }
}

/// Items of an array made keys between two looks at the interrupt.
const ITEMS_BETWEEN_CHECKS: usize = 4096;

type Visit<'a> = dyn FnMut(&mut Transaction, RowId) -> Result<ControlFlow<()>> + 'a;

impl RowSource<'_> {
    /// Visits each row that satisfies the filter, in the order of the access path.
    pub(super) fn visit(
        &self,
        transaction: &mut Transaction,
        environment: &Environment,
        visit: &mut Visit,
    ) -> Result<()> {
        let Some(meter) = environment.meter else { return self.visit_rows(transaction, environment, visit) };
        meter.begin_filter();
        let (mut rows, mut first) = (0, None);
        let visited = self.visit_rows(transaction, environment, &mut |transaction, row| {
            rows += 1;
            first.get_or_insert_with(|| meter.now());
            visit(transaction, row)
        });
        let last = meter.now();
        let times = Some((first.unwrap_or(last), last));
        let actual = Actual { rows, times, removed: Some(meter.removed()) };
        meter.note(address(self.access), Stage::Access, actual);
        visited
    }

    fn visit_rows(
        &self,
        transaction: &mut Transaction,
        environment: &Environment,
        visit: &mut Visit,
    ) -> Result<()> {
        check_populated(self.table)?;
        let mut filtered = |transaction: &mut Transaction, row: RowId| {
            environment.interrupt.check()?;
            if let Some(left) = self.left {
                left.set(left.get().saturating_sub(1));
                if left.get() == 0 {
                    return Ok(ControlFlow::Break(()));
                }
            }
            match self.passes(transaction, row, environment)? {
                true => visit(transaction, row),
                false => {
                    if let Some(meter) = environment.meter {
                        meter.remove_row();
                    }
                    Ok(ControlFlow::Continue(()))
                }
            }
        };
        match self.access {
            Access::OneRow => Ok(()),
            Access::Find(_) | Access::Range(_) => {
                let probes = probes(self.access, &environment.constant())?;
                self.visit_probes(probes, transaction, &mut filtered).map(drop)
            }
            Access::AnyOf(ways) => {
                let mut seen = HashSet::new();
                let mut once = |transaction: &mut Transaction, row: RowId| match seen.insert(row) {
                    true => filtered(transaction, row),
                    false => Ok(ControlFlow::Continue(())),
                };
                let mut all = Vec::with_capacity(ways.len());
                for (number, way) in ways.iter().enumerate() {
                    if number.is_multiple_of(ITEMS_BETWEEN_CHECKS) {
                        environment.interrupt.check()?;
                    }
                    all.append(&mut probes(way, &environment.constant())?);
                }
                // Statements that lock rows meet each other in one order, however their lists are written.
                all.sort_by(|left, right| left.place().cmp(&right.place()));
                all.dedup_by(|next, probe| next.is_like(probe));
                self.visit_probes(all, transaction, &mut once).map(drop)
            }
            Access::Scan => {
                let filter = self.filter.map(|filter| row_filter(filter.clone(), environment));
                transaction.scan_table(self.table, self.columns, filter, &mut filtered)
            }
        }
    }

    fn visit_probes(
        &self,
        probes: Vec<Probe>,
        transaction: &mut Transaction,
        visit: &mut Visit,
    ) -> Result<ControlFlow<()>> {
        for probe in probes {
            let flow = match probe {
                Probe::Key(index, key) => match transaction.find(self.table, index, &key, self.columns)? {
                    Some(row) => visit(transaction, row)?,
                    None => ControlFlow::Continue(()),
                },
                Probe::Keys(index, keys, direction) => {
                    let mut last = ControlFlow::Continue(());
                    let mut watched = |transaction: &mut Transaction, row: RowId| {
                        last = visit(transaction, row)?;
                        Ok(last)
                    };
                    transaction.scan_index(
                        self.table,
                        index,
                        &keys,
                        direction,
                        self.columns,
                        &mut watched,
                    )?;
                    last
                }
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn passes(&self, transaction: &Transaction, row: RowId, environment: &Environment) -> Result<bool> {
        let Some(filter) = self.filter else { return Ok(true) };
        let column = |column: usize| transaction.value(self.table, row, column);
        is_true(filter, &environment.context(&column))
    }
}

/// The filter as the predicate that a full scan reads by. Where it fails to evaluate, the row counts as read, and
/// the visit reports the error.
fn row_filter(filter: Arc<Expression>, environment: &Environment) -> RowFilter {
    let parameters = environment.parameters.to_vec();
    let subqueries = environment.subqueries.to_vec();
    let (now, interrupt) = (environment.now, environment.interrupt.clone());
    Arc::new(move |column| {
        let context = Context {
            column,
            parameters: &parameters,
            subqueries: &subqueries,
            now,
            interrupt: &interrupt,
            sequences: &crate::expression::NoSequences,
        };
        is_true(&filter, &context).unwrap_or(true)
    })
}

/// One descent into an index.
enum Probe {
    /// To the row with this key of the unique index at this position.
    Key(IndexPosition, Vec<u8>),
    Keys(IndexPosition, KeyRange, Direction),
}

impl Probe {
    /// The index and the first key, to sort by.
    fn place(&self) -> (IndexPosition, &[u8]) {
        match self {
            Probe::Key(index, key) => (*index, key),
            Probe::Keys(index, keys, _) => match &keys.lower {
                Bound::Included(key) | Bound::Excluded(key) => (*index, key),
                Bound::Unbounded => (*index, &[]),
            },
        }
    }

    fn is_like(&self, other: &Probe) -> bool {
        match (self, other) {
            (Probe::Key(..), Probe::Key(..)) => self.place() == other.place(),
            (Probe::Keys(index, keys, _), Probe::Keys(other, others, _)) => {
                index == other && keys.lower == others.lower && keys.upper == others.upper
            }
            _ => false,
        }
    }
}

/// The descents of one way that goes by an index.
fn probes(access: &Access, context: &Context) -> Result<Vec<Probe>> {
    match access {
        Access::Find(used) => {
            let key = find_key(used, context)?;
            Ok(key.map(|key| Probe::Key(used.position, key)).into_iter().collect())
        }
        Access::Range(range) => {
            let probe = |keys| Probe::Keys(range.used.position, keys, range.direction);
            Ok(key_ranges(range, context)?.into_iter().map(probe).collect())
        }
        Access::OneRow | Access::AnyOf(_) | Access::Scan => Ok(Vec::new()),
    }
}

/// The encoded key; `None` if no row can have it.
fn find_key(used: &IndexUse, context: &Context) -> Result<Option<Vec<u8>>> {
    let Some(values) = key_values(&used.key, context)? else { return Ok(None) };
    let mut key = Vec::with_capacity(16 * values.len());
    used.index.encode(&values, &mut key)?;
    Ok(Some(key))
}

/// The values in the columns' own types; `None` if one is NULL or is no value of its column's type.
fn key_values(parts: &[KeyPart], context: &Context) -> Result<Option<Vec<Value>>> {
    let mut values = Vec::with_capacity(parts.len() + 1);
    for part in parts {
        match key_value(part, context)? {
            Some(value) => values.push(value),
            None => return Ok(None),
        }
    }
    Ok(Some(values))
}

fn key_value(part: &KeyPart, context: &Context) -> Result<Option<Value>> {
    match evaluate(&part.value, context)? {
        Value::Null => Ok(None),
        value => Ok(convert_exactly(value, part.column_type)),
    }
}

/// The ranges to visit, in key order.
fn key_ranges(range: &IndexRange, context: &Context) -> Result<Vec<KeyRange>> {
    let Some(mut values) = key_values(&range.used.key, context)? else { return Ok(Vec::new()) };
    let encode = |values: &[Value]| {
        let mut key = Vec::with_capacity(16 * values.len());
        range.used.index.encode(values, &mut key)?;
        Ok(key)
    };
    let key_parts = range.used.index.part_count();
    let pinned = |key: &[u8], parts: usize| match parts == key_parts {
        true => KeyRange::exactly(key),
        false => KeyRange::prefix(key),
    };
    if let Some(among) = &range.among {
        let mut keys = Vec::new();
        let mut push = |value: Option<Value>| -> Result<()> {
            if let Some(value) = value {
                values.push(value);
                keys.push(encode(&values)?);
                values.pop();
            }
            Ok(())
        };
        match among {
            Among::Values(parts) => parts.iter().try_for_each(|part| push(key_value(part, context)?))?,
            Among::Array(part) => {
                let Value::Array(array) = evaluate(&part.value, context)? else { return Ok(Vec::new()) };
                for (number, item) in array.borrow().items().enumerate() {
                    if number.is_multiple_of(ITEMS_BETWEEN_CHECKS) {
                        context.interrupt.check()?;
                    }
                    if !item.is_null() {
                        push(convert_exactly(item.to_value(), part.column_type))?;
                    }
                }
            }
        }
        keys.sort_unstable();
        keys.dedup();
        return Ok(keys.iter().map(|key| pinned(key, values.len() + 1)).collect());
    }
    let mut whole = if values.is_empty() { KeyRange::all() } else { pinned(&encode(&values)?, values.len()) };
    let mut end = |bound: &Option<KeyBound>, is_lower: bool| -> Result<End> {
        let Some(bound) = bound else { return Ok(End::Open) };
        let value = evaluate(&bound.part.value, context)?;
        let (value, inclusive) = match within_type(value, bound, is_lower) {
            Ok(found) => found,
            Err(end) => return Ok(end),
        };
        values.push(value);
        let key = encode(&values)?;
        values.pop();
        Ok(End::At(key, inclusive))
    };
    match end(&range.lower, true)? {
        End::Nothing => return Ok(Vec::new()),
        End::Open => {}
        End::At(key, true) => whole.lower = Bound::Included(key),
        End::At(key, false) => match KeyRange::prefix(&key).upper {
            Bound::Excluded(after) | Bound::Included(after) => whole.lower = Bound::Included(after),
            Bound::Unbounded => return Ok(Vec::new()),
        },
    }
    match end(&range.upper, false)? {
        End::Nothing => return Ok(Vec::new()),
        End::Open => {}
        End::At(key, true) => whole.upper = KeyRange::prefix(&key).upper,
        End::At(key, false) => whole.upper = Bound::Excluded(key),
    }
    Ok(if is_empty(&whole) { Vec::new() } else { vec![whole] })
}

/// The bound as a value of its column's type, and whether that value is within the range; or the end that it comes to.
fn within_type(value: Value, bound: &KeyBound, is_lower: bool) -> std::result::Result<(Value, bool), End> {
    let column_type = bound.part.column_type;
    if value.is_null() {
        return Err(End::Nothing);
    }
    if let Some(value) = convert_exactly(value.clone(), column_type) {
        return Ok((value, bound.inclusive));
    }
    // That of whole numbers lies between two of them, or beyond all. NULLs sort above the greatest.
    match (below(&value, column_type), is_lower) {
        (Some(Below::At(value)), _) => Ok((value, !is_lower)),
        (Some(Below::All(greatest)), false) => Ok((greatest, true)),
        (Some(Below::All(_)), true) | (Some(Below::None), false) => Err(End::Nothing),
        // What is no value of the column's type otherwise is left to the filter.
        (Some(Below::None), true) | (None, _) => Err(End::Open),
    }
}

/// One end of a range.
enum End {
    Open,
    At(Vec<u8>, bool),
    /// Nothing compares with NULL.
    Nothing,
}

fn is_empty(range: &KeyRange) -> bool {
    match (&range.lower, &range.upper) {
        (Bound::Included(lower), Bound::Excluded(upper)) => lower >= upper,
        (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
        _ => false,
    }
}
