//! Sums, averages and spreads of many numbers.

use super::arithmetic::{product, quotient, quotient_scale, total};
use super::power::root;
use super::{Finite, Form, Number};
use ankerdb_base::Result;
use num_bigint::BigInt;

/// Sum, and sum of squares, of numbers that come and go. Exact; NaN and infinities are counted beside it, so that they can leave again.
/// A number costs an addition, and a multiplication more where squares are asked for.
#[derive(Clone, Debug)]
pub struct NumberSum {
    count: u64,
    sum: Finite,
    /// Where spreads are asked for.
    squares: Option<Finite>,
    not_a_number: u64,
    /// Positive and negative infinities.
    infinite: [u64; 2],
    /// Numbers that have the largest scale.
    widest: u64,
}

/// Which spread of a [`NumberSum`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spread {
    /// Of a sample, which divides by one less than the count.
    pub is_sample: bool,
    /// The root of the variance.
    pub is_deviation: bool,
}

impl NumberSum {
    /// Of nothing yet; `with_squares` where a [`Spread`] will be asked for.
    pub fn new(with_squares: bool) -> NumberSum {
        let zero = Finite::new(0, 0);
        NumberSum {
            count: 0,
            squares: with_squares.then(|| zero.clone()),
            sum: zero,
            not_a_number: 0,
            infinite: [0; 2],
            widest: 0,
        }
    }

    /// Of so many numbers of a scale, whose sum and sum of squares are known as signed bytes, the least significant first.
    pub fn of_totals(count: u64, scale: u32, sum: &[u8], squares: &[u8]) -> NumberSum {
        let sum = Finite { unscaled: BigInt::from_signed_bytes_le(sum), scale };
        let squares = Finite { unscaled: BigInt::from_signed_bytes_le(squares), scale: 2 * scale };
        NumberSum { count, sum, squares: Some(squares), widest: count, ..NumberSum::new(false) }
    }

    /// Takes a number in.
    pub fn add(&mut self, number: &Number) {
        self.count += 1;
        match &number.0 {
            Form::NotANumber => self.not_a_number += 1,
            Form::Infinite { is_negative } => self.infinite[usize::from(*is_negative)] += 1,
            Form::Finite(finite) => {
                let widest = if finite.scale > self.sum.scale { 0 } else { self.widest };
                self.widest = widest + u64::from(finite.scale >= self.sum.scale);
                self.sum = total(&self.sum, finite);
                if let Some(squares) = &mut self.squares {
                    *squares = total(squares, &product(finite, finite));
                }
            }
        }
    }

    /// Takes a number out that was taken in. `false` if the scale of the sum is no longer known then, because the last number that had it
    /// left: the sum has to be made anew.
    #[must_use]
    pub fn remove(&mut self, number: &Number) -> bool {
        self.count -= 1;
        match &number.0 {
            Form::NotANumber => self.not_a_number -= 1,
            Form::Infinite { is_negative } => self.infinite[usize::from(*is_negative)] -= 1,
            Form::Finite(finite) => {
                self.widest -= u64::from(finite.scale == self.sum.scale);
                let negative = Finite { unscaled: -&finite.unscaled, scale: finite.scale };
                self.sum = total(&self.sum, &negative);
                if let Some(squares) = &mut self.squares {
                    *squares = total(squares, &product(&negative, finite));
                }
            }
        }
        self.widest > 0 || self.sum.scale == 0 || self.count == 0
    }

    /// Takes in what another one has.
    pub fn merge(&mut self, other: &NumberSum) {
        self.count += other.count;
        self.not_a_number += other.not_a_number;
        for (mine, others) in self.infinite.iter_mut().zip(other.infinite) {
            *mine += others;
        }
        self.widest = match self.sum.scale.cmp(&other.sum.scale) {
            std::cmp::Ordering::Less => other.widest,
            std::cmp::Ordering::Equal => self.widest + other.widest,
            std::cmp::Ordering::Greater => self.widest,
        };
        self.sum = total(&self.sum, &other.sum);
        if let (Some(mine), Some(others)) = (&mut self.squares, &other.squares) {
            *mine = total(mine, others);
        }
    }

    /// How many numbers it has.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What is not finite wins.
    fn special(&self) -> Option<Number> {
        match self.infinite {
            _ if self.not_a_number > 0 => Some(Number::NAN),
            [0, 0] => None,
            [_, 0] => Some(Number::infinity(false)),
            [0, _] => Some(Number::infinity(true)),
            _ => Some(Number::NAN),
        }
    }

    /// The sum; `None` of nothing.
    ///
    /// # Errors
    /// 22003 for too many digits.
    pub fn sum(&self) -> Result<Option<Number>> {
        match self.special() {
            _ if self.count == 0 => Ok(None),
            Some(special) => Ok(Some(special)),
            None => self.sum.clone().held().map(Some),
        }
    }

    /// The average, with a quotient's scale; `None` of nothing.
    ///
    /// # Errors
    /// 22003 for too many digits.
    pub fn average(&self) -> Result<Option<Number>> {
        match self.special() {
            _ if self.count == 0 => Ok(None),
            Some(special) => Ok(Some(special)),
            None => self.sum.clone().held()?.checked_div(&Number::finite(self.count, 0)).map(Some),
        }
    }

    /// A variance or standard deviation; `None` of too few numbers.
    ///
    /// # Errors
    /// 22003 for too many digits.
    ///
    /// # Panics
    /// If the sum was made without squares.
    pub fn spread(&self, spread: Spread) -> Result<Option<Number>> {
        let squares = self.squares.as_ref().expect("spreads are asked for of a sum with squares");
        if self.count <= u64::from(spread.is_sample) {
            return Ok(None);
        }
        if self.special().is_some() {
            return Ok(Some(Number::NAN));
        }
        let count = Finite::new(self.count, 0);
        let square = product(&self.sum, &self.sum);
        let scaled = product(&count, squares);
        let difference = total(&scaled, &Finite { unscaled: -square.unscaled, scale: square.scale });
        if difference.is_zero() || difference.is_negative() {
            return Ok(Some(Number::finite(0, 0)));
        }
        let pairs = Finite::new(self.count * (self.count - u64::from(spread.is_sample)), 0);
        let scale = quotient_scale(&difference, &pairs);
        let variance = quotient(&difference, &pairs, scale);
        let told = if spread.is_deviation { root(&variance, scale) } else { variance };
        told.held().map(Some)
    }

    /// Bytes that it takes, for accounts of memory.
    pub fn size(&self) -> usize {
        let digits = |finite: &Finite| (finite.unscaled.bits() / 8) as usize;
        size_of::<NumberSum>() + digits(&self.sum) + self.squares.as_ref().map_or(0, digits)
    }

    /// The state as bytes, for [`from_bytes`](Self::from_bytes) of the same process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for count in [self.count, self.not_a_number, self.infinite[0], self.infinite[1], self.widest] {
            out.extend_from_slice(&count.to_le_bytes());
        }
        for finite in [Some(&self.sum), self.squares.as_ref()].into_iter().flatten() {
            let digits = finite.unscaled.to_signed_bytes_le();
            out.extend_from_slice(&finite.scale.to_le_bytes());
            out.extend_from_slice(&(digits.len() as u32).to_le_bytes());
            out.extend_from_slice(&digits);
        }
        out
    }

    /// The state that [`to_bytes`](Self::to_bytes) wrote; `None` for other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<NumberSum> {
        let mut rest = bytes;
        let mut counts = [0u64; 5];
        for count in &mut counts {
            *count = u64::from_le_bytes(*take::<8>(&mut rest)?);
        }
        let sum = take_finite(&mut rest)?;
        let squares = if rest.is_empty() { None } else { Some(take_finite(&mut rest)?) };
        let [count, not_a_number, positive, negative, widest] = counts;
        Some(NumberSum { count, sum, squares, not_a_number, infinite: [positive, negative], widest })
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(taken)
}

fn take_finite(rest: &mut &[u8]) -> Option<Finite> {
    let scale = u32::from_le_bytes(*take::<4>(rest)?);
    let length = u32::from_le_bytes(*take::<4>(rest)?) as usize;
    let (digits, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(Finite { unscaled: BigInt::from_signed_bytes_le(digits), scale })
}
