//! Functions of lists that queries of the system catalog need and DataFusion does not have.

use super::spelling::OR_EMPTY;
use super::value::told_type;
use ankerdb_engine::{DataType as SqlType, ListType, SystemType};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    cast as cast_to, lit,
};
use std::sync::Arc;

/// The name of the function that gives the position of the last item.
const UPPER: &str = "array_upper";

/// All functions to be registered.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = Signature::user_defined(Volatility::Immutable);
    vec![Arc::new(ScalarUDF::new_from_impl(OrEmpty { signature })), Upper::function(1)]
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
        UPPER if is_vector => return Upper::function(0),
        "array_element" if is_vector => {
            if let [_, position] = arguments {
                let behind = cast_to(position.clone(), DataType::Int64) + lit(1i64);
                *position = behind;
            }
        }
        _ => {}
    }
    function
}

/// The position of a list's last item; NULL without items, and for other dimensions than the first.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Upper {
    /// The position of the first item.
    first: i32,
    signature: Signature,
}

impl Upper {
    fn function(first: i32) -> Arc<ScalarUDF> {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Upper { first, signature }))
    }
}

impl ScalarUDFImpl for Upper {
    fn name(&self) -> &str {
        UPPER
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [list @ (DataType::List(_) | DataType::Null), _] => Ok(vec![list.clone(), DataType::Int64]),
            _ => plan_err!("{UPPER} takes a list and a dimension"),
        }
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let lists = args.args[0].to_array(args.number_rows)?;
        let dimensions = args.args[1].to_array(args.number_rows)?;
        let dimensions = dimensions.as_primitive::<Int64Type>();
        let upper = |row: usize| {
            let known = lists.as_list_opt::<i32>().filter(|known| known.is_valid(row))?;
            let is_first = dimensions.is_valid(row) && dimensions.value(row) == 1;
            let items = known.value_length(row);
            (is_first && items > 0).then_some(self.first + items - 1)
        };
        Ok(ColumnarValue::Array(Arc::new(Int32Array::from_iter((0..lists.len()).map(upper)))))
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
