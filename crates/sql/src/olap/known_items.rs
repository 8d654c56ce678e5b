//! Lists without the items that are NULL, for operators that ask which items two lists have in common: a NULL is equal to none, where
//! DataFusion's functions find it in a list that has one.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{filter, is_not_null};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The list without items that are NULL.
pub(super) fn call(list: Expr) -> Expr {
    let signature = Signature::user_defined(Volatility::Immutable);
    let function = ScalarUDF::new_from_impl(KnownItems { signature });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![list]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct KnownItems {
    signature: Signature,
}

/// Lists that have no such items are given back as they are.
fn known(lists: &ArrayRef) -> Result<ArrayRef> {
    let DataType::List(field) = lists.data_type() else { return Ok(lists.clone()) };
    let whole = lists.as_list::<i32>();
    if whole.values().null_count() == 0 {
        return Ok(lists.clone());
    }
    let (first, last) = (whole.value_offsets()[0] as usize, whole.value_offsets()[whole.len()] as usize);
    let items = whole.values().slice(first, last - first);
    let is_known = is_not_null(&items)?;
    let lengths = whole.offsets().windows(2).map(|ends| {
        let (begin, end) = (ends[0] as usize - first, ends[1] as usize - first);
        is_known.values().slice(begin, end - begin).count_set_bits()
    });
    let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
    let kept = filter(&items, &is_known)?;
    Ok(Arc::new(ListArray::try_new(field.clone(), offsets, kept, whole.nulls().cloned())?))
}

impl ScalarUDFImpl for KnownItems {
    fn name(&self) -> &str {
        "known items"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arguments.to_vec())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match &args.args[0] {
            ColumnarValue::Array(lists) => Ok(ColumnarValue::Array(known(lists)?)),
            ColumnarValue::Scalar(list) => {
                let list = known(&list.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&list, 0)?))
            }
        }
    }
}
