//! Functions of lists that DataFusion does not have, or has with other rules than PostgreSQL's.

use super::spelling::OR_EMPTY;
use super::value::told_type;
use ankerdb_engine::{DataType as SqlType, ListType, SystemType};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    cast as cast_to, lit,
};
use std::sync::Arc;

/// The names of the functions that give the positions of the first and the last item.
const LOWER: &str = "array_lower";
const UPPER: &str = "array_upper";

/// All functions to be registered.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = Signature::user_defined(Volatility::Immutable);
    let asked = [Asked::Lower, Asked::Upper, Asked::Length, Asked::Count];
    let dimensions = asked.into_iter().map(|asked| Dimension::function(asked, 1));
    let or_empty = Arc::new(ScalarUDF::new_from_impl(OrEmpty { signature }));
    dimensions.chain([or_empty]).collect()
}

/// The call, when it is known whether the list counts from 0, as vectors do.
pub(super) fn settled(
    function: Arc<ScalarUDF>,
    list: Option<&Field>,
    arguments: &mut [Expr],
) -> Arc<ScalarUDF> {
    let told = list.and_then(told_type);
    let is_vector = matches!(
        told,
        Some(SqlType::System(SystemType::List(ListType::SmallIntVector | ListType::OidVector)))
    );
    match function.name() {
        UPPER if is_vector => return Dimension::function(Asked::Upper, 0),
        LOWER if is_vector => return Dimension::function(Asked::Lower, 0),
        "array_element" => {
            if let [_, position] = arguments {
                if is_vector {
                    *position = cast_to(position.clone(), DataType::Int64) + lit(1i64);
                }
                *position = at_least_one(position.clone(), lit(ScalarValue::Int64(None)));
            }
        }
        "array_slice" => {
            if let [_, first, last, ..] = arguments {
                *first = at_least_one(first.clone(), lit(1i64));
                *last = at_least_one(last.clone(), lit(0i64));
            }
        }
        _ => {}
    }
    function
}

/// A position, or another one where it is before the first item: for DataFusion, those count from the end.
fn at_least_one(position: Expr, otherwise: Expr) -> Expr {
    match &position {
        Expr::Literal(ScalarValue::Int64(Some(1..)), _) => position,
        _ => {
            let position = cast_to(position, DataType::Int64);
            let before = Box::new(position.clone().lt(lit(1i64)));
            Expr::Case(Case::new(None, vec![(before, Box::new(otherwise))], Some(Box::new(position))))
        }
    }
}

/// What is asked of a list's dimension: NULL without items, and for dimensions that it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked {
    Lower,
    Upper,
    Length,
    /// How many there are.
    Count,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Dimension {
    asked: Asked,
    /// The position of the first item.
    first: i32,
    signature: Signature,
}

impl Dimension {
    fn function(asked: Asked, first: i32) -> Arc<ScalarUDF> {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Dimension { asked, first, signature }))
    }

    fn of(&self, lists: &ArrayRef, row: usize, dimension: i64) -> Option<i32> {
        let (count, length) = dimensions(lists, row, (self.asked != Asked::Count).then_some(dimension))?;
        Some(match self.asked {
            Asked::Lower => self.first,
            Asked::Upper => self.first + length - 1,
            Asked::Length => length,
            Asked::Count => count,
        })
    }
}

/// The dimension that is wanted of a list, or its last one, and how many items that has.
fn dimensions(lists: &ArrayRef, row: usize, wanted: Option<i64>) -> Option<(i32, i32)> {
    let (mut lists, mut row, mut dimension) = (lists.clone(), row, 1);
    loop {
        let known = lists.as_list_opt::<i32>().filter(|known| known.is_valid(row))?;
        let length = known.value_length(row);
        if length == 0 {
            return None;
        }
        let items = known.value(row);
        let is_last = items.as_list_opt::<i32>().is_none();
        match wanted {
            None if is_last => return Some((dimension, length)),
            Some(wanted) if wanted == i64::from(dimension) => return Some((dimension, length)),
            _ if is_last => return None,
            _ => (lists, row, dimension) = (items, 0, dimension + 1),
        }
    }
}

impl ScalarUDFImpl for Dimension {
    fn name(&self) -> &str {
        match self.asked {
            Asked::Lower => LOWER,
            Asked::Upper => UPPER,
            Asked::Length => "array_length",
            Asked::Count => "array_ndims",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match (self.asked, arguments) {
            (Asked::Count, [list @ (DataType::List(_) | DataType::Null)]) => Ok(vec![list.clone()]),
            (Asked::Count, _) => plan_err!("{} takes a list", self.name()),
            (_, [list @ (DataType::List(_) | DataType::Null), _]) => Ok(vec![list.clone(), DataType::Int64]),
            _ => plan_err!("{} takes a list and a dimension", self.name()),
        }
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let lists = args.args[0].to_array(args.number_rows)?;
        let wanted = args.args.get(1).map(|wanted| wanted.to_array(args.number_rows)).transpose()?;
        let wanted = wanted.as_ref().map(|wanted| wanted.as_primitive::<Int64Type>());
        let asked = |row: usize| match wanted {
            None => self.of(&lists, row, 1),
            Some(wanted) => wanted.is_valid(row).then(|| self.of(&lists, row, wanted.value(row))).flatten(),
        };
        Ok(ColumnarValue::Array(Arc::new(Int32Array::from_iter((0..lists.len()).map(asked)))))
    }
}

/// An empty list in place of NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OrEmpty {
    signature: Signature,
}

impl ScalarUDFImpl for OrEmpty {
    fn name(&self) -> &str {
        OR_EMPTY
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [DataType::List(_) | DataType::Null] => Ok(arguments.to_vec()),
            _ => plan_err!("{OR_EMPTY} takes a list"),
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match &args.args[0] {
            ColumnarValue::Array(lists) => Ok(ColumnarValue::Array(or_empty(lists))),
            ColumnarValue::Scalar(list) => {
                let lists = or_empty(&list.to_array()?);
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&lists, 0)?))
            }
        }
    }
}

/// Lists without NULLs: those had no items.
fn or_empty(lists: &ArrayRef) -> ArrayRef {
    let Some(known) = lists.as_list_opt::<i32>().filter(|known| known.null_count() > 0) else {
        return lists.clone();
    };
    let DataType::List(field) = known.data_type() else { return lists.clone() };
    let lengths =
        (0..known.len()).map(|row| if known.is_null(row) { 0 } else { known.value_length(row) as usize });
    let items: Vec<ArrayRef> =
        (0..known.len()).filter(|row| known.is_valid(*row)).map(|row| known.value(row)).collect();
    let items: Vec<&dyn Array> = items.iter().map(AsRef::as_ref).collect();
    let values = match datafusion::arrow::compute::concat(&items) {
        Ok(values) => values,
        // There is no list at all.
        Err(_) => datafusion::arrow::array::new_empty_array(field.data_type()),
    };
    Arc::new(ListArray::new(field.clone(), OffsetBuffer::from_lengths(lengths), values, None))
}
