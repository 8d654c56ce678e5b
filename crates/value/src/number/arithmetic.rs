//! Sums, products, quotients and roundings, with PostgreSQL's scales.

use super::{
    FRACTION_MAX, Finite, Form, Number, WHOLE_MAX, compare_numbers, digit_count, divided, division_by_zero,
    overflow, power_of_ten,
};
use ankerdb_base::Result;
use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;

/// PostgreSQL's least number of significant digits in a quotient (`NUMERIC_MIN_SIG_DIGITS`).
pub(super) const SIGNIFICANT_MIN: i64 = 16;
/// The largest scale that a result gets which is not one of its operands' (`NUMERIC_MAX_DISPLAY_SCALE`).
pub(super) const RESULT_SCALE_MAX: i64 = 1000;

/// The scale of a quotient as PostgreSQL's `select_div_scale` estimates it.
pub(super) fn quotient_scale(dividend: &Finite, divisor: &Finite) -> u32 {
    let (dividend_weight, dividend_digit) = dividend.leading(1).unwrap_or((0, 0));
    let (divisor_weight, divisor_digit) = divisor.leading(1).unwrap_or((0, 0));
    let weight = dividend_weight - divisor_weight - i64::from(dividend_digit <= divisor_digit);
    let scale = (SIGNIFICANT_MIN - weight * 4).max(i64::from(dividend.scale.max(divisor.scale)));
    scale.clamp(0, RESULT_SCALE_MAX) as u32
}

/// The quotient at a scale, rounded half away from zero.
pub(super) fn quotient(dividend: &Finite, divisor: &Finite, scale: u32) -> Finite {
    let shift = i64::from(scale) + i64::from(divisor.scale) - i64::from(dividend.scale);
    let power = BigInt::from(power_of_ten(shift.unsigned_abs() as u32));
    let unscaled = if shift >= 0 {
        divided(&(&dividend.unscaled * power), &divisor.unscaled)
    } else {
        divided(&dividend.unscaled, &(&divisor.unscaled * power))
    };
    Finite { unscaled, scale }
}

pub(super) fn product(left: &Finite, right: &Finite) -> Finite {
    Finite { unscaled: &left.unscaled * &right.unscaled, scale: left.scale + right.scale }
}

pub(super) fn total(left: &Finite, right: &Finite) -> Finite {
    let scale = left.scale.max(right.scale);
    Finite { unscaled: left.at_scale(scale) + right.at_scale(scale), scale }
}

impl Number {
    /// -1, 0 or 1; 1 for NaN, of which nobody asks.
    fn signum(&self) -> i32 {
        match &self.0 {
            Form::NotANumber | Form::Infinite { is_negative: false } => 1,
            Form::Infinite { is_negative: true } => -1,
            Form::Finite(finite) => match finite.unscaled.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
        }
    }

    /// `self + other`, with the larger of both scales.
    ///
    /// # Errors
    /// 22003 for too many digits.
    pub fn checked_add(&self, other: &Number) -> Result<Number> {
        match (&self.0, &other.0) {
            (Form::Finite(left), Form::Finite(right)) => total(left, right).held(),
            (Form::NotANumber, _) | (_, Form::NotANumber) => Ok(Number::NAN),
            (Form::Infinite { is_negative: left }, Form::Infinite { is_negative: right })
                if left != right =>
            {
                Ok(Number::NAN)
            }
            (Form::Infinite { .. }, _) => Ok(self.clone()),
            (_, Form::Infinite { .. }) => Ok(other.clone()),
        }
    }

    /// `self - other`, with the larger of both scales.
    ///
    /// # Errors
    /// 22003 for too many digits.
    pub fn checked_sub(&self, other: &Number) -> Result<Number> {
        self.checked_add(&other.negated())
    }

    /// `self * other`, with the sum of both scales.
    ///
    /// # Errors
    /// 22003 for too many digits.
    pub fn checked_mul(&self, other: &Number) -> Result<Number> {
        match (&self.0, &other.0) {
            (Form::Finite(left), Form::Finite(right)) => product(left, right).held(),
            (Form::NotANumber, _) | (_, Form::NotANumber) => Ok(Number::NAN),
            _ => match self.signum() * other.signum() {
                0 => Ok(Number::NAN),
                sign => Ok(Number::infinity(sign < 0)),
            },
        }
    }

    /// `self / other`, rounded half away from zero, with at least 16 significant digits and the larger of both scales.
    ///
    /// # Errors
    /// 22003 for too many digits, 22012 for a divisor of zero.
    pub fn checked_div(&self, other: &Number) -> Result<Number> {
        match (&self.0, &other.0) {
            (Form::Finite(_), Form::Finite(right)) if right.is_zero() => Err(division_by_zero()),
            (Form::Finite(left), Form::Finite(right)) => {
                quotient(left, right, quotient_scale(left, right)).held()
            }
            _ => self.divided_specially(other),
        }
    }

    /// The quotient without its fraction.
    ///
    /// # Errors
    /// 22003 for too many digits, 22012 for a divisor of zero.
    pub fn div_trunc(&self, other: &Number) -> Result<Number> {
        match (&self.0, &other.0) {
            (Form::Finite(_), Form::Finite(right)) if right.is_zero() => Err(division_by_zero()),
            (Form::Finite(left), Form::Finite(right)) => {
                let scale = left.scale.max(right.scale);
                Finite { unscaled: left.at_scale(scale) / right.at_scale(scale), scale: 0 }.held()
            }
            _ => self.divided_specially(other),
        }
    }

    /// A quotient of which one side is not finite.
    fn divided_specially(&self, other: &Number) -> Result<Number> {
        match (&self.0, &other.0) {
            (Form::NotANumber, _) | (_, Form::NotANumber) => Ok(Number::NAN),
            (Form::Finite(_), _) => Ok(Number::finite(0, 0)),
            (_, Form::Finite(right)) if right.is_zero() => Err(division_by_zero()),
            (Form::Infinite { is_negative }, Form::Finite(right)) => {
                Ok(Number::infinity(*is_negative != right.is_negative()))
            }
            _ => Ok(Number::NAN),
        }
    }

    /// The remainder of the division without fraction, with the sign of `self` and the larger of both scales.
    ///
    /// # Errors
    /// 22012 for a divisor of zero.
    pub fn checked_rem(&self, other: &Number) -> Result<Number> {
        match (&self.0, &other.0) {
            (Form::NotANumber, _) | (_, Form::NotANumber) => Ok(Number::NAN),
            (_, Form::Finite(right)) if right.is_zero() => Err(division_by_zero()),
            (Form::Infinite { .. }, _) => Ok(Number::NAN),
            (_, Form::Infinite { .. }) => Ok(self.clone()),
            (Form::Finite(left), Form::Finite(right)) => {
                let scale = left.scale.max(right.scale);
                Finite { unscaled: left.at_scale(scale) % right.at_scale(scale), scale }.held()
            }
        }
    }

    /// `-self`.
    pub fn negated(&self) -> Number {
        Number(match &self.0 {
            Form::NotANumber => Form::NotANumber,
            Form::Infinite { is_negative } => Form::Infinite { is_negative: !is_negative },
            Form::Finite(finite) => Form::Finite(Finite { unscaled: -&finite.unscaled, scale: finite.scale }),
        })
    }

    /// Without its sign.
    pub fn abs(&self) -> Number {
        if self.signum() < 0 { self.negated() } else { self.clone() }
    }

    /// -1, 0 or 1; NaN of NaN.
    pub fn sign(&self) -> Number {
        if self.is_nan() { Number::NAN } else { Number::finite(self.signum(), 0) }
    }

    /// The finite number that a function makes of a finite one; the others stay what they are.
    fn mapped(&self, map: impl FnOnce(&Finite) -> Finite) -> Result<Number> {
        match &self.0 {
            Form::Finite(finite) => map(finite).held(),
            _ => Ok(self.clone()),
        }
    }

    /// Rounded half away from zero to so many fractional digits, or to tens where that is negative.
    ///
    /// # Errors
    /// 22003 for too many digits.
    pub fn round(&self, digits: i32) -> Result<Number> {
        self.cut_at(digits, divided)
    }

    /// Cut to so many fractional digits, or to tens where that is negative.
    ///
    /// # Errors
    /// 22003 for too many digits.
    pub fn trunc(&self, digits: i32) -> Result<Number> {
        self.cut_at(digits, |dividend, divisor| dividend / divisor)
    }

    fn cut_at(&self, digits: i32, divide: impl FnOnce(&BigInt, &BigInt) -> BigInt) -> Result<Number> {
        // Whatever is cut off before the first digit that a number may have, nothing is left.
        let digits = digits.clamp(-(WHOLE_MAX as i32) - 1, FRACTION_MAX as i32);
        self.mapped(|finite| {
            let scale = digits.max(0) as u32;
            if digits >= 0 && scale >= finite.scale {
                return finite.rescaled(scale);
            }
            let cut = power_of_ten((i64::from(finite.scale) - i64::from(digits)) as u32).into();
            let tens = BigInt::from(power_of_ten((-digits).max(0) as u32));
            Finite { unscaled: divide(&finite.unscaled, &cut) * tens, scale }
        })
    }

    /// The least integer that is not smaller.
    ///
    /// # Errors
    /// 22003 for too many digits.
    pub fn ceil(&self) -> Result<Number> {
        self.mapped(|finite| {
            let (whole, is_cut) = finite.whole();
            Finite { unscaled: whole + i32::from(is_cut && !finite.is_negative()), scale: 0 }
        })
    }

    /// The largest integer that is not larger.
    ///
    /// # Errors
    /// 22003 for too many digits.
    pub fn floor(&self) -> Result<Number> {
        self.mapped(|finite| {
            let (whole, is_cut) = finite.whole();
            Finite { unscaled: whole - i32::from(is_cut && finite.is_negative()), scale: 0 }
        })
    }

    /// How many fractional digits it has; `None` where it is not finite.
    pub fn scale(&self) -> Option<i32> {
        match &self.0 {
            Form::Finite(finite) => Some(finite.scale as i32),
            _ => None,
        }
    }

    /// The least scale that holds it; `None` where it is not finite.
    pub fn min_scale(&self) -> Option<i32> {
        self.trim_scale().scale()
    }

    /// Without fractional zeros at its end.
    pub fn trim_scale(&self) -> Number {
        match &self.0 {
            Form::Finite(finite) => Number(Form::Finite(finite.trimmed())),
            _ => self.clone(),
        }
    }

    /// PostgreSQL's order: NaN is the greatest and equal to itself, scales do not matter.
    pub fn compare(&self, other: &Number) -> Ordering {
        match (&self.0, &other.0) {
            (Form::Finite(left), Form::Finite(right)) => {
                let scale = left.scale.max(right.scale);
                left.at_scale(scale).cmp(&right.at_scale(scale))
            }
            _ => compare_numbers(&self.short(), &other.short()),
        }
    }

    /// Text that has this number's place beside numbers of other kinds.
    fn short(&self) -> String {
        match &self.0 {
            Form::Finite(_) => self.signum().to_string(),
            _ => self.to_string(),
        }
    }

    /// How many digits the number has before its point; a measure of what work with it costs.
    pub fn whole_digits(&self) -> u32 {
        match &self.0 {
            Form::Finite(finite) => digit_count(finite.unscaled.magnitude()).saturating_sub(finite.scale),
            _ => 0,
        }
    }

    /// `n!`.
    ///
    /// # Errors
    /// 22003 for a negative number, or too many digits.
    pub fn factorial(n: i64) -> Result<Number> {
        /// The factorial of the next integer has more digits than a number may have.
        const LAST: i64 = 32_177;
        if n < 0 {
            return Err(ankerdb_base::Error::new(
                ankerdb_base::SqlState::NumericValueOutOfRange,
                "factorial of a negative number is undefined",
            ));
        }
        if n > LAST {
            return Err(overflow());
        }
        Number::finite((2..=n).fold(BigInt::from(1), |product, factor| product * factor), 0)
            .mapped(Finite::clone)
    }
}
