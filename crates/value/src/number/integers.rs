//! Common divisors and multiples.

use super::{Finite, Form, Number};
use ankerdb_base::Result;
use num_bigint::BigUint;

impl Number {
    /// The greatest common divisor, with the larger of both scales; zero of two zeros, NaN where one is not finite. Numbers of many
    /// digits take one step for each two of them: `check` is called at each.
    ///
    /// # Errors
    /// What `check` gives.
    pub fn gcd(&self, other: &Number, check: &mut dyn FnMut() -> Result<()>) -> Result<Number> {
        match (&self.0, &other.0) {
            (Form::Finite(left), Form::Finite(right)) => common(left, right, check)?.held(),
            _ => Ok(Number::NAN),
        }
    }

    /// The least common multiple, with the larger of both scales; zero where one is zero, NaN where one is not finite.
    ///
    /// # Errors
    /// 22003 for too many digits, and what `check` gives.
    pub fn lcm(&self, other: &Number, check: &mut dyn FnMut() -> Result<()>) -> Result<Number> {
        let (Form::Finite(left), Form::Finite(right)) = (&self.0, &other.0) else { return Ok(Number::NAN) };
        let scale = left.scale.max(right.scale);
        if left.is_zero() || right.is_zero() {
            return Ok(Number::finite(0, scale));
        }
        let divisor = common(left, right, check)?;
        let multiple = left.at_scale(scale) / divisor.unscaled * right.at_scale(scale);
        Finite::new(multiple.magnitude().clone(), scale).held()
    }
}

fn common(left: &Finite, right: &Finite, check: &mut dyn FnMut() -> Result<()>) -> Result<Finite> {
    let scale = left.scale.max(right.scale);
    let (mut larger, mut smaller) =
        (left.at_scale(scale).magnitude().clone(), right.at_scale(scale).magnitude().clone());
    while smaller != BigUint::ZERO {
        check()?;
        let rest = &larger % &smaller;
        larger = std::mem::replace(&mut smaller, rest);
    }
    Ok(Finite::new(larger, scale))
}
