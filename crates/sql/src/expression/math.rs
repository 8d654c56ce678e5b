//! Functions of doubles, with PostgreSQL's errors where the number does not exist.
//!
//! A result that is infinite or zero only because a double cannot hold it is 22003; one that the mathematical function does not
//! have is 22003, 2201E (logarithms) or 2201F (powers and roots). NaN stays NaN.

use ankerdb_engine::{Error, Result, SqlState};

/// A function of one double, or of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Math {
    SquareRoot,
    CubeRoot,
    Exponential,
    NaturalLogarithm,
    DecimalLogarithm,
    Sine,
    Cosine,
    Tangent,
    Cotangent,
    ArcSine,
    ArcCosine,
    ArcTangent,
    HyperbolicSine,
    HyperbolicCosine,
    HyperbolicTangent,
    AreaSine,
    AreaCosine,
    AreaTangent,
    Degrees,
    Radians,
    Power,
    ArcTangentOfQuotient,
}

/// Names, and how many arguments the functions take.
const FUNCTIONS: [(&str, usize, Math); 24] = [
    ("sqrt", 1, Math::SquareRoot),
    ("cbrt", 1, Math::CubeRoot),
    ("exp", 1, Math::Exponential),
    ("ln", 1, Math::NaturalLogarithm),
    ("log", 1, Math::DecimalLogarithm),
    ("log10", 1, Math::DecimalLogarithm),
    ("sin", 1, Math::Sine),
    ("cos", 1, Math::Cosine),
    ("tan", 1, Math::Tangent),
    ("cot", 1, Math::Cotangent),
    ("asin", 1, Math::ArcSine),
    ("acos", 1, Math::ArcCosine),
    ("atan", 1, Math::ArcTangent),
    ("sinh", 1, Math::HyperbolicSine),
    ("cosh", 1, Math::HyperbolicCosine),
    ("tanh", 1, Math::HyperbolicTangent),
    ("asinh", 1, Math::AreaSine),
    ("acosh", 1, Math::AreaCosine),
    ("atanh", 1, Math::AreaTangent),
    ("degrees", 1, Math::Degrees),
    ("radians", 1, Math::Radians),
    ("power", 2, Math::Power),
    ("pow", 2, Math::Power),
    ("atan2", 2, Math::ArcTangentOfQuotient),
];

impl Math {
    /// The function's name.
    pub(crate) fn sql_name(self) -> &'static str {
        let named = FUNCTIONS.iter().find(|(.., function)| *function == self);
        named.map(|(name, ..)| *name).expect("every function is in the list")
    }

    /// The function of this name with so many arguments.
    pub(crate) fn by_name(name: &str, arguments: usize) -> Option<Math> {
        let is_it = |(known, count, _): &&(&str, usize, Math)| *known == name && *count == arguments;
        FUNCTIONS.iter().find(is_it).map(|&(_, _, function)| function)
    }

    /// The names of all functions.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        FUNCTIONS.iter().map(|&(name, _, _)| name)
    }

    /// The name, if there is a function of it.
    pub(crate) fn known_name(name: &str) -> Option<&'static str> {
        FUNCTIONS.iter().map(|(known, _, _)| *known).find(|known| *known == name)
    }

    /// The function of one double.
    ///
    /// # Errors
    /// 22003, 2201E, 2201F; see the module.
    pub(crate) fn of(self, value: f64) -> Result<f64> {
        if value.is_nan() {
            return Ok(value);
        }
        self.check(value)?;
        let result = self.computed(value);
        match self {
            Math::Exponential | Math::Degrees | Math::Radians => {
                held(result, value.is_infinite(), value == 0.0)
            }
            _ => Ok(result),
        }
    }

    fn computed(self, value: f64) -> f64 {
        match self {
            Math::SquareRoot => value.sqrt(),
            Math::CubeRoot => value.cbrt(),
            Math::Exponential => value.exp(),
            Math::NaturalLogarithm => value.ln(),
            Math::DecimalLogarithm => value.log10(),
            Math::Sine => value.sin(),
            Math::Cosine => value.cos(),
            Math::Tangent => value.tan(),
            Math::Cotangent => value.tan().recip(),
            Math::ArcSine => value.asin(),
            Math::ArcCosine => value.acos(),
            Math::ArcTangent => value.atan(),
            Math::HyperbolicSine => value.sinh(),
            Math::HyperbolicCosine => value.cosh(),
            Math::HyperbolicTangent => value.tanh(),
            Math::AreaSine => value.asinh(),
            Math::AreaCosine => value.acosh(),
            Math::AreaTangent => value.atanh(),
            Math::Degrees => value / (std::f64::consts::PI / 180.0),
            Math::Radians => value * (std::f64::consts::PI / 180.0),
            Math::Power | Math::ArcTangentOfQuotient => f64::NAN,
        }
    }

    /// Whether the function is defined there.
    fn check(self, value: f64) -> Result<()> {
        let power = |message| Err(Error::new(SqlState::InvalidArgumentForPowerFunction, message));
        let logarithm = |message| Err(Error::new(SqlState::InvalidArgumentForLogarithm, message));
        match self {
            Math::SquareRoot if value < 0.0 => power("cannot take square root of a negative number"),
            Math::NaturalLogarithm | Math::DecimalLogarithm if value == 0.0 => {
                logarithm("cannot take logarithm of zero")
            }
            Math::NaturalLogarithm | Math::DecimalLogarithm if value < 0.0 => {
                logarithm("cannot take logarithm of a negative number")
            }
            Math::Sine | Math::Cosine | Math::Tangent | Math::Cotangent if value.is_infinite() => {
                out_of_range()
            }
            Math::ArcSine | Math::ArcCosine | Math::AreaTangent if value.abs() > 1.0 => out_of_range(),
            Math::AreaCosine if value < 1.0 => out_of_range(),
            _ => Ok(()),
        }
    }

    /// The function of two doubles.
    ///
    /// # Errors
    /// Those of [`of`](Self::of).
    pub(crate) fn of_two(self, left: f64, right: f64) -> Result<f64> {
        match self {
            Math::Power => power(left, right),
            _ => Ok(left.atan2(right)),
        }
    }
}

fn power(base: f64, exponent: f64) -> Result<f64> {
    let refused = |message| Err(Error::new(SqlState::InvalidArgumentForPowerFunction, message));
    if base.is_nan() || exponent.is_nan() {
        return Ok(base.powf(exponent));
    }
    if base == 0.0 && exponent < 0.0 {
        return refused("zero raised to a negative power is undefined");
    }
    if base < 0.0 && exponent.floor() != exponent {
        return refused("a negative number raised to a non-integer power yields a complex result");
    }
    let is_infinite = base.is_infinite() || exponent.is_infinite();
    held(base.powf(exponent), is_infinite, is_infinite || base == 0.0)
}

/// Refuses an infinity and a zero that the arguments do not explain.
fn held(result: f64, infinity_explained: bool, zero_explained: bool) -> Result<f64> {
    let failure = if result.is_infinite() && !infinity_explained {
        "value out of range: overflow"
    } else if result == 0.0 && !zero_explained && !infinity_explained {
        "value out of range: underflow"
    } else {
        return Ok(result);
    };
    Err(Error::new(SqlState::NumericValueOutOfRange, failure))
}

fn out_of_range() -> Result<()> {
    Err(Error::new(SqlState::NumericValueOutOfRange, "input is out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(result: Result<f64>) -> &'static str {
        result.map_or_else(|error| error.state().code(), |_| "00000")
    }

    #[test]
    fn what_does_not_exist_has_postgresqls_codes() {
        for (function, value, code) in [
            (Math::SquareRoot, -1.0, "2201F"),
            (Math::SquareRoot, -0.0, "00000"),
            (Math::NaturalLogarithm, 0.0, "2201E"),
            (Math::DecimalLogarithm, -1.0, "2201E"),
            (Math::NaturalLogarithm, f64::INFINITY, "00000"),
            (Math::Exponential, 1000.0, "22003"),
            (Math::Exponential, -1000.0, "22003"),
            (Math::Exponential, f64::NEG_INFINITY, "00000"),
            (Math::Sine, f64::INFINITY, "22003"),
            (Math::ArcCosine, 1.5, "22003"),
            (Math::AreaCosine, 0.5, "22003"),
            (Math::Degrees, f64::MAX, "22003"),
            (Math::SquareRoot, f64::NAN, "00000"),
        ] {
            assert_eq!(state(function.of(value)), code, "{function:?} of {value}");
        }
    }

    #[test]
    fn powers_follow_the_rules_of_infinity() {
        let power = |base, exponent| Math::Power.of_two(base, exponent);
        assert_eq!(power(2.0, 10.0), Ok(1024.0));
        assert_eq!(power(f64::NAN, 0.0), Ok(1.0));
        assert_eq!(power(1.0, f64::NAN), Ok(1.0));
        assert_eq!(power(0.5, f64::INFINITY), Ok(0.0));
        assert_eq!([power(0.0, -1.0), power(-8.0, 0.5)].map(state), ["2201F", "2201F"]);
        assert_eq!([power(10.0, 400.0), power(10.0, -400.0)].map(state), ["22003", "22003"]);
    }
}
