//! `<`, `<=`, `>` and `>=` of arrays: NULL items are above others, where DataFusion has them below.

use super::error::external;
use crate::columns::Cells;
use crate::expression::Comparison;
use crate::expression::evaluate::holds;
use ankerdb_engine::ValueRef;
use ankerdb_value::compare;
use datafusion::arrow::array::{Array, AsArray, BooleanArray, ListArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::cmp::Ordering;
use std::sync::Arc;

/// The comparison of two lists with items of one type.
pub(super) fn call(comparison: Comparison, left: Expr, right: Expr) -> Expr {
    let function = ListOrder { comparison, signature: Signature::user_defined(Volatility::Immutable) };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![left, right]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListOrder {
    comparison: Comparison,
    signature: Signature,
}

impl ScalarUDFImpl for ListOrder {
    fn name(&self) -> &str {
        self.comparison.symbol()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [DataType::List(_), DataType::List(_)] => Ok(arguments.to_vec()),
            _ => plan_err!("{} takes two lists", self.name()),
        }
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (left, right) =
            (args.args[0].to_array(args.number_rows)?, args.args[1].to_array(args.number_rows)?);
        let (left, right) = (Lists::new(left.as_list())?, Lists::new(right.as_list())?);
        let results = (0..args.number_rows).map(|row| {
            let ordering = left.compare(&right, row)?;
            Ok(ordering.map(|ordering| holds(self.comparison, ordering)))
        });
        let results = results.collect::<ankerdb_engine::Result<Vec<_>>>().map_err(external)?;
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::from(results))))
    }
}

/// Lists with their items as values.
struct Lists<'a> {
    lists: &'a ListArray,
    items: Cells,
}

impl<'a> Lists<'a> {
    fn new(lists: &'a ListArray) -> Result<Lists<'a>> {
        Ok(Lists { lists, items: Cells::new(lists.values()).map_err(external)? })
    }

    fn items(&self, row: usize) -> impl ExactSizeIterator<Item = ValueRef<'_>> {
        let (start, end) =
            (self.lists.value_offsets()[row] as usize, self.lists.value_offsets()[row + 1] as usize);
        (start..end).map(|item| self.items.value(item))
    }

    /// How the lists of a row order; `None` if one is NULL.
    fn compare(&self, other: &Lists<'_>, row: usize) -> ankerdb_engine::Result<Option<Ordering>> {
        if self.lists.is_null(row) || other.lists.is_null(row) {
            return Ok(None);
        }
        let (left, right) = (self.items(row), other.items(row));
        let by_length = left.len().cmp(&right.len());
        for (left, right) in left.zip(right) {
            // NULL above all others.
            let ordering = match compare(&left.to_value(), &right.to_value())? {
                Some(ordering) => ordering,
                None => left.is_null().cmp(&right.is_null()),
            };
            if ordering.is_ne() {
                return Ok(Some(ordering));
            }
        }
        Ok(Some(by_length))
    }
}
