//! Comparisons of arrays, where NULL items are above others, which DataFusion has below; and keys by which arrays are sorted and
//! grouped whose items Arrow would tell apart although they are equal.

use super::error::external;
use super::value::sql_type;
use crate::columns::Cells;
use crate::expression::Comparison;
use crate::expression::evaluate::holds;
use ankerdb_engine::ValueRef;
use ankerdb_value::{compare, push_value};
use datafusion::arrow::array::{Array, AsArray, BooleanArray, ListArray, StringViewBuilder};
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

/// Whether the items of such a list do not compare as they lie: 1.0 equals 1.00, and a month thirty days.
pub(super) fn is_keyed(list: &DataType) -> bool {
    matches!(list, DataType::List(items) if matches!(items.data_type(), DataType::LargeBinary | DataType::Interval(_)))
}

/// The key that orders as the list does, as a text with a character for each byte.
pub(super) fn key(list: Expr) -> Expr {
    let function = ListKey { signature: Signature::user_defined(Volatility::Immutable) };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(function)), vec![list]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListKey {
    signature: Signature,
}

/// Before an item; less is the end.
const ITEM: u8 = 1;
const END: u8 = 0;

impl ScalarUDFImpl for ListKey {
    fn name(&self) -> &str {
        "array key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [DataType::List(_)] => Ok(arguments.to_vec()),
            _ => plan_err!("{} takes a list", self.name()),
        }
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let lists = args.args[0].to_array(args.number_rows)?;
        let lists: &ListArray = lists.as_list();
        let (known, item_type) = (Lists::new(lists)?, sql_type(lists.values().data_type()));
        let mut keys = StringViewBuilder::with_capacity(lists.len());
        let (mut key, mut written) = (Vec::new(), String::new());
        for row in 0..lists.len() {
            if lists.is_null(row) {
                keys.append_null();
                continue;
            }
            key.clear();
            for item in known.items(row) {
                key.push(ITEM);
                push_value(&mut key, &item.to_value(), item_type, true).map_err(external)?;
            }
            key.push(END);
            written.clear();
            written.extend(key.iter().copied().map(char::from));
            keys.append_value(&written);
        }
        Ok(ColumnarValue::Array(Arc::new(keys.finish())))
    }
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
