//! Casts of lists item by item: of those whose items, before or after, are labels, which Arrow would take for times, and of lists within
//! lists, which it would write in its own way.

use super::arrow::column_type;
use super::error::external;
use super::operation::{Operation, by_value};
use super::value::sql_type;
use crate::expression::{NoSequences, fold};
use ankerdb_engine::{DataType, Error, ListType, SystemType};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, new_null_array};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The list with items of another type.
pub(super) fn call(list: Expr, target: ListType) -> Expr {
    let signature = Signature::user_defined(Volatility::Immutable);
    let cast = ScalarUDF::new_from_impl(ListCast { target, signature });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(cast), vec![list]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListCast {
    target: ListType,
    signature: Signature,
}

impl ListCast {
    fn cast(&self, lists: &ArrayRef) -> Result<ArrayRef> {
        let target = column_type(DataType::System(SystemType::List(self.target)));
        let (Some(known), ArrowType::List(field)) = (lists.as_list_opt::<i32>(), &target) else {
            return Ok(new_null_array(&target, lists.len()));
        };
        if matches!(known.values().data_type(), ArrowType::List(_)) {
            return outer(known, self.cast(known.values())?);
        }
        let (items, rows) = (ColumnarValue::Array(known.values().clone()), known.values().len());
        let item_type = sql_type(field.data_type());
        let item_type = if item_type == DataType::Number { item_type } else { self.target.item_type() };
        let operation = Operation::Cast(item_type);
        let items = by_value(&operation, &[items], rows, item_type, (&fold::interrupt(), &NoSequences))?;
        let cast = ListArray::try_new(
            field.clone(),
            known.offsets().clone(),
            items.to_array(rows)?,
            known.nulls().cloned(),
        );
        Ok(Arc::new(cast.map_err(|error| external(Error::internal(error.to_string())))?))
    }
}

/// Lists with other items at the same places.
fn outer(lists: &ListArray, items: ArrayRef) -> Result<ArrayRef> {
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    let changed = ListArray::try_new(field, lists.offsets().clone(), items, lists.nulls().cloned());
    Ok(Arc::new(changed.map_err(|error| external(Error::internal(error.to_string())))?))
}

/// The type of lists within as many lists as those of a type are.
fn within(list: &ArrowType, target: ArrowType) -> ArrowType {
    match list {
        ArrowType::List(items) if matches!(items.data_type(), ArrowType::List(_)) => {
            ArrowType::List(Arc::new(Field::new_list_field(within(items.data_type(), target), true)))
        }
        _ => target,
    }
}

impl ScalarUDFImpl for ListCast {
    fn name(&self) -> &str {
        "to list"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[ArrowType]) -> Result<Vec<ArrowType>> {
        Ok(arguments.to_vec())
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(within(&arguments[0], column_type(DataType::System(SystemType::List(self.target)))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match &args.args[0] {
            ColumnarValue::Array(lists) => Ok(ColumnarValue::Array(self.cast(lists)?)),
            ColumnarValue::Scalar(list) => {
                let cast = self.cast(&list.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&cast, 0)?))
            }
        }
    }
}
