//! 256-bit intermediate results of decimal arithmetic.
//!
//! Two numbers of 38 digits have a product of 76, and aligning their scales can need as many. Results that fit
//! 128 bits never come here; this is the slow path that decides how many fractional digits survive. It has
//! only the four operations that this takes: product, sum, difference, division by ten.

/// An unsigned 256-bit integer. Field order makes the derived order numeric.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Wide {
    high: u128,
    low: u128,
}

const HALF: u32 = 64;
const HALF_MASK: u128 = u64::MAX as u128;

impl Wide {
    /// The exact product.
    pub(crate) fn product(left: u128, right: u128) -> Wide {
        let (left_high, left_low) = (left >> HALF, left & HALF_MASK);
        let (right_high, right_low) = (right >> HALF, right & HALF_MASK);
        let (middle, middle_carry) = (left_high * right_low).overflowing_add(left_low * right_high);
        let (low, low_carry) = (left_low * right_low).overflowing_add(middle << HALF);
        let high = left_high * right_high
            + (middle >> HALF)
            + (u128::from(middle_carry) << HALF)
            + u128::from(low_carry);
        Wide { high, low }
    }

    /// The sum; the caller's numbers stay far enough below 2^256.
    pub(crate) fn sum(self, other: Wide) -> Wide {
        let (low, carry) = self.low.overflowing_add(other.low);
        Wide { high: self.high + other.high + u128::from(carry), low }
    }

    /// `self - other`, which must not be negative.
    pub(crate) fn difference(self, other: Wide) -> Wide {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        Wide { high: self.high - other.high - u128::from(borrow), low }
    }

    /// The quotient by ten and the digit that is cut off.
    pub(crate) fn divide_by_ten(self) -> (Wide, u8) {
        let mut remainder = 0;
        let mut step = |limb: u128| {
            let part = (remainder << HALF) | limb;
            remainder = part % 10;
            part / 10
        };
        let high_high = step(self.high >> HALF);
        let high_low = step(self.high & HALF_MASK);
        let low_high = step(self.low >> HALF);
        let low_low = step(self.low & HALF_MASK);
        let quotient = Wide { high: (high_high << HALF) | high_low, low: (low_high << HALF) | low_low };
        (quotient, remainder as u8)
    }

    /// The number, if 128 bits hold it.
    pub(crate) fn narrow(self) -> Option<u128> {
        (self.high == 0).then_some(self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest_product_has_all_carries() {
        // (2^128 - 1)^2 = 2^256 - 2^129 + 1
        let square = Wide::product(u128::MAX, u128::MAX);
        assert_eq!(square, Wide { high: u128::MAX - 1, low: 1 });
    }

    proptest! {
        #[test]
        fn product_sum_and_difference_obey_the_distributive_law(a: u128, b in 0..u128::MAX, c: u64) {
            let grown = Wide::product(a, b).sum(Wide::product(a, 1));
            prop_assert_eq!(grown, Wide::product(a, b + 1));
            prop_assert_eq!(grown.difference(Wide::product(a, b)), Wide::product(a, 1));
            prop_assert_eq!(Wide::product(u128::from(c), 7).narrow(), Some(u128::from(c) * 7));
        }

        #[test]
        fn dividing_by_ten_undoes_a_product(a: u128, digit in 0u8..10) {
            let number = Wide::product(a, 10).sum(Wide::product(u128::from(digit), 1));
            prop_assert_eq!(number.divide_by_ten(), (Wide::product(a, 1), digit));
        }
    }
}
