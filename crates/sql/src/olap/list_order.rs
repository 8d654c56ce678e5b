//! Comparisons of arrays, where NULL items are above others, which DataFusion has below; and keys by which arrays are sorted and
//! grouped whose items Arrow would tell apart although they are equal.

use super::error::external;
use super::value::sql_type;
use crate::columns::Cells;
use crate::expression::Comparison;
use crate::expression::evaluate::holds;
use ankerdb_engine::ValueRef;
use ankerdb_value::{compare, push_value};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, StringViewBuilder};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Accumulator, ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
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
        let mut keys = StringViewBuilder::with_capacity(lists.len());
        let mut written = String::new();
        visit_keys(lists.as_list(), |_, key| {
            keys.append_option(key.map(|key| {
                written.clear();
                written.extend(key.iter().copied().map(char::from));
                written.as_str()
            }));
        })?;
        Ok(ColumnarValue::Array(Arc::new(keys.finish())))
    }
}

/// The key of each list; none of NULL.
fn visit_keys(lists: &ListArray, mut visit: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
    let (known, item_type) = (Lists::new(lists)?, sql_type(lists.values().data_type()));
    let mut key = Vec::new();
    for row in 0..lists.len() {
        if lists.is_null(row) {
            visit(row, None);
            continue;
        }
        key.clear();
        for item in known.items(row) {
            key.push(ITEM);
            push_value(&mut key, &item.to_value(), item_type, true).map_err(external)?;
        }
        key.push(END);
        visit(row, Some(&key));
    }
    Ok(())
}

/// The least or greatest of several lists of one type that are not NULL.
pub(super) fn extreme(wanted: Ordering, lists: Vec<Expr>) -> Expr {
    let function = ExtremeOf { wanted, signature: Signature::user_defined(Volatility::Immutable) };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(function)), lists))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ExtremeOf {
    /// How a list compares that takes the place of one before it.
    wanted: Ordering,
    signature: Signature,
}

impl ScalarUDFImpl for ExtremeOf {
    fn name(&self) -> &str {
        if self.wanted == Ordering::Less { "least" } else { "greatest" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [first @ DataType::List(_), others @ ..] if others.iter().all(|other| other == first) => {
                Ok(arguments.to_vec())
            }
            _ => plan_err!("{} takes lists of one type", self.name()),
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args.args.iter().map(|lists| lists.to_array(args.number_rows));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let lists = arrays.iter().map(|array| Lists::new(array.as_list())).collect::<Result<Vec<_>>>()?;
        let mut found = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            let mut best: Option<usize> = None;
            for (number, candidate) in lists.iter().enumerate().filter(|(_, lists)| lists.lists.is_valid(row))
            {
                let is_better = match best {
                    None => true,
                    Some(best) => {
                        candidate.compare(&lists[best], row).map_err(external)? == Some(self.wanted)
                    }
                };
                if is_better {
                    best = Some(number);
                }
            }
            // Where all are NULL so is the first.
            found.push((best.unwrap_or(0), row));
        }
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(interleave(&arrays, &found)?))
    }
}

/// The least or greatest list that has a key.
#[derive(Debug)]
pub(super) struct ListExtreme {
    /// How a list compares that takes the place of the one before.
    wanted: Ordering,
    data_type: DataType,
    found: Option<(Vec<u8>, ScalarValue)>,
}

impl ListExtreme {
    pub(super) fn new(wanted: Ordering, data_type: &DataType) -> ListExtreme {
        ListExtreme { wanted, data_type: data_type.clone(), found: None }
    }
}

impl Accumulator for ListExtreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let lists: &ListArray = values[0].as_list();
        let mut best: Option<(usize, Vec<u8>)> = None;
        visit_keys(lists, |row, key| {
            let Some(key) = key else { return };
            let before = best.as_ref().map(|(_, key)| key).or(self.found.as_ref().map(|(key, _)| key));
            if before.is_none_or(|before| key.cmp(before) == self.wanted) {
                best = Some((row, key.to_vec()));
            }
        })?;
        if let Some((row, key)) = best {
            self.found = Some((key, ScalarValue::try_from_array(lists, row)?));
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match &self.found {
            Some((_, list)) => Ok(list.clone()),
            None => ScalarValue::try_from(&self.data_type),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.found.as_ref().map_or(0, |(key, list)| key.capacity() + list.size())
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
