//! [`rust_decimal::Decimal`] as `numeric`: 28 digits of ours' 38.

use super::wrong_type;
use crate::error::{Error, Result};
use crate::{FromValue, ToValue};
use ankerdb_engine::{DataType, Decimal as Numeric, SqlState, ValueRef};
use rust_decimal::Decimal;

impl ToValue for Decimal {
    fn to_value(&self) -> Result<ValueRef<'_>> {
        // Its scale is at most 28, ours at most 38.
        Ok(ValueRef::Numeric(Numeric::new(self.mantissa(), self.scale() as u8)))
    }
}

impl FromValue for Decimal {
    fn from_value(value: ValueRef<'_>) -> Result<Decimal> {
        let number = match value {
            ValueRef::Numeric(number) => number,
            ValueRef::SmallInt(_) | ValueRef::Integer(_) | ValueRef::BigInt(_) | ValueRef::Number(_) => {
                Numeric::from_value(value)?
            }
            other => return Err(wrong_type(other, "Decimal")),
        };
        Decimal::try_from_i128_with_scale(number.unscaled, u32::from(number.scale)).map_err(|source| {
            let state = SqlState::NumericValueOutOfRange;
            Error::new(state, format!("{number} has more digits than a rust_decimal: {source}"))
        })
    }

    fn reads(data_type: DataType) -> bool {
        Numeric::reads(data_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_come_back_digit_by_digit() {
        for written in ["0", "-1.50", "79228162514264337593543950335", "0.0000000000000000000000000001"] {
            let number: Decimal = written.parse().unwrap();
            let value = number.to_value().unwrap();
            let ValueRef::Numeric(numeric) = value else { panic!("{value:?}") };
            assert_eq!(numeric.to_string(), written);
            assert_eq!(Decimal::from_value(value).unwrap().to_string(), written);
        }
    }

    #[test]
    fn digits_that_have_no_place_are_an_error() {
        let large = Numeric::parse("79228162514264337593543950336").unwrap();
        let error = Decimal::from_value(ValueRef::Numeric(large)).unwrap_err();
        assert_eq!(error.sqlstate(), SqlState::NumericValueOutOfRange);
        let small = Numeric::new(1, 29);
        assert!(Decimal::from_value(ValueRef::Numeric(small)).is_err());
        assert_eq!(Decimal::from_value(ValueRef::SmallInt(-3)).unwrap(), Decimal::from(-3));
    }
}
