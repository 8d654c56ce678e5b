//! `a = ANY (list)` and its like: a comparison with any or all items of a list.
//!
//! The planner carries it as a call of two arguments (`spelling.rs`, `written.rs`); when types are known, the call becomes one of
//! [`OverItems`]. A list that is a constant, as a parameter is when a query runs, is sorted once into [`SortedItems`], which then
//! answer each row by a search; a short one becomes `IN`, which scans can skip blocks by.

use super::error::external;
use super::value::{scalar, sql_type};
use crate::columns::Cells;
use crate::expression::evaluate::holds;
use crate::expression::types::convert_exactly;
use crate::expression::{Comparison, Quantifier};
use ankerdb_engine::{DataType as SqlType, Value};
use ankerdb_value::compare;
use datafusion::arrow::array::{Array, AsArray, BooleanArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The most items that are written as `IN`.
const IN_LIST_MAX: usize = 256;

/// All comparisons, by the names of their calls, which have a blank so that they are no functions' names.
const NAMES: [(Comparison, Quantifier, &str); 12] = {
    use Comparison::*;
    use Quantifier::*;
    [
        (Equal, Any, "any ="),
        (NotEqual, Any, "any <>"),
        (Less, Any, "any <"),
        (LessOrEqual, Any, "any <="),
        (Greater, Any, "any >"),
        (GreaterOrEqual, Any, "any >="),
        (Equal, All, "all ="),
        (NotEqual, All, "all <>"),
        (Less, All, "all <"),
        (LessOrEqual, All, "all <="),
        (Greater, All, "all >"),
        (GreaterOrEqual, All, "all >="),
    ]
};

/// The name of the call.
pub(super) fn name(comparison: Comparison, quantifier: Quantifier) -> &'static str {
    let is_meant = |entry: &&(Comparison, Quantifier, &str)| (entry.0, entry.1) == (comparison, quantifier);
    NAMES.iter().find(is_meant).map_or("any =", |entry| entry.2)
}

/// What a call of that name compares.
pub(super) fn by_name(name: &str) -> Option<(Comparison, Quantifier, &'static str)> {
    NAMES.iter().find(|entry| entry.2 == name).copied()
}

/// The comparison of an operand, in a type in which it compares with the items.
pub(super) fn call(comparison: Comparison, quantifier: Quantifier, operand: Expr, list: Expr) -> Expr {
    let function =
        OverItems { comparison, quantifier, signature: Signature::user_defined(Volatility::Immutable) };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![operand, list]))
}

/// An operand against the items of the list beside it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OverItems {
    comparison: Comparison,
    quantifier: Quantifier,
    signature: Signature,
}

impl ScalarUDFImpl for OverItems {
    fn name(&self) -> &str {
        name(self.comparison, self.quantifier)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [_, DataType::List(_)] => Ok(arguments.to_vec()),
            _ => plan_err!("{} takes an operand and a list", self.name()),
        }
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn simplify(&self, arguments: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [operand, Expr::Literal(ScalarValue::List(list), _)] = arguments.as_slice() else {
            return Ok(ExprSimplifyResult::Original(arguments));
        };
        if list.is_null(0) {
            return Ok(ExprSimplifyResult::Simplified(Expr::Literal(ScalarValue::Boolean(None), None)));
        }
        let items = SortedItems::of(&list.value(0))?;
        let operand_type = sql_type(&context.get_data_type(operand)?);
        let simplified = match self.in_list(operand, operand_type, &items)? {
            Some(in_list) => in_list,
            None => {
                let function = OverConstants {
                    comparison: self.comparison,
                    quantifier: self.quantifier,
                    items: Arc::new(items),
                    signature: Signature::user_defined(Volatility::Immutable),
                };
                let function = Arc::new(ScalarUDF::new_from_impl(function));
                Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![operand.clone()]))
            }
        };
        Ok(ExprSimplifyResult::Simplified(simplified))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let operands = args.args[0].to_array(args.number_rows)?;
        let operands = Cells::new(&operands).map_err(external)?;
        if let ColumnarValue::Scalar(ScalarValue::List(list)) = &args.args[1]
            && list.is_valid(0)
        {
            let items = SortedItems::of(&list.value(0))?;
            return over_rows(args.number_rows, &operands, |operand| {
                items.test(self.comparison, self.quantifier, operand)
            });
        }
        let lists = args.args[1].to_array(args.number_rows)?;
        let lists = lists.as_list::<i32>();
        let mut results = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            results.push(match lists.is_valid(row) {
                false => None,
                true => {
                    let items = SortedItems::of(&lists.value(row))?;
                    let operand = operands.value(row).to_value();
                    items.test(self.comparison, self.quantifier, &operand).map_err(external)?
                }
            });
        }
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::from(results))))
    }
}

impl OverItems {
    /// The comparison as `IN`; `None` if it is none, or one of too many items or of types whose values do not compare as they lie.
    fn in_list(&self, operand: &Expr, operand_type: SqlType, items: &SortedItems) -> Result<Option<Expr>> {
        let negated = match (self.comparison, self.quantifier) {
            (Comparison::Equal, Quantifier::Any) => false,
            (Comparison::NotEqual, Quantifier::All) => true,
            _ => return Ok(None),
        };
        let is_plain = matches!(
            operand_type,
            SqlType::SmallInt
                | SqlType::Integer
                | SqlType::BigInt
                | SqlType::Text
                | SqlType::Uuid
                | SqlType::Packed(_)
                | SqlType::Date
                | SqlType::Timestamp(_)
                | SqlType::TimestampTz(_)
        );
        if !is_plain || items.has_null || !(1..=IN_LIST_MAX).contains(&items.values.len()) {
            return Ok(None);
        }
        // What is no value of the operand's type equals none.
        let values = items.values.iter().filter_map(|value| convert_exactly(value.clone(), operand_type));
        let values = values.map(|value| {
            let value = scalar(&value, Some(operand_type)).map_err(external)?;
            Ok(Expr::Literal(value, None))
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let is_whole = values.len() == items.values.len();
        Ok(is_whole.then(|| Expr::InList(InList::new(Box::new(operand.clone()), values, negated))))
    }
}

fn over_rows(
    rows: usize,
    operands: &Cells,
    test: impl Fn(&Value) -> ankerdb_engine::Result<Option<bool>>,
) -> Result<ColumnarValue> {
    let results = (0..rows).map(|row| test(&operands.value(row).to_value()));
    let results = results.collect::<ankerdb_engine::Result<Vec<_>>>().map_err(external)?;
    Ok(ColumnarValue::Array(Arc::new(BooleanArray::from(results))))
}

/// An operand against constant items.
#[derive(Debug)]
struct OverConstants {
    comparison: Comparison,
    quantifier: Quantifier,
    items: Arc<SortedItems>,
    signature: Signature,
}

impl PartialEq for OverConstants {
    fn eq(&self, other: &OverConstants) -> bool {
        (self.comparison, self.quantifier) == (other.comparison, other.quantifier)
            && (Arc::ptr_eq(&self.items, &other.items) || self.items == other.items)
    }
}

impl Eq for OverConstants {}

impl Hash for OverConstants {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.comparison, self.quantifier, self.items.values.len()).hash(state);
    }
}

impl ScalarUDFImpl for OverConstants {
    fn name(&self) -> &str {
        name(self.comparison, self.quantifier)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arguments.to_vec())
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let operands = args.args[0].to_array(args.number_rows)?;
        let operands = Cells::new(&operands).map_err(external)?;
        over_rows(args.number_rows, &operands, |operand| {
            self.items.test(self.comparison, self.quantifier, operand)
        })
    }
}

/// The items of a list in order, each once.
#[derive(Debug, PartialEq)]
struct SortedItems {
    values: Vec<Value>,
    has_null: bool,
}

impl SortedItems {
    fn of(items: &Arc<dyn Array>) -> Result<SortedItems> {
        let cells = Cells::new(items).map_err(external)?;
        let mut values: Vec<Value> = (0..items.len()).map(|item| cells.value(item).to_value()).collect();
        values.retain(|value| !value.is_null());
        let has_null = values.len() < items.len();
        let order = |left: &Value, right: &Value| match compare(left, right) {
            Ok(Some(ordering)) => ordering,
            // Items of one type compare.
            _ => Ordering::Equal,
        };
        values.sort_unstable_by(order);
        values.dedup_by(|left, right| order(left, right).is_eq());
        Ok(SortedItems { values, has_null })
    }

    /// Whether the comparison holds with any or all items; `None` for unknown.
    fn test(
        &self,
        comparison: Comparison,
        quantifier: Quantifier,
        operand: &Value,
    ) -> ankerdb_engine::Result<Option<bool>> {
        let decisive = quantifier == Quantifier::Any;
        if self.values.is_empty() && !self.has_null {
            return Ok(Some(!decisive));
        }
        if operand.is_null() {
            return Ok(None);
        }
        if self.is_decided(comparison, decisive, operand)? {
            return Ok(Some(decisive));
        }
        Ok(if self.has_null { None } else { Some(!decisive) })
    }

    /// Whether there is an item for which the comparison is `decisive`: the smallest or the largest one is, or one that is equal.
    fn is_decided(
        &self,
        comparison: Comparison,
        decisive: bool,
        operand: &Value,
    ) -> ankerdb_engine::Result<bool> {
        if (comparison == Comparison::Equal && decisive) || (comparison == Comparison::NotEqual && !decisive)
        {
            return self.contains(operand);
        }
        for item in [self.values.first(), self.values.last()].into_iter().flatten() {
            let Some(ordering) = compare(operand, item)? else { continue };
            if holds(comparison, ordering) == decisive {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn contains(&self, operand: &Value) -> ankerdb_engine::Result<bool> {
        let (mut low, mut high) = (0, self.values.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match compare(operand, &self.values[middle])? {
                Some(Ordering::Equal) => return Ok(true),
                Some(Ordering::Less) => high = middle,
                _ => low = middle + 1,
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int32Array};

    #[test]
    fn sorted_items_answer_as_a_look_at_each_would() {
        let lists: [&[Option<i32>]; 6] =
            [&[], &[None], &[Some(2)], &[Some(3), Some(1)], &[Some(1), None, Some(1)], &[Some(2), Some(2)]];
        for list in lists {
            let array: ArrayRef = Arc::new(Int32Array::from(list.to_vec()));
            let items = SortedItems::of(&array).unwrap();
            let mut plain = ankerdb_engine::ArrayBuilder::new(ankerdb_engine::ListType::Integer);
            for item in list {
                let item = item.map_or(Value::Null, Value::Integer);
                plain.push((&item).into()).unwrap();
            }
            let plain = plain.finish();
            for (comparison, quantifier, name) in NAMES {
                for operand in [Value::Null, Value::Integer(0), Value::Integer(1), Value::Integer(2)] {
                    let interrupt = ankerdb_engine::Interrupt::default();
                    let expected = crate::expression::quantified::over_items(
                        comparison,
                        quantifier,
                        &operand,
                        plain.borrow(),
                        &interrupt,
                    );
                    assert_eq!(
                        items.test(comparison, quantifier, &operand),
                        expected,
                        "{operand:?} {name} {list:?}"
                    );
                }
            }
        }
    }
}
