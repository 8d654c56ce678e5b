//! A partial aggregate over a table as a pipeline.
//!
//! Operators are gone through from the scan up; an expression becomes instructions when something above asks for it, so that
//! what nobody reads is not computed, and nothing is computed for rows that a filter below has dropped.
//!
//! Decimals keep their scale here, and the pipeline knows the bits of their unscaled numbers: of a column and a constant from
//! the declared digits. Texts are in a pipeline as Arrow's views have them, so those of more than 12 bytes are only ever
//! compared with a constant that is shorter, to which none of them is equal.

use super::super::aggregate::reads_narrow;
use super::super::block_condition::BlockCondition;
use super::super::checked;
use super::super::cooperate::Paced;
use super::super::guessed_bounds::revealed;
use super::super::scan::ScanExec;
use crate::expression::Arithmetic;
use ankerdb_compiler::{
    BITS_MAX, BitmapCondition, ComparedBy, Datum, IllTyped, InputColumn, Instruction, Pipeline,
    PipelineAggregate, PipelineBuilder, PipelineParts, ValueKind, ValueNumber,
};
use datafusion::arrow::array::Array;
use datafusion::arrow::compute::kernels::cmp::distinct;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// Why an operator is not compiled, in a few words.
#[derive(Debug)]
pub(super) struct Reason(pub(super) String);

impl Reason {
    fn new(text: impl Into<String>) -> Reason {
        Reason(text.into())
    }
}

impl From<IllTyped> for Reason {
    fn from(error: IllTyped) -> Reason {
        Reason(error.to_string())
    }
}

type Lowering<T> = Result<T, Reason>;

/// More groups than these are DataFusion's, unless rows of a group lie together.
const GROUPS_MAX: usize = 1 << 17;
/// Rows that are looked at for whether they do.
const SAMPLE_ROWS: usize = 4096;
/// How many different texts of one character are expected.
const LETTERS: usize = 64;

/// A pipeline, and what its rows are to DataFusion.
#[derive(Debug)]
pub(super) struct Lowered {
    pub(super) pipeline: Pipeline,
    /// The pipeline with its first condition apart, if it has one.
    pub(super) parts: Option<PipelineParts>,
    /// The first condition, if bitmaps can decide it.
    pub(super) bitmaps: Option<BitmapCondition>,
    pub(super) parameters: Vec<Datum>,
    pub(super) scan: Arc<ScanExec>,
    /// Which columns of the scan the pipeline reads, in its order.
    pub(super) columns: Vec<usize>,
    /// For each column of the state behind the keys.
    pub(super) states: Vec<StatePart>,
    /// A key of which there are many, each in rows that lie together: its number, and its column of the scan.
    pub(super) clustered: Option<(usize, usize)>,
}

/// What a column of the state is, by numbers of the pipeline's aggregates.
#[derive(Clone, Copy, Debug)]
pub(super) enum StatePart {
    Count(usize),
    /// A sum, NULL where the count is 0.
    Sum {
        sum: usize,
        count: usize,
    },
    Extreme(usize),
}

/// The pipeline of an aggregate that reads rows, of a table that has about so many.
pub(super) fn lower(aggregate: &AggregateExec, rows_min: usize) -> Lowering<Lowered> {
    if !matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::Single) {
        return Err(Reason::new("the input is spread by groups"));
    }
    if !aggregate.group_expr().is_single() {
        return Err(Reason::new("grouping sets"));
    }
    if aggregate.filter_expr().iter().any(Option::is_some) {
        return Err(Reason::new("FILTER"));
    }
    if aggregate.limit_options().is_some() {
        return Err(Reason::new("a limit of groups"));
    }
    if scan_below(aggregate.input())?.row_count() < rows_min {
        return Err(Reason::new("few rows"));
    }
    let mut lowerer = Lowerer::over(aggregate.input())?;
    let level = lowerer.level(aggregate.input())?;
    let mut groups = 1usize;
    for (number, (key, _)) in aggregate.group_expr().expr().iter().enumerate() {
        groups = groups.saturating_mul(lowerer.key(number, key, &level)?);
    }
    if groups > GROUPS_MAX {
        return Err(Reason::new("many groups"));
    }
    let mut states = Vec::new();
    for function in aggregate.aggr_expr() {
        lowerer.aggregate(function, &level, &mut states)?;
    }
    let pipeline = lowerer.builder.finish();
    let parameters: Vec<Datum> = lowerer.parameters.into_iter().map(|(datum, _)| datum).collect();
    let parts = pipeline.parts();
    let bitmaps = parts.as_ref().and_then(|parts| BitmapCondition::of(&parts.selection));
    Ok(Lowered {
        scan: filtered(lowerer.scan, bitmaps.as_ref(), &parameters, &lowerer.inputs),
        pipeline,
        parts,
        bitmaps,
        parameters,
        columns: lowerer.inputs,
        states,
        clustered: lowerer.clustered,
    })
}

/// Conditions of a filter, as a pipeline that selects rows of the scan below it.
#[derive(Debug)]
pub(super) struct LoweredCondition {
    pub(super) pipeline: Pipeline,
    /// What can be decided by bitmaps, if not nothing can.
    pub(super) quick: Option<QuickCondition>,
    pub(super) parameters: Vec<Datum>,
    /// With all numerics as they are stored.
    pub(super) scan: Arc<ScanExec>,
    /// Which columns of the scan the pipeline reads, in its order.
    pub(super) columns: Vec<usize>,
    /// What it decides.
    pub(super) terms: Vec<Arc<dyn PhysicalExpr>>,
    /// What it leaves to the filter.
    pub(super) others: Vec<Arc<dyn PhysicalExpr>>,
}

/// Those of a pipeline's first conditions that bitmaps decide.
#[derive(Debug)]
pub(super) struct QuickCondition {
    pub(super) bitmaps: BitmapCondition,
    /// What happens to the rows that pass, if something does.
    pub(super) rest: Option<Pipeline>,
}

impl QuickCondition {
    /// Of a pipeline that selects.
    fn of(pipeline: &Pipeline) -> Option<QuickCondition> {
        match pipeline.parts() {
            Some(parts) => {
                let bitmaps = BitmapCondition::of(&parts.selection)?;
                Some(QuickCondition { bitmaps, rest: Some(parts.rest) })
            }
            None => Some(QuickCondition { bitmaps: BitmapCondition::of(pipeline)?, rest: None }),
        }
    }
}

/// The scan, which leaves out blocks where the condition is known to be true of no row.
fn filtered(
    scan: Arc<ScanExec>,
    bitmaps: Option<&BitmapCondition>,
    parameters: &[Datum],
    inputs: &[usize],
) -> Arc<ScanExec> {
    match bitmaps {
        None => scan,
        Some(bitmaps) => {
            let columns = inputs.iter().map(|&column| scan.stored_column(column)).collect();
            let condition = BlockCondition::new(bitmaps.clone(), parameters.to_vec(), columns);
            Arc::new(scan.filtered_by(condition))
        }
    }
}

/// The pipeline of those conditions of a filter that only compare columns and constants, for a scan of about so many rows.
pub(super) fn lower_condition(filter: &FilterExec, rows_min: usize) -> Lowering<LoweredCondition> {
    let Some(scan) = filter.input().downcast_ref::<ScanExec>() else {
        return Err(Reason(format!("{} below", filter.input().name())));
    };
    if filter.fetch().is_some() || scan.is_limited() {
        return Err(Reason::new("LIMIT"));
    }
    if scan.row_count() < rows_min {
        return Err(Reason::new("few rows"));
    }
    let schema = filter.input().schema();
    // One by itself, since a pipeline keeps what was lowered of one that cannot be.
    let is_lowered = |term: &Arc<dyn PhysicalExpr>| {
        let lowered = || {
            let mut lowerer = Lowerer::over(filter.input())?;
            lowerer.keep(vec![term.clone()], &schema, &LoweredRows::Scan)
        };
        is_simple(term) && lowered().is_ok()
    };
    let mut terms = Vec::new();
    conjuncts(filter.predicate(), &mut terms);
    let (terms, others): (Vec<_>, Vec<_>) = terms.into_iter().partition(is_lowered);
    if terms.is_empty() {
        return Err(Reason::new("no condition that only compares columns and constants"));
    }
    let mut lowerer = Lowerer::over(filter.input())?;
    lowerer.keep(terms.clone(), &schema, &LoweredRows::Scan)?;
    let pipeline = lowerer.builder.finish_selecting()?;
    let parameters: Vec<Datum> = lowerer.parameters.into_iter().map(|(datum, _)| datum).collect();
    let quick = QuickCondition::of(&pipeline);
    Ok(LoweredCondition {
        scan: filtered(
            lowerer.scan,
            quick.as_ref().map(|quick| &quick.bitmaps),
            &parameters,
            &lowerer.inputs,
        ),
        quick,
        pipeline,
        parameters,
        columns: lowerer.inputs,
        terms,
        others,
    })
}

/// What the columns of an operator's rows are.
enum LoweredRows {
    Scan,
    /// Columns of the level below.
    Chosen(Vec<usize>, Box<LoweredRows>),
    /// Expressions over the level below, whose schema is that.
    Computed(Vec<Arc<dyn PhysicalExpr>>, SchemaRef, Box<LoweredRows>),
}

/// A value, with what instructions do not know.
#[derive(Clone, Copy)]
struct TypedOperand {
    operand: ValueNumber,
    scale: i8,
    /// Whether it is a text that may be longer than 12 bytes.
    is_long: bool,
}

struct Lowerer {
    builder: PipelineBuilder,
    scan: Arc<ScanExec>,
    /// Columns of the scan that are read.
    inputs: Vec<usize>,
    parameters: Vec<(Datum, ValueNumber)>,
    /// See [`Lowered::clustered`].
    clustered: Option<(usize, usize)>,
}

/// The scan that an operator reads through filters and projections.
fn scan_below(operator: &Arc<dyn ExecutionPlan>) -> Lowering<&ScanExec> {
    if let Some(scan) = operator.downcast_ref::<ScanExec>() {
        return Ok(scan);
    }
    if let Some(filter) = operator.downcast_ref::<FilterExec>() {
        return scan_below(filter.input());
    }
    if let Some(projection) = operator.downcast_ref::<ProjectionExec>() {
        return scan_below(projection.input());
    }
    // A join has one that looks at the time above it.
    let below = match operator.children()[..] {
        [input] if operator.is::<Paced>() => input,
        _ => operator,
    };
    Err(Reason(format!("{} below", below.name())))
}

/// Whether a value is usually followed by its like, in a block in the middle of the table: then few groups are open at a time, however many there
/// are.
fn is_clustered(scan: &ScanExec, column: usize) -> bool {
    let Ok(sample) = scan.sample(SAMPLE_ROWS) else { return false };
    let values = sample.column(column);
    let Some(pairs) = values.len().checked_sub(1) else { return false };
    let changes = distinct(&values.slice(0, pairs), &values.slice(1, pairs));
    changes.is_ok_and(|changes| pairs > 0 && changes.true_count() * 2 <= pairs)
}

impl Lowerer {
    fn over(input: &Arc<dyn ExecutionPlan>) -> Lowering<Lowerer> {
        let scan = scan_below(input)?;
        let columns = 0..scan.schema().fields().len();
        let narrow: Vec<usize> = columns.filter(|&column| scan.is_narrowable(column)).collect();
        let scan = Arc::new(scan.narrowed(&narrow));
        Ok(Lowerer {
            builder: PipelineBuilder::default(),
            scan,
            inputs: Vec::new(),
            parameters: Vec::new(),
            clustered: None,
        })
    }

    /// Goes up from the scan: filters become steps on the way.
    fn level(&mut self, operator: &Arc<dyn ExecutionPlan>) -> Lowering<LoweredRows> {
        if let Some(filter) = operator.downcast_ref::<FilterExec>() {
            if filter.fetch().is_some() {
                return Err(Reason::new("LIMIT"));
            }
            let below = self.level(filter.input())?;
            let schema = filter.input().schema();
            let mut terms = Vec::new();
            conjuncts(filter.predicate(), &mut terms);
            self.keep(terms, &schema, &below)?;
            return Ok(match filter.projection() {
                Some(columns) => LoweredRows::Chosen(columns.to_vec(), Box::new(below)),
                None => below,
            });
        }
        if let Some(projection) = operator.downcast_ref::<ProjectionExec>() {
            let below = self.level(projection.input())?;
            let expressions = projection.expr().iter().map(|column| column.expr.clone()).collect();
            return Ok(LoweredRows::Computed(expressions, projection.input().schema(), Box::new(below)));
        }
        Ok(LoweredRows::Scan)
    }

    /// Conditions: what cannot fail is computed for every row and decided on together, first of all what bitmaps can decide; the rest one
    /// after the other.
    fn keep(
        &mut self,
        terms: Vec<Arc<dyn PhysicalExpr>>,
        schema: &SchemaRef,
        below: &LoweredRows,
    ) -> Lowering<()> {
        let (simple, others): (Vec<_>, Vec<_>) = terms.into_iter().partition(is_simple);
        let (mut quick, mut slow): (Option<ValueNumber>, Option<ValueNumber>) = (None, None);
        for term in simple {
            let value = self.expression(&term, schema, below)?.operand;
            let all = if self.builder.has_bitmap(value) { &mut quick } else { &mut slow };
            *all = Some(match *all {
                Some(before) => self.builder.compute(Instruction::And(before, value))?,
                None => value,
            });
        }
        for all in [quick, slow].into_iter().flatten() {
            self.builder.keep(all)?;
        }
        for term in others {
            let value = self.expression(&term, schema, below)?.operand;
            self.builder.keep(value)?;
        }
        Ok(())
    }

    /// A key, and how many different values of it are expected.
    fn key(&mut self, number: usize, key: &Arc<dyn PhysicalExpr>, level: &LoweredRows) -> Lowering<usize> {
        let column = key.downcast_ref::<Column>().and_then(|column| source(column.index(), level));
        let Some(column) = column else { return Err(Reason::new("groups by a computed value")) };
        let value = self.scanned(column)?;
        if value.is_long {
            return Err(Reason::new("groups by texts of more than 12 bytes"));
        }
        self.builder.key(value.operand)?;
        match (self.builder.kind(value.operand), self.scan.distinct(column)) {
            (ValueKind::Bool, _) => Ok(3),
            (_, Some(count)) if count > GROUPS_MAX && is_clustered(&self.scan, column) => {
                self.clustered.get_or_insert((number, column));
                Ok(GROUPS_MAX)
            }
            (_, Some(count)) => Ok(count.max(1)),
            (ValueKind::Text { words: 1 }, None) => Ok(LETTERS),
            (_, None) => Err(Reason::new("an unknown number of groups")),
        }
    }

    fn aggregate(
        &mut self,
        function: &Arc<AggregateFunctionExpr>,
        level: &LoweredRows,
        states: &mut Vec<StatePart>,
    ) -> Lowering<()> {
        let name = function.fun().name();
        if function.is_distinct() || !function.order_bys().is_empty() {
            return Err(Reason(format!("{name} of different or sorted values")));
        }
        let arguments = function.expressions();
        let [argument] = arguments.as_slice() else {
            return Err(Reason(format!("{name} of several values")));
        };
        if name == "count" && argument.downcast_ref::<Literal>().is_some_and(|known| !known.value().is_null())
        {
            states.push(StatePart::Count(self.builder.aggregate(PipelineAggregate::Rows)?));
            return Ok(());
        }
        let is_exact = reads_narrow(function.fun());
        if !is_exact && !matches!(name, "count" | "min" | "max") {
            return Err(Reason(format!("the aggregate {name}")));
        }
        let value = self.at_level(argument, level)?;
        let kind = self.builder.kind(value.operand);
        let is_number = matches!(kind, ValueKind::Int32 | ValueKind::Int64 | ValueKind::Decimal { .. });
        match name {
            "count" => {
                states
                    .push(StatePart::Count(self.builder.aggregate(PipelineAggregate::Count(value.operand))?));
            }
            "min" | "max" if is_number || kind == ValueKind::Date => {
                let extreme = if name == "min" {
                    PipelineAggregate::Min(value.operand)
                } else {
                    PipelineAggregate::Max(value.operand)
                };
                states.push(StatePart::Extreme(self.builder.aggregate(extreme)?));
            }
            _ if is_exact && is_number => {
                let sum = self.builder.aggregate(PipelineAggregate::Sum(value.operand))?;
                let count = self.builder.aggregate(PipelineAggregate::Count(value.operand))?;
                states.extend([StatePart::Sum { sum, count }, StatePart::Count(count)]);
            }
            _ => return Err(Reason(format!("{name} of {kind}"))),
        }
        Ok(())
    }

    /// An expression over the rows of a level.
    fn at_level(
        &mut self,
        expression: &Arc<dyn PhysicalExpr>,
        level: &LoweredRows,
    ) -> Lowering<TypedOperand> {
        let schema = self.schema_of(level)?;
        self.expression(expression, &schema, level)
    }

    fn schema_of(&self, level: &LoweredRows) -> Lowering<SchemaRef> {
        let computed = |expressions: &[Arc<dyn PhysicalExpr>], schema: &SchemaRef| {
            let fields: Result<Vec<_>, _> =
                expressions.iter().map(|expression| expression.return_field(schema)).collect();
            fields.map(|fields| Arc::new(datafusion::arrow::datatypes::Schema::new(fields)))
        };
        match level {
            LoweredRows::Scan => Ok(self.scan.wide_schema()),
            LoweredRows::Chosen(columns, below) => {
                let schema = self.schema_of(below)?;
                schema.project(columns).map(Arc::new).map_err(|error| Reason(error.to_string()))
            }
            LoweredRows::Computed(expressions, schema, _) => {
                computed(expressions, schema).map_err(|error| Reason(error.to_string()))
            }
        }
    }

    fn column(&mut self, column: usize, level: &LoweredRows) -> Lowering<TypedOperand> {
        match level {
            LoweredRows::Scan => self.scanned(column),
            LoweredRows::Chosen(columns, below) => self.column(columns[column], below),
            LoweredRows::Computed(expressions, schema, below) => {
                let (expression, schema) = (expressions[column].clone(), schema.clone());
                self.expression(&expression, &schema, below)
            }
        }
    }

    /// A column of the scan.
    fn scanned(&mut self, column: usize) -> Lowering<TypedOperand> {
        let schema = self.scan.schema();
        let field = schema.field(column);
        let of = |kind| (InputColumn::of(kind), 0, false);
        let (input, scale, is_long) = match field.data_type() {
            DataType::Boolean => of(ValueKind::Bool),
            DataType::Int32 => of(ValueKind::Int32),
            DataType::Int64 => of(ValueKind::Int64),
            DataType::Date32 => of(ValueKind::Date),
            DataType::Decimal32(precision, scale) => {
                (InputColumn::decimal(bits(*precision), 4), *scale, false)
            }
            DataType::Decimal64(precision, scale) => {
                (InputColumn::decimal(bits(*precision), 8), *scale, false)
            }
            DataType::Decimal128(precision, scale) => {
                (InputColumn::decimal(bits(*precision), 16), *scale, false)
            }
            DataType::Utf8View => {
                let (words, is_long) = self.scan.text_words(column);
                (InputColumn::of(ValueKind::Text { words }), 0, is_long)
            }
            other => return Err(Reason(format!("a column of {other}"))),
        };
        let position = match self.inputs.iter().position(|known| *known == column) {
            Some(known) => known as u16,
            None => {
                self.inputs.push(column);
                self.builder.input(input)?
            }
        };
        let operand = self.builder.compute(Instruction::Column(position))?;
        Ok(TypedOperand { operand, scale, is_long })
    }

    fn literal(&mut self, value: &ScalarValue) -> Lowering<TypedOperand> {
        let whole = |kind, number: i128| (kind, Datum::Number(number), 0);
        let (kind, datum, scale) = match value {
            ScalarValue::Boolean(Some(value)) => (ValueKind::Bool, Datum::Bool(*value), 0),
            ScalarValue::Int32(Some(value)) => whole(ValueKind::Int32, (*value).into()),
            ScalarValue::Int64(Some(value)) => whole(ValueKind::Int64, (*value).into()),
            ScalarValue::Date32(Some(value)) => whole(ValueKind::Date, (*value).into()),
            ScalarValue::Decimal128(Some(value), precision, scale) => {
                let bits = bits(*precision);
                let fits = bits == BITS_MAX || value.unsigned_abs() < 1 << bits;
                let kind = ValueKind::Decimal { bits: if fits { bits } else { BITS_MAX } };
                (kind, Datum::Number(*value), *scale)
            }
            ScalarValue::Utf8View(Some(text)) | ScalarValue::Utf8(Some(text)) => {
                let datum =
                    Datum::text(text).ok_or_else(|| Reason::new("a text constant of more than 12 bytes"))?;
                (ValueKind::Text { words: if text.len() <= 4 { 1 } else { 2 } }, datum, 0)
            }
            other => return Err(Reason(format!("a constant of {}", other.data_type()))),
        };
        let known = self
            .parameters
            .iter()
            .find(|(known, operand)| *known == datum && self.builder.kind(*operand) == kind);
        let operand = match known {
            Some((_, operand)) => *operand,
            None => {
                let operand = self.builder.parameter(kind)?;
                self.parameters.push((datum, operand));
                operand
            }
        };
        Ok(TypedOperand { operand, scale, is_long: false })
    }

    fn expression(
        &mut self,
        expression: &Arc<dyn PhysicalExpr>,
        schema: &SchemaRef,
        level: &LoweredRows,
    ) -> Lowering<TypedOperand> {
        let expression = revealed(expression);
        if let Some(column) = expression.downcast_ref::<Column>() {
            return self.column(column.index(), level);
        }
        if let Some(literal) = expression.downcast_ref::<Literal>() {
            return self.literal(literal.value());
        }
        if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
            let (left, right) = (
                self.expression(binary.left(), schema, level)?,
                self.expression(binary.right(), schema, level)?,
            );
            return self.binary(*binary.op(), left, right);
        }
        if let Some(not) = expression.downcast_ref::<NotExpr>() {
            let operand = self.expression(not.arg(), schema, level)?.operand;
            return self.truth(Instruction::Not(operand));
        }
        if let Some(is_null) = expression.downcast_ref::<IsNullExpr>() {
            let operand = self.expression(is_null.arg(), schema, level)?.operand;
            return self.truth(Instruction::IsNull(operand));
        }
        if let Some(is_not_null) = expression.downcast_ref::<IsNotNullExpr>() {
            let operand = self.expression(is_not_null.arg(), schema, level)?.operand;
            let is_null = self.builder.compute(Instruction::IsNull(operand))?;
            return self.truth(Instruction::Not(is_null));
        }
        if let Some(cast) = expression.downcast_ref::<CastExpr>() {
            let from = cast.expr().data_type(schema).map_err(|error| Reason(error.to_string()))?;
            let operand = self.expression(cast.expr(), schema, level)?;
            return self.cast(operand, &from, cast.cast_type());
        }
        if let Some(list) = expression.downcast_ref::<InListExpr>() {
            return self.in_list(list, schema, level);
        }
        if let Some(call) = expression.downcast_ref::<ScalarFunctionExpr>() {
            let [left, right] = call.args() else {
                return Err(Reason(format!("the function {}", call.name())));
            };
            let operation = checked::operation(call.fun())
                .ok_or_else(|| Reason(format!("the function {}", call.name())))?;
            let (left, right) =
                (self.expression(left, schema, level)?, self.expression(right, schema, level)?);
            return self.checked(operation, left, right);
        }
        Err(Reason(format!("the expression {expression}")))
    }

    fn truth(&mut self, operation: Instruction) -> Lowering<TypedOperand> {
        Ok(TypedOperand { operand: self.builder.compute(operation)?, scale: 0, is_long: false })
    }

    fn binary(
        &mut self,
        operator: Operator,
        left: TypedOperand,
        right: TypedOperand,
    ) -> Lowering<TypedOperand> {
        let relation = match operator {
            Operator::And => return self.truth(Instruction::And(left.operand, right.operand)),
            Operator::Or => return self.truth(Instruction::Or(left.operand, right.operand)),
            Operator::Eq => ComparedBy::Equal,
            Operator::NotEq => ComparedBy::Unequal,
            Operator::Lt => ComparedBy::Less,
            Operator::LtEq => ComparedBy::LessOrEqual,
            Operator::Gt => ComparedBy::Greater,
            Operator::GtEq => ComparedBy::GreaterOrEqual,
            Operator::Plus | Operator::Minus | Operator::Multiply => {
                return self.decimals(operator, left, right);
            }
            other => return Err(Reason(format!("the operator {other}"))),
        };
        self.compare(relation, left, right)
    }

    fn compare(
        &mut self,
        relation: ComparedBy,
        left: TypedOperand,
        right: TypedOperand,
    ) -> Lowering<TypedOperand> {
        if left.is_long && right.is_long {
            return Err(Reason::new("texts of more than 12 bytes compared with each other"));
        }
        if left.scale != right.scale {
            return Err(Reason::new("numerics of different scales compared"));
        }
        self.truth(Instruction::Compare(relation, left.operand, right.operand))
    }

    /// An operator of numerics; others have functions of their own.
    fn decimals(
        &mut self,
        operator: Operator,
        left: TypedOperand,
        right: TypedOperand,
    ) -> Lowering<TypedOperand> {
        let is_decimal =
            |value: TypedOperand| matches!(self.builder.kind(value.operand), ValueKind::Decimal { .. });
        if !is_decimal(left) || !is_decimal(right) {
            return Err(Reason(format!("the operator {operator} of other types than numerics")));
        }
        if operator == Operator::Multiply {
            let operand = self.builder.compute(Instruction::Multiply(left.operand, right.operand))?;
            return Ok(TypedOperand { operand, scale: left.scale + right.scale, is_long: false });
        }
        let scale = left.scale.max(right.scale);
        let (left, right) = (self.scaled(left, scale)?, self.scaled(right, scale)?);
        let operand = self.builder.compute(match operator {
            Operator::Plus => Instruction::Add(left, right),
            _ => Instruction::Subtract(left, right),
        })?;
        Ok(TypedOperand { operand, scale, is_long: false })
    }

    fn scaled(&mut self, value: TypedOperand, scale: i8) -> Lowering<ValueNumber> {
        match u8::try_from(scale - value.scale) {
            Ok(0) => Ok(value.operand),
            Ok(digits) => Ok(self.builder.compute(Instruction::Scale(value.operand, digits))?),
            Err(_) => Err(Reason::new("a numeric with fewer digits")),
        }
    }

    fn cast(&mut self, value: TypedOperand, from: &DataType, to: &DataType) -> Lowering<TypedOperand> {
        let refused = || Err(Reason(format!("a cast of {from} to {to}")));
        match (from, to) {
            (from, to) if from == to => Ok(value),
            (DataType::Int32, DataType::Int64) => Ok(TypedOperand {
                operand: self.builder.compute(Instruction::Widen(value.operand))?,
                ..value
            }),
            (DataType::Int32 | DataType::Int64, DataType::Decimal128(precision, scale)) => {
                let digits = if *from == DataType::Int32 { 10 } else { 19 };
                if i16::from(*precision) - i16::from(*scale) < digits {
                    return refused();
                }
                let operand = self.builder.compute(Instruction::Decimal(value.operand))?;
                let operand = self.scaled(TypedOperand { operand, ..value }, *scale)?;
                Ok(TypedOperand { operand, scale: *scale, is_long: false })
            }
            (DataType::Decimal128(from_digits, from_scale), DataType::Decimal128(to_digits, scale)) => {
                let whole = |digits: u8, scale: i8| i16::from(digits) - i16::from(scale);
                if scale < from_scale || whole(*to_digits, *scale) < whole(*from_digits, *from_scale) {
                    return refused();
                }
                Ok(TypedOperand { operand: self.scaled(value, *scale)?, scale: *scale, is_long: false })
            }
            _ => refused(),
        }
    }

    fn in_list(
        &mut self,
        list: &InListExpr,
        schema: &SchemaRef,
        level: &LoweredRows,
    ) -> Lowering<TypedOperand> {
        let value = self.expression(list.expr(), schema, level)?;
        let mut any: Option<TypedOperand> = None;
        for item in list.list() {
            let item = self.expression(item, schema, level)?;
            let equal = self.compare(ComparedBy::Equal, value, item)?;
            any = Some(match any {
                Some(before) => self.truth(Instruction::Or(before.operand, equal.operand))?,
                None => equal,
            });
        }
        let any = any.ok_or_else(|| Reason::new("an empty list"))?;
        if list.negated() { self.truth(Instruction::Not(any.operand)) } else { Ok(any) }
    }

    fn checked(
        &mut self,
        operation: Arithmetic,
        left: TypedOperand,
        right: TypedOperand,
    ) -> Lowering<TypedOperand> {
        let (left, right) = (left.operand, right.operand);
        self.truth(match operation {
            Arithmetic::Add => Instruction::Add(left, right),
            Arithmetic::Subtract => Instruction::Subtract(left, right),
            Arithmetic::Multiply => Instruction::Multiply(left, right),
            Arithmetic::Divide => Instruction::Divide(left, right),
            Arithmetic::Modulo => return Err(Reason::new("a remainder")),
        })
    }
}

/// The column of the scan that a column of a level is, if it is one.
fn source(column: usize, level: &LoweredRows) -> Option<usize> {
    match level {
        LoweredRows::Scan => Some(column),
        LoweredRows::Chosen(columns, below) => source(*columns.get(column)?, below),
        LoweredRows::Computed(expressions, _, below) => {
            source(expressions.get(column)?.downcast_ref::<Column>()?.index(), below)
        }
    }
}

/// Bits of the largest number of so many digits.
fn bits(precision: u8) -> u8 {
    10u128.pow(precision.min(38).into()).ilog2() as u8 + 1
}

fn conjuncts(predicate: &Arc<dyn PhysicalExpr>, terms: &mut Vec<Arc<dyn PhysicalExpr>>) {
    match predicate.downcast_ref::<BinaryExpr>() {
        Some(both) if *both.op() == Operator::And => {
            conjuncts(both.left(), terms);
            conjuncts(both.right(), terms);
        }
        _ => terms.push(predicate.clone()),
    }
}

/// Whether it only compares columns and constants.
fn is_simple(term: &Arc<dyn PhysicalExpr>) -> bool {
    let term = revealed(term);
    if term.is::<Column>() || term.is::<Literal>() {
        return true;
    }
    let is_plain = match term.downcast_ref::<BinaryExpr>() {
        Some(binary) => !matches!(binary.op(), Operator::Plus | Operator::Minus | Operator::Multiply),
        None => {
            let is_cast = term
                .downcast_ref::<CastExpr>()
                .is_some_and(|cast| matches!(cast.cast_type(), DataType::Int64 | DataType::Decimal128(..)));
            is_cast
                || term.is::<NotExpr>()
                || term.is::<IsNullExpr>()
                || term.is::<IsNotNullExpr>()
                || term.is::<InListExpr>()
        }
    };
    is_plain && term.children().into_iter().all(is_simple)
}
