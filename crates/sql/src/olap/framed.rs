//! Window functions over frames that DataFusion does not have: those that leave out the row itself or its peers (`EXCLUDE`), whose
//! bounds are told by expressions, are so far away in a type that DataFusion does not count in, or leave no rows.
//!
//! A partition is held as a whole, and each row's frame is a set of ranges of rows, at most three. Sums, averages and counts that are
//! exact go from one row's set to the next by the rows that come and go, however they lie: with exclusions, too, that is a few rows for
//! each row. What cannot take rows back is computed anew where rows go, as in PostgreSQL: a frame of n rows costs n for each row of the
//! result, and each looks at the end of the run. `first_value` and its like cost the same for any frame.
//!
//! ```text
//! ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE GROUP, rows with keys a b b b c d
//!                                                                           ^
//! frame 0..5, peers 1..4: rows 0..1 and 4..5
//! ```

use super::cooperate::ended;
use super::error::external;
use super::recomputed::Made;
use crate::rows::RunEnd;
use ankerdb_engine::{Error, SqlState};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, DynComparator, make_comparator};
use datafusion::arrow::compute::{SortOptions, cast, filter, partition};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, PartitionEvaluator, Signature, Volatility, WindowFunctionDefinition,
    WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// Which rows of a frame are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Exclusion {
    Nothing,
    CurrentRow,
    Group,
    Ties,
}

/// What bounds count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Units {
    Rows,
    Groups,
    Range,
}

/// Where a frame begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FrameBound {
    Unbounded,
    CurrentRow,
    /// So far away. From that argument on there is the number of rows or groups; for ranges the value that rows are ordered by, the value
    /// at the bound, and whether the offset is negative.
    Offset {
        is_preceding: bool,
        argument: usize,
    },
}

/// The frame of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Frame {
    pub(super) exclusion: Exclusion,
    /// Those that DataFusion tells otherwise.
    pub(super) bounds: Option<(Units, FrameBound, FrameBound)>,
    pub(super) is_descending: bool,
    /// How many arguments are the function's own; a condition is behind them if there is FILTER.
    pub(super) own: usize,
    pub(super) has_filter: bool,
}

/// Whether the function looks at frames.
pub(super) fn is_framed(function: &WindowFunctionDefinition) -> bool {
    match function {
        WindowFunctionDefinition::AggregateUDF(_) => true,
        WindowFunctionDefinition::WindowUDF(function) => {
            matches!(function.name(), "first_value" | "last_value" | "nth_value")
        }
    }
}

/// The function over such frames.
pub(super) fn over(function: WindowFunctionDefinition, frame: Frame) -> WindowFunctionDefinition {
    let signature = Signature::user_defined(Volatility::Immutable);
    let framed = WindowUDF::new_from_impl(Framed { function, frame, signature });
    WindowFunctionDefinition::WindowUDF(Arc::new(framed))
}

/// Whether the function is one of these.
pub(super) fn is_own(function: &WindowUDF) -> bool {
    function.inner().downcast_ref::<Framed>().is_some()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Framed {
    function: WindowFunctionDefinition,
    frame: Frame,
    signature: Signature,
}

impl WindowUDFImpl for Framed {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let WindowFunctionDefinition::AggregateUDF(function) = &self.function else {
            return Ok(types.to_vec());
        };
        let (own, others) = types.split_at(self.frame.own);
        let own: Vec<FieldRef> =
            own.iter().map(|own| Arc::new(Field::new("", own.clone(), true)) as FieldRef).collect();
        let own = fields_with_udf(&own, function.as_ref())?;
        Ok(own.iter().map(|own| own.data_type().clone()).chain(others.iter().cloned()).collect())
    }

    fn partition_evaluator(&self, arguments: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        let end = arguments.input_exprs().iter().find_map(|argument| ended(argument).0.cloned());
        let kind = match &self.function {
            WindowFunctionDefinition::AggregateUDF(function) => {
                Kind::Aggregate(Box::new(Aggregate::of(function, self.frame.own, &arguments)?))
            }
            WindowFunctionDefinition::WindowUDF(function) => match function.name() {
                "first_value" => Kind::First,
                "last_value" => Kind::Last,
                _ => Kind::Nth,
            },
        };
        Ok(Box::new(Rows {
            kind,
            frame: self.frame,
            width: arguments.input_exprs().len(),
            row: 0,
            partition: None,
            end,
        }))
    }

    fn field(&self, arguments: WindowUDFFieldArgs) -> Result<FieldRef> {
        let own = &arguments.input_fields()[..self.frame.own];
        let field = match &self.function {
            WindowFunctionDefinition::AggregateUDF(function) => {
                function.return_field(&fields_with_udf(own, function.as_ref())?)?
            }
            WindowFunctionDefinition::WindowUDF(_) => match own.first() {
                Some(value) => value.clone(),
                None => return internal_err!("{} of nothing", self.name()),
            },
        };
        Ok(Arc::new(field.as_ref().clone().with_name(arguments.name()).with_nullable(true)))
    }
}

/// An aggregate of the rows of a set.
#[derive(Debug)]
struct Aggregate {
    made: Made,
    /// Whether rows can be taken back in any order.
    takes_back: bool,
    /// What it has been computed of.
    set: Vec<Range<usize>>,
    whole: Option<Box<dyn Accumulator>>,
}

impl Aggregate {
    fn of(function: &Arc<AggregateUDF>, own: usize, arguments: &PartitionEvaluatorArgs) -> Result<Aggregate> {
        let fields = &arguments.input_fields()[..own];
        let schema = Schema::new(fields.to_vec());
        let exprs: Vec<Arc<dyn PhysicalExpr>> = arguments.input_exprs()[..own]
            .iter()
            .enumerate()
            .map(|(at, argument)| {
                let argument = ended(argument).1;
                match argument.downcast_ref::<Literal>() {
                    // Some look at constants.
                    Some(_) => argument.clone(),
                    None => Arc::new(Column::new(fields[at].name(), at)) as Arc<dyn PhysicalExpr>,
                }
            })
            .collect();
        let is_inexact = fields.first().is_some_and(|field| field.data_type().is_floating());
        let arguments = AccumulatorArgs {
            return_field: function.return_field(fields)?,
            schema: &schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: function.name(),
            is_distinct: false,
            exprs: &exprs,
            expr_fields: fields,
        };
        let made = Made::of(function.clone(), arguments);
        let is_sum = ["sum", "avg", "count"].contains(&function.name());
        let takes_back = is_sum && !is_inexact && made.sliding()?.supports_retract_batch();
        Ok(Aggregate { made, takes_back, set: Vec::new(), whole: None })
    }

    /// The aggregate of the rows of a set.
    fn over(&mut self, set: Vec<Range<usize>>, columns: &[ArrayRef]) -> Result<ScalarValue> {
        let (come, gone) = (minus(&set, &self.set), minus(&self.set, &set));
        let grows = gone.is_empty()
            && match (self.set.last(), come.first()) {
                (Some(last), Some(first)) => first.start >= last.end,
                _ => true,
            };
        let is_near = self.takes_back && rows_in(&come) + rows_in(&gone) < rows_in(&set);
        let (mut whole, come) = match self.whole.take().filter(|_| grows || is_near) {
            Some(whole) => (whole, come),
            None => {
                let whole = if self.takes_back { self.made.sliding()? } else { self.made.accumulator()? };
                self.set.clear();
                (whole, set.clone())
            }
        };
        let slices = |rows: &Range<usize>| -> Vec<ArrayRef> {
            columns.iter().map(|column| column.slice(rows.start, rows.len())).collect()
        };
        if !self.set.is_empty() {
            gone.iter().try_for_each(|rows| whole.retract_batch(&slices(rows)))?;
        }
        come.iter().try_for_each(|rows| whole.update_batch(&slices(rows)))?;
        let value = whole.evaluate()?;
        self.set = set;
        self.whole = Some(whole);
        Ok(value)
    }
}

#[derive(Debug)]
enum Kind {
    Aggregate(Box<Aggregate>),
    First,
    Last,
    Nth,
}

/// The rows of a partition, one after the other.
#[derive(Debug)]
struct Rows {
    kind: Kind,
    frame: Frame,
    /// The number of arguments; the columns of the order are behind them.
    width: usize,
    /// The next one.
    row: usize,
    partition: Option<Partition>,
    end: Option<RunEnd>,
}

impl PartitionEvaluator for Rows {
    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        if let Some(end) = &self.end {
            end.interrupt().check().map_err(external)?;
        }
        let row = self.row;
        self.row += 1;
        let partition = match &mut self.partition {
            Some(partition) => partition,
            none => none.insert(Partition::of(values, self.width, &self.frame)?),
        };
        let range = match &self.frame.bounds {
            None => range.clone(),
            Some(_) => partition.bounds(row)?,
        };
        let set = self.frame.exclusion.rest(range, row, partition.peers(row));
        let nth = |place: usize| match nth(&set, place) {
            Some(place) => ScalarValue::try_from_array(&values[0], place),
            None => ScalarValue::try_from(values[0].data_type()),
        };
        match &mut self.kind {
            Kind::Aggregate(aggregate) => aggregate.over(partition.kept(set), &partition.columns),
            Kind::First => nth(0),
            Kind::Last => nth(rows_in(&set).wrapping_sub(1)),
            Kind::Nth => match count(&values[1], row)? {
                None => ScalarValue::try_from(values[0].data_type()),
                Some(count) if count < 1 => Err(external(Error::new(
                    SqlState::InvalidArgumentForNthValue,
                    "argument of nth_value must be greater than zero",
                ))),
                Some(count) => nth(usize::try_from(count - 1).unwrap_or(usize::MAX)),
            },
        }
    }

    fn uses_window_frame(&self) -> bool {
        true
    }
}

/// What is known of a partition.
struct Partition {
    /// The function's arguments, of rows that satisfy the condition alone.
    columns: Vec<ArrayRef>,
    /// If there is a condition, how many of the rows before a row satisfy it.
    satisfied: Option<Vec<usize>>,
    /// Rows that are equal in what they are ordered by.
    groups: Vec<Range<usize>>,
    /// The group of each row.
    group_of: Vec<usize>,
    bounds: Option<[Offset; 2]>,
    units: Units,
}

impl std::fmt::Debug for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Partition").field("groups", &self.groups.len()).finish_non_exhaustive()
    }
}

/// A bound, in rows of the partition.
enum Offset {
    Unbounded,
    CurrentRow,
    Count { is_preceding: bool, count: usize },
    Value(Values),
}

/// The values that bound frames.
struct Values {
    /// Compares the value of a row with that at the bound of another.
    compare: DynComparator,
    is_descending: bool,
    /// The rows that have values.
    rows: Range<usize>,
}

impl Partition {
    fn of(values: &[ArrayRef], width: usize, frame: &Frame) -> Result<Partition> {
        let rows = values.first().map_or(0, |first| first.len());
        let (arguments, order) = values.split_at(width);
        let groups = match order.is_empty() {
            true => std::iter::once(0..rows).collect(),
            false => partition(order)?.ranges(),
        };
        let mut group_of = Vec::with_capacity(rows);
        for (number, group) in groups.iter().enumerate() {
            group_of.resize(group.end, number);
        }
        let mut columns = arguments[..frame.own].to_vec();
        let mut satisfied = None;
        if frame.has_filter {
            let condition = known(arguments[frame.own].as_boolean());
            satisfied = Some(before(&condition));
            columns = columns.iter().map(|column| filter(column, &condition)).collect::<Result<_, _>>()?;
        }
        let (units, bounds) = match frame.bounds {
            None => (Units::Rows, None),
            Some((units, first, last)) => {
                let made = |bound, which| offset(bound, units, which, arguments, frame.is_descending);
                (units, Some([made(first, "starting")?, made(last, "ending")?]))
            }
        };
        Ok(Partition { columns, satisfied, groups, group_of, bounds, units })
    }

    fn peers(&self, row: usize) -> Range<usize> {
        self.groups[self.group_of[row]].clone()
    }

    /// Of the rows of a set those that satisfy the condition, counted among them.
    fn kept(&self, mut set: Vec<Range<usize>>) -> Vec<Range<usize>> {
        if let Some(satisfied) = &self.satisfied {
            set.iter_mut().for_each(|rows| *rows = satisfied[rows.start]..satisfied[rows.end]);
            set.retain(|rows| !rows.is_empty());
        }
        set
    }

    /// The rows between the bounds of a row.
    fn bounds(&self, row: usize) -> Result<Range<usize>> {
        let Some([first, last]) = &self.bounds else { return internal_err!("a frame without bounds") };
        let rows = self.group_of.len();
        let start = match self.units {
            Units::Groups => match first.moved(self.group_of[row], 0) {
                Some(group) => self.groups.get(group).map_or(rows, |group| group.start),
                None => 0,
            },
            Units::Rows => first.moved(row, 0).unwrap_or(0),
            Units::Range => match first {
                Offset::Value(values) => values.start(row).unwrap_or(self.peers(row).start),
                Offset::CurrentRow => self.peers(row).start,
                _ => 0,
            },
        };
        let end = match self.units {
            Units::Groups => match last.moved(self.group_of[row], 1) {
                Some(0) => 0,
                Some(group) => self.groups.get(group - 1).map_or(rows, |group| group.end),
                None => rows,
            },
            Units::Rows => last.moved(row, 1).unwrap_or(rows),
            Units::Range => match last {
                Offset::Value(values) => values.end(row).unwrap_or(self.peers(row).end),
                Offset::CurrentRow => self.peers(row).end,
                _ => rows,
            },
        };
        let end = end.min(rows);
        Ok(start.min(end)..end)
    }
}

impl Offset {
    /// A number so far from another and from what is `behind` it; `None` if there is no bound.
    fn moved(&self, number: usize, behind: usize) -> Option<usize> {
        match self {
            Offset::Count { is_preceding: true, count } => Some((number + behind).saturating_sub(*count)),
            Offset::Count { is_preceding: false, count } => Some((number + behind).saturating_add(*count)),
            Offset::CurrentRow => Some(number + behind),
            Offset::Unbounded | Offset::Value(_) => None,
        }
    }
}

impl Values {
    /// The first row that is not before the bound of a row; `None` if the row has no value.
    fn start(&self, row: usize) -> Option<usize> {
        self.place(row, |found| found == Ordering::Less)
    }

    /// The first row behind the bound of a row.
    fn end(&self, row: usize) -> Option<usize> {
        self.place(row, |found| found != Ordering::Greater)
    }

    fn place(&self, row: usize, is_before: impl Fn(Ordering) -> bool) -> Option<usize> {
        if !self.rows.contains(&row) {
            return None;
        }
        let (mut low, mut high) = (self.rows.start, self.rows.end);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = (self.compare)(middle, row);
            match is_before(if self.is_descending { found.reverse() } else { found }) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Some(low)
    }
}

fn offset(
    bound: FrameBound,
    units: Units,
    which: &str,
    arguments: &[ArrayRef],
    is_descending: bool,
) -> Result<Offset> {
    let FrameBound::Offset { is_preceding, argument } = bound else {
        return Ok(if bound == FrameBound::Unbounded { Offset::Unbounded } else { Offset::CurrentRow });
    };
    let refused = |state, what: &str| {
        Err(external(Error::new(state, format!("frame {which} offset must not be {what}"))))
    };
    if units != Units::Range {
        return match count(&arguments[argument], 0)? {
            None => refused(SqlState::NullValueNotAllowed, "null"),
            Some(count) => match usize::try_from(count) {
                Ok(count) => Ok(Offset::Count { is_preceding, count }),
                Err(_) => refused(SqlState::InvalidPrecedingOrFollowingSize, "negative"),
            },
        };
    }
    let [base, bounds, is_negative] = &arguments[argument..argument + 3] else {
        return internal_err!("a bound without values");
    };
    let is_negative = is_negative.as_boolean();
    if is_negative.is_null(0) {
        return refused(SqlState::NullValueNotAllowed, "null");
    }
    if is_negative.value(0) {
        let message = "invalid preceding or following size in window function";
        return Err(external(Error::new(SqlState::InvalidPrecedingOrFollowingSize, message)));
    }
    // Rows without values are together at one end.
    let first = (0..base.len()).find(|&row| base.is_valid(row)).unwrap_or(base.len());
    let rows = first..first + (base.len() - base.null_count());
    let compare = make_comparator(base, bounds, SortOptions::default())?;
    Ok(Offset::Value(Values { compare, is_descending, rows }))
}

/// An argument that is a count.
fn count(argument: &ArrayRef, row: usize) -> Result<Option<i64>> {
    let argument = cast(&argument.slice(row, 1), &DataType::Int64)?;
    let argument = argument.as_primitive::<Int64Type>();
    Ok(argument.is_valid(0).then(|| argument.value(0)))
}

/// A condition for which unknown is as good as false.
fn known(condition: &BooleanArray) -> BooleanArray {
    match condition.nulls() {
        Some(nulls) => BooleanArray::new(condition.values() & nulls.inner(), None),
        None => condition.clone(),
    }
}

/// How many rows before each row, and before the end, satisfy the condition.
fn before(condition: &BooleanArray) -> Vec<usize> {
    let counts = condition.values().iter().scan(0, |count, is_true| {
        *count += usize::from(is_true);
        Some(*count)
    });
    std::iter::once(0).chain(counts).collect()
}

impl Exclusion {
    /// What is left of the frame of a row.
    fn rest(self, frame: Range<usize>, row: usize, peers: Range<usize>) -> Vec<Range<usize>> {
        let excluded = match self {
            Exclusion::Nothing => Vec::new(),
            Exclusion::CurrentRow => std::iter::once(row..row + 1).collect(),
            Exclusion::Group => vec![peers],
            Exclusion::Ties => vec![peers.start..row, row + 1..peers.end],
        };
        minus(&[frame], &excluded)
    }
}

/// The rows of ranges that are not in others; both are in order and apart.
fn minus(from: &[Range<usize>], others: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut rest = Vec::with_capacity(from.len() + others.len());
    for rows in from {
        let mut start = rows.start;
        for other in others.iter().filter(|other| other.start < rows.end && other.end > rows.start) {
            if other.start > start {
                rest.push(start..other.start);
            }
            start = start.max(other.end);
        }
        if start < rows.end {
            rest.push(start..rows.end);
        }
    }
    rest
}

fn rows_in(set: &[Range<usize>]) -> usize {
    set.iter().map(ExactSizeIterator::len).sum()
}

/// The row at a place of a set.
fn nth(set: &[Range<usize>], mut place: usize) -> Option<usize> {
    for rows in set {
        if place < rows.len() {
            return Some(rows.start + place);
        }
        place -= rows.len();
    }
    None
}
