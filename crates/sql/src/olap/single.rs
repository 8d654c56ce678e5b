//! The value of a subquery that stands for one: that of its only row, NULL if it has none, 21000 if it has more.
//!
//! It is an aggregate, put over the subquery when it is bound ([`super::existence`]). DataFusion by itself would take the type of
//! such a value from the subquery's column, and so believe that it is never NULL where the column is not, and would have no
//! plan for one that depends on the query around it unless it aggregates.

use super::error::external;
use ankerdb_engine::{Error, SqlState};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Expr, Signature, Volatility};
use std::sync::{Arc, LazyLock};

/// Its name, which no client can write.
const NAME: &str = "\0single value";

/// The only value of the expression.
pub(super) fn single(value: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(Single { signature }))
    });
    FUNCTION.call(vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Single {
    signature: Signature,
}

impl AggregateUDFImpl for Single {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    /// What the field tells of its type stays.
    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::new(arguments[0].as_ref().clone().with_name(NAME).with_nullable(true)))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = args.return_field.data_type().clone();
        Ok(vec![
            Arc::new(Field::new(format_state_name(args.name, "value"), value, true)),
            Arc::new(Field::new(format_state_name(args.name, "count"), DataType::Int64, false)),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let value = ScalarValue::try_from(args.return_field.data_type())?;
        Ok(Box::new(SingleAccumulator { value, is_found: false }))
    }
}

#[derive(Debug)]
struct SingleAccumulator {
    value: ScalarValue,
    is_found: bool,
}

impl SingleAccumulator {
    fn note(&mut self, values: &ArrayRef, row: usize) -> Result<()> {
        if std::mem::replace(&mut self.is_found, true) {
            return Err(several());
        }
        self.value = ScalarValue::try_from_array(values, row)?;
        // It may be a part of a batch that is large.
        self.value.compact();
        Ok(())
    }
}

fn several() -> DataFusionError {
    let message = "more than one row returned by a subquery used as an expression";
    external(Error::new(SqlState::CardinalityViolation, message))
}

impl Accumulator for SingleAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values[0].len() {
            0 => Ok(()),
            1 => self.note(&values[0], 0),
            _ => Err(several()),
        }
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::Int64(Some(i64::from(self.is_found)))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let counts = states[1].as_primitive::<Int64Type>();
        (0..counts.len()).filter(|&row| counts.value(row) > 0).try_for_each(|row| self.note(&states[0], row))
    }

    fn size(&self) -> usize {
        size_of_val(self) - size_of_val(&self.value) + self.value.size()
    }
}
