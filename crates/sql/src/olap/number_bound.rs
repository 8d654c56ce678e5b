//! Numbers of declared digits beside a constant of any length.
//!
//! A column of `numeric(p, s)` or of integers is compared as it lies, by its 128 bits, with a *bound*: the constant rounded down or up to the column's
//! own fractional digits.
//! ```text
//! x <  c      x <  up(c)          x <= c      x <= down(c)
//! x >= c      x >= up(c)          x >  c      x >  down(c)
//! x =  c      x >= up(c) AND x <= down(c)     which no x is where c has more digits
//! ```
//! What is larger than every column's number, as NaN is, is the first number that has too many digits: 128 bits hold it, too.

use crate::columns::number_text;
use crate::expression::Comparison;
use ankerdb_value::Number;
use datafusion::arrow::array::{ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchemaRef, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    cast,
};
use std::cmp::Ordering;
use std::sync::Arc;

/// The most digits of a column's number.
const PRECISION: u8 = 38;
/// Above every column's number.
const LIMIT: i128 = 10i128.pow(PRECISION as u32);

/// `column comparison constant`, of an integer or a numeric of declared digits and a constant of any length.
pub(super) fn compared(
    comparison: Comparison,
    column: Expr,
    constant: Expr,
    schema: &DFSchemaRef,
) -> Result<Expr> {
    let (column, scale) = match column.get_type(schema.as_ref())? {
        DataType::Decimal128(_, scale) => (column, scale.unsigned_abs()),
        _ => (cast(column, DataType::Decimal128(PRECISION, 0)), 0),
    };
    let bound = |is_up: bool| {
        let signature = Signature::user_defined(Volatility::Immutable);
        let function = ScalarUDF::new_from_impl(Bound { scale, is_up, signature });
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![constant.clone()]))
    };
    let equal = || column.clone().gt_eq(bound(true)).and(column.clone().lt_eq(bound(false)));
    Ok(match comparison {
        Comparison::Equal => equal(),
        Comparison::NotEqual => Expr::Not(Box::new(equal())),
        Comparison::Less => column.lt(bound(true)),
        Comparison::GreaterOrEqual => column.gt_eq(bound(true)),
        Comparison::LessOrEqual => column.lt_eq(bound(false)),
        Comparison::Greater => column.gt(bound(false)),
    })
}

/// The constant with so many fractional digits.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bound {
    scale: u8,
    is_up: bool,
    signature: Signature,
}

impl Bound {
    fn of(&self, text: &str) -> i128 {
        let beyond = if text.starts_with('-') { -LIMIT } else { LIMIT };
        if text.ends_with(['N', 'y']) {
            return beyond;
        }
        let number = Number::read(text);
        let Ok(cut) = number.trunc(i32::from(self.scale)) else { return beyond };
        let Some(kept) = cut.to_decimal().and_then(|cut| cut.rescale(self.scale).ok()) else { return beyond };
        match number.compare(&cut) {
            Ordering::Greater if self.is_up => kept.unscaled + 1,
            Ordering::Less if !self.is_up => kept.unscaled - 1,
            _ => kept.unscaled,
        }
    }
}

impl ScalarUDFImpl for Bound {
    fn name(&self) -> &str {
        if self.is_up { "rounded up" } else { "rounded down" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arguments.to_vec())
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(PRECISION, self.scale as i8))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = matches!(args.args.first(), Some(ColumnarValue::Scalar(_)));
        let [argument] = args.args.as_slice() else {
            return internal_err!("a bound is of one constant");
        };
        let numbers = argument.to_array(if is_constant { 1 } else { args.number_rows })?;
        let numbers = numbers.as_binary::<i64>().iter();
        let bounds: Decimal128Array =
            numbers.map(|bytes| bytes.map(|bytes| self.of(number_text(bytes)))).collect();
        let bounds: ArrayRef = Arc::new(bounds.with_precision_and_scale(PRECISION, self.scale as i8)?);
        match is_constant {
            true => Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&bounds, 0)?)),
            false => Ok(ColumnarValue::Array(bounds)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_on_either_side_of_what_lies_between() {
        let bound = |text, is_up| {
            Bound { scale: 2, is_up, signature: Signature::user_defined(Volatility::Immutable) }.of(text)
        };
        for (text, down, up) in [
            ("1.50", 150, 150),
            ("1.505", 150, 151),
            ("-1.505", -151, -150),
            ("0.001", 0, 1),
            ("-0.001", -1, 0),
            ("7", 700, 700),
            ("NaN", LIMIT, LIMIT),
            ("Infinity", LIMIT, LIMIT),
            ("-Infinity", -LIMIT, -LIMIT),
            ("99999999999999999999999999999999999999.5", LIMIT, LIMIT),
            ("-99999999999999999999999999999999999999", -LIMIT, -LIMIT),
        ] {
            assert_eq!((bound(text, false), bound(text, true)), (down, up), "{text}");
        }
    }
}
