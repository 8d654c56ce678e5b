//! Exact decimal numbers: a 128-bit integer and a scale.

/// The number `unscaled / 10^scale`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decimal {
    /// The digits as an integer, at most 38 of them.
    pub unscaled: i128,
    /// How many of the digits are fractional.
    pub scale: u8,
}

impl Decimal {
    /// `unscaled / 10^scale`.
    pub fn new(unscaled: i128, scale: u8) -> Decimal {
        Decimal { unscaled, scale }
    }
}
