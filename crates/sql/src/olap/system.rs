//! Relations and functions of the system catalog as DataFusion's tables and functions.
//!
//! Rows are made when a query runs, all at once: there are as many as definitions. They come from the description that the
//! statement was planned with, so that all relations of a query agree.

use super::arrow::{UTC, computed_type, wide_type};
use super::computed::InZone;
use super::error::external;
use super::value::{list_type, told_type, with_type};
use crate::columns::Cells;
use crate::system::{
    Datum, SystemCatalog, SystemColumn, SystemFunction, SystemRelation, sequence_columns, sequence_row,
};
use ankerdb_engine::{
    DataType, Error, ListType, ObjectKind, Sequence, SqlState, SystemType, Value, ValueRef,
};
use async_trait::async_trait;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    IntervalMonthDayNanoArray, ListBuilder, PrimitiveBuilder, RecordBatch, StringViewArray,
    StringViewBuilder, TimestampMicrosecondArray, new_null_array,
};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Field, FieldRef, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNano, Schema, SchemaRef,
};
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Column, ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TableType, Volatility,
};
use datafusion::physical_plan::ExecutionPlan;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

/// What makes rows of no table.
#[derive(Clone)]
enum Made {
    /// A relation as one catalog has it.
    Relation(&'static SystemRelation, Arc<SystemCatalog>),
    /// A sequence, which is a relation of one row.
    Sequence(Arc<Sequence>),
}

impl Made {
    fn columns(&self) -> &'static [SystemColumn] {
        match self {
            Made::Relation(relation, _) => relation.columns(),
            Made::Sequence(_) => sequence_columns(),
        }
    }

    fn rows(&self) -> Vec<Vec<Datum>> {
        match self {
            Made::Relation(relation, catalog) => relation.rows(catalog),
            Made::Sequence(sequence) => vec![sequence_row(sequence)],
        }
    }
}

/// A relation whose rows are made when they are read.
pub(super) struct SystemTable {
    made: Made,
    schema: SchemaRef,
}

impl SystemTable {
    /// A relation of the catalog, for binding: its fields tell which types they have.
    pub(super) fn new(relation: &'static SystemRelation, catalog: Arc<SystemCatalog>) -> SystemTable {
        SystemTable::with_types(Made::Relation(relation, catalog))
    }

    /// A sequence, for binding.
    pub(super) fn of_sequence(sequence: Arc<Sequence>) -> SystemTable {
        SystemTable::with_types(Made::Sequence(sequence))
    }

    fn with_types(made: Made) -> SystemTable {
        let told = |column: &SystemColumn| with_type(field(column), column.data_type);
        let schema = Arc::new(Schema::new(made.columns().iter().map(told).collect::<Vec<_>>()));
        SystemTable { made, schema }
    }

    /// For plans that are bound.
    pub(super) fn without_text_types(&self) -> SystemTable {
        let made = self.made.clone();
        let schema = Arc::new(Schema::new(made.columns().iter().map(field).collect::<Vec<_>>()));
        SystemTable { made, schema }
    }

    /// Whether its rows are what the session shows to itself.
    pub(super) fn shows_session(&self) -> bool {
        matches!(self.made, Made::Relation(relation, _) if relation.is_of_session())
    }

    fn batches(&self) -> Result<Vec<RecordBatch>> {
        self.made.rows().chunks(BATCH_ROWS).map(|rows| self.batch(rows)).collect()
    }

    fn batch(&self, rows: &[Vec<Datum>]) -> Result<RecordBatch> {
        let columns = self.made.columns().iter().enumerate();
        let arrays = columns.map(|(position, column)| {
            let values: Vec<&Datum> =
                rows.iter().map(|row| row.get(position).unwrap_or(&Datum::Null)).collect();
            array(&values, column.data_type)
        });
        Ok(RecordBatch::try_new(self.schema.clone(), arrays.collect())?)
    }
}

fn field(column: &SystemColumn) -> Field {
    Field::new(column.name, computed_type(column.data_type), true)
}

impl fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.made {
            Made::Relation(relation, _) => relation.name(),
            Made::Sequence(sequence) => &sequence.definition().name,
        };
        write!(f, "SystemTable({name})")
    }
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(MemorySourceConfig::try_new_exec(&[self.batches()?], self.schema(), projection.cloned())?)
    }
}

/// Values as an array. NULL where a value is not of the type.
fn array(values: &[&Datum], data_type: DataType) -> ArrayRef {
    let integer = |value: &&Datum| match value {
        Datum::Integer(value) => Some(*value),
        _ => None,
    };
    let float = |value: &&Datum| match value {
        Datum::Float(value) => Some(*value),
        _ => None,
    };
    let text = |value: &&Datum| match value {
        Datum::Text(text) => Some(text.clone()),
        _ => None,
    };
    let values = values.iter();
    match computed_type(data_type) {
        ArrowType::Boolean => Arc::new(BooleanArray::from_iter(values.map(|value| match value {
            Datum::Boolean(value) => Some(*value),
            _ => None,
        }))),
        ArrowType::Int16 => {
            Arc::new(Int16Array::from_iter(values.map(|value| integer(value)?.try_into().ok())))
        }
        ArrowType::Int32 => {
            Arc::new(Int32Array::from_iter(values.map(|value| integer(value)?.try_into().ok())))
        }
        ArrowType::Int64 => Arc::new(Int64Array::from_iter(values.map(integer))),
        ArrowType::Float32 => {
            Arc::new(Float32Array::from_iter(values.map(|value| float(value).map(|value| value as f32))))
        }
        ArrowType::Float64 => Arc::new(Float64Array::from_iter(values.map(float))),
        ArrowType::Utf8View => Arc::new(StringViewArray::from_iter(values.map(text))),
        ArrowType::Timestamp(..) => {
            let moments = TimestampMicrosecondArray::from_iter(values.map(|value| match value {
                Datum::Moment(moment) => Some(*moment),
                _ => None,
            }));
            Arc::new(moments.with_timezone(UTC))
        }
        ArrowType::Interval(_) => {
            Arc::new(IntervalMonthDayNanoArray::from_iter(values.map(|value| match value {
                Datum::Span(length) => Some(IntervalMonthDayNano::new(0, 0, length.checked_mul(1000)?)),
                _ => None,
            })))
        }
        ArrowType::List(element) => match element.data_type() {
            ArrowType::Int16 => integers::<Int16Type>(values, |value| value.try_into().ok()),
            ArrowType::Int32 => integers::<Int32Type>(values, |value| value.try_into().ok()),
            ArrowType::Int64 => integers::<Int64Type>(values, Some),
            ArrowType::Utf8View => texts(values),
            _ => new_null_array(&ArrowType::List(element), values.len()),
        },
        other => new_null_array(&other, values.len()),
    }
}

fn integers<'a, T: ArrowPrimitiveType>(
    values: impl Iterator<Item = &'a &'a Datum>,
    convert: impl Fn(i64) -> Option<T::Native>,
) -> ArrayRef {
    let mut lists = ListBuilder::new(PrimitiveBuilder::<T>::new());
    for value in values {
        match value {
            Datum::Integers(items) => lists.append_value(items.iter().map(|item| convert(*item))),
            _ => lists.append_null(),
        }
    }
    Arc::new(lists.finish())
}

fn texts<'a>(values: impl Iterator<Item = &'a &'a Datum>) -> ArrayRef {
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for value in values {
        match value {
            Datum::Texts(items) => lists.append_value(items.iter().map(Some)),
            _ => lists.append_null(),
        }
    }
    Arc::new(lists.finish())
}

/// The function over that catalog.
pub(super) fn function(function: &'static SystemFunction, catalog: Arc<SystemCatalog>) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(CatalogFunction::new(function, catalog, true)))
}

/// The function that reads names of such objects, and the one that gives them.
pub(super) fn input_function(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Class => "regclassin",
        ObjectKind::Type => "regtypein",
        ObjectKind::Function => "regprocin",
        ObjectKind::Namespace => "regnamespacein",
        ObjectKind::Role => "regrolein",
    }
}

pub(super) fn output_function(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Class => "regclassout",
        ObjectKind::Type => "regtypeout",
        ObjectKind::Function => "regprocout",
        ObjectKind::Namespace => "regnamespaceout",
        ObjectKind::Role => "regroleout",
    }
}

/// The plan with what clients see of its columns: names of objects in place of their numbers, lists as texts.
pub(super) fn shown(
    plan: LogicalPlan,
    functions: &dyn Fn(&str) -> Option<Arc<ScalarUDF>>,
) -> Result<LogicalPlan> {
    let mut is_changed = false;
    let columns = plan.schema().iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        let shown = match (field.data_type(), told_type(field)) {
            (ArrowType::List(element), told) => match list_type(element.data_type(), told) {
                Some(list) => ShownList::call(list, column),
                None => return Ok(column),
            },
            (_, Some(told @ DataType::System(SystemType::Object(kind)))) => {
                let Some(function) = functions(output_function(kind)) else {
                    return internal_err!("there is no function that shows {told}");
                };
                let name = Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![column]));
                let field = with_type(Field::new("", ArrowType::Utf8View, true), told);
                Expr::Cast(Cast::new_from_field(Box::new(name), Arc::new(field)))
            }
            _ => return Ok(column),
        };
        is_changed = true;
        Ok(shown.alias_qualified(qualifier.cloned(), field.name().clone()))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    match is_changed {
        true => LogicalPlanBuilder::from(plan).project(columns)?.build(),
        false => Ok(plan),
    }
}

/// A list as the text that it is cast to.
pub(super) fn list_text(list: ListType, argument: Expr) -> Expr {
    let function = Arc::new(ScalarUDF::new_from_impl(ShownList::new(list, false)));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![argument]))
}

/// Lists as the texts that clients see.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ShownList {
    list: ListType,
    is_told: bool,
    zone: InZone,
    signature: Signature,
}

impl ShownList {
    fn new(list: ListType, is_told: bool) -> ShownList {
        let zone = InZone::current();
        ShownList { list, is_told, zone, signature: Signature::any(1, Volatility::Immutable) }
    }

    fn call(list: ListType, argument: Expr) -> Expr {
        let function = Arc::new(ScalarUDF::new_from_impl(ShownList::new(list, true)));
        Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![argument]))
    }
}

impl ScalarUDFImpl for ShownList {
    fn name(&self) -> &str {
        "array_out"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(ArrowType::Utf8View)
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(self.name(), ArrowType::Utf8View, true);
        let told = DataType::System(SystemType::List(self.list));
        Ok(Arc::new(if self.is_told { with_type(field, told) } else { field }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let lists = args.args[0].to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(self.zone.within(|| list_texts(self.list, &lists))?))
    }
}

/// The texts of arrays, such as `{1,2}`.
pub(super) fn list_texts(list: ListType, lists: &ArrayRef) -> Result<ArrayRef> {
    let text = |items: ArrayRef| -> Result<String> {
        if items.as_list_opt::<i32>().is_some() {
            let inner = list_texts(list, &items)?;
            let inner: Vec<&str> = inner.as_string_view().iter().map(|text| text.unwrap_or("NULL")).collect();
            return Ok(format!("{{{}}}", inner.join(",")));
        }
        let cells = Cells::new(&items).map_err(external)?;
        let items: Vec<ValueRef<'_>> = (0..items.len()).map(|item| cells.value(item)).collect();
        Ok(crate::system::shown_list(list, &items))
    };
    let lists = lists.as_list::<i32>();
    let texts = lists.iter().map(|list| list.map(text).transpose()).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(StringViewArray::from_iter(texts)))
}

/// This call with a field that does not tell its type; `None` if the field does not anyway.
pub(super) fn without_text_type(call: &ScalarFunction) -> Option<ScalarFunction> {
    if let Some(shown) = call.func.inner().downcast_ref::<ShownList>().filter(|shown| shown.is_told) {
        let plain = ShownList { zone: shown.zone, ..ShownList::new(shown.list, false) };
        let plain = Arc::new(ScalarUDF::new_from_impl(plain));
        return Some(ScalarFunction::new_udf(plain, call.args.clone()));
    }
    let known = call.func.inner().downcast_ref::<CatalogFunction>()?;
    let plain = || CatalogFunction::new(known.function, known.catalog.clone(), false);
    known
        .is_told
        .then(|| ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(plain())), call.args.clone()))
}

#[derive(Debug)]
struct CatalogFunction {
    function: &'static SystemFunction,
    catalog: Arc<SystemCatalog>,
    /// Whether the field of the result tells its type.
    is_told: bool,
    signature: Signature,
}

impl PartialEq for CatalogFunction {
    fn eq(&self, other: &CatalogFunction) -> bool {
        self.function.name == other.function.name
            && self.is_told == other.is_told
            && Arc::ptr_eq(&self.catalog, &other.catalog)
    }
}

impl Eq for CatalogFunction {}

impl Hash for CatalogFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}

impl CatalogFunction {
    fn new(function: &'static SystemFunction, catalog: Arc<SystemCatalog>, is_told: bool) -> CatalogFunction {
        let volatility = match function {
            SystemFunction { is_volatile: true, .. } => Volatility::Volatile,
            SystemFunction { is_constant: true, .. } => Volatility::Immutable,
            _ => Volatility::Stable,
        };
        CatalogFunction { function, catalog, is_told, signature: Signature::user_defined(volatility) }
    }

    fn compute(&self, arguments: &[Value]) -> ankerdb_engine::Result<Datum> {
        match !self.function.takes_null && arguments.contains(&Value::Null) {
            true => Ok(Datum::Null),
            false => (self.function.compute)(&self.catalog, arguments),
        }
    }
}

impl ScalarUDFImpl for CatalogFunction {
    fn name(&self) -> &str {
        self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[ArrowType]) -> Result<Vec<ArrowType>> {
        let declared = self.function.arguments;
        if !(self.function.required..=declared.len()).contains(&arguments.len()) {
            let message = format!("function {}({} arguments) does not exist", self.name(), arguments.len());
            return Err(external(Error::new(SqlState::UndefinedFunction, message)));
        }
        let is_text =
            |arrow: &ArrowType| matches!(arrow, ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View);
        let wanted = |(given, declared): (&ArrowType, &DataType)| match declared {
            // A name is looked up where the function runs.
            DataType::System(SystemType::Object(_)) if is_text(given) => ArrowType::Utf8View,
            // The columns of a line, where others say whether to be pretty.
            DataType::Boolean if self.name() == "pg_get_viewdef" && given.is_integer() => ArrowType::Int64,
            other => wide_type(*other),
        };
        Ok(arguments.iter().zip(declared).map(wanted).collect())
    }

    fn return_type(&self, _arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(computed_type(self.function.result))
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(self.name(), computed_type(self.function.result), true);
        Ok(Arc::new(if self.is_told { with_type(field, self.function.result) } else { field }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let cells = args.args.iter().map(|argument| Cells::new(&argument.to_array(rows)?).map_err(external));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        let mut results = Vec::with_capacity(rows);
        for row in 0..rows {
            let arguments: Vec<Value> = cells.iter().map(|column| column.value(row).to_value()).collect();
            results.push(self.compute(&arguments).map_err(external)?);
        }
        let results = array(&results.iter().collect::<Vec<_>>(), self.function.result);
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&results, 0)?),
            false => ColumnarValue::Array(results),
        })
    }
}
